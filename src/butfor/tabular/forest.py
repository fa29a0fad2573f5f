"""Sampler: rows of the reference that fall into the same leaves of a forest grown to predict the subset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from butfor.streams import stream
from butfor.tabular.donors import Description, ReferenceRows, describe, donate, repeats, rows_of
from butfor.tabular.splice import TableSampler, fitted
from butfor.types import Array, Floats, InputError, Ints, Subset, whole

LEAF = 30  # more donors reach smaller p-values, fewer are more alike: from here on neither gains
PILOTS = 100  # reference rows whose donors are counted
GROWN_ON, DONATED = 1_000, 10_000  # at most so many rows a tree: more cost time and memory, and change little
MOST_FEATURES = 60  # that a split is sought in


@dataclass(frozen=True, eq=False)
class Grown:
    """A forest for one subset: from the rest of a row to a leaf of every tree, and the reference rows in each leaf."""

    describe: Description
    trees: tuple[Any, ...]  # sklearn.tree._tree.Tree
    first: tuple[Ints, ...]  # per tree and node: where its rows begin in `members`, and how many there are
    count: tuple[Ints, ...]
    members: Ints
    floor: float = 0.0

    def leaves(self, inputs: Array) -> tuple[Ints, Ints]:
        """Where the rows of each input's leaf begin, and how many there are, (n, trees) both."""
        described = _features(self.describe, inputs)
        nodes = [tree.apply(described) for tree in self.trees]
        first = [first[node] for first, node in zip(self.first, nodes, strict=True)]
        count = [count[node] for count, node in zip(self.count, nodes, strict=True)]
        return np.stack(first, axis=1), np.stack(count, axis=1)


