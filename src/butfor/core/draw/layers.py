"""Coarse to fine: at which resolution a hypothesis stands, and which larger one it is a part of (METHODS 14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from butfor.core.types import Bools, Ints, Item, Subset


@dataclass(frozen=True, eq=False)
class Layers:
    """The resolutions of all hypotheses of a run, from whole inputs down to their smallest parts."""

    resolution: Ints  # (H,) 0: all of the input
    parent: Ints  # (H,) the hypothesis that this one is a part of; -1: none
    stepwise: bool = False  # a part is drawn only where what it is a part of was chosen; what is not drawn has p = 1

    def reached(self, chosen: Bools) -> Bools:
        """What is drawn (H,) where these are chosen: parts of them, parts of a whole, and what is no part.

        The whole is looked through, as in `with_ancestors`.

        >>> Layers(np.array([0, 1, 2, 2]), np.array([-1, 0, 1, 1]), True).reached(np.zeros(4, bool))
        array([ True,  True, False, False])
        """
        passed = chosen | (self.resolution == 0)
        return np.asarray((self.parent < 0) | passed[self.parent])

    def with_ancestors(self, chosen: Bools, passing: Bools | None = None) -> Bools:
        """Those chosen whose larger parts are chosen too; what is `passing` (H,) is looked through.

        So is the whole: what its parts do to the output may cancel in it.

        >>> Layers(np.array([0, 1, 2]), np.array([-1, 0, 1])).with_ancestors(np.array([False, True, False]))
        array([False,  True, False])
        >>> Layers(np.array([0, 1, 2]), np.array([-1, 0, 1])).with_ancestors(np.array([True, False, True]))
        array([ True, False, False])
        """
        reached, kept = np.ones(len(chosen), bool), chosen.copy()
        whole = self.resolution == 0
        passing = whole if passing is None else whole | passing
        for level in np.unique(self.resolution):
            rows = np.flatnonzero(self.resolution == level)
            above = self.parent[rows]
            reached[rows] = (above < 0) | reached[above]
            kept[rows] &= reached[rows]
            reached[rows] &= kept[rows] | passing[rows]
        return kept

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
