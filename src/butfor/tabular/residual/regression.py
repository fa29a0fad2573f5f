"""One column given others: ridge regression of numbers, logistic regression of columns with few values.

A column of numbers is drawn as x~ = g^-1(mean(rest) + spread(rest) e_r), where g is a power transform and e_r the
left-out residual of reference row r. Form, transform, penalty and spread are chosen by the score of rows left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from butfor.tabular.donors import lower_ends, round_limits
from butfor.tabular.residual.design import Design, Form, Grid, PowerTransform
from butfor.types import Array, Floats, Ints

PENALTIES = 10.0 ** np.arange(-5, 2.5, 0.5)  # times the number of features, which have spread 1
LEAST_VARIANCE = 1e-10  # axes along which features vary less, relative to the largest, are left out
MOST_LEVERAGE = 0.5
BLOCK = 4_096  # rows that are rotated at once


@dataclass(frozen=True, eq=False)
class Ridge:
    """Ridge regressions on one design matrix in its principal axes: every penalty is then one division."""

    features: Floats  # (m, p)
    mean: Floats  # (p,)
    axes: Floats  # (p, k)
    eigenvalues: Floats  # (k,) sums of squares along the axes

    def left_out(self, targets: Floats, penalties: Floats) -> tuple[Floats, Floats]:
        """Return the residuals of `targets` (m, 1 or c), each row predicted by the others, and leverages, (m, c) both.

        With z_r the centred features of row r: h_r = 1/m + z_r' (Z'Z + penalty)^-1 z_r; e_r = (y_r - fit_r)/(1 - h_r).
        """
        centred = targets - targets.mean(axis=0)
        shrink = 1 / (self.eigenvalues[:, None] + penalties)  # (k, c)
        along = self._along(centred) * shrink
        residuals, leverage = np.empty((2, len(targets), len(penalties)))
        for first in range(0, len(targets), BLOCK):
            rows = slice(first, first + BLOCK)
            scores = self.first_scores if len(targets) <= BLOCK else self._scores(rows)
            residuals[rows] = centred[rows] - scores @ along
            leverage[rows] = scores**2 @ shrink
        leverage = np.minimum(leverage + 1 / len(targets), 1 - 1e-9)
        return residuals / (1 - leverage), leverage

    def fit(self, target: Floats, penalty: float) -> LinearFit:
        """Return the regression of `target` (m,) with this penalty on all rows."""
        intercept = float(target.mean())
        along = self._along((target - intercept)[:, None])[:, 0]
        weights = self.axes @ (along / (self.eigenvalues + penalty))
        return LinearFit(intercept, self.mean, weights, self.axes, self.eigenvalues, penalty, len(target))

    def _along(self, centred: Floats) -> Floats:
        return np.asarray(self.axes.T @ (self.features.T @ centred))

    def _scores(self, rows: slice) -> Floats:
        return np.asarray((self.features[rows] - self.mean) @ self.axes)

    @cached_property
    def first_scores(self) -> Floats:
        """The first rows in the axes, all of a reference that is not large."""
        return self._scores(slice(0, BLOCK))


def ridge(features: Floats, products: Floats | None = None) -> Ridge:
    """Return the ridge regressions on features (m, p); `products` are features' features where known."""
    mean = features.mean(axis=0)
    size, width = features.shape
    if size < width:
        centred = features - mean
        eigenvalues, left = np.linalg.eigh(centred @ centred.T)
        kept = eigenvalues > LEAST_VARIANCE * max(float(eigenvalues[-1]), 1e-300)
        return Ridge(features, mean, (centred.T @ left[:, kept]) / np.sqrt(eigenvalues[kept]), eigenvalues[kept])
    products = features.T @ features if products is None else products
    eigenvalues, axes = np.linalg.eigh(products - size * np.outer(mean, mean))
    kept = eigenvalues > LEAST_VARIANCE * max(float(eigenvalues[-1]) if width else 0.0, 1e-300)
    return Ridge(features, mean, np.ascontiguousarray(axes[:, kept]), eigenvalues[kept])


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fitted regression: intercept + (features - mean) weights, and the leverage of its mean."""

    intercept: float
    mean: Floats  # (p,)
    weights: Floats  # (p,)
    axes: Floats  # (p, k)
    eigenvalues: Floats  # (k,)
    penalty: float
    rows: int

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Return the mean and its leverage (its variance in units of the residuals'), (n,) both.

        `features` may be the first ones only: the others are then taken at their mean.
        """
        width = features.shape[1]
        centred = (features - self.mean[:width])[:, None, :]
        along = (centred @ self.axes[:width])[:, 0, :] ** 2
        beside = np.maximum((centred[:, 0, :] ** 2).sum(axis=1) - along.sum(axis=1), 0)  # where no reference row lies
        leverage = 1 / self.rows + (along / (self.eigenvalues + self.penalty)).sum(axis=1) + beside / self.penalty
        return self.means(features), leverage

    def means(self, features: Floats) -> Floats:
        """Return the mean alone, (n,): its leverage takes many times longer."""
        width = features.shape[1]
        # One small product per row, not one large: a row's bits then do not depend on the rows beside it.
        centred = (features - self.mean[:width])[:, None, :]
        return np.asarray((centred @ self.weights[:width, None])[:, 0, 0] + self.intercept)

    def contribution(self, features: Floats, first: int) -> Floats:
        """Return what the features from position `first` on add to the mean, (n,)."""
        part = slice(first, first + features.shape[1])
        return np.asarray((features - self.mean[part]) @ self.weights[part])


