"""Where an output comes from: all parts redrawn at random, together, so that every evaluation tells of all of them.

Evaluation i redraws a random set of pixels and gives y_i; x is fixed, so only these draws are random (METHODS 22).
    map     y = a - M b, kernel ridge of y on masks M (n, G), K = M S M' with S a Gaussian kernel of pixels; its length
            and the penalty by leave-one-out, e_i = (y_i - fit_i) / (1 - h_ii)
    cells   cell j is redrawn, z_ij = 1, with probability r_i by itself: its effect tau_j is the mean of y with it kept
            less that with it redrawn, over the other cells' draws, weighted by r (1 - r). With a fit g, made of other
            evaluations, psi_ij = (P b)_j + (y_i - g_i) (r_i - z_ij) / mean r (1 - r) has mean tau_j whether or not g
            is right (Robins, Rotnitzky & Zhao 1994): the map only makes it less variable.
    named   step-down max-t over all cells by the multiplier bootstrap (Romano & Wolf 2005; Chernozhukov, Chetverikov &
            Kato 2013), whose null is a mean effect of 0; and Holm on p-values of the coins z themselves, whose null is
            that the output never depends on the cell. At .025, with outputs that are skewed, max-t alone names a false
            cell in 9 of 120 runs and both in 0; else in 9 of 360 and 4 (both, other seeds: 11 of 600, where.json).
            Of 582 true cells 578 stay
    regions fresh draws, and a bet against "the mean drop is at most m" for each region (Waudby-Smith & Ramdas 2024)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.inference.moves import MIXTURE
from butfor.inference.selection import holm
from butfor.types import Bools, Floats, Ints

LENGTHS, PENALTIES = (1.0, 2.0, 3.5), (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # in cells of the map; in mean diagonals of K
SHARES = (0.2, 0.35, 0.5)  # r, of cells that are redrawn
FOLDS, BOOTSTRAP = 5, 1000
BETS = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8])  # shares of the largest stake
FEWEST = 5  # changes of an unbounded output whose spread is known


@dataclass(frozen=True, eq=False)
class Drops:
    """By how much the output falls where each pixel of the map (G,) is redrawn, and how the fit was made."""

    drop: Floats
    level: float  # a: the fitted output where nothing is redrawn
    length: float
    penalty: float
    explained: float  # share of the variance of y that leave-one-out predicts


@dataclass(frozen=True, eq=False)
class CellEffects:
    """Of each cell (m,): its mean effect, an interval that holds for all of them together, and what is sure above 0."""

    effect: Floats
    low: Floats
    high: Floats
    named: Bools


def drops(masks: Floats, y: Floats, shape: tuple[int, int]) -> Drops:
    """Return the map (G,) of shape (height, width) that `masks` (n, G), shares that are redrawn, tell of `y` (n,)."""
    mean, middle = masks.mean(axis=0), float(y.mean())
    centred, target = masks - mean, y - middle
    best: tuple[float, float, float, Floats] | None = None
    for length in LENGTHS:
        down, across = (np.exp(-0.5 * (np.subtract.outer(a, a) / length) ** 2) for a in map(np.arange, shape))
        smooth = (down @ centred.reshape(-1, *shape) @ across).reshape(len(y), -1)  # M S, a Gaussian along each side
        values, vectors = np.linalg.eigh(smooth @ centred.T)
        values, turned = np.maximum(values, 0.0), vectors.T @ target
        scale = values.mean() + 1e-12
        for penalty in PENALTIES:
            shrunk = 1 / (values + penalty * scale)
            left = (vectors @ (penalty * scale * shrunk * turned)) / np.maximum(
                1 - vectors**2 @ (values * shrunk), 1e-6
            )
            error = float(np.mean(left**2))  # leave-one-out, of all n at once
            if best is None or error < best[0]:
                best = error, length, penalty, -smooth.T @ (vectors @ (shrunk * turned))
    assert best is not None
    error, length, penalty, drop = best
    explained = 1 - error / max(float(np.var(y)), 1e-300)
    return Drops(drop, middle + float(mean @ drop), length, penalty, explained)


def cell_effects(
    masks: Floats,
    y: Floats,
    redrawn: Bools,
    shares: Floats,
    cells: Floats,
    shape: tuple[int, int],
    rng: np.random.Generator,
    alpha: float = 0.025,
) -> CellEffects:
    """Return the effects of cells: the first k of the n evaluations redrew them independently, as `redrawn` (k, m).

    `shares` (k,) are their r, `cells` (m, G) the shares of the map's pixels that each cell covers; masks (n, G).
    """
    k = len(redrawn)
    fold = rng.permutation(k) % FOLDS
    weight = (shares[:, None] - redrawn) / np.mean(shares * (1 - shares))  # mean 0: what is not redrawn counts +
    psi, others_left = np.empty(redrawn.shape), np.empty(redrawn.shape)
    for number in range(FOLDS):
        out = fold == number
        others = np.r_[~out, np.ones(len(y) - k, bool)]  # the fit must not know the evaluations that it is held against
        fit = drops(masks[others], y[others], shape)
        left = y[:k] + masks[:k] @ fit.drop
        for share in np.unique(shares):  # any constant will do; this one leaves least variance
            same = shares == share
            inside = same & ~out
            left[same] -= left[inside].mean() if inside.any() else fit.level
        drop = cells @ fit.drop
        psi[out] = drop + left[out, None] * weight[out]
        others_left[out] = left[out, None] - redrawn[out] * drop  # knows nothing of cell j under its null
    effect = psi.mean(axis=0)
    error = np.maximum(psi.std(axis=0, ddof=1) / np.sqrt(k), 1e-12)
    multipliers = rng.standard_normal((BOOTSTRAP, k))
    multipliers -= multipliers.mean(axis=1, keepdims=True)
    bootstrap = multipliers @ ((psi - effect) / error) / k * np.sqrt(k / (k - 1))
    named = step_down(effect / error, bootstrap, alpha) & holm(coin_p(others_left, redrawn, shares), alpha)
    half = np.quantile(np.abs(bootstrap).max(axis=1), 1 - 2 * alpha, method="higher") * error
    return CellEffects(effect, effect - half, effect + half, named)


def coin_p(left: Floats, redrawn: Bools, shares: Floats) -> Floats:
    """Return p (m,) of cells without effect: sums of `left` (k, m) times r - z, z a coin of probability r each.

    If the output never depends on cell j, z_ij says nothing of what is left, and the sum has this very law, whatever
    the law of the output: the tail is Lugannani & Rice's (1980) saddlepoint, exact to a few per cent. K(s) = sum of
    s w r + log(1 - r + r exp(-s w)) is its cumulant function.

    >>> z = np.random.default_rng(0).random((60, 1)) < 0.5
    >>> p = coin_p(np.where(z, 0.0, 1.0), z, np.full(60, 0.5))
    >>> bool(p[0] < 1e-6)
    True
    """
    from scipy.special import expit, ndtr

    r = shares[:, None]
    scale = np.sqrt((left**2 * r * (1 - r)).sum(axis=0)) + 1e-300
    w = left / scale
    total = (w * (r - redrawn)).sum(axis=0)
    odds = np.log(r / (1 - r))

    def slope(s: Floats) -> Floats:
        return np.asarray((w * (r - expit(odds - s * w))).sum(axis=0))

    low, high = np.zeros(len(total)), np.full(len(total), 50.0)
    for _ in range(40):  # K' rises in s
        middle = (low + high) / 2
        below = slope(middle) < total
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    s = np.maximum((low + high) / 2, 1e-6)
    chance = expit(odds - s * w)
    cumulant = (s * w * r + np.log1p(r * np.expm1(-s * w))).sum(axis=0)
    u = s * np.sqrt((w**2 * chance * (1 - chance)).sum(axis=0))
    z = np.sqrt(np.maximum(2 * (s * total - cumulant), 1e-12))
    tail = ndtr(-z) + np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (1 / np.maximum(u, 1e-12) - 1 / z)
    bound = np.exp(-(z**2) / 2)  # Chernoff's, always valid
    return np.asarray(np.where(z < 0.5, 1.0, np.clip(tail, 0.0, bound)))  # near or below 0 nothing is named anyway


def step_down(t: Floats, bootstrap: Floats, alpha: float) -> Bools:
    """Return which of the statistics t (m,) exceed the largest of those not yet rejected, bootstrap (B, m).

    >>> step_down(np.array([9.0, 0.0]), np.random.default_rng(0).normal(size=(1000, 2)), 0.05).tolist()
    [True, False]
    """
    rejected = np.zeros(len(t), bool)
    while not rejected.all():
        most = bootstrap[:, ~rejected].max(axis=1)
        new = ~rejected & (t > np.quantile(most, 1 - alpha, method="higher"))  # a tie is no discovery
        if not new.any():
            break
        rejected |= new
    return rejected


def log_capital(changes: Floats, mean: float, least: float) -> Floats:
    """Return the log-capital (n,), the largest so far, of bets that `changes` (n,), at least `least`, exceed `mean`.

    Stakes c / (mean - least) keep each factor 1 + c (x - mean) / (mean - least) above 0; the capital is the average
    over c. While the true mean is at most `mean` it ever passes 1 / alpha with probability at most alpha (Ville), for
    any distribution and whenever drawing stops. With `least` -inf it is that of Student's t with a normal mixture over
    the standardised mean (METHODS 22, `MeanChange.bounds`), which is exact for normal changes only.

    >>> bool(log_capital(np.full(9, 0.5), 0.05, -0.2)[-1] > np.log(40))
    True
    """
    if not np.isfinite(least):
        n = np.arange(1, len(changes) + 1)
        average = changes.cumsum() / n
        spread = np.maximum((changes**2).cumsum() / n - average**2, 1e-12 * (changes**2).max(initial=1e-300))
        t2 = np.maximum(average - mean, 0.0) ** 2 / spread  # t^2 / (n - 1)
        capital = n / 2 * (np.log1p(t2) - np.log1p(t2 / (1 + n * MIXTURE))) - np.log1p(n * MIXTURE) / 2
        return np.asarray(np.maximum.accumulate(np.where(n >= FEWEST, capital, 0.0)))
    factors = np.log1p(BETS[:, None] * np.maximum((changes - mean) / max(mean - least, 1e-12), -1.0))
    capital = np.logaddexp.reduce(factors.cumsum(axis=1), axis=0) - np.log(len(BETS))
    return np.asarray(np.maximum.accumulate(capital))


def mean_low(changes: Floats, least: float, alpha: float) -> float:
    """Return a lower bound of the mean of `changes` (n,), at least `least`, that holds whenever drawing stops.

    >>> round(mean_low(np.full(40, 0.5), -0.5, 0.025), 2)
    0.35
    """
    low, high = least, float(changes.max(initial=least))
    if not np.isfinite(least):
        low = float(changes.min(initial=0.0) - 1e3 * (np.ptp(changes) if len(changes) else 1.0))
    for _ in range(40):  # the capital falls in the mean
        middle = (low + high) / 2
        passed = len(changes) > 0 and log_capital(changes, middle, least)[-1] >= -np.log(alpha)
        low, high = (middle, high) if passed else (low, middle)
    return low


def nested(drop: Floats, shares: tuple[float, ...]) -> list[Ints]:
    """Return the pixels of a map (G,) with the largest drop: of each share, largest share first, one in the other."""
    order = np.argsort(-drop, kind="stable")
    return [np.sort(order[: max(1, round(share * len(drop)))]) for share in shares]
