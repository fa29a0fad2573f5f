"""The infiller's checkpoint as ONNX: float in the scratch folder for comparison, int8 for the package."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from corpus import WEIGHTS, scratch
from graph import Graph
from infiller import EDGE, MASK, PAD, REACH, UNK

NEVER = -1e4  # log-odds of pieces that are no fill


def export(state: dict[str, torch.Tensor], path: Path, small: bool) -> None:
    w = {k: v.detach().numpy() for k, v in state.items()}
    units = w["left.weight_hh_l0"].shape[1]
    table = w["embedding.weight"].copy()
    table[PAD] = 0  # what lies beyond a row reads as nothing, as at the ends of a training row
    bias = w["bias"].copy()
    bias[[PAD, UNK, MASK, EDGE]] = NEVER
    g = Graph(small)
    embedding = g.weight(table)
    x = g.add("Gather", embedding, g.add("Transpose", "ids", perm=[1, 0]))  # (T, n, width)
    y = g.add(
        "LSTM", x, *lstm_weights(g, w), "lengths", hidden_size=units, direction="bidirectional"
    )  # (T, 2, n, units)
    y = g.add("Pad", y, g.integers(1, 0, 0, 0, 1, 0, 0, 0))
    x = g.add("Pad", x, g.integers(REACH, 0, 0, REACH, 0, 0))
    row = g.add("Unsqueeze", "row", g.integers(1))
    position = g.add("Unsqueeze", "position", g.integers(1))
    zero = g.add("Mul", row, g.integers(0))
    later = g.add("Add", position, g.integers(2))
    parts = [
        g.add("GatherND", y, g.add("Concat", position, zero, row, axis=1)),
        g.add("GatherND", y, g.add("Concat", later, g.add("Add", zero, g.integers(1)), row, axis=1)),
    ]
    for step in range(1, REACH + 1):
        for by in (step, -step):
            where = g.add("Add", position, g.integers(REACH - by))
            parts.append(g.add("GatherND", x, g.add("Concat", where, row, axis=1)))
    joined = g.add("Concat", *parts, axis=1)
    mixed = linear(g, joined, w["mix.weight"], w["mix.bias"])
    mixed = g.add("Mul", mixed, g.add("Sigmoid", mixed))
    context = linear(g, mixed, w["back.weight"], w["back.bias"])
    g.add("Gemm", context, embedding, g.constant(bias), transB=1, name="logits")
    inputs = {
        "ids": ("int64", ["n", "length"]),
        "lengths": ("int32", ["n"]),
        "row": ("int64", ["m"]),
        "position": ("int64", ["m"]),
    }
    g.save(path, inputs, {"logits": ["m", len(table)]})


def lstm_weights(g: Graph, w: dict[str, np.ndarray]) -> list[str]:
    """Both directions in the order of ONNX: gates i, o, f, c, where torch has i, f, c, o."""

    def gates(value: np.ndarray) -> np.ndarray:
        i, f, c, o = np.split(value, 4)
        return np.concatenate([i, o, f, c])

    def both(name: str) -> np.ndarray:
        return np.stack([gates(w[f"{side}.{name}_l0"]) for side in ("left", "right")])

    biases = np.concatenate([both("bias_ih"), both("bias_hh")], 1)
    return [g.weight(both("weight_ih")), g.weight(both("weight_hh")), g.constant(biases)]


def linear(g: Graph, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
    return g.add("Gemm", x, g.weight(weight), g.constant(bias), transB=1)


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("--name", default="infiller")
    stored = torch.load(scratch() / f"{ask.parse_args().name}.pt")
    export(stored["state"], scratch() / "infiller-float.onnx", small=False)
    export(stored["state"], WEIGHTS / "infiller.onnx", small=True)


if __name__ == "__main__":
    main()
