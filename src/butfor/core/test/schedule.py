"""How many draws the sequential test adds between two looks (METHODS 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from butfor.core.types import Ints

GROWTH, LATE_GROWTH, LATE = 1.25, 1.05, 2000  # by how much draws grow, before and after so many: few are open then
AHEAD, SPARE = 4, 0.02  # looks are left out up to so many times the draws there are, and for such a share in vain


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
        if _in_vain(drawn, more, h, exceeded) > SPARE * more * len(exceeded) or decides(drawn + batch):
            break
        batch = more
    return batch


def _in_vain(drawn: int, batch: int, h: int, exceeded: Ints) -> float:
    """Draws that come after the h-th exceedance, if exceedances go on as they came, and one more came already."""
    closes = drawn + (h - exceeded) * ((drawn + 1) / (exceeded + 1))
    return float(np.maximum(drawn + batch - closes, 0).sum())
