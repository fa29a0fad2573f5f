"""How odd a fill looks among real patches: its edge and its texture, as a conformal p-value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from butfor.evaluation.hypotheses import Problem
from butfor.evaluation.samplers import SamplerInfo
from butfor.image.inpainters import empty
from butfor.image.region import Box, Image, at, bounds, box_sums, grown, integral, is_region, mask_of
from butfor.models.wrap import need
from butfor.results.result import Kept
from butfor.types import Array, Bools, Floats, Ints, Subset

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


FLAG = 0.05  # scores below this are flagged
WINDOWS, LIKE = 1200, 100  # real patches looked at, and how many of them a fill is ranked among
ENOUGH = 60  # real regions of a run, from which on they alone are what a fill is ranked among
SHAPES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18)  # sizes of the real patches, as shares of the region's
LARGE = 0.6  # of the largest of them: an edge of few pixels says less than one of many
LEAST_SIDE = 64  # of images whose fills can be judged: smaller ones have no texture


@dataclass(frozen=True)
class Plausibility:
    """Shares between 0 and 1 of real patches, small is implausible.

    Parameters
    ----------
    score : the share of real patches that look at least as odd: a conformal p-value.
    texture, seam, sharpness, colour : the share with so odd a texture, so sharp a jump across the edge, so much less
        detail than beside it, so large a change of colour there.
    """

    score: float
    texture: float
    seam: float
    sharpness: float
    colour: float

    @property
    def flagged(self) -> bool:
        return self.score < FLAG


@dataclass(frozen=True, eq=False)
class Judge:
    """What a fill of one region is ranked among. See `judge`."""

    mask: Bools
    texture: Texture | None
    real: Floats  # (n, 4) of real patches: seam, sharpness, colour, texture
    scored: int = 4  # the first so many of these numbers make the score

    def __call__(self, counterfactuals: Sequence[Image]) -> Floats:
        """One score for each counterfactual, (n,): what `butfor.plausible` takes."""
        return np.array([self.look(image).score for image in counterfactuals], np.float64)

    def look(self, counterfactual: Image) -> Plausibility:
        """The score of one counterfactual and what it is made of."""
        if self.texture is None or not len(self.real):
            return Plausibility(1.0, 1.0, 1.0, 1.0, 1.0)  # nothing to compare with, nothing to say
        own = oddness(counterfactual, self.mask, self.texture)
        score = conformal(own[: self.scored], self.real[:, : self.scored])[0]
        seam, sharpness, colour, texture = conformal(own, self.real)[1]
        return Plausibility(score, texture, seam, sharpness, colour)


def oddness(image: Image, mask: Bools, texture: Texture) -> Floats:
    """Four numbers, large where a region looks odd, (4,): seam, sharpness, colour, texture."""
    return np.array([*border(image, mask), texture.distance(image, mask)])


def conformal(own: Floats, real: Floats) -> tuple[float, list[float]]:
    """The share of real patches and the one in question that look at least as odd, and the same for each number.

    Odd is what is extreme in its most extreme number; of two that are equal there, in the next. All are treated alike,
    the one in question among them: a real patch that is exchangeable with the others gets a score of at most u with a
    probability of at most u.

    >>> conformal(np.array([9.0, 0.0]), np.array([[1.0, 5.0], [2.0, 1.0], [3.0, 2.0]]))
    (0.5, [0.25, 1.0])
    """
    every = np.vstack([own, real])
    above = np.sort(every, axis=0)
    n = len(every)
    shares = np.stack([n - np.searchsorted(above[:, k], every[:, k]) for k in range(every.shape[1])], axis=1) / n
    extreme = np.sort(shares, axis=1) @ (1.0 / (4.0 * n)) ** np.arange(shares.shape[1])
    return float((extreme <= extreme[0]).mean()), shares[0].tolist()  # ties speak for the fill


def judge(image: Image, subset: Subset) -> Judge:
    """A score for counterfactuals of one region of one image: `judge(image, subset)(counterfactuals)`.

    The score is the share of real patches that look at least as odd: 0.02 means that hardly any does. Odd is a jump, a
    loss of detail or a change of colour along the region's edge beyond what there is beside it. Real patches are those
    of the same image outside the region, of its shape where there is room for them. Nothing of what was in the region
    is looked at. It finds smears and seams, not what only a person would see: a second airship is as plausible to it as
    the first.

    People draw boxes around what stands out, and what stands out in a photograph is not odd for that: so a texture
    unlike that just outside is told (`judge(image, subset).look(fill).texture`), but is no part of this score. In a run
    with 60 regions and more in other images a fill is ranked among what really is in those, by its edge and by its
    texture. `butfor.plausible(sampler, butfor.image.judge, 0.05)` lets only those through that score at least so much.

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
    texture = texture_around(image, mask)
    if texture is None:
        return Judge(mask, None, np.zeros((0, 4)))
    across = texture.places[:, 2] - texture.places[:, 0]
    large = across >= LARGE * across.max()
    edges = [_box_border(image, tuple(place)) for place in texture.places[large].tolist()]
    return Judge(mask, texture, np.column_stack([np.array(edges), texture.real[large]]), scored=3)


