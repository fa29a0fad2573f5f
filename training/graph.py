"""Write an ONNX graph node by node, its large weights kept as int8 with one scale a row.

The weights become float when a session starts (a cast and a product, which onnxruntime folds), so the file is a quarter
of the size, the arithmetic is that of float on every processor, and nothing is lost but the rounding of the weights.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TYPES = {"int64": TensorProto.INT64, "int32": TensorProto.INT32, "float": TensorProto.FLOAT}


class Graph:
    def __init__(self, small: bool) -> None:
        self.small, self.nodes, self.constants, self.count = small, [], [], 0

    def add(self, kind: str, *inputs: str, name: str = "", outputs: int = 1, **attributes: object) -> str:
        self.count += 1
        out = name or f"{kind.lower()}_{self.count}"
        names = [out] + [f"{out}_{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return out

    def constant(self, value: np.ndarray) -> str:
        self.count += 1
        name = f"constant_{self.count}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weight(self, value: np.ndarray) -> str:
        """A matrix, rows along its last but one axis; int8 and a scale a row, or as it is."""
        if not self.small:
            return self.constant(value.astype(np.float32))
        scale = np.maximum(np.abs(value).max(-1, keepdims=True), 1e-8) / 127
        stored = self.constant(np.round(value / scale).astype(np.int8))
        return self.add("Mul", self.add("Cast", stored, to=TensorProto.FLOAT), self.constant(scale.astype(np.float32)))

    def save(self, path: Path, inputs: dict[str, tuple[str, list]], outputs: dict[str, list]) -> None:
        made = helper.make_graph(
            self.nodes,
            path.stem,
            [helper.make_tensor_value_info(k, TYPES[t], shape) for k, (t, shape) in inputs.items()],
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, shape) for k, shape in outputs.items()],
            self.constants,
        )
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], producer_name="butfor")
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, path)
