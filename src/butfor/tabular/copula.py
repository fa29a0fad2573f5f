"""Sampler: a Gaussian copula, the reference's own margins joined by the correlation of their normal scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from butfor.tabular.gaussian import Gaussian, bounds, fit
from butfor.tabular.splice import RowCache, TableSampler, fitted
from butfor.tabular.table import constant, numbers_of
from butfor.types import Array, Floats, Subset, one_of

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


OUTSIDE = 0.05  # share of values outside the reference from which a run says what that means


@dataclass(frozen=True, eq=False, repr=False)
class Copula:
    """Normal scores of every column are jointly normal; redrawn there, read back as values. Made by `copula`."""

    latent: Gaussian
    margins: tuple[Margin, ...]
    beyond: Literal["hold", "extend"] = "hold"
    seen: RowCache = field(default_factory=RowCache)  # scores of inputs

    def __repr__(self) -> str:  # short: a run asks for it ten times, and all margins would take a tenth of a second
        return f"Copula({len(self.margins)} columns, {len(self.margins[0].values)} rows, beyond={self.beyond!r})"

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        chosen = np.asarray(subset.index)
        fresh = self.latent.values(self.seen(inputs, self._scores), subset, draws, rng)
        fresh = np.column_stack([self._read_back(self.margins[j], fresh[:, k]) for k, j in enumerate(chosen)])
        own = rng.spawn(1)[0].random((len(inputs), draws)).reshape(-1) < self.floor(subset)
        fresh[own] = inputs[np.flatnonzero(own) // max(draws, 1)][:, chosen]
        return fresh

    def _read_back(self, own: Margin, scores: Floats) -> Floats:
        values = own.value(scores)
        return values if self.beyond == "hold" else np.clip(values, *bounds(own.values))

    def _scores(self, inputs: Array) -> Floats:
        return np.column_stack([own.score(inputs[:, j]) for j, own in enumerate(self.margins)])

    def floor(self, _: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / (len(self.margins[0].values) + 1)

    def notes(self, inputs: Array, *_: object) -> list[str]:
        """What a reader must know of inputs outside the reference, for the summary of a run."""
        if self.beyond == "extend":
            return []
        columns = zip(self.margins, inputs.T, strict=True)
        share = np.mean([(column < own.values[0]) | (column > own.values[-1]) for own, column in columns])
        if share < OUTSIDE:
            return []
        return [
            f"{share:.0%} of the values lie outside the reference, where the copula holds them at its edge: a column "
            "that only follows another one far outside is reported too. copula(reference, beyond='extend') would "
            "not report it."
        ]


def copula(reference: object, *, beyond: Literal["hold", "extend"] = "hold") -> TableSampler:
    """A sampler for skewed or bounded columns: a Gaussian copula with the reference's own margins.

    Each column is turned into the normal scores of its ranks, a normal with Ledoit-Wolf shrinkage is fitted to them,
    and any group of columns is redrawn from its exact conditional and read back through the column's own quantiles.
    Margins of m rows cannot say what is rarer than one row in m: the observed values are drawn as one row more, so that
    a value beyond all of them is not taken for a miracle, and no p-value is much below 1 / (m + 1).

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.
    beyond : what inputs outside the reference mean; within it the two are the same. "hold": they are read as its most
        extreme values and draws never leave its range, so the question is whether a feature could be like this *in the
        reference*; a column that only follows another one far outside is then reported too. "extend": columns go on
        beyond the reference as their last quantiles do, not below 0 where the reference has nothing below, and so does
        their dependence: what follows from the other columns is not reported.

    Examples
    --------
    >>> reference = np.random.default_rng(0).lognormal(size=(200, 3))
    >>> copula(reference)
    copula(200 reference rows, 3 columns)
    """
    one_of("beyond", beyond, ("hold", "extend"))
    table = numbers_of(reference, "a copula")
    values = table.values.astype(np.float64)
    margins = tuple(margin(column, tails=beyond == "extend") for column in values.T)
    for name, own in zip(table.columns, margins, strict=True):
        if len(own.distinct) == 1:
            raise constant(name, own.distinct[0], "a copula")
    scores = np.column_stack([own.ranked(column) for own, column in zip(margins, values.T, strict=True)])
    # No p-value is below 1 / (m + 1) anyway: the far tails of Student's t would change nothing but the time it takes.
    latent = replace(fit(scores), freedom=None, whole_numbers=(None,) * len(margins))
    options = "" if beyond == "hold" else f", beyond={beyond!r}"
    return fitted(Copula(latent, margins, beyond), "copula", table, options)
