"""One column of a few values given others: logistic regressions, mixed with the shares of the whole reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.tabular.residual.design import Form, Space
from butfor.tabular.residual.regression import Line, Rotated, Views, best_penalty
from butfor.types import Array, Floats, Ints

FITTED_ON = 3_000  # rows of a logistic regression at most
MOST_CLASSES = 32  # levels with a regression of their own, the most frequent ones; the others share one
STEPS, CLOSE = 25, 1e-2  # of Newton's method: the error after a step is about the square of it
SHARES = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])  # of the whole reference's shares in the mixture
STRONGER = (1.0, 10.0)  # penalties to try, times that of the linear regression
LEAST = 1e-9  # probability


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Probabilities of the levels of a column (a missing value is one of them) given the other columns."""

    levels: Array  # (K,) NaN last
    form: Form
    lines: tuple[Line, ...]  # one for a yes/no split each
    ordered: bool  # splits are "above level k"; else "is class k"
    classes: Ints  # (K,) the class of each level
    within: Floats  # (K,) the share of each level in its class
    margin: Floats  # (K,) shares in the reference
    share: float  # of the margin in the mixture

    def centre(self, space: Space, inputs: Array, rest: Ints) -> Floats:
        """Log odds of every split and the largest leverage, (n, splits + 1)."""
        features = space.of(inputs, rest, self.form)
        parts = [line.at(features) for line in self.lines]
        leverage = np.max([part[1] for part in parts], axis=0) if parts else np.zeros(len(inputs))
        bounded = np.minimum(leverage, 1.0)  # a probability is never off by more than its own spread
        return np.stack([*(part[0] for part in parts), bounded], axis=1)

    @property
    def width(self) -> int:
        """Numbers of a centre."""
        return len(self.lines) + 1

    def leverage_of_mean(self, space: Space, inputs: Array, rest: Ints) -> float:
        """Of the fit's mean over the inputs; its error is at most the mean of the errors at each of them."""
        features = space.of(inputs, rest, self.form)
        middle = features.mean(axis=0)[None]
        found = 0.0
        for line in self.lines:
            each = float(np.sqrt(np.minimum(line.at(features)[1], 1.0)).mean()) ** 2
            found = max(found, min(float(line.at(middle)[1][0]), each))
        return found

    def probabilities(self, odds: Floats) -> Floats:
        """Of the levels, (..., K), from log odds of the splits, (..., splits)."""
        if not self.lines:
            return np.broadcast_to(self.margin, (*odds.shape[:-1], len(self.margin)))
        fitted = _to_classes(odds, self.ordered)[..., self.classes] * self.within
        return (1 - self.share) * fitted + self.share * self.margin


def codes_of(values: Array) -> tuple[Array, Ints]:
    """The distinct values of a column, NaN last and once, and the place of each value among them."""
    held = np.where(np.isnan(values), np.inf, values)
    levels, codes = np.unique(held, return_inverse=True)
    return np.where(np.isinf(levels), np.nan, levels), codes


def fit_classes(views: Views, values: Array, ordered: bool, stronger: tuple[float, ...] = STRONGER) -> ClassFit:
    """The fit of a column, whose values at the rows of `views` are given (and may be missing)."""
    levels, codes = codes_of(values)
    counts = np.bincount(codes, minlength=len(levels))
    margin = counts / counts.sum()
    if len(levels) == 1:
        return ClassFit(levels, "plain", (), False, np.zeros(1, np.int64), np.ones(1), margin, 1.0)
    ordered = ordered and len(levels) > 2 and not np.isnan(levels[-1])
    classes = _classes(counts)
    within = margin / np.bincount(classes, weights=margin)[classes]
    places = views.space.some(len(codes), FITTED_ON)
    size = len(places)
    best: tuple[float, ClassFit] | None = None
    for form in views.forms:
        rotated = Views(views.space, views.given, views.rows[places]).rotated(form, size)
        lines, odds = _splits(rotated, classes[codes[places]], ordered, stronger)
        made = ClassFit(levels, form, lines, ordered, classes, within, margin, 0.0)
        share, loss = _mixture(made.probabilities(odds), margin, codes[places])
        if best is None or loss < best[0]:
            best = loss, ClassFit(levels, form, lines, ordered, classes, within, margin, share)
    assert best is not None
    return best[1]


