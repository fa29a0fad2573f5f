"""Result -> the texts of its report, as data that a template can place: nothing is drawn or asked there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.draw.blocks import redraw
from butfor.core.result.numbers import change, number, probabilities
from butfor.core.types import Floats, InputError, Ints, Model
from butfor.text.edit import changed
from butfor.text.highlight import Gap, Kind, Piece, directions, kind_of, observed, pieces, shortened, unit_of, window
from butfor.text.word_counts import WordCount, rows_by_input, word_counts, word_of

if TYPE_CHECKING:
    from butfor.core.result.result import Result

MOST_TEXTS, MOST_WORDS, MOST_CHANGED, MOST_COUNTED = 40, 6, 150, 40
LEAST_COUNTED = 3  # words that make a table
LOOKED_AT, MOST_FILLS = 8, 3  # counterfactuals of a word, and different ones of them that are shown
OPEN = 30  # words whose counterfactuals are shown without a click
AROUND = 34  # characters on each side of a changed word
AT_ONCE = 64  # texts the model is given at a time
BREAK = re.compile(r"(<br\s*/?>)", re.IGNORECASE)
UNITS = {
    "word": ("word", "words"),
    "wordpiece": ("piece of a word", "pieces of words"),
    "sentence": ("sentence", "sentences"),
    "span": ("span", "spans"),
    "match": ("match", "matches"),
    "phrase": ("phrase", "phrases"),
}
STATISTICS = {
    "p": "its p-value",
    "z": "its z (large: the text's output is far more extreme than its counterfactual's)",
    "w": "its w (large: the text's output is by far the most extreme among its counterfactuals)",
    "e": "its e-value",
}


@dataclass(frozen=True)
class Stretch:
    """Characters in a row that look alike, `parts` of them with a kind of their own; or what is left out."""

    kind: Kind
    parts: tuple[tuple[str, Kind | str], ...]  # "break": a line break of HTML, spelt out in the text
    tip: tuple[str, ...] = ()
    gap: str = ""


@dataclass(frozen=True)
class Changed:
    """A sentence around a changed word: what stands there now, what the model says, how that changed."""

    before: str
    word: str
    after: str
    value: str
    change: str
    way: Kind  # of the change
    times: str


@dataclass(frozen=True)
class Word:
    """One chosen subset and its counterfactuals."""

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
    said: str  # what the model says of it
    chosen: int
    tested: int
    stretches: tuple[Stretch, ...]
    words: tuple[Word, ...]
    more: int
    open: bool


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
    """What the template names."""

    texts: tuple[Text, ...]
    more: int
    counted: tuple[Counted, ...]
    more_counted: int
    unit: tuple[str, str]
    joined: bool  # pieces are shown as the words they stand in
    statistic: str
    kinds: frozenset[Kind]
    output: str  # the one output that directions are of, if it has a name
    drawn: bool
    sparse: bool  # so little was tested that it is worth marking


@dataclass(frozen=True, eq=False)
class Seen:
    """A result with the directions of all of its hypotheses, worked out once."""

    result: Result
    toward: Ints  # (H,)


@dataclass(frozen=True)
class View:
    """How a run on texts is shown: call it with the result. `model` None: texts without the model's answers."""

    model: Model | None

    def __call__(self, result: Result) -> Texts:
        seen = seen_in(result)
        shown, rows = _shown(result), rows_by_input(result)
        budget = MOST_CHANGED
        texts = []
        for place in shown:
            texts.append(self._text(seen, place, rows[place], budget))
            budget -= len(texts[-1].words)
        counted, more = _counted(result)
        marks = seen.toward[result.chosen]
        return Texts(
            texts=tuple(texts),
            more=len(result.input_names) - len(shown),
            counted=counted,
            more_counted=more,
            unit=UNITS.get(unit_of(result), ("part", "parts")),
            joined=unit_of(result) == "wordpiece",
            statistic=STATISTICS[result.evidence.kind],
            kinds=frozenset(kind_of({int(way)}) for way in np.unique(marks)),
            output=_one_output(result),
            drawn=any(word.changed for text in texts for word in text.words),
            sparse=_sparse(result, shown, rows),
        )

    def _text(self, seen: Seen, place: int, rows: Sequence[int], budget: int) -> Text:
        result = seen.result
        text: str = result.problem.inputs[place]
        chosen = [row for row in rows if result.chosen[row]]
        strongest = sorted(chosen, key=lambda row: _strength(result, row))[: max(0, min(MOST_WORDS, budget))]
        drawn = {row: _redrawn(result, row) for row in sorted(strongest)}
        asked = list(dict.fromkeys([text, *(other for others in drawn.values() for other in others)]))
        outputs = self._outputs(asked)
        values = None if outputs is None else dict(zip(asked, outputs, strict=True))
        words = tuple(_word(seen, row, text, others, values) for row, others in drawn.items() if others)
        return Text(
            name=str(result.input_names[place]),
            said=_said(result, None if values is None else values[text]),
            chosen=len(chosen),
            tested=len(rows),
            stretches=stretches(seen, place, rows),
            words=words,
            more=len(chosen) - len(words) if words else 0,
            open=MOST_CHANGED - budget + len(words) <= OPEN,
        )

    def _outputs(self, texts: Sequence[str]) -> Floats | None:
        """What the model says, (n, outputs): probabilities where there are several outputs, else the output itself."""
        if self.model is None:
            return None
        parts = [
            np.asarray(self.model(list(texts[a : a + AT_ONCE])), np.float64) for a in range(0, len(texts), AT_ONCE)
        ]
        return probabilities(np.concatenate(parts).reshape(len(texts), -1))


