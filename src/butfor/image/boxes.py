"""Subsets: boxes drawn by a person, in a list, a mapping or a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from butfor.core.checks import one_of
from butfor.core.draw.proposers import Overlap, check_overlap_option
from butfor.core.types import InputError, Subset
from butfor.core.warn import warn_user
from butfor.image.boxes_files import Drawn, Units, entries, is_corners, read_boxes
from butfor.image.region import Box, Image, RegionWarning
from butfor.image.subsets import GivenRegions

Form = Literal["corners", "xywh"]


def _placed(units: Units | None, form: Form, name: str, image: Image, drawn: Drawn) -> Iterator[Subset]:
    """The boxes of one image in its pixels."""
    height, width = image.shape[:2]
    for number, (given, corners) in enumerate(drawn.boxes, start=1):
        label = given or f"box {number}"
        what, shown = f"box {label!r} of image {name!r}", "(" + ", ".join(f"{value:g}" for value in corners) + ")"
        x1, y1, x2, y2 = corners
        if form == "xywh":
            x2, y2 = x1 + x2, y1 + y2
        if x2 <= x1 or y2 <= y1:
            raise InputError(
                f"{what} is {shown}, which has no area as x1, y1, x2, y2; order its corners, or use form='xywh' if it "
                "is x, y, width, height"
            )
        across, down = 1.0, 1.0
        if (units or drawn.units or _guessed(name, drawn)) == "relative":
            if max(x2, y2) > 2 or min(x1, y1) < -1:
                raise InputError(
                    f"{what} is {shown}, expected shares of the width and height between 0 and 1; use units='pixel'"
                )
            across, down = float(width), float(height)
        elif drawn.size is not None and drawn.size != (width, height):
            across, down = _rescaled(name, drawn.size, width, height)
        pixels = round(x1 * across), round(y1 * down), round(x2 * across), round(y2 * down)
        yield Subset(label, _clipped(what, pixels, height, width))


def _guessed(name: str, drawn: Drawn) -> Units:
    """Relative if all numbers lie between 0 and 1 and one of them is a fraction."""
    values = np.array([corners for _, corners in drawn.boxes])
    if not (values % 1).any() or values.min() <= -1 or values.max() >= 2:
        return "pixel"
    if values.min() < 0 or values.max() > 1:
        worst = values.min() if values.min() < 0 else values.max()
        raise InputError(
            f"the boxes of image {name!r} look like shares of its width and height, which must lie between 0 and 1, "
            f"but one is {worst:g}; correct it, or use units='pixel' if they are pixels"
        )
    return "relative"


def _rescaled(name: str, size: tuple[int, int], width: int, height: int) -> tuple[float, float]:
    """What boxes drawn on an image of another size are to be multiplied by."""
    across, down = width / size[0], height / size[1]
    off = abs(across - down)
    if off * max(size) > 2 and off * min(size) >= 1:  # more than rounding a side explains
        raise InputError(
            f"the boxes of image {name!r} were drawn on {size[0]} x {size[1]} pixels, but the "
            f"image has {width} x {height}; draw them on this image (was it turned or cropped?)"
        )
    return across, down


def _clipped(what: str, box: Box, height: int, width: int) -> Box:
    x1, y1, x2, y2 = max(box[0], 0), max(box[1], 0), min(box[2], width), min(box[3], height)
    if x2 <= x1 or y2 <= y1:
        outside = box[0] >= width or box[1] >= height or box[2] <= 0 or box[3] <= 0
        where = "outside" if outside else "less than a pixel in"
        raise InputError(f"{what}, {box}, lies {where} the image of {width} x {height} pixels")
    if (x1, y1, x2, y2) != box:
        clipped = f"{what}, {box}, reaches over the edge of the image of {width} x {height} pixels and was clipped"
        warn_user(clipped, RegionWarning)
    return x1, y1, x2, y2


def boxes(
    source: object, *, units: Units | None = None, form: Form = "corners", overlap: Overlap = "refuse"
) -> GivenRegions[Drawn]:
    """Boxes x1, y1, x2, y2 (half-open) to test in each image.

    A box that reaches over the edge is clipped, with a warning; one without area, or outside, is refused: corners in
    the wrong order are most often x, y, width, height.

    Parameters
    ----------
    source : a list of boxes or a mapping {box name: box} for every image, a mapping {image name: such a list or
        mapping}, or a file: our JSON ({"boxes": {image name: [box, ...]}}, a box being four numbers or {"name",
        "box"}), COCO JSON, VOC or labelImg XML, or a folder of XML files.
    units : "pixel" or "relative"; None reads numbers between 0 and 1 that are not all whole as shares of width and
        height.
    form : "corners", or "xywh" where boxes are x, y, width, height.
    overlap : "refuse" boxes that overlap, or test each "alone" all the same.

    Examples
    --------
    >>> some = boxes({"cat.jpg": {"head": (1, 1, 3, 3)}, "dog.jpg": [(0, 0, 2, 2), (2, 2, 4, 4)]})
    >>> [(s.name, s.index) for s in some("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('head', (1, 1, 3, 3))]
    """
    check_overlap_option(overlap)
    one_of("units", units, (None, "pixel", "relative"))
    one_of("form", form, ("corners", "xywh"))
    by_image, everywhere = None, None
    if isinstance(source, str | Path):
        if form != "corners":
            raise InputError("a file of boxes says its own form; leave form='xywh' out")
        by_image = read_boxes(Path(source))
    elif isinstance(source, Mapping) and not any(is_corners(value) for value in source.values()):
        by_image = {str(name): Drawn(entries(some, f"image {name!r}")) for name, some in source.items()}
    else:
        everywhere = Drawn(entries(source, "every image"))
    if not by_image and not everywhere:
        raise InputError("boxes is empty; give at least one box")
    return GivenRegions("boxes", by_image, everywhere, partial(_placed, units, form), overlap)
