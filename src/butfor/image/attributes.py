"""Attributes: properties of the entire image as subsets, and the sampler that redraws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.evaluation.samplers import HasNotes, Sampler, SamplerInfo, info_of
from butfor.image.cache import Cached
from butfor.image.region import Attribute, Image, Transform, check_image, described, is_region
from butfor.models.wrap import need
from butfor.types import InputError, ModelError, Subset


def colour(image: Image, rng: np.random.Generator) -> Image:
    """Change hue, saturation and white balance; shapes and lightness stay.

    >>> colour(np.zeros((2, 2, 3), np.uint8), np.random.default_rng(0)).shape
    (2, 2, 3)
    """
    cv2 = need("cv2", "image")
    rotation, saturation, gains = rng.uniform(20, 160), rng.uniform(0.5, 1.5), rng.uniform(0.8, 1.2, 3)
    hsv = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2HSV).astype(np.float32)
    hsv[..., 0] = (hsv[..., 0] + rotation) % 180  # OpenCV counts hues in steps of two degrees
    hsv[..., 1] = np.clip(hsv[..., 1] * saturation, 0, 255)
    rgb = cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB) * gains
    return np.asarray(np.clip(np.rint(rgb), 0, 255), np.uint8)


def greyscale(image: Image, rng: np.random.Generator) -> Image:
    """Convert to grey with random channel weights, as black-and-white films of different sensitivity do.

    >>> grey = greyscale(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), np.random.default_rng(0))
    >>> bool((grey[..., 0] == grey[..., 2]).all())
    True
    """
    weights = rng.dirichlet(12 * np.array([0.299, 0.587, 0.114]))
    grey = np.clip(np.rint(image @ weights), 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def texture(image: Image, rng: np.random.Generator) -> Image:
    """Shuffle and rotate tiles of the fine detail (what a blur takes away); colours and outlines stay.

    >>> texture(np.zeros((40, 30, 3), np.uint8), np.random.default_rng(0)).shape
    (40, 30, 3)
    """
    cv2 = need("cv2", "image")
    height, width = image.shape[:2]
    tile = max(2, min(height, width) // 10)
    smooth = cv2.GaussianBlur(image.astype(np.float32), (0, 0), max(1.0, min(height, width) / 60))
    smooth = np.asarray(smooth).reshape(image.shape)
    down, across = -(-height // tile), -(-width // tile)
    padding = ((0, down * tile - height), (0, across * tile - width), (0, 0))
    detail = np.pad(image - smooth, padding, mode="symmetric" if min(height, width) >= tile else "edge")
    tiles = detail.reshape(down, tile, across, tile, 3).swapaxes(1, 2).reshape(-1, tile, tile, 3)
    tiles = tiles[rng.permutation(len(tiles))]
    quarters = rng.integers(4, size=len(tiles))
    tiles = np.stack([np.rot90(piece, k) for piece, k in zip(tiles, quarters, strict=True)])
    shuffled = tiles.reshape(down, across, tile, tile, 3).swapaxes(1, 2).reshape(down * tile, across * tile, 3)
    return np.asarray(np.clip(np.rint(smooth + shuffled[:height, :width]), 0, 255), np.uint8)


BUILT_IN: dict[str, Transform] = {"colour": colour, "greyscale": greyscale, "texture": texture}


@dataclass(frozen=True)
class Attributes:
    """The same attributes for every image. Made by `attributes`."""

    chosen: tuple[Attribute, ...]

    blind = True  # chosen without looking at the image

    def __call__(self, name: object, image: Image) -> list[Subset]:  # noqa: ARG002
        return [Subset(attribute.name, attribute) for attribute in self.chosen]


def attributes(*names: str, **transforms: Transform) -> Attributes:
    """Test properties of the entire image: "Does the model rely on texture?" is one more hypothesis.

    Parameters
    ----------
    *names : {"colour", "texture", "greyscale"}
        Built-in attributes.
    **transforms : callable
        name=function `(image, rng) -> image` of the same size: a style transfer, say.

    Returns
    -------
    Attributes
        A function (name, image) -> subsets.

    Examples
    --------
    >>> mirrored = attributes("texture", mirrored=lambda image, rng: image[:, :: rng.choice([-1, 1])])
    >>> [subset.name for subset in mirrored("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    ['texture', 'mirrored']
    """
    unknown = [name for name in names if name not in BUILT_IN]
    if unknown or not (names or transforms):
        came = ", ".join(map(repr, unknown)) or "nothing"
        raise InputError(f"attributes are {', '.join(BUILT_IN)}, or name=function of your own; got {came}")
    for name, transform in transforms.items():
        if not callable(transform):
            raise InputError(f"attribute {name!r} must be a function (image, rng) -> image, got {transform!r}")
    chosen = {name: BUILT_IN[name] for name in names} | transforms
    return Attributes(tuple(Attribute(name, transform) for name, transform in chosen.items()))


@dataclass(frozen=True)
class WithAttributes:
    """Regions go to the inpainter, attributes to their transformation."""

    inpainter: Sampler

    def __repr__(self) -> str:
        return f"with_attributes({self.inpainter!r})"

    @property
    def info(self) -> SamplerInfo:
        inner = info_of(self.inpainter)
        return replace(inner, identity=f"with_attributes({inner.identity})")

    def __call__(
        self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator
    ) -> Sequence[Image]:
        if not isinstance(subset.index, Attribute):
            drawn: Sequence[Image] = self.inpainter(inputs, subset, draws, rng)
            return drawn
        name, out = subset.index.name, []
        for image in (image for image in inputs for _ in range(draws)):
            check_image(image)
            try:
                made = subset.index.transform(image.copy(), rng)  # a user's function may write into its argument
            except Exception as error:
                raise ModelError(f"attribute {name!r} raised {type(error).__name__}: {error}") from error
            if not isinstance(made, np.ndarray) or made.dtype != np.uint8 or made.shape != image.shape:
                raise ModelError(f"attribute {name!r} returned {described(made)}, expected uint8 {image.shape}")
            out.append(np.ascontiguousarray(made))
        return out

    def notes(self, inputs: Sequence[Image], subsets: Sequence[Sequence[Subset]], seed: int) -> list[Any]:
        regions = [list(filter(is_region, of_image)) for of_image in subsets]
        return self.inpainter.notes(inputs, regions, seed) if isinstance(self.inpainter, HasNotes) else []


def with_attributes(sampler: Sampler, subsets: Sequence[Sequence[Subset]]) -> Sampler:
    """Return the sampler, able to redraw attributes where the subsets have any."""
    inner = sampler.sampler if isinstance(sampler, Cached) else sampler
    needed = any(isinstance(subset.index, Attribute) for of_image in subsets for subset in of_image)
    return WithAttributes(sampler) if needed and not isinstance(inner, WithAttributes) else sampler
