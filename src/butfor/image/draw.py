"""Pictures of a run: the photograph with its regions, the counterfactuals beside it, and a sheet of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from butfor.image.region import Box, Image, at, bounds, integral, is_box, is_mask, is_region, mask_of
from butfor.types import Bools, InputError, Ints, Subset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont


BLUE, GREY, RED = (21, 92, 214), (98, 106, 116), (208, 36, 36)  # chosen, not chosen, implausible
INK, PALE, PAPER = (25, 28, 33), (105, 112, 122), (255, 255, 255)
PAD = 3  # pixels between letters and the edge of their plate
MOST_HIDDEN = 0.15  # of a region: a plate must not hide what it speaks of
NOBODY, TAKEN = -1, -2  # pixels that belong to no region, and those under a plate


@dataclass(frozen=True)
class Mark:
    """One region of a photograph.

    Parameters
    ----------
    subset : where it is.
    text : what is written into it.
    chosen : whether it was chosen; None: not tested yet.
    """

    subset: Subset
    text: str = ""
    chosen: bool | None = None

    @property
    def colour(self) -> tuple[int, int, int]:
        return PALE if self.chosen is None else BLUE if self.chosen else GREY


def photograph(image: Image, marks: Sequence[Mark] = (), *, side: int = 720) -> Image:
    """The photograph with its regions outlined, blue if chosen and grey if not, and the text of each inside it.

    A text that does not fit into its region is made smaller, or stands beside it where there is no other region, or is
    left out; attributes of the whole image are listed below.

    Parameters
    ----------
    image : the photograph.
    marks : its regions and what is said of them.
    side : about so many pixels has the longer side of what comes back, whatever the image's size, so that lines and
        letters are always readable (for a sheet, make it the width of a column).

    Examples
    --------
    >>> photograph(np.zeros((30, 40, 3), np.uint8), [Mark(Subset("box 1", (5, 5, 20, 20)), "1.2", True)]).shape
    (540, 720, 3)
    """
    from PIL import Image as Pictures
    from PIL import ImageDraw

    scale = side / max(image.shape[:2])
    picture = resized(image, scale)
    pen = ImageDraw.Draw(picture)
    line = max(2, round(side / 240))
    regions = [mark for mark in marks if is_region(mark.subset)]
    whole = [mark for mark in marks if not is_region(mark.subset)]
    areas = [mask_of(mark.subset, *image.shape[:2]).sum() for mark in regions]
    order = sorted(range(len(regions)), key=lambda k: -areas[k])  # small ones over large ones
    owner = np.full((picture.height, picture.width), NOBODY)
    for k in order:
        inside = _pixels(regions[k], image, scale, line, picture.size)
        _outline(picture, pen, regions[k], inside, line)
        owner[inside] = k
    for k in reversed(order):  # small ones have fewer places for their text
        _label(pen, regions[k], k, owner, line)
    if not whole:
        return np.array(picture)
    strip = _chips(whole, picture.width)
    sheet = Pictures.new("RGB", (picture.width, picture.height + strip.height), PAPER)
    sheet.paste(picture)
    sheet.paste(strip, (0, picture.height))
    return np.array(sheet)


def resized(image: Image, scale: float) -> Picture:
    """The image at another size; small ones that are much enlarged keep their pixels."""
    from PIL import Image as Pictures

    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    method = Pictures.Resampling.BICUBIC if scale < 4 else Pictures.Resampling.NEAREST
    return Pictures.fromarray(np.ascontiguousarray(image)).resize(size, method)


def _pixels(mark: Mark, image: Image, scale: float, line: int, size: tuple[int, int]) -> Bools:
    """The region in the scaled picture; a dot is made large enough to be seen."""
    mask = mask_of(mark.subset, *image.shape[:2])
    if is_mask(mark.subset.index):
        from PIL import Image as Pictures

        grey = Pictures.fromarray(mask.astype(np.uint8) * 255).resize(size, Pictures.Resampling.BILINEAR)
        return np.asarray(grey) > 127
    inside = np.zeros((size[1], size[0]), np.bool_)
    x1, y1, x2, y2 = (round(value * scale) for value in mark.subset.index)
    inside[y1 : max(y2, y1 + 2 * line), x1 : max(x2, x1 + 2 * line)] = True
    return inside


def _outline(picture: Picture, pen: ImageDraw, mark: Mark, inside: Bools, line: int) -> None:
    if not inside.any():
        return
    if is_box(mark.subset.index):
        x1, y1, x2, y2 = bounds(inside)
        if min(x2 - x1, y2 - y1) < 3:  # no room for two lines: an image of one row, or a dot at the edge
            pen.rectangle((x1, y1, x2 - 1, y2 - 1), fill=mark.colour)
            return
        pen.rectangle((x1, y1, x2 - 1, y2 - 1), outline=PAPER, width=line + 2)
        pen.rectangle((x1 + 1, y1 + 1, x2 - 2, y2 - 2), outline=mark.colour, width=line)
        return
    from PIL import Image as Pictures
    from scipy.ndimage import binary_erosion

    for width, colour in ((line + 2, PAPER), (line, mark.colour)):
        edge = inside & ~binary_erosion(inside, iterations=width)
        picture.paste(colour, mask=Pictures.fromarray(edge.astype(np.uint8) * 255))
        inside = binary_erosion(inside)


@lru_cache(maxsize=64)
def font_of(size: int) -> FreeTypeFont:
    """Matplotlib's own letters: Pillow's have no minus, no Greek and no Cyrillic."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", max(8, size))


