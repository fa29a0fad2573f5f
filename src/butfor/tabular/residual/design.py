"""The design matrix of a regression: every column of a row in a basis, and products of pairs of them.

- "plain": a number as it is, a category as a flag for each value.
- "shaped": numbers after the power transform under which they look most normal.
- "logs": the logarithm of numbers that are all positive.
- "curved": shaped, with natural cubic splines, or a flag for each value where there are few.
- "levels": flags alone, for whole numbers of few values (codes, hours, grades).

Columns of the matrix have mean 0 and spread 1 in the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import Any, Literal, TypeVar

import numpy as np

from butfor.streams import stream
from butfor.tabular.donors import ReferenceRows, frequent
from butfor.types import Array, Floats, Ints

POWERS = np.linspace(0, 2, 21)  # below 0 the inverse of Yeo-Johnson explodes, above 2 that of the negative side
MOST_LOG = 700.0  # exp of more is infinite
STEPS = tuple(head * 10.0**k for k in range(9, -7, -1) for head in (5.0, 2.5, 2.0, 1.0))
DAY = 86_400_000_000.0  # in microseconds, as times are stored
UNEVEN = 1e-9  # of a step: values this near to a multiple of it are multiples
T = TypeVar("T")


@dataclass(frozen=True)
class PowerTransform:
    """y -> yeo_johnson((y - centre) / scale, power), or log(y / scale); power 1 is linear.

    Not scikit-learn's PowerTransformer: it takes 22 times as long on 2,000 values, and may choose powers below 0.
    """

    centre: float
    scale: float
    power: float = 1.0
    log: bool = False

    @property
    def linear(self) -> bool:
        return self.power == 1.0 and not self.log

    def __call__(self, values: Floats) -> Floats:
        if self.log:
            return np.log(np.maximum(values / self.scale, 1e-300))
        standardised = (values - self.centre) / self.scale
        return standardised if self.power == 1.0 else yeo_johnson(standardised, self.power)

    def inverse(self, values: Floats) -> Floats:
        if self.log:
            return np.asarray(np.exp(np.minimum(values, MOST_LOG)) * self.scale)
        standardised = values if self.power == 1.0 else inverse_yeo_johnson(values, self.power)
        return standardised * self.scale + self.centre


def yeo_johnson(x: Floats, power: float) -> Floats:
    """Return equation (2.1) of Yeo and Johnson (2000), for powers from 0 to 2."""
    return _yeo_johnson(np.log1p(np.maximum(x, 0)), np.log1p(np.maximum(-x, 0)), power)


def _yeo_johnson(up: Floats, down: Floats, power: float) -> Floats:
    """Return ((1 + x)^power - 1) / power of each sign, from log(1 + x) and log(1 - x)."""
    above = up if power == 0 else np.expm1(power * up) / power
    return above - (down if power == 2 else np.expm1((2 - power) * down) / (2 - power))


def inverse_yeo_johnson(x: Floats, power: float) -> Floats:
    def inverse(values: Floats, power: float) -> Floats:
        logs = values if power == 0 else np.log1p(power * values) / power
        return np.expm1(np.minimum(logs, MOST_LOG))

    return inverse(np.maximum(x, 0), power) - inverse(np.maximum(-x, 0), 2 - power)


def best_power(standardised: Floats) -> float:
    """Return the power under which values look most normal: maximum likelihood on a grid.

    >>> best_power(np.random.default_rng(0).lognormal(size=500)) < 0.5
    True
    """
    slope = float((np.sign(standardised) * np.log1p(np.abs(standardised))).mean())
    up, down = np.log1p(np.maximum(standardised, 0)), np.log1p(np.maximum(-standardised, 0))
    transformed = [_yeo_johnson(up, down, power) for power in POWERS.tolist()]
    variance = np.concatenate(transformed).reshape(len(POWERS), -1).var(axis=1)
    likelihood = (POWERS - 1) * slope - np.log(np.maximum(variance, 1e-300)) / 2
    best = int(np.argmax(likelihood))
    # A power that gains little is noise: two log-likelihood units are what one more parameter is worth.
    return float(POWERS[best]) if (likelihood[best] - likelihood[10]) * len(standardised) > 2 else 1.0


@dataclass(frozen=True)
class Grid:
    """The values that a column can have: multiples of a step, not negative.

    Never what the reference happens to reach (see `gaussian.bounds`): draws that are cut at the observed value tie with
    it and never exceed it.
    """

    step: float | None
    nonnegative: bool

    def __call__(self, values: Floats) -> Floats:
        if self.step is not None:
            values = np.rint(values / self.step) * self.step
        return np.maximum(values, 0.0) if self.nonnegative else values


def grid_of(values: Floats) -> Grid:
    """Return the coarsest step that all values of a column are multiples of, and whether there is nothing below 0.

    >>> grid_of(np.array([0.5, 1.0, 4.5])), grid_of(np.array([-3.0, 7.0, 8.0])).step
    (Grid(step=0.5, nonnegative=True), 1.0)
    """
    nonnegative = bool(values.min() >= 0)
    largest = float(np.abs(values).max())
    for step in (DAY, *STEPS):
        if step <= largest and (np.abs(values / step - np.rint(values / step)) < UNEVEN).all():
            return Grid(step, nonnegative)
    return Grid(None, nonnegative)


Form = Literal["plain", "shaped", "logs", "curved", "levels"]
FEW_VALUES = 8  # a column of so many values, or fewer, is a list of values
MOST_FLAGS = 64  # categories that have a flag, the most frequent ones
LEVELS = (3, 40)  # fewest and most values of whole numbers that have a flag each
SHAPED_ON = 2_000  # rows that a power is sought on
KNOTS = np.array([0.05, 0.275, 0.5, 0.725, 0.95])  # quantiles (Harrell, Regression Modeling Strategies, section 2.4)


@dataclass(frozen=True)
class Terms:
    """The terms of a regression: the columns in a form, flags of levels, products of pairs, or some of all these."""

    form: Form
    levels: bool = False
    pairs: tuple[tuple[int, int], ...] = ()  # positions among the features of `paired`
    picked: tuple[int, ...] | None = None  # None: all of them

    @property
    def paired(self) -> Form:
        """The form whose features are multiplied."""
        return "shaped" if self.form == "curved" else self.form

    def join(self, matrix: Callable[[Form], Floats]) -> Floats:
        """Return the design matrix (n, features) from those of forms."""
        parts = [matrix(self.form)]
        if self.levels:
            parts.append(matrix("levels"))
        if self.pairs:
            one, other = np.array(self.pairs).T
            parts.append(matrix(self.paired)[:, one] * matrix(self.paired)[:, other])
        joined = np.concatenate(parts, axis=1)
        return joined if self.picked is None else joined[:, list(self.picked)]


@dataclass(frozen=True, eq=False)
class Basis:
    """The basis functions of one column; a missing number has the mean of the others."""

    transform: PowerTransform | None  # None: a category, or nothing but a flag for missing
    mean: float = 0.0
    scale: float = 1.0
    knots: Floats | None = None
    orthogonal: Floats | None = None  # (2 + splines, splines) from 1, x and splines to what x does not explain
    categories: Floats | None = None  # a flag for each
    gaps: bool = False  # a flag for missing

    def __call__(self, values: Floats) -> Floats:  # (n,) -> (n, width)
        missing = np.isnan(values)
        parts: list[Floats] = []
        if self.transform is not None:
            x = np.where(missing, 0.0, (self.transform(values) - self.mean) / self.scale)
            parts.append(x[:, None])
            if self.knots is not None and self.orthogonal is not None:
                splines = np.column_stack([np.ones_like(x), x, _splines(x, self.knots)])[:, None, :] @ self.orthogonal
                parts.append(np.where(missing[:, None], 0.0, splines[:, 0, :]))
        if self.categories is not None:
            parts.append((values[:, None] == self.categories) * 2.0)  # a flag of one half has spread 1
        if self.gaps:
            parts.append(missing[:, None] * 2.0)
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(values), 0))

    @property
    def width(self) -> int:
        splines = 0 if self.orthogonal is None else self.orthogonal.shape[1]
        flags = 0 if self.categories is None else len(self.categories)
        return (0 if self.transform is None else 1 + splines) + flags + self.gaps


def basis_of(values: Floats, categorical: bool, form: Form, power: float) -> Basis:
    """Return the basis of one column of the reference; `power` is its transform in all forms but the plain one."""
    missing = np.isnan(values)
    present = values[~missing]
    gaps = bool(missing.any() and len(present))
    levels = np.unique(present)
    if len(levels) < 2:
        return Basis(None, gaps=gaps)
    if categorical and form == "levels":
        return Basis(None)
    if categorical:
        flags = frequent(present, MOST_FLAGS)
        return Basis(None, categories=flags[1:] if len(flags) == 2 else flags, gaps=gaps)
    if form == "levels":
        few = LEVELS[0] <= len(levels) <= LEVELS[1] and bool((levels == np.rint(levels)).all())
        return Basis(None, categories=levels if few else None)
    power = power if form in ("shaped", "curved") and len(levels) > FEW_VALUES else 1.0
    in_logs = form == "logs" and present.min() > 0
    transform = PowerTransform(float(np.median(present)), float(present.std()), power, in_logs)
    x = transform(present)
    mean, scale = float(x.mean()), float(x.std())
    if form != "curved" or len(levels) == 2:
        return Basis(transform, mean, scale, gaps=gaps)
    if len(levels) <= FEW_VALUES:
        return Basis(transform, mean, scale, categories=levels, gaps=gaps)
    return Basis(transform, mean, scale, *_orthogonal_splines((x - mean) / scale), gaps=gaps)


def _splines(x: Floats, knots: Floats) -> Floats:
    """Return natural cubic splines but for 1 and x, (n, knots - 2): linear beyond the knots (Hastie et al., 5.2.1).

    Not scikit-learn's SplineTransformer: its B-splines are not natural, and their space is another one.
    """
    last, before = knots[-1], knots[-2]
    cubes = np.maximum(x[:, None] - knots, 0) ** 3
    slopes = (cubes[:, :-1] - cubes[:, -1:]) / (last - knots[:-1])
    return np.asarray((slopes[:, :-1] - slopes[:, -1:]) / (last - before))


def _orthogonal_splines(x: Floats) -> tuple[Floats | None, Floats | None]:
    """Return knots, and the matrix that makes splines of spread 1 which neither x nor each other explain."""
    knots = np.unique(np.quantile(x, KNOTS))
    if len(knots) < 3:
        return None, None
    columns = np.column_stack([np.ones_like(x), x, _splines(x, knots)])
    lengths = np.sqrt((columns**2).mean(axis=0))
    upper = np.linalg.qr(columns / lengths, mode="r") / np.sqrt(len(x))
    if (np.abs(np.diag(upper)) < 1e-6).any():
        return None, None
    orthogonal = np.linalg.inv(upper)[:, 2:] / lengths[:, None]
    return knots, np.asarray(orthogonal * np.sign(np.diag(upper)[2:]))


MOST_KEPT = 2**20  # cells of inputs whose design matrix is kept: about 50 MB
RARE = 0.05  # share of rows below which the last of ordered values is not the last that there can be


class KeptInputs:
    """The design matrix of the inputs seen last, of all columns in order of marks: other subsets need most of it."""

    def __init__(self, inputs: Array) -> None:
        self.inputs = inputs
        self.full: dict[Form, tuple[Floats, list[int]]] = {}  # and where the features of each column begin
        self.last: tuple[bytes, dict[Form, Floats]] = b"", {}  # of the columns that were needed last


class Design:
    """The design matrices of a reference and of inputs, in each form; what is computed is not pickled."""

    def __init__(self, rows: ReferenceRows, seed: int = 0, *, trees: bool = True) -> None:
        self.rows, self.seed, self.trees = rows, seed, trees
        self._known: dict[Any, Any] = {}
        self._kept: KeptInputs | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Design, trees=self.trees), (self.rows, self.seed)

    def once(self, compute: Callable[..., T], *key: Any) -> T:
        """Return `compute(*key)`, computed once."""
        if (compute.__name__, *key) not in self._known:
            self._known[compute.__name__, *key] = compute(*key)
        return self._known[compute.__name__, *key]  # type: ignore[no-any-return]

    def subsample(self, size: int, most: int) -> Ints:
        """Return positions of at most so many rows of `size`, in their order."""
        if size <= most:
            return np.arange(size)
        return np.sort(stream(self.seed, "residual", "rows").permutation(size)[:most])

    def present(self, j: int) -> Floats:
        """Return the values of a column of the reference that are not missing."""
        values = self.rows.values[:, j].astype(np.float64)
        return np.asarray(values[~np.isnan(values)])

    def ranges(self) -> Floats:
        """Return the least and largest value of every column of numbers, (2, d); categories have no end."""
        ends = np.array([[-np.inf], [np.inf]]) * np.ones(self.rows.values.shape[1])
        for j in np.flatnonzero(~np.array(self.rows.categorical, bool)).tolist():
            if len(present := self.present(j)):
                ends[:, j] = present.min(), present.max()
        return ends

    def few_valued(self, j: int) -> bool:
        """Return whether a column is a list of values: categories, or few numbers that come again."""
        levels, counts = np.unique(self.present(j), return_counts=True)
        if self.rows.categorical[j] or len(levels) <= 1:
            return True
        return len(levels) <= FEW_VALUES and 2 * len(levels) <= counts.sum() and not goes_on(counts / counts.sum())

    def basis(self, form: Form, j: int) -> Basis:
        return self.once(self._basis, form, j)

    def _basis(self, form: Form, j: int) -> Basis:
        transformed = form in ("shaped", "curved") and len(self.present(j)) > 0 and not self.rows.categorical[j]
        values = self.rows.values[:, j].astype(np.float64)
        return basis_of(values, self.rows.categorical[j], form, self.once(self.power, j) if transformed else 1.0)

    def power(self, j: int) -> float:
        """Return the power under which a column of numbers looks most normal."""
        present = self.present(j)
        present = present[self.subsample(len(present), SHAPED_ON)]
        return best_power((present - np.median(present)) / (present.std() or 1.0))

    def transforms(self, j: int) -> list[PowerTransform]:
        """Return the transforms to try for a column: none, a power, and the logarithm where all is positive."""
        present, power = self.present(j), self.once(self.power, j)
        centre, scale = float(np.median(present)), float(present.std()) or 1.0
        tried = [PowerTransform(centre, scale)]
        if power != 1.0:
            tried.append(PowerTransform(centre, scale, power))
        if present.min() > 0:
            tried.append(PowerTransform(centre, scale, log=True))
        return tried

    def grid(self, j: int) -> Grid:
        return grid_of(self.present(j))

    def forms(self, columns: Ints, rows: int) -> list[Form]:
        """Return the forms worth trying with so many rows: no two alike, and splines only with rows to tell them."""
        forms: list[Form] = ["shaped", "logs"]
        transforms = {form: [self.basis(form, int(j)).transform for j in columns] for form in forms}
        forms = ["plain", *(form for form, each in transforms.items() if any(one and not one.linear for one in each))]
        if self.width("plain", columns) < self.width("curved", columns) <= rows / 3:
            forms.append("curved")
        return forms

    def width(self, form: Form, columns: Ints) -> int:
        return sum(self.basis(form, int(j)).width for j in columns)

    def keep(self, inputs: Array) -> Array:
        """Keep the design matrix of these inputs for other subsets, and return the inputs as they are known."""
        kept = self._kept
        alike = kept is not None and kept.inputs.dtype == inputs.dtype
        if kept is not None and alike and np.array_equal(kept.inputs, inputs, equal_nan=True):
            return kept.inputs
        if inputs.size <= MOST_KEPT:
            self._kept = KeptInputs(inputs)
        return inputs

    def matrix(self, inputs: Array, columns: Ints, form: Form) -> Floats:
        """Return the design matrix of these columns of any rows, (n, features)."""
        kept = self._kept
        if kept is None or inputs is not kept.inputs:
            return self._matrix(inputs, columns, form)
        key, last = columns.tobytes(), kept.last
        if last[0] != key:  # a thread beside this one may need others: replaced, never emptied
            last = kept.last = key, {}
        if form not in last[1]:
            if form not in kept.full:
                ends = accumulate(self.basis(form, int(j)).width for j in self.rows.order)
                kept.full[form] = self._matrix(inputs, self.rows.order, form), [0, *ends]
            features, ends_of = kept.full[form]
            at = np.argsort(self.rows.order)[columns].tolist()
            breaks = [k for k in range(1, len(at)) if at[k] != at[k - 1] + 1]
            runs = pairwise([0, *breaks, len(at)]) if at else ()  # few long copies: most columns stand as they are kept
            parts = [features[:, ends_of[at[a]] : ends_of[at[b - 1] + 1]] for a, b in runs]
            last[1][form] = np.concatenate([np.zeros((len(inputs), 0)), *parts], axis=1)
        return last[1][form]

    def matrices(self, inputs: Array, columns: Ints) -> Callable[[Form], Floats]:
        """Return the same for any form; each is made once, however many regressions read it."""
        return cache(partial(self.matrix, inputs, columns))

    def _matrix(self, inputs: Array, columns: Ints, form: Form) -> Floats:
        parts = [self.basis(form, int(j))(inputs[:, j].astype(np.float64)) for j in columns]
        return np.concatenate([np.zeros((len(inputs), 0)), *parts], axis=1)

    def reference(self, columns: Ints, form: Form, rows: Ints) -> tuple[Floats, Floats | None]:
        """Return the design matrix of these columns of reference rows, (m, features), and X'X of all rows if known."""
        features, products, spans = self.once(self._reference, form)
        at = np.concatenate([np.zeros(0, np.int64), *(np.arange(*spans[int(j)]) for j in columns)])
        if len(rows) == len(self.rows):
            return features[at].T, products[np.ix_(at, at)]
        return features[np.ix_(at, rows)].T, None

    def _reference(self, form: Form) -> tuple[Floats, Floats, dict[int, tuple[int, int]]]:
        order = self.rows.order.tolist()
        parts = [self._matrix(self.rows.values, np.array([j]), form).T for j in order]
        ends = [0, *accumulate(map(len, parts))]
        features = np.concatenate(parts)
        return features, features @ features.T, dict(zip(order, pairwise(ends), strict=True))


def goes_on(shares: Floats) -> bool:
    """Return whether the shares of ordered values rise and then fall to a rare last one: counts, beyond the list.

    >>> goes_on(np.array([0.3, 0.5, 0.18, 0.02])), goes_on(np.array([0.03, 0.17, 0.3, 0.5]))
    (True, False)
    >>> goes_on(np.array([0.98, 0.02]))
    False
    """
    peak = int(np.argmax(shares))
    falls = len(shares) - 1 - peak
    return falls >= 2 and shares[-1] < RARE and bool((np.diff(shares[peak:]) <= 0).all())
