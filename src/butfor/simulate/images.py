"""A bed of images whose answer is known: textures, a classifier that looks at some patches only, an exact sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.core.draw.samplers import Sampler
from butfor.core.draw.streams import stream
from butfor.core.types import Bools, Floats, Model, Subset

Image = NDArray[np.uint8]
PATCH = 8  # pixels
LOW, HIGH = 96, 160  # grey levels of plain texture, half-open


@dataclass(frozen=True, eq=False)
class ImageBed:
    """Images, the boxes to test in all of them, a model, a sampler, and for each image and box if its null is false."""

    name: str
    inputs: dict[str, Image]
    boxes: dict[str, tuple[int, int, int, int]]
    model: Model
    sampler: Sampler
    truth: Bools  # (images, boxes)

    def __repr__(self) -> str:
        count, width = self.truth.shape
        return f"<ImageBed {self.name!r}: {count} images, {width} boxes, {int(self.truth.sum())} true signals>"


def textures(seed: int = 0, *, inputs: int = 20, side: int = 4, share: float = 0.3) -> ImageBed:
    """Squares of plain noise, side x side to an image, some with stripes; Q is plain noise, pixel by pixel.

    The classifier ("striped", "plain") adds up how strong the stripes of every other square are. Plain squares have
    exactly the law Q, whatever stands around them. True: striped, and looked at.

    >>> textures(1)
    <ImageBed 'textures': 20 images, 16 boxes, 46 true signals>
    """
    rng = stream(seed, "textures")
    striped = rng.random((inputs, side * side)) < share
    heights = rng.uniform(1.0, 5.0, striped.shape) * striped  # grey levels
    places = [(x * PATCH, y * PATCH, (x + 1) * PATCH, (y + 1) * PATCH) for y in range(side) for x in range(side)]
    images = {}
    for number, own in enumerate(heights):
        image = plain((side * PATCH, side * PATCH, 3), rng)
        for (x1, y1, x2, y2), height in zip(places, own, strict=True):
            part = image[y1:y2, x1:x2] + height * STRIPES[:, None, None]
            image[y1:y2, x1:x2] = np.rint(part).astype(np.uint8)
        images[f"texture {number + 1}"] = image
    used = np.arange(side * side) % 2 == 0
    boxes = {f"square {j + 1}": place for j, place in enumerate(places)}
    return ImageBed("textures", images, boxes, Stripes(side, used), redraw, striped & used)


STRIPES = np.where(np.arange(PATCH) % 2 == 0, 1.0, -1.0)


def plain(shape: tuple[int, ...], rng: np.random.Generator) -> Image:
    """Plain texture."""
    return rng.integers(LOW, HIGH, shape, dtype=np.uint8)


def redraw(inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
    """The exact sampler: squares are independent, so x_S given the rest is plain texture."""
    x1, y1, x2, y2 = subset.index
    return [_with(image, subset, plain((y2 - y1, x2 - x1, 3), rng)) for image in inputs for _ in range(draws)]


def smear(inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
    """A sampler that is wrong the way a poor inpainter is: nearly flat where real squares are rough."""
    x1, y1, x2, y2 = subset.index
    middle = (LOW + HIGH) // 2
    levels = (middle - 2, middle + 2)
    return [
        _with(image, subset, rng.integers(*levels, (y2 - y1, x2 - x1, 3), dtype=np.uint8))
        for image in inputs
        for _ in range(draws)
    ]


def _with(image: Image, subset: Subset, part: Image) -> Image:
    x1, y1, x2, y2 = subset.index
    out = image.copy()
    out[y1:y2, x1:x2] = part
    return out


@dataclass(frozen=True, eq=False)
class Stripes:
    """A classifier: the strength of stripes summed over the squares it looks at, against a threshold."""

    side: int
    used: Bools  # (side * side,)

    classes = ("striped", "plain")

    def __call__(self, batch: Sequence[Image]) -> Floats:
        pixels: Any = np.stack(list(batch)).astype(np.float64).mean(axis=3)
        squares = pixels.reshape(len(pixels), self.side, PATCH, self.side, PATCH)
        strength = np.abs(np.einsum("nsrtc,r->nst", squares, STRIPES)) / PATCH**2
        total = strength.reshape(len(pixels), -1)[:, self.used].sum(axis=1)
        return np.stack([total, self.used.sum() - total], axis=1)
