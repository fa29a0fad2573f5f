"""The classifier's checkpoint as ONNX: float in the scratch folder for comparison, int8 for the package.

Beside the whole network stands its end by itself, from the pooled states on: what is pooled of a sentence can then be
kept, and a text of which one sentence changed is not read again as a whole.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from corpus import WEIGHTS, scratch
from graph import Graph
from onnx import TensorProto
from sentiment import DILATIONS, HEADS


def export(state: dict[str, torch.Tensor], path: Path, small: bool) -> None:
    w = {k: v.detach().numpy() for k, v in state.items()}
    width = w["embedding.weight"].shape[1]
    g = Graph(small)
    x = g.add("Gather", g.weight(w["embedding.weight"]), "ids")  # (n, T, width)
    real = g.add("Cast", g.add("Greater", "ids", g.integers(0)), to=TensorProto.FLOAT)
    real = g.add("Unsqueeze", real, g.integers(2))
    for i, step in enumerate(DILATIONS):
        x = g.add("Mul", g.add("Add", x, gated(g, x, w, i, step, width)), real)
    away = g.add("Mul", g.add("Sub", real, g.constant(np.float32([1]))), g.constant(np.float32([1e4])))
    score = linear(g, x, w, "score")
    weight = g.add("Softmax", g.add("Add", score, away), axis=1)  # (n, T, heads)
    # Heads side by side: the mean of the states under each head, then the head's own part of the values.
    means = g.add("MatMul", g.add("Transpose", weight, perm=[0, 2, 1]), x)  # (n, heads, width)
    most = g.add("ReduceMax", g.add("Add", x, away), axes=[1], keepdims=0)
    conclude(g, w, means, most)
    g.add("Concat", x, score, axis=2, name="states")  # what is pooled, and the logarithms of its weights
    outputs = {"probability": ["n"], "states": ["n", "length", width + HEADS]}
    g.save(path, {"ids": ("int64", ["n", "length"])}, outputs)


def export_head(state: dict[str, torch.Tensor], path: Path, small: bool) -> None:
    """What the network does with its pooled states."""
    w = {k: v.detach().numpy() for k, v in state.items()}
    width = w["embedding.weight"].shape[1]
    g = Graph(small)
    conclude(g, w, "means", "most")
    inputs = {"means": ("float", ["n", HEADS, width]), "most": ("float", ["n", width])}
    g.save(path, inputs, {"probability": ["n"]})


def conclude(g: Graph, w: dict[str, np.ndarray], means: str, most: str) -> None:
    width = w["embedding.weight"].shape[1]
    mean = linear(g, means, w, "value")  # (n, heads, width); head h owns a block of the last axis
    own = np.kron(np.eye(HEADS), np.ones(width // HEADS)).astype(np.float32)
    mean = g.add("ReduceSum", g.add("Mul", mean, g.constant(own)), g.integers(1), keepdims=0)
    joined = g.add("Relu", linear(g, g.add("Concat", mean, most, axis=1), w, "join"))
    g.add("Sigmoid", g.add("Squeeze", linear(g, joined, w, "out"), g.integers(1)), name="probability")


def gated(g: Graph, x: str, w: dict[str, np.ndarray], i: int, step: int, width: int) -> str:
    """A convolution over three positions `step` apart as one product, half of it the gate of the other half."""
    padded = g.add("Pad", x, g.integers(0, step, 0, 0, step, 0))
    before = g.add("Slice", padded, g.integers(0), g.integers(-2 * step), g.integers(1))
    after = g.add("Slice", padded, g.integers(2 * step), g.integers(1 << 40), g.integers(1))
    both = linear(g, g.add("Concat", before, x, after, axis=2), w, f"layers.{i}")
    half = g.add("Split", both, g.integers(width, width), axis=2, outputs=2)
    return g.add("Mul", half, g.add("Sigmoid", f"{half}_1"))


def linear(g: Graph, x: str, w: dict[str, np.ndarray], name: str) -> str:
    turned = g.add("Transpose", g.weight(w[f"{name}.weight"]), perm=transposed(w[f"{name}.weight"]))
    return g.add("Add", g.add("MatMul", x, turned), g.constant(w[f"{name}.bias"]))


def transposed(value: np.ndarray) -> list[int]:
    return list(range(value.ndim))[::-1]


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("--name", default="sentiment")
    state = torch.load(scratch() / f"{ask.parse_args().name}.pt")
    export(state, scratch() / "sentiment-float.onnx", small=False)
    export(state, WEIGHTS / "sentiment.onnx", small=True)
    export_head(state, WEIGHTS / "sentiment_head.onnx", small=True)


if __name__ == "__main__":
    main()