def least_penalty(regressions: Ridge) -> float:
    """Return the least penalty that leaves more than half of the freedom in the rows: it hardly shrinks the mean."""
    size, penalties = max(len(regressions.features), 1), PENALTIES * max(regressions.mean.size, 1)
    for penalty in penalties:
        if (regressions.eigenvalues / (regressions.eigenvalues + penalty)).sum() <= MOST_LEVERAGE * size:
            return float(penalty)
    return float(penalties[-1])


def best_penalty(regressions: Ridge, target: Floats) -> float:
    """Return the penalty under which rows left out are predicted best; absolute errors, for long tails.

    Only penalties that leave more than half of the freedom in the rows: where a fit nearly passes through its rows, one
    row less changes it altogether, and rows left out no longer tell how new ones are missed.
    """
    penalties = PENALTIES * max(regressions.mean.size, 1)
    residuals, leverage = regressions.left_out(target[:, None], penalties)
    errors = np.where(leverage.mean(axis=0) <= MOST_LEVERAGE, np.abs(residuals).mean(axis=0), np.inf)
    errors[-1] = min(errors[-1], np.finfo(np.float64).max)
    return float(penalties[np.argmin(errors)])


CHOSEN_ON = 2_000  # rows that choices are made on
SCORED = 500  # of which so many are scored
QUANTILES = (np.arange(50) + 0.5) / 50
SIMPLER, LIKELY = 0.995, 1.0  # a transform or a spline must gain half a per cent, by one standard error
SCALED_FROM = 60  # rows that can tell how the spread changes
WORTH, SURE = 0.99, 2.0  # a changing spread must gain 1 %, by two standard errors
RIVAL = 1.1  # times the best score: other regressions that are believed too where they go apart
SMALLEST = 0.05  # of the mean error: smaller ones count as this where the spread is learned


