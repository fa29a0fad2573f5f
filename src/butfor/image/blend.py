"""What stands around a hole, carried into it: for inpainters that must not see the hole, and for seams."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Bools
from butfor.image.region import Image, bounds, grown


def empty(image: Image, mask: Bools) -> Image:
    """A copy in which every pixel of the hole is its nearest pixel outside.

    An inpainter that is shown this cannot know what was in the hole, whatever it does before it masks.

    >>> image = np.arange(4, dtype=np.uint8).reshape(1, 4, 1).repeat(3, axis=2)
    >>> empty(image, np.array([[False, False, True, True]]))[0, :, 0].tolist()
    [0, 1, 1, 1]
    """
    from scipy.ndimage import distance_transform_edt

    height, width = mask.shape
    x1, y1, x2, y2 = grown(bounds(mask), 1, height, width)
    inside = mask[y1:y2, x1:x2]
    if inside.all():  # nothing outside
        return np.full_like(image, 127)
    rows, columns = distance_transform_edt(inside, return_distances=False, return_indices=True)
    out = image.copy()
    part = out[y1:y2, x1:x2]
    part[inside] = part[rows[inside], columns[inside]]
    return out


def settle_seam(image: Image, fill: Image, mask: Bools, feather: float) -> Image:
    """`fill` moved towards `image` along the inner edge of the hole, so that no seam is seen.

    Where `fill` also covers a ring outside the hole, what it is off by there is carried inwards and fades over
    `feather` pixels. Nothing of what was in the hole is used.
    """
    from scipy.ndimage import distance_transform_edt, gaussian_filter

    height, width = mask.shape
    x1, y1, x2, y2 = grown(bounds(mask), 8, height, width)
    inside = mask[y1:y2, x1:x2]
    if inside.all() or feather <= 0:
        return fill
    ring = ~inside
    off = (image[y1:y2, x1:x2].astype(np.float32) - fill[y1:y2, x1:x2]) * ring[..., None]
    weight = gaussian_filter(ring.astype(np.float32), 2)
    smooth = (
        np.stack([gaussian_filter(off[..., c], 2) for c in range(3)], axis=-1) / np.maximum(weight, 1e-3)[..., None]
    )
    distance, (rows, columns) = distance_transform_edt(inside, return_indices=True)
    fade = np.clip(1 - (distance - 1) / feather, 0, 1)[..., None]
    out = fill.copy()
    moved = fill[y1:y2, x1:x2] + smooth[rows, columns] * fade
    out[y1:y2, x1:x2] = np.clip(np.rint(moved), 0, 255).astype(np.uint8)
    return out
