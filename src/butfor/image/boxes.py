"""Subsets: boxes drawn by a person, in a list, a mapping or a file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.core.types import InputError, Subset
from butfor.image.boxes_files import Corners, Drawn, entries, is_corners, read_boxes
from butfor.image.region import Box, Image, RegionWarning
from butfor.image.subsets import Overlap, check_overlap, check_overlap_option, unique

Units = Literal["pixel", "relative"]
Form = Literal["corners", "xywh"]


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes by image name, or the same boxes for every image. Made by `boxes`."""

    by_image: Mapping[str, Drawn] | None
    everywhere: Drawn | None
    units: Units | None
    form: Form
    overlap: Overlap

    @property
    def blind(self) -> bool:
        """Whether they are the same for every image: what is tested was then not picked by what it holds."""
        return self.by_image is None

    def __repr__(self) -> str:
        if self.by_image is None:
            return f"boxes({len(self.everywhere.boxes) if self.everywhere else 0} for every image)"
        return f"boxes({sum(len(drawn.boxes) for drawn in self.by_image.values())} in {len(self.by_image)} images)"

    def __call__(self, name: str, image: Image) -> list[Subset]:
        drawn = self.everywhere or self._of(name)
        found = []
        for number, (label, corners) in enumerate(drawn.boxes, start=1):
            label = label or f"box {number}"
            found.append(Subset(label, self._pixels(name, label, corners, drawn, image)))
        found = unique(found)
        check_overlap(name, found, image, self.overlap)
        return found

    def _of(self, name: str) -> Drawn:
        assert self.by_image is not None
        for key in (name, Path(name).name, Path(name).stem):
            if key in self.by_image:
                return self.by_image[key]
        deeper = [key for key in self.by_image if key.endswith(f"/{name}")]  # COCO writes "imgs/cat.jpg"
        if len(deeper) == 1:
            return self.by_image[deeper[0]]
        if deeper:
            raise InputError(f"the boxes of image {name!r} may be those of {' or '.join(deeper)}; name it as there")
        known = ", ".join(list(self.by_image)[:5]) + (", ..." if len(self.by_image) > 5 else "")
        raise InputError(f"there are no boxes for image {name!r}; boxes are given for {known}")

    def _pixels(self, name: str, label: str, corners: Corners, drawn: Drawn, image: Image) -> Box:
        height, width = image.shape[:2]
        x1, y1, x2, y2 = corners
        if self.form == "xywh":
            x2, y2 = x1 + x2, y1 + y2
        if x2 <= x1 or y2 <= y1:
            raise InputError(
                f"box {label!r} of image {name!r} is {_shown(corners)}, which has no area as x1, y1, x2, y2; order its "
                "corners, or use form='xywh' if it is x, y, width, height"
            )
        if (self.units or drawn.units or _guessed(name, drawn.boxes)) == "relative":
            if max(x2, y2) > 2 or min(x1, y1) < -1:
                raise InputError(
                    f"box {label!r} of image {name!r} is {_shown(corners)}, expected shares of the width and height "
                    "between 0 and 1; use units='pixel'"
                )
            x1, y1, x2, y2 = x1 * width, y1 * height, x2 * width, y2 * height
        elif drawn.size is not None and drawn.size != (width, height):
            across, down = width / drawn.size[0], height / drawn.size[1]
            off = abs(across - down)
            if off * max(drawn.size) > 2 and off * min(drawn.size) >= 1:  # more than rounding a side explains
                raise InputError(
                    f"the boxes of image {name!r} were drawn on {drawn.size[0]} x {drawn.size[1]} pixels, but the "
                    f"image has {width} x {height}; draw them on this image (was it turned or cropped?)"
                )
            x1, y1, x2, y2 = x1 * across, y1 * down, x2 * across, y2 * down
        return _clipped(name, label, (round(x1), round(y1), round(x2), round(y2)), height, width)


def _shown(corners: Corners) -> str:
    return "(" + ", ".join(f"{value:g}" for value in corners) + ")"


def _guessed(name: str, boxes: Sequence[tuple[str | None, Corners]]) -> Units:
    """Relative if all numbers lie between 0 and 1 and one of them is a fraction."""
    values = np.array([corners for _, corners in boxes])
    if not (values % 1).any() or values.min() <= -1 or values.max() >= 2:
        return "pixel"
    if values.min() < 0 or values.max() > 1:
        worst = values.min() if values.min() < 0 else values.max()
        raise InputError(
            f"the boxes of image {name!r} look like shares of its width and height, which must lie between 0 and 1, "
            f"but one is {worst:g}; correct it, or use units='pixel' if they are pixels"
        )
    return "relative"


def _clipped(name: str, label: str, box: Box, height: int, width: int) -> Box:
    x1, y1, x2, y2 = max(box[0], 0), max(box[1], 0), min(box[2], width), min(box[3], height)
    if x2 <= x1 or y2 <= y1:
        where = (
            "outside" if box[0] >= width or box[1] >= height or box[2] <= 0 or box[3] <= 0 else "less than a pixel in"
        )
        raise InputError(f"box {label!r} of image {name!r}, {box}, lies {where} the image of {width} x {height} pixels")
    if (x1, y1, x2, y2) != box:
        warnings.warn(
            f"box {label!r} of image {name!r}, {box}, reaches over the edge of the image of {width} x {height} pixels "
            "and was clipped",
            RegionWarning,
            stacklevel=5,
        )
    return x1, y1, x2, y2


def boxes(source: Any, *, units: Units | None = None, form: Form = "corners", overlap: Overlap = "refuse") -> Boxes:
    """Boxes x1, y1, x2, y2 (half-open) to test in each image.

    `source` is a list of boxes or a mapping {box name: box} for every image, a mapping {image name: such a list or
    mapping}, or a file: our JSON ({"boxes": {image name: [box, ...]}}, a box being four numbers or {"name", "box"}),
    COCO JSON, VOC or labelImg XML, or a folder of XML files. `units=None` reads numbers between 0 and 1 that are not
    all whole as shares of width and height. A box that reaches over the edge is clipped, with a warning; one without
    area, or outside, is refused: corners in the wrong order are most often x, y, width, height (`form="xywh"`).

    >>> some = boxes({"cat.jpg": {"head": (1, 1, 3, 3)}, "dog.jpg": [(0, 0, 2, 2), (2, 2, 4, 4)]})
    >>> [(s.name, s.index) for s in some("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('head', (1, 1, 3, 3))]
    """
    check_overlap_option(overlap)
    if units not in (None, "pixel", "relative") or form not in ("corners", "xywh"):
        raise InputError(
            f"units must be 'pixel', 'relative' or None and form 'corners' or 'xywh', got {units!r} and {form!r}"
        )
    if isinstance(source, str | Path):
        if form != "corners":
            raise InputError("a file of boxes says its own form; leave form='xywh' out")
        return Boxes(read_boxes(Path(source)), None, units, form, overlap)
    if isinstance(source, Mapping) and not any(is_corners(value) for value in source.values()):
        by_image = {str(name): Drawn(entries(boxes, f"image {name!r}")) for name, boxes in source.items()}
        return Boxes(by_image, None, units, form, overlap)
    drawn = Drawn(entries(source, "every image"))
    if not drawn.boxes:
        raise InputError("boxes is empty; give at least one box")
    return Boxes(None, drawn, units, form, overlap)
