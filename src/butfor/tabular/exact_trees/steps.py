"""The output as a step function of one column, all others as observed: where it steps, and the sums on each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.core.types import Bools, Floats, Ints
from butfor.tabular.exact_trees.events import Events
from butfor.tabular.exact_trees.index import TreeIndex
from butfor.tabular.exact_trees.masks import LeafMasks, Words, leaf_masks
from butfor.tabular.exact_trees.walk import Walker, walker

SUMMED = 2**18  # inputs x trees whose leaves are summed at a time
DENSE = 6  # a table with so many cells an event, or fewer, is filled; else events are sorted


@dataclass(frozen=True, eq=False)
class Steps:
    """Of each input (n,) along one column: steps (n, V), from piece `starts` up to the next; padded by empty ones."""

    starts: Ints  # (n, V) the first is 0, padding is one beyond the last piece
    sums: Floats  # (n, V, K) of leaves, in whole numbers
    missing: Floats  # (n, K) where the column is missing
    ends: int  # one beyond the last piece


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
        return walker(self.index, large) if large.size else None

    def along(self, pieces: Ints, columns: Sequence[int]) -> Iterator[tuple[int, Steps]]:
        """The steps of inputs, given by their pieces (n, columns of the table), along each of some columns."""
        parts: dict[int, list[Events]] = {j: [] for j in columns}
        own = np.zeros((len(pieces), self.index.units.shape[1]))
        if self.masks is not None:
            words = self.masks.own_words(pieces)
            own += self._of_words(words[0])
            for j, found in self.masks.events(pieces, columns, *words):
                parts[j].append(found)
        if self.walker is not None:
            for j, found in self.walker.events(pieces, columns).items():
                parts[j].append(found)
            own += self._of_walk(pieces)
        for j in columns:
            yield j, _steps(self.index, j, own, [part for part in parts.pop(j) if len(part.row)])

    def sums(self, pieces: Ints) -> Floats:
        """Sums of the leaves of each input (n, K), in whole numbers."""
        size = max(1, SUMMED // len(self.index.splits.ensemble.roots))
        parts = [np.zeros((0, self.index.units.shape[1]))]
        for a in range(0, len(pieces), size):
            some = pieces[a : a + size]
            own = np.zeros((len(some), parts[0].shape[1]))
            if self.masks is not None:
                own += self._of_words(self.masks.own_words(some)[0])
            parts.append(own + self._of_walk(some) if self.walker is not None else own)
        return np.concatenate(parts)

    def _of_words(self, words: Words) -> Floats:
        """Sums over small trees (n, K), from the words of the inputs' own leaves (n, T)."""
        assert self.masks is not None
        units = self.index.units[self.masks.nodes]
        leaf = self.masks.leaf_of(words)
        return np.stack([own[leaf].sum(axis=1) for own in np.ascontiguousarray(units.T)], axis=1)

    def _of_walk(self, pieces: Ints) -> Floats:
        """The same over the others."""
        assert self.walker is not None
        roots = self.index.splits.ensemble.roots[self.walker.trees]
        return np.asarray(self.index.units[self.index.leaves_of(pieces, roots)].sum(axis=1))


def _steps(index: TreeIndex, j: int, own: Floats, parts: list[Events]) -> Steps:
    count, end, outputs = len(own), int(index.missing[j]), own.shape[1]
    if not parts:
        return Steps(np.zeros((count, 1), np.int64), own[:, None].copy(), own.copy(), end)
    events = Events.together(parts)
    change = index.units[events.leaf] - index.units[events.own]  # (E, K) whole numbers
    row, start, jump = _jumps(events, change, count, end + 1)
    missing = own.copy()
    if events.missing.any():
        gone = np.flatnonzero(events.missing)
        for k in range(outputs):
            missing[:, k] += np.bincount(events.row[gone], change[gone, k], count)
    return _padded(row, start, jump, own, missing, end)


def _jumps(events: Events, change: Floats, count: int, width: int) -> tuple[Ints, Ints, Floats]:
    """Where the sums change, and by how much: inputs, pieces (sorted) and jumps (J, K); every input's first piece."""
    first = events.row * width
    up, down = first + events.low, first + events.high
    if count * width <= DENSE * len(first) + 2**16:
        table = np.stack(
            [
                np.bincount(up, own, count * width) - np.bincount(down, own, count * width)
                for own in np.ascontiguousarray(change.T)
            ],
            axis=1,
        )
        there: Bools = (table != 0).any(axis=1).reshape(count, width)
        there[:, 0], there[:, -1] = True, False
        places = np.flatnonzero(there)
        jump = table[places]
    else:
        keys, back = np.unique(np.concatenate([up, down, np.arange(count) * width]), return_inverse=True)
        both = np.concatenate([change, -change, np.zeros((count, change.shape[1]))])
        jump = np.stack([np.bincount(back, own, len(keys)) for own in both.T], axis=1)
        keep = ((jump != 0).any(axis=1) | (keys % width == 0)) & (keys % width < width - 1)
        places, jump = keys[keep], jump[keep]
    return places // width, places % width, jump


def _padded(row: Ints, start: Ints, jump: Floats, own: Floats, missing: Floats, end: int) -> Steps:
    """As tables with a row for each input."""
    count = len(own)
    sizes = np.bincount(row, minlength=count)
    most = int(sizes.max())
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    starts = np.full((count, most), end, np.int64)
    starts[row, place] = start
    sums = np.zeros((count, most, own.shape[1]))
    sums[row, place] = jump
    np.cumsum(sums, axis=1, out=sums)  # whole numbers: exact
    sums += own[:, None]
    return Steps(starts, sums, missing, end)