@dataclass(frozen=True, eq=False)
class Predictors:
    """The columns that the columns of a subset are regressed on; ridge regressions are set up once for all of them."""

    design: Design
    columns: Ints
    rows: Ints  # of the reference
    known: dict[tuple[Form, int], Ridge] = field(default_factory=dict)

    @property
    def sample(self) -> Ints:
        """Positions among `rows` of those that choices are made on."""
        return self.design.subsample(len(self.rows), CHOSEN_ON)

    def ridge(self, form: Form, size: int) -> Ridge:
        """Return the regressions on all rows (`size` is their number) or on the sample."""
        if (form, size) not in self.known:
            rows = self.rows if size == len(self.rows) else self.rows[self.sample]
            self.known[form, size] = ridge(*self.design.reference(self.columns, form, rows))
        return self.known[form, size]

    def features(self, form: Form) -> Floats:
        """Return the features of all rows, (m, features)."""
        known = self.known.get((form, len(self.rows)))
        return self.design.reference(self.columns, form, self.rows)[0] if known is None else known.features

    @cached_property
    def forms(self) -> list[Form]:
        """The forms that are worth trying."""
        return self.design.forms(self.columns, len(self.rows))

    def values(self, column: int, rows: Ints) -> Floats:
        """Return the values of a column at these of the rows."""
        return np.asarray(self.design.rows.values[self.rows[rows], column], np.float64)


@dataclass(frozen=True, eq=False)
class Candidate:
    """One regression of a column, and how rows that were left out scored."""

    form: Form
    transform: PowerTransform
    penalty: float
    means: Floats  # (m,) of rows left out
    leverage: Floats  # (m,) of rows left out
    residuals: Floats  # (m,) standardised
    scores: Floats  # (scored,)


def choose(predictors: Predictors, column: int) -> tuple[Candidate, list[Candidate], float | None]:
    """Return the regression with the best score, its rivals, and the penalty of its spread; None: a constant spread."""
    values = predictors.values(column, predictors.sample)
    tried: list[Candidate] = []
    best: Candidate | None = None
    for form in predictors.forms:
        regressions = predictors.ridge(form, len(values))
        for transform in predictors.design.once(predictors.design.transforms, column):
            target = transform(values)
            penalty = best_penalty(regressions, target)
            parts = regressions.left_out(target[:, None], np.array([penalty]))
            residuals, leverage = (part[:, 0] for part in parts)
            standardised = residuals * np.sqrt(1 - leverage)
            outside = leverage / (1 - leverage)  # of a row for the fit without it
            scores = crps(transform, values, target - residuals, np.sqrt(1 + outside), standardised)
            tried.append(Candidate(form, transform, penalty, target - residuals, outside, standardised, scores))
            if best is None or _better(scores, best.scores, SIMPLER, LIKELY):
                best = tried[-1]
    assert best is not None
    most = RIVAL * float(best.scores.mean())
    rivals = [one for one in tried if one is not best and one.scores.mean() <= most]
    if len(values) < SCALED_FROM:
        return best, rivals, None
    # The spread is learned on the other columns, never on the means of rows left out, which hold the row's own error.
    plain, target = predictors.ridge("plain", len(values)), log_size(best.residuals[:, None])
    penalty = best_penalty(plain, target[:, 0])
    sizes = np.exp(target - plain.left_out(target, np.array([penalty]))[0])[:, 0]
    spreads = np.sqrt(1 + best.leverage) * sizes
    scores = crps(best.transform, values, best.means, spreads, best.residuals / sizes)
    return best, rivals, penalty if _better(scores, best.scores, WORTH, SURE) else None


def crps(transform: PowerTransform, values: Floats, means: Floats, spreads: Floats, residuals: Floats) -> Floats:
    """Return the continuous ranked probability score of rows, as twice the mean pinball loss over quantiles."""
    if len(values) > SCORED:
        scored = np.linspace(0, len(values) - 1, SCORED).astype(np.int64)
        values, means, spreads = values[scored], means[scored], spreads[scored]
    drawn = transform.inverse(means[:, None] + spreads[:, None] * np.quantile(residuals, QUANTILES))
    over = values[:, None] - drawn
    losses = QUANTILES * over
    over *= QUANTILES - 1
    np.maximum(losses, over, out=losses)
    losses *= 2
    return np.asarray(losses.mean(axis=1))


