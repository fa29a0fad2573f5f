"""A subset of an image -> its pixels; a fill -> the counterfactual, with nothing touched outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import Bools, InputError, Subset

Image = NDArray[np.uint8]  # (height, width, 3), RGB
Box = tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels, half-open
Fill = Callable[[Image, Bools, np.random.Generator], Image]  # what an inpainter does to one image and one hole


class RegionWarning(UserWarning):
    """A region was used, but not quite as it was given: it was clipped, or it overlaps another a little."""


def is_box(index: Any) -> bool:
    """Whether a subset's index is a box, (x1, y1, x2, y2)."""
    return isinstance(index, tuple) and len(index) == 4


def is_mask(index: Any) -> bool:
    """Whether a subset's index is a mask, a boolean array (height, width)."""
    return isinstance(index, np.ndarray) and index.dtype == np.bool_ and index.ndim == 2


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
        mask[y1:y2, x1:x2] = True
        return mask
    if hasattr(index, "transform"):  # an attribute: see attributes.py
        return ~mask
    raise InputError(
        f"subset {subset.name!r} has the index {index!r}; expected a box (x1, y1, x2, y2), a boolean array (height, "
        "width) or an attribute"
    )


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
    out = image.copy()
    x1, y1, x2, y2 = bounds(mask)
    np.copyto(out[y1:y2, x1:x2], fill[y1:y2, x1:x2], where=mask[y1:y2, x1:x2, None])
    return out


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


def check_image(image: Any) -> None:
    """Refuse what is not a uint8 array (height, width, 3)."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        what = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
        raise InputError(
            f"an image inside butfor is a uint8 array (height, width, 3), got {what}; butfor.image.as_image converts "
            "files, Pillow images, grey and transparent arrays"
        )


def check_context(image: Image, mask: Bools, who: str) -> None:
    """Refuse a hole without surroundings: what fills a hole from its surroundings would return the image itself."""
    if mask.all():
        height, width = image.shape[:2]
        raise InputError(
            f"{who} fills a hole from what surrounds it, but this one covers the whole image ({width} x {height}); use "
            "a smaller region, or an attribute for the image as a whole"
        )


def identity(sampler: Any) -> str:
    """A text that is the same for samplers that draw alike: `sampler.identity` where it has one, else its repr."""
    return str(getattr(sampler, "identity", None) or repr(sampler))
