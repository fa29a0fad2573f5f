"""Sampler: the exact conditional of a multivariate normal fitted to the reference."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from butfor.tabular.donors import ColumnDistribution, StepMass, lower_ends, round_limits, upper_ends
from butfor.tabular.splice import ConditionalCache, TableSampler
from butfor.tabular.table import constant, numbers_of
from butfor.types import Array, Floats, Ints, Subset

LEFT_OUT = 1_000  # reference rows that are predicted from the others: more would not tell their spread any better
RIDGE = 1e-6  # two rows, or a balanced yes/no in two columns, shrink by nothing


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Reference rows, each predicted by the fit without it: how far real values lie from their predictions.

    Without row x, the covariance is C - w x x', its inverse L + w g g' / (1 - w x'g), where g = L x (Sherman-Morrison).
    """

    products: Floats  # (rows, d) g
    length: Floats  # (rows,) x'g
    share: float  # w
    farther: float  # the mean without a row lies farther from it by this factor

    def wider(self, precision: Floats, covariance: Floats, chosen: Ints) -> float:
        """Return by how much the variance of x_S given the rest is larger than the fit says, at least 1.

        A fit to few rows of many columns explains too much of them, and of none but them.
        """
        products = self.products[:, chosen]
        residual = products @ covariance  # L_SS^-1 g_S: how far x_S lies from its prediction by a fit that has seen it
        along = (products * residual).sum(axis=1)
        left_out = residual * (self.farther / np.maximum(1 - self.share * (self.length - along), 1e-9))[:, None]
        return max(1.0, float(((left_out @ precision) * left_out).sum(axis=1).mean()) / len(chosen))


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian:
    """x_S | x_-S ~ N(mean - L_SS^-1 L_S,-S (x_-S - mean), L_SS^-1), L the precision matrix. Made by `gaussian`.

    A fitted one is wider, by what `left_out` says and by Student's t: a spread that is known from m rows only.
    """

    mean: Floats  # (d,)
    precision: Floats  # (d, d)
    integer_bounds: tuple[tuple[float, float] | None, ...]  # (d,) of a column of integers; None: of any numbers
    left_out: LeftOut | None = None  # None: the normal is known, not fitted
    freedom: int | None = None  # degrees of freedom of Student's t in place of the normal; None: the normal
    cache: ConditionalCache = field(default_factory=ConditionalCache, init=False)

    def __repr__(self) -> str:  # short: a run needs it ten times
        return f"Gaussian({len(self.mean)} columns, freedom={self.freedom})"

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        chosen = np.asarray(subset.index)
        weights, spread = self.conditional(chosen)
        # One small product per input, not one large: a row's bits then do not depend on the rows beside it.
        centred = (inputs - self.mean)[:, None, :]
        mean = self.mean[chosen] + centred @ weights  # (n, 1, columns)
        noise = rng.standard_normal((len(inputs), draws, len(chosen)))
        noise = noise * spread[0, 0] if len(chosen) == 1 else noise @ spread
        if self.freedom is not None:
            half = self.freedom / 2
            noise *= np.sqrt(half / rng.spawn(1)[0].standard_gamma(half, noise.shape[:2]))[:, :, None]
        fresh = np.asarray((mean + noise).reshape(-1, len(chosen)))
        for k, j in enumerate(chosen):
            if (span := self.integer_bounds[j]) is not None:
                fresh[:, k] = np.clip(np.rint(fresh[:, k]), *span)
        return fresh

    def conditional(self, chosen: Ints) -> tuple[Floats, Floats]:
        """Return weights (d, columns) of the mean given all other columns, and the factor of standard normals."""

        def compute() -> tuple[Floats, Floats]:
            precision = self.precision[np.ix_(chosen, chosen)]
            covariance: Floats = np.asarray(np.linalg.inv(precision), np.float64)
            weights = -(covariance @ self.precision[chosen]).T  # (d, columns)
            weights[chosen] = 0.0
            wider = 1.0 if self.left_out is None else self.left_out.wider(precision, covariance, chosen)
            return weights, np.asarray(np.linalg.cholesky(covariance * wider).T, np.float64)

        return self.cache(chosen, compute)

    def cdf(self, subset: Subset) -> ColumnDistribution:
        column = int(subset.index[0])
        span = self.integer_bounds[column]

        def distribution(inputs: Array, cuts: Floats, starts: Ints) -> StepMass:
            limits = cuts
            if span is not None:
                limits = np.where(cuts >= span[1], np.inf, np.where(cuts < span[0], -np.inf, round_limits(cuts, 1.0)))
            mass = np.diff(self.below(inputs, column, lower_ends(limits, starts)), axis=1, append=1.0)
            lower, observed = lower_ends(cuts, starts), inputs[:, column][:, None]
            values = np.clip(observed, np.nextafter(lower, np.inf), upper_ends(lower))
            if span is not None:
                values = np.clip(np.where(lower >= observed, np.floor(lower) + 1, np.floor(values)), *span)
            return StepMass(mass, values, np.zeros(len(inputs)), 0.0)

        return distribution

    def below(self, inputs: Array, column: int, limits: Floats) -> Floats:
        """Return the probability that a column is at most each limit (n, V), given the other columns."""
        from scipy.special import ndtr, stdtr

        weights, spread = self.conditional(np.array([column]))
        mean = self.mean[column] + ((inputs - self.mean)[:, None, :] @ weights)[:, 0, 0]
        scaled = (limits - mean[:, None]) / float(spread[0, 0])
        return np.asarray(ndtr(scaled) if self.freedom is None else stdtr(self.freedom, scaled))


