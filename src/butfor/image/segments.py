"""Subsets that divide the whole image: a grid of boxes, or superpixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.core.types import InputError, Subset
from butfor.image.region import Image


@dataclass(frozen=True)
class Grid:
    """Boxes of nearly equal size that tile the image. Made by `grid`."""

    rows: int
    columns: int

    blind = True  # whatever is there

    def __call__(self, name: str, image: Image) -> list[Subset]:
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
    """The image cut into rows x columns boxes (`columns=None`: as many as rows).

    >>> [s.index for s in grid(1, 2)("cat.jpg", np.zeros((4, 5, 3), np.uint8))]
    [(0, 0, 2, 4), (2, 0, 5, 4)]
    """
    columns = rows if columns is None else columns
    for value in (rows, columns):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InputError(
                f"grid needs whole numbers of rows and columns of at least 1, got {rows!r} and {columns!r}"
            )
    return Grid(int(rows), int(columns))


@dataclass(frozen=True)
class Superpixels:
    """Masks of regions of similar colour. Made by `superpixels`."""

    count: int
    method: Literal["slic", "felzenszwalb"]
    compactness: float

    def __call__(self, name: str, image: Image) -> list[Subset]:  # noqa: ARG002
        labels = self._labels(image)
        return [Subset(f"superpixel {i}", labels == label) for i, label in enumerate(np.unique(labels), start=1)]

    def _labels(self, image: Image) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        height, width = image.shape[:2]
        if height * width == 1 or self.count == 1:
            return np.zeros((height, width), np.int64)
        if self.method == "slic":
            from skimage.segmentation import slic

            count = min(self.count, height * width)
            return np.asarray(slic(image, n_segments=count, compactness=self.compactness, start_label=0))
        from skimage.segmentation import felzenszwalb

        least = max(1, height * width // (2 * self.count))  # so that about `count` of them are left
        return np.asarray(felzenszwalb(image, scale=least, sigma=0.8, min_size=least))


def superpixels(
    count: int = 30, *, method: Literal["slic", "felzenszwalb"] = "slic", compactness: float = 10.0
) -> Superpixels:
    """About `count` regions of similar colour that together make up the image (scikit-image's SLIC or Felzenszwalb).

    `compactness` is SLIC's: larger makes them squarer.

    >>> found = superpixels(4)("cat.jpg", np.zeros((20, 20, 3), np.uint8))
    >>> sum(int(s.index.sum()) for s in found)
    400
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"superpixels needs a whole number of regions of at least 1, got {count!r}")
    if method not in ("slic", "felzenszwalb"):
        raise InputError(f"method must be 'slic' or 'felzenszwalb', got {method!r}")
    return Superpixels(int(count), method, float(compactness))
