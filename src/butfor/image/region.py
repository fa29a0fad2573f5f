"""A subset of an image -> its pixels; a fill -> the counterfactual, with nothing touched outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import Bools, InputError, Subset

Image = NDArray[np.uint8]  # (height, width, 3), RGB
Box = tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels, half-open
Fill = Callable[[Image, Bools, np.random.Generator], Image]  # what an inpainter does to one image and one hole
Transform = Callable[[Image, np.random.Generator], Image]  # one stochastic version of an image, of the same size


class RegionWarning(UserWarning):
    """A region was used, but not quite as it was given: it was clipped, or it overlaps another a little."""


@dataclass(frozen=True)
class Attribute:
    """A named stochastic transformation of the whole image: the index of a subset such as "colour".

    Parameters
    ----------
    name : what it is called.
    transform : (image, rng) -> another version of the image, of the same size.
    """

    name: str
    transform: Transform

    def __repr__(self) -> str:
        return f"Attribute({self.name!r})"


def is_box(index: object) -> TypeGuard[Box]:
    """Whether a subset's index is a box, (x1, y1, x2, y2)."""
    return isinstance(index, tuple) and len(index) == 4


def is_mask(index: object) -> TypeGuard[Bools]:
    """Whether a subset's index is a mask, a boolean array (height, width)."""
    return isinstance(index, np.ndarray) and index.dtype == np.bool_ and index.ndim == 2


def is_region(subset: Subset) -> bool:
    """Whether a subset is a part of the image, rather than a property of all of it."""
    return is_box(subset.index) or is_mask(subset.index)


def mask_of(subset: Subset, height: int, width: int) -> Bools:
    """The subset's pixels as a boolean array (height, width); an attribute of the whole image has them all.

    >>> mask_of(Subset("box 1", (0, 0, 2, 1)), 2, 3).astype(int).tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    index = subset.index
    if is_mask(index):
        if index.shape != (height, width):
            raise InputError(
                f"mask {subset.name!r} has {index.shape[1]} x {index.shape[0]} pixels but the image {width} x "
                f"{height}; make the mask from this very image"
            )
        return np.asarray(index)
    mask = np.zeros((height, width), np.bool_)
    if is_box(index):
        x1, y1, x2, y2 = index
        if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
            raise InputError(
                f"box {subset.name!r} is {index} but the image has {width} x {height} pixels; a box is x1, y1, x2, y2 "
                "with 0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height"
            )
        mask[at(index)] = True
        return mask
    if isinstance(index, Attribute):
        return ~mask
    raise InputError(
        f"subset {subset.name!r} has the index {index!r}; expected a box (x1, y1, x2, y2), a boolean array (height, "
        "width) or an attribute"
    )


def at(box: Box) -> tuple[slice, slice]:
    """Where a box is in an array (height, width, ...)."""
    x1, y1, x2, y2 = box
    return slice(y1, y2), slice(x1, x2)


def bounds(mask: Bools) -> Box:
    """The smallest box around the pixels of a mask, which must have some.

    >>> bounds(np.eye(4, dtype=bool)[1:3])
    (1, 0, 3, 2)
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def grown(box: Box, margin: int, height: int, width: int) -> Box:
    """The box with a margin around it, as far as the image goes.

    >>> grown((2, 2, 4, 4), 3, 6, 10)
    (0, 0, 7, 6)
    """
    x1, y1, x2, y2 = box
    return max(x1 - margin, 0), max(y1 - margin, 0), min(x2 + margin, width), min(y2 + margin, height)


def paste(image: Image, fill: Image, mask: Bools) -> Image:
    """A copy of `image` with the pixels of `mask` taken from `fill`, and no other.

    >>> paste(np.zeros((1, 2, 3), np.uint8), np.full((1, 2, 3), 9, np.uint8), np.array([[True, False]])).tolist()
    [[[9, 9, 9], [0, 0, 0]]]
    """
    out, where = image.copy(), at(bounds(mask))
    np.copyto(out[where], fill[where], where=mask[where][..., None])
    return out


class RegionPacking:
    """Of a counterfactual only the box around its region is kept; one of an attribute is kept whole."""

    def cut(self, observed: Image, counterfactual: Image, subset: Subset) -> Image:  # noqa: ARG002
        """What is kept: a copy, which does not hold the whole image."""
        return counterfactual[_around(subset)].copy()

    def restore(self, observed: Image, piece: Image, subset: Subset) -> Image:
        """The counterfactual again."""
        out = observed.copy()
        if out[_around(subset)].shape != piece.shape:
            raise InputError(f"the counterfactual of {subset.name!r} was drawn on another image than the one given")
        out[_around(subset)] = piece
        return out


def _around(subset: Subset) -> tuple[slice, slice]:
    if is_box(subset.index):
        return at(subset.index)
    return at(bounds(subset.index)) if is_mask(subset.index) else (slice(None), slice(None))


def fill_each(
    inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator, fill: Fill, *, once: bool = False
) -> list[Image]:
    """What a sampler returns: `draws` filled copies of each image, input-major, pasted by the mask.

    One fill after the other takes its randomness from `rng`, so the first draws do not depend on how many follow.
    `once` is for deterministic fills, which are computed once however many copies are asked for.
    """
    out: list[Image] = []
    for image in inputs if draws else []:
        check_image(image)
        mask = mask_of(subset, *image.shape[:2])
        if not mask.any():
            raise InputError(f"subset {subset.name!r} has no pixels; leave it out")
        filled: list[Image] = []
        for k in range(draws):
            filled.append(filled[0].copy() if once and k else paste(image, fill(image, mask, rng), mask))
        out.extend(filled)
    return out


def check_image(image: object) -> None:
    """Refuse what is not a uint8 array (height, width, 3)."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(
            f"an image inside butfor is a uint8 array (height, width, 3), got {described(image)}; "
            "butfor.image.as_image converts files, Pillow images, grey and transparent arrays"
        )


def described(thing: object) -> str:
    """What came in place of an image, in an error."""
    return f"{thing.dtype} {thing.shape}" if isinstance(thing, np.ndarray) else type(thing).__name__


def check_context(image: Image, mask: Bools, who: str) -> None:
    """Refuse a hole without surroundings: what fills a hole from its surroundings would return the image itself."""
    if mask.all():
        height, width = image.shape[:2]
        raise InputError(
            f"{who} fills a hole from what surrounds it, but this one covers the whole image ({width} x {height}); use "
            "a smaller region, or an attribute for the image as a whole"
        )
