"""Small trees by bits: a word per tree says which of its leaves a piece of a column lets through (METHODS 13).

A leaf that all columns let through is the input's own. A leaf that all but one let through is where the input would be
if that one column had another value: no descent, only "and" and "or" of words, for all trees and many inputs at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.types import Array, Bools, Floats, Ints
from butfor.tabular.exact_trees.events import Events
from butfor.tabular.exact_trees.index import TreeIndex
from butfor.tabular.exact_trees.paths import demands, spans

MOST_LEAVES = 64
MOST_BYTES = 2**27  # of all tables
RANGE_BYTES = 17  # of a leaf and a column: its range of pieces, and whether a missing value may get there
Words = Array  # unsigned, 32 or 64 bits


@dataclass(frozen=True, eq=False)
class ColumnWords:
    """One column: which leaves of each tree its pieces shut out, and the range of pieces that each leaf asks for."""

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
    values: Floats  # (K, T * bits) of each leaf, in whole numbers
    columns: dict[int, ColumnWords]

    def own_leaves(self, pieces: Ints) -> Ints:
        """The place of the leaf of each input, (n, T)."""
        shut: Words = np.zeros((len(pieces), len(self.trees)), self.every.dtype)
        more = np.empty_like(shut)
        for j, column in self.columns.items():
            np.take(column.shut, pieces[:, j], axis=0, out=more, mode="clip")
            np.bitwise_or(shut, more, out=shut)
        return self.leaf_of(self.every & ~shut)

    def own_words(self, pieces: Ints) -> tuple[Words, Words]:
        """Words (n, T) of the leaf of each input, and of those that exactly one column keeps it from."""
        count = len(pieces)
        once: Words = np.zeros((count, len(self.trees)), self.every.dtype)
        twice, shut, both = np.zeros_like(once), np.empty_like(once), np.empty_like(once)
        for j, column in self.columns.items():
            np.take(column.shut, pieces[:, j], axis=0, out=shut, mode="clip")
            np.bitwise_and(once, shut, out=both)
            np.bitwise_or(twice, both, out=twice)
            np.bitwise_or(once, shut, out=once)
        return self.every & ~once, once & ~twice

    def leaf_of(self, words: Words, trees: Ints | None = None) -> Ints:
        """The place of the leaf whose bit is set, (n, T) or of some trees."""
        places = np.arange(len(self.trees)) if trees is None else trees
        return np.asarray(places * self.bits + bit_of(words))


class NearLeaves:
    """Leaves of some inputs: their own, and those that exactly one column keeps them from."""

    def __init__(self, masks: LeafMasks, pieces: Ints) -> None:
        own, self._near = masks.own_words(pieces)
        self.own = masks.leaf_of(own)  # (n, T)
        self._masks, self._pieces = masks, pieces
        self._values = masks.values[:, self.own.reshape(-1)]
        self._row = np.repeat(np.arange(len(pieces)), len(masks.trees))  # of each word, and the first leaf of its tree:
        self._first = np.tile(np.arange(len(masks.trees)) * masks.bits, len(pieces))  # quicker than to divide

    def events(self, j: int) -> Events | None:
        """Of one column; None: no split is on it."""
        masks, column = self._masks, self._masks.columns.get(j)
        if column is None:
            return None
        at, place = _set_bits((column.shut[self._pieces[:, j]] & self._near).reshape(-1))
        leaf = self._first[at] + place
        change = np.stack([new[leaf] - own[at] for new, own in zip(masks.values, self._values, strict=True)])
        return Events(self._row[at], change, column.low[leaf], column.high[leaf], lambda: column.missing[leaf])


def _set_bits(words: Words) -> tuple[Ints, Ints]:
    """Where words have bits, and which: each bit once."""
    at = np.flatnonzero(words)
    words, places, bits = words[at], [], []
    while words.size:
        lowest = words & (~words + words.dtype.type(1))
        places.append(at)
        bits.append(bit_of(lowest))
        words = words ^ lowest
        more = np.flatnonzero(words)
        words, at = words[more], at[more]
    if not places:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(places), np.concatenate(bits)


def bit_of(words: Words) -> Ints:
    """The place of the only bit of each word.

    >>> bit_of(np.array([1, 8, 2**31], np.uint32)).tolist()
    [0, 3, 31]
    """
    if words.dtype == np.uint32:
        return np.asarray((words.astype(np.float32).view(np.int32) >> 23) - 127)
    return np.asarray((words.astype(np.float64).view(np.int64) >> 52) - 1023)


def leaf_masks(index: TreeIndex) -> LeafMasks | None:
    """The masks of all trees that are small enough; None: there are none, or too many pieces."""
    splits, ensemble = index.splits, index.splits.ensemble
    tree_of = np.searchsorted(ensemble.roots, np.arange(len(splits.feature)), side="right") - 1
    leaves = np.flatnonzero(splits.feature < 0)
    counts = np.bincount(tree_of[leaves], minlength=len(ensemble.roots))
    trees = np.flatnonzero(counts <= MOST_LEAVES)
    if not trees.size:
        return None
    bits = 32 if counts[trees].max() <= 32 else 64
    used = np.unique(splits.feature[splits.feature >= 0])
    words = sum(len(index.cuts[j]) + 2 for j in used) * bits // 8
    if len(trees) * (words + len(used) * bits * RANGE_BYTES) > MOST_BYTES:
        return None
    small = np.full(len(ensemble.roots), -1)
    small[trees] = np.arange(len(trees))
    leaves = leaves[small[tree_of[leaves]] >= 0]
    slot = small[tree_of[leaves]]
    first = np.searchsorted(slot, np.arange(len(trees)))
    place = np.arange(len(leaves)) - first[slot]
    values = np.zeros((index.units.shape[1], len(trees) * bits))
    values[:, slot * bits + place] = index.units[leaves].T
    kind = np.uint32 if bits == 32 else np.uint64
    bit = np.left_shift(kind(1), place.astype(kind))
    every = np.zeros(len(trees), kind)
    np.add.at(every, slot, bit)
    return LeafMasks(trees, bits, every, values, _columns(index, leaves, slot, place, bit, every, bits))


def _columns(
    index: TreeIndex, leaves: Ints, slot: Ints, place: Ints, bit: Words, every: Words, bits: int
) -> dict[int, ColumnWords]:
    asked = demands(index, leaves)
    column, leaf, low, high, missing = spans(asked, len(leaves))
    found: dict[int, ColumnWords] = {}
    flat = slot * bits + place
    for j in np.unique(asked.column):
        end = int(index.missing[j])
        if int(j) in index.splits.levels:
            mine = asked.column == j
            allowed = np.ones((len(leaves), end + 1), bool)
            step = index.sets[asked.split[mine], : end + 1] == asked.left[mine][:, None]
            np.logical_and.at(allowed, asked.target[mine], step)
            shut = np.zeros((end + 1, len(every)), every.dtype)
            of_leaf, piece = np.nonzero(~allowed)
            np.bitwise_or.at(shut, (piece, slot[of_leaf]), bit[of_leaf])
            none = np.zeros(0, np.int64)
            found[int(j)] = ColumnWords(shut, none, none, np.zeros(0, bool))  # its pieces are listed, not ranges
            continue
        mine = slice(*np.searchsorted(column, [j, j + 1]))  # sorted by column
        of_leaf = leaf[mine]
        ranges = low[mine], high[mine], missing[mine]
        shut = _shut(every, slot[of_leaf], bit[of_leaf], ranges, end)
        low_of, high_of = (np.zeros(len(every) * bits, np.int64) for _ in range(2))
        missing_of = np.zeros(len(every) * bits, bool)
        low_of[flat[of_leaf]], high_of[flat[of_leaf]], missing_of[flat[of_leaf]] = ranges
        found[int(j)] = ColumnWords(shut, low_of, high_of, missing_of)
    return found


def _shut(every: Words, slot: Ints, bit: Words, ranges: tuple[Ints, Ints, Bools], end: int) -> Words:
    """Which leaves each piece shuts out, (end + 1, T): those that ask for the column but for pieces where they do."""
    low, high, missing = ranges
    held = low < high
    turned: Words = np.zeros((end + 1) * len(every), every.dtype)
    for edge in (low, high):  # open from low, shut from high, which is `end` at most
        np.add.at(turned, (edge * len(every) + slot)[held], bit[held])  # a bit at most once: a sum is a union, quicker
    asking: Words = np.zeros(len(every), every.dtype)
    np.add.at(asking, slot, bit)
    shut = turned.reshape(end + 1, len(every))
    np.bitwise_xor.accumulate(shut[:end], axis=0, out=shut[:end])
    np.bitwise_not(shut[:end], out=shut[:end])
    np.bitwise_and(shut[:end], asking, out=shut[:end])
    shut[end] = 0
    np.add.at(shut[end], slot[~missing], bit[~missing])
    return shut
