"""How the beds redraw: (inputs, subset, draws, rng) -> new values (len(inputs) * draws, columns), input-major."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from butfor.types import Array, Floats, Subset

Law = Callable[[tuple[int, ...], np.random.Generator], Floats]  # independent values of any shape


def independent(inputs: Array, subset: Subset, draws: int, rng: np.random.Generator, law: Law) -> Floats:
    """Values of `law`, whatever the rest of the row is."""
    return law((len(inputs), draws, len(subset.index)), rng).reshape(-1, len(subset.index))


def normal(inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
    """Independent N(0, 1), whatever the rest of the row is."""
    return rng.standard_normal((len(inputs) * draws, len(subset.index)))


def regression(inputs: Array, subset: Subset, draws: int, rng: np.random.Generator, beta: Floats) -> Floats:
    """The paper's correlated Q: x_i ~ N(sum_{j<i} beta_j x_j, 1), from the values that the row really has.

    In a group of columns the later ones follow the new values of the earlier ones.
    """
    columns = np.asarray(subset.index)
    fresh = rng.standard_normal((len(inputs), draws, len(columns)))
    for position in np.argsort(columns):
        column = columns[position]
        # Multiply and sum, not a matrix product: a row's bits then do not depend on the rows beside it.
        mean = (inputs[:, :column] * beta[:column]).sum(axis=1)[:, None]
        fresh[:, :, position] += mean
        if len(columns) > 1:
            earlier = columns < column
            changed = fresh[:, :, earlier] - inputs[:, None, columns[earlier]]
            fresh[:, :, position] += (changed * beta[columns[earlier]]).sum(axis=2)
    return fresh.reshape(-1, len(columns))


def signs(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """-1 or 1."""
    return np.asarray(rng.integers(0, 2, size=shape) * 2.0 - 1.0, np.float64)


def humps(shape: tuple[int, ...], rng: np.random.Generator, jitter: float) -> Floats:
    """The mixture of N(-1, jitter^2) and N(1, jitter^2): the sign of one normal and a little of another."""
    raw = rng.standard_normal((*shape, 2))  # both from one array: appending inputs leaves the draws of the others
    return np.asarray(np.copysign(1.0, raw[..., 0]) + jitter * raw[..., 1])
