"""Sums over many boxes of an array at once, from one integral image."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Array, Ints


def integral(values: Array) -> Array:
    """Sums over all that stands above and to the left, (..., height, width) -> (..., height + 1, width + 1).

    >>> integral(np.ones((2, 2), int)).tolist()
    [[0, 0, 0], [0, 1, 2], [0, 2, 4]]
    """
    sums = values.cumsum(axis=-2).cumsum(axis=-1)
    return np.pad(sums, [(0, 0)] * (values.ndim - 2) + [(1, 0), (1, 0)])


def box_sums(summed: Array, x1: Ints, y1: Ints, x2: Ints, y2: Ints) -> Array:
    """The sums over boxes, from an integral image."""
    return np.asarray(summed[..., y2, x2] - summed[..., y1, x2] - summed[..., y2, x1] + summed[..., y1, x1])
