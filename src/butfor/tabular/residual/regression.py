"""Columns of numbers given others: a regression, and what it missed of reference rows that it had not seen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from butfor.tabular.residual.design import Bend, Form, Nature, Space
from butfor.types import Array, Floats, Ints, quantiles

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
