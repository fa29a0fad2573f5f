"""Sampler: a Gaussian copula, the margins of the reference joined by the correlation of their normal scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from butfor.results.words import Note
from butfor.tabular.donors import ColumnDistribution, StepMass, lower_ends, upper_ends
from butfor.tabular.gaussian import Gaussian, bounds, fit
from butfor.tabular.splice import RowCache, TableSampler
from butfor.tabular.table import constant, numbers_of
from butfor.types import Array, Floats, Ints, Subset, one_of

TAIL = 5  # values at either end that are too few to say how the column goes on
CURVED_FROM = 100  # fewer values cannot tell whether a tail is curved
CURVATURES = (-1.0, 3.0)
STRAIGHT = 1e-6  # curvature
FARTHEST_SCORE = 8.0  # the score of whatever lies beyond all reason
OUTSIDE = 0.05  # share of values outside the reference from which a run says what that means
HALVINGS, FARTHEST = 80, 40.0  # of normal scores, to find the one of a value


@dataclass(frozen=True, eq=False)
class Tail:
    """Values above the largest of a column: value + slope (exp(c (s - score)) - 1) / c, s the score, c the curvature.

    The upper end of a normal (c = 0) or a lognormal (c > 0), as it curves between the median and two quantiles above
    it. Where it curves down, towards a bound, it goes on straight: where the bound lies, nobody knows. The lower end is
    the upper one of the negated column.
    """

    score: float
    value: float
    slope: float
    curvature: float

    def values(self, scores: Floats) -> Floats:
        return self.value + self.slope * np.expm1(self.curvature * (scores - self.score)) / self.curvature

    def scores(self, values: Floats) -> Floats:
        grown = np.maximum(self.curvature * (values - self.value) / self.slope, 1e-12 - 1)
        return np.minimum(self.score + np.log1p(grown) / self.curvature, FARTHEST_SCORE)


@dataclass(frozen=True, eq=False)
class Margin:
    """One column of the reference: its sorted values and its distinct values, with their normal scores."""

    values: Floats  # (m,) sorted
    scores: Floats  # (m,) of ranks 1..m
    distinct: Floats  # (u,) sorted
    middles: Floats  # (u,) of the middle rank of each distinct value
    integers: bool  # so are the values given back
    low: Tail | None = None  # of the negated column; None: nothing lies beyond the least value
    high: Tail | None = None

    def ranked(self, values: Array) -> Floats:
        """Return the normal score of the middle rank; values beyond the reference have that of its most extreme."""
        return np.asarray(np.interp(values, self.distinct, self.middles))

    def score(self, values: Array) -> Floats:
        """Return normal scores of values in the reference, or beyond it where it has tails."""
        scores = self.ranked(values)
        for tail, sign in ((self.low, -1.0), (self.high, 1.0)):
            if tail is not None and (out := sign * values > tail.value).any():
                scores[out] = sign * tail.scores(sign * values[out])
        return scores

    def value(self, scores: Floats) -> Floats:
        """Return the interpolated empirical quantile, the inverse of `score`; a value that repeats keeps its share."""
        from scipy.special import ndtr

        # np.interp(scores, self.scores, self.values), but the position is computed, not searched for
        last = len(self.values) - 1
        position = np.clip(ndtr(scores) * len(self.values) - 0.5, 0, last).astype(np.int64)
        inside = np.clip(scores, self.scores[0], self.scores[-1])
        values = self.values[position] + (inside - self.scores[position]) * self.slopes[position]
        for tail, sign in ((self.low, -1.0), (self.high, 1.0)):
            if tail is not None and (out := sign * scores > tail.score).any():
                values[out] = sign * tail.values(sign * scores[out])
        return np.asarray(np.rint(values) if self.integers else values)

    @cached_property
    def slopes(self) -> Floats:
        """Of the quantiles between one value and the next, (m,)."""
        return np.append(np.diff(self.values) / np.diff(self.scores), 0.0)


def margin(column: Floats, *, tails: bool) -> Margin:
    """Return the margin of one column; with `tails` it goes on beyond its least and largest value."""
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
        integers=bool((distinct % 1 == 0).all()),
        low=_tail(-values[::-1], scores) if tails else None,
        high=_tail(values, scores) if tails else None,
    )


def _tail(values: Floats, scores: Floats) -> Tail | None:
    """Return the upper tail; None where too many values are equal to say how they go on."""
    top, inner = float(scores[-1]), float(scores[-min(1 + TAIL, len(scores) // 2)])
    first, middle, last = np.interp([0.0, inner / 2, inner], scores, values)
    if not first < middle < last:
        return None
    curvature = float(np.clip(np.log((last - middle) / (middle - first)) / (inner / 2), *CURVATURES))
    curvature *= len(values) >= CURVED_FROM
    curvature = curvature if abs(curvature) > STRAIGHT else STRAIGHT
    slope = curvature * (last - first) / -np.expm1(-curvature * inner) * np.exp(curvature * (top - inner))
    return Tail(top, float(values[-1]), float(slope), max(curvature, STRAIGHT))


@dataclass(frozen=True, eq=False, repr=False)
class Copula:
    """Normal scores of every column are jointly normal; redrawn there, read back as values. Made by `copula`."""

    latent: Gaussian
    margins: tuple[Margin, ...]
    beyond: Literal["hold", "extend"] = "hold"
    scores: RowCache = field(default_factory=RowCache)  # of inputs

    def __repr__(self) -> str:  # short: a run needs it ten times, and all margins would take a tenth of a second
        return f"Copula({len(self.margins)} columns, {len(self.margins[0].values)} rows, beyond={self.beyond!r})"

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        chosen = np.asarray(subset.index)
        fresh = self.latent.values(self.scores(inputs, self._scores), subset, draws, rng)
        fresh = np.column_stack([self._value(self.margins[j], fresh[:, k]) for k, j in enumerate(chosen)])
        observed = rng.spawn(1)[0].random((len(inputs), draws)).reshape(-1) < self.floor(subset)
        fresh[observed] = inputs[np.flatnonzero(observed) // max(draws, 1)][:, chosen]
        return fresh

    def _value(self, margin: Margin, scores: Floats) -> Floats:
        values = margin.value(scores)
        return values if self.beyond == "hold" else np.clip(values, *bounds(margin.values))

    def _scores(self, inputs: Array) -> Floats:
        return np.column_stack([margin.score(inputs[:, j]) for j, margin in enumerate(self.margins)])

    def floor(self, _: Subset) -> float:
        return 1 / (len(self.margins[0].values) + 1)

    def cdf(self, subset: Subset) -> ColumnDistribution:
        column = int(subset.index[0])
        margin, share = self.margins[column], self.floor(subset)

        def score_of(cuts: Floats) -> Floats:
            """Return the largest normal scores whose values are at most each cut; halved until few doubles are left."""
            low, high = np.full(len(cuts), -FARTHEST), np.full(len(cuts), FARTHEST)
            for _ in range(HALVINGS):
                middle = (low + high) / 2
                left = self._value(margin, middle) <= cuts
                low, high = np.where(left, middle, low), np.where(left, high, middle)
            return np.where(low <= -FARTHEST, -np.inf, np.where(high >= FARTHEST, np.inf, low))

        def distribution(inputs: Array, cuts: Floats, starts: Ints) -> StepMass:
            lower = lower_ends(score_of(cuts), starts)
            below = self.latent.below(self.scores(inputs, self._scores), column, lower)
            mass, after, upper = np.diff(below, axis=1, append=1.0), np.nextafter(lower, np.inf), upper_ends(lower)
            above = lower_ends(cuts, starts) >= inputs[:, column][:, None]
            edge = np.where(above, after, upper)
            inside = np.where(np.isfinite(edge), edge, np.where(above, upper, after))
            values = self._value(margin, np.clip(inside, -FARTHEST, FARTHEST).reshape(-1)).reshape(mass.shape)
            return StepMass(mass * (1 - share), values, np.zeros(len(inputs)), share)

        return distribution

    def notes(self, inputs: Array, *_: object) -> list[Note]:
        columns = zip(self.margins, inputs.T, strict=True)
        share = np.mean([(column < margin.values[0]) | (column > margin.values[-1]) for margin, column in columns])
        if self.beyond == "extend" or share < OUTSIDE:
            return []
        return [Note("copula-outside", "warning", {"share": float(share)})]


def copula(reference: object, *, beyond: Literal["hold", "extend"] = "hold") -> TableSampler:
    """Make a sampler for skewed or bounded columns: a Gaussian copula with the margins of the reference.

    Each column becomes the normal scores of its ranks, a normal with Ledoit-Wolf shrinkage is fitted to them, and any
    group of columns is redrawn from its exact conditional and read back through the column's quantiles. Margins of m
    rows cannot say what is rarer than one row in m: the observed values are drawn as one row more, so that a value
    beyond all of them is not taken for a miracle, and no p-value is much below 1 / (m + 1).

    Parameters
    ----------
    reference : array-like or DataFrame of shape (rows, columns)
        Rows as they look when there is nothing to report.
    beyond : {"hold", "extend"}
        What inputs outside the reference mean; within it the two are the same. "hold": they are read as its most
        extreme values and draws never leave its range, so the question is whether a feature could be like this *in the
        reference*; a column that only follows another one far outside is then reported too. "extend": columns go on
        beyond the reference as their last quantiles do, not below 0 where the reference has nothing below, and so does
        their dependence: what follows from the other columns is not reported.

    Returns
    -------
    TableSampler
        Draws any subset of the columns.

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
    for name, one in zip(table.columns, margins, strict=True):
        if len(one.distinct) == 1:
            raise constant(name, one.distinct[0], "a copula")
    scores = np.column_stack([one.ranked(column) for one, column in zip(margins, values.T, strict=True)])
    # No p-value is below 1 / (m + 1) anyway: the far tails of Student's t would change nothing but the time it takes.
    latent = replace(fit(scores), freedom=None, integer_bounds=(None,) * len(margins))
    options = "" if beyond == "hold" else f", beyond={beyond!r}"
    return TableSampler(Copula(latent, margins, beyond), "copula", table, options)
