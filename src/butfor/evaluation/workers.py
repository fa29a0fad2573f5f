"""Workers, by `workers=`: this process, threads, processes, or a dask cluster.

Small tasks travel together in bundles, so that sending them costs little. Processes and clusters evaluate everything
that is asked of the model, so that one that ends its process (a segfault, `os._exit`, out of memory) does not end ours:
its rows are halved, in calls of their own, until those that end it are known. Processes stay for the next run.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import cloudpickle
import numpy as np

from butfor.evaluation.calls import WorkerLost, limited, within
from butfor.evaluation.evaluator import Engine, Serial, Stage, Task, TaskResult, Tolerance, draw_task, evaluate_task
from butfor.evaluation.items import TableItems
from butfor.evaluation.progress import WorkerState
from butfor.types import Array, Batch, Floats, InputError, Model, warn_user

LONGEST = 5  # times the least seconds of a bundle
MOST_TASKS = 256  # of one bundle
AHEAD = 3  # bundles per worker that are under way
RESENT = 4  # times that something is sent to workers that end before they have opened it

LOST = (BrokenProcessPool, CancelledError)
DIED = "the sampler ended the process that it ran in (killed, out of memory or crashed) on {what}"
IDLE = 120  # seconds that processes stay for the next run
LOOK, LEFT = 15.0, 300.0  # seconds after which it is seen whether anybody is at work, and for how long nobody may be


class ContentLost(BrokenProcessPool):
    """A worker ended while it opened what was sent to all of them: no fault of the task that waited for it."""


def engine_for(workers: Any) -> Engine:
    """Return the engine that `workers=` names.

    >>> engine_for("threads:2")
    2 threads
    """
    if isinstance(workers, str) and workers.isdecimal():
        workers = int(workers)
    if isinstance(workers, int) and not isinstance(workers, bool) and workers >= 1:
        return Serial() if workers == 1 else WorkerPool(Processes(workers))
    if isinstance(workers, str) and (named := re.fullmatch(r"(threads|processes):([1-9]\d{0,3})", workers)):
        return WorkerPool((Threads if named[1] == "threads" else Processes)(int(named[2])))
    if "://" in workers if isinstance(workers, str) else type(workers).__module__.startswith("distributed"):
        return WorkerPool(Cluster(workers))
    if isinstance(workers, Engine) and not isinstance(workers, type):
        return workers  # one that is open already, or a user's: see examples/recipes/spark_engine.py
    raise InputError(
        "workers must be a whole number of at least 1, 'threads:2', 'processes:2', a dask Client or the address of its "
        f"scheduler such as 'tcp://host:8786', got {workers!r}"
    )


@contextmanager
def opened(workers: Any) -> Iterator[Engine]:
    """Give the engine that `workers=` names; processes stay for the next run when this one is over."""
    engine = engine_for(workers)
    try:
        yield engine
    finally:
        if engine is not workers and isinstance(engine, WorkerPool):
            engine.workers.release()


def asked_where(engine: Engine, model: Model, seconds: float | None) -> Model:
    """Return the model as it is called outside of tasks: in a worker too, waited for `seconds` at most."""
    if isinstance(engine, WorkerPool) and engine.workers.apart:
        return engine.apart(model, seconds)
    return limited(model, seconds)


def worker_states(engine: Engine) -> tuple[WorkerState, ...]:
    """Return what each worker has done so far; nothing where the work is done here."""
    return tuple(getattr(engine, "states", {}).values())


@dataclass(frozen=True, eq=False)
class Done:
    """The results of a bundle of tasks, the seconds they took, and the worker."""

    results: tuple[TaskResult, ...]
    seconds: float
    worker: str


class Workers(Protocol):
    """Opens workers, and brings what they share to them: a stage, or a model."""

    count: int
    least_seconds: float  # of one bundle, so that the way there and back is little of it
    apart: bool  # from this process, which lives on when they end

    def submit(self, work: Callable[[Any, Any], Any], handle: Any, given: Any) -> Future[Any]: ...
    def ship(self, content: Stage | Model) -> Any: ...
    def reopen(self) -> None: ...  # after workers were lost
    def look(self) -> None: ...  # is anybody at work? after a while in which nothing came
    def release(self) -> None: ...  # when the run is over


def work(stage: Stage, tasks: tuple[Task, ...]) -> Done:
    start = time.perf_counter()
    results = tuple(evaluate_task(stage, task) for task in tasks)
    return Done(results, time.perf_counter() - start, f"{os.getpid()} {threading.current_thread().name}")


def answer(model: Model, given: tuple[Batch, float | None]) -> Array | BaseException:
    """Return the outputs of a batch, or what the model raised."""
    batch, seconds = given
    try:
        return within(seconds, lambda: np.asarray(model(batch)))
    except (Exception, SystemExit) as error:
        try:
            cloudpickle.loads(cloudpickle.dumps(error))
        except Exception:  # what keeps it from travelling is not ours
            error = type(type(error).__name__, (Exception,), {"__module__": "__main__"})(str(error))
        return error


Bundle = tuple[tuple[int, Task], ...]  # tasks with their numbers
UnderWay = dict[Future[Done], tuple[int, Bundle]]  # bundles with their numbers


class WorkerPool:
    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.states: dict[str, WorkerState] = {}
        self._shipped: dict[object, tuple[Stage | Model, Any]] = {}
        self._size = 1  # tasks of a bundle
        self._lost_once = False

    def __repr__(self) -> str:
        return repr(self.workers)

    def map(self, stage: Stage, tasks: Iterable[Task]) -> Iterator[tuple[int, TaskResult]]:
        """Yield results as they come; never far ahead of the oldest that is still under way."""
        every = enumerate(tasks)
        first = list(islice(every, 2))
        if len(first) < 2 and not self.workers.apart:  # nothing to share
            for number, task in first:
                yield number, evaluate_task(stage, task) if task.result is None else task.result
            return
        left, under_way = chain(first, every), UnderWay()
        number, over = 0, False
        try:
            while not over or under_way:
                oldest = min((bundle[0] for bundle in under_way.values()), default=number)
                while not over and number - oldest < AHEAD * self.workers.count:
                    bundles, known, over = self._bundles(left)
                    yield from known
                    for bundle in bundles:
                        given = tuple(task for _, task in bundle)
                        under_way[self.workers.submit(work, self._handle(stage.key, stage), given)] = (number, bundle)
                        number += 1
                        oldest = min(oldest, number - 1)
                if under_way:
                    yield from self._arrived(stage, under_way)
        finally:
            for future in under_way:
                future.cancel()
            if under_way:
                self.workers.reopen()  # stopped or failed: nobody waits for what is under way

    def _bundles(self, left: Iterator[tuple[int, Task]]) -> tuple[list[Bundle], list[tuple[int, TaskResult]], bool]:
        """Return even bundles, one for each worker, results that are known already, and whether that was all."""
        new, known, over = list[tuple[int, Task]](), list[tuple[int, TaskResult]](), True
        for number, task in left:
            if task.result is not None:
                known.append((number, task.result))
            else:
                new.append((number, task))
            if len(new) >= self._size * self.workers.count or len(known) >= MOST_TASKS:
                over = False
                break
        each = max(1, -(-len(new) // self.workers.count))
        return [tuple(new[start : start + each]) for start in range(0, len(new), each)], known, over

    def apart(self, model: Model, seconds: float | None) -> Model:
        """Return the model as one that is called in a worker."""
        self._handle(id(model), model)  # refused now if it cannot travel
        return partial(self._answer, model, seconds)

    def _answer(self, model: Model, seconds: float | None, batch: Batch) -> Array:
        try:
            answered = self._call(answer, id(model), model, (batch, seconds))
        except LOST as error:
            self._reopen()
            if not self._lost_once:  # by chance, perhaps
                self._lost_once = True
                return self._answer(model, seconds, batch)
            raise WorkerLost("the model ended the process that it ran in (killed, out of memory or crashed)") from error
        if isinstance(answered, BaseException):
            raise answered
        return np.asarray(answered)

    def _handle(self, key: object, content: Stage | Model) -> Any:
        if key not in self._shipped:
            self._shipped[key] = (content, self.workers.ship(content))
        return self._shipped[key][1]

    def _wait(self, futures: Collection[Future[Any]]) -> set[Future[Any]]:
        """Return those that are done, at least one; raise where nobody is left to do the work."""
        while not (done := wait(futures, LOOK, return_when=FIRST_COMPLETED).done):
            self.workers.look()
        return done

    def _call(self, work: Callable[[Any, Any], Any], key: object, content: Stage | Model, given: Any) -> Any:
        for _ in range(RESENT):
            with suppress(ContentLost):
                return self._wait([self.workers.submit(work, self._handle(key, content), given)]).pop().result()
            self._reopen()
        raise BrokenProcessPool

    def _arrived(self, stage: Stage, under_way: UnderWay) -> Iterator[tuple[int, TaskResult]]:
        """Yield results of the bundles that are done; those whose workers died are made again, one at a time."""
        lost: list[tuple[int, Task]] = []
        for future in self._wait(under_way):
            _, bundle = under_way.pop(future)
            try:
                done = future.result()
            except LOST:
                lost += bundle
                continue
            if done.seconds < self.workers.least_seconds:
                self._size = min(max(self._size, 2 * len(bundle)), MOST_TASKS)
            elif done.seconds > LONGEST * self.workers.least_seconds:
                self._size = max(1, len(bundle) // 2)
            state = self.states.get(done.worker, WorkerState(done.worker))
            self.states[done.worker] = WorkerState(
                name=done.worker,
                units=state.units + len(bundle),
                rows=state.rows + sum(result.rows[1] for result in done.results),
                seconds=state.seconds + done.seconds,
            )
            yield from zip((number for number, _ in bundle), done.results, strict=True)
        if lost:
            for _, bundle in under_way.values():
                lost += bundle
            under_way.clear()
            self._reopen()
            for number, task in sorted(lost, key=lambda pair: pair[0]):
                yield number, self._alone(stage, task)

    def _reopen(self) -> None:
        self.workers.reopen()
        if isinstance(self.workers, Cluster):  # what was sent may have gone with the worker that had it
            self._shipped.clear()

    def _alone(self, stage: Stage, task: Task) -> TaskResult:
        """Evaluate one task by itself, to see whether it is the one that ends its worker.

        If it is, it is drawn here and the model called in a worker, so that the rows that end it are found. With `skip`
        the jobs that a sampler ends it on are halved until one is left: its inputs share a stream, and its hypotheses
        go untested.
        """
        try:
            done: Done = self._call(work, stage.key, stage, (task,))
            return done.results[0]
        except LOST:
            self._reopen()
        try:
            self._call(draw_task, stage.key, stage, task)
        except LOST as error:
            self._reopen()
            why = DIED.format(what=stage.hypotheses.name_of(task.jobs[0].block))
            if not stage.tolerance.skip:
                raise WorkerLost(why) from error
        else:
            here = replace(stage, model=self.apart(stage.model, stage.tolerance.timeout))
            return evaluate_task(replace(here, tolerance=Tolerance(stage.tolerance.skip)), task)
        jobs = task.jobs
        if len(jobs) == 1:
            outputs: tuple[Floats, ...] = (np.zeros((jobs[0].count, jobs[0].versions, stage.n_outputs)),)  # all equal
            failed = dict.fromkeys(jobs[0].rows.tolist(), why)
            numbers = ((None,) * len(task.extracts),)
            result = TaskResult(outputs, numbers, (None,), (0, 0, 0), failed=failed)
        else:
            middle = len(jobs) // 2
            halves = (replace(task, jobs=half, summary=None) for half in (jobs[:middle], jobs[middle:]))
            one, two = (self._alone(stage, half) for half in halves)
            outputs = (*one.outputs, *two.outputs)
            result = TaskResult(
                outputs=outputs,
                numbers=(*one.numbers, *two.numbers),
                supports=(*one.supports, *two.supports),
                rows=(one.rows[0] + two.rows[0], one.rows[1] + two.rows[1], one.rows[2] + two.rows[2]),
                news={**one.news, **two.news},
                chance=(one.chance[0] or two.chance[0], one.chance[1] + two.chance[1]),
                failed={**one.failed, **two.failed},
            )
        return result if task.summary is None else replace(result, outputs=(), summary=task.summary(jobs, outputs))


class Threads:
    """Threads: for models that let others run while they compute."""

    least_seconds, apart = 0.1, False

    def __init__(self, count: int) -> None:
        self.count = count
        self.reopen()

    def __repr__(self) -> str:
        return f"{self.count} threads"

    def reopen(self) -> None:
        self._executor = ThreadPoolExecutor(self.count, thread_name_prefix="butfor", initializer=one_thread_each)

    def look(self) -> None:
        """Do nothing: they are here as long as we are."""

    def release(self) -> None:
        """Leave them to end by themselves."""

    def ship(self, content: Stage | Model) -> Stage | Model:
        return content

    def submit(self, work: Callable[[Any, Any], Any], handle: Any, given: Any) -> Future[Any]:
        return self._executor.submit(work, handle, given)


def one_thread_each() -> None:
    """Limit this worker to one thread for linear algebra: there are as many workers as there are to be threads."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


