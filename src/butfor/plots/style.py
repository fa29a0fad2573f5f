"""The style of every plot: its sheet, its colours, its labels, and axes for whoever gave none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import cleandoc
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np
from numpy.typing import ArrayLike

from butfor.results.result import Result
from butfor.results.view import parents, value_text, values
from butfor.types import Bools, Floats, InputError, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHEET = Path(__file__).with_name("butfor.mplstyle")
CHOSEN, REST = "#0072b2", "#b3bac2"  # a finding; none. Everybody can tell blue from orange
OTHER = "#d55e00"  # marks the observed value, a level, a threshold
INK, SOFT, FAINT, PAPER = "#1c2530", "#5b6875", "#eceff2", "#fefefe"
ON_DARK = {CHOSEN: "#6db8f2", REST: "#6c7885", OTHER: "#ff9d5c"}
ON_DARK |= {INK: "#e6ebf0", SOFT: "#a5b1bd", FAINT: "#262f38", PAPER: "#010101"}
ON_DARK |= {"#cfe0fb": "#1d3a6b", "#fbdcb8": "#5a3a12", "#e2d3f7": "#47316a", "#cfe6e8": "#1d4a4e"}  # words of a text
TEXTS = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
WIDTH = 3.3  # inches: a column of a journal
LETTERS, LINES, LINE = 26, 4, 0.117  # letters in a line of a name, lines of a name, inches of a line
NO_EFFECTS = "this run estimated no effects; run it with effects='all'"

P = ParamSpec("P")
RESULT = "\n----------\nresult : Result\n    Of `butfor.explain`.\n"
DOC = """
ax : matplotlib.axes.Axes, optional
    Axes to draw on; by default those of a new figure.

Returns
-------
matplotlib.axes.Axes

Examples
"""


def styled(plot: Callable[P, Axes]) -> Callable[P, Axes]:
    """Return the same plot, drawn by our sheet; what the user has set for other plots stays as it is.

    On a dark figure, such as one of `plt.style.use("dark_background")`, its colours are those that show there. Its
    docstring is given what is the same in all of them: `ax` and Returns, before the examples; `result` if it has none.
    """

    @wraps(plot)
    def drawn(*args: P.args, **options: P.kwargs) -> Axes:
        from matplotlib import rcParams, style

        ink = ON_DARK[INK] if _dark(rcParams["figure.facecolor"]) else INK
        with style.context([SHEET, dict.fromkeys(TEXTS, ink)]):
            ax = plot(*args, **options)
        if _dark(ax.figure.get_facecolor()):
            for artist in ax.figure.findobj():
                _recolour(artist)
        return ax

    doc = cleandoc(plot.__doc__ or "").replace("\n\nExamples\n", DOC)
    drawn.__doc__ = doc if "\nresult : " in doc else doc.replace("\n----------\n", RESULT, 1)
    return drawn


def _dark(colour: Any) -> bool:
    from matplotlib.colors import to_rgba

    *paper, opaque = to_rgba(colour)
    return bool(opaque and sum(paper) < 1.5)


def _recolour(artist: Any) -> None:
    """Give an artist in one of our colours the one for a dark figure; shades of a colour map stay."""
    from matplotlib.colors import to_rgb, to_rgba_array

    if hasattr(artist, "get_bbox_patch") and artist.get_bbox_patch() is not None:
        _recolour(artist.get_bbox_patch())
    dark = {to_rgb(colour): to_rgb(shown) for colour, shown in ON_DARK.items()}
    for name in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
        if not hasattr(artist, f"get_{name}") or (hasattr(artist, "get_array") and artist.get_array() is not None):
            continue
        colours = to_rgba_array(getattr(artist, f"get_{name}")())
        if any(tuple(one[:3]) in dark for one in colours.tolist()):
            shown = [(*dark.get(tuple(one[:3]), tuple(one[:3])), one[3]) for one in colours.tolist()]
            getattr(artist, f"set_{name}")(shown if len(shown) > 1 else shown[0])


def axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """Return the axes that were given, or those of a new figure of `size` inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained").add_subplot()


