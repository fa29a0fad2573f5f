"""Result -> how often each word was chosen over a run, and in which direction it moves the output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from butfor.text.highlight import directions, pieces, unit_of

if TYPE_CHECKING:
    from butfor.core.result.result import Result


@dataclass(frozen=True)
class WordCount:
    """One word: in how many places it was chosen and tested, and in how many it raises or lowers the output."""

    word: str
    chosen: int
    tested: int
    up: int
    down: int
    effect: float  # mean over the places it was chosen in; NaN: not estimated


@dataclass
class _Tally:
    written: Counter[str] = field(default_factory=Counter)
    chosen: int = 0
    up: int = 0
    down: int = 0
    effects: list[float] = field(default_factory=list)


def word_counts(result: Result) -> list[WordCount]:
    """Every word that was tested, the most often chosen first; upper and lower case are one word.

    WordPieces count as the words they stand in: chosen if one of their pieces is.
    """
    tallies: dict[str, _Tally] = {}
    toward = directions(result)
    for word, rows in _places(result):
        tally = tallies.setdefault(word.lower(), _Tally())
        tally.written[word] += 1
        chosen = [row for row in rows if result.chosen[row]]
        if chosen:
            ways = {int(toward[row]) for row in chosen}
            tally.chosen += 1
            tally.up += 1 in ways
            tally.down += -1 in ways
            tally.effects += [e for e in result.effects.effect[chosen].tolist() if not np.isnan(e)]
    counts = [
        WordCount(
            tally.written.most_common(1)[0][0],
            tally.chosen,
            tally.written.total(),
            tally.up,
            tally.down,
            float(np.mean(tally.effects)) if tally.effects else float("nan"),
        )
        for tally in tallies.values()
    ]
    return sorted(counts, key=lambda count: (-count.chosen, count.tested))  # of equals, the one that is chosen oftener


def _places(result: Result) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each place of the run that was tested: what stands there, and its hypotheses."""
    if unit_of(result) == "wordpiece" and _has_texts(result):
        toward = directions(result)
        for place, rows in enumerate(rows_by_input(result)):
            text = result.problem.inputs[place]
            for piece in pieces(result, place, rows, toward):
                if piece.rows:
                    yield _spaced(text[piece.start : piece.end]), piece.rows
        return
    for row in range(len(result.chosen)):
        yield word_of(result, row), (row,)


def word_of(result: Result, row: int) -> str:
    """What one hypothesis is about: the characters themselves, or its name where the texts are not at hand."""
    block = result.problem.blocks[row]
    if _has_texts(result):
        start, end = block.subset.index
        return _spaced(result.problem.inputs[block.start][start:end])
    return re.sub(r" #\d+$", "", block.subset.name)


def _has_texts(result: Result) -> bool:
    return len(result.problem.inputs) > 0 and isinstance(result.problem.inputs[0], str)


def _spaced(word: str) -> str:
    return " ".join(word.split())


def rows_by_input(result: Result) -> list[list[int]]:
    """The hypotheses of each input, in the order of the table."""
    out: list[list[int]] = [[] for _ in result.input_names]
    for row, place in enumerate(result.input_of.tolist()):
        out[place].append(row)
    return out
