"""Regions of an image as pixels, the counterfactuals that change nothing outside them, and regions laid by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from butfor.evaluation.hypotheses import (
    Hypotheses,
    Overlap,
    Parts,
    Proposer,
    SubsetTree,
    check_overlap_option,
    finest_parts,
    is_blind,
    unique,
)
from butfor.evaluation.samplers import info_of
from butfor.models.wrap import need
from butfor.types import Array, Bools, InputError, Ints, ModelError, Subset, one_of, warn_user
from butfor.types import whole as whole_number

Image = NDArray[np.uint8]  # (height, width, 3), RGB
Box = tuple[int, int, int, int]  # x1, y1, x2, y2 in pixels, half-open
Fill = Callable[[Image, Bools, np.random.Generator], Image]  # what an inpainter does to one image and one hole
Transform = Callable[[Image, np.random.Generator], Image]  # one stochastic version of an image, of the same size


class RegionWarning(UserWarning):
    """A region was clipped to its image, or overlaps another slightly."""


@dataclass(frozen=True)
class Attribute:
    """A named stochastic transformation of the entire image: the index of a subset such as "colour"."""

    name: str
    transform: Transform

    def __repr__(self) -> str:
        return f"Attribute({self.name!r})"


def is_box(index: object) -> TypeGuard[Box]:
    return isinstance(index, tuple) and len(index) == 4


def is_mask(index: object) -> TypeGuard[Bools]:
    return isinstance(index, np.ndarray) and index.dtype == np.bool_ and index.ndim == 2


def is_region(subset: Subset) -> bool:  # and not an attribute of the entire image
    return is_box(subset.index) or is_mask(subset.index)


def mask_of(subset: Subset, height: int, width: int) -> Bools:
    """Return the subset's pixels as a boolean array (height, width); an attribute has all of them.

    >>> mask_of(Subset("box 1", (0, 0, 2, 1)), 2, 3).astype(int).tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    index, mask = subset.index, np.zeros((height, width), np.bool_)
    if is_mask(index):
        if index.shape != (height, width):
            raise InputError(
                f"mask {subset.name!r} has {index.shape[1]} x {index.shape[0]} pixels but the image {width} x "
                f"{height}; make the mask from this very image"
            )
        return np.asarray(index)
    if isinstance(index, Attribute):
        return ~mask
    if not is_box(index):
        raise InputError(
            f"subset {subset.name!r} has the index {index!r}; expected a box (x1, y1, x2, y2), a boolean array "
            "(height, width) or an attribute"
        )
    x1, y1, x2, y2 = index
    if not (0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height):
        raise InputError(
            f"box {subset.name!r} is {index} but the image has {width} x {height} pixels; a box is x1, y1, x2, y2 "
            "with 0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height"
        )
    mask[at(index)] = True
    return mask


def at(box: Box) -> tuple[slice, slice]:
    x1, y1, x2, y2 = box
    return slice(y1, y2), slice(x1, x2)


