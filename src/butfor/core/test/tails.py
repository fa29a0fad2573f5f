"""Greater, less, two-sided: values -> how surprising each of them is."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Alternative, Floats


def tail_statistic(values: Floats, alternative: Alternative, centre: Floats | None = None) -> Floats:
    """Statistic T (n, versions) whose large values speak against the null; `centre` (n,) is needed for two sides.

    Two-sided T is |y - c|, which orders values as the paper's (y - c)^2 does; `osft` squares it again.

    >>> tail_statistic(np.array([[1.0, -3.0]]), "two-sided", np.array([0.0]))
    array([[1., 3.]])
    """
    if alternative == "greater":
        return values
    if alternative == "less":
        return -values
    assert centre is not None
    return _level(np.abs(values - centre[:, None]))


def _level(distance: Floats) -> Floats:
    """Distances that equal the observed one but for rounding, as of two values on either side of c, become equal."""
    observed = distance[:, :1]
    return np.where(np.abs(distance - observed) <= 1e-9 * observed, observed, distance)
