"""The output as a step function of one column, all others as observed: where it steps, and the sums on each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.core.types import Bools, Floats, Ints
from butfor.tabular.exact_trees.events import Events
from butfor.tabular.exact_trees.index import TreeIndex
from butfor.tabular.exact_trees.masks import LeafMasks, NearLeaves, leaf_masks
from butfor.tabular.exact_trees.walk import Walker, walker

SUMMED = 2**18  # inputs x trees whose leaves are summed at a time
DENSE = 6  # a table with so many cells an event, or fewer, is filled; else events are sorted


@dataclass(frozen=True, eq=False)
class Steps:
    """Of each input (n,) along one column: steps (n, V), from piece `starts` up to the next; padded by empty ones."""

    starts: Ints  # (n, V) the first is 0, padding is one beyond the last piece
    sums: Floats  # (n, V, K) of leaves, in whole numbers
    own: Floats  # (n, K) those of the inputs as they are
    events: Events | None  # None: nothing changes

    @cached_property
    def missing(self) -> Floats:
        """Sums (n, K) where the column is missing."""
        if self.events is None:
            return self.own
        gone = np.flatnonzero(self.events.missing())
        row, count = self.events.row[gone], len(self.own)
        return self.own + np.stack([np.bincount(row, change[gone], count) for change in self.events.change], axis=1)


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
        own = np.zeros((len(pieces), self.index.units.shape[1]))
        near = None if self.masks is None else NearLeaves(self.masks, pieces)
        walked = {} if self.walker is None else self.walker.events(pieces, columns)
        if near is not None:
            own += self._of_leaves(near.own)
        if self.walker is not None:
            own += self._of_walk(pieces)
        for j in columns:
            parts = [None if near is None else near.events(j), walked.pop(j, None)]
            yield j, _steps(self.index, j, own, [part for part in parts if part is not None and len(part.row)])

    def sums(self, pieces: Ints) -> Floats:
        """Sums of the leaves of each input (n, K), in whole numbers."""
        size = max(1, SUMMED // len(self.index.splits.ensemble.roots))
        parts = [np.zeros((0, self.index.units.shape[1]))]
        for a in range(0, len(pieces), size):
            some = pieces[a : a + size]
            own = np.zeros((len(some), parts[0].shape[1]))
            if self.masks is not None:
                own += self._of_leaves(self.masks.own_leaves(some))
            parts.append(own + self._of_walk(some) if self.walker is not None else own)
        return np.concatenate(parts)

    def _of_leaves(self, leaf: Ints) -> Floats:
        """Sums over small trees (n, K), from the places of the inputs' own leaves (n, T)."""
        assert self.masks is not None
        return np.stack([own[leaf].sum(axis=1) for own in self.masks.values], axis=1)

    def _of_walk(self, pieces: Ints) -> Floats:
        """The same over the others."""
        assert self.walker is not None
        roots = self.index.splits.ensemble.roots[self.walker.trees]
        return np.asarray(self.index.units[self.index.leaves_of(pieces, roots)].sum(axis=1))


def _steps(index: TreeIndex, j: int, own: Floats, parts: list[Events]) -> Steps:
    count, end = len(own), int(index.missing[j])
    if not parts:
        return Steps(np.zeros((count, 1), np.int64), own[:, None].copy(), own, None)
    events = Events.together(parts)
    starts, sums = _padded(*_jumps(events, count, end + 1), own, end)
    return Steps(starts, sums, own, events)


def _jumps(events: Events, count: int, width: int) -> tuple[Ints, Ints, Floats]:
    """Where the sums change, and by how much: inputs, pieces (sorted) and jumps (J, K); every input's first piece."""
    first = events.row * width
    up, down = first + events.low, first + events.high
    if count * width <= DENSE * len(first) + 2**16:
        size = count * width
        table = np.array([np.bincount(up, own, size) - np.bincount(down, own, size) for own in events.change]).T
        there: Bools = (table != 0).any(axis=1).reshape(count, width)
        there[:, 0], there[:, -1] = True, False
        places = np.flatnonzero(there)
        jump = table[places]
    else:
        keys, back = np.unique(np.concatenate([up, down, np.arange(count) * width]), return_inverse=True)
        both = np.concatenate([events.change, -events.change, np.zeros((len(events.change), count))], axis=1)
        jump = np.stack([np.bincount(back, own, len(keys)) for own in both], axis=1)
        keep = ((jump != 0).any(axis=1) | (keys % width == 0)) & (keys % width < width - 1)
        places, jump = keys[keep], jump[keep]
    return places // width, places % width, jump


def _padded(row: Ints, start: Ints, jump: Floats, own: Floats, end: int) -> tuple[Ints, Floats]:
    """As tables with a row for each input: starts (n, V) and sums (n, V, K)."""
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
    return starts, sums
