"""Result -> the stretches of a text that were tested and chosen, by characters, for pages and terminals alike."""

from __future__ import annotations

import io
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from butfor.results.summary import number
from butfor.text.segment import Span, span_of, splits_character, word_spans
from butfor.types import InputError, Ints

if TYPE_CHECKING:
    from butfor.results.result import Result


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
    otherwise = {"greater": 1, "less": -1}.get(str(result.record.alternative), 0)
    return np.where(np.isnan(effect), otherwise, np.sign(np.nan_to_num(effect))).astype(np.int64)


def observed(result: Result, row: int) -> float:
    """The model's output for the text of one hypothesis, as the model gives it: a link is taken back."""
    value = float(result.evidence.observed[row])
    link = result.record.link
    return float(1 / (1 + np.exp(-value)) if link == "logit" else np.exp(value) if link == "log" else value)


def unit_of(result: Result) -> str:
    """What was tested: "word", "wordpiece", "sentence", "span", "match", "phrase", or "" where that is unknown."""
    units = str(result.record.get("units") or "")
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
    found, link = result.effects, LINKS.get(str(result.record.link), "")
    middle, low, high = (number(values[row], sign=True) for values in (found.effect, found.low, found.high))
    interval = f" ({low} to {high})" if low and low != high else ""
    return f"effect {middle}{' ' if link else ''}{link}{interval}" if middle else ""


def output_of(result: Result, row: int) -> str:
    """The name of the output that was tested, if outputs have names."""
    return "" if result.output_names is None else str(result.output_names[result.evidence.classes[row]])


@dataclass(frozen=True)
class WordCount:
    """One word: in how many places it was chosen and tested, and in how many it raises or lowers the output."""

    word: str
    chosen: int
    tested: int
    up: int
    down: int
    effect: float  # mean over the places it was chosen in; NaN: not estimated


def word_counts(result: Result) -> list[WordCount]:
    """Every word that was tested, the most often chosen first; upper and lower case are one word.

    WordPieces count as the words they stand in: chosen if one of their pieces is.

    Parameters
    ----------
    result : of `butfor.text.explain`.
    """
    toward = directions(result)
    places: dict[str, list[tuple[str, list[int]]]] = {}
    for word, rows in _places(result, toward):
        places.setdefault(word.lower(), []).append((word, [row for row in rows if result.chosen[row]]))
    counts = [_word_counted(result, toward, own) for own in places.values()]
    return sorted(counts, key=lambda count: (-count.chosen, count.tested))  # of equals, the one that is chosen oftener


def _word_counted(result: Result, toward: Ints, places: list[tuple[str, list[int]]]) -> WordCount:
    """One word, from the places it stands in: how it is written there, and what of it was chosen."""
    written = Counter(word for word, _ in places).most_common(1)[0][0]
    chosen = [rows for _, rows in places if rows]
    ways = [{int(toward[row]) for row in rows} for rows in chosen]
    known = [e for rows in chosen for e in result.effects.effect[rows].tolist() if not np.isnan(e)]
    effect = float(np.mean(known)) if known else float("nan")
    return WordCount(written, len(chosen), len(places), sum(1 in w for w in ways), sum(-1 in w for w in ways), effect)


