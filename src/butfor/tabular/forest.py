"""Sampler: rows of the reference that fall into the same leaves of a forest grown to predict the subset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from butfor.streams import stream
from butfor.tabular.donors import Description, ReferenceRows, describe, donate, rows_of
from butfor.tabular.splice import TableSampler
from butfor.types import Array, InputError, Ints, Subset, whole

LEAF = 30  # more donors reach smaller p-values, fewer are more alike: from here on neither gains
PILOTS = 100  # reference rows whose donors are counted
GROWN_ON, DONATED = 1_000, 10_000  # at most so many rows a tree: more cost time and memory, and change little
MOST_FEATURES = 60  # that a split is sought in


@dataclass(frozen=True, eq=False)
class SubsetForest:
    """A forest for one subset: from the rest of a row to a leaf of every tree, and the reference rows in each leaf."""

    describe: Description
    trees: tuple[Any, ...]  # sklearn.tree._tree.Tree
    first: tuple[Ints, ...]  # per tree and node: where its rows begin in `members`, and how many there are
    count: tuple[Ints, ...]
    members: Ints
    floor: float = 0.0

    def leaves(self, inputs: Array) -> tuple[Ints, Ints]:
        """Return where the rows of each input's leaf begin, and how many there are, (n, trees) both."""
        described = _features(self.describe, inputs)
        nodes = [tree.apply(described) for tree in self.trees]
        first, count = (
            np.stack([table[node] for table, node in zip(tables, nodes, strict=True)], axis=1)
            for tables in (self.first, self.count)
        )
        return first, count


@dataclass(frozen=True, eq=False)
class Forest:
    """x_S of a row in the same leaf of a random tree: approximately Q(x_S | x_-S). Made by `forest`."""

    rows: ReferenceRows
    trees: int
    leaf: int
    seed: int
    grown: dict[tuple[int, ...], SubsetForest] = field(default_factory=dict)  # per subset, when first needed

    takes_missing = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        grown = self._grown(subset)
        first, count = grown.leaves(inputs)
        uniform = rng.random((len(inputs), draws, 2))
        position = uniform[..., 0] * len(grown.trees)
        tree = position.astype(np.int64)
        size = np.take_along_axis(count, tree, axis=1)
        within = ((position - tree) * size).astype(np.int64)
        donors = grown.members[np.take_along_axis(first, tree, axis=1) + np.minimum(within, size - 1)]
        return donate(self.rows, inputs, subset, donors, uniform[..., 1] < grown.floor)

    def repeats(self, subset: Subset) -> bool:
        return self.rows.repeats(subset)

    def floor(self, subset: Subset) -> float:
        return self._grown(subset).floor

    def _grown(self, subset: Subset) -> SubsetForest:
        targets, rest = self.rows.parts(subset)
        key = tuple(targets.tolist())
        if key not in self.grown:
            rng = stream(self.seed, *(self.rows.marks[i] for i in targets))
            self.grown[key] = _grow(self.rows, targets, rest, self.trees, self.leaf, rng)
        return self.grown[key]


