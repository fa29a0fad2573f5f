"""Units on several workers: threads, processes or a cluster; what differs is who opens them and how things travel.

Which jobs a unit holds depends on the run alone, never on the workers, and results are taken in order: so every engine
gives the same bits. Small units travel together, so that a trip is worth its while; a stage that is not is done here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Protocol

from butfor.core.draw.listing import SUPPORT
from butfor.core.evaluate.split import failed_unit, halves, joined
from butfor.core.evaluate.units import evaluate_unit
from butfor.core.evaluate.workplace import Tolerance, UnitResult, Workplace, WorkUnit
from butfor.core.types import Model, ModelError
from butfor.engine.trips import Trip, WorkerState

LONGEST = 5  # times the least seconds of a trip
MOST_HERE = 0.2  # seconds of a stage that is done here, whoever else is there
MOST_UNITS = 256  # of one trip
AHEAD = 3  # trips per worker that are under way
TRIES = 3  # of a trip whose worker died
DIED = "the worker was lost {tries} times (killed, out of memory or crashed) on a unit with {what}"


class Workers(Protocol):
    """Opens workers, and brings a workplace to them."""

    count: int
    least_seconds: float  # of one trip, so that the way there and back is little of it

    def submit(self, handle: Any, units: tuple[WorkUnit, ...]) -> Future[Trip]: ...
    def ship(self, place: Workplace) -> Any: ...
    def reopen(self) -> None: ...  # after workers were lost


def work(place: Workplace, units: tuple[WorkUnit, ...]) -> Trip:
    """What a worker does."""
    start = time.perf_counter()
    done = tuple(evaluate_unit(place, unit) for unit in units)
    return Trip(done, time.perf_counter() - start, f"{os.getpid()} {threading.current_thread().name}")


Numbered = tuple[int, WorkUnit]


@dataclass(frozen=True, eq=False)
class UnderWay:
    """Units that a worker has: the how-manieth trip of its stage, and when it began where its worker was free."""

    number: int
    units: tuple[Numbered, ...]
    began: float | None


Flying = dict[Future[Trip], UnderWay]


class WorkerPool:
    """The engine of several workers."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._shipped: dict[tuple[object, ...], tuple[Workplace, Any]] = {}
        self._size = 1  # units of a trip
        self._way: float | None = None  # seconds there and back, beside the work itself
        self._paces: dict[int, tuple[Model, float]] = {}  # seconds of a row of each model
        self._sound = True  # no worker was lost
        self.states: dict[str, WorkerState] = {}

    def __repr__(self) -> str:
        return repr(self.workers)

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]:
        """Results as they come; never far ahead of the oldest that is still under way."""
        every = enumerate(units)
        first = list(islice(every, self.workers.count + 1))
        if self._is_done_here(place, [unit for _, unit in first]):
            for number, unit in first:
                yield number, self._here(place, unit) if unit.result is None else unit.result
            return
        left, flying = chain(first, every), Flying()
        number, over = 0, False
        try:
            while not over or flying:
                oldest = min((trip.number for trip in flying.values()), default=number)
                while not over and number - oldest < AHEAD * self.workers.count:
                    bundles, known, over = self._bundles(left)
                    yield from known
                    for bundle in bundles:
                        began = time.perf_counter() if len(flying) < self.workers.count else None
                        flying[self._submit(place, bundle)] = UnderWay(number, bundle, began)
                        number += 1
                        oldest = min(oldest, number - 1)
                yield from self._arrived(place, flying)
        finally:
            for future in flying:
                future.cancel()
            if flying:
                self._lose()  # stopped or failed: nobody waits for what is under way

    def _is_done_here(self, place: Workplace, units: list[WorkUnit]) -> bool:
        """Whether a stage is so little that the way to the workers would take longer than their help saves.

        Never where a model may fail: a worker can be lost, we cannot.
        """
        new = [unit for unit in units if unit.result is None]
        listed = any(unit.jobs[0].round == SUPPORT for unit in new)  # who knows how much
        if len(units) > self.workers.count or listed or not self._sound or place.tolerance != Tolerance():
            return False
        _, pace = self._paces.get(id(place.model), (None, None))
        if pace is None or self._way is None:
            return not new
        seconds = pace * sum(len(job.members) * job.versions for unit in new for job in unit.jobs)
        return seconds < MOST_HERE and seconds * (1 - 1 / max(1, len(new))) < self._way

    def _here(self, place: Workplace, unit: WorkUnit) -> UnitResult:
        trip = work(place, (unit,))
        self._learn(place, trip, None)
        return trip.results[0]

    def _bundles(
        self, left: Iterator[Numbered]
    ) -> tuple[list[tuple[Numbered, ...]], list[tuple[int, UnitResult]], bool]:
        """The next units, a trip for each worker, results on the way that are known already, and whether that was all.

        What is left at the end of a stage is shared out evenly: rounds of a sequential test are often small.
        """
        new: list[Numbered] = []
        known: list[tuple[int, UnitResult]] = []
        over, wanted = True, self._size * self.workers.count
        for place, unit in left:
            if unit.result is not None:
                known.append((place, unit.result))
            else:
                new.append((place, unit))
            if len(new) >= wanted or len(known) >= MOST_UNITS:
                over = False
                break
        each = max(1, -(-len(new) // self.workers.count))
        return [tuple(new[start : start + each]) for start in range(0, len(new), each)], known, over

    def _submit(self, place: Workplace, bundle: tuple[Numbered, ...]) -> Future[Trip]:
        if place.key not in self._shipped:
            self._shipped[place.key] = (place, self.workers.ship(place))
        return self.workers.submit(self._shipped[place.key][1], tuple(unit for _, unit in bundle))

    def _arrived(self, place: Workplace, flying: Flying) -> Iterator[tuple[int, UnitResult]]:
        """Results of the trips that are over; those whose workers died are made again, one at a time."""
        if not flying:
            return
        over, _ = wait(flying, return_when=FIRST_COMPLETED)
        lost: list[tuple[int, WorkUnit]] = []
        for future in over:
            under_way = flying.pop(future)
            try:
                trip = future.result()
            except LOST:
                lost += under_way.units
                continue
            self._adapt(trip.seconds, len(under_way.units))
            self._learn(place, trip, under_way.began)
            yield from zip((number for number, _ in under_way.units), trip.results, strict=True)
        if lost:
            self._sound = False
            for others in flying.values():
                lost += others.units
            flying.clear()
            self._lose()
            for number, unit in sorted(lost, key=lambda pair: pair[0]):
                yield number, self._alone(place, unit)

    def _lose(self) -> None:
        self.workers.reopen()
        self._shipped.clear()

    def _alone(self, place: Workplace, unit: WorkUnit) -> UnitResult:
        """One unit by itself, since some unit ends its worker; which one is found out here."""
        for _ in range(TRIES):
            try:
                return self._submit(place, ((0, unit),)).result().results[0]
            except LOST:
                self._lose()
        if not place.tolerance.skip:
            raise ModelError(DIED.format(tries=TRIES, what=place.problem.name_of(unit.jobs[0].block)))
        parts = halves(unit)
        if len(parts) == 1:
            return failed_unit(place, unit, DIED.format(tries=TRIES, what="it"))
        return joined(unit, [self._alone(place, replace(part)) for part in parts])

    def _adapt(self, seconds: float, units: int) -> None:
        """Longer trips where they were too short, shorter ones where they were long."""
        if seconds < self.workers.least_seconds:
            self._size = min(max(self._size, 2 * units), MOST_UNITS)
        elif seconds > LONGEST * self.workers.least_seconds:
            self._size = max(1, units // 2)

    def _learn(self, place: Workplace, trip: Trip, began: float | None) -> None:
        """How long a row takes, and the way of a trip that `began` when its worker was free: what is least stands."""
        self.states[trip.worker] = self.states.get(trip.worker, WorkerState(trip.worker)).after(trip)
        rows = sum(result.rows[0] for result in trip.results)
        if rows:
            self._paces[id(place.model)] = (place.model, trip.seconds / rows)
        if began is not None:
            way = max(0.0, time.perf_counter() - began - trip.seconds)
            self._way = way if self._way is None else min(self._way, way)


LOST: tuple[type[BaseException], ...] = (BrokenProcessPool, CancelledError)
