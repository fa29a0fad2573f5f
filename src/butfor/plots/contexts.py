"""Pictures of contexts: how often the answer would have been another, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from butfor.plots import style
from butfor.plots.style import styled
from butfor.types import InputError, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.context.result import ContextResult


@styled
def context(result: ContextResult, input: str | None = None, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw how often the answer of a prompt would have been another, but for each part, with 95 % intervals.

    Parameters
    ----------
    result : ContextResult
        Of `butfor.context.explain`.
    input : str, optional
        The name of the prompt; the first one by default.
    most : int, default=20
        Parts at most: the largest shares, in the order of the prompt.

    Examples
    --------
    >>> import butfor
    >>> made = butfor.context.prompt({"passage 1": "Lisbon: 4417.", "passage 2": "Rome: 2290."}, question="Lisbon?")
    >>> reader = lambda prompts: ["4417" if "4417" in one else "unknown" for one in prompts]
    >>> result = butfor.context.explain(reader, made, ["Oslo: 1200.", "Bern: 9310.", "Riga: 5000."])
    >>> [label.get_text() for label in context(result).get_yticklabels()]
    ['passage 1', 'passage 2']
    """
    whole("most", most, 1)
    if not hasattr(result, "questions"):
        raise InputError(f"context draws a result of butfor.context.explain, got {result!r:.60}; decision draws others")
    index = 0 if input is None else result.position(input)
    parts = [part for part in result.parts if part.prompt == index and part.draws and len(part.members) == 1]
    if not parts:
        raise InputError(f"no single part of {result.names[index]!r} was tested; run without parts='zoom' or a budget")
    shown = sorted(sorted(range(len(parts)), key=lambda k: -parts[k].flip)[:most])
    kept = [parts[k] for k in shown]
    sure = [part.necessary for part in kept]
    ax = style.axes(ax, style.tall([part.name for part in kept], rest=1.0))
    ax.axvline(result.level, color=style.OTHER, linewidth=1.0, linestyle="--", label=f"level {result.level:g}")
    flip, low, high = (np.array([getattr(part, name) for part in kept]) for name in ("flip", "flip_low", "flip_high"))
    style.with_intervals(ax, flip, low, high, np.array(sure))
    style.name_lines(ax, [part.name for part in kept], sure)
    ax.set_xlim(-0.03, 1.03)
    style.x_label(ax, "share of foils with another answer")
    more = f"; {len(parts) - len(kept)} more parts" * (len(parts) > len(kept))
    answer = style.short(" ".join(result.answers[index].split()), 24)
    style.heading(ax, f"{style.short(result.names[index], 24)}: {answer!r}, blue is decisive{more}", pad=16)
    style.key(ax)
    return ax
