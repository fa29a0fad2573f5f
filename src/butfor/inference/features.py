"""One decision per subset over all inputs: does it set these inputs apart from the reference? (METHODS 7)"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.evaluation.hypotheses import Layers, Problem
from butfor.inference.effects import Estimates
from butfor.inference.selection import select
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
    """Of each subset (S,): what it does on average over the inputs, and whether that is established."""

    effect: Floats
    low: Floats
    high: Floats
    p: Floats
    chosen: Bools
    inputs: Ints  # that it was estimated on


def features(
    problem: Problem,
    estimates: Estimates,
    fit: Fit | None,
    alpha: float,
    clusters: Ints,
    calibrated: Bools | None = None,
    off: Floats | None = None,
) -> Features | None:
    """z = mean D / sqrt(s_D^2 / n + V_fit) with Student's t (Satterthwaite), BH over the subsets of a resolution.

    D is the statistic of an input minus the mean over its draws. The fit's own error adds up over inputs: V_fit is the
    leverage of the mean input times the mean variance of the draws' statistic, of which the linear part, that alone
    moves with the fitted mean, is at most all. Without a fit (`None`: the sampler is known) it is 0. A sampler that
    does not suit the columns is off even where inputs are as the reference: what D is on average over rows of the
    reference that it has not seen (`off`, (S,)), squared, is added, but for all columns together, whose draws are rows
    of the reference. s_D is no less than the draws' spread: of an output that is rarely other than 0 a few inputs may
    have seen nothing. The mean of inputs that depend on each other (`clusters`, (n,)) is that of their clusters.
    Approximate: it rests on the central limit theorem; None with fewer than 20 clusters or rows of the reference.
    """
    count, size = len(problem.items), len(problem.subset_names)
    _, cluster = np.unique(clusters, return_inverse=True)
    number = int(cluster.max(initial=-1)) + 1
    few = fit is not None and fit.rows < LEAST_ROWS
    if number < LEAST_INPUTS or few or problem.size != count * size:
        return None
    gain, spread = estimates.gain.reshape(count, size), estimates.spread.reshape(count, size)
    mean = gain.mean(axis=0)
    sums = np.array(
        [np.bincount(cluster, weights=column - centre) for column, centre in zip(gain.T, mean, strict=True)]
    )
    noise = (sums**2).sum(axis=1) * number / (number - 1) / count**2  # variance of the mean, clusters apart
    if fit is not None:  # under the null an input scatters as its draws do, though few may not show what is rare
        noise = np.maximum(noise, spread.mean(axis=0) / number)
    resolution = np.zeros(size, np.int64) if problem.layers is None else problem.layers.resolution[:size]
    error = np.zeros(size) if fit is None else fit.mean_leverage * spread.mean(axis=0)
    if fit is not None and off is not None:
        whole = (resolution == 0) & (problem.layers is not None)
        error += np.where(whole, 0.0, off**2)
    p, half = _student(mean, noise, error, number - 1, np.inf if fit is None else fit.rows - 1)
    tested = np.isfinite(p) & (np.ones(size, bool) if calibrated is None else calibrated)
    chosen = _chosen(problem, p, tested, alpha, calibrated)
    return Features(mean, mean - half, mean + half, p, chosen, np.full(size, count))


def _chosen(problem: Problem, p: Floats, tested: Bools, alpha: float, calibrated: Bools | None) -> Bools:
    """BH over the subsets of a resolution; of several resolutions from the largest subsets to their parts.

    A part whose larger subset is not chosen, since noise of the others drowns it there, counts if it stands out among
    all subsets of the tree (Bonferroni at a tenth of alpha, which the rest goes without): at every resolution the share
    of false ones is at most .9 alpha and the chance of any of these .1 alpha.
    """
    size = len(p)
    if problem.layers is None:
        return select(p, alpha, "bh", tested)
    resolution, parent = problem.layers.resolution[:size], problem.layers.parent[:size]  # those of the first input

    def choose(level: Bools, reached: Bools) -> Bools:  # what is no part of something chosen counts as p = 1
        return select(np.where(tested & reached, p, 1.0), (1 - ALONE) * alpha, "bh", tested & level)

    chosen = Layers(resolution, parent).top_down(choose, None if calibrated is None else ~calibrated)
    return np.asarray(chosen | (tested & (p * tested.sum() <= ALONE * alpha)))


def _student(mean: Floats, noise: Floats, error: Floats, first: float, second: float) -> tuple[Floats, Floats]:
    """Two-sided p-values and half the widths of 95 % intervals (S,), with Satterthwaite's degrees of freedom."""
    from scipy.special import stdtr, stdtrit

    variance = noise + error
    known = variance > 0
    freedom = np.where(known, variance, 1.0) ** 2 / np.maximum(noise**2 / first + error**2 / second, 1e-300)
    deviation = np.sqrt(np.where(known, variance, np.nan))
    p = np.where(known, 2 * stdtr(freedom, -np.abs(mean) / deviation), 1.0)  # what never varies sets nothing apart
    return p, np.where(known, stdtrit(freedom, 0.975) * deviation, 0.0)
