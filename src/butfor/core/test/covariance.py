"""Holdout test for a sampler that was fitted: does the prediction move with what is left of the label?

The loss of a label y splits into a part that goes with y and one that does not. Squared: (y - f)^2 = (y - m)^2 -
2 (y - m)(f - m) + (f - m)^2 with m the mean of f over the K + 1 versions of an input. Only the middle part tells
whether y follows the feature; the last one grows with the spread of the draws, whatever y does, so that a Q that is a
little too wide looks like skill. The same holds of the log loss, with log-probabilities for f. So the statistic is
sum_i r_i (f_i - m_i), r the label less m and less its regression on the rest of the row: a Q whose mean is a little off
does harm only as far as that regression is off as well (after the generalised covariance measure of Shah & Peters
2020). r is a function of labels, rests of rows and unordered versions, so with the true Q p is exactly valid, as in
`contrast`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.draw.streams import stream
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.outputs import Rounding
from butfor.core.test.contrast import (
    GlobalEvidence,
    Measure,
    gain,
    p_passes,
    pass_sums,
    settled,
    subset_parts,
    subset_place,
)
from butfor.core.types import Floats, Ints

Rest = Callable[[int, Floats, Floats], Floats]  # subset, labels less predictions (n, C), predictions -> what is left


@dataclass(frozen=True, eq=False)
class LabelScore:
    """What a loss compares: labels as numbers, and outputs as predictions of them and on the scale of the loss."""

    truth: Floats  # (inputs, C)
    predicted: Callable[[Floats], Floats]  # outputs (n, versions, outputs) -> (n, versions, C)
    scale: Callable[[Floats], Floats]  # predictions -> (n, versions, C)


def squared_score(y: Floats) -> LabelScore:
    """Of (y - output)^2: the label and the output as they are."""
    return LabelScore(y[:, None], np.asarray, np.asarray)


def log_score(labels: Ints, outputs: int) -> LabelScore:
    """Of -log of the label's probability; a single output is the probability of label 1.

    >>> log_score(np.array([1, 0]), 1).truth
    array([[0., 1.],
           [1., 0.]])
    """
    truth = np.eye(max(outputs, 2))[labels]
    tiny = np.finfo(np.float64).eps

    def predicted(given: Floats) -> Floats:
        return np.concatenate([1 - given, given], axis=2) if outputs == 1 else given

    return LabelScore(truth, predicted, lambda chance: np.log(np.maximum(chance, tiny)))


def randomise_covariance(
    problem: Problem,
    evaluator: Evaluator,
    measure: Measure,
    score: LabelScore,
    rounding: Rounding,
    rest: Rest,
    draws: int,
    passes: int,
) -> GlobalEvidence:
    """The test of every subset; `statistic` and `difference` are those of the loss (`measure`), for show."""
    size = len(problem.subset_names)
    p, varied, statistic, difference = np.ones(size), np.zeros(size, bool), np.zeros(size), np.zeros(size)
    for subset, parts in groupby(
        subset_parts(problem, evaluator, draws), key=lambda part: subset_place(problem, part[0].block)
    ):
        held: list[Floats] = []
        for job, outputs in parts:
            values, _ = measure.values(outputs, job.block.start + job.members, None)
            statistic[subset] += float(values[:, 0].sum())
            difference[subset] += float(gain(values, measure).sum()) / len(problem.items)
            held.append(score.predicted(settled(outputs, rounding)))
        gaps = covariance_gaps(np.concatenate(held), score, partial(rest, subset))
        moved = (gaps != 0).any(axis=1)
        varied[subset] = bool(moved.any())
        sums = pass_sums(gaps[moved], passes, stream(problem.seed, problem.subset_names[subset], "passes"))
        p[subset] = p_passes(sums, measure.relative * float(np.abs(gaps).max(axis=1, initial=0).sum()))
    classes = np.zeros((len(problem.items), size), np.int64)
    return GlobalEvidence(p, varied, statistic, difference, classes, draws, passes)


def covariance_gaps(predicted: Floats, score: LabelScore, rest: Callable[[Floats, Floats], Floats]) -> Floats:
    """How much more every version goes with what is left of the label than the observed one, (n, versions)."""
    mean = predicted.mean(axis=1)
    left = rest(score.truth - mean, mean)
    scaled = score.scale(predicted)
    return np.asarray(np.einsum("nvc,nc->nv", scaled - scaled[:, :1], left))
