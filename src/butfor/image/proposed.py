"""Images and what proposes regions -> the subsets of each image; what cannot be used is left out or raised."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.run.settings import proposals
from butfor.core.types import InputError, Subset
from butfor.image.boxes import boxes as drawn_boxes
from butfor.image.found_boxes import random_boxes
from butfor.image.masks import masks
from butfor.image.opened import Opened
from butfor.image.region import Image, RegionWarning, mask_of
from butfor.image.segments import grid, superpixels
from butfor.image.subsets import Subsets, unique

OnError = Literal["raise", "skip"]
MOST_NAMED = 5  # images in one sentence


@dataclass(frozen=True)
class Proposed:
    """The images that have something to test, their subsets, sentences on the others, and the largest image's size."""

    images: Opened
    subsets: tuple[tuple[Subset, ...], ...]
    notes: tuple[str, ...]
    largest: int  # values of the largest image


def as_subsets(boxes: Any, seed: int) -> Subsets:
    """What a user may call boxes -> a function (name, image) -> subsets.

    >>> [subset.name for subset in as_subsets([(0, 0, 2, 2)], 0)("a", np.zeros((4, 4, 3), np.uint8))]
    ['box 1']
    """
    named: dict[str, Subsets] = {"grid": grid(3), "superpixels": superpixels(), "random": random_boxes(seed=seed)}
    if boxes is None or (isinstance(boxes, str) and boxes in named):
        return named[boxes or "grid"]
    if callable(boxes):
        return boxes  # type: ignore[no-any-return]
    if isinstance(boxes, str | Path):
        if not Path(boxes).exists():
            raise InputError(f"boxes is {str(boxes)!r}, neither a file nor one of {', '.join(named)}")
        return masks(boxes) if holds_masks(Path(boxes)) else drawn_boxes(boxes)
    return masks(boxes) if _are_masks(boxes) else drawn_boxes(boxes)


def _are_masks(given: Any) -> bool:
    """Whether the first thing that is no container of others is a boolean array, one of pixels, or a picture."""
    while isinstance(given, Mapping | Sequence) and len(given) and not isinstance(given, str):
        given = next(iter(given.values())) if isinstance(given, Mapping) else given[0]
    if isinstance(given, str | Path):
        return Path(given).suffix.lower() == ".png"
    pixels = isinstance(given, np.ndarray) and given.ndim == 2 and given.shape[1] != 4 and given.dtype == np.uint8
    return pixels or (isinstance(given, np.ndarray) and given.dtype == np.bool_)


def holds_masks(path: Path) -> bool:
    """A folder of folders of pictures, one for each image; a folder of files is of boxes."""
    return path.is_dir() and any(path.glob("*/*.png"))


def proposed(images: Opened, subsets: Subsets, on_error: OnError) -> Proposed:
    """Look at every image once. `on_error="skip"` leaves out those that cannot be read or whose regions do not fit."""
    kept: list[int] = []
    found: list[tuple[Subset, ...]] = []
    failed: dict[str, str] = {}
    empty: list[str] = []
    largest = 0
    for place, name in enumerate(images.names):
        try:
            image = images[place]
            own = tuple(unique(proposals("boxes", subsets, name, image)))
            _check_fillable(name, image, own)
        except InputError as error:
            if on_error == "raise":
                raise
            failed[name] = str(error)
            continue
        if own:
            kept.append(place)
            found.append(own)
            largest = max(largest, image.size)
        else:
            empty.append(name)
    notes = [*_skipped(failed), *_without(empty), *_ignored(images.ignored)]
    if not kept:
        raise InputError(f"no image is left to test; {notes[0] if notes else 'give at least one'}")
    for note in notes:
        warnings.warn(note, RegionWarning, stacklevel=3)
    return Proposed(images.some(kept), tuple(found), tuple(notes), largest)


def _check_fillable(name: str, image: Image, subsets: Sequence[Subset]) -> None:
    """What an inpainter would refuse in the middle of the run is refused before it."""
    for subset in subsets:
        if not hasattr(subset.index, "transform") and mask_of(subset, *image.shape[:2]).all():
            raise InputError(f"region {subset.name!r} of image {name!r} is the whole image: nothing is left around it")


def _skipped(failed: Mapping[str, str]) -> list[str]:
    if not failed:
        return []
    said = [f"{name!r} ({why})" for name, why in list(failed.items())[:MOST_NAMED]]
    more = f"; and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    return [f"{len(failed)} {_images(len(failed))} skipped: {'; '.join(said)}{more}."]


def _without(names: Sequence[str]) -> list[str]:
    return [f"{len(names)} {_images(len(names))} left out, having no region to test: {_some(names)}."] if names else []


def _ignored(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    what = "file of the folder is no image and was" if len(names) == 1 else "files of the folder are no images and were"
    return [f"{len(names)} {what} left out: {_some(names)}."]


def _images(count: int) -> str:
    return "image was" if count == 1 else "images were"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(repr, names[:MOST_NAMED])) + more
