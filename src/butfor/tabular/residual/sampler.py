"""The sampler's law: draws, lists and leverages of any subset, from fits that are made when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from butfor.streams import stream
from butfor.tabular.donors import ReferenceRows, describe, donate, repeats
from butfor.tabular.residual.categories import STRONGER, ClassFit, codes_of, fit_classes
from butfor.tabular.residual.design import FEW_VALUES, Form, Space, shared
from butfor.tabular.residual.regression import Line, NumberFit, Views, fit_numbers
from butfor.tabular.splice import RowCache
from butfor.types import Array, Floats, Ints, Subset

FEWEST_MATCHES, MOST = 20, 200  # donors: a tenth of the rows, but no fewer and no more
OFTEN = 5  # a column is tied where each of its values comes so often on average
CHECKED, DRAWS = 200, 20  # rows of the check, and draws of each
NEARER = 0.35  # the mean rank of real rows' distances among their draws' below which draws are no real combinations
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Matched:
    """The reference rows whose centres (what the fit makes of the rest of the row) are nearest to an input's."""

    mean: Floats  # (q,)
    scale: Floats  # (q,)
    tree: Any  # scipy.spatial.cKDTree
    count: int

    def near(self, centres: Floats) -> Ints:  # (n, q) -> (n, count)
        _, found = self.tree.query((centres - self.mean) / self.scale, self.count)
        return np.asarray(found).reshape(len(centres), self.count)


