"""Result -> the pictures of its report, as data that a template can place: nothing is drawn or asked there."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.draw.blocks import Block
from butfor.core.result.numbers import are_logits, are_probabilities, change, softmax
from butfor.core.types import Floats, InputError, Model
from butfor.image.draw import Mark, photograph
from butfor.image.plausibility import judge
from butfor.image.region import Image, is_box, is_mask, mask_of

if TYPE_CHECKING:
    from butfor.core.result.result import Result

MOST_PHOTOGRAPHS, MOST_REGIONS, MOST_DRAWS = 60, 40, 3
SIDE, THUMB, TILE = 720, 220, 300  # longer sides in pixels: the photograph, on the sheet, one counterfactual
LEAST_SIDE = 64  # of images whose fills can be judged: smaller ones have no texture
STATISTICS = {
    "z": "its z, the model's output minus that on the counterfactual",
    "w": "its w over its scale, which is what the selection compares: positive where the image itself has the largest "
    "output among its counterfactuals",
    "p": "its p-value",
}
AT_ONCE = 16  # images the model is given at a time


@dataclass(frozen=True)
class Tile:
    """One counterfactual: its picture, what the model says of it, how that changed, whether it looks implausible."""

    picture: str  # a data URI, like all pictures here
    value: str
    change: str
    flagged: bool


@dataclass(frozen=True)
class Region:
    """One hypothesis: its statistic, where it is (percent of the image: x, y, width, height), its counterfactuals."""

    name: str
    chosen: bool
    statistic: str
    output: str  # the class that the values are of
    value: str
    where: tuple[float, float, float, float] | None
    mask: str | None
    tiles: tuple[Tile, ...]


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


@dataclass(frozen=True)
class Pictures:
    """What the template names."""

    photographs: tuple[Photograph, ...]
    more: int
    label: str  # what the values under the pictures are
    statistic: str  # what stands in the regions
    drawn: bool  # whether counterfactuals could be drawn again


@dataclass(frozen=True)
class View:
    """How a run on images is shown: call it with the result. `model` None: pictures without the model's answers."""

    model: Model | None

    def __call__(self, result: Result) -> Pictures:
        shown = _shown(result)
        outputs = [self._outputs([result.problem.inputs[place]]) for place in shown]
        scale = _scale(result, outputs)
        photographs = tuple(
            self._photograph(result, place, own, scale) for place, own in zip(shown, outputs, strict=True)
        )
        drawn = any(region.tiles for photo in photographs for region in photo.regions)
        kind = result.evidence.kind
        return Pictures(
            photographs, len(result.input_names) - len(shown), scale.label, STATISTICS.get(kind, f"its {kind}"), drawn
        )

    def _photograph(self, result: Result, place: int, outputs: Floats | None, scale: Scale) -> Photograph:
        image = result.problem.inputs[place]
        rows = np.flatnonzero(result.input_of == place)
        marks = [_mark(result, int(row)) for row in rows]
        kept = (
            rows[np.argsort(~result.chosen[rows], kind="stable")][:MOST_REGIONS] if len(rows) > MOST_REGIONS else rows
        )
        observed = scale.shown(outputs)
        return Photograph(
            name=str(result.input_names[place]),
            said=_said(result, observed, scale.label),
            marked=jpeg(photograph(image, marks, side=SIDE)),
            thumb=jpeg(photograph(image, [Mark(m.subset, "", m.chosen) for m in marks], side=THUMB)),
            original=jpeg(fitted(image, TILE)),
            shape=(image.shape[1], image.shape[0]),
            chosen=int(result.chosen[rows].sum()),
            regions=tuple(self._region(result, int(row), image, observed, scale) for row in kept),
            more=len(rows) - len(kept),
        )

    def _region(self, result: Result, row: int, image: Image, observed: Floats | None, scale: Scale) -> Region:
        block = block_of(result, row)
        drawn = redrawn(result, block, MOST_DRAWS)
        values = scale.shown(self._outputs(drawn)) if drawn else None
        column = int(result.evidence.classes[row]) if observed is not None and observed.shape[1] > 1 else 0
        plausible = _flags(image, block, drawn)
        return Region(
            name=block.subset.name,
            chosen=bool(result.chosen[row]),
            statistic=f"{result.evidence.kind} {statistic(result, row)}".replace("-", "−"),
            output="" if result.output_names is None else _short(result.output_names[result.evidence.classes[row]]),
            value="" if observed is None else _value(observed, 0, column),
            where=_where(block, image),
            mask=_overlay(block, image),
            tiles=tuple(
                Tile(
                    jpeg(fitted(made, TILE)),
                    "" if values is None else _value(values, k, column),
                    "" if values is None or observed is None else change(values[k, column] - observed[0, column]),
                    plausible[k],
                )
                for k, made in enumerate(drawn)
            ),
        )

    def _outputs(self, images: Sequence[Image]) -> Floats | None:
        """What the model says, (n, outputs)."""
        if self.model is None:
            return None
        parts = [
            np.asarray(self.model(list(images[a : a + AT_ONCE])), np.float64) for a in range(0, len(images), AT_ONCE)
        ]
        return np.concatenate(parts).reshape(len(images), -1)


