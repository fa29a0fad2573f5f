"""Plots of one input: what each subset does to its output, with intervals; what is not unusual is grey."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from butfor.plots.style import (
    CHOSEN,
    INK,
    NO_EFFECTS,
    OTHER,
    REST,
    SOFT,
    WIDTH,
    axes,
    heading,
    key,
    label,
    name_lines,
    short,
    short_names,
    styled,
    tall,
    x_label,
)
from butfor.results.result import Decided, Result
from butfor.results.summary import number
from butfor.results.view import EVIDENCE, effect_label, input_index, output_label, parents, rows_of, strongest
from butfor.types import Floats, InputError, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@styled
def bar(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Draw a bar per subset of one input: its effect with the 95 % interval, unusual ones in blue.

    Parameters
    ----------
    result : Result
        Of `butfor.explain`.
    input : object, optional
        The name of the input; by default the one with most to show.
    most : int, default=12
        Bars at most, unusual ones first.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> bar(result, 0).get_xlabel()
    'change in the output'
    """
    index, rows, left = _shown(result, input, most)
    effects, ax = result.effects, axes(ax, tall(len(rows)))
    lines, sure = np.arange(len(rows)), result.chosen[rows]
    ax.barh(lines, effects.effect[rows], color=np.where(sure, CHOSEN, REST), height=0.68)
    _intervals(ax, lines, effects.low[rows], effects.high[rows])
    _name_rows(ax, result, rows)
    ax.axvline(0, color=INK, linewidth=0.7)
    x_label(ax, effect_label(result))
    more = f"; {left} more" if left else ""
    heading(ax, f"{short(result.input_names[index], 28)}: grey is not unusual{more}")
    return ax


