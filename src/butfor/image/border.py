"""What goes on across the edge of a region: jumps, sharpness and colour, just inside against just outside."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Array, Bools, Floats
from butfor.image.region import Image, at, bounds, grown
from butfor.models.optional import need

FLOOR = 4.0  # grey levels: differences that nobody sees count for nothing
BAND, STRIP, SECTORS = 6, 2, 32  # pixels beside the edge, those next to it, and parts of the edge
LEAST = 6  # pixels of a part on either side
NAMES = ("seam", "sharpness", "colour")


def border(image: Image, mask: Bools) -> Floats:
    """Three numbers, large where the edge of a region shows: jump, loss of sharpness, change of colour, (3,).

    Whatever is in a region, its edge runs through a real photograph as through any other place. So these say little of
    what a thing is, and much of whether it was put there. More detail inside is not odd: what people draw a box around
    is in focus, and what is behind it is not.

    >>> flat = np.full((40, 40, 3), 90, np.uint8)
    >>> hole = np.zeros((40, 40), bool)
    >>> hole[10:30, 10:30] = True
    >>> np.abs(border(flat, hole)).tolist()
    [0.0, 0.0, 0.0]
    >>> flat[hole] += 30
    >>> [round(value, 1) for value in np.abs(border(flat, hole)).tolist()]
    [2.1, 0.0, 26.0]
    """
    around = at(grown(bounds(mask), BAND + 2, *mask.shape))
    inside, part = mask[around], image[around]
    seam = seam_of(part, inside)
    inner, outer = _near(inside, BAND)
    where, side = np.nonzero(inner | outer), inside[inner | outer]
    sector = _sectors(inside, where)
    energy, known = _energy(part, inside)
    strong, weak = (_means(energy[where], sector, (side == one) & known[where]) for one in (True, False))
    usable = np.isfinite(strong) & np.isfinite(weak)
    if usable.sum() < 3:  # hardly any edge inside the image
        return np.array([seam, 0.0, 0.0])
    sharpness = np.median(np.log(strong[usable] + 0.5) - np.log(weak[usable] + 0.5))
    return np.array([seam, -float(sharpness), _colour_step(part, inside, where, side, sector)])


def _near(inside: Bools, width: int) -> tuple[Bools, Bools]:
    """Pixels at most so far from the edge, inside and outside; where the image ends there is no edge."""
    cv2 = need("cv2", "image")

    square = np.ones((2 * width + 1, 2 * width + 1), np.uint8)
    given = inside.astype(np.uint8)
    options = {"borderType": cv2.BORDER_REPLICATE}
    return inside & (cv2.erode(given, square, **options) == 0), ~inside & (cv2.dilate(given, square, **options) > 0)


def _sectors(inside: Bools, where: tuple[Array, ...]) -> Array:
    """The part of the edge that pixels belong to, by their direction from the middle."""
    left, top, right, bottom = bounds(inside)
    y = (where[0] - (top + bottom - 1) / 2) / max(1, bottom - top)
    x = (where[1] - (left + right - 1) / 2) / max(1, right - left)
    return ((np.arctan2(y, x) / (2 * np.pi) + 0.5) * SECTORS).astype(np.int64) % SECTORS


def _energy(image: Image, inside: Bools) -> tuple[Floats, Bools]:
    """Differences between neighbours on the same side of the edge, and where there are any."""
    grey = image.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    total, count = np.zeros(grey.shape), np.zeros(grey.shape)
    for here, there in (((slice(None), slice(-1)), (slice(None), slice(1, None))), ((slice(-1),), (slice(1, None),))):
        same = inside[here] == inside[there]
        total[here] += np.abs(grey[there] - grey[here]) * same
        count[here] += same
    return total / np.maximum(count, 1), count > 0


def _means(values: Array, sector: Array, used: Bools) -> Floats:
    """Means over the parts of the edge, (SECTORS, ...), NaN where there are too few pixels."""
    count = np.bincount(sector[used], minlength=SECTORS).astype(float)
    count[count < LEAST] = np.nan
    return np.asarray(np.bincount(sector[used], values[used], SECTORS) / count)


def _colour_step(part: Image, inside: Bools, where: tuple[Array, ...], side: Bools, sector: Array) -> float:
    """How far colours are moved across the edge on all of its parts alike, beside how far they move next to it."""
    near = np.logical_or(*_near(inside, STRIP))[where]
    channels = part[where].astype(np.float64)

    def means(used: Bools) -> Floats:
        return np.stack([_means(channels[:, k], sector, used) for k in range(3)], axis=1)

    inner, outer = means(side & near), means(~side & near)
    beside = [
        np.linalg.norm(one - means(used), axis=1) for one, used in ((inner, side & ~near), (outer, ~side & ~near))
    ]
    steps, usual = inner - outer, np.mean(beside, axis=0)
    usable = np.isfinite(steps).all(axis=1) & np.isfinite(usual)
    if usable.sum() < 3:
        return 0.0
    return float(np.linalg.norm(np.median(steps[usable], axis=0)) / (np.median(usual[usable]) + 2))


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
