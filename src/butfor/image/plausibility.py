"""The judge of fills: how odd a fill looks among real patches, by its edge and texture, as a conformal p-value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from butfor.evaluation.hypotheses import Hypotheses
from butfor.evaluation.items import digest
from butfor.evaluation.samplers import SamplerInfo
from butfor.image.inpainters import empty
from butfor.image.region import Box, Image, at, bounds, box_sums, grown, integral, is_region, mask_of
from butfor.models.wrap import need
from butfor.results.result import Kept
from butfor.results.words import Note
from butfor.types import Array, Bools, Floats, Ints, Subset

FLOOR = 4.0  # grey levels: differences that nobody sees count for nothing
BAND, SECTORS = 6, 32  # pixels beside the edge, and parts of the edge


def border(image: Image, mask: Bools) -> Floats:
    """Return three numbers (3,), large where the edge of a region shows: jump, loss of sharpness, change of colour.

    Whatever is in a region, its edge runs through a real photograph like any other line. So these say little of what a
    thing is, and much of whether it was put there. More detail inside is not odd: what people draw a box around is in
    focus, and what is behind it is not.

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
    inside, pixels = mask[around], image[around].reshape(-1, 3)
    edge = _edge_of(np.packbits(inside).tobytes(), inside.shape)

    def jumps(pairs: tuple[tuple[Ints, Ints], ...]) -> tuple[float, int]:
        """Return the sum of jumps in lightness between pairs of pixels, and the number of pairs."""
        total = 0.0
        for indices in pairs:
            one, other = (pixels[index].astype(np.float32).mean(axis=1) for index in indices)
            total += float(np.abs(other - one).sum())
        return total, sum(len(first) for first, _ in pairs)

    seam = 0.0  # log ratio of jumps between neighbouring pixels across the edge to those beside it
    (across, crossing), (beside, near) = jumps(edge.crossing), jumps(edge.near)
    if crossing and near:
        seam = float(np.log((across / crossing + FLOOR) / (beside / near + FLOOR)))
    grey = pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    here = grey[edge.band]
    total, count = np.zeros(len(here)), np.zeros(len(here))
    for there, same in edge.beside:
        total += np.abs(grey[there] - here) * same
        count += same
    inner, outer = (group.means(total / np.maximum(count, 1)) for group in edge.sides)
    usable = np.isfinite(inner) & np.isfinite(outer)
    if usable.sum() < 3:  # hardly any edge inside the image
        return np.array([seam, 0.0, 0.0])
    sharpness = np.median(np.log(inner[usable] + 0.5) - np.log(outer[usable] + 0.5))
    # how far colours move across the edge in all sectors alike, relative to how far they move beside it
    channels = pixels[edge.band].astype(np.float64)
    inner, outer, within, without = (
        np.stack([group.means(channels[:, k]) for k in range(3)], axis=1) for group in edge.colours
    )
    sides = [np.linalg.norm(one - other, axis=1) for one, other in ((inner, within), (outer, without))]
    steps, usual = inner - outer, np.mean(sides, axis=0)
    usable = np.isfinite(steps).all(axis=1) & np.isfinite(usual)
    colour = 0.0
    if usable.sum() >= 3:
        colour = float(np.linalg.norm(np.median(steps[usable], axis=0)) / (np.median(usual[usable]) + 2))
    return np.array([seam, -float(sharpness), colour])


@dataclass(frozen=True, eq=False)
class Group:
    """Pixels beside an edge, by the sector of the edge that they belong to."""

    index: Ints  # into the pixels of the band
    sector: Ints
    count: Floats  # (SECTORS,) NaN where there are too few

    def means(self, values: Array) -> Floats:
        return np.asarray(np.bincount(self.sector, values[self.index], SECTORS) / self.count)


@dataclass(frozen=True, eq=False)
class Edge:
    """The pixels along the edge of a region, as flat indices: the same for all patches of one shape."""

    band: Ints  # (n,) pixels beside the edge
    beside: tuple[tuple[Ints, Bools], ...]  # the next pixel to the right and below, and if it is on the same side
    sides: tuple[Group, ...]  # inside and outside; pixels with such a neighbour
    colours: tuple[Group, ...]  # next to the edge inside and outside, then the rest of either side
    crossing: tuple[tuple[Ints, Ints], ...]  # neighbours on two sides, down and across
    near: tuple[tuple[Ints, Ints], ...]  # neighbours right beside those


