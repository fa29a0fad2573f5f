"""The Open Inference Protocol V2 in JSON: a batch -> the body of a request; the body of an answer -> numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from butfor.core.types import Array, Batch, ModelError
from butfor.models.optional import one_line
from butfor.models.rows import as_type, is_frame, matrix

if TYPE_CHECKING:
    import pandas as pd

DATATYPES: dict[str, Any] = {
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BOOL": np.bool_,
    **{f"INT{bits}": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": np.dtype(f"uint{bits}").type for bits in (8, 16, 32, 64)},
}
NAMES = {np.dtype(kind).name: name for name, kind in DATATYPES.items()}
Inputs = Literal["matrix", "columns"]
MOST_ROWS = 1_000_000  # of one request, that a server may declare it wants


@dataclass(frozen=True)
class Tensor:
    """An input or output that the server declares."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Contract:
    """What the server declares of a model (perhaps nothing), and which output is asked for (None: it chooses)."""

    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    output: str | None = None

    @property
    def fixed_rows(self) -> int | None:
        """The number of rows that every request must have, if the model was built for one."""
        shape = self.inputs[0].shape if self.inputs else ()
        return shape[0] if len(shape) > 1 and shape[0] > 0 else None


def contract(metadata: Mapping[str, Any]) -> Contract:
    """The metadata of a model as a contract.

    >>> contract({"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}).inputs[0].datatype
    'FP32'
    """
    inputs, outputs = (tuple(_declared(one) for one in metadata.get(key) or ()) for key in ("inputs", "outputs"))
    return Contract(inputs, outputs)


def _declared(one: Mapping[str, Any]) -> Tensor:
    name, datatype, shape = one["name"], one["datatype"], tuple(one["shape"])
    if not isinstance(name, str) or not isinstance(datatype, str) or not all(type(size) is int for size in shape):
        raise TypeError("a tensor that is declared has a name, a datatype and a shape of whole numbers")
    if shape and shape[0] > MOST_ROWS:
        raise ValueError(f"{shape[0]} rows in one request")
    return Tensor(name, datatype, shape)


def request(batch: Batch, agreed: Contract, inputs: Inputs | None, name: str) -> bytes:
    """The body of a request; `inputs` None sends frames as columns and the rest as one tensor, unless declared."""
    body: dict[str, Any] = {"id": name}
    columns = is_frame(batch) if inputs is None and not agreed.inputs else inputs == "columns"
    if columns or len(agreed.inputs) > 1:
        body["inputs"] = _columns(batch, agreed.inputs)
        if not agreed.inputs:
            body["parameters"] = {"content_type": "pd"}  # MLServer: the model gets a frame
    else:
        body["inputs"] = [_whole(batch, agreed.inputs[0] if agreed.inputs else None)]
    if agreed.output is not None:
        body["outputs"] = [{"name": agreed.output}]
    return json.dumps(body, allow_nan=False).encode()


def _columns(batch: Batch, declared: tuple[Tensor, ...]) -> list[dict[str, Any]]:
    if not is_frame(batch):
        raise ModelError(f"the endpoint takes columns by name, got {type(batch).__name__}; give a DataFrame")
    if not declared:
        return [_column(str(name), batch[name], None) for name in batch.columns]
    missing = [one.name for one in declared if one.name not in batch.columns]
    if missing:
        raise ModelError(f"the endpoint needs the columns {missing[:8]}; the frame has {list(batch.columns[:8])}")
    return [_column(one.name, batch[one.name], one) for one in declared]


def _column(name: str, column: pd.Series[Any], declared: Tensor | None) -> dict[str, Any]:
    values = np.asarray(column)
    if column.dtype.kind in "iuf" and values.dtype.kind == "O":  # pandas' own integers, some missing
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    shape = _shape_of_one(len(values), declared)
    if values.dtype.kind in "iufb" and (declared is None or declared.datatype != "BYTES"):
        return _numbers(name, values, declared) | {"shape": shape}
    strings = [None if gone else str(value) for value, gone in zip(values, column.isna(), strict=True)]
    kind = {"parameters": {"content_type": "datetime"}} if values.dtype.kind == "M" else {}
    return _tensor(name, "BYTES", shape, strings) | kind


