"""What goes on across the edge of a region: jumps, sharpness and colour, just inside against just outside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from butfor.core.types import Array, Bools, Floats, Ints
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
    edge = _edge_of(np.packbits(inside).tobytes(), inside.shape)
    pixels = part.reshape(-1, 3)
    seam, energy = _seam(pixels, edge), _energy(pixels, edge)
    strong, weak = (group.means(energy) for group in edge.sides)
    usable = np.isfinite(strong) & np.isfinite(weak)
    if usable.sum() < 3:  # hardly any edge inside the image
        return np.array([seam, 0.0, 0.0])
    sharpness = np.median(np.log(strong[usable] + 0.5) - np.log(weak[usable] + 0.5))
    return np.array([seam, -float(sharpness), _colour_step(pixels, edge)])


@dataclass(frozen=True, eq=False)
class Group:
    """Some pixels beside an edge, by the part of it that they belong to."""

    used: Ints  # places among the pixels of the band
    sector: Ints
    count: Floats  # (SECTORS,) NaN where there are too few

    def means(self, values: Array) -> Floats:
        """Means over the parts of the edge (SECTORS,), of values of all pixels of the band."""
        return np.asarray(np.bincount(self.sector, values[self.used], SECTORS) / self.count)


@dataclass(frozen=True, eq=False)
class Edge:
    """Where to look for the edge of a region: all patches of one shape have the same. Pixels count row by row."""

    band: Ints  # (n,) pixels beside the edge
    beside: tuple[tuple[Ints, Bools], ...]  # of each the next to the right and below, and whether it is on its side
    sides: tuple[Group, Group]  # inside and outside; of those with such a neighbour
    colours: tuple[Group, Group, Group, Group]  # next to the edge inside and outside, then the rest of either side
    crossing: tuple[tuple[Ints, Ints], ...]  # neighbours on two sides, down and across
    near: tuple[tuple[Ints, Ints], ...]  # neighbours right beside those


@lru_cache(maxsize=64)
def _edge_of(held: bytes, shape: tuple[int, int]) -> Edge:
    """What there is to look at along the edge of a mask: found once for patches of the same shape."""
    height, width = shape
    inside = np.unpackbits(np.frombuffer(held, np.uint8), count=height * width).reshape(shape).astype(bool)
    inner, outer = _near(inside, BAND)
    where, side = np.nonzero(inner | outer), inside[inner | outer]
    sector, strip = _sectors(inside, where), np.logical_or(*_near(inside, STRIP))[where]
    band = where[0] * width + where[1]
    beside = tuple(_neighbour(inside, where, axis) for axis in (1, 0))
    known = beside[0][1] | beside[1][1]
    crossing, near = zip(*(_pairs(inside, axis) for axis in (0, 1)), strict=True)
    return Edge(
        band,
        beside,
        (_group(side & known, sector), _group(~side & known, sector)),
        (
            _group(side & strip, sector),
            _group(~side & strip, sector),
            _group(side & ~strip, sector),
            _group(~side & ~strip, sector),
        ),
        crossing,
        near,
    )


def _group(used: Bools, sector: Ints) -> Group:
    count = np.bincount(sector[used], minlength=SECTORS).astype(float)
    count[count < LEAST] = np.nan
    return Group(np.flatnonzero(used), sector[used], count)


def _neighbour(inside: Bools, where: tuple[Array, ...], axis: int) -> tuple[Ints, Bools]:
    """The next pixels along an axis, as places, and whether there is one on the same side of the edge."""
    there = np.minimum(where[axis] + 1, inside.shape[axis] - 1)
    row, column = (there, where[1]) if axis == 0 else (where[0], there)
    same = (inside[row, column] == inside[where]) & (there > where[axis])
    return row * inside.shape[1] + column, same


def _pairs(inside: Bools, axis: int) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Neighbours along an axis, as places: on two sides of the edge, and right beside such."""
    crossing = np.diff(inside, axis=axis)
    near = np.zeros_like(crossing)
    for step in (1, 2):
        ahead, behind = _cut(axis, step, None), _cut(axis, None, -step)
        near[ahead] |= crossing[behind]
        near[behind] |= crossing[ahead]
    near &= ~crossing
    width = inside.shape[1]

    def places(found: Bools) -> tuple[Ints, Ints]:
        rows, columns = np.nonzero(found)
        first = rows * width + columns
        return first, first + (width if axis == 0 else 1)

    return places(crossing), places(near)


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


def _energy(pixels: Image, edge: Edge) -> Floats:
    """Differences (n,) of pixels of the band from the next to the right and below, those on their side of the edge."""
    grey = pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    own = grey[edge.band]
    total, count = np.zeros(len(own)), np.zeros(len(own))
    for there, same in edge.beside:
        total += np.abs(grey[there] - own) * same
        count += same
    return total / np.maximum(count, 1)


def _colour_step(pixels: Image, edge: Edge) -> float:
    """How far colours are moved across the edge on all of its parts alike, beside how far they move next to it."""
    channels = pixels[edge.band].astype(np.float64)
    inner, outer, within, without = (
        np.stack([group.means(channels[:, k]) for k in range(3)], axis=1) for group in edge.colours
    )
    beside = [np.linalg.norm(one - other, axis=1) for one, other in ((inner, within), (outer, without))]
    steps, usual = inner - outer, np.mean(beside, axis=0)
    usable = np.isfinite(steps).all(axis=1) & np.isfinite(usual)
    if usable.sum() < 3:
        return 0.0
    return float(np.linalg.norm(np.median(steps[usable], axis=0)) / (np.median(usual[usable]) + 2))


def _seam(pixels: Image, edge: Edge) -> float:
    """How much larger jumps between neighbouring pixels are across the edge of a region than beside it (a log)."""
    crossing, near = (sum(len(first) for first, _ in pairs) for pairs in (edge.crossing, edge.near))
    if not crossing or not near:
        return 0.0
    across, beside = (sum(_jumps(pixels, *pair) for pair in pairs) for pairs in (edge.crossing, edge.near))
    return float(np.log((across / crossing + FLOOR) / (beside / near + FLOOR)))


def _jumps(pixels: Image, first: Ints, second: Ints) -> float:
    """The sum of jumps in lightness between pairs of pixels."""
    one, other = (pixels[places].astype(np.float32).mean(axis=1) for places in (first, second))
    return float(np.abs(other - one).sum())


def _cut(axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    return tuple(slice(start, stop) if k == axis else slice(None) for k in range(2))