def bounds(mask: Bools) -> Box:
    """Return the smallest box around the pixels of a mask, which must not be empty.

    >>> bounds(np.eye(4, dtype=bool)[1:3])
    (1, 0, 3, 2)
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def grown(box: Box, margin: int, height: int, width: int) -> Box:
    """Return the box with a margin, clipped to the image.

    >>> grown((2, 2, 4, 4), 3, 6, 10)
    (0, 0, 7, 6)
    """
    x1, y1, x2, y2 = box
    return max(x1 - margin, 0), max(y1 - margin, 0), min(x2 + margin, width), min(y2 + margin, height)


class RegionPacking:
    """Store only the box around its region of a counterfactual; all of it for an attribute."""

    def cut(self, observed: Image, counterfactual: Image, subset: Subset) -> Image:  # noqa: ARG002
        return counterfactual[self._window(subset)].copy()  # a view would keep the entire image alive

    def restore(self, observed: Image, piece: Image, subset: Subset) -> Image:
        out, window = observed.copy(), self._window(subset)
        if out[window].shape != piece.shape:
            raise InputError(f"the counterfactual of {subset.name!r} was drawn on another image than the one given")
        out[window] = piece
        return out

    def signature(self, piece: Image) -> Image:
        """Return a small picture of a piece, by which fills that nobody could tell apart are alike."""
        return np.asarray(need("cv2", "image").resize(np.ascontiguousarray(piece), (16, 16), interpolation=3))

    @staticmethod
    def _window(subset: Subset) -> tuple[slice, slice]:
        if is_box(subset.index):
            return at(subset.index)
        return at(bounds(subset.index)) if is_mask(subset.index) else (slice(None), slice(None))


def fill_each(
    inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator, fill: Fill, *, once: bool = False
) -> list[Image]:
    """Return `draws` counterfactuals of each image, input-major: only the pixels of the mask come from `fill`.

    The first draws do not depend on the number that follows. Deterministic fills are computed `once` for all copies.
    """
    out: list[Image] = []
    for image in inputs if draws else []:
        check_image(image)
        mask = mask_of(subset, *image.shape[:2])
        if not mask.any():
            raise InputError(f"subset {subset.name!r} has no pixels; leave it out")
        window = at(bounds(mask))
        for k in range(draws):
            if once and k:
                out.append(out[-1].copy())
                continue
            filled, made = image.copy(), fill(image, mask, rng)
            np.copyto(filled[window], made[window], where=mask[window][..., None])
            out.append(filled)
    return out


def check_image(image: object) -> None:
    """Raise unless it is a uint8 array (height, width, 3)."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise InputError(
            f"an image inside butfor is a uint8 array (height, width, 3), got {described(image)}; "
            "butfor.image.as_image converts files, Pillow images, grey and transparent arrays"
        )


def described(thing: object) -> str:
    return f"{thing.dtype} {thing.shape}" if isinstance(thing, np.ndarray) else type(thing).__name__


def check_context(image: Image, mask: Bools, who: str) -> None:
    """Raise at a hole without surroundings: a fill from surroundings would return the image itself."""
    if mask.all():
        height, width = image.shape[:2]
        raise InputError(
            f"{who} fills a hole from what surrounds it, but this one covers the whole image ({width} x {height}); use "
            "a smaller region, or an attribute for the image as a whole"
        )


@dataclass(frozen=True)
class Grid:
    """Boxes of nearly equal size that tile the image. Made by `grid`."""

    rows: int
    columns: int

    blind = True  # chosen without looking at the image

    def __call__(self, name: object, image: Image) -> list[Subset]:
        height, width = image.shape[:2]
        if height < self.rows or width < self.columns:
            raise InputError(
                f"image {name!r} of {width} x {height} pixels cannot be cut into {self.columns} columns and "
                f"{self.rows} rows; use a coarser grid"
            )
        down = np.linspace(0, height, self.rows + 1).round().astype(int).tolist()
        across = np.linspace(0, width, self.columns + 1).round().astype(int).tolist()
        return [
            Subset(f"row {i + 1} column {j + 1}", (across[j], down[i], across[j + 1], down[i + 1]))
            for i in range(self.rows)
            for j in range(self.columns)
        ]


def grid(rows: int, columns: int | None = None) -> Grid:
    """Cut the image into boxes of nearly equal size.

    Parameters
    ----------
    rows : int
        Number of rows.
    columns : int, optional
        Number of columns; as many as rows by default.

    Returns
    -------
    Grid
        A function (name, image) -> subsets.

    Examples
    --------
    >>> [s.index for s in grid(1, 2)("cat.jpg", np.zeros((4, 5, 3), np.uint8))]
    [(0, 0, 2, 4), (2, 0, 5, 4)]
    """
    return Grid(whole_number("rows", rows, 1), whole_number("columns", rows if columns is None else columns, 1))


