"""Where held-out values stand among their counterfactuals: even shading is a right sampler."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from butfor.plots.axes import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.tabular.check_result import SamplerCheck
    from butfor.tabular.scores import Scores


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
