"""One unit of work: draw its jobs, ask the model, and keep what the run needs of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from butfor.core.draw.blocks import CounterfactualBatch, draw_all
from butfor.core.draw.chance import Watch
from butfor.core.draw.listing import SUPPORT, Support, listed_block
from butfor.core.evaluate.calls import evaluate_group
from butfor.core.evaluate.workplace import Unit, UnitContext, UnitResult, Workplace


class Serial:
    """The engine that is always there: one unit after the other, here."""

    def map(self, place: Workplace, units: Iterable[Unit]) -> Iterator[tuple[int, UnitResult]]:
        for number, unit in enumerate(units):
            yield number, evaluate_unit(place, unit) if unit.result is None else unit.result


def evaluate_unit(place: Workplace, unit: Unit) -> UnitResult:
    """The outputs of all jobs of a unit, and what is kept of their counterfactuals; the same bits wherever it runs."""
    context = UnitContext(place, unit.known)
    watch = Watch(place.problem.items.costly) if unit.watched else None
    drawn = list(_drawn(replace(place, problem=replace(place.problem, watch=watch)), unit))
    done = evaluate_group(context, [batch for batch, _ in drawn])
    found = tuple(
        tuple(None if look is None else look(place.problem, batch, outputs) for look in unit.looks)
        for batch, outputs in done
    )
    counts = context.counts
    return UnitResult(
        outputs=tuple(outputs for _, outputs in done),
        found=found,
        supports=tuple(support for _, support in drawn),
        rows=(counts.requested, counts.evaluated, counts.deduplicated),
        news=context.news,
        chance=(False, 0) if watch is None else (watch.differ, watch.alike),
    )


def _drawn(place: Workplace, unit: Unit) -> Iterator[tuple[CounterfactualBatch, Support | None]]:
    """The counterfactuals of every job, drawn or listed."""
    if unit.jobs[0].round == SUPPORT:
        for job in unit.jobs:
            listed = listed_block(place.problem, job.block)
            yield listed.batch, listed.support
        return
    for batch in draw_all(place.problem, unit.jobs):
        yield batch, None
