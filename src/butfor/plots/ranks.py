"""Bars of ranks: where what is real stands among its own draws, by the model's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from butfor.plots.style import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.core.result.places import Places

TOP, REST, PILED = "#155cd6", "#8a949e", "#d02424"


def ranks(places: Places, ax: Axes | None = None) -> Axes:
    """Axes with one bar per place, first to last, and a line at what chance would give.

    Parameters
    ----------
    places : what `butfor.image.ranks` or `butfor.text.ranks` returned.
    ax : axes to draw on; None makes a figure.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import numpy as np; from butfor.core.result.places import Places
    >>> ranks(Places(np.array([9, 5, 5, 4]))).get_ylabel()
    'Real inputs'
    """
    ax = axes(ax, (6, 3.2))
    last = len(places.counts)
    third = max(1, last // 3)
    ax.bar(
        range(1, last + 1),
        places.counts,
        color=[TOP] + [REST] * (last - 1 - third) + [REST if places.ok else PILED] * third,
    )
    chance = places.total / last
    ax.axhline(chance, color="#1c2530", linewidth=1, linestyle="--")
    ax.annotate("chance", (1.01, chance), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    if not places.ok:
        ax.set_title(f"More at the bottom than above: fills are not like real {places.what}", fontsize=10, loc="left")
    some = range(1, last + 1, max(1, last // 10))[:-1]
    ax.set_xticks([*some, last], ["first", *map(str, some[1:]), "last"])
    ax.locator_params(axis="y", integer=True)
    ax.set(xlabel="Place among its draws, by the model's output", ylabel=f"Real {places.what}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax
