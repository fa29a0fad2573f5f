"""Is Q any good? Where observed values stand among their own counterfactuals, and what a wrong pattern means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.evaluation.hypotheses import Hypotheses, Job, draw
from butfor.results.result import CONDITIONAL_LEVEL
from butfor.streams import stream
from butfor.types import Bools, Floats, Ints, Subset

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
    tests = [ranks(pool[:, :, j], rng) for j in range(pool.shape[2])]
    shown, distances = tests[0], 2 * np.abs(tests[0] - 0.5)  # 0: in the middle of the draws, 1: beyond all of them
    if len(tests) > 1:
        shown = distances = ranks(_distances(pool), rng)
        tests.append(distances)
    p = [smooth_p(u, fitted_share) for u in tests]
    worst = int(np.argmin(p))
    looks = _spread(distances) if tests[worst] is distances else pattern(tests[worst])
    half, most = float((distances < 0.5).mean()), float((distances < 0.9).mean())
    return RankCheck(min(1.0, len(p) * p[worst]), looks, half, most, shown)


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

    One side only: a classifier worse than chance has learned nothing. `fitted_share` as in `smooth_p`.
    """
    from scipy.stats import norm

    auc = float(u.mean())
    return auc, float(norm.sf((auc - 0.5) * np.sqrt(12 * len(u) / (1 + fitted_share))))  # a uniform has variance 1/12


def pattern(u: Floats) -> Verdict:
    """Return the pattern of ranks that are not uniform: piled at both ends, in the middle, at one end, or none of it.

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


def _distances(pool: Floats) -> Floats:
    """Mahalanobis distance of every version from the middle of its pool, (n, versions): symmetric in the versions."""
    centred = pool - pool.mean(axis=1, keepdims=True)
    scale = centred.std(axis=(0, 1))
    centred = centred / np.where(scale > 0, scale, 1.0)
    covariance = np.einsum("nvi,nvj->ij", centred, centred) / (centred.shape[0] * centred.shape[1])
    inverse = np.linalg.pinv(covariance + 1e-6 * np.eye(len(covariance)))
    return np.asarray(np.einsum("nvi,ij,nvj->nv", centred, inverse, centred))


LEAST_VALUES = 10  # different values, real or drawn, below which a column has no tails to speak of
LEAST_DRAWS = 10  # of a row, that are not missing
WEIGHTS = {"light": 0.6, "heavy": 0.1, "lean": 0.15, "squares": 0.15}  # too light tails make false discoveries


@dataclass(frozen=True, eq=False)
class ShapeCheck:
    """How skew and tails of a column's real values differ from those of its draws: z is normal if they do not."""

    z: Floats  # (2,) above 0: real values lean further to the right than draws; they have heavier tails
    scores: Floats  # (2, rows) what each row adds

    @property
    def p(self) -> float:
        """Bonferroni's over skew and tails, each on both sides."""
        from scipy.stats import norm

        return min(1.0, 4 * float(norm.sf(np.abs(self.z).max())))

    @property
    def pattern(self) -> Verdict:
        """The verdict if it is wrong."""
        if abs(self.z[0]) >= abs(self.z[1]):
            return "wrong skew"
        return "tails too light" if self.z[1] > 0 else "tails too heavy"


def check_shape(pool: Floats, fitted_share: float = 0.0) -> ShapeCheck | None:
    """The shape of one column from its pool (rows, 1 + draws), version 0 being real; None: too few values for a shape.

    Given the versions of a row as a set, the real one is any of them with equal chance if Q is right. So the sum over
    rows of a score of the real version, less its mean over all versions, has a known law: no fit and no normal is
    taken for granted. The scores are free of place and spread (regressed on z and z^2), which a fit to few rows misses
    by a little. `fitted_share`: held-out rows per reference row, of samplers that take their shape from the reference,
    too. It is then as uncertain as that of the held-out rows, and a reference without far values does not know how far
    real ones vary: the smaller z counts, that of the draws' scatter or that of the real values' own.
    """
    rows = ~np.isnan(pool[:, 0]) & ((~np.isnan(pool)).sum(axis=1) > LEAST_DRAWS)
    rows[rows] = np.nanvar(pool[rows], axis=1) > 0
    if not rows.any() or len(np.unique(pool[rows])) < LEAST_VALUES:
        return None
    # Each version's place among all of its row, in their spread. Spreads are drawn to their mean by as much as they
    # differ by chance only: a spread of few draws blurs tails.
    middle, size = np.nanmean(pool[rows], axis=1, keepdims=True), np.log(np.nanvar(pool[rows], axis=1, keepdims=True))
    by_chance = 2 / (pool.shape[1] - 1)  # variance of the logarithm of a variance, normal draws
    differ = float(size.var())
    kept = max(0.0, 1 - by_chance / differ) if differ > 0 else 0.0
    z = (pool[rows] - middle) / np.exp((size.mean() + kept * (size - size.mean())) / 2)
    here = ~np.isnan(z)
    weights = here / here.sum(axis=1, keepdims=True)
    z = np.where(here, z, 0.0)
    basis = np.stack([np.ones(z.size), z.ravel(), (z**2).ravel()])
    gram = (basis * weights.ravel()) @ basis.T
    deviates, scores = np.zeros(2), np.zeros((2, len(pool)))
    for k, score in enumerate((z**3 / (1 + z**2 / 2), -np.log1p(z**2 / 8))):  # both bend: one row cannot decide
        slopes = np.linalg.lstsq(gram, (basis * weights.ravel()) @ score.ravel(), rcond=None)[0]
        left = score - (slopes @ basis).reshape(z.shape)  # without its part in z and z^2
        centred = (left - (left * weights).sum(axis=1, keepdims=True)) * (weights > 0)
        deviates[k] = deviate(centred, weights)
        scores[k, rows] = centred[:, 0]
    if fitted_share > 0:
        by_scores = scores.sum(axis=1) / np.sqrt(np.maximum((scores**2).sum(axis=1), 1e-300))
        deviates = np.where(np.abs(by_scores) < np.abs(deviates), by_scores, deviates) / np.sqrt(1 + fitted_share)
    return ShapeCheck(deviates, scores)


def deviate(centred: Floats, weights: Floats) -> float:
    """The sum of the first of each row as a normal deviate, where each is one of its row by chance (`weights`).

    The signed root r* of Barndorff-Nielsen (1986) of the exact cumulant generating function: right far out in the
    tails of skewed sums, where the normal is not.

    >>> rows = np.random.default_rng(0).normal(size=(100, 20))
    >>> abs(deviate(rows - rows.mean(axis=1, keepdims=True), np.full((100, 20), 1 / 20))) < 3
    True
    """
    variance = float((weights * centred**2).sum())
    if variance <= 1e-12 * max(1.0, float(np.abs(centred).max()) ** 2):
        return 0.0
    y = centred / np.sqrt(variance)
    total = float(y[:, 0].sum())
    skewness = float((weights * y**3).sum())
    if abs(total) < 0.5:
        return total - skewness * (total**2 - 1) / 6  # Cornish and Fisher; r* is a quotient of small numbers here

    def cumulants(t: float) -> tuple[float, float, float]:
        """K(t) = sum over rows of log mean exp(t y), and its first two derivatives."""
        tilted = weights * np.exp(t * y)
        mass = tilted.sum(axis=1)
        first = (tilted * y).sum(axis=1) / mass
        second = (tilted * y**2).sum(axis=1) / mass - first**2
        return float(np.log(mass).sum()), float(first.sum()), float(second.sum())

    # t at which K'(t) is the total: Newton's steps inside a bracket, since K' rises; large where there is none
    inner, outer, t = 0.0, float(np.sign(total)) * 30.0 / float(np.abs(y).max()), total
    for _ in range(40):
        if not min(inner, outer) < t < max(inner, outer):
            t = (inner + outer) / 2
        _, slope, curve = cumulants(t)
        if abs(slope - total) < 1e-4:
            break
        if abs(slope) < abs(total):
            inner = t
        else:
            outer = t
        t += (total - slope) / max(curve, 1e-9)
    value, _, curve = cumulants(t)
    root = float(np.sqrt(max(2 * (t * total - value), 0.01)))
    away = root + float(np.log(max(abs(t) * np.sqrt(curve), 1e-3 * root) / root)) / root
    return float(np.sign(total)) * max(away, 0.0)


def pooled_shape(checks: Sequence[ShapeCheck]) -> tuple[Verdict, float]:
    """Return a verdict on the shape of all columns together, and p: a fault too small to be seen in any one of them.

    Bonferroni's, weighted, over the sum of the tails' z on either side, the sum of the skews' z, and the sum of their
    squares. Columns of one row hang together: variances come from the correlations of what the rows add.
    """
    from scipy.stats import chi2, norm

    if len(checks) < 2:
        return "ok", 1.0  # one column speaks for itself
    skew, tails = np.array([check.z for check in checks]).T
    alike = [_correlations(np.array([check.scores[k] for check in checks])) for k in (0, 1)]
    lean, tail = (z.sum() / np.sqrt(max(len(z), r.sum())) for z, r in zip((skew, tails), alike, strict=True))
    stretch = (alike[0] ** 2).sum() / len(skew)  # Satterthwaite: squares of correlated normals
    p = {
        "light": norm.sf(tail),
        "heavy": norm.cdf(tail),
        "lean": 2 * norm.sf(abs(lean)),
        "squares": chi2.sf((skew**2).sum() / stretch, len(skew) / stretch),
    }
    least = min(p, key=lambda name: p[name] / WEIGHTS[name])
    patterns: dict[str, Verdict] = {"light": "tails too light", "heavy": "tails too heavy"}
    return patterns.get(least, "wrong skew"), min(1.0, float(p[least] / WEIGHTS[least]))


def _correlations(scores: Floats) -> Floats:
    """Of columns (columns, rows); a column that never varies goes with none."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    size = np.sqrt((centred**2).sum(axis=1))
    scaled = centred / np.where(size > 0, size, 1.0)[:, None]
    deviates = scaled @ scaled.T
    np.fill_diagonal(deviates, 1.0)
    return np.asarray(deviates)


RANK_PARTS, RANK_TREES, LEAST_LEAF, RANK_DRAWS = 4, 30, 5, 49
MOST_RANKED = 1_000  # rows: more would flag what does no harm
LEAST_RANKED = 40  # rows, below which trees learn nothing
RIDGE = 0.01  # of the variance of a column


@dataclass(frozen=True, eq=False)
class ConditionalFaults:
    """Whether ranks among draws can be predicted from the columns outside of each subset (METHODS 18 b)."""

    p: Floats  # (S,) Bonferroni's over the columns of a subset
    told_by: Ints  # (S,) the column (position in the table) that predicts the ranks best; -1: none

    @property
    def calibrated(self) -> Bools:
        """Subsets (S,) without a fault, all of them together at .05."""
        return np.asarray(self.p * len(self.p) > CONDITIONAL_LEVEL)


def conditional_faults(
    rows: Floats,
    subsets: Sequence[Subset],
    ranks_of: Callable[[Subset], tuple[Ints, Floats] | None],
    seed: int,
    fitted_share: float = 0.0,
    clusters: Ints | None = None,
) -> ConditionalFaults:
    """Return whether the draws of each subset follow how it depends on the other columns; the model is not evaluated.

    `ranks_of` gives rows (positions in `rows`, (m, d)) that the fit of a subset has not seen, and the rank of each of
    its columns among the draws (rows, columns), as `held_out_ranks` of a sampler does; None where there are none.
    `fitted_share` as in `smooth_p`: 0 for leave-one-out fits. Of a cluster of rows (`clusters`, (m,)) one is looked at.
    """
    values = filled(rows)
    p, told_by = np.ones(len(subsets)), np.full(len(subsets), -1)
    for k, subset in enumerate(subsets):
        rest = np.setdiff1d(np.arange(rows.shape[1]), subset.index)
        known = ranks_of(subset) if rest.size else None
        if known is None:
            continue
        rng = stream(seed, "conditional control", subset.key)
        some = rng.permutation(len(known[0]))
        if clusters is not None:
            some = some[np.unique(clusters[known[0][some]], return_index=True)[1]]
        if len(some) >= LEAST_RANKED:
            some = some[:MOST_RANKED]
            p[k], at = conditional_fault(values[np.ix_(known[0][some], rest)], known[1][some], rng, fitted_share)
            told_by[k] = rest[at]
    return ConditionalFaults(p, told_by)


def conditional_fault(
    rest: Floats, u: Floats, rng: np.random.Generator, fitted_share: float = 0.0
) -> tuple[float, int]:
    """Return a p-value of ranks u (n, columns) being independent of `rest` (n, d), and the column that tells them best.

    Rows are dealt into four parts, and the ranks of each are predicted by trees that have seen the parts before it: the
    predictions are fixed, so that their products with u, and with |u - 1/2|, have the moments of a permutation within
    the part. (Under cross-validation each pair of rows counts twice, and standard deviations are 1.2 to 1.4.) A fit is
    off by chance along its own columns, in one direction for all rows that it has not seen: predictions of u are taken
    free of the linear part, and that is an F test of its own, with variances of 1 + n/m (`fitted_share`, see
    `smooth_p`).

    >>> rng = np.random.default_rng(0)
    >>> rest, u = rng.normal(size=(300, 2)), rng.random((300, 1))
    >>> conditional_fault(rest, u, rng)[0] > 0.01
    True
    >>> follows = np.where(rest[:, :1] * rest[:, 1:] > 0, u / 2, 1 - u / 2)  # an interaction that the draws lack
    >>> conditional_fault(rest, follows, rng)[0] < 0.001
    True
    """
    from scipy.stats import f, norm

    n, count = u.shape
    u = np.where(np.isnan(u), rng.random(u.shape), u)  # what has no rank says nothing
    targets = np.concatenate([u, np.abs(u - 0.5)], axis=1)
    sd = rest.std(axis=0)
    scaled = (rest - rest.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    total, variance = np.zeros(2 * count), np.full(2 * count, 1e-300)
    parts = np.array_split(rng.permutation(n), RANK_PARTS)
    for k in range(1, RANK_PARTS):
        seen, judged = np.concatenate(parts[:k]), parts[k]
        leaf = max(LEAST_LEAF, len(seen) // 40)
        predicted, importance = _extra_trees(
            scaled[seen], targets[seen], scaled[judged], leaf, int(rng.integers(2**31))
        )
        predicted -= predicted.mean(axis=0)
        z = scaled[judged] - scaled[judged].mean(axis=0)
        gram = z.T @ z + RIDGE * len(z) * np.eye(z.shape[1])
        predicted[:, :count] -= z @ np.linalg.solve(gram, z.T @ predicted[:, :count])
        real = targets[judged] - targets[judged].mean(axis=0)
        total += (predicted * real).sum(axis=0)
        variance += (predicted**2).sum(axis=0) * (real**2).sum(axis=0) / (len(z) - 1)
    p = norm.sf(total / np.sqrt(variance * (1 + fitted_share)))  # one side: predictions worse than none found nothing
    told_by = int(importance.argmax())
    left, singular, _ = np.linalg.svd(scaled, full_matrices=False)
    basis = left[:, singular > 1e-6 * singular.max(initial=1e-6)]  # (n, rank)
    along = ((basis.T @ (u - u.mean(axis=0))) ** 2).sum(axis=0)
    freedom = n - basis.shape[1] - 1
    if freedom >= LEAST_LEAF and basis.shape[1]:
        beside = np.maximum(((u - u.mean(axis=0)) ** 2).sum(axis=0) - along, 1e-300)
        linear = f.sf(along / basis.shape[1] * freedom / beside / (1 + fitted_share), basis.shape[1], freedom)
        if linear.min() < p.min():
            told_by = int(np.abs(scaled.T @ (u[:, linear.argmin()] - 0.5)).argmax())
        p = np.append(p, linear)
    return min(1.0, float(len(p) * p.min())), told_by


def _extra_trees(seen: Floats, targets: Floats, judged: Floats, leaf: int, seed: int) -> tuple[Floats, Floats]:
    """Return predictions of `judged`, and the importance of columns: ExtraTreesRegressor without copies and checks."""
    from sklearn import config_context
    from sklearn.tree import ExtraTreeRegressor
    from sklearn.utils import check_random_state

    known, wanted = np.ascontiguousarray(seen, np.float32), np.ascontiguousarray(judged, np.float32)
    seeds = check_random_state(seed).randint(2**31 - 1, size=RANK_TREES).tolist()
    predicted, importance = np.zeros((len(judged), targets.shape[1])), [np.zeros(seen.shape[1])]
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for one in seeds:
            tree = ExtraTreeRegressor(min_samples_leaf=leaf, max_features=1 / 3, random_state=one)
            tree.fit(known, targets, check_input=False)
            predicted += tree.tree_.value[tree.tree_.apply(wanted), :, 0]
            importance.append(tree.tree_.compute_feature_importances())
    return predicted / RANK_TREES, np.sum(importance, axis=0)


def draw_ranks(hypotheses: Hypotheses, subset: Subset) -> Floats:
    """Return the ranks (n, columns) of a table's rows among 49 draws of each; NaN where a value is missing."""
    rng = stream(hypotheses.seed, "ranks", subset.key)
    jobs = [Job(block, RANK_DRAWS, "ranks") for block in hypotheses.blocks if block.subset.name == subset.name]
    pool = np.concatenate([draw(hypotheses, job).values for job in jobs]).astype(np.float64)
    pool = pool.reshape(len(hypotheses.items), RANK_DRAWS + 1, -1)
    u = np.stack([ranks(pool[:, :, k], rng) for k in range(pool.shape[2])], axis=1)
    return np.where(np.isnan(pool[:, 0]), np.nan, u)
