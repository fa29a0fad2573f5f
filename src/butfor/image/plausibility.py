"""How unlike the rest of the picture a fill is: its texture and seam, ranked among real patches of the same image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.core.types import Bools, Floats, Ints, Subset
from butfor.image.blend import empty
from butfor.image.region import Box, Image, at, bounds, grown, mask_of
from butfor.image.windows import box_sums, integral
from butfor.models.optional import need

FLAG = 0.05  # scores below this are flagged
WINDOWS, LIKE = 1200, 100  # real patches looked at, and how many of them, the likest around, a fill is ranked among
SHAPES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18)  # sizes of the real patches, as shares of the region's
FLOOR = 4.0  # squared grey levels: differences that nobody sees count for nothing


@dataclass(frozen=True)
class Plausibility:
    """Ranks between 0 and 1 among real patches; small is implausible.

    Parameters
    ----------
    score : at most twice the smaller of the two.
    texture, seam : how many real patches have so odd a texture, and so sharp an edge.
    """

    score: float
    texture: float
    seam: float

    @property
    def flagged(self) -> bool:
        return self.score < FLAG


@dataclass(frozen=True, eq=False)
class Judge:
    """What real patches of one image look like where their surroundings are like those of one region. See `judge`."""

    mask: Bools
    around: Floats  # (features,) of the ring around the region
    contrasts: Floats  # (n, features) of the likest real patches, against their own rings
    seams: Floats  # (n,)

    def __call__(self, counterfactuals: Sequence[Image]) -> Floats:
        """One score for each counterfactual, (n,): what `butfor.plausible` takes."""
        return np.array([self.look(image).score for image in counterfactuals], np.float64)

    def look(self, counterfactual: Image) -> Plausibility:
        """The score of one counterfactual and what it is made of."""
        if not len(self.contrasts):
            return Plausibility(1.0, 1.0, 1.0)  # nothing to compare with, nothing to say
        around = at(grown(bounds(self.mask), 8, *self.mask.shape))
        inside = self.mask[around]
        inner = _summary(_maps(counterfactual[around])[:, inside].mean(axis=1))
        centre = np.median(self.contrasts, axis=0)
        spread = 1.4826 * np.median(np.abs(self.contrasts - centre), axis=0) + 0.05
        real = (((self.contrasts - centre) / spread) ** 2).sum(axis=1)
        texture = _rank(float((((inner - self.around - centre) / spread) ** 2).sum()), real)
        seam = _rank(seam_of(counterfactual[around], inside), self.seams)
        return Plausibility(min(1.0, 2 * min(texture, seam)), texture, seam)


def judge(image: Image, subset: Subset) -> Judge:
    """A score for counterfactuals of one region of one image: `judge(image, subset)(counterfactuals)`.

    `butfor.plausible(sampler, butfor.image.judge, 0.05)` lets only those through that score at least so much.

    Texture is fine and coarse detail, contrast and colour, inside against just outside; a seam is a jump across the
    region's edge beyond the jumps beside it. Both are ranked among real patches of the image outside the region, those
    whose surroundings are most like the region's: 0.02 means that hardly any real patch is as odd. Nothing of what was
    in the region is looked at. It finds smears, seams and things out of place, not what only a person would see: a
    second airship is as plausible to it as the first. Of the paper's 222 hand-drawn boxes it flags 35 % as they are
    (people draw boxes around what stands out), 42 % filled by MI-GAN, 83 % by `telea` and 99 % painted over.

    Parameters
    ----------
    image : the photograph as it is.
    subset : the region that the counterfactuals fill.

    Examples
    --------
    >>> sky = np.random.default_rng(0).normal(160, 4, (120, 160, 3)).clip(0, 255).astype(np.uint8)
    >>> subset, smeared = Subset("sky", (40, 30, 100, 80)), sky.copy()
    >>> smeared[30:80, 40:100] = 160
    >>> real, fake = judge(sky, subset)([sky, smeared])
    >>> bool(real > FLAG > fake)
    True
    """
    mask = mask_of(subset, *image.shape[:2])
    box = bounds(mask)
    maps = _maps(empty(image, mask))  # blurring must not carry out what was in there
    around_box = at(grown(box, _margin(box), *mask.shape))
    ring = ~mask[around_box]
    places = _places(box, mask) if ring.any() else np.zeros((0, 4), np.int64)
    if not len(places):
        return Judge(mask, np.zeros(len(maps)), np.zeros((0, len(maps))), np.zeros(0))
    around = _summary(maps[:, *around_box][:, ring].mean(axis=1))
    inner, rings = _windows(maps, places)
    unlike = (((rings - around) / (rings.std(axis=0) + 0.1)) ** 2).sum(axis=1)
    likest = np.argsort(unlike, kind="stable")[:LIKE]
    seams = np.array([_box_seam(image, tuple(places[i].tolist())) for i in likest])
    return Judge(mask, around, (inner - rings)[likest], seams)


judge.per_region = True  # type: ignore[attr-defined]  # `butfor.plausible` makes one for each region


def _maps(image: Image) -> Floats:
    """Seven numbers for each pixel, (7, height, width): energies at three scales, contrast's two moments, colour."""
    cv2 = need("cv2", "image")

    pixels = image.astype(np.float32)
    grey = pixels @ np.array([0.299, 0.587, 0.114], np.float32)
    one, two, four = (cv2.GaussianBlur(grey, (0, 0), sigma) for sigma in (1.0, 2.5, 6.0))
    red, blue = pixels[..., 0] - grey, pixels[..., 2] - grey
    energies = (grey - one) ** 2, (one - two) ** 2, (two - four) ** 2
    return np.stack([*energies, four**2, four, red, blue]).astype(np.float64)


