"""Coarse to fine: at which resolution a hypothesis stands, and which larger one it is a part of (METHODS 14)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class Layers:
    """The resolutions of all hypotheses of a run, from whole inputs down to their smallest parts."""

    resolution: Ints  # (H,) 0: all of the input
    parent: Ints  # (H,) the hypothesis that this one is a part of; -1: none

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
