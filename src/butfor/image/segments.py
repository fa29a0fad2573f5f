"""Subsets that divide the whole image: a grid of boxes, or superpixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.core.checks import one_of, whole
from butfor.core.types import InputError, Ints, Subset
from butfor.image.region import Image
from butfor.models.optional import need


@dataclass(frozen=True)
class Grid:
    """Boxes of nearly equal size that tile the image. Made by `grid`."""

    rows: int
    columns: int

    blind = True  # whatever is there

    def __call__(self, name: object, image: Image) -> list[Subset]:
        height, width = image.shape[:2]
        if height < self.rows or width < self.columns:
            raise InputError(
                f"image {name!r} of {width} x {height} pixels cannot be cut into {self.columns} columns and "
                f"{self.rows} rows; use a coarser grid"
            )
        down = np.linspace(0, height, self.rows + 1).round().astype(int).tolist()
        across = np.linspace(0, width, self.columns + 1).round().astype(int).tolist()
        return [
            Subset(f"row {i + 1} column {j + 1}", (across[j], down[i], across[j + 1], down[i + 1]))
            for i in range(self.rows)
            for j in range(self.columns)
        ]


def grid(rows: int, columns: int | None = None) -> Grid:
    """The image cut into boxes of nearly equal size.

    Parameters
    ----------
    rows, columns : how many; `columns=None` is as many as rows.

    Examples
    --------
    >>> [s.index for s in grid(1, 2)("cat.jpg", np.zeros((4, 5, 3), np.uint8))]
    [(0, 0, 2, 4), (2, 0, 5, 4)]
    """
    return Grid(whole("rows", rows, 1), whole("columns", rows if columns is None else columns, 1))


@dataclass(frozen=True)
class Superpixels:
    """Masks of regions of similar colour. Made by `superpixels`."""

    count: int
    method: Literal["slic", "felzenszwalb"]
    compactness: float

    def __call__(self, name: object, image: Image) -> list[Subset]:  # noqa: ARG002
        labels = self._labels(image)
        return [Subset(f"superpixel {i}", labels == label) for i, label in enumerate(np.unique(labels), start=1)]

    def _labels(self, image: Image) -> Ints:
        height, width = image.shape[:2]
        if height * width == 1 or self.count == 1:
            return np.zeros((height, width), np.int64)
        segmentation = need("skimage.segmentation", "image")
        if self.method == "slic":
            count = min(self.count, height * width)
            return np.asarray(segmentation.slic(image, n_segments=count, compactness=self.compactness, start_label=0))
        least = max(1, height * width // (2 * self.count))  # so that about `count` of them are left
        return np.asarray(segmentation.felzenszwalb(image, scale=least, sigma=0.8, min_size=least))


def superpixels(
    count: int = 30, *, method: Literal["slic", "felzenszwalb"] = "slic", compactness: float = 10.0
) -> Superpixels:
    """Regions of similar colour that together make up the image (scikit-image's SLIC or Felzenszwalb).

    Parameters
    ----------
    count : about how many.
    method : "slic" or "felzenszwalb".
    compactness : of SLIC: larger makes them squarer.

    Examples
    --------
    >>> found = superpixels(4)("cat.jpg", np.zeros((20, 20, 3), np.uint8))
    >>> sum(int(s.index.sum()) for s in found)
    400
    """
    one_of("method", method, ("slic", "felzenszwalb"))
    return Superpixels(whole("count", count, 1), method, float(compactness))
