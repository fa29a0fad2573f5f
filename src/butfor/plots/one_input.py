"""Plots of one input: what each subset does to its output, with intervals; what is not established is grey."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from butfor.plots.style import (
    CHOSEN,
    INK,
    OTHER,
    REST,
    SOFT,
    WIDTH,
    axes,
    effect_words,
    heading,
    input_place,
    key,
    label,
    output_words,
    rows_of,
    short,
    short_names,
    strongest,
    styled,
    tall,
    x_words,
)
from butfor.results.result import Decided, Result
from butfor.results.summary import number
from butfor.types import Bools, Floats, InputError, Ints

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
    return _one_column(result.kept.outputs(row), int(result.evidence.classes[row]), result.record.link)


def _one_column(outputs: ArrayLike, column: int, link: object = None) -> Floats:
    found = np.asarray(outputs, dtype=np.float64)
    found = found.reshape(len(found), -1)
    values = found[:, column if found.shape[1] > 1 else 0]
    if link == "logit":
        values = np.log(np.clip(values, 1e-12, None)) - np.log(np.clip(1 - values, 1e-12, None))
    return np.log(np.clip(values, 1e-300, None)) if link == "log" else values


FLIP = "probability of another decision, but for it"


@styled
def decision(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Axes with the probability that the decision would have been otherwise, but for each subset, and the level.

    Of one input: with intervals, in blue where it is established to be above the level. Of all (no input named, and
    more than one in the run): a dot per input, with how many are established.

    Parameters
    ----------
    result : of `butfor.explain` with a decision (a classifier, or `decide=`).
    input : its name; None is all inputs.
    most : lines at most.
    ax : axes to draw on; None makes a figure.

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
        ax = _of_one(result, decided, input_place(result, input), most, ax)
    ax.axvline(decided.level, color=OTHER, linewidth=1.0, linestyle="--", zorder=1)
    ax.text(decided.level, 0.0, f" level {decided.level:g}", transform=ax.get_xaxis_transform(), va="bottom", ha="left",
            color=OTHER, fontsize=6)  # fmt: skip
    ax.set_xlim(-0.03, 1.03)
    x_words(ax, FLIP)
    return ax


def _of_one(result: Result, decided: Decided, place: int, most: int, ax: Axes | None) -> Axes:
    rows = rows_of(result, place)
    share = np.nan_to_num(decided.share[rows], nan=-1.0)
    rows = rows[np.lexsort((-share, ~decided.necessary[rows]))][:most]
    ax, lines = axes(ax, tall(len(rows), 0.2, 0.8)), np.arange(len(rows))
    for sure, colour, said in ((True, CHOSEN, "established above the level"), (False, REST, "not established")):
        own = decided.necessary[rows] == sure
        ax.hlines(lines[own], decided.low[rows[own]], decided.high[rows[own]], color=colour, linewidth=2.2, alpha=0.6)
        ax.plot(decided.share[rows[own]], lines[own], "o", color=colour, markersize=4.5, linestyle="none", label=said)
    ax.set_yticks(lines, [label(result, int(row)) for row in rows], parse_math=False)
    _greyed(ax, decided.necessary[rows])
    heading(ax, f"{short(result.input_names[place], 28)}: blue is established")
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
        sure = decided.necessary[rows]
        ax.scatter(decided.share[rows[~sure]], height[~sure], s=5, color=REST, linewidths=0, zorder=2)
        ax.scatter(
            decided.share[rows[sure]], height[sure], s=9, color=CHOSEN, edgecolors="white", linewidths=0.3, zorder=3
        )
    labels = short_names([result.subset_names[j] for j in subsets], 20)
    names = [f"{name}  {needed[j]} of {total}" for name, j in zip(labels, subsets, strict=True)]
    ax.set_yticks(np.arange(len(subsets)), names, parse_math=False)
    _greyed(ax, needed[subsets] > 0)
    ax.set_ylim(len(subsets) - 0.5, -0.5)
    heading(ax, "a dot is an input; blue is established")
    return ax


@styled
def resolutions(result: Result, input: object = None, *, ax: Axes | None = None) -> Axes:
    """Axes with the tree of subsets from coarse (left) to fine (right), and what is established at each depth.

    Of one input: blue where established. Of all: the darker the blue, the more inputs, with their number.

    Parameters
    ----------
    result : of `butfor.explain` with reference data, or `subsets="zoom"`, or a nested mapping.
    input : its name; None is all inputs, or the only one.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 3))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0, 0], rows)
    >>> resolutions(result, 0).get_xlabel()
    'resolution'
    """
    layers, size = result.problem.layers, len(result.subset_names)
    if layers is not None and result.problem.size != size * len(result.input_names):
        raise InputError(
            "each input of this run has subsets of its own, and no tree is common to all; see result.report"
        )
    if layers is None:
        raise InputError(f"this run has one resolution only; use {ZOOM.get(result.modality, ZOOM['table'])}")
    parent, depth = layers.parent[:size], layers.resolution[:size]
    single = input is not None or len(result.input_names) == 1
    place = input_place(result, input) if single else -1
    sure = result.chosen & (result.input_of == place) if single else result.chosen
    found = np.bincount(result.subset_of[sure], minlength=size)
    top, height, order = _stacked(parent)
    ax, last = axes(ax, tall(len(order), 0.165, 0.75)), int(depth.max())
    _boxes(ax, result, (top, height, depth), found, 1 if single else len(result.input_names))
    ax.set_yticks([top[j] + 0.5 for j in order], _leaf_names(result, order, place), parse_math=False)
    _greyed(ax, found[order] > 0, invert=False)
    ax.yaxis.tick_right()
    ax.set_ylim(len(order), 0)
    ax.set_xlim(0, last + 1)
    ax.set_xticks(np.arange(last + 1) + 0.5, ["all", *map(str, range(1, last))] + (["finest"] if last else []))
    ax.set_xlabel("resolution")
    ax.spines[["left", "bottom"]].set_visible(False)
    said = short(result.input_names[place], 24) if single else "inputs for which it is established"
    heading(ax, f"{said}: blue is established" if single else said)
    return ax


ZOOM = {"table": "subsets='zoom' or a nested mapping", "image": "boxes='zoom'", "text": "units='zoom'"}


def _stacked(parent: Ints) -> tuple[dict[int, float], dict[int, float], Ints]:
    """Of each subset where its box begins and how high it is, in lines; and the finest subsets from top to bottom."""
    parts: dict[int, list[int]] = {}
    for subset, above in enumerate(parent.tolist()):
        parts.setdefault(above, []).append(subset)
    top: dict[int, float] = {}
    height: dict[int, float] = {}
    leaves: list[int] = []

    def place(subset: int) -> None:
        top[subset] = float(len(leaves))
        for part in parts.get(subset, []):
            place(part)
        if subset not in parts:
            leaves.append(subset)
        height[subset] = len(leaves) - top[subset]

    for root in parts.get(-1, []):
        place(root)
    return top, height, np.array(leaves, np.int64)


def _boxes(
    ax: Axes, result: Result, boxes: tuple[dict[int, float], dict[int, float], Ints], found: Ints, of: int
) -> None:
    from matplotlib.patches import Rectangle

    top, height, depth = boxes
    last = int(depth.max())
    layers = result.problem.layers
    assert layers is not None
    below = np.full(len(found), last + 1)  # the depth of the parts: a box reaches as far
    above = layers.parent[: len(found)]
    np.minimum.at(below, above[above >= 0], depth[above >= 0])
    for subset in range(len(found)):
        x, wide = int(depth[subset]), int(below[subset] - depth[subset])
        share = found[subset] / of
        colour = CHOSEN if found[subset] else "#eceff2"
        box = Rectangle((x, top[subset]), wide, height[subset], facecolor=colour, edgecolor="white", linewidth=0.8,
                        alpha=0.35 + 0.65 * share if found[subset] else 1.0)  # fmt: skip
        ax.add_patch(box)
        if of > 1:
            ink = "white" if share > 0.45 else INK if found[subset] else SOFT
            ax.text(x + wide / 2, top[subset] + height[subset] / 2, f"{found[subset]}", ha="center", va="center",
                    color=ink, fontsize=6.5)  # fmt: skip


def _leaf_names(result: Result, order: Ints, place: int) -> list[str]:
    if place < 0:
        return short_names([result.subset_names[j] for j in order])
    rows = rows_of(result, place)
    return [label(result, int(rows[result.subset_of[rows] == j][0]), 30) for j in order]


def _greyed(ax: Axes, sure: Bools, *, invert: bool = True) -> None:
    """Names of what is not established in grey; the first line on top."""
    for text, known in zip(ax.get_yticklabels(), sure, strict=True):
        text.set_color(INK if known else SOFT)
    if invert:
        ax.invert_yaxis()