@dataclass(frozen=True)
class Superpixels:
    """Masks of regions of similar colour. Made by `superpixels`."""

    count: int
    method: Literal["slic", "felzenszwalb"]
    compactness: float

    def __call__(self, name: object, image: Image) -> list[Subset]:  # noqa: ARG002
        size = image.shape[0] * image.shape[1]
        if size == 1 or self.count == 1:
            return [Subset("superpixel 1", np.ones(image.shape[:2], np.bool_))]
        segmentation = need("skimage.segmentation", "image")
        if self.method == "slic":
            count = min(self.count, size)
            labels = segmentation.slic(image, n_segments=count, compactness=self.compactness, start_label=0)
        else:
            least = max(1, size // (2 * self.count))  # leaves about `count` of them
            labels = segmentation.felzenszwalb(image, scale=least, sigma=0.8, min_size=least)
        return [Subset(f"superpixel {i}", labels == label) for i, label in enumerate(np.unique(labels), start=1)]


def superpixels(
    count: int = 30, *, method: Literal["slic", "felzenszwalb"] = "slic", compactness: float = 10.0
) -> Superpixels:
    """Partition the image into regions of similar colour (scikit-image's SLIC or Felzenszwalb).

    Parameters
    ----------
    count : int
        Approximate number of regions.
    method : {"slic", "felzenszwalb"}
        The segmentation algorithm.
    compactness : float
        For SLIC: a larger value makes squarer regions.

    Returns
    -------
    Superpixels
        A function (name, image) -> subsets.

    Examples
    --------
    >>> regions = superpixels(4)("cat.jpg", np.zeros((20, 20, 3), np.uint8))
    >>> sum(int(s.index.sum()) for s in regions)
    400
    """
    one_of("method", method, ("slic", "felzenszwalb"))
    return Superpixels(whole_number("count", count, 1), method, float(compactness))


@dataclass(frozen=True)
class Together:
    """The subsets of several proposers, one after the other. Made by `together`."""

    parts: tuple[Proposer, ...]
    overlap: Overlap

    @property
    def blind(self) -> bool:
        return all(map(is_blind, self.parts))

    def __call__(self, name: object, image: Image) -> list[Subset]:
        subsets = unique(subset for part in self.parts for subset in part(name, image))
        check_overlap(str(name), subsets, image, self.overlap)
        return subsets


def together(*parts: Proposer, overlap: Overlap = "refuse") -> Together:
    """Test the subsets of all `parts` in one run: boxes and attributes, say. Attributes overlap with nothing.

    Parameters
    ----------
    *parts : callable
        Functions (name, image) -> subsets, such as `grid(3)` and `attributes("texture")`.
    overlap : {"refuse", "alone"}
        Refuse regions that overlap, or test each of them alone.

    Returns
    -------
    Together
        A function (name, image) -> subsets.

    Examples
    --------
    >>> from butfor.image import attributes, grid
    >>> both = together(grid(1, 2), attributes("greyscale"))
    >>> [subset.name for subset in both("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    ['row 1 column 1', 'row 1 column 2', 'greyscale']
    """
    check_overlap_option(overlap)
    for part in parts:
        if not callable(part):
            raise InputError(f"together takes functions (name, image) -> subsets, got {type(part).__name__}")
    return Together(parts, overlap)


@dataclass(frozen=True, eq=False)
class GivenRegions:
    """Regions by image name, or the same for every image. Made by `boxes` and `masks`."""

    what: str
    by_image: Mapping[str, Any] | None  # the boxes or masks of each image
    everywhere: Any
    subsets: Callable[[str, Image, Any], Iterable[Subset]]  # image name, image, its boxes or masks -> regions
    overlap: Overlap

    @property
    def blind(self) -> bool:
        return self.by_image is None  # the same for every image, so not chosen by its content

    def __repr__(self) -> str:
        if self.by_image is None:
            return f"{self.what}({len(self.everywhere or ())} for every image)"
        return f"{self.what}({sum(map(len, self.by_image.values()))} in {len(self.by_image)} images)"

    def __call__(self, name: object, image: Image) -> list[Subset]:
        name, by_image = str(name), self.by_image or {}
        # names are looked up with and without folder and suffix; COCO writes "imgs/cat.jpg"
        keys = [key for key in (name, Path(name).name, Path(name).stem) if key in by_image][:1]
        keys = keys or [key for key in by_image if key.endswith(f"/{name}")]
        if not self.everywhere and len(keys) > 1:
            raise InputError(f"the {self.what} of image {name!r} may be those of {' or '.join(keys)}; name it as there")
        if not self.everywhere and not keys:
            known = ", ".join(list(by_image)[:5]) + (", ..." if len(by_image) > 5 else "")
            raise InputError(f"there are no {self.what} for image {name!r}; {self.what} are given for {known}")
        regions = unique(self.subsets(name, image, self.everywhere or by_image[keys[0]]))
        check_overlap(name, regions, image, self.overlap, self.what)
        return regions


def check_overlap(name: str, subsets: Sequence[Subset], image: Image, overlap: Overlap, by: str = "together") -> None:
    """Raise where regions of one image share more than 2 % of the smaller one, warn where they share less.

    What is important in one is important in the other. `by` is the function whose `overlap=` the user may set.
    """
    if overlap == "alone":
        return
    regions = [subset for subset in subsets if not isinstance(subset.index, Attribute)]
    for first, second in ((a, b) for j, b in enumerate(regions) for a in regions[:j]):
        a, b = first.index, second.index
        if is_box(a) and is_box(b):
            pixels = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
            smaller = min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
        else:
            one, other = (mask_of(subset, *image.shape[:2]) for subset in (first, second))
            pixels, smaller = int(np.count_nonzero(one & other)), max(1, min(int(one.sum()), int(other.sum())))
        share = pixels / smaller
        if share > 0.02:  # less where two boxes drawn by hand touch
            raise InputError(
                f"regions {first.name!r} and {second.name!r} of image {name!r} overlap by {share:.0%} of the "
                "smaller one; draw them apart, or test them anyway, each alone: "
                f"butfor.image.{by}(..., overlap='alone'), --overlap alone on the command line"
            )
        if pixels:
            warn_user(
                f"regions {first.name!r} and {second.name!r} of image {name!r} overlap by {pixels} pixels "
                f"({share:.1%} of the smaller one): little enough to go on",
                RegionWarning,
            )


def integral(values: Array) -> Array:
    """Return the summed-area table, (..., height, width) -> (..., height + 1, width + 1).

    >>> integral(np.ones((2, 2), int)).tolist()
    [[0, 0, 0], [0, 1, 2], [0, 2, 4]]
    """
    sums = values.cumsum(axis=-2).cumsum(axis=-1)
    return np.pad(sums, [(0, 0)] * (values.ndim - 2) + [(1, 0), (1, 0)])


def box_sums(summed: Array, x1: Ints, y1: Ints, x2: Ints, y2: Ints) -> Array:
    return np.asarray(summed[..., y2, x2] - summed[..., y1, x2] - summed[..., y2, x1] + summed[..., y1, x1])


WHOLE = "the whole picture"


@dataclass(frozen=True)
class Zoom:
    """Cells that split in four. Made by `zoom`."""

    least: int | None
    whole: bool

    blind = True  # chosen without looking at the image

    def __call__(self, name: object, image: Image) -> list[Subset]:
        return list(self.tree(name, image).subsets)

    def tree(self, name: object, image: Image) -> SubsetTree:
        """Return the cells of all resolutions of one image, the coarsest first."""
        height, width = image.shape[:2]
        side = min(height, width)
        least = max(8, -(-side // 8)) if self.least is None else self.least  # pixels
        depth = int(np.log2(max(1, side / least)) + 1e-9)
        if depth < 1:
            raise InputError(
                f"image {name!r} is {side} pixels at its shorter side and cannot be split into cells of at least "
                f"{least}; give a smaller least size"
            )
        subsets = [Subset(WHOLE, (0, 0, width, height))] if self.whole else []
        resolution, parent = [0] * len(subsets), [-1] * len(subsets)
        before = 0  # index of the first cell one resolution above
        for fineness in range(1, depth + 1):
            count, start = 2**fineness, len(subsets)
            for cell, (i, j) in zip(Grid(count, count)(name, image), np.ndindex(count, count), strict=True):
                subsets.append(Subset(f"{cell.name} of {count} x {count}", cell.index))
                above = before + (i // 2) * (count // 2) + j // 2
                parent.append(above if fineness > 1 or self.whole else -1)
                resolution.append(fineness)
            before = start
        return SubsetTree(tuple(subsets), tuple(resolution), tuple(parent))


def zoom(least: int | None = None, *, whole: bool = False) -> Zoom:
    """Locate what matters from coarse to fine: quarters, then quarters of those that were chosen, and so on.

    The false discovery rate is controlled at every resolution over its cells: those not drawn count as p = 1. It needs
    p-values: `test="sequential"`, which is the default with it, or "irt".

    Parameters
    ----------
    least : int, optional
        Smallest number of pixels along the shorter side of a cell; an eighth of the picture's by default.
    whole : bool
        Also test the entire picture, for samplers that can redraw it (`donor` with reference images).

    Returns
    -------
    Zoom
        A function (name, image) -> subsets, with the tree they form.

    Examples
    --------
    >>> tree = zoom(2)
    >>> [subset.name for subset in tree("cat.jpg", np.zeros((8, 8, 3), np.uint8))][:5]  # doctest: +ELLIPSIS
    ['row 1 column 1 of 2 x 2', ..., 'row 1 column 1 of 4 x 4']
    """
    return Zoom(None if least is None else whole_number("least", least, 1), bool(whole))


def kept_regions(hypotheses: Hypotheses) -> Parts:
    """Return the regions of images that may be enough for a decision; attributes of an entire image are none."""
    regions = [[part for part in parts if is_region(part)] for parts in finest_parts(hypotheses)]
    return Parts(regions, rest_of, hypotheses.sampler, info_of(hypotheses.sampler).fills_whole)


def rest_of(image: Image, kept: Sequence[Subset]) -> Bools | None:
    """Return the mask (height, width) of all pixels outside the regions kept; None: there are none.

    >>> rest_of(np.zeros((2, 4, 3), np.uint8), [Subset("left", (0, 0, 3, 2))])
    array([[False, False, False,  True],
           [False, False, False,  True]])
    """
    mask = np.ones(image.shape[:2], np.bool_)
    for part in kept:
        mask &= ~mask_of(part, *image.shape[:2])
    return mask if mask.any() else None


def check_drawn(image: Image, drawn: object, subset: Subset) -> None:
    """Raise at a counterfactual that differs from its image outside the region.

    >>> image = np.zeros((4, 4, 3), np.uint8)
    >>> check_drawn(image, image + np.uint8(1), Subset("box 1", (0, 0, 2, 2)))
    Traceback (most recent call last):
    butfor.types.ModelError: the sampler changed pixels outside subset 'box 1'; only the region may change, so ...
    """
    if not isinstance(drawn, np.ndarray) or drawn.dtype != np.uint8 or drawn.shape != image.shape:
        raise ModelError(
            f"the sampler returned {described(drawn)} for subset {subset.name!r}; expected whole images like the one "
            f"that it was given, uint8 {image.shape}"
        )
    if isinstance(subset.index, Attribute):
        return
    mask = mask_of(subset, *image.shape[:2])
    x1, y1, x2, y2 = bounds(mask)
    around = np.s_[:y1], np.s_[y2:], np.s_[y1:y2, :x1], np.s_[y1:y2, x2:]
    same = all(np.array_equal(drawn[part], image[part]) for part in around)
    inside = at((x1, y1, x2, y2))
    beside = ~mask[inside]  # empty for a box, which is quickly seen
    if not same or (beside.any() and ((drawn[inside] != image[inside]).any(axis=2) & beside).any()):
        raise ModelError(
            f"the sampler changed pixels outside subset {subset.name!r}; only the region may change, so paste what it "
            "makes: np.where(mask[..., None], made, image)"
        )