def matched(centres: Floats) -> Matched:
    """From the centres of all reference rows, (m, q)."""
    from scipy.spatial import cKDTree

    count = min(max(FEWEST_MATCHES, min(len(centres) // 10, MOST)), len(centres))
    mean, scale = centres.mean(axis=0), centres.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return Matched(mean, scale, cKDTree((centres - mean) / scale), count)


def tied(rows: ReferenceRows, columns: Ints) -> int:
    """How many of these columns have values that come again and again."""
    return int((rows.distinct[columns] * OFTEN <= len(rows)).sum())


def impossible(rows: ReferenceRows, columns: Ints, some: Ints, drawn: Array) -> bool:
    """Whether draws (rows, draws, columns) for `some` rows are no combinations as real rows have them.

    A real row has others like it; a draw that joins what never comes together has not. Each row's distance to the
    nearest other one is ranked among those of its draws: of a right law the ranks are even, their mean is 1/2.
    """
    from scipy.spatial import cKDTree

    described = describe(rows, columns)
    tree = cKDTree(described(rows.values.astype(np.float64)))

    def nearest(values: Array, own: Ints) -> Floats:
        whole = np.zeros((len(values), rows.values.shape[1]))
        whole[:, columns] = values
        distance, found = (np.asarray(part) for part in tree.query(described(whole), 2, p=1))
        return np.asarray(np.where(found[:, 0] == own, distance[:, 1], distance[:, 0]))

    real = nearest(rows.values[np.ix_(some, columns)], some)[:, None]
    made = nearest(drawn.reshape(-1, len(columns)), np.repeat(some, drawn.shape[1])).reshape(drawn.shape[:2])
    ranks = (made < real - SAME).mean(axis=1) + (np.abs(made - real) <= SAME).mean(axis=1) / 2
    return bool(ranks.mean() < NEARER)


THIN = 0.05  # share of rows below which the last of some numbers is not the last that there can be
LISTED = 64  # values, or combinations of them, that are listed rather than drawn
JOINT = 512  # combinations that are drawn as one
UNSEEN = 0.02  # share of rows whose combination comes once, up to which all others count as impossible
LONG = 8  # a chain of more columns is fitted with one penalty each
FEWEST = 10  # rows without a gap that a group of numbers needs to be drawn together
SPIKE, TIMES = 0.1, 5  # a value that a tenth of the rows have, five times as many as any other: drawn like a gap
LEAST_BESIDE = 0.15  # share of rows that must not be at the spike, else it is drawn as a plain number
MOST_PATTERNS = 16  # of missing numbers in a group


@dataclass(frozen=True, eq=False)
class ClassStep:
    """One column of few values, given the rest of the row and the columns before it."""

    column: int
    fit: ClassFit
    added: tuple[Floats, ...]  # per column before it: (its levels, splits), what a level adds to the log odds


@dataclass(frozen=True, eq=False)
class NumberStep:
    """One column of numbers, given the rest of the row and the subset's columns of few values."""

    fit: NumberFit
    added: tuple[Floats, ...]  # per column of few values: (its levels,), what a level adds to the mean
    widened: tuple[Floats, ...]  # and to the log of the spread


@dataclass(frozen=True, eq=False)
class SubsetFit:
    """The law of a subset given the rest of a row."""

    rest: Ints
    classes: tuple[ClassStep, ...]
    combinations: Ints | None  # (G, classes) of levels, all that may be drawn; None: too many to list
    pattern: ClassFit | None  # which numbers are missing or at a spike; None: none ever is
    patterns: Ints  # (patterns, numbers) 1: missing, 2: at the spike
    spikes: Floats  # (numbers,)
    numbers: tuple[NumberStep, ...]
    donors: int  # reference rows that donate
    whole: Matched | None = None  # whole rows donate, found by what the parts make of the rest of the row
    seen: RowCache = field(default_factory=RowCache)

    @property
    def columns(self) -> list[int]:
        """In the order in which they are drawn."""
        return [step.column for step in self.classes] + [step.fit.column for step in self.numbers]

    @property
    def parts(self) -> list[ClassFit | NumberFit]:
        """All regressions: of columns of few values, of numbers, of what is missing."""
        found: list[ClassFit | NumberFit] = [step.fit for step in self.classes]
        found += [step.fit for step in self.numbers]
        return found if self.pattern is None else [*found, self.pattern]

    def centres(self, space: Space, inputs: Array) -> list[Floats]:
        """What every part makes of each input, (n, numbers of the part), the leverage last."""

        def compute(given: Array) -> Floats:
            if len(given) == len(inputs):  # none was seen before: other subsets ask of the same inputs
                own, rows = shared(space, inputs)
            else:
                own, rows = space, np.zeros((len(given), len(space.rows.categories)))
                rows[:, self.rest] = given
            return np.concatenate([part.centre(own, rows, self.rest) for part in self.parts], axis=1)

        found = self.seen(np.ascontiguousarray(inputs[:, self.rest], np.float64), compute)
        ends = np.cumsum([0, *(part.width for part in self.parts)]).tolist()
        return [found[:, start:end] for start, end in pairwise(ends)]

    def fresh_centres(self, space: Space, inputs: Array) -> list[Floats]:
        """The same, not kept: for inputs that are looked at once, whose features `space` keeps for all columns."""
        return [part.centre(space, inputs, self.rest) for part in self.parts]

    def likeness(self, space: Space, inputs: Array) -> Floats:
        """What the fit makes of the rest of each row but for how sure it is, (n, q): rows alike in it are alike."""
        found = self.centres(space, inputs)[: len(self.columns)]
        split = len(self.classes)
        return np.concatenate([*(own[:, :-1] for own in found[:split]), *(own[:, :1] for own in found[split:])], axis=1)


def few_valued(space: Space, column: int) -> bool:
    """Whether a column is a list of values: a category, or numbers of which there are few and that come again."""
    if column not in space.few_valued:
        space.few_valued[column] = _few_valued(space, column)
    return space.few_valued[column]


def _few_valued(space: Space, column: int) -> bool:
    values = space.rows.values[:, column]
    held = values[~np.isnan(values)]
    levels, counts = np.unique(held, return_counts=True)
    if space.rows.categories[column] or len(levels) <= 1:
        return True
    return len(levels) <= FEW_VALUES and 2 * len(levels) <= len(held) and not _thin(counts / len(held))


def _thin(shares: Floats) -> bool:
    """Whether the shares of ordered levels rise and then fall to a rare last one: counts, which go on beyond the list.

    >>> _thin(np.array([0.3, 0.5, 0.18, 0.02])), _thin(np.array([0.03, 0.17, 0.3, 0.5])), _thin(np.array([0.98, 0.02]))
    (True, False, False)
    """
    peak = int(np.argmax(shares))
    falls = len(shares) - 1 - peak
    return falls >= 2 and shares[-1] < THIN and bool((np.diff(shares[peak:]) <= 0).all())


def fit_subset(space: Space, targets: Ints, rest: Ints) -> SubsetFit:
    """The law of the columns `targets` given those in `rest`."""
    few = [int(j) for j in targets if few_valued(space, int(j))]
    many = [int(j) for j in targets if int(j) not in few]
    stronger = STRONGER if len(few) <= LONG else STRONGER[:1]
    classes = tuple(_class_step(space, rest, few[:k], j, stronger) for k, j in enumerate(few))
    given = np.concatenate([rest, np.array(few, np.int64)])
    spikes = _spikes(space, many) if len(targets) == 1 else np.full(len(many), np.nan)
    present = complete(space, many, spikes)
    fits = (
        fit_numbers(Views(space, given, present), many)
        if len(present) >= FEWEST or len(many) < 2
        else [
            fit_numbers(Views(space, given, complete(space, [j], spikes[:1])), [j])[0]
            for j in many  # for their centres only
        ]
    )
    numbers = tuple(_number_step(space, rest, classes, fit) for fit in fits)
    pattern, patterns = _missing(space, rest, many, spikes)
    donors = len(present) if many else len(space.rows)
    return SubsetFit(rest, classes, _combinations(space, classes), pattern, patterns, spikes, numbers, donors)


def complete(space: Space, columns: list[int], spikes: Floats) -> Ints:
    """Reference rows in which none of these columns is missing or at its spike."""
    values = space.rows.values[:, columns]
    return np.flatnonzero(~(np.isnan(values) | (values == spikes)).any(axis=1))


def _spikes(space: Space, columns: list[int]) -> Floats:
    """The value of a single column of numbers that comes far too often (0 days late, 999 for never); NaN: none does.

    Of several columns together it is not asked: rows beside the spike would donate the other columns, too, which are
    others where the spike is (control p-values were below .1 twice as often as they should be).
    """
    found = np.full(len(columns), np.nan)
    if not columns:
        return found
    values = space.rows.values[:, columns[0]]
    held = values[~np.isnan(values)]
    levels, counts = np.unique(held, return_counts=True)
    first, second = np.sort(counts)[::-1][:2] if len(levels) > 1 else (0, 1)
    beside = len(held) - first
    if first >= max(SPIKE * len(held), TIMES * second) and beside >= max(FEWEST, LEAST_BESIDE * len(space.rows)):
        found[0] = levels[np.argmax(counts)]
    return found


def _class_step(space: Space, rest: Ints, before: list[int], column: int, stronger: tuple[float, ...]) -> ClassStep:
    values = space.rows.values
    views = Views(space, np.concatenate([rest, np.array(before, np.int64)]), np.arange(len(values)))
    fit = fit_classes(views, values[:, column], not space.rows.categories[column], stronger)
    per_line = [_shares(space, line, fit.form, rest, before) for line in fit.lines]
    added = tuple(np.stack(parts, axis=1) for parts in zip(*per_line, strict=True))
    return ClassStep(column, fit, added)


def _number_step(space: Space, rest: Ints, classes: tuple[ClassStep, ...], fit: NumberFit) -> NumberStep:
    before = [step.column for step in classes]
    added = _shares(space, fit.line, fit.form, rest, before)
    widened = [] if fit.scale is None else _shares(space, fit.scale, "plain", rest, before)
    return NumberStep(fit, tuple(added), tuple(widened))


def _shares(space: Space, line: Line, form: Form, rest: Ints, before: list[int]) -> list[Floats]:
    """What each level of each column of `before` adds to a regression whose first features are those of `rest`."""
    first, found = sum(space.column(form, int(j)).width for j in rest) if before else 0, []
    for j in before:
        features = space.column(form, j)(codes_of(space.rows.values[:, j])[0].astype(np.float64))
        found.append(line.share(features, first))
        first += features.shape[1]
    return found


def _combinations(space: Space, classes: tuple[ClassStep, ...]) -> Ints | None:
    """The combinations of levels that may be drawn, where they are few enough to be listed.

    Where hardly a row has a combination of its own, those that never come are taken to be impossible: by Good (1953)
    the share of rows with a combination that was not seen is about the share of rows whose combination comes once.
    """
    codes = np.stack([codes_of(space.rows.values[:, step.column])[1] for step in classes], axis=1) if classes else None
    if codes is None:
        return None
    seen, counts = np.unique(codes, axis=0, return_counts=True)
    if len(classes) > 1 and len(seen) <= JOINT and (counts == 1).sum() <= UNSEEN * len(codes):
        return seen
    sizes = [len(step.fit.levels) for step in classes]
    return np.array(list(product(*map(range, sizes)))) if prod(sizes) <= LISTED else None


def _missing(space: Space, rest: Ints, many: list[int], spikes: Floats) -> tuple[ClassFit | None, Ints]:
    """Which numbers of a group are missing or at their spikes together: a column of few values, given the rest."""
    values = space.rows.values[:, many]
    gaps = np.where(np.isnan(values), 1, np.where(values == spikes, 2, 0))
    if not gaps.any():
        return None, np.zeros((1, len(many)), np.int64)
    patterns, codes, counts = np.unique(gaps, axis=0, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_PATTERNS])
    rows = np.flatnonzero(np.isin(codes, kept))
    fit = fit_classes(Views(space, rest, rows), np.searchsorted(kept, codes[rows]).astype(np.float64), False)
    return fit, patterns[kept]


def chances(fit: SubsetFit, inputs: int, draws: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """A donor of every draw, `fit.donors` for the observed row itself, and a chance for all that is drawn besides.

    All of an input's come before those of the next: they do not depend on how many inputs follow.
    """
    besides = (min(len(fit.classes), 1) if fit.combinations is not None else len(fit.classes)) + (
        fit.pattern is not None
    )
    if not besides:
        return rng.integers(fit.donors + 1, size=(inputs, draws)), np.empty((inputs, draws, 0))
    uniform = rng.random((inputs, draws, 1 + besides))
    donors = (uniform[..., 0] * (fit.donors + 1)).astype(np.int64)
    return np.minimum(donors, fit.donors), uniform[..., 1:]


def new_values(
    fit: SubsetFit, space: Space, inputs: Array, chosen: Ints, draws: int, rng: np.random.Generator
) -> Array:
    """Values of the columns `chosen`, (n, draws, columns); the observed row is one donor more."""
    if fit.whole is not None:
        near = fit.whole.near(fit.likeness(space, inputs)) if len(inputs) else np.zeros((0, fit.donors), np.int64)
        place = rng.integers(fit.donors + 1, size=(len(inputs), draws))
        own = place == fit.donors
        fresh = space.rows.values[
            np.take_along_axis(near, np.minimum(place, fit.donors - 1), axis=1)[..., None], chosen
        ]
    else:
        donors, uniform = chances(fit, len(inputs), draws, rng)
        own = donors == fit.donors
        fresh = drawn(fit, space, inputs, np.minimum(donors, fit.donors - 1), uniform)
        fresh = fresh[:, :, [fit.columns.index(j) for j in chosen]] if len(chosen) > 1 else fresh
    fresh[own] = inputs[np.nonzero(own)[0]][:, chosen]
    return fresh


def drawn(fit: SubsetFit, space: Space, inputs: Array, donors: Ints, uniform: Floats) -> Floats:
    """Values of the columns of `fit.columns`, (n, draws, columns)."""
    centres = fit.centres(space, inputs)
    fresh = np.empty((*donors.shape, len(fit.columns)))
    codes = _codes(fit, centres, uniform)
    for k, step in enumerate(fit.classes):
        fresh[..., k] = step.fit.levels[codes[k]]
    for k, number in enumerate(fit.numbers):
        centre = centres[len(fit.classes) + k]
        mean, spread = centre[:, :1], centre[:, 1:2]
        for own, added in zip(codes, number.added, strict=True):
            mean = mean + added[own]
        for own, widened in zip(codes, number.widened, strict=bool(number.widened)):
            spread = spread * np.exp(widened)[own]
        fresh[..., len(fit.classes) + k] = number.fit.values(
            mean, spread, donors, inputs[:, number.fit.column, None].astype(np.float64)
        )
    if fit.pattern is not None:
        gaps = fit.patterns[_inverse(fit.pattern.probabilities(centres[-1][:, :-1]), uniform[..., -1])]
        own = fresh[..., len(fit.classes) :]
        own[gaps == 1] = np.nan
        np.copyto(own, np.broadcast_to(fit.spikes, own.shape), where=gaps == 2)
    return fresh


def _codes(fit: SubsetFit, centres: list[Floats], uniform: Floats) -> list[Ints]:
    """The level of every column of few values, (n, draws) each."""
    if not fit.classes:
        return []
    if fit.combinations is not None:
        place = _inverse(joint(fit, centres), uniform[..., 0])
        return [codes[place] for codes in fit.combinations.T]
    codes: list[Ints] = []
    for k, step in enumerate(fit.classes):
        odds = centres[k][:, None, :-1]
        for own, added in zip(codes, step.added, strict=bool(step.added)):  # a constant column adds nothing
            odds = odds + added[own]
        codes.append(_inverse(step.fit.probabilities(odds), uniform[..., k]))
    return codes


def joint(fit: SubsetFit, centres: list[Floats]) -> Floats:
    """Probabilities of the listed combinations, (n, G), by the chain rule."""
    assert fit.combinations is not None
    chance = np.ones((len(centres[0]), len(fit.combinations)))
    for k, step in enumerate(fit.classes):
        odds = centres[k][:, None, :-1]
        for before, added in zip(fit.combinations.T, step.added, strict=False):
            odds = odds + added[before]
        found = step.fit.probabilities(odds)
        chance *= np.take_along_axis(
            np.broadcast_to(found, (*chance.shape, found.shape[-1])), fit.combinations[None, :, k, None], axis=2
        )[..., 0]
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def _inverse(chance: Floats, uniform: Floats) -> Ints:
    """The place at which the probabilities sum up to each of `uniform` (n, draws), from (n, K) or (n, draws, K)."""
    upper = np.cumsum(chance, axis=-1)
    upper = upper[:, None, :] if upper.ndim == 2 else upper
    upper = upper / upper[..., -1:]
    found = np.zeros(uniform.shape, np.int64)
    for k in range(upper.shape[-1] - 1):
        found += uniform >= upper[..., k]
    return found


def checked(fit: SubsetFit, space: Space) -> SubsetFit:
    """The same fit, or one with whole rows as donors where its draws are no combinations as real rows have them."""
    rows, columns = space.rows, np.array(fit.columns)
    sparse = len(fit.numbers) > 1 and fit.donors < FEWEST
    if not sparse:
        if tied(rows, columns) < 2 or (not fit.numbers and fit.combinations is not None):
            return fit
        some = space.some(len(rows), CHECKED)
        rng = stream(space.seed, "residual", "check", *(rows.marks[j] for j in columns))
        donors, uniform = chances(fit, len(some), DRAWS, rng)
        fresh = drawn(fit, space, rows.values[some], np.minimum(donors, fit.donors - 1), uniform)
        if not impossible(rows, columns, some, fresh):
            return fit
    whole = matched(fit.likeness(space, rows.values))
    return replace(fit, whole=whole, donors=whole.count)


@dataclass(frozen=True, eq=False, repr=False)
class Residual:
    """x_S = mean(x_-S) + spread(x_-S) * what was missed of a reference row left out. Made by `residual`."""

    rows: ReferenceRows
    space: Space
    fits: dict[tuple[int, ...], SubsetFit] = field(default_factory=dict)  # per subset, filled as they are asked for

    takes_missing = True
    calibrated = True  # on rows that the fit has not seen

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        if self.rows.is_all(subset):
            size = len(self.rows)
            donors = rng.integers(size + 1, size=(len(inputs), draws))  # the observed row is one donor more
            return donate(self.rows, inputs, subset, np.minimum(donors, size - 1), donors == size)
        chosen = np.asarray(subset.index)
        fresh = new_values(self.fit(subset), self.space, inputs, chosen, draws, rng)
        return fresh.reshape(-1, len(chosen)).astype(inputs.dtype, copy=False)

    def repeats(self, subset: Subset) -> bool:
        """Whether draws of these columns come again so often that remembering the model's answers pays."""
        return repeats(self.rows, subset)

    def floor(self, subset: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        targets = np.asarray(subset.index)
        may_differ = tied(self.rows, targets) > 1 or np.isnan(self.rows.values[:, targets]).any()
        if self.rows.is_all(subset) or not may_differ:
            return 1 / (len(self.rows) + 1)
        return 1 / (self.fit(subset).donors + 1)

    def lists(self, subset: Subset) -> bool:
        """Whether the support is short enough to be evaluated whole."""
        if self.rows.is_all(subset):
            return False
        targets, _ = self.rows.parts(subset)
        if not all(few_valued(self.space, int(j)) for j in targets):
            return False
        fit = self.fit(subset)
        return fit.whole is None and fit.combinations is not None and len(fit.combinations) <= LISTED

    def support(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        """All values (n, m, columns) and their probabilities (n, m), the observed one first, with 1 / (rows + 1)."""
        fit = self.fit(subset)
        assert fit.combinations is not None
        chosen = np.asarray(subset.index)
        levels = [step.fit.levels for step in fit.classes]
        held = np.stack([own[codes] for own, codes in zip(levels, fit.combinations.T, strict=True)], axis=1)
        held = held[:, [fit.columns.index(j) for j in chosen]]
        chance = joint(fit, fit.centres(self.space, inputs)) * (fit.donors / (fit.donors + 1))
        own = np.full((len(inputs), 1), 1 / (fit.donors + 1))
        listed = np.broadcast_to(held, (len(inputs), *held.shape))
        return np.concatenate([inputs[:, None, chosen], listed], axis=1), np.concatenate([own, chance], axis=1)

    def leverage(self, inputs: Array, subset: Subset) -> Floats:
        """The variance of the fitted mean at each input, in units of the residuals' variance, (n,)."""
        if self.rows.is_all(subset):
            return np.zeros(len(inputs))
        parts = self.fit(subset).fresh_centres(*shared(self.space, inputs))
        return np.asarray(np.max([part[:, -1] for part in parts], axis=0))

    def leverage_of_mean(self, inputs: Array, subset: Subset) -> float:
        """The same of the fit's mean over all inputs."""
        if self.rows.is_all(subset):
            return 0.0
        fit = self.fit(subset)
        space, same = shared(self.space, inputs)
        found = [part.leverage_of_mean(space, same, fit.rest) for part in fit.parts]
        return float(max(found))

    def unfitted(self, subsets: Sequence[Subset]) -> Sequence[Callable[[], object]]:
        """Fits that are still to be made for these subsets."""
        keys = {self._key(one): one for one in subsets if not self.rows.is_all(one)}
        return [partial(self.fit, one) for key, one in keys.items() if key not in self.fits]

    def fit(self, subset: Subset) -> SubsetFit:
        """What is fitted for a subset, made when it is first asked for."""
        key = self._key(subset)
        if key not in self.fits:
            self.fits[key] = checked(fit_subset(self.space, *self.rows.parts(subset)), self.space)
        return self.fits[key]

    def _key(self, subset: Subset) -> tuple[int, ...]:
        return tuple(self.rows.parts(subset)[0].tolist())
