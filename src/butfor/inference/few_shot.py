"""Few-shot competition: the observed value against a few decoys, for samplers that cost a second a draw."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Problem
from butfor.inference.statistics import (
    Evidence,
    Found,
    StatisticSpec,
    ValueSet,
    competition,
    gather,
    reduced_sets,
    share_below,
)
from butfor.types import Array, Floats


def few_shot(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int, *, shrunk: bool = False
) -> tuple[Evidence, Floats]:
    """Few-shot competition (METHODS 4): the observed value against `draws` decoys.

    Returns the evidence and the spread of each hypothesis' values but for the largest (H,). Scores are not comparable
    over inputs or subsets of very different spread: there the sequential test is the better choice, or `shrunk`.
    """
    parts = []
    spread, inner = np.zeros(problem.size), np.zeros(problem.size)
    reduce = partial(_competed, two_sided=spec.alternative == "two-sided")
    for rows, (scores, observed, classes, below, own, rest) in reduced_sets(problem, evaluator, spec, draws, reduce):
        parts.append(Found(rows, scores, observed, classes, surprise=below))
        spread[rows], inner[rows] = own, rest
    scale = _shrunk(inner, 5, draws) if shrunk else _shrunk(spread, 80, draws)
    return replace(gather("w", problem.size, draws, parts), scale=scale), inner


def _competed(part: ValueSet, two_sided: bool) -> tuple[Array, ...]:
    """Score with its label, observed value, class, share below, and the spread of all values and of all but the top."""
    statistic = part.statistic
    if two_sided:  # symmetric in the K + 1 values, so it needs no pilot
        statistic = np.abs(part.values - part.values.mean(axis=1, keepdims=True))
    label, score, rest = competition(statistic)
    below = share_below(statistic)
    return label * score, part.values[:, 0].copy(), part.classes, below, statistic.std(axis=1), rest


def _shrunk(spread: Floats, weight: int, draws: int) -> Floats:
    """What scores are divided by: the run's median spread, with a share of the hypothesis' own (H,).

    METHODS 4 divides by the median over the *input's* subsets. All of their sets hold the observed value of this one
    too, so who wins changes the divisor: with every null true, models that saturate (a probability, a maximum) then
    gave false discoveries in 30 to 95 % of runs at alpha 0.1. The hypothesis' own spread is symmetric in its K + 1
    values. Much of it (a small weight) lets subsets of any scale compete, but orders the labels of cloned features.
    """
    positive = spread[spread > 0]
    typical = float(np.median(positive)) if positive.size else 1.0
    return np.sqrt((weight * typical**2 + draws * spread**2) / (weight + draws))
