"""Result -> the pictures of its report, as data that a template can place: no model and no sampler is asked."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.image.draw import Cell, Mark, encoded, heat, photograph, resized
from butfor.image.region import Image, is_box, is_mask, mask_of
from butfor.results.result import Result
from butfor.results.summary import are_logits, are_probabilities, change, flip_sentence, number, softmax
from butfor.types import Floats, InputError, Ints, Subset

MOST_PHOTOGRAPHS, MOST_REGIONS, MOST_DRAWS = 2000, 40, 3
DETAILED, PAGE = 60, 12  # photographs with their counterfactuals; photographs on a page
SIDE, SMALL_SIDE, THUMB, TILE = (
    720,
    480,
    220,
    300,
)  # longer sides in pixels: the photograph, on the sheet, one counterfactual
EVIDENCE = {"p": "p-value", "e": "e-value"}
STATISTICS = {
    "z": "its z, the model's output minus that on the counterfactual",
    "w": "its w over its scale, which is what the selection compares: positive where the image itself has the largest "
    "output among its counterfactuals",
    "p": "its p-value",
}


@dataclass(frozen=True)
class Tile:
    """One counterfactual: its picture, what the model says of it, how that changed."""

    picture: str  # a data URI, like all pictures here
    value: str
    change: str


@dataclass(frozen=True)
class Region:
    """One hypothesis: its statistic, where it is (percent of the image: x, y, width, height), its counterfactuals."""

    name: str
    chosen: bool
    statistic: str
    inside: str  # the same without its name, as it stands in the picture
    output: str  # the class that the values are of
    value: str
    where: tuple[float, float, float, float] | None
    mask: str | None
    tiles: tuple[Tile, ...]
    butfor: str = ""  # how often the image would have been called something else


@dataclass(frozen=True)
class Photograph:
    """One image of the run with its regions outlined."""

    name: str
    said: str  # what the model says of it
    marked: str
    thumb: str
    original: str
    shape: tuple[int, int]  # width, height
    chosen: int
    regions: tuple[Region, ...]
    more: int
    place: int  # among the inputs
    number: int  # in the report, from 1


@dataclass(frozen=True)
class Pictures:
    """What the template names."""

    photographs: tuple[Photograph, ...]
    more: int
    label: str  # what the values under the pictures are
    statistic: str  # what stands in the regions
    number: str  # the same in a word or two, for the head of a column
    page: int  # photographs on a page
    drawn: bool  # whether there are counterfactuals
    zoomed: bool  # whether they are heat maps, from coarse to fine
    estimated: bool  # and have a veil where nothing is established


def pictures(result: Result) -> Pictures | None:
    """The photographs of a result on images with the counterfactuals that the run kept; None if they are gone.

    Parameters
    ----------
    result : of `butfor.image.explain`, or loaded.
    """
    count = len(result.input_names)
    found = np.bincount(result.input_of, weights=result.chosen, minlength=count)
    shown = np.argsort(-found, kind="stable")[:MOST_PHOTOGRAPHS].tolist()  # those with most discoveries first
    outputs = OutputsShown.of(result, result.outputs[shown])
    try:
        photographs = tuple(_photograph(result, place, k, outputs) for k, place in enumerate(shown, start=1))
    except InputError:  # the files are no longer where they were
        return None
    return Pictures(
        photographs,
        more=count - len(shown),
        label=outputs.label,
        statistic=number_words(result),
        number="Effect" if shows_effects(result) else EVIDENCE.get(result.evidence.kind, result.evidence.kind),
        page=PAGE,
        drawn=any(region.tiles for photo in photographs for region in photo.regions),
        zoomed=result.problem.layers is not None,
        estimated=bool(np.isfinite(result.effects.effect[~result.chosen]).any()),
    )


@dataclass(frozen=True)
class OutputsShown:
    """How outputs are shown: whether as their softmax, and what that is called. One for all images of a run."""

    logits: bool
    label: str
    known: bool  # files of earlier versions do not hold them

    @classmethod
    def of(cls, result: Result, outputs: Floats) -> OutputsShown:
        if result.output_names is None or not outputs.size:
            return cls(False, "output" if result.output_names is None else "probability", bool(outputs.size))
        logits = are_logits(outputs)
        return cls(logits, "probability" if logits or are_probabilities(outputs) else "output", True)

    def __call__(self, outputs: Floats) -> Floats:
        return softmax(outputs) if self.logits else outputs


def _photograph(result: Result, place: int, number: int, shown: OutputsShown) -> Photograph:
    image: Image = result.problem.items.block(place, place + 1)[0]
    rows = np.flatnonzero(result.input_of == place)
    lit, marks = lit_and_marks(result, image, rows)
    first = np.argsort(~result.chosen[rows], kind="stable")[:MOST_REGIONS]
    kept = rows[first] if len(rows) > MOST_REGIONS else rows
    observed = shown(result.outputs[place : place + 1])
    return Photograph(
        name=str(result.input_names[place]),
        said=_prediction(result, observed[0], shown.label) if shown.known else "",
        marked=jpeg(photograph(lit, marks, side=SIDE if number <= DETAILED else SMALL_SIDE)),
        thumb=jpeg(photograph(lit, [Mark(mark.subset, "", mark.chosen) for mark in marks], side=THUMB)),
        original=picture_of(image) if number <= DETAILED else "",
        shape=(image.shape[1], image.shape[0]),
        chosen=int(result.chosen[rows].sum()),
        regions=tuple(_region(result, row, image, observed, shown, number <= DETAILED) for row in kept.tolist()),
        more=len(rows) - len(kept),
        place=place,
        number=number,
    )


def marks_of(result: Result, rows: Sequence[int]) -> list[Mark]:
    """The regions of an image with the one number of each: the same as in the table."""
    return [Mark(_subset(result, row), _inside(result, row), bool(result.chosen[row])) for row in rows]


def marked_photograph(result: Result, place: int, side: int = SIDE) -> Image:
    """An image of the run with its regions outlined and the number of each inside it."""
    image: Image = result.problem.items.block(place, place + 1)[0]
    lit, marks = lit_and_marks(result, image, np.flatnonzero(result.input_of == place))
    return photograph(lit, marks, side=side)


def lit_and_marks(result: Result, image: Image, rows: Ints) -> tuple[Image, list[Mark]]:
    """How an image is shown with its hypotheses `rows`; from coarse to fine only the finest chosen cells are outlined,
    all that are chosen are lit, and what else was drawn has a veil where its effect was estimated."""
    layers = result.problem.layers
    if layers is None:
        return image, marks_of(result, rows.tolist())
    deepest, effect = max(1, int(layers.resolution.max())), result.effects.effect
    chosen = [row for row in rows[result.chosen[rows]].tolist() if layers.resolution[row] > 0]
    cells = [Cell(_subset(result, row), layers.resolution[row] / deepest, bool(effect[row] < 0)) for row in chosen]
    others = rows[~result.chosen[rows] & np.isfinite(effect[rows]) & (layers.resolution[rows] > 0)].tolist()
    known = np.abs(effect[np.isfinite(effect)])
    most = known.max(initial=0.0)  # of the run, so that pictures can be compared
    cells += [
        Cell(_subset(result, row), layers.resolution[row] / deepest, bool(effect[row] < 0), abs(effect[row]) / most)
        for row in others
        if most > 0
    ]
    finest = layers.finest(result.chosen)
    return heat(image, cells), marks_of(result, [row for row in chosen if finest[row]])


def shows_effects(result: Result) -> bool:
    """Whether the one number of a region is its effect: where every region of the run has one."""
    return bool(np.isfinite(result.effects.effect).all())


def number_words(result: Result) -> str:
    """What the one number of a region is."""
    if not shows_effects(result):
        return STATISTICS.get(result.evidence.kind, f"its {result.evidence.kind}")
    link = {"logit": "log-odds", "log": "logarithm of the output"}.get(str(result.record.link))
    probable = result.output_names is not None and result.outputs.size and are_probabilities(result.outputs)
    of = link or ("probability" if probable else "output")
    return f"its effect, the change in the {of} beside its counterfactuals"


def _inside(result: Result, row: int) -> str:
    """The number inside a region; Pillow's own font has no true minus."""
    if shows_effects(result):
        return number(result.effects.effect[row], sign=True).replace("−", "-")
    return statistic(result, row)


