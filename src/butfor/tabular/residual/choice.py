"""Form, shape and penalty of a regression, chosen by the score of reference rows that were left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from butfor.core.arrays import quantiles
from butfor.core.types import Floats, Ints
from butfor.tabular.residual.design import Form, Space
from butfor.tabular.residual.ridge import Rotated, best_penalty, rotate
from butfor.tabular.residual.shapes import Bend

CHOSEN_ON = 2_000  # rows that choices are made on
SCORED = 500  # of which so many are scored
QUANTILES = (np.arange(50) + 0.5) / 50
SIMPLER, LIKELY = 0.995, 1.0  # a bend or a curve must gain half a per cent, by one standard error
SCALED_FROM = 60  # rows that can tell how the spread changes
WORTH, SURE = 0.99, 2.0  # a changing spread must gain 1 %, by two standard errors
RIVAL = 1.1  # times the best score: other ways to regress that are believed too where they go apart
SMALLEST = 0.05  # of the mean error: smaller ones count as this where the spread is learned


@dataclass(frozen=True, eq=False)
class Views:
    """The features that the columns of a subset are regressed on, turned once for all of them."""

    space: Space
    given: Ints  # columns
    rows: Ints  # of the reference
    turned: dict[tuple[Form, int], Rotated] = field(default_factory=dict)

    @property
    def some(self) -> Ints:
        """Places among `rows` of those that choices are made on."""
        return self.space.some(len(self.rows), CHOSEN_ON)

    def rotated(self, form: Form, size: int) -> Rotated:
        """The features of all rows (`size` is their number) or of some of them."""
        if (form, size) not in self.turned:
            rows = self.rows if size == len(self.rows) else self.rows[self.some]
            self.turned[form, size] = rotate(*self.space.reference(self.given, form, rows))
        return self.turned[form, size]

    def features(self, form: Form) -> Floats:
        """The features of all rows, (m, features)."""
        turned = self.turned.get((form, len(self.rows)))
        return self.space.reference(self.given, form, self.rows)[0] if turned is None else turned.features

    @cached_property
    def forms(self) -> list[Form]:
        """The forms that are worth trying."""
        return self.space.forms(self.given, len(self.rows))


@dataclass(frozen=True, eq=False)
class FormChoice:
    """One way to regress a column, and how rows that were left out scored."""

    form: Form
    shape: Bend
    penalty: float
    means: Floats  # (m,) of rows left out
    leverage: Floats  # (m,) of rows left out
    donors: Floats  # (m,)
    scores: Floats  # (scored,)


@dataclass(frozen=True, eq=False)
class RegressionChoice:
    """The best way to regress a column, the ways that are nearly as good, and how to regress its spread."""

    best: FormChoice
    rivals: list[FormChoice]
    spread_penalty: float | None  # None: the spread is the same everywhere


def choose(views: Views, column: int) -> RegressionChoice:
    """How to regress a column, by the score of rows left out."""
    some = views.some
    values = views.space.rows.values[views.rows[some], column].astype(np.float64)
    tried: list[FormChoice] = []
    best: FormChoice | None = None
    for form in views.forms:
        rotated = views.rotated(form, len(values))
        for shape in views.space.shapes(column):
            one = _try(rotated, form, shape, values)
            tried.append(one)
            if best is None or _better(one.scores, best.scores, SIMPLER, LIKELY):
                best = one
    assert best is not None
    most = RIVAL * float(best.scores.mean())
    rivals = [one for one in tried if one is not best and one.scores.mean() <= most]
    if len(values) < SCALED_FROM:
        return RegressionChoice(best, rivals, None)
    return RegressionChoice(best, rivals, _spread_penalty(views.rotated("plain", len(values)), best, values))


def _try(rotated: Rotated, form: Form, shape: Bend, values: Floats) -> FormChoice:
    bent = shape.bent(values)
    penalty = best_penalty(rotated, bent)
    missed, leverage = (part[:, 0] for part in rotated.fits(bent[:, None], np.array([penalty])))
    donors = missed * np.sqrt(1 - leverage)
    outside = leverage / (1 - leverage)  # of a row for the fit without it
    scores = crps(shape, values, bent - missed, np.sqrt(1 + outside), donors)
    return FormChoice(form, shape, penalty, bent - missed, outside, donors, scores)


def crps(shape: Bend, values: Floats, means: Floats, spreads: Floats, donors: Floats) -> Floats:
    """The continuous ranked probability score of some rows, as twice the mean pinball loss over quantiles."""
    if len(values) > SCORED:
        some = np.linspace(0, len(values) - 1, SCORED).astype(np.int64)
        values, means, spreads = values[some], means[some], spreads[some]
    drawn = shape.straight(means[:, None] + spreads[:, None] * quantiles(donors, QUANTILES))
    over = values[:, None] - drawn
    losses = QUANTILES * over
    over *= QUANTILES - 1
    np.maximum(losses, over, out=losses)
    losses *= 2
    return np.asarray(losses.mean(axis=1))


def _better(scores: Floats, than: Floats, factor: float, errors: float) -> bool:
    """Whether the mean score is lower by a factor and by so many standard errors."""
    gain = than - scores
    with np.errstate(over="ignore", invalid="ignore"):  # a bend that does not suit a column at all scores 1e200
        sure = gain.mean() > errors * gain.std() / np.sqrt(len(gain))
    return bool(sure and scores.mean() < factor * than.mean())


def _spread_penalty(plain: Rotated, best: FormChoice, values: Floats) -> float | None:
    """The penalty of the regression of the errors' size, or None where it does not pay.

    Its features are those of the other columns and never the means of rows left out, which hold the row's own error.
    """
    wanted = log_size(best.donors[:, None])
    penalty = best_penalty(plain, wanted[:, 0])
    left, _ = plain.fits(wanted, np.array([penalty]))
    sizes = np.exp(wanted - left)[:, 0]
    spreads = np.sqrt(1 + best.leverage) * sizes
    scores = crps(best.shape, values, best.means, spreads, best.donors / sizes)
    return penalty if _better(scores, best.scores, WORTH, SURE) else None


def log_size(donors: Floats) -> Floats:
    """The logarithm of the size of errors (m, c), none of them tiny."""
    sizes = np.abs(donors)
    return np.asarray(np.log(np.maximum(sizes, SMALLEST * np.maximum(sizes.mean(axis=0), 1e-300))))
