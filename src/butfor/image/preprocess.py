"""Images of any size -> the batch a network takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from butfor.core.checks import one_of, whole
from butfor.core.types import Batch, Bools, InputError
from butfor.image.region import Image, check_image

Interpolation = Literal["nearest", "bilinear", "bicubic"]
Levels = float | tuple[float, float, float]  # grey levels, one for all channels or one for each
Prepare = Callable[[Sequence[Image]], Batch]  # images -> the batch that a network takes
IMAGENET_MEAN, IMAGENET_SCALE = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class Preprocess:
    """The middle of an image at a fixed size, as (pixel - mean) / scale. Made by `preprocess`."""

    size: int
    crop: float | None
    interpolation: Interpolation
    mean: tuple[float, float, float]
    scale: tuple[float, float, float]
    channels_last: bool

    def __call__(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """The batch, float32 (n, 3, size, size), or (n, size, size, 3) with `channels_last`."""
        batch = np.empty((len(images), 3, self.size, self.size), np.float32)
        recent: list[Fitted] = []  # the image and its last counterfactual: most of the next one is in one of them
        for k, image in enumerate(images):
            fitted = self._fitted(image, recent)
            recent = [fitted, *(other for other in recent if other is not fitted)][:2]
            batch[k] = fitted.small.transpose(2, 0, 1)
        batch -= np.array(self.mean, np.float32)[:, None, None]
        batch /= np.array(self.scale, np.float32)[:, None, None]
        return np.ascontiguousarray(batch.transpose(0, 2, 3, 1)) if self.channels_last else batch

    def _fitted(self, image: Image, recent: Sequence[Fitted]) -> Fitted:
        """The image at its size, the same to the bit whichever images came before it.

        Rows are resized first, each by itself, and columns then, each by itself. A counterfactual differs from its
        image in one region: only the rows and columns that differ are resized anew. Pillow's own resize takes this
        order up to version 12; from 13 on it takes columns first where an image shrinks more in height than in width,
        which with bicubic interpolation can differ by some grey levels. Ours is the same with every version.
        """
        check_image(image)
        last, rows = _nearest(image, recent)
        if last is not None and rows is None:
            return last
        height, width = image.shape[:2]
        left, top, right, bottom = self._box(height, width)
        if last is None or rows is None:
            narrow = self._resized(image, (self.size, height), (left, 0, right, height))
            return Fitted(image, narrow, self._resized(narrow, (self.size, self.size), (0, top, self.size, bottom)))
        count = rows.stop - rows.start
        part = self._resized(image[rows], (self.size, count), (left, 0, right, count))
        columns = _extent((part != last.narrow[rows]).any(axis=(0, 2)))
        if columns is None:
            return Fitted(image, last.narrow, last.small)
        narrow, small, count = last.narrow.copy(), last.small.copy(), columns.stop - columns.start
        narrow[rows] = part
        small[:, columns] = self._resized(narrow[:, columns], (count, self.size), (0, top, count, bottom))
        return Fitted(image, narrow, small)

    def _box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """The part of the image that is used: all of it, or a square in the middle."""
        if self.crop is None:
            return 0.0, 0.0, float(width), float(height)
        side = min(width, height) * self.crop
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    def _resized(self, pixels: Image, size: tuple[int, int], box: tuple[float, float, float, float]) -> Image:
        from PIL import Image as Pictures

        method = Pictures.Resampling[self.interpolation.upper()]
        return np.asarray(Pictures.fromarray(pixels).resize(size, method, box=box))


@dataclass(frozen=True, eq=False)
class Fitted:
    """An image, the same at the width and then also at the height that the network takes."""

    image: Image
    narrow: Image
    small: Image


def _nearest(image: Image, recent: Sequence[Fitted]) -> tuple[Fitted | None, slice | None]:
    """Which of the recent images differs in the fewest rows, and in which (None: in none)."""
    best, where = None, None
    for other in recent:
        if other.image is image:
            return other, None
        if other.image.shape != image.shape:
            continue
        rows = _extent((image != other.image).reshape(len(image), -1).any(axis=1))
        if rows is None:
            return other, None
        if where is None or rows.stop - rows.start < where.stop - where.start:
            best, where = other, rows
    return best, where


def _extent(flags: Bools) -> slice | None:
    """From the first to the last that is set."""
    found = np.flatnonzero(flags)
    return slice(int(found[0]), int(found[-1]) + 1) if found.size else None


def preprocess(
    size: int = 224,
    *,
    crop: float | None = None,
    interpolation: Interpolation = "bicubic",
    mean: Levels = 127,
    scale: Levels = 128,
    channels_last: bool = False,
) -> Preprocess:
    """Images -> float32 batch: resized (Pillow, which smooths when it shrinks), then (pixel - mean) / scale.

    Parameters
    ----------
    size : pixels of both sides.
    crop : None squeezes the whole image into size x size, so that every region counts; a number such as 224/256 takes
        the square in the middle whose side is that share of the shorter side: regions outside it can never matter.
    interpolation : "nearest", "bilinear" or "bicubic".
    mean, scale : grey levels from 0 to 255, one number or one per channel.
    channels_last : whether the batch is (n, size, size, 3).

    Examples
    --------
    >>> preprocess(4)([np.full((6, 8, 3), 255, np.uint8)]).shape
    (1, 3, 4, 4)
    """
    if crop is not None and not 0 < crop <= 1:
        raise InputError(f"crop must be a share of the shorter side such as 224/256, or None, got {crop!r}")
    one_of("interpolation", interpolation, ("nearest", "bilinear", "bicubic"))
    if (np.asarray(scale, dtype=float) == 0).any():
        raise InputError("scale divides the pixels and cannot be 0")
    levels = _three(mean, "mean"), _three(scale, "scale")
    return Preprocess(whole("size", size, 1), crop, interpolation, *levels, bool(channels_last))


def _three(value: Levels, what: str) -> tuple[float, float, float]:
    try:
        red, green, blue = np.broadcast_to(np.asarray(value, dtype=np.float64), 3).tolist()
    except ValueError as error:
        raise InputError(f"{what} must be one number or three (red, green, blue), got {value!r}") from error
    return red, green, blue


PRESETS: dict[str, Preprocess] = {
    "whole": preprocess(),  # the whole image, (pixel - 127) / 128
    "crop": preprocess(crop=224 / 256),  # the middle, likewise: EfficientNet-Lite and other TensorFlow exports
    "imagenet-whole": preprocess(interpolation="bilinear", mean=IMAGENET_MEAN, scale=IMAGENET_SCALE),
    "imagenet-crop": preprocess(crop=224 / 256, interpolation="bilinear", mean=IMAGENET_MEAN, scale=IMAGENET_SCALE),
    "inception-whole": preprocess(299, interpolation="bilinear", mean=127.5, scale=127.5),
    "inception-crop": preprocess(299, crop=299 / 342, interpolation="bilinear", mean=127.5, scale=127.5),
}


def as_preprocess(given: object) -> Prepare:
    """A preset by name, or any function from a list of images to a batch."""
    if isinstance(given, str):
        if given not in PRESETS:
            raise InputError(
                f"unknown preprocessing {given!r}; presets are {', '.join(PRESETS)}, or use preprocess(...)"
            )
        return PRESETS[given]
    if not callable(given):
        raise InputError(f"preprocess must be a preset's name or a function images -> batch, got {given!r}")
    return given