def _region(result: Result, row: int, image: Image, observed: Floats, shown: OutputsShown, detailed: bool) -> Region:
    subset, label = _subset(result, row), int(result.evidence.classes[row])
    column = label if observed.shape[1] > 1 else 0
    return Region(
        name=subset.name,
        chosen=bool(result.chosen[row]),
        statistic=_called(result, row),
        inside=_inside(result, row).replace("-", "−"),
        output="" if result.output_names is None else _named(result.output_names[label]).split(",")[0],
        value=_value(observed[0], column) if shown.known else "",
        where=_where(subset, image),
        mask=_overlay(subset, image) if detailed else None,
        tiles=_tiles(result, row, observed, shown, column) if detailed else (),
        butfor=flip_sentence(result, row) if result.decided is not None else "",
    )


def _tiles(result: Result, row: int, observed: Floats, shown: OutputsShown, column: int) -> tuple[Tile, ...]:
    """The first counterfactuals that were kept; of picked inputs none, since most of them were rejected."""
    if row not in result.kept or result.record.picked or not shown.known:
        return ()
    drawn: list[Image] = list(result.kept.whole(result.problem, row, MOST_DRAWS))
    values = shown(result.kept.outputs(row)[: len(drawn)])
    return tuple(
        Tile(picture_of(made), _value(own, column), change(own[column] - observed[0, column]))
        for made, own in zip(drawn, values, strict=True)
    )


