"""Result -> a text with its chosen words marked, as plain lines for a terminal."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.result.numbers import number
from butfor.core.types import InputError
from butfor.text.highlight import Gap, Kind, Piece, directions, observed, pieces, shortened
from butfor.text.word_counts import WordCount, word_counts

if TYPE_CHECKING:
    from rich.text import Text

    from butfor.core.result.result import Result

WIDTH = 110
MOST = 2000  # characters of a text that are shown
SIGNS: dict[Kind, str] = {"up": "+", "down": "−", "both": "±", "chosen": "*"}
STYLES: dict[Kind, str] = {"up": "bold blue", "down": "bold yellow", "both": "bold magenta", "chosen": "bold"}
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LEGEND = "[+word] raises the output, [−word] lowers it"


def rendered(result: Result, input: Any, *, colour: bool | None = None, width: int = WIDTH) -> str:
    """The text of one input with its chosen words marked: [+word] raises the output, [−word] lowers it.

    [±word] has pieces of both kinds; [*word] was chosen in a direction that is not known, since no effect was
    estimated. `colour` None: if standard output is a terminal. Characters that would steer a terminal are replaced.
    """
    place = checked_input(result, input)
    rows = np.flatnonzero(result.input_of == place).tolist()
    text = result.problem.inputs[place]
    head = f"{harmless(str(input))}: {_said(result, rows)}"
    cut = shortened(text, pieces(result, place, rows, directions(result)), MOST)
    return f"{head}\n{_printed(text, cut, _coloured() if colour is None else colour, width)}"


def checked_input(result: Result, input: Any) -> int:
    """Where an input stands, after seeing that there is a text to show."""
    if input not in result.input_names:
        raise InputError(f"unknown input {input!r}; result.input_names has those of this run")
    place = result.input_names.index(input)
    if not isinstance(result.problem.inputs[place], str):
        raise InputError(f"input {input!r} is no text; this is for results of butfor.text.explain")
    return place


def _said(result: Result, rows: list[int]) -> str:
    chosen = int(result.chosen[rows].sum())
    said = f"{chosen} of {len(rows)} chosen"
    outputs = {(int(result.evidence.classes[row]), number(observed(result, row))) for row in rows}
    if len(outputs) != 1:  # nothing tested, or several outputs
        return said
    ((column, value),) = outputs
    name = "output" if result.output_names is None else str(result.output_names[column])
    return f"{said}, {name} {value}"


def _printed(text: str, cut: list[Piece | Gap], colour: bool, width: int) -> str:
    """Wrapped lines; wide characters take two places."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, color_system="standard" if colour else None, legacy_windows=False
    )
    line = _line(text, cut)
    console.print(line, soft_wrap=False, end="")
    return "\n".join(row.rstrip() for row in out.getvalue().split("\n")) if not colour else out.getvalue()


def _line(text: str, cut: list[Piece | Gap]) -> Text:
    from rich.text import Text

    line = Text()
    for piece in cut:
        if isinstance(piece, Gap):
            found = f", {piece.chosen} chosen among them" if piece.chosen else ""
            line.append(f" [… {piece.characters:,} characters{found} …] ", style="dim")
        elif piece.kind in SIGNS:
            line.append(f"[{SIGNS[piece.kind]}{harmless(text[piece.start : piece.end])}]", style=STYLES[piece.kind])
        else:
            line.append(harmless(text[piece.start : piece.end]))
    return line if cut else Text("(an empty text)", style="dim")


def harmless(text: str) -> str:
    """The text without anything that steers a terminal or cannot be written: each such character is U+FFFD.

    >>> harmless("a\\x1b[2Jb\\r\\nc")
    'a�[2Jb\\nc'
    """
    return CONTROL.sub("�", text.replace("\r\n", "\n").replace("\r", "\n"))


def _coloured() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def found_in(result: Result, most: int = 3) -> str:
    """The words chosen most often and the texts with most discoveries; empty where nothing was chosen."""
    if not result.chosen.any():
        return ""
    found = np.bincount(result.input_of, weights=result.chosen, minlength=len(result.input_names))
    places = [place for place in np.argsort(-found, kind="stable")[:most].tolist() if found[place]]
    texts = [rendered(result, result.input_names[place]) for place in places]
    left = int((found > 0).sum()) - len(texts)
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
