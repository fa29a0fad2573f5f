"""Pictures of a run: photographs with their regions, heat maps, and the data that a report's template shows."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from butfor.image.region import (
    Attribute,
    Box,
    Image,
    at,
    bounds,
    box_sums,
    integral,
    is_box,
    is_mask,
    is_region,
    mask_of,
)
from butfor.image.where import FINE, nearest
from butfor.inference.statistics import softmax
from butfor.models.wrap import need
from butfor.results.result import Result
from butfor.results.summary import are_logits, are_probabilities, change, flip_words, headline_parts, number, size_words
from butfor.results.view import doubtful, marked
from butfor.results.where import SHARES, smallest, takes
from butfor.types import Bools, Floats, InputError, Ints, Subset

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

BLUE, GREY, PAPER = (21, 92, 214), (98, 106, 116), (255, 255, 255)  # chosen, not chosen, background
LOWERS = (214, 110, 12)  # as everywhere: blue raises the output, orange lowers it
FADED = 0.55  # share of white outside of chosen cells
VEIL = 0.65  # share of blue where the map is strongest
TINT = 0.4  # share of the colour at the finest resolution
WHERE_KEY = (
    "The bluer, the more the output rests on the place (an estimate); grey outlines: cells whose redrawing surely "
    "lowers it on average; blue outline: the smallest region that surely moves it, with the number that it takes off"
)
FAINT = 0.25  # share of the colour of the largest effect that is estimated and not unusual
PAD = 3  # pixels between letters and the edge of their plate
MOST_HIDDEN = 0.15  # of a region under its plate
NOBODY, TAKEN = -1, -2  # pixels of no region, and those under a plate
MOST_PHOTOGRAPHS, MOST_REGIONS, MOST_DRAWS = 2000, 40, 3
DETAILED, PAGE = 60, 12  # photographs with their counterfactuals; photographs on a page
SIDE, SMALL_SIDE, THUMB, TILE = 720, 480, 220, 300  # longer sides in pixels: photograph, on a sheet, counterfactual
HATCH = 9  # pixels from one line of a hatched region to the next, of a picture of 720
STRONG = 0.5  # of a probability: a change that has the full colour, unless the run has a larger one


@dataclass(frozen=True)
class Mark:
    """One region of a photograph, and the text inside it."""

    subset: Subset
    text: str = ""
    chosen: bool = False
    size: float = 0.0  # what it takes off the output, relative to the largest, -1 to 1: the share of its colour
    hatched: bool = False  # its fills look odd

    @property
    def colour(self) -> tuple[int, int, int]:
        return (LOWERS if self.size < 0 else BLUE) if self.chosen else GREY


def photograph(image: Image, marks: Sequence[Mark] = (), *, side: int = SIDE) -> Image:
    """Draw the photograph with its regions outlined, in colour if chosen and grey if not, and the text of each inside.

    A text that does not fit into its region is made smaller, or put beside it where there is no other region, or left
    out; attributes of the entire image are listed below. The longer side of the picture has `side` pixels whatever the
    image's size, so that lines and letters are always readable.

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
    pixels = [mask_of(mark.subset, *image.shape[:2]) for mark in regions]
    order = sorted(range(len(regions)), key=lambda k: -pixels[k].sum())  # small ones over large ones
    owner = np.full((picture.height, picture.width), NOBODY)
    for k in order:
        if is_mask(regions[k].subset.index):
            grey = Pictures.fromarray(pixels[k].astype(np.uint8) * 255)
            inside = np.asarray(grey.resize(picture.size, Pictures.Resampling.BILINEAR)) > 127
        else:
            x1, y1, x2, y2 = (round(value * scale) for value in regions[k].subset.index)
            inside = np.zeros(owner.shape, np.bool_)  # a dot is made large enough to be seen
            inside[y1 : max(y2, y1 + 2 * line), x1 : max(x2, x1 + 2 * line)] = True
        if inside.any():
            mark = regions[k]
            if mark.chosen and mark.size:  # in colour the more, the larger it is
                strength = np.uint8(round(255 * 0.6 * min(abs(mark.size), 1.0)))
                picture.paste(mark.colour, mask=Pictures.fromarray(inside.astype(np.uint8) * strength))
            if mark.hatched:
                step = max(4, round(HATCH * side / SIDE))
                lines = inside & (np.indices(inside.shape).sum(axis=0) % step < max(1, step // 5))
                picture.paste(PAPER, mask=Pictures.fromarray(lines.astype(np.uint8) * 200))
            _outline(picture, pen, mark, inside, line)
        owner[inside] = k
    for k in reversed(order):  # small ones have less room for their text
        _label(pen, regions[k], k, owner, line)
    attributes = [mark for mark in marks if not is_region(mark.subset)]
    if not attributes:
        return np.array(picture)
    strip = _chips(attributes, picture.width)
    sheet = Pictures.new("RGB", (picture.width, picture.height + strip.height), PAPER)
    sheet.paste(picture)
    sheet.paste(strip, (0, picture.height))
    return np.array(sheet)


def resized(image: Image, scale: float) -> Picture:
    from PIL import Image as Pictures

    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    method = Pictures.Resampling.BICUBIC if scale < 4 else Pictures.Resampling.NEAREST  # keep the pixels
    return Pictures.fromarray(np.ascontiguousarray(image)).resize(size, method)


def _outline(picture: Picture, pen: ImageDraw, mark: Mark, inside: Bools, line: int) -> None:
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
    """Load matplotlib's font: Pillow's has no minus, no Greek and no Cyrillic."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", max(8, size))


def _label(pen: ImageDraw, mark: Mark, k: int, owner: Ints, line: int) -> None:
    """Write the text on a plate of the region's colour: in it, else beside it, smaller if need be, else nowhere.

    A number inside another region would be read as that one's: what fits nowhere is left out.
    """
    region = owner == k
    if not mark.text or not region.any():
        return
    x1, y1, x2, y2 = box = bounds(region)
    aim = None if is_mask(mark.subset.index) else (x1 + line, y1 + line)

    def beside(width: int, height: int) -> tuple[int, int] | None:
        """Return where a plate covers no region and touches its own: above, below, to the right or to the left."""
        for x, y in ((x1, y1 - height), (x1, y2), (x2, y1), (x1 - width, y1)):
            x, y = max(0, min(x, owner.shape[1] - width)), max(0, min(y, owner.shape[0] - height))
            ground = owner[y : y + height, x : x + width]
            if ground.shape == (height, width) and (ground == NOBODY).all():
                return x, y
        return None

    finders: list[Callable[[int, int], tuple[int, int] | None]] = [partial(_within, region, box, aim), beside]
    largest = max(12, round(max(owner.shape) / 32))
    for find, size in (*product(finders, range(largest, 11, -2)), *product(finders, (10, 9))):
        left, top, right, bottom = pen.textbbox((0, 0), mark.text, font=font_of(size))
        pad = max(1, round(size / 7))
        width, height = int(right - left) + 2 * pad, int(bottom - top) + 2 * pad
        corner = find(width, height)
        if corner is not None:
            x, y = corner
            pen.rectangle((x, y, x + width - 1, y + height - 1), fill=mark.colour)
            pen.text((x + pad - left, y + pad - top), mark.text, fill=PAPER, font=font_of(size))
            owner[y : y + height, x : x + width] = TAKEN
            return


def _within(region: Bools, box: Box, aim: tuple[int, int] | None, width: int, height: int) -> tuple[int, int] | None:
    """Return where a plate covers nothing but its region, and little of that: nearest to `aim`, or to the middle."""
    inside = region[at(box)]
    if width > inside.shape[1] or height > inside.shape[0] or width * height > MOST_HIDDEN * inside.sum():
        return None
    left, top = np.arange(inside.shape[1] - width + 1), np.arange(inside.shape[0] - height + 1)[:, None]
    ys, xs = np.nonzero(box_sums(integral(inside), left, top, left + width, top + height) == width * height)
    if not ys.size:
        return None
    x, y = (values.mean() - side / 2 for values, side in zip(np.nonzero(inside)[::-1], (width, height), strict=True))
    if aim is not None:
        x, y = aim[0] - box[0], aim[1] - box[1]
    nearest = np.argmin((xs - x) ** 2 + (ys - y) ** 2)
    return box[0] + int(xs[nearest]), box[1] + int(ys[nearest])


def _chips(marks: Sequence[Mark], width: int) -> Picture:
    """Draw the attributes of the entire image: one plate after the other, in as many lines as it takes."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    font = font_of(round(width / 36))
    gap, x, row = 6, 6, 0
    height = int(sum(font.getmetrics())) + 2 * PAD
    plates = []
    for mark in marks:
        text = f"{mark.subset.name}  {mark.text}".strip()
        long = int(font.getlength(text)) + 4 * PAD
        if x > gap and x + long > width - gap:
            x, row = gap, row + 1
        plates.append((x, row, long, text, mark))
        x += long + gap
    strip = Pictures.new("RGB", (width, (row + 1) * (height + gap) + gap), PAPER)
    pen = ImageDraw.Draw(strip)
    for x, row, long, text, mark in plates:
        y = gap + row * (height + gap)
        pen.rounded_rectangle((x, y, x + long, y + height), radius=4, fill=mark.colour)
        pen.text((x + 2 * PAD, y + PAD), text, fill=PAPER, font=font)
    return strip


@dataclass(frozen=True)
class Cell:
    """A region of a heat map: one that was chosen, or one that was drawn and has an `estimate`."""

    subset: Subset
    depth: float  # its resolution relative to the finest of the run, above 0 and at most 1
    lowers: bool = False  # the output
    estimate: float | None = None  # of one that is not chosen: its effect relative to the largest of the run, 0 to 1


def heat(image: Image, cells: Iterable[Cell]) -> Image:
    """Light the cells of an image: pale grey around them, in them the more of the image and of blue the finer they are.

    Cells that lower the output are orange. Those that are not chosen get a faint veil of colour over what is there.

    >>> lit = heat(np.full((8, 8, 3), 100, np.uint8), [Cell(Subset("left", (0, 0, 4, 8)), 1.0)])
    >>> lit[0, 0].tolist(), lit[0, 7].tolist()
    ([68, 97, 146], [185, 185, 185])
    """
    pixels = image.astype(np.float64)
    grey = (pixels @ np.array([0.299, 0.587, 0.114]))[..., None]
    out = np.broadcast_to(grey + FADED * (255 - grey), pixels.shape).copy()
    for cell in sorted(cells, key=lambda one: one.depth):
        inside = mask_of(cell.subset, *image.shape[:2])
        colour = np.array(LOWERS if cell.lowers else BLUE)
        if cell.estimate is not None:
            out[inside] += FAINT * cell.estimate * (colour - out[inside])
            continue
        share = TINT * cell.depth
        tinted = (1 - share) * pixels[inside] + share * colour
        pale = 0.4 * (1 - cell.depth)
        out[inside] = (1 - pale) * tinted + pale * 255
    lit: Image = np.rint(out).astype(np.uint8)
    return lit


@dataclass(frozen=True)
class Tile:
    """One counterfactual: its picture as a data URI (like all pictures here), the model's output, and its change."""

    picture: str
    value: str
    change: str


@dataclass(frozen=True)
class Region:
    name: str
    chosen: bool  # anything was found
    status: str  # what was found, in a word or two
    inside: str  # by how much it moves the output, as in the picture
    size: str  # the same in words
    output: str  # the class that the values are of
    value: str
    where: tuple[float, float, float, float] | None  # x, y, width, height in percent of the image
    mask: str | None
    tiles: tuple[Tile, ...]
    butfor: str = ""  # the share of draws on which the image would have been called something else


@dataclass(frozen=True)
class Photograph:
    """One image of the run with its regions outlined."""

    name: str
    prediction: str  # the model's prediction
    marked: str
    thumb: str
    original: str
    shape: tuple[int, int]  # width, height
    chosen: int
    regions: tuple[Region, ...]
    more: int
    place: int  # index of the input
    number: int  # in the report, from 1


@dataclass(frozen=True)
class Pictures:
    """The variables of the template."""

    photographs: tuple[Photograph, ...]
    more: int
    label: str  # of the values under the pictures
    number: str  # what the number in the regions is
    hatched: bool  # some regions are
    page: int  # photographs on a page
    drawn: bool  # True if there are counterfactuals
    zoomed: bool  # True for heat maps, from coarse to fine
    estimated: bool  # True if those have a veil where nothing is unusual
    where: str = ""  # what the colours mean where no regions were given


def pictures(result: Result) -> Pictures | None:
    """Return the photographs of a result with the counterfactuals that the run kept; None if the files are gone."""
    count = len(result.input_names)
    discoveries = np.bincount(result.input_of, weights=marked(result), minlength=count)
    left_out = np.bincount(result.input_of, weights=hatched(result), minlength=count)  # shown, but not counted
    order = np.lexsort((-left_out, -discoveries))[:MOST_PHOTOGRAPHS].tolist()  # those with most discoveries first
    outputs = result.outputs[order]
    logits = result.output_names is not None and are_logits(outputs)  # one answer for all images of a run
    probable = result.output_names is not None and (logits or are_probabilities(outputs))
    label, words = "probability" if probable else "output", number_words(result)
    try:
        of_order = enumerate(order, start=1)
        photographs = tuple(_photograph(result, index, k, logits, label, words) for k, index in of_order)
    except InputError:  # the files are no longer where they were
        return None
    return Pictures(
        photographs,
        more=count - len(order),
        label=label,
        number=words,
        hatched=bool(hatched(result).any()),
        page=PAGE,
        drawn=any(region.tiles for photo in photographs for region in photo.regions),
        zoomed=result.hypotheses.layers is not None,
        estimated=bool(np.isfinite(result.effects.effect[~result.chosen]).any()),
        where="" if result.located is None else WHERE_KEY,
    )


def _photograph(result: Result, index: int, position: int, logits: bool, label: str, words: str) -> Photograph:
    from PIL import Image as Files

    image: Image = result.hypotheses.items.block(index, index + 1)[0]
    height, width = image.shape[:2]
    rows, detailed = np.flatnonzero(result.input_of == index), position <= DETAILED
    lit, marks = lit_and_marks(result, image, rows)
    sure, odd = marked(result), hatched(result)
    shown = rows[np.lexsort((-np.abs(np.nan_to_num(sizes_of(result)[rows])), ~sure[rows]))[:MOST_REGIONS]]
    observed = result.outputs[index]
    observed = softmax(observed[None])[0] if logits else observed
    best = int(observed.argmax())
    prediction = f"output {number(observed[0])}"
    if result.output_names is not None:
        prediction = f"{_class_name(result.output_names[best])}, {label} {observed[best]:.3f}"

    def region(row: int) -> Region:
        subset, output = result.hypotheses.block_of(row).subset, int(result.evidence.classes[row])
        column = output if len(observed) > 1 else 0
        where, overlay, the = None, None, "" if result.located is None else "the "
        if is_box(subset.index):
            x1, y1, x2, y2 = subset.index
            where = 100 * x1 / width, 100 * y1 / height, 100 * (x2 - x1) / width, 100 * (y2 - y1) / height
        elif is_mask(subset.index) and detailed:  # grey inside and clear outside
            mask = Files.fromarray(mask_of(subset, height, width).astype(np.uint8) * 255)
            size = resized(image, TILE / max(height, width)).size
            clear = Files.new("LA", size, (214, 0))
            clear.putalpha(mask.resize(size))
            overlay = _uri(clear, "PNG")

        def value(outputs: Floats) -> str:
            return f"{outputs[column]:.3f}" if len(outputs) > 1 else number(outputs[0])

        tiles: tuple[Tile, ...] = ()
        if detailed and row in result.kept and not result.record.picked:  # most draws of picked inputs are rejected
            drawn: list[Image] = list(result.kept.whole(result.hypotheses, row, MOST_DRAWS))
            outputs = result.kept.outputs(row)[: len(drawn)]
            tiles = tuple(
                Tile(picture_of(made), value(answer), change(answer[column] - observed[column]))
                for made, answer in zip(drawn, softmax(outputs) if logits else outputs, strict=True)
            )
        status = ["decisive"] if result.decided is not None and result.decided.necessary[row] else []
        status += ["moves the output"] if result.moved is not None and result.moved.moves[row] else []
        status += ["unusual"] if result.chosen[row] else []
        return Region(
            name=subset.name,
            chosen=bool(sure[row]),
            status="fills look odd: not counted" if odd[row] else ", ".join(status) or "nothing found",
            inside=_inside(result, row, words).replace("-", "−"),
            size=size_words(result, row),
            output="" if result.output_names is None else _class_name(result.output_names[output]).split(",")[0],
            value=value(observed),
            where=where,
            mask=overlay,
            tiles=tiles,
            butfor="" if result.decided is None else f"But for {the}{subset.name}: {flip_words(result, row)}.",
        )

    return Photograph(
        name=str(result.input_names[index]),
        prediction=prediction,
        marked=jpeg(photograph(lit, marks, side=SIDE if detailed else SMALL_SIDE)),
        thumb=jpeg(photograph(lit, [replace(mark, text="") for mark in marks], side=THUMB)),
        original=picture_of(image) if detailed else "",
        shape=(width, height),
        chosen=int(sure[rows].sum()),
        regions=tuple(map(region, shown.tolist())),
        more=len(rows) - len(shown),
        place=index,
        number=position,
    )


def marked_photograph(result: Result, index: int, side: int = SIDE) -> Image:
    image: Image = result.hypotheses.items.block(index, index + 1)[0]
    lit, marks = lit_and_marks(result, image, np.flatnonzero(result.input_of == index))
    return photograph(lit, marks, side=side)


def lit_and_marks(result: Result, image: Image, rows: Ints) -> tuple[Image, list[Mark]]:
    """Return an image and the marks of its hypotheses `rows`.

    From coarse to fine only the finest chosen cells are outlined, all chosen ones are lit, and the others have a veil
    where their effect was estimated.
    """
    if result.located is not None:
        return where_marks(result, image, int(result.input_of[rows[0]]))
    sure, lined, drops = marked(result), hatched(result), np.nan_to_num(sizes_of(result))
    words = number_words(result)
    least = 1e-9 if words == "change of the output" else STRONG
    largest = max(least, float(np.abs(drops).max(initial=0.0)))

    def mark(row: int) -> Mark:
        subset, size = result.hypotheses.block_of(row).subset, float(drops[row] / largest)
        return Mark(subset, _inside(result, row, words), bool(sure[row]), size, bool(lined[row]))

    layers = result.hypotheses.layers
    if layers is None:
        return image, list(map(mark, rows.tolist()))
    deepest, effect = max(1, int(layers.resolution.max())), result.effects.effect
    most = np.abs(effect[np.isfinite(effect)]).max(initial=0.0)  # of the run, so that pictures can be compared
    cells, chosen = [], []
    for row in rows[layers.resolution[rows] > 0].tolist():
        estimate = None
        if result.chosen[row]:
            chosen.append(row)
        elif most > 0 and np.isfinite(effect[row]):
            estimate = abs(effect[row]) / most
        else:
            continue
        depth = layers.resolution[row] / deepest
        cells.append(Cell(result.hypotheses.block_of(row).subset, depth, bool(effect[row] < 0), estimate))
    cells.sort(key=lambda cell: cell.estimate is not None)  # veils over what is chosen at the same resolution
    outlined = headline_parts(result, result.chosen)
    return heat(image, cells), [mark(row) for row in chosen if outlined[row]]


def where_marks(result: Result, image: Image, index: int) -> tuple[Image, list[Mark]]:
    """Return a photograph under a veil of its map, with marks: named cells, and the smallest region that moves it.

    The stronger the map the bluer the veil; below stands in words what the region takes off the output.
    """
    assert result.located is not None
    cv2, (height, width) = need("cv2", "image"), image.shape[:2]
    grid = np.maximum(result.located.maps[index], 0.0)
    strength = cv2.resize(grid / max(float(grid.max()), 1e-12), (width, height), interpolation=cv2.INTER_CUBIC)
    strength = np.clip(strength.reshape(height, width, 1), 0.0, 1.0)
    grey = (image @ np.array([0.299, 0.587, 0.114]))[..., None]
    pale = 255 - (1 - FADED / 2) * (255 - (0.3 * image + 0.7 * grey))
    out: Image = np.rint(pale + VEIL * strength * (np.array(BLUE) - pale)).astype(np.uint8)
    labels = result.located.labels[index][nearest(height, FINE)][:, nearest(width, FINE)]
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


def sizes_of(result: Result) -> Floats:
    """Return by how much each region (H,) moves the output: what it takes off, negative if it adds; NaN: not known."""
    return result.effects.effect if result.moved is None else result.moved.drop


def hatched(result: Result) -> Bools:
    """Return regions (H,) of which a finding may be due to their fills."""
    return doubtful(result) & (result.table["status"] == "fills look odd").to_numpy()


def number_words(result: Result) -> str:
    """Return what the number in a region is."""
    link = {"logit": "log-odds", "log": "logarithm of the output"}.get(str(result.record.link))
    outputs, several = result.outputs, result.output_names is not None and result.outputs.size
    probable = several and (are_probabilities(outputs) or (result.moved is not None and are_logits(outputs)))
    return f"change of the {link or ('probability' if probable else 'output')}"


def _inside(result: Result, row: int, words: str) -> str:
    """Return the number inside a region, which `words` name; nothing if it is not known."""
    drop = float(sizes_of(result)[row])
    if not np.isfinite(drop):
        return ""
    text = f"{-drop:+.2f}" if abs(drop) < 100 and words == "change of the probability" else ""
    return text.replace("-0.00", "0").replace("+0.00", "0") or number(-drop, sign=True).replace("−", "-")


def _class_name(name: object) -> str:
    return f"class {name}" if str(name).isdigit() else str(name)


def picture_of(image: Image) -> str:
    return jpeg(np.asarray(resized(image, TILE / max(image.shape[:2]))))


def jpeg(picture: Image) -> str:
    from PIL import Image as Files

    return _uri(Files.fromarray(picture), "JPEG", quality=82)


def _uri(picture: Picture, kind: str, **options: int) -> str:
    out = BytesIO()
    picture.save(out, kind, optimize=True, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(out.getvalue()).decode('ascii')}"