def _subset(result: Result, row: int) -> Subset:
    return result.problem.block_of(row).subset


def statistic(result: Result, row: int) -> str:
    """The evidence of one hypothesis, short enough to stand in a picture; Pillow's own font has no true minus."""
    value = float(result.evidence.scaled[row])  # what the rule compares
    return f"{value:.2g}" if result.evidence.kind in ("p", "e") else f"{value:.2f}".replace("-0.00", "0.00")


def _called(result: Result, row: int) -> str:
    """The number of a region with its name: "effect +0.21", "w 1.20"."""
    kind = "p-value" if result.evidence.kind == "p" else result.evidence.kind
    return f"{'effect' if shows_effects(result) else kind} {_inside(result, row)}".replace("-", "−").replace(
        "p−value", "p-value"
    )


def _value(outputs: Floats, column: int) -> str:
    return f"{outputs[column]:.3f}" if len(outputs) > 1 else number(outputs[0])


def _named(name: object) -> str:
    """A class as it is called; one that is only a number says that it is a class."""
    return f"class {name}" if str(name).isdigit() else str(name)


def _prediction(result: Result, observed: Floats, label: str) -> str:
    if result.output_names is None:
        return f"output {number(observed[0])}"
    best = int(observed.argmax())
    return f"{_named(result.output_names[best])}, {label} {observed[best]:.3f}"


def _where(subset: Subset, image: Image) -> tuple[float, float, float, float] | None:
    if not is_box(subset.index):
        return None
    height, width = image.shape[:2]
    x1, y1, x2, y2 = subset.index
    return 100 * x1 / width, 100 * y1 / height, 100 * (x2 - x1) / width, 100 * (y2 - y1) / height


def _overlay(subset: Subset, image: Image) -> str | None:
    """The mask as a picture that is grey inside and clear outside."""
    if not is_mask(subset.index):
        return None
    from PIL import Image as Files

    mask = mask_of(subset, *image.shape[:2])
    small = Files.fromarray(mask.astype(np.uint8) * 255).resize(resized(image, TILE / max(image.shape[:2])).size)
    out = Files.new("LA", small.size, (214, 0))
    out.putalpha(small)
    return _uri("image/png", encoded(out, "PNG"))


def picture_of(image: Image) -> str:
    """An image, small."""
    return jpeg(np.asarray(resized(image, TILE / max(image.shape[:2]))))


def jpeg(picture: Image, quality: int = 82) -> str:
    """A picture as a data URI.

    >>> jpeg(np.zeros((2, 2, 3), np.uint8))[:23]
    'data:image/jpeg;base64,'
    """
    from PIL import Image as Files

    return _uri("image/jpeg", encoded(Files.fromarray(picture), "JPEG", quality=quality))


def _uri(kind: str, raw: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(raw).decode('ascii')}"