def _better(scores: Floats, than: Floats, factor: float, errors: float) -> bool:
    """Return whether the mean score is lower by a factor and by so many standard errors."""
    gain = than - scores
    with np.errstate(over="ignore", invalid="ignore"):  # a transform that does not suit a column at all scores 1e200
        sure = gain.mean() > errors * gain.std() / np.sqrt(len(gain))
    return bool(sure and scores.mean() < factor * than.mean())


def log_size(residuals: Floats) -> Floats:
    """Return the logarithm of the size of residuals (m, c), none of them tiny."""
    sizes = np.abs(residuals)
    return np.asarray(np.log(np.maximum(sizes, SMALLEST * np.maximum(sizes.mean(axis=0), 1e-300))))


USUAL = 0.95  # share of reference rows at which rival means are as far apart as is usual
FARTHEST = 10.0  # standard deviations that rival means count as apart at most
WIDEST = float(np.log(10))  # beyond what the reference shows, the spread grows by this factor at most


@dataclass(frozen=True, eq=False)
class Rival:
    """Another regression of the same column that scored nearly as well: where it goes apart, nobody knows the mean."""

    form: Form
    transform: PowerTransform
    line: LinearFit


@dataclass(frozen=True, eq=False)
class NumericFit:
    """x~ = g^-1(mean(rest) + spread(rest) e_r), e_r the residual of reference row r, left out of the fit."""

    column: int
    form: Form
    line: LinearFit
    transform: PowerTransform
    grid: Grid
    span: tuple[float, float]  # of the reference
    residuals: Floats  # (m,) the donors'
    sd: float  # of the residuals, that distances of means are measured in
    unshrunk: LinearFit  # the same regression with hardly a penalty: how far the penalty moves the mean
    spread: LinearFit | None = None  # of log |e| on plain features; None: the same everywhere
    spread_bounds: tuple[float, float] = (0.0, 0.0)  # of its logarithm
    rivals: tuple[Rival, ...] = ()
    usual: float = 0.0  # squared distance of rivals at reference rows: residuals there contain it
    offsets: tuple[float, ...] = ()  # mean distance of each rival over all reference rows
    shifts: tuple[Floats, ...] = ()  # per discrete column of the subset: (its values,), added to the mean
    log_factors: tuple[Floats, ...] = ()  # and to the log of the spread

    width = 3  # numbers of a prediction

    @cached_property
    def order(self) -> Ints:
        """Donors from the least residual to the largest, (m,)."""
        return np.argsort(self.residuals, kind="stable")

    @property
    def forms(self) -> set[Form]:
        """The forms of this regression and its rivals."""
        return {self.form, *(rival.form for rival in self.rivals)}

    def predict(self, design: Design, inputs: Array, rest: Ints) -> Floats:
        """Return mean, spread and leverage at each input, (n, 3); where rivals disagree the mean is known less well."""
        features = {form: design.matrix(inputs, rest, form) for form in self.forms}
        mean, leverage = self.line.predict(features[self.form])
        apart = self.apart(mean, features)
        spread = np.sqrt((1 + leverage) * (1 + apart))
        if self.spread is not None:
            logs = self.spread.means(design.matrix(inputs, rest, "plain"))
            spread = spread * np.exp(np.clip(logs, *self.spread_bounds))
        return np.stack([mean, spread, leverage + apart], axis=1)

    def apart(self, mean: Floats, features: dict[Form, Floats]) -> Floats:
        """Return how much farther the rivals' means are from this one's than at reference rows, (n,).

        Squared, in units of the residuals' variance. Among reference rows it does not matter which of them is right:
        the residuals there say how wrong the chosen one is.
        """
        squared = (self.distances(mean, features) ** 2).max(axis=0, initial=0.0)
        return np.asarray(np.maximum(squared - self.usual, 0.0))

    def distances(self, mean: Floats, features: dict[Form, Floats]) -> Floats:
        """Return those of each rival's means from this one's, in standard deviations of the residuals, (rivals, n)."""
        distances = np.zeros((len(self.rivals), len(mean)))
        for row, rival in zip(distances, self.rivals, strict=True):
            other = rival.line.means(features[rival.form])
            if rival.transform != self.transform:
                other = self.transform(rival.transform.inverse(other))
            row[:] = np.clip((other - mean) / self.sd, -FARTHEST, FARTHEST)
        return distances

    def leverage_of_mean(self, design: Design, inputs: Array, rest: Ints) -> float:
        """Return it of the mean over the inputs, with what the penalty and the form may have moved it by, squared.

        Noise averages out over many inputs, a mean that is shrunk too far does not. Rivals count by how much farther
        they are from this one than over the reference, where residuals make up for it: the mean of a logarithm is never
        the logarithm of the mean.
        """
        features = {form: design.matrix(inputs, rest, form) for form in self.forms}
        middle = features[self.form].mean(axis=0)[None]
        (mean,), (leverage,) = self.line.predict(middle)
        shrunk = (self.unshrunk.means(middle)[0] - mean) / self.sd
        distances = self.distances(self.line.means(features[self.form]), features).mean(axis=1) - self.offsets
        return float(leverage + shrunk**2 + (distances**2).max(initial=0.0))

    def values(self, mean: Floats, spread: Floats, donors: Ints, observed: Floats) -> Floats:
        """Return new values, of the shape of `donors` (reference rows), (n, draws); `observed` is (n, 1)."""
        fresh = self.residuals[donors]
        fresh *= spread
        fresh += mean
        fresh = self.grid(self.transform.inverse(fresh))
        return fresh if self.transform.linear else np.asarray(np.clip(fresh, *self.bounds(observed)))

    def bounds(self, observed: Floats) -> tuple[Floats, Floats]:
        """Return how far values of a transformed column go, of the shape of `observed`.

        Where nobody knows the mean, the inverse of a power goes to any height. New values are kept to the range of the
        reference and the observed value, and as far again on both sides: none is moved past the observed one, or onto
        it.
        """
        low, high = np.fmin(self.span[0], observed), np.fmax(self.span[1], observed)
        return 2 * low - high, 2 * high - low

    def below(self, mean: Floats, spread: Floats, observed: Floats, cuts: Floats, starts: Ints) -> Ints:
        """Return how many donors give a value below each step (n, V); mean, spread and observed are (n, 1)."""
        limits = cuts if self.grid.step is None else round_limits(cuts, self.grid.step)
        with np.errstate(all="ignore"):
            transformed = self.transform(limits)
        transformed = np.where(np.isinf(limits), limits, transformed)
        if self.transform.log:
            transformed = np.where(limits <= 0, -np.inf, transformed)
        if self.grid.nonnegative:
            transformed = np.where(cuts < 0, -np.inf, transformed)
        size, scaled = len(self.order), (lower_ends(transformed, starts) - mean) / spread
        below = self.residuals[self.order].searchsorted(scaled, side="right")
        if self.transform.linear:
            return below
        ends, (low, high) = lower_ends(cuts, starts), self.bounds(observed)
        return np.where(ends >= high, size, np.where(ends < low, 0, below))


