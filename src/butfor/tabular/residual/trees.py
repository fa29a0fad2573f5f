"""Trees on what a regression has left over: extra trees and boosting, stacked, each row judged by trees without it.

Where nothing is left to be seen, the weights of the stack are 0 and there are no trees. They are constant beyond the
reference: the regression alone goes on there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from butfor.types import Array, Floats, Ints

FIRST, TREES = 20, 120  # a few trees tell whether more are worth it
LEAST_ROWS = 40
HINT = 0.5  # standard errors of the first trees' gain from which on more are grown
ROUNDS = (8, 20, 40, 70)
FOLDS, RATE, LEAVES = 4, 0.12, 4
FEW_ROWS, FEWER_ROWS = 400, (100, 200)  # do not tell, or not at all, that there is nothing for trees to see
LEAST_WEIGHT = 0.02  # of the stack, below which it is none
FARTHEST = 6.0  # root mean squares: residuals beyond count as this, or one row would make a tree


@dataclass(frozen=True, eq=False)
class Forest:
    """Extra trees, each grown on a bootstrap sample of clusters of rows."""

    trees: tuple[Any, ...]
    counts: Floats  # (m, trees) how often each tree has seen a row
    left_out: Floats  # (m, outputs) means over trees that have not seen the row, nor its cluster

    def each(self, features: Floats) -> Floats:  # (n, trees, outputs)
        rows = np.ascontiguousarray(features, np.float32)
        return np.stack([_at(tree, rows) for tree in self.trees], axis=1)

    def variance(self, each: Floats) -> Floats:
        """Return that of the mean of trees (n, trees): the infinitesimal jackknife (Wager, Hastie & Efron 2014)."""
        centred = each - each.mean(axis=1, keepdims=True)
        count = each.shape[1]
        share = (centred @ (self.counts - self.counts.mean(axis=1, keepdims=True)).T) / count
        sampled = (share**2).sum(axis=1)
        by_chance = len(self.counts) / count**2 * (centred**2).sum(axis=1)
        return np.asarray(np.maximum(sampled - by_chance, 0.1 * sampled))


def _at(tree: Any, rows: Array) -> Floats:
    return np.asarray(tree.tree_.value[tree.tree_.apply(rows), :, 0])


def grow(
    features: Floats, targets: Floats, clusters: Ints | None, leaf: int, count: int, rng: np.random.Generator
) -> Forest:
    """Grow trees on targets (m, outputs)."""
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor

    member = np.arange(len(features)) if clusters is None else clusters
    groups = int(member.max()) + 1
    counts = rng.multinomial(groups, np.full(groups, 1 / groups), size=count).T[member].astype(np.float64)
    seeds, rows = rng.integers(2**31, size=count).tolist(), np.ascontiguousarray(features, np.float32)
    trees, unseen, total = [], counts == 0, np.zeros(targets.shape)
    with config_context(assume_finite=True, skip_parameter_validation=True):  # which takes as long as a small tree
        for k in range(count):
            tree = ExtraTreeRegressor(min_samples_leaf=leaf, max_features=1.0, random_state=seeds[k])
            trees.append(tree.fit(rows, targets, sample_weight=counts[:, k], check_input=False))
            total[unseen[:, k]] += _at(trees[-1], rows[unseen[:, k]])
    return Forest(tuple(trees), counts, total / np.maximum(unseen.sum(axis=1), 1)[:, None])


@dataclass(frozen=True, eq=False)
class Boosting:
    """Shallow boosted trees, one model for each fold left out; rounds by the error of rows left out."""

    models: tuple[Any, ...]
    rounds: int
    left_out: Floats  # (m,)

    def each(self, features: Floats) -> Floats:  # (n, folds)
        staged = (islice(model.staged_predict(features), self.rounds - 1, None) for model in self.models)
        return np.stack([next(stages) for stages in staged], axis=1)


def boost(features: Floats, target: Floats, clusters: Ints | None, rng: np.random.Generator) -> Boosting:
    """Fit boosted trees to a target (m,)."""
    from sklearn import config_context
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    size = len(target)
    member = np.arange(size) if clusters is None else clusters
    fold = (rng.permutation(int(member.max()) + 1) % FOLDS)[member]
    left_out = np.zeros((len(ROUNDS), size))

    def fitted(most: int) -> list[Any]:
        """Fit to each fold's rest, and predict the fold after some numbers of rounds; more rounds begin alike."""
        models = []
        for k in range(FOLDS):
            rest, out = fold != k, fold == k
            model = HistGradientBoostingRegressor(
                learning_rate=RATE, max_iter=ROUNDS[most], max_leaf_nodes=LEAVES, max_bins=64, early_stopping=False,
                min_samples_leaf=int(np.clip(size // 40, 4, 20)), l2_regularization=1.0, random_state=0,
            ).fit(features[rest], target[rest])  # fmt: skip
            models.append(model)
            if out.any():
                staged = list(model.staged_predict(features[out]))
                left_out[: most + 1, out] = [staged[rounds - 1] for rounds in ROUNDS[: most + 1]]
        return models

    # So little work is slower on several threads, and checks take as long as a few rounds.
    with threadpool_limits(1, "openmp"), config_context(assume_finite=True, skip_parameter_validation=True):
        models, errors = fitted(1), ((left_out[:2] - target) ** 2).mean(axis=1)
        if errors[1] < errors[0]:  # else there is little to be seen, and more rounds would see less
            models, errors = fitted(len(ROUNDS) - 1), ((left_out - target) ** 2).mean(axis=1)
    best = int(np.argmin(errors))
    return Boosting(tuple(models), ROUNDS[best], left_out[best])


@dataclass(frozen=True, eq=False)
class TreeStage:
    """The part that trees add to a regression: a share of a forest and a share of boosting, at most 1 together."""

    forest: Forest
    output: int  # of the forest
    boosting: Boosting | None  # None: the forest saw nothing
    shares: tuple[float, float]
    scale: float  # that trees were grown in
    near: tuple[bool, bool, bool] = (False, False, False)  # nothing, the forest alone, boosting alone scored nearly so

    def alone(self) -> tuple[Floats, Floats]:
        """Return what the forest and boosting would add each by itself, at rows left out, (m,) both."""
        forest = self.scale * self.forest.left_out[:, self.output]
        return forest, np.zeros_like(forest) if self.boosting is None else self.scale * self.boosting.left_out

    @property
    def left_out(self) -> Floats:
        """The part of each row it was fitted on, by trees without that row, (m,)."""
        forest, boosted = self.alone()
        return np.asarray(self.shares[0] * forest + self.shares[1] * boosted)

    def _each(self, features: Floats) -> tuple[Floats, Floats]:
        """Return the predictions of the forest's trees (n, trees) and of the folds' boosting (n, folds)."""
        forest = self.scale * np.ascontiguousarray(self.forest.each(features)[:, :, self.output])
        none = np.zeros((len(features), FOLDS))
        return forest, none if self.boosting is None else self.scale * self.boosting.each(features)

    def __call__(self, features: Floats) -> Floats:  # (n,) what is added
        if not len(features) or not any(self.shares):
            return np.zeros(len(features))
        forest, boosted = self._each(features)
        return np.asarray(self.shares[0] * forest.mean(axis=1) + self.shares[1] * boosted.mean(axis=1))

    def variance(self, forest: Floats, boosted: Floats) -> Floats:
        """Return that of what is added, (n,), from predictions of trees (n, trees) and of folds (n, folds)."""
        first, second = self.shares
        folds = boosted.var(axis=1, ddof=1) * (FOLDS - 1)
        return np.asarray((first + second) * (first * self.forest.variance(forest) + second * folds))

    def errors(self, features: Floats) -> tuple[Floats, Floats]:
        """Return the variance of what is added, and how far the nearly as good are from it, squared, (n,) both."""
        forest, boosted = self._each(features)
        others = np.stack([np.zeros(len(features)), forest.mean(axis=1), boosted.mean(axis=1)])
        added = self.shares[0] * others[1] + self.shares[1] * others[2]
        distance = np.where(np.array(self.near)[:, None], (others - added) ** 2, 0.0).max(axis=0)
        return self.variance(forest, boosted), distance

    def variance_of_mean(self, features: Floats) -> float:
        forest, boosted = self._each(features)
        return float(self.variance(forest.mean(axis=0)[None], boosted.mean(axis=0)[None])[0])


def tree_stages(
    features: Floats, targets: Floats, clusters: Ints | None, rng: np.random.Generator, *, of_spread: bool = False
) -> list[TreeStage | None]:
    """Return what trees add to each of the targets (m, c), residuals of rows left out; None: nothing."""
    from scipy.optimize import nnls

    size, count = targets.shape
    stages: list[TreeStage | None] = [None] * count
    if size < LEAST_ROWS or not features.shape[1] or not count:
        return stages
    spread = np.sqrt((np.clip(targets, *np.quantile(targets, [0.01, 0.99], axis=0)) ** 2).mean(axis=0)) + 1e-300
    scaled = np.clip(targets / spread, -FARTHEST, FARTHEST)
    leaf = max(6, size // 60) if of_spread else max(3, size // 150)  # its logarithm is noisier than a mean
    forest = few = grow(features, scaled, clusters, leaf, FIRST, rng)
    gain = scaled**2 - (scaled - forest.left_out / 2) ** 2
    unsure = FEWER_ROWS[0] <= size < FEWER_ROWS[1] and count == 1 and not of_spread
    hint = -np.inf if unsure else HINT
    wanted = gain.mean(axis=0) > hint * gain.std(axis=0) / np.sqrt(size)
    if wanted.any():
        forest = grow(features, scaled, clusters, leaf, TREES, rng)
    for k in range(count):
        if wanted[k]:
            boosting = boost(features, scaled[:, k], clusters, rng)
            shares = nnls(np.stack([forest.left_out[:, k], boosting.left_out], axis=1), scaled[:, k])[0]
            first, second = (shares / max(1.0, float(shares.sum()))).tolist()
            if first + second >= LEAST_WEIGHT:
                stages[k] = TreeStage(forest, k, boosting, (first, second), float(spread[k]))
                continue
        if size < FEW_ROWS:
            stages[k] = TreeStage(few, k, None, (0.0, 0.0), float(spread[k]))
    return stages
