"""What NumPy has too, at a fraction of its time on few numbers, with the same bits.

NumPy's own ask since 2.3 whether their arrays are masked, and import numpy.ma for it: a thirtieth of a first result.
"""

from __future__ import annotations

import numpy as np

from butfor.core.types import Array, Floats


def distinct(values: Array) -> Array:
    """The different values, in order: np.unique, which does without numpy.ma where it counts them.

    >>> distinct(np.array([2, 1, 2])).tolist()
    [1, 2]
    """
    return np.unique(values, return_counts=True)[0]


def quantiles(values: Floats, shares: Floats) -> Floats:
    """np.quantile(values, shares, axis=-1) to the last bit, (..., shares); NaN where a value is.

    >>> values = np.random.default_rng(0).normal(size=301)
    >>> bool((quantiles(values, np.array([0.05, 0.7])) == np.quantile(values, [0.05, 0.7])).all())
    True
    """
    ordered, last = np.sort(values, axis=-1), values.shape[-1] - 1
    places = last * shares
    before = places.astype(np.int64)
    low, high, share = ordered[..., before], ordered[..., np.minimum(before + 1, last)], places - before
    gap = high - low
    found = np.where(share < 0.5, low + gap * share, high - gap * (1 - share))
    return np.where(np.isnan(ordered[..., -1:]), np.nan, found)


def median(values: Floats) -> float:
    """np.median of (n,) to the last bit.

    >>> median(np.array([4.0, 1.0, 2.0])), median(np.array([4.0, 1.0]))
    (2.0, 2.5)
    """
    ordered, half = np.sort(values), len(values) // 2
    if not len(values) or np.isnan(ordered[-1]):
        return float("nan")
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)