@lru_cache(maxsize=64)
def _edge_of(packed: bytes, shape: tuple[int, int]) -> Edge:
    height, width = shape
    inside = np.unpackbits(np.frombuffer(packed, np.uint8), count=height * width).reshape(shape).astype(bool)
    band = _near(inside, BAND)
    rows, columns = np.nonzero(band)
    side, close = inside[band], _near(inside, 2)[band]
    left, top, right, bottom = bounds(inside)
    y = (rows - (top + bottom - 1) / 2) / max(1, bottom - top)
    x = (columns - (left + right - 1) / 2) / max(1, right - left)
    sector = ((np.arctan2(y, x) / (2 * np.pi) + 0.5) * SECTORS).astype(np.int64) % SECTORS  # direction from the middle

    def group(used: Bools) -> Group:
        count = np.bincount(sector[used], minlength=SECTORS).astype(float)
        count[count < 6] = np.nan
        return Group(np.flatnonzero(used), sector[used], count)

    right_of, below = np.minimum(columns + 1, width - 1), np.minimum(rows + 1, height - 1)
    beside = (
        (rows * width + right_of, (inside[rows, right_of] == side) & (right_of > columns)),
        (below * width + columns, (inside[below, columns] == side) & (below > rows)),
    )
    known = beside[0][1] | beside[1][1]
    crossing, near = zip(*(_pairs(inside, axis) for axis in (0, 1)), strict=True)
    sides = group(side & known), group(~side & known)
    colours = group(side & close), group(~side & close), group(side & ~close), group(~side & ~close)
    return Edge(rows * width + columns, beside, sides, colours, crossing, near)


def _near(inside: Bools, width: int) -> Bools:
    """Return the pixels at most so far from the edge; where the image ends there is no edge."""
    cv2 = need("cv2", "image")
    square, given = np.ones((2 * width + 1, 2 * width + 1), np.uint8), inside.astype(np.uint8)
    eroded, dilated = (change(given, square, borderType=cv2.BORDER_REPLICATE) for change in (cv2.erode, cv2.dilate))
    return np.asarray(np.where(inside, eroded == 0, dilated > 0))


def _pairs(inside: Bools, axis: int) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Return neighbours along an axis, as flat indices: on two sides of the edge, and right beside such."""
    crossing = np.diff(inside, axis=axis)
    near = np.zeros_like(crossing)
    for step in (1, 2):
        ahead, behind = ((np.s_[step:], np.s_[:-step]), (np.s_[:, step:], np.s_[:, :-step]))[axis]
        near[ahead] |= crossing[behind]
        near[behind] |= crossing[ahead]
    near &= ~crossing
    width = inside.shape[1]

    def indices(chosen: Bools) -> tuple[Ints, Ints]:
        rows, columns = np.nonzero(chosen)
        first = rows * width + columns
        return first, first + (width if axis == 0 else 1)

    return indices(crossing), indices(near)


FLAG = 0.05  # scores below this are flagged
LIKE = 100  # real patches that a fill is ranked among
ENOUGH = 60  # regions of other images of a run, from which on a fill is ranked among those


@dataclass(frozen=True)
class Plausibility:
    """Conformal p-values of a fill among real patches, small is implausible: `score`, and those of each number."""

    score: float
    texture: float
    seam: float  # jump across the edge
    sharpness: float  # loss of detail
    colour: float  # change across the edge

    @property
    def flagged(self) -> bool:
        return self.score < FLAG


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores fills of one region. Made by `judge`."""

    mask: Bools
    texture: Texture | None
    real: Floats  # (n, 4) of real patches: seam, sharpness, colour, texture
    scored: int = 4  # the score is made of the first so many of these numbers

    def __call__(self, counterfactuals: Sequence[Image]) -> Floats:
        """Return a score for each counterfactual, (n,): what `butfor.plausible` takes."""
        return np.array([self.look(image).score for image in counterfactuals], np.float64)

    def look(self, counterfactual: Image) -> Plausibility:
        if self.texture is None or not len(self.real):
            return Plausibility(1.0, 1.0, 1.0, 1.0, 1.0)  # nothing to compare with
        odd = oddness(counterfactual, self.mask, self.texture)
        score = conformal(odd[: self.scored], self.real[:, : self.scored])[0]
        seam, sharpness, colour, texture = conformal(odd, self.real)[1]
        return Plausibility(score, texture, seam, sharpness, colour)