def _label(pen: ImageDraw, mark: Mark, k: int, owner: Ints, line: int) -> None:
    """The text on a plate of the region's colour: in it, else beside it, smaller if need be, else nowhere.

    A number that stands in another region would be read as that one's: what fits nowhere is left out.
    """
    own = owner == k
    if not mark.text or not own.any():
        return
    box = bounds(own)
    aim = None if is_mask(mark.subset.index) else (box[0] + line, box[1] + line)
    largest = max(12, round(max(owner.shape) / 32))
    within, beside = partial(_within, own, box, aim), partial(_beside, owner, box)
    large, small = range(largest, 11, -2), (10, 9)
    for find, size in (*product((within, beside), large), *product((within, beside), small)):
        left, top, right, bottom = pen.textbbox((0, 0), mark.text, font=font_of(size))
        pad = max(1, round(size / 7))
        width, height = int(right - left) + 2 * pad, int(bottom - top) + 2 * pad
        place = find(width, height)
        if place is not None:
            x, y = place
            pen.rectangle((x, y, x + width - 1, y + height - 1), fill=mark.colour)
            pen.text((x + pad - left, y + pad - top), mark.text, fill=PAPER, font=font_of(size))
            owner[y : y + height, x : x + width] = TAKEN
            return


def _within(own: Bools, box: Box, aim: tuple[int, int] | None, width: int, height: int) -> tuple[int, int] | None:
    """Where a plate covers nothing but its own region, and little of that: nearest to `aim`, or to the middle."""
    own = own[at(box)]
    if width > own.shape[1] or height > own.shape[0] or width * height > MOST_HIDDEN * own.sum():
        return None
    sums = integral(own)
    count = sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
    ys, xs = np.nonzero(count == width * height)
    if not ys.size:
        return None
    x, y = (values.mean() - side / 2 for values, side in zip(np.nonzero(own)[::-1], (width, height), strict=True))
    if aim is not None:
        x, y = aim[0] - box[0], aim[1] - box[1]
    nearest = np.argmin((xs - x) ** 2 + (ys - y) ** 2)
    return box[0] + int(xs[nearest]), box[1] + int(ys[nearest])


def _beside(owner: Ints, box: Box, width: int, height: int) -> tuple[int, int] | None:
    """Where a plate covers no region and touches its own: above, below, to the right or to the left of it."""
    x1, y1, x2, y2 = box
    for x, y in ((x1, y1 - height), (x1, y2), (x2, y1), (x1 - width, y1)):
        x, y = max(0, min(x, owner.shape[1] - width)), max(0, min(y, owner.shape[0] - height))
        ground = owner[y : y + height, x : x + width]
        if ground.shape == (height, width) and (ground == NOBODY).all():
            return x, y
    return None