@dataclass(frozen=True, eq=False)
class RunJudge:
    """`judge` by what really is in the regions of other images of a run. Made by `among`."""

    values: Floats  # (n, 4) of the regions
    images: tuple[bytes, ...]  # which image each is in

    per_region = True

    @property
    def info(self) -> SamplerInfo:
        """Told from those of other runs by what it has seen."""
        return SamplerInfo(identity=f"judge({blake2b(self.values.tobytes(), digest_size=8).hexdigest()})")

    def __call__(self, image: Image, subset: Subset) -> Judge:
        """Regions of the same image are left out: their textures know what is in this one, and a score must not."""
        mask, known = mask_of(subset, *image.shape[:2]), _digest(image)
        used = np.array([one != known for one in self.images])
        if used.sum() < ENOUGH:
            return judge(image, subset)
        return Judge(mask, texture_around(image, mask), self.values[used])


def among(images: Sequence[Image], subsets: Sequence[Sequence[Subset]]) -> RunJudge | None:
    """`judge` for the regions of a run; None where there are too few, which are then judged by their images alone."""
    if sum(map(len, subsets)) <= ENOUGH:
        return None
    values, known = [], []
    for image, own in zip(images, subsets, strict=True):
        for mask in (mask_of(subset, *image.shape[:2]) for subset in own if can_judge(image, subset)):
            texture = texture_around(image, mask)
            if texture is not None:
                values.append(oddness(image, mask, texture))
                known.append(_digest(image))
    return RunJudge(np.array(values), tuple(known)) if len(values) > ENOUGH else None


def can_judge(image: Image, subset: Subset) -> bool:
    """Whether a fill of this can be judged: a part of an image that is large enough to have a texture."""
    return min(image.shape[:2]) >= LEAST_SIDE and is_region(subset)


def _digest(image: Image) -> bytes:
    return blake2b(image.tobytes(), digest_size=8).digest()


judge.per_region = True  # type: ignore[attr-defined]  # `butfor.plausible` makes one for each region
judge.among = among  # type: ignore[attr-defined]  # and in a run one that has seen the others


@dataclass(frozen=True, eq=False)
class Texture:
    """How real patches of an image differ from what is around them, where that is like what is around one region."""

    around: Floats  # (features,) of the ring around the region
    centre: Floats  # (features,)
    spread: Floats  # (features,)
    places: Ints  # (n, 4) real patches, spread evenly
    real: Floats  # (n,) their distances

    def distance(self, image: Image, mask: Bools) -> float:
        """How unlike them a region is."""
        near = at(grown(bounds(mask), 8, *mask.shape))
        inner = _summary(_maps(image[near])[:, mask[near]].mean(axis=1))
        return float((((inner - self.around - self.centre) / self.spread) ** 2).sum())