def _classes(counts: Ints) -> Ints:
    """Each level its own class; beyond MOST_CLASSES the rarest share one."""
    if len(counts) <= MOST_CLASSES:
        return np.arange(len(counts))
    classes = np.full(len(counts), MOST_CLASSES - 1)
    classes[np.sort(np.argsort(-counts, kind="stable")[: MOST_CLASSES - 1])] = np.arange(MOST_CLASSES - 1)
    return classes


def _splits(
    rotated: Rotated, classes: Ints, ordered: bool, stronger: tuple[float, ...]
) -> tuple[tuple[Line, ...], Floats]:
    """A regression for each split, and its log odds for rows left out, (m, splits)."""
    count = int(classes.max()) + 1
    wanted = [classes > k for k in range(count - 1)] if ordered else [classes == k for k in range(count)]
    found = [_logistic(rotated, yes.astype(np.float64), stronger) for yes in (wanted if count > 2 else [classes == 1])]
    return tuple(line for line, _ in found), np.stack([odds for _, odds in found], axis=1)


def _to_classes(odds: Floats, ordered: bool) -> Floats:
    from scipy.special import expit

    chance = np.clip(expit(odds), LEAST, 1 - LEAST)
    if odds.shape[-1] == 1:
        return np.concatenate([1 - chance, chance], axis=-1)
    if not ordered:
        return np.asarray(chance / chance.sum(axis=-1, keepdims=True))
    above = np.minimum.accumulate(chance, axis=-1)  # above a higher level is never likelier
    one, none = np.ones_like(above[..., :1]), np.zeros_like(above[..., :1])
    steps = -np.diff(np.concatenate([one, above, none], axis=-1), axis=-1) + LEAST
    return np.asarray(steps / steps.sum(axis=-1, keepdims=True))


def _logistic(rotated: Rotated, yes: Floats, factors: tuple[float, ...]) -> tuple[Line, Floats]:
    """Of some penalties the one under which rows left out are least surprising; their log odds."""
    mean = float(yes.mean())
    penalty = best_penalty(rotated, yes) * max(mean * (1 - mean), 1e-3)
    best: tuple[float, Line, Floats] | None = None
    for stronger in factors:
        line, odds = _newton(rotated, yes, penalty * stronger)
        loss = float(np.logaddexp(0, np.where(yes > 0, -odds, odds)).mean())
        if best is None or loss < best[0]:
            best = loss, line, odds
    assert best is not None
    return best[1], best[2]


def _newton(rotated: Rotated, yes: Floats, penalty: float) -> tuple[Line, Floats]:
    """Logistic ridge regression, and log odds of each row without it (approximately: Rad and Maleki 2020, eq. 8)."""
    from scipy.special import expit

    features = np.column_stack([np.ones(len(yes)), rotated.first_scores])
    ridge = np.append(0.0, np.full(len(rotated.power), penalty))
    level = float(np.clip(yes.mean(), 1e-3, 1 - 1e-3))
    weights = np.append(np.log(level / (1 - level)), np.zeros(len(ridge) - 1))
    for _ in range(STEPS):
        chance = expit(features @ weights)
        halves = features * np.sqrt(np.maximum(chance * (1 - chance), 1e-6))[:, None]
        bent = halves.T @ halves + np.diag(ridge + 1e-9)
        step = np.linalg.solve(bent, features.T @ (yes - chance) - ridge * weights)
        reach = float(np.abs(features @ step).max())
        weights = weights + step * min(1.0, 4.0 / max(reach, 1e-300))
        if reach < CLOSE:
            break
    odds = features @ weights
    chance = expit(odds)
    root = np.linalg.cholesky(np.linalg.inv(bent))
    leverage = ((features @ root) ** 2).sum(axis=1)
    spread = chance * (1 - chance)
    left = odds - leverage * (yes - chance) / np.maximum(1 - spread * leverage, 1e-3)
    # The leverage that is reported is in units of a residual's variance, as that of a linear regression.
    even = penalty / max(level * (1 - level), 1e-3)
    along = rotated.axes @ weights[1:]
    return Line(float(weights[0]), rotated.mean, along, rotated.axes, rotated.power, even, len(yes)), left


def _mixture(fitted: Floats, margin: Floats, codes: Ints) -> tuple[float, float]:
    """How much of the margin to mix in, by the log loss of rows left out; and that loss."""
    own, whole = fitted[np.arange(len(codes)), codes], margin[codes]
    losses = [-float(np.log((1 - share) * own + share * whole).mean()) for share in SHARES]
    best = int(np.argmin(losses))
    return float(SHARES[best]), losses[best]
