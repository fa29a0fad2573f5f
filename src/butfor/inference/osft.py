"""The paper's one-shot feature test: a single counterfactual each."""

from __future__ import annotations

from functools import partial

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Problem
from butfor.inference.statistics import (
    Evidence,
    Found,
    StatisticSpec,
    ValueSet,
    gather,
    reduced_sets,
    share_below,
    z_one_shot,
)
from butfor.types import Array


def osft(problem: Problem, evaluator: Evaluator, spec: StatisticSpec) -> Evidence:
    """One-shot feature test (paper, Algorithm 2): the difference to a single counterfactual."""
    sets = reduced_sets(problem, evaluator, spec, 1, partial(_compared, squared=spec.alternative == "two-sided"))
    parts = (Found(rows, z, observed, classes, surprise=below) for rows, (z, observed, classes, below) in sets)
    return gather("z", problem.size, 1, parts)


def _compared(part: ValueSet, squared: bool) -> tuple[Array, ...]:
    z = z_one_shot(part.statistic, squared=squared)
    return z, part.values[:, 0].copy(), part.classes, share_below(part.statistic)
