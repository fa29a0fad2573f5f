"""A bed of images whose answer is known: textures, a classifier that uses every other patch, an exact sampler."""

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

    The classifier ("striped", "plain") adds up the strength of the stripes of every other square. Plain squares have
    exactly the distribution Q, whatever is around them. True: striped, and used. There are side x side squares in each
    image, and a `share` of them has stripes; with an `extent` they are one block of so many squares across and down.

    >>> textures(1)
    <ImageBed 'textures': 20 images, 16 boxes, 46 true signals>
    """
    rng = stream(seed, "textures")
    if extent:
        blocks = np.zeros((inputs, side, side), bool)
        for block, (y, x) in zip(blocks, rng.integers(0, side - extent + 1, (inputs, 2)), strict=True):
            block[y : y + extent, x : x + extent] = True
    striped = blocks.reshape(inputs, -1) if extent else rng.random((inputs, side * side)) < share
    heights = rng.uniform(1.0, 5.0, striped.shape) * striped  # grey levels
    squares = [(x * PATCH, y * PATCH, (x + 1) * PATCH, (y + 1) * PATCH) for y in range(side) for x in range(side)]
    images = {}
    for number, of_image in enumerate(heights, start=1):
        image = PLAIN.pixels((side * PATCH, side * PATCH, 3), rng)
        for box, height in zip(squares, of_image, strict=True):
            image[at(box)] = np.rint(image[at(box)] + height * STRIPES[:, None, None]).astype(np.uint8)
        images[f"texture {number}"] = image
    used = np.arange(side * side) % 2 == 0
    boxes = {f"square {j}": box for j, box in enumerate(squares, start=1)}
    return ImageBed("textures", images, boxes, Stripes(side, used), PLAIN, striped & used)


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
# wrong the way a poor inpainter is: nearly flat where real squares are rough
smear = Noise((LOW + HIGH) // 2 - 2, (LOW + HIGH) // 2 + 2)


@dataclass(frozen=True, eq=False)
class Stripes:
    """A classifier: the strength of stripes summed over the squares it uses, against a threshold."""

    side: int
    used: Bools  # (side * side,)

    classes = ("striped", "plain")

    def __call__(self, batch: Sequence[Image]) -> Floats:
        pixels = np.stack(list(batch)).astype(np.float64).mean(axis=3)
        squares = pixels.reshape(len(pixels), self.side, PATCH, self.side, PATCH)
        strength = np.abs(np.einsum("nsrtc,r->nst", squares, STRIPES)) / PATCH**2
        total = strength.reshape(len(pixels), -1)[:, self.used].sum(axis=1)
        return np.stack([total, self.used.sum() - total], axis=1)
