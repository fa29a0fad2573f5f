"""The default test: draws until each hypothesis is decided, with p-values that are valid at any time (METHODS 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from butfor.core.draw.blocks import Job, Problem
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.evaluate.outputs import linked, snap
from butfor.core.test.evidence import Evidence, Found, besag_clifford, gather, p_sequential
from butfor.core.test.picking import hopeless
from butfor.core.test.statistic import StatisticSpec, centred_statistic
from butfor.core.test.tails import tail_statistic
from butfor.core.types import Bools, Floats, Ints

GROWTH, LATE_GROWTH, LATE = 1.25, 1.05, 2000  # by how much draws grow, before and after so many: few are open then


@dataclass(frozen=True)
class Stopping:
    """When to stop: at `h` exceedances, when `choose` rejects, or at `cap` draws."""

    h: int
    cap: int
    choose: Callable[[Floats, Bools], Bools]  # p-values (H,), which of them there are -> rejected (H,)


class _Counts:
    """Draws and exceedances so far, of every hypothesis: what one run of the test writes on."""

    def __init__(self, size: int, h: int) -> None:
        self.h = h
        self.values, self.observed, self.classes = np.ones(size), np.full(size, np.nan), np.zeros(size, np.int64)
        self.draws, self.exceeded = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.open, self.drawable, self.least = np.ones(size, bool), np.ones(size, bool), np.zeros(size)

    def note(self, found: Found) -> None:
        """A hypothesis that needed no drawing: nothing is left open or to chance there."""
        rows = found.rows
        self.values[rows], self.observed[rows], self.classes[rows] = found.values, found.observed, found.classes
        self.draws[rows], self.open[rows] = found.draws or 0, False
        self.drawable[rows], self.least[rows] = found.drawable, found.least

    def evidence(self) -> Evidence:
        """As the test returns it."""
        everyone = np.arange(len(self.values))
        found = Found(everyone, self.values, self.observed, self.classes, drawable=self.drawable, least=self.least)
        return replace(gather("p", len(self.values), 0, [found]), draws=self.draws, open=self.open)


def sequential(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    stopping: Stopping,
    set_chosen: Callable[[int], None],
    known: Iterable[Found] = (),
) -> tuple[Evidence, bool]:
    """Anytime-valid Besag-Clifford p-values; a hypothesis closes at its h-th exceedance or when it is rejected.

    P only ever falls, so a rejection stands. Returns the evidence and whether the user interrupted (Ctrl-C): what is
    decided by then is valid, the rest is open. `known` is evidence on hypotheses that need no drawing, `set_chosen`
    hears how many are chosen so far.
    """
    counts, interrupted = _Counts(problem.size, stopping.h), False
    try:
        for found in known:
            counts.note(found)
        centre = _pilot(problem, evaluator, spec)
        drawn = 0
        for number, batch in enumerate(batches(stopping.h, stopping.cap)):
            drawn += batch
            _round(problem, evaluator, spec, (number, batch, drawn), centre, counts)
            chosen = stopping.choose(counts.values, counts.drawable)
            counts.open &= (counts.exceeded < stopping.h) & ~chosen
            set_chosen(int(chosen.sum()))
            if not counts.open.any():
                break
    except KeyboardInterrupt:
        interrupted = True
    if spec.picked is not None and not interrupted:
        counts.drawable[counts.open & (counts.draws == 0)] = False  # not a single draw passed
    chosen = stopping.choose(counts.values, counts.drawable)
    counts.open &= (counts.exceeded < stopping.h) & ~chosen & counts.drawable
    return counts.evidence(), interrupted


def batches(h: int, cap: int) -> Iterator[int]:
    """How many draws to add each time: max(8, h) first, then a quarter of what there is (later less), `cap` in all."""
    drawn = min(max(8, h), cap)
    yield drawn
    while drawn < cap:
        share = (GROWTH if drawn < LATE else LATE_GROWTH) - 1
        more = min(max(1, round(drawn * share)), cap - drawn)
        drawn += more
        yield more


def _pilot(problem: Problem, evaluator: Evaluator, spec: StatisticSpec) -> Floats | None:
    """Mean outputs (H, outputs) of the pilot draws, where the statistic has a centre."""
    if not spec.center:
        return None
    centre = np.empty((problem.size, evaluator.outputs))
    for job, outputs in evaluate(problem, evaluator, (Job(block, spec.center, "pilot") for block in problem.blocks)):
        centre[job.rows] = linked(snap(outputs[:, 1:]), spec.link).mean(axis=1)
    return centre


def _round(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    step: tuple[int, int, int],
    centre: Floats | None,
    counts: _Counts,
) -> None:
    """One batch for every open hypothesis, counted in the order in which it was drawn."""
    (number, batch, drawn), h = step, counts.h
    for job, outputs in evaluate(problem, evaluator, _jobs(problem, counts.open, number, batch)):
        rows = job.rows
        statistic, counts.observed[rows], counts.classes[rows] = _statistic(job, outputs, spec, centre)
        hits = statistic[:, 1:] >= statistic[:, :1]  # ties count against us: keeps p valid
        counted = np.ones_like(hits) if spec.picked is None else spec.picked.accept(outputs[:, 1:])
        counted = counted & (counts.exceeded[rows] < h)[:, None]  # a batch in parts may go on after the h-th exceedance
        draws, hit = besag_clifford(hits, counted, counts.draws[rows], counts.exceeded[rows], h)
        still = counts.exceeded[rows] < h
        rows, draws, hit = rows[still], draws[still], hit[still]
        counts.draws[rows], counts.exceeded[rows], counts.values[rows] = draws, hit, p_sequential(draws, hit, h)
        if spec.picked is not None:
            given_up = rows[(hit < h) & hopeless(draws, drawn)]
            counts.open[given_up], counts.drawable[given_up], counts.values[given_up] = False, False, 1.0


def _jobs(problem: Problem, is_open: Bools, number: int, batch: int) -> Iterator[Job]:
    for block in problem.blocks:
        ask = np.flatnonzero(is_open[block.rows])
        if ask.size:
            every = ask.size == block.stop - block.start
            for part, first in enumerate(range(0, batch, problem.round_draws)):
                size = min(problem.round_draws, batch - first)
                yield Job(block, size, f"{number}.{part}" if part else number, ask=None if every else ask)


def _statistic(job: Job, outputs: Floats, spec: StatisticSpec, centre: Floats | None) -> tuple[Floats, Floats, Ints]:
    """Statistic (n, versions), the observed value and its class (n,).

    The predicted class is that of *each* version by itself, compared around the pilot mean of that class: the draws
    are not all at hand, so the rule that looks at all of them cannot be used (METHODS 0).
    """
    if spec.target.kind != "predicted":
        return centred_statistic(job, outputs, spec, centre)
    assert centre is not None
    best = outputs.argmax(axis=2)
    own = spec.rounding.merge_rounding_ties(np.take_along_axis(outputs, best[:, :, None], axis=2)[:, :, 0])
    own = linked(own, spec.link)
    centred = own - np.take_along_axis(centre[job.rows], best, axis=1)
    zero = np.zeros(len(own)) if spec.alternative == "two-sided" else None
    return tail_statistic(centred, spec.alternative, zero), own[:, 0], best[:, 0]
