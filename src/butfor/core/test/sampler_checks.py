"""Is Q any good? Where observed values stand among their own counterfactuals, and what a wrong pattern means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.core.types import Floats, Ints

Verdict = Literal[
    "ok", "too narrow", "too wide", "shifted", "off-manifold", "wrong skew", "tails too light", "tails too heavy"
]


@dataclass(frozen=True, eq=False)
class RankCheck:
    """Ranks of held-out values among draws from Q: uniform if Q is right."""

    p: float
    pattern: Verdict  # what the ranks look like if they are not uniform
    coverage_50: float
    coverage_90: float
    ranks: Floats  # (n,) in (0, 1): of the values, or of their distance from the draws where there are several columns


def check_ranks(pool: Floats, rng: np.random.Generator, fitted_share: float = 0.0) -> RankCheck:
    """The check of one subset from its pool (n, 1 + draws, columns), version 0 being the held-out value.

    Several columns have no natural order: then each column is ranked, and so is the distance from the middle of the
    pool; p is Bonferroni's over these, coverage that of the distance (an ellipsoid in place of an interval).
    `fitted_share`: held-out rows per reference row of the fit, 0 where Q was not fitted (see `smooth_p`).
    """
    columns = [ranks(pool[:, :, j], rng) for j in range(pool.shape[2])]
    if len(columns) == 1:
        middle = 2 * np.abs(columns[0] - 0.5)  # 0: in the middle of the draws, 1: beyond all of them
        return RankCheck(smooth_p(columns[0], fitted_share), pattern(columns[0]), *_coverage(middle), columns[0])
    distances = ranks(_distances(pool), rng)
    tests = [*columns, distances]
    p = [smooth_p(u, fitted_share) for u in tests]
    worst = int(np.argmin(p))
    looks = pattern(tests[worst]) if worst < len(columns) else _spread(distances)
    return RankCheck(min(1.0, len(p) * p[worst]), looks, *_coverage(distances), distances)


def filled(values: Floats) -> Floats:
    """Missing values as one value below all others of their column (the last axis): to be missing is a value, too.

    >>> filled(np.array([[1.0], [np.nan], [3.0]])).ravel().tolist()
    [1.0, -1.0, 3.0]
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    flat = np.where(missing, np.inf, values).reshape(-1, values.shape[-1])
    low = np.where(np.isinf(flat.min(axis=0)), 0.0, flat.min(axis=0))
    high = np.where(missing, -np.inf, values).reshape(flat.shape).max(axis=0)
    return np.where(missing, low - np.maximum(high - low, 1.0), values)


def ranks(pool: Floats, rng: np.random.Generator) -> Floats:
    """Where the first of each row (n, versions) stands among the others: exactly uniform on (0, 1) if exchangeable.

    Ties are broken at random, and the rank is spread evenly over its step.

    >>> ranks(np.array([[5.0, 1, 2, 3]]), np.random.default_rng(0)).item() > 0.75
    True
    """
    below = (pool[:, 1:] < pool[:, :1]).sum(axis=1)
    ties = (pool[:, 1:] == pool[:, :1]).sum(axis=1)
    return spread_ranks(below, ties, pool.shape[1], rng)


def spread_ranks(below: Ints, ties: Ints, versions: int, rng: np.random.Generator) -> Floats:
    """The same from how many of the others lie below the first (n,) and how many are equal to it."""
    among = rng.integers(0, ties + 1) if ties.any() else 0  # one of one takes nothing from the stream
    return np.asarray((below + among + rng.random(len(below))) / versions)


def smooth_p(u: Floats, fitted_share: float = 0.0) -> float:
    """Neyman's smooth test of uniformity: the first four Legendre components (place, spread, skewness, tails).

    Their squares sum to chi-square with 4 degrees of freedom: more power than bins against what samplers get wrong.
    A place or spread learned from m rows errs as that of n held-out rows does: variances are 1 + n/m, where
    `fitted_share` is n/m. Without it a normal fitted on 300 normal rows is called wrong by 300 others too often.

    >>> smooth_p((np.arange(100) + 0.5) / 100) > 0.9
    True
    """
    from scipy.stats import chi2

    x = 2 * u - 1
    legendre = [x, (3 * x**2 - 1) / 2, (5 * x**3 - 3 * x) / 2, (35 * x**4 - 30 * x**2 + 3) / 8]
    components = [np.sqrt(2 * j + 1) * part.mean() * np.sqrt(len(u)) for j, part in enumerate(legendre, start=1)]
    return float(chi2.sf(np.sum(np.square(components)) / (1 + fitted_share), 4))


def told_apart(u: Floats, fitted_share: float = 0.0) -> tuple[float, float]:
    """AUC and p-value of a classifier, from the ranks u of its scores of held-out values among those of their draws.

    The AUC is the mean rank. One side only: a classifier worse than chance has learned nothing. It may have learned by
    how little a fit to m rows misses the truth, which is no fault: `fitted_share` as in `smooth_p`.
    """
    from scipy.stats import norm

    auc = float(u.mean())
    return auc, float(norm.sf((auc - 0.5) * np.sqrt(12 * len(u) / (1 + fitted_share))))  # a uniform has variance 1/12


def pattern(u: Floats) -> Verdict:
    """What ranks that are not uniform look like: piled at both ends, in the middle, at one end, or none of these.

    >>> pattern(np.array([0.01, 0.99] * 50)), pattern(np.full(100, 0.5)), pattern(np.full(100, 0.95))
    ('too narrow', 'too wide', 'shifted')
    """
    middle = 2 * np.abs(u - 0.5)
    place = abs(u.mean() - 0.5) * np.sqrt(12)  # both in standard deviations of a single rank
    inside = abs((middle < 0.5).mean() - 0.5) / 0.5
    return "shifted" if place > inside else _spread(middle)


def _spread(middle: Floats) -> Verdict:
    """Too few or too many values in the central parts of the draws; too few in one, too many in another: neither."""
    share = np.array([0.5, 0.9, 0.98])
    excess = (middle[:, None] < share).mean(axis=0) - share
    sd = np.sqrt(share * (1 - share))
    sure = excess[np.abs(excess) > 2 * sd / np.sqrt(len(middle))]
    if (sure > 0).any() and (sure < 0).any():
        return "off-manifold"  # two humps, or wide here and narrow there
    return "too wide" if excess[np.argmax(np.abs(excess) / sd)] > 0 else "too narrow"


def _coverage(middle: Floats) -> tuple[float, float]:
    return float((middle < 0.5).mean()), float((middle < 0.9).mean())


def _distances(pool: Floats) -> Floats:
    """Mahalanobis distance of every version from the middle of its pool, (n, versions): symmetric in the versions."""
    centred = pool - pool.mean(axis=1, keepdims=True)
    scale = centred.std(axis=(0, 1))
    centred = centred / np.where(scale > 0, scale, 1.0)
    covariance = np.einsum("nvi,nvj->ij", centred, centred) / (centred.shape[0] * centred.shape[1])
    inverse = np.linalg.pinv(covariance + 1e-6 * np.eye(len(covariance)))
    return np.asarray(np.einsum("nvi,ij,nvj->nv", centred, inverse, centred))
