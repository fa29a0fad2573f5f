"""What `butfor.load` needs of a saved run on images: its images, its attributes, its sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, overload

import numpy as np

from butfor.core.draw.items import Items, ListItems
from butfor.core.draw.samplers import Sampler
from butfor.core.types import Array, InputError, Subset
from butfor.core.warn import warn_user
from butfor.image.attributes import BUILT_IN, WithAttributes, with_attributes
from butfor.image.cache import Cached
from butfor.image.files import MOST_PIXELS, ImageFiles, checksum
from butfor.image.inputs import load_items
from butfor.image.region import Attribute, Image, RegionPacking, is_mask

WIDEST = 2**24  # pixels


def images_of(
    inputs: object, provenance: Mapping[str, Any], images_in: Sequence[str | Path] | None = None
) -> Sequence[Image] | None:
    """The images of a run, as given or from where they were; None where they are no longer there.

    A result that came from somebody else names any files of the disk it likes: where `images_in` says which folders
    are meant, none outside of them is opened, by whatever links it is reached.
    """
    pixels = provenance.get("pixels")  # files of earlier versions have none
    if inputs is not None:
        given = load_items(inputs)
        if pixels is not None and len(given) == len(pixels):
            _check_same(given, given.names, pixels, provenance.get("longest"))
        return given
    files = tuple(map(Path, provenance.get("files") or ()))
    if not files or not all(file.is_file() for file in files):
        return None
    if images_in is not None:
        _check_inside(files, [Path(folder).resolve() for folder in images_in])
    names = tuple(file.name for file in files)
    held = ImageFiles(files, names, provenance.get("longest"), provenance.get("most_pixels", MOST_PIXELS))
    return held if pixels is None else SameFiles(held, pixels)


def _check_same(images: Sequence[Image], names: Sequence[str], pixels: Sequence[str], longest: int | None) -> None:
    for image, name, known in zip(images, names, pixels, strict=True):
        if checksum(image) != known:
            how = "" if longest is None else f", shrunk as then (longest={longest})"
            raise InputError(
                f"the image {name!r} is not the one of the run; give those of the run, in their order{how}"
            )


def _check_inside(files: Sequence[Path], folders: Sequence[Path]) -> None:
    for file in files:
        if not any(file.resolve().is_relative_to(folder) for folder in folders):
            raise InputError(
                f"the result names the image {file}, which is in none of the folders given; if it is yours, name its "
                f"folder: --images {file.parent} (images_in= of butfor.load)"
            )


def list_items(held: Sequence[Image] | None, names: Sequence[object]) -> ListItems:
    """The images as the core takes them; where they are gone only the rest of the result can be used."""
    return ListItems(Gone(len(names)) if held is None else held, costly=True, packing=RegionPacking())


def can_be_read(items: Items) -> bool:
    """Whether all images of a result are there, and as they were."""
    try:
        for place in range(len(items)):
            items.block(place, place + 1)
    except InputError:
        return False
    return True


class SameFiles(Sequence[Image]):
    """Images on disk as the run read them: one that changed since is as good as gone."""

    def __init__(self, files: ImageFiles, pixels: Sequence[str]) -> None:
        self._files, self._pixels = files, pixels
        self._warned: set[int] = set()

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, place: int) -> Image: ...
    @overload
    def __getitem__(self, place: slice) -> list[Image]: ...
    def __getitem__(self, place: int | slice) -> Image | list[Image]:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        image = self._files[place]
        if checksum(image) == self._pixels[place]:
            return image
        said = f"the image {self._files.paths[place]} is not as it was when the run read it"
        if place not in self._warned:  # whoever shows results goes on without their pictures, and should say why
            self._warned.add(place)
            warn_user(f"{said}; it is left out", UserWarning)
        raise InputError(f"{said}; use butfor.load(..., inputs=...)")


class Gone(Sequence[Image]):
    """In place of images that are no longer there."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: object) -> NoReturn:
        raise InputError("the images of this result are no longer where they were; use butfor.load(..., inputs=...)")


def region(index: object) -> object:
    """The index of a saved subset again; ValueError where it is no region of an image."""
    if isinstance(index, str):
        return attribute(index)
    if is_mask(index) and index.any():
        return index
    if isinstance(index, tuple) and len(index) == 4 and all(type(side) is int for side in index):
        x1, y1, x2, y2 = index
        if 0 <= x1 < x2 < WIDEST and 0 <= y1 < y2 < WIDEST:
            return index
    raise ValueError(f"a region is {index!r:.60}, neither a box nor a mask nor an attribute")


def check_kept(pieces: Sequence[Array]) -> None:
    """Raise ValueError at counterfactuals, or one, that are no pixels."""
    for piece in pieces:
        if piece.dtype != np.uint8 or piece.ndim not in (3, 4) or piece.shape[-1] != 3:
            raise ValueError(f"a counterfactual is {piece.dtype} of shape {piece.shape}, not pixels")


def attribute(index: object) -> object:
    """One of butfor's own attributes again, which are saved by name; any other index as it is.

    >>> attribute("Attribute('colour')"), attribute((0, 0, 2, 2))
    (Attribute('colour'), (0, 0, 2, 2))
    """
    if not isinstance(index, str):
        return index
    name = index.removeprefix("Attribute('").removesuffix("')")
    return Attribute(name, BUILT_IN[name]) if name in BUILT_IN else index


def with_its_attributes(sampler: Sampler, subsets: Sequence[Sequence[Subset]]) -> Sampler:
    """The sampler, able to redraw attributes where there are some."""
    inner = sampler.sampler if isinstance(sampler, Cached) else sampler
    some = any(isinstance(subset.index, Attribute) for own in subsets for subset in own)
    return with_attributes(sampler) if some and not isinstance(inner, WithAttributes) else sampler
