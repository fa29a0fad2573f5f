"""Regions moved by some pixels, and how much two selections agree: the paper's section on sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from butfor.core.checks import whole
from butfor.core.draw.proposers import Proposer, is_blind
from butfor.core.types import InputError, Subset
from butfor.image.region import Image, is_box, is_mask

DIAGONALS = ((-1, -1), (1, -1), (-1, 1), (1, 1))  # left up, right up, left down, right down: the paper's order


@dataclass(frozen=True)
class Shifted:
    """The subsets of another proposer, each moved by the same step. Made by `shifted`."""

    subsets: Proposer
    across: int
    down: int

    @property
    def blind(self) -> bool:
        """Whether they are laid blindly: what is tested was then not picked by what it holds."""
        return is_blind(self.subsets)

    def __call__(self, name: object, image: Image) -> list[Subset]:
        return [shift(subset, self.across, self.down, *image.shape[:2]) for subset in self.subsets(name, image)]


def shifted(subsets: Proposer, pixels: int = 1) -> list[Shifted]:
    """Four versions of `subsets`, moved diagonally: the paper's perturbations of its boxes.

    Parameters
    ----------
    subsets : a function (name, image) -> subsets such as `boxes(...)`.
    pixels : how far they move.

    Examples
    --------
    >>> from butfor.image import boxes
    >>> image = np.zeros((10, 10, 3), np.uint8)
    >>> [moved("a", image)[0].index for moved in shifted(boxes([(2, 2, 5, 5)]))]
    [(1, 1, 4, 4), (3, 1, 6, 4), (1, 3, 4, 6), (3, 3, 6, 6)]
    """
    step = whole("pixels", pixels, 1)
    return [Shifted(subsets, step * across, step * down) for across, down in DIAGONALS]


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


def iou(first: ArrayLike, second: ArrayLike) -> float:
    """Hypotheses that both selections chose over those that either chose; two empty selections agree: 1.

    >>> iou([True, True, False], [True, False, True])
    0.3333333333333333
    """
    a, b = np.asarray(first, np.bool_), np.asarray(second, np.bool_)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"iou compares two selections of the same hypotheses, got shapes {a.shape} and {b.shape}")
    either = int((a | b).sum())
    return int((a & b).sum()) / either if either else 1.0


def mean_pairwise_iou(selections: Sequence[ArrayLike]) -> float:
    """Hypotheses that both of two selections chose over those that either chose, on average over all pairs.

    The paper's five selections by OSFT have .749.

    Parameters
    ----------
    selections : booleans over the same hypotheses, at least two of them.

    Examples
    --------
    >>> mean_pairwise_iou([np.array([True, True]), np.array([True, False]), np.array([True, False])])
    0.6666666666666666
    """
    if len(selections) < 2:
        raise InputError(f"mean_pairwise_iou needs at least two selections, got {len(selections)}")
    return float(np.mean([iou(a, b) for a, b in combinations(selections, 2)]))
