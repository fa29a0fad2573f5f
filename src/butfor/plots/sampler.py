"""Where held-out values stand among their counterfactuals: even shading is a right sampler."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.result.result import Result
from butfor.core.types import InputError
from butfor.plots.style import INK, OTHER, REST, WIDTH, axes, key, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.tabular.check_result import SamplerCheck
    from butfor.tabular.scores import Scores


@styled
def calibration(result: Result | SamplerCheck, ax: Axes | None = None) -> Axes:
    """Axes that say whether the sampler can be relied on: of a check its ranks, of a run its negative control.

    Of a run: for each subset the p-values of rows of the reference's own kind, from the least to the largest. Where
    the sampler is right they keep above the diagonal or near it; subsets that are called not calibrated are orange.

    Parameters
    ----------
    result : of `butfor.explain` with a control, or what `butfor.check_sampler` returned for a table.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import numpy as np; import butfor
    >>> rows = np.random.default_rng(0).normal(size=(120, 2))
    >>> calibration(butfor.explain(lambda X: X[:, 0], rows[:30], rows[30:])).get_xlabel()
    'p-value on rows of the reference'
    """
    if not isinstance(result, Result):
        return rank_histograms(result, ax)
    control = result.control
    if control is None or result.evidence.kind != "p":
        raise InputError(f"this run has no control with p-values; {_lacking(result)}")
    ax = axes(ax, (WIDTH, 2.5))
    right = np.ones(control.p.shape[1], bool) if control.calibrated is None else control.calibrated
    share = np.arange(1, len(control.p) + 1) / len(control.p)
    for column in range(control.p.shape[1]):
        colour = REST if right[column] else OTHER
        ax.step(np.sort(control.p[:, column]), share, where="post", color=colour, linewidth=0.8, alpha=0.8)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle="--", label="as it should be, or below")
    ax.plot([], [], color=REST, label=f"{int(right.sum())} subsets: calibrated")
    if not right.all():
        ax.plot([], [], color=OTHER, label=f"{int((~right).sum())}: not calibrated")
    ax.set(xlabel="p-value on rows of the reference", ylabel="share of the rows", xlim=(0, 1), ylim=(0, 1.01))
    key(ax)
    return ax


def _lacking(result: Result) -> str:
    """What a run would have needed for p-values of its own reference."""
    said, kind = result.provenance, result.evidence.kind
    if result.modality != "table":
        return "only runs on tables have one"
    if kind != "p":
        came = "rule='e-bh'" if kind == "e" else f"test={said['test']!r}"
        return f"{came} gives {kind}-values: use test='sequential' or 'irt', with rule='bh'"
    if "controlled" not in said:
        return "give reference data"
    return (
        "control=False was given: leave it out" if said["controlled"] is False else "give more rows of reference data"
    )


def rank_histograms(check: SamplerCheck, ax: Axes | None = None) -> Axes:
    """Axes with one line per subset, one cell per tenth of its draws: white is as many real values as there should be.

    Orange ends: too narrow; orange middle: too wide; one orange end: shifted. A group of columns shows the rank of its
    distance from the draws. Behind a verdict: what the rest of the row explains of the subset. The title says what is
    wrong with the shape of all columns together, if anything is.

    Parameters
    ----------
    check : what `butfor.check_sampler` returned for a table.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import numpy as np; import butfor
    >>> rows = np.random.default_rng(0).normal(size=(120, 2))
    >>> rank_histograms(butfor.check_sampler(butfor.tabular.gaussian(rows[:60]), rows[60:])).get_xlabel()
    'place of the real value among its draws'
    """
    size = len(check.subset_names)
    ax = axes(ax, (6, 1.5 + 0.3 * size))
    image = ax.imshow(
        10 * check.histogram, cmap="PuOr_r", vmin=0, vmax=2, aspect="auto", extent=(0, 1, size - 0.5, -0.5)
    )
    parts = zip(check.subset_names, check.verdicts, check.scores, strict=True)
    ax.set_yticks(range(size), [f"{name}: {verdict}{_explained(score)}" for name, verdict, score in parts])
    if check.together != "ok":
        ax.set_title(f"all columns together: {check.together}", fontsize="medium")
    ax.set_xlabel("place of the real value among its draws")
    ax.figure.colorbar(image, ax=ax, label="real values / expected")
    return ax


def _explained(score: Scores) -> str:
    """What the rest of the row explains, where that is known."""
    return "" if isnan(score.explained) else f", {max(score.explained, 0):.0%} explained"
