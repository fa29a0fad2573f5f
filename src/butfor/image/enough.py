"""Which regions of an image may be enough for a decision, and the inpainting of all the rest (METHODS 17)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from butfor.evaluation.hypotheses import Hypotheses, Parts, finest_parts
from butfor.evaluation.samplers import info_of
from butfor.image.region import Image, is_region, mask_of
from butfor.types import Bools, Subset


def kept_regions(hypotheses: Hypotheses) -> Parts:
    """Return the regions of images that may be kept; attributes of an image as a whole are none."""
    regions = [[part for part in parts if is_region(part)] for parts in finest_parts(hypotheses)]
    return Parts(regions, rest_of, hypotheses.sampler, info_of(hypotheses.sampler).fills_whole)


def rest_of(image: Image, kept: Sequence[Subset]) -> Bools | None:
    """Return the mask (height, width) of all pixels outside the regions kept; None: there are none.

    >>> rest_of(np.zeros((2, 4, 3), np.uint8), [Subset("left", (0, 0, 3, 2))])
    array([[False, False, False,  True],
           [False, False, False,  True]])
    """
    height, width = image.shape[:2]
    mask = np.ones((height, width), np.bool_)
    for part in kept:
        mask &= ~mask_of(part, height, width)
    return mask if mask.any() else None