class Processes:
    """Processes: for all models that can be pickled (functions of a script or notebook can).

    Starting them takes longer than many a run, so they stay for the next one, unless the world has changed: the folder,
    the environment, or the user's own modules, of which they would have the former code.
    """

    least_seconds, apart = 0.1, True

    def __init__(self, count: int) -> None:
        self.count = count
        self._folder = Path(tempfile.mkdtemp(prefix="butfor-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._files = 0
        self._models: dict[int, tuple[Model, Path]] = {}
        self._executor: Any = None

    def __repr__(self) -> str:
        return f"{self.count} processes"

    def _open(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        warm, world = _warm.pop(self.count, None), _world()
        if warm is not None and warm[0] == world:
            return warm[1]
        if warm is not None:
            warm[1].shutdown(wait=False, kill_workers=True)
        return ProcessPoolExecutor(self.count, initializer=begin, timeout=IDLE)

    def reopen(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, kill_workers=True)
        self._executor = None

    def look(self) -> None:
        """Do nothing: where one ends, its executor says so."""

    def release(self) -> None:
        if self._executor is not None:
            _, former = _warm.pop(self.count, (None, None))
            if former is not None:
                former.shutdown(wait=False, kill_workers=True)
            _warm[self.count] = (_world(), self._executor)
            self._executor = None

    def ship(self, content: Stage | Model) -> Path:
        """Write it once; each process reads it once."""
        if isinstance(content, Stage):  # of several stages the model is the same
            return self._written(replace(content, model=ReadOnce(self._model(content.model))))
        return self._model(content)

    def _model(self, model: Model) -> Path:
        if id(model) not in self._models:
            self._models[id(model)] = (model, self._written(model))
        return self._models[id(model)][1]

    def _written(self, content: object) -> Path:
        path = self._folder / str(self._files)
        self._files += 1
        try:
            path.write_bytes(cloudpickle.dumps(content))
        except Exception as error:  # whatever objects of others raise here
            raise InputError(
                "the model, the sampler or a rule cannot be sent to another process "
                f"({type(error).__name__}: {error}); use workers='threads:{self.count}', or workers=1"
            ) from error
        return path

    def submit(self, work: Callable[[Any, Any], Any], handle: Path, given: Any) -> Future[Any]:
        if self._executor is None:
            self._executor = self._open()
        sent: Future[Any] = self._executor.submit(work_at, work, handle, cloudpickle.dumps(given))
        return sent


_warm: dict[int, tuple[object, Any]] = {}  # executors that no run has, by their processes, and the world they know


INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")


def _world() -> object:
    """Return all that a process takes over when it starts, and what it may have imported of the user's own."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    times = {}
    for file in files:
        if isinstance(file, str) and not (INSTALLED.search(file) or file.startswith(os.path.dirname(os.__file__))):
            with suppress(OSError):
                times[file] = os.stat(file).st_mtime_ns
    return os.getcwd(), tuple(sys.path), dict(os.environ), times


@dataclass(frozen=True)
class ReadOnce:
    """A model in a file, which a process reads when it is first asked."""

    path: Path

    def __call__(self, batch: Batch) -> Array:
        return np.asarray(_model_at(self.path)(batch))


def begin() -> None:
    """Begin a worker process: Ctrl-C is for the parent, which ends its workers itself."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one_thread_each()


def work_at(work: Callable[[Any, Any], Any], path: Path, given: bytes) -> Any:
    content = _stage_at(path) if work is not answer else _model_at(path)
    return work(content, cloudpickle.loads(given))


@lru_cache(maxsize=4)  # read once, used for many tasks
def _stage_at(path: Path) -> Stage:
    return open_stage(path.read_bytes())


@lru_cache(maxsize=1)
def _model_at(path: Path) -> Any:
    return cloudpickle.loads(path.read_bytes())


def open_stage(content: bytes) -> Stage:
    """Return a stage that was sent; nobody may write into what is observed."""
    stage: Stage = cloudpickle.loads(content)
    if isinstance(stage.hypotheses.items, TableItems):
        stage.hypotheses.items.values.setflags(write=False)
    return stage


class Cluster:
    """A dask.distributed Client of the user's, or one of ours at an address such as tcp://scheduler:8786."""

    least_seconds, apart = 0.3, True  # a submission costs the scheduler and us about 5 ms

    def __init__(self, workers: object) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise InputError(f'workers={workers!r} needs dask; pip install "butfor[cluster]"') from error
        try:
            made: Any = Client if not isinstance(workers, Client) else lambda client, **_: client
            self._client = made(workers, timeout=10, set_as_default=False)
        except OSError as error:
            raise InputError(f"there is no dask scheduler at {workers!r} ({error}); is the address right?") from error
        self.count = max(1, sum(self._client.nthreads().values()))
        self._empty_since: float | None = None
        self._warned = False

    def __repr__(self) -> str:
        return f"dask with {self.count} threads"

    def reopen(self) -> None:
        """Leave it to the scheduler, which looks after its workers itself."""

    def look(self) -> None:
        """Wait for a cluster without workers, but not for ever."""
        if self._client.nthreads():
            self._empty_since = None
            return
        now, first = time.monotonic(), self._empty_since is None
        self._empty_since = self._empty_since or now
        if not first and not self._warned:  # a worker that ends is soon there again
            self._warned = True
            warn_user("The dask cluster has no workers; the run waits for one.", UserWarning)
        if now - self._empty_since > LEFT:
            raise InputError(f"the dask cluster has had no workers for {LEFT:.0f} seconds; start some, and go on")
        cluster = self._client.cluster
        if hasattr(cluster, "worker_spec"):  # dask gives up workers that end twice within a quarter of a minute
            cluster.scale(len(cluster.worker_spec))

    def release(self) -> None:
        """Leave it to the user."""

    def ship(self, content: Stage | Model) -> Any:
        opens = open_stage if isinstance(content, Stage) else cloudpickle.loads
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # large: it is sent once
            return self._client.submit(opens, cloudpickle.dumps(content), pure=False)

    def submit(self, work: Callable[[Any, Any], Any], handle: Any, given: Any) -> Future[Any]:
        sent = self._client.submit(work_sent, work, handle, cloudpickle.dumps(given), pure=False, retries=2)
        future: Future[Any] = Future()  # one that the standard library can wait for
        future.set_running_or_notify_cancel()

        def pass_on(done: Any) -> None:
            try:
                future.set_result(done.result())
            except BaseException as error:  # a worker that was lost too often counts as broken
                lost = ("KilledWorker", "FutureCancelledError", "CommClosedError", "CancelledError")
                kind = ContentLost if getattr(error, "task", sent.key) != sent.key else BrokenProcessPool
                future.set_exception(kind(str(error)) if type(error).__name__ in lost else error)

        sent.add_done_callback(pass_on)
        future.cluster = sent  # type: ignore[attr-defined]  # kept, or dask forgets the task
        return future


def work_sent(work: Callable[[Any, Any], Any], content: Any, given: bytes) -> Any:
    one_thread_each()  # a new stage may have brought new libraries; it takes 4 ms
    return work(content, cloudpickle.loads(given))
