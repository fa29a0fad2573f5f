"""Subsets: regions of any shape, given as masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import Bools, InputError, Subset
from butfor.image.region import Image
from butfor.image.subsets import Overlap, check_overlap, check_overlap_option, unique


@dataclass(frozen=True, eq=False)
class Masks:
    """Masks by image name, or the same masks for every image. Made by `masks`."""

    by_image: Mapping[str, Any] | None
    everywhere: Any
    overlap: Overlap

    @property
    def blind(self) -> bool:
        """Whether they are the same for every image: what is tested was then not picked by what it holds."""
        return self.by_image is None

    def __repr__(self) -> str:
        if self.by_image is None:
            return f"masks({len(self.everywhere)} for every image)"
        return f"masks({sum(len(some) for some in self.by_image.values())} in {len(self.by_image)} images)"

    def __call__(self, name: str, image: Image) -> list[Subset]:
        given = self.everywhere if self.by_image is None else self._of(name)
        pairs = given.items() if isinstance(given, Mapping) else ((_label(m, i), m) for i, m in enumerate(given, 1))
        found = unique(Subset(str(label), _checked(mask, str(label), name, image)) for label, mask in pairs)
        check_overlap(name, found, image, self.overlap)
        return found

    def _of(self, name: str) -> Any:
        assert self.by_image is not None
        for key in (name, Path(name).name, Path(name).stem):
            if key in self.by_image:
                return self.by_image[key]
        known = ", ".join(list(self.by_image)[:5]) + (", ..." if len(self.by_image) > 5 else "")
        raise InputError(f"there are no masks for image {name!r}; masks are given for {known}")


def masks(source: Any, *, overlap: Overlap = "refuse") -> Masks:
    """Regions of any shape to test in each image.

    A mask is a boolean array (height, width), an array in which everything above 0 belongs to the region, or a PNG file
    of that kind (above half of white, or 1 in a file of 0 and 1). `source` is a list or a mapping {region name: mask}
    for every image, a mapping {image name: such a list or mapping}, or a folder with one folder of PNG files per image
    (called like the image, with or without its suffix).

    >>> some = masks({"left": np.arange(4) < 2 * np.ones((4, 1))})
    >>> [(s.name, int(s.index.sum())) for s in some("cat.jpg", np.zeros((4, 4, 3), np.uint8))]
    [('left', 8)]
    """
    check_overlap_option(overlap)
    if isinstance(source, str | Path):
        return Masks(_folders(Path(source)), None, overlap)
    if isinstance(source, Mapping):
        if all(_is_mask(value) for value in source.values()):
            return Masks(None, dict(source), overlap)
        return Masks({str(name): _listed(some, f"image {name!r}") for name, some in source.items()}, None, overlap)
    return Masks(None, _listed(source, "every image"), overlap)


def _listed(some: Any, where: str) -> Any:
    if isinstance(some, np.ndarray) and some.ndim == 2:
        raise InputError(f"the masks of {where} are a single array; put it into a list")
    kinds = some.values() if isinstance(some, Mapping) else some if isinstance(some, Sequence | np.ndarray) else None
    if kinds is None or not len(some) or not all(_is_mask(mask) for mask in kinds):
        shown = " ".join(f"{some!r:.80}".split())
        raise InputError(f"the masks of {where} must be a list of arrays (height, width) or PNG files, got {shown}")
    return dict(some) if isinstance(some, Mapping) else list(some)


def _is_mask(value: Any) -> bool:
    return isinstance(value, str | Path) or (isinstance(value, np.ndarray) and value.ndim == 2)


def _folders(root: Path) -> dict[str, list[Path]]:
    if not root.is_dir():
        raise InputError(f"the folder of masks {root} {'is a file' if root.exists() else 'does not exist'}")
    found = {inner.name: sorted(inner.glob("*.png")) for inner in sorted(root.iterdir()) if inner.is_dir()}
    found = {name: files for name, files in found.items() if files}
    if not found:
        raise InputError(f"the folder of masks {root} has no folders with .png files; make one per image")
    return found


def _label(mask: Any, number: int) -> str:
    return Path(mask).stem if isinstance(mask, str | Path) else f"mask {number}"


def _checked(mask: Any, label: str, name: str, image: Image) -> Bools:
    if isinstance(mask, str | Path):
        from butfor.image.files import read_image

        grey = read_image(mask).max(axis=2)
        pixels = np.asarray(grey > (0 if grey.max() == 1 else 127))
    else:
        pixels = np.array(mask > 0, np.bool_)  # a copy: nobody may write into the caller's
    height, width = image.shape[:2]
    if pixels.shape != (height, width):
        raise InputError(
            f"mask {label!r} of image {name!r} has {pixels.shape[1]} x {pixels.shape[0]} pixels but the image "
            f"{width} x {height}; make it the size of the image"
        )
    if not pixels.any():
        raise InputError(f"mask {label!r} of image {name!r} marks no pixel; leave it out")
    return pixels
