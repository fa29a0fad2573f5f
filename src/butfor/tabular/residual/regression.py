"""One column given others: ridge regression of numbers, logistic regression of columns with few values, and trees.

A column of numbers is drawn as x~ = g^-1(mean(rest) + spread(rest) e_r), where g is a power transform and e_r the
left-out residual of reference row r. Terms, transform, penalty and spread are chosen by the score of rows left out: the
freer of two only where it gains for sure. What the regression leaves over, trees may explain (METHODS 18). Rows of one
cluster are left out together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from hashlib import blake2b
from itertools import combinations

import numpy as np

from butfor.streams import stream
from butfor.tabular.donors import lower_ends, round_limits
from butfor.tabular.residual.design import Design, Form, Grid, PowerTransform, Terms
from butfor.tabular.residual.trees import FIRST, LEAST_ROWS, TREES, Forest, TreeStage, grow, tree_stages
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
    clusters: Ints | None = None  # (m,) rows that are left out together; None: each by itself

    def left_out(self, targets: Floats, penalties: Floats) -> tuple[Floats, Floats]:
        """Return the residuals of `targets` (m, 1 or c), each row predicted by the others, and leverages, (m, c) both.

        With z_r the centred features of row r: h_r = 1/m + z_r' (Z'Z + penalty)^-1 z_r; e_r = (y_r - fit_r)/(1 - h_r).
        Of a cluster C of rows e_C = (I - H_CC)^-1 (y_C - fit_C), and 1 - h_r is one over the diagonal of the inverse.
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
        if self.clusters is None:
            return residuals / (1 - leverage), leverage
        for members in (np.flatnonzero(self.clusters == one) for one in np.unique(self.clusters)):
            scores = np.asarray((self.features[members] - self.mean) @ self.axes, np.float64)
            for k in range(len(penalties)):
                hat: Floats = (scores * shrink[:, k]) @ scores.T + 1 / len(targets)
                inverse = np.linalg.inv(np.eye(len(members)) * (1 + 1e-9) - hat)
                residuals[members, k] = inverse @ residuals[members, k]
                leverage[members, k] = 1 - 1 / np.maximum(np.diag(inverse), 1.0)
        return residuals, leverage

    def fit(self, target: Floats, penalty: float) -> LinearFit:
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


def ridge(features: Floats, products: Floats | None = None, clusters: Ints | None = None) -> Ridge:
    """Return the ridge regressions on features (m, p); `products` are features' features where known."""
    mean = features.mean(axis=0)
    size, width = features.shape
    if size < width:
        centred = features - mean
        eigenvalues, left = np.linalg.eigh(centred @ centred.T)
        kept = eigenvalues > LEAST_VARIANCE * max(float(eigenvalues[-1]), 1e-300)
        axes = (centred.T @ left[:, kept]) / np.sqrt(eigenvalues[kept])
        return Ridge(features, mean, axes, eigenvalues[kept], clusters)
    products = features.T @ features if products is None else products
    eigenvalues, axes = np.linalg.eigh(products - size * np.outer(mean, mean))
    kept = eigenvalues > LEAST_VARIANCE * max(float(eigenvalues[-1]) if width else 0.0, 1e-300)
    return Ridge(features, mean, np.ascontiguousarray(axes[:, kept]), eigenvalues[kept], clusters)


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
        """Return the mean and its leverage (its variance in units of the residuals'), (n,) both."""
        centred = (features - self.mean)[:, None, :]
        along = (centred @ self.axes)[:, 0, :] ** 2
        beside = np.maximum((centred[:, 0, :] ** 2).sum(axis=1) - along.sum(axis=1), 0)  # where no reference row lies
        leverage = 1 / self.rows + (along / (self.eigenvalues + self.penalty)).sum(axis=1) + beside / self.penalty
        return self.means(features), leverage

    def means(self, features: Floats) -> Floats:
        """Return the mean alone, (n,): its leverage takes many times longer."""
        # One small product per row, not one large: a row's bits then do not depend on the rows beside it.
        return np.asarray(((features - self.mean)[:, None, :] @ self.weights[:, None])[:, 0, 0] + self.intercept)


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


CHOSEN_ON = 2_000  # rows that choices are made on, and trees grown on
SCORED = 500  # of which so many are scored
QUANTILES = (np.arange(50) + 0.5) / 50
SIMPLER, LIKELY = 0.995, 1.0  # a transform or a spline must gain half a per cent, by one standard error
WORTH, SURE = 0.99, 2.0  # levels, products, a sparse choice and a changing spread 1 %, by two standard errors
SCALED_FROM = 60  # rows that can tell how the spread changes, or products
RIVAL, NEAR, CLOSE = 1.1, 1.05, 1.02  # times the best score: rivals that are believed too where they go apart
SMALLEST = 0.05  # of the mean error: smaller ones count as this where the spread is learned
MOST_PAIRED, MOST_TERMS = 80, 40  # features that are multiplied with each other, and terms of a sparse regression
ROUNDS, PER_PAIR, PER_BLOCK = 2, 30, 3  # of the search for products, rows for each, and times more of a category
BY_CHANCE = 0.05  # chance that a search for terms takes up any where there is none
TREE_PAIRS = 4  # whose products, sums and differences trees may cut


