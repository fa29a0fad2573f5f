"""One style for every plot: its sheet, its colours, and axes for whoever gave none."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, ParamSpec, TypeVar

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
