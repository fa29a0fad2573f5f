"""Result -> texts with their chosen words marked: for terminals, notebooks, plots and the report.

Nothing is drawn or evaluated: counterfactuals and outputs are those that the run kept.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from butfor.results.result import Result
from butfor.results.summary import change, number, probabilities
from butfor.text.segment import Span, changed, spans_of, splits_character, word_spans
from butfor.types import Floats, InputError, Ints

# both: two directions; chosen: direction not known; unknown: outside the sampler's vocabulary
Kind = Literal["", "tested", "unknown", "up", "down", "both", "chosen"]
UNMARKED = ("", "tested", "unknown")
MOST, AROUND = 4000, 240  # characters of a text that are shown; of a longer one, around each chosen piece
LINKS = {"logit": "log-odds", "log": "logarithm"}
UNITS = {
    "wordpiece": ("piece of a word", "pieces of words"),
    "word": ("word", "words"),
    "sentence": ("sentence", "sentences"),
    "span": ("span", "spans"),
    "match": ("match", "matches"),
    "phrase": ("phrase", "phrases"),
}


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
    """Characters that are left out, and the number of chosen pieces among them."""

    characters: int
    chosen: int


def text_of(result: Result, index: int) -> str:
    (text,) = result.hypotheses.items.block(index, index + 1)
    return str(text)


def has_texts(result: Result) -> bool:
    """Return whether the texts are at hand: other runs, and some files, have none."""
    return len(result.hypotheses.items) > 0 and isinstance(result.hypotheses.items.block(0, 1)[0], str)


def most_chosen(result: Result, most: int) -> dict[int, int]:
    """Return the inputs with most discoveries, the most first, and their number."""
    counts = np.bincount(result.input_of, weights=result.chosen, minlength=len(result.input_names))
    return {index: int(counts[index]) for index in np.argsort(-counts, kind="stable")[:most].tolist()}


def directions(result: Result) -> Ints:
    """Return +1 where the subset raises the output, -1 where it lowers it, 0 where that is not known, (H,)."""
    effect = result.effects.effect
    otherwise = {"greater": 1, "less": -1}.get(str(result.record.alternative), 0)
    return np.where(np.isnan(effect), otherwise, np.sign(np.nan_to_num(effect))).astype(np.int64)


def unit_of(result: Result) -> str:
    """Return what was tested, a key of UNITS, or "" where that is unknown."""
    units = str(result.record.get("units") or "")
    return next((unit for unit in UNITS if units.startswith(unit)), "")


def kind_of(toward: set[int], tested: bool = True) -> Kind:
    """Return how a piece is marked, by the directions of what was chosen in it.

    >>> kind_of({1}), kind_of({1, -1}), kind_of({0}), kind_of(set()), kind_of(set(), tested=False)
    ('up', 'both', 'chosen', 'tested', '')
    """
    if not toward:
        return "tested" if tested else ""
    if {1, -1} <= toward:
        return "both"
    return "up" if 1 in toward else "down" if -1 in toward else "chosen"


def pieces(result: Result, index: int, rows: Sequence[int], toward: Ints) -> list[Piece]:
    """Return the text of one input, cut where a tested span begins or ends; `rows` are its hypotheses.

    Spans that overlap (each tested alone) give a piece for every combination. WordPieces of one word are one piece.
    """
    text = text_of(result, index)
    begins, ends = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for row in rows:
        for start, end in spans_of(text, result.hypotheses.blocks[row].subset):
            begins[start].append(row)
            ends[end].append(row)

    uncovered = set(result.record.uncovered)

    def kind(rows: Iterable[int]) -> Kind:
        if rows and uncovered.issuperset(rows):
            return "unknown"
        return kind_of({int(toward[row]) for row in rows if result.chosen[row]}, bool(rows))

    cut: list[Piece] = []
    covering: set[int] = set()
    for start, end in pairwise(sorted({0, len(text), *begins, *ends})):
        covering = (covering - set(ends.get(start, ()))) | set(begins.get(start, ()))
        cut.append(Piece(start, end, tuple(sorted(covering)), kind(covering)))
    if unit_of(result) != "wordpiece":
        return cut
    inside = {cut for start, end in word_spans(text) for cut in range(start + 1, end)}
    joined: list[Piece] = []
    for piece in cut:
        if joined and piece.rows and joined[-1].rows and piece.start in inside:
            last = joined.pop()
            covered = tuple(dict.fromkeys(last.rows + piece.rows))
            parts = last.parts or ((last.start, last.end, last.kind),)
            parts = (*parts, (piece.start, piece.end, piece.kind))
            piece = Piece(last.start, piece.end, covered, kind(covered), parts)
        joined.append(piece)
    return joined


def shortened(text: str, cut: Sequence[Piece], most: int = MOST) -> list[Piece | Gap]:
    """Return the pieces of a text that is not too long; of a longer one what stands around the chosen pieces."""
    if len(text) <= most:
        return list(cut)
    kept: list[Span] = []  # at most `most` characters, first come, first served
    left = most
    for start, end in [(piece.start, piece.end) for piece in cut if piece.kind not in UNMARKED] or [(0, AROUND)]:
        a, b = window(text, start, end, AROUND)
        a = max(a, kept[-1][1] if kept else 0)
        b = min(b, a + left)
        if a < b:
            if kept and a == kept[-1][1]:
                kept[-1] = (kept[-1][0], b)
            else:
                kept.append((a, b))
            left -= b - a
    out: list[Piece | Gap] = []
    missed, last = 0, 0
    for piece in cut:
        inside = [(max(a, piece.start), min(b, piece.end)) for a, b in kept if a < piece.end and piece.start < b]
        missed += piece.kind not in UNMARKED and not inside
        for a, b in inside:
            if a > last:
                out.append(Gap(a - last, missed))
                missed = 0
            out.append(piece if (a, b) == (piece.start, piece.end) else Piece(a, b, piece.rows, piece.kind))
            last = b
    return [*out, Gap(len(text) - last, missed)] if last < len(text) else out


def window(text: str, start: int, end: int, around: int) -> Span:
    """Return about so many characters on each side of a span, cut between words where there are any.

    >>> text = "It was, from the very first minute, a dreadful film to sit through."
    >>> a, b = window(text, 38, 46, 12); text[a:b]
    'first minute, a dreadful film to sit'
    """

    def edge(cut: int, inner: int, away: int) -> int:  # the nearest cut between two words, away from the span
        if cut in (0, len(text)):
            return cut
        for near in range(cut, cut + away * 24, away):
            if not 0 < near < len(text):
                return max(0, min(near, len(text)))
            if text[near if away > 0 else near - 1].isspace():
                return near
        while 0 < cut < len(text) and cut != inner and splits_character(text, cut):
            cut += away
        return cut

    return edge(max(0, start - around), start, -1), edge(min(len(text), end + around), end, 1)


@dataclass(frozen=True)
class Stretch:
    """Characters in a row that look alike, `parts` of them with a kind of their own; or a gap."""

    kind: Kind
    parts: tuple[tuple[str, Kind | str], ...]  # "break": a line break of HTML, spelt out in the text
    tip: tuple[str, ...] = ()
    gap: str = ""

    @property
    def text(self) -> str:
        return "".join(part for part, _ in self.parts)


def stretches(result: Result, toward: Ints, index: int, rows: Sequence[int], most: int = MOST) -> tuple[Stretch, ...]:
    """Return the text of one input, cut where its look changes; of a long text what stands around chosen words."""
    text = text_of(result, index)

    def tip(row: int, kind: Kind) -> str:  # of a hypothesis that was not chosen only its evidence
        if kind in UNMARKED:
            return statistic(result, row) if kind == "tested" else "not covered: the sampler does not know it"
        chosen = "chosen" if result.chosen[row] else "not chosen"
        output = f"{output_of(result, row) or 'output'} {_output(result, row)}"
        name = result.hypotheses.block_of(row).subset.name
        name = name if len(name) <= 60 else f"{name[:57]}…"
        return ", ".join(filter(None, (f"{name}: {chosen}", statistic(result, row), effect(result, row), output)))

    out = []
    for piece in shortened(text, pieces(result, index, rows, toward), most):
        if isinstance(piece, Gap):
            among = f", {piece.chosen} chosen among them" if piece.chosen else ""
            out.append(Stretch("", (), gap=f"{piece.characters:,} characters{among}"))
            continue
        parts: list[tuple[str, Kind | str]] = []
        for a, b, kind in piece.parts or ((piece.start, piece.end, piece.kind),):
            split = enumerate(re.split(r"(?i)(<br\s*/?>)", text[a:b]))  # line breaks that are spelt out stand apart
            parts += [(part, "break" if k % 2 else kind) for k, part in split if part]
        tips = tuple(tip(row, piece.kind) for row in piece.rows)
        out.append(Stretch(piece.kind, tuple(parts), tips))
    return tuple(out)


def _output(result: Result, row: int) -> str:  # on the scale of the model
    value, link = float(result.evidence.observed[row]), result.record.link
    return number(float(1 / (1 + np.exp(-value)) if link == "logit" else np.exp(value) if link == "log" else value))


def statistic(result: Result, row: int) -> str:
    """Return the evidence of one hypothesis with its name: "p-value 0.0021, q 0.03"."""
    kind, q = result.evidence.kind, number(result.q[row])
    name = f"{kind}-value" if kind in ("p", "e") else kind
    return f"{name} {number(result.evidence.values[row])}{q and f', q {q}'}"


def effect(result: Result, row: int) -> str:
    """Return the effect of one hypothesis with its unit and interval; empty where it was not estimated."""
    effects, link = result.effects, LINKS.get(str(result.record.link), "")
    middle, low, high = (number(values[row], sign=True) for values in (effects.effect, effects.low, effects.high))
    interval = f" ({low} to {high})" if low and low != high else ""
    return f"effect {middle}{' ' if link else ''}{link}{interval}" if middle else ""


def output_of(result: Result, row: int) -> str:
    return "" if result.output_names is None else str(result.output_names[result.evidence.classes[row]])


def word_of(result: Result, row: int) -> str:
    """Return the characters of one hypothesis, or its name where the texts are not at hand."""
    block = result.hypotheses.blocks[row]
    if has_texts(result):
        text = text_of(result, block.start)
        return " ".join(text[slice(*spans_of(text, block.subset)[0])].split())
    return re.sub(r" #\d+$", "", block.subset.name)


@dataclass(frozen=True)
class WordCount:
    """One word: how often it was chosen and tested, and how often it raises or lowers the output."""

    word: str
    chosen: int
    tested: int
    up: int
    down: int
    effect: float  # mean over the occurrences that were chosen; NaN: not estimated


def word_counts(result: Result) -> list[WordCount]:
    """Count every word that was tested, the most often chosen first; upper and lower case are one word.

    WordPieces count as the words they stand in: chosen if one of their pieces is.

    Parameters
    ----------
    result : Result
        A result of `butfor.text.explain`.

    Returns
    -------
    list of WordCount
        The counts of each word.

    Examples
    --------
    >>> from butfor import simulate, text
    >>> bed = simulate.bed("sentences")
    >>> counts = word_counts(text.explain(bed.model, bed.inputs, bed.sampler, test="osft"))
    >>> counts[0].word, counts[0].chosen
    ('zex', 19)
    """
    toward = directions(result)

    def occurrences() -> Iterator[tuple[str, tuple[int, ...]]]:  # the words as they stand, and their hypotheses
        if unit_of(result) == "wordpiece" and has_texts(result):
            for index in range(len(result.input_names)):
                text, rows = text_of(result, index), np.flatnonzero(result.input_of == index).tolist()
                for piece in pieces(result, index, rows, toward):
                    if piece.rows:
                        yield " ".join(text[piece.start : piece.end].split()), piece.rows
        else:
            for row in range(len(result.chosen)):
                yield word_of(result, row), (row,)

    by_word: dict[str, list[tuple[str, list[int]]]] = {}
    for word, rows in occurrences():
        by_word.setdefault(word.lower(), []).append((word, [row for row in rows if result.chosen[row]]))
    counts = []
    for group in by_word.values():
        written = Counter(word for word, _ in group).most_common(1)[0][0]
        chosen = [rows for _, rows in group if rows]
        ways = [{int(toward[row]) for row in rows} for rows in chosen]
        up, down = sum(1 in way for way in ways), sum(-1 in way for way in ways)
        effects = [e for rows in chosen for e in result.effects.effect[rows].tolist() if not np.isnan(e)]
        mean = float(np.mean(effects)) if effects else float("nan")
        counts.append(WordCount(written, len(chosen), len(group), up, down, mean))
    return sorted(counts, key=lambda count: (-count.chosen, count.tested))  # of equals, the one with the larger share


WIDTH = 110
MOST_MARKED = 40  # texts in a notebook
MOST_LINES = 2000  # characters of a text in a terminal
SIGNS: dict[Kind, str] = {"up": "+", "down": "−", "both": "±", "chosen": "*"}
STYLES: dict[Kind, str] = {"up": "bold blue", "down": "bold yellow", "both": "bold magenta", "chosen": "bold"}
LOOK: dict[Kind, tuple[str, str]] = {  # the sign before the word, and its style: no colour without another sign of it
    "up": ("▲", "background:#e1ebfd;border-bottom:3px solid #155cd6"),
    "down": ("▼", "background:#fdebd3;border-bottom:3px dashed #b45309"),
    "both": ("◆", "background:#efe6fb;border-bottom:3px double #6d3fb0"),
    "chosen": ("●", "background:#e9f3f4;border-bottom:3px solid #0b6b74"),
}
LEGEND = "[+word] raises the output, [−word] lowers it; [?word]: unknown to the sampler, not covered"


def rendered(result: Result, input: object, *, colour: bool | None = None, width: int = WIDTH) -> str:
    """Return the text of one input with its chosen words marked: [+word] raises the output, [−word] lowers it.

    [?word] is unknown to the sampler; [±word] has pieces of both kinds; [*word] was chosen in a direction that is not
    known, since no effect was estimated. `colour` None: if standard output is a terminal. Characters that would steer a
    terminal are replaced.
    """
    from rich.console import Console
    from rich.text import Text

    index = _checked_index(result, input)
    rows = np.flatnonzero(result.input_of == index).tolist()
    heading = f"{harmless(str(input))}: {int(result.chosen[rows].sum())} of {len(rows)} chosen"
    if len({(int(result.evidence.classes[row]), _output(result, row)) for row in rows}) == 1:  # one output was tested
        heading += f", {output_of(result, rows[0]) or 'output'} {_output(result, rows[0])}"
    cut = stretches(result, directions(result), index, rows, MOST_LINES)
    line = Text() if cut else Text("(an empty text)", style="dim")
    for stretch in cut:
        words = harmless(stretch.text)
        if stretch.gap:
            line.append(f" [… {stretch.gap} …] ", style="dim")
        elif stretch.kind in SIGNS:
            line.append(f"[{SIGNS[stretch.kind]}{words}]", style=STYLES[stretch.kind])
        elif stretch.kind == "unknown":
            line.append(f"[?{words}]", style="dim")
        else:
            line.append(words)
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ if colour is None else colour
    out = io.StringIO()
    system: Literal["standard"] | None = "standard" if coloured else None
    console = Console(file=out, width=width, force_terminal=coloured, color_system=system, legacy_windows=False)
    console.print(line, end="")  # wide characters take two columns
    body = out.getvalue() if coloured else "\n".join(row.rstrip() for row in out.getvalue().split("\n"))
    return f"{heading}\n{body}"


def _checked_index(result: Result, input: object) -> int:
    if input not in result.input_names:
        raise InputError(f"unknown input {input!r}; result.input_names has those of this run")
    if not has_texts(result):
        raise InputError(f"input {input!r} is no text; this is for results of butfor.text.explain")
    return result.input_names.index(input)


def harmless(text: str) -> str:
    """Return the text with U+FFFD in place of characters that steer a terminal or cannot be written.

    >>> harmless("a\\x1b[2Jb\\r\\nc")
    'a�[2Jb\\nc'
    """
    steering = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    return re.sub(steering, "�", text.replace("\r\n", "\n").replace("\r", "\n"))


def found_in(result: Result, most: int = 3) -> str:
    """Return the words chosen most often and the texts with most discoveries; empty where nothing was chosen."""
    if not result.chosen.any():
        return ""
    texts = [rendered(result, result.input_names[index]) for index, count in most_chosen(result, most).items() if count]
    left = len(np.unique(result.input_of[result.chosen])) - len(texts)
    rest = [f"... and {left} more {'text' if left == 1 else 'texts'} with chosen words; see the report"] if left else []
    return "\n" + "\n\n".join([often(result), f"{LEGEND}:", *texts, *rest])


def often(result: Result, most: int = 15) -> str:
    """Return the words chosen most often, one a line: how often, of how many, and the direction of their effect."""
    counts = [count for count in word_counts(result) if count.chosen]
    if not counts:
        return ""
    words = [harmless(count.word) for count in counts[:most]]
    width = max(len("word"), *(min(len(word), 40) for word in words))
    lines = [f"{'word':<{width}}      chosen  raises  lowers  mean effect"]
    for word, count in zip(words, counts, strict=False):
        word = word if len(word) <= 40 else f"{word[:39]}…"
        effect = "" if np.isnan(count.effect) else f"{count.effect:+.3g}"
        numbers = f"{f'{count.chosen} of {count.tested}':>10}  {count.up or '':>6}  {count.down or '':>6}"
        lines.append(f"{word:<{width}}  {numbers}  {effect:>11}".rstrip())
    if len(counts) > most:
        lines.append(f"... and {len(counts) - most} more; see butfor.text.word_counts(result)")
    return "\n".join(lines)


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
        result, toward, out = self.result, directions(self.result), ""
        for name in self.inputs:
            index = result.input_names.index(name)
            rows = np.flatnonzero(result.input_of == index).tolist()
            body = ""
            for stretch in stretches(result, toward, index, rows):
                words, tip = escape(harmless(stretch.text)), escape(harmless("\n".join(stretch.tip)))
                if stretch.kind in LOOK:
                    sign, style = LOOK[stretch.kind]
                    words = f'<mark style="color:inherit;{style}" title="{tip}"><small>{sign}</small>{words}</mark>'
                if stretch.kind == "unknown":
                    words = f'<span style="border-bottom:1px dotted" title="{tip}">{words}</span>'
                body += f"<i>[… {escape(stretch.gap)} …]</i>" if stretch.gap else words
            chosen = f"{int(result.chosen[rows].sum())} of {len(rows)} chosen"
            out += f"<p><b>{escape(harmless(str(name)))}</b>: {chosen}</p>"
            out += f'<p dir="auto" style="white-space:pre-wrap;max-width:48em">{body}</p>'
        return out


def marked(result: Result, input: object = None) -> Marked:
    """Show texts of a run with their chosen words marked; nothing is drawn or evaluated for that.

    In a notebook words that raise the output are blue with a solid line and ▲, words that lower it orange with a dashed
    line and ▼; `str` gives plain lines for a terminal.

    Parameters
    ----------
    result : Result
        A result of `butfor.text.explain`.
    input : str or int, optional
        The name of one text; None is all of them, or the 40 with most discoveries.

    Returns
    -------
    Marked
        HTML in a notebook, plain text for `print`.

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
    shown = [result.input_names[index] for index in sorted(most_chosen(result, MOST_MARKED))]
    names = shown if input is None else [input]
    _checked_index(result, names[0])
    return Marked(result, tuple(names))


