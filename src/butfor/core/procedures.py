"""The tests with a fixed number of draws, as recipes over the stages: draw, evaluate, pick, settle, compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from butfor.core.calls import GROUP_VALUES, Calls, evaluate
from butfor.core.draws import Job, Problem, rounds
from butfor.core.evidence import competition, e_soft_rank, p_fixed, varies, z_one_shot
from butfor.core.outputs import Rounding, Target, linked, pick, snap
from butfor.core.picking import Picked, picked_outputs
from butfor.core.tails import surprise
from butfor.core.types import Alternative, Bools, Floats, Ints


@dataclass(frozen=True)
class Question:
    """What is asked of every hypothesis: which number, on which scale, in which direction, around which centre."""

    target: Target
    rounding: Rounding
    alternative: Alternative
    link: str | None = None
    center: int = 0  # pilot draws whose mean is the centre of the statistic; 0 where it has none
    picked: Picked | None = None  # the rule by which the inputs were picked, if their outputs had a say


@dataclass(frozen=True)
class Evidence:
    """What a test found, one entry per hypothesis."""

    kind: Literal["p", "z", "w", "e"]
    values: Floats  # (H,)
    varied: Bools  # (H,) False: all values equal, whatever was drawn
    observed: Floats  # (H,)
    classes: Ints  # (H,) output that was tested
    draws: Ints  # (H,)
    open: Bools  # (H,) True: neither chosen nor given up when drawing stopped
    drawable: Bools  # (H,) False: hardly any draw passed `picked`, so there is no evidence
    scale: Floats  # (H,) what the values are divided by before a selection; 1 but for few-shot

    @property
    def scaled(self) -> Floats:
        """The values that rules compare; scores that are equal but for rounding stay together."""
        return snap(self.values / self.scale) if self.kind == "w" else self.values


@dataclass(frozen=True)
class ValueSet:
    """All values of some hypotheses that share a block: (n, 1 + draws), the observed one first."""

    rows: Ints  # (n,) positions in the table
    values: Floats
    statistic: Floats
    classes: Ints


def blank(kind: Literal["p", "z", "w", "e"], size: int, draws: int) -> Evidence:
    """Evidence to be filled in, hypothesis by hypothesis."""
    return Evidence(
        kind=kind,
        values=np.full(size, 1.0 if kind == "p" else 0.0),  # as if nothing spoke against the null
        varied=np.ones(size, bool),
        observed=np.full(size, np.nan),
        classes=np.zeros(size, np.int64),
        draws=np.full(size, draws),
        open=np.zeros(size, bool),
        drawable=np.zeros(size, bool),
        scale=np.ones(size),
    )


def irt(problem: Problem, calls: Calls, question: Question, draws: int) -> Evidence:
    """Interpretability randomisation test (paper, Algorithm 1): a p-value from `draws` counterfactuals each."""
    found = blank("p", problem.size, draws)
    for part in value_sets(problem, calls, question, draws):
        _note(found, part, p_fixed(part.statistic))
        found.varied[part.rows] = varies(part.statistic)
    return found


def osft(problem: Problem, calls: Calls, question: Question) -> Evidence:
    """One-shot feature test (paper, Algorithm 2): the difference to a single counterfactual."""
    found = blank("z", problem.size, 1)
    for part in value_sets(problem, calls, question, 1):
        _note(found, part, z_one_shot(part.statistic, squared=question.alternative == "two-sided"))
    return found


def soft_rank(problem: Problem, calls: Calls, question: Question, draws: int) -> Evidence:
    """Soft-rank e-values from `draws` counterfactuals each: for any dependence between hypotheses."""
    found = blank("e", problem.size, draws)
    for part in value_sets(problem, calls, question, draws):
        _note(found, part, e_soft_rank(part.statistic))
    return found


def few_shot(
    problem: Problem, calls: Calls, question: Question, draws: int, *, shrunk: bool = False
) -> tuple[Evidence, Floats]:
    """Few-shot competition (METHODS 4): the observed value against `draws` decoys.

    Returns the evidence and the spread of each hypothesis' values but for the largest (H,). Scores are not comparable
    over inputs or subsets of very different spread: there the sequential test is the better choice, or `shrunk`.
    """
    found = blank("w", problem.size, draws)
    spread, inner = np.zeros(problem.size), np.zeros(problem.size)
    for part in value_sets(problem, calls, question, draws):
        statistic = part.statistic
        if question.alternative == "two-sided":  # symmetric in the K + 1 values, so it needs no pilot
            statistic = np.abs(part.values - part.values.mean(axis=1, keepdims=True))
        label, score, rest = competition(statistic)
        _note(found, part, label * score)
        spread[part.rows], inner[part.rows] = statistic.std(axis=1), rest
    scale = _shrunk(inner, 5, draws) if shrunk else _shrunk(spread, 80, draws)
    return replace(found, scale=scale), inner


def _shrunk(spread: Floats, weight: int, draws: int) -> Floats:
    """What scores are divided by: the run's median spread, with a share of the hypothesis' own (H,).

    METHODS 4 divides by the median over the *input's* subsets. All of their sets hold the observed value of this one
    too, so who wins changes the divisor: with every null true, models that saturate (a probability, a maximum) then
    gave false discoveries in 30 to 95 % of runs at alpha 0.1. The hypothesis' own spread is symmetric in its K + 1
    values. Much of it (a small weight) lets subsets of any scale compete, but orders the labels of cloned features.
    """
    positive = spread[spread > 0]
    typical = float(np.median(positive)) if positive.size else 1.0
    return np.sqrt((weight * typical**2 + draws * spread**2) / (weight + draws))


def _note(found: Evidence, part: ValueSet, evidence: Floats) -> None:
    found.values[part.rows], found.drawable[part.rows] = evidence, True
    found.observed[part.rows], found.classes[part.rows] = part.values[:, 0], part.classes


def value_sets(problem: Problem, calls: Calls, question: Question, draws: int) -> Iterator[ValueSet]:
    """Every hypothesis once, with all its values at hand: the observed one and `draws` counterfactuals.

    The pilot draws that give a two-sided statistic its centre come first in the same stream and are then set aside:
    the centre must not be made of the values it is compared with.
    """
    total = question.center + draws
    if question.picked is not None:
        for job, outputs in picked_outputs(problem, calls, total, question.picked):
            yield value_set(job, outputs, question)
        return
    parts: list[Floats] = []
    for job, outputs in evaluate(problem, calls, _sliced(problem, calls, total)):
        parts.append(outputs if not parts else outputs[:, 1:])
        if sum(part.shape[1] for part in parts) == total + 1:
            yield value_set(job, parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1), question)
            parts = []


def _sliced(problem: Problem, calls: Calls, total: int) -> Iterator[Job]:
    """Jobs in which all rounds of some inputs follow each other, few enough inputs to hold all their outputs."""
    most = max(1, 64 * GROUP_VALUES // ((total + 1) * calls.outputs))
    for block in problem.blocks:
        jobs = rounds([block], total, problem.round_draws)
        members = np.arange(block.stop - block.start)
        if len(members) <= most:
            yield from jobs
        else:
            for a in range(0, len(members), most):
                yield from (replace(job, keep=members[a : a + most]) for job in jobs)


def value_set(job: Job, outputs: Floats, question: Question) -> ValueSet:
    """Outputs (n, 1 + center + draws, outputs) -> values and statistic."""
    pilot, kept = outputs[:, 1 : 1 + question.center], outputs
    if question.center:
        kept = np.delete(outputs, slice(1, 1 + question.center), axis=1)
    values, classes = pick(kept, question.target, job.block.start + job.members)
    values = linked(question.rounding.settle(values), question.link)
    centre = None
    if question.center:
        pilots, _ = pick(pilot, Target("per-input", classes), np.arange(len(classes)))
        centre = linked(snap(pilots), question.link).mean(axis=1)  # snapped as the values are
    if question.alternative == "two-sided" and centre is None:
        return ValueSet(job.rows, values, values, classes)  # few-shot makes its own centre
    return ValueSet(job.rows, values, surprise(values, question.alternative, centre), classes)


def around(job: Job, outputs: Floats, question: Question, centre: Floats | None) -> tuple[Floats, Floats, Ints]:
    """Statistic (n, versions), the observed value and its class (n,), when centres (H, outputs) are known already."""
    values, classes = pick(outputs, question.target, job.block.start + job.members)
    values = linked(question.rounding.settle(values), question.link)
    middle = None if centre is None else np.take_along_axis(centre[job.rows], classes[:, None], axis=1)[:, 0]
    return surprise(values, question.alternative, middle), values[:, 0], classes
