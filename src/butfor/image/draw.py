"""Pictures of a run: the photograph with its regions, the counterfactuals beside it, and a sheet of many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.types import Subset
from butfor.image.region import Box, Image, bounds, is_box, is_mask, mask_of

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw

BLUE, RED = (21, 92, 214), (208, 36, 36)  # chosen, not chosen
INK, PALE, PAPER = (25, 28, 33), (105, 112, 122), (255, 255, 255)
PAD = 3  # pixels between a label's letters and its edge


@dataclass(frozen=True)
class Mark:
    """One region of a photograph: what is written into it, and whether it was chosen (None: not tested yet)."""

    subset: Subset
    text: str = ""
    chosen: bool | None = None

    @property
    def colour(self) -> tuple[int, int, int]:
        return PALE if self.chosen is None else BLUE if self.chosen else RED


def photograph(image: Image, marks: Sequence[Mark] = (), *, side: int = 720) -> Image:
    """The photograph with its regions outlined, blue if chosen and red if not, and the text of each inside it.

    The longer side of what comes back is about `side` pixels whatever the image's size, so that lines and letters are
    always readable (for a sheet, make it the width of a column). A text that does not fit into its region stands beside
    it; attributes of the whole image are listed below.

    >>> photograph(np.zeros((30, 40, 3), np.uint8), [Mark(Subset("box 1", (5, 5, 20, 20)), "1.2", True)]).shape
    (540, 720, 3)
    """
    from PIL import Image as Pictures
    from PIL import ImageDraw

    scale = side / max(image.shape[:2])
    picture = _scaled(image, scale)
    pen = ImageDraw.Draw(picture)
    line = max(2, round(side / 240))
    regions = [mark for mark in marks if is_box(mark.subset.index) or is_mask(mark.subset.index)]
    for mark in regions:
        _outline(picture, pen, mark, image, scale, line)
    taken: list[Box] = []
    for mark in sorted(regions, key=lambda mark: _area(mark, image)):  # small ones have fewer places for their text
        _label(pen, mark, image, scale, line, picture.size, taken)
    whole = [mark for mark in marks if mark not in regions]
    if not whole:
        return np.array(picture)
    strip = _chips(whole, picture.width)
    sheet = Pictures.new("RGB", (picture.width, picture.height + strip.height), PAPER)
    sheet.paste(picture)
    sheet.paste(strip, (0, picture.height))
    return np.array(sheet)


def _scaled(image: Image, scale: float) -> Picture:
    from PIL import Image as Pictures

    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    method = Pictures.Resampling.BICUBIC if scale < 4 else Pictures.Resampling.NEAREST  # small images keep their pixels
    return Pictures.fromarray(image).resize(size, method)


def _outline(picture: Picture, pen: ImageDraw, mark: Mark, image: Image, scale: float, line: int) -> None:
    if is_box(mark.subset.index):
        x1, y1, x2, y2 = (round(value * scale) for value in mark.subset.index)
        x2, y2 = max(x2, x1 + 2 * line), max(y2, y1 + 2 * line)  # a dot is still to be seen
        pen.rectangle((x1, y1, x2 - 1, y2 - 1), outline=PAPER, width=line + 2)
        pen.rectangle((x1 + 1, y1 + 1, x2 - 2, y2 - 2), outline=mark.colour, width=line)
        return
    from PIL import Image as Pictures
    from scipy.ndimage import binary_erosion

    mask = Pictures.fromarray(mask_of(mark.subset, *image.shape[:2]).astype(np.uint8) * 255)
    inside = np.asarray(mask.resize(picture.size, Pictures.Resampling.BILINEAR)) > 127
    for width, colour in ((line + 2, PAPER), (line, mark.colour)):
        edge = inside & ~binary_erosion(inside, iterations=width)
        picture.paste(colour, mask=Pictures.fromarray(edge.astype(np.uint8) * 255))
        inside = binary_erosion(inside)


def _area(mark: Mark, image: Image) -> int:
    return int(mask_of(mark.subset, *image.shape[:2]).sum())


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(max(8, size))


def _label(
    pen: ImageDraw, mark: Mark, image: Image, scale: float, line: int, size: tuple[int, int], taken: list[Box]
) -> None:
    """The text on a plate of the region's colour: in its corner, else where nothing else stands."""
    if not mark.text:
        return
    mask = mask_of(mark.subset, *image.shape[:2])
    x1, y1, x2, y2 = (round(value * scale) for value in bounds(mask))
    font = _font(max(12, round(max(size) / 32)))
    left, top, right, bottom = pen.textbbox((0, 0), mark.text, font=font)
    width, height = int(right - left) + 2 * PAD, int(bottom - top) + 2 * PAD
    fits = width <= x2 - x1 - 2 * line and height <= y2 - y1 - 2 * line
    fits = fits and width * height <= 0.15 * mask.sum() * scale**2  # a plate must not hide what it speaks of
    places = [(x1 + line, y1 + line), (x2 - width - line, y2 - height - line)] if fits else []
    if is_mask(mark.subset.index) and fits:
        rows, columns = np.nonzero(mask)
        places.insert(0, (round(columns.mean() * scale - width / 2), round(rows.mean() * scale - height / 2)))
    places += [(x1, y1 - height), (x1, y2), (x2, y1), (x1 - width, y1), (x1 + line, y1 + line)]
    inside = [
        (int(np.clip(x, 0, max(0, size[0] - width))), int(np.clip(y, 0, max(0, size[1] - height)))) for x, y in places
    ]
    free = [place for place in inside if not any(_meet((*place, width, height), other) for other in taken)]
    x, y = (free or inside)[0]
    taken.append((x, y, width, height))
    pen.rectangle((x, y, x + width - 1, y + height - 1), fill=mark.colour)
    pen.text((x + PAD - left, y + PAD - top), mark.text, fill=PAPER, font=font)


