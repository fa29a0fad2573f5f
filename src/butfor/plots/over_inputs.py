"""Plots over all inputs: effects by subset and input, and the effect of each subset on average."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.plots import style
from butfor.plots.style import styled
from butfor.results.result import Result
from butfor.results.summary import effect_name
from butfor.results.view import effect_label, tree_order, unusual, values
from butfor.types import Floats, InputError, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_OUTLINED = 40  # inputs: of more the outlines would hide the cells
VALUES = "cividis"


@styled
def beeswarm(result: Result, *, most: int = 14, groups: bool = True, ax: Axes | None = None) -> Axes:
    """Draw a dot per input on a line per subset: unusual ones outlined and coloured, the others grey.

    The colour is the value of the column, from low (dark blue) to high (yellow); groups of columns are plain blue.

    Parameters
    ----------
    most : int, default=14
        Lines at most: single columns first, and of them those unusual in most inputs.
    groups : bool, default=True
        Whether groups of columns have lines as well, under those of single columns.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> [text.get_text() for text in beeswarm(result).get_yticklabels()]
    ['x0', 'x1']
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    subsets, count = _ordered(result, groups, most)
    names = [result.subset_names[j] for j in subsets]
    ax = style.axes(ax, style.tall(names, 0.12, 0.9))
    observed, shaded = values(result), False
    for line, subset in enumerate(subsets.tolist()):
        rows = np.flatnonzero((result.subset_of == subset) & np.isfinite(result.effects.effect))
        effect, sure = result.effects.effect[rows], unusual(result)[rows]
        height = line + _spread(effect)
        ax.scatter(effect[~sure], height[~sure], s=5, color=style.REST, linewidths=0, zorder=2)
        of_sure = observed[rows[sure]].tolist()
        look: dict[str, Any] = {"color": style.CHOSEN}
        if of_sure and all(isinstance(value, int | float | np.number) for value in of_sure):
            numbers = np.array(of_sure, np.float64)
            ranks = np.searchsorted(np.sort(numbers), numbers) + np.searchsorted(np.sort(numbers), numbers, "right")
            look, shaded = {"c": ranks / (2 * len(numbers)), "cmap": VALUES, "vmin": 0, "vmax": 1}, True
        ax.scatter(effect[sure], height[sure], s=11, edgecolors=style.INK, linewidths=0.4, zorder=3, **look)
    style.name_lines(ax, names, count[subsets] > 0)
    single = int(np.isin(subsets, style.leaves(result)).sum())
    if 0 < single < len(subsets):
        ax.axhline(single - 0.5, color=style.SOFT, linewidth=0.5)
    ax.axvline(0, color=style.INK, linewidth=0.7, zorder=1)
    style.x_label(ax, effect_label(result))
    ax.scatter([], [], s=11, color=style.CHOSEN, edgecolors=style.INK, linewidths=0.4, label="unusual")
    ax.scatter([], [], s=5, color=style.REST, linewidths=0, label="not unusual")
    style.key(ax)
    if shaded:
        shades = ScalarMappable(Normalize(0, 1), VALUES)
        bar = ax.figure.colorbar(shades, ax=ax, pad=0.02, aspect=20, shrink=0.6, ticks=[0, 1])
        bar.ax.set_yticklabels(["low", "high"])
        bar.set_label("value of the column, where unusual", fontsize=6.5)
    return ax


