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
from butfor.core.types import Floats, InputError, ModelError


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
        unlisted = np.maximum(1 - mass.sum(axis=1), 0)
        if question.picked is not None:
            mass = mass * question.picked.accept(outputs[:, 1:])
        passed = mass.sum(axis=1)
        values, classes = pick(outputs, question.target, job.block.start + job.members)
        values = linked(question.rounding.settle(values), question.link)
        weight = np.maximum(passed, np.finfo(np.float64).tiny)
        statistic = surprise(values, question.alternative, (values[:, 1:] * mass).sum(axis=1) / weight)
        hits = p_exact(statistic, np.column_stack([np.zeros(len(mass)), mass]))
        found.values[job.rows] = np.where(passed > 0, np.minimum((hits + unlisted) / (weight + unlisted), 1), 1)
        found.observed[job.rows], found.classes[job.rows] = values[:, 0], classes
        found.draws[job.rows], found.open[job.rows], found.drawable[job.rows] = mass.shape[1], False, passed > 0


def _listed(problem: Problem, blocks: list[Block]) -> Iterator[tuple[Drawn, Floats]]:
    for block in blocks:
        inputs = problem.inputs[block.start : block.stop]
        values, mass = _support(problem.sampler, inputs, block)
        versions = np.concatenate([inputs[:, None, block.subset.index], values.astype(inputs.dtype)], axis=1)
        job = Job(block, values.shape[1], "support")
        yield Drawn(job, inputs, versions.reshape(-1, values.shape[2]), values.shape[1] + 1), mass


def _support(sampler: Any, inputs: np.ndarray[Any, Any], block: Block) -> tuple[np.ndarray[Any, Any], Floats]:
    name = f"support of subset {block.subset.name!r}"
    try:
        values, mass = sampler.support(inputs, block.subset)
        values, mass = np.asarray(values), np.asarray(mass)
    except Exception as error:
        raise ModelError(f"the {name} raised {type(error).__name__}: {error}") from error
    width = len(block.subset.index)
    if values.ndim != 3 or values.shape[::2] != (len(inputs), width) or mass.shape != values.shape[:2]:
        raise InputError(
            f"the {name} has shapes {values.shape} and {mass.shape}; expected values ({len(inputs)}, m, {width}) and "
            f"probabilities ({len(inputs)}, m)"
        )
    missing = getattr(sampler, "takes_missing", False)
    if values.dtype.kind not in "fiub" or np.isinf(values).any() or (not missing and np.isnan(values).any()):
        raise InputError(f"the {name} lists values that are not finite numbers; list numbers only")
    numbers = mass.dtype.kind in "fiub" and np.isfinite(mass).all() and (mass >= 0).all()
    if not numbers or (mass.sum(axis=1) > 1 + 1e-9).any() or (mass.sum(axis=1) <= 0).any():
        raise InputError(f"the {name} has probabilities that are no distribution; they must sum to at most 1")
    return values, mass.astype(np.float64)
