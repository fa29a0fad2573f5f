"""Subsets whose counterfactuals can be listed: the p-value is exact, and each of them is evaluated once (METHODS 9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from butfor.core.draw.blocks import Block, CounterfactualBatch, Job, Problem
from butfor.core.draw.items import Items, Values
from butfor.core.draw.samplers import ListsSupport
from butfor.core.evaluate.batches import Evaluator, evaluate_drawn
from butfor.core.evaluate.outputs import linked
from butfor.core.test.evidence import Found, p_exact
from butfor.core.test.statistic import StatisticSpec, merged, own_class_statistic
from butfor.core.test.tails import tail_statistic
from butfor.core.types import Floats, InputError, Ints, ModelError


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
    waiting: deque[Listed] = deque()
    batches = _noted((listed_block(problem, block) for block in blocks), waiting)
    for job, outputs in evaluate_drawn(problem, evaluator, batches):
        yield found_in_list(spec, job, outputs, waiting.popleft())


@dataclass(frozen=True)
class Listed:
    """What a sampler lists for one block: the counterfactuals, the mass beside them and the least p-values (n,)."""

    batch: CounterfactualBatch
    beside: Floats
    least: Floats


def _noted(listed: Iterator[Listed], waiting: deque[Listed]) -> Iterator[CounterfactualBatch]:
    for one in listed:
        waiting.append(one)  # evaluate_drawn keeps the order
        yield one.batch


def found_in_list(spec: StatisticSpec, job: Job, outputs: Floats, listed: Listed) -> Found:
    """The p-values of one block, from the outputs (n, versions, outputs) of all that is listed."""
    mass, beside = listed.batch.mass, listed.beside
    assert mass is not None
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


def listed_block(problem: Problem, block: Block) -> Listed:
    """What the sampler lists for the inputs of a block."""
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
    return Listed(batch, _beside(items, values, mass), items.likely(inputs, drawn, mass))


def _beside(items: Items, values: Values, mass: Floats) -> Floats:
    """Mass (n,) that counts against us beside the list: what is not listed or, in a full list, an unlisted input."""
    unlisted = np.asarray(np.maximum(1 - mass.sum(axis=1), 0))
    full = unlisted <= FULL
    if not full.any():
        return unlisted
    keys = np.array(items.keys(values), dtype=object).reshape(len(mass), -1)
    held = ((keys[:, 1:] == keys[:, :1]) & (mass > 0)).any(axis=1)
    least = np.where(mass > 0, mass, np.inf).min(axis=1)
    return np.asarray(np.where(full & ~held, least, unlisted))  # without it p could be 0


FULL = 1e-9  # a list that leaves no more than this unlisted claims all mass


def _distribution(mass: Floats, name: str) -> Floats:
    numbers = mass.dtype.kind in "fiub" and np.isfinite(mass).all() and (mass >= 0).all()
    if not numbers or (mass.sum(axis=1) > 1 + FULL).any() or (mass.sum(axis=1) <= 0).any():
        raise InputError(f"the {name} has probabilities that are no distribution; they must sum to at most 1")
    return np.asarray(mass, np.float64)