def _chips(marks: Sequence[Mark], width: int) -> Picture:
    """Attributes of the whole image: one plate after the other, in as many lines as it takes."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    font = font_of(round(width / 36))
    gap, x, row = 6, 6, 0
    height = int(sum(font.getmetrics())) + 2 * PAD
    placed = []
    for mark in marks:
        text = f"{mark.subset.name}  {mark.text}".strip()
        long = int(font.getlength(text)) + 4 * PAD
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


def photograph_axes(image: Image, marks: Sequence[Mark] = (), ax: Axes | None = None) -> Axes:
    """The same as `photograph` on matplotlib axes, drawn with lines and letters, for papers. Returns the axes.

    Parameters
    ----------
    image, marks : as in `photograph`.
    ax : the axes; None makes some.
    """
    from matplotlib.patches import Rectangle

    ax = ax or _new_axes()
    ax.imshow(image)
    ax.set_axis_off()
    for mark in marks:
        colour = tuple(value / 255 for value in mark.colour)
        if not is_region(mark.subset):
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
    whole = [mark for mark in marks if not is_region(mark.subset)]
    if whole:
        parts = (f"{mark.subset.name} {mark.text}".strip() + (" (chosen)" if mark.chosen else "") for mark in whole)
        ax.set_title(", ".join(parts), fontsize=8, loc="left", y=-0.08)
    return ax


def show(picture: Image, ax: Axes | None = None) -> Axes:
    """A picture made by this module on matplotlib axes, without a frame. Returns the axes.

    Parameters
    ----------
    picture : what `photograph`, `gallery` or `contact_sheet` returned.
    ax : the axes; None makes some of the picture's size.
    """
    ax = ax or _new_axes(figsize=(picture.shape[1] / 100, picture.shape[0] / 100))
    ax.imshow(picture)
    ax.set_axis_off()
    return ax


def _new_axes(figsize: tuple[float, float] | None = None) -> Axes:
    import matplotlib.pyplot as plt

    ax: Axes = plt.subplots(figsize=figsize, layout="constrained")[1]
    return ax


def png(picture: Image) -> bytes:
    """A picture as the bytes of a PNG file.

    Parameters
    ----------
    picture : an array (height, width, 3).

    Examples
    --------
    >>> png(np.zeros((2, 2, 3), np.uint8))[1:4]
    b'PNG'
    """
    from PIL import Image as Pictures

    return encoded(Pictures.fromarray(np.ascontiguousarray(picture)), "PNG")


def encoded(picture: Picture, kind: str, **options: int) -> bytes:
    """The bytes of a file of this kind."""
    out = BytesIO()
    picture.save(out, kind, optimize=True, **options)
    return out.getvalue()


GAP = 10
Line = tuple[str, tuple[int, int, int]]  # one line of a caption and its colour


def gallery(
    image: Image,
    subset: Subset,
    counterfactuals: Sequence[Image],
    *,
    observed: float | None = None,
    values: Sequence[float] | None = None,
    label: str = "p",
    chosen: bool | None = None,
    flagged: Sequence[bool] | None = None,
    height: int = 220,
) -> Image:
    """The original, the original with the region blanked, and the counterfactuals, side by side.

    Parameters
    ----------
    image, subset, counterfactuals : the original, its region, and what was drawn.
    observed, values : the model's output on the original and on each counterfactual, written under them.
    label : what that output is called.
    chosen : the region is outlined blue if it was chosen, grey if not.
    flagged : which counterfactuals are implausible: these say so.
    height : pixels of each picture.

    Examples
    --------
    >>> image = np.zeros((30, 40, 3), np.uint8)
    >>> gallery(image, Subset("box 1", (5, 5, 9, 9)), [image], observed=0.97, values=[0.81], height=90).shape[2]
    3
    """
    for given, what in ((values, "values"), (flagged, "flags")):
        if given is not None and len(given) != len(counterfactuals):
            raise InputError(f"gallery got {len(counterfactuals)} counterfactuals but {len(given)} {what}")
    output = "" if observed is None else f"{label} = {observed:.3f}"
    tiles = [_tile(image, [("original", INK), (output, PALE)], height)]
    if is_region(subset):
        edge = Mark(subset, chosen=chosen).colour
        tiles.append(_tile(_blanked(image, subset, edge), [(subset.name, edge), ("removed", PALE)], height))
    for k, counterfactual in enumerate(counterfactuals):
        tiles.append(_tile(counterfactual, _caption(k, label, observed, values, flagged), height))
    return _sheet([tiles])


def _caption(
    k: int, label: str, observed: float | None, values: Sequence[float] | None, flagged: Sequence[bool] | None
) -> list[Line]:
    lines: list[Line] = [(f"counterfactual {k + 1}", INK)]
    if values is not None:
        change = "" if observed is None else f"  ({values[k] - observed:+.3f})"
        lines.append((f"{label} = {values[k]:.3f}{change}", PALE))
    if flagged is not None and flagged[k]:
        lines.append(("implausible", RED))
    return lines


def _blanked(image: Image, subset: Subset, edge: tuple[int, int, int]) -> Image:
    """The region in a pattern that no photograph has."""
    from scipy.ndimage import binary_erosion

    height, width = image.shape[:2]
    mask = mask_of(subset, height, width)
    step = max(1, round(max(height, width) / 60))
    down, across = np.indices((height, width)) // step
    out = image.copy()
    out[mask] = np.where((down + across) % 2, 205, 235)[mask][:, None]
    rim = mask & ~binary_erosion(mask, iterations=max(1, round(max(height, width) / 150)))
    out[rim] = edge
    return out


def _tile(image: Image, lines: Sequence[Line], height: int, width: int | None = None) -> Picture:
    """An image at this height (or fitted into width x height) with its caption, as wide as the wider of the two."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    picture = resized(image, min(height / image.shape[0], width / image.shape[1] if width else np.inf))
    font = font_of(max(12, round(height / 16)))
    step = int(sum(font.getmetrics())) + 2
    wide = width or max(picture.width, *(int(font.getlength(text)) + 2 for text, _ in lines))
    tile = Pictures.new("RGB", (wide, height + 6 + step * len(lines)), PAPER)
    tile.paste(picture, ((wide - picture.width) // 2, (height - picture.height) // 2))
    pen = ImageDraw.Draw(tile)
    for k, (text, colour) in enumerate(lines):
        shown = _shortened(text, font, wide)
        pen.text(((wide - font.getlength(shown)) / 2, height + 6 + k * step), shown, fill=colour, font=font)
    return tile


def _shortened(text: str, font: FreeTypeFont, width: int) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "...") > width:
        text = text[:-1]
    return text + "..."


def _sheet(rows: Sequence[Sequence[Picture]], width: int | None = None) -> Image:
    """Rows of tiles, one below the other."""
    from PIL import Image as Pictures

    wide = width or max(sum(tile.width + GAP for tile in row) for row in rows) + GAP
    tall = [max(tile.height for tile in row) + GAP for row in rows]
    sheet = Pictures.new("RGB", (wide, sum(tall) + GAP), PAPER)
    for row, y in zip(rows, np.cumsum([GAP, *tall]).tolist(), strict=False):
        x = GAP
        for tile in row:
            sheet.paste(tile, (x, y))
            x += tile.width + GAP
    return np.array(sheet)


def contact_sheet(
    pictures: Sequence[Image], captions: Sequence[Sequence[str] | str], *, columns: int = 4, width: int = 1400
) -> Image:
    """Many pictures on one sheet, with their captions under them.

    Parameters
    ----------
    pictures : arrays (height, width, 3).
    captions : a line, or several, for each.
    columns : pictures a row.
    width : pixels of the sheet.

    Examples
    --------
    >>> contact_sheet([np.zeros((30, 40, 3), np.uint8)] * 5, ["a"] * 5, columns=3, width=600).shape[1]
    600
    """
    if not pictures or len(pictures) != len(captions):
        raise InputError(f"contact_sheet needs a caption for each picture, got {len(pictures)} and {len(captions)}")
    if columns < 1:
        raise InputError(f"contact_sheet needs at least one column, got {columns}")
    columns = min(columns, len(pictures))
    side = (width - GAP * (columns + 1)) // columns
    shape = float(np.median([picture.shape[0] / picture.shape[1] for picture in pictures]))
    height = max(40, round(side * min(shape, 1.0)))
    tiles = []
    for picture, caption in zip(pictures, captions, strict=True):
        texts = [caption] if isinstance(caption, str) else caption
        tiles.append(_tile(picture, [(text, PALE if k else INK) for k, text in enumerate(texts)], height, side))
    return _sheet([tiles[k : k + columns] for k in range(0, len(tiles), columns)], width)


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
