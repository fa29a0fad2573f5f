"""Sampler: regressions of a subset on the rest of the row, and their residuals at reference rows left out (METHODS 11).

The conditional distribution of a subset is made of: columns of few values, one after the other (or the combinations
that occur); which of its numbers are missing or at a spike; and the numbers, all from the residuals of one donor row.
Where such draws are no combinations as real rows have them, the rows most like the input donate their columns.
Every part is fitted when it is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from butfor.streams import stream
from butfor.tabular.donors import (
    ColumnDistribution,
    ReferenceRows,
    StepMass,
    describe,
    donate_any,
    lower_ends,
    mass_by_counts,
    reference_rows,
    rows_as_donors,
    rows_of,
    with_observed,
)
from butfor.tabular.residual.design import Design, Form
from butfor.tabular.residual.regression import (
    STRONGER,
    DiscreteFit,
    LinearFit,
    NumericFit,
    Predictors,
    codes_of,
    fit_discrete,
    fit_numbers,
)
from butfor.tabular.splice import RowCache, TableSampler, fitted
from butfor.tabular.table import Table
from butfor.types import Array, Floats, InputError, Ints, Subset, whole

LISTED = 64  # values, or combinations of them, that are listed rather than drawn
JOINT = 512  # combinations that are drawn as one
UNSEEN = 0.02  # share of rows whose combination comes once, up to which all others count as impossible
LONG = 8  # a chain of more columns is fitted with one penalty each
FEWEST = 10  # rows without a gap that a group of numbers needs to be drawn together
SPIKE, TIMES = 0.1, 5  # a value that a tenth of the rows have, five times as many as any other: drawn like a gap
LEAST_BESIDE = 0.15  # share of rows that must not be at the spike, else it is drawn as a plain number
MOST_PATTERNS = 16  # of missing numbers in a group


@dataclass(frozen=True, eq=False)
class ConditionalDistribution:
    """The distribution of a subset given the rest of a row."""

    rest: Ints
    discrete: tuple[DiscreteFit, ...]
    combinations: Ints | None  # (G, discrete) positions of values, all that may be drawn; None: too many to list
    gaps: DiscreteFit | None  # which numbers are missing or at a spike; None: none ever is
    patterns: Ints  # (patterns, numbers) 1: missing, 2: at the spike
    spikes: Floats  # (numbers,)
    numeric: tuple[NumericFit, ...]
    donors: int  # reference rows that donate
    nearest: NearestRows | None = None  # rows like the input by the predictions of the parts: they donate all columns
    cache: RowCache = field(default_factory=RowCache)

    @property
    def columns(self) -> list[int]:
        """The columns in the order in which they are drawn."""
        return [part.column for part in self.discrete] + [part.column for part in self.numeric]

    @property
    def parts(self) -> list[DiscreteFit | NumericFit]:
        """All regressions: of columns of few values, of numbers, of what is missing."""
        return [*self.discrete, *self.numeric, *([] if self.gaps is None else [self.gaps])]

    def predictions(self, design: Design, inputs: Array) -> list[Floats]:
        """Return those of every part at each input, (n, width of the part), the leverage last; they are remembered."""

        def compute(rest: Array) -> Floats:
            if len(rest) == len(inputs):  # none was seen before: other subsets need the same inputs
                rows = design.keep(inputs)
            else:
                rows = np.zeros((len(rest), len(design.rows.categorical)))
                rows[:, self.rest] = rest
            return np.concatenate([part.predict(design, rows, self.rest) for part in self.parts], axis=1)

        joined = self.cache(np.ascontiguousarray(inputs[:, self.rest], np.float64), compute)
        ends = np.cumsum([0, *(part.width for part in self.parts)]).tolist()
        return [joined[:, start:end] for start, end in pairwise(ends)]

    def predictions_once(self, design: Design, inputs: Array) -> list[Floats]:
        """Return the same, not remembered: for inputs that are looked at once, whose design matrix is kept."""
        inputs = design.keep(inputs)
        return [part.predict(design, inputs, self.rest) for part in self.parts]

    def likeness(self, design: Design, inputs: Array) -> Floats:
        """Return the means and log odds of each row, (n, q): rows alike in them are alike in the rest."""
        parts, k = self.predictions(design, inputs)[: len(self.columns)], len(self.discrete)
        return np.concatenate([*(part[:, :-1] for part in parts[:k]), *(part[:, :1] for part in parts[k:])], axis=1)

    def uniforms(self, inputs: int, draws: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Return a donor of every draw, `donors` for the observed row, and uniforms for all that is drawn besides.

        All of an input's come before those of the next: they do not depend on how many inputs follow.
        """
        discrete = len(self.discrete) if self.combinations is None else min(len(self.discrete), 1)
        besides = discrete + (self.gaps is not None)
        if not besides:
            return rng.integers(self.donors + 1, size=(inputs, draws)), np.empty((inputs, draws, 0))
        uniform = rng.random((inputs, draws, 1 + besides))
        donors = (uniform[..., 0] * (self.donors + 1)).astype(np.int64)
        return np.minimum(donors, self.donors), uniform[..., 1:]

    def draw(self, design: Design, inputs: Array, chosen: Ints, draws: int, rng: np.random.Generator) -> Array:
        """Draw values of the columns `chosen`, (n, draws, columns); the observed row is one donor more."""
        if self.nearest is not None:
            empty = np.zeros((0, self.donors), np.int64)
            near = self.nearest(self.likeness(design, inputs)) if len(inputs) else empty
            donors = rng.integers(self.donors + 1, size=(len(inputs), draws))
            rows = np.take_along_axis(near, np.minimum(donors, self.donors - 1), axis=1)
            fresh = design.rows.values[rows[..., None], chosen]
        else:
            donors, uniform = self.uniforms(len(inputs), draws, rng)
            fresh = self.values(design, inputs, np.minimum(donors, self.donors - 1), uniform)
            fresh = fresh[:, :, [self.columns.index(j) for j in chosen]] if len(chosen) > 1 else fresh
        observed = donors == self.donors
        fresh[observed] = inputs[np.nonzero(observed)[0]][:, chosen]
        return fresh

    def values(self, design: Design, inputs: Array, donors: Ints, uniform: Floats) -> Floats:
        """Return values of `columns` for donors (n, draws) and uniforms (n, draws, besides), (n, draws, columns)."""
        predictions, k = self.predictions(design, inputs), len(self.discrete)
        codes = self._codes(predictions, uniform)
        fresh = self._at(predictions, codes, donors, inputs)
        if self.gaps is not None:
            chances = self.gaps.probabilities(predictions[-1][:, :-1])
            pattern = self.patterns[_inverse_cdf(chances, uniform[..., -1])]
            numbers = fresh[..., k:]
            numbers[pattern == 1] = np.nan
            np.copyto(numbers, np.broadcast_to(self.spikes, numbers.shape), where=pattern == 2)
        return fresh

    def _at(self, predictions: list[Floats], codes: Sequence[Ints | int], donors: Ints, inputs: Array) -> Floats:
        """Return values (n, draws, columns) of these donors, columns of few values at these codes, (n, draws) each."""
        fresh, k = np.empty((*donors.shape, len(self.columns))), len(self.discrete)
        for i, (part, code) in enumerate(zip(self.discrete, codes, strict=True)):
            fresh[..., i] = part.levels[code]
        for i, number in enumerate(self.numeric):
            mean, spread = predictions[k + i][:, :1], predictions[k + i][:, 1:2]
            for code, shift in zip(codes, number.shifts, strict=True):
                mean = mean + shift[code]
            for code, log_factor in zip(codes, number.log_factors, strict=bool(number.log_factors)):
                spread = spread * np.exp(log_factor)[code]
            observed = inputs[:, number.column, None].astype(np.float64)
            fresh[..., k + i] = number.values(mean, spread, donors, observed)
        return fresh

    def _codes(self, predictions: list[Floats], uniform: Floats) -> list[Ints]:
        """Draw the value of every column of few, as positions (n, draws) each."""
        if not self.discrete:
            return []
        if self.combinations is not None:
            drawn = _inverse_cdf(self.joint(predictions), uniform[..., 0])
            return [codes[drawn] for codes in self.combinations.T]
        codes: list[Ints] = []
        for k, part in enumerate(self.discrete):
            odds = predictions[k][:, None, :-1]
            for before, shift in zip(codes, part.shifts, strict=bool(part.shifts)):  # a constant column adds nothing
                odds = odds + shift[before]
            codes.append(_inverse_cdf(part.probabilities(odds), uniform[..., k]))
        return codes

    def joint(self, predictions: list[Floats]) -> Floats:
        """Return the probabilities of the listed combinations, (n, G), by the chain rule."""
        assert self.combinations is not None
        joint = np.ones((len(predictions[0]), len(self.combinations)))
        for k, part in enumerate(self.discrete):
            odds = predictions[k][:, None, :-1]
            for before, shift in zip(self.combinations.T, part.shifts, strict=False):
                odds = odds + shift[before]
            chances = part.probabilities(odds)
            joint *= np.take_along_axis(
                np.broadcast_to(chances, (*joint.shape, chances.shape[-1])), self.combinations[None, :, k, None], axis=2
            )[..., 0]
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def pattern_probabilities(self, predictions: list[Floats]) -> Floats:
        """Return those of the patterns of missing numbers, (n, patterns)."""
        if self.gaps is None:
            return np.ones((len(predictions[0]), 1))
        chances = self.gaps.probabilities(predictions[-1][:, :-1])
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def n_donors(self) -> int | None:
        """Return donors, times combinations of values, times patterns of missing numbers; None: too many."""
        if self.nearest is not None:
            return self.donors
        if self.discrete and self.combinations is None:
            return None
        combinations = 1 if self.combinations is None else len(self.combinations)
        return combinations * (self.donors if self.numeric else 1) * (1 if self.gaps is None else len(self.patterns))

    def all_donors(self, design: Design, inputs: Array, chosen: Ints) -> tuple[Array, Floats]:
        """Return all values of the columns `chosen` (n, m, columns) that donors give, and their probabilities."""
        if self.nearest is not None:
            near = self.nearest(self.likeness(design, inputs))
            return design.rows.values[near[:, :, None], chosen], np.full(near.shape, 1 / self.donors)
        predictions, count = self.predictions(design, inputs), len(inputs)
        joint = self.joint(predictions) if self.discrete else np.ones((count, 1))
        patterns = self.pattern_probabilities(predictions)
        donors = self.donors if self.numeric else 1
        values = np.empty((count, joint.shape[1] * patterns.shape[1], donors, len(self.columns)))
        mass = np.empty(values.shape[:3])
        each = np.broadcast_to(np.arange(donors), (count, donors))
        for i, (g, r) in enumerate(product(range(joint.shape[1]), range(patterns.shape[1]))):
            codes = [] if self.combinations is None else [int(code) for code in self.combinations[g]]
            values[:, i] = self._at(predictions, codes, each, inputs)
            if self.gaps is not None:
                numbers = values[:, i, :, len(self.discrete) :]
                numbers[..., self.patterns[r] == 1] = np.nan
                numbers[..., self.patterns[r] == 2] = self.spikes[self.patterns[r] == 2]
            mass[:, i] = (joint[:, g] * patterns[:, r] / donors)[:, None]
        order = [self.columns.index(j) for j in chosen]
        return values.reshape(count, -1, values.shape[-1])[..., order], mass.reshape(count, -1)


