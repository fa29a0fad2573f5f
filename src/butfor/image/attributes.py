"""Attributes: properties of the entire image as subsets, and the sampler that redraws them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.evaluation.samplers import HasNotes, Sampler, SamplerInfo, info_of
from butfor.image.cache import Cached
from butfor.image.region import Attribute, Image, Transform, check_image, described, is_region
from butfor.models.wrap import need
from butfor.types import Array, Floats, InputError, ModelError, Subset, reworded


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
    return _uint8(cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB) * gains)


def greyscale(image: Image, rng: np.random.Generator) -> Image:
    """Convert to grey with random channel weights, as black-and-white films of different sensitivity do.

    >>> grey = greyscale(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), np.random.default_rng(0))
    >>> bool((grey[..., 0] == grey[..., 2]).all())
    True
    """
    weights = rng.dirichlet(12 * np.array([0.299, 0.587, 0.114]))
    return np.repeat(_uint8(image @ weights)[..., None], 3, axis=2)


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
    return _uint8(smooth + shuffled[:height, :width])


def brightness(image: Image, rng: np.random.Generator) -> Image:
    """Make the image lighter or darker by a gamma curve from 1/2 to 2; black and white stay.

    >>> brightness(np.full((1, 1, 3), 255, np.uint8), np.random.default_rng(0)).tolist()
    [[[255, 255, 255]]]
    """
    return _uint8(255 * (image / 255.0) ** (2 ** rng.uniform(-1, 1)))


def blur(image: Image, rng: np.random.Generator) -> Image:
    """Blur by a Gaussian of half a percent to three percent of the shorter side; colours stay.

    >>> blur(np.zeros((40, 30, 3), np.uint8), np.random.default_rng(0)).shape
    (40, 30, 3)
    """
    cv2 = need("cv2", "image")
    width = max(0.5, rng.uniform(0.005, 0.03) * min(image.shape[:2]))
    return _uint8(np.asarray(cv2.GaussianBlur(image.astype(np.float32), (0, 0), width)).reshape(image.shape))


def skin(image: Image, rng: np.random.Generator, mask: Floats) -> Image:
    """Give the skin under a mask another tone, from very light to very dark; its shading stays.

    Tones are drawn by their individual typology angle (Chardon et al. 1991), uniformly from 55 to -50 degrees.

    >>> skin(np.zeros((4, 4, 3), np.uint8), np.random.default_rng(0), np.ones((4, 4))).shape
    (4, 4, 3)
    """
    angle, yellow = np.deg2rad(rng.uniform(-50, 55)), rng.uniform(14, 20)
    return _toned(image, mask, (50 + yellow * np.tan(angle), rng.uniform(9, 15), yellow))


def hair(image: Image, rng: np.random.Generator, mask: Floats) -> Image:
    """Give the hair under a mask another colour: between black, brown, blond, red and grey; its shading stays.

    >>> hair(np.zeros((4, 4, 3), np.uint8), np.random.default_rng(0), np.ones((4, 4))).shape
    (4, 4, 3)
    """
    colours = np.array([(12, 1, 1), (27, 8, 11), (66, 6, 30), (40, 24, 28), (62, 0, 3)], float)  # L, a, b
    return _toned(image, mask, rng.dirichlet(np.full(len(colours), 0.3)) @ colours)


def _toned(image: Image, mask: Floats, tone: Sequence[float] | Floats) -> Image:
    """Move the mean colour under the mask to `tone` in CIE L*a*b*; what differs from the mean goes along."""
    cv2 = need("cv2", "image")
    lab = np.asarray(cv2.cvtColor(np.ascontiguousarray(image, np.float32) / 255, cv2.COLOR_RGB2LAB)).astype(float)
    mean = np.average(lab.reshape(-1, 3), axis=0, weights=mask.ravel())
    lightness = np.clip(tone[0] / max(mean[0], 1.0), 0.4, 2.5)  # shading is a share of the light
    moved = tone + (lab - mean) * [lightness, 1, 1]
    moved[..., 0] = np.clip(moved[..., 0], 0, 100)
    return _uint8(255 * np.asarray(cv2.cvtColor(moved.astype(np.float32), cv2.COLOR_LAB2RGB)))


def _uint8(image: Floats) -> Image:
    return np.asarray(np.clip(np.rint(image), 0, 255), np.uint8)


BUILT_IN: dict[str, Transform] = {
    "colour": colour,
    "greyscale": greyscale,
    "texture": texture,
    "brightness": brightness,
    "blur": blur,
}
OF_A_MASK: dict[str, Callable[[Image, np.random.Generator, Floats], Image]] = {"skin": skin, "hair": hair}
Mask = Array | Mapping[str, Array] | Callable[[Image], Array]


@dataclass(frozen=True, eq=False)
class Masked:
    """A transformation that changes the image under a mask only."""

    transform: str | Transform
    mask: Floats  # (height, width), from 0 to 1

    def __call__(self, image: Image, rng: np.random.Generator) -> Image:
        if isinstance(self.transform, str) and self.transform in OF_A_MASK:
            made = OF_A_MASK[self.transform](image, rng, self.mask)
        else:
            made = _transform(self.transform)(image.copy(), rng)
        if getattr(made, "shape", None) != image.shape:
            return made  # refused by whoever called
        return _uint8(image + self.mask[..., None] * (made.astype(np.float64) - image))


def _transform(given: str | Transform) -> Transform:
    return BUILT_IN[given] if isinstance(given, str) else given


@dataclass(frozen=True, eq=False)
class Attributes:
    """The same attributes for every image, some of them under a mask. Made by `attributes`."""

    chosen: tuple[tuple[str, str | Transform], ...]
    masks: Mapping[str, Mask]

    @property
    def blind(self) -> bool:
        """Return True if they are chosen without looking at the image; a mask of its own has looked."""
        return all(isinstance(mask, np.ndarray) for mask in self.masks.values())

    def __call__(self, name: object, image: Image) -> list[Subset]:
        subsets = []
        for title, transform in self.chosen:
            if title not in self.masks:
                subsets.append(Subset(title, Attribute(title, _transform(transform))))
            elif (mask := _mask_of(title, self.masks[title], str(name), image)) is not None:
                subsets.append(Subset(title, Attribute(title, Masked(transform, mask))))
        return subsets


def _mask_of(title: str, given: Mask, name: str, image: Image) -> Floats | None:
    """Return the mask of an image, from 0 to 1, or None where it marks no pixel."""
    if isinstance(given, Mapping):
        if name not in given:
            raise InputError(f"the mask of {title!r} has none for image {name!r}; give one for each, zeros where none")
        mask = np.asarray(given[name])
    elif callable(given):
        with reworded(f"the mask of {title!r} raised ", by=ModelError, named=True):
            mask = np.asarray(given(image.copy()))
    else:
        mask = np.asarray(given)
    if mask.shape != image.shape[:2] or mask.dtype.kind not in "buif":
        raise InputError(
            f"the mask of {title!r} for image {name!r} is {described(mask)}; expected {image.shape[:2]} as the image "
            "has, True or 1 in the part"
        )
    mask = mask.astype(np.float64)
    if not (np.isfinite(mask).all() and mask.min() >= 0 and mask.max() <= 1):
        raise InputError(f"the mask of {title!r} for image {name!r} must lie between 0 and 1; divide it by its largest")
    return mask if mask.any() else None


def attributes(*names: str, masks: Mapping[str, Mask] | None = None, **transforms: str | Transform) -> Attributes:
    """Test properties of the entire image or of a part: "Does the model rely on texture?" is one more hypothesis.

    Parameters
    ----------
    *names : {"colour", "texture", "greyscale", "brightness", "blur", "skin", "hair"}
        Built-in attributes. "skin" and "hair" give the pixels under their mask another natural colour.
    masks : dict, optional
        {attribute: mask} confines an attribute to a part: an array (height, width), from 0 to 1, for all images, such
        an array for each image by name, or a function image -> mask. Images in which a mask is empty are left out.
    **transforms : callable or str
        name=function `(image, rng) -> image` of the same size: a style transfer, say; or name="colour", a built-in
        attribute under another name, for its own mask.

    Returns
    -------
    Attributes
        A function (name, image) -> subsets.

    Examples
    --------
    >>> mirrored = attributes("texture", mirrored=lambda image, rng: image[:, :: rng.choice([-1, 1])])
    >>> [subset.name for subset in mirrored("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    ['texture', 'mirrored']
    >>> shirts = attributes("skin", shirt="colour", masks={"skin": np.eye(4), "shirt": lambda image: image[..., 0] > 9})
    >>> [subset.name for subset in shirts("a.jpg", np.zeros((4, 4, 3), np.uint8))]
    ['skin']
    """
    built_in, masks = [*BUILT_IN, *OF_A_MASK], dict(masks or {})
    unknown = [name for name in names if name not in built_in]
    if unknown or not (names or transforms):
        came = ", ".join(map(repr, unknown)) or "nothing"
        raise InputError(f"attributes are {', '.join(built_in)}, or name=function of your own; got {came}")
    for name, transform in transforms.items():
        if not callable(transform) and transform not in built_in:
            raise InputError(
                f"attribute {name!r} must be a function (image, rng) -> image, or one of {', '.join(built_in)}, got "
                f"{transform!r}"
            )
    chosen: dict[str, str | Transform] = {**{name: name for name in names}, **transforms}
    for name, transform in chosen.items():
        if name not in masks and isinstance(transform, str) and transform in OF_A_MASK:
            raise InputError(
                f"attribute {name!r} needs a mask: masks={{{name!r}: function image -> mask, or an array}}"
            )
    if stray := [name for name in masks if name not in chosen]:
        raise InputError(f"there is a mask for {stray[0]!r} but no attribute of that name; got {', '.join(chosen)}")
    return Attributes(tuple(chosen.items()), masks)


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
            with reworded(f"attribute {name!r} raised ", by=ModelError, named=True):
                made = subset.index.transform(image.copy(), rng)  # a user's function may write into its argument
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