def _summary(means: Floats) -> Floats:
    """Comparable numbers from means of the maps, (7, ...) -> (7, ...): logs of energies, and colours in steps of 8."""
    fine, middle, coarse, square, light, red, blue = means
    smooth = np.log(np.maximum(square - light**2, 0) + FLOOR)
    energies = (np.log(energy + FLOOR) for energy in (fine, middle, coarse))
    return np.stack([*energies, smooth, light / 8, red / 8, blue / 8])


def _margin(box: Box) -> int:
    return int(np.clip(0.2 * min(box[2] - box[0], box[3] - box[1]), 4, 24))


def _places(box: Box, mask: Bools) -> Ints:
    """Real patches that touch nothing of the region, (n, 4), of its shape and smaller, spread evenly."""
    height, width = mask.shape
    taken = integral(mask)
    found: list[Ints] = []
    for share in SHAPES:
        across, down = (max(6, round(share * side)) for side in (box[2] - box[0], box[3] - box[1]))
        margin = _margin((0, 0, across, down))
        step = max(1, int(np.sqrt(height * width / WINDOWS)))
        x = np.arange(margin, width - across - margin + 1, step)
        y = np.arange(margin, height - down - margin + 1, step)[:, None]
        if not x.size or not y.size:
            continue
        inside = box_sums(taken, x - margin, y - margin, x + across + margin, y + down + margin)
        rows, columns = np.nonzero(inside == 0)
        found.append(np.stack([x[columns], y[rows, 0], x[columns] + across, y[rows, 0] + down], axis=1))
        if sum(map(len, found)) >= 2 * LIKE:
            break
    return np.concatenate(found) if found else np.zeros((0, 4), np.int64)


def _windows(maps: Floats, places: Ints) -> tuple[Floats, Floats]:
    """Summaries (n, features) of the patches and of the rings around them."""
    summed = integral(maps)
    x1, y1, x2, y2 = places.T
    margin = np.clip(0.2 * np.minimum(x2 - x1, y2 - y1), 4, 24).astype(int)
    inner = box_sums(summed, x1, y1, x2, y2)
    outer = box_sums(summed, x1 - margin, y1 - margin, x2 + margin, y2 + margin)
    area = (x2 - x1) * (y2 - y1)
    rim = (x2 - x1 + 2 * margin) * (y2 - y1 + 2 * margin) - area
    return _summary(inner / area).T, _summary((outer - inner) / rim).T


def _box_seam(image: Image, box: tuple[int, ...]) -> float:
    x1, y1, x2, y2 = box
    inside = np.zeros((y2 - y1 + 8, x2 - x1 + 8), np.bool_)
    inside[4:-4, 4:-4] = True
    return seam_of(image[y1 - 4 : y2 + 4, x1 - 4 : x2 + 4], inside)


def seam_of(image: Image, inside: Bools) -> float:
    """How much larger jumps between neighbouring pixels are across the edge of a region than right beside it (a log).

    >>> flat = np.zeros((9, 9, 3), np.uint8)
    >>> seam_of(flat, np.pad(np.ones((5, 5), bool), 2))
    0.0
    """
    grey = image.astype(np.float32).mean(axis=2)
    across, beside, counts = 0.0, 0.0, [0, 0]
    for axis in (0, 1):
        jump = np.abs(np.diff(grey, axis=axis))
        crossing = np.diff(inside, axis=axis)
        near = np.zeros_like(crossing)
        for step in (1, 2):
            ahead, behind = _cut(axis, step, None), _cut(axis, None, -step)
            near[ahead] |= crossing[behind]
            near[behind] |= crossing[ahead]
        near &= ~crossing
        across, beside = across + float(jump[crossing].sum()), beside + float(jump[near].sum())
        counts = [counts[0] + int(crossing.sum()), counts[1] + int(near.sum())]
    if not counts[0] or not counts[1]:
        return 0.0
    return float(np.log((across / counts[0] + FLOOR) / (beside / counts[1] + FLOOR)))


def _cut(axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    return tuple(slice(start, stop) if k == axis else slice(None) for k in range(2))


def _rank(value: float, real: Floats) -> float:
    return (1 + int((real >= value).sum())) / (len(real) + 1)  # ties speak for the fill