def seen_in(result: Result) -> Seen:
    """The result as the functions below need it."""
    return Seen(result, directions(result))


def _shown(result: Result) -> list[int]:
    """All texts, or those with most discoveries where there are too many; in their order."""
    count = len(result.input_names)
    found = np.bincount(result.input_of, weights=result.chosen, minlength=count)
    return sorted(np.argsort(-found, kind="stable")[:MOST_TEXTS].tolist())


def _sparse(result: Result, shown: Sequence[int], rows: Sequence[Sequence[int]]) -> bool:
    """Whether less than half of the letters shown were tested: a reader cannot guess which."""
    spans = [result.problem.blocks[row].subset.index for place in shown for row in rows[place]]
    letters = sum(len("".join(result.problem.inputs[place].split())) for place in shown)
    return bool(2 * sum(end - start for start, end in spans) < letters)


def _strength(result: Result, row: int) -> tuple[float, float]:
    value = float(result.evidence.values[row])
    return value if result.evidence.kind == "p" else -value, -abs(float(np.nan_to_num(result.effects.effect[row])))


def _redrawn(result: Result, row: int) -> list[str]:
    """The first counterfactuals of one hypothesis; none where they cannot be drawn again."""
    said = result.provenance
    if said["picked"]:
        return []
    count = min(LOOKED_AT, sum(said["rounds"]) - said["set_aside"])
    # One block only: searching 100,000 of them for each word would take longer than drawing.
    alone = replace(result.problem, blocks=(result.problem.blocks[row],))
    try:
        return list(redraw(alone, row, count, said["rounds"], said["set_aside"]))
    except InputError:  # loaded without its sampler
        return []


def _word(seen: Seen, row: int, text: str, drawn: Sequence[str], values: dict[str, Floats] | None) -> Word:
    result = seen.result
    subset = result.problem.blocks[row].subset
    start, end = subset.index
    column = int(result.evidence.classes[row])
    often = Counter(drawn).most_common()
    a, b = window(text, start, end, AROUND)
    before = ("… " if a else "") + _unbroken(text[a:start])
    after = _unbroken(text[end:b]) + (" …" if b < len(text) else "")

    def line(other: str, times: str = "") -> Changed:
        word = changed(text, other, subset)
        if values is None:
            return Changed(before, word, after, "", "", "", times)
        value, difference = _at(values[other], column), _at(values[other], column) - _at(values[text], column)
        way = kind_of({int(np.sign(difference))}) if difference else ""
        several = len(values[other]) > 1
        said = f"{value:.3f}" if several else number(value)
        return Changed(before, word, after, said, "" if other is text else change(difference), way, times)

    repeated = len(often) < len(drawn)
    return Word(
        name=word_of(result, row),
        kind=kind_of({int(seen.toward[row])}),
        statistic=statistic(result, row),
        effect=effect(result, row),
        output=output_of(result, row),
        original=line(text),
        changed=tuple(line(other, f"{n} of {len(drawn)}" if repeated else "") for other, n in often[:MOST_FILLS]),
        others=max(0, len(often) - MOST_FILLS),
    )


