"""The default test: draws until each hypothesis is decided, with p-values that are valid at any time (METHODS 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from math import lgamma
from operator import attrgetter

import numpy as np

from butfor.evaluation.evaluator import Evaluator, evaluate_together, summaries
from butfor.evaluation.hypotheses import Job, Problem, partial_job
from butfor.evaluation.items import content_digest
from butfor.inference.outputs import linked, snap
from butfor.inference.statistics import (
    Evidence,
    Found,
    StatisticSpec,
    besag_clifford,
    centred_statistic,
    gather,
    hopeless,
    p_sequential,
)
from butfor.types import Bools, Floats, Ints

GROWTH, LATE_GROWTH, LATE = 1.25, 1.05, 2000  # by how much draws grow, before and after so many: few are open then
AHEAD, SPARE = 4, 0.02  # looks are left out up to so many times the draws there are, and for such a share in vain

POINTS = 16  # of a batch, at which it is asked how much is closed


def batches(h: int, cap: int, first: int = 0) -> Iterator[int]:
    """How many draws to add each time, if no look is left out: max(8, h) first or more, then by `step`."""
    drawn = first_batch(h, cap, first)
    yield drawn
    while drawn < cap:
        more = step(drawn, cap)
        drawn += more
        yield more


def first_batch(h: int, cap: int, first: int = 0) -> int:
    """The draws that every hypothesis gets."""
    return min(max(8, h, first), cap)


def step(drawn: int, cap: int) -> int:
    """A quarter of what there is, later less.

    >>> step(40, 1000), step(4000, 100_000), step(40, 45)
    (10, 200, 5)
    """
    share = (GROWTH if drawn < LATE else LATE_GROWTH) - 1
    return min(max(1, round(drawn * share)), cap - drawn)


def steps_ahead(drawn: int, cap: int, h: int, exceeded: Ints, decides: Callable[[int], bool]) -> int:
    """How many draws to add for the open hypotheses, which exceeded (n,) times so far: a step, or several at once.

    A look where nothing can be rejected, whatever the draws (`decides` says at how many draws something can), only
    closes what has its h exceedances. Where hardly anything is expected to, it is left out: p-values are valid whenever
    one looks, and a look costs time and an observed row for every open hypothesis.
    """
    batch = step(drawn, cap)
    while drawn + batch < min(AHEAD * drawn, cap):
        more = batch + step(drawn + batch, cap)
        if share_in_vain(drawn, more, h, exceeded) > SPARE or decides(drawn + batch):
            break
        batch = more
    return batch


def share_in_vain(drawn: int, batch: int, h: int, exceeded: Ints) -> float:
    """Which share of the draws to add is expected to come after an h-th exceedance, p-values being uniform beforehand.

    Where L of n draws exceeded, t more bring the h-th with probability P(Bin(h, t / (n + t)) >= h - L).

    >>> round(share_in_vain(100, 25, 10, np.array([9])), 2), round(share_in_vain(100, 25, 10, np.array([0])), 2)
    (0.62, 0.0)
    """
    more = batch * (np.arange(POINTS) + 0.5) / POINTS
    share, k = more / (drawn + more), np.arange(h + 1)
    ways = np.array([lgamma(h + 1) - lgamma(i + 1) - lgamma(h - i + 1) for i in range(h + 1)])
    exactly = np.exp(ways[:, None] + k[:, None] * np.log(share) + (h - k[:, None]) * np.log1p(-share))
    closed = exactly[::-1].cumsum(axis=0).mean(axis=1)  # P(Bin >= h - L) over the batch, by L = 0, 1, ..., h
    return float(np.bincount(exceeded, minlength=h + 1) @ closed) / len(exceeded)


@dataclass(frozen=True)
class Stopping:
    """When to stop: at `h` exceedances, when `choose` rejects, or at `cap` draws.

    The first `pilot` draws are made of every hypothesis; `learn` then hears what p-values they alone would give.
    """

    h: int
    cap: int
    choose: Callable[[Floats, Bools], Bools]  # p-values (H,), which of them there are -> rejected (H,)
    deep: float = 1.0  # what is rejected goes on until its p-value is at most this, where bounds are wanted
    pilot: int = 0
    learn: Callable[[Floats, Bools], None] | None = None  # p-values (H,), which of them there are
    expect: Callable[[int], None] | None = None  # hears about how many rows are left
    at_best: Callable[[Floats, Bools], Bools] | None = None  # as `choose`: where it rejects nothing open, drawing ends
    waits: Callable[[Floats, Bools, Bools], Bools] | None = None  # what is not drawn while its larger parts are open


class _Counts:
    """Draws and exceedances so far, of every hypothesis: what one run of the test writes on."""

    def __init__(self, size: int, h: int) -> None:
        self.h = h
        self.values, self.observed, self.classes = np.ones(size), np.full(size, np.nan), np.zeros(size, np.int64)
        self.draws, self.exceeded = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.open, self.drawable, self.least = np.ones(size, bool), np.ones(size, bool), np.zeros(size)
        self.waiting = np.zeros(size, bool)  # for what it is a part of to be chosen; until then it is not drawn
        self.listed = np.full(size, np.nan)  # the surprise of what needed no drawing

    def note(self, found: Found) -> None:
        """A hypothesis that needed no drawing: nothing is left open or to chance there."""
        rows = found.rows
        self.values[rows], self.observed[rows], self.classes[rows] = found.values, found.observed, found.classes
        self.draws[rows], self.open[rows] = found.draws or 0, False
        self.drawable[rows] = True if found.drawable is None else found.drawable
        self.least[rows] = 0.0 if found.least is None else found.least
        self.listed[rows] = 1 - found.values if found.surprise is None else found.surprise

    @property
    def drawn(self) -> Bools:
        """What the next round draws (H,)."""
        return self.open & ~self.waiting

    def give_up(self, rows: Ints) -> None:
        """Hypotheses that the model or the sampler failed on: nothing speaks against the null."""
        self.values[rows], self.open[rows], self.exceeded[rows] = 1.0, False, self.h

    def rows_left(self, cap: int) -> int:
        """About how many draws are left, if exceedances go on as they came; where none came, as many again as there
        are."""
        draws, exceeded = self.draws[self.drawn], self.exceeded[self.drawn]
        pace = np.where(exceeded > 0, draws * (self.h - exceeded) / np.maximum(exceeded, 1), draws)
        return int(np.minimum(pace, np.maximum(cap - draws, 0)).sum())

    def pilot_p(self) -> Floats:
        """The p-value of every hypothesis, as if its first draws had been all."""
        ended = np.isfinite(self.listed) | (self.exceeded >= self.h)  # exact, or frozen at the h-th exceedance
        return np.where(ended, self.values, (1 + self.exceeded) / (1 + self.draws))

    def evidence(self) -> Evidence:
        """As the test returns it."""
        everyone = np.arange(len(self.values))
        below = 1 - self.exceeded / np.where(self.draws > 0, self.draws, np.nan)
        found = Found(
            everyone,
            self.values,
            self.observed,
            self.classes,
            drawable=self.drawable,
            least=self.least,
            surprise=np.where(np.isfinite(self.listed), self.listed, below),
        )
        return replace(gather("p", len(self.values), 0, [found]), draws=self.draws, open=self.open)


def sequential(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    stopping: Stopping,
    set_chosen: Callable[[Bools], None],
    known: Iterable[Found] = (),
) -> tuple[Evidence, bool]:
    """Anytime-valid Besag-Clifford p-values; a hypothesis closes at its h-th exceedance or when it is rejected.

    P only ever falls, so a rejection stands. Returns the evidence and whether the user interrupted (Ctrl-C): what is
    decided by then is valid, the rest is open. `known` is evidence on hypotheses that need no drawing, `set_chosen`
    hears which are chosen so far.
    """
    counts, interrupted = _Counts(problem.size, stopping.h), False
    try:
        for found in known:
            counts.note(found)
        centre = _pilot(problem, evaluator, spec)
        mark = content_digest((spec, centre))
        number, drawn = 0, 0
        while drawn < stopping.cap:
            batch = _next_batch(drawn, counts, stopping, spec)
            drawn += batch
            _round(problem, evaluator, spec, (number, batch, drawn), (centre, mark), counts)
            counts.give_up(evaluator.untested(problem.size))
            if number == 0 and stopping.learn is not None:
                stopping.learn(counts.pilot_p(), counts.drawable)
            chosen = stopping.choose(counts.values, counts.drawable)
            counts.open &= (counts.exceeded < stopping.h) & ~(chosen & (counts.values <= stopping.deep))
            if stopping.waits is not None:
                counts.waiting = counts.open & stopping.waits(counts.values, counts.drawable, chosen)
            set_chosen(chosen)
            if stopping.expect is not None:
                stopping.expect(counts.rows_left(stopping.cap))
            if not counts.drawn.any() or _out_of_reach(counts, stopping):
                break
            number += 1
    except KeyboardInterrupt:
        interrupted = True
    if spec.picked is not None and not interrupted:
        counts.drawable[counts.open & (counts.draws == 0)] = False  # not a single draw passed
    chosen = stopping.choose(counts.values, counts.drawable)
    counts.open &= (counts.exceeded < stopping.h) & ~chosen & counts.drawable & ~counts.waiting
    return counts.evidence(), interrupted


def _out_of_reach(counts: _Counts, stopping: Stopping) -> bool:
    """Whether nothing that is open could be rejected, even if no draw up to the last exceeded any more."""
    if stopping.at_best is None:
        return False
    best = _at_best(stopping.cap, counts, stopping.h)
    return not (stopping.at_best(best, counts.drawable) & counts.open).any()


def _next_batch(drawn: int, counts: _Counts, stopping: Stopping, spec: StatisticSpec) -> int:
    """How many draws to add to those that every open hypothesis has."""
    h, cap = stopping.h, stopping.cap
    if not drawn:
        return first_batch(h, cap, stopping.pilot)
    if spec.picked is not None or stopping.waits is not None:  # there every look may change what is drawn next
        return step(drawn, cap)

    def decides(draws: int) -> bool:
        """Whether a look after so many draws could close anything by rejecting it."""
        best = _at_best(draws, counts, h)
        return bool((stopping.choose(best, counts.drawable) & counts.open & (best <= stopping.deep)).any())

    return steps_ahead(drawn, cap, h, counts.exceeded[counts.drawn], decides)


def _at_best(draws: int, counts: _Counts, h: int) -> Floats:
    """p-values (H,) after so many draws, if none exceeded any more."""
    return np.where(counts.open, p_sequential(np.full(len(counts.open), draws), counts.exceeded, h), counts.values)


def _pilot(problem: Problem, evaluator: Evaluator, spec: StatisticSpec) -> Floats | None:
    """Mean outputs (H, outputs) of the pilot draws, where the statistic has a centre."""
    if not spec.center:
        return None
    centre = np.empty((problem.size, evaluator.outputs))
    pilots = (Job(block, spec.center, "pilot") for block in problem.blocks)
    for jobs, means in summaries(problem, evaluator, pilots, lambda _: MeanOutputs(spec.link)):
        centre[np.concatenate([job.rows for job in jobs])] = means
    return centre


@dataclass(frozen=True)
class MeanOutputs:
    """Mean outputs (n, outputs) of the draws of a unit, on the scale of the test."""

    link: str | None

    def __call__(self, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> Floats:  # noqa: ARG002
        return np.concatenate([linked(snap(own[:, 1:]), self.link).mean(axis=1) for own in outputs])


def _round(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    step: tuple[int, int, int],
    centred: tuple[Floats | None, bytes],
    counts: _Counts,
) -> None:
    """One batch for every open hypothesis, counted in the order in which it was drawn."""
    (number, batch, drawn), (centre, mark) = step, centred
    by_part = problem.items.shares_subsets and evaluator.memory is None
    jobs = _jobs(problem, counts.drawn, number, batch, by_part=by_part)
    if spec.picked is not None:
        for done in evaluate_together(problem, evaluator, jobs):
            own, outputs = zip(*done, strict=True)
            for rows, start, stop in _alike(own):
                inputs, said = (
                    np.concatenate([job.inputs for job in own[start:stop]]),
                    np.concatenate(outputs[start:stop]),
                )
                found = _hits(rows, inputs, said, spec, centre)
                _count(rows, found, spec.picked.accept(said[:, 1:]), counts, drawn)
        return

    def summary_of(some: tuple[Job, ...]) -> CountHits:
        inputs = np.concatenate([job.inputs for job in some])
        middle = None if centre is None else centre[np.concatenate([job.rows for job in some])]
        return CountHits(spec.at(inputs), middle, mark)

    for some, found in summaries(problem, evaluator, jobs, summary_of):
        for (rows, _, _), part in zip(_alike(some), found, strict=True):
            _count(rows, part, None, counts, drawn)


def _alike(jobs: Sequence[Job]) -> Iterator[tuple[Ints, int, int]]:
    """Hypotheses (n,) of jobs that follow each other and are alike, so that they are counted in one go."""
    stop = 0
    for _, own in groupby(jobs, key=attrgetter("round", "draws", "part")):  # a hypothesis is in one job
        rows = [job.rows for job in own]
        yield np.concatenate(rows), stop, stop + len(rows)
        stop += len(rows)


Hits = tuple[Bools, Floats, Ints]  # (n, draws) at least as extreme as the observed value, which is (n,), of class (n,)


@dataclass(frozen=True, eq=False)
class CountHits:
    """Which draws of a unit are at least as extreme as the observed input: a bit of each is all that a test needs."""

    spec: StatisticSpec  # for the inputs of the unit's jobs, one after the other
    centre: Floats | None  # (hypotheses of the unit, outputs)
    mark: bytes  # of the statistic and the centres of all hypotheses

    def __call__(self, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> list[Hits]:
        found: list[Hits] = []
        first = 0
        for rows, start, stop in _alike(jobs):
            places = np.arange(first, first + len(rows))
            found.append(_hits(places, places, np.concatenate(outputs[start:stop]), self.spec, self.centre))
            first += len(rows)
        return found


def _hits(rows: Ints, inputs: Ints, outputs: Floats, spec: StatisticSpec, centre: Floats | None) -> Hits:
    statistic, observed, classes = centred_statistic(rows, inputs, outputs, spec, centre)
    return statistic[:, 1:] >= statistic[:, :1] - spec.margin, observed, classes  # ties count against us: p stays valid


def _count(rows: Ints, found: Hits, counted: Bools | None, counts: _Counts, drawn: int) -> None:
    """Note the draws of some hypotheses, of all subsets in one go; `counted` (n, draws) where some do not count."""
    h, before = counts.h, counts.exceeded[rows]
    hits, counts.observed[rows], counts.classes[rows] = found
    still = before < h  # a batch in parts may go on after the h-th exceedance
    picked = counted is not None
    if not still.all():
        rows, hits, before = rows[still], hits[still], before[still]
        counted = None if counted is None else counted[still]
    draws, hit = besag_clifford(hits, counted, counts.draws[rows], before, h)
    counts.draws[rows], counts.exceeded[rows], counts.values[rows] = draws, hit, p_sequential(draws, hit, h)
    if picked:
        given_up = rows[(hit < h) & hopeless(draws, drawn)]
        counts.open[given_up], counts.drawable[given_up], counts.values[given_up] = False, False, 1.0


def _jobs(problem: Problem, is_open: Bools, number: int, batch: int, *, by_part: bool) -> Iterator[Job]:
    """For every block with open hypotheses its draws of this round, in parts of at most `round_draws`.

    With `by_part` a part of all blocks comes before the next part of any, so that jobs that are alike follow each other
    and are counted together. Where draws repeat, those of a block stay together: equal ones are evaluated once.
    """
    order, starts = problem.block_order
    found = np.flatnonzero(is_open[order])
    ends = np.searchsorted(found, starts)
    within, rows = found - np.repeat(starts[:-1], np.diff(ends)), order[found]
    asked = [
        (block, slice(first, last), last - first == block.stop - block.start)
        for block, first, last in zip(problem.blocks, ends.tolist(), ends[1:].tolist(), strict=False)
        if first < last
    ]
    most = problem.round_draws
    parts = [
        (f"{number}.{part}" if part else number, min(most, batch - done))
        for part, done in enumerate(range(0, batch, most))
    ]
    ordered = [(one, part) for part in parts for one in asked] if by_part else product(asked, parts)
    for (block, own, every), (name, size) in ordered:
        yield Job(block, size, name) if every else partial_job(block, size, name, within[own], rows[own])
