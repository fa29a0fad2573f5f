"""The output of a tree ensemble as a step function of one column, all others as observed (METHODS 13).

A piece of a column is what lies between two thresholds. Small trees are read by bit masks: a word per tree says which
of its leaves a piece shuts out. A leaf that no column shuts out is the input's; a leaf that exactly one column shuts
out is where the input would be if that column had another value: only "and" and "or" of words, for all trees and many
inputs at once. Trees of more than 64 leaves are walked. Walking alone takes 1.5 to 3.3 times as long on 100 to 500
small trees and 100 to 1,000 inputs; masks of large trees would not fit into memory. Leaves are integers, so that
sums are exact in any order and both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from butfor.models.trees import Ensemble
from butfor.types import Array, Bools, Floats, Ints

WALKED_AT_ONCE = 2**16  # pairs of rows and trees that are walked at a time: they stay in the cache
LEAVES_DROPPED = 3  # steps after which pairs that have come to a leaf are left out


@dataclass(frozen=True, eq=False)
class ColumnSplits:
    """The splits of an ensemble, of each node (N,), by columns of the table."""

    ensemble: Ensemble  # its leaves, roots and link
    feature: Ints  # -1: a leaf
    threshold: Floats
    missing_left: Bools
    category_row: Ints  # the row of `category_sets`, -1: by threshold
    category_sets: Bools  # (S, categories + 2) whether a category goes left, then any other value, then a missing one
    categories: dict[int, Floats]  # of columns that are split by categories, sorted
    truncated: frozenset[int]  # those among them that hold numbers: decimals do not count


@dataclass(frozen=True, eq=False)
class TreeIndex:
    """Splits by ranks of thresholds; the last piece of a column is "missing".

    A column that is split by categories has a piece for each, one for all other values, one for missing ones.
    """

    splits: ColumnSplits
    width: int  # columns of the table

    @cached_property
    def nodes_of(self) -> tuple[Ints, ...]:
        feature = self.splits.feature
        inner = np.flatnonzero(feature >= 0)
        short = feature[inner].astype(np.min_scalar_type(self.width))  # of two bytes or one: sorted much quicker
        order = inner[np.argsort(short, kind="stable")]
        return tuple(np.split(order, np.searchsorted(feature[order], np.arange(1, self.width))))

    @cached_property
    def cuts(self) -> tuple[Floats, ...]:
        """The distinct thresholds of each column, sorted, or its categories."""
        splits = self.splits
        return tuple(
            splits.categories[j] if j in splits.categories else np.unique(splits.threshold[nodes])
            for j, nodes in enumerate(self.nodes_of)
        )

    @cached_property
    def missing(self) -> Ints:
        return np.array([len(cuts) + 1 for cuts in self.cuts])

    @cached_property
    def rank(self) -> Ints:
        """Of each node (N,): pieces up to this one go left."""
        splits, rank = self.splits, np.zeros(len(self.splits.feature), np.int64)
        for j, nodes in enumerate(self.nodes_of):
            if j not in splits.categories:
                rank[nodes] = self.cuts[j].searchsorted(splits.threshold[nodes])
        return rank

    @cached_property
    def units(self) -> Floats:
        """Values of the leaves as integers (N, K)."""
        ensemble = self.splits.ensemble
        return np.rint(ensemble.values * ensemble.scale)

    @cached_property
    def children(self) -> Ints:
        """The left and the right child of each node, one after the other, (2 N,)."""
        return np.stack([self.splits.ensemble.left, self.splits.ensemble.right], axis=1).reshape(-1)

    @cached_property
    def depth(self) -> int:
        nodes, depth = self.splits.ensemble.roots, 0
        while (nodes := nodes[self.splits.feature[nodes] >= 0]).size:
            nodes, depth = self.children[np.concatenate([2 * nodes, 2 * nodes + 1])], depth + 1
        return depth

    def pieces(self, rows: Array) -> Ints:
        pieces = np.empty(rows.shape[::-1], np.int64)
        for j, values in enumerate(np.ascontiguousarray(rows.T, np.float64)):
            pieces[j] = self.pieces_of(j, values)
        return pieces.T  # those of a column side by side: they are read column by column

    def pieces_of(self, j: int, values: Array) -> Ints:
        numbers, cuts = np.asarray(values, np.float64), self.cuts[j]
        if j in self.splits.truncated:
            numbers = np.trunc(numbers)
        pieces = np.asarray(cuts.searchsorted(numbers))  # thresholds below the value
        if j in self.splits.categories:
            near = np.minimum(pieces, len(cuts) - 1)
            pieces = np.where(cuts[near] == numbers, near, len(cuts))
        if (gone := np.isnan(numbers)).any():
            pieces = np.where(gone, len(cuts) + 1, pieces)
        return pieces

    def outputs(self, sums: Floats) -> Floats:
        ensemble = self.splits.ensemble
        return ensemble.outputs(ensemble.base + sums / ensemble.scale)

    def goes_left(self, nodes: Ints, pieces: Ints, *, gaps: bool = True) -> Bools:
        """Return whether values in these pieces of the nodes' columns go left; without `gaps` none is missing."""
        splits = self.splits
        left = pieces <= self.rank.take(nodes)
        if gaps and (gone := pieces == self.missing.take(splits.feature.take(nodes))).any():
            left = np.where(gone, splits.missing_left.take(nodes), left)
        if len(splits.category_sets):
            row = splits.category_row.take(nodes)
            by_set = np.flatnonzero(row >= 0)
            left[by_set] = splits.category_sets[row[by_set], pieces[by_set]]
        return np.asarray(left)

    def leaves_of(self, pieces: Ints, roots: Ints) -> Ints:
        """Return the leaf of each row, given by its pieces (n, columns), in trees with these roots, (n, roots)."""
        feature, leaves = self.splits.feature, np.empty((len(pieces), len(roots)), np.int64)
        size, gaps = max(1, WALKED_AT_ONCE // len(roots)), bool((pieces == self.missing).any())
        for a in range(0, len(pieces), size):
            part = np.ascontiguousarray(pieces[a : a + size])
            flat, ended = part.reshape(-1), leaves[a : a + size].reshape(-1)
            first = np.repeat(np.arange(len(part)) * self.width, len(roots))
            nodes, pair = np.tile(roots, len(part)), np.arange(len(first))
            for step in range(self.depth):
                if step and step % LEAVES_DROPPED == 0:
                    inner = feature.take(nodes) >= 0
                    ended[pair[~inner]] = nodes[~inner]
                    nodes, pair, first = nodes[inner], pair[inner], first[inner]
                here = flat.take(first + feature.take(nodes))  # of a leaf any: it is its own child
                nodes = self.children.take(2 * nodes + ~self.goes_left(nodes, here, gaps=gaps))
            ended[pair] = nodes
        return leaves


def splits_above(index: TreeIndex, targets: Ints) -> tuple[Ints, Ints, Bools]:
    """Return all splits on the way from the roots to `targets`: position of the target, node, and whether left."""
    feature, ensemble = index.splits.feature, index.splits.ensemble
    inner = np.flatnonzero(feature >= 0)
    parent, is_left = np.full(len(feature), -1), np.zeros(len(feature), bool)
    parent[ensemble.left[inner]], parent[ensemble.right[inner]] = inner, inner
    is_left[ensemble.left[inner]] = True
    target, below, above = np.arange(len(targets)), targets, parent[targets]
    none = np.zeros(0, np.int64)
    parts: list[tuple[Ints, Ints, Bools]] = [(none, none, none.astype(bool))]
    while (inside := above >= 0).any():
        if not inside.all():
            target, below, above = target[inside], below[inside], above[inside]
        parts.append((target, above, is_left[below]))
        below, above = above, parent[above]
    target, node, left = (np.concatenate(part) for part in zip(*parts, strict=True))
    return target, node, left


class Events(NamedTuple):
    """Of one column: while its piece is in low <= piece < high, the sums of input `row` are changed by so much."""

    row: Ints  # (E,)
    change: Floats  # (K, E) another leaf's values less those of the input's leaf, in integers
    low: Ints  # (E,)
    high: Ints
    missing: Callable[[], Bools]  # (E,) also while it is missing; seldom needed

    @staticmethod
    def concatenate(parts: list[Events]) -> Events:
        if len(parts) == 1:
            return parts[0]
        row, change, low, high = (np.concatenate(part, axis=-1) for part in list(zip(*parts, strict=True))[:4])
        return Events(row, change, low, high, lambda: np.concatenate([part.missing() for part in parts]))


MOST_LEAVES = 64
MOST_BYTES = 2**27  # of all tables
RANGE_BYTES = 17  # of a leaf and a column, at most: its range of pieces, and whether a missing value may get there
WORDS = 2**19  # words that are worked on at a time
Words = Array  # unsigned, 32 or 64 bits


class ColumnMasks(NamedTuple):
    """One column: which leaves of each tree its pieces shut out, and the range of pieces that leads to each leaf."""

    shut: Words  # (pieces + 2, T)
    low: Ints  # (T * bits,)
    high: Ints
    missing: Bools


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """Trees of few leaves."""

    trees: Ints  # (T,) which of the ensemble's
    bits: int
    every: Words  # (T,) one bit for each leaf
    values: Floats  # (K, T * bits) of each leaf, in integers
    columns: dict[int, ColumnMasks]

    def leaf_of(self, words: Words, trees: Ints | None = None) -> Ints:
        """Return the position of the leaf whose bit is set, (n, T) or of these trees."""
        trees = np.arange(len(self.trees)) if trees is None else trees
        return np.asarray(trees * self.bits + bit_of(words))

    def sums(self, leaves: Ints) -> Floats:
        """Return sums (..., K) over the leaves at these positions, (..., T)."""
        return np.stack([values[leaves].sum(axis=-1) for values in self.values], axis=-1)

    def shut(self, pieces: Ints, columns: Sequence[int] | None = None) -> Words:
        """Return the leaves that these columns, or all, keep each input from, (n, T)."""
        shut: Words = np.zeros((len(pieces), len(self.trees)), self.every.dtype)
        more = np.empty_like(shut)
        for j in self.columns if columns is None else columns:
            np.take(self.columns[j].shut, pieces[:, j], axis=0, out=more, mode="clip")
            np.bitwise_or(shut, more, out=shut)
        return shut

    def near(self, pieces: Ints) -> tuple[Ints, Callable[[int], Events | None]]:
        """Return the leaves of the inputs (n, T), and the events of a column; None: no split is on it."""
        once: Words = np.zeros((len(pieces), len(self.trees)), self.every.dtype)
        twice, shut, both = np.zeros_like(once), np.empty_like(once), np.empty_like(once)
        for j, column in self.columns.items():
            np.take(column.shut, pieces[:, j], axis=0, out=shut, mode="clip")
            np.bitwise_and(once, shut, out=both)
            np.bitwise_or(twice, both, out=twice)
            np.bitwise_or(once, shut, out=once)
        leaves, one_off = self.leaf_of(self.every & ~once), once & ~twice
        values = self.values[:, leaves.reshape(-1)]
        row = np.repeat(np.arange(len(pieces)), len(self.trees))  # of each word, and the first leaf of its tree:
        first = np.tile(np.arange(len(self.trees)) * self.bits, len(pieces))  # quicker than to divide

        def events(j: int) -> Events | None:
            column = self.columns.get(j)
            if column is None:
                return None
            at, bit = set_bits((column.shut[pieces[:, j]] & one_off).reshape(-1))
            leaf = first.take(at) + bit
            change = self.values.take(leaf, axis=1) - values.take(at, axis=1)
            low, high = column.low.take(leaf), column.high.take(leaf)
            return Events(row.take(at), change, low, high, lambda: column.missing[leaf])

        return leaves, events

    def group_sums(self, pieces: Ints, columns: Ints, fresh: Ints) -> Floats:
        """Return sums (n, V, K) where the columns of a group are in the pieces `fresh` (n, V, columns).

        Trees without a split of the group are the same for all its values; in the others one leaf is left each time.
        """
        chosen = [int(j) for j in columns if int(j) in self.columns]
        base = self.shut(pieces, [j for j in self.columns if j not in chosen])
        split = np.zeros(len(self.trees), bool)
        for j in chosen:
            split |= self.columns[j].shut.any(axis=0)
        still, moved = np.flatnonzero(~split), np.flatnonzero(split)
        total = np.empty((*fresh.shape[:2], len(self.values)))
        total[:] = self.sums(self.leaf_of(self.every[still] & ~base[:, still], still))[:, None]
        if not moved.size:
            return total
        tables = [(list(columns).index(j), self.columns[j].shut[:, moved]) for j in chosen]
        size = max(1, WORDS // (len(moved) * fresh.shape[1]))
        for a in range(0, len(pieces), size):
            shut: Words = np.repeat(base[a : a + size, None][:, :, moved], fresh.shape[1], axis=1)
            for k, table in tables:
                shut |= table[fresh[a : a + size, :, k]]
            total[a : a + size] += self.sums(self.leaf_of(self.every[moved] & ~shut, moved))
        return total


def set_bits(words: Words) -> tuple[Ints, Ints]:
    """Return where words have bits, and which: each bit once."""
    at = np.flatnonzero(words != 0)  # of flags: four times quicker than of words
    words, positions, bits = words.take(at), [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while words.size:
        lowest = words & np.negative(words)
        positions.append(at)
        bits.append(bit_of(lowest))
        words ^= lowest
        more = np.flatnonzero(words != 0)
        words, at = words.take(more), at.take(more)
    return np.concatenate(positions), np.concatenate(bits)


def bit_of(words: Words) -> Ints:
    """Return the position of the only bit of each word.

    >>> bit_of(np.array([1, 8, 2**31], np.uint32)).tolist()
    [0, 3, 31]
    """
    if words.dtype == np.uint32:
        return np.asarray((words.astype(np.float32).view(np.int32) >> 23) - 127)
    return np.asarray((words.astype(np.float64).view(np.int64) >> 52) - 1023)


def leaf_masks(index: TreeIndex) -> LeafMasks | None:
    """Return the masks of all trees that are small enough; None: there are none, or too many pieces."""
    splits, ensemble = index.splits, index.splits.ensemble
    sizes = np.diff(ensemble.roots, append=len(splits.feature))
    tree_of = np.repeat(np.arange(len(sizes)), sizes)
    leaves = np.flatnonzero(splits.feature < 0)
    counts = np.bincount(tree_of[leaves], minlength=len(sizes))
    trees = np.flatnonzero(counts <= MOST_LEAVES)
    if not trees.size:
        return None
    bits = 32 if counts[trees].max() <= 32 else 64
    used = [j for j, nodes in enumerate(index.nodes_of) if len(nodes)]
    words = sum(len(index.cuts[j]) + 2 for j in used) * bits // 8
    if len(trees) * (words + len(used) * bits * RANGE_BYTES) > MOST_BYTES:
        return None
    leaves = leaves[(counts <= MOST_LEAVES)[tree_of[leaves]]]
    slot = np.repeat(np.arange(len(trees)), counts[trees])
    flat = slot * bits + np.arange(len(leaves)) - np.repeat(np.cumsum(counts[trees]) - counts[trees], counts[trees])
    values = np.zeros((index.units.shape[1], len(trees) * bits))
    values[:, flat] = index.units[leaves].T
    present = np.zeros(len(trees) * bits, bool)
    present[flat] = True
    return LeafMasks(trees, bits, _packed(present, bits), values, _column_masks(index, leaves, flat, bits, len(trees)))


def _packed(flags: Bools, bits: int) -> Words:
    """Return flags (..., T * bits) of leaves as words (..., T)."""
    packed = np.packbits(np.ascontiguousarray(flags), axis=-1, bitorder="little")
    return packed.view(f"<u{bits // 8}").astype(f"u{bits // 8}", copy=False)


def _column_masks(index: TreeIndex, leaves: Ints, flat: Ints, bits: int, trees: int) -> dict[int, ColumnMasks]:
    """Return those of each column with splits, from leaves at the positions `flat` of all words' bits, (L,)."""
    splits, size = index.splits, trees * bits
    target, node, is_left = splits_above(index, leaves)
    column = splits.feature[node]
    used = np.flatnonzero(np.bincount(column, minlength=index.width))
    ends = index.missing[used]
    kind = np.min_scalar_type(int(ends.max(initial=0)))  # short ones: tables that stay in the cache
    low, missing = np.zeros(len(used) * size, kind), np.ones(len(used) * size, bool)  # pieces that lead to a leaf
    high = np.repeat(ends.astype(kind), size)
    first = np.zeros(int(used.max(initial=0)) + 1, np.int64)
    first[used] = np.arange(len(used)) * size
    key, by_threshold = first[column] + flat[target], splits.category_row[node] < 0
    left, right = np.flatnonzero(by_threshold & is_left), np.flatnonzero(by_threshold & ~is_left)
    np.maximum.at(low, key[right], (index.rank[node[right]] + 1).astype(kind))
    np.minimum.at(high, key[left], (index.rank[node[left]] + 1).astype(kind))
    missing[key[splits.missing_left[node] != is_left]] = False
    np.maximum(low, high, out=high)  # of an empty range: both the same
    ranges = low.reshape(-1, size), high.reshape(-1, size), missing.reshape(-1, size)
    parts = np.split(_shut(*ranges, ends, bits), np.cumsum(ends + 1))[:-1]  # the last is what is left: nothing
    masks = {j: ColumnMasks(*part) for j, *part in zip(used.tolist(), parts, *ranges, strict=True)}
    for j in splits.categories.keys() & masks.keys():  # its pieces are listed, not ranges
        mine, end = column == j, int(index.missing[j])
        allowed = np.ones((size, end + 1), bool)
        step = splits.category_sets[splits.category_row[node[mine]], : end + 1] == is_left[mine][:, None]
        np.logical_and.at(allowed, flat[target[mine]], step)
        none = np.zeros(0, np.int64)
        masks[j] = ColumnMasks(_packed(~allowed.T, bits), none, none, np.zeros(0, bool))
    return masks


def _shut(low: Ints, high: Ints, missing: Bools, ends: Ints, bits: int) -> Words:
    """Return the leaves that each piece shuts out, whose range it is not in: (end + 1, T) of all columns."""
    kind, trees = np.dtype(f"u{bits // 8}"), low.shape[1] // bits
    first = np.cumsum(ends + 1) - ends - 1
    shut: Words = np.zeros((int((ends + 1).sum()), trees), kind)
    nonempty = low < high
    for edge, inside in ((low, low > 0), (high, high < ends[:, None])):  # open from low, shut again from high
        position = np.flatnonzero(nonempty & inside)
        column, leaf = np.divmod(position, low.shape[1])
        bit = np.left_shift(kind.type(1), (leaf & (bits - 1)).astype(kind))
        cell = (first[column] + edge.reshape(-1)[position]) * trees + leaf // bits
        np.add.at(shut.reshape(-1), cell, bit)  # a bit at most once: a sum is a union, quicker
    shut[first], shut[first + ends] = _packed(low > 0, bits), _packed(~missing, bits)
    for a, b in zip(first.tolist(), (first + ends).tolist(), strict=True):
        np.bitwise_xor.accumulate(shut[a:b], axis=0, out=shut[a:b])
    return shut


class Front(NamedTuple):
    """Nodes that are reached when one column of an input is free, and what is left of that column's pieces there."""

    row: Ints
    tree: Ints
    column: Ints
    node: Ints
    low: Ints
    high: Ints
    missing: Bools

    def take(self, positions: Ints | Bools) -> Front:
        parts: list[Array] = [part[positions] for part in self]
        return Front(*parts)

    @staticmethod
    def concatenate(parts: Sequence[Front]) -> Front:
        return Front(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class Walker:
    """Trees of any size."""

    def __init__(self, index: TreeIndex, trees: Ints) -> None:
        self.index, self.trees = index, trees
        self.roots = index.splits.ensemble.roots[trees]
        splits, feature = index.splits, index.splits.feature
        inner = np.flatnonzero((feature >= 0) & (splits.category_row < 0))
        target, node, left = splits_above(index, inner)
        mine = feature[node] == feature[inner[target]]
        key, node, left = inner[target[mine]], node[mine], left[mine]
        self.low, self.missing = np.zeros(len(feature), np.int64), np.ones(len(feature), bool)
        self.high = np.where(feature >= 0, index.missing[np.maximum(feature, 0)], 0)
        np.maximum.at(self.low, key[~left], index.rank[node[~left]] + 1)  # pieces of its column that get to a node
        np.minimum.at(self.high, key[left], index.rank[node[left]] + 1)
        self.missing[key[splits.missing_left[node] != left]] = False
        np.maximum(self.low, self.high, out=self.high)

    def sums(self, pieces: Ints) -> Floats:
        """Return sums of the leaves of each row (n, K), in integers."""
        total, size = np.empty((len(pieces), self.index.units.shape[1])), max(1, SUMMED // len(self.trees))
        for a in range(0, len(pieces), size):
            leaves = self.index.leaves_of(pieces[a : a + size], self.roots)
            total[a : a + size] = self.index.units[leaves].sum(axis=1)
        return total

    def events(self, pieces: Ints, columns: Sequence[int]) -> dict[int, Events]:
        """Return those of each of these columns, which are not split by categories."""
        size = max(1, WALKED_AT_ONCE // 2 // len(self.trees))
        parts = [self._events(pieces[a : a + size], a, columns) for a in range(0, len(pieces), size)]
        known = {j for part in parts for j in part}
        return {j: Events.concatenate([part[j] for part in parts if j in part]) for j in known}

    def _events(self, pieces: Ints, first: int, columns: Sequence[int]) -> dict[int, Events]:
        index, feature = self.index, self.index.splits.feature
        leaves = index.leaves_of(pieces, self.roots)
        front, ended = self._branches(pieces, columns), []
        while front.row.size:
            at_leaf = feature[front.node] < 0
            ended.append(front.take(at_leaf))
            front = self._step(front.take(~at_leaf), pieces)
        if not ended:
            return {}
        done = Front.concatenate(ended)
        done = done.take(np.argsort(done.column, kind="stable"))
        starts, stops = (np.searchsorted(done.column, columns, side=side) for side in ("left", "right"))
        events = {}
        for j, a, b in zip(columns, starts, stops, strict=True):
            if b > a:
                part = done.take(np.arange(a, b))
                change = (index.units[part.node] - index.units[leaves[part.row, part.tree]]).T
                missing = partial(np.asarray, part.missing)
                events[int(j)] = Events(part.row + first, change, part.low, part.high, missing)
        return events

    def _branches(self, pieces: Ints, columns: Sequence[int]) -> Front:
        """Return the other child of every node on the way of every input, where its column is one of these."""
        index, ensemble, feature = self.index, self.index.splits.ensemble, self.index.splits.feature
        free = np.zeros(index.width, bool)
        free[list(columns)] = True
        row = np.repeat(np.arange(len(pieces)), len(self.trees))
        tree = np.tile(np.arange(len(self.trees)), len(pieces))
        none = np.zeros(0, np.int64)
        node, parts = self.roots[tree], [Front(none, none, none, none, none, none, none.astype(bool))]
        while (inner := feature[node] >= 0).any():
            row, tree, node = row[inner], tree[inner], node[inner]
            left = index.goes_left(node, pieces[row, feature[node]])
            mine = free[feature[node]]
            parts.append(self._child(row[mine], tree[mine], node[mine], ~left[mine]))
            node = np.where(left, ensemble.left[node], ensemble.right[node])
        return Front.concatenate(parts)

    def _child(self, row: Ints, tree: Ints, node: Ints, left: Bools) -> Front:
        """Return the left or right child of nodes whose column is free."""
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
        """Go down one step: to both children where the free column is split, else to the child of the input."""
        if not front.row.size:
            return front
        index, ensemble = self.index, self.index.splits.ensemble
        column = index.splits.feature[front.node]
        split = column == front.column
        on, off = front.take(split), front.take(~split)
        left = index.goes_left(off.node, pieces[off.row, column[~split]])
        moved = off._replace(node=np.where(left, ensemble.left[off.node], ensemble.right[off.node]))
        sides = [self._child(on.row, on.tree, on.node, np.full(len(on.row), side)) for side in (True, False)]
        return Front.concatenate([moved, *(side.take((side.low < side.high) | side.missing) for side in sides)])


SUMMED = 2**18  # inputs x trees whose leaves are summed at a time
DENSE = 6  # a table with so many cells an event, or fewer, is filled; else events are sorted


@dataclass(frozen=True, eq=False)
class Steps:
    """Of each input (n,) along one column: steps (n, V), from piece `starts` up to the next; padded by empty ones."""

    starts: Ints  # (n, V) the first is 0, padding is one beyond the last piece
    sums: Floats  # (n, V, K) of leaves, in integers
    observed: Floats  # (n, K) those of the inputs as they are
    events: Events | None  # None: nothing changes

    @cached_property
    def missing(self) -> Floats:
        if self.events is None:
            return self.observed
        gone = np.flatnonzero(self.events.missing())
        row, count = self.events.row[gone], len(self.observed)
        changes = [np.bincount(row, change[gone], count) for change in self.events.change]
        return self.observed + np.stack(changes, axis=1)


@dataclass(frozen=True, eq=False)
class StepFunctions:
    """Reads step functions off an ensemble."""

    index: TreeIndex

    @cached_property
    def masks(self) -> LeafMasks | None:
        """Of small trees."""
        return leaf_masks(self.index)

    @cached_property
    def walker(self) -> Walker | None:
        """Of the others."""
        count = len(self.index.splits.ensemble.roots)
        small = np.zeros(0, np.int64) if self.masks is None else self.masks.trees
        large = np.setdiff1d(np.arange(count), small)
        return Walker(self.index, large) if large.size else None

    def along(self, pieces: Ints, columns: Sequence[int]) -> Iterator[tuple[int, Steps]]:
        """Yield the steps of inputs, given by their pieces (n, columns of the table), along each of these columns."""
        index, masks, walker = self.index, self.masks, self.walker
        observed = np.zeros((len(pieces), index.units.shape[1]))
        leaves, by_masks = (None, None) if masks is None else masks.near(pieces)
        walked = {} if walker is None else walker.events(pieces, columns)
        if masks is not None and leaves is not None:
            observed += masks.sums(leaves)
        if walker is not None:
            observed += walker.sums(pieces)
        for j in columns:
            parts = [None if by_masks is None else by_masks(j), walked.pop(j, None)]
            events = [part for part in parts if part is not None and len(part.row)]
            if events:
                together, end = Events.concatenate(events), int(index.missing[j])
                starts, sums = _padded(*_jumps(together, len(observed), end + 1), observed, end)
                yield j, Steps(starts, sums, observed, together)
            else:
                yield j, Steps(np.zeros((len(observed), 1), np.int64), observed[:, None].copy(), observed, None)

    def sums(self, pieces: Ints) -> Floats:
        """Return sums of the leaves of each input (n, K), in integers."""
        size = max(1, SUMMED // len(self.index.splits.ensemble.roots))
        total = np.zeros((len(pieces), self.index.units.shape[1]))
        for a in range(0, len(pieces), size):
            part = pieces[a : a + size]
            if self.masks is not None:
                total[a : a + size] += self.masks.sums(self.masks.leaf_of(self.masks.every & ~self.masks.shut(part)))
            if self.walker is not None:
                total[a : a + size] += self.walker.sums(part)
        return total

    def group_sums(self, pieces: Ints, columns: Ints, values: Array) -> Floats:
        """Return sums (n, V, K) for values (n, V, columns) of a group, other columns in `pieces` (n, all columns)."""
        fresh = np.stack([self.index.pieces_of(int(j), values[..., k]) for k, j in enumerate(columns)], axis=2)
        total = np.zeros((*values.shape[:2], self.index.units.shape[1]))
        if self.masks is not None:
            total += self.masks.group_sums(pieces, columns, fresh)
        if self.walker is not None:
            rows = np.repeat(pieces[:, None], values.shape[1], axis=1)
            rows[..., columns] = fresh
            total += self.walker.sums(rows.reshape(-1, rows.shape[2])).reshape(total.shape)
        return total


def _jumps(events: Events, count: int, width: int) -> tuple[Ints, Ints, Floats]:
    """Return where the sums change, and by how much: inputs, pieces (sorted), jumps (J, K); every first piece too."""
    first = events.row * width
    up, down = first + events.low, first + events.high
    if count * width <= DENSE * len(first) + 2**16:
        size = count * width
        table = np.array([np.bincount(up, part, size) - np.bincount(down, part, size) for part in events.change]).T
        changes: Bools = (table != 0).any(axis=1).reshape(count, width)
        changes[:, 0], changes[:, -1] = True, False
        cells = np.flatnonzero(changes)
        jump = table[cells]
    else:
        keys, back = np.unique(np.concatenate([up, down, np.arange(count) * width]), return_inverse=True)
        both = np.concatenate([events.change, -events.change, np.zeros((len(events.change), count))], axis=1)
        jump = np.stack([np.bincount(back, part, len(keys)) for part in both], axis=1)
        keep = ((jump != 0).any(axis=1) | (keys % width == 0)) & (keys % width < width - 1)
        cells, jump = keys[keep], jump[keep]
    return cells // width, cells % width, jump


def _padded(row: Ints, start: Ints, jump: Floats, observed: Floats, end: int) -> tuple[Ints, Floats]:
    """Return tables with a row for each input: starts (n, V) and sums (n, V, K)."""
    count = len(observed)
    sizes = np.bincount(row, minlength=count)
    step = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    starts = np.full((count, int(sizes.max())), end, np.int64)
    starts[row, step] = start
    sums = np.zeros((*starts.shape, observed.shape[1]))
    sums[row, step] = jump
    np.cumsum(sums, axis=1, out=sums)  # integers: exact
    sums += observed[:, None]
    return starts, sums
