"""Coarse to fine: at which resolution a hypothesis stands, and which larger one it is a part of (METHODS 14)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from butfor.core.arrays import distinct
from butfor.core.types import Bools, Ints, Item, Subset


@dataclass(frozen=True, eq=False)
class Layers:
    """The resolutions of all hypotheses of a run, from whole inputs down to their smallest parts."""

    resolution: Ints  # (H,) 0: all of the input
    parent: Ints  # (H,) the hypothesis that this one is a part of; -1: none
    stepwise: bool = False  # a part is drawn only where what it is a part of was chosen; what is not drawn has p = 1

    def reached(self, chosen: Bools, passing: Bools | None = None) -> Bools:
        """What may be chosen (H,) where these are: parts of them, parts of a whole, and what is no part.

        The whole is looked through: what its parts do to the output may cancel in it. So is what is `passing` (H,).

        >>> Layers(np.array([0, 1, 2, 2]), np.array([-1, 0, 1, 1])).reached(np.zeros(4, bool))
        array([ True,  True, False, False])
        """
        reached = np.ones(len(chosen), bool)
        self.top_down(lambda level, own: reached.__iand__(own | ~level) & chosen, passing)
        return reached

    def top_down(self, choose: Callable[[Bools, Bools], Bools], passing: Bools | None = None) -> Bools:
        """What is chosen (H,), one resolution after the other, from the whole down.

        `choose` gets which hypotheses are of a resolution, and which of them are parts of something chosen (H,).

        >>> layers = Layers(np.array([0, 1, 2]), np.array([-1, 0, 1]))
        >>> layers.top_down(lambda level, reached: level & reached & np.array([False, True, True]))
        array([False,  True,  True])
        >>> layers.top_down(lambda level, reached: level & reached & np.array([True, False, True]))
        array([ True, False, False])
        """
        chosen, passed = np.zeros((2, len(self.parent)), bool)
        through = self.resolution == 0 if passing is None else (self.resolution == 0) | passing
        for level in self._levels:
            reached = level & ((self.parent < 0) | passed[self.parent])
            chosen |= choose(level, reached) & reached
            passed |= reached & (chosen | through)
        return chosen

    @cached_property
    def _levels(self) -> list[Bools]:
        """Which hypotheses are of each resolution (H,), from the whole down."""
        return [self.resolution == number for number in distinct(self.resolution)]

    def finest(self, chosen: Bools) -> Bools:
        """Those chosen of which no part is chosen.

        >>> Layers(np.array([0, 1, 1]), np.array([-1, 0, 0])).finest(np.array([True, True, False]))
        array([False,  True, False])
        """
        parted = np.zeros(len(chosen), bool)
        parents = self.parent[chosen]
        while parents.size:
            parents = parents[parents >= 0]
            parted[parents] = True
            parents = np.unique(self.parent[parents])
            parents = parents[parents >= 0]
        return np.asarray(chosen & ~parted)


def layers_of_table(resolution: Ints, parent: Ints, inputs: int) -> Layers:
    """The layers of a table, from those of its subsets (S,): every subset is tested on every input, input by input."""
    rows = np.arange(inputs)[:, None] * len(resolution)
    above = np.where(parent >= 0, rows + parent, -1)
    return Layers(np.tile(resolution, inputs), above.reshape(-1).astype(np.int64))


@dataclass(frozen=True)
class SubsetTree:
    """Subsets of one input from coarse to fine: the resolution of each, and the place of that which it is a part of."""

    subsets: tuple[Subset, ...]
    resolution: tuple[int, ...]
    parent: tuple[int, ...]  # -1: none


@runtime_checkable
class ProposesTree(Protocol):
    """Proposes subsets that are parts of each other: `tree` of an input has those that it gives when it is called."""

    def tree(self, name: object, item: Item, /) -> SubsetTree: ...


def layers_of_trees(trees: Sequence[SubsetTree]) -> Layers:
    """The layers of images or texts, each with a tree of its own, in the order of their hypotheses."""
    starts = np.cumsum([0, *(len(tree.parent) for tree in trees)])
    above = [
        place + start if place >= 0 else -1 for tree, start in zip(trees, starts, strict=False) for place in tree.parent
    ]
    resolution = [level for tree in trees for level in tree.resolution]
    return Layers(np.array(resolution, np.int64), np.array(above, np.int64), stepwise=True)