@dataclass(frozen=True, eq=False)
class Predictors:
    """The columns that the columns of a subset are regressed on; ridge regressions are set up once for all of them."""

    design: Design
    columns: Ints
    rows: Ints  # of the reference
    known: dict[tuple[Terms, int], Ridge] = field(default_factory=dict)

    @property
    def sample(self) -> Ints:
        """Positions among `rows` of those that choices are made on."""
        return self.design.subsample(len(self.rows), CHOSEN_ON)

    def clusters(self, rows: Ints) -> Ints | None:
        """Return the clusters of reference rows, numbered from 0; None: each row is one."""
        known = self.design.rows.clusters
        return None if known is None else np.unique(known[rows], return_inverse=True)[1].reshape(-1)

    def ridge(self, terms: Terms, size: int) -> Ridge:
        """Return the regressions on all rows (`size` is their number) or on the sample."""
        if (terms, size) not in self.known:
            rows = self.rows if size == len(self.rows) else self.rows[self.sample]
            products = self.design.reference(self.columns, terms.form, rows)[1] if terms == Terms(terms.form) else None
            self.known[terms, size] = ridge(self.features(terms, rows), products, self.clusters(rows))
        return self.known[terms, size]

    def features(self, terms: Terms, rows: Ints) -> Floats:  # (m, features)
        return terms.join(lambda form: self.design.reference(self.columns, form, rows)[0])

    @cached_property
    def forms(self) -> list[Form]:
        return self.design.forms(self.columns, len(self.rows))

    def values(self, column: int, rows: Ints) -> Floats:
        return np.asarray(self.design.rows.values[self.rows[rows], column], np.float64)

    def owners(self, form: Form) -> Ints:  # (p,) positions of the features' columns
        return np.repeat(np.arange(len(self.columns)), [self.design.basis(form, int(j)).width for j in self.columns])


@dataclass(frozen=True, eq=False)
class Candidate:
    """One regression of a column, and how rows that were left out scored."""

    terms: Terms
    transform: PowerTransform
    penalty: float
    means: Floats  # (m,) of rows left out
    residuals: Floats  # (m,) standardised
    scores: Floats  # (scored,)


@dataclass(frozen=True, eq=False)
class Choice:
    """The regression with the best score, all that were tried, and products that stood out of what others left over."""

    best: Candidate
    tried: list[Candidate]
    pairs: tuple[tuple[int, int], ...]