def _inverse_cdf(probabilities: Floats, uniform: Floats) -> Ints:
    """Return where the probabilities, (n, K) or (n, draws, K), sum up to each of `uniform` (n, draws)."""
    upper = np.cumsum(probabilities, axis=-1)
    upper = upper[:, None, :] if upper.ndim == 2 else upper
    upper = upper / upper[..., -1:]
    position = np.zeros(uniform.shape, np.int64)
    for k in range(upper.shape[-1] - 1):
        position += uniform >= upper[..., k]
    return position


def fit_subset(design: Design, targets: Ints, rest: Ints) -> ConditionalDistribution:
    """Fit the distribution of the columns `targets` given those in `rest`."""
    few = [int(j) for j in targets if design.once(design.few_valued, int(j))]
    many = [int(j) for j in targets if int(j) not in few]
    stronger = STRONGER if len(few) <= LONG else STRONGER[:1]
    discrete = tuple(_fit_after(design, rest, few[:k], j, stronger) for k, j in enumerate(few))
    given = np.concatenate([rest, np.array(few, np.int64)])
    spikes = _spikes(design, many) if len(targets) == 1 else np.full(len(many), np.nan)
    complete = _complete(design, many, spikes)
    if len(complete) >= FEWEST or len(many) < 2:
        fits = fit_numbers(Predictors(design, given, complete), many)
    else:  # for their predictions only
        each = [(j, Predictors(design, given, _complete(design, [j], spikes[:1]))) for j in many]
        fits = [fit_numbers(predictors, [j])[0] for j, predictors in each]
    numeric = []
    for fit in fits:
        shifts = _contributions(design, fit.line, fit.form, rest, few)
        factors = [] if fit.spread is None else _contributions(design, fit.spread, "plain", rest, few)
        numeric.append(replace(fit, shifts=tuple(shifts), log_factors=tuple(factors)))
    gaps, patterns = _fit_gaps(design, rest, many, spikes)
    donors = len(complete) if many else len(design.rows)
    return ConditionalDistribution(
        rest, discrete, _combinations(design, discrete), gaps, patterns, spikes, tuple(numeric), donors
    )