def tall(names: Sequence[str], each: float = 0.07, rest: float = 0.75) -> tuple[float, float]:
    """Return the size of a figure with a line for each of these names, wrapped as `name_lines` does."""
    lines = min(max((len(wrap(name, LETTERS)) for name in names), default=1), LINES)
    return WIDTH, min(max(len(names), 2) * max(each + 0.12, 0.03 + 0.12 * lines) + rest, 40.0)


def key(ax: Axes) -> None:
    """Draw the legend above the axes, where it hides nothing; it grows to the left, where the names stand."""
    gaps = {"borderaxespad": 0.1, "handletextpad": 0.3, "columnspacing": 1.0}
    ax.legend(loc="lower right", bbox_to_anchor=(1.02, 1.0), ncols=2, **gaps)


def x_label(ax: Axes, words: str) -> None:
    """Name the x axis, in lines of about the same length that a narrow figure can hold."""
    lines = -(-len(words) // 36)
    ax.set_xlabel("\n".join(wrap(words, len(words) // lines + 6)), parse_math=False)


def heading(ax: Axes, words: str, pad: float = 4) -> None:
    """Write a quiet line above the axes, by `pad` points."""
    text = "\n".join(wrap(words, 52))
    ax.set_title(text, fontsize=7, color=SOFT, loc="right", fontweight="normal", parse_math=False, pad=pad)


def name_lines(ax: Axes, names: Sequence[str], sure: ArrayLike, at: Any = None, depth: ArrayLike = 0) -> None:
    """Write names down the side, the first on top, in as many lines as there is room for; of no finding in grey.

    With `depth` they begin at the left, moved in by so many steps.
    """
    room = float(ax.get_position().height * ax.figure.bbox.height) / ax.figure.dpi / max(len(names), 1) / LINE
    lines, indents = min(max(int(room), 1), LINES), ["  " * int(d) for d in np.broadcast_to(depth, len(names))]
    labels = [_fitted(name, lines) for name in names]
    for _ in range(2):
        labels = [
            _apart(name, text, [*zip(names, labels, strict=True)], lines)
            for name, text in zip(names, labels, strict=True)
        ]
    labels = [indent + text.replace("\n", f"\n{indent}") for indent, text in zip(indents, labels, strict=True)]
    ax.set_yticks(np.arange(len(names)) if at is None else at, labels, parse_math=False, linespacing=1.05)
    for text, finding in zip(ax.get_yticklabels(), np.asarray(sure, bool).tolist(), strict=True):
        text.set_color(INK if finding else SOFT)
    if at is None:
        ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    if any(indents):
        for text in ax.get_yticklabels():
            text.set_horizontalalignment("left")
        em = float(ax.get_yticklabels()[0].get_fontsize()) * 3.9 / 7  # axes of another style have larger letters
        ax.tick_params(axis="y", pad=em * max(len(line) for text in labels for line in text.split("\n")))


def _fitted(name: str, lines: int) -> str:
    """Return a name in at most so many lines."""
    most = LETTERS * lines
    while len(parts := wrap(short(name, most), LETTERS)) > lines:
        most -= 2
    return "\n".join(parts)


def _apart(name: str, text: str, every: Sequence[tuple[str, str]], lines: int) -> str:
    """Return the label of a name; if others were cut to the same, from where they differ."""
    alike = [other for other, cut in every if cut == text]
    differ = (k for k, letters in enumerate(zip(*alike, strict=False)) if len(set(letters)) > 1)
    start = next(differ, min(map(len, alike))) if len(alike) > 1 else 0
    return _fitted(f"…{name[start - 6 :]}", lines) if start > 6 else text


def counts_beside(ax: Axes, counts: ArrayLike, total: int) -> None:
    """Write "57 of 80" at the right end of each line."""
    for line, count in enumerate(np.asarray(counts).tolist()):
        place: Any = {"transform": ax.get_yaxis_transform(), "va": "center", "color": INK if count else SOFT}
        ax.text(1.02, line, f"{count:,} of {total:,}", fontsize=7, **place)


def dots(ax: Axes, x: Floats, y: Floats, sure: Bools) -> None:
    """Draw dots: those that are unusual, or decisive, larger and in blue, the others grey."""
    ax.scatter(x[~sure], y[~sure], s=6, color=REST, linewidths=0, label="not unusual", zorder=2)
    ax.scatter(x[sure], y[sure], s=10, color=CHOSEN, edgecolors=PAPER, linewidths=0.3, label="unusual", zorder=3)


def bars(ax: Axes | None, names: Sequence[str], lengths: Floats, sure: Bools, left: ArrayLike = 0.0) -> Axes:
    """Draw a bar for each name, findings in blue."""
    ax = axes(ax, tall(names))
    ax.barh(range(len(names)), lengths, left=left, color=np.where(sure, CHOSEN, REST), height=0.64)
    name_lines(ax, names, sure)
    return ax


def intervals(ax: Axes, low: Floats, high: Floats) -> None:
    """Draw thin lines from low to high, where there is an interval: what is computed exactly has none."""
    wide = high > low
    ax.hlines(np.arange(len(low))[wide], low[wide], high[wide], color=INK, linewidth=0.8)


def with_intervals(ax: Axes, middle: Floats, low: Floats, high: Floats, sure: Bools) -> None:
    """Draw a dot and its interval on each line: a full one in blue for a finding, an empty one in grey else."""
    lines = np.arange(len(middle))
    for finding, colour, fill in ((False, REST, "none"), (True, CHOSEN, CHOSEN)):
        shown = sure == finding
        ax.hlines(lines[shown], low[shown], high[shown], color=colour, linewidth=1.8, alpha=0.75)
        ax.plot(middle[shown], lines[shown], "o", color=colour, markerfacecolor=fill, markersize=4.5, linestyle="none")


def short(name: object, most: int = 26) -> str:
    """Return a name that a label can hold: complete characters, no longer than `most`, cut in the middle.

    >>> short("the ratio of isotopes of 15N in the blood")
    'the ratio of …in the blood'
    """
    text = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" or letter < " " else letter for letter in str(name))
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[half + 1 - most :]}"


def label(result: Result, row: int) -> str:
    """Return the label of a hypothesis: "score = 612" for a single column, the name of the group elsewhere."""
    value = values(result)[row]
    observed = "" if value is None else f" = {short(value_text(value), LETTERS)}"
    return f"{result.subset_names[int(result.subset_of[row])]}{observed}"


def one_column(result: Result, column: str, plot: str) -> int:
    """Return the position of a subset that is one column of a table."""
    if result.modality != "table" or result.is_global:
        raise InputError(f"{plot} shows one column of a table, of a result of butfor.explain")
    members = result.columns_of(column)
    if len(members) > 1:
        raise InputError(f"{column!r} is a group of {len(members)} columns; name one of them: {', '.join(members[:8])}")
    return result.subset_names.index(column)


def column_axis(ax: Axes, name: str, cells: Sequence[Any]) -> tuple[Floats, bool]:
    """Name the x axis by a column and return where its values stand, and whether they are numbers, which stand at
    themselves; others stand side by side."""
    ax.set_xlabel(short(name, 60), parse_math=False)
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_) for value in cells):
        numbers = np.array(cells, np.float64)
        known = numbers[np.isfinite(numbers)]
        if 0 < len(known) < len(numbers):
            beside = known.min() - 0.12 * (np.ptp(known) or 1.0)
            ax.text(beside, 0.01, "missing", transform=ax.get_xaxis_transform(), ha="center", fontsize=6.5, color=SOFT)
            numbers = np.where(np.isfinite(numbers), numbers, beside)
        return numbers, True
    texts = [value_text(value) or "missing" for value in cells]
    names = sorted(set(texts))
    ax.set_xticks(range(len(names)), ["\n".join(wrap(short(one, 30), 12)) for one in names], parse_math=False)
    ax.set_xlim(-0.5, len(names) - 0.5)
    return np.array([names.index(text) for text in texts], np.float64), False


def beside(count: int, width: float) -> Floats:
    """Return offsets (count,) within -width and width that keep dots apart, the same every time."""
    return np.asarray(width * np.sin(np.arange(count) * 2.4))


def leaves(result: Result) -> Ints:
    """Return the subsets that have no parts, in the order of the table: the single columns of a tree."""
    return np.setdiff1d(np.arange(len(result.subset_names)), parents(result))
