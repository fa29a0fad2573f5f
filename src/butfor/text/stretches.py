"""Result -> the stretches of a text that look alike, each with what is said of it on a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from butfor.core.result.numbers import number
from butfor.core.types import Ints
from butfor.text.highlight import MOST, Gap, Kind, Piece, observed, pieces, shortened, text_of

if TYPE_CHECKING:
    from butfor.core.result.result import Result

BREAK = re.compile(r"(<br\s*/?>)", re.IGNORECASE)


@dataclass(frozen=True)
class Stretch:
    """Characters in a row that look alike, `parts` of them with a kind of their own; or what is left out."""

    kind: Kind
    parts: tuple[tuple[str, Kind | str], ...]  # "break": a line break of HTML, spelt out in the text
    tip: tuple[str, ...] = ()
    gap: str = ""

    @property
    def text(self) -> str:
        """All of its characters."""
        return "".join(part for part, _ in self.parts)


def stretches(result: Result, toward: Ints, place: int, rows: Sequence[int], most: int = MOST) -> tuple[Stretch, ...]:
    """The text of one input, cut where what is to be seen changes; of a long text what stands around chosen words."""
    text = text_of(result, place)
    return tuple(_stretch(result, text, piece) for piece in shortened(text, pieces(result, place, rows, toward), most))


def _stretch(result: Result, text: str, piece: Piece | Gap) -> Stretch:
    if isinstance(piece, Gap):
        found = f", {piece.chosen} chosen among them" if piece.chosen else ""
        return Stretch("", (), gap=f"{piece.characters:,} characters{found}")
    inner = piece.parts or ((piece.start, piece.end, piece.kind),)
    parts = tuple(part for a, b, kind in inner for part in _breaks(text[a:b], kind))
    return Stretch(piece.kind, parts, tuple(_tip(result, row, piece.kind != "tested") for row in piece.rows))


def _breaks(text: str, kind: Kind) -> list[tuple[str, Kind | str]]:
    """The text, with the line breaks of HTML that are spelt out in it apart."""
    return [(part, "break" if k % 2 else kind) for k, part in enumerate(BREAK.split(text)) if part]


def _tip(result: Result, row: int, long: bool) -> str:
    """What is said of one hypothesis; of one that was not chosen only its evidence."""
    if not long:
        return statistic(result, row)
    chosen = "chosen" if result.chosen[row] else "not chosen"
    output = f"{output_of(result, row) or 'output'} {number(observed(result, row))}"
    name = result.problem.block_of(row).subset.name
    name = name if len(name) <= 60 else f"{name[:57]}…"
    return ", ".join(filter(None, (f"{name}: {chosen}", statistic(result, row), effect(result, row), output)))


def statistic(result: Result, row: int) -> str:
    """The evidence of one hypothesis with its name, as in the table of the result: "p 0.0021"."""
    return f"{result.evidence.kind} {number(result.evidence.values[row])}"


def effect(result: Result, row: int) -> str:
    """The effect of one hypothesis with its interval; empty where it was not estimated."""
    found = result.effects
    middle, low, high = (number(values[row], sign=True) for values in (found.effect, found.low, found.high))
    interval = f" ({low} to {high})" if low else ""
    return f"effect {middle}{interval}" if middle else ""


def output_of(result: Result, row: int) -> str:
    """The name of the output that was tested, if outputs have names."""
    return "" if result.output_names is None else str(result.output_names[result.evidence.classes[row]])
