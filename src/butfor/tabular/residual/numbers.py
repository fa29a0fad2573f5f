"""Columns of numbers given others: a regression, and what it missed of reference rows that it had not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from butfor.core.arrays import quantiles
from butfor.core.types import Array, Floats, Ints
from butfor.tabular.residual.choice import RegressionChoice, Views, choose, log_size
from butfor.tabular.residual.design import Form, Space
from butfor.tabular.residual.ridge import Line, least_penalty
from butfor.tabular.residual.shapes import Bend, Nature

USUAL = 0.95  # share of reference rows at which rival means are as far apart as is usual
FARTHEST = 10.0  # standard deviations that rival means count as apart at most
WIDEST = float(np.log(10))  # beyond what the reference shows, the spread grows by this factor at most


@dataclass(frozen=True, eq=False)
class Rival:
    """Another regression of the same column that scored nearly as well: where it goes apart, nobody knows the mean."""

    form: Form
    shape: Bend
    line: Line


@dataclass(frozen=True, eq=False)
class NumberFit:
    """x~ = shape^-1(mean(rest) + spread(rest) * e_r), e_r what was missed of reference row r, left out of the fit."""

    column: int
    form: Form
    line: Line
    shape: Bend
    nature: Nature
    reach: tuple[float, float]  # of the reference
    donors: Floats  # (m,)
    size: float  # of what the regression misses, that distances of means are measured in
    unshrunk: Line  # the same regression with hardly a penalty: how far the penalty moves the mean
    scale: Line | None = None  # of log |e| on plain features; None: the same everywhere
    scales: tuple[float, float] = (0.0, 0.0)  # bounds of its logarithm
    rivals: tuple[Rival, ...] = ()
    usual: float = 0.0  # how far apart rivals are at reference rows, squared: what was missed there has it in it
    gaps: tuple[float, ...] = ()  # of each rival's means from this one's, over all reference rows

    @property
    def width(self) -> int:
        """Numbers of a centre."""
        return 3

    @cached_property
    def order(self) -> Ints:
        """Donors from the least to the largest, (m,): a fit does not change, so they are sorted once."""
        return np.argsort(self.donors, kind="stable")

    def centre(self, space: Space, inputs: Array, rest: Ints) -> Floats:
        """Mean, spread and leverage at each input, (n, 3); where rivals disagree the mean is known less well."""
        features = {form: space.of(inputs, rest, form) for form in self.forms}
        mean, leverage = self.line.at(features[self.form])
        apart = self.apart(mean, features)
        spread = np.sqrt((1 + leverage) * (1 + apart))
        if self.scale is not None:
            spread = spread * np.exp(np.clip(self.scale.means(space.of(inputs, rest, "plain")), *self.scales))
        return np.stack([mean, spread, leverage + apart], axis=1)

    @property
    def forms(self) -> set[Form]:
        """Of this regression and its rivals."""
        return {self.form, *(rival.form for rival in self.rivals)}

    def apart(self, mean: Floats, features: dict[Form, Floats]) -> Floats:
        """How much farther the rivals' means are from this one's than at reference rows, (n,).

        Squared, in units of the residuals' variance. Among reference rows it does not matter which of them is right:
        what was missed there says how wrong the chosen one is.
        """
        squared = (self._distances(mean, features) ** 2).max(axis=0, initial=0.0)
        return np.asarray(np.maximum(squared - self.usual, 0.0))

    def _distances(self, mean: Floats, features: dict[Form, Floats]) -> Floats:
        """Of each rival's means from this one's, in standard deviations of the residuals, (rivals, n)."""
        found = np.zeros((len(self.rivals), len(mean)))
        for own, rival in zip(found, self.rivals, strict=True):
            other = rival.line.means(features[rival.form])
            if rival.shape != self.shape:
                other = self.shape.bent(rival.shape.straight(other))
            own[:] = np.clip((other - mean) / self.size, -FARTHEST, FARTHEST)
        return found

    def leverage_of_mean(self, space: Space, inputs: Array, rest: Ints) -> float:
        """Of the fit's mean over the inputs, with what the penalty and the form may have moved it by, squared.

        Noise averages out over many inputs, a mean that is shrunk too far does not. Rivals count by how much farther
        they are from this one than over the reference, where what was missed makes up for it: the mean of a logarithm
        is never the logarithm of the mean.
        """
        features = {form: space.of(inputs, rest, form) for form in self.forms}
        middle = features[self.form].mean(axis=0)[None]
        (mean,), (own,) = self.line.at(middle)
        shrunk = (self.unshrunk.means(middle)[0] - mean) / self.size
        distances = self._distances(self.line.means(features[self.form]), features).mean(axis=1) - self.gaps
        return float(own + shrunk**2 + (distances**2).max(initial=0.0))

    def values(self, mean: Floats, spread: Floats, donors: Ints, observed: Floats) -> Floats:
        """New values, of the shape of `donors` (reference rows), (n, draws); the inputs' own are `observed` (n, 1)."""
        fresh = self.donors[donors]
        fresh *= spread
        fresh += mean
        fresh = self.nature(self.shape.straight(fresh))
        return fresh if self.shape.is_straight else np.asarray(np.clip(fresh, *self.bounds(observed)))

    def bounds(self, observed: Floats) -> tuple[Floats, Floats]:
        """How far new values go, of the shape of `observed`.

        Where nobody knows the mean, what is bent goes to any height. New values are kept to the range of the reference
        and the observed value, and as far again on both sides: none is moved past the observed one, or onto it.
        """
        if self.shape.is_straight:
            return np.full(observed.shape, -np.inf), np.full(observed.shape, np.inf)
        low, high = np.fmin(self.reach[0], observed), np.fmax(self.reach[1], observed)
        return 2 * low - high, 2 * high - low