def gaussian(reference: object) -> TableSampler:
    """Make a sampler from a multivariate normal, fitted with Ledoit-Wolf shrinkage (on standardised columns).

    Redraws any group of columns from its conditional given the rest of the row: as wide as reference rows scatter that
    the fit has not seen (each left out in turn), with Student's t for a spread known from that many rows. Right for
    roughly normal, correlated columns, also where there are more of them than rows. Draws of a column of integers
    are rounded, and not negative where the reference has nothing negative.

    Parameters
    ----------
    reference : array-like or DataFrame of shape (rows, columns)
        Rows as they look when there is nothing to report: controls, another class, last year.

    Returns
    -------
    TableSampler
        Draws any subset of the columns.

    Examples
    --------
    >>> reference = np.random.default_rng(0).normal(size=(200, 3))
    >>> gaussian(reference)
    gaussian(200 reference rows, 3 columns)
    """
    table = numbers_of(reference, "a Gaussian")
    values = table.values.astype(np.float64)
    mean, scale = values.mean(axis=0), values.std(axis=0)
    flat = scale <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    if flat.any():
        column = int(np.flatnonzero(flat)[0])
        raise constant(table.columns[column], values[0, column], "a Gaussian")
    return TableSampler(fit(values), "gaussian", table)


def fit(values: Floats) -> Gaussian:
    """Fit a normal to rows (m, d) in which every column varies."""
    mean, scale = values.mean(axis=0), values.std(axis=0)
    inverse, shrunk = _inverse((values - mean) / scale)
    precision = inverse / np.outer(scale, scale)
    precision = (precision + precision.T) / 2
    integers = tuple(bounds(x) if (x % 1 == 0).all() else None for x in values.T)
    size, centred = len(values), values - mean
    rows = centred[np.linspace(0, size - 1, min(size, LEFT_OUT)).astype(np.int64)]  # evenly spread
    products = np.asfortranarray(rows @ precision)  # read by columns
    left_out = LeftOut(products, (rows * products).sum(axis=1), (1 - shrunk) / (size - 1), size / (size - 1))
    return Gaussian(mean, precision, integers, left_out, size - 1)


def bounds(column: Floats) -> tuple[float, float]:
    """Return what values cannot leave by their nature: 0 where nothing is below, yes and no where only those are.

    Never what the reference or an input happens to reach: a draw that is cut off at the observed value can tie with it
    and not exceed it, so that a null one beyond the reference would win against its draws, and never lose.

    >>> bounds(np.array([0.0, 1, 1])), bounds(np.array([3.0, 7])), bounds(np.array([-2.0, 7]))
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    low, high = float(column.min()), float(column.max())
    return (low, high) if high - low <= 1 and low >= 0 else (0.0 if low >= 0 else -np.inf, np.inf)


def _inverse(centred: Floats) -> tuple[Floats, float]:
    """Return the inverse (d, d) of the shrunken covariance of rows (m, d), and by how much it is shrunk.

    Where columns outnumber rows it comes from the products of rows (Woodbury): m d^2 steps in place of d^3.
    """
    rows, width = centred.shape
    if width <= rows:
        covariance, shrunk = ledoit_wolf(centred)
        return np.asarray(np.linalg.inv(covariance + RIDGE * np.eye(width)), np.float64), shrunk
    products = centred @ centred.T / rows
    target, shrunk = _shrinkage(float(np.trace(products)), float((products**2).sum()), centred)
    diagonal = shrunk * target + RIDGE
    inner = np.linalg.inv(diagonal * np.eye(rows) + (1 - shrunk) * products)
    inverse = centred.T @ (inner @ centred)
    inverse *= -(1 - shrunk) / (rows * diagonal)
    inverse[np.diag_indices(width)] += 1 / diagonal
    return np.asarray(inverse), shrunk


def ledoit_wolf(centred: Floats) -> tuple[Floats, float]:
    """Return the covariance shrunk towards a multiple of the identity (Ledoit & Wolf 2004), and by how much.

    As scikit-learn's, but the sum of all products of squares is that of the rows' squared lengths, squared: one large
    matrix product less, which is half of the time of a fit.

    >>> covariance, shrunk = ledoit_wolf(np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -0.5], [-1.0, 0.5]]))
    >>> round(shrunk, 2)
    1.0
    """
    rows, width = centred.shape
    covariance = centred.T @ centred / rows
    target, shrunk = _shrinkage(float(np.trace(covariance)), float((covariance**2).sum()), centred)
    return np.asarray((1 - shrunk) * covariance + shrunk * target * np.eye(width)), shrunk


def _shrinkage(trace: float, squares: float, centred: Floats) -> tuple[float, float]:
    """Return the diagonal of the target and its weight, from the covariance's trace and sum of squares."""
    rows, width = centred.shape
    target = trace / width
    distance = squares - width * target**2  # squared, from the target
    error = (float(((centred**2).sum(axis=1) ** 2).sum()) / rows - squares) / rows
    return target, min(error, distance) / distance if distance > 0 and error > 0 else 0.0
