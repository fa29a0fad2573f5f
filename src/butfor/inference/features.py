"""One decision per subset over all inputs: does it set these inputs apart from the reference? (METHODS 7)

    D_i = t_i - mean of t~ over the draws of input i;   z = mean D / sqrt(s_D^2 / n + V_fit), Student's t with
    Satterthwaite's degrees of freedom;   BH over the subsets of a resolution

The fit's own error is shared by all inputs: V_fit is the leverage of the mean input times the mean variance of the
draws' statistic, an upper bound, since only its linear part moves with the fitted mean. Approximate: it rests on the
central limit theorem and on the form of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.inference.effects import Estimates
from butfor.inference.selection import Choice, Layers
from butfor.types import Bools, Floats, Ints

ALONE = 0.1  # of alpha: for what stands out by itself among all subsets of all resolutions
LEAST_INPUTS = LEAST_ROWS = 20  # inputs, and rows of the reference: the normal approximation needs them


@dataclass(frozen=True, eq=False)
class Fit:
    """How well the sampler's fit is known, by subset (S,) or hypothesis (H,)."""

    rows: int  # of the reference
    mean_leverage: Floats  # (S,) variance of the fitted mean at the mean input, in units of the residual variance
    leverage: Floats  # (H,) the same at each input


@dataclass(frozen=True, eq=False)
class Features:
    """Of each subset (S,): its mean effect over the inputs with a 95 % interval, p, q, and whether it is chosen."""

    effect: Floats
    low: Floats
    high: Floats
    p: Floats
    q: Floats  # the least alpha at which it would be chosen
    chosen: Bools
    inputs: Ints  # that it was estimated on


def features(
    estimates: Estimates,
    layers: Layers | None,
    fit: Fit | None,
    alpha: float,
    clusters: Ints,
    calibrated: Bools | None = None,
    off: Floats | None = None,
) -> Features | None:
    """Return the decision for every subset; None with fewer than 20 clusters of inputs or rows of the reference.

    Hypotheses are inputs x subsets, input by input; `layers` are those of the subsets (S,). Without a `fit` (a sampler
    that is known) V_fit is 0. A sampler that does not suit the columns is off even where inputs are as the reference:
    what D is on average over rows of the reference that it has not seen (`off`, (S,)), squared, is added, but for all
    columns together, whose draws are rows of the reference. s_D is no less than the draws' spread: of an output that is
    rarely other than 0 a few inputs may have seen nothing. The mean of inputs that depend on each other (`clusters`,
    (n,)) is that of their clusters.
    """
    count = len(clusters)
    size = len(estimates.gain) // max(count, 1)
    _, cluster = np.unique(clusters, return_inverse=True)
    number = int(cluster.max(initial=-1)) + 1
    if number < LEAST_INPUTS or (fit is not None and fit.rows < LEAST_ROWS) or len(estimates.gain) != count * size:
        return None
    gain, spread = estimates.gain.reshape(count, size), estimates.spread.reshape(count, size).mean(axis=0)
    mean = gain.mean(axis=0)
    sums = np.array(
        [np.bincount(cluster, weights=column - centre) for column, centre in zip(gain.T, mean, strict=True)]
    )
    noise = (sums**2).sum(axis=1) * number / (number - 1) / count**2  # variance of the mean, clusters apart
    error = np.zeros(size)
    if fit is not None:  # under the null an input scatters as its draws do, though few may not show what is rare
        noise = np.maximum(noise, spread / number)
        error = fit.mean_leverage * spread
        if off is not None:
            root = np.zeros(size, bool) if layers is None else layers.resolution == 0
            error += np.where(root, 0.0, off**2)
    p, half = _student(mean, noise, error, number - 1, np.inf if fit is None else fit.rows - 1)
    tested = np.isfinite(p) & (np.ones(size, bool) if calibrated is None else calibrated)
    q = _least_alpha(layers, p, tested, alpha, calibrated)
    return Features(mean, mean - half, mean + half, p, q, q <= alpha, np.full(size, count))


def _least_alpha(layers: Layers | None, p: Floats, tested: Bools, alpha: float, calibrated: Bools | None) -> Floats:
    """The least alpha (S,) for BH over the subsets of a resolution; of several from the largest subsets to their parts.

    A part whose larger subset is not chosen, since noise of the others drowns it there, counts if it stands out among
    all subsets of the tree (Bonferroni at a tenth of alpha, which the rest goes without): at every resolution the share
    of false ones is at most .9 alpha and the chance of any of these .1 alpha.
    """
    if layers is None:
        return Choice("bh", alpha).least_alpha(p, tested)
    share = 1 - ALONE
    in_tree = Choice("bh", share * alpha, layers=layers, calibrated=calibrated).least_alpha(p, tested)
    by_tree = np.where(in_tree == share * alpha, alpha, np.minimum(in_tree / share, 1.0))  # without rounding at alpha
    return np.minimum(by_tree, np.where(tested, p * tested.sum() / ALONE, np.nan))


def _student(mean: Floats, noise: Floats, error: Floats, first: float, second: float) -> tuple[Floats, Floats]:
    """Two-sided p-values and half the widths of 95 % intervals (S,), with Satterthwaite's degrees of freedom."""
    from scipy.special import stdtr, stdtrit

    variance = noise + error
    known = variance > 0
    freedom = np.where(known, variance, 1.0) ** 2 / np.maximum(noise**2 / first + error**2 / second, 1e-300)
    deviation = np.sqrt(np.where(known, variance, np.nan))
    p = np.where(known, 2 * stdtr(freedom, -np.abs(mean) / deviation), 1.0)  # what never varies sets nothing apart
    return p, np.where(known, stdtrit(freedom, 0.975) * deviation, 0.0)
