"""Ridge regression with every row left out in turn, in closed form, and how sure it is of its mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.core.types import Floats

PENALTIES = 10.0 ** np.arange(-5, 2.5, 0.5)  # times the number of features, which have spread 1
LEAST_POWER = 1e-10  # axes along which features vary less, relative to the largest, are left out
MOST_LEVERAGE = 0.5
BLOCK = 4_096  # rows that are turned at once


@dataclass(frozen=True, eq=False)
class Rotated:
    """Features of m rows in the axes of their own covariance: every penalty is then one division."""

    features: Floats  # (m, p)
    mean: Floats  # (p,)
    axes: Floats  # (p, k)
    power: Floats  # (k,) sums of squares along the axes

    def fits(self, wanted: Floats, penalties: Floats) -> tuple[Floats, Floats]:
        """What is left of `wanted` (m, 1 or c) when each row is predicted by the others, and leverages, (m, c) both.

        With z_r the centred features of row r: h_r = 1/m + z_r' (Z'Z + penalty)^-1 z_r; e_r = (y_r - fit_r)/(1 - h_r).
        """
        centred = wanted - wanted.mean(axis=0)
        shrink = 1 / (self.power[:, None] + penalties)  # (k, c)
        along = self.along(centred) * shrink
        missed, leverage = np.empty((2, len(wanted), len(penalties)))
        for first in range(0, len(wanted), BLOCK):
            rows = slice(first, first + BLOCK)
            scores = self.first_scores if len(wanted) <= BLOCK else self.scores(rows)
            missed[rows] = centred[rows] - scores @ along
            leverage[rows] = scores**2 @ shrink
        leverage = np.minimum(leverage + 1 / len(wanted), 1 - 1e-9)
        return missed / (1 - leverage), leverage

    def along(self, centred: Floats) -> Floats:
        """Products with the axes, (k, c)."""
        return np.asarray(self.axes.T @ (self.features.T @ centred))

    def scores(self, rows: slice) -> Floats:
        """Some rows in the axes, (rows, k)."""
        return np.asarray((self.features[rows] - self.mean) @ self.axes)

    @cached_property
    def first_scores(self) -> Floats:
        """The first rows in the axes, all of a reference that is not large."""
        return self.scores(slice(0, BLOCK))

    def line(self, wanted: Floats, penalty: float) -> Line:
        """The regression of `wanted` (m,) with this penalty on all rows."""
        level = float(wanted.mean())
        weights = self.axes @ (self.along((wanted - level)[:, None])[:, 0] / (self.power + penalty))
        return Line(level, self.mean, weights, self.axes, self.power, penalty, len(wanted))


def rotate(features: Floats, products: Floats | None = None) -> Rotated:
    """The features (m, p) of the rows of a reference, turned; `products` are features' features where known."""
    mean = features.mean(axis=0)
    size, width = features.shape
    if size < width:
        centred = features - mean
        power, left = np.linalg.eigh(centred @ centred.T)
        kept = power > LEAST_POWER * max(float(power[-1]), 1e-300)
        return Rotated(features, mean, (centred.T @ left[:, kept]) / np.sqrt(power[kept]), power[kept])
    products = features.T @ features if products is None else products
    power, axes = np.linalg.eigh(products - size * np.outer(mean, mean))
    kept = power > LEAST_POWER * max(float(power[-1]) if width else 0.0, 1e-300)
    return Rotated(features, mean, np.ascontiguousarray(axes[:, kept]), power[kept])


@dataclass(frozen=True, eq=False)
class Line:
    """A fitted regression: level + (features - mean) weights, and how much its mean would vary with the reference."""

    level: float
    mean: Floats  # (p,)
    weights: Floats  # (p,)
    axes: Floats  # (p, k)
    power: Floats  # (k,)
    penalty: float
    rows: int

    def at(self, features: Floats) -> tuple[Floats, Floats]:
        """The mean and its leverage (its variance in units of the residuals'), (n,) both.

        `features` may be the first ones only: the others are then taken at their mean.
        """
        width = features.shape[1]
        centred = (features - self.mean[:width])[:, None, :]
        along = (centred @ self.axes[:width])[:, 0, :] ** 2
        beside = np.maximum((centred[:, 0, :] ** 2).sum(axis=1) - along.sum(axis=1), 0)  # where no reference row lies
        leverage = 1 / self.rows + (along / (self.power + self.penalty)).sum(axis=1) + beside / self.penalty
        return self.means(features), leverage

    def means(self, features: Floats) -> Floats:
        """The mean alone, (n,): its leverage takes many times longer."""
        width = features.shape[1]
        # One small product per row, not one large: a row's bits then do not depend on the rows beside it.
        centred = (features - self.mean[:width])[:, None, :]
        return np.asarray((centred @ self.weights[:width, None])[:, 0, 0] + self.level)

    def share(self, features: Floats, first: int) -> Floats:
        """What some features, those from place `first` on, add to the mean, (n,)."""
        part = slice(first, first + features.shape[1])
        return np.asarray((features - self.mean[part]) @ self.weights[part])


def least_penalty(rotated: Rotated) -> float:
    """The least penalty that leaves more than half of the freedom in the rows: with it the mean is hardly shrunk."""
    size = max(len(rotated.features), 1)
    for penalty in PENALTIES * max(rotated.mean.size, 1):
        if (rotated.power / (rotated.power + penalty)).sum() <= MOST_LEVERAGE * size:
            return float(penalty)
    return float(PENALTIES[-1] * max(rotated.mean.size, 1))


def best_penalty(rotated: Rotated, wanted: Floats) -> float:
    """The penalty under which rows that were left out are predicted best; absolute errors, for long tails.

    Only penalties that leave more than half of the freedom in the rows: where a fit nearly passes through its rows, one
    row less changes it altogether, and rows left out no longer tell how new ones are missed.
    """
    penalties = PENALTIES * max(rotated.mean.size, 1)
    left, leverage = rotated.fits(wanted[:, None], penalties)
    errors = np.where(leverage.mean(axis=0) <= MOST_LEVERAGE, np.abs(left).mean(axis=0), np.inf)
    errors[-1] = min(errors[-1], np.finfo(np.float64).max)
    return float(penalties[np.argmin(errors)])
