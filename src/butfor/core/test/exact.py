"""Subsets whose counterfactuals can be listed: the p-value is exact, and each of them is evaluated once (METHODS 9)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from butfor.core.draw.blocks import Block, Job, Problem
from butfor.core.draw.listing import Support, listing_job
from butfor.core.draw.samplers import ListsSupport
from butfor.core.evaluate.batches import Evaluator, evaluate_listed
from butfor.core.evaluate.outputs import linked
from butfor.core.test.evidence import Found, p_exact
from butfor.core.test.statistic import StatisticSpec, merged, own_class_statistic
from butfor.core.test.tails import tail_statistic
from butfor.core.types import Floats, Ints


def split_listed(problem: Problem) -> tuple[list[Block], list[Block]]:
    """Blocks whose subset the sampler can list, and the others."""
    sampler = problem.sampler
    if not isinstance(sampler, ListsSupport):
        return [], list(problem.blocks)
    verdict = {id(subset): bool(sampler.lists(subset)) for subset in problem.subsets}
    listed = [block for block in problem.blocks if verdict[id(block.subset)]]
    return listed, [block for block in problem.blocks if not verdict[id(block.subset)]]


def exact(problem: Problem, evaluator: Evaluator, spec: StatisticSpec, blocks: list[Block]) -> Iterator[Found]:
    """The p-values of the hypotheses of `blocks`; nothing is left open or to chance there.

    p is the mass of the listed values that are at least as surprising as the observed one, and the mass that is not
    listed counts against us. It is valid when the observed value has the law Q, however few values are listed, as long
    as the rest of the input alone decides which; its least value is Q of the observed value and of all that is not
    listed. An observed value that a list of full mass lacks counts as one more of its least likely values: a Q that
    calls what has happened impossible is a fit, not the truth, and for m equally likely values p is then the observed
    value's rank among m + 1. A value that is listed twice is evaluated once: tables need a memory in `evaluator`.
    """
    for job, outputs, support in evaluate_listed(problem, evaluator, [listing_job(problem, block) for block in blocks]):
        yield found_in_list(spec, job, outputs, support)


def found_in_list(spec: StatisticSpec, job: Job, outputs: Floats, listed: Support) -> Found:
    """The p-values of one block, from the outputs (n, versions, outputs) of all that is listed."""
    mass, beside = listed.mass, listed.beside
    if spec.picked is not None:
        mass = mass * spec.picked.accept(outputs[:, 1:])
    passed = mass.sum(axis=1)
    weight = np.maximum(passed, np.finfo(np.float64).tiny)
    statistic, observed, classes = _statistic(spec, job, outputs, mass / weight[:, None])
    hits = p_exact(statistic, np.column_stack([np.zeros(len(mass)), mass]), spec.margin)
    p = np.where(passed > 0, np.minimum((hits + beside) / (weight + beside), 1), 1)
    drawable, least = passed > 0, listed.least
    return Found(job.rows, p, observed, classes, draws=mass.shape[1], drawable=drawable, least=least)


def _statistic(spec: StatisticSpec, job: Job, outputs: Floats, share: Floats) -> tuple[Floats, Floats, Ints]:
    """Statistic (n, versions), observed value and class (n,), around the mean of the listed outputs."""
    inputs = job.block.start + job.members
    if spec.own_class:
        middle = np.einsum("nm,nmo->no", share, linked(outputs[:, 1:], spec.link))
        statistic, values, classes = own_class_statistic(outputs, spec, middle, inputs)
        return statistic, values[:, 0].copy(), classes
    values, classes = merged(outputs, spec, inputs)
    centre = (values[:, 1:] * share).sum(axis=1)
    return tail_statistic(values, spec.alternative, centre), values[:, 0].copy(), classes
