"""One style for every plot: its sheet, its colours, and axes for whoever gave none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from butfor.results.result import Result
from butfor.results.summary import are_probabilities, finest_of, number
from butfor.types import Array, Bools, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SHEET = Path(__file__).with_name("butfor.mplstyle")
CHOSEN, REST = "#0072b2", "#b3bac2"  # established; not established. Blue and orange are told apart by everybody
OTHER = "#d55e00"  # what marks the observed value, a level, a threshold
INK, SOFT = "#1c2530", "#5b6875"
WIDTH = 3.3  # inches: a column of a journal

P = ParamSpec("P")
R = TypeVar("R")


def styled(plot: Callable[P, R]) -> Callable[P, R]:
    """The same plot, drawn by our sheet; what the user has set for other plots stays as it is."""

    @wraps(plot)
    def drawn(*args: P.args, **options: P.kwargs) -> R:
        from matplotlib import style

        with style.context(SHEET):
            return plot(*args, **options)

    return drawn


def axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The axes that were given, or those of a new figure of `size` inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained").add_subplot()


def tall(lines: int, each: float = 0.19, rest: float = 0.75) -> tuple[float, float]:
    """The size of a figure with so many lines."""
    return WIDTH, min(max(lines, 2) * each + rest, 40.0)


def key(ax: Axes) -> None:
    """The legend, above the axes so that it hides nothing; it grows to the left, where the names stand."""
    ax.legend(
        loc="lower right", bbox_to_anchor=(1.02, 1.0), ncols=2, borderaxespad=0.1, handletextpad=0.3, columnspacing=1.0
    )


def x_words(ax: Axes, words: str) -> None:
    """The name of the x axis, in lines that a narrow figure can hold."""
    ax.set_xlabel("\n".join(wrap(words, 34)), parse_math=False)


def heading(ax: Axes, words: str) -> None:
    """A quiet line above the axes."""
    ax.set_title("\n".join(wrap(words, 52)), fontsize=7, color=SOFT, loc="right", fontweight="normal", parse_math=False)


LINKS = {"logit": "log-odds", "log": "logarithm"}
EVIDENCE = {"p": "p-value", "z": "z", "w": "w", "e": "e-value"}


def output_words(result: Result, place: int | None = None) -> str:
    """What the numbers of a result, or of one input, are: "probability of default", "log-odds of cat", "output"."""
    what = of_class(result, place)
    link = LINKS.get(str(result.record.link), "")
    if link:
        return f"{link} of {what or 'the output'}"
    if result.output_names is None or not result.outputs.size:
        return "output"
    return f"probability of {what}" if are_probabilities(result.outputs) else f"output for {what}"


def of_class(result: Result, place: int | None = None) -> str:
    """The output that was tested, by name; "the class asked about" where it differs from input to input."""
    names = result.output_names
    if names is None:
        return ""
    tested = np.unique(result.evidence.classes if place is None else result.evidence.classes[result.input_of == place])
    return class_name(names[int(tested[0])]) if len(tested) == 1 else "the class asked about"


def class_name(name: object) -> str:
    """A class as it is called; one that is only a number or a truth value says that it is a class."""
    text = str(name)
    return f"class {text}" if text.isdigit() or isinstance(name, bool | np.bool_) else text


def effect_words(result: Result, place: int | None = None) -> str:
    """What an effect, or that of one input, is a change of."""
    return f"change in the {output_words(result, place)}"


def written(value: Any) -> str:
    """A value of a table as a person would write it."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return str(value)
    return number(float(value)) or "missing"


def short(name: object, most: int = 26) -> str:
    """A name that a label can hold: whole characters, no longer than `most`.

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
    """Labels for names that are shown together: those that would be cut to the same label show where they differ.

    >>> short_names(["ratio in blood of 15N", "ratio in blood of 13C", "sex"], 14)
    ['rati… 15N', 'rati… 13C', 'sex']
    """
    whole, labels = [short(name, 10_000) for name in names], [short(name, most) for name in names]
    for _ in range(3):  # what still reads alike differs later on
        alike: dict[str, list[int]] = {}
        for place, text in enumerate(labels):
            alike.setdefault(text, []).append(place)
        for places in (own for own in alike.values() if len(own) > 1):
            for place, text in zip(places, _apart([whole[place] for place in places], most), strict=True):
                labels[place] = text
    return labels


def _apart(names: list[str], most: int) -> list[str]:
    """The beginning of each name, and what follows where they differ."""
    start = next((k for k, at in enumerate(zip(*names, strict=False)) if len(set(at)) > 1), min(map(len, names)))
    heads = [name[: most // 3].rstrip() for name in names]
    rests = [name[max(start - 2, most // 3) :] if start < len(name) else name[most // 3 + 1 - most :] for name in names]
    return [short(f"{head}…{rest}", most) for head, rest in zip(heads, rests, strict=True)]


def label(result: Result, row: int, most: int = 26) -> str:
    """A subset of one input: "score = 612" for a single column, the name of the group elsewhere."""
    subset, value = int(result.subset_of[row]), values(result)[row]
    said = "" if value is None else f" = {short(written(value), max(8, most // 3))}"
    beside = np.unique(result.subset_of[rows_of(result, int(result.input_of[row]))]).tolist()
    names = short_names([result.subset_names[j] for j in beside], max(8, most - len(said)))
    return f"{names[beside.index(subset)]}{said}"


def values(result: Result) -> Array:
    """The observed value of every hypothesis (H,) that is a single column; None elsewhere."""
    return result.table["value"].to_numpy(dtype=object)


def rows_of(result: Result, place: int) -> Ints:
    """The hypotheses of one input."""
    return np.flatnonzero(result.input_of == place)


def input_place(result: Result, name: object) -> int:
    """Where an input stands; None is the one with most to show: necessary, then established, then largest effect."""
    if name is not None:
        return result.position(name)
    count = len(result.input_names)
    found = np.bincount(result.input_of[marked(result)], minlength=count).astype(np.float64)
    size = np.zeros(count)
    np.maximum.at(size, result.input_of, np.nan_to_num(np.abs(result.effects.effect)))
    return int(np.lexsort((-size, -found))[0])


def marked(result: Result) -> Bools:
    """What is established, or necessary to a decision."""
    return result.chosen if result.decided is None else result.chosen | result.decided.necessary


def strongest(result: Result, rows: Ints, sure: Bools, most: int) -> Ints:
    """Rows for a picture: established ones first and the finest parts of them first, then by the size of the effect."""
    size = np.nan_to_num(np.abs(result.effects.effect[rows]))
    finest = finest_of(result, sure)[rows]
    return rows[np.lexsort((-size, ~finest, ~sure[rows]))][:most]


def leaves(result: Result) -> Ints:
    """Subsets that have no parts, in the order of the table: the single columns of a tree."""
    layers, size = result.problem.layers, len(result.subset_names)
    if layers is None or result.problem.size != size * len(result.input_names):
        return np.arange(size)
    return np.setdiff1d(np.arange(size), layers.parent[:size])
