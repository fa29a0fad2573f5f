"""Bars of a global result: how much each subset matters over the data set, and which were chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from butfor.core.result.global_summary import effect_name
from butfor.plots.style import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.core.result.global_result import GlobalResult

CHOSEN, REST = "#1f5a8a", "#c9ced4"


def importance(result: GlobalResult, ax: Axes | None = None, most: int = 30) -> Axes:
    """Axes with one bar per subset, the largest on top: chosen ones dark, with the 95 % interval of their effect.

    Subsets that were not chosen are pale and show the difference on the draws of the test.

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
    ax = axes(ax)
    effects = result.effects
    known = result.chosen & ~np.isnan(effects.effect)
    length = np.where(known, effects.effect, result.evidence.difference)
    order = np.lexsort((-np.abs(length), ~result.chosen))[:most]
    places = np.arange(len(order))
    ax.barh(places, length[order], color=[CHOSEN if chosen else REST for chosen in result.chosen[order]])
    sure = order[known[order] & ~np.isnan(effects.low[order])]
    reach = np.abs(np.stack([effects.low[sure], effects.high[sure]]) - effects.effect[sure])
    ax.errorbar(effects.effect[sure], places[np.isin(order, sure)], xerr=reach, fmt="none", ecolor="black", capsize=2)
    ax.set_yticks(places, [result.subset_names[j] for j in order])
    ax.invert_yaxis()
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel(effect_name(result))
    ax.set_title(f"{int(result.chosen.sum())} of {len(result.chosen)} chosen ({result.rule} at {result.alpha:g})")
    return ax
