"""Statistics (n, versions), the observed one first, -> evidence: p (fixed K), z (one-shot)."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Bools, Floats


def p_fixed(statistic: Floats) -> Floats:
    """p-values of the interpretability randomisation test (paper, Algorithm 1, line 9).

    Valid at every K: the observed value's rank among K + 1 exchangeable ones is uniform, and ties push it down.

    >>> p_fixed(np.array([[3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 0.0]]))
    array([0.25, 0.75])
    """
    observed, null = statistic[:, :1], statistic[:, 1:]
    hits = (null >= observed).sum(axis=1)  # ties count against us: keeps p valid
    return np.asarray((1 + hits) / (null.shape[1] + 1))


def varies(statistic: Floats) -> Bools:
    """False where all K + 1 values are equal: no draw can ever be surprising there (METHODS 6)."""
    return np.asarray((statistic != statistic[:, :1]).any(axis=1))


def z_one_shot(statistic: Floats, *, squared: bool = False) -> Floats:
    """Differences of the one-shot feature test (paper, Algorithm 2, line 6); a tie is 0 and never counts.

    >>> z_one_shot(np.array([[3.0, 1.0], [2.0, 2.0]]))
    array([2., 0.])
    """
    observed, drawn = statistic[:, 0], statistic[:, 1]
    difference = observed - drawn
    return difference * (observed + drawn) if squared else difference  # (y-c)^2 - (y~-c)^2, two-sided in the paper