def _unbroken(text: str) -> str:
    """Part of a text for one line: line breaks of HTML, whole ones and those that were cut through, are a sign."""
    return re.sub(r"(<br\s*/?>|^(br)?\s*/?>|<b?r?\s*/?$)+", " ⏎ ", text, flags=re.IGNORECASE)


def _at(outputs: Floats, column: int) -> float:
    return float(outputs[column if len(outputs) > 1 else 0])


def statistic(result: Result, row: int) -> str:
    """The evidence of one hypothesis with its name, as in the table of the result: "p 0.0021"."""
    return f"{result.evidence.kind} {number(result.evidence.values[row])}"


def effect(result: Result, row: int) -> str:
    """The effect of one hypothesis with its interval; empty where it was not estimated."""
    found = result.effects
    if np.isnan(found.effect[row]):
        return ""
    said = f"effect {number(found.effect[row], sign=True)}"
    if np.isnan(found.low[row]):
        return said
    return f"{said} ({number(found.low[row], sign=True)} to {number(found.high[row], sign=True)})"


def output_of(result: Result, row: int) -> str:
    """The name of the output that was tested, if outputs have names."""
    return "" if result.output_names is None else str(result.output_names[result.evidence.classes[row]])


def _one_output(result: Result) -> str:
    names = {output_of(result, int(row)) for row in np.flatnonzero(result.chosen)}
    return names.pop() if len(names) == 1 else ""


def _said(result: Result, outputs: Floats | None) -> str:
    if outputs is None:
        return ""
    if result.output_names is None or len(outputs) == 1:
        return f"the model's output is {number(outputs[0])}"
    best = int(outputs.argmax())
    return f"the model says {result.output_names[best]}, p = {outputs[best]:.3f}"


def stretches(seen: Seen, place: int, rows: Sequence[int]) -> tuple[Stretch, ...]:
    """The text of one input, cut where what is to be seen changes; of a long text what stands around chosen words."""
    text: str = seen.result.problem.inputs[place]
    cut = pieces(seen.result, place, rows, seen.toward)
    return tuple(_stretch(seen, text, piece) for piece in shortened(text, cut))


def _stretch(seen: Seen, text: str, piece: Piece | Gap) -> Stretch:
    if isinstance(piece, Gap):
        return Stretch("", (), gap=_gap(piece))
    if not piece.rows:
        return Stretch("", tuple(_breaks(text[piece.start : piece.end], "")))
    inner = piece.parts or ((piece.start, piece.end, piece.kind),)
    parts = tuple(part for a, b, kind in inner for part in _breaks(text[a:b], kind))
    chosen = piece.kind != "tested"
    tip = tuple(_tip(seen.result, row, chosen) for row in piece.rows)
    return Stretch(piece.kind, parts, tip)


def _gap(gap: Gap) -> str:
    found = f", {gap.chosen} chosen among them" if gap.chosen else ""
    return f"{gap.characters:,} characters{found}"


def _breaks(text: str, kind: Kind) -> list[tuple[str, Kind | str]]:
    """The text, with the line breaks of HTML that are spelt out in it apart."""
    split = BREAK.split(text)
    return [(part, "break" if k % 2 else kind) for k, part in enumerate(split) if part]


def _tip(result: Result, row: int, long: bool) -> str:
    """What is said of one hypothesis; of one that was not chosen only its evidence."""
    if not long:
        return statistic(result, row)
    chosen = "chosen" if result.chosen[row] else "not chosen"
    output = f"{output_of(result, row) or 'output'} {number(observed(result, row))}"
    name = result.problem.blocks[row].subset.name
    name = name if len(name) <= 60 else f"{name[:57]}…"
    said = (f"{name}: {chosen}", statistic(result, row), effect(result, row), output)
    return ", ".join(part for part in said if part)


def _counted(result: Result) -> tuple[tuple[Counted, ...], int]:
    """The words chosen more than once, and how many more were chosen; nothing where those are hardly any."""
    found = [count for count in word_counts(result) if count.chosen]
    often = [count for count in found if count.chosen > 1][:MOST_COUNTED]
    if len(often) < LEAST_COUNTED:
        return (), 0
    return tuple(_line(count, often[0].chosen) for count in often), len(found) - len(often)


def _line(count: WordCount, most: int) -> Counted:
    rest = count.chosen - count.up - count.down
    widths = (100 * max(0, part) / most for part in (count.up, count.down, rest))
    effect = number(count.effect, sign=True)
    return Counted(count.word, count.chosen, count.tested, count.up, count.down, effect, *widths)