def _complete(design: Design, columns: list[int], spikes: Floats) -> Ints:
    """Return reference rows in which none of these columns is missing or at its spike."""
    values = design.rows.values[:, columns]
    return np.flatnonzero(~(np.isnan(values) | (values == spikes)).any(axis=1))


def _spikes(design: Design, columns: list[int]) -> Floats:
    """Return the value of a single column of numbers that comes far too often (0 days late, 999 for never); NaN: none.

    Never of several columns together: rows beside the spike would donate the other columns, too, which are others where
    the spike is (control p-values were below .1 twice as often as they should be).
    """
    spikes = np.full(len(columns), np.nan)
    if not columns:
        return spikes
    values = design.rows.values[:, columns[0]]
    levels, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    first, second = np.sort(counts)[::-1][:2] if len(levels) > 1 else (0, 1)
    present = int(counts.sum())
    beside = present - first
    if first >= max(SPIKE * present, TIMES * second) and beside >= max(FEWEST, LEAST_BESIDE * len(design.rows)):
        spikes[0] = levels[np.argmax(counts)]
    return spikes


def _fit_after(design: Design, rest: Ints, before: list[int], column: int, stronger: tuple[float, ...]) -> DiscreteFit:
    """Fit a column of few values, given the rest of the row and the columns drawn before it."""
    values = design.rows.values
    predictors = Predictors(design, np.concatenate([rest, np.array(before, np.int64)]), np.arange(len(values)))
    fit = fit_discrete(predictors, values[:, column], not design.rows.categorical[column], stronger)
    per_line = [_contributions(design, line, fit.form, rest, before) for line in fit.lines]
    shifts = tuple(np.stack(parts, axis=1) for parts in zip(*per_line, strict=True))
    return replace(fit, column=column, shifts=shifts)


