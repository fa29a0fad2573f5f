"""What `butfor.load` needs of a saved run on images: its images, its attributes, its sampler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from butfor.core.draw.items import ListItems
from butfor.core.draw.samplers import Sampler
from butfor.core.types import InputError, Subset
from butfor.image.attributes import BUILT_IN, WithAttributes, with_attributes
from butfor.image.cache import Cached
from butfor.image.files import MOST_PIXELS, ImageFiles
from butfor.image.inputs import load_items
from butfor.image.region import Attribute, Image, RegionPacking


def images_of(inputs: object, provenance: Mapping[str, Any]) -> Sequence[Image] | None:
    """The images of a run, as given or from where they were; None where they are no longer there."""
    if inputs is not None:
        return load_items(inputs)
    files = tuple(map(Path, provenance.get("files") or ()))
    if not files or not all(file.is_file() for file in files):
        return None
    names = tuple(file.name for file in files)
    return ImageFiles(files, names, provenance.get("longest"), provenance.get("most_pixels", MOST_PIXELS))


def list_items(held: Sequence[Image] | None, names: Sequence[object]) -> ListItems:
    """The images as the core takes them; where they are gone only the rest of the result can be used."""
    return ListItems(Gone(len(names)) if held is None else held, costly=True, packing=RegionPacking())


class Gone(Sequence[Image]):
    """In place of images that are no longer there."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: object) -> NoReturn:
        raise InputError("the images of this result are no longer where they were; use butfor.load(..., inputs=...)")


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