def oddness(image: Image, mask: Bools, texture: Texture) -> Floats:  # (4,) seam, sharpness, colour, texture
    return np.array([*border(image, mask), texture.distance(image, mask)])


def conformal(odd: Floats, real: Floats) -> tuple[float, list[float]]:
    """Return the conformal p-value of one patch among real ones, and that of each of its numbers.

    A patch is as odd as its most extreme number; of two that are equal there, as the next. All are treated alike, the
    one in question among them: a real patch that is exchangeable with the others gets a score of at most u with a
    probability of at most u.

    >>> conformal(np.array([9.0, 0.0]), np.array([[1.0, 5.0], [2.0, 1.0], [3.0, 2.0]]))
    (0.5, [0.25, 1.0])
    """
    every = np.vstack([odd, real])
    above = np.sort(every, axis=0)
    n = len(every)
    shares = np.stack([n - np.searchsorted(above[:, k], every[:, k]) for k in range(every.shape[1])], axis=1) / n
    extreme = np.sort(shares, axis=1) @ (1.0 / (4.0 * n)) ** np.arange(shares.shape[1])
    return float((extreme <= extreme[0]).mean()), shares[0].tolist()  # ties count for the fill


def judge(image: Image, subset: Subset) -> Judge:
    """Score counterfactuals of one region of one image: `judge(image, subset)(counterfactuals)`.

    The score is the share of real patches of the same image, outside the region and of its shape where there is room,
    that look at least as odd: 0.02 means that hardly any does. Odd is a jump, a loss of detail or a change of colour
    along the region's edge beyond what there is beside it. The judge detects smears and seams, not what only a person
    would see: a second airship is as plausible to it as the first.

    People draw boxes around what differs from its surroundings, and that alone is not odd: so a texture unlike that
    just outside has a number (`judge(image, subset).look(fill).texture`), but is no part of this score. In a run with
    60 regions and more in other images a fill is ranked among the real content of those, by its edge and its texture.
    `butfor.plausible(sampler, butfor.image.judge, 0.05)` accepts only fills that score at least so much.

    Parameters
    ----------
    image : ndarray
        The photograph as it is.
    subset : Subset
        The region that the counterfactuals fill.

    Returns
    -------
    Judge
        A function of a list of counterfactuals.

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
    texture = texture_around(image, mask)
    if texture is None:
        return Judge(mask, None, np.zeros((0, 4)))
    across = texture.boxes[:, 2] - texture.boxes[:, 0]
    large = across >= 0.6 * across.max()  # an edge of few pixels says less than one of many
    edges = []
    for x1, y1, x2, y2 in texture.boxes[large].tolist():
        left, top, right, bottom = grown((x1, y1, x2, y2), 8, *image.shape[:2])
        inside = np.zeros((bottom - top, right - left), np.bool_)
        inside[y1 - top : y2 - top, x1 - left : x2 - left] = True
        edges.append(border(image[top:bottom, left:right], inside))
    return Judge(mask, texture, np.column_stack([np.array(edges), texture.real[large]]), scored=3)


@dataclass(frozen=True, eq=False)
class RunJudge:
    """`judge` by the real content of the regions of other images of a run. Made by `among`."""

    values: Floats  # (n, 4) of the regions
    images: tuple[bytes, ...]  # digest of the image of each

    per_region = True

    @property
    def info(self) -> SamplerInfo:
        return SamplerInfo(identity=f"judge({blake2b(self.values.tobytes(), digest_size=8).hexdigest()})")

    def __call__(self, image: Image, subset: Subset) -> Judge:
        # regions of the same image are left out: their textures depend on the content of this one
        mask, known = mask_of(subset, *image.shape[:2]), digest(image)
        used = np.array([one != known for one in self.images])
        if used.sum() < ENOUGH:
            return judge(image, subset)
        return Judge(mask, texture_around(image, mask), self.values[used])


def among(images: Sequence[Image], subsets: Sequence[Sequence[Subset]]) -> RunJudge | None:
    """Return a `judge` for the regions of a run; None where they are too few, and are judged by their images alone."""
    if sum(map(len, subsets)) <= ENOUGH:
        return None
    values, known = [], []
    for image, regions in zip(images, subsets, strict=True):
        for mask in (mask_of(subset, *image.shape[:2]) for subset in regions if can_judge(image, subset)):
            texture = texture_around(image, mask)
            if texture is not None:
                values.append(oddness(image, mask, texture))
                known.append(digest(image))
    return RunJudge(np.array(values), tuple(known)) if len(values) > ENOUGH else None


def can_judge(image: Image, subset: Subset) -> bool:
    return min(image.shape[:2]) >= 64 and is_region(subset)  # smaller images have no texture


judge.per_region = True  # type: ignore[attr-defined]  # `butfor.plausible` makes one for each region
judge.among = among  # type: ignore[attr-defined]  # and in a run one that knows the other regions


@dataclass(frozen=True, eq=False)
class Texture:
    """Contrasts of real patches of an image with their surroundings, where those are like the region's."""

    around: Floats  # (features,) of the ring around the region
    centre: Floats  # (features,)
    spread: Floats  # (features,)
    boxes: Ints  # (n, 4) real patches, spread evenly
    real: Floats  # (n,) their distances

    def distance(self, image: Image, mask: Bools) -> float:
        near = at(grown(bounds(mask), 8, *mask.shape))
        inner = _summary(_maps(image[near])[:, mask[near]].mean(axis=1))
        return float((((inner - self.around - self.centre) / self.spread) ** 2).sum())


