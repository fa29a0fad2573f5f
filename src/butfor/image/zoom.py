"""Subsets from coarse to fine: the whole picture, and cells that split in four down to a least size (METHODS 14)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.checks import whole as whole_number
from butfor.core.draw.layers import SubsetTree
from butfor.core.types import InputError, Subset
from butfor.image.region import Image

WHOLE = "the whole picture"
FINEST = 8  # cells along each side, at most, where no least size is given
LEAST = 8  # pixels along a side, likewise


@dataclass(frozen=True)
class Zoom:
    """Cells that split in four. Made by `zoom`."""

    least: int | None
    whole: bool

    blind = True  # whatever is there

    def __call__(self, name: object, image: Image) -> list[Subset]:
        return list(self.tree(name, image).subsets)

    def tree(self, name: object, image: Image) -> SubsetTree:
        """The cells of all resolutions of one image, the coarsest first."""
        height, width = image.shape[:2]
        depth = self._depth(name, min(height, width))
        subsets, resolution, parent = [], [], []
        if self.whole:
            subsets.append(Subset(WHOLE, (0, 0, width, height)))
            resolution.append(0)
            parent.append(-1)
        before = 0  # where the cells of the resolution above begin
        for level in range(1, depth + 1):
            count, start = 2**level, len(subsets)
            down = np.linspace(0, height, count + 1).round().astype(int).tolist()
            across = np.linspace(0, width, count + 1).round().astype(int).tolist()
            for i, j in np.ndindex(count, count):
                box = (across[j], down[i], across[j + 1], down[i + 1])
                subsets.append(Subset(f"row {i + 1} column {j + 1} of {count} x {count}", box))
                above = before + (i // 2) * (count // 2) + j // 2
                parent.append(above if level > 1 or self.whole else -1)
                resolution.append(level)
            before = start
        return SubsetTree(tuple(subsets), tuple(resolution), tuple(parent))

    def _depth(self, name: object, side: int) -> int:
        least = max(LEAST, -(-side // FINEST)) if self.least is None else self.least
        depth = int(np.log2(max(1, side / least)) + 1e-9)
        if depth < 1:
            raise InputError(
                f"image {name!r} is {side} pixels at its shorter side and cannot be split into cells of at least "
                f"{least}; give a smaller least size"
            )
        return depth


def zoom(least: int | None = None, *, whole: bool = False) -> Zoom:
    """Where in the picture, coarse to fine: quarters, then quarters of those that were chosen, and so on.

    At every resolution the false discovery rate over the cells of that resolution is controlled: cells that are not
    drawn count as p = 1 there. It needs p-values: `test="sequential"`, which is the default with it, or "irt".

    Parameters
    ----------
    least : pixels along the shorter side of the smallest cells, at least; None is an eighth of the picture's.
    whole : also test the whole picture, for samplers that can redraw it (`donor` with reference images).

    Examples
    --------
    >>> tree = zoom(2)
    >>> [subset.name for subset in tree("cat.jpg", np.zeros((8, 8, 3), np.uint8))][:5]  # doctest: +ELLIPSIS
    ['row 1 column 1 of 2 x 2', ..., 'row 1 column 1 of 4 x 4']
    """
    return Zoom(None if least is None else whole_number("least", least, 1), bool(whole))