def forest(reference: object, *, trees: int = 50, leaf: int | None = None, seed: int = 0) -> TableSampler:
    """Make a sampler for tables of any kind: categories, integers, missing values, groups.

    For every subset a forest is grown that predicts its columns from the rest of the row. A draw takes a random tree,
    a random row of the reference in the input's leaf, and that row's values of all columns of the subset: they occur
    together in a real row, and what is missing there is missing. Each tree is grown on one half of the rows and donates
    from the other (honest trees). Draws are wider than the true conditional, since the rows of a leaf are alike but not
    equal: p-values are rather too large than too small, and none is much below one over the number of donors.

    Parameters
    ----------
    reference : array-like or DataFrame of shape (rows, columns)
        Rows as they look when there is nothing to report.
    trees : int
        Trees of each forest.
    leaf : int, optional
        The least number of rows in a leaf; None is 30, or an eighth of the rows if that is fewer.
    seed : int
        The same seed grows the same trees.

    Returns
    -------
    TableSampler
        Draws any subset of the columns.

    Examples
    --------
    >>> reference = np.random.default_rng(0).normal(size=(200, 3))
    >>> forest(reference)
    forest(200 reference rows, 3 columns)
    """
    rows, table = rows_of(reference)
    leaf = min(LEAF, max(2, len(rows) // 8)) if leaf is None else whole("leaf", leaf, 1)
    conditional = Forest(rows, whole("trees", trees, 1), leaf, whole("seed", seed, 0))
    if len(rows) < 4 * leaf:
        raise InputError(
            f"the reference has {len(rows)} rows; a forest with leaves of {leaf} needs at least {4 * leaf}: give more "
            "rows, or a smaller leaf"
        )
    return TableSampler(conditional, "forest", table)


def _features(description: Description, rows: Array) -> Array:
    """Return what trees see of the rest of a row; where there is no rest, the same of every row."""
    described = description(rows.astype(np.float64)).astype(np.float32)
    return described if described.shape[1] else np.zeros((len(rows), 1), np.float32)


def _grow(
    rows: ReferenceRows, targets: Ints, rest: Ints, trees: int, leaf: int, rng: np.random.Generator
) -> SubsetForest:
    """Grow honest trees that predict the ranks of the targets: a long tail must not decide where they split."""
    from scipy.stats import rankdata
    from sklearn.tree import DecisionTreeRegressor

    description = describe(rows, rest)
    known, half = _features(description, rows.values), len(rows) // 2
    described = describe(rows, targets)(rows.values.astype(np.float64))
    ranks = rankdata(described, axis=0) / len(described)
    scale = ranks.std(axis=0)
    wanted = np.asarray((ranks - ranks.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
    grown, first, count, members, done = [], [], [], [], 0
    for _ in range(trees):
        order = rng.permutation(len(known))
        seen, donors = order[: min(half, GROWN_ON)], order[half : half + DONATED]
        features, state = min(known.shape[1], MOST_FEATURES), int(rng.integers(2**31))
        regressor = DecisionTreeRegressor(min_samples_leaf=leaf, max_features=features, random_state=state)
        tree = regressor.fit(known[seen], wanted[seen]).tree_
        nodes, grown_on = tree.apply(known[donors]), tree.apply(known[seen])
        lonely = ~np.isin(grown_on, nodes)  # leaves without a row of the other half keep those they were grown on
        donors, nodes = np.concatenate([donors, seen[lonely]]), np.concatenate([nodes, grown_on[lonely]])
        size = np.bincount(nodes, minlength=tree.node_count)
        grown.append(tree)
        first.append(done + np.cumsum(size) - size)
        count.append(size)
        members.append(donors[np.argsort(nodes, kind="stable")].astype(np.int32))
        done += len(donors)
    made = SubsetForest(description, tuple(grown), tuple(first), tuple(count), np.concatenate(members))
    return replace(made, floor=_floor(made, rows, rng))


def _floor(made: SubsetForest, rows: ReferenceRows, rng: np.random.Generator) -> float:
    """Return the weight of the observed row beside its donors, the mean over rows of the reference.

    Under the null the weight W of the donors at or above the observed value is a sum of as many weights, in random
    order, as there are such donors. So P(W <= w) is the expected number of partial sums up to w, over donors + 1: by
    the renewal theorem w + sum of squared weights / 2, and 1 / (donors + 1) at w = 0. The sum of half of each covers
    both; for donors of equal weight it is 1 / (donors + 1), as for every other sampler.
    """
    pilots = rng.permutation(len(rows))[:PILOTS]
    first, count = made.leaves(rows.values[pilots])
    needed = []
    for row, starts, sizes in zip(pilots, first, count, strict=True):
        members = np.concatenate([made.members[a : a + c] for a, c in zip(starts, sizes, strict=True)])
        weight = np.bincount(members, weights=np.repeat(1 / sizes, sizes), minlength=len(rows))
        weight[row] = 0.0  # a new row is no donor of its own
        weight = weight[weight > 0] / max(weight.sum(), 1e-300)
        needed.append((np.square(weight).sum() + 1 / (len(weight) + 1)) / 2)
    return float(np.mean(needed))
