"""One column of a reference as a copula sees it: values to normal scores and back, within the reference and beyond."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.core.types import Array, Floats

TAIL = 5  # values at either end that are too few to say how the column goes on
BENT = 100  # fewer values cannot tell whether it bends
BENDS = (-1.0, 3.0)
FLAT = 1e-6
FARTHEST = 8.0  # the score of whatever lies beyond all reason


@dataclass(frozen=True, eq=False)
class Tail:
    """How values go on above the largest of a column: value + slope (exp(bend (s - score)) - 1) / bend, s the score.

    The upper end of a normal (bend 0) or a lognormal (bend above 0), as it bends between the median and two quantiles
    above it. Where it bends down, towards a bound, it goes on straight: where the bound lies, nobody knows. The lower
    end is the upper one of the negated column.
    """

    score: float
    value: float
    slope: float
    bend: float

    def values(self, scores: Floats) -> Floats:
        return self.value + self.slope * np.expm1(self.bend * (scores - self.score)) / self.bend

    def scores(self, values: Floats) -> Floats:
        grown = np.maximum(self.bend * (values - self.value) / self.slope, 1e-12 - 1)
        return np.minimum(self.score + np.log1p(grown) / self.bend, FARTHEST)


@dataclass(frozen=True, eq=False)
class Margin:
    """One column of the reference: its sorted values with their normal scores, and each distinct value with its own."""

    values: Floats  # (m,) sorted
    scores: Floats  # (m,) of ranks 1..m
    distinct: Floats  # (u,) sorted
    middles: Floats  # (u,) of the middle rank of each distinct value
    whole: bool  # all are whole numbers: so are the values given back
    low: Tail | None = None  # of the negated column; None: nothing lies beyond the least value
    high: Tail | None = None

    def ranked(self, values: Array) -> Floats:
        """The normal score of the middle rank; what lies beyond the reference is read as its most extreme value."""
        return np.asarray(np.interp(values, self.distinct, self.middles))

    def score(self, values: Array) -> Floats:
        """Where values stand in the reference, or beyond it where it has tails."""
        found = self.ranked(values)
        for tail, sign in ((self.low, -1.0), (self.high, 1.0)):
            if tail is not None and (out := sign * values > tail.value).any():
                found[out] = sign * tail.scores(sign * values[out])
        return found

    def value(self, scores: Floats) -> Floats:
        """The interpolated empirical quantile, the inverse of `score`; a value that repeats keeps its share."""
        from scipy.special import ndtr

        # np.interp(scores, self.scores, self.values), but the place is computed, not searched for
        last = len(self.values) - 1
        place = np.clip(ndtr(scores) * len(self.values) - 0.5, 0, last).astype(np.int64)
        held = np.clip(scores, self.scores[0], self.scores[-1])
        found = self.values[place] + (held - self.scores[place]) * self.slopes[place]
        for tail, sign in ((self.low, -1.0), (self.high, 1.0)):
            if tail is not None and (out := sign * scores > tail.score).any():
                found[out] = sign * tail.values(sign * scores[out])
        return np.asarray(np.rint(found) if self.whole else found)

    @cached_property
    def slopes(self) -> Floats:
        """Of the quantiles between one value and the next, (m,)."""
        return np.append(np.diff(self.values) / np.diff(self.scores), 0.0)


def margin(column: Floats, *, tails: bool) -> Margin:
    """The margin of one column; with `tails` it goes on beyond its least and largest value."""
    from scipy.special import ndtri

    size = len(column)
    distinct, counts = np.unique(column, return_counts=True)
    middle_ranks = np.cumsum(counts) - (counts - 1) / 2
    values, scores = np.sort(column), ndtri((np.arange(1, size + 1) - 0.5) / size)
    return Margin(
        values=values,
        scores=scores,
        distinct=distinct,
        middles=ndtri((middle_ranks - 0.5) / size),
        whole=bool((distinct % 1 == 0).all()),
        low=_tail(-values[::-1], scores) if tails else None,
        high=_tail(values, scores) if tails else None,
    )


def _tail(values: Floats, scores: Floats) -> Tail | None:
    """None where too many values are equal to say how they go on."""
    top, inner = float(scores[-1]), float(scores[-min(1 + TAIL, len(scores) // 2)])
    first, middle, last = np.interp([0.0, inner / 2, inner], scores, values)
    if not first < middle < last:
        return None
    bend = float(np.clip(np.log((last - middle) / (middle - first)) / (inner / 2), *BENDS)) * (len(values) >= BENT)
    bend = bend if abs(bend) > FLAT else FLAT
    slope = bend * (last - first) / -np.expm1(-bend * inner) * np.exp(bend * (top - inner))
    return Tail(top, float(values[-1]), float(slope), max(bend, FLAT))
