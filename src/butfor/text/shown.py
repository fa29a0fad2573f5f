"""Texts with their chosen words marked, for a notebook cell or a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.text.highlight import Kind
from butfor.text.terminal import checked_input, harmless, rendered
from butfor.text.view import MOST_TEXTS, Seen, Stretch, seen_in, stretches

if TYPE_CHECKING:
    from butfor.core.result.result import Result

LOOK: dict[Kind, tuple[str, str]] = {  # the sign before the word, and its style: no colour without another sign of it
    "up": ("▲", "background:#e1ebfd;border-bottom:3px solid #155cd6"),
    "down": ("▼", "background:#fdebd3;border-bottom:3px dashed #b45309"),
    "both": ("◆", "background:#efe6fb;border-bottom:3px double #6d3fb0"),
    "chosen": ("●", "background:#e9f3f4;border-bottom:3px solid #0b6b74"),
}


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
        seen = seen_in(self.result)
        return "".join(_section(seen, self.result.input_names.index(name)) for name in self.inputs)


def marked(result: Result, input: Any = None) -> Marked:
    """The text of one input with its chosen words marked; None: of all, or of the 40 with most discoveries.

    In a notebook words that raise the output are blue with a solid line and ▲, words that lower it orange with a dashed
    line and ▼; `str` gives what `butfor.text.terminal.rendered` gives.

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
    if input is not None:
        checked_input(result, input)
        return Marked(result, (input,))
    found = np.bincount(result.input_of, weights=result.chosen, minlength=len(result.input_names))
    places = sorted(np.argsort(-found, kind="stable")[:MOST_TEXTS].tolist())
    names = tuple(result.input_names[place] for place in places)
    for name in names:
        checked_input(result, name)
    return Marked(result, names)


def _section(seen: Seen, place: int) -> str:
    rows = np.flatnonzero(seen.result.input_of == place).tolist()
    chosen = int(seen.result.chosen[rows].sum())
    body = "".join(_html(stretch) for stretch in stretches(seen, place, rows))
    name = escape(harmless(str(seen.result.input_names[place])))
    return (
        f"<p><b>{name}</b>: {chosen} of {len(rows)} chosen</p>"
        f'<p dir="auto" style="white-space:pre-wrap;max-width:48em">{body}</p>'
    )


def _html(stretch: Stretch) -> str:
    if stretch.gap:
        return f"<i>[… {escape(stretch.gap)} …]</i>"
    words = escape(harmless("".join(text for text, _ in stretch.parts)))
    if stretch.kind not in LOOK:
        return words
    sign, style = LOOK[stretch.kind]
    tip = escape(harmless("\n".join(stretch.tip)))
    return f'<mark style="color:inherit;{style}" title="{tip}"><small>{sign}</small>{words}</mark>'
