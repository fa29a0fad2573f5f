"""The tests as recipes over the stages: draw, evaluate, pick, settle, compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from butfor.core.draws import Job, Problem, rounds
from butfor.core.evidence import p_fixed, varies, z_one_shot
from butfor.core.outputs import GROUP_VALUES, Calls, Rounding, Target, evaluate, linked, pick
from butfor.core.tails import surprise
from butfor.core.types import Alternative, Bools, Floats, Ints


@dataclass(frozen=True)
class Question:
    """What is asked of every hypothesis: which number, on which scale, in which direction, around which centre."""

    target: Target
    rounding: Rounding
    alternative: Alternative
    link: str | None = None
    center: int = 0  # pilot draws whose mean is the centre of a two-sided statistic; 0 for one side


@dataclass(frozen=True)
class Evidence:
    """What a test found, one entry per hypothesis."""

    kind: str  # "p" or "z"
    values: Floats  # (H,)
    varied: Bools  # (H,) False: all values equal, whatever was drawn
    observed: Floats  # (H,)
    classes: Ints  # (H,) output that was tested
    draws: int


@dataclass(frozen=True)
class ValueSet:
    """All values of some hypotheses that share a block: (n, 1 + draws), the observed one first."""

    rows: Ints  # (n,) positions in the table
    values: Floats
    statistic: Floats
    classes: Ints


def irt(problem: Problem, calls: Calls, question: Question, draws: int) -> Evidence:
    """Interpretability randomisation test (paper, Algorithm 1): a p-value from `draws` counterfactuals each."""
    p, varied = np.empty(problem.size), np.empty(problem.size, bool)
    observed, classes = np.empty(problem.size), np.empty(problem.size, np.int64)
    for batch in value_sets(problem, calls, question, draws):
        p[batch.rows], varied[batch.rows] = p_fixed(batch.statistic), varies(batch.statistic)
        observed[batch.rows], classes[batch.rows] = batch.values[:, 0], batch.classes
    return Evidence("p", p, varied, observed, classes, draws)


def osft(problem: Problem, calls: Calls, question: Question) -> Evidence:
    """One-shot feature test (paper, Algorithm 2): the difference to a single counterfactual."""
    z, observed = np.empty(problem.size), np.empty(problem.size)
    classes = np.empty(problem.size, np.int64)
    for batch in value_sets(problem, calls, question, 1):
        z[batch.rows] = z_one_shot(batch.statistic, squared=question.alternative == "two-sided")
        observed[batch.rows], classes[batch.rows] = batch.values[:, 0], batch.classes
    return Evidence("z", z, np.ones(problem.size, bool), observed, classes, 1)


def value_sets(problem: Problem, calls: Calls, question: Question, draws: int) -> Iterator[ValueSet]:
    """Every hypothesis once, with all its values at hand: the observed one and `draws` counterfactuals.

    The pilot draws that give a two-sided statistic its centre come first in the same stream and are then set aside:
    the centre must not be made of the values it is compared with.
    """
    total = question.center + draws
    parts: list[Floats] = []
    for job, outputs in evaluate(problem, calls, _sliced(problem, calls, total)):
        parts.append(outputs if not parts else outputs[:, 1:])
        if sum(part.shape[1] for part in parts) == total + 1:
            yield _value_set(job, np.concatenate(parts, axis=1), question)
            parts = []


def _sliced(problem: Problem, calls: Calls, total: int) -> Iterator[Job]:
    """Jobs in which all rounds of some inputs follow each other, few enough inputs to hold all their outputs."""
    most = max(1, 8 * GROUP_VALUES // ((total + 1) * calls.outputs))
    for block in problem.blocks:
        jobs = rounds([block], total, problem.round_draws)
        members = np.arange(block.stop - block.start)
        if len(members) <= most:
            yield from jobs
        else:
            for a in range(0, len(members), most):
                yield from (replace(job, keep=members[a : a + most]) for job in jobs)


def _value_set(job: Job, outputs: Floats, question: Question) -> ValueSet:
    members = np.arange(job.block.stop - job.block.start) if job.keep is None else job.keep
    pilot, kept = outputs[:, 1 : 1 + question.center], np.delete(outputs, slice(1, 1 + question.center), axis=1)
    values, classes = pick(kept, question.target, job.block.start + members)
    values = linked(question.rounding.settle(values), question.link)
    centre = None
    if question.center:
        fixed = Target("per-input", classes)
        centre = linked(pick(pilot, fixed, np.arange(len(classes)))[0], question.link).mean(axis=1)
    statistic = surprise(values, question.alternative, centre)
    return ValueSet(job.block.rows[members], values, statistic, classes)
