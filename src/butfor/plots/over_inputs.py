"""Plots over all inputs: effects by subset and input, and the decision per subset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.plots.one_input import NO_EFFECTS
from butfor.plots.style import (
    CHOSEN,
    INK,
    REST,
    SOFT,
    axes,
    effect_words,
    heading,
    key,
    leaves,
    short_names,
    styled,
    tall,
    values,
    x_words,
)
from butfor.results.result import Result
from butfor.results.summary import effect_name
from butfor.types import Floats, InputError, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_OUTLINED = 120  # inputs: of more the outlines would hide the cells
VALUES = "cividis"


@styled
def beeswarm(result: Result, *, most: int = 14, groups: bool = True, ax: Axes | None = None) -> Axes:
    """Axes with a dot per input on a line per subset: established ones outlined and coloured, the others grey.

    The colour is the value of the column, from low (dark blue) to high (yellow); groups of columns are plain blue.

    Parameters
    ----------
    result : of `butfor.explain`.
    most : lines at most: subsets established for most inputs first.
    groups : whether groups of columns have lines as well.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> [text.get_text() for text in beeswarm(result).get_yticklabels()]
    ['x0', 'x1']
    """
    subsets = _ordered(result, groups)[:most]
    ax = axes(ax, tall(len(subsets), 0.24, 0.9))
    told, seen = values(result), False
    for line, subset in enumerate(subsets.tolist()):
        rows = np.flatnonzero((result.subset_of == subset) & np.isfinite(result.effects.effect))
        effect, sure = result.effects.effect[rows], result.chosen[rows]
        height = line + _spread(effect)
        ax.scatter(effect[~sure], height[~sure], s=5, color=REST, linewidths=0, zorder=2)
        shade = _ranks([told[row] for row in rows[sure]])
        look: dict[str, Any] = (
            {"color": CHOSEN} if shade is None else {"c": shade, "cmap": VALUES, "vmin": 0, "vmax": 1}
        )
        ax.scatter(effect[sure], height[sure], s=11, edgecolors=INK, linewidths=0.4, zorder=3, **look)
        seen |= shade is not None and bool(sure.any())
    _subset_lines(ax, result, subsets)
    ax.axvline(0, color=INK, linewidth=0.7, zorder=1)
    x_words(ax, effect_words(result))
    ax.scatter([], [], s=11, color=CHOSEN, edgecolors=INK, linewidths=0.4, label="established")
    ax.scatter([], [], s=5, color=REST, linewidths=0, label="not established")
    key(ax)
    if seen:
        _value_bar(ax)
    return ax


@styled
def heatmap(result: Result, *, most: int = 20, groups: bool = True, ax: Axes | None = None) -> Axes:
    """Axes with a cell per subset and input: effects in colour and outlined where established, in grey elsewhere.

    Inputs stand from the largest to the least total effect.

    Parameters
    ----------
    result : of `butfor.explain`.
    most : subsets at most: those established for most inputs first.
    groups : whether groups of columns have lines as well.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> heatmap(result).get_xlabel()
    '30 inputs, by the sum of their effects'
    """
    subsets = _ordered(result, groups)[:most]
    effect, sure = _matrix(result, subsets)
    order = np.argsort(-np.nansum(effect, axis=0), kind="stable")
    effect, sure = effect[:, order], sure[:, order]
    ax = axes(ax, tall(len(subsets), 0.2, 0.95))
    reach = float(np.nanmax(np.abs(effect), initial=0.0)) or 1.0
    ax.imshow(np.abs(effect), cmap="Greys", vmin=0, vmax=2.5 * reach, aspect="auto", interpolation="nearest")
    coloured = np.ma.masked_array(effect, ~sure)
    image = ax.imshow(coloured, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
    if effect.shape[1] <= MOST_OUTLINED:
        _outlined(ax, sure)
    ax.set_yticks(np.arange(len(subsets)), short_names([result.subset_names[j] for j in subsets]), parse_math=False)
    ax.set_xlabel(f"{effect.shape[1]:,} inputs, by the sum of their effects")
    heading(ax, "colour: established; grey: not established")
    ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=30).set_label(effect_words(result), fontsize=6)
    return ax


@styled
def features(result: Result, *, most: int = 30, ax: Axes | None = None) -> Axes:
    """Axes with a line per subset: its mean effect over all inputs with the 95 % interval, established ones in blue.

    Parts stand under the larger subset that they are parts of, moved to the right.

    Parameters
    ----------
    result : of `butfor.explain`, on 20 inputs or more.
    most : lines at most.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> features(result).get_xlabel()
    'mean change in the output'
    """
    frame = result.features
    order = tree_order(result)
    if len(order) > most:  # established ones first, then the largest
        size = np.nan_to_num(np.abs(frame["effect"].to_numpy()))
        order = order[np.isin(order, np.lexsort((-size, ~frame["chosen"].to_numpy()))[:most])]
    effect, low, high = (frame[name].to_numpy()[order] for name in ("effect", "effect_low", "effect_high"))
    if not np.isfinite(effect).any():
        raise InputError(NO_EFFECTS)
    sure, lines = frame["chosen"].to_numpy()[order], np.arange(len(order))
    ax = axes(ax, tall(len(order), 0.19, 0.85))
    for known, colour, said in ((True, CHOSEN, "established over all inputs"), (False, REST, "not established")):
        own = sure == known
        ax.hlines(lines[own], low[own], high[own], color=colour, linewidth=1.6)
        ax.plot(effect[own], lines[own], "o", color=colour, markersize=4, linestyle="none", label=said)
    depth = tree_depth(result)[order]
    labels = short_names([result.subset_names[j] for j in order], 23)
    names = [f"{'  ' * int(d)}{name}" for name, d in zip(labels, depth, strict=True)]
    ax.set_yticks(lines, names, parse_math=False, ha="left")
    ax.tick_params(axis="y", pad=min(122, 4.5 * max(map(len, names))))
    for text, known in zip(ax.get_yticklabels(), sure, strict=True):
        text.set_color(INK if known else SOFT)
    ax.invert_yaxis()
    ax.axvline(0, color=INK, linewidth=0.7)
    x_words(ax, f"mean {effect_words(result)}")
    key(ax)
    return ax


def larger(result: Result) -> Ints:
    """Of each subset (S,) the larger one that it is a part of; -1 where there is none."""
    layers, size = result.problem.layers, len(result.subset_names)
    if layers is None or result.problem.size != size * len(result.input_names):
        return np.full(size, -1)
    return layers.parent[:size]


def tree_depth(result: Result) -> Ints:
    """How many larger subsets each (S,) is a part of."""
    above = larger(result)
    depth, at = np.zeros(len(above), np.int64), above.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, above[at], -1)
    return depth


def tree_order(result: Result) -> Ints:
    """Subsets (S,) so that parts follow the larger one that they are parts of."""
    parts: dict[int, list[int]] = {}
    for subset, above in enumerate(larger(result).tolist()):
        parts.setdefault(above, []).append(subset)
    order: list[int] = []
    todo = parts.get(-1, [])[::-1]
    while todo:
        order.append(todo.pop())
        todo += parts.get(order[-1], [])[::-1]
    return np.array(order, np.int64)


def _ordered(result: Result, groups: bool) -> Ints:
    """Subsets with effects, established for most inputs first, then by the mean size of the effect."""
    size = len(result.subset_names)
    known = np.isfinite(result.effects.effect)
    total = np.bincount(result.subset_of[known], weights=np.abs(result.effects.effect[known]), minlength=size)
    count = np.bincount(result.subset_of[known], minlength=size)
    chosen = np.bincount(result.subset_of, weights=result.chosen, minlength=size)
    order = np.lexsort((-total / np.maximum(count, 1), -chosen))
    wanted = np.arange(size) if groups else leaves(result)
    found = order[np.isin(order, wanted) & (count[order] > 0)]
    if not len(found):
        raise InputError(NO_EFFECTS)
    return found


def _matrix(result: Result, subsets: Ints) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Effects and whether they are established, (subsets, inputs)."""
    effect = np.full((len(result.subset_names), len(result.input_names)), np.nan)
    sure = np.zeros(effect.shape, bool)
    effect[result.subset_of, result.input_of] = result.effects.effect
    sure[result.subset_of, result.input_of] = result.chosen
    return effect[subsets], sure[subsets]


