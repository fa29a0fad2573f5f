"""Subsets whose counterfactuals can be listed: the p-value is exact, and each of them is evaluated once (METHODS 9)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from butfor.core.calls import Calls, evaluate_drawn
from butfor.core.draws import Block, Drawn, Job, Problem
from butfor.core.evidence import p_exact
from butfor.core.outputs import linked, pick
from butfor.core.procedures import Evidence, Question
from butfor.core.tails import surprise
from butfor.core.types import Batch, Floats, InputError, ModelError


def split_listed(problem: Problem) -> tuple[list[Block], list[Block]]:
    """Blocks whose subset the sampler can list, and the others."""
    lists = getattr(problem.sampler, "lists", None)
    if lists is None:
        return [], list(problem.blocks)
    subsets = {id(block.subset): block.subset for block in problem.blocks}  # by identity: texts share names
    verdict = {key: bool(lists(subset)) for key, subset in subsets.items()}
    listed = [block for block in problem.blocks if verdict[id(block.subset)]]
    return listed, [block for block in problem.blocks if not verdict[id(block.subset)]]


def exact(
    problem: Problem, calls: Calls, question: Question, blocks: list[Block], least: Floats, found: Evidence
) -> None:
    """Fill in the p-values of the hypotheses of `blocks`; nothing is left open or to chance there.

    p is the mass of the listed values that are at least as surprising as the observed one, and the mass that is not
    listed counts against us. It is valid when the observed value has the law Q, however few values are listed, as long
    as the rest of the input alone decides which; its least value is Q of the observed value and of all that is not
    listed. `least` (H,) hears of that for images and texts. A value that is listed twice is evaluated once: tables need
    a memory in `calls` for it.
    """
    masses: deque[Floats] = deque()
    drawns = _noted(_listed(problem, blocks, least), masses)
    parts: Iterator[tuple[Job, Floats]]
    if isinstance(problem.inputs, np.ndarray):
        parts = chain.from_iterable(evaluate_drawn(problem, calls, [drawn]) for drawn in drawns)
    else:
        parts = evaluate_drawn(problem, calls, drawns)  # one text each: many of them share a call
    for job, outputs in parts:
        _fill(question, job, outputs, masses.popleft(), found)


def _noted(listed: Iterator[tuple[Drawn, Floats]], masses: deque[Floats]) -> Iterator[Drawn]:
    for drawn, mass in listed:
        masses.append(mass)  # evaluate_drawn keeps the order
        yield drawn


def _fill(question: Question, job: Job, outputs: Floats, mass: Floats, found: Evidence) -> None:
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


def _listed(problem: Problem, blocks: list[Block], least: Floats) -> Iterator[tuple[Drawn, Floats]]:
    for block in blocks:
        inputs = problem.inputs[block.start : block.stop]
        whole: Batch
        if isinstance(inputs, np.ndarray):
            values, mass = _support(problem.sampler, inputs, block)
            versions = np.concatenate([inputs[:, None, block.subset.index], values.astype(inputs.dtype)], axis=1)
            whole = versions.reshape(-1, values.shape[2])
        else:
            items, mass = _support_of_items(problem.sampler, inputs, block)
            whole = [item for x, own in zip(inputs, items, strict=True) for item in (x, *own)]
            least[block.rows] = _least(inputs, items, mass)
        yield Drawn(Job(block, mass.shape[1], "support"), inputs, whole, mass.shape[1] + 1), mass


def _least(inputs: Batch, items: list[list[Any]], mass: Floats) -> Floats:
    """The mass of the observed text and of all that is not listed (n,): no p-value is below it."""
    own = np.array([[isinstance(x, str) and item == x for item in row] for x, row in zip(inputs, items, strict=True)])
    return np.asarray((mass * own).sum(axis=1) + np.maximum(1 - mass.sum(axis=1), 0))


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
    return values, _distribution(mass, name)


def _support_of_items(sampler: Any, inputs: list[Any], block: Block) -> tuple[list[list[Any]], Floats]:
    """The same for images or texts: whole counterfactuals, a list for each input."""
    name = f"support of subset {block.subset.name!r} of input {block.key!r}"
    try:
        items, mass = sampler.support(inputs, block.subset)
        items, mass = [list(own) for own in items], np.asarray(mass)
    except Exception as error:
        raise ModelError(f"the {name} raised {type(error).__name__}: {error}") from error
    counts = [len(own) for own in items]
    if len(items) != len(inputs) or mass.shape != (len(inputs), counts[0]) or set(counts) != {counts[0]}:
        raise InputError(
            f"the {name} lists {counts} counterfactuals with probabilities of shape {mass.shape}; expected m for each "
            f"of {len(inputs)} inputs and probabilities ({len(inputs)}, m)"
        )
    if any(isinstance(x, str) != isinstance(item, str) for x, own in zip(inputs, items, strict=True) for item in own):
        raise InputError(f"the {name} lists items of another type than the input; list whole counterfactuals")
    return items, _distribution(mass, name)


def _distribution(mass: Any, name: str) -> Floats:
    numbers = mass.dtype.kind in "fiub" and np.isfinite(mass).all() and (mass >= 0).all()
    if not numbers or (mass.sum(axis=1) > 1 + 1e-9).any() or (mass.sum(axis=1) <= 0).any():
        raise InputError(f"the {name} has probabilities that are no distribution; they must sum to at most 1")
    return np.asarray(mass, np.float64)