def _shape_of_one(rows: int, declared: Tensor | None) -> list[int]:
    return [rows, 1] if declared is None or len(declared.shape) > 1 else [rows]


def _whole(batch: Batch, declared: Tensor | None) -> dict[str, Any]:
    """The batch as one tensor: a matrix, images of one size, or texts."""
    name = "predict" if declared is None else declared.name  # MLServer's models take any name
    if isinstance(batch, list) and all(isinstance(text, str) for text in batch):
        texts = _tensor(name, "BYTES", _shape_of_one(len(batch), declared), list(batch))
        return texts | {"parameters": {"content_type": "str"}}
    if isinstance(batch, list) and len({np.shape(image) for image in batch}) > 1:
        raise ModelError("the endpoint takes images of one size only; resize them first")
    return _numbers(name, matrix(batch, "the endpoint"), declared)


def _numbers(name: str, values: Array, declared: Tensor | None) -> dict[str, Any]:
    if declared is not None and declared.datatype in DATATYPES:
        values = as_type(values, DATATYPES[declared.datatype], name)
    flat = values.ravel()
    data = flat.tolist()
    if flat.dtype.kind == "f" and not np.isfinite(flat).all():
        if np.isinf(flat).any():
            raise ModelError(f"an infinite value in {name!r} cannot be sent to an endpoint; make it finite or missing")
        data = [value if value == value else None for value in data]  # JSON has no NaN
    if values.dtype.name not in NAMES:
        raise ModelError(f"the endpoint takes numbers, got {values.dtype}")
    return _tensor(name, NAMES[values.dtype.name], list(values.shape), data)


def _tensor(name: str, datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def answer(body: object, agreed: Contract, rows: int, name: str) -> Array:
    """The numbers in an answer, (rows,) or (rows, outputs), after checking that they answer this very request."""
    if not isinstance(body, dict) or not isinstance(body.get("outputs"), list) or not body["outputs"]:
        raise ModelError(f"the endpoint's answer has no outputs: {str(body)[:200]}")
    if body.get("id") not in (None, "", name):
        raise ModelError(
            f"the endpoint answered request {body['id']!r:.60} where {name!r} was asked: a proxy mixes them up"
        )
    found = _one_of(body["outputs"], agreed.output)
    if found.get("datatype") == "BYTES":
        raise ModelError(
            f"output {found.get('name')!r:.60} of the endpoint is text, expected numbers; name another with output="
        )
    try:
        values = _values(found, rows)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ModelError(f"the endpoint's answer is no tensor: {one_line(error)[:200]}") from error
    outputs = values.reshape(rows, -1)
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def _values(found: dict[str, Any], rows: int) -> Array:
    """The numbers of a tensor, as many as its shape says."""
    shape = tuple(found["shape"])
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ModelError(f"the endpoint returned a tensor of shape {str(shape)[:60]}")
    if not shape or shape[0] != rows:
        raise ModelError(f"the endpoint returned {shape[0] if shape else 'no'} rows for {rows}; expected one for each")
    values = np.array(found["data"], dtype=DATATYPES.get(str(found.get("datatype")), np.float64))
    if values.size != math.prod(shape) or not values.size:
        raise ModelError(f"the endpoint returned {values.size} numbers in a tensor of shape {list(shape)}")
    return values


def _one_of(outputs: list[Any], wanted: str | None) -> dict[str, Any]:
    if not all(isinstance(one, dict) for one in outputs):
        raise ModelError("the endpoint's answer lists outputs that are no tensors")
    named = [one for one in outputs if one.get("name") == wanted]
    if named or len(outputs) == 1:
        found: dict[str, Any] = (named or outputs)[0]
        return found
    names = ", ".join(str(one.get("name")) for one in outputs)
    raise ModelError(f"the endpoint returned the outputs {names}; say which with output=")
