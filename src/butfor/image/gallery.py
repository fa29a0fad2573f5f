"""Rows and sheets of pictures: the counterfactuals of one region, and the photographs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.types import InputError, Subset
from butfor.image.draw import BLUE, INK, PALE, PAPER, RED, _font
from butfor.image.region import Image, is_box, is_mask, mask_of

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

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

    Under each stands `label` with its value (`observed`, `values`), and under a counterfactual the change; those that
    `flagged` calls implausible say so. The region is outlined blue if `chosen`, red if not.

    >>> image = np.zeros((30, 40, 3), np.uint8)
    >>> gallery(image, Subset("box 1", (5, 5, 9, 9)), [image], observed=0.97, values=[0.81], height=90).shape[2]
    3
    """
    for given, what in ((values, "values"), (flagged, "flags")):
        if given is not None and len(given) != len(counterfactuals):
            raise InputError(f"gallery got {len(counterfactuals)} counterfactuals but {len(given)} {what}")
    said = "" if observed is None else f"{label} = {observed:.3f}"
    tiles: list[tuple[Image, list[Line]]] = [(image, [("original", INK), (said, PALE)])]
    if is_box(subset.index) or is_mask(subset.index):
        edge = PALE if chosen is None else BLUE if chosen else RED
        tiles.append((_blanked(image, subset, edge), [(subset.name, edge), ("removed", PALE)]))
    for k, counterfactual in enumerate(counterfactuals):
        tiles.append((counterfactual, _caption(k, label, observed, values, flagged)))
    return _row(tiles, height)


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


def _row(tiles: Sequence[tuple[Image, list[Line]]], height: int) -> Image:
    from PIL import Image as Pictures

    pictures = [_tile(image, lines, height) for image, lines in tiles]
    width = sum(picture.width for picture in pictures) + GAP * (len(pictures) + 1)
    tall = max(picture.height for picture in pictures) + 2 * GAP
    sheet = Pictures.new("RGB", (width, tall), PAPER)
    x = GAP
    for picture in pictures:
        sheet.paste(picture, (x, GAP))
        x += picture.width + GAP
    return np.array(sheet)


def _tile(image: Image, lines: Sequence[Line], height: int, width: int | None = None) -> Picture:
    """An image at this height (or fitted into width x height) with its caption, as wide as the wider of the two."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    scale = height / image.shape[0] if width is None else min(height / image.shape[0], width / image.shape[1])
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    method = Pictures.Resampling.BICUBIC if scale < 4 else Pictures.Resampling.NEAREST
    picture = Pictures.fromarray(image).resize(size, method)
    font = _font(max(12, round(height / 16)))
    measure = ImageDraw.Draw(Pictures.new("RGB", (1, 1)))
    step = int(sum(font.getmetrics())) + 2
    least = 0 if width else max(int(measure.textlength(text, font=font)) + 2 for text, _ in lines)
    wide = width or max(size[0], least)
    tile = Pictures.new("RGB", (wide, height + 6 + step * len(lines)), PAPER)
    tile.paste(picture, ((wide - size[0]) // 2, (height - size[1]) // 2))
    pen = ImageDraw.Draw(tile)
    for k, (text, colour) in enumerate(lines):
        text = _shortened(text, font, measure, wide)
        pen.text(
            ((wide - measure.textlength(text, font=font)) / 2, height + 6 + k * step), text, fill=colour, font=font
        )
    return tile


def _shortened(text: str, font: Any, pen: Any, width: int) -> str:
    if pen.textlength(text, font=font) <= width:
        return text
    while text and pen.textlength(text + "...", font=font) > width:
        text = text[:-1]
    return text + "..."


def contact_sheet(
    pictures: Sequence[Image], captions: Sequence[Sequence[str] | str], *, columns: int = 4, width: int = 1400
) -> Image:
    """Many pictures on one sheet, `columns` a row, with the lines of their captions under them.

    >>> contact_sheet([np.zeros((30, 40, 3), np.uint8)] * 5, ["a"] * 5, columns=3, width=600).shape[1]
    600
    """
    from PIL import Image as Pictures

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
        said = [caption] if isinstance(caption, str) else list(caption)
        lines: list[Line] = [(text, INK if k == 0 else PALE) for k, text in enumerate(said)]
        tiles.append(_tile(picture, lines, height, side))
    rows = [tiles[k : k + columns] for k in range(0, len(tiles), columns)]
    tall = [max(tile.height for tile in row) for row in rows]
    sheet = Pictures.new("RGB", (width, sum(tall) + GAP * (len(rows) + 1)), PAPER)
    y = GAP
    for row, high in zip(rows, tall, strict=True):
        for k, tile in enumerate(row):
            sheet.paste(tile, (GAP + k * (side + GAP), y))
        y += high + GAP
    return np.array(sheet)
