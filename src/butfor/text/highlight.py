"""Result -> the stretches of a text that were tested and chosen, by characters, for pages and terminals alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from butfor.core.result.numbers import number
from butfor.core.types import Ints
from butfor.text.edit import Span, span_of
from butfor.text.segment import splits_character, word_spans

if TYPE_CHECKING:
    from butfor.core.result.result import Result

Kind = Literal["", "tested", "up", "down", "both", "chosen"]  # both: two directions; chosen: direction not known
MOST, AROUND = 4000, 240  # characters of a text that are shown; of a longer one, around what was chosen
BREAK = re.compile(r"(<br\s*/?>)", re.IGNORECASE)
NAMES = {"p": "p-value", "e": "e-value"}
LINKS = {"logit": "log-odds", "log": "logarithm"}
REACH = 24  # characters that a cut may move to stand between two words


@dataclass(frozen=True)
class Piece:
    """A stretch of a text. `rows` are the hypotheses that cover it; `parts` are its WordPieces, if it has several."""

    start: int
    end: int
    rows: tuple[int, ...] = ()
    kind: Kind = ""
    parts: tuple[tuple[int, int, Kind], ...] = ()


@dataclass(frozen=True)
class Gap:
    """Characters that are left out, and how many chosen pieces among them."""

    characters: int
    chosen: int


def text_of(result: Result, place: int) -> str:
    """The text of input number `place`."""
    (text,) = result.problem.items.block(place, place + 1)
    return str(text)


def has_texts(result: Result) -> bool:
    """Whether the texts are at hand: of other runs, and of some files, they are not."""
    return len(result.problem.items) > 0 and isinstance(result.problem.items.block(0, 1)[0], str)


def rows_by_input(result: Result) -> list[list[int]]:
    """The hypotheses of each input, in the order of the table."""
    out: list[list[int]] = [[] for _ in result.input_names]
    for row, place in enumerate(result.input_of.tolist()):
        out[place].append(row)
    return out


def most_found(result: Result, most: int) -> dict[int, int]:
    """The inputs with most discoveries, the most first, and how many they have."""
    found = np.bincount(result.input_of, weights=result.chosen, minlength=len(result.input_names))
    return {place: int(found[place]) for place in np.argsort(-found, kind="stable")[:most].tolist()}


def directions(result: Result) -> Ints:
    """+1 where the subset raises the output, -1 where it lowers it, 0 where that is not known, (H,).

    The sign of the effect; where no effect was estimated, that of a one-sided alternative.
    """
    effect = result.effects.effect
    otherwise = {"greater": 1, "less": -1}.get(result.provenance["alternative"], 0)
    return np.where(np.isnan(effect), otherwise, np.sign(np.nan_to_num(effect))).astype(np.int64)


def observed(result: Result, row: int) -> float:
    """The model's output for the text of one hypothesis, as the model gives it: a link is taken back."""
    value = float(result.evidence.observed[row])
    link = result.provenance["link"]
    return float(1 / (1 + np.exp(-value)) if link == "logit" else np.exp(value) if link == "log" else value)


def unit_of(result: Result) -> str:
    """What was tested: "word", "wordpiece", "sentence", "span", "match", "phrase", or "" where that is unknown."""
    units = str(result.provenance.get("units") or "")
    known = ("wordpiece", "word", "sentence", "span", "match", "phrase")
    return next((unit for unit in known if units.startswith(unit)), "")


def pieces(result: Result, place: int, rows: Sequence[int], toward: Ints) -> list[Piece]:
    """The whole text of input number `place`, cut where a tested span begins or ends; `rows` are its hypotheses.

    Spans that overlap (each tested alone) give a piece for every combination. WordPieces of one word are one piece.
    """
    text = text_of(result, place)
    spans = [(*span_of(text, result.problem.blocks[row].subset), row) for row in rows]

    def kind(rows: Iterable[int]) -> Kind:
        return kind_of({int(toward[row]) for row in rows if result.chosen[row]}, bool(rows))

    cut = [Piece(a, b, covering, kind(covering)) for a, b, covering in _cut(len(text), spans)]
    return list(_joined(text, cut, toward, result)) if unit_of(result) == "wordpiece" else cut


def kind_of(toward: set[int], tested: bool = True) -> Kind:
    """The directions of what was chosen -> how it is marked.

    >>> kind_of({1}), kind_of({1, -1}), kind_of({0}), kind_of(set()), kind_of(set(), tested=False)
    ('up', 'both', 'chosen', 'tested', '')
    """
    if not toward:
        return "tested" if tested else ""
    if {1, -1} <= toward:
        return "both"
    return "up" if 1 in toward else "down" if -1 in toward else "chosen"


