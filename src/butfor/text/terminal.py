"""Result -> a text with its chosen words marked, as plain lines for a terminal or a cell of a notebook."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from butfor.core.result.numbers import number
from butfor.core.types import InputError, Ints
from butfor.text.highlight import Kind, Stretch, directions, has_texts, most_found, observed, stretches
from butfor.text.word_counts import WordCount, word_counts

if TYPE_CHECKING:
    from butfor.core.result.result import Result

WIDTH = 110
MOST_TEXTS = 40
MOST = 2000  # characters of a text that are shown
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
    cut = stretches(result, directions(result), place, rows, MOST)
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