PAGE, MOST_TEXTS, MOST_WORDS, MOST_CHANGED, MOST_COUNTED = 20, 1000, 6, 150, 40
LEAST_COUNTED = 3  # words that make a table
LOOKED_AT, MOST_FILLS = 8, 3  # counterfactuals of a word, and different ones of them that are shown
OPEN = 8  # words whose counterfactuals are shown without a click
AROUND_WORD = 34  # characters on each side of a changed word
STATISTICS = {
    "p": "its p-value",
    "z": "its z (large: the text's output is far more extreme than its counterfactual's)",
    "w": "its w (large: the text's output is by far the most extreme among its counterfactuals)",
    "e": "its e-value",
}


@dataclass(frozen=True)
class Changed:
    """A sentence around a changed word: the new word, the output, and its change."""

    before: str
    word: str
    after: str
    value: str
    change: str
    way: Kind  # of the change
    times: str


@dataclass(frozen=True)
class Word:
    name: str
    kind: Kind
    statistic: str
    effect: str
    output: str  # the class that the values are of
    original: Changed
    changed: tuple[Changed, ...]
    others: int


@dataclass(frozen=True)
class Text:
    """One text of the run with its chosen words marked."""

    name: str
    output: str
    chosen: int
    tested: int
    stretches: tuple[Stretch, ...]
    words: tuple[Word, ...]
    more: int
    open: bool
    index: int  # among the inputs


