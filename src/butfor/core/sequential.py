"""The default test: draws until each hypothesis is decided, with p-values that are valid at any time (METHODS 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from butfor.core.calls import Calls, evaluate
from butfor.core.draws import Job, Problem
from butfor.core.evidence import besag_clifford, p_sequential
from butfor.core.outputs import linked, snap
from butfor.core.picking import hopeless
from butfor.core.procedures import Evidence, Question, around, blank
from butfor.core.selection import select
from butfor.core.tails import surprise
from butfor.core.types import Bools, Floats, Ints

GROWTH, LATE_GROWTH, LATE = 1.25, 1.05, 2000  # by how much draws grow, before and after so many: few are open then


@dataclass(frozen=True)
class Stopping:
    """When to stop: at `h` exceedances, at a rejection by the rule at `alpha`, or at `cap` draws."""

    h: int
    cap: int
    alpha: float
    rule: str
    groups: Ints | None = None


def sequential(
    problem: Problem,
    calls: Calls,
    question: Question,
    stopping: Stopping,
    tell: Callable[[int], None],
    first: Callable[[Evidence], None],
) -> tuple[Evidence, bool]:
    """Anytime-valid Besag-Clifford p-values; a hypothesis closes at its h-th exceedance or when it is rejected.

    P only ever falls, so a rejection stands. Returns the evidence and whether the user interrupted (Ctrl-C): what is
    decided by then is valid, the rest is open. `first` fills in hypotheses that need no drawing, `tell` hears how many
    are chosen so far.
    """
    found = blank("p", problem.size, 0)
    found.open[:], found.drawable[:] = True, True
    exceeded = np.zeros(problem.size, np.int64)
    interrupted = False
    try:
        first(found)
        centre = _pilot(problem, calls, question)
        drawn = 0
        for number, batch in enumerate(batches(stopping.h, stopping.cap)):
            drawn += batch
            _round(problem, calls, question, stopping.h, (number, batch, drawn), centre, found, exceeded)
            chosen = _chosen(found, stopping)
            found.open[:] &= (exceeded < stopping.h) & ~chosen
            tell(int(chosen.sum()))
            if not found.open.any():
                break
    except KeyboardInterrupt:
        interrupted = True
    if question.picked is not None and not interrupted:
        found.drawable[found.open & (found.draws == 0)] = False  # not a single draw passed
    found.open[:] &= (exceeded < stopping.h) & ~_chosen(found, stopping) & found.drawable
    return found, interrupted


def batches(h: int, cap: int) -> Iterator[int]:
    """How many draws to add each time: max(8, h) first, then a quarter of what there is (later less), `cap` in all."""
    drawn = min(max(8, h), cap)
    yield drawn
    while drawn < cap:
        share = (GROWTH if drawn < LATE else LATE_GROWTH) - 1
        more = min(max(1, round(drawn * share)), cap - drawn)
        drawn += more
        yield more


def _chosen(found: Evidence, stopping: Stopping) -> Bools:
    return select(found.values, stopping.alpha, stopping.rule, found.drawable, stopping.groups)


def _pilot(problem: Problem, calls: Calls, question: Question) -> Floats | None:
    """Mean outputs (H, outputs) of the pilot draws, where the statistic has a centre."""
    if not question.center:
        return None
    centre = np.empty((problem.size, calls.outputs))
    for job, outputs in evaluate(problem, calls, (Job(block, question.center, "pilot") for block in problem.blocks)):
        centre[job.rows] = linked(snap(outputs[:, 1:]), question.link).mean(axis=1)
    return centre


def _round(
    problem: Problem,
    calls: Calls,
    question: Question,
    h: int,
    step: tuple[int, int, int],
    centre: Floats | None,
    found: Evidence,
    exceeded: Ints,
) -> None:
    """One batch for every open hypothesis, counted in the order in which it was drawn."""
    number, batch, drawn = step
    for job, outputs in evaluate(problem, calls, _jobs(problem, found.open, number, batch)):
        rows = job.rows
        statistic, found.observed[rows], found.classes[rows] = _statistic(job, outputs, question, centre)
        hits = statistic[:, 1:] >= statistic[:, :1]  # ties count against us: keeps p valid
        counted = np.ones_like(hits) if question.picked is None else question.picked.accept(outputs[:, 1:])
        counted = counted & (exceeded[rows] < h)[:, None]  # a batch in parts may go on after the h-th exceedance
        draws, hit = besag_clifford(hits, counted, found.draws[rows], exceeded[rows], h)
        still = exceeded[rows] < h
        rows, draws, hit = rows[still], draws[still], hit[still]
        found.draws[rows], exceeded[rows], found.values[rows] = draws, hit, p_sequential(draws, hit, h)
        if question.picked is not None:
            given_up = rows[(hit < h) & hopeless(draws, drawn)]
            found.open[given_up], found.drawable[given_up], found.values[given_up] = False, False, 1.0


def _jobs(problem: Problem, is_open: Bools, number: int, batch: int) -> Iterator[Job]:
    for block in problem.blocks:
        ask = np.flatnonzero(is_open[block.rows])
        if ask.size:
            every = ask.size == block.stop - block.start
            for part, first in enumerate(range(0, batch, problem.round_draws)):
                size = min(problem.round_draws, batch - first)
                yield Job(block, size, f"{number}.{part}" if part else number, ask=None if every else ask)


def _statistic(job: Job, outputs: Floats, question: Question, centre: Floats | None) -> tuple[Floats, Floats, Ints]:
    """Statistic (n, versions), the observed value and its class (n,).

    The predicted class is that of *each* version by itself, compared around the pilot mean of that class: the draws
    are not all at hand, so the rule that looks at all of them cannot be used (METHODS 0).
    """
    if question.target.kind != "predicted":
        return around(job, outputs, question, centre)
    assert centre is not None
    best = outputs.argmax(axis=2)
    own = question.rounding.settle(np.take_along_axis(outputs, best[:, :, None], axis=2)[:, :, 0])
    own = linked(own, question.link)
    centred = own - np.take_along_axis(centre[job.rows], best, axis=1)
    zero = np.zeros(len(own)) if question.alternative == "two-sided" else None
    return surprise(centred, question.alternative, zero), own[:, 0], best[:, 0]
