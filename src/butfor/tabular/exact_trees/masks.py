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
from butfor.tabular.exact_trees.paths import Demands, demands

MOST_LEAVES = 64
MOST_BYTES = 2**27  # of all tables
RANGE_BYTES = 17  # of a leaf and a column, at most: its range of pieces, and whether a missing value may get there
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
        leaf = self._first.take(at) + place
        change = masks.values.take(leaf, axis=1) - self._values.take(at, axis=1)
        low, high = column.low.take(leaf), column.high.take(leaf)
        return Events(self._row.take(at), change, low, high, lambda: column.missing[leaf])


def _set_bits(words: Words) -> tuple[Ints, Ints]:
    """Where words have bits, and which: each bit once."""
    at = np.flatnonzero(words != 0)  # of flags: four times quicker than of words
    words, places, bits = words.take(at), [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while words.size:
        lowest = words & np.negative(words)
        places.append(at)
        bits.append(bit_of(lowest))
        words ^= lowest
        more = np.flatnonzero(words != 0)
        words, at = words.take(more), at.take(more)
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
    there = np.zeros(len(trees) * bits, bool)
    there[flat] = True
    return LeafMasks(trees, bits, _words(there, bits), values, _columns(index, leaves, flat, bits, len(trees)))


def _words(flags: Bools, bits: int) -> Words:
    """Flags (..., T * bits) of leaves as words (..., T)."""
    packed = np.packbits(np.ascontiguousarray(flags), axis=-1, bitorder="little")
    return packed.view(f"<u{bits // 8}").astype(_kind(bits), copy=False)


def _kind(bits: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint32 if bits == 32 else np.uint64)


def _columns(index: TreeIndex, leaves: Ints, flat: Ints, bits: int, trees: int) -> dict[int, ColumnWords]:
    """Of each column with splits in trees whose leaves stand at places `flat` of all words' bits, (L,)."""
    asked = demands(index, leaves)
    used = np.flatnonzero(np.bincount(asked.column, minlength=index.width))
    ends = index.missing[used]
    ranges = _ranges(asked, flat, used, ends, trees * bits)
    parts = np.split(_shut(*ranges, ends, bits), np.cumsum(ends + 1))[:-1]  # the last is what is left: nothing
    found = {j: ColumnWords(*own) for j, *own in zip(used.tolist(), parts, *ranges, strict=True)}
    for j in index.splits.levels.keys() & found.keys():  # its pieces are listed, not ranges
        none = np.zeros(0, np.int64)
        found[j] = ColumnWords(_shut_levels(index, j, asked, flat, bits, trees), none, none, np.zeros(0, bool))
    return found


def _ranges(asked: Demands, flat: Ints, used: Ints, ends: Ints, size: int) -> tuple[Ints, Ints, Bools]:
    """Pieces (low, high left out) that leaves ask for, and whether missing ones may get there, (columns, leaves)."""
    kind = np.min_scalar_type(int(ends.max(initial=0)))  # short ones: tables that stay in the cache
    low, missing = np.zeros(len(used) * size, kind), np.ones(len(used) * size, bool)
    high = np.repeat(ends.astype(kind), size)
    place = np.zeros(int(used.max(initial=0)) + 1, np.int64)
    place[used] = np.arange(len(used)) * size
    key, by_threshold = place[asked.column] + flat[asked.target], asked.split < 0
    left, right = np.flatnonzero(by_threshold & asked.left), np.flatnonzero(by_threshold & ~asked.left)
    np.maximum.at(low, key[right], asked.low[right].astype(kind))
    np.minimum.at(high, key[left], asked.high[left].astype(kind))
    missing[key[~asked.missing]] = False
    np.maximum(low, high, out=high)  # of an empty range: both the same
    return low.reshape(-1, size), high.reshape(-1, size), missing.reshape(-1, size)


def _shut(low: Ints, high: Ints, missing: Bools, ends: Ints, bits: int) -> Words:
    """Which leaves each piece shuts out, those whose range it is not in: (end + 1, T) of all columns, one by one."""
    kind, trees = _kind(bits), low.shape[1] // bits
    first = np.cumsum(ends + 1) - ends - 1
    shut: Words = np.zeros((int((ends + 1).sum()), trees), kind)
    held = low < high
    for edge, inside in ((low, low > 0), (high, high < ends[:, None])):  # open from low, shut again from high
        place = np.flatnonzero(held & inside)
        column, leaf = np.divmod(place, low.shape[1])
        bit = np.left_shift(kind.type(1), (leaf & (bits - 1)).astype(kind))
        cell = (first[column] + edge.reshape(-1)[place]) * trees + leaf // bits
        np.add.at(shut.reshape(-1), cell, bit)  # a bit at most once: a sum is a union, quicker
    shut[first], shut[first + ends] = _words(low > 0, bits), _words(~missing, bits)
    for a, b in zip(first.tolist(), (first + ends).tolist(), strict=True):
        np.bitwise_xor.accumulate(shut[a:b], axis=0, out=shut[a:b])
    return shut


def _shut_levels(index: TreeIndex, j: int, asked: Demands, flat: Ints, bits: int, trees: int) -> Words:
    """The same of a column that is split by categories."""
    mine, end = asked.column == j, int(index.missing[j])
    allowed = np.ones((trees * bits, end + 1), bool)
    step = index.sets[asked.split[mine], : end + 1] == asked.left[mine][:, None]
    np.logical_and.at(allowed, flat[asked.target[mine]], step)
    return _words(~allowed.T, bits)
