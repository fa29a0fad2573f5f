"""The tests with a fixed number of draws that end in a p-value or an e-value each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from butfor.core.draw.blocks import Problem
from butfor.core.evaluate.batches import Evaluator
from butfor.core.test.evidence import Evidence, Found, e_soft_rank, gather, p_fixed, share_below, varies
from butfor.core.test.statistic import StatisticSpec, value_sets


def irt(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int, known: Iterable[Found] = ()
) -> Evidence:
    """Interpretability randomisation test (paper, Algorithm 1): a p-value from `draws` counterfactuals each.

    `known` is evidence on hypotheses that need no drawing.
    """
    parts = (
        Found(
            part.rows,
            p_fixed(part.statistic, spec.margin),
            part.values[:, 0],
            part.classes,
            varied=varies(part.statistic),
            surprise=share_below(part.statistic),
        )
        for part in value_sets(problem, evaluator, spec, draws)
    )
    return gather("p", problem.size, draws, chain(parts, known))


def soft_rank(problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int) -> Evidence:
    """Soft-rank e-values from `draws` counterfactuals each: for any dependence between hypotheses (METHODS 5)."""
    parts = (
        Found(
            part.rows,
            e_soft_rank(part.statistic),
            part.values[:, 0],
            part.classes,
            surprise=share_below(part.statistic),
        )
        for part in value_sets(problem, evaluator, spec, draws)
    )
    return gather("e", problem.size, draws, parts)