def _contributions(design: Design, line: LinearFit, form: Form, rest: Ints, before: list[int]) -> list[Floats]:
    """Return what each value of each column of `before` adds to a regression whose first features are of `rest`."""
    first, contributions = design.width(form, rest) if before else 0, []
    for j in before:
        features = design.basis(form, j)(codes_of(design.rows.values[:, j])[0].astype(np.float64))
        contributions.append(line.contribution(features, first))
        first += features.shape[1]
    return contributions


def _combinations(design: Design, discrete: tuple[DiscreteFit, ...]) -> Ints | None:
    """Return the combinations of values that may be drawn, where they are few enough to be listed.

    Where hardly a row has a combination of its own, those that never come are taken to be impossible: by Good (1953)
    the share of rows with a combination that was not seen is about the share of rows whose combination comes once.
    """
    if not discrete:
        return None
    codes = np.stack([codes_of(design.rows.values[:, part.column])[1] for part in discrete], axis=1)
    seen, counts = np.unique(codes, axis=0, return_counts=True)
    if len(discrete) > 1 and len(seen) <= JOINT and (counts == 1).sum() <= UNSEEN * len(codes):
        return seen
    sizes = [len(part.levels) for part in discrete]
    return np.array(list(product(*map(range, sizes)))) if prod(sizes) <= LISTED else None


