"""The models of the beds: plain functions of a table of rows, (n, d) -> (n,)."""

from __future__ import annotations

import numpy as np

from butfor.types import Batch, Floats


def paired_threshold(rows: Batch, weights: Floats, threshold: float) -> Floats:
    """sum_i w_i 1[|x_i| >= t and |x_{i+p}| >= t], the paper's discontinuous model.

    >>> paired_threshold(np.array([[3.0, 4.0, -3.0, 0.0]]), np.array([2.0, 5.0]), 3.0)
    array([2.])
    """
    large = np.abs(rows) >= threshold
    pairs = len(weights)
    return np.asarray((large[:, :pairs] & large[:, pairs:]) @ weights)


def sum_of_abs(rows: Batch) -> Floats:
    """sum_j |x_j|: what the paper's network is trained to say.

    >>> sum_of_abs(np.array([[1.0, -2.0]]))
    array([3.])
    """
    return np.asarray(np.abs(rows).sum(axis=1))


def linear(rows: Batch, weights: Floats) -> Floats:
    """sum_j w_j x_j; a weight of zero is a feature that the model does not use.

    >>> linear(np.array([[1.0, 2.0]]), np.array([3.0, 0.0]))
    array([3.])
    """
    return np.asarray((rows * weights).sum(axis=1))


def weighted_abs(rows: Batch, weights: Floats) -> Floats:
    """sum_k w_k |x_k| over the first columns; those beyond the weights are not used.

    >>> weighted_abs(np.array([[1.0, -2.0, 7.0]]), np.array([3.0, 1.0]))
    array([5.])
    """
    return np.asarray((np.abs(rows[:, : len(weights)]) * weights).sum(axis=1))


def products(rows: Batch, pairs: int) -> Floats:
    """sum_i |x_{2i} x_{2i+1}| over the first pairs of columns: interactions without main effects.

    >>> products(np.array([[2.0, -3.0, 7.0]]), pairs=1)
    array([6.])
    """
    used = np.abs(rows[:, : 2 * pairs])
    return np.asarray((used[:, ::2] * used[:, 1::2]).sum(axis=1))