def texture_around(image: Image, mask: Bools) -> Texture | None:
    """Return the texture around a region; None where there is nothing to compare with."""
    box = bounds(mask)
    near = at(grown(box, int(_margin(box[2] - box[0], box[3] - box[1])), *mask.shape))
    ring = ~mask[near]
    boxes = _patches(box, mask) if ring.any() else np.zeros((0, 4), np.int64)
    if not len(boxes):
        return None
    maps = _maps(empty(image, mask))  # blurring must not carry the region's content out
    around = _summary(maps[:, *near][:, ring].mean(axis=1))
    summed = integral(maps)
    x1, y1, x2, y2 = boxes.T
    margin, area = _margin(x2 - x1, y2 - y1), (x2 - x1) * (y2 - y1)
    inside = box_sums(summed, x1, y1, x2, y2)
    outside = box_sums(summed, x1 - margin, y1 - margin, x2 + margin, y2 + margin) - inside
    rim = (x2 - x1 + 2 * margin) * (y2 - y1 + 2 * margin) - area
    inner, rings = _summary(inside / area).T, _summary(outside / rim).T
    unlike = (((rings - around) / (rings.std(axis=0) + 0.1)) ** 2).sum(axis=1)
    likest = np.argsort(unlike, kind="stable")[:LIKE]
    contrasts = inner - rings
    centre = np.median(contrasts[likest], axis=0)
    spread = 1.4826 * np.median(np.abs(contrasts[likest] - centre), axis=0) + 0.05
    even = np.linspace(0, len(boxes) - 1, min(LIKE, len(boxes))).astype(int)  # the likest are too much alike
    distances = (((contrasts[even] - centre) / spread) ** 2).sum(axis=1)
    return Texture(around, centre, spread, boxes[even], distances)


