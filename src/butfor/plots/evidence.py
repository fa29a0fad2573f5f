"""Plots of the evidence: effects against it, p-values with the threshold that was used, competitions."""

from __future__ import annotations

from math import isnan
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from butfor.plots import style
from butfor.plots.style import styled
from butfor.results.result import Result
from butfor.results.summary import number
from butfor.results.view import EVIDENCE, effect_label
from butfor.types import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.results.result import Places
    from butfor.tabular.check import SamplerCheck


@styled
def volcano(result: Result, *, named: int = 4, ax: Axes | None = None) -> Axes:
    """Draw a dot per hypothesis: its effect, and its evidence; unusual ones in blue.

    Parameters
    ----------
    named : int, default=4
        So many of the unusual subsets with the largest effects have their names and q beside them.

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
        raise InputError(style.NO_EFFECTS)
    values, sure, ax = result.evidence.scaled, result.chosen, style.axes(ax, (style.WIDTH, 2.5))
    style.dots(ax, effect, values, sure)
    if kind == "p":
        ax.set_yscale("log")
        ax.invert_yaxis()  # strong evidence on top
    ax.axvline(0, color=style.INK, linewidth=0.6)
    rows = np.flatnonzero(sure & np.isfinite(effect))  # names with a line to their dots
    rows = rows[np.argsort(-np.abs(effect[rows]), kind="stable")]
    rows = rows[np.sort(np.unique(result.subset_of[rows], return_index=True)[1])][:named]
    ax.autoscale_view()
    to_axes, top = ax.transData + ax.transAxes.inverted(), 1.0
    for row in sorted(rows.tolist(), key=lambda row: -to_axes.transform((effect[row], values[row]))[1]):
        q = number(result.q[row])
        lines = wrap(style.short(style.label(result, row), 60), 20) + [f"(q {q})"] * bool(q)
        line = {"arrowstyle": "-", "color": style.SOFT, "linewidth": 0.4, "shrinkB": 1, "relpos": (0, 0.5)}
        ax.annotate(
            "\n".join(lines), (effect[row], values[row]), xytext=(1.05, top), textcoords="axes fraction", fontsize=6.5,
            va="top", parse_math=False, arrowprops=line,
        )  # fmt: skip
        top -= 0.06 * len(lines) + 0.04
    ax.set_ylabel(EVIDENCE[kind])
    style.x_label(ax, effect_label(result))
    style.key(ax)
    return ax


@styled
def pvalues(result: Result, *, ax: Axes | None = None) -> Axes:
    """Draw all p-values from the least to the largest, their q, what would be expected by chance, and the threshold.

    q is the least alpha at which a hypothesis would be unusual. With one family and one resolution under BH the
    threshold is the line alpha * rank / m. Elsewhere every family, resolution and weight has its own; then the largest
    p-value that was chosen is marked.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` with a test that gives p-values.

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
    ax = style.axes(ax, (style.WIDTH, 2.5))
    ax.plot(rank, rank / (len(rank) + 1), color=style.INK, linewidth=0.7, linestyle=":", label="by chance alone")
    ax.scatter(rank[~sure], p[~sure], s=4, color=style.REST, linewidths=0, label="not unusual")
    ax.scatter(rank[sure], p[sure], s=7, color=style.CHOSEN, linewidths=0, label="unusual")
    ax.scatter(rank, result.q[rows], s=3, marker="_", color=style.SOFT, linewidths=0.6, label="q")
    if result.rule == "bh" and result.family == "run" and result.hypotheses.layers is None:
        ax.plot(rank, result.alpha * rank / len(rank), color=style.OTHER, label=f"bh at {result.alpha:g}")
    elif sure.any():
        largest = float(p[sure].max())
        ax.axhline(largest, color=style.OTHER, linestyle="--", label=f"largest chosen: {number(largest)}")
    ax.set(xscale="log", yscale="log", xlabel="rank among all p-values", ylabel="p-value")
    style.key(ax)
    return ax


@styled
def competition(result: Result, *, ax: Axes | None = None) -> Axes:
    """Draw the scores of a competition (osft, few-shot): inputs that win are above 0, counterfactuals below.

    By chance alone a hypothesis wins at most as often as its share says, whatever the size; the wins beyond the
    threshold are chosen.

    Parameters
    ----------
    result : Result
        Of a run with test="osft" or test="few-shot".

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
    ax = style.axes(ax, (style.WIDTH, 2.3))
    for shown, colour, text in ((sure, style.CHOSEN, "unusual"), (~sure, style.REST, "not unusual")):
        ax.vlines(rank[shown], 0, values[shown], color=colour, linewidth=1.0, label=text)
    if sure.any():
        least = float(values[sure].min())
        ax.axhline(least, color=style.OTHER, linestyle="--", linewidth=0.9, label=f"threshold {number(least)}")
    ax.axhline(0, color=style.INK, linewidth=0.7)
    unit = "output minus that of its counterfactual" if kind == "z" else "how far the winner is ahead"
    ax.set(xlabel=f"hypotheses, by size ({unit})", ylabel=kind)
    style.key(ax)
    return ax


@styled
def ranks(result: Places, ax: Axes | None = None) -> Axes:
    """Draw a bar per rank, first to last, and a line at what chance would give.

    Parameters
    ----------
    result : Places
        Of `butfor.image.ranks` or `butfor.text.ranks`.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from butfor.results.result import Places
    >>> ranks(Places(np.array([9, 5, 5, 4]))).get_ylabel()
    'Real inputs'
    """
    ax, last = style.axes(ax, (style.WIDTH, 2.0)), len(result.counts)
    third, lowest = max(1, last // 3), style.REST if result.ok else style.OTHER
    colours = [style.CHOSEN, *[style.REST] * (last - 1 - third), *[lowest] * third]
    ax.bar(range(1, last + 1), result.counts, color=colours)
    chance = result.total / last
    ax.axhline(chance, color=style.INK, linewidth=1, linestyle="--")
    ax.annotate("chance", (1.01, chance), xycoords=("axes fraction", "data"), va="center", fontsize=6.5)
    if not result.ok:
        style.heading(ax, f"More at the bottom than above: fills are not like real {result.what}")
    ticks = range(1, last + 1, max(1, last // 10))[:-1]
    ax.set_xticks([*ticks, last], ["first", *map(str, ticks[1:]), "last"])
    ax.locator_params(axis="y", integer=True)
    ax.set(xlabel="Place among its draws, by the model's output", ylabel=f"Real {result.what}")
    return ax


@styled
def calibration(result: Result | SamplerCheck, ax: Axes | None = None) -> Axes:
    """Draw whether the sampler can be relied on: of a check its ranks, of a run its negative control.

    Of a run: for each subset the p-values of held-out rows of the reference, from the least to the largest. Where the
    sampler is right they keep above the diagonal or near it; subsets that are not calibrated are orange.

    Of a check: a line per subset, a cell per tenth of its draws; white is as many real values as there should be.
    Orange ends are too narrow, an orange middle too wide, one orange end is shifted. A group of columns shows the rank
    of its distance from the draws. Behind a verdict: what the rest of the row explains of the subset. The title says
    what is wrong with the shape of all columns together, if anything is.

    Parameters
    ----------
    result : Result or SamplerCheck
        Of `butfor.explain` with a control, or of `butfor.check_sampler` on a table.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(120, 2))
    >>> calibration(butfor.explain(lambda X: X[:, 0], rows[:30], rows[30:])).get_xlabel()
    'p-value on rows of the reference'
    """
    if not isinstance(result, Result):
        return rank_histograms(result, ax)
    control = result.control
    if control is None or result.evidence.kind != "p":
        raise InputError(f"this run has no control with p-values; {_lacking(result)}")
    ax = style.axes(ax, (style.WIDTH, 2.5))
    right = np.ones(control.p.shape[1], bool) if control.calibrated is None else control.calibrated
    share = np.arange(1, len(control.p) + 1) / len(control.p)
    for column in range(control.p.shape[1]):
        colour = style.REST if right[column] else style.OTHER
        ax.step(np.sort(control.p[:, column]), share, where="post", color=colour, linewidth=0.8, alpha=0.8)
    ax.plot([0, 1], [0, 1], color=style.INK, linewidth=0.9, linestyle="--", label="as it should be, or below")
    ax.plot([], [], color=style.REST, label=f"{int(right.sum())} subsets: calibrated")
    if not right.all():
        ax.plot([], [], color=style.OTHER, label=f"{int((~right).sum())}: not calibrated")
    ax.set(xlabel="p-value on rows of the reference", ylabel="share of the rows", xlim=(0, 1), ylim=(0, 1.01))
    style.key(ax)
    return ax


def _lacking(result: Result) -> str:
    """Return what the run would have needed for p-values of its reference."""
    record, kind = result.record, result.evidence.kind
    if result.modality != "table":
        return "only runs on tables have one"
    if kind != "p":
        option = "rule='e-bh'" if kind == "e" else f"test={record.test!r}"
        return f"{option} gives {kind}-values: use test='sequential' or 'irt', with rule='bh'"
    if record.controlled == "no reference":
        return "give reference data"
    return "control=False was given: leave it out" if record.controlled == "not wanted" else "give more reference rows"


def rank_histograms(check: SamplerCheck, ax: Axes | None = None) -> Axes:
    """Draw the ranks of a check, as `calibration` says."""
    size = len(check.subset_names)
    ax = style.axes(ax, (6, 1.5 + 0.3 * size))
    extent = (0, 1, size - 0.5, -0.5)
    image = ax.imshow(10 * check.histogram, cmap="PuOr_r", vmin=0, vmax=2, aspect="auto", extent=extent)
    shares = [one.explained for one in check.scores]
    explained = ["" if isnan(share) else f", {max(share, 0):.0%} explained" for share in shares]
    parts = zip(check.subset_names, check.verdicts, explained, strict=True)
    ax.set_yticks(range(size), [f"{name}: {verdict}{share}" for name, verdict, share in parts])
    if check.together != "ok":
        ax.set_title(f"all columns together: {check.together}", fontsize="medium")
    ax.set_xlabel("place of the real value among its draws")
    ax.figure.colorbar(image, ax=ax, label="real values / expected")
    return ax
