"""What a user calls boxes -> a function (name, image) -> subsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeGuard, cast

import numpy as np

from butfor.core.draw.layers import ProposesTree
from butfor.core.draw.proposers import Proposer
from butfor.core.types import InputError
from butfor.image.boxes import boxes as drawn_boxes
from butfor.image.found_boxes import random_boxes
from butfor.image.masks import holds_masks, masks
from butfor.image.segments import grid, superpixels
from butfor.image.zoom import zoom


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
