"""Samplers: OpenCV's two classic inpainters. They smear: for smoke tests only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.core.types import Bools, InputError, Subset
from butfor.image.region import Image, at, bounds, check_context, fill_each, grown
from butfor.models.optional import need


@dataclass(frozen=True)
class OpenCV:
    """A hole smeared shut from its edge. Made by `telea` and `navier_stokes`."""

    method: Literal["telea", "navier_stokes"]
    radius: float

    deterministic = True
    changes_subset_only = True

    def __repr__(self) -> str:
        return f"{self.method}(radius={self.radius:g})"

    def __call__(self, inputs: Sequence[Image], subset: Subset, draws: int, rng: np.random.Generator) -> list[Image]:
        return fill_each(inputs, subset, draws, rng, self.fill, once=True)

    def fill(self, image: Image, mask: Bools, rng: np.random.Generator) -> Image:  # noqa: ARG002
        cv2 = need("cv2", "image")

        check_context(image, mask, self.method)
        around = at(grown(bounds(mask), int(self.radius) + 2, *mask.shape))
        part, hole = image[around].copy(), mask[around].astype(np.uint8)
        part[hole > 0] = 0  # whatever OpenCV may look at, it is not what was there
        flag = cv2.INPAINT_TELEA if self.method == "telea" else cv2.INPAINT_NS
        out = image.copy()
        out[around] = cv2.inpaint(part, hole, self.radius, flag)
        return out


def telea(radius: float = 3.0) -> OpenCV:
    """Telea's fast marching fill (OpenCV). **For smoke tests only**: it smears, and a smear is not a plausible patch.

    Deterministic: only osft runs on it, without a guarantee (Q is a single point); `diversify` makes draws of it.

    Parameters
    ----------
    radius : pixels around each that it looks at, 1 to 100.

    Examples
    --------
    >>> telea()
    telea(radius=3)
    """
    return OpenCV("telea", _checked(radius))


def navier_stokes(radius: float = 3.0) -> OpenCV:
    """Bertalmio's Navier-Stokes fill (OpenCV). **For smoke tests only**, like `telea`, and deterministic.

    Parameters
    ----------
    radius : as in `telea`.

    Examples
    --------
    >>> navier_stokes()
    navier_stokes(radius=3)
    """
    return OpenCV("navier_stokes", _checked(radius))


def _checked(radius: float) -> float:
    if isinstance(radius, bool) or not isinstance(radius, int | float) or not 1 <= radius <= 100:
        raise InputError(f"radius must be a number of pixels between 1 and 100, got {radius!r}")
    return float(radius)
