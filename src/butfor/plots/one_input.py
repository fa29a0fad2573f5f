"""Plots of one input: what each subset does to its output, with intervals; what is not established is grey."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from butfor.core.result.numbers import number
from butfor.core.result.result import Result
from butfor.core.types import Bools, Floats, InputError, Ints
from butfor.plots.labels import (
    effect_words,
    input_place,
    label,
    output_words,
    rows_of,
    short,
    strongest,
)
from butfor.plots.style import CHOSEN, INK, OTHER, REST, SOFT, WIDTH, axes, heading, key, styled, tall, x_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_EFFECTS = "this run estimated no effects; run it with effects='all'"


@styled
def bar(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Axes with a bar per subset of one input: its effect with the 95 % interval, established ones in blue.

    Parameters
    ----------
    result : of `butfor.explain`.
    input : its name; None is the input with most to show.
    most : bars at most, established ones first.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> bar(result, 0).get_xlabel()
    'change in the output'
    """
    place, rows, left = _shown(result, input, most)
    effects, ax = result.effects, axes(ax, tall(len(rows)))
    lines = np.arange(len(rows))
    for sure, colour, said in ((True, CHOSEN, "established"), (False, REST, "not established")):
        own = result.chosen[rows] == sure
        if own.any():
            ax.barh(lines[own], effects.effect[rows[own]], color=colour, height=0.68, label=said)
    _intervals(ax, lines, effects.low[rows], effects.high[rows])
    _named_lines(ax, result, rows, result.chosen[rows])
    ax.axvline(0, color=INK, linewidth=0.7)
    x_words(ax, effect_words(result))
    _title(ax, result, place, left)
    return ax


@styled
def waterfall(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Axes with a bar per subset of one input, from where the output would be but for the subset to where it is.

    Every bar ends at the output that was observed. Effects given the rest of the input do not add up to it, and are
    not drawn as if they did.

    Parameters
    ----------
    result : of `butfor.explain`.
    input : its name; None is the input with most to show.
    most : bars at most, established ones first.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> waterfall(result, 0).get_xlabel()
    'output'
    """
    _, rows, _ = _shown(result, input, most)
    effects, ax = result.effects, axes(ax, tall(len(rows)))
    observed = result.evidence.observed[rows]
    without = observed - effects.effect[rows]
    lines = np.arange(len(rows))
    colours = [CHOSEN if sure else REST for sure in result.chosen[rows]]
    ax.barh(lines, effects.effect[rows], left=without, color=colours, height=0.6)
    _intervals(ax, lines, observed - effects.high[rows], observed - effects.low[rows])
    ax.plot(without, lines, "o", markersize=2.6, color=INK, linestyle="none", label="but for it, on average")
    ax.axvline(float(observed[0]), color=OTHER, linewidth=1.2, label=f"observed {number(observed[0])}")
    _named_lines(ax, result, rows, result.chosen[rows])
    x_words(ax, output_words(result))
    key(ax)
    return ax


@styled
def null(
    result: Result, input: object, subset: str, *, outputs: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Axes with the outputs of counterfactuals of one hypothesis, and the observed output marked.

    Parameters
    ----------
    result : of `butfor.explain`.
    input : its name, as in the table.
    subset : its name, as in the table.
    outputs : what the model says of more counterfactuals, such as `model(result.counterfactuals(input, subset, 10))`;
        None shows the few that the run kept, since a plot asks no model.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> null(result, 0, "x0").get_xlabel()
    'output'
    """
    row = result.row(input, subset)
    drawn = _outputs(result, row) if outputs is None else _one_column(outputs, int(result.evidence.classes[row]))
    observed, ax = float(result.evidence.observed[row]), axes(ax, (WIDTH, 1.9))
    if len(drawn) >= 20:
        ax.hist(drawn, bins=min(40, max(10, len(drawn) // 12)), color=REST, label=f"{len(drawn):,} counterfactuals")
        ax.set_ylabel("counterfactuals")
    else:
        ax.plot(drawn, np.zeros(len(drawn)), "o", color=SOFT, markersize=5, label=f"{len(drawn)} counterfactuals")
        ax.set_yticks([])
        ax.set_ylim(-1, 1.6)
    sure = bool(result.chosen[row])
    ax.axvline(observed, color=OTHER, linewidth=1.4, label=f"observed {number(observed)}")
    x_words(ax, output_words(result))
    kind, value = result.evidence.kind, number(result.evidence.values[row])
    said = f"{label(result, row)}: {'established' if sure else 'not established'}"
    ax.set_title(f"{said} ({'p-value' if kind == 'p' else kind} {value})", fontsize=7.5, pad=16)
    key(ax)
    return ax


def _shown(result: Result, input: object, most: int) -> tuple[int, Ints, int]:
    """The input, its rows for a picture, and how many are left out."""
    place = input_place(result, input)
    known = rows_of(result, place)
    known = known[np.isfinite(result.effects.effect[known])]
    if not len(known):
        raise InputError(NO_EFFECTS)
    rows = strongest(result, known, result.chosen, most)
    return place, rows, len(known) - len(rows)


def _intervals(ax: Axes, lines: Ints, low: Floats, high: Floats) -> None:
    """Thin lines from low to high, where there is an interval: what is computed exactly has none."""
    wide = high > low
    ax.hlines(lines[wide], low[wide], high[wide], color=INK, linewidth=0.8)


def _named_lines(ax: Axes, result: Result, rows: Ints, sure: Bools) -> None:
    """Subsets with their values down the side, the first on top; what is not established in grey."""
    ax.set_yticks(np.arange(len(rows)), [label(result, int(row)) for row in rows], parse_math=False)
    for text, known in zip(ax.get_yticklabels(), sure, strict=True):
        text.set_color(INK if known else SOFT)
    ax.invert_yaxis()
    ax.margins(y=0.02)


def _title(ax: Axes, result: Result, place: int, left: int) -> None:
    more = f"; {left} more" if left else ""
    heading(ax, f"{short(result.input_names[place], 28)}: grey is not established{more}")


def _outputs(result: Result, row: int) -> Floats:
    """What the model said of the counterfactuals that were kept, on the scale of the test."""
    if row not in result.kept:
        raise InputError("the run kept no counterfactuals of this hypothesis; give outputs= of some that you draw")
    return _one_column(result.kept.outputs(row), int(result.evidence.classes[row]), result.provenance.get("link"))


def _one_column(outputs: ArrayLike, column: int, link: object = None) -> Floats:
    found = np.asarray(outputs, dtype=np.float64)
    found = found.reshape(len(found), -1)
    values = found[:, column if found.shape[1] > 1 else 0]
    if link == "logit":
        values = np.log(np.clip(values, 1e-12, None)) - np.log(np.clip(1 - values, 1e-12, None))
    return np.log(np.clip(values, 1e-300, None)) if link == "log" else values
