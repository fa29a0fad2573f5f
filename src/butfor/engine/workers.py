"""Workers on this machine: threads, which share everything, or processes, to which a workplace travels in a file."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle

from butfor.core.draw.items import TableItems
from butfor.core.evaluate.workplace import Workplace, WorkUnit
from butfor.core.types import InputError
from butfor.engine.pool import work
from butfor.engine.trips import Trip

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
