"""What `workers=` stands for: one process, several threads or processes, or a dask cluster.

Pools are imported where one is asked for: most runs are done here, and importing them takes as long as NumPy does.

Units on several workers: threads, processes or a cluster; what differs is who opens them and how things travel.

Which jobs a unit holds depends on the run alone, never on the workers, and results are taken in order: so every engine
gives the same bits. Small units travel together, so that a trip is worth its while; a stage that is not is done here.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import cloudpickle

from butfor.evaluation.evaluator import (
    Engine,
    Serial,
    Tolerance,
    UnitResult,
    Workplace,
    WorkUnit,
    evaluate_unit,
    failed_unit,
    halves,
    joined,
)
from butfor.evaluation.hypotheses import SUPPORT
from butfor.evaluation.items import TableItems
from butfor.evaluation.journal import Keeping
from butfor.types import InputError, Model, ModelError


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

    return WorkerPool(Cluster(workers))


def _pool(count: int, *, threads: bool) -> WorkerPool:

    return WorkerPool(Threads(count) if threads else Processes(count))


def worker_states(engine: Engine) -> tuple[WorkerState, ...]:
    """What each worker has done so far; none where the work is done here."""
    if isinstance(engine, Keeping):
        return worker_states(engine.engine)
    if isinstance(engine, MeasuredWorkers):
        return () if engine.chosen is None else worker_states(engine.chosen)
    if isinstance(engine, Serial):
        return ()

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


HELD = 4  # workplaces that a process keeps at once
CANNOT_TRAVEL = (
    "the model, the sampler or a rule cannot be sent to another process ({why}); use workers='threads:{count}', or "
    "workers=1"
)


class Threads:
    """Threads: for models that let others run while they compute."""

    least_seconds = 0.1

    def __init__(self, count: int) -> None:
        self.count = count
        self.reopen()

    def __repr__(self) -> str:
        return f"{self.count} threads"

    def reopen(self) -> None:
        self._executor = ThreadPoolExecutor(self.count, thread_name_prefix="butfor", initializer=one_thread_each)

    def ship(self, place: Workplace) -> Workplace:
        return place

    def submit(self, handle: Workplace, units: tuple[WorkUnit, ...]) -> Future[Trip]:
        return self._executor.submit(work, handle, units)


class Processes:
    """Processes: for all models that can be pickled (functions of a script or notebook can)."""

    least_seconds = 0.1

    def __init__(self, count: int) -> None:
        self.count = count
        self._folder = Path(tempfile.mkdtemp(prefix="butfor-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._files = 0
        self._executor: Any = None
        self.reopen()

    def __repr__(self) -> str:
        return f"{self.count} processes"

    def reopen(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        if self._executor is not None:
            self._executor.shutdown(wait=False, kill_workers=True)
        self._executor = ProcessPoolExecutor(self.count, initializer=begin, timeout=None)
        weakref.finalize(self, self._executor.shutdown, wait=False, kill_workers=True)

    def ship(self, place: Workplace) -> Path:
        """Write it once; each process reads it once."""
        path = self._folder / str(self._files)
        self._files += 1
        try:
            path.write_bytes(cloudpickle.dumps(place))
        except Exception as error:  # whatever objects of others raise here
            raise InputError(CANNOT_TRAVEL.format(why=f"{type(error).__name__}: {error}", count=self.count)) from error
        return path

    def submit(self, handle: Path, units: tuple[WorkUnit, ...]) -> Future[Trip]:
        sent: Future[Trip] = self._executor.submit(work_at, handle, cloudpickle.dumps(units))
        return sent


def begin() -> None:
    """In a new process: Ctrl-C is for the parent, which ends its workers itself; one thread for linear algebra."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one_thread_each()


def one_thread_each() -> None:
    """Workers are as many as there are to be: no library may start more threads in each of them."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


_PLACES: OrderedDict[Path, Workplace] = OrderedDict()  # in a worker process: read once, used for many units


def work_at(path: Path, units: bytes) -> Trip:
    """In a worker process: the units, at a workplace that is read from a file the first time."""
    if path not in _PLACES:
        _PLACES[path] = opened(path.read_bytes())
        while len(_PLACES) > HELD:
            _PLACES.popitem(last=False)
    return work(_PLACES[path], cloudpickle.loads(units))


def opened(content: bytes) -> Workplace:
    """A workplace that has travelled; nobody may write into what is observed."""
    place: Workplace = cloudpickle.loads(content)
    items = place.problem.items
    if isinstance(items, TableItems):
        items.values.setflags(write=False)
    return place


DaskClient = Any
DaskFuture = Any  # dask is not typed
NEEDS = 'workers={workers!r} needs dask; pip install "butfor[cluster]"'
RETRIES = 2  # of a task whose worker raised something of the cluster's


class Cluster:
    """A dask.distributed Client of the user's, or one of our own at an address."""

    least_seconds = 0.3  # a task costs the scheduler and us some 5 ms

    def __init__(self, workers: object) -> None:
        self._client = client_of(workers)
        self.count = max(1, sum(self._client.nthreads().values()))

    def __repr__(self) -> str:
        return f"dask with {self.count} threads"

    def reopen(self) -> None:
        """The scheduler looks after its workers itself."""

    def ship(self, place: Workplace) -> DaskFuture:
        content = cloudpickle.dumps(place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large: it is sent once
            return self._client.submit(opened, content, pure=False)

    def submit(self, handle: DaskFuture, units: tuple[WorkUnit, ...]) -> Future[Trip]:
        sent = self._client.submit(work_sent, handle, cloudpickle.dumps(units), pure=False, retries=RETRIES)
        return as_future(sent)


class Limited(threading.local):
    """On a worker: the workplace for which this thread has been limited, which takes 4 ms."""

    place: weakref.ref[Workplace] | None = None


_LIMITED = Limited()


def work_sent(place: Workplace, units: bytes) -> Trip:
    """On a worker of the cluster."""
    if _LIMITED.place is None or _LIMITED.place() is not place:
        one_thread_each()  # a new workplace may have brought new libraries
        _LIMITED.place = weakref.ref(place)
    return work(place, cloudpickle.loads(units))


def as_future(sent: DaskFuture) -> Future[Trip]:
    """One that the standard library can wait for; a worker that was lost too often counts as broken."""
    from concurrent.futures.process import BrokenProcessPool

    made: Future[Trip] = Future()
    made.set_running_or_notify_cancel()

    def done(over: DaskFuture) -> None:
        try:
            made.set_result(over.result())
        except BaseException as error:
            lost = type(error).__name__ in ("KilledWorker", "FutureCancelledError", "CommClosedError", "CancelledError")
            made.set_exception(BrokenProcessPool(str(error)) if lost else error)

    sent.add_done_callback(done)
    made.cluster = sent  # type: ignore[attr-defined]  # held, or dask forgets the task
    return made


def client_of(workers: object) -> DaskClient:
    """The user's client, or one for an address such as tcp://scheduler:8786."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(NEEDS.format(workers=workers)) from error
    if isinstance(workers, Client):
        return workers
    try:
        return Client(workers, timeout=10, set_as_default=False)  # type: ignore[no-untyped-call, unused-ignore]
    except OSError as error:
        raise InputError(f"there is no dask scheduler at {workers!r} ({error}); is the address right?") from error
