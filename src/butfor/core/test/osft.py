"""The paper's one-shot feature test: a single counterfactual each."""

from __future__ import annotations

from butfor.core.draw.blocks import Problem
from butfor.core.evaluate.batches import Evaluator
from butfor.core.test.evidence import Evidence, Found, gather, share_below, z_one_shot
from butfor.core.test.statistic import StatisticSpec, value_sets


def osft(problem: Problem, evaluator: Evaluator, spec: StatisticSpec) -> Evidence:
    """One-shot feature test (paper, Algorithm 2): the difference to a single counterfactual."""
    squared = spec.alternative == "two-sided"
    parts = (
        Found(
            part.rows,
            z_one_shot(part.statistic, squared=squared),
            part.values[:, 0],
            part.classes,
            surprise=share_below(part.statistic),
        )
        for part in value_sets(problem, evaluator, spec, 1)
    )
    return gather("z", problem.size, 1, parts)
