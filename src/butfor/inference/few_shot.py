"""Few-shot competition: the observed value against a few decoys, for samplers of which a draw costs much (METHODS 4).

    V = {t, t~_1, ..., t~_K};  label +1 if t is the unique maximum, -1 if a draw is, 0 for a tied top
    W = max V - mean of the rest, divided by `score_scale`;  selective SeqStep+ on label * W   (selection.seqstep)

Scores are not comparable over inputs or subsets of very different spread: there the sequential test is the better
choice, or scale="shrunk".
"""

from __future__ import annotations

import numpy as np

from butfor.inference.statistics import ValueSet, share_below
from butfor.types import Array, Floats, Ints


def competition(statistic: Floats) -> tuple[Ints, Floats, Floats]:
    """Return who has the largest of the K + 1 values, by how much, and the spread of the others.

    The label is +1 for the observed, -1 for a draw, 0 for a tied top (which drops the hypothesis); the score is the
    maximum minus the mean of the rest. Score and spread are symmetric in the K + 1 values: the label stays a fair
    (K + 1)-sided coin given them.
    """
    top = statistic.max(axis=1)
    is_top = statistic == top[:, None]
    unique = is_top.sum(axis=1) == 1
    label = np.where(unique, np.where(is_top[:, 0], 1, -1), 0)
    score = top - (statistic.sum(axis=1) - top) / (statistic.shape[1] - 1)
    inner = np.sort(statistic, axis=1)[:, :-1]
    return label, np.where(unique, score, 0.0), inner.std(axis=1)


def competed(part: ValueSet, two_sided: bool) -> tuple[Array, ...]:
    """Return labelled score, observed value, class, share below, spread of all values and of all but the top (n,)."""
    statistic = part.statistic
    if two_sided:  # symmetric in the K + 1 values, so it needs no pilot
        statistic = np.abs(part.values - part.values.mean(axis=1, keepdims=True))
    label, score, inner = competition(statistic)
    return label * score, part.values[:, 0].copy(), part.classes, share_below(statistic), statistic.std(axis=1), inner


def score_scale(spread: Floats, draws: int, *, weight: int) -> Floats:
    """Return what scores are divided by: the run's median spread, with a share of the hypothesis' own (H,).

    Not by the median over the *input's* subsets: all of their sets hold the observed value of this one too, so who wins
    changes the divisor: with every null true, models that saturate (a probability, a maximum) then gave false
    discoveries in 30 to 95 % of runs at alpha 0.1. The hypothesis' own spread is symmetric in its K + 1 values. Much of
    it (a small weight) lets subsets of any scale compete, but sorts together the labels of copied features.
    """
    positive = spread[spread > 0]
    typical = float(np.median(positive)) if positive.size else 1.0
    return np.sqrt((weight * typical**2 + draws * spread**2) / (weight + draws))
