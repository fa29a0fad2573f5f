"""What a regression sees of a row: every column as a few numbers, in three forms of growing freedom."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from butfor.streams import stream
from butfor.tabular.donors import ReferenceRows
from butfor.types import Array, Floats, Ints, Subset, distinct, median, quantiles

POWERS = np.linspace(0, 2, 21)  # below 0 the inverse of Yeo-Johnson explodes, above 2 that of the negative side
MOST_LOG = 700.0  # exp of more is infinite
STEPS = tuple(head * 10.0**k for k in range(9, -7, -1) for head in (5.0, 2.5, 2.0, 1.0))
DAY = 86_400_000_000.0  # in microseconds, as times are held
UNEVEN = 1e-9  # of a step: values this near to a multiple of it are multiples


@dataclass(frozen=True)
class Bend:
    """y -> bend((y - middle) / spread) and back; `power` 1 is a straight line, `log` the logarithm in its place."""

    middle: float
    spread: float
    power: float = 1.0
    log: bool = False

    @property
    def is_straight(self) -> bool:
        """Whether nothing is bent."""
        return self.power == 1.0 and not self.log

    def bent(self, values: Floats) -> Floats:
        """What the regression sees."""
        if self.log:
            return np.log(np.maximum(values / self.spread, 1e-300))
        even = (values - self.middle) / self.spread
        return even if self.power == 1.0 else yeo_johnson(even, self.power)

    def straight(self, values: Floats) -> Floats:
        """The inverse of `bent`."""
        if self.log:
            return np.asarray(np.exp(np.minimum(values, MOST_LOG)) * self.spread)
        even = values if self.power == 1.0 else from_yeo_johnson(values, self.power)
        return even * self.spread + self.middle


def shapes_of(values: Floats, power: float) -> list[Bend]:
    """The shapes to try for a column: as it is, bent by a power, and its logarithm where all is positive."""
    middle, spread = median(values), float(values.std()) or 1.0
    tried = [Bend(middle, spread)]
    if power != 1.0:
        tried.append(Bend(middle, spread, power))
    if values.min() > 0 and power < 1.0:
        tried.append(Bend(middle, spread, log=True))
    return tried


def best_power(even: Floats) -> float:
    """The power of Yeo and Johnson (2000) under which values look most normal: maximum likelihood on a grid.

    >>> best_power(np.random.default_rng(0).lognormal(size=500)) < 0.5
    True
    """
    slope = float((np.sign(even) * np.log1p(np.abs(even))).mean())
    up, down = np.log1p(np.maximum(even, 0)), np.log1p(np.maximum(-even, 0))
    bent = [_grown(up, power) - _grown(down, 2 - power) for power in POWERS.tolist()]
    spread = np.concatenate(bent).reshape(len(POWERS), -1).var(axis=1)
    fits = (POWERS - 1) * slope - np.log(np.maximum(spread, 1e-300)) / 2
    best = int(np.argmax(fits))
    # A bend that gains little is noise: two log-likelihood units are what one more number is worth.
    return float(POWERS[best]) if (fits[best] - fits[10]) * len(even) > 2 else 1.0


def yeo_johnson(x: Floats, power: float) -> Floats:
    """Equation (2.1) of Yeo and Johnson (2000), for powers from 0 to 2."""
    up, down = np.log1p(np.maximum(x, 0)), np.log1p(np.maximum(-x, 0))
    return _grown(up, power) - _grown(down, 2 - power)


def from_yeo_johnson(x: Floats, power: float) -> Floats:
    """The inverse."""
    up, down = np.maximum(x, 0), np.maximum(-x, 0)
    return _shrunk(up, power) - _shrunk(down, 2 - power)


def _grown(log: Floats, power: float) -> Floats:
    """((1 + x)^power - 1) / power, of log(1 + x)."""
    return log if power == 0 else np.expm1(power * log) / power


def _shrunk(x: Floats, power: float) -> Floats:
    if power == 0:
        return np.expm1(np.minimum(x, MOST_LOG))
    return np.expm1(np.minimum(np.log1p(power * x) / power, MOST_LOG))


@dataclass(frozen=True)
class Nature:
    """What values of a column cannot be other than: multiples of a step, and not negative.

    Never what the reference happens to reach (see `gaussian.bounds`): draws that are cut at the observed value tie with
    it and never exceed it.
    """

    step: float | None
    positive: bool

    def __call__(self, values: Floats) -> Floats:
        if self.step is not None:
            values = np.rint(values / self.step) * self.step
        return np.maximum(values, 0.0) if self.positive else values


def nature_of(values: Floats) -> Nature:
    """The coarsest step that all values of a column are multiples of, and whether there is nothing below 0.

    >>> nature_of(np.array([0.5, 1.0, 4.5])), nature_of(np.array([-3.0, 7.0, 8.0])).step
    (Nature(step=0.5, positive=True), 1.0)
    """
    positive = bool(values.min() >= 0)
    largest = float(np.abs(values).max())
    for step in (DAY, *STEPS):
        if step <= largest and (np.abs(values / step - np.rint(values / step)) < UNEVEN).all():
            return Nature(step, positive)
    return Nature(None, positive)


Form = Literal["plain", "shaped", "curved"]
FORMS: tuple[Form, ...] = ("plain", "shaped", "curved")
FEW_VALUES = 8  # a column of so many values, or fewer, is a list of values
MOST_FLAGS = 16  # levels of a category that have a flag of their own, the most frequent ones
SHAPED_ON = 2_000  # rows that a shape is sought on
KNOTS = np.array([0.05, 0.275, 0.5, 0.725, 0.95])  # quantiles (Harrell, Regression Modeling Strategies, section 2.4)


@dataclass(frozen=True, eq=False)
class ColumnFeatures:
    """One column as features, each of mean 0 and spread 1 in the reference; a missing number has the mean."""

    shape: Bend | None  # None: a category, or nothing but flags
    centre: float = 0.0
    scale: float = 1.0
    knots: Floats | None = None
    turn: Floats | None = None  # (2 + curves, curves) from 1, x and the bends to curves that x does not explain
    levels: Floats | None = None  # a flag for each
    gappy: bool = False  # a flag for missing

    def __call__(self, values: Floats) -> Floats:  # (n,) -> (n, features)
        missing = np.isnan(values)
        parts: list[Floats] = []
        if self.shape is not None:
            even = np.where(missing, 0.0, (self.shape.bent(values) - self.centre) / self.scale)
            parts.append(even[:, None])
            if self.knots is not None and self.turn is not None:
                curves = np.column_stack([np.ones_like(even), even, _bends(even, self.knots)])[:, None, :] @ self.turn
                parts.append(np.where(missing[:, None], 0.0, curves[:, 0, :]))
        if self.levels is not None:
            parts.append((values[:, None] == self.levels) * 2.0)  # a flag of one half has spread 1
        if self.gappy:
            parts.append(missing[:, None] * 2.0)
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(values), 0))

    @property
    def width(self) -> int:
        """How many features."""
        curves = 0 if self.knots is None or self.turn is None else self.turn.shape[1]
        numbers = 0 if self.shape is None else 1 + curves
        return numbers + (0 if self.levels is None else len(self.levels)) + self.gappy


def column_features(values: Floats, category: bool, form: Form, power: float) -> ColumnFeatures:
    """The features of one column of the reference; `power` is its bend in all forms but the plain one."""
    missing = np.isnan(values)
    held = values[~missing]
    gappy = bool(missing.any() and len(held))
    levels, counts = np.unique(held, return_counts=True)
    if len(levels) < 2:
        return ColumnFeatures(None, gappy=gappy)
    if category:
        frequent = np.sort(levels[np.argsort(-counts, kind="stable")[:MOST_FLAGS]])
        return ColumnFeatures(None, levels=frequent[1:] if len(frequent) == 2 else frequent, gappy=gappy)
    shape = Bend(median(held), float(held.std()))
    if form != "plain" and len(levels) > FEW_VALUES:
        shape = Bend(shape.middle, shape.spread, power)
    bent = shape.bent(held)
    centre, scale = float(bent.mean()), float(bent.std())
    if form != "curved" or len(levels) == 2:
        return ColumnFeatures(shape, centre, scale, gappy=gappy)
    if len(levels) <= FEW_VALUES:
        return ColumnFeatures(shape, centre, scale, levels=levels, gappy=gappy)
    knots, turn = _curves((bent - centre) / scale)
    return ColumnFeatures(shape, centre, scale, knots, turn, gappy=gappy)


def _bends(x: Floats, knots: Floats) -> Floats:
    """Natural cubic splines but for 1 and x, (n, knots - 2): straight beyond the outer knots (Hastie et al., 5.2.1)."""
    last, before = knots[-1], knots[-2]
    cubes = np.maximum(x[:, None] - knots, 0) ** 3
    slopes = (cubes[:, :-1] - cubes[:, -1:]) / (last - knots[:-1])
    return np.asarray((slopes[:, :-1] - slopes[:, -1:]) / (last - before))


def _curves(x: Floats) -> tuple[Floats | None, Floats | None]:
    """Knots, and how to turn the bends into curves of spread 1 that neither x nor each other explain."""
    knots = distinct(quantiles(x, KNOTS))
    if len(knots) < 3:
        return None, None
    columns = np.column_stack([np.ones_like(x), x, _bends(x, knots)])
    lengths = np.sqrt((columns**2).mean(axis=0))
    upper = np.linalg.qr(columns / lengths, mode="r") / np.sqrt(len(x))
    if (np.abs(np.diag(upper)) < 1e-6).any():
        return None, None
    turn = np.linalg.inv(upper)[:, 2:] / lengths[:, None]
    return knots, np.asarray(turn * np.sign(np.diag(upper)[2:]))


@dataclass(frozen=True, eq=False)
class Known:
    """The features of all columns of the reference in one form."""

    features: Floats  # (p, m)
    products: Floats  # (p, p)
    places: dict[int, tuple[int, int]]  # of each column, in an order that does not depend on that of the columns


class Space:
    """The features of all columns of a reference, in each form; they do not travel with a pickle."""

    def __init__(self, rows: ReferenceRows, seed: int = 0) -> None:
        self.rows, self.seed = rows, seed
        self.columns: dict[tuple[Form, int], ColumnFeatures] = {}
        self.known: dict[Form, Known] = {}
        self.shaped: dict[int, list[Bend]] = {}
        self.natures: dict[int, Nature] = {}
        self.powers: dict[int, float] = {}
        self.few_valued: dict[int, bool] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Space, (self.rows, self.seed)

    def some(self, size: int, most: int) -> Ints:
        """Places of at most so many rows of `size`, in their order."""
        if size <= most:
            return np.arange(size)
        return np.sort(stream(self.seed, "residual", "rows").permutation(size)[:most])

    def column(self, form: Form, j: int) -> ColumnFeatures:
        """How one column is seen."""
        if (form, j) not in self.columns:
            values = self.rows.values[:, j].astype(np.float64)
            bent = form != "plain" and len(self._held(j)) > 0 and not self.rows.categories[j]
            power = self.power(j) if bent else 1.0
            self.columns[form, j] = column_features(values, self.rows.categories[j], form, power)
        return self.columns[form, j]

    def shapes(self, j: int) -> list[Bend]:
        """The shapes to try for a column of numbers."""
        if j not in self.shaped:
            self.shaped[j] = shapes_of(self._held(j), self.power(j))
        return self.shaped[j]

    def power(self, j: int) -> float:
        """The bend under which a column of numbers looks most normal."""
        if j not in self.powers:
            held = self._held(j)[self.some(len(self._held(j)), SHAPED_ON)]
            self.powers[j] = best_power((held - median(held)) / (held.std() or 1.0))
        return self.powers[j]

    def nature(self, j: int) -> Nature:
        """What values of a column cannot be other than."""
        if j not in self.natures:
            self.natures[j] = nature_of(self._held(j))
        return self.natures[j]

    def _held(self, j: int) -> Floats:
        values = self.rows.values[:, j].astype(np.float64)
        return np.asarray(values[~np.isnan(values)])

    def of(self, inputs: Array, columns: Ints, form: Form) -> Floats:
        """The features of these columns of any rows, (n, features)."""
        parts = [self.column(form, int(j))(inputs[:, j].astype(np.float64)) for j in columns]
        return np.concatenate([np.zeros((len(inputs), 0)), *parts], axis=1)

    def reference(self, columns: Ints, form: Form, rows: Ints) -> tuple[Floats, Floats | None]:
        """The features of these columns of some rows of the reference, (m, features), and their products if known."""
        if form not in self.known:
            self.known[form] = self._all(form)
        known = self.known[form]
        places = np.concatenate([np.zeros(0, np.int64), *(np.arange(*known.places[int(j)]) for j in columns)])
        if len(rows) == len(self.rows):
            return known.features[places].T, known.products[np.ix_(places, places)]
        return known.features[np.ix_(places, rows)].T, None

    def _all(self, form: Form) -> Known:
        order, _ = self.rows.parts(Subset("all", np.arange(len(self.rows.categories))))
        parts = [self.of(self.rows.values, np.array([j]), form).T for j in order]
        ends = np.cumsum([len(part) for part in parts])
        places = {int(j): (int(end) - len(part), int(end)) for j, end, part in zip(order, ends, parts, strict=True)}
        features = np.concatenate(parts)
        return Known(features, features @ features.T, places)

    def forms(self, columns: Ints, rows: int) -> list[Form]:
        """The forms worth trying with so many rows: no two alike, and curves only where there are rows to tell them."""
        found: list[Form] = ["plain"]
        if any(self._skewed(int(j)) for j in columns):
            found.append("shaped")
        straight, curved = (sum(self.column(form, int(j)).width for j in columns) for form in (FORMS[0], FORMS[2]))
        if straight < curved <= rows / 3:
            found.append("curved")
        return found

    def _skewed(self, j: int) -> bool:
        shape = self.column("shaped", j).shape
        return shape is not None and shape.power != 1.0


class SharedSpace(Space):
    """The features of some inputs, kept."""

    def __init__(self, space: Space, inputs: Array) -> None:
        super().__init__(space.rows, space.seed)
        self.inputs, self._space = inputs, space
        self._whole: dict[Form, tuple[Floats, list[int], list[int]]] = {}
        self._last: tuple[bytes, dict[Form, Floats]] = (b"", {})  # columns that were asked for last

    def of(self, inputs: Array, columns: Ints, form: Form) -> Floats:
        """The features of these columns, (n, features)."""
        if inputs is not self.inputs:
            return self._space.of(inputs, columns, form)
        key, last = columns.tobytes(), self._last
        if last[0] != key:  # a thread beside this one may ask for others
            last = self._last = (key, {})
        together = last[1]
        if form not in together:
            together[form] = self._some(columns, form)
        return together[form]

    def _some(self, columns: Ints, form: Form) -> Floats:
        """Features of some columns, out of those of all: few long copies, where most columns stand as they are kept."""
        if form not in self._whole:
            self._whole[form] = self._all_columns(form)
        features, places, ends = self._whole[form]
        at = [places[j] for j in columns.tolist()]
        breaks = [k for k in range(1, len(at)) if at[k] != at[k - 1] + 1]
        runs = pairwise([0, *breaks, len(at)]) if at else ()
        parts = [features[:, ends[at[a]] : ends[at[b - 1] + 1]] for a, b in runs]
        return np.concatenate([np.zeros((len(self.inputs), 0)), *parts], axis=1)

    def _all_columns(self, form: Form) -> tuple[Floats, list[int], list[int]]:
        """The features of all columns, the place of each column among them, and where the features of a place begin.

        They stand in the order that the rest of a row is asked for in, whichever column is left out.
        """
        order, _ = self.rows.parts(Subset("all", np.arange(len(self.rows.categories))))
        parts = [self._space.of(self.inputs, np.array([j]), form) for j in order]
        ends = [0, *accumulate(part.shape[1] for part in parts)]
        return np.concatenate(parts, axis=1), np.argsort(order).tolist(), ends


_last: WeakKeyDictionary[Space, SharedSpace] = WeakKeyDictionary()
MOST_KEPT = 2**20  # cells of inputs whose features are kept: some 50 MB


def shared(space: Space, inputs: Array) -> tuple[Space, Array]:
    """The space that keeps the features of these inputs, and the inputs as it knows them."""
    known = _last.get(space)
    if known is not None and (known.inputs is inputs or _same(known.inputs, inputs)):
        return known, known.inputs
    if inputs.size > MOST_KEPT:
        return space, inputs
    made = _last[space] = SharedSpace(space, inputs)
    return made, inputs


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
