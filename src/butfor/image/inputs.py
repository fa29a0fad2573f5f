"""What a user calls images -> named images that are opened when they are asked for, and the regions of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from butfor.core.draw.proposers import Proposer
from butfor.core.types import InputError, Subset
from butfor.image.files import MOST_PIXELS, ImageFiles, as_image, checksum, folder, is_pillow, recent_image
from butfor.image.region import Attribute, Image, RegionWarning, mask_of
from butfor.run.proposed import NamedItems, OnError, Proposed, Words, check_names, propose, some_names

WORDS = Words(one="image", many="images", argument="boxes", nothing="no region", sign=" ")


@dataclass(frozen=True)
class OpenImage:
    """Opens one image: a file from disk, at most so large; a Pillow image or an array as it is."""

    longest: int | None = None
    most_pixels: int = MOST_PIXELS
    ignored: tuple[str, ...] = ()  # files of the folder that are no images

    def __call__(self, name: str, source: object) -> Image:
        if isinstance(source, Path):
            return recent_image(source, self.longest, self.most_pixels)
        try:
            image = as_image(source).view()
        except InputError as error:
            raise InputError(f"image {name!r} cannot be used: {error}") from error
        image.setflags(write=False)  # nobody may write into what is observed
        return image


def load_items(images: object) -> NamedItems:
    """Images from a folder or a file, a list of files, Pillow images or arrays, a mapping name -> one of these.

    Files are named by their file names (by their paths where two are alike), others "image 1", "image 2" and so on.

    >>> import numpy as np
    >>> load_items([np.zeros((2, 2, 3), np.uint8)] * 2).names
    ('image 1', 'image 2')
    """
    if isinstance(images, NamedItems):
        return images
    if isinstance(images, str | Path):
        images = [images] if Path(images).is_file() else folder(images)
    if isinstance(images, ImageFiles):
        return NamedItems(images.names, images.paths, OpenImage(images.longest, images.most_pixels, images.ignored))
    given = list(images.values()) if isinstance(images, Mapping) else _listed(images)
    sources = tuple(Path(source) if isinstance(source, str) else source for source in given)
    names = tuple(map(str, images)) if isinstance(images, Mapping) else _names(sources)
    check_names(names, WORDS.many)
    return NamedItems(names, sources, OpenImage())


def _listed(images: Any) -> list[Any]:
    if is_pillow(images) or _is_array_of_one(images):
        raise InputError("images is one image; give a list of images: [image]")
    try:
        return list(images)
    except TypeError as error:
        raise InputError(
            "images must be a folder, a list of files or arrays, or a mapping name -> image, got "
            f"{type(images).__name__}"
        ) from error


def _is_array_of_one(images: Any) -> bool:
    try:
        return bool(images.ndim < 4)  # of NumPy, torch, ...
    except AttributeError:
        return False


def _names(sources: Sequence[object]) -> tuple[str, ...]:
    files = [source.name for source in sources if isinstance(source, Path)]
    short = len(set(files)) == len(files)
    return tuple(
        (source.name if short else source.as_posix()) if isinstance(source, Path) else f"image {number}"
        for number, source in enumerate(sources, start=1)
    )


def source_metadata(items: NamedItems, pixels: Mapping[str, str]) -> dict[str, Any]:
    """Where the images are, if all are files, how they were read, and the checksum of each by name in `pixels`.

    With it `butfor.load` opens them again, and sees whether they are still the same.
    """
    files = [str(source.absolute()) for source in items.sources if isinstance(source, Path)]
    opener = items.open
    assert isinstance(opener, OpenImage)
    return {
        "files": files if len(files) == len(items) else None,
        "longest": opener.longest,
        "most_pixels": opener.most_pixels,
        "pixels": [pixels[name] for name in items.names],
    }


def propose_regions(
    images: NamedItems,
    proposer: Proposer,
    on_error: OnError,
    *,
    whole: bool = False,
    pixels: dict[str, str] | None = None,
) -> Proposed:
    """The regions of every image; what cannot be used is left out or raised. `whole`: one may be the whole image.

    `pixels` is given the checksum of each image by name: here all of them are read, one after the other.
    """
    ignored = images.open.ignored if isinstance(images.open, OpenImage) else ()
    notes = [_ignored_note(ignored)] if ignored else []
    return propose(images, proposer, WORDS, on_error, partial(_check_fillable, whole, pixels), notes, RegionWarning)


def _check_fillable(
    whole: bool, pixels: dict[str, str] | None, name: str, image: Image, subsets: Sequence[Subset]
) -> None:
    """What an inpainter would refuse in the middle of the run is refused before it."""
    for subset in subsets:
        covers = not whole and not isinstance(subset.index, Attribute)
        if covers and mask_of(subset, *image.shape[:2]).all():
            raise InputError(f"region {subset.name!r} of image {name!r} is the whole image: nothing is left around it")
    if pixels is not None:
        pixels[name] = checksum(image)


def _ignored_note(names: Sequence[str]) -> str:
    what = "file of the folder is no image and was" if len(names) == 1 else "files of the folder are no images and were"
    return f"{len(names)} {what} left out: {some_names(names)}."
