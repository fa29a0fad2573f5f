"""The tests with a fixed number of draws that end in a p-value or an e-value each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain

from butfor.core.draw.blocks import Problem
from butfor.core.evaluate.batches import Evaluator
from butfor.core.test.evidence import Evidence, Found, e_soft_rank, gather, p_fixed, share_below, varies
from butfor.core.test.statistic import StatisticSpec, ValueSet, reduced_sets
from butfor.core.types import Array, Floats


def irt(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int, known: Iterable[Found] = ()
) -> Evidence:
    """Interpretability randomisation test (paper, Algorithm 1): a p-value from `draws` counterfactuals each.

    `known` is evidence on hypotheses that need no drawing.
    """
    sets = reduced_sets(problem, evaluator, spec, draws, partial(_ranked, margin=spec.margin))
    parts = (
        Found(rows, p, observed, classes, varied=varied, surprise=below)
        for rows, (p, observed, classes, varied, below) in sets
    )
    return gather("p", problem.size, draws, chain(parts, known))


def _ranked(part: ValueSet, margin: float) -> tuple[Array, ...]:
    statistic = part.statistic
    return p_fixed(statistic, margin), _observed(part), part.classes, varies(statistic), share_below(statistic)


def soft_rank(problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int) -> Evidence:
    """Soft-rank e-values from `draws` counterfactuals each: for any dependence between hypotheses (METHODS 5)."""
    sets = reduced_sets(problem, evaluator, spec, draws, _soft)
    parts = (Found(rows, e, observed, classes, surprise=below) for rows, (e, observed, classes, below) in sets)
    return gather("e", problem.size, draws, parts)


def _soft(part: ValueSet) -> tuple[Array, ...]:
    return e_soft_rank(part.statistic), _observed(part), part.classes, share_below(part.statistic)


def _observed(part: ValueSet) -> Floats:
    return part.values[:, 0].copy()  # a view would hold all values
