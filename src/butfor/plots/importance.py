"""Bars of a global result: how much each subset matters over the data set, and which were chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from butfor.core.result.global_summary import effect_name
from butfor.plots.labels import short_names
from butfor.plots.style import CHOSEN, INK, REST, SOFT, axes, heading, styled, tall, x_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.core.result.global_result import GlobalResult


@styled
def importance(result: GlobalResult, ax: Axes | None = None, most: int = 30) -> Axes:
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
    length = np.where(known, effects.effect, result.evidence.difference)
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