def _meet(a: Box, b: Box) -> bool:
    """Whether two plates (x, y, width, height) touch."""
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def _chips(marks: Sequence[Mark], width: int) -> Picture:
    """Attributes of the whole image: one plate after the other, in as many lines as it takes."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    font = _font(round(width / 36))
    pen = ImageDraw.Draw(Pictures.new("RGB", (1, 1)))
    gap, x, row = 6, 6, 0
    height = int(sum(font.getmetrics())) + 2 * PAD
    placed = []
    for mark in marks:
        text = f"{mark.subset.name}  {mark.text}".strip()
        long = int(pen.textlength(text, font=font)) + 4 * PAD
        if x > gap and x + long > width - gap:
            x, row = gap, row + 1
        placed.append((x, row, long, text, mark))
        x += long + gap
    strip = Pictures.new("RGB", (width, (row + 1) * (height + gap) + gap), PAPER)
    pen = ImageDraw.Draw(strip)
    for x, row, long, text, mark in placed:
        y = gap + row * (height + gap)
        pen.rounded_rectangle((x, y, x + long, y + height), radius=4, fill=mark.colour)
        pen.text((x + 2 * PAD, y + PAD), text, fill=PAPER, font=font)
    return strip


def photograph_axes(image: Image, marks: Sequence[Mark] = (), ax: Any = None) -> Any:
    """The same as `photograph` on matplotlib axes, drawn with lines and letters, for papers. Returns the axes."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    from matplotlib.patches import Rectangle

    ax.imshow(image)
    ax.set_axis_off()
    for mark in marks:
        colour = tuple(value / 255 for value in mark.colour)
        if not (is_box(mark.subset.index) or is_mask(mark.subset.index)):
            continue
        mask = mask_of(mark.subset, *image.shape[:2])
        x1, y1, x2, y2 = bounds(mask)
        x, y = x1, y1
        if is_mask(mark.subset.index):
            ax.contour(mask, levels=[0.5], colors=[colour], linewidths=2)
            x, y = (int(values.mean()) for values in np.nonzero(mask)[::-1])
        else:
            ax.add_patch(Rectangle((x1 - 0.5, y1 - 0.5), x2 - x1, y2 - y1, fill=False, edgecolor=colour, linewidth=2))
        plate = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
        ax.text(x, y, mark.text, color="white", fontsize=8, va="top", bbox=plate)
    whole = [m for m in marks if not (is_box(m.subset.index) or is_mask(m.subset.index))]
    if whole:
        said = ", ".join(f"{m.subset.name} {m.text}".strip() + (" (chosen)" if m.chosen else "") for m in whole)
        ax.set_title(said, fontsize=8, loc="left", y=-0.08)
    return ax


def show(picture: Image, ax: Any = None) -> Any:
    """A picture made by this module on matplotlib axes, without a frame. Returns the axes."""
    if ax is None:
        import matplotlib.pyplot as plt

        size = (picture.shape[1] / 100, picture.shape[0] / 100)
        ax = plt.subplots(figsize=size, layout="constrained")[1]
    ax.imshow(picture)
    ax.set_axis_off()
    return ax


def png(picture: Image) -> bytes:
    """A picture as the bytes of a PNG file.

    >>> png(np.zeros((2, 2, 3), np.uint8))[1:4]
    b'PNG'
    """
    from io import BytesIO

    from PIL import Image as Pictures

    out = BytesIO()
    Pictures.fromarray(picture).save(out, "PNG", optimize=True)
    return out.getvalue()
