"""Jobs -> units of work -> model outputs, in the order of the jobs, whoever does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem, no_chance
from butfor.core.draw.listing import SUPPORT, Support
from butfor.core.evaluate.memory import Memory
from butfor.core.evaluate.units import Serial
from butfor.core.evaluate.workplace import Buffers, Engine, Look, Summary, Tolerance, UnitResult, Workplace, WorkUnit
from butfor.core.types import Floats, Ints, Model

GROUP_VALUES = 2**18  # drawn values and model outputs that are held at once
LARGE_GROUP = 2**20  # the same where all jobs are larger than a call
CALLS, LEAST_ROWS = 4, 2**12  # a unit is about so many calls of the model, or rows where those are small
QUICK = 0.1  # seconds of a unit below which the next may have twice the rows, where it is done here and now


class RowCounter(Protocol):
    """Hears of the model's rows as they are done."""

    def count_evaluated(self, rows: int) -> None: ...
    def count_requested(self, rows: int) -> None: ...  # evaluated or remembered
    def count_deduplicated(self, rows: int) -> None: ...  # need no evaluation, being equal to others of their call


class NoCounter:
    """UnitCounts nothing."""

    def count_evaluated(self, rows: int) -> None: ...
    def count_requested(self, rows: int) -> None: ...
    def count_deduplicated(self, rows: int) -> None: ...


@dataclass(frozen=True, eq=False)
class Seen:
    """What watchers are told of a job beside what their `look` found: probabilities of what was listed."""

    job: Job
    mass: Floats | None = None  # (n, versions - 1)


class Watcher(Protocol):
    """Hears of every job of a run, in order. `look` sees the counterfactuals where they are drawn; None: no need."""

    @property
    def look(self) -> Look | None: ...
    def note(self, seen: Seen, found: Any) -> None: ...


@dataclass(frozen=True)
class Evaluator:
    """A model, how many rows it is given at a time, how many outputs it has, and who is told of rows done.

    `memory` is for samplers whose draws repeat: answers already given over a whole run. All of `seen` are told of
    every job as it is done. `engine` does the work; `failed` names hypotheses that go untested, and why.
    """

    model: Model
    batch_rows: int
    outputs: int
    counter: RowCounter = field(default_factory=NoCounter)
    memory: Memory | None = None
    seen: tuple[Watcher, ...] = ()
    engine: Engine = field(default_factory=Serial)
    tolerance: Tolerance = field(default_factory=Tolerance)
    failed: dict[int, str] = field(default_factory=dict)
    buffers: Buffers = field(default_factory=Buffers)
    remembered: Model | None = None  # the model as it is asked outside of units, where its answers are kept

    @property
    def direct(self) -> Model:
        """The model, to be asked here and now."""
        return self.model if self.remembered is None else self.remembered

    def show(self, problem: Problem, batch: CounterfactualBatch, outputs: Floats) -> None:
        """Show a batch that is done to whoever wants to see it."""
        for watcher in self.seen:
            found = None if watcher.look is None else watcher.look(problem, batch, outputs)
            watcher.note(Seen(batch.job, batch.mass), found)

    def untested(self, size: int) -> Ints:
        """Hypotheses that the model or the sampler failed on."""
        return np.array(sorted(row for row in self.failed if row < size), np.int64)


def evaluate(problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]) -> Iterator[tuple[Job, Floats]]:
    """Each job with its outputs (inputs, versions, outputs), version 0 being the observed input.

    The observed row is evaluated in the same calls as its counterfactuals: a BLAS row predicted in another batch may
    differ in its last bits (METHODS 6). Rows of several small jobs share a call; rows of a large one are split.
    """
    return chain.from_iterable(evaluate_together(problem, evaluator, jobs))


def evaluate_together(
    problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]
) -> Iterator[list[tuple[Job, Floats]]]:
    """As `evaluate`, but jobs that are evaluated together come together: what follows can then be done in one go."""
    for unit, result in _in_order(problem, evaluator, jobs):
        yield list(zip(unit.jobs, result.outputs, strict=True))


def summaries(
    problem: Problem, evaluator: Evaluator, jobs: Iterable[Job], summary_of: Callable[[tuple[Job, ...]], Summary]
) -> Iterator[tuple[tuple[Job, ...], Any]]:
    """Jobs that are evaluated together, and a summary of their outputs, which is made where they are.

    `summary_of` gives the function that does so for some jobs, with all that it needs and no more: it travels.
    """
    for unit, result in _in_order(problem, evaluator, jobs, summary_of):
        yield unit.jobs, result.summary


def watch_only(problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]) -> None:
    """Evaluate jobs for those who watch; nobody else needs the outputs."""
    for _ in summaries(problem, evaluator, jobs, lambda _: nothing):
        pass


def nothing(jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> None:
    """The summary of outputs that only watchers look at."""


def evaluate_listed(
    problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]
) -> Iterator[tuple[Job, Floats, Support]]:
    """Jobs of counterfactuals that are listed, with their outputs and probabilities."""
    for unit, result in _in_order(problem, evaluator, jobs):
        for job, outputs, support in zip(unit.jobs, result.outputs, result.supports, strict=True):
            assert support is not None
            yield replace(job, draws=support.mass.shape[1]), outputs, support