@styled
def effects_from_output(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Draw a bar per subset of one input, from where the output would be but for the subset to where it is.

    Every bar ends at the observed output. Effects given the rest of the input do not add up to it, and are not drawn
    as if they did.

    Parameters
    ----------
    result : Result
        Of `butfor.explain`.
    input : object, optional
        The name of the input; by default the one with most to show.
    most : int, default=12
        Bars at most, unusual ones first.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> effects_from_output(result, 0).get_xlabel()
    'output'
    """
    _, rows, _ = _shown(result, input, most)
    effects, ax = result.effects, axes(ax, tall(len(rows)))
    lines, observed = np.arange(len(rows)), result.evidence.observed[rows]
    without = observed - effects.effect[rows]
    ax.barh(lines, effects.effect[rows], left=without, color=np.where(result.chosen[rows], CHOSEN, REST), height=0.6)
    _intervals(ax, lines, observed - effects.high[rows], observed - effects.low[rows])
    ax.plot(without, lines, "o", markersize=2.6, color=INK, linestyle="none", label="but for it, on average")
    ax.axvline(float(observed[0]), color=OTHER, linewidth=1.2, label=f"observed {number(observed[0])}")
    _name_rows(ax, result, rows)
    x_label(ax, output_label(result))
    key(ax)
    return ax


def _shown(result: Result, input: object, most: int) -> tuple[int, Ints, int]:
    """Return the index of an input, its strongest rows with an effect, and how many are left out."""
    index = input_index(result, input)
    known = rows_of(result, index)
    known = known[np.isfinite(result.effects.effect[known])]
    if not len(known):
        raise InputError(NO_EFFECTS)
    rows = strongest(result, known, result.chosen, most)
    return index, rows, len(known) - len(rows)


def _intervals(ax: Axes, lines: Ints, low: Floats, high: Floats) -> None:
    """Draw thin lines from low to high, where there is an interval: what is computed exactly has none."""
    wide = high > low
    ax.hlines(lines[wide], low[wide], high[wide], color=INK, linewidth=0.8)


def _name_rows(ax: Axes, result: Result, rows: Ints) -> None:
    name_lines(ax, [label(result, int(row)) for row in rows], result.chosen[rows])
    ax.margins(y=0.02)


@styled
def null(
    result: Result, input: object, subset: str, *, outputs: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the outputs of counterfactuals of one hypothesis, and mark the observed output.

    Parameters
    ----------
    result : Result
        Of `butfor.explain`.
    input : object
        The name of the input, as in the table.
    subset : str
        The name of the subset, as in the table.
    outputs : array-like, optional
        The outputs of more counterfactuals, such as `model(result.counterfactuals(input, subset, 10))`; by default
        those of the few that the run kept, since a plot calls no model.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> null(result, 0, "x0").get_xlabel()
    'output'
    """
    row, link = result.row(input, subset), None
    if outputs is None:
        if row not in result.kept:
            raise InputError("the run kept no counterfactuals of this hypothesis; give outputs= of some that you draw")
        outputs, link = result.kept.outputs(row), result.record.link
    drawn = np.asarray(outputs, dtype=np.float64)
    drawn = drawn.reshape(len(drawn), -1)
    drawn = drawn[:, int(result.evidence.classes[row]) if drawn.shape[1] > 1 else 0]
    if link == "logit":
        drawn = np.log(np.clip(drawn, 1e-12, None)) - np.log(np.clip(1 - drawn, 1e-12, None))
    elif link == "log":
        drawn = np.log(np.clip(drawn, 1e-300, None))
    observed, ax = float(result.evidence.observed[row]), axes(ax, (WIDTH, 1.9))
    if len(drawn) >= 20:
        ax.hist(drawn, bins=min(40, max(10, len(drawn) // 12)), color=REST, label=f"{len(drawn):,} counterfactuals")
        ax.set_ylabel("counterfactuals")
    else:
        ax.plot(drawn, np.zeros(len(drawn)), "o", color=SOFT, markersize=5, label=f"{len(drawn)} counterfactuals")
        ax.set_yticks([])
        ax.set_ylim(-1, 1.6)
    ax.axvline(observed, color=OTHER, linewidth=1.4, label=f"observed {number(observed)}")
    x_label(ax, output_label(result))
    evidence = f"{EVIDENCE[result.evidence.kind]} {number(result.evidence.values[row])}"
    status = "unusual" if result.chosen[row] else "not unusual"
    ax.set_title(f"{label(result, row)}: {status} ({evidence})", fontsize=7.5, pad=16)
    key(ax)
    return ax


@styled
def decision(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Draw the probability that the decision would have been otherwise, but for each subset, and the level.

    Of one input: with intervals, in blue where a part is decisive. Of all (no input named, and more than one in the
    run): a dot per input, with for how many a part is decisive.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` with a decision (a classifier, or `decide=`).
    input : object, optional
        The name of the input; by default all of them.
    most : int, default=12
        Lines at most.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, decide=lambda outputs: outputs > 2)
    >>> decision(result, 0).get_xlabel()
    'probability of another decision,\\nbut for it'
    """
    decided = result.decided
    if decided is None:
        raise InputError("this run asked about no decision; give decide=, such as lambda outputs: outputs >= 0.4")
    if input is None and len(result.input_names) > 1:
        ax = _over_all(result, decided, most, ax)
    else:
        ax = _of_one(result, decided, input_index(result, input), most, ax)
    ax.axvline(decided.level, color=OTHER, linewidth=1.0, linestyle="--", zorder=1)
    ax.text(decided.level, 0.0, f" level {decided.level:g}", transform=ax.get_xaxis_transform(), va="bottom", ha="left",
            color=OTHER, fontsize=6)  # fmt: skip
    ax.set_xlim(-0.03, 1.03)
    x_label(ax, "probability of another decision, but for it")
    return ax


def _of_one(result: Result, decided: Decided, index: int, most: int, ax: Axes | None) -> Axes:
    rows = rows_of(result, index)
    share = np.nan_to_num(decided.share[rows], nan=-1.0)
    rows = rows[np.lexsort((-share, ~decided.necessary[rows]))][:most]
    ax, lines = axes(ax, tall(len(rows), 0.2, 0.8)), np.arange(len(rows))
    for sure, colour in ((True, CHOSEN), (False, REST)):
        shown = decided.necessary[rows] == sure
        low, high = decided.low[rows[shown]], decided.high[rows[shown]]
        ax.hlines(lines[shown], low, high, color=colour, linewidth=2.2, alpha=0.6)
        ax.plot(decided.share[rows[shown]], lines[shown], "o", color=colour, markersize=4.5, linestyle="none")
    name_lines(ax, [label(result, int(row)) for row in rows], decided.necessary[rows])
    heading(ax, f"{short(result.input_names[index], 28)}: blue is decisive")
    return ax


def _over_all(result: Result, decided: Decided, most: int, ax: Axes | None) -> Axes:
    size, total = len(result.subset_names), len(result.input_names)
    needed = np.bincount(result.subset_of, weights=decided.necessary, minlength=size).astype(np.int64)
    known = np.isfinite(decided.share)
    mean = np.bincount(result.subset_of[known], weights=decided.share[known], minlength=size)
    subsets = np.lexsort((-mean, -needed))[:most]
    ax = axes(ax, tall(len(subsets), 0.24, 0.8))
    for line, subset in enumerate(subsets.tolist()):
        rows = np.flatnonzero((result.subset_of == subset) & known)
        height = line + 0.3 * np.sin(np.arange(len(rows)) * 2.4)  # dots beside each other, the same every time
        sure, share = decided.necessary[rows], decided.share[rows]
        ax.scatter(share[~sure], height[~sure], s=5, color=REST, linewidths=0, zorder=2)
        ax.scatter(share[sure], height[sure], s=9, color=CHOSEN, edgecolors="white", linewidths=0.3, zorder=3)
    labels = short_names([result.subset_names[j] for j in subsets], 20)
    names = [f"{name}  {needed[j]} of {total}" for name, j in zip(labels, subsets, strict=True)]
    name_lines(ax, names, needed[subsets] > 0)
    ax.set_ylim(len(subsets) - 0.5, -0.5)
    heading(ax, "a dot is an input; blue is decisive")
    return ax


@styled
def resolutions(result: Result, input: object = None, *, ax: Axes | None = None) -> Axes:
    """Draw the tree of subsets from coarse (left) to fine (right), and what is unusual at each resolution.

    Of one input: blue where unusual. Of all: the darker the blue, the more inputs, with their number.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` with reference data, or `subsets="zoom"`, or a nested mapping.
    input : object, optional
        The name of the input; by default all of them, or the only one.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 3))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0, 0], rows)
    >>> resolutions(result, 0).get_xlabel()
    'resolution'
    """
    from matplotlib.patches import Rectangle

    layers, size = result.hypotheses.layers, len(result.subset_names)
    if layers is not None and result.hypotheses.size != size * len(result.input_names):
        raise InputError(
            "each input of this run has subsets of its own, and no tree is common to all; see result.report"
        )
    if layers is None:
        zoom = {"image": "boxes='zoom'", "text": "units='zoom'"}
        option = zoom.get(result.modality, "subsets='zoom' or a nested mapping")
        raise InputError(f"this run has one resolution only; use {option}")
    parent, depth = parents(result), layers.resolution[:size]
    single = input is not None or len(result.input_names) == 1
    index = input_index(result, input) if single else -1
    sure = result.chosen & (result.input_of == index) if single else result.chosen
    count, total = np.bincount(result.subset_of[sure], minlength=size), 1 if single else len(result.input_names)
    top, height, order = _stacked(parent)
    ax, last = axes(ax, tall(len(order), 0.165, 0.75)), int(depth.max())
    right = np.full(size, last + 1)  # a box ends where its parts begin
    np.minimum.at(right, parent[parent >= 0], depth[parent >= 0])
    for j in range(size):
        wide, share = int(right[j] - depth[j]), count[j] / total
        colour, alpha = (CHOSEN, 0.35 + 0.65 * share) if count[j] else ("#eceff2", 1.0)
        corner = (int(depth[j]), top[j])
        ax.add_patch(
            Rectangle(corner, wide, height[j], facecolor=colour, edgecolor="white", linewidth=0.8, alpha=alpha)
        )
        if not single:
            ink = "white" if share > 0.45 else INK if count[j] else SOFT
            middle = (corner[0] + wide / 2, corner[1] + height[j] / 2)
            ax.text(*middle, f"{count[j]}", ha="center", va="center", color=ink, fontsize=6.5)
    if single:
        rows = rows_of(result, index)
        names = [label(result, int(rows[result.subset_of[rows] == j][0]), 30) for j in order]
    else:
        names = short_names([result.subset_names[j] for j in order])
    name_lines(ax, names, count[order] > 0, at=[top[j] + 0.5 for j in order])
    ax.yaxis.tick_right()
    ax.set_ylim(len(order), 0)
    ax.set_xlim(0, last + 1)
    ax.set_xticks(np.arange(last + 1) + 0.5, ["all", *map(str, range(1, last))] + (["finest"] if last else []))
    ax.set_xlabel("resolution")
    ax.spines[["left", "bottom"]].set_visible(False)
    name = f"{short(result.input_names[index], 24)}: blue is unusual"
    heading(ax, name if single else "inputs in which it is unusual")
    return ax


def _stacked(parent: Ints) -> tuple[dict[int, float], dict[int, float], Ints]:
    """Return of each subset where its box begins and how high it is, in lines; and the finest from top to bottom."""
    parts: dict[int, list[int]] = {}
    for subset, above in enumerate(parent.tolist()):
        parts.setdefault(above, []).append(subset)
    top: dict[int, float] = {}
    height: dict[int, float] = {}
    finest: list[int] = []

    def stack(subset: int) -> None:
        top[subset] = float(len(finest))
        for part in parts.get(subset, []):
            stack(part)
        if subset not in parts:
            finest.append(subset)
        height[subset] = len(finest) - top[subset]

    for root in parts.get(-1, []):
        stack(root)
    return top, height, np.array(finest, np.int64)
