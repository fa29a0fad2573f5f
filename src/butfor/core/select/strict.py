"""Weights learned across inputs, in a form with a proof: no threshold has seen its own input (METHODS 12)."""

from __future__ import annotations

import numpy as np

from butfor.core.select.weights import FOLDS, FULL, SLACK, Learner
from butfor.core.types import Bools, Floats, InputError, Ints

LEAST_BLOCKS = 200  # with fewer the numbers that are computed without a block are too rough to find much


def strict(p: Floats, input_of: Ints, label_of: Ints, alpha: float, rng: np.random.Generator) -> Bools:
    """Chosen hypotheses (H,) by e-BH; clusters and labels are those of `learn_weights`. FDR <= alpha, proven below."""
    count = len(np.unique(input_of))
    if count < LEAST_BLOCKS:
        raise InputError(
            f"the strict adaptive rule needs at least {LEAST_BLOCKS} independent inputs (or groups), got {count}; "
            "use the rule adaptive, or bh with fewer than 20"
        )
    e = strict_e_values(p, input_of, label_of, alpha, rng)
    order = np.argsort(-e, kind="stable")
    passes = e[order] * np.arange(1, e.size + 1) * alpha * SLACK >= e.size  # e-BH: Wang & Ramdas 2022
    chosen = np.zeros(e.size, bool)
    chosen[order[: int(np.flatnonzero(passes).max(initial=-1)) + 1]] = True
    return chosen


def strict_e_values(p: Floats, input_of: Ints, label_of: Ints, alpha: float, rng: np.random.Generator) -> Floats:
    """e-values (H,); those of true nulls sum to at most m = H in expectation if blocks (clusters) are independent.

    For a block b of fold k, W are weights learned from other folds, with sum m_k over the fold; pi_b and r_b are
    computed without b. With t = alpha W r_b / (m pi_b) the e-value is e = (W / pi_b) [P <= t] / t, that is
    [P <= t] m / (alpha r_b).

    1. Given all other blocks only P is random: E[e] <= E[W / pi_b] for a true null, whatever its block's other P do.
    2. If pi_b = 1, the sum over the fold's true nulls is at most m_k. Whether it is 1, the other folds decide.
    3. Else pi_b = (2 M + S_b) / (m_k / 2): S_b sums W [P > .5] over the fold's other blocks, M is the largest sum of W
       of a block. Given the other folds, the parts of S_b are independent, in [0, M], with means u_c of at least half
       their block's null weight. 1 / x is convex: coins that give M or 0 with the same means make E[1 / (2 M + S_b)]
       largest, and that is at most E[1 / (M + S)] with S over all blocks of the fold, b too. For N a sum of independent
       coins E[1 / (1 + N)] = integral of E[s^N] over s in (0, 1) <= 1 / E[N]. So E[1 / pi_b] <= (m_k / 2) / sum of u_c
       <= m_k / (null weight of the fold), and the sum over the fold's true nulls is at most m_k again.
    4. Folds add up to m, and a sum of at most m is all that e-BH needs (compound e-values: Ignatiadis, Wang & Ramdas
       2024).
    """
    names, blocks = np.unique(input_of, return_inverse=True)
    learner, blocks = Learner(p, label_of, alpha), blocks.reshape(-1)
    fold = (rng.permutation(len(names)) % FOLDS)[blocks]
    e = np.zeros(len(p))
    for k in range(FOLDS):
        weights = _weights_without(learner, fold, k, blocks, rng)
        nulls = _nulls(p, weights, fold, k, blocks)
        count = _count_without(p / weights, nulls, fold == k, blocks, alpha)  # 0 outside the fold
        passed = (count > 0) & (p <= alpha * SLACK * weights * count / (len(p) * nulls))
        e[passed] = len(p) / (alpha * count[passed])
    return e


def _weights_without(learner: Learner, fold: Ints, k: int, blocks: Ints, rng: np.random.Generator) -> Floats:
    """Weights (H,) of fold k from all other folds, and of every other fold from those that are neither it nor k."""
    weights = np.ones(len(fold))
    for part in range(FOLDS):
        own = fold == part
        weights[own] = learner.weights((fold != k) & ~own, own, blocks, rng)
    return weights


def _nulls(p: Floats, weights: Floats, fold: Ints, k: int, blocks: Ints) -> Floats:
    """pi (H,): of fold k without the own block, of other folds as a whole; 1 if those say that it would not help."""
    high = np.where(p > 0.5, weights, 0.0)
    each = np.bincount(blocks, weights)
    most = np.array([each[np.unique(blocks[fold == part])].max() for part in range(FOLDS)])
    size, above = np.bincount(fold, minlength=FOLDS), np.bincount(fold, high, minlength=FOLDS)
    others = np.arange(FOLDS) != k
    if (2 * most[others].max() + above[others].sum()) / (size[others].sum() / 2) >= FULL:
        return np.ones(len(p))
    mine = np.where(fold == k, np.bincount(blocks, high)[blocks], 0.0)
    return np.asarray((2 * most[fold] + above[fold] - mine) / (size[fold] / 2))


def _count_without(ratio: Floats, nulls: Floats, own: Bools, blocks: Ints, alpha: float) -> Floats:
    """r_b (H,) of the fold's blocks from P / W: less than what BH chooses where the own block has no say, 0 elsewhere.

    BH chooses r, the largest with #{P / W <= alpha r / (m pi)} >= r: going down from m, the first that stands. Of other
    folds pi is their own; the whole fold of b is counted at pi_b, as the pi of its other blocks have seen b.
    """
    outside, inside = np.sort((ratio * nulls)[~own]), np.sort(ratio[own])
    count = np.full(own.sum(), float(len(ratio)))
    while True:
        reach = alpha * count / len(ratio)
        near = reach / nulls[own]
        mine = np.bincount(blocks[own], ratio[own] <= near)[blocks[own]]
        fewer = outside.searchsorted(reach, "right") + inside.searchsorted(near, "right") - mine
        if (fewer == count).all():
            break
        count = fewer
    result = np.zeros(len(ratio))
    result[own] = np.maximum(0.7 * count, count - 2.5 * np.sqrt(count))  # e-BH drops what counts on more than there is
    return result
