"""Subsets whose counterfactuals can be listed: the p-value is exact, and each of them is evaluated once (METHODS 9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from butfor.core.draw.blocks import Block, CounterfactualBatch, Job, Problem
from butfor.core.draw.samplers import ListsSupport
from butfor.core.evaluate.batches import Evaluator, evaluate_drawn
from butfor.core.evaluate.outputs import linked, pick
from butfor.core.test.evidence import Found, p_exact
from butfor.core.test.statistic import StatisticSpec
from butfor.core.test.tails import tail_statistic
from butfor.core.types import Floats, InputError, ModelError


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
    listed. A value that is listed twice is evaluated once: tables need a memory in `evaluator` for it.
    """
    waiting: deque[_Listed] = deque()
    batches = _noted((_listed(problem, block) for block in blocks), waiting)
    for job, outputs in evaluate_drawn(problem, evaluator, batches):
        yield _found(spec, job, outputs, waiting.popleft())


@dataclass(frozen=True)
class _Listed:
    """What a sampler lists for one block: the counterfactuals, and the least p-values (n,)."""

    batch: CounterfactualBatch
    least: Floats


def _noted(listed: Iterator[_Listed], waiting: deque[_Listed]) -> Iterator[CounterfactualBatch]:
    for one in listed:
        waiting.append(one)  # evaluate_drawn keeps the order
        yield one.batch


def _found(spec: StatisticSpec, job: Job, outputs: Floats, listed: _Listed) -> Found:
    mass, least = listed.batch.mass, listed.least
    assert mass is not None
    unlisted = np.maximum(1 - mass.sum(axis=1), 0)
    if spec.picked is not None:
        mass = mass * spec.picked.accept(outputs[:, 1:])
    passed = mass.sum(axis=1)
    values, classes = pick(outputs, spec.target, job.block.start + job.members)
    values = linked(spec.rounding.merge_rounding_ties(values), spec.link)
    weight = np.maximum(passed, np.finfo(np.float64).tiny)
    statistic = tail_statistic(values, spec.alternative, (values[:, 1:] * mass).sum(axis=1) / weight)
    hits = p_exact(statistic, np.column_stack([np.zeros(len(mass)), mass]))
    p = np.where(passed > 0, np.minimum((hits + unlisted) / (weight + unlisted), 1), 1)
    return Found(job.rows, p, values[:, 0].copy(), classes, draws=mass.shape[1], drawable=passed > 0, least=least)


def _listed(problem: Problem, block: Block) -> _Listed:
    items, sampler, name = problem.items, problem.sampler, f"support of {problem.name_of(block)}"
    assert isinstance(sampler, ListsSupport)
    inputs = items.block(block.start, block.stop)
    try:
        drawn, mass = items.support(sampler, inputs, block.subset, name)
    except InputError:
        raise
    except Exception as error:
        raise ModelError(f"the {name} raised {type(error).__name__}: {error}") from error
    mass = _distribution(mass, name)
    job = Job(block, mass.shape[1], "support")
    values = items.splice(inputs, block.subset, drawn)
    batch = CounterfactualBatch(job, inputs, values, mass.shape[1] + 1, mass=mass)
    return _Listed(batch, items.likely(inputs, drawn, mass))


def _distribution(mass: Floats, name: str) -> Floats:
    numbers = mass.dtype.kind in "fiub" and np.isfinite(mass).all() and (mass >= 0).all()
    if not numbers or (mass.sum(axis=1) > 1 + 1e-9).any() or (mass.sum(axis=1) <= 0).any():
        raise InputError(f"the {name} has probabilities that are no distribution; they must sum to at most 1")
    return np.asarray(mass, np.float64)
