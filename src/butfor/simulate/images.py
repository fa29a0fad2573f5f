"""A bed of images whose answer is known: textures, a classifier that looks at some patches only, an exact sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.evaluation.samplers import Sampler
from butfor.image.region import Box, Image, at
from butfor.streams import stream
from butfor.types import Bools, Floats, Model, Subset

PATCH = 8  # pixels
LOW, HIGH = 96, 160  # grey levels of plain texture, half-open


@dataclass(frozen=True, eq=False)
class ImageBed:
    """Images, the boxes to test in all of them, a model, a sampler, and for each image and box if its null is false."""

    name: str
    inputs: dict[str, Image]
    boxes: dict[str, Box]
    model: Model
    sampler: Sampler
    truth: Bools  # (images, boxes)

    def __repr__(self) -> str:
        count, width = self.truth.shape
        return f"<ImageBed {self.name!r}: {count} images, {width} boxes, {int(self.truth.sum())} true signals>"


def textures(seed: int = 0, *, inputs: int = 20, side: int = 4, share: float = 0.3, extent: int = 0) -> ImageBed:
    """Squares of plain noise, some with stripes; Q is plain noise, pixel by pixel.

    The classifier ("striped", "plain") adds up how strong the stripes of every other square are. Plain squares have
    exactly the law Q, whatever stands around them. True: striped, and looked at.

    Parameters
    ----------
    seed : the same seed gives the same images.
    inputs : how many images.
    side : squares of each image, side x side.
    share : of the squares that have stripes.
    extent : where it is not 0, stripes stand together: in one place of so many squares across and down in each image.

    Examples
    --------
    >>> textures(1)
    <ImageBed 'textures': 20 images, 16 boxes, 46 true signals>
    """
    rng = stream(seed, "textures")
    striped = _objects(inputs, side, extent, rng) if extent else rng.random((inputs, side * side)) < share
    heights = rng.uniform(1.0, 5.0, striped.shape) * striped  # grey levels
    places = [(x * PATCH, y * PATCH, (x + 1) * PATCH, (y + 1) * PATCH) for y in range(side) for x in range(side)]
    images = {}
    for number, own in enumerate(heights):
        image = PLAIN.pixels((side * PATCH, side * PATCH, 3), rng)
        for place, height in zip(places, own, strict=True):
            image[at(place)] = np.rint(image[at(place)] + height * STRIPES[:, None, None]).astype(np.uint8)
        images[f"texture {number + 1}"] = image
    used = np.arange(side * side) % 2 == 0
    boxes = {f"square {j + 1}": place for j, place in enumerate(places)}
    return ImageBed("textures", images, boxes, Stripes(side, used), PLAIN, striped & used)


def _objects(inputs: int, side: int, extent: int, rng: np.random.Generator) -> Bools:
    """One object in each image: which squares it covers, (inputs, side * side)."""
    found = np.zeros((inputs, side, side), bool)
    for own, (y, x) in zip(found, rng.integers(0, side - extent + 1, (inputs, 2)), strict=True):
        own[y : y + extent, x : x + extent] = True
    return found.reshape(inputs, -1)


STRIPES = np.where(np.arange(PATCH) % 2 == 0, 1.0, -1.0)


@dataclass(frozen=True)
class Noise:
    """Sampler: squares of independent pixels between two grey levels, half-open."""

    low: int
    high: int

    changes_subset_only = True
    fills_whole = True

    def pixels(self, shape: tuple[int, ...], rng: np.random.Generator) -> Image:
        return rng.integers(self.low, self.high, shape, dtype=np.uint8)

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        out = [image.copy() for image in inputs for _ in range(draws)]
        for image in out:
            image[at(subset.index)] = self.pixels(image[at(subset.index)].shape, rng)
        return out


PLAIN = Noise(LOW, HIGH)  # the exact sampler: squares are independent, so x_S given the rest is plain texture
MIDDLE = (LOW + HIGH) // 2
smear = Noise(MIDDLE - 2, MIDDLE + 2)  # wrong the way a poor inpainter is: nearly flat where real squares are rough


@dataclass(frozen=True, eq=False)
class Stripes:
    """A classifier: the strength of stripes summed over the squares it looks at, against a threshold."""

    side: int
    used: Bools  # (side * side,)

    classes = ("striped", "plain")

    def __call__(self, batch: Sequence[Image]) -> Floats:
        pixels = np.stack(list(batch)).astype(np.float64).mean(axis=3)
        squares = pixels.reshape(len(pixels), self.side, PATCH, self.side, PATCH)
        strength = np.abs(np.einsum("nsrtc,r->nst", squares, STRIPES)) / PATCH**2
        total = strength.reshape(len(pixels), -1)[:, self.used].sum(axis=1)
        return np.stack([total, self.used.sum() - total], axis=1)
