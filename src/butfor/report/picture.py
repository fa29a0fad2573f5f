"""A plot -> a picture in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def save_png(plot: Callable[[Any], object], path: Path, lines: int) -> None:
    """A plot of so many lines as a picture; no window system is asked for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, min(1.5 + 0.3 * lines, 40)), layout="constrained")
    plot(figure.add_subplot())
    figure.savefig(path, dpi=120)
