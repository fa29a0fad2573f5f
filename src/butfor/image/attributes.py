"""Subsets that are no region but a property of the whole image, and the sampler that redraws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import InputError, ModelError, Sampler, Subset
from butfor.image.region import Image, check_image, identity

Transform = Callable[[Image, np.random.Generator], Image]  # one stochastic version of an image, of the same size


@dataclass(frozen=True)
class Attribute:
    """A named stochastic transformation of the whole image: the index of a subset such as "colour"."""

    name: str
    transform: Transform

    def __repr__(self) -> str:
        return f"Attribute({self.name!r})"


def colour(image: Image, rng: np.random.Generator) -> Image:
    """Another hue, saturation and white balance; shapes and light stay.

    >>> colour(np.zeros((2, 2, 3), np.uint8), np.random.default_rng(0)).shape
    (2, 2, 3)
    """
    import cv2

    turn, saturation, gains = rng.uniform(20, 160), rng.uniform(0.5, 1.5), rng.uniform(0.8, 1.2, 3)
    hsv = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2HSV).astype(np.float32)
    hsv[..., 0] = (hsv[..., 0] + turn) % 180  # OpenCV counts hues in steps of two degrees
    hsv[..., 1] = np.clip(hsv[..., 1] * saturation, 0, 255)
    rgb = cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB) * gains
    return np.asarray(np.clip(np.rint(rgb), 0, 255), np.uint8)


def greyscale(image: Image, rng: np.random.Generator) -> Image:
    """Shades of grey, as black-and-white films of different sensitivity would show them.

    >>> grey = greyscale(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), np.random.default_rng(0))
    >>> bool((grey[..., 0] == grey[..., 2]).all())
    True
    """
    weights = rng.dirichlet(12 * np.array([0.299, 0.587, 0.114]))
    grey = np.clip(np.rint(image @ weights), 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def texture(image: Image, rng: np.random.Generator) -> Image:
    """Fine detail from elsewhere in the image; colours and outlines stay.

    The detail (what a blur takes away) is cut into tiles, which are shuffled and turned.

    >>> texture(np.zeros((40, 30, 3), np.uint8), np.random.default_rng(0)).shape
    (40, 30, 3)
    """
    import cv2

    height, width = image.shape[:2]
    tile = max(2, min(height, width) // 10)
    smooth = cv2.GaussianBlur(image.astype(np.float32), (0, 0), max(1.0, min(height, width) / 60))
    smooth = np.asarray(smooth).reshape(image.shape)
    down, across = -(-height // tile), -(-width // tile)
    padding = ((0, down * tile - height), (0, across * tile - width), (0, 0))
    detail = np.pad(image - smooth, padding, mode="symmetric" if min(height, width) >= tile else "edge")
    tiles = detail.reshape(down, tile, across, tile, 3).swapaxes(1, 2).reshape(-1, tile, tile, 3)
    tiles = tiles[rng.permutation(len(tiles))]
    turns = rng.integers(4, size=len(tiles))
    tiles = np.stack([np.rot90(piece, turn) for piece, turn in zip(tiles, turns, strict=True)])
    shuffled = tiles.reshape(down, across, tile, tile, 3).swapaxes(1, 2).reshape(down * tile, across * tile, 3)
    return np.asarray(np.clip(np.rint(smooth + shuffled[:height, :width]), 0, 255), np.uint8)


BUILT_IN: dict[str, Transform] = {"colour": colour, "greyscale": greyscale, "texture": texture}


@dataclass(frozen=True)
class Attributes:
    """The same attributes for every image. Made by `attributes`."""

    chosen: tuple[Attribute, ...]

    blind = True  # whatever is there

    def __call__(self, name: str, image: Image) -> list[Subset]:  # noqa: ARG002
        return [Subset(attribute.name, attribute) for attribute in self.chosen]


def attributes(*names: str, **own: Transform) -> Attributes:
    """Properties of the whole image to test beside its regions: "colour", "texture", "greyscale", or your own.

    "Does it rely on texture?" is then one more hypothesis of the run. `own=function` adds a generator of yours,
    `(image, rng) -> image` of the same size: a style transfer, a change of skin colour.

    >>> mirrored = attributes("texture", mirrored=lambda image, rng: image[:, :: rng.choice([-1, 1])])
    >>> [subset.name for subset in mirrored("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    ['texture', 'mirrored']
    """
    unknown = [name for name in names if name not in BUILT_IN]
    if unknown or not (names or own):
        came = ", ".join(map(repr, unknown)) or "nothing"
        raise InputError(f"attributes are {', '.join(BUILT_IN)}, or name=function of your own; got {came}")
    for name, transform in own.items():
        if not callable(transform):
            raise InputError(f"attribute {name!r} must be a function (image, rng) -> image, got {transform!r}")
    chosen = {name: BUILT_IN[name] for name in names} | own
    return Attributes(tuple(Attribute(name, transform) for name, transform in chosen.items()))


@dataclass(frozen=True)
class WithAttributes:
    """Regions go to the inpainter, attributes to their transformation. Made by `with_attributes`."""

    inpainter: Sampler | None

    def __repr__(self) -> str:
        return f"with_attributes({'' if self.inpainter is None else repr(self.inpainter)})"

    @property
    def identity(self) -> str:
        return f"with_attributes({'' if self.inpainter is None else identity(self.inpainter)})"

    @property
    def deterministic(self) -> bool:
        return bool(getattr(self.inpainter, "deterministic", False))

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> Any:
        if isinstance(subset.index, Attribute):
            return [_transformed(image, subset.index, rng) for image in inputs for _ in range(draws)]
        if self.inpainter is None:
            raise InputError(
                f"subset {subset.name!r} is a region, but there is nothing to fill it; use with_attributes(inpainter)"
            )
        return self.inpainter(inputs, subset, draws, rng)


def with_attributes(inpainter: Sampler | None = None) -> WithAttributes:
    """A sampler for runs that test attributes, alone or beside regions, which `inpainter` fills.

    >>> from butfor.image import telea
    >>> with_attributes(telea())
    with_attributes(telea(radius=3))
    """
    if inpainter is not None and not callable(inpainter):
        raise InputError(f"with_attributes needs an inpainter (any sampler of images), got {type(inpainter).__name__}")
    return WithAttributes(inpainter)


def _transformed(image: Image, attribute: Attribute, rng: np.random.Generator) -> Image:
    check_image(image)
    try:
        made = attribute.transform(image.copy(), rng)  # a user's function may write into what it is given
    except Exception as error:
        raise ModelError(f"attribute {attribute.name!r} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, np.ndarray) or made.dtype != np.uint8 or made.shape != image.shape:
        shape = f"{made.dtype} {made.shape}" if isinstance(made, np.ndarray) else type(made).__name__
        raise ModelError(f"attribute {attribute.name!r} returned {shape}, expected uint8 {image.shape}")
    return np.ascontiguousarray(made)
