"""A user's own sampler of images, looked at: same size, same type, and nothing touched outside the region."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Bools, ModelError, Subset
from butfor.image.region import Attribute, Image, at, bounds, described, mask_of


def check_drawn(image: Image, drawn: object, subset: Subset) -> None:
    """Refuse a counterfactual that is not the image with another region, or with another attribute.

    >>> image = np.zeros((4, 4, 3), np.uint8)
    >>> check_drawn(image, image + np.uint8(1), Subset("box 1", (0, 0, 2, 2)))
    Traceback (most recent call last):
    butfor.core.types.ModelError: the sampler changed pixels outside subset 'box 1'; only the region may change, so ...
    """
    if not isinstance(drawn, np.ndarray) or drawn.dtype != np.uint8 or drawn.shape != image.shape:
        raise ModelError(
            f"the sampler returned {described(drawn)} for subset {subset.name!r}; expected whole images like the one "
            f"that it was given, uint8 {image.shape}"
        )
    if not isinstance(subset.index, Attribute) and not _same_outside(drawn, image, mask_of(subset, *image.shape[:2])):
        raise ModelError(
            f"the sampler changed pixels outside subset {subset.name!r}; only the region may change, so paste what it "
            "makes: np.where(mask[..., None], made, image)"
        )


def _same_outside(drawn: Image, image: Image, mask: Bools) -> bool:
    x1, y1, x2, y2 = bounds(mask)
    around = np.s_[:y1], np.s_[y2:], np.s_[y1:y2, :x1], np.s_[y1:y2, x2:]
    inside = at((x1, y1, x2, y2))
    beside = ~mask[inside]  # a box has nothing there, which is quickly seen
    if beside.any() and ((drawn[inside] != image[inside]).any(axis=2) & beside).any():
        return False
    return all(np.array_equal(drawn[part], image[part]) for part in around)
