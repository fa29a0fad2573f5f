"""Large trees by walking: at each node on an input's way the other child is entered, as if that column were another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.core.types import Bools, Ints
from butfor.tabular.exact_trees.events import Events
from butfor.tabular.exact_trees.index import TreeIndex
from butfor.tabular.exact_trees.paths import demands, spans

PAIRS = 2**15  # inputs x trees that are walked at a time


@dataclass(frozen=True, eq=False)
class Front:
    """Nodes that are reached when one column of an input is free, and what is left of that column's pieces there."""

    row: Ints
    tree: Ints
    column: Ints
    node: Ints
    low: Ints
    high: Ints
    missing: Bools

    def may_miss(self) -> Bools:
        """Which are reached while the column is missing, too."""
        return self.missing

    def take(self, places: Ints | Bools) -> Front:
        """Some of them."""
        return Front(*(part[places] for part in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Walker:
    """Trees of any size."""

    index: TreeIndex
    trees: Ints
    low: Ints  # (N,) pieces of its own column that can get to a node
    high: Ints
    missing: Bools

    def events(self, pieces: Ints, wanted: Sequence[int]) -> dict[int, Events]:
        """Of each column that is wanted; those split by categories are not."""
        size = max(1, PAIRS // len(self.trees))
        found = [self._events(pieces[a : a + size], a, wanted) for a in range(0, len(pieces), size)]
        return {
            j: Events.together([part[j] for part in found if j in part]) for j in {k for part in found for k in part}
        }

    def _events(self, pieces: Ints, first: int, wanted: Sequence[int]) -> dict[int, Events]:
        index, ensemble = self.index, self.index.splits.ensemble
        own = index.leaves_of(pieces, ensemble.roots[self.trees])
        front, ended = self._branches(pieces, wanted), []
        while front.row.size:
            leaf = index.splits.feature[front.node] < 0
            ended.append(front.take(leaf))
            front = self._step(front.take(~leaf), pieces)
        if not ended:
            return {}
        done = Front(*(np.concatenate(parts) for parts in zip(*(vars(part).values() for part in ended), strict=True)))
        order = np.argsort(done.column, kind="stable")
        done = done.take(order)
        starts = np.searchsorted(done.column, wanted), np.searchsorted(done.column, wanted, side="right")
        parts = {int(j): done.take(np.arange(a, b)) for j, a, b in zip(wanted, *starts, strict=True) if b > a}
        found = {}
        for j, part in parts.items():
            change = index.units[part.node] - index.units[own[part.row, part.tree]]
            found[j] = Events(part.row + first, change.T, part.low, part.high, part.may_miss)
        return found

    def _branches(self, pieces: Ints, wanted: Sequence[int]) -> Front:
        """The other child of every node on the way of every input, where its column is wanted."""
        index, ensemble, splits = self.index, self.index.splits.ensemble, self.index.splits
        free = np.zeros(index.width, bool)
        free[list(wanted)] = True
        row = np.repeat(np.arange(len(pieces)), len(self.trees))
        tree = np.tile(np.arange(len(self.trees)), len(pieces))
        node, parts = ensemble.roots[self.trees][tree], []
        while (inner := splits.feature[node] >= 0).any():
            row, tree, node = row[inner], tree[inner], node[inner]
            left = index.goes_left(node, pieces[row, splits.feature[node]])
            mine = free[splits.feature[node]]
            parts.append(self._child(row[mine], tree[mine], node[mine], ~left[mine]))
            node = np.where(left, ensemble.left[node], ensemble.right[node])
        none = np.zeros(0, np.int64)
        parts.append(Front(none, none, none, none, none, none, np.zeros(0, bool)))
        return Front(*(np.concatenate(part) for part in zip(*(vars(part).values() for part in parts), strict=True)))

    def _child(self, row: Ints, tree: Ints, node: Ints, left: Bools) -> Front:
        """The left or right child of nodes whose own column is free."""
        index, ensemble, splits = self.index, self.index.splits.ensemble, self.index.splits
        cut = np.clip(index.rank[node] + 1, self.low[node], self.high[node])
        return Front(
            row,
            tree,
            splits.feature[node],
            np.where(left, ensemble.left[node], ensemble.right[node]),
            np.where(left, self.low[node], cut),
            np.where(left, cut, self.high[node]),
            self.missing[node] & (splits.missing_left[node] == left),
        )

    def _step(self, front: Front, pieces: Ints) -> Front:
        """One level down: both children where the free column is split, else the child that the input goes to."""
        if not front.row.size:
            return front
        index, ensemble, splits = self.index, self.index.splits.ensemble, self.index.splits
        column = splits.feature[front.node]
        split = column == front.column
        on, off = front.take(split), front.take(~split)
        left = index.goes_left(off.node, pieces[off.row, column[~split]])
        node = np.where(left, ensemble.left[off.node], ensemble.right[off.node])
        moved = Front(off.row, off.tree, off.column, node, off.low, off.high, off.missing)
        sides = [self._child(on.row, on.tree, on.node, np.full(len(on.row), side)) for side in (True, False)]
        parts = [moved, *(side.take((side.low < side.high) | side.missing) for side in sides)]
        return Front(*(np.concatenate(part) for part in zip(*(vars(part).values() for part in parts), strict=True)))


def walker(index: TreeIndex, trees: Ints) -> Walker:
    """For some trees of an ensemble."""
    splits = index.splits
    inner = np.flatnonzero((splits.feature >= 0) & (splits.members < 0))
    low, missing = np.zeros(len(splits.feature), np.int64), np.ones(len(splits.feature), bool)
    high = np.where(splits.feature >= 0, index.missing[np.maximum(splits.feature, 0)], 0)
    _, place, least, most, may_miss = spans(demands(index, inner, own_column=True), len(inner))
    low[inner[place]], high[inner[place]], missing[inner[place]] = least, most, may_miss
    return Walker(index, trees, low, high, missing)