def _maps(image: Image) -> Floats:
    # (7, height, width): energies at three scales, the two moments of contrast, colour
    cv2 = need("cv2", "image")
    pixels = image.astype(np.float32)
    grey = pixels @ np.array([0.299, 0.587, 0.114], np.float32)
    one, two, four = (cv2.GaussianBlur(grey, (0, 0), sigma) for sigma in (1.0, 2.5, 6.0))
    red, blue = pixels[..., 0] - grey, pixels[..., 2] - grey
    energies = (grey - one) ** 2, (one - two) ** 2, (two - four) ** 2
    return np.stack([*energies, four**2, four, red, blue]).astype(np.float64)


def _summary(means: Floats) -> Floats:
    """Return comparable features from means of the maps, (7, ...): logs of energies, and colours in steps of 8."""
    fine, middle, coarse, square, light, red, blue = means
    smooth = np.log(np.maximum(square - light**2, 0) + FLOOR)
    energies = (np.log(energy + FLOOR) for energy in (fine, middle, coarse))
    return np.stack([*energies, smooth, light / 8, red / 8, blue / 8])


def _margin(across: Any, down: Any) -> Ints:
    return np.asarray(np.clip(0.2 * np.minimum(across, down), 4, 24)).astype(int)


def _patches(box: Box, mask: Bools) -> Ints:
    """Return real patches (n, 4) that touch nothing of the region, of its shape and smaller, spread evenly."""
    height, width = mask.shape
    taken = integral(mask)
    step = max(1, int(np.sqrt(height * width / 1200)))
    patches = [np.zeros((0, 4), np.int64)]
    for share in (1.0, 0.7, 0.5, 0.35, 0.25, 0.18):
        across, down = (max(6, round(share * side)) for side in (box[2] - box[0], box[3] - box[1]))
        margin = int(_margin(across, down))
        x = np.arange(margin, width - across - margin + 1, step)
        y = np.arange(margin, height - down - margin + 1, step)[:, None]
        if not x.size or not y.size:
            continue
        inside = box_sums(taken, x - margin, y - margin, x + across + margin, y + down + margin)
        rows, columns = np.nonzero(inside == 0)
        patches.append(np.stack([x[columns], y[rows, 0], x[columns] + across, y[rows, 0] + down], axis=1))
        if sum(map(len, patches)) >= 2 * LIKE:
            break
    return np.concatenate(patches)


MOST_JUDGED = 2000  # regions


def fills_judged(hypotheses: Hypotheses, kept: Kept) -> tuple[Note, Bools] | None:
    """Return a note on the fills that were kept, and of which regions (H,) most are odd; None: none can be judged."""

    def region(row: int) -> tuple[Image, Subset]:
        index = int(hypotheses.input_of[row])
        return hypotheses.items.block(index, index + 1)[0], hypotheses.block_of(row).subset

    rows = [row for row in range(hypotheses.size) if row in kept and can_judge(*region(row))]
    if not rows:
        return None
    rows = [rows[k] for k in np.unique(np.linspace(0, len(rows) - 1, MOST_JUDGED).astype(int)).tolist()]
    by_image: dict[int, tuple[Image, list[Subset]]] = {}
    for row in rows:
        image, subset = region(row)
        by_image.setdefault(int(hypotheses.input_of[row]), (image, []))[1].append(subset)
    in_run = among([image for image, _ in by_image.values()], [subsets for _, subsets in by_image.values()])
    odd = fills = real = same = 0
    failed = np.zeros(hypotheses.size, bool)
    for row in rows:
        image, subset = region(row)
        scores: Judge = (judge if in_run is None else in_run)(image, subset)
        made = list(kept.whole(hypotheses, row))
        new = [fill for fill in made if not np.array_equal(fill, image)]
        same += len(made) - len(new)
        flagged = scores([image, *new]) < FLAG
        failed[row] = 2 * (flagged[1:].sum() + len(made) - len(new)) > len(made)
        real, odd, fills = real + int(flagged[0]), odd + int(flagged[1:].sum()), fills + len(new)
    implausible = bool(fills and odd / fills > 0.1 + 2 * real / len(rows))
    values = {"odd": odd, "fills": fills, "real": real, "regions": len(rows), "same": same}
    values |= {"by_image": in_run is None, "implausible": implausible}
    return Note("fills-judged", "warning" if implausible else "info", values), failed
