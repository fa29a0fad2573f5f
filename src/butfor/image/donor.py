"""Sampler: the hole filled with a patch of the image, or of reference images, that fits its surroundings."""

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
from butfor.image.region import Image, at, bounds, box_sums, check_context, check_image, fill_each, grown, integral
from butfor.models.wrap import need
from butfor.results.words import Note
from butfor.types import Bools, Floats, InputError, Ints, Subset

COARSE = 96  # patches are compared at about this size of the image, which takes a millisecond
OWN = 0.5  # of the fills beside a reference come from the image itself, of those beside other images of a run none
ENOUGH = 24  # patches that must remain at a scale, else smaller ones are taken and enlarged
LEAST_OTHERS = 4  # images of a run beside one, from which on they are its donors


@dataclass(frozen=True, eq=False)
class Donor:
    """Patches of real images, the better they fit the likelier. Made by `donor`."""

    reference: Sequence[Image] | Image | None
    spread: float
    own: float | None = None
    others: bool = False  # the reference are the images of the run: none is its own donor

    def __repr__(self) -> str:
        of = "images of the run" if self.others else "reference images"
        source = "the image itself" if self.reference is None else f"{len(self.reference)} {of}"
        own = "" if self.own is None else f", own={self.own:g}"
        return f"donor({source}, spread={self.spread:g}{own})"

    @cached_property
    def _digests(self) -> list[bytes]:
        return [digest(image) for image in (() if self.reference is None else self.reference)]

    @cached_property
    def _sorted(self) -> list[int]:
        return sorted(range(len(self._digests)), key=self._digests.__getitem__)

    def for_run(self, items: Sequence[Image], subsets: Sequence[Sequence[Subset]]) -> Donor:  # noqa: ARG002
        """Return the donor of a run: the other images are its reference, where it has none and there are enough."""
        if self.reference is not None or self.own is not None or len(items) <= LEAST_OTHERS:
            return self
        return Donor(items, self.spread, 0.0, others=True)

    def notes(self, inputs: Sequence[Image], subsets: Sequence[Sequence[Subset]], seed: int) -> list[Note]:  # noqa: ARG002
        return [Note("donor-alone", "info")] if self.reference is None else []

    @cached_property
    def info(self) -> SamplerInfo:
        """Identify the reference images: files by path, size and time, without reading them."""
        if isinstance(self.reference, ImageFiles):
            stats = [(path.absolute(), path.stat()) for path in self.reference.paths]
            parts = [f"{path} {s.st_size} {s.st_mtime_ns} {self.reference.longest}".encode() for path, s in stats]
        else:
            parts = sorted(self._digests) if self.others else self._digests
        name = f"{self!r} {blake2b(b''.join(parts), digest_size=8).hexdigest()}"
        whole = self.reference is not None and not self.others
        return SamplerInfo(identity=name, changes_subset_only=True, fills_whole=whole)

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        out: list[Image] = []
        for image in inputs:
            known: dict[tuple[int | None, bool], Patches] = {}  # by source and flip: serves all draws of an image
            out += fill_each([image], subset, draws, rng, partial(self.fill, known=known))
        return out

    def fill(
        self, image: Image, mask: Bools, rng: np.random.Generator, known: dict[tuple[int | None, bool], Patches]
    ) -> Image:
        """Return one fill: a patch of the image itself (source None) or of a reference image, pasted and blended."""
        cv2 = need("cv2", "image")
        source = None
        if self.reference is None:
            check_context(image, mask, "donor")
        else:
            itself = rng.random() < (OWN if self.own is None else self.own)
            which = int(rng.integers(len(self.reference)))
            if self.others:  # in an order that does not depend on theirs
                one, before = self._sorted[which], self._sorted[which - 1]
                which = before if self._digests[one] == digest(image) else one
            source = None if itself and not mask.all() else which
        flip = bool(rng.random() < 0.5)
        if (source, flip) not in known:
            # patches are compared coarsely, which must not let the hole's content in
            taken_from = empty(image, mask) if source is None else self.reference[source]  # type: ignore[index]
            known[source, flip] = _patches(image, mask, taken_from, mask if source is None else None, flip)
        patches = known[source, flip]
        least = patches.cost.min()
        weight = np.exp(-(patches.cost - least) / (self.spread * (least + 25.0)))  # 25: five grey levels
        index = np.searchsorted(np.cumsum(weight), rng.random() * weight.sum(), side="right")
        window, (across, down) = _window(mask), patches.size
        x, y = patches.corners[min(int(index), len(weight) - 1)].tolist()
        piece = patches.image[at((x, y, x + across, y + down))]
        piece = piece[:, ::-1] if flip else piece
        height, width = mask[window].shape
        if (across, down) != (width, height):
            method = cv2.INTER_AREA if across > width else cv2.INTER_CUBIC
            resized = cv2.resize(np.ascontiguousarray(piece), (width, height), interpolation=method)
            piece = np.asarray(resized, np.uint8).reshape(height, width, 3)
        filled = image.copy()
        filled[window] = piece
        x1, y1, x2, y2 = bounds(mask)
        return settle_seam(image, filled, mask, feather=max(4.0, min(x2 - x1, y2 - y1) / 4))