def _fit_gaps(design: Design, rest: Ints, many: list[int], spikes: Floats) -> tuple[DiscreteFit | None, Ints]:
    """Fit which numbers of a group are missing or at their spikes together: a column of few values, given the rest."""
    values = design.rows.values[:, many]
    gaps = np.where(np.isnan(values), 1, np.where(values == spikes, 2, 0))
    if not gaps.any():
        return None, np.zeros((1, len(many)), np.int64)
    patterns, codes, counts = np.unique(gaps, axis=0, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_PATTERNS])
    rows = np.flatnonzero(np.isin(codes, kept))
    numbered = np.searchsorted(kept, codes[rows]).astype(np.float64)
    return fit_discrete(Predictors(design, rest, rows), numbered, False), patterns[kept]


FEWEST_NEAR, MOST_NEAR = 20, 200  # donors: a tenth of the rows, but no fewer and no more
OFTEN = 5  # a column is tied where each of its values comes so often on average
CHECKED, DRAWS = 200, 20  # rows of the check, and draws of each
NEARER = 0.35  # the mean rank of real rows' distances among their draws' below which draws are no real combinations
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class NearestRows:
    """The reference rows whose predictions are nearest to an input's."""

    mean: Floats  # (q,)
    scale: Floats  # (q,)
    tree: Any  # scipy.spatial.cKDTree
    count: int

    def __call__(self, predictions: Floats) -> Ints:  # (n, q) -> (n, count)
        _, rows = self.tree.query((predictions - self.mean) / self.scale, self.count)
        return np.asarray(rows).reshape(len(predictions), self.count)


