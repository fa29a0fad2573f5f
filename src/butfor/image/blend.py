"""What stands around a hole, carried into it: for inpainters that must not see the hole, and for seams."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Array, Bools
from butfor.image.region import Image, at, bounds, grown
from butfor.models.optional import need


def empty(image: Image, mask: Bools) -> Image:
    """A copy in which every pixel of the hole is its nearest pixel outside.

    An inpainter that is shown this cannot know what was in the hole, whatever it does before it masks.

    >>> image = np.arange(4, dtype=np.uint8).reshape(1, 4, 1).repeat(3, axis=2)
    >>> empty(image, np.array([[False, False, True, True]]))[0, :, 0].tolist()
    [0, 1, 1, 1]
    """
    from scipy.ndimage import distance_transform_edt

    around = at(grown(bounds(mask), 1, *mask.shape))
    inside = mask[around]
    if inside.all():  # nothing outside
        return np.full_like(image, 127)
    rows, columns = distance_transform_edt(inside, return_distances=False, return_indices=True)
    out = image.copy()
    part = out[around]
    part[inside] = part[rows[inside], columns[inside]]
    return out


def settle_seam(image: Image, fill: Image, mask: Bools, feather: float, filled: Bools | None = None) -> Image:
    """`fill` moved towards `image` along the inner edge of the hole, so that no seam is seen.

    Where `fill` also covers a ring outside the hole (`filled`, all around if None), what it is off by there is carried
    inwards, ever more smoothly, and fades over `feather` pixels. Nothing of what was in the hole is used.

    >>> dark, light = np.zeros((9, 9, 3), np.uint8), np.full((9, 9, 3), 40, np.uint8)
    >>> hole = np.pad(np.ones((5, 5), bool), 2)
    >>> settle_seam(dark, light, hole, feather=2)[4, 2:7, 0].tolist()
    [0, 20, 40, 20, 0]
    """
    around = at(grown(bounds(mask), 8, *mask.shape))
    inside = mask[around]
    ring = ~inside if filled is None else filled[around] & ~inside
    if not ring.any() or feather <= 0:
        return fill
    off = image[around].astype(np.float32) - fill[around]
    off, distance = _carried_in(off, ring.astype(np.float32), inside, feather)
    fade = np.clip(1 - (distance - 1) / feather, 0, 1)[..., None]
    out = fill.copy()
    out[around] = np.clip(np.rint(fill[around] + off * fade), 0, 255).astype(np.uint8)
    return out


def _carried_in(off: Array, ring: Array, inside: Bools, feather: float) -> tuple[Array, Array]:
    """Values known in the ring, inside: the nearest one at the edge, means of many deeper in; and how deep it is."""
    cv2 = need("cv2", "image")

    weight = np.maximum(cv2.GaussianBlur(ring, (0, 0), 2), 1e-3)[..., None]
    known = cv2.GaussianBlur(off * ring[..., None], (0, 0), 2) / weight
    distance, label = cv2.distanceTransformWithLabels(
        inside.astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    nearest = np.zeros((int(label.max()) + 1, 3), np.float32)
    nearest[label[~inside]] = known[~inside]
    raw = nearest[label]
    side = 2 * int(feather / 2) + 1
    deep = np.clip(distance / (0.5 * feather), 0, 1)[..., None]
    return raw + deep * (cv2.blur(cv2.blur(raw, (side, side)), (side, side)) - raw), distance


def to_size(array: Array, width: int, height: int) -> Array:
    """An image or a mask of shares at another size; what shrinks is averaged."""
    cv2 = need("cv2", "image")

    method = cv2.INTER_AREA if width < array.shape[1] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(array, (width, height), interpolation=method))
