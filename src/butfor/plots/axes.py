"""Axes to draw on, for whoever gave none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The axes that were given, or those of a new figure of `size` inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained").add_subplot()
