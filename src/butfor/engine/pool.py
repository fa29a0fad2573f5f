"""Units on several workers: threads, processes or a cluster; what differs is who opens them and how things travel.

Which jobs a unit holds depends on the run alone, never on the workers, and results are taken in order: so every engine
gives the same bits. Small units travel together, so that a trip is worth its while.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, Protocol

from butfor.core.evaluate.split import failed_unit, halves, joined
from butfor.core.evaluate.units import evaluate_unit
from butfor.core.evaluate.workplace import UnitResult, Workplace, WorkUnit
from butfor.core.types import ModelError

LEAST_SECONDS, MOST_SECONDS = 0.1, 0.5  # of one trip
MOST_UNITS = 256  # of one trip
AHEAD = 3  # trips per worker that are under way
TRIES = 3  # of a trip whose worker died
DIED = "the worker was lost {tries} times (killed, out of memory or crashed) on a unit with {what}"


class Workers(Protocol):
    """Opens workers, and brings a workplace to them."""

    count: int

    def submit(self, handle: Any, units: tuple[WorkUnit, ...]) -> Future[Trip]: ...
    def ship(self, place: Workplace) -> Any: ...
    def reopen(self) -> None: ...  # after workers were lost


@dataclass(frozen=True, eq=False)
class Trip:
    """What came of some units, and how long that took."""

    results: tuple[UnitResult, ...]
    seconds: float
    worker: str


@dataclass(frozen=True)
class WorkerState:
    """What a worker has done: units, rows given to the model, and seconds that took."""

    name: str  # the process and the thread
    units: int = 0
    rows: int = 0
    seconds: float = 0.0

    def after(self, trip: Trip) -> WorkerState:
        """With one trip more."""
        rows = self.rows + sum(result.rows[1] for result in trip.results)
        return WorkerState(self.name, self.units + len(trip.results), rows, self.seconds + trip.seconds)


def work(place: Workplace, units: tuple[WorkUnit, ...]) -> Trip:
    """What a worker does."""
    start = time.perf_counter()
    done = tuple(evaluate_unit(place, unit) for unit in units)
    return Trip(done, time.perf_counter() - start, f"{os.getpid()} {threading.current_thread().name}")


Numbered = tuple[int, WorkUnit]


class WorkerPool:
    """The engine of several workers."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._shipped: dict[tuple[object, ...], tuple[Workplace, Any]] = {}
        self._size = 1  # units of a trip
        self.states: dict[str, WorkerState] = {}

    def __repr__(self) -> str:
        return repr(self.workers)

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]:
        """Results as they come; never far ahead of the oldest that is still under way."""
        left, flying = enumerate(units), dict[Future[Trip], tuple[int, tuple[Numbered, ...]]]()
        number, over = 0, False
        try:
            while not over or flying:
                oldest = min((trip for trip, _ in flying.values()), default=number)
                while not over and number - oldest < AHEAD * self.workers.count:
                    bundles, known, over = self._bundles(left)
                    yield from known
                    for bundle in bundles:
                        flying[self._submit(place, bundle)] = (number, bundle)
                        number += 1
                        oldest = min(oldest, number - 1)
                yield from self._arrived(place, flying)
        finally:
            for future in flying:
                future.cancel()
            if flying:
                self._lose()  # stopped or failed: nobody waits for what is under way

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

    def _arrived(
        self, place: Workplace, flying: dict[Future[Trip], tuple[int, tuple[Numbered, ...]]]
    ) -> Iterator[tuple[int, UnitResult]]:
        """Results of the trips that are over; those whose workers died are made again, one at a time."""
        if not flying:
            return
        over, _ = wait(flying, return_when=FIRST_COMPLETED)
        lost: list[tuple[int, WorkUnit]] = []
        for future in over:
            _, bundle = flying.pop(future)
            try:
                trip = future.result()
            except LOST:
                lost += bundle
                continue
            self._adapt(trip.seconds, len(bundle))
            self.states[trip.worker] = self.states.get(trip.worker, WorkerState(trip.worker)).after(trip)
            yield from zip((number for number, _ in bundle), trip.results, strict=True)
        if lost:
            for _, bundle in flying.values():
                lost += bundle
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
        if seconds < LEAST_SECONDS:
            self._size = min(max(self._size, 2 * units), MOST_UNITS)
        elif seconds > MOST_SECONDS:
            self._size = max(1, units // 2)


LOST: tuple[type[BaseException], ...] = (BrokenProcessPool, CancelledError)