@dataclass(frozen=True, eq=False)
class Patches:
    """Candidate patches for a hole: corners (n, 2), misfits (n,), and the size of all of them."""

    corners: Ints
    cost: Floats
    size: tuple[int, int]  # width, height
    image: Image  # the source


def _window(mask: Bools) -> tuple[slice, slice]:
    """Return the hole with the ring around it that a patch must fit."""
    x1, y1, x2, y2 = bounds(mask)
    margin = int(np.clip(0.15 * min(x2 - x1, y2 - y1), 4, 24))
    return at(grown((x1, y1, x2, y2), margin, *mask.shape))


def _patches(image: Image, mask: Bools, source: Image, forbidden: Bools | None, flip: bool) -> Patches:
    """Return the patches of `source` that touch nothing forbidden, and how well each fits the ring around the hole."""
    cv2 = need("cv2", "image")
    window, (height, width) = _window(mask), source.shape[:2]
    down, across = mask[window].shape
    summed = integral(np.zeros((height, width), np.bool_) if forbidden is None else forbidden)
    step = max(1, max(height, width) // COARSE)
    scale = min(1.0, width / across, height / down)
    while True:
        size = max(1, int(across * scale)), max(1, int(down * scale))
        x = np.unique(np.append(np.arange(0, width - size[0] + 1, step), width - size[0]))
        y = np.unique(np.append(np.arange(0, height - size[1] + 1, step), height - size[1]))[:, None]
        rows, columns = np.nonzero(box_sums(summed, x, y, x + size[0], y + size[1]) == 0)
        corners = np.stack([x[columns], y[rows, 0]], axis=1)
        if len(corners) >= ENOUGH or size == (1, 1) or (len(corners) and forbidden is None):
            break
        scale *= 0.75
    ring = ~mask[window]
    if not ring.any():
        return Patches(corners, np.zeros(len(corners)), size, source)
    # the mean squared difference of the ring around the hole from the same pixels of each patch, coarsely
    coarse = min(1.0, max(COARSE / max(height, width), 12 / min(size)))
    small = cv2.resize(source, None, fx=coarse, fy=coarse, interpolation=cv2.INTER_AREA)
    side = [max(1, min(round(length * coarse), limit)) for length, limit in zip(size, small.shape[1::-1], strict=True)]
    weight = cv2.resize(ring.astype(np.float32), side, interpolation=cv2.INTER_AREA)
    # only the surroundings are compared: the hole's content is taken out before shrinking
    template = cv2.resize(image[window] * ring[..., None].astype(np.float32), side, interpolation=cv2.INTER_AREA)
    template = template / np.maximum(weight, 1e-6)[..., None]
    if flip:
        template, weight = template[:, ::-1], weight[:, ::-1]
    known = np.ascontiguousarray(np.repeat((weight > 0.5).astype(np.float32)[..., None], 3, axis=2))
    if not known.any():
        known[:] = 1
    template = np.ascontiguousarray(template, dtype=np.float32)
    squares = cv2.matchTemplate(small.astype(np.float32), template, cv2.TM_SQDIFF, mask=known)
    index = np.minimum(np.rint(corners * coarse).astype(int), np.array(squares.shape[::-1]) - 1)
    cost = np.maximum(np.asarray(squares, np.float64)[index[:, 1], index[:, 0]], 0) / known.sum()
    return Patches(corners, np.asarray(cost), size, source)


def donor(reference: Sequence[Image] | Image | None = None, *, spread: float = 0.5, own: float | None = None) -> Donor:
    """Fill a hole in a few milliseconds with a real patch from elsewhere, matched on the ring around the hole.

    Without a reference, patches come from the other images of the run: those of the image itself may show another
    instance of what was removed. Where there are none they come from the rest of the image; with a reference half of
    them do. The seam is blended away inside the hole. Where the image has no room for a patch of that size, a smaller
    one is enlarged.

    Parameters
    ----------
    reference : sequence of images, optional
        A list of images, or a folder read with `butfor.image.folder`.
    spread : float
        A patch is e times less likely where its squared misfit exceeds the best one's by this share.
    own : float, optional
        Share of fills that come from the image itself, beside a reference; a half by default. `own=1` without a
        reference takes no other images.

    Returns
    -------
    Donor
        A sampler.

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
    if not isinstance(own, int | float) or not 0 <= own <= 1 or (reference is None and own != 1):
        raise InputError(f"own must be a share from 0 to 1, beside a reference, got own={own!r}")
    return Donor(reference, float(spread), float(own))