def _places(result: Result, toward: Ints) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each place of the run that was tested: what stands there, and its hypotheses."""
    if unit_of(result) == "wordpiece" and has_texts(result):
        for place, rows in enumerate(rows_by_input(result)):
            text = text_of(result, place)
            for piece in pieces(result, place, rows, toward):
                if piece.rows:
                    yield _spaced(text[piece.start : piece.end]), piece.rows
        return
    for row in range(len(result.chosen)):
        yield word_of(result, row), (row,)


def word_of(result: Result, row: int) -> str:
    """What one hypothesis is about: the characters themselves, or its name where the texts are not at hand."""
    block = result.problem.blocks[row]
    if has_texts(result):
        start, end = block.subset.index
        return _spaced(text_of(result, block.start)[start:end])
    return re.sub(r" #\d+$", "", block.subset.name)


def _spaced(word: str) -> str:
    return " ".join(word.split())


WIDTH = 110
MOST_TEXTS = 40
MOST_LINES = 2000  # characters of a text that are shown
SIGNS: dict[Kind, str] = {"up": "+", "down": "−", "both": "±", "chosen": "*"}
STYLES: dict[Kind, str] = {"up": "bold blue", "down": "bold yellow", "both": "bold magenta", "chosen": "bold"}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LOOK: dict[Kind, tuple[str, str]] = {  # the sign before the word, and its style: no colour without another sign of it
    "up": ("▲", "background:#e1ebfd;border-bottom:3px solid #155cd6"),
    "down": ("▼", "background:#fdebd3;border-bottom:3px dashed #b45309"),
    "both": ("◆", "background:#efe6fb;border-bottom:3px double #6d3fb0"),
    "chosen": ("●", "background:#e9f3f4;border-bottom:3px solid #0b6b74"),
}
LEGEND = "[+word] raises the output, [−word] lowers it"


def rendered(result: Result, input: object, *, colour: bool | None = None, width: int = WIDTH) -> str:
    """The text of one input with its chosen words marked: [+word] raises the output, [−word] lowers it.

    [±word] has pieces of both kinds; [*word] was chosen in a direction that is not known, since no effect was
    estimated. `colour` None: if standard output is a terminal. Characters that would steer a terminal are replaced.
    """
    place = checked_input(result, input)
    rows = np.flatnonzero(result.input_of == place).tolist()
    cut = stretches(result, directions(result), place, rows, MOST_LINES)
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ if colour is None else colour
    return f"{harmless(str(input))}: {_heading(result, rows)}\n{_printed(cut, coloured, width)}"


def checked_input(result: Result, input: object) -> int:
    """Where an input stands, after seeing that there is a text to show."""
    if input not in result.input_names:
        raise InputError(f"unknown input {input!r}; result.input_names has those of this run")
    if not has_texts(result):
        raise InputError(f"input {input!r} is no text; this is for results of butfor.text.explain")
    return result.input_names.index(input)


def _heading(result: Result, rows: list[int]) -> str:
    count = f"{int(result.chosen[rows].sum())} of {len(rows)} chosen"
    outputs = {(int(result.evidence.classes[row]), number(observed(result, row))) for row in rows}
    if len(outputs) != 1:  # nothing tested, or several outputs
        return count
    ((column, value),) = outputs
    name = "output" if result.output_names is None else str(result.output_names[column])
    return f"{count}, {name} {value}"


def _printed(cut: Sequence[Stretch], colour: bool, width: int) -> str:
    """Wrapped lines; wide characters take two places."""
    from rich.console import Console
    from rich.text import Text

    line = Text() if cut else Text("(an empty text)", style="dim")
    for stretch in cut:
        words = harmless(stretch.text)
        if stretch.gap:
            line.append(f" [… {stretch.gap} …] ", style="dim")
        elif stretch.kind in SIGNS:
            line.append(f"[{SIGNS[stretch.kind]}{words}]", style=STYLES[stretch.kind])
        else:
            line.append(words)
    out = io.StringIO()
    system: Literal["standard"] | None = "standard" if colour else None
    Console(file=out, width=width, force_terminal=colour, color_system=system, legacy_windows=False).print(line, end="")
    return out.getvalue() if colour else "\n".join(row.rstrip() for row in out.getvalue().split("\n"))


def harmless(text: str) -> str:
    """The text without anything that steers a terminal or cannot be written: each such character is U+FFFD.

    >>> harmless("a\\x1b[2Jb\\r\\nc")
    'a�[2Jb\\nc'
    """
    return CONTROL.sub("�", text.replace("\r\n", "\n").replace("\r", "\n"))


def found_in(result: Result, most: int = 3) -> str:
    """The words chosen most often and the texts with most discoveries; empty where nothing was chosen."""
    if not result.chosen.any():
        return ""
    texts = [rendered(result, result.input_names[place]) for place, found in most_found(result, most).items() if found]
    left = len(np.unique(result.input_of[result.chosen])) - len(texts)
    rest = [f"... and {left} more {'text' if left == 1 else 'texts'} with chosen words; see the report"] if left else []
    return "\n" + "\n\n".join([often(result), f"{LEGEND}:", *texts, *rest])


def often(result: Result, most: int = 15) -> str:
    """The words chosen most often, one a line: how often, of how many places, and which way they move the output."""
    found = [count for count in word_counts(result) if count.chosen]
    if not found:
        return ""
    width = max(len("word"), *(min(len(harmless(count.word)), 40) for count in found[:most]))
    lines = [f"{'word':<{width}}      chosen  raises  lowers  mean effect"]
    lines += [_counted(count, width) for count in found[:most]]
    if len(found) > most:
        lines.append(f"... and {len(found) - most} more; see butfor.text.word_counts(result)")
    return "\n".join(lines)


def _counted(count: WordCount, width: int) -> str:
    word = harmless(count.word)
    word = word if len(word) <= 40 else f"{word[:39]}…"
    chosen = f"{count.chosen} of {count.tested}"
    effect = "" if np.isnan(count.effect) else f"{count.effect:+.3g}"
    return f"{word:<{width}}  {chosen:>10}  {count.up or '':>6}  {count.down or '':>6}  {effect:>11}".rstrip()


@dataclass(frozen=True, eq=False)
class Marked:
    """Texts of a run with their chosen words marked: HTML in a notebook, plain text for `print`. Made by `marked`."""

    result: Result
    inputs: tuple[Any, ...]

    def __str__(self) -> str:
        return "\n\n".join(rendered(self.result, name, colour=False) for name in self.inputs)

    def __repr__(self) -> str:
        return f"<butfor.text.Marked: {len(self.inputs)} texts>"

    def _repr_html_(self) -> str:
        toward = directions(self.result)
        return "".join(_section(self.result, toward, self.result.input_names.index(name)) for name in self.inputs)


def marked(result: Result, input: object = None) -> Marked:
    """Texts of a run with their chosen words marked; nothing is drawn or asked for that.

    In a notebook words that raise the output are blue with a solid line and ▲, words that lower it orange with a dashed
    line and ▼; `str` gives plain lines for a terminal.

    Parameters
    ----------
    result : of `butfor.text.explain`.
    input : the name of one text; None is all of them, or the 40 with most discoveries.

    Examples
    --------
    >>> import butfor
    >>> good = lambda texts: [text.count("good") for text in texts]
    >>> anything = lambda texts, subset, draws, rng: [
    ...     text[: subset.index[0]] + rng.choice(["new", "odd"]) + text[subset.index[1] :]
    ...     for text in texts
    ...     for _ in range(draws)
    ... ]
    >>> result = butfor.text.explain(good, ["A good film.", "So good!", "No good?"] * 4, anything)
    >>> print(marked(result, "text 1"))
    text 1: 1 of 3 chosen, output 1
    A [+good] film.
    """
    names = (
        [result.input_names[place] for place in sorted(most_found(result, MOST_TEXTS))] if input is None else [input]
    )
    checked_input(result, names[0])
    return Marked(result, tuple(names))


def _section(result: Result, toward: Ints, place: int) -> str:
    rows = np.flatnonzero(result.input_of == place).tolist()
    chosen = int(result.chosen[rows].sum())
    body = "".join(_html(stretch) for stretch in stretches(result, toward, place, rows))
    name = escape(harmless(str(result.input_names[place])))
    return (
        f"<p><b>{name}</b>: {chosen} of {len(rows)} chosen</p>"
        f'<p dir="auto" style="white-space:pre-wrap;max-width:48em">{body}</p>'
    )


def _html(stretch: Stretch) -> str:
    if stretch.gap:
        return f"<i>[… {escape(stretch.gap)} …]</i>"
    words = escape(harmless(stretch.text))
    if stretch.kind not in LOOK:
        return words
    sign, style = LOOK[stretch.kind]
    tip = escape(harmless("\n".join(stretch.tip)))
    return f'<mark style="color:inherit;{style}" title="{tip}"><small>{sign}</small>{words}</mark>'
