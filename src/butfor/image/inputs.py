"""What a user calls images -> named images that are opened when they are asked for, and the regions of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeGuard, cast, overload

import numpy as np

from butfor.evaluation.hypotheses import Proposer, ProposesTree
from butfor.evaluation.items import Items, ListItems
from butfor.evaluation.samplers import Sampler
from butfor.image.attributes import BUILT_IN, WithAttributes, with_attributes
from butfor.image.boxes import boxes as drawn_boxes
from butfor.image.boxes import holds_masks, masks, random_boxes
from butfor.image.cache import Cached
from butfor.image.files import MOST_PIXELS, ImageFiles, as_image, checksum, folder, is_pillow, recent_image
from butfor.image.region import (
    Attribute,
    Image,
    RegionPacking,
    RegionWarning,
    grid,
    is_mask,
    mask_of,
    superpixels,
    zoom,
)
from butfor.results.record import ImageInputs
from butfor.run.proposed import NamedItems, Proposed, Words, check_names, propose, some_names
from butfor.settings import OnError
from butfor.types import Array, InputError, Subset, warn_user

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


def source_record(boxes: str, items: NamedItems, pixels: Mapping[str, str]) -> ImageInputs:
    """Return where images are, if all are files, how they were read, and the checksum of each by name in `pixels`.

    With it `butfor.load` opens them again, and sees whether they are still the same.
    """
    files = tuple(str(source.absolute()) for source in items.sources if isinstance(source, Path))
    opener = items.open
    assert isinstance(opener, OpenImage)
    kept = files if len(files) == len(items) else None
    return ImageInputs(boxes, kept, opener.longest, opener.most_pixels, tuple(pixels[name] for name in items.names))


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


def is_zoom(boxes: object) -> bool:
    """Whether it goes from coarse to fine."""
    return isinstance(boxes, ProposesTree) or (isinstance(boxes, str) and boxes == "zoom")


def as_proposer(boxes: object, seed: int, names: Sequence[str] = (), *, whole: bool = False) -> Proposer:
    """Regions for every image, by name, in a file, or one list of them for each of the images of these names.

    "zoom" begins with the whole picture where the sampler can redraw the `whole`.

    >>> [subset.name for subset in as_proposer([(0, 0, 2, 2)], 0)("a", np.zeros((4, 4, 3), np.uint8))]
    ['box 1']
    >>> each = as_proposer([[(0, 0, 2, 2), (2, 2, 4, 4)], []], 0, ["a", "b"])
    >>> [len(each(name, np.zeros((4, 4, 3), np.uint8))) for name in ("a", "b")]
    [2, 0]
    """
    named: dict[str, Proposer] = {
        "grid": grid(3),
        "zoom": zoom(whole=whole),
        "superpixels": superpixels(),
        "random": random_boxes(seed=seed),
    }
    if boxes is None or (isinstance(boxes, str) and boxes in named):
        return named[boxes or "grid"]
    if callable(boxes):
        return cast("Proposer", boxes)
    if isinstance(boxes, str | Path):
        if not Path(boxes).exists():
            raise InputError(f"boxes is {str(boxes)!r}, neither a file nor one of {', '.join(named)}")
        return masks(boxes) if holds_masks(Path(boxes)) else drawn_boxes(boxes)
    if _has_one_list_per_image(boxes):
        if len(boxes) != len(names):
            raise InputError(
                f"boxes has lists of boxes for {len(boxes)} images, but there are {len(names)}; give one list for each "
                "image, in their order, or a mapping {image name: list of boxes}"
            )
        boxes = dict(zip(names, boxes, strict=True))
    return masks(boxes) if _is_mask(_first(boxes)) else drawn_boxes(boxes)


def _has_one_list_per_image(boxes: object) -> TypeGuard[Sequence[object]]:
    """Whether every entry is itself a list of boxes or masks: four numbers are one box, an array may be one mask."""
    return isinstance(boxes, Sequence | np.ndarray) and len(boxes) > 0 and all(map(_is_list_of_regions, boxes))


def _is_list_of_regions(entry: object) -> bool:
    if isinstance(entry, Mapping):
        return "box" not in entry  # {"name": ..., "box": ...} is one box
    if isinstance(entry, np.ndarray):
        return entry.shape[1:] == (4,) and not _is_mask(entry)
    if isinstance(entry, str) or not isinstance(entry, Sequence):
        return False
    first = entry[0] if entry else ()
    return _is_mask(first) or (isinstance(first, Mapping | Sequence | np.ndarray) and not isinstance(first, str))


def _first(given: object) -> object:
    """The first thing in nested lists and mappings that is none itself."""
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        return given
    inner = given.values() if isinstance(given, Mapping) else given
    return next((leaf for part in inner if (leaf := _first(part)) is not None), None)


def _is_mask(given: object) -> bool:
    """Whether it is a boolean array, one of pixels, or a picture."""
    if isinstance(given, str | Path):
        return Path(given).suffix.lower() == ".png"
    if not isinstance(given, np.ndarray):
        return False
    return bool(given.dtype == np.bool_) or (given.ndim == 2 and given.shape[1] != 4 and given.dtype == np.uint8)


WIDEST = 2**24  # pixels


def images_of(
    inputs: object, record: ImageInputs, images_in: Sequence[str | Path] | None = None
) -> Sequence[Image] | None:
    """The images of a run, as given or from where they were; None where they are no longer there.

    A result that came from somebody else names any files of the disk it likes: where `images_in` says which folders
    are meant, none outside of them is opened, by whatever links it is reached.
    """
    pixels = record.pixels
    if inputs is not None:
        given = load_items(inputs)
        if len(given) == len(pixels):
            _check_same(given, given.names, pixels, record.longest)
        return given
    files = tuple(map(Path, record.files or ()))
    if not files or not all(file.is_file() for file in files):
        return None
    if images_in is not None:
        _check_inside(files, [Path(folder).resolve() for folder in images_in])
    names = tuple(file.name for file in files)
    return SameFiles(ImageFiles(files, names, record.longest, record.most_pixels), pixels)


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
