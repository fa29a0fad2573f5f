"""An ensemble ready to be asked: every value of a column as the piece between two thresholds that it lies in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.core.arrays import distinct
from butfor.core.types import Array, Bools, Floats, Ints
from butfor.tabular.exact_trees.source import SourceSplits

CHUNK = 2**16  # pairs of rows and trees that are walked at a time: they stay in the cache
SORTED_OUT = 3  # levels after which those that have come to a leaf are left out


@dataclass(frozen=True, eq=False)
class TreeIndex:
    """Splits by ranks of thresholds. A piece of a column is what lies between two thresholds; the last is "missing".

    A column that is split by categories has a piece for each level, one for all other values, one for missing ones.
    """

    splits: SourceSplits
    width: int  # columns of the table

    @cached_property
    def nodes_of(self) -> tuple[Ints, ...]:
        """The nodes that split each column."""
        feature = self.splits.feature
        inner = np.flatnonzero(feature >= 0)
        short = feature[inner].astype(np.min_scalar_type(self.width))  # of two bytes or one: sorted much quicker
        order = inner[np.argsort(short, kind="stable")]
        return tuple(np.split(order, np.searchsorted(feature[order], np.arange(1, self.width))))

    @cached_property
    def cuts(self) -> tuple[Floats, ...]:
        """The distinct thresholds of each column, sorted; the levels of one that is split by categories."""
        splits = self.splits
        return tuple(
            splits.levels[j] if j in splits.levels else distinct(splits.threshold[nodes])
            for j, nodes in enumerate(self.nodes_of)
        )

    @cached_property
    def missing(self) -> Ints:
        """The piece of missing values, of each column."""
        return np.array([len(cuts) + 1 for cuts in self.cuts])

    @cached_property
    def rank(self) -> Ints:
        """Of each node (N,): pieces up to this one go left. Leaves are their own children."""
        splits, found = self.splits, np.zeros(len(self.splits.feature), np.int64)
        for j, nodes in enumerate(self.nodes_of):
            if j not in splits.levels:
                found[nodes] = self.cuts[j].searchsorted(splits.threshold[nodes])
        return found

    def pieces(self, rows: Array) -> Ints:
        """The piece of every value, (n, columns)."""
        columns, found = np.ascontiguousarray(rows.T, np.float64), np.empty(rows.shape[::-1], np.int64)
        for j, values in enumerate(columns):
            found[j] = self.pieces_of(j, values)
        return found.T  # those of a column side by side: they are asked for column by column

    def pieces_of(self, j: int, values: Array) -> Ints:
        """The pieces of some values of column j."""
        numbers, cuts = np.asarray(values, np.float64), self.cuts[j]
        if j in self.splits.cut_off:
            numbers = np.trunc(numbers)
        found = np.asarray(cuts.searchsorted(numbers))  # thresholds below the value
        if j in self.splits.levels:
            near = np.minimum(found, len(cuts) - 1)
            found = np.where(cuts[near] == numbers, near, len(cuts))
        if (gone := np.isnan(numbers)).any():
            found = np.where(gone, len(cuts) + 1, found)
        return found

    @cached_property
    def units(self) -> Floats:
        """Values of the leaves as whole numbers (N, K): their sums are exact in any order."""
        ensemble = self.splits.ensemble
        return np.rint(ensemble.values * ensemble.scale)

    @cached_property
    def scale(self) -> float:
        """What whole numbers are divided by."""
        return self.splits.ensemble.scale

    def outputs(self, sums: Floats) -> Floats:
        """What the model says, from sums of leaves (..., K) in whole numbers."""
        ensemble = self.splits.ensemble
        return ensemble.outputs(ensemble.base + sums / self.scale)

    def goes_left(self, nodes: Ints, pieces: Ints, *, gaps: bool = True) -> Bools:
        """Whether values in these pieces of the nodes' columns go left; without `gaps` none of them is missing."""
        splits = self.splits
        left = pieces <= self.rank.take(nodes)
        if gaps and (gone := pieces == self.missing.take(splits.feature.take(nodes))).any():
            left = np.where(gone, splits.missing_left.take(nodes), left)
        if len(splits.sets):
            row = splits.members.take(nodes)
            by_set = np.flatnonzero(row >= 0)
            left[by_set] = self.sets[row[by_set], pieces[by_set]]
        return np.asarray(left)

    @cached_property
    def sets(self) -> Bools:
        """Of each split by categories, whether a piece goes left, (S, pieces)."""
        return self.splits.sets

    @cached_property
    def depth(self) -> int:
        """Of the deepest tree."""
        left, right, level = self.splits.ensemble.left, self.splits.ensemble.right, 0
        nodes = self.splits.ensemble.roots
        while (nodes := nodes[self.splits.feature[nodes] >= 0]).size:
            nodes, level = np.concatenate([left[nodes], right[nodes]]), level + 1
        return level

    @cached_property
    def children(self) -> Ints:
        """The left and the right child of each node, one after the other, (2 N,)."""
        return np.stack([self.splits.ensemble.left, self.splits.ensemble.right], axis=1).reshape(-1)

    def leaves_of(self, pieces: Ints, roots: Ints) -> Ints:
        """The leaf of each row, given by its pieces (n, columns), in some trees, (n, roots)."""
        count, size = len(pieces), max(1, CHUNK // len(roots))
        found = np.empty((count, len(roots)), np.int64)
        gaps = bool((pieces == self.missing).any())
        for a in range(0, count, size):
            found[a : a + size] = self._walked(np.ascontiguousarray(pieces[a : a + size]), roots, gaps)
        return found

    def _walked(self, pieces: Ints, roots: Ints, gaps: bool) -> Ints:
        feature, flat = self.splits.feature, pieces.reshape(-1)
        first = np.repeat(np.arange(len(pieces)) * self.width, len(roots))
        nodes, place = np.tile(roots, len(pieces)), np.arange(len(first))
        found = np.empty(len(first), np.int64)
        for level in range(self.depth):
            if level and level % SORTED_OUT == 0:
                inner = feature.take(nodes) >= 0
                found[place[~inner]] = nodes[~inner]
                nodes, place, first = nodes[inner], place[inner], first[inner]
            own = flat.take(first + feature.take(nodes))  # of a leaf any: it is its own child
            nodes = self.children.take(2 * nodes + ~self.goes_left(nodes, own, gaps=gaps))
        found[place] = nodes
        return found.reshape(len(pieces), -1)
