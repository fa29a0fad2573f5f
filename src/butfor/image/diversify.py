"""Sampler: draws from an inpainter that always gives the same fill, by changing what it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from butfor.core.draw.samplers import HasNotes, Sampler, SamplerInfo, info_of
from butfor.core.types import Bools, InputError, ModelError, Subset
from butfor.image.blend import empty, settle_seam, to_size
from butfor.image.region import Image, at, bounds, check_image, fill_each, grown
from butfor.models.optional import need

RING = 16  # pixels around the hole that get the noise


@dataclass(frozen=True)
class Diversify:
    """Fills of one inpainter for slightly different pictures of the same thing. Made by `diversify`."""

    inpainter: Sampler
    flip: bool
    scale: tuple[float, float]
    grow: int
    noise: float

    def __repr__(self) -> str:
        usual = (self.flip, self.scale, self.grow, self.noise) == (True, (0.8, 1.2), 4, 6.0)
        return f"diversify({self.inpainter!r})" if usual else self._spelt(repr(self.inpainter))

    @property
    def info(self) -> SamplerInfo:
        """That of the inpainter, but that it draws by chance; a fill is pasted, so nothing else can change."""
        inner = info_of(self.inpainter)
        return replace(inner, identity=self._spelt(inner.identity), deterministic=False, changes_subset_only=True)

    def notes(self, inputs: Sequence[Image], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:
        """What the inpainter has to say."""
        return self.inpainter.notes(inputs, subsets, seed) if isinstance(self.inpainter, HasNotes) else []

    def _spelt(self, inner: str) -> str:
        return f"diversify({inner}, flip={self.flip}, scale={self.scale}, grow={self.grow}, noise={self.noise:g})"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        def fill(image: Image, mask: Bools, rng: np.random.Generator) -> Image:
            return self.fill(image, mask, rng, subset.name)

        return fill_each(inputs, subset, draws, rng, fill)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator, name: str = "hole") -> Image:
        """One fill: the image flipped, scaled, with noise around the hole and the hole a little larger."""
        flip, scale = self.flip and rng.random() < 0.5, rng.uniform(*self.scale)
        larger, spread = _dilated(mask, int(rng.integers(self.grow + 1))), rng.uniform(0, self.noise)
        shown, hole = _resized(_noisy(empty(image, larger), larger, spread, rng), larger, scale)
        if flip:
            shown, hole = np.ascontiguousarray(shown[:, ::-1]), np.ascontiguousarray(hole[:, ::-1])
        made = self.inpainter([shown], Subset(name, hole), 1, rng)
        if len(made) != 1:
            raise ModelError(f"{self.inpainter!r} returned {len(made)} images for one image and one draw")
        check_image(made[0])
        filled = made[0][:, ::-1] if flip else made[0]
        if filled.shape != image.shape:
            filled = to_size(np.ascontiguousarray(filled), image.shape[1], image.shape[0])
        return settle_seam(image, np.ascontiguousarray(filled), mask, 2.0 * self.grow + 4, filled=larger)


def _dilated(mask: Bools, pixels: int) -> Bools:
    """The hole with so many pixels around it, unless that is the whole image."""
    cv2 = need("cv2", "image")

    if not pixels:
        return mask
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * pixels + 1, 2 * pixels + 1))
    larger = cv2.dilate(mask.astype(np.uint8), kernel) > 0
    return mask if larger.all() else larger


def _noisy(image: Image, hole: Bools, spread: float, rng: np.random.Generator) -> Image:
    """Noise of so many grey levels around the hole: what the inpainter continues is then not quite the same."""
    around = at(grown(bounds(hole), RING, *hole.shape))
    out, ring = image.copy(), ~hole[around]
    noise = rng.standard_normal((*ring.shape, 3), dtype=np.float32) * spread
    part = out[around]
    part[ring] = np.clip(np.rint(part[ring] + noise[ring]), 0, 255).astype(np.uint8)
    return out


def _resized(image: Image, hole: Bools, scale: float) -> tuple[Image, Bools]:
    """Both at another size; every pixel that has anything of the hole in it belongs to the hole."""
    height, width = hole.shape
    across, down = max(1, round(width * scale)), max(1, round(height * scale))
    small = to_size(hole.astype(np.float32), across, down) > 0
    if small.all() or not small.any():
        return image, hole
    return to_size(image, across, down), small


def diversify(
    inpainter: Sampler, *, flip: bool = True, scale: tuple[float, float] = (0.8, 1.2), grow: int = 4, noise: float = 6.0
) -> Diversify:
    """Draws from a deterministic inpainter, so that irt, sequential and few-shot can run on it.

    For every draw the inpainter is shown a slightly different picture. The fill is pasted into the hole proper, and
    what it is off by just outside fades over a few pixels inside: no seam. The inpainter sees nothing of what was in
    the hole. How far the draws spread is a choice, not a law: look at them (`check_sampler`, gallery).

    Parameters
    ----------
    inpainter : any sampler of images.
    flip : whether the image is mirrored, every other time.
    scale : it is resized by a factor between these two.
    grow : the hole is grown by 0 to so many pixels.
    noise : grey levels of the noise in a ring around the hole, at most.

    Examples
    --------
    >>> from butfor.image import telea
    >>> image = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    >>> one, two = diversify(telea())([image], Subset("box 1", (10, 10, 30, 30)), 2, np.random.default_rng(0))
    >>> bool((one != two).any()), bool((one[:10] == image[:10]).all())
    (True, True)
    """
    if not callable(inpainter):
        raise InputError(f"diversify needs an inpainter (any sampler of images), got {type(inpainter).__name__}")
    if not 0.1 <= scale[0] <= scale[1] <= 4:
        raise InputError(f"scale must be two factors between .1 and 4, smaller first, got {scale!r}")
    if isinstance(grow, bool) or not 0 <= grow <= 50 or not 0 <= noise <= 100:
        raise InputError(f"grow must be 0 to 50 pixels and noise 0 to 100 grey levels, got {grow!r} and {noise!r}")
    return Diversify(inpainter, bool(flip), (float(scale[0]), float(scale[1])), int(grow), float(noise))