def _cut(length: int, spans: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Everything from 0 to length, in order, with the rows of the spans that cover it."""
    edges = sorted({0, length, *(edge for a, b, _ in spans for edge in (a, b))})
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for a, b, row in spans:
        if a < b:
            begins.setdefault(a, []).append(row)
            ends.setdefault(b, []).append(row)
    covering: dict[int, None] = {}  # a set that keeps its order
    for a, b in pairwise(edges):
        for row in ends.get(a, ()):
            del covering[row]
        covering.update(dict.fromkeys(begins.get(a, ())))
        yield a, b, tuple(sorted(covering))


def _joined(text: str, cut: Sequence[Piece], toward: Ints, result: Result) -> Iterator[Piece]:
    """WordPieces that stand in one word, as one piece that keeps them as its parts."""
    inside = {place for start, end in word_spans(text) for place in range(start + 1, end)}
    word: list[Piece] = []
    for piece in cut:
        if word and not (piece.rows and word[-1].rows and piece.start in inside):
            yield _word(word, toward, result)
            word = []
        word.append(piece)
    if word:
        yield _word(word, toward, result)


def _word(word: Sequence[Piece], toward: Ints, result: Result) -> Piece:
    if len(word) == 1:
        return word[0]
    rows = tuple(dict.fromkeys(row for piece in word for row in piece.rows))
    kind = kind_of({int(toward[row]) for row in rows if result.chosen[row]})
    return Piece(word[0].start, word[-1].end, rows, kind, tuple((p.start, p.end, p.kind) for p in word))


def shortened(text: str, cut: Sequence[Piece], most: int = MOST) -> list[Piece | Gap]:
    """The pieces of a text that is not too long; of a longer one what stands around the chosen pieces, with gaps."""
    if len(text) <= most:
        return list(cut)
    kept = _kept(text, cut, most)
    out: list[Piece | Gap] = []
    missed, last = 0, 0
    for piece in cut:
        chosen = piece.kind not in ("", "tested")
        inside = [(max(a, piece.start), min(b, piece.end)) for a, b in kept if a < piece.end and piece.start < b]
        missed += chosen and not inside
        for a, b in inside:
            if a > last:
                out.append(Gap(a - last, missed))
                missed = 0
            out.append(piece if (a, b) == (piece.start, piece.end) else Piece(a, b, piece.rows, piece.kind))
            last = b
    return [*out, Gap(len(text) - last, missed)] if last < len(text) else out


def _kept(text: str, cut: Sequence[Piece], most: int) -> list[Span]:
    """What is shown of a long text: no more than `most` characters, first come, first served."""
    found = [(piece.start, piece.end) for piece in cut if piece.kind not in ("", "tested")]
    kept: list[Span] = []
    left = most
    for start, end in found or [(0, AROUND)]:
        a, b = window(text, start, end, AROUND)
        a = max(a, kept[-1][1] if kept else 0)
        b = min(b, a + left)
        if a >= b:
            continue
        if kept and a == kept[-1][1]:
            kept[-1] = (kept[-1][0], b)
        else:
            kept.append((a, b))
        left -= b - a
        if not left:
            break
    return kept


def window(text: str, start: int, end: int, around: int) -> Span:
    """About so many characters on each side of a span, cut between words where there are any.

    >>> text = "It was, from the very first minute, a dreadful film to sit through."
    >>> a, b = window(text, 38, 46, 12); text[a:b]
    'first minute, a dreadful film to sit'
    """
    return _edge(text, max(0, start - around), start, -1), _edge(text, min(len(text), end + around), end, 1)


def _edge(text: str, place: int, inner: int, away: int) -> int:
    """The place between two words that is nearest to `place`, seen from the span; never inside of a character."""
    if place in (0, len(text)):
        return place
    for step in range(REACH):
        near = place + away * step
        if not 0 < near < len(text):
            return max(0, min(near, len(text)))
        if text[near if away > 0 else near - 1].isspace():
            return near
    while 0 < place < len(text) and place != inner and splits_character(text, place):
        place += away
    return place


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
    """The evidence of one hypothesis with its name: "p-value 0.0021"."""
    return f"{NAMES.get(result.evidence.kind, result.evidence.kind)} {number(result.evidence.values[row])}"


def effect(result: Result, row: int) -> str:
    """The effect of one hypothesis with its unit and interval; empty where it was not estimated."""
    found, link = result.effects, LINKS.get(str(result.provenance.get("link")), "")
    middle, low, high = (number(values[row], sign=True) for values in (found.effect, found.low, found.high))
    interval = f" ({low} to {high})" if low and low != high else ""
    return f"effect {middle}{' ' if link else ''}{link}{interval}" if middle else ""


def output_of(result: Result, row: int) -> str:
    """The name of the output that was tested, if outputs have names."""
    return "" if result.output_names is None else str(result.output_names[result.evidence.classes[row]])
