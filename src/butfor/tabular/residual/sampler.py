"""Sampler: regressions of a subset on the rest of the row, and their residuals at reference rows left out (METHODS 11).

The conditional distribution of a subset is made of: columns of few values, one after the other (or the combinations
that occur); which of its numbers are missing or at a spike; and the numbers, all from the residuals of one donor row.
Where such draws are no combinations as real rows have them, the rows most like the input donate their columns.
Every part is fitted when it is first needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from butfor.results.words import Note
from butfor.streams import stream
from butfor.tabular.donors import (
    ColumnDistribution,
    ReferenceRows,
    StepMass,
    describe,
    lower_ends,
    mass_by_counts,
    reference_rows,
    rows_of,
    with_observed,
)
from butfor.tabular.residual.design import Design, Terms
from butfor.tabular.residual.regression import (
    STRONGER,
    DiscreteFit,
    LinearFit,
    NumericFit,
    Predictors,
    best_penalty,
    codes_of,
    fit_discrete,
    fit_numbers,
)
from butfor.tabular.splice import RowCache, TableSampler
from butfor.tabular.table import Table, clustered
from butfor.types import Array, Floats, InputError, Ints, Subset, whole

LISTED = 64  # values, or combinations of them, that are listed rather than drawn
JOINT = 512  # combinations that are drawn as one
UNSEEN = 0.02  # share of rows whose combination comes once, up to which all others count as impossible
LONG = 8  # a chain of more columns is fitted with one penalty each
TOGETHER = 16  # draws that have one error of the fit
FEWEST = 10  # rows without a gap that a group of numbers needs to be drawn together
SPIKE, TIMES = 0.1, 5  # a value that a tenth of the rows have, five times as many as any other: drawn like a gap
LEAST_BESIDE = 0.15  # share of rows that must not be at the spike, else it is drawn as a plain number
MOST_PATTERNS = 16  # of missing numbers in a group


Part = DiscreteFit | NumericFit


@dataclass(frozen=True, eq=False)
class ConditionalDistribution:
    """The distribution of a subset given the rest of a row."""

    design: Design
    discrete: tuple[DiscreteFit, ...]
    combinations: Ints | None  # (G, discrete) positions of values, all that may be drawn; None: too many to list
    gaps: DiscreteFit | None  # which numbers are missing or at a spike; None: none ever is
    patterns: Ints  # (patterns, numbers) 1: missing, 2: at the spike
    spikes: Floats  # (numbers,)
    numeric: tuple[NumericFit, ...]
    donors: int  # reference rows that donate
    weight: int  # donors' worth of the observed row: the rows of one cluster
    nearest: Callable[[Array], Ints] | None = None  # rows like the input (n, donors): they donate all columns
    caches: defaultdict[int, RowCache] = field(default_factory=lambda: defaultdict(RowCache))  # by column
    leverages: defaultdict[int, RowCache] = field(default_factory=lambda: defaultdict(RowCache))

    @property
    def columns(self) -> list[int]:
        """The columns in the order in which they are drawn."""
        return [part.column for part in self.discrete] + [part.column for part in self.numeric]

    @property
    def parts(self) -> list[Part]:
        """All regressions: of columns of few values, of numbers, of what is missing."""
        return [*self.discrete, *self.numeric, *([] if self.gaps is None else [self.gaps])]

    def predicted(self, part: Part, inputs: Array, *, keep: bool = True) -> Floats:
        """Return the prediction of a part at each row, (n, its width); it is remembered."""

        def compute(given: Array) -> Floats:
            if len(given) == len(inputs):  # none was seen before: other subsets need the same inputs
                return part.predict(self.design, self.design.keep(inputs) if keep else inputs)
            rows = np.zeros((len(given), len(self.design.rows.categorical)))
            rows[:, part.given] = given
            return part.predict(self.design, rows)

        return self.caches[part.column](np.ascontiguousarray(inputs[:, part.given], np.float64), compute)

    def given_codes(self, part: Part, inputs: Array, codes: Sequence[Ints]) -> Floats:
        """Return the same where the first columns of few values have these codes (n, draws), (n, draws or 1, width)."""
        rows, place = self._rows_with(inputs, codes)
        return self.predicted(part, rows, keep=not codes)[place]

    def _rows_with(self, inputs: Array, codes: Sequence[Ints]) -> tuple[Array, Ints]:
        """Return the different rows that inputs with these codes are, and which of them each is, (n, draws or 1)."""
        if not codes:
            return inputs, np.arange(len(inputs))[:, None]
        count, draws = np.broadcast_shapes((len(inputs), 1), codes[0].shape)
        joint = np.broadcast_to(np.arange(count)[:, None], (count, draws))
        for before, code in zip(self.discrete, codes, strict=False):
            joint = joint * len(before.levels) + code
        _, first, place = np.unique(joint, return_index=True, return_inverse=True)
        rows = inputs[first // draws].astype(np.float64)
        for before, code in zip(self.discrete, codes, strict=False):
            rows[:, before.column] = before.levels[np.broadcast_to(code, (count, draws)).reshape(-1)[first]]
        return rows, place.reshape(count, draws)

    def uniforms(self, inputs: int, draws: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Return a donor of every draw, `donors` for the observed row, and uniforms for all that is drawn besides."""
        discrete = len(self.discrete) if self.combinations is None else min(len(self.discrete), 1)
        besides = discrete + (self.gaps is not None)
        if not besides:
            donors = rng.integers(self.donors + self.weight, size=(inputs, draws))
            return np.minimum(donors, self.donors), np.empty((inputs, draws, 0))
        uniform = rng.random((inputs, draws, 1 + besides))
        donors = (uniform[..., 0] * (self.donors + self.weight)).astype(np.int64)
        return np.minimum(donors, self.donors), uniform[..., 1:]

    def draw(self, inputs: Array, chosen: Ints, draws: int, rng: np.random.Generator, *, unsure: int = 0) -> Array:
        """Draw values of the columns `chosen`, (n, draws, columns); with `unsure` so many have one error of the fit."""
        if self.nearest is not None:
            near = self.nearest(inputs) if len(inputs) else np.zeros((0, self.donors), np.int64)
            donors = np.minimum(rng.integers(self.donors + self.weight, size=(len(inputs), draws)), self.donors)
            rows = np.take_along_axis(near, np.minimum(donors, self.donors - 1), axis=1)
            fresh = self.design.rows.values[rows[..., None], chosen]
        else:
            donors, uniform = self.uniforms(len(inputs), draws, rng)
            errors = self.errors(inputs, draws, unsure, rng) if unsure else None
            fresh = self.values(inputs, np.minimum(donors, self.donors - 1), uniform, errors)
            fresh = fresh[:, :, [self.columns.index(j) for j in chosen]] if len(chosen) > 1 else fresh
        observed = donors == self.donors
        fresh[observed] = inputs[np.nonzero(observed)[0]][:, chosen]
        return fresh

    def errors(self, inputs: Array, draws: int, together: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw errors of the fit: of each number's mean, in units of its spread, and of log-odds, (n, draws, ...) each.

        One is for `together` draws of an input. All numbers err together as the residuals of a donor row do: the errors
        of regressions on the same columns have the covariance of their residuals, times the leverage.
        """
        rounds = (len(inputs), -(-draws // together))
        other, sign = rng.integers(max(self.donors, 1), size=rounds), rng.choice([-1.0, 1.0], rounds)
        parts: list[Part] = [*self.numeric, *self.discrete]
        size = {part.column: np.sqrt(self._leverage(part, inputs))[:, None] for part in parts}
        means = [sign * size[part.column] * part.residuals[other] for part in self.numeric]
        odds = sign * max((size[part.column] for part in self.discrete), key=np.sum, default=np.zeros((len(inputs), 1)))
        every = np.stack([odds, *means], axis=2).repeat(together, axis=1)[:, :draws]
        return every[..., 1:], every[..., :1]

    def _leverage(self, part: Part, inputs: Array) -> Floats:
        """Return the leverage of a part at each row (n,); it is remembered."""

        def compute(given: Array) -> Floats:
            rows = np.zeros((len(given), len(self.design.rows.categorical)))
            rows[:, part.given] = given
            return part.leverage(self.design, rows)[:, None]

        return self.leverages[part.column](np.ascontiguousarray(inputs[:, part.given], np.float64), compute)[:, 0]

    def values(
        self, inputs: Array, donors: Ints, uniform: Floats, errors: tuple[Floats, Floats] | None = None
    ) -> Floats:
        """Return values of `columns` for donors (n, draws) and uniforms (n, draws, besides), (n, draws, columns)."""
        means, odds = (None, None) if errors is None else errors
        codes, k = self._codes(inputs, uniform, odds), len(self.discrete)
        fresh = self._at(inputs, codes, donors, means)
        if self.gaps is not None:
            chances = self.gaps.probabilities(self.predicted(self.gaps, inputs))
            pattern = self.patterns[_inverse_cdf(chances, uniform[..., -1])]
            numbers = fresh[..., k:]
            numbers[pattern == 1] = np.nan
            np.copyto(numbers, np.broadcast_to(self.spikes, numbers.shape), where=pattern == 2)
        return fresh

    def _at(self, inputs: Array, codes: Sequence[Ints], donors: Ints, errors: Floats | None = None) -> Floats:
        """Return values (n, draws, columns) of these donors, columns of few values at these codes, (n, draws) each."""
        fresh, k = np.empty((*donors.shape, len(self.columns))), len(self.discrete)
        for i, (part, code) in enumerate(zip(self.discrete, codes, strict=True)):
            fresh[..., i] = part.levels[code]
        rows, place = self._rows_with(inputs, codes) if self.numeric else (inputs, donors)
        for i, number in enumerate(self.numeric):
            predicted = self.predicted(number, rows, keep=len(self.numeric) > 1 or not codes)[place]
            mean, spread = predicted[..., 0], predicted[..., 1]
            mean = mean if errors is None else mean + errors[..., i] * spread
            fresh[..., k + i] = number.values(mean, spread, donors, inputs[:, number.column, None].astype(np.float64))
        return fresh

    def _codes(self, inputs: Array, uniform: Floats, odds: Floats | None = None) -> list[Ints]:
        """Draw the value of every column of few, as positions (n, draws) each, their log-odds off by (n, draws, 1)."""
        if not self.discrete:
            return []
        if self.combinations is not None:
            joint = self.joint(inputs)
            if odds is not None:
                joint = _erring(joint[:, None], odds)
            drawn = _inverse_cdf(joint, uniform[..., 0])
            return [codes[drawn] for codes in self.combinations.T]
        codes: list[Ints] = []
        for k, part in enumerate(self.discrete):
            chances = part.probabilities(self.given_codes(part, inputs, codes))
            if odds is not None:
                chances = _erring(chances, odds)
            codes.append(_inverse_cdf(chances, uniform[..., k]))
        return codes

    def joint(self, inputs: Array) -> Floats:
        """Return the probabilities of the listed combinations, (n, G), by the chain rule."""
        assert self.combinations is not None
        joint = np.ones((len(inputs), len(self.combinations)))
        for k, part in enumerate(self.discrete):
            before = [np.broadcast_to(codes, joint.shape) for codes in self.combinations.T[:k]]
            chances = part.probabilities(self.given_codes(part, inputs, before))
            chances = np.broadcast_to(chances, (*joint.shape, chances.shape[-1]))
            joint *= np.take_along_axis(chances, self.combinations[None, :, k, None], axis=2)[..., 0]
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def n_donors(self) -> int | None:
        """Return donors, times combinations of values, times patterns of missing numbers; None: too many."""
        if self.nearest is not None:
            return self.donors
        if self.discrete and self.combinations is None:
            return None
        combinations = 1 if self.combinations is None else len(self.combinations)
        return combinations * (self.donors if self.numeric else 1) * (1 if self.gaps is None else len(self.patterns))

    def all_donors(self, inputs: Array, chosen: Ints) -> tuple[Array, Floats]:
        """Return all values of the columns `chosen` (n, m, columns) that donors give, and their probabilities."""
        if self.nearest is not None:
            near = self.nearest(inputs)
            return self.design.rows.values[near[:, :, None], chosen], np.full(near.shape, 1 / self.donors)
        count = len(inputs)
        joint, patterns = self.joint(inputs) if self.discrete else np.ones((count, 1)), np.ones((count, 1))
        if self.gaps is not None:
            patterns = self.gaps.probabilities(self.predicted(self.gaps, inputs))
            patterns = patterns / patterns.sum(axis=1, keepdims=True)
        donors = self.donors if self.numeric else 1
        values = np.empty((count, joint.shape[1] * patterns.shape[1], donors, len(self.columns)))
        mass = np.empty(values.shape[:3])
        each = np.broadcast_to(np.arange(donors), (count, donors))
        for i, (g, r) in enumerate(product(range(joint.shape[1]), range(patterns.shape[1]))):
            codes = [] if self.combinations is None else [np.full((count, 1), code) for code in self.combinations[g]]
            values[:, i] = self._at(inputs, codes, each)
            if self.gaps is not None:
                numbers = values[:, i, :, len(self.discrete) :]
                numbers[..., self.patterns[r] == 1] = np.nan
                numbers[..., self.patterns[r] == 2] = self.spikes[self.patterns[r] == 2]
            mass[:, i] = (joint[:, g] * patterns[:, r] / donors)[:, None]
        order = [self.columns.index(j) for j in chosen]
        return values.reshape(count, -1, values.shape[-1])[..., order], mass.reshape(count, -1)


def _erring(chances: Floats, odds: Floats) -> Floats:
    """Return chances (..., K) whose logarithms are off by `odds` (..., 1) standard errors, up and down in turn."""
    signs = np.where(np.arange(chances.shape[-1]) % 2, 1.0, -1.0)
    wrong = chances * np.exp(np.clip(odds * signs / np.sqrt(np.maximum(chances * (1 - chances), 0.01)), -3, 3))
    return np.asarray(wrong / wrong.sum(axis=-1, keepdims=True))


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
    given, discrete, values = rest, list[DiscreteFit](), design.rows.values
    for j in few:  # given the rest of the row and the columns drawn before it
        predictors = Predictors(design, given, np.arange(len(values)))
        stronger = STRONGER if len(few) <= LONG else STRONGER[:1]
        fit = fit_discrete(predictors, values[:, j], not design.rows.categorical[j], stronger)
        discrete.append(replace(fit, column=j))
        given = np.append(given, j)
    spikes = _spikes(design, many) if len(targets) == 1 else np.full(len(many), np.nan)
    rows = _without_gaps(design, many, spikes)
    numeric = fit_numbers(Predictors(design, given, rows), many) if len(rows) >= FEWEST or len(many) < 2 else []
    gaps, patterns = _fit_gaps(design, rest, many, spikes)
    clusters = design.rows.clusters
    weight = 1 if clusters is None else -(-len(rows) // max(len(np.unique(clusters[rows])), 1))
    combinations = _combinations(design, discrete)
    return ConditionalDistribution(
        design, tuple(discrete), combinations, gaps, patterns, spikes, tuple(numeric), len(rows), weight
    )


def _without_gaps(design: Design, columns: list[int], spikes: Floats) -> Ints:
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


def _combinations(design: Design, discrete: Sequence[DiscreteFit]) -> Ints | None:
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
    """The reference rows that are nearest to an input in what the rest of a row predicts of the subset, straight."""

    design: Design
    rest: Ints
    lines: tuple[LinearFit, ...]  # of each plain feature of the subset on the rest
    scale: Floats  # (q,)
    tree: Any  # scipy.spatial.cKDTree
    count: int

    def __call__(self, inputs: Array) -> Ints:  # (n, d) -> (n, count)
        features = self.design.matrix(inputs, self.rest, "plain")
        places = np.stack([line.means(features) for line in self.lines], axis=1)
        _, rows = self.tree.query(places / self.scale, self.count)
        return np.asarray(rows).reshape(len(inputs), self.count)


def nearest_rows(design: Design, targets: Ints, rest: Ints) -> NearestRows:
    """Fit a straight line to each feature of a subset, and keep where reference rows lie on them."""
    from scipy.spatial import cKDTree

    regressions = Predictors(design, rest, np.arange(len(design.rows))).ridge(Terms("plain"), len(design.rows))
    wanted = design.reference(targets, "plain", np.arange(len(design.rows)))[0].T
    lines = tuple(regressions.fit(target, best_penalty(regressions, target)) for target in wanted)
    places = np.stack([line.means(regressions.features) for line in lines], axis=1)
    scale = np.where(places.std(axis=0) > 0, places.std(axis=0), 1.0)
    count = min(max(FEWEST_NEAR, min(len(places) // 10, MOST_NEAR)), len(places))
    return NearestRows(design, rest, lines, scale, cKDTree(places / scale), count)


def checked(fit: ConditionalDistribution, design: Design, targets: Ints, rest: Ints) -> ConditionalDistribution:
    """Return the same fit, or one with near rows as donors where its draws are no combinations as real rows have."""
    rows, columns = design.rows, np.array(fit.columns)
    if len(columns) == len(targets) and (len(fit.numeric) < 2 or fit.donors >= FEWEST):
        if tied(rows, columns) < 2 or (not fit.numeric and fit.combinations is not None):
            return fit
        sample = design.subsample(len(rows), CHECKED)
        rng = stream(design.seed, "residual", "check", *(rows.marks[j] for j in columns))
        donors, uniform = fit.uniforms(len(sample), DRAWS, rng)
        drawn = fit.values(rows.values[sample], np.minimum(donors, fit.donors - 1), uniform)
        if not impossible(rows, columns, sample, drawn):
            return fit
    nearest = nearest_rows(design, targets, rest)
    return replace(fit, nearest=nearest, donors=nearest.count, weight=1)


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
    given: int = 0  # rows of the reference as it was given, where fewer are used
    unsure: int = 0  # so many draws of an input have one error of the fit; 0: draws have none

    takes_missing = True
    calibrated = True  # on rows that the fit has not seen

    def of_many(self) -> Residual:
        """Return the same for many columns given few: no trees (a quarter of the time), draws with its errors."""
        return Residual(self.rows, Design(self.rows, self.design.seed, trees=False), given=self.given, unsure=TOGETHER)

    def fit(self, subset: Subset) -> ConditionalDistribution:
        """Return the distribution of a subset, fitted when it is first needed."""
        targets, rest = self.rows.parts(subset)
        key = tuple(targets.tolist())
        if key not in self.fits and len(rest):
            self.fits[key] = checked(fit_subset(self.design, targets, rest), self.design, targets, rest)
        elif key not in self.fits:  # of all columns: any row
            none, size, near = np.zeros((1, 0), np.int64), len(self.rows), self.rows.all_for
            self.fits[key] = ConditionalDistribution(self.design, (), None, None, none, np.zeros(0), (), size, 1, near)
        return self.fits[key]

    def unfitted(self, subsets: Sequence[Subset]) -> Sequence[Callable[[], object]]:
        keys = {tuple(self.rows.parts(one)[0].tolist()): one for one in subsets if not self.rows.is_all(one)}
        return [partial(self.fit, one) for key, one in keys.items() if key not in self.fits]

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        chosen = np.asarray(subset.index)
        fresh = self.fit(subset).draw(inputs, chosen, draws, rng, unsure=self.unsure)
        return fresh.reshape(-1, len(chosen)).astype(inputs.dtype, copy=False)

    def notes(self, inputs: Array, subsets: Sequence[Subset], seed: int) -> list[Note]:  # noqa: ARG002
        used = {"used": len(self.rows), "given": self.given}
        return [Note("reference-sampled", "info", used)] if self.given > len(self.rows) else []

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
        if not all(few_valued):
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
        joint = fit.joint(inputs) * (fit.donors / (fit.donors + fit.weight))
        observed = np.full((len(inputs), 1), fit.weight / (fit.donors + fit.weight))
        listed = np.concatenate([inputs[:, None, np.asarray(subset.index)], listed], axis=1)
        return listed, np.concatenate([observed, joint], axis=1)

    def n_donors(self, subset: Subset) -> int | None:
        return self.fit(subset).n_donors()

    def donors(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        fit = self.fit(subset)
        values, mass = fit.all_donors(inputs, np.asarray(subset.index))
        return with_observed(inputs, subset, values, mass, fit.donors / fit.weight)

    def cdf(self, subset: Subset) -> ColumnDistribution | None:
        """Return the distribution of one column of numbers over steps; None: it has a spike, or few values."""
        fit, column = self.fit(subset), int(subset.index[0])
        if fit.nearest is not None or fit.discrete or len(fit.numeric) != 1 or (fit.patterns == 2).any():
            return None
        number = fit.numeric[0]
        size = len(number.residuals)
        share = size / (size + fit.weight)

        def distribution(inputs: Array, cuts: Floats, starts: Ints) -> StepMass:
            predicted = number.predict(self.design, self.design.keep(inputs))
            mean, spread = predicted[:, :1], predicted[:, 1:2]
            missing = np.zeros(len(inputs))
            if fit.gaps is not None:
                chances = fit.gaps.probabilities(fit.gaps.predict(self.design, self.design.keep(inputs)))
                missing = chances[:, fit.patterns[:, 0] == 1].sum(axis=1) / chances.sum(axis=1)
            observed = inputs[:, column, None].astype(np.float64)
            below = number.below(mean, spread, observed, cuts, starts)
            mass, nearest = mass_by_counts(below, size, observed, lower_ends(cuts, starts))
            values = number.values(mean, spread, number.order[nearest], observed)
            return StepMass(mass * (share * (1 - missing))[:, None], values, share * missing, 1 - share)

        return distribution

    def leverage(self, inputs: Array, subset: Subset) -> Floats:
        inputs = self.design.keep(inputs)
        parts = [part.leverage(self.design, inputs) for part in self.fit(subset).parts]
        return np.asarray(self.repeated(subset) * np.max([np.zeros(len(inputs)), *parts], axis=0))

    def leverage_of_mean(self, inputs: Array, subset: Subset) -> float:
        inputs = self.design.keep(inputs)
        parts = [part.leverage_of_mean(self.design, inputs) for part in self.fit(subset).parts]
        return self.repeated(subset) * max([0.0, *parts])

    def repeated(self, subset: Subset) -> float:
        """Return how many rows say what one would, on average: rows of one cluster repeat each other."""
        clusters = self.rows.clusters
        if clusters is None:
            return 1.0
        numeric = self.fit(subset).numeric
        return max(part.repeated for part in numeric) if numeric else len(self.rows) / len(np.unique(clusters))

    def held_out_ranks(self, subset: Subset) -> tuple[Ints, Floats] | None:
        """Return reference rows, and ranks of their values by fits without them, (rows, columns); NaN: not drawn."""
        fit = self.fit(subset)
        if fit.nearest is not None:
            return None
        ranks = np.full((len(self.rows), len(subset.index)), np.nan)
        position = {int(j): k for k, j in enumerate(subset.index)}
        for number in fit.numeric:
            rows = _without_gaps(self.design, [part.column for part in fit.numeric], fit.spikes)
            low, high = number.ends(self.design, self.rows.values[rows])
            rng = stream(self.design.seed, "residual", "ranks", self.rows.marks[number.column])
            ranks[rows, position[number.column]] = (low + rng.random(fit.donors) * (high - low)) / fit.donors
        for part in fit.discrete:
            if part.left_out is not None:
                rows, ends = part.left_out
                rng = stream(self.design.seed, "residual", "ranks", self.rows.marks[part.column])
                ranks[rows, position[part.column]] = ends[:, 0] + rng.random(len(rows)) * (ends[:, 1] - ends[:, 0])
        return np.flatnonzero(~np.isnan(ranks).all(axis=1)), ranks[~np.isnan(ranks).all(axis=1)]


MOST_ROWS = 10_000  # of a reference: regressions and donors of more are the same to three digits


def residual(reference: object, *, groups: object = None, seed: int = 0) -> TableSampler:
    """Make a sampler for tables of any kind, calibrated on rows that its fit has not seen.

    For every subset a regression on the rest of the row is fitted to the reference: straight lines, splines,
    logarithms, levels and products, chosen by the score of rows left out, and trees on what these leave over. A draw is
    the fitted mean and the residual of a random reference row that the regression was fitted without: under the null
    the observed row is one such row more, so that p-values are ranks among exchangeable rows, whatever the noise looks
    like. Columns of few values get probabilities, and are listed; numbers of a group are drawn from one donor row
    together; missing values are redrawn, too. No p-value is much below one over the number of reference rows. Of a
    reference of more than 10,000 rows so many are used, picked at random.

    Parameters
    ----------
    reference : array-like or DataFrame of shape (rows, columns)
        Rows as they look when there is nothing to report: controls, another class, last year.
    groups : array-like of shape (rows,), optional
        A label for each row, equal for rows that are not independent, such as those of one person: they are left out
        together.
    seed : int
        Picks the rows of a large reference, and those on which choices are made.

    Returns
    -------
    TableSampler
        Draws any subset of the columns.

    Examples
    --------
    >>> residual(np.random.default_rng(0).normal(size=(200, 3)))
    residual(200 reference rows, 3 columns)
    """
    table = clustered(rows_of(reference)[1], groups, "groups")
    size = len(table.values)
    if size < 2:
        raise InputError("the reference has one row; give more of what you compare against, at least 2")
    if size > MOST_ROWS:
        table = table.take(np.sort(stream(whole("seed", seed, 0), "residual", "used").permutation(size)[:MOST_ROWS]))
    return _fitted(whole("seed", seed, 0), size, table)


def _fitted(seed: int, size: int, table: Table) -> TableSampler:
    rows = reference_rows(table)
    conditional = Residual(rows, Design(rows, seed), given=size)
    return TableSampler(conditional, "residual", table, refit=partial(_fitted, seed, 0))
