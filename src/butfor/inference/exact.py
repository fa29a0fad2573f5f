"""Subsets whose counterfactuals can be listed: the p-value is exact, and each of them is evaluated once (METHODS 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from butfor.evaluation.evaluator import Evaluator, evaluate_listed
from butfor.evaluation.hypotheses import Block, CounterfactualBatch, Job, Listed, Problem, Support, listing_job
from butfor.evaluation.samplers import ListsSupport
from butfor.inference.outputs import linked
from butfor.inference.statistics import Found, StatisticSpec, merged, own_class_statistic, p_exact, tail_statistic
from butfor.types import Array, Floats, Ints


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


class Outcomes(Protocol):
    """Lists all that may come of some hypotheses: outputs and their probabilities, without the model."""

    def split(self, problem: Problem) -> tuple[list[Block], list[Block]]:
        """Blocks whose hypotheses it knows, and the others."""
        ...

    def listed(self, problem: Problem, blocks: Sequence[Block]) -> Iterator[tuple[Listed, Floats]]:
        """What is listed for the hypotheses of these blocks, and outputs (n, versions, outputs), the observed first."""
        ...


@dataclass(frozen=True, eq=False)
class ReadModel:
    """What was found on looking into the model: its outcomes (None: it has to be asked), notes, and rows that took."""

    outcomes: Outcomes | None = None
    notes: tuple[str, ...] = ()
    rows: int = 0


def known_outcomes(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, blocks: Sequence[Block], outcomes: Outcomes
) -> Iterator[Found]:
    """The p-values of the hypotheses of `blocks`, as `exact` defines them; nothing is drawn and nobody is asked."""
    for listed, outputs in outcomes.listed(problem, blocks):
        evaluator.show(problem, listed.batch, outputs)
        yield replace(found_in_list(spec, listed.batch.job, outputs, listed.support), draws=0)


CHUNK_VALUES = 2**22  # values of the rows that are put beside inputs at a time


def ranked_whole(
    problem: Problem,
    spec: StatisticSpec,
    block: Block,
    outputs: Floats,
    reference: Array,
    reference_outputs: Floats,
    seen: Callable[[CounterfactualBatch, Floats], None],
) -> Iterator[Found]:
    """p-values of the inputs of a block whose subset is everything: the rank of an output among the reference's.

    `outputs` (n, outputs) are those of all inputs, `reference` (m, columns) whole rows in the order of the data's
    columns, `reference_outputs` (m, outputs) theirs. The input is one row more, with the same mass.
    """
    rows, columns = len(reference), block.subset.index
    size = max(1, CHUNK_VALUES // ((rows + 2) * reference.shape[1]))
    for start in range(0, block.stop - block.start, size):
        keep = np.arange(start, min(start + size, block.stop - block.start))
        inputs = problem.items.take(problem.items.block(block.start, block.stop), keep)
        values = np.empty((len(keep), rows + 2, len(columns)), inputs.dtype)
        values[:, 0] = values[:, -1] = inputs[:, columns]
        values[:, 1:-1] = reference[:, columns]
        mass = np.full((len(keep), rows + 1), 1 / (rows + 1))
        job = Job(block, rows + 1, "whole", keep=keep)
        batch = CounterfactualBatch(job, inputs, values.reshape(-1, len(columns)), rows + 2, mass=mass)
        own = outputs[block.start + keep][:, None]
        said = np.concatenate([own, np.broadcast_to(reference_outputs, (len(keep), *reference_outputs.shape)), own], 1)
        seen(batch, said)
        yield found_in_list(spec, job, said, Support(mass, np.zeros(len(keep)), np.full(len(keep), 1 / (rows + 1))))
