"""Result -> the texts of its report, as data that a template can place: nothing is drawn or asked there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from butfor.results.summary import change, number, probabilities
from butfor.text.highlight import (
    Kind,
    Stretch,
    WordCount,
    directions,
    effect,
    has_texts,
    kind_of,
    most_found,
    output_of,
    rows_by_input,
    statistic,
    stretches,
    text_of,
    unit_of,
    window,
    word_counts,
    word_of,
)
from butfor.text.segment import changed
from butfor.types import Floats, Ints

if TYPE_CHECKING:
    from butfor.results.result import Result

PAGE, MOST_TEXTS, MOST_WORDS, MOST_CHANGED, MOST_COUNTED = 20, 1000, 6, 150, 40
LEAST_COUNTED = 3  # words that make a table
LOOKED_AT, MOST_FILLS = 8, 3  # counterfactuals of a word, and different ones of them that are shown
OPEN = 8  # words whose counterfactuals are shown without a click
AROUND = 34  # characters on each side of a changed word
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
    place: int  # among the inputs


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
    page: int  # texts on a page
    counted: tuple[Counted, ...]
    more_counted: int
    unit: tuple[str, str]
    joined: bool  # pieces are shown as the words they stand in
    statistic: str
    kinds: frozenset[Kind]
    output: str  # the one output that directions are of, if it has a name
    drawn: bool
    sparse: bool  # so little was tested that it is worth marking


def marked_texts(result: Result) -> Texts | None:
    """The texts of a run, those with most discoveries where there are too many; None where they are not at hand.

    Counterfactuals and the model's outputs are those that the run kept: neither the model nor the sampler is asked.
    """
    if not has_texts(result):
        return None
    toward, shown, rows = directions(result), _in_order(result), rows_by_input(result)
    texts: list[Text] = []
    for place in shown:
        texts.append(_text(result, toward, place, rows[place], sum(len(text.words) for text in texts)))
    counted, more_counted = _counted(result)
    return Texts(
        texts=tuple(texts),
        more=len(result.input_names) - len(shown),
        page=PAGE,
        counted=counted,
        more_counted=more_counted,
        unit=UNITS.get(unit_of(result), ("part", "parts")),
        joined=unit_of(result) == "wordpiece",
        statistic=STATISTICS[result.evidence.kind],
        kinds=frozenset(kind_of({int(way)}) for way in np.unique(toward[result.chosen])),
        output=_one_output(result),
        drawn=any(word.changed for text in texts for word in text.words),
        sparse=_sparse(result, shown, rows),
    )


def _in_order(result: Result) -> list[int]:
    """The texts as they came where they fit on a page; of more, those with most discoveries first."""
    found = list(most_found(result, MOST_TEXTS))
    return found if len(found) > PAGE else sorted(found)


def _one_output(result: Result) -> str:
    names = {output_of(result, int(row)) for row in np.flatnonzero(result.chosen)}
    return names.pop() if len(names) == 1 else ""


def _sparse(result: Result, shown: Sequence[int], rows: Sequence[Sequence[int]]) -> bool:
    """Whether less than half of the letters shown were tested: a reader cannot guess which."""
    spans = [result.problem.block_of(row).subset.index for place in shown for row in rows[place]]
    letters = sum(len("".join(text_of(result, place).split())) for place in shown)
    return bool(2 * sum(end - start for start, end in spans) < letters)


def _text(result: Result, toward: Ints, place: int, rows: Sequence[int], done: int) -> Text:
    """One text; `done` words have been shown with their counterfactuals before."""
    chosen = [row for row in rows if result.chosen[row]]
    strongest = sorted(chosen, key=lambda row: _strength(result, row))[: max(0, min(MOST_WORDS, MOST_CHANGED - done))]
    kept = [row for row in sorted(strongest) if row in result.kept and not result.record.picked]
    outputs = [result.outputs[place : place + 1], *(result.kept.outputs(row)[:LOOKED_AT] for row in kept)]
    values = _as_probabilities(outputs)
    words = tuple(_word(result, toward, row, values[0][0], own) for row, own in zip(kept, values[1:], strict=True))
    return Text(
        name=str(result.input_names[place]),
        said=_answer(result, values[0][0]),
        chosen=len(chosen),
        tested=len(rows),
        stretches=stretches(result, toward, place, rows),
        words=words,
        more=len(chosen) - len(words) if words else 0,
        open=done + len(words) <= OPEN,
        place=place,
    )


def _strength(result: Result, row: int) -> tuple[float, float]:
    value = float(result.evidence.values[row])
    return value if result.evidence.kind == "p" else -value, -abs(float(np.nan_to_num(result.effects.effect[row])))


def _as_probabilities(parts: Sequence[Floats]) -> list[Floats]:
    """Outputs of a text and its counterfactuals, (n, outputs) each: probabilities where there are several outputs."""
    together = np.concatenate(parts)
    values = probabilities(together) if together.shape[1] else together  # an old file has no outputs
    return np.split(values, np.cumsum([len(part) for part in parts])[:-1])


def _word(result: Result, toward: Ints, row: int, observed: Floats, outputs: Floats) -> Word:
    """One chosen word, with the outputs of its text (outputs,) and of its counterfactuals (k, outputs)."""
    text, subset = text_of(result, int(result.input_of[row])), result.problem.block_of(row).subset
    drawn: list[str] = list(result.kept.whole(result.problem, row, len(outputs)))
    column = min(int(result.evidence.classes[row]), len(observed) - 1)
    often = Counter(drawn).most_common()
    start, end = subset.index
    a, b = window(text, start, end, AROUND)
    before = ("… " if a else "") + _unbroken(text[a:start])
    after = _unbroken(text[end:b]) + (" …" if b < len(text) else "")

    def line(other: str, value: float, times: str = "") -> Changed:
        shown = f"{value:.3f}" if len(observed) > 1 else number(value)
        # asked in another batch, the same answer may differ in its last bits
        difference = 0.0 if np.isclose(value, observed[column], rtol=1e-6, atol=0) else value - float(observed[column])
        way = kind_of({int(np.sign(difference))}) if difference else ""
        moved = "" if other is text else change(difference)
        return Changed(before, changed(text, other, subset), after, shown, moved, way, times)

    fills = [(other, float(outputs[drawn.index(other), column]), n) for other, n in often[:MOST_FILLS]]
    repeated = len(often) < len(drawn)
    return Word(
        name=word_of(result, row),
        kind=kind_of({int(toward[row])}),
        statistic=statistic(result, row),
        effect=effect(result, row),
        output=output_of(result, row),
        original=line(text, float(observed[column])),
        changed=tuple(line(other, value, f"{n} of {len(drawn)}" if repeated else "") for other, value, n in fills),
        others=max(0, len(often) - MOST_FILLS),
    )


def _unbroken(text: str) -> str:
    """Part of a text for one line: line breaks of HTML, whole ones and those that were cut through, are a sign."""
    return re.sub(r"(<br\s*/?>|^(br)?\s*/?>|<b?r?\s*/?$)+", " ⏎ ", text, flags=re.IGNORECASE)


def _answer(result: Result, outputs: Floats) -> str:
    """What the model says of a text."""
    if not len(outputs):
        return ""
    if result.output_names is None or len(outputs) == 1:
        return f"the model's output is {number(outputs[0])}"
    best = int(outputs.argmax())
    return f"the model says {result.output_names[best]}, probability {outputs[best]:.3f}"


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