@dataclass(frozen=True)
class Counted:
    """One line of the table of words; widths are in percent of the most often chosen one."""

    word: str
    chosen: int
    tested: int
    up: int
    down: int
    effect: str
    up_width: float
    down_width: float
    other_width: float


@dataclass(frozen=True)
class Texts:
    """The texts of a report, as its template names them."""

    texts: tuple[Text, ...]
    more: int
    page: int  # texts on a page
    counted: tuple[Counted, ...]
    more_counted: int
    unit: tuple[str, str]
    joined: bool  # pieces are shown as the words they stand in
    statistic: str
    kinds: frozenset[Kind]
    output: str  # the one output that directions are of, if it has a name
    drawn: bool
    unknown: bool  # some words are outside the sampler's vocabulary
    sparse: bool  # so little was tested that it is worth marking


def marked_texts(result: Result) -> Texts | None:
    """Return the texts of a run, those with most discoveries where there are too many; None where they are missing."""
    if not has_texts(result):
        return None
    toward, shown = directions(result), list(most_chosen(result, MOST_TEXTS))
    shown = shown if len(shown) > PAGE else sorted(shown)  # as they came where they fit on a page
    rows: list[list[int]] = [[] for _ in result.input_names]
    for row, index in enumerate(result.input_of.tolist()):
        rows[index].append(row)
    texts: list[Text] = []
    for index in shown:
        texts.append(_text(result, toward, index, rows[index], sum(len(text.words) for text in texts)))
    counts = [count for count in word_counts(result) if count.chosen]
    repeated = [count for count in counts if count.chosen > 1][:MOST_COUNTED]
    repeated = repeated if len(repeated) >= LEAST_COUNTED else []
    counted = []
    for one in repeated:
        parts = (one.up, one.down, one.chosen - one.up - one.down)
        widths = (100 * max(0, part) / repeated[0].chosen for part in parts)
        effect = number(one.effect, sign=True)
        counted.append(Counted(one.word, one.chosen, one.tested, one.up, one.down, effect, *widths))
    outputs = {output_of(result, int(row)) for row in np.flatnonzero(result.chosen)}
    tested = [(text_of(result, i), result.hypotheses.block_of(row).subset) for i in shown for row in rows[i]]
    spans = [span for text, subset in tested for span in spans_of(text, subset)]
    letters = sum(len("".join(text_of(result, index).split())) for index in shown)
    return Texts(
        texts=tuple(texts),
        more=len(result.input_names) - len(shown),
        page=PAGE,
        counted=tuple(counted),
        more_counted=len(counts) - len(repeated) if repeated else 0,
        unit=UNITS.get(unit_of(result), ("part", "parts")),
        joined=unit_of(result) == "wordpiece",
        statistic=STATISTICS[result.evidence.kind],
        kinds=frozenset(kind_of({int(way)}) for way in np.unique(toward[result.chosen])),
        output=outputs.pop() if len(outputs) == 1 else "",
        drawn=any(word.changed for text in texts for word in text.words),
        unknown=bool(result.record.uncovered),
        sparse=bool(2 * sum(end - start for start, end in spans) < letters),  # a reader cannot guess which
    )


