"""What to test in an image: one shape, `(name, image) -> subsets`, for everything that proposes regions."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from butfor.core.types import InputError, Subset
from butfor.image.region import Image, RegionWarning, is_box, mask_of

Overlap = Literal["refuse", "alone"]
SLIGHT = 0.02  # of the smaller region: two boxes drawn by hand that touch


class Subsets(Protocol):
    """Gives the subsets of one image. Called with the image's name, so that what is random can be keyed by it."""

    def __call__(self, name: str, image: Image, /) -> list[Subset]: ...


@dataclass(frozen=True)
class Together:
    """The subsets of several proposers, one after the other. Made by `together`."""

    parts: tuple[Subsets, ...]
    overlap: Overlap

    @property
    def blind(self) -> bool:
        """Whether all of them are laid blindly: what is tested was then not picked by what it holds."""
        return all(getattr(part, "blind", False) for part in self.parts)

    def __call__(self, name: str, image: Image) -> list[Subset]:
        found = unique(subset for part in self.parts for subset in part(name, image))
        check_overlap(name, found, image, self.overlap)
        return found


def together(*parts: Subsets, overlap: Overlap = "refuse") -> Together:
    """The subsets of all `parts` in one run: boxes and attributes, say. Attributes never count as overlapping.

    >>> from butfor.image import attributes, grid
    >>> both = together(grid(1, 2), attributes("greyscale"))
    >>> [subset.name for subset in both("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    ['row 1 column 1', 'row 1 column 2', 'greyscale']
    """
    check_overlap_option(overlap)
    for part in parts:
        if not callable(part):
            raise InputError(f"together takes functions (name, image) -> subsets, got {type(part).__name__}")
    return Together(tuple(parts), overlap)


def unique(subsets: Iterable[Subset]) -> list[Subset]:
    """The same subsets with names of their own: a second "dog" becomes "dog 2".

    >>> [s.name for s in unique([Subset("dog", 0), Subset("cat", 1), Subset("dog", 2)])]
    ['dog', 'cat', 'dog 2']
    """
    subsets = list(subsets)
    given = {subset.name for subset in subsets}
    taken: set[str] = set()
    out = []
    for subset in subsets:
        name, number = subset.name, 2
        while name in taken or (name != subset.name and name in given):
            name, number = f"{subset.name} {number}", number + 1
        taken.add(name)
        out.append(Subset(name, subset.index))
    return out


def check_overlap_option(overlap: str) -> None:
    if overlap not in ("refuse", "alone"):
        raise InputError(f"overlap must be 'refuse' or 'alone' (test them anyway, each alone), got {overlap!r}")


def check_overlap(name: str, subsets: Sequence[Subset], image: Image, overlap: Overlap) -> None:
    """Refuse regions of one image that share more than 2 % of the smaller one; warn of less.

    Overlapping regions are not independent hypotheses: what is important in one is important in the other.
    """
    if overlap == "alone":
        return
    regions = [subset for subset in subsets if not hasattr(subset.index, "transform")]
    for j, second in enumerate(regions):
        for first in regions[:j]:
            share, pixels = _shared(first, second, image)
            if share > SLIGHT:
                raise InputError(
                    f"regions {first.name!r} and {second.name!r} of image {name!r} overlap by {share:.0%} of the "
                    "smaller one; draw them apart, or use overlap='alone' to test them anyway, each alone"
                )
            if pixels:
                warnings.warn(
                    f"regions {first.name!r} and {second.name!r} of image {name!r} overlap by {pixels} pixels "
                    f"({share:.1%} of the smaller one): little enough to go on",
                    RegionWarning,
                    stacklevel=4,
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