@dataclass(frozen=True)
class Scale:
    """How outputs are shown: whether as their softmax, and what that is called. One for all images of a run."""

    logits: bool
    label: str

    def shown(self, outputs: Floats | None) -> Floats | None:
        return softmax(outputs) if self.logits and outputs is not None else outputs


def _scale(result: Result, outputs: Sequence[Floats | None]) -> Scale:
    known = [own for own in outputs if own is not None]
    if result.output_names is None or not known:
        return Scale(False, "output" if result.output_names is None else "p")
    together = np.concatenate(known)
    logits = are_logits(together)
    return Scale(logits, "p" if logits or are_probabilities(together) else "output")


def _shown(result: Result) -> list[int]:
    """All images, or those with most discoveries where there are too many; in their order."""
    count = len(result.input_names)
    found = np.bincount(result.input_of, weights=result.chosen, minlength=count)
    return sorted(np.argsort(-found, kind="stable")[:MOST_PHOTOGRAPHS].tolist())


def block_of(result: Result, row: int) -> Block:
    """The image and the region of one hypothesis; hypotheses of lists are their blocks, in order."""
    return result.problem.blocks[row]


def redrawn(result: Result, block: Block, most: int) -> list[Image]:
    """The first counterfactuals of one hypothesis, at most so many; none where they cannot be drawn again."""
    said = result.provenance
    count = min(most, sum(said["rounds"]) - said["set_aside"])
    try:
        return list(result.counterfactuals(result.input_names[block.start], block.subset.name, n=count))
    except InputError:  # loaded without its sampler, or of picked inputs
        return []


def statistic(result: Result, row: int) -> str:
    """The evidence of one hypothesis, short enough to stand in a picture; Pillow's own font has no true minus."""
    value = float(result.evidence.scaled[row])  # what the rule compares
    return f"{value:.2g}" if result.evidence.kind in ("p", "e") else f"{value:.2f}".replace("-0.00", "0.00")


def _mark(result: Result, row: int) -> Mark:
    return Mark(block_of(result, row).subset, statistic(result, row), bool(result.chosen[row]))


def _number(value: float) -> str:
    """A number as a person would write it.

    >>> _number(0.12345), _number(-3.0), _number(0.00042), _number(123.4)
    ('0.123', '−3', '0.00042', '123')
    """
    return f"{value:.3g}".replace("-", "−")


def _value(values: Floats, row: int, column: int) -> str:
    return f"{values[row, column]:.3f}" if values.shape[1] > 1 else _number(float(values[row, 0]))


def _named(name: Any) -> str:
    """A class as it is called; one that is only a number says that it is a class."""
    return f"class {name}" if str(name).isdigit() else str(name)


def _short(name: Any) -> str:
    """The first of several names of a class: "binoculars, field glasses, opera glasses"."""
    return _named(name).split(",")[0]


def _said(result: Result, observed: Floats | None, label: str) -> str:
    if observed is None:
        return ""
    if result.output_names is None:
        return f"output {_number(float(observed[0, 0]))}"
    best = int(observed[0].argmax())
    return f"{_named(result.output_names[best])}, {label} = {observed[0, best]:.3f}"


def _flags(image: Image, block: Block, drawn: Sequence[Image]) -> list[bool]:
    index = block.subset.index
    if not drawn or min(image.shape[:2]) < LEAST_SIDE or not (is_box(index) or is_mask(index)):
        return [False] * len(drawn)
    look = judge(image, block.subset).look
    return [look(made).flagged for made in drawn]


def _where(block: Block, image: Image) -> tuple[float, float, float, float] | None:
    if not is_box(block.subset.index):
        return None
    height, width = image.shape[:2]
    x1, y1, x2, y2 = block.subset.index
    return 100 * x1 / width, 100 * y1 / height, 100 * (x2 - x1) / width, 100 * (y2 - y1) / height


def _overlay(block: Block, image: Image) -> str | None:
    """The mask as a picture that is grey inside and clear outside."""
    if not is_mask(block.subset.index):
        return None
    from PIL import Image as Files

    mask = mask_of(block.subset, *image.shape[:2])
    small = Files.fromarray(mask.astype(np.uint8) * 255).resize(_size(image, TILE))
    out = Files.new("LA", small.size, (214, 0))
    out.putalpha(small)
    buffer = BytesIO()
    out.save(buffer, "PNG", optimize=True)
    return _uri("image/png", buffer.getvalue())


def _size(image: Image, side: int) -> tuple[int, int]:
    scale = side / max(image.shape[:2])
    return max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))


def fitted(image: Image, side: int) -> Image:
    """The image with its longer side so many pixels; very small ones keep their pixels visible."""
    from PIL import Image as Files

    method = Files.Resampling.NEAREST if side >= 4 * max(image.shape[:2]) else Files.Resampling.BICUBIC
    return np.asarray(Files.fromarray(np.ascontiguousarray(image)).resize(_size(image, side), method))


def jpeg(picture: Image, quality: int = 82) -> str:
    """A picture as a data URI.

    >>> jpeg(np.zeros((2, 2, 3), np.uint8))[:23]
    'data:image/jpeg;base64,'
    """
    from PIL import Image as Files

    buffer = BytesIO()
    Files.fromarray(np.ascontiguousarray(picture)).save(buffer, "JPEG", quality=quality, optimize=True)
    return _uri("image/jpeg", buffer.getvalue())


def _uri(kind: str, raw: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(raw).decode('ascii')}"
