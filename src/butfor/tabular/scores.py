"""How close draws come to real values, by proper scores: CRPS, energy score, log score; each beside the margin's."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from butfor.core.types import Bools, Floats, Ints

SHIFTS = 8  # pairs of draws (k, k + 1) ... (k, k + 8) stand for all pairs of them
NONE = float("nan")


@dataclass(frozen=True)
class Scores:
    """Scores of one subset, the smaller the better, and those of the column's own margin; NaN where there are none.

    Parameters
    ----------
    crps : CRPS of the draws over the column's standard deviation; of several columns the energy score.
    crps_margin : the same of a draw that knows nothing of the rest of the row.
    log_score : mean -log Q(observed) of what has no distances: categories, yes and no, listed values.
    log_margin : the same of the margin.
    """

    crps: float = NONE
    crps_margin: float = NONE
    log_score: float = NONE
    log_margin: float = NONE

    @property
    def explained(self) -> float:
        """The share of the margin's score that the rest of the row takes away: 0 tells nothing, 1 tells all."""
        pairs = ((self.log_score, self.log_margin), (self.crps, self.crps_margin))
        return next((1 - own / margin for own, margin in pairs if margin > 0), NONE)  # NaN is not above 0


def score_draws(pool: Floats, levels: Bools, listed: Floats | None = None) -> Scores:
    """The scores of one subset from its pool (rows, 1 + draws, columns), version 0 being real; NaN is missing.

    The margin's are those of a held-out row against all the others, so both are without the row's own value.

    Parameters
    ----------
    pool : real values and their draws.
    levels : (columns,) whether a column has levels (categories, yes and no) and no distances.
    listed : (rows,) probability of the real value, where the sampler lists it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known = rng.normal(size=(200, 1, 1))  # what the rest of the row tells
    >>> found = score_draws(known + 0.5 * rng.normal(size=(200, 100, 1)), np.array([False]))
    >>> found.explained > 0.4  # the noise is half as wide as what is known
    True
    """
    found = Scores()
    if listed is not None or levels.all():
        score, margin = _log_scores(pool, listed)
        found = replace(found, log_score=score, log_margin=margin)
    if not levels.all():
        score, margin = crps(pool[:, :, 0]) if pool.shape[2] == 1 else energy(pool, levels)
        found = replace(found, crps=score, crps_margin=margin)
    return found


def crps(pool: Floats) -> tuple[float, float]:
    """Mean CRPS of draws for their real value (rows, 1 + draws), and that of the margin, over its standard deviation.

    E|X - y| - E|X - X'| / 2 with pairs of different draws: as if there were any number of them. Rows without a real
    value are left out, and so are draws that are missing: how often they are is a matter of ranks.
    """
    real = pool[~np.isnan(pool[:, 0]), 0]
    draws = pool[~np.isnan(pool[:, 0]), 1:]
    kept = (~np.isnan(draws)).sum(axis=1) >= 2
    sd = float(real.std()) if len(real) > 1 else 0.0
    if sd == 0 or not kept.any():
        return NONE, NONE
    draws, values = draws[kept], real[kept]
    near = np.nanmean(np.abs(draws - values[:, None]), axis=1)
    return float((near - _half_apart(draws)).mean()) / sd, float(_half_apart(real[None])[0]) / sd


def _half_apart(values: Floats) -> Floats:
    """Half the mean distance of two different values of each row, (rows,); NaN is left out.

    >>> _half_apart(np.array([[0.0, 2.0, np.nan], [0.0, 1.0, 2.0]])).round(3).tolist()
    [1.0, 0.667]
    """
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = (~np.isnan(values)).sum(axis=1, keepdims=True)
    weight = 2 * np.arange(values.shape[1]) + 1 - count
    return np.asarray(np.nansum(weight * ordered, axis=1) / (count * (count - 1))[:, 0])


def energy(pool: Floats, levels: Bools) -> tuple[float, float]:
    """Energy score of draws of several columns, and that of the margin, on columns of standard deviation 1."""
    held = [column[~np.isnan(column)] for column in pool[:, 0].T]
    sd = np.array([column.std() if len(column) else 0.0 for column in held])
    scaled = pool / np.where(levels | (sd == 0), 1.0, sd)
    real, draws = scaled[:, 0], scaled[:, 1:]
    near = _distance(draws, real[:, None], levels).mean()
    shifts = range(1, min(SHIFTS, draws.shape[1] - 1) + 1)
    apart = np.mean([_distance(draws, np.roll(draws, k, axis=1), levels).mean() for k in shifts])
    rows = np.mean([_distance(real, np.roll(real, k, axis=0), levels).mean() for k in range(1, len(real) // 2 + 1)])
    return float(near - apart / 2), float(rows / 2)


def _distance(a: Floats, b: Floats, levels: Bools) -> Floats:
    """Of rows (..., columns): levels that differ, and a missing value from one that is not, are 1 apart."""
    apart = np.where(levels, a != b, np.abs(a - b))
    missing = np.isnan(a).astype(np.int64) + np.isnan(b)
    return np.asarray(np.sqrt((np.where(missing > 0, missing == 1, apart) ** 2).sum(axis=-1)))


def _log_scores(pool: Floats, listed: Floats | None) -> tuple[float, float]:
    """Mean -log of the probability of the real levels, from draws or a list, and from the other rows' levels.

    One more draw is spread evenly over the levels that were seen: what was never drawn is not impossible.
    """
    codes = _codes(pool)  # (rows, 1 + draws)
    rows, draws, seen = len(codes), codes.shape[1] - 1, int(codes.max()) + 1
    own = (codes[:, 1:] == codes[:, :1]).sum(axis=1) if listed is None else draws * listed
    others = np.bincount(codes[:, 0])[codes[:, 0]] - 1
    score, margin = -np.log((own + 1 / seen) / (draws + 1)), -np.log((others + 1 / seen) / rows)
    return float(score.mean()), float(margin.mean())


def _codes(pool: Floats) -> Ints:
    """Each row of values (..., columns) as one number; missing is a level, too."""
    found = np.zeros(pool.shape[:2], dtype=np.int64)
    for k in range(pool.shape[2]):
        _, code = np.unique(pool[:, :, k], return_inverse=True)  # all NaN are one
        code = code.reshape(found.shape)
        _, joint = np.unique(found * (code.max() + 1) + code, return_inverse=True)
        found = joint.reshape(found.shape)
    return found
