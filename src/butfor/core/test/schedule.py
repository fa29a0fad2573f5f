"""How many draws the sequential test adds between two looks (METHODS 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import lgamma

import numpy as np

from butfor.core.types import Ints

GROWTH, LATE_GROWTH, LATE = 1.25, 1.05, 2000  # by how much draws grow, before and after so many: few are open then
AHEAD, SPARE = 4, 0.02  # looks are left out up to so many times the draws there are, and for such a share in vain

POINTS = 16  # of a batch, at which it is asked how much is closed


def batches(h: int, cap: int, first: int = 0) -> Iterator[int]:
    """How many draws to add each time, if no look is left out: max(8, h) first or more, then by `step`."""
    drawn = first_batch(h, cap, first)
    yield drawn
    while drawn < cap:
        more = step(drawn, cap)
        drawn += more
        yield more


def first_batch(h: int, cap: int, first: int = 0) -> int:
    """The draws that every hypothesis gets."""
    return min(max(8, h, first), cap)


def step(drawn: int, cap: int) -> int:
    """A quarter of what there is, later less.

    >>> step(40, 1000), step(4000, 100_000), step(40, 45)
    (10, 200, 5)
    """
    share = (GROWTH if drawn < LATE else LATE_GROWTH) - 1
    return min(max(1, round(drawn * share)), cap - drawn)


def steps_ahead(drawn: int, cap: int, h: int, exceeded: Ints, decides: Callable[[int], bool]) -> int:
    """How many draws to add for the open hypotheses, which exceeded (n,) times so far: a step, or several at once.

    A look where nothing can be rejected, whatever the draws (`decides` says at how many draws something can), only
    closes what has its h exceedances. Where hardly anything is expected to, it is left out: p-values are valid whenever
    one looks, and a look costs time and an observed row for every open hypothesis.
    """
    batch = step(drawn, cap)
    while drawn + batch < min(AHEAD * drawn, cap):
        more = batch + step(drawn + batch, cap)
        if share_in_vain(drawn, more, h, exceeded) > SPARE or decides(drawn + batch):
            break
        batch = more
    return batch


def share_in_vain(drawn: int, batch: int, h: int, exceeded: Ints) -> float:
    """Which share of the draws to add is expected to come after an h-th exceedance, p-values being uniform beforehand.

    Where L of n draws exceeded, t more bring the h-th with probability P(Bin(h, t / (n + t)) >= h - L).

    >>> round(share_in_vain(100, 25, 10, np.array([9])), 2), round(share_in_vain(100, 25, 10, np.array([0])), 2)
    (0.62, 0.0)
    """
    more = batch * (np.arange(POINTS) + 0.5) / POINTS
    share, k = more / (drawn + more), np.arange(h + 1)
    ways = np.array([lgamma(h + 1) - lgamma(i + 1) - lgamma(h - i + 1) for i in range(h + 1)])
    exactly = np.exp(ways[:, None] + k[:, None] * np.log(share) + (h - k[:, None]) * np.log1p(-share))
    closed = exactly[::-1].cumsum(axis=0).mean(axis=1)  # P(Bin >= h - L) over the batch, by L = 0, 1, ..., h
    return float(np.bincount(exceeded, minlength=h + 1) @ closed) / len(exceeded)