def fit_numbers(predictors: Predictors, columns: list[int]) -> list[NumericFit]:
    """Fit columns of numbers, which have values at all rows of the predictors."""
    chosen = {j: choose(predictors, j) for j in columns}
    fits: dict[int, NumericFit] = {}
    for form in predictors.forms:
        same = {j: best for j, (best, _, _) in chosen.items() if best.form == form}
        fits.update(_fit_form(predictors, form, same) if same else {})
    fits = {j: _with_rivals(predictors, fit, chosen[j][1]) for j, fit in fits.items()}
    penalties = {j: penalty for j, (_, _, penalty) in chosen.items() if penalty is not None}
    fits.update(_with_spread(predictors, {j: fits[j] for j in penalties}, penalties) if penalties else {})
    return [fits[j] for j in columns]


def _fit_form(predictors: Predictors, form: Form, chosen: dict[int, Candidate]) -> dict[int, NumericFit]:
    """Fit the regressions of one form, on all rows at once."""
    design, regressions = predictors.design, predictors.ridge(form, len(predictors.rows))
    penalties = np.array([best.penalty for best in chosen.values()])
    values = design.rows.values[np.ix_(predictors.rows, np.array(list(chosen)))].astype(np.float64)
    transforms = [best.transform for best in chosen.values()]
    targets = np.stack([transform(x) for transform, x in zip(transforms, values.T, strict=True)], axis=1)
    residuals, leverage = regressions.left_out(targets, penalties)
    residuals = np.ascontiguousarray((residuals * np.sqrt(1 - leverage)).T)
    return {
        j: NumericFit(
            column=j,
            form=form,
            line=regressions.fit(targets.T[k], float(penalties[k])),
            transform=transforms[k],
            grid=design.once(design.grid, j),
            span=(float(values[:, k].min()), float(values[:, k].max())),
            residuals=residuals[k],
            sd=max(float(residuals[k].std()), 1e-300),
            unshrunk=regressions.fit(targets.T[k], least_penalty(regressions)),
        )
        for k, j in enumerate(chosen)
    }