def _text(result: Result, toward: Ints, index: int, rows: Sequence[int], done: int) -> Text:
    """Return one text; `done` words have been shown with their counterfactuals before."""

    def strength(row: int) -> tuple[float, float]:
        value, size = float(result.evidence.values[row]), abs(float(np.nan_to_num(result.effects.effect[row])))
        return value if result.evidence.kind == "p" else -value, -size

    text, chosen = text_of(result, index), [row for row in rows if result.chosen[row]]
    strongest = sorted(chosen, key=strength)[: max(0, min(MOST_WORDS, MOST_CHANGED - done))]
    kept = [row for row in sorted(strongest) if row in result.kept and not result.record.picked]
    parts = [result.outputs[index : index + 1], *(result.kept.outputs(row)[:LOOKED_AT] for row in kept)]
    together = np.concatenate(parts)
    values = probabilities(together) if together.shape[1] else together  # a file may have no outputs
    (observed,), *others = np.split(values, np.cumsum([len(part) for part in parts])[:-1])

    def unbroken(part: str) -> str:  # line breaks of HTML, also those that were cut through, become a sign
        return re.sub(r"(<br\s*/?>|^(br)?\s*/?>|<b?r?\s*/?$)+", " ⏎ ", part, flags=re.IGNORECASE)

    def word(row: int, outputs: Floats) -> Word:  # with the outputs (k, outputs) of its counterfactuals
        subset = result.hypotheses.block_of(row).subset
        drawn: list[str] = list(result.kept.whole(result.hypotheses, row, len(outputs)))
        column = min(int(result.evidence.classes[row]), len(observed) - 1)
        first, often = float(observed[column]), Counter(drawn).most_common()
        start, end = spans_of(text, subset)[0]
        a, _ = window(text, start, end, AROUND_WORD)
        before = ("… " if a else "") + unbroken(text[a:start])

        def line(other: str, value: float, times: str = "") -> Changed:
            shown = f"{value:.3f}" if len(observed) > 1 else number(value)
            # evaluated in another batch, the same output may differ in its last bits
            difference = 0.0 if np.isclose(value, first, rtol=1e-6, atol=0) else value - first
            way = kind_of({int(np.sign(difference))}) if difference else ""
            moved = "" if other is text else change(difference)
            new = changed(text, other, subset)
            upto = start + len(new)
            until = window(other, start, upto, AROUND_WORD)[1]
            after = unbroken(other[upto:until]) + (" …" if until < len(other) else "")  # what is redrawn there, too
            return Changed(before, new, after, shown, moved, way, times)

        fills = [(other, float(outputs[drawn.index(other), column]), n) for other, n in often[:MOST_FILLS]]
        repeated = len(often) < len(drawn)
        return Word(
            name=word_of(result, row),
            kind=kind_of({int(toward[row])}),
            statistic=statistic(result, row),
            effect=effect(result, row),
            output=output_of(result, row),
            original=line(text, first),
            changed=tuple(line(other, value, f"{n} of {len(drawn)}" if repeated else "") for other, value, n in fills),
            others=max(0, len(often) - MOST_FILLS),
        )

    words = tuple(map(word, kept, others))
    output = f"the model's output is {number(observed[0])}" if len(observed) else ""
    if len(observed) > 1 and result.output_names is not None:
        best = int(observed.argmax())
        output = f"the model says {result.output_names[best]}, probability {observed[best]:.3f}"
    return Text(
        name=str(result.input_names[index]),
        output=output,
        chosen=len(chosen),
        tested=len(rows),
        stretches=stretches(result, toward, index, rows),
        words=words,
        more=len(chosen) - len(words) if words else 0,
        open=done + len(words) <= OPEN,
        index=index,
    )