def checked(fit: ConditionalDistribution, design: Design) -> ConditionalDistribution:
    """Return the same fit, or one with near rows as donors where its draws are no combinations as real rows have."""
    from scipy.spatial import cKDTree

    rows, columns = design.rows, np.array(fit.columns)
    if len(fit.numeric) < 2 or fit.donors >= FEWEST:
        if tied(rows, columns) < 2 or (not fit.numeric and fit.combinations is not None):
            return fit
        sample = design.subsample(len(rows), CHECKED)
        rng = stream(design.seed, "residual", "check", *(rows.marks[j] for j in columns))
        donors, uniform = fit.uniforms(len(sample), DRAWS, rng)
        drawn = fit.values(design, rows.values[sample], np.minimum(donors, fit.donors - 1), uniform)
        if not impossible(rows, columns, sample, drawn):
            return fit
    predictions = fit.likeness(design, rows.values)
    count = min(max(FEWEST_NEAR, min(len(predictions) // 10, MOST_NEAR)), len(predictions))
    mean, scale = predictions.mean(axis=0), predictions.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    nearest = NearestRows(mean, scale, cKDTree((predictions - mean) / scale), count)
    return replace(fit, nearest=nearest, donors=count)


def tied(rows: ReferenceRows, columns: Ints) -> int:
    """Return how many of these columns have values that come again and again."""
    return int((rows.distinct[columns] * OFTEN <= len(rows)).sum())


def impossible(rows: ReferenceRows, columns: Ints, sample: Ints, drawn: Array) -> bool:
    """Return whether draws (rows, draws, columns) for a sample of rows are no combinations as real rows have them.

    A real row has others like it; a draw that joins what never comes together has not. Each row's distance to the
    nearest other one is ranked among those of its draws: of a right distribution the ranks are even, their mean is 1/2.
    """
    from scipy.spatial import cKDTree

    described = describe(rows, columns)
    tree = cKDTree(described(rows.values.astype(np.float64)))

    def nearest(values: Array, itself: Ints) -> Floats:
        padded = np.zeros((len(values), rows.values.shape[1]))
        padded[:, columns] = values
        distance, row = (np.asarray(part) for part in tree.query(described(padded), 2, p=1))
        return np.asarray(np.where(row[:, 0] == itself, distance[:, 1], distance[:, 0]))

    real = nearest(rows.values[np.ix_(sample, columns)], sample)[:, None]
    made = nearest(drawn.reshape(-1, len(columns)), np.repeat(sample, drawn.shape[1])).reshape(drawn.shape[:2])
    ranks = (made < real - SAME).mean(axis=1) + (np.abs(made - real) <= SAME).mean(axis=1) / 2
    return bool(ranks.mean() < NEARER)


@dataclass(frozen=True, eq=False, repr=False)
class Residual:
    """x_S = mean(x_-S) + spread(x_-S) * the residual of a reference row left out. Made by `residual`."""

    rows: ReferenceRows
    design: Design
    fits: dict[tuple[int, ...], ConditionalDistribution] = field(default_factory=dict)  # per subset

    takes_missing = True
    calibrated = True  # on rows that the fit has not seen

    def fit(self, subset: Subset) -> ConditionalDistribution:
        """Return the distribution of a subset, fitted when it is first needed."""
        targets, rest = self.rows.parts(subset)
        key = tuple(targets.tolist())
        if key not in self.fits:
            self.fits[key] = checked(fit_subset(self.design, targets, rest), self.design)
        return self.fits[key]

    def unfitted(self, subsets: Sequence[Subset]) -> Sequence[Callable[[], object]]:
        keys = {tuple(self.rows.parts(one)[0].tolist()): one for one in subsets if not self.rows.is_all(one)}
        return [partial(self.fit, one) for key, one in keys.items() if key not in self.fits]

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        if self.rows.is_all(subset):
            return donate_any(self.rows, inputs, subset, draws, rng)
        chosen = np.asarray(subset.index)
        fresh = self.fit(subset).draw(self.design, inputs, chosen, draws, rng)
        return fresh.reshape(-1, len(chosen)).astype(inputs.dtype, copy=False)

    def repeats(self, subset: Subset) -> bool:
        return self.rows.repeats(subset)

    def floor(self, subset: Subset) -> float:
        targets = np.asarray(subset.index)
        may_differ = tied(self.rows, targets) > 1 or np.isnan(self.rows.values[:, targets]).any()
        if self.rows.is_all(subset) or not may_differ:
            return 1 / (len(self.rows) + 1)
        return 1 / (self.fit(subset).donors + 1)

    def lists(self, subset: Subset) -> bool:
        few_valued = (self.design.once(self.design.few_valued, int(j)) for j in self.rows.parts(subset)[0])
        if self.rows.is_all(subset) or not all(few_valued):
            return False
        fit = self.fit(subset)
        return fit.nearest is None and fit.combinations is not None and len(fit.combinations) <= LISTED

    def support(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        """Return all values (n, m, columns) and their probabilities (n, m), the observed first: 1 / (rows + 1)."""
        fit = self.fit(subset)
        assert fit.combinations is not None
        columns = [part.levels[codes] for part, codes in zip(fit.discrete, fit.combinations.T, strict=True)]
        values = np.stack(columns, axis=1)[:, [fit.columns.index(j) for j in subset.index]]
        listed = np.broadcast_to(values, (len(inputs), *values.shape))
        joint = fit.joint(fit.predictions(self.design, inputs)) * (fit.donors / (fit.donors + 1))
        observed = np.full((len(inputs), 1), 1 / (fit.donors + 1))
        listed = np.concatenate([inputs[:, None, np.asarray(subset.index)], listed], axis=1)
        return listed, np.concatenate([observed, joint], axis=1)

    def n_donors(self, subset: Subset) -> int | None:
        return len(self.rows) if self.rows.is_all(subset) else self.fit(subset).n_donors()

    def donors(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        if self.rows.is_all(subset):
            return rows_as_donors(self.rows, inputs, subset)
        fit = self.fit(subset)
        values, mass = fit.all_donors(self.design, inputs, np.asarray(subset.index))
        return with_observed(inputs, subset, values, mass, fit.donors)

    def cdf(self, subset: Subset) -> ColumnDistribution | None:
        """Return the distribution of one column of numbers over steps; None: it has a spike, or few values."""
        if self.rows.is_all(subset):
            return None
        fit, column = self.fit(subset), int(subset.index[0])
        if fit.nearest is not None or fit.discrete or len(fit.numeric) != 1 or (fit.patterns == 2).any():
            return None
        number = fit.numeric[0]
        size = len(number.residuals)
        share = size / (size + 1)

        def distribution(inputs: Array, cuts: Floats, starts: Ints) -> StepMass:
            predictions = fit.predictions_once(self.design, inputs)
            mean, spread = predictions[0][:, :1], predictions[0][:, 1:2]
            missing = np.zeros(len(inputs))
            if fit.gaps is not None:
                chances = fit.gaps.probabilities(predictions[-1][:, :-1])
                missing = chances[:, fit.patterns[:, 0] == 1].sum(axis=1) / chances.sum(axis=1)
            observed = inputs[:, column, None].astype(np.float64)
            below = number.below(mean, spread, observed, cuts, starts)
            mass, nearest = mass_by_counts(below, size, observed, lower_ends(cuts, starts))
            values = number.values(mean, spread, number.order[nearest], observed)
            return StepMass(mass * (share * (1 - missing))[:, None], values, share * missing, 1 / (size + 1))

        return distribution

    def leverage(self, inputs: Array, subset: Subset) -> Floats:
        if self.rows.is_all(subset):
            return np.zeros(len(inputs))
        parts = self.fit(subset).predictions_once(self.design, inputs)
        return np.asarray(np.max([part[:, -1] for part in parts], axis=0))

    def leverage_of_mean(self, inputs: Array, subset: Subset) -> float:
        if self.rows.is_all(subset):
            return 0.0
        fit, inputs = self.fit(subset), self.design.keep(inputs)
        return float(max(part.leverage_of_mean(self.design, inputs, fit.rest) for part in fit.parts))


def residual(reference: object, *, seed: int = 0) -> TableSampler:
    """Make a sampler for tables of any kind, calibrated on rows that its fit has not seen.

    For every subset a regression on the rest of the row is fitted to the reference (ridge, its form and penalty chosen
    by the score of rows left out). A draw is the fitted mean and the residual of a random reference row that the
    regression was fitted without: under the null the observed row is one such row more, so that p-values are ranks
    among exchangeable rows, whatever the noise looks like. Columns of few values get probabilities by logistic
    regression, and are listed; numbers of a group are drawn from one donor row together; missing values are redrawn,
    too. No p-value is much below one over the number of reference rows.

    Parameters
    ----------
    reference : array-like or DataFrame of shape (rows, columns)
        Rows as they look when there is nothing to report: controls, another class, last year.
    seed : int
        Picks the rows of a large reference on which choices are made.

    Returns
    -------
    TableSampler
        Draws any subset of the columns.

    Examples
    --------
    >>> residual(np.random.default_rng(0).normal(size=(200, 3)))
    residual(200 reference rows, 3 columns)
    """
    _, table = rows_of(reference)
    if len(table.values) < 2:
        raise InputError("the reference has one row; give more of what you compare against, at least 2")
    return _fitted(whole("seed", seed, 0), table)


def _fitted(seed: int, table: Table) -> TableSampler:
    rows = reference_rows(table)
    return fitted(Residual(rows, Design(rows, seed)), "residual", table, refit=partial(_fitted, seed))