def _in_order(
    problem: Problem,
    evaluator: Evaluator,
    jobs: Iterable[Job],
    summary_of: Callable[[tuple[Job, ...]], Summary] | None = None,
) -> Iterator[tuple[WorkUnit, UnitResult]]:
    """Units with their results in the order of the jobs: what is made of them is then the same for every engine."""
    if evaluator.memory is not None:
        evaluator.memory.clear_if_full()
    handed: dict[int, WorkUnit] = {}
    done: dict[int, UnitResult] = {}
    turn = 0
    units = _units(problem, evaluator, jobs, handed, summary_of)
    for place, result in evaluator.engine.map(_workplace(problem, evaluator), units):
        done[place] = result
        while turn in done:
            unit, ready = handed.pop(turn), done.pop(turn)
            _note(problem, evaluator, unit, ready)
            yield unit, ready
            turn += 1


def _workplace(problem: Problem, evaluator: Evaluator) -> Workplace:
    """What all units of a stage share; the blocks come with their jobs."""
    none, memory = np.zeros(0, np.int64), evaluator.memory
    light = replace(problem, blocks=(), subset_names=(), input_of=none, subset_of=none, watch=None, layers=None)
    return Workplace(
        problem=light,
        model=evaluator.model,
        batch_rows=evaluator.batch_rows,
        outputs=evaluator.outputs,
        repeating=frozenset() if memory is None else memory.subsets,
        observed=None if memory is None else memory.observed,
        tolerance=evaluator.tolerance,
        buffers=evaluator.buffers,
    )


def _units(
    problem: Problem,
    evaluator: Evaluator,
    jobs: Iterable[Job],
    handed: dict[int, WorkUnit],
    summary_of: Callable[[tuple[Job, ...]], Summary] | None,
) -> Iterator[WorkUnit]:
    """Jobs in groups, with what is known of them by now; `handed` keeps them by number until they are done."""
    for place, group in enumerate(_groups(problem, evaluator, jobs)):
        known = {} if evaluator.memory is None else evaluator.memory.of(group)
        watched = problem.watch is not None and not problem.watch.differ
        own, looks = tuple(group), tuple(watcher.look for watcher in evaluator.seen)
        summary = None if summary_of is None else summary_of(own)
        handed[place] = WorkUnit(own, looks, summary, watched, known)
        yield handed[place]


def _groups(problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """As many jobs together as may be held; large ones of a table are painted over, the more of them the better.

    Where draws cost much a group is one call of the model, so that little is lost with it. Where they repeat, all jobs
    of a block stay together: groups are then independent of each other.
    """
    group: list[Job] = []
    held, large, rows = 0, 0, 0
    usual = room = max(CALLS * evaluator.batch_rows, LEAST_ROWS)
    costly, alike = problem.items.costly, problem.items.shares_subsets
    grows = isinstance(evaluator.engine, Serial) and evaluator.memory is None
    for job in jobs:
        own = job.count * job.versions
        plain = job.ask is None and job.keep is None and job.round != SUPPORT
        is_large = alike and plain and own > evaluator.batch_rows
        together = bool(group) and evaluator.memory is not None and job.block is group[-1].block
        all_large = large == len(group)  # none of them shares a call, so how many there are may hang on the clock
        if costly:
            full = rows + own > evaluator.batch_rows
        else:
            full = rows >= (room if all_large else usual) or held >= (LARGE_GROUP if all_large else GROUP_VALUES)
            full |= all_large and not is_large  # small ones share calls: with whom must be the same in every run
        if group and full and not together:
            begun = perf_counter()
            yield group
            room = 2 * room if grows and perf_counter() - begun < QUICK else usual
            group, held, large, rows = [], 0, 0, 0
        group.append(job)
        rows += own
        if not costly:
            held += own * max(evaluator.outputs, problem.items.size(job.block.start, job.block.subset))
            large += is_large
    if group:
        yield group


def _note(problem: Problem, evaluator: Evaluator, unit: WorkUnit, result: UnitResult) -> None:
    """Tell everybody of a unit that is done."""
    requested, evaluated, deduplicated = result.rows
    evaluator.counter.count_requested(requested)
    evaluator.counter.count_deduplicated(deduplicated)
    evaluator.counter.count_evaluated(evaluated)
    if evaluator.memory is not None:
        evaluator.memory.learn(result.news)
    evaluator.failed.update(result.failed)
    if problem.watch is not None:
        problem.watch.add(*result.chance)
        if problem.watch.is_degenerate and problem.items.costly:  # others are refused when the run is over
            raise no_chance(problem)
    for job, support, found in zip(unit.jobs, result.supports, result.found, strict=True):
        made = job if support is None else replace(job, draws=support.mass.shape[1])
        seen = Seen(made, None if support is None else support.mass)
        for watcher, one in zip(evaluator.seen, found, strict=True):
            watcher.note(seen, one)