def fit_numbers(views: Views, columns: list[int]) -> list[NumberFit]:
    """The fits of columns on the features of `views`, whose rows all have values there."""
    chosen = {column: choose(views, column) for column in columns}
    made: dict[int, NumberFit] = {}
    for form in views.forms:
        own = {j: choice for j, choice in chosen.items() if choice.best.form == form}
        made.update(_fitted(views, form, own) if own else {})
    made = {j: _doubted(views, fit, chosen[j]) for j, fit in made.items()}
    spread = {j: choice.spread_penalty for j, choice in chosen.items() if choice.spread_penalty is not None}
    made.update(_scaled(views, {j: made[j] for j in spread}, spread) if spread else {})
    return [made[j] for j in columns]


def _fitted(views: Views, form: Form, chosen: dict[int, RegressionChoice]) -> dict[int, NumberFit]:
    """Regressions of one form, on all rows at once."""
    space, rotated = views.space, views.rotated(form, len(views.rows))
    penalties = np.array([choice.best.penalty for choice in chosen.values()])
    values = space.rows.values[np.ix_(views.rows, np.array(list(chosen)))].astype(np.float64)
    shapes = [choice.best.shape for choice in chosen.values()]
    bent = np.stack([shape.bent(column) for shape, column in zip(shapes, values.T, strict=True)], axis=1)
    missed, leverage = rotated.fits(bent, penalties)
    donors = np.ascontiguousarray((missed * np.sqrt(1 - leverage)).T)
    lines = [rotated.line(column, float(penalty)) for column, penalty in zip(bent.T, penalties, strict=True)]
    free = [rotated.line(column, least_penalty(rotated)) for column in bent.T]
    sizes = [max(float(own.std()), 1e-300) for own in donors]
    reaches = [(float(own.min()), float(own.max())) for own in values.T]
    return {
        j: NumberFit(j, form, lines[k], shapes[k], space.nature(j), reaches[k], donors[k], sizes[k], free[k])
        for k, j in enumerate(chosen)
    }


def _doubted(views: Views, fit: NumberFit, choice: RegressionChoice) -> NumberFit:
    """The same with its rivals; donors are freed of how far apart those are at their own row."""
    if not choice.rivals:
        return fit
    some = views.space.rows.values[views.rows[views.some], fit.column].astype(np.float64)
    size = len(some)
    rivals = tuple(
        Rival(one.form, one.shape, views.rotated(one.form, size).line(one.shape.bent(some), one.penalty))
        for one in choice.rivals
    )
    doubted = replace(fit, rivals=rivals)
    features = {form: views.features(form) for form in doubted.forms}
    mean = fit.line.means(features[fit.form])
    gaps = tuple(doubted._distances(mean, features).mean(axis=1).tolist())
    usual = float(quantiles(doubted.apart(mean, features), np.array([USUAL]))[0])
    doubted = replace(doubted, usual=usual, gaps=gaps)
    return replace(doubted, donors=fit.donors / np.sqrt(1 + doubted.apart(mean, features)))


def _scaled(views: Views, fits: dict[int, NumberFit], penalties: dict[int, float]) -> dict[int, NumberFit]:
    """The same with a spread that changes with the features; donors are freed of that of their own row."""
    plain = views.rotated("plain", len(views.rows))
    wanted = log_size(np.stack([fit.donors for fit in fits.values()], axis=1))
    left, _ = plain.fits(wanted, np.array(list(penalties.values())))
    logs, found = (wanted - left).T, {}
    for k, (j, fit) in enumerate(fits.items()):
        bounds = float(logs[k].min()), float(logs[k].max()) + WIDEST
        line = plain.line(wanted[:, k], penalties[j])
        found[j] = replace(fit, donors=fit.donors / np.exp(logs[k]), scale=line, scales=bounds)
    return found
