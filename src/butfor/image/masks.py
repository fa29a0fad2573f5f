"""Subsets: regions of any shape, given as masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeGuard

import numpy as np

from butfor.core.draw.proposers import Overlap, check_overlap_option
from butfor.core.types import Array, Bools, InputError, Subset
from butfor.image.files import read_image
from butfor.image.region import Image
from butfor.image.subsets import GivenRegions

Mask = Array | str | Path  # (height, width), or a PNG file
Labelled = tuple[tuple[str, Mask], ...]  # the masks of one image with their names


def masks(source: object, *, overlap: Overlap = "refuse") -> GivenRegions[Labelled]:
    """Regions of any shape to test in each image.

    A mask is a boolean array (height, width), an array in which everything above 0 belongs to the region, or a PNG file
    of that kind (above half of white, or 1 in a file of 0 and 1).

    Parameters
    ----------
    source : a list or a mapping {region name: mask} for every image, a mapping {image name: such a list or mapping}, or
        a folder with one folder of PNG files per image (called like the image, with or without its suffix).
    overlap : "refuse" masks that overlap, or test each "alone" all the same.

    Examples
    --------
    >>> some = masks({"left": np.arange(4) < 2 * np.ones((4, 1))})
    >>> [(s.name, int(s.index.sum())) for s in some("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('left', 8)]
    """
    check_overlap_option(overlap)
    by_image, everywhere = None, None
    if isinstance(source, str | Path):
        by_image = _folders(Path(source))
    elif isinstance(source, Mapping) and not all(map(_is_mask, source.values())):
        by_image = {str(name): _labelled(some, f"image {name!r}") for name, some in source.items()}
    else:
        everywhere = _labelled(source, "every image")
    if not by_image and not everywhere:
        raise InputError("masks is empty; give at least one mask")
    return GivenRegions("masks", by_image, everywhere, _placed, overlap)


def _labelled(some: object, where: str) -> Labelled:
    """Names and masks, from a list or a mapping of them."""
    if isinstance(some, np.ndarray) and some.ndim == 2:
        raise InputError(f"the masks of {where} are a single array; put it into a list")
    if isinstance(some, Mapping):
        pairs = [(str(label), mask) for label, mask in some.items()]
    elif isinstance(some, Sequence | np.ndarray) and not isinstance(some, str):
        pairs = [(_label(mask, number), mask) for number, mask in enumerate(some, start=1)]
    else:
        pairs = [(_label(some, 1), some)]
    if not all(_is_mask(mask) for _, mask in pairs):
        shown = " ".join(f"{some!r:.80}".split())
        raise InputError(f"the masks of {where} must be a list of arrays (height, width) or PNG files, got {shown}")
    return tuple(pairs)


def _is_mask(value: object) -> TypeGuard[Mask]:
    return isinstance(value, str | Path) or (isinstance(value, np.ndarray) and value.ndim == 2)


def holds_masks(path: Path) -> bool:
    """A folder of folders of pictures, one for each image; a folder of files is of boxes."""
    return path.is_dir() and any(path.glob("*/*.png"))


def _folders(root: Path) -> dict[str, Labelled]:
    if not root.is_dir():
        raise InputError(f"the folder of masks {root} {'is a file' if root.exists() else 'does not exist'}")
    inner = sorted(folder for folder in root.iterdir() if folder.is_dir() and any(folder.glob("*.png")))
    if not inner:
        raise InputError(f"the folder of masks {root} has no folders with .png files; make one per image")
    return {folder.name: tuple((file.stem, file) for file in sorted(folder.glob("*.png"))) for folder in inner}


def _label(mask: object, number: int) -> str:
    return Path(mask).stem if isinstance(mask, str | Path) else f"mask {number}"


def _placed(name: str, image: Image, drawn: Labelled) -> Iterator[Subset]:
    """The masks of one image, as large as it."""
    height, width = image.shape[:2]
    for label, mask in drawn:
        pixels = _pixels(mask)
        if pixels.shape != (height, width):
            raise InputError(
                f"mask {label!r} of image {name!r} has {pixels.shape[1]} x {pixels.shape[0]} pixels but the image "
                f"{width} x {height}; make it the size of the image"
            )
        if not pixels.any():
            raise InputError(f"mask {label!r} of image {name!r} marks no pixel; leave it out")
        yield Subset(label, pixels)


def _pixels(mask: Mask) -> Bools:
    if not isinstance(mask, str | Path):
        return np.array(mask > 0, np.bool_)  # a copy: nobody may write into the caller's
    grey = read_image(mask).max(axis=2)
    return np.asarray(grey > (0 if grey.max() == 1 else 127))