def texture_around(image: Image, mask: Bools) -> Texture | None:
    """The texture around a region; None where there is nothing to compare with."""
    box = bounds(mask)
    near = at(grown(box, _margin(box), *mask.shape))
    ring = ~mask[near]
    places = _places(box, mask) if ring.any() else np.zeros((0, 4), np.int64)
    if not len(places):
        return None
    maps = _maps(empty(image, mask))  # blurring must not carry out what was in there
    around = _summary(maps[:, *near][:, ring].mean(axis=1))
    inner, rings = _windows(maps, places)
    unlike = (((rings - around) / (rings.std(axis=0) + 0.1)) ** 2).sum(axis=1)
    likest = np.argsort(unlike, kind="stable")[:LIKE]
    contrasts = inner - rings
    centre = np.median(contrasts[likest], axis=0)
    spread = 1.4826 * np.median(np.abs(contrasts[likest] - centre), axis=0) + 0.05
    even = np.linspace(0, len(places) - 1, min(LIKE, len(places))).astype(int)  # the likest would be too much alike
    distances = (((contrasts[even] - centre) / spread) ** 2).sum(axis=1)
    return Texture(around, centre, spread, places[even], distances)


def _box_border(image: Image, box: tuple[int, ...]) -> Floats:
    x1, y1, x2, y2 = box
    left, top, right, bottom = grown((x1, y1, x2, y2), 8, *image.shape[:2])
    inside = np.zeros((bottom - top, right - left), np.bool_)
    inside[y1 - top : y2 - top, x1 - left : x2 - left] = True
    return border(image[top:bottom, left:right], inside)


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


MOST_REGIONS = 200  # that are looked at, spread evenly over the run


def fills_judged(problem: Problem, kept: Kept) -> str | None:
    """A sentence for the promise; None where no fill was kept that can be judged."""
    rows = [row for row in range(problem.size) if row in kept and can_judge(*_region(problem, row))]
    if not rows:
        return None
    rows = [rows[k] for k in np.unique(np.linspace(0, len(rows) - 1, MOST_REGIONS).astype(int)).tolist()]
    found = _run_judge(problem, rows)
    odd = fills = real = same = 0
    for row in rows:
        image, subset = _region(problem, row)
        look: Judge = (judge if found is None else found)(image, subset)
        made = list(kept.whole(problem, row))
        new = [one for one in made if not np.array_equal(one, image)]
        same += len(made) - len(new)
        scores = look([image, *new]) < FLAG
        real, odd, fills = real + int(scores[0]), odd + int(scores[1:].sum()), fills + len(new)
    return _said(odd, fills, real, len(rows), same, own=found is None)


def _said(odd: int, fills: int, real: int, regions: int, same: int, *, own: bool) -> str:
    by = "real patches of the same image" if own else "what really is in regions of other images"
    left = f" {same} of the fills kept are the region as it is." if same else ""
    warning = ""
    if fills and odd / fills > 0.1 + 2 * real / regions:
        warning = (
            " Where fills do not look real, a region may be chosen for that alone: use another sampler, or "
            "butfor.plausible(sampler, butfor.image.judge, 0.05)."
        )
    return (
        f"Do fills look real? By texture and edge, beside {by}, {odd} of {fills} fills look odder than 95 of 100 real "
        f"ones, and so do {real} of {regions} regions as they are.{left}{warning}"
    )


def _region(problem: Problem, row: int) -> tuple[Image, Subset]:
    place = int(problem.input_of[row])
    return problem.items.block(place, place + 1)[0], problem.block_of(row).subset


def _run_judge(problem: Problem, rows: list[int]) -> RunJudge | None:
    images: dict[int, tuple[Image, list[Subset]]] = {}
    for row in rows:
        image, subset = _region(problem, row)
        images.setdefault(int(problem.input_of[row]), (image, []))[1].append(subset)
    return among([image for image, _ in images.values()], [own for _, own in images.values()])
