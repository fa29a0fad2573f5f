"""Plots of the evidence: effects against it, p-values with the threshold that was used, competitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from butfor.core.result.numbers import number
from butfor.core.result.result import Result
from butfor.core.types import InputError
from butfor.plots.labels import EVIDENCE, effect_words, short
from butfor.plots.one_input import NO_EFFECTS
from butfor.plots.style import CHOSEN, INK, OTHER, REST, SOFT, WIDTH, axes, key, styled, x_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@styled
def volcano(result: Result, *, named: int = 4, ax: Axes | None = None) -> Axes:
    """Axes with a dot per hypothesis: its effect, and its evidence; established ones in blue.

    Parameters
    ----------
    result : of `butfor.explain`.
    named : so many of the established ones with the largest effects have their names beside them.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> volcano(result).get_ylabel()
    'p-value'
    """
    effect, kind = result.effects.effect, result.evidence.kind
    if not np.isfinite(effect).any():
        raise InputError(NO_EFFECTS)
    values, sure, ax = result.evidence.scaled, result.chosen, axes(ax, (WIDTH, 2.5))
    ax.scatter(effect[~sure], values[~sure], s=5, color=REST, linewidths=0, label="not established")
    ax.scatter(effect[sure], values[sure], s=10, color=CHOSEN, edgecolors="white", linewidths=0.3, label="established")
    if kind == "p":
        ax.set_yscale("log")
        ax.invert_yaxis()  # strong evidence on top
    ax.axvline(0, color=INK, linewidth=0.6)
    _name_strongest(result, ax, named)
    ax.set_ylabel(EVIDENCE[kind])
    x_words(ax, effect_words(result))
    key(ax)
    return ax


def _name_strongest(result: Result, ax: Axes, named: int) -> None:
    """The name of the strongest input of each subset, under its dot, or under another name that stands there."""
    effect, values, rows = result.effects.effect, result.evidence.scaled, np.flatnonzero(result.chosen)
    ax.autoscale_view()
    taken: list[tuple[float, float]] = []
    seen: set[int] = set()
    for row in rows[np.argsort(-np.abs(np.nan_to_num(effect[rows])), kind="stable")].tolist():
        subset = int(result.subset_of[row])
        if subset in seen or len(seen) == named or not np.isfinite(effect[row]):
            continue
        seen.add(subset)
        at = ax.transAxes.inverted().transform(ax.transData.transform((effect[row], values[row])))
        x, right = float(at[0]), effect[row] > 0
        y = float(at[1]) + (-0.06 if at[1] > 0.2 else 0.06)  # beside the dots, not on them
        while any(abs(x - other) < 0.5 and abs(y - height) < 0.068 for other, height in taken):
            y -= 0.03
        taken.append((x, y))
        ax.annotate(
            short(result.subset_names[subset], 22),
            (effect[row], values[row]),
            xytext=(x + (-0.03 if right else 0.03), y),
            textcoords="axes fraction",
            fontsize=6,
            ha="right" if right else "left",
            va="center",
            parse_math=False,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "alpha": 0.75, "linewidth": 0},
            arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.4, "shrinkB": 1},
        )


@styled
def pvalues(result: Result, *, ax: Axes | None = None) -> Axes:
    """Axes with all p-values from the least to the largest, what would be expected by chance, and the threshold.

    With one family and one resolution under BH the threshold is the line alpha * rank / m. Elsewhere every family,
    resolution and weight has its own; then the largest p-value that was chosen is marked.

    Parameters
    ----------
    result : of `butfor.explain` with a test that gives p-values.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns")
    >>> pvalues(result).get_ylabel()
    'p-value'
    """
    if result.evidence.kind != "p":
        raise InputError(f"this result has {result.evidence.kind} evidence; use plots.competition, or test='irt'")
    rows = np.flatnonzero(result.tested)
    if not len(rows):
        raise InputError("no hypothesis was tested in this run; result.table.status says why")
    rows = rows[np.argsort(result.evidence.values[rows], kind="stable")]
    p, sure, rank = result.evidence.values[rows], result.chosen[rows], np.arange(1, len(rows) + 1)
    ax = axes(ax, (WIDTH, 2.5))
    ax.plot(rank, rank / (len(rank) + 1), color=INK, linewidth=0.7, linestyle=":", label="by chance alone")
    ax.scatter(rank[~sure], p[~sure], s=4, color=REST, linewidths=0, label="not established")
    ax.scatter(rank[sure], p[sure], s=7, color=CHOSEN, linewidths=0, label="established")
    if result.rule == "bh" and result.family == "run" and result.problem.layers is None:
        ax.plot(rank, result.alpha * rank / len(rank), color=OTHER, label=f"bh at {result.alpha:g}")
    elif sure.any():
        largest = float(p[sure].max())
        ax.axhline(largest, color=OTHER, linestyle="--", label=f"largest chosen: {number(largest)}")
    ax.set(xscale="log", yscale="log", xlabel="rank among all p-values", ylabel="p-value")
    key(ax)
    return ax


@styled
def competition(result: Result, *, ax: Axes | None = None) -> Axes:
    """Axes with the scores of a competition (osft, few-shot): inputs that win are above 0, counterfactuals below.

    By chance alone a hypothesis wins at most as often as its share says, whatever the size; the wins beyond the
    threshold are chosen.

    Parameters
    ----------
    result : of a run with test="osft" or test="few-shot".
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:30] + [4, 0], rows, subsets="columns", test="osft")
    >>> competition(result).get_ylabel()
    'z'
    """
    kind = result.evidence.kind
    if kind not in ("z", "w"):
        raise InputError(f"this result has {kind} evidence and no competition; use plots.pvalues, or test='few-shot'")
    values = result.evidence.scaled
    order = np.argsort(-np.abs(values), kind="stable")
    values, sure, rank = values[order], result.chosen[order], np.arange(1, len(order) + 1)
    ax = axes(ax, (WIDTH, 2.3))
    for own, colour, said in ((sure, CHOSEN, "established"), (~sure, REST, "not established")):
        ax.vlines(rank[own], 0, values[own], color=colour, linewidth=1.0, label=said)
    if sure.any():
        least = float(values[sure].min())
        ax.axhline(least, color=OTHER, linestyle="--", linewidth=0.9, label=f"threshold {number(least)}")
    ax.axhline(0, color=INK, linewidth=0.7)
    said = "output minus that of its counterfactual" if kind == "z" else "how far the winner is ahead"
    ax.set(xlabel=f"hypotheses, by size ({said})", ylabel=kind)
    key(ax)
    return ax
