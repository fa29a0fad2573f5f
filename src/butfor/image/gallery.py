"""Rows and sheets of pictures: the counterfactuals of one region, and the photographs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.types import InputError, Subset
from butfor.image.draw import INK, PALE, PAPER, RED, Mark, font_of, resized
from butfor.image.region import Image, is_region, mask_of

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageFont import FreeTypeFont

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
