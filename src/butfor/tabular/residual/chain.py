"""All that is fitted for one subset: values of few kinds one after the other, then numbers from one donor row."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod

import numpy as np

from butfor.core.types import Array, Floats, Ints
from butfor.tabular.residual.choice import Views
from butfor.tabular.residual.classes import STRONGER, ClassFit, codes_of, fit_classes
from butfor.tabular.residual.design import FEW_VALUES, Form, Space
from butfor.tabular.residual.matched import Matched
from butfor.tabular.residual.numbers import NumberFit, fit_numbers
from butfor.tabular.residual.ridge import Line
from butfor.tabular.residual.shared import shared
from butfor.tabular.row_cache import RowCache

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