def _with_rivals(predictors: Predictors, fit: NumericFit, rivals: list[Candidate]) -> NumericFit:
    """Return the same with its rivals; residuals are freed of how far apart those are at each row."""
    if not rivals:
        return fit
    values = predictors.values(fit.column, predictors.sample)
    lines = (predictors.ridge(one.form, len(values)).fit(one.transform(values), one.penalty) for one in rivals)
    made = tuple(Rival(one.form, one.transform, line) for one, line in zip(rivals, lines, strict=True))
    fit = replace(fit, rivals=made)
    features = {form: predictors.features(form) for form in fit.forms}
    mean = fit.line.means(features[fit.form])
    offsets = tuple(fit.distances(mean, features).mean(axis=1).tolist())
    usual = float(np.quantile(fit.apart(mean, features), USUAL))
    fit = replace(fit, usual=usual, offsets=offsets)
    return replace(fit, residuals=fit.residuals / np.sqrt(1 + fit.apart(mean, features)))


def _with_spread(
    predictors: Predictors, fits: dict[int, NumericFit], penalties: dict[int, float]
) -> dict[int, NumericFit]:
    """Return the same with a spread that changes with the features; residuals are freed of it."""
    plain = predictors.ridge("plain", len(predictors.rows))
    targets = log_size(np.stack([fit.residuals for fit in fits.values()], axis=1))
    logs = (targets - plain.left_out(targets, np.array(list(penalties.values())))[0]).T
    return {
        j: replace(
            fit,
            residuals=fit.residuals / np.exp(logs[k]),
            spread=plain.fit(targets[:, k], penalties[j]),
            spread_bounds=(float(logs[k].min()), float(logs[k].max()) + WIDEST),
        )
        for k, (j, fit) in enumerate(fits.items())
    }


FITTED_ON = 3_000  # rows of a logistic regression at most
MOST_CLASSES = 32  # values with a regression each, the most frequent ones; the others share one
NEWTON_STEPS, CONVERGED = 25, 1e-2  # the error after a step of Newton's method is about the square of the step
SHARES = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])  # of the marginal distribution in the mixture
STRONGER = (1.0, 10.0)  # penalties to try, times that of the linear regression
LEAST_PROBABILITY = 1e-9


