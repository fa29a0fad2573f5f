"""One unit of work: draw its jobs, ask the model, and keep what the run needs of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from zlib import crc32

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem, draw, draw_all
from butfor.core.draw.chance import Watch
from butfor.core.draw.listing import SUPPORT, Support, listed_block
from butfor.core.draw.samplers import SamplerInfo
from butfor.core.evaluate.calls import evaluate_group
from butfor.core.evaluate.patience import TRIES, again, within
from butfor.core.evaluate.workplace import Tolerance, UnitContext, UnitResult, Workplace, WorkUnit
from butfor.core.types import Array, Batch, Floats, Ints, ModelError, Subset


class Serial:
    """The engine that is always there: one unit after the other, here."""

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]:
        for number, unit in enumerate(units):
            yield number, evaluate_unit(place, unit) if unit.result is None else unit.result


def evaluate_unit(place: Workplace, unit: WorkUnit) -> UnitResult:
    """The outputs of all jobs of a unit, and what is kept of their counterfactuals; the same bits wherever it runs."""
    context = UnitContext(place, unit.known)
    watch = Watch(place.problem.items.costly) if unit.watched else None
    problem = replace(place.problem, watch=watch)
    drawn = list(_drawn(problem, unit) if place.tolerance == Tolerance() else _patient(problem, context, unit))
    done = evaluate_group(context, [batch for batch, _ in drawn])
    _give_up(context, done)
    found = tuple(
        tuple([None if look is None else look(place.problem, batch, outputs) for look in unit.looks])  # quicker so
        for batch, outputs in done
    )
    counts = context.counts
    outputs = tuple(own for _, own in done)
    return UnitResult(
        outputs=outputs if unit.summary is None else (),
        found=found,
        supports=tuple(support for _, support in drawn),
        rows=(counts.requested, counts.evaluated, counts.deduplicated),
        news=context.news,
        chance=(False, 0) if watch is None else (watch.differ, watch.alike),
        failed=context.failed,
        summary=None if unit.summary is None else unit.summary(unit.jobs, outputs),
        sample=None if unit.summary is None else _sample(place.problem.seed, unit, outputs),
    )


SAMPLED = 8  # inputs of a unit whose outputs are kept beside its summary


def _sample(seed: int, unit: WorkUnit, outputs: tuple[Floats, ...]) -> tuple[int, Ints, Floats]:
    """Outputs of a few inputs of one job, taken by lot: a run that goes on compares them with what the model says then.

    Every job is as likely as any other, and so is every input of it: a fixed step from a random start.
    """
    first = unit.jobs[0]
    lot = crc32(repr((seed, first.block.subset.name, first.round, int(first.rows[0]))).encode("utf-8", "replace"))
    number, lot = lot % len(unit.jobs), lot // len(unit.jobs)
    count = len(outputs[number])
    step = max(1, count // SAMPLED)
    inputs = np.arange(lot % step, count, step)[:SAMPLED]
    return number, inputs, outputs[number][inputs]


Drawn = tuple[CounterfactualBatch, Support | None]


def _drawn(problem: Problem, unit: WorkUnit) -> Iterator[Drawn]:
    """The counterfactuals of every job, drawn or listed."""
    if unit.jobs[0].round == SUPPORT:
        for job in unit.jobs:
            listed = listed_block(problem, job.block)
            yield listed.batch, listed.support
        return
    for batch in draw_all(problem, unit.jobs):
        yield batch, None


def _patient(problem: Problem, context: UnitContext, unit: WorkUnit) -> Iterator[Drawn]:
    """The same where the sampler may take only so long, or fail: what it cannot draw is left as it is observed."""
    tolerance = context.place.tolerance
    for job in unit.jobs:
        alone = replace(unit, jobs=(job,))

        def once(alone: WorkUnit = alone) -> Drawn:
            return within(tolerance.timeout, lambda: next(_drawn(problem, alone)))

        try:
            yield again(once, TRIES if tolerance.skip else 1)
        except (TimeoutError, ModelError) as error:
            if not tolerance.skip:
                said = f"the sampler gave {error} on {problem.name_of(job.block)}"
                raise ModelError(said if isinstance(error, TimeoutError) else str(error)) from error
            yield _undrawn(problem, context, job, error)


def _undrawn(problem: Problem, context: UnitContext, job: Job, error: Exception) -> Drawn:
    """Copies of the observed inputs in place of draws that could not be made."""
    context.failed.update(dict.fromkeys(job.rows.tolist(), f"the sampler failed: {error}"))
    batch = draw(replace(problem, sampler=Unchanged(), watch=None), job)
    if job.round != SUPPORT:
        return batch, None
    mass = np.full((len(job.rows), job.draws), 1 / job.draws)
    return replace(batch, mass=mass), Support(mass, np.zeros(len(mass)), np.zeros(len(mass)))


class Unchanged:
    """Stands in for a sampler that fails: nothing is changed."""

    info = SamplerInfo("unchanged", takes_missing=True)

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: object) -> Batch:  # noqa: ARG002
        return [one for one in inputs for _ in range(draws)]

    def values(self, inputs: Array, subset: Subset, draws: int, rng: object) -> Array:  # noqa: ARG002
        return np.repeat(inputs[:, subset.index], draws, axis=0)


def _give_up(context: UnitContext, done: list[tuple[CounterfactualBatch, Floats]]) -> None:
    """Outputs of hypotheses with a row that failed become all equal: nothing is to be made of them."""
    if not context.place.tolerance.skip:
        return
    for batch, outputs in done:
        rows = batch.job.rows
        bad = ~np.isfinite(outputs).all(axis=(1, 2)) | np.isin(rows, list(context.failed))
        outputs[bad] = 0.0
        for row in rows[bad].tolist():
            context.failed.setdefault(row, "the model failed on one of its rows")
