"""The one-shot feature test (Burns, Thomason & Tansey 2020, "the paper", Algorithm 2): a single counterfactual.

z = t - t~;   select z >= z*, the smallest |z| with (1 + #{z <= -z*}) / #{z >= z*} <= alpha   (selection.knockoff_plus)
"""

from __future__ import annotations

from butfor.inference.statistics import ValueSet, share_below
from butfor.types import Array, Floats


def z_one_shot(statistic: Floats, *, squared: bool = False) -> Floats:
    """Return the differences (paper, Algorithm 2, line 6); a tie is 0 and never counts.

    >>> import numpy as np
    >>> z_one_shot(np.array([[3.0, 1.0], [2.0, 2.0]]))
    array([2., 0.])
    """
    observed, drawn = statistic[:, 0], statistic[:, 1]
    difference = observed - drawn
    return difference * (observed + drawn) if squared else difference  # (y-c)^2 - (y~-c)^2, two-sided in the paper


def compared(part: ValueSet, squared: bool) -> tuple[Array, ...]:
    """Return z, observed value, class and share below (n,), from values (n, 2)."""
    z = z_one_shot(part.statistic, squared=squared)
    return z, part.values[:, 0].copy(), part.classes, share_below(part.statistic)
