"""At least how many of any rows, picked after looking, are real effects: closed testing with Simes (METHODS 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from butfor.inference.adaptive import SLACK
from butfor.inference.guarantees import check_p
from butfor.types import Floats, InputError, Ints, between


@dataclass(frozen=True, eq=False)
class Bounds:
    """Lower bounds on the true discoveries in every set of hypotheses at once. Made by `simes_bounds`.

    `cost[i]` is the smallest whole u with h * p_i <= u * a: how much has to be given away for hypothesis i to count.
    """

    cost: Floats  # (m,) at least 1
    h: int  # the largest number of hypotheses that may all be null
    confidence: float

    def __call__(self, rows: ArrayLike) -> int:
        """At least this many of `rows` (positions or a boolean mask; a row named twice counts once) are true."""
        cost = np.sort(self.cost[_positions(rows, len(self.cost))])
        # max over u of 1 - u + #{i in rows : h p_i <= u a}: only u at which the count jumps can be best
        return int(np.max(np.arange(1, len(cost) + 1) - cost + 1, initial=0))


def simes_bounds(p: ArrayLike, confidence: float = 0.95) -> Bounds:
    """Bounds that hold for all sets at once with probability `confidence`, so looking before picking is allowed.

    Closed testing with Simes' test, by the shortcut of Goeman, Meijer, Krebs & Solari (2019), "Simultaneous control
    of all false discovery proportions in large-scale multiple hypothesis testing". It equals full closed testing, and
    assumes what Simes' inequality does: p-values of true nulls independent or positively dependent.

    >>> bounds = simes_bounds([0.001, 0.002, 0.003, 0.6, 0.9], confidence=0.95)
    >>> bounds([0, 1, 2]), bounds([2, 3, 4]), bounds([3, 4])
    (3, 1, 0)
    """
    p, confidence = check_p(p), between("confidence", confidence, "0.95 is a common choice")
    a = (1 - confidence) * SLACK  # a p-value equal to its threshold in exact arithmetic is at most it here too
    # h = max{i : i p_(m-i+j) > j a for all j = 1..i}: Simes accepts some i hypotheses, namely the i largest p-values.
    # If it accepts the i largest it accepts the i - 1 largest: j a / (i - 1) <= (j + 1) a / i < p_(m-i+1+j) as j < i.
    # So h is found by bisection: O(m) for each of log2(m) steps.
    ordered, h, high = np.sort(p), 0, len(p)
    while h < high:
        i = (h + high + 1) // 2
        accepted = (i * ordered[-i:] > np.arange(1, i + 1) * a).all()  # Simes rejects at equality
        h, high = (i, high) if accepted else (h, i - 1)
    return Bounds(np.maximum(np.ceil(h * p / a), 1.0), h, confidence)


def _positions(rows: Any, size: int) -> Ints:
    """Distinct positions of the hypotheses asked for."""
    rows = np.atleast_1d(np.asarray(rows))
    if rows.size == 0:
        return np.zeros(0, np.int64)
    if rows.ndim == 1 and rows.dtype == bool and len(rows) == size:
        return np.flatnonzero(rows)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(
            f"rows must be positions or a boolean mask of {size} entries, got {rows.dtype} of shape {rows.shape}"
        )
    if rows.min() < 0 or rows.max() >= size:
        raise InputError(f"rows must lie between 0 and {size - 1}, got {rows.min()} to {rows.max()}")
    return np.unique(rows).astype(np.int64)
