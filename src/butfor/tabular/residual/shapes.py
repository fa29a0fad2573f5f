"""Bends of one column that make a skewed one more even, and back: Yeo-Johnson, the logarithm, or none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.arrays import median
from butfor.core.types import Floats

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
