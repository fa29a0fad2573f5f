"""What to test in an image: regions of several kinds in one run, and whether they overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from butfor.core.draw.proposers import Overlap, Proposer, Together, join, unique
from butfor.core.types import InputError, Subset
from butfor.core.warn import warn_user
from butfor.image.region import Attribute, Image, RegionWarning, is_box, mask_of

SLIGHT = 0.02  # of the smaller region: two boxes drawn by hand that touch
Drawings = TypeVar("Drawings", bound=Sized)  # the boxes or masks of one image


def together(*parts: Proposer, overlap: Overlap = "refuse") -> Together:
    """The subsets of all `parts` in one run: boxes and attributes, say. Attributes never count as overlapping.

    Parameters
    ----------
    *parts : functions (name, image) -> subsets, such as `grid(3)` and `attributes("texture")`.
    overlap : "refuse" regions that overlap, or test each "alone" all the same.

    Examples
    --------
    >>> from butfor.image import attributes, grid
    >>> both = together(grid(1, 2), attributes("greyscale"))
    >>> [subset.name for subset in both("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    ['row 1 column 1', 'row 1 column 2', 'greyscale']
    """
    return join(parts, overlap, check_overlap, "image")


@dataclass(frozen=True, eq=False)
class GivenRegions(Generic[Drawings]):
    """Regions by image name, or the same for every image. Made by `boxes` and `masks`."""

    what: str
    by_image: Mapping[str, Drawings] | None
    everywhere: Drawings | None
    place: Callable[[str, Image, Drawings], Iterable[Subset]]  # image name, image, what was drawn -> regions
    overlap: Overlap

    @property
    def blind(self) -> bool:
        """Whether they are the same for every image: what is tested was then not picked by what it holds."""
        return self.by_image is None

    def __repr__(self) -> str:
        if self.by_image is None:
            return f"{self.what}({len(self.everywhere or ())} for every image)"
        return f"{self.what}({sum(map(len, self.by_image.values()))} in {len(self.by_image)} images)"

    def __call__(self, name: object, image: Image) -> list[Subset]:
        drawn = self.everywhere or self._of(str(name))
        found = unique(self.place(str(name), image, drawn))
        check_overlap(str(name), found, image, self.overlap, self.what)
        return found

    def _of(self, name: str) -> Drawings:
        """What was given for an image: by its name, with or without its folder and its suffix."""
        by_image = self.by_image or {}
        for key in (name, Path(name).name, Path(name).stem):
            if key in by_image:
                return by_image[key]
        deeper = [key for key in by_image if key.endswith(f"/{name}")]  # COCO writes "imgs/cat.jpg"
        if len(deeper) == 1:
            return by_image[deeper[0]]
        if deeper:
            keys = " or ".join(deeper)
            raise InputError(f"the {self.what} of image {name!r} may be those of {keys}; name it as there")
        known = ", ".join(list(by_image)[:5]) + (", ..." if len(by_image) > 5 else "")
        raise InputError(f"there are no {self.what} for image {name!r}; {self.what} are given for {known}")


def check_overlap(name: str, subsets: Sequence[Subset], image: Image, overlap: Overlap, by: str = "together") -> None:
    """Refuse regions of one image that share more than 2 % of the smaller one; warn of less.

    `by` is the function that the user may call otherwise.

    Overlapping regions are not independent hypotheses: what is important in one is important in the other.
    """
    if overlap == "alone":
        return
    regions = [subset for subset in subsets if not isinstance(subset.index, Attribute)]
    for j, second in enumerate(regions):
        for first in regions[:j]:
            share, pixels = _shared(first, second, image)
            if share > SLIGHT:
                raise InputError(
                    f"regions {first.name!r} and {second.name!r} of image {name!r} overlap by {share:.0%} of the "
                    "smaller one; draw them apart, or test them anyway, each alone: "
                    f"butfor.image.{by}(..., overlap='alone'), --overlap alone on the command line"
                )
            if pixels:
                warn_user(
                    f"regions {first.name!r} and {second.name!r} of image {name!r} overlap by {pixels} pixels "
                    f"({share:.1%} of the smaller one): little enough to go on",
                    RegionWarning,
                )


def _shared(first: Subset, second: Subset, image: Image) -> tuple[float, int]:
    """The overlap as a share of the smaller region, and in pixels."""
    a, b = first.index, second.index
    if is_box(a) and is_box(b):
        pixels = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
        smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
        return pixels / smaller, pixels
    masks = [mask_of(subset, *image.shape[:2]) for subset in (first, second)]
    pixels = int(np.count_nonzero(masks[0] & masks[1]))
    return pixels / max(1, min(int(mask.sum()) for mask in masks)), pixels