def _outlined(ax: Axes, sure: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    cells = [Rectangle((x - 0.5, y - 0.5), 1, 1) for y, x in np.argwhere(sure)]
    ax.add_collection(PatchCollection(cells, facecolor="none", edgecolor=INK, linewidth=0.4))


def _spread(effect: Floats) -> Floats:
    """How far each dot moves off its line, so that dots of like effect stand beside each other: at most 0.38."""
    if not len(effect):
        return effect
    width = (effect.max() - effect.min()) / 50 or 1.0
    bins = np.floor((effect - effect.min()) / width).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    first = np.searchsorted(bins[order], bins[order])
    within = np.empty(len(effect))
    within[order] = np.arange(len(effect)) - first
    side = np.where(within % 2 == 0, 1, -1) * np.ceil(within / 2)
    return np.asarray(side * min(0.09, 0.38 / max(1.0, float(np.abs(side).max()))))


def _ranks(told: list[Any]) -> Floats | None:
    """Values as places from 0 to 1; None where they are no numbers."""
    if not told or not all(isinstance(value, int | float | np.number) for value in told):
        return None
    numbers = np.array(told, np.float64)
    places = np.searchsorted(np.sort(numbers), numbers, side="left") + np.searchsorted(
        np.sort(numbers), numbers, "right"
    )
    return np.asarray(places / (2 * len(numbers)))


def _subset_lines(ax: Axes, result: Result, subsets: Ints) -> None:
    ax.set_yticks(np.arange(len(subsets)), short_names([result.subset_names[j] for j in subsets]), parse_math=False)
    found = np.bincount(result.subset_of, weights=result.chosen, minlength=len(result.subset_names))
    for text, subset in zip(ax.get_yticklabels(), subsets, strict=True):
        text.set_color(INK if found[subset] else SOFT)
    ax.set_ylim(len(subsets) - 0.5, -0.5)


def _value_bar(ax: Axes) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = ax.figure.colorbar(ScalarMappable(Normalize(0, 1), VALUES), ax=ax, pad=0.02, aspect=30, ticks=[0, 1])
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("value (of established ones)", fontsize=6.5, labelpad=-8)


@styled
def importance(result: Result, ax: Axes | None = None, most: int = 30) -> Axes:
    """Axes with one bar per subset, the largest on top: chosen ones blue, with the 95 % interval of their effect.

    Subsets that were not chosen are grey and show the difference on the draws of the test.

    Parameters
    ----------
    result : what `butfor.global_importance` returned.
    ax : axes to draw on; None makes a figure.
    most : bars at most.

    Examples
    --------
    >>> from butfor.tabular.global_importance import global_importance
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> result = global_importance(lambda X: X[:, 0], rows, rows, y=rows[:, 0])
    >>> [label.get_text() for label in importance(result).get_yticklabels()]
    ['x0', 'x1']
    """
    effects = result.effects
    known = result.chosen & ~np.isnan(effects.effect)
    length = np.where(known, effects.effect, result.difference)
    order = np.lexsort((-np.abs(length), ~result.chosen))[:most]
    places, ax = np.arange(len(order)), axes(ax, tall(len(order)))
    ax.barh(places, length[order], color=[CHOSEN if chosen else REST for chosen in result.chosen[order]])
    sure = order[known[order] & ~np.isnan(effects.low[order])]
    reach = np.abs(np.stack([effects.low[sure], effects.high[sure]]) - effects.effect[sure])
    ax.errorbar(effects.effect[sure], places[np.isin(order, sure)], xerr=reach, fmt="none", ecolor=INK, elinewidth=0.8)
    names = short_names(result.subset_names)
    ax.set_yticks(places, [names[j] for j in order], parse_math=False)
    for text, chosen in zip(ax.get_yticklabels(), result.chosen[order], strict=True):
        text.set_color(INK if chosen else SOFT)
    ax.invert_yaxis()
    ax.axvline(0, color=INK, linewidth=0.7)
    x_words(ax, effect_name(result))
    heading(ax, f"blue: established, {int(result.chosen.sum())} of {len(result.chosen)}")
    return ax
