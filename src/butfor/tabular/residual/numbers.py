"""Columns of numbers given others: a regression, and what it missed of reference rows that it had not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from butfor.core.types import Array, Floats, Ints
from butfor.tabular.residual.choice import FormChoice, Views, choose, log_size
from butfor.tabular.residual.design import Form, Space
from butfor.tabular.residual.ridge import Line
from butfor.tabular.residual.shapes import Bend, Nature

WIDEST = float(np.log(10))  # beyond what the reference shows, the spread grows by this factor at most


@dataclass(frozen=True, eq=False)
class NumberFit:
    """x~ = shape^-1(mean(rest) + spread(rest) * e_r), e_r what was missed of reference row r, left out of the fit."""

    column: int
    form: Form
    line: Line
    shape: Bend
    nature: Nature
    donors: Floats  # (m,)
    scale: Line | None = None  # of log |e| on plain features; None: the same everywhere
    scales: tuple[float, float] = (0.0, 0.0)  # bounds of its logarithm

    @property
    def width(self) -> int:
        """Numbers of a centre."""
        return 3

    def centre(self, space: Space, inputs: Array, rest: Ints) -> Floats:
        """Mean, spread and leverage at each input, (n, 3)."""
        mean, leverage = self.line.at(space.of(inputs, rest, self.form))
        spread = np.sqrt(1 + leverage)
        if self.scale is not None:
            spread = spread * np.exp(np.clip(self.scale.at(space.of(inputs, rest, "plain"))[0], *self.scales))
        return np.stack([mean, spread, leverage], axis=1)

    def leverage_of_mean(self, space: Space, inputs: Array, rest: Ints) -> float:
        """Of the fit's mean over the inputs."""
        return float(self.line.at(space.of(inputs, rest, self.form).mean(axis=0)[None])[1][0])

    def values(self, mean: Floats, spread: Floats, donors: Ints) -> Floats:
        """New values, of the shape of `donors` (reference rows)."""
        fresh = self.donors[donors]
        fresh *= spread
        fresh += mean
        return self.nature(self.shape.straight(fresh))


def fit_numbers(views: Views, columns: list[int]) -> list[NumberFit]:
    """The fits of columns on the features of `views`, whose rows all have values there."""
    chosen = [choose(views, column) for column in columns]
    made: dict[int, NumberFit] = {}
    for form in views.forms:
        own = {j: choice for j, (choice, _) in zip(columns, chosen, strict=True) if choice.form == form}
        made.update(_fitted(views, form, own) if own else {})
    spread = {j: penalty for j, (_, penalty) in zip(columns, chosen, strict=True) if penalty is not None}
    made.update(_scaled(views, {j: made[j] for j in spread}, spread) if spread else {})
    return [made[j] for j in columns]


def _fitted(views: Views, form: Form, chosen: dict[int, FormChoice]) -> dict[int, NumberFit]:
    """Regressions of one form, on all rows at once."""
    space, rotated = views.space, views.rotated(form, len(views.rows))
    penalties = np.array([choice.penalty for choice in chosen.values()])
    values = space.rows.values[np.ix_(views.rows, np.array(list(chosen)))].astype(np.float64)
    shapes = [choice.shape for choice in chosen.values()]
    bent = np.stack([shape.bent(column) for shape, column in zip(shapes, values.T, strict=True)], axis=1)
    missed, leverage = rotated.fits(bent, penalties)
    donors = np.ascontiguousarray((missed * np.sqrt(1 - leverage)).T)
    lines = [rotated.line(column, float(penalty)) for column, penalty in zip(bent.T, penalties, strict=True)]
    return {j: NumberFit(j, form, lines[k], shapes[k], space.nature(j), donors[k]) for k, j in enumerate(chosen)}


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
