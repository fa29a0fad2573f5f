"""The style of every plot: its sheet, its colours, its labels, and axes for whoever gave none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from butfor.results.result import Result
from butfor.results.view import parents, rows_of, value_text, values
from butfor.types import Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHEET = Path(__file__).with_name("butfor.mplstyle")
CHOSEN, REST = "#0072b2", "#b3bac2"  # a finding; none. Everybody can tell blue from orange
OTHER = "#d55e00"  # marks the observed value, a level, a threshold
INK, SOFT = "#1c2530", "#5b6875"
WIDTH = 3.3  # inches: a column of a journal
NO_EFFECTS = "this run estimated no effects; run it with effects='all'"

P = ParamSpec("P")
R = TypeVar("R")


def styled(plot: Callable[P, R]) -> Callable[P, R]:
    """Return the same plot, drawn by our sheet; what the user has set for other plots stays as it is."""

    @wraps(plot)
    def drawn(*args: P.args, **options: P.kwargs) -> R:
        from matplotlib import style

        with style.context(SHEET):
            return plot(*args, **options)

    return drawn


def axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """Return the axes that were given, or those of a new figure of `size` inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained").add_subplot()


def tall(lines: int, each: float = 0.19, rest: float = 0.75) -> tuple[float, float]:
    """Return the size of a figure with so many lines."""
    return WIDTH, min(max(lines, 2) * each + rest, 40.0)


def key(ax: Axes) -> None:
    """Draw the legend above the axes, where it hides nothing; it grows to the left, where the names stand."""
    ax.legend(
        loc="lower right", bbox_to_anchor=(1.02, 1.0), ncols=2, borderaxespad=0.1, handletextpad=0.3, columnspacing=1.0
    )


def x_label(ax: Axes, words: str) -> None:
    """Name the x axis, in lines that a narrow figure can hold."""
    ax.set_xlabel("\n".join(wrap(words, 34)), parse_math=False)


def heading(ax: Axes, words: str) -> None:
    """Write a quiet line above the axes."""
    ax.set_title("\n".join(wrap(words, 52)), fontsize=7, color=SOFT, loc="right", fontweight="normal", parse_math=False)


def name_lines(ax: Axes, names: Sequence[str], sure: ArrayLike, at: Sequence[float] | None = None) -> None:
    """Write names down the side, the first on top; those of what is no finding in grey."""
    ax.set_yticks(np.arange(len(names)) if at is None else at, names, parse_math=False)
    for text, finding in zip(ax.get_yticklabels(), np.asarray(sure, bool).tolist(), strict=True):
        text.set_color(INK if finding else SOFT)
    if at is None:
        ax.invert_yaxis()


def short(name: object, most: int = 26) -> str:
    """Return a name that a label can hold: complete characters, no longer than `most`.

    >>> short("age, amount, housing and 3 more")
    'age, amount and 4 more'
    """
    text = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" or letter < " " else letter for letter in str(name))
    if len(text) <= most:
        return text
    group = re.fullmatch(r"(.+) and (\d+) more", text)
    names, more = (group[1].split(", "), int(group[2])) if group else ([text], 0)
    while len(names) > 1 and len(text) > most:  # how many there are tells groups apart that begin alike
        names, more = names[:-1], more + 1
        text = f"{', '.join(names)} and {more} more"
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def short_names(names: Sequence[object], most: int = 26) -> list[str]:
    """Return labels for names that are shown together: those cut to the same label show where they differ.

    >>> short_names(["ratio in blood of 15N", "ratio in blood of 13C", "sex"], 14)
    ['rati… 15N', 'rati… 13C', 'sex']
    """
    full, labels = [short(name, 10_000) for name in names], [short(name, most) for name in names]
    for _ in range(3):  # labels that still read alike differ later on
        alike: dict[str, list[int]] = {}
        for i, text in enumerate(labels):
            alike.setdefault(text, []).append(i)
        for group in (members for members in alike.values() if len(members) > 1):
            texts = [full[i] for i in group]
            same = [len(set(letters)) == 1 for letters in zip(*texts, strict=False)]
            start = same.index(False) if False in same else len(same)  # where they differ
            for i, text in zip(group, texts, strict=True):
                rest = text[max(start - 2, most // 3) :] if start < len(text) else text[most // 3 + 1 - most :]
                labels[i] = short(f"{text[: most // 3].rstrip()}…{rest}", most)
    return labels


def label(result: Result, row: int, most: int = 26) -> str:
    """Return the label of a hypothesis: "score = 612" for a single column, the name of the group elsewhere."""
    subset, value = int(result.subset_of[row]), values(result)[row]
    observed = "" if value is None else f" = {short(value_text(value), max(8, most // 3))}"
    beside = np.unique(result.subset_of[rows_of(result, int(result.input_of[row]))]).tolist()
    names = short_names([result.subset_names[j] for j in beside], max(8, most - len(observed)))
    return f"{names[beside.index(subset)]}{observed}"


def leaves(result: Result) -> Ints:
    """Return the subsets that have no parts, in the order of the table: the single columns of a tree."""
    return np.setdiff1d(np.arange(len(result.subset_names)), parents(result))
