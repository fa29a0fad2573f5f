"""How much a selection depends on where exactly the boxes lie: the paper's section on sensitivity, for k pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from butfor.core.types import Bools, InputError, Subset
from butfor.image.region import Image, is_box, is_mask
from butfor.image.subsets import Subsets

DIAGONALS = ((-1, -1), (1, -1), (-1, 1), (1, 1))  # left up, right up, left down, right down: the paper's order


@dataclass(frozen=True)
class Shifted:
    """The subsets of another proposer, each moved by the same step. Made by `shifted`."""

    subsets: Subsets
    across: int
    down: int

    @property
    def blind(self) -> bool:
        """Whether they are laid blindly: what is tested was then not picked by what it holds."""
        return bool(getattr(self.subsets, "blind", False))

    def __call__(self, name: str, image: Image) -> list[Subset]:
        return [shift(subset, self.across, self.down, *image.shape[:2]) for subset in self.subsets(name, image)]


def shifted(subsets: Subsets, pixels: int = 1) -> list[Shifted]:
    """Four versions of `subsets`, moved diagonally by so many pixels: the paper's perturbations of its boxes.

    >>> from butfor.image import boxes
    >>> image = np.zeros((10, 10, 3), np.uint8)
    >>> [moved("a", image)[0].index for moved in shifted(boxes([(2, 2, 5, 5)]))]
    [(1, 1, 4, 4), (3, 1, 6, 4), (1, 3, 4, 6), (3, 3, 6, 6)]
    """
    if isinstance(pixels, bool) or not isinstance(pixels, int | np.integer) or pixels < 1:
        raise InputError(f"pixels must be a whole number of at least 1, got {pixels!r}")
    return [Shifted(subsets, int(pixels) * across, int(pixels) * down) for across, down in DIAGONALS]


def shift(subset: Subset, across: int, down: int, height: int, width: int) -> Subset:
    """The subset moved, as far as the image goes: a box keeps its size, so at an edge it moves less, or not at all.

    A mask loses what is moved out of the image (unless that is all of it: then it stays); an attribute does not move.

    >>> shift(Subset("box 1", (0, 4, 3, 6)), -1, 1, 10, 10).index
    (0, 5, 3, 7)
    """
    index = subset.index
    if is_box(index):
        x1, y1, x2, y2 = index
        across = int(np.clip(across, -x1, width - x2))
        down = int(np.clip(down, -y1, height - y2))
        return Subset(subset.name, (x1 + across, y1 + down, x2 + across, y2 + down))
    if is_mask(index):
        moved = np.zeros_like(index)
        to_rows, from_rows = _overlap(down, height)
        to_columns, from_columns = _overlap(across, width)
        moved[to_rows, to_columns] = index[from_rows, from_columns]
        return Subset(subset.name, moved if moved.any() else index)
    return subset


def _overlap(step: int, length: int) -> tuple[slice, slice]:
    step = int(np.clip(step, -length, length))
    return slice(max(step, 0), length + min(step, 0)), slice(max(-step, 0), length + min(-step, 0))


def iou(first: Any, second: Any) -> float:
    """Hypotheses that both selections chose over those that either chose; two empty selections agree: 1.

    >>> iou([True, True, False], [True, False, True])
    0.3333333333333333
    """
    a, b = np.asarray(first, np.bool_), np.asarray(second, np.bool_)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"iou compares two selections of the same hypotheses, got shapes {a.shape} and {b.shape}")
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else 1.0


def mean_pairwise_iou(selections: Sequence[Bools]) -> float:
    """The mean of `iou` over all pairs of selections (the paper: five, .749 for OSFT).

    >>> mean_pairwise_iou([np.array([True, True]), np.array([True, False]), np.array([True, False])])
    0.6666666666666666
    """
    if len(selections) < 2:
        raise InputError(f"mean_pairwise_iou needs at least two selections, got {len(selections)}")
    return float(np.mean([iou(a, b) for a, b in combinations(selections, 2)]))
