"""Result -> how often each word was chosen over a run, and in which direction it moves the output."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.types import Ints
from butfor.text.highlight import directions, has_texts, pieces, rows_by_input, text_of, unit_of

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
    counts = [_counted(result, toward, own) for own in places.values()]
    return sorted(counts, key=lambda count: (-count.chosen, count.tested))  # of equals, the one that is chosen oftener


def _counted(result: Result, toward: Ints, places: list[tuple[str, list[int]]]) -> WordCount:
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
