"""One picture of where the output of a photograph comes from: the map, the named cells, the smallest sure region."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from butfor.image.region import Attribute, Image
from butfor.image.where import FINE, _nearest
from butfor.models.wrap import need
from butfor.results.result import Result
from butfor.results.where import SHARES, smallest, takes
from butfor.types import Subset

if TYPE_CHECKING:
    from butfor.image.view import Mark

VEIL = 0.65  # share of blue where the map is strongest


def where_marks(result: Result, image: Image, index: int) -> tuple[Image, list[Mark]]:
    """Return a photograph under a veil of its map, with marks: named cells, and the smallest region that moves it.

    The stronger the map the bluer the veil; below stands in words what the region takes off the output.
    """
    from butfor.image.view import BLUE, FADED, Mark

    assert result.located is not None
    cv2, (height, width) = need("cv2", "image"), image.shape[:2]
    grid = np.maximum(result.located.maps[index], 0.0)
    strength = cv2.resize(grid / max(float(grid.max()), 1e-12), (width, height), interpolation=cv2.INTER_CUBIC)
    strength = np.clip(strength.reshape(height, width, 1), 0.0, 1.0)
    grey = (image @ np.array([0.299, 0.587, 0.114]))[..., None]
    pale = 255 - (1 - FADED / 2) * (255 - (0.3 * image + 0.7 * grey))
    out: Image = np.rint(pale + VEIL * strength * (np.array(BLUE) - pale)).astype(np.uint8)
    labels = result.located.labels[index][_nearest(height, FINE)][:, _nearest(width, FINE)]
    cells = result.located.of(index)
    named = result.located.cells.label[cells[result.located.cells.named[cells]]]
    masks = [labels == label for label in named.tolist()]
    marks = [Mark(Subset("cell", mask)) for mask in masks if mask.any() and not mask.all()]
    row = smallest(result, index)
    nothing = Attribute("", lambda x, _rng: x)  # of the entire picture: its plate stands below
    if row is None:
        return out, [*marks, Mark(Subset("no region is sure to move the output", nothing))]
    region = result.hypotheses.block_of(row).subset
    drop = f"\N{MINUS SIGN}{result.effects.effect[row]:.2f}".replace("\N{MINUS SIGN}-", "+")
    words = f"{round(100 * SHARES[int(result.subset_of[row])])} % of the picture {takes(result, row)}"
    return out, [*marks, Mark(Subset(region.name, region.index), drop, True), Mark(Subset(words, nothing), "", True)]
