"""What `workers=` stands for: one process, several threads or processes, or a dask cluster.

Pools are imported where one is asked for: most runs are done here, and importing them takes as long as NumPy does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from butfor.core.evaluate.units import Serial, evaluate_unit
from butfor.core.evaluate.workplace import Engine, UnitResult, Workplace, WorkUnit
from butfor.core.types import InputError
from butfor.engine.journal import Keeping
from butfor.engine.trips import WorkerState

if TYPE_CHECKING:
    from butfor.engine.pool import WorkerPool

FASTER = 1.5  # two threads must do at least so many times as much as one, or processes are used
EXPECTED = (
    "workers must be a whole number of at least 1, 'threads:2', 'processes:2', a dask Client or the address of its "
    "scheduler such as 'tcp://host:8786', got {workers!r}"
)


def engine_for(workers: Any) -> Engine:
    """The engine that was asked for.

    >>> engine_for("threads:2")
    2 threads
    """
    if isinstance(workers, Serial | MeasuredWorkers):
        return workers  # one that is open already: several runs may share it
    if isinstance(workers, bool):
        raise InputError(EXPECTED.format(workers=workers))
    if isinstance(workers, int):
        if workers < 1:
            raise InputError(EXPECTED.format(workers=workers))
        return Serial() if workers == 1 else MeasuredWorkers(workers)
    if isinstance(workers, str):
        if workers.isdecimal():
            return engine_for(int(workers))
        named = re.fullmatch(r"(threads|processes):([1-9]\d{0,3})", workers)
        if named:
            return _pool(int(named[2]), threads=named[1] == "threads")
        if "://" not in workers:
            raise InputError(EXPECTED.format(workers=workers))
    elif not type(workers).__module__.startswith("distributed"):
        if isinstance(workers, Engine) and not isinstance(workers, type):
            return workers  # of somebody else's: see examples/recipes/spark_engine.py
        raise InputError(EXPECTED.format(workers=workers))
    from butfor.engine.cluster import Cluster
    from butfor.engine.pool import WorkerPool

    return WorkerPool(Cluster(workers))


def _pool(count: int, *, threads: bool) -> WorkerPool:
    from butfor.engine.pool import WorkerPool
    from butfor.engine.workers import Processes, Threads

    return WorkerPool(Threads(count) if threads else Processes(count))


def worker_states(engine: Engine) -> tuple[WorkerState, ...]:
    """What each worker has done so far; none where the work is done here."""
    if isinstance(engine, Keeping):
        return worker_states(engine.engine)
    if isinstance(engine, MeasuredWorkers):
        return () if engine.chosen is None else worker_states(engine.chosen)
    if isinstance(engine, Serial):
        return ()
    from butfor.engine.pool import WorkerPool

    return tuple(engine.states.values()) if isinstance(engine, WorkerPool) else ()


class MeasuredWorkers:
    """Threads where the model and the sampler let each other run, else processes: the first units tell.

    One unit is done alone and two beside each other; what they give is used, so that nothing is asked in vain.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.chosen: WorkerPool | None = None

    def __repr__(self) -> str:
        return f"{self.count} workers" if self.chosen is None else repr(self.chosen)

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]:
        """Results as they come."""
        left, done = iter(units), 0
        while self.chosen is None and (first := list(islice(left, 3))):
            yield from enumerate(self._measure(place, first), done)
            done += len(first)
        if self.chosen is None:
            return
        for number, result in self.chosen.map(place, chain(left)):
            yield done + number, result

    def _measure(self, place: Workplace, units: list[WorkUnit]) -> list[UnitResult]:
        """What a few units give; of three that are new to us also how they get on beside each other."""
        if len(units) < 3 or any(unit.result is not None for unit in units):
            return [evaluate_unit(place, unit) if unit.result is None else unit.result for unit in units]
        from concurrent.futures import ThreadPoolExecutor

        from butfor.engine.workers import one_thread_each

        start = time.perf_counter()
        alone = evaluate_unit(place, units[0])
        middle = time.perf_counter()
        with ThreadPoolExecutor(2, initializer=one_thread_each) as two:
            both = list(two.map(partial(evaluate_unit, place), units[1:]))
        end = time.perf_counter()
        rate = alone.rows[0] / max(middle - start, 1e-9)
        together = sum(result.rows[0] for result in both) / max(end - middle, 1e-9)
        self.chosen = _pool(self.count, threads=together >= FASTER * rate)
        return [alone, *both]