@dataclass(frozen=True, eq=False)
class Forest:
    """x_S of a row in the same leaf of a random tree: approximately Q(x_S | x_-S). Made by `forest`."""

    rows: ReferenceRows
    trees: int
    leaf: int
    seed: int
    grown: dict[tuple[int, ...], Grown] = field(default_factory=dict)  # per subset, filled as they are asked for

    takes_missing = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        grown = self._grown(subset)
        first, count = grown.leaves(inputs)
        chance = rng.random((len(inputs), draws, 2))
        place = chance[..., 0] * len(grown.trees)
        tree = place.astype(np.int64)
        size = np.take_along_axis(count, tree, axis=1)
        within = ((place - tree) * size).astype(np.int64)
        donors = grown.members[np.take_along_axis(first, tree, axis=1) + np.minimum(within, size - 1)]
        return donate(self.rows, inputs, subset, donors, chance[..., 1] < grown.floor)

    def repeats(self, subset: Subset) -> bool:
        return repeats(self.rows, subset)

    def floor(self, subset: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return self._grown(subset).floor

    def _grown(self, subset: Subset) -> Grown:
        targets, rest = self.rows.parts(subset)
        key = tuple(targets.tolist())
        if key not in self.grown:
            rng = stream(self.seed, *(self.rows.marks[i] for i in targets))
            self.grown[key] = _grow(self.rows, targets, rest, self.trees, self.leaf, rng)
        return self.grown[key]


def forest(reference: object, *, trees: int = 50, leaf: int | None = None, seed: int = 0) -> TableSampler:
    """A sampler for tables of any kind: categories, whole numbers, missing values, groups.

    For every subset a forest is grown that predicts its columns from the rest of the row. A draw takes a random tree,
    a random row of the reference in the input's leaf, and that row's values of the whole subset: they occur together
    in some real row, and what is missing there is missing. Each tree is grown on one half of the rows and donates from
    the other (honest trees). Draws are wider than the true conditional, since the rows of a leaf are alike but not
    equal: p-values are rather too large than too small, and none is much below one over the number of donors.

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.
    trees : of each forest.
    leaf : the least number of rows in a leaf; None is 30, or an eighth of the rows if that is fewer.
    seed : the same seed grows the same trees.

    Examples
    --------
    >>> reference = np.random.default_rng(0).normal(size=(200, 3))
    >>> forest(reference)
    forest(200 reference rows, 3 columns)
    """
    rows, table = rows_of(reference)
    leaf = min(LEAF, max(2, len(rows) // 8)) if leaf is None else whole("leaf", leaf, 1)
    law = Forest(rows, whole("trees", trees, 1), leaf, whole("seed", seed, 0))
    if len(rows) < 4 * leaf:
        raise InputError(
            f"the reference has {len(rows)} rows; a forest with leaves of {leaf} needs at least {4 * leaf}: give more "
            "rows, or a smaller leaf"
        )
    return fitted(law, "forest", table)


def _features(description: Description, rows: Array) -> Array:
    """What trees see of the rest of a row; where there is no rest, the same of every row."""
    described = description(rows.astype(np.float64)).astype(np.float32)
    return described if described.shape[1] else np.zeros((len(rows), 1), np.float32)


def _grow(rows: ReferenceRows, targets: Ints, rest: Ints, trees: int, leaf: int, rng: np.random.Generator) -> Grown:
    description = describe(rows, rest)
    known = _features(description, rows.values)
    wanted = _scores(describe(rows, targets)(rows.values.astype(np.float64)))
    grown, first, count, members, done = [], [], [], [], 0
    for _ in range(trees):
        tree, donors, nodes = _tree(known, wanted, leaf, rng)
        order = np.argsort(nodes, kind="stable")
        size = np.bincount(nodes, minlength=tree.node_count)
        grown.append(tree)
        first.append(done + np.cumsum(size) - size)
        count.append(size)
        members.append(donors[order].astype(np.int32))
        done += len(donors)
    made = Grown(description, tuple(grown), tuple(first), tuple(count), np.concatenate(members))
    return replace(made, floor=_floor(made, rows, rng))


def _scores(described: Floats) -> Floats:
    """Ranks of numbers in place of numbers, so that a long tail does not decide where the trees split."""
    from scipy.stats import rankdata

    ranks = rankdata(described, axis=0) / len(described)
    scale = ranks.std(axis=0)
    return np.asarray((ranks - ranks.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def _tree(known: Array, wanted: Floats, leaf: int, rng: np.random.Generator) -> tuple[Any, Ints, Ints]:
    """A tree grown on one half of the rows; the rows of the other half, and the leaf of each of them."""
    from sklearn.tree import DecisionTreeRegressor

    order, half = rng.permutation(len(known)), len(known) // 2
    seen, donors = order[: min(half, GROWN_ON)], order[half : half + DONATED]
    features = min(known.shape[1], MOST_FEATURES)
    tree = DecisionTreeRegressor(min_samples_leaf=leaf, max_features=features, random_state=int(rng.integers(2**31)))
    fitted = tree.fit(known[seen], wanted[seen]).tree_
    nodes = fitted.apply(known[donors])
    return fitted, *_no_leaf_without(fitted, donors, nodes, seen, known)


def _no_leaf_without(tree: Any, donors: Ints, nodes: Ints, seen: Ints, known: Array) -> tuple[Ints, Ints]:
    """Leaves that no row of the other half falls into keep the rows they were grown on."""
    grown_on = tree.apply(known[seen])
    lonely = ~np.isin(grown_on, nodes)
    return np.concatenate([donors, seen[lonely]]), np.concatenate([nodes, grown_on[lonely]])


def _floor(made: Grown, rows: ReferenceRows, rng: np.random.Generator) -> float:
    """The weight of the observed row beside its donors, the mean over some rows of the reference.

    Under the null the weight W of the donors at or above the observed value is a sum of as many weights, in random
    order, as there are such donors. So P(W <= w) is the expected number of partial sums up to w, over donors + 1: by
    the renewal theorem w + sum of squared weights / 2, and 1 / (donors + 1) at w = 0. The sum of half of each covers
    both; for donors of equal weight it is 1 / (donors + 1), as for every other sampler.
    """
    some = rng.permutation(len(rows))[:PILOTS]
    first, count = made.leaves(rows.values[some])
    needed = []
    for row, starts, sizes in zip(some, first, count, strict=True):
        members = np.concatenate([made.members[a : a + c] for a, c in zip(starts, sizes, strict=True)])
        weight = np.bincount(members, weights=np.repeat(1 / sizes, sizes), minlength=len(rows))
        weight[row] = 0.0  # a new row is no donor of its own
        weight = weight[weight > 0] / max(weight.sum(), 1e-300)
        needed.append((np.square(weight).sum() + 1 / (len(weight) + 1)) / 2)
    return float(np.mean(needed))
