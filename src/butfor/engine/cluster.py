"""Workers of a dask cluster: the workplace is a task of its own, so that a worker that comes later makes it anew."""

from __future__ import annotations

import threading
import warnings
import weakref
from concurrent.futures import Future
from typing import Any

import cloudpickle

from butfor.core.evaluate.workplace import Workplace, WorkUnit
from butfor.core.types import InputError
from butfor.engine.pool import work
from butfor.engine.trips import Trip
from butfor.engine.workers import one_thread_each, opened

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
