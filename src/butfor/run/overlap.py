"""Agreement with another seed: how much of the selection is the same, expected from how close each hypothesis was.

How often a draw exceeds is known of each hypothesis from its own draws only, and those that were chosen were lucky
ones: so rates are drawn from what all hypotheses of the run have in common and from its own draws (empirical Bayes).
With another seed the draws are others, so is the threshold that all of them make together, and so is the centre of a
two-sided statistic, the mean of some draws itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from butfor.results.result import Result
from butfor.results.words import Note
from butfor.streams import stream
from butfor.types import Floats, Ints

SEEDS = 40  # that are simulated
SPREAD = np.sqrt(3) / np.pi  # of a logistic distribution with a standard deviation of 1
PLACES = SPREAD * np.linspace(-5.0, 20.0, 101)  # where an observed value may stand among its draws
STEPS = 60  # of the estimate of how many stand where: more would follow chance
NODES = 9  # of the integral over the centre
LEAST = 1e-9  # rates


def overlap_note(result: Result) -> list[Note]:
    """Return how much of what is chosen another seed would choose, too; nothing where the evidence does not tell."""
    if result.record.h is None or not result.chosen.any() or result.hypotheses.layers is not None:
        return []
    return [Note("another-seed", "info", {"share": expected_overlap(result)})]


def expected_overlap(result: Result) -> float:
    """Return the share of what either of two seeds chooses that both choose: the mean over some simulated seeds."""
    evidence, record = result.evidence, result.record
    assert record.h is not None
    exceeded = np.where(evidence.draws > 0, (1 - evidence.surprise) * evidence.draws, 0.0)
    choice, shares = result.choice, []
    assert choice is not None
    again = simulated(evidence.draws, np.rint(exceeded).astype(np.int64), record.h, record.draws, record.center)
    for p in again:
        other = choice.chosen(np.where(evidence.draws > 0, p, evidence.values), result.tested)  # exact ones stay
        shares.append((result.chosen & other).sum() / max(1, (result.chosen | other).sum()))
    return float(np.mean(shares))


def simulated(draws: Ints, exceeded: Ints, h: int, most: int, center: int = 0) -> Iterator[Floats]:
    """p-values (H,) of other seeds, from draws and exceedances (H,) of a test that ends at h of these or `most` draws.

    The p-value of a hypothesis ends at h / tau unless it is chosen before, tau being the draw that exceeds for the h-th
    time: what a rule chooses by h / tau of all is what the run chooses (Fischer, Barry & Ramdas 2024). What another
    centre of `center` draws (0: there is none) does to a rate depends on the tails of the draws, which are taken to be
    logistic: between those of a normal and of an exponential distribution.

    >>> p = np.mean(list(simulated(np.array([990, 20]), np.array([0, 10]), 10, 5000)), axis=0)
    >>> bool(p[0] < 0.02 < 0.3 < p[1])
    True
    """
    rng = stream(0, "overlap", 0, 0)
    posterior, which = _places(draws, exceeded, center)
    size = len(draws)
    reach = (posterior.cumsum(axis=1) + np.arange(len(posterior))[:, None]).ravel()
    for _ in range(SEEDS):
        place = np.searchsorted(reach, which + rng.random(size)) - which * len(PLACES)
        middle = rng.standard_normal(size) / np.sqrt(center) if center else None
        rate = exceeding(PLACES[np.clip(place, 0, len(PLACES) - 1)], middle)
        last = rng.negative_binomial(h, rate) + h
        yield h / np.minimum(last, most + 1)


def exceeding(place: Floats, centre: Floats | None) -> Floats:
    """How often logistic draws are as far from the centre as a place is; without a centre, as far up.

    >>> exceeding(np.array([1.0]), np.array([0.0])).round(2), exceeding(np.array([1.0]), None).round(2)
    (array([0.28]), array([0.14]))
    """
    from scipy.special import expit

    if centre is None:
        return np.asarray(np.maximum(expit(-place / SPREAD), LEAST))
    far = np.abs(place - centre)
    return np.asarray(np.clip(expit((centre - far) / SPREAD) + expit((-centre - far) / SPREAD), LEAST, 1.0))


def _places(draws: Ints, exceeded: Ints, center: int) -> tuple[Floats, Ints]:
    """How likely a hypothesis stands at each place, for all different counts (u, places), and which is whose (H,)."""
    from scipy.special import xlog1py, xlogy

    counts = np.stack([draws, exceeded], axis=1)
    pairs, which, times = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
    drawn, hits = pairs.T[:, :, None]
    best = hits / np.maximum(drawn, 1)
    most = np.asarray(xlogy(hits, best) + xlog1py(drawn - hits, -best))  # what is far below it does not count
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES) if center else (np.zeros(1), np.ones(1))
    centres = nodes / np.sqrt(max(center, 1))
    likelihood = np.zeros((len(pairs), len(PLACES)))
    for node, weight in zip(centres, weights / weights.sum(), strict=True):
        rate = exceeding(PLACES, np.full(len(PLACES), node) if center else None)
        rate = np.minimum(rate, 1 - LEAST)
        scaled = hits * np.log(rate) + (drawn - hits) * np.log1p(-rate)
        likelihood += weight * np.exp(scaled - most)
    likelihood = np.maximum(likelihood, 1e-300)  # counts that no place fits
    common = np.full(len(PLACES), 1 / len(PLACES))
    for _ in range(STEPS):
        posterior = likelihood * common
        posterior /= posterior.sum(axis=1, keepdims=True)
        common = times @ posterior / times.sum()
    return posterior, which.reshape(-1)