@dataclass(frozen=True, eq=False)
class DiscreteFit:
    """Probabilities of the values of a column of few (a missing value is one of them), given the other columns.

    Logistic regressions, mixed with the marginal distribution of the reference.
    """

    levels: Array  # (K,) the values, NaN last
    form: Form
    lines: tuple[LinearFit, ...]  # one for each yes/no split
    ordered: bool  # splits are "above value k"; else "is class k"
    classes: Ints  # (K,) the class of each value
    within: Floats  # (K,) the share of each value in its class
    marginal: Floats  # (K,) shares in the reference
    share: float  # of the marginal in the mixture
    column: int = -1  # -1: not a column, but which numbers are missing
    shifts: tuple[Floats, ...] = ()  # per column drawn before it: (its values, splits), added to the log odds

    @property
    def width(self) -> int:
        """Numbers of a prediction."""
        return len(self.lines) + 1

    def predict(self, design: Design, inputs: Array, rest: Ints) -> Floats:
        """Return log odds of every split and the largest leverage, (n, splits + 1)."""
        features = design.matrix(inputs, rest, self.form)
        parts = [line.predict(features) for line in self.lines]
        leverage = np.max([part[1] for part in parts], axis=0) if parts else np.zeros(len(inputs))
        bounded = np.minimum(leverage, 1.0)  # a probability is never off by more than its own spread
        return np.stack([*(part[0] for part in parts), bounded], axis=1)

    def leverage_of_mean(self, design: Design, inputs: Array, rest: Ints) -> float:
        """Return it of the mean over the inputs; its error is at most the mean of the errors at each of them."""
        features = design.matrix(inputs, rest, self.form)
        middle = features.mean(axis=0)[None]
        largest = 0.0
        for line in self.lines:
            each = float(np.sqrt(np.minimum(line.predict(features)[1], 1.0)).mean()) ** 2
            largest = max(largest, min(float(line.predict(middle)[1][0]), each))
        return largest

    def probabilities(self, odds: Floats) -> Floats:
        """Return those of the values, (..., K), from log odds of the splits, (..., splits)."""
        from scipy.special import expit

        if not self.lines:
            return np.broadcast_to(self.marginal, (*odds.shape[:-1], len(self.marginal)))
        above = np.clip(expit(odds), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        if odds.shape[-1] == 1:
            classes = np.concatenate([1 - above, above], axis=-1)
        elif not self.ordered:
            classes = above / above.sum(axis=-1, keepdims=True)
        else:
            above = np.minimum.accumulate(above, axis=-1)  # above a higher value is never likelier
            one, none = np.ones_like(above[..., :1]), np.zeros_like(above[..., :1])
            steps = -np.diff(np.concatenate([one, above, none], axis=-1), axis=-1) + LEAST_PROBABILITY
            classes = steps / steps.sum(axis=-1, keepdims=True)
        return (1 - self.share) * (classes[..., self.classes] * self.within) + self.share * self.marginal


def codes_of(values: Array) -> tuple[Array, Ints]:
    """Return the distinct values of a column, NaN last and once, and the position of each value among them."""
    levels, codes = np.unique(np.where(np.isnan(values), np.inf, values), return_inverse=True)
    return np.where(np.isinf(levels), np.nan, levels), codes


def fit_discrete(
    predictors: Predictors, values: Array, ordered: bool, stronger: tuple[float, ...] = STRONGER
) -> DiscreteFit:
    """Fit a column, whose values at the rows of the predictors are given (and may be missing)."""
    levels, codes = codes_of(values)
    counts = np.bincount(codes, minlength=len(levels))
    marginal = counts / counts.sum()
    if len(levels) == 1:
        return DiscreteFit(levels, "plain", (), False, np.zeros(1, np.int64), np.ones(1), marginal, 1.0)
    ordered = ordered and len(levels) > 2 and not np.isnan(levels[-1])
    classes = np.arange(len(levels))
    if len(levels) > MOST_CLASSES:  # the rarest share one
        classes = np.full(len(levels), MOST_CLASSES - 1)
        classes[np.sort(np.argsort(-counts, kind="stable")[: MOST_CLASSES - 1])] = np.arange(MOST_CLASSES - 1)
    within = marginal / np.bincount(classes, weights=marginal)[classes]
    sample = predictors.design.subsample(len(codes), FITTED_ON)
    codes = codes[sample]
    fitted = Predictors(predictors.design, predictors.columns, predictors.rows[sample])
    in_class = classes[codes]
    count = int(in_class.max()) + 1
    splits = [in_class > k for k in range(count - 1)] if ordered else [in_class == k for k in range(count)]
    splits = splits if count > 2 else [in_class == 1]
    best: tuple[float, DiscreteFit] | None = None
    for form in predictors.forms:
        regressions = fitted.ridge(form, len(sample))
        parts = [_logistic(regressions, yes.astype(np.float64), stronger) for yes in splits]
        lines, odds = tuple(line for line, _ in parts), np.stack([odds for _, odds in parts], axis=1)
        fit = DiscreteFit(levels, form, lines, ordered, classes, within, marginal, 0.0)
        fitted_p, marginal_p = fit.probabilities(odds)[np.arange(len(codes)), codes], marginal[codes]
        losses = [-float(np.log((1 - share) * fitted_p + share * marginal_p).mean()) for share in SHARES]
        k = int(np.argmin(losses))
        if best is None or losses[k] < best[0]:
            best = losses[k], replace(fit, share=float(SHARES[k]))
    assert best is not None
    return best[1]


def _logistic(regressions: Ridge, yes: Floats, factors: tuple[float, ...]) -> tuple[LinearFit, Floats]:
    """Return the fit with the penalty under which rows left out are least surprising, and their log odds."""
    mean = float(yes.mean())
    penalty = best_penalty(regressions, yes) * max(mean * (1 - mean), 1e-3)
    fits = [newton(regressions, yes, penalty * factor) for factor in factors]
    losses = [float(np.logaddexp(0, np.where(yes > 0, -odds, odds)).mean()) for _, odds in fits]
    return fits[int(np.argmin(losses))]


def newton(regressions: Ridge, yes: Floats, penalty: float) -> tuple[LinearFit, Floats]:
    """Fit logistic ridge regression; log odds of each row without it (approximately: Rad and Maleki 2020, eq. 8)."""
    from scipy.special import expit

    features = np.column_stack([np.ones(len(yes)), regressions.first_scores])
    penalties = np.append(0.0, np.full(len(regressions.eigenvalues), penalty))
    mean = float(np.clip(yes.mean(), 1e-3, 1 - 1e-3))
    weights = np.append(np.log(mean / (1 - mean)), np.zeros(len(penalties) - 1))
    for _ in range(NEWTON_STEPS):
        p = expit(features @ weights)
        halves = features * np.sqrt(np.maximum(p * (1 - p), 1e-6))[:, None]
        hessian = halves.T @ halves + np.diag(penalties + 1e-9)
        step = np.linalg.solve(hessian, features.T @ (yes - p) - penalties * weights)
        largest = float(np.abs(features @ step).max())
        weights = weights + step * min(1.0, 4.0 / max(largest, 1e-300))
        if largest < CONVERGED:
            break
    odds = features @ weights
    p = expit(odds)
    root = np.linalg.cholesky(np.linalg.inv(hessian))
    leverage = ((features @ root) ** 2).sum(axis=1)
    left_out = odds - leverage * (yes - p) / np.maximum(1 - p * (1 - p) * leverage, 1e-3)
    # The leverage that is reported is in units of a residual's variance, as that of a linear regression.
    scaled = penalty / max(mean * (1 - mean), 1e-3)
    line = LinearFit(
        float(weights[0]), regressions.mean, regressions.axes @ weights[1:], regressions.axes, regressions.eigenvalues,
        scaled, len(yes),
    )  # fmt: skip
    return line, left_out
