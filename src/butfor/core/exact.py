"""Subsets whose counterfactuals can be listed: the p-value is exact, and each of them is evaluated once (METHODS 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from butfor.core.calls import Calls, evaluate_drawn
from butfor.core.draws import Block, Drawn, Job, Problem
from butfor.core.evidence import p_exact
from butfor.core.outputs import linked, pick
from butfor.core.procedures import Evidence, Question
from butfor.core.tails import surprise
from butfor.core.types import Floats, InputError


def split_listed(problem: Problem) -> tuple[list[Block], list[Block]]:
    """Blocks whose subset the sampler can list, and the others."""
    lists = getattr(problem.sampler, "lists", None)
    if lists is None or not isinstance(problem.inputs, np.ndarray):
        return [], list(problem.blocks)
    verdict = {subset.name: bool(lists(subset)) for subset in {id(b.subset): b.subset for b in problem.blocks}.values()}
    listed = [block for block in problem.blocks if verdict[block.subset.name]]
    return listed, [block for block in problem.blocks if not verdict[block.subset.name]]


def exact(problem: Problem, calls: Calls, question: Question, blocks: list[Block], found: Evidence) -> None:
    """Fill in the p-values of the hypotheses of `blocks`; nothing is left open or to chance there.

    p is the mass of the listed values that are at least as surprising as the observed one, and the mass that is not
    listed counts against us. It is valid when the observed value has the law Q; its least value is Q of that value.
    A value that is listed twice is evaluated once where `calls` has a memory.
    """
    for drawn, mass in _listed(problem, blocks):
        ((job, outputs),) = evaluate_drawn(problem, calls, [drawn])
        if question.picked is not None:
            mass = mass * question.picked.accept(outputs[:, 1:])
            mass /= mass.sum(axis=1, keepdims=True)
        values, classes = pick(outputs, question.target, job.block.start + job.members)
        values = linked(question.rounding.settle(values), question.link)
        centre = (values[:, 1:] * mass).sum(axis=1) / mass.sum(axis=1)
        statistic = surprise(values, question.alternative, centre)
        p = p_exact(statistic, np.column_stack([np.zeros(len(mass)), mass])) + np.maximum(1 - mass.sum(axis=1), 0)
        found.values[job.rows] = np.minimum(p, 1.0)
        found.observed[job.rows], found.classes[job.rows] = values[:, 0], classes
        found.draws[job.rows], found.open[job.rows], found.drawable[job.rows] = mass.shape[1], False, True


def _listed(problem: Problem, blocks: list[Block]) -> Iterator[tuple[Drawn, Floats]]:
    for block in blocks:
        inputs = problem.inputs[block.start : block.stop]
        values, mass = _support(problem.sampler, inputs, block)
        versions = np.concatenate([inputs[:, None, block.subset.index], values.astype(inputs.dtype)], axis=1)
        job = Job(block, values.shape[1], "support")
        yield Drawn(job, inputs, versions.reshape(-1, values.shape[2]), values.shape[1] + 1), mass


def _support(sampler: Any, inputs: np.ndarray[Any, Any], block: Block) -> tuple[np.ndarray[Any, Any], Floats]:
    values, mass = (np.asarray(part) for part in sampler.support(inputs, block.subset))
    width = len(block.subset.index)
    if values.ndim != 3 or values.shape[::2] != (len(inputs), width) or mass.shape != values.shape[:2]:
        raise InputError(
            f"support of subset {block.subset.name!r} has shapes {values.shape} and {mass.shape}; expected values "
            f"({len(inputs)}, m, {width}) and probabilities ({len(inputs)}, m)"
        )
    if not np.isfinite(mass).all() or (mass < 0).any() or (mass.sum(axis=1) > 1 + 1e-9).any():
        raise InputError(f"support of subset {block.subset.name!r} has probabilities that are no distribution")
    return values, mass.astype(np.float64)