def choose(predictors: Predictors, column: int) -> Choice:
    """Return the regression with the best score of rows left out; additive ones first, then freer ones."""
    design, values = predictors.design, predictors.values(column, predictors.sample)
    tried: list[Candidate] = []
    best: Candidate | None = None

    def attempt(terms: Terms, transform: PowerTransform, factor: float, errors: float) -> bool:
        nonlocal best
        regressions, target = predictors.ridge(terms, len(values)), transform(values)
        penalty = best_penalty(regressions, target)
        parts = regressions.left_out(target[:, None], np.array([penalty]))
        residuals, leverage = (part[:, 0] for part in parts)
        means, standardised = target - residuals, residuals * np.sqrt(1 - leverage)
        outside = leverage / (1 - leverage)  # of a row for the fit without it
        scores = crps(transform, values, means, np.sqrt(1 + outside), standardised)
        tried.append(Candidate(terms, transform, penalty, means, standardised, scores))
        won = best is None or _better(tried[-1].scores, best.scores, factor, errors)
        best = tried[-1] if won else best
        return won

    skewed = design.once(design.power, column) < 1.0
    for form in predictors.forms:
        for transform in design.once(design.transforms, column):
            if transform.log if form == "logs" else skewed or not transform.log:
                attempt(Terms(form), transform, SIMPLER, LIKELY)
    assert best is not None
    pairs: tuple[tuple[int, int], ...] = ()
    if len(values) >= SCALED_FROM and len(predictors.columns):
        if design.width("levels", predictors.columns):
            attempt(replace(best.terms, levels=True), best.transform, WORTH, SURE)
        for _ in range(ROUNDS):
            new = screened(predictors, best.terms.paired, best.residuals, len(values) // PER_PAIR, pairs)
            pairs += new
            if not new or not attempt(replace(best.terms, pairs=pairs), best.transform, WORTH, SURE):
                break
        terms = sparse(predictors, best.terms, best.transform(values))
        if terms is not None:
            attempt(terms, best.transform, WORTH, SURE)
            pairs = pairs or terms.pairs
    return Choice(best, tried, pairs)


def _bent(residuals: Floats) -> Floats:
    """Return residuals of mean 0 in units of their spread, none beyond 3: one row cannot decide."""
    bent = np.clip((residuals - residuals.mean()) / (residuals.std() + 1e-300), -3, 3)
    return np.asarray(bent - bent.mean())


def pair_scores(features: Floats, bent: Floats) -> Floats:
    """Return how far products of features (m, p) go with residuals (m,), in standard errors that hold for any spread.

    The sums over rows of (x_i x_j - mean) e and of its square are four products of matrices.
    """
    squares, weights = features**2, (bent**2)[:, None]
    means = features.T @ features / len(features)
    along = (features * bent[:, None]).T @ features
    variance = (squares * weights).T @ squares - 2 * means * ((features * weights).T @ features)
    return np.asarray(np.abs(along) / np.sqrt(np.maximum(variance + means**2 * weights.sum(), 1e-9)))


def screened(
    predictors: Predictors, form: Form, residuals: Floats, most: int, known: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """Return products that go with what a regression leaves over, beyond what the best of them would by chance."""
    from scipy.special import chdtrc, ndtri

    features, owner = predictors.features(Terms(form), predictors.rows[predictors.sample]), predictors.owners(form)
    free = owner[:, None] < owner  # each pair once, and none of one column
    for one, other in known:
        free[one, other] = False
    if features.shape[1] > MOST_PAIRED or not free.any():
        return ()
    scores = np.where(free, pair_scores(features, _bent(residuals)), 0.0)
    first = np.argsort(-scores, axis=None, kind="stable")[: max(1, most)]
    first = first[scores.reshape(-1)[first] > -ndtri(BY_CHANCE / 2 / free.sum())]
    pairs = [(int(k) // len(scores), int(k) % len(scores)) for k in first]
    # A slope that differs by category is a product of each of its flags: weak one by one, and told by all together.
    width = np.bincount(owner)
    several = [(a, b) for a, b in combinations(range(len(width)), 2) if width[a] * width[b] > 1]
    blocks = [free & (owner[:, None] == a) & (owner == b) for a, b in several]
    for block in blocks:
        together = float(chdtrc(block.sum(), (scores[block] ** 2).sum()))
        if 1 < block.sum() <= PER_BLOCK * most and together < BY_CHANCE / len(blocks):
            pairs += [(int(one), int(other)) for one, other in np.argwhere(block)]
    return tuple(dict.fromkeys(pairs))


def sparse(predictors: Predictors, like: Terms, target: Floats) -> Terms | None:
    """Return the few terms that a forward search takes up, by residuals of rows left out; None: nothing new."""
    from scipy.special import ndtri

    rows, size = predictors.rows[predictors.sample], len(target)
    forms = predictors.forms
    form: Form = "logs" if like.form == "logs" else "curved" if "curved" in forms else like.form
    terms = Terms(form, levels=predictors.design.width("levels", predictors.columns) > 0)
    single = predictors.features(terms, rows)
    single = (single - single.mean(axis=0)) / (single.std(axis=0) + 1e-9)
    paired = predictors.features(Terms(terms.paired), rows)
    owner = predictors.owners(terms.paired)
    free = (owner[:, None] < owner) | np.eye(len(owner), dtype=bool)
    free = free if paired.shape[1] <= MOST_PAIRED else np.zeros_like(free)
    cut = -ndtri(BY_CHANCE / 2 / (single.shape[1] + free.sum()))
    centred = target - target.mean()
    left, leverage, basis = centred, np.full(size, 1 / size), np.empty((0, size))
    picked: list[int] = []
    pairs: list[tuple[int, int]] = []
    for _ in range(min(MOST_TERMS, size // 10)):
        bent = _bent(left / (1 - leverage))
        alone = np.abs(single.T @ bent) / np.sqrt(single.T**2 @ bent**2 + 1e-9)
        alone[picked] = 0.0
        products = np.where(free, pair_scores(paired, bent), 0.0) if free.any() else np.zeros((1, 1))
        if max(alone.max(initial=0.0), products.max()) < cut:
            break
        if alone.max(initial=0.0) >= products.max():
            picked.append(int(alone.argmax()))
            term = single[:, picked[-1]]
        else:
            one, other = np.unravel_index(int(products.argmax()), products.shape)
            pairs.append((int(one), int(other)))
            free[one, other] = False
            term = paired[:, one] * paired[:, other]
        term = term - term.mean()
        fresh = term - (basis @ term) @ basis
        length = float(np.sqrt(fresh @ fresh))
        if length < 1e-6 * float(np.sqrt(term @ term)):
            continue
        basis = np.vstack([basis, fresh / length])
        left = centred - (basis @ centred) @ basis
        leverage = np.minimum(leverage + basis[-1] ** 2, 1 - 1e-6)
    if not pairs and len(picked) in (0, single.shape[1]):
        return None
    return replace(terms, pairs=tuple(pairs), picked=(*picked, *range(single.shape[1], single.shape[1] + len(pairs))))


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


USUAL = 0.95  # share of reference rows at which rival means are as far apart as is usual
FARTHEST = 10.0  # standard deviations that rival means count as apart at most
FURTHER, MOST_BENT = 10.0, 30.0  # what a curve may do beyond the reference, times what it does within; deviations
WIDEST = float(np.log(10))  # beyond what the reference shows, the spread grows by this factor at most
NORMAL = 1.96**2  # distances are turned into a variance of which this is the square of the 95 % quantile
FORM, RIDGE = 2.0, 1.0  # times the distance to a fit without trees or by one kind of them, and to other terms


@dataclass(frozen=True, eq=False)
class Rival:
    """Another regression of the same column that scored nearly as well: where it goes apart, nobody knows the mean."""

    terms: Terms
    transform: PowerTransform
    line: LinearFit
    weight: float  # of its distance in the error of the mean; 0: it did not score that well


@dataclass(frozen=True, eq=False)
class NumericFit:
    """x~ = g^-1(mean(rest) + spread(rest) e_r), e_r the residual of reference row r, left out of the fit."""

    column: int
    given: Ints  # the columns that it is regressed on
    terms: Terms
    line: LinearFit
    transform: PowerTransform
    grid: Grid
    span: tuple[float, float]  # of the reference
    residuals: Floats  # (m,) the donors'
    sd: float  # of the residuals, that distances of means are measured in
    unshrunk: LinearFit  # the same regression with hardly a penalty: how far the penalty moves the mean
    trees: TreeStage | None = None  # what they add to the mean
    cuts: tuple[tuple[int, int], ...] = ()  # pairs of plain features that trees cut together
    spread: tuple[Form, LinearFit] | None = None  # of log |e| on features of a form; None: the same everywhere
    spread_trees: TreeStage | None = None
    spread_bounds: tuple[float, float] = (0.0, 0.0)  # of its logarithm
    rivals: tuple[Rival, ...] = ()
    usual: float = 0.0  # squared distance of rivals at reference rows: residuals there contain it
    offsets: tuple[float, ...] = ()  # mean distance of each rival over all reference rows
    repeated: float = 1.0  # rows that say what one would: those of a cluster repeat each other

    width = 2  # numbers of a prediction

    @cached_property
    def order(self) -> Ints:
        """Donors from the least residual to the largest, (m,)."""
        return np.argsort(self.residuals, kind="stable")

    def predict(self, design: Design, inputs: Array) -> Floats:
        """Return mean and spread at each input, (n, 2); where rivals disagree the mean is known less well."""
        matrix = design.matrices(inputs, self.given)
        mean, leverage = self._mean(matrix)
        apart = self.apart(mean, matrix) + self.continuation_error(design, inputs) ** 2
        spread = np.sqrt((1 + self.repeated * leverage) * (1 + apart))
        return np.stack([mean, spread * self._scale(matrix)], axis=1)

    def _mean(self, matrix: Callable[[Form], Floats]) -> tuple[Floats, Floats]:
        mean, leverage = self.line.predict(self.terms.join(matrix))
        return (mean if self.trees is None else mean + self.trees(tree_features(matrix, self.cuts))), leverage

    def _scale(self, matrix: Callable[[Form], Floats]) -> Floats:
        if self.spread is None:
            return np.ones(len(matrix("plain")))
        form, line = self.spread
        logs = line.means(matrix(form))
        if self.spread_trees is not None:
            logs = logs + self.spread_trees(tree_features(matrix, self.cuts))
        return np.asarray(np.exp(np.clip(logs, *self.spread_bounds)))

    def apart(self, mean: Floats, matrix: Callable[[Form], Floats]) -> Floats:
        """Return how much farther the rivals' means are from this one's than at reference rows, (n,).

        Squared, in units of the residuals' variance. Among reference rows it does not matter which of them is right:
        the residuals there say how wrong the chosen one is.
        """
        squared = (self.distances(mean, matrix) ** 2).max(axis=0, initial=0.0)
        return np.asarray(np.maximum(squared - self.usual, 0.0))

    def continuation_error(self, design: Design, inputs: Array) -> Floats:
        """Return how far a curve may leave the mean beyond the reference, in standard deviations of residuals, (n,).

        Splines go on straight there, and trees stay as they are at the edge: nobody knows whether the true mean does. A
        curve that leaves its chord by more than one deviation within the reference may leave it by ten times as much
        over the same distance, an exponential function does, and with the square of the distance. Straight lines, also
        of powers and logarithms, go on as they are.
        """
        error = np.zeros(len(inputs))
        straight = self.terms.form != "curved" and self.trees is None
        straight = straight and all(one != other for one, other in self.terms.pairs)
        if straight or len(self.residuals) < SCALED_FROM:  # few rows tell no curve
            return error
        low, high = design.once(design.ranges)
        values = inputs.astype(np.float64)
        edge = np.clip(values, low, high)
        outside = np.zeros(values.shape, bool)
        outside[:, self.given] = ((np.abs(values - edge) > 0) & (high > low))[:, self.given]
        if (rows := np.flatnonzero(outside.any(axis=1))).size:
            some, at_edge = outside[rows], edge[rows]
            half = np.where(some, (high - low) / 2, 1.0)
            inward = np.where(some, np.sign(at_edge - values[rows]), 0.0) * np.where(some, half, 0.0)
            first, middle, last = (
                self._mean(design.matrices(at_edge + steps * inward, self.given))[0] for steps in (0, 1, 2)
            )
            curve = np.maximum(np.abs(first - 2 * middle + last) / self.sd - 1, 0.0)
            reach = (np.where(some, np.abs(values[rows] - at_edge), 0.0) / half).max(axis=1)
            error[rows] = np.minimum(FURTHER * curve * reach**2, MOST_BENT)
        return error

    def distances(self, mean: Floats, matrix: Callable[[Form], Floats]) -> Floats:
        """Return those of each rival's means from this one's, in standard deviations of the residuals, (rivals, n)."""
        distances = np.zeros((len(self.rivals), len(mean)))
        for row, rival in zip(distances, self.rivals, strict=True):
            other = rival.line.means(rival.terms.join(matrix))
            if rival.transform != self.transform:
                other = self.transform(rival.transform.inverse(other))
            row[:] = np.clip((other - mean) / self.sd, -FARTHEST, FARTHEST)
        return distances

    def leverage(self, design: Design, inputs: Array) -> Floats:
        """Return the variance of the mean at each input in units of the residual's there, (n,).

        With what no formula has: how far the penalty moves the mean, and the distance to other regressions and trees
        that scored nearly as well (weights measured on beds with known truth, METHODS 18).
        """
        matrix = design.matrices(inputs, self.given)
        mean, leverage = self._mean(matrix)
        features = self.terms.join(matrix)
        leverage = leverage + ((self.unshrunk.means(features) - self.line.means(features)) / self.sd) ** 2
        weights = np.array([rival.weight for rival in self.rivals])[:, None]
        error = ((weights * self.distances(mean, matrix)) ** 2).max(axis=0, initial=0.0) / NORMAL
        error = error + self.continuation_error(design, inputs) ** 2 / NORMAL
        if self.trees is not None and len(mean):
            variance, distance = self.trees.errors(tree_features(matrix, self.cuts))
            error = error + (variance + FORM**2 * distance / NORMAL) / self.sd**2
        return np.asarray(leverage + error / np.minimum(self._scale(matrix), 1.0) ** 2)

    def leverage_of_mean(self, design: Design, inputs: Array) -> float:
        """Return it of the mean over the inputs, with what the penalty and the form may have moved it by, squared.

        Noise averages out over many inputs, a mean that is shrunk too far does not. Rivals count by how much farther
        they are from this one than over the reference, where residuals make up for it: the mean of a logarithm is never
        the logarithm of the mean.
        """
        matrix = design.matrices(inputs, self.given)
        middle = self.terms.join(matrix).mean(axis=0)[None]
        (straight,), (leverage,) = self.line.predict(middle)
        shrunk = (self.unshrunk.means(middle)[0] - straight) / self.sd
        distances = self.distances(self._mean(matrix)[0], matrix).mean(axis=1) - self.offsets
        trees = 0.0 if self.trees is None else self.trees.variance_of_mean(tree_features(matrix, self.cuts))
        return float(leverage + shrunk**2 + (distances**2).max(initial=0.0) + trees / self.sd**2)

    def values(self, mean: Floats, spread: Floats, donors: Ints, observed: Floats) -> Floats:
        """Return new values, of the shape of `donors` (reference rows), (n, draws); `observed` is (n, 1)."""
        fresh = self.residuals[donors]
        fresh *= spread
        fresh += mean
        with np.errstate(over="ignore"):  # the inverse of a power: kept to bounds below
            fresh = self.grid(self.transform.inverse(fresh))
        return fresh if self.transform.linear else np.asarray(np.clip(fresh, *self.bounds(observed)))

    def bounds(self, observed: Floats) -> tuple[Floats, Floats]:
        """Return how far values of a transformed column go, of the shape of `observed`.

        Where nobody knows the mean, the inverse of a power goes to any height. New values are kept to the range of the
        reference and the observed value, and as far again on both sides: none is moved onto or past the observed one.
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

    def ends(self, design: Design, rows: Array) -> tuple[Ints, Ints]:
        """Return between which donors each of them, row by row (m, d), has its own value, after rounding, (m,) both."""
        low = high = self.residuals
        if self.grid.step is not None:  # a residual tells where the mean is: rounded draws that equal are one rank
            values = rows[:, self.column].astype(np.float64)
            spread, half = self.predict(design, rows)[:, 1], self.grid.step / 2
            middle = self.transform(values)
            low, high = (low + (self.transform(values + side) - middle) / spread for side in (-half, half))
            low = np.where(self.grid.nonnegative & (values <= 0), -np.inf, low)
        ordered = self.residuals[self.order]
        return ordered.searchsorted(low, side="left"), ordered.searchsorted(high, side="right")


def tree_features(matrix: Callable[[Form], Floats], pairs: tuple[tuple[int, int], ...]) -> Floats:
    """Return what trees cut: plain features, levels apart, and products, sums and differences of some pairs."""
    plain = matrix("plain")
    parts = [plain]
    for one, other in pairs:
        a, b = plain[:, one], plain[:, other]
        parts.append(np.stack([a * b, a + b, a - b], axis=1))
    return np.concatenate(parts, axis=1)


def fit_numbers(predictors: Predictors, columns: list[int]) -> list[NumericFit]:
    """Fit columns of numbers, which have values at all rows of the predictors."""
    if not columns:
        return []
    choices = [choose(predictors, j) for j in columns]
    lines = [_fit_line(predictors, j, choice.best) for j, choice in zip(columns, choices, strict=True)]
    plain = predictors.design.width("plain", predictors.columns)
    pairs = tuple(dict.fromkeys(pair for choice in choices for pair in choice.pairs[:TREE_PAIRS] if max(pair) < plain))
    matrix = cache(partial(_of_rows, predictors))
    features, sample = tree_features(matrix, pairs), predictors.sample
    clusters = predictors.clusters(predictors.rows[sample])
    marks = (predictors.design.rows.marks[j] for j in columns)
    rng = stream(predictors.design.seed, "residual", "trees", *marks)
    left = np.stack([residuals for _, residuals, _ in lines], axis=1)
    stages: list[TreeStage | None] = [None] * len(lines)
    if predictors.design.trees:
        stages = tree_stages(features[sample], left[sample], clusters, rng)
    fits = []
    for line, stage, choice in zip(lines, stages, choices, strict=True):
        fit, added = _with_trees(predictors, line, stage, features)
        fits.append(_with_rivals(predictors, replace(fit, cuts=pairs), added, choice))
    return _with_spreads(predictors, fits, features, clusters, rng)


def repeats(residuals: Floats, clusters: Ints) -> float:
    """Return how many rows of a cluster say what one would, by how their residuals (m,) go together; at least 1."""
    centred = residuals - residuals.mean()
    sums = np.bincount(clusters, weights=centred)
    return max(1.0, float((sums**2).sum() / max(float((centred**2).sum()), 1e-300)))


def _of_rows(predictors: Predictors, form: Form) -> Floats:
    return predictors.design.reference(predictors.columns, form, predictors.rows)[0]


def _fit_line(predictors: Predictors, column: int, best: Candidate) -> tuple[NumericFit, Floats, Floats]:
    """Fit the regression on all rows; return its left-out residuals and leverages, (m,) both, with it."""
    design, regressions = predictors.design, predictors.ridge(best.terms, len(predictors.rows))
    values = predictors.values(column, np.arange(len(predictors.rows)))
    target = best.transform(values)
    parts = regressions.left_out(target[:, None], np.array([best.penalty]))
    residuals, leverage = (part[:, 0] for part in parts)
    standardised, clusters = residuals * np.sqrt(1 - leverage), predictors.clusters(predictors.rows)
    fit = NumericFit(
        column=column,
        given=predictors.columns,
        terms=best.terms,
        line=regressions.fit(target, best.penalty),
        transform=best.transform,
        grid=design.once(design.grid, column),
        span=(float(values.min()), float(values.max())),
        residuals=standardised,
        sd=max(float(standardised.std()), 1e-300),
        unshrunk=regressions.fit(target, least_penalty(regressions)),
        repeated=1.0 if clusters is None else repeats(standardised, clusters),
    )
    return fit, residuals, leverage


def _with_trees(
    predictors: Predictors, line: tuple[NumericFit, Floats, Floats], stage: TreeStage | None, features: Floats
) -> tuple[NumericFit, Floats]:
    """Return the same with what trees explain of its left-out residuals, and what they add at each row, left out."""
    (fit, residuals, leverage), sample = line, predictors.sample
    added = np.zeros(len(residuals))
    if stage is None:
        return fit, added
    beyond = np.setdiff1d(np.arange(len(residuals)), sample)
    added[sample], added[beyond] = stage.left_out, stage(features[beyond])
    standardised = (residuals - added) * np.sqrt(1 - leverage)
    fit = replace(fit, residuals=standardised, sd=max(float(standardised.std()), 1e-300), trees=stage)
    values, shrink = predictors.values(fit.column, sample), np.sqrt(1 - leverage[sample])
    others = (np.zeros(len(sample)), *stage.alone())
    scores = [_scores(fit, values, (residuals[sample] - other) * shrink).mean() for other in others]
    best = float(_scores(fit, values, standardised[sample]).mean())
    nothing, forest, boosting = (bool(score <= CLOSE * best) for score in scores)
    return replace(fit, trees=replace(stage, near=(nothing, forest, boosting))), added


def _with_rivals(predictors: Predictors, fit: NumericFit, added: Floats, choice: Choice) -> NumericFit:
    """Return the same with its rivals; residuals are freed of how far apart those are at each row."""
    values, best = predictors.values(fit.column, predictors.sample), float(choice.best.scores.mean())
    tried = [(one, RIDGE) for one in choice.tried if one is not choice.best]
    if fit.trees is not None:  # the regression without them is a rival, too, and others must come near to both
        alone = crps(fit.transform, values, choice.best.means, np.ones(len(values)), choice.best.residuals)
        with_trees = _scores(fit, values, fit.residuals[predictors.sample])
        best *= min(1.0, float(with_trees.mean() / max(alone.mean(), 1e-300)))
        tried.append((choice.best, 0.0))
    rivals = []
    for one, weight in tried:
        score = float(one.scores.mean())
        if score <= RIVAL * best:
            line = predictors.ridge(one.terms, len(values)).fit(one.transform(values), one.penalty)
            rivals.append(Rival(one.terms, one.transform, line, weight if score <= NEAR * best else 0.0))
    if not rivals:
        return fit
    fit, matrix = replace(fit, rivals=tuple(rivals)), cache(partial(_of_rows, predictors))
    mean = fit.line.means(fit.terms.join(matrix)) + added
    offsets = tuple(fit.distances(mean, matrix).mean(axis=1).tolist())
    usual = float(np.quantile(fit.apart(mean, matrix), USUAL))
    fit = replace(fit, usual=usual, offsets=offsets)
    return replace(fit, residuals=fit.residuals / np.sqrt(1 + fit.apart(mean, matrix)))


def _with_spreads(
    predictors: Predictors, fits: list[NumericFit], features: Floats, clusters: Ints | None, rng: np.random.Generator
) -> list[NumericFit]:
    """Return the same with a spread that changes with the other columns (never the means), where that scores better."""
    sample = predictors.sample
    if len(sample) < SCALED_FROM:
        return fits
    sizes = np.abs(np.stack([fit.residuals for fit in fits], axis=1))
    targets = np.asarray(np.log(np.maximum(sizes, SMALLEST * np.maximum(sizes.mean(axis=0), 1e-300))))
    lines, left = zip(*(_log_spread(predictors, target) for target in targets.T), strict=True)
    straight = targets - np.stack(left, axis=1)
    stages: list[TreeStage | None] = [None] * len(fits)
    if predictors.design.trees:
        stages = tree_stages(features[sample], (targets - straight)[sample], clusters, rng, of_spread=True)
    spreads = []
    for k, (fit, stage) in enumerate(zip(fits, stages, strict=True)):
        values = predictors.values(fit.column, sample)
        best, chosen = _scores(fit, values, fit.residuals[sample]), fit
        for trees in (None,) if stage is None else (None, stage):
            logs = straight[:, k].copy()
            if trees is not None:
                beyond = np.setdiff1d(np.arange(len(logs)), sample)
                logs[sample] += trees.left_out
                logs[beyond] += trees(features[beyond])
            sizes = np.exp(logs)
            scores = _scores(fit, values, fit.residuals[sample], sizes[sample])
            if _better(scores, best, WORTH, SURE):
                bounds = (float(logs.min()), float(logs.max()) + WIDEST)
                residuals = fit.residuals / sizes
                best = scores
                chosen = replace(fit, residuals=residuals, spread=lines[k], spread_trees=trees, spread_bounds=bounds)
        spreads.append(chosen)
    return spreads


def _log_spread(predictors: Predictors, target: Floats) -> tuple[tuple[Form, LinearFit], Floats]:
    """Return the regression of the log of the spread, straight or curved, and its left-out residuals, (m,)."""
    best: tuple[tuple[Form, LinearFit], Floats] | None = None
    for form in (form for form in predictors.forms if form in ("plain", "curved")):
        regressions = predictors.ridge(Terms(form), len(target))
        penalty = best_penalty(regressions, target)
        left = regressions.left_out(target[:, None], np.array([penalty]))[0][:, 0]
        if best is None or (left**2).mean() < WORTH * (best[1] ** 2).mean():
            best = (form, regressions.fit(target, penalty)), left
    assert best is not None
    return best


def _scores(fit: NumericFit, values: Floats, residuals: Floats, sizes: Floats | float = 1.0) -> Floats:
    """Return the scores of left-out rows of such residuals (m,), which spread as `sizes`."""
    spreads = np.broadcast_to(np.asarray(sizes), residuals.shape)
    return crps(fit.transform, values, fit.transform(values) - residuals, spreads, residuals / spreads)


MOST_CLASSES = 32  # values with a regression each, the most frequent ones; the others share one
NEWTON_STEPS, CONVERGED = 25, 1e-2  # the error after a step of Newton's method is about the square of the step
SHARES = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0])  # of the marginal distribution in the mixture
IN_TREES = (0.25, 0.5, 0.75, 0.9)  # of the trees in the mixture with a regression
STRONGER = (1.0, 10.0)  # penalties to try, times that of the linear regression
LEAST_PROBABILITY = 1e-9


@dataclass(frozen=True, eq=False)
class DiscreteFit:
    """Probabilities of a column of few values, NaN one of them: logistic regressions, trees and the margin, mixed."""

    levels: Array  # (K,) the values, NaN last
    given: Ints  # the columns that it is regressed on
    terms: Terms
    lines: tuple[LinearFit, ...]  # one for each yes/no split
    ordered: bool  # splits are "above value k"; else "is class k"
    classes: Ints  # (K,) the class of each value
    within: Floats  # (K,) the share of each value in its class
    marginal: Floats  # (K,) shares in the reference
    share: float  # of the marginal in the mixture
    forest: Forest | None = None  # of flags of the classes
    in_trees: float = 0.0  # the share of the trees in what is not the marginal
    column: int = -1  # -1: not a column, but which numbers are missing
    left_out: tuple[Ints, Floats] | None = None  # rows, and the ends (rows, 2) of the real value in their probabilities

    @property
    def width(self) -> int:
        """Numbers of a prediction: log odds of splits, and probabilities of classes where there are trees."""
        return len(self.lines) + (0 if self.forest is None else int(self.classes.max()) + 1)

    def predict(self, design: Design, inputs: Array) -> Floats:
        """Return log odds of every split, and what trees give every class, (n, width)."""
        matrix = design.matrices(inputs, self.given)
        features = self.terms.join(matrix)
        parts = [np.zeros((len(inputs), 0)), *(line.means(features)[:, None] for line in self.lines)]
        if self.forest is not None:
            each = self.forest.each(tree_features(matrix, ()))
            parts.append(np.ascontiguousarray(each.swapaxes(1, 2)).mean(axis=2))
        return np.concatenate(parts, axis=1)

    def leverage(self, design: Design, inputs: Array) -> Floats:
        """Return the largest of the splits, (n,); a probability is never off by more than its own spread."""
        features = self.terms.join(design.matrices(inputs, self.given))
        leverages = [line.predict(features)[1] for line in self.lines]
        return np.minimum(np.max(leverages, axis=0), 1.0) if leverages else np.zeros(len(inputs))

    def leverage_of_mean(self, design: Design, inputs: Array) -> float:
        """Return it of the mean over the inputs; its error is at most the mean of the errors at each of them."""
        features = self.terms.join(design.matrices(inputs, self.given))
        middle = features.mean(axis=0)[None]
        largest = 0.0
        for line in self.lines:
            each = float(np.sqrt(np.minimum(line.predict(features)[1], 1.0)).mean()) ** 2
            largest = max(largest, min(float(line.predict(middle)[1][0]), each))
        return largest

    def probabilities(self, predicted: Floats) -> Floats:
        """Return those of the values, (..., K), from predictions (..., width)."""
        from scipy.special import expit

        if not self.lines:
            return np.broadcast_to(self.marginal, (*predicted.shape[:-1], len(self.marginal)))
        above = np.clip(expit(predicted[..., : len(self.lines)]), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        if len(self.lines) == 1:
            classes = np.concatenate([1 - above, above], axis=-1)
        elif not self.ordered:
            classes = above / above.sum(axis=-1, keepdims=True)
        else:
            above = np.minimum.accumulate(above, axis=-1)  # above a higher value is never likelier
            one, none = np.ones_like(above[..., :1]), np.zeros_like(above[..., :1])
            steps = -np.diff(np.concatenate([one, above, none], axis=-1), axis=-1) + LEAST_PROBABILITY
            classes = steps / steps.sum(axis=-1, keepdims=True)
        if self.forest is not None:
            classes = (1 - self.in_trees) * classes + self.in_trees * predicted[..., len(self.lines) :]
        return (1 - self.share) * (classes[..., self.classes] * self.within) + self.share * self.marginal


def codes_of(values: Array) -> tuple[Array, Ints]:
    """Return the distinct values of a column, NaN last and once, and the position of each value among them."""
    levels, codes = np.unique(np.where(np.isnan(values), np.inf, values), return_inverse=True)
    return np.where(np.isinf(levels), np.nan, levels), codes


def fit_discrete(
    predictors: Predictors, values: Array, ordered: bool, stronger: tuple[float, ...] = STRONGER
) -> DiscreteFit:
    """Fit a column, whose values at the rows of the predictors are given (and may be missing)."""
    from scipy.special import expit

    levels, codes = codes_of(values)
    counts = np.bincount(codes, minlength=len(levels))
    marginal, given = counts / counts.sum(), predictors.columns
    plain = Terms("plain")
    if len(levels) == 1:
        return DiscreteFit(levels, given, plain, (), False, np.zeros(1, np.int64), np.ones(1), marginal, 1.0)
    ordered = ordered and len(levels) > 2 and not np.isnan(levels[-1])
    classes = np.arange(len(levels))
    if len(levels) > MOST_CLASSES:  # the rarest share one
        classes = np.full(len(levels), MOST_CLASSES - 1)
        classes[np.sort(np.argsort(-counts, kind="stable")[: MOST_CLASSES - 1])] = np.arange(MOST_CLASSES - 1)
    within = marginal / np.bincount(classes, weights=marginal)[classes]
    sample = predictors.sample
    fitted = Predictors(predictors.design, given, predictors.rows[sample])
    in_class = classes[codes[sample]]
    count = int(classes.max()) + 1
    splits = [in_class > k for k in range(count - 1)] if ordered else [in_class == k for k in range(count)]
    splits = splits if count > 2 else [in_class == 1]
    real = np.arange(len(sample)), codes[sample]

    def attempt(terms: Terms) -> tuple[DiscreteFit, Floats, Floats]:
        regressions = fitted.ridge(terms, len(sample))
        parts = [_logistic(regressions, yes.astype(np.float64), stronger) for yes in splits]
        lines, odds = tuple(line for line, _ in parts), np.stack([odds for _, odds in parts], axis=1)
        fit = DiscreteFit(levels, given, terms, lines, ordered, classes, within, marginal, 0.0)
        return fit, odds, -np.log(fit.probabilities(odds)[real])

    best = min((attempt(Terms(form)) for form in predictors.forms if form != "logs"), key=lambda one: one[2].mean())
    if len(sample) >= SCALED_FROM and len(given):
        freer = [replace(best[0].terms, levels=True)] if fitted.design.width("levels", given) else []
        left, form = [yes - expit(odds) for yes, odds in zip(splits, best[1].T, strict=True)], best[0].terms.paired
        products = (screened(fitted, form, one, len(sample) // PER_PAIR, ()) for one in left)
        pairs = tuple(dict.fromkeys(pair for each in products for pair in each))
        freer += [replace(best[0].terms, pairs=pairs)] if pairs else []
        for terms in freer:
            other = attempt(terms)
            best = other if _better(other[2], best[2], WORTH, SURE) else best
    fit, predicted = _with_forest(fitted, best[0], best[1], best[2], in_class, real)
    likely, in_margin = fit.probabilities(predicted)[real], marginal[real[1]]
    losses = [-float(np.log((1 - share) * likely + share * in_margin).mean()) for share in SHARES]
    fit = replace(fit, share=float(SHARES[int(np.argmin(losses))]))
    upper = np.cumsum(fit.probabilities(predicted), axis=1)
    upper = np.concatenate([np.zeros((len(sample), 1)), upper / upper[:, -1:]], axis=1)
    ends = np.stack([upper[real], upper[real[0], real[1] + 1]], axis=1)
    return replace(fit, left_out=(fitted.rows, ends))


def _with_forest(
    predictors: Predictors, fit: DiscreteFit, odds: Floats, losses: Floats, in_class: Ints, real: tuple[Ints, Ints]
) -> tuple[DiscreteFit, Floats]:
    """Return the fit, mixed with trees where rows left out are less surprising to both; and the predictions of rows."""
    size, rows = len(in_class), predictors.rows
    features = tree_features(partial(_of_rows, predictors), ())
    if size < LEAST_ROWS or not features.shape[1] or not predictors.design.trees:
        return fit, odds
    flags = (in_class[:, None] == np.arange(int(fit.classes.max()) + 1)).astype(np.float64)
    mark = blake2b(in_class.tobytes(), digest_size=16).hexdigest()  # no two columns have the same bootstrap samples
    rng, clusters = stream(predictors.design.seed, "residual", "classes", mark), predictors.clusters(rows)
    for trees in (FIRST, TREES):  # a few tell whether more are worth it
        forest = grow(features, flags, clusters, max(5, size // 100), trees, rng)
        left_out = np.maximum(forest.left_out, 1 / size) / np.maximum(forest.left_out, 1 / size).sum(axis=1)[:, None]
        predicted = np.concatenate([odds, left_out], axis=1)
        mixed = [replace(fit, forest=forest, in_trees=share) for share in IN_TREES]
        scores = [-np.log(one.probabilities(predicted)[real]) for one in mixed]
        best = int(np.argmin([score.mean() for score in scores]))
        if not _better(scores[best], losses, WORTH, SURE if trees == TREES else LIKELY):
            return fit, odds
    return mixed[best], predicted


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
