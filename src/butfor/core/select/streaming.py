"""Choosing over more hypotheses than memory holds: thresholds from passes over blocks, equal to those in memory.

A number that is not negative, read as an integer (its IEEE bits), keeps its place in the order. So a first pass counts
by the leading bits, 2 MB of counters whatever there is to count, and shows which few of these bins the threshold can
lie in; the next pass looks into those alone. Nothing is rounded: the choice is the one in memory, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from butfor.core.select.weights import SLACK
from butfor.core.types import Bools, Floats, InputError, Ints

Blocks = Callable[[], Iterable[ArrayLike]]  # evidence block by block, the same each time it is called
Strength = tuple[Ints, Bools | None]  # keys, larger where there is more evidence; which of them are losses (None: none)
Stream = Callable[[], Iterable[Strength]]
Passes = Callable[[Ints, Ints, Ints], Bools]  # keys, wins and losses from there on -> is that a threshold?

FIRST = 44  # bits that the first pass leaves out: bins of 1/256 of their value
BINS = 2**18  # counters of a later pass
MOST = 2**12  # bins that one later pass looks into
WIDEST = int(np.float64(np.inf).view(np.int64)) + 1


def bh_threshold(blocks: Blocks, alpha: float) -> float:
    """The threshold of `bh` over all blocks: what is chosen is p <= threshold; -inf chooses nothing.

    Two passes over the blocks as a rule, a few more where p-values lie along BH's own line or are tied there; memory is
    a few megabytes and one block. The choice is that of `bh` on all p-values together.

    Parameters
    ----------
    blocks : called without arguments, gives the p-values block by block; the same ones each time.
    alpha : the level.

    Examples
    --------
    >>> p = [np.array([0.01, 0.5]), np.array([0.03, 0.02])]
    >>> bool(0.03 <= bh_threshold(lambda: p, alpha=0.1) < 0.5)
    True
    """
    level, size = _level(alpha), sum(len(part) for part in _p_values(blocks))
    top = _key(np.array([1.0]))[0]

    def passes(keys: Ints, wins: Ints, _: Ints) -> Bools:  # as `bh`: p_(k) m / k, cut off at 1
        return np.asarray(np.minimum(_value(top - keys) * (size / np.maximum(wins, 1)), 1.0) <= level)

    found = least_passing(lambda: ((top - _key(p), None) for p in _p_values(blocks)), passes, int(top) + 1)
    return -np.inf if found is None else float(_value(np.array([top - found]))[0])


def weighted_bh_threshold(blocks: Blocks, size: int, alpha: float) -> float:
    """The threshold of weighted BH over blocks of p-values that were divided by their weights; inf is never chosen.

    >>> adjusted = np.array([0.02, 0.08, np.inf])
    >>> bool(0.02 <= weighted_bh_threshold(lambda: [adjusted], 3, alpha=0.1) < 0.08)
    True
    """
    level = _level(alpha)

    def passes(keys: Ints, wins: Ints, _: Ints) -> Bools:  # as `weights.weighted_bh`
        return np.asarray(_value(WIDEST - 1 - keys) <= level * wins / size)

    found = least_passing(lambda: ((WIDEST - 1 - _key(np.asarray(q)), None) for q in blocks()), passes, WIDEST)
    return -np.inf if found is None else float(_value(np.array([WIDEST - 1 - found]))[0])


def knockoff_plus_threshold(blocks: Blocks, alpha: float, beyond: float = 0.0) -> float:
    """The threshold of `knockoff_plus` over all blocks: what is chosen is z >= threshold; inf chooses nothing.

    Parameters
    ----------
    blocks : called without arguments, gives the differences block by block; the same ones each time.
    alpha : the level.
    beyond : as in `knockoff_plus`.

    Examples
    --------
    >>> bool(1 < knockoff_plus_threshold(lambda: [[5, 4], [3, 2, -1]], alpha=0.25) <= 2)
    True
    """
    level = _level(alpha)

    def passes(_: Ints, wins: Ints, losses: Ints) -> Bools:  # as `rules._step_threshold`
        return np.asarray(1 + losses + beyond <= level * wins)

    found = least_passing(lambda: _signed(blocks), passes, WIDEST)
    return np.inf if found is None else float(_value(np.array([found]))[0])


def least_passing(stream: Stream, passes: Passes, end: int) -> int | None:
    """A key in [0, end) at which the least candidate that passes is cut off; None: none passes.

    `passes` must be easier with a larger key, more wins and fewer losses. Then of a bin two things are known from its
    counts: its least candidate has all that lies in the bin and above, so the bin's lower edge passing is enough; and
    no candidate in it has fewer losses than lie above the bin, so that failing with those is final. What is left
    undecided below the first bin that passes is looked into by another pass.
    """
    return _searched(stream, passes, _Bins(np.arange((end - 1 >> FIRST) + 1) << FIRST, 1 << FIRST))


@dataclass(frozen=True, eq=False)
class _Bins:
    """Bins of equal width, in order, with gaps between some; what lies in the gaps is counted already."""

    starts: Ints  # (b,)
    width: int  # a power of two
    wins: Ints | int = 0  # (b,) that lie above a bin, but in none of the bins
    losses: Ints | int = 0


def _searched(stream: Stream, passes: Passes, bins: _Bins) -> int | None:
    wins, losses = _counted(stream, bins)
    won, lost = _from_there_on(wins) + bins.wins, _from_there_on(losses) + bins.losses
    there = (wins > 0) | (losses > 0)
    sure = there & passes(bins.starts, won, lost)
    maybe = there & ~sure & passes(bins.starts + bins.width - 1, won, lost - losses) & (bins.width > 1)
    first = int(sure.argmax()) if sure.any() else len(sure)
    undecided = np.flatnonzero(maybe[:first])
    for start in range(0, len(undecided), MOST):
        some = undecided[start : start + MOST]
        outside = [every[some] - _from_there_on(own[some]) for every, own in ((won, wins), (lost, losses))]
        found = _searched(stream, passes, _finer(bins, some, *outside))
        if found is not None:
            return found
    return int(bins.starts[first]) if first < len(sure) else None


def _from_there_on(counts: Ints) -> Ints:
    return np.asarray(counts[::-1].cumsum()[::-1], np.int64)


def _finer(bins: _Bins, some: Ints, wins: Ints, losses: Ints) -> _Bins:
    """Some of the bins, each cut into as many as there are counters for; beside which lie so many wins and losses."""
    parts = min(bins.width, 1 << int(np.log2(BINS / len(some))))
    width = bins.width // parts
    starts = (bins.starts[some][:, None] + width * np.arange(parts)).reshape(-1)
    return _Bins(starts, width, np.repeat(wins, parts), np.repeat(losses, parts))


def _counted(stream: Stream, bins: _Bins) -> tuple[Ints, Ints]:
    """One pass: wins and losses in every bin."""
    wins, losses = np.zeros((2, len(bins.starts)), np.int64)
    whole = bins.width == 1 << FIRST
    for keys, lost in stream():
        if whole:
            place = keys >> FIRST
        else:
            near = (keys >= bins.starts[0]) & (keys < bins.starts[-1] + bins.width)
            keys, lost = keys[near], None if lost is None else lost[near]
            place = bins.starts.searchsorted(keys, "right") - 1
            inside = keys - bins.starts[place] < bins.width
            place, lost = place[inside], None if lost is None else lost[inside]
        wins += np.bincount(place if lost is None else place[~lost], minlength=len(wins))
        if lost is not None:
            losses += np.bincount(place[lost], minlength=len(losses))
    return wins, losses


def _key(values: Floats) -> Ints:
    """The bits of numbers that are not negative, as integers of the same order; -0 is 0."""
    return np.asarray((np.asarray(values, np.float64) + 0.0).view(np.int64))


def _value(keys: Ints) -> Floats:
    return np.asarray(keys, np.int64).view(np.float64)


def _p_values(blocks: Blocks) -> Iterator[Floats]:
    for part in blocks():
        p = np.asarray(part, np.float64)
        if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
            raise InputError("p must come in one-dimensional arrays of numbers between 0 and 1; drop NaN first")
        yield p


def _signed(blocks: Blocks) -> Iterator[Strength]:
    for part in blocks():
        z = np.asarray(part, np.float64)
        if np.isnan(z).any():
            raise InputError("knockoff_plus_threshold got NaN among the z; drop those hypotheses first")
        z = z[z != 0]  # a tie is neither a win nor a loss
        yield _key(np.abs(z)), z < 0


def _level(alpha: float) -> float:
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}; 0.1 is a common choice")
    return alpha * SLACK
