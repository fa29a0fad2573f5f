"""Sampler: the hole filled with a piece of the image, or of reference images, that fits its surroundings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b

import numpy as np

from butfor.evaluation.items import digest
from butfor.evaluation.samplers import SamplerInfo
from butfor.image.files import ImageFiles
from butfor.image.inpainters import empty, settle_seam
from butfor.image.region import Box, Image, at, bounds, box_sums, check_context, check_image, fill_each, grown, integral
from butfor.models.wrap import need
from butfor.types import Bools, Floats, InputError, Ints, Subset

COARSE = 96  # places are compared at about this size of the image, which takes a millisecond
OWN = 0.5  # of the fills beside a reference come from the image itself
ENOUGH = 24  # so many places must be left at a scale, else smaller pieces are taken and enlarged


@dataclass(frozen=True, eq=False)
class Donor:
    """Pieces of real images, the better they fit the likelier. Made by `donor`."""

    reference: Sequence[Image] | Image | None
    spread: float
    own: float = OWN

    def __repr__(self) -> str:
        where = "the image itself" if self.reference is None else f"{len(self.reference)} reference images"
        own = "" if self.own == OWN else f", own={self.own:g}"
        return f"donor({where}, spread={self.spread:g}{own})"

    @cached_property
    def info(self) -> SamplerInfo:
        """Told from others by the reference images."""
        held = () if self.reference is None else self.reference
        parts = _stamps(held) if isinstance(held, ImageFiles) else map(digest, held)
        name = f"{self!r} {blake2b(b''.join(parts), digest_size=8).hexdigest()}"
        return SamplerInfo(identity=name, changes_subset_only=True, fills_whole=self.reference is not None)

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        out: list[Image] = []
        for image in inputs:
            fits: Fits = {}  # places found once serve all draws of an image
            out += fill_each([image], subset, draws, rng, partial(self.fill, fits=fits))
        return out

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator, fits: Fits) -> Image:
        """One fill; `fits` remembers the places found for this image and mask."""
        if self.reference is None:
            check_context(image, mask, "donor")
        source, flip = self._source(rng, mask), bool(rng.random() < 0.5)
        if (source, flip) not in fits:
            # places are compared coarsely, and nothing of what was in the hole may come in by that
            donor_image = empty(image, mask) if source is None else self.reference[source]  # type: ignore[index]
            fits[source, flip] = _places(image, mask, donor_image, None if source is not None else mask, flip)
        places = fits[source, flip]
        return _pasted(image, mask, places, places.pick(rng, self.spread))

    def _source(self, rng: np.random.Generator, mask: Bools) -> int | None:
        """Which reference image, or None for the image itself."""
        if self.reference is None:
            return None
        itself, which = rng.random() < self.own, int(rng.integers(len(self.reference)))
        return None if itself and not mask.all() else which


def _stamps(files: ImageFiles) -> list[bytes]:
    """What tells files from others, and from what they were before, without reading them."""
    found = [(path.absolute(), path.stat()) for path in files.paths]
    return [f"{path} {stat.st_size} {stat.st_mtime_ns} {files.longest}".encode() for path, stat in found]


@dataclass(frozen=True, eq=False)
class DonorPlaces:
    """Corners (n, 2) of the pieces that may fill a hole, how badly each fits, and how it is to be turned."""

    corners: Ints
    cost: Floats
    size: tuple[int, int]  # width and height of a piece
    image: Image  # where it is taken from
    flip: bool

    def pick(self, rng: np.random.Generator, spread: float) -> Ints:
        least = self.cost.min()
        weight = np.exp(-(self.cost - least) / (spread * (least + 25.0)))  # 25: five grey levels are no difference
        place = np.searchsorted(np.cumsum(weight), rng.random() * weight.sum(), side="right")
        return np.asarray(self.corners[min(int(place), len(self.corners) - 1)])


Fits = dict[tuple[int | None, bool], DonorPlaces]  # by reference image (None: the image itself) and flip


def _window(mask: Bools) -> Box:
    """The hole and the ring around it that a piece must fit."""
    x1, y1, x2, y2 = bounds(mask)
    margin = int(np.clip(0.15 * min(x2 - x1, y2 - y1), 4, 24))
    return grown((x1, y1, x2, y2), margin, *mask.shape)


def _places(image: Image, mask: Bools, source: Image, forbidden: Bools | None, flip: bool) -> DonorPlaces:
    """Where in `source` a piece can be taken, and how well its rim fits the ring around the hole."""
    window, (height, width) = at(_window(mask)), source.shape[:2]
    down, across = mask[window].shape
    taken = np.zeros((height, width), np.bool_) if forbidden is None else forbidden
    summed = integral(taken)
    scale = min(1.0, width / across, height / down)
    while True:
        size = max(1, int(across * scale)), max(1, int(down * scale))
        corners = _free(summed, size, step=max(1, max(height, width) // COARSE))
        if len(corners) >= ENOUGH or size == (1, 1) or (len(corners) and forbidden is None):
            break
        scale *= 0.75
    cost = _misfit(image[window], ~mask[window], source, corners, size, flip)
    return DonorPlaces(corners, cost, size, source, flip)


def _free(summed: Ints, size: tuple[int, int], step: int) -> Ints:
    """Corners (x, y) of windows of this size, `step` apart, in which nothing is forbidden."""
    height, width = summed.shape[0] - 1, summed.shape[1] - 1
    x = np.unique(np.append(np.arange(0, width - size[0] + 1, step), width - size[0]))
    y = np.unique(np.append(np.arange(0, height - size[1] + 1, step), height - size[1]))[:, None]
    rows, columns = np.nonzero(box_sums(summed, x, y, x + size[0], y + size[1]) == 0)
    return np.stack([x[columns], y[rows, 0]], axis=1)


def _misfit(window: Image, ring: Bools, source: Image, corners: Ints, size: tuple[int, int], flip: bool) -> Floats:
    """Mean squared difference between the ring around the hole and the same pixels of each piece, coarsely."""
    cv2 = need("cv2", "image")

    if not ring.any():
        return np.zeros(len(corners))
    height, width = source.shape[:2]
    coarse = min(1.0, max(COARSE / max(height, width), 12 / min(size)))
    small = cv2.resize(source, None, fx=coarse, fy=coarse, interpolation=cv2.INTER_AREA)
    side = [max(1, min(round(length * coarse), limit)) for length, limit in zip(size, small.shape[1::-1], strict=True)]
    weight = cv2.resize(ring.astype(np.float32), side, interpolation=cv2.INTER_AREA)
    # only what stands around the hole is compared: its content is taken out before shrinking
    template = cv2.resize(window * ring[..., None].astype(np.float32), side, interpolation=cv2.INTER_AREA)
    template = template / np.maximum(weight, 1e-6)[..., None]
    if flip:
        template, weight = template[:, ::-1], weight[:, ::-1]
    known = np.ascontiguousarray(np.repeat((weight > 0.5).astype(np.float32)[..., None], 3, axis=2))
    if not known.any():
        known[:] = 1
    template = np.ascontiguousarray(template, dtype=np.float32)
    squares = cv2.matchTemplate(small.astype(np.float32), template, cv2.TM_SQDIFF, mask=known)
    place = np.minimum(np.rint(corners * coarse).astype(int), np.array(squares.shape[::-1]) - 1)
    found = np.asarray(squares, np.float64)[place[:, 1], place[:, 0]]
    return np.asarray(np.maximum(found, 0) / known.sum())


def _pasted(image: Image, mask: Bools, places: DonorPlaces, corner: Ints) -> Image:
    cv2 = need("cv2", "image")

    window, (across, down) = at(_window(mask)), places.size
    x, y = corner.tolist()
    piece = places.image[at((x, y, x + across, y + down))]
    if places.flip:
        piece = piece[:, ::-1]
    height, width = mask[window].shape
    if (across, down) != (width, height):
        method = cv2.INTER_AREA if across > width else cv2.INTER_CUBIC
        resized = cv2.resize(np.ascontiguousarray(piece), (width, height), interpolation=method)
        piece = np.asarray(resized, np.uint8).reshape(height, width, 3)
    filled = image.copy()
    filled[window] = piece
    inner = bounds(mask)
    return settle_seam(image, filled, mask, feather=max(4.0, min(inner[2] - inner[0], inner[3] - inner[1]) / 4))


def donor(reference: Sequence[Image] | Image | None = None, *, spread: float = 0.5, own: float | None = None) -> Donor:
    """A stochastic fill of a few milliseconds: a piece from another place, matched on the ring around the hole.

    Pieces come from the rest of the image and, half of the time, from the reference. The seam is blended away inside
    the hole. Where the rest of the image has no room for a piece of that size, a smaller one is enlarged.

    A piece of the image itself may show the very thing that was taken out, when there is more of it: with a reference
    and `own=0` the question is "but for this, if something of other images were there", which finds more of large
    things and of several that are alike.

    Parameters
    ----------
    reference : a list of images, or a folder read with `butfor.image.folder`.
    spread : a place is e times less likely where its squared misfit exceeds the best one's by this share.
    own : the share of fills that come from the image itself, beside a reference; None is a half.

    Examples
    --------
    >>> image = np.random.default_rng(0).integers(0, 255, (60, 60, 3), dtype=np.uint8)
    >>> one, two = donor()([image], Subset("box 1", (10, 10, 30, 30)), 2, np.random.default_rng(0))
    >>> bool((one != two).any()), bool((one[30:] == image[30:]).all())
    (True, True)
    """
    if not isinstance(spread, int | float) or isinstance(spread, bool) or not 0 < spread < np.inf:
        raise InputError(f"spread must be a positive number, got {spread!r}")
    if reference is not None:
        if isinstance(reference, np.ndarray) and reference.ndim == 3:
            reference = [reference]
        try:
            first = reference[0]
        except (TypeError, LookupError) as error:
            raise InputError(f"reference must be a list of images, got {type(reference).__name__}") from error
        check_image(first)
    if own is None:
        return Donor(reference, float(spread))
    if reference is None or not isinstance(own, int | float) or not 0 <= own <= 1:
        raise InputError(f"own must be a share from 0 to 1, beside a reference, got own={own!r}")
    return Donor(reference, float(spread), float(own))
