"""A picture of a run from coarse to fine: the more colour the finer it is established; else grey, with a faint veil."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from butfor.core.types import Subset
from butfor.image.region import Image, mask_of

RAISES, LOWERS = (21, 92, 214), (214, 110, 12)  # as everywhere: blue raises the output, orange lowers it
FADED = 0.55  # how far the rest is drawn towards white
TINT = 0.4  # of the colour, at the finest resolution
FAINT = 0.25  # of the colour, where an effect is estimated and not established, were it the largest


@dataclass(frozen=True)
class Cell:
    """A region that was chosen, or one that was drawn and not chosen.

    Parameters
    ----------
    subset : where it is.
    depth : how fine it is among all that were tested, above 0 and at most 1, which is the finest.
    lowers : whether it lowers the output.
    estimate : of one that is not chosen: its effect beside the largest of the run, 0 to 1.
    """

    subset: Subset
    depth: float
    lowers: bool = False
    estimate: float | None = None


def heat(image: Image, cells: Iterable[Cell]) -> Image:
    """The image with the cells lit: pale grey around them, in them the more of its own colour and of blue (orange where
    the output is lowered) the finer they are. What is not chosen keeps what is under it, with a faint veil of colour.

    Parameters
    ----------
    image : the photograph.
    cells : what was chosen in it, at all resolutions, and what else was drawn where its effect is known.

    Examples
    --------
    >>> lit = heat(np.full((8, 8, 3), 100, np.uint8), [Cell(Subset("left", (0, 0, 4, 8)), 1.0)])
    >>> lit[0, 0].tolist(), lit[0, 7].tolist()
    ([68, 97, 146], [185, 185, 185])
    """
    pixels = image.astype(np.float64)
    grey = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None]
    out = np.broadcast_to(grey + FADED * (255 - grey), pixels.shape).copy()
    for cell in sorted(cells, key=lambda one: one.depth):
        inside = mask_of(cell.subset, *image.shape[:2])
        colour = np.array(LOWERS if cell.lowers else RAISES)
        if cell.estimate is not None:
            out[inside] += FAINT * cell.estimate * (colour - out[inside])
            continue
        share = TINT * cell.depth
        tinted = (1 - share) * pixels[inside] + share * colour
        pale = 0.4 * (1 - cell.depth)
        out[inside] = (1 - pale) * tinted + pale * 255
    lit: Image = np.rint(out).astype(np.uint8)
    return lit