def _ordered(result: Result, groups: bool, most: int) -> tuple[Ints, Ints]:
    """Return subsets with effects, single columns before groups, of each kind those unusual in most inputs first, then
    by the mean size of the effect; and in how many inputs each subset (S,) is unusual."""
    size, effect = len(result.subset_names), result.effects.effect
    known = np.isfinite(effect)
    total = np.bincount(result.subset_of[known], weights=np.abs(effect[known]), minlength=size)
    count = np.bincount(result.subset_of[known], minlength=size)
    chosen = np.bincount(result.subset_of[unusual(result)], minlength=size)
    order = np.lexsort((-total / np.maximum(count, 1), -chosen))
    order = order[count[order] > 0]
    single = np.isin(order, style.leaves(result))
    larger = order[~single][: most // 3] if groups else order[:0]  # a third of the lines at most
    order = np.append(order[single][: most - len(larger)], larger)
    if not len(order):
        raise InputError(style.NO_EFFECTS)
    return order, chosen


def _spread(effect: Floats) -> Floats:
    """Return how far each dot moves off its line, so that like effects stand side by side: at most 0.38."""
    if not len(effect):
        return effect
    width = (effect.max() - effect.min()) / 50 or 1.0
    bins = np.floor((effect - effect.min()) / width).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    within = np.empty(len(effect))
    within[order] = np.arange(len(effect)) - np.searchsorted(bins[order], bins[order])
    side = np.where(within % 2 == 0, 1, -1) * np.ceil(within / 2)
    return np.asarray(side * min(0.09, 0.38 / max(1.0, float(np.abs(side).max()))))


@styled
def heatmap(result: Result, *, most: int = 20, groups: bool = True, ax: Axes | None = None) -> Axes:
    """Draw a cell per subset and input, coloured by the effect: unusual ones in full colour and outlined, others pale.

    Shades grow with the square root of the effect, so that small ones show. Inputs stand from the largest to the least
    total effect; subsets whose effects are all below a fifth of the largest are left out.

    Parameters
    ----------
    most : int, default=20
        Subsets at most, in the order of `beeswarm`.
    groups : bool, default=True
        Whether groups of columns have lines as well, under those of single columns.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> heatmap(result).get_xlabel()
    '30 inputs, by the sum of their effects'
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import FuncNorm
    from matplotlib.patches import Rectangle

    subsets, _ = _ordered(result, groups, most)
    effect = np.full((len(result.subset_names), len(result.input_names)), np.nan)
    sure = np.zeros(effect.shape, bool)
    effect[result.subset_of, result.input_of] = result.effects.effect
    sure[result.subset_of, result.input_of] = unusual(result)
    size = np.nanmax(np.abs(effect[subsets]), axis=1)
    largest = float(size.max()) or 1.0
    shown = subsets[(size >= 0.2 * largest) | sure[subsets].any(axis=1)]
    order = np.argsort(-np.nansum(effect[shown], axis=0), kind="stable")
    effect, sure = effect[shown][:, order], sure[shown][:, order]
    names = [result.subset_names[j] for j in shown]
    ax = style.axes(ax, style.tall(names, 0.09, 0.95))
    scale = FuncNorm((lambda x: np.sign(x) * np.abs(x) ** 0.5, lambda x: np.sign(x) * x**2), -largest, largest)
    look: dict[str, Any] = {"cmap": "PuOr_r", "norm": scale, "aspect": "auto", "interpolation": "nearest"}
    ax.imshow(effect, alpha=0.6, **look)
    image = ax.imshow(np.ma.masked_array(effect, ~sure), **look)
    outlined = effect.shape[1] <= MOST_OUTLINED
    if outlined:
        cells = [Rectangle((x - 0.5, y - 0.5), 1, 1) for y, x in np.argwhere(sure)]
        ax.add_collection(PatchCollection(cells, facecolor="none", edgecolor=style.INK, linewidth=0.4))
    style.name_lines(ax, names, sure.any(axis=1))
    ax.set_xlabel(f"{effect.shape[1]:,} inputs, by the sum of their effects")
    left = len(subsets) - len(shown)
    style.heading(
        ax,
        f"{'outlined' if outlined else 'full colour'}: unusual" + f"; {left} with small effects left out" * bool(left),
    )
    ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=30).set_label(effect_label(result), fontsize=6)
    return ax


@styled
def dependence(result: Result, column: str, *, ax: Axes | None = None) -> Axes:
    """Draw the effect of one column against its value, a dot per input: unusual ones in blue, intervals as pale lines.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` on a table.
    column : str
        The name of a column that was tested by itself.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> dependence(result, "x0").get_ylabel()
    'change in the output'
    """
    effects, subset = result.effects, style.one_column(result, column, "dependence")
    rows = np.flatnonzero((result.subset_of == subset) & np.isfinite(effects.effect))
    if not len(rows):
        raise InputError(style.NO_EFFECTS)
    ax = style.axes(ax, (style.WIDTH, 2.4))
    x, numbers = style.column_axis(ax, column, values(result)[rows].tolist())
    x = x + style.beside(len(x), 0.0 if numbers else 0.25)
    sure = result.chosen[rows]
    shades = np.where(sure, style.CHOSEN, style.REST)
    ax.vlines(x, effects.low[rows], effects.high[rows], color=shades, linewidth=0.6, alpha=0.35)
    style.dots(ax, x, effects.effect[rows], sure)
    ax.axhline(0, color=style.INK, linewidth=0.6, zorder=1)
    ax.set_ylabel("\n".join(wrap(effect_label(result), 30)), parse_math=False)
    style.heading(ax, f"{len(rows):,} inputs; blue: unusual, {int(sure.sum())}; lines: 95 % intervals")
    return ax


@styled
def features(result: Result, *, most: int = 30, ax: Axes | None = None) -> Axes:
    """Draw a line per subset: its mean effect over all inputs with the 95 % interval, in blue where inputs differ.

    Parts stand under the larger subset that they are parts of, moved to the right.

    Parameters
    ----------
    result : Result
        Of `butfor.explain`, on 20 inputs or more.
    most : int, default=30
        Lines at most.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> features(result).get_xlabel()
    'mean change in the output'
    """
    frame, (order, depth) = result.features, tree_order(result)
    if len(order) > most:  # those chosen first, then the largest
        size = np.nan_to_num(np.abs(frame["effect"].to_numpy()))
        order = order[np.isin(order, np.lexsort((-size, ~frame["chosen"].to_numpy()))[:most])]
    effect, low, high = (frame[name].to_numpy()[order] for name in ("effect", "effect_low", "effect_high"))
    if not np.isfinite(effect).any():
        raise InputError(style.NO_EFFECTS)
    sure = frame["chosen"].to_numpy()[order]
    names = [result.subset_names[j] for j in order]
    ax = style.axes(ax, style.tall(names, rest=0.85))
    ax.axvline(0, color=style.INK, linewidth=0.7)
    style.with_intervals(ax, effect, low, high, sure)
    style.name_lines(ax, names, sure, depth=depth[order])
    style.x_label(ax, f"mean {effect_label(result)}")
    style.heading(ax, "blue: inputs differ on average; 95 % intervals")
    return ax


@styled
def importance(result: Result, *, most: int = 30, ax: Axes | None = None) -> Axes:
    """Draw a bar per subset, the largest on top: chosen ones blue, with the 95 % interval of their effect.

    Subsets that were not chosen are grey and show the difference on the draws of the test.

    Parameters
    ----------
    result : Result
        Of `butfor.global_importance`.
    most : int, default=30
        Bars at most.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(50, 2))
    >>> result = butfor.global_importance(lambda X: X[:, 0], rows, rows[:, 0])
    >>> [label.get_text() for label in importance(result).get_yticklabels()]
    ['x0', 'x1']
    """
    if not result.is_global:
        raise InputError("importance is for results of butfor.global_importance; plots.features shows this one")
    effects = result.effects
    known = result.chosen & ~np.isnan(effects.effect)
    length = np.where(known, effects.effect, result.difference)
    order = np.lexsort((-np.abs(length), ~result.chosen))[:most]
    names = [result.subset_names[j] for j in order]
    ax = style.bars(ax, names, length[order], result.chosen[order])
    style.intervals(ax, np.where(known, effects.low, np.nan)[order], effects.high[order])
    ax.axvline(0, color=style.INK, linewidth=0.7)
    style.x_label(ax, effect_name(result))
    style.heading(ax, f"blue: chosen, {int(result.chosen.sum())} of {len(result.chosen)}")
    return ax
