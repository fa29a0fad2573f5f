"""Jobs -> model outputs, in the order of the jobs, whoever evaluates them.

`Evaluator` groups jobs into tasks. An engine (this process, workers, a cluster, a journal around any of them) returns
the result of each: `evaluate_task` draws, calls the model and reduces the outputs. Which jobs a task has depends on the
run alone, and results are taken in order: so every engine gives the same bits.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice, pairwise
from time import perf_counter
from typing import Any, Protocol, runtime_checkable
from zlib import crc32

import numpy as np

from butfor.evaluation.calls import TRIES, again, ask, limited, tolerant, within
from butfor.evaluation.hypotheses import (
    SUPPORT,
    CounterfactualBatch,
    Hypotheses,
    Job,
    Watch,
    draw,
    listed_block,
    no_chance,
)
from butfor.evaluation.items import TableItems
from butfor.evaluation.progress import Meter, silent
from butfor.evaluation.samplers import SamplerInfo, method
from butfor.inference.exact import Support
from butfor.types import Array, Batch, Floats, Ints, Model, ModelError, Subset

GROUP_VALUES = 2**18  # drawn values and model outputs that are in memory at once
LARGE_GROUP = 2**20  # the same where all jobs are larger than a call
CALLS, LEAST_ROWS = 4, 2**12  # a task is about so many calls of the model, or rows where those are small
QUICK = 0.1  # seconds of a task below which the next may have twice the rows, where it is evaluated here and now
MOST_REMEMBERED = 2**20  # answers; what comes again after that is evaluated again

Key = tuple[int, bytes]  # a hypothesis, and what tells its versions apart
Extract = Callable[[Hypotheses, CounterfactualBatch, Floats], Any]  # a few small numbers
# What a stage needs of a task's outputs: counts, means. A summary whose numbers are cut out of those of the stage may
# have a `mark`, the digest of them all: with the jobs it tells the summary from all others in a journal.
Summary = Callable[[tuple[Job, ...], tuple[Floats, ...]], Any]


class Watcher(Protocol):
    """Is given numbers of every job of a run, in order: `look` makes them where draws are made; None: no more."""

    @property
    def look(self) -> Extract | None: ...
    def note(self, job: Job, numbers: Any, *, listed: bool) -> None: ...  # listed: all counterfactuals, not draws


@dataclass(frozen=True)
class Tolerance:
    """With `skip`, hypotheses that a model or sampler fails on go untested; `timeout` is the seconds of a call."""

    skip: bool = False
    timeout: float | None = None


@dataclass
class Memory:
    """Answers of the model: on the observed inputs, and on draws of subsets whose draws come again."""

    observed: Floats  # (n, outputs)
    subsets: frozenset[str]
    known: dict[int, dict[bytes, Floats]] = field(default_factory=dict)  # by hypothesis and value of the subset
    count: int = 0

    def of(self, jobs: Iterable[Job]) -> dict[int, dict[bytes, Floats]]:
        """Return what is known of the hypotheses of jobs."""
        rows = (row for job in jobs if job.block.subset.name in self.subsets for row in job.rows.tolist())
        return {row: self.known[row] for row in rows if row in self.known}

    def learn(self, news: dict[Key, Floats]) -> None:
        for (row, value), outputs in islice(news.items(), max(MOST_REMEMBERED - self.count, 0)):
            self.known.setdefault(row, {})[value] = outputs
            self.count += 1


def remembering(hypotheses: Hypotheses, observed: Floats, again: bool = True) -> Memory | None:
    """Return a memory for the subsets whose draws the sampler says repeat (or can be listed); None: there are none.

    Nor is there one for images and texts where a hypothesis is not drawn for `again`: equal texts of a call are one
    row of it anyway.
    """
    if not (again or hypotheses.items.shares_subsets):
        return None
    repeats = method(hypotheses.sampler, "repeats") or method(hypotheses.sampler, "lists") or (lambda _: False)
    never = {subset.name for subset in hypotheses.subsets if not repeats(subset)}
    names = frozenset(subset.name for subset in hypotheses.subsets) - never
    return Memory(observed, names) if names else None


class Buffer(threading.local):
    """Memory for one batch at a time, one for each thread: new memory for each takes up to a quarter longer.

    A model may keep its batch, or a part of it. It is given an array over the memory that nobody else has, which
    NumPy's views refer to: a weak reference shows whether any is left, and then the next batch gets new memory.
    """

    def __init__(self) -> None:
        self._memory = bytearray()

    def __reduce__(self) -> tuple[Any, ...]:  # it does not travel with a pickle
        return Buffer, ()

    def rows(self, count: int, like: Array) -> Array:
        """Return an array (count, width of `like`) that nobody else has, with anything in it."""
        if len(self._memory) < count * like.shape[1] * like.itemsize:
            self._memory = bytearray(count * like.shape[1] * like.itemsize)
        return np.frombuffer(self._memory, like.dtype, count * like.shape[1]).reshape(count, like.shape[1])

    def lend(self, rows: Array, call: Callable[[Array], Array]) -> Array:
        """Return the outputs of a call on the rows; if it keeps them, the memory is theirs."""
        lent = np.frombuffer(self._memory, rows.dtype, rows.size)
        reference = weakref.ref(lent)
        outputs = call(lent.reshape(rows.shape))
        del lent
        if reference() is not None:
            self._memory = bytearray()
        return outputs


@dataclass(frozen=True, eq=False)
class Stage:
    """The part that all tasks of a stage share: it is large, so it travels to a worker once."""

    hypotheses: Hypotheses  # without its blocks: they come with the jobs
    model: Model
    batch_rows: int
    n_outputs: int
    repeating: frozenset[str] = frozenset()  # subsets whose draws come again
    observed: Floats | None = None  # (n, outputs) on the inputs, for those subsets
    tolerance: Tolerance = field(default_factory=Tolerance)
    buffer: Buffer = field(default_factory=Buffer)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal stages, as long as one of them exists."""
        hypotheses = self.hypotheses
        parts = (hypotheses.items, hypotheses.sampler, self.model, self.observed, hypotheses.input_names)
        return (*map(id, parts), hypotheses.seed, self.batch_rows, self.n_outputs, self.repeating, self.tolerance)


@dataclass(frozen=True, eq=False)
class Task:
    """Jobs that are drawn and evaluated together."""

    jobs: tuple[Job, ...]
    extracts: tuple[Extract | None, ...] = ()  # of each watcher
    summary: Summary | None = None  # made where the outputs are, which then stay there; None: they are wanted
    watched: bool = False  # draws are compared, to see whether there is chance in them
    known: dict[int, dict[bytes, Floats]] = field(default_factory=dict)  # answers that its hypotheses have already
    result: TaskResult | None = None  # from a run that was cut short


@dataclass(frozen=True, eq=False)
class TaskResult:
    """The result of a task. Counterfactuals stay where they were drawn."""

    outputs: tuple[Floats, ...]  # of each job (inputs, versions, outputs); none where there is a summary
    numbers: tuple[tuple[Any, ...], ...]  # of each job, for each watcher
    supports: tuple[Support | None, ...]  # of each job, where its counterfactuals were listed
    rows: tuple[int, int, int]  # requested, evaluated, deduplicated
    news: dict[Key, Floats] = field(default_factory=dict)  # answers to draws that may come again
    chance: tuple[bool, int] = (False, 0)  # whether draws differ, and how many were equal
    failed: dict[int, str] = field(default_factory=dict)  # hypotheses that the model or sampler failed on, and why
    summary: Any = None  # arrays, and tuples of them
    sample: tuple[int, Ints, Floats] | None = None  # a job, a few of its inputs, and their outputs: to compare with


@runtime_checkable
class Engine(Protocol):
    """Evaluates tasks: results come with the number of their task, in any order."""

    def map(self, stage: Stage, tasks: Iterable[Task]) -> Iterator[tuple[int, TaskResult]]: ...


class Serial:
    """The engine of this process: one task after the other."""

    def map(self, stage: Stage, tasks: Iterable[Task]) -> Iterator[tuple[int, TaskResult]]:
        for number, task in enumerate(tasks):
            yield number, evaluate_task(stage, task) if task.result is None else task.result


@dataclass(frozen=True)
class Evaluator:
    """A model, how many rows it is given at a time, and how many outputs it has; who counts and watches its rows."""

    model: Model
    batch_rows: int
    n_outputs: int
    counter: Meter = field(default_factory=lambda: Meter(silent, 0))
    memory: Memory | None = None  # answers already given over a run, of samplers whose draws repeat
    watchers: tuple[Watcher, ...] = ()
    engine: Engine = field(default_factory=Serial)
    tolerance: Tolerance = field(default_factory=Tolerance)
    failed: dict[int, str] = field(default_factory=dict)  # hypotheses that go untested, and why
    buffer: Buffer = field(default_factory=Buffer)
    remembered: Model | None = None  # the model as it is called outside of tasks, where its answers are kept

    @property
    def direct(self) -> Model:
        """The model, to be called here and now."""
        return self.model if self.remembered is None else self.remembered

    def outputs(self, hypotheses: Hypotheses, jobs: Iterable[Job]) -> Iterator[tuple[Job, Floats]]:
        """Yield each job with its outputs (inputs, versions, outputs), version 0 being the observed input.

        The observed row is evaluated in the same calls as its counterfactuals: a BLAS row predicted in another batch
        may differ in its last bits (METHODS 6). Rows of several small jobs share a call; rows of a large one are split.
        """
        for task, result in self._results(hypotheses, jobs):
            yield from zip(task.jobs, result.outputs, strict=True)

    def listed(self, hypotheses: Hypotheses, jobs: Iterable[Job]) -> Iterator[tuple[Job, Floats, Support]]:
        """Yield jobs whose counterfactuals are listed, with their outputs and probabilities."""
        for task, result in self._results(hypotheses, jobs):
            for job, outputs, support in zip(task.jobs, result.outputs, result.supports, strict=True):
                assert support is not None
                yield replace(job, draws=support.mass.shape[1]), outputs, support

    def summaries(
        self, hypotheses: Hypotheses, jobs: Iterable[Job], summary_of: Callable[[tuple[Job, ...]], Summary]
    ) -> Iterator[tuple[tuple[Job, ...], Any]]:
        """Yield jobs that are evaluated together, and what `summary_of` them makes where their outputs are."""
        for task, result in self._results(hypotheses, jobs, summary_of):
            yield task.jobs, result.summary

    def watch(self, hypotheses: Hypotheses, jobs: Iterable[Job]) -> None:
        for _ in self._results(hypotheses, jobs, lambda _: no_summary):
            pass

    def show(self, hypotheses: Hypotheses, batch: CounterfactualBatch, outputs: Floats) -> None:
        """Give the watchers numbers of a batch whose outputs are known."""
        for watcher in self.watchers:
            numbers = None if watcher.look is None else watcher.look(hypotheses, batch, outputs)
            watcher.note(batch.job, numbers, listed=batch.support is not None)

    def untested(self, size: int) -> Ints:
        return np.array(sorted(row for row in self.failed if row < size), np.int64)

    def _results(
        self,
        hypotheses: Hypotheses,
        jobs: Iterable[Job],
        summary_of: Callable[[tuple[Job, ...]], Summary] | None = None,
    ) -> Iterator[tuple[Task, TaskResult]]:
        """Yield tasks with their results in the order of the jobs."""
        memory, none = self.memory, np.zeros(0, np.int64)
        if memory is not None and memory.count >= MOST_REMEMBERED:
            # between stages only, so that what is known does not depend on the order in which tasks are done
            memory.known.clear()
            memory.count = 0
        stage = Stage(
            hypotheses=replace(
                hypotheses, blocks=(), subset_names=(), input_of=none, subset_of=none, watch=None, layers=None
            ),
            model=self.model,
            batch_rows=self.batch_rows,
            n_outputs=self.n_outputs,
            repeating=frozenset() if memory is None else memory.subsets,
            observed=None if memory is None else memory.observed,
            tolerance=self.tolerance,
            buffer=self.buffer,
        )
        waiting: dict[int, Task] = {}
        done: dict[int, TaskResult] = {}

        def tasks() -> Iterator[Task]:
            for number, group in enumerate(self._groups(hypotheses, jobs)):
                waiting[number] = Task(
                    jobs=group,
                    extracts=tuple(watcher.look for watcher in self.watchers),
                    summary=None if summary_of is None else summary_of(group),
                    watched=hypotheses.watch is not None and not hypotheses.watch.differ,
                    known={} if memory is None else memory.of(group),
                )
                yield waiting[number]

        following = 0
        for number, result in self.engine.map(stage, tasks()):
            done[number] = result
            while following in done:
                task, ready = waiting.pop(following), done.pop(following)
                self._record(hypotheses, task, ready)
                yield task, ready
                following += 1

    def _groups(self, hypotheses: Hypotheses, jobs: Iterable[Job]) -> Iterator[tuple[Job, ...]]:
        """Yield the jobs of each task.

        Where draws cost much a task is one call of the model, so that little is lost with it. Where they repeat, all
        jobs of a block stay together: tasks are then independent of each other.
        """
        group: list[Job] = []
        rows, values, n_large = 0, 0, 0
        usual = room = max(CALLS * self.batch_rows, LEAST_ROWS)
        costly = hypotheses.items.costly
        grows = isinstance(self.engine, Serial) and self.memory is None
        for job in jobs:
            count = job.count * job.versions
            is_large = hypotheses.items.shares_subsets and job.ask is job.keep is None and count > self.batch_rows
            is_large &= job.round != SUPPORT
            together = bool(group) and self.memory is not None and job.block is group[-1].block
            all_large = n_large == len(group)  # none of them shares a call, so their number may depend on the clock
            if costly:
                full = rows + count > self.batch_rows
            else:
                full = rows >= (room if all_large else usual) or values >= (LARGE_GROUP if all_large else GROUP_VALUES)
                full |= all_large and not is_large  # small ones share calls: with whom must be the same in every run
            if group and full and not together:
                begun = perf_counter()
                yield tuple(group)
                room = 2 * room if grows and perf_counter() - begun < QUICK else usual
                group, rows, values, n_large = [], 0, 0, 0
            group.append(job)
            rows += count
            if not costly:
                values += count * max(self.n_outputs, hypotheses.items.size(job.block.start, job.block.subset))
                n_large += is_large
        if group:
            yield tuple(group)

    def _record(self, hypotheses: Hypotheses, task: Task, result: TaskResult) -> None:
        self.counter.count(*result.rows)
        if self.memory is not None:
            self.memory.learn(result.news)
        self.failed.update(result.failed)
        if hypotheses.watch is not None:
            hypotheses.watch.differ |= result.chance[0]
            hypotheses.watch.alike += result.chance[1]
            if hypotheses.watch.is_degenerate and hypotheses.items.costly:  # others are refused when the run is over
                raise no_chance(hypotheses)
        for job, support, numbers in zip(task.jobs, result.supports, result.numbers, strict=True):
            done = job if support is None else replace(job, draws=support.mass.shape[1])
            for watcher, number in zip(self.watchers, numbers, strict=True):
                watcher.note(done, number, listed=support is not None)


def no_summary(jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> None:
    """The summary of outputs that only watchers need."""


def evaluate_task(stage: Stage, task: Task) -> TaskResult:
    """Return the outputs of all jobs of a task, and what is kept of their counterfactuals; the same bits everywhere."""
    calls = _Calls(stage, task.known)
    watch = Watch(stage.hypotheses.items.costly) if task.watched else None
    hypotheses = replace(stage.hypotheses, watch=watch)
    batches = list(_drawn(hypotheses, stage.tolerance, task.jobs, calls.failed))
    outputs = calls.outputs(batches)
    if stage.tolerance.skip:
        for batch, of_batch in zip(batches, outputs, strict=True):
            rows = batch.job.rows
            bad = ~np.isfinite(of_batch).all(axis=(1, 2)) | np.isin(rows, list(calls.failed))
            of_batch[bad] = 0.0  # all equal: nothing is to be concluded from them
            for row in rows[bad].tolist():
                calls.failed.setdefault(row, "the model failed on one of its rows")
    return TaskResult(
        outputs=outputs if task.summary is None else (),
        numbers=tuple(
            tuple([None if extract is None else extract(stage.hypotheses, *pair) for extract in task.extracts])
            for pair in zip(batches, outputs, strict=True)
        ),
        supports=tuple(batch.support for batch in batches),
        rows=(calls.requested, calls.evaluated, calls.deduplicated),
        news=calls.news,
        chance=(False, 0) if watch is None else (watch.differ, watch.alike),
        failed=calls.failed,
        summary=None if task.summary is None else task.summary(task.jobs, outputs),
        sample=None if task.summary is None else _sample(hypotheses.seed, task.jobs, outputs),
    )


def draw_task(stage: Stage, task: Task) -> None:
    """Draw what a task needs, to see whether that can be done."""
    for _ in _drawn(replace(stage.hypotheses, watch=None), stage.tolerance, task.jobs, {}):
        pass


def _sample(seed: int, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> tuple[int, Ints, Floats]:
    """Return outputs of a few inputs of one job, any as likely: a run that goes on compares them with those it gets."""
    first = jobs[0]
    hashed = crc32(repr((seed, first.block.subset.name, first.round, int(first.rows[0]))).encode("utf-8", "replace"))
    start, number = divmod(hashed, len(jobs))
    count = len(outputs[number])
    step = max(1, count // 8)
    inputs = np.arange(start % step, count, step)[:8]
    return number, inputs, outputs[number][inputs]


def _drawn(
    hypotheses: Hypotheses, tolerance: Tolerance, jobs: tuple[Job, ...], failed: dict[int, str]
) -> Iterator[CounterfactualBatch]:
    """Draw or list; where the sampler may take only so long, or fail, what it cannot draw is left as it is observed."""
    for job in jobs:
        listed = job.round == SUPPORT
        draw_job = partial(listed_block, hypotheses, job.block) if listed else partial(draw, hypotheses, job)
        try:
            yield again(partial(within, tolerance.timeout, draw_job), TRIES if tolerance.skip else 1)
        except (TimeoutError, ModelError) as error:
            if not tolerance.skip:
                if isinstance(error, TimeoutError):
                    raise ModelError(f"the sampler gave {error} on {hypotheses.name_of(job.block)}") from error
                raise
            failed.update(dict.fromkeys(job.rows.tolist(), f"the sampler failed: {error}"))
            batch = draw(replace(hypotheses, sampler=Unchanged(), watch=None), job)
            if listed:
                mass = np.full((len(job.rows), job.draws), 1 / job.draws)
                batch = replace(batch, support=Support(mass, np.zeros(len(mass)), np.zeros(len(mass))))
            yield batch


class Unchanged:
    """Replaces a sampler that fails: it changes nothing."""

    info = SamplerInfo("unchanged", takes_missing=True)

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: object) -> Batch:  # noqa: ARG002
        return [one for one in inputs for _ in range(draws)]

    def values(self, inputs: Array, subset: Subset, draws: int, rng: object) -> Array:  # noqa: ARG002
        return np.repeat(inputs[:, subset.index], draws, axis=0)


Work = list[tuple[CounterfactualBatch, Floats]]  # each batch with the array (evaluations, outputs) to fill in
Piece = tuple[CounterfactualBatch, int, int]  # evaluations start..stop of a batch


class _Calls:
    def __init__(self, stage: Stage, known: dict[int, dict[bytes, Floats]]) -> None:
        self.stage, self.items, self.known = stage, stage.hypotheses.items, known
        self.requested, self.evaluated, self.deduplicated = 0, 0, 0
        self.news: dict[Key, Floats] = {}
        self.failed: dict[int, str] = {}

    def outputs(self, batches: list[CounterfactualBatch]) -> tuple[Floats, ...]:
        """Return the outputs (inputs, versions, outputs) of each batch."""
        ends = [0, *accumulate(batch.n_evaluations for batch in batches)]
        outputs = np.empty((ends[-1], self.stage.n_outputs))
        self.requested += ends[-1]
        once: Work = []
        repeating: Work = []
        for batch, (start, stop) in zip(batches, pairwise(ends), strict=True):
            work = repeating if batch.job.block.subset.name in self.stage.repeating else once
            work.append((batch, outputs[start:stop]))
        self._evaluate(once)
        self._evaluate_new(repeating)
        return tuple(
            outputs[start:stop].reshape(-1, batch.versions, self.stage.n_outputs)
            for batch, (start, stop) in zip(batches, pairwise(ends), strict=True)
        )

    def _evaluate_new(self, work: Work) -> None:
        """Evaluate draws that may repeat: the same counterfactual of the same input is evaluated once in a run."""
        new: Work = []
        keys: list[list[Key]] = []
        for batch, _ in work:
            assert self.stage.observed is not None
            rows = np.repeat(batch.job.rows, batch.versions).tolist()
            keys.append(list(zip(rows, self.items.keys(batch.values), strict=True)))
            self.news.update(zip(keys[-1][:: batch.versions], self.stage.observed[batch.job.inputs], strict=True))
            unknown = {
                key: position
                for position, key in reversed(list(enumerate(keys[-1])))
                if key not in self.news and key[1] not in self.known.get(key[0], ())
            }
            if unknown:
                positions = np.array(sorted(unknown.values()), dtype=np.int64)
                inputs = self.items.take(batch.inputs, positions // batch.versions)
                values = self.items.take(batch.values, positions)
                out = np.empty((len(positions), self.stage.n_outputs))
                new.append((replace(batch, inputs=inputs, values=values, positions=positions), out))
                self.news.update(zip((keys[-1][k] for k in positions), out, strict=True))  # filled below
        self._evaluate(new)
        for (_, out), of_batch in zip(work, keys, strict=True):
            out[:] = [self.news[key] if key in self.news else self.known[key[0]][key[1]] for key in of_batch]

    def _evaluate(self, work: Work) -> None:
        """Evaluate batches of any size, as many rows to a call as it may have."""
        if not isinstance(self.items, TableItems):
            self._evaluate_items(work)
            return
        outs = {id(batch): out for batch, out in work}
        buffer = self.stage.buffer
        for pieces in _row_packs([batch for batch, _ in work], self.stage.batch_rows):
            sources = _sources(pieces)
            rows = buffer.rows(len(sources), self.items.values)
            np.take(self.items.values, sources, axis=0, out=rows, mode="clip")
            spans = [*pairwise([0, *accumulate(stop - start for _, start, stop in pieces)])]
            for (batch, start, stop), (first, last) in zip(pieces, spans, strict=True):
                rows[first:last, batch.job.block.columns] = batch.values[start:stop]
            outputs = buffer.lend(rows, partial(self._call, pieces))
            for (batch, start, stop), (first, last) in zip(pieces, spans, strict=True):
                outs[id(batch)][start:stop] = outputs[first:last]

    def _evaluate_items(self, work: Work) -> None:
        """Evaluate images and texts: equal texts are one row of a call, so fills that repeat cost no more.

        They are so within a call and not over calls, for the observed text is to be evaluated beside its draws.
        """
        for pack in _item_packs(work, self.stage.batch_rows):
            numbers: dict[Hashable, int] = {}  # of each different item
            pieces: list[Piece] = []
            indices = []  # of the items that each batch has
            for batch, _, keys in pack:
                indices.append([numbers.setdefault(key, len(numbers)) for key in keys])
                for k, number in enumerate(indices[-1]):
                    if number == len(pieces):
                        pieces.append((batch, k, k + 1))
            outputs = np.concatenate(
                [
                    self._call(pieces[start:stop], [batch.values[k] for batch, k, _ in pieces[start:stop]])
                    for start, stop in _windows(len(pieces), self.stage.batch_rows)
                ]
            )
            for (_, out, _), index in zip(pack, indices, strict=True):
                out[:] = outputs[index]
            self.deduplicated += sum(map(len, indices)) - len(pieces)

    def _call(self, pieces: list[Piece], rows: Batch) -> Floats:
        """Return the model's outputs (rows, outputs), checked: one finite number per row and output."""
        count, width, tolerance = len(rows), self.stage.n_outputs, self.stage.tolerance
        given = self.items.to_model_input(rows, partial(_sources, pieces))
        model = limited(self.stage.model, tolerance.timeout)

        def describe(row: int) -> str:
            job, position, version = _located(pieces, row)
            name = f"input {self.stage.hypotheses.input_names[int(job.inputs[position])]!r}"
            return f"counterfactual {version} of {name}, subset {job.block.subset.name!r}" if version else name

        if tolerance.skip:
            outputs, faults = tolerant(model, given, count, width, describe)
            for row, why in faults.items():
                job, position, _ = _located(pieces, row)
                self.failed.setdefault(int(job.rows[position]), why)
        else:
            outputs = ask(model, given, count, describe).reshape(count, -1)
        if outputs.shape[1] != width:
            raise ModelError(f"the model returned {outputs.shape[1]} outputs a row, but {width} for other rows")
        self.evaluated += count
        return outputs


def _windows(rows: int, most: int) -> list[tuple[int, int]]:
    """Return even parts of at most `most` rows."""
    parts = -(-rows // most)
    return [(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


def _row_packs(batches: list[CounterfactualBatch], batch_rows: int) -> Iterator[list[Piece]]:
    """Yield the pieces of each call: parts of a large batch, or several small ones."""
    pieces: list[Piece] = []
    room = batch_rows
    for batch in batches:
        count = batch.n_evaluations
        if count > batch_rows:
            yield from ([(batch, start, stop)] for start, stop in _windows(count, batch_rows))
            continue
        if count > room:
            yield pieces
            pieces, room = [], batch_rows
        pieces.append((batch, 0, count))
        room -= count
    if pieces:
        yield pieces


def _item_packs(work: Work, batch_rows: int) -> Iterator[list[tuple[CounterfactualBatch, Floats, list[Hashable]]]]:
    """Yield batches of at most `batch_rows` different items together, with keys; texts differ by their characters."""
    pack: list[tuple[CounterfactualBatch, Floats, list[Hashable]]] = []
    different: set[Hashable] = set()
    for batch, out in work:
        keys: list[Hashable] = [x if isinstance(x, str) else (id(batch), k) for k, x in enumerate(batch.values)]
        if pack and len(different.union(keys)) > batch_rows:
            yield pack
            pack, different = [], set()
        pack.append((batch, out, keys))
        different.update(keys)
    if pack:
        yield pack


def _sources(pieces: list[Piece]) -> Ints:
    """Return the input that each row of a call comes from."""
    versions = pieces[0][0].versions
    if all(
        b.versions == versions and stop - start == b.n_evaluations and b.positions is None for b, start, stop in pieces
    ):
        return np.repeat(np.concatenate([batch.job.inputs for batch, _, _ in pieces]), versions)
    sources = []
    for batch, start, stop in pieces:
        inputs, versions = batch.job.inputs, batch.job.versions
        if batch.positions is None:
            first, last = start // versions, -(-stop // versions)
            sources.append(np.repeat(inputs[first:last], versions)[start - first * versions : stop - first * versions])
        else:
            sources.append(inputs[batch.positions[start:stop] // versions])
    return np.concatenate(sources)


def _located(pieces: list[Piece], row: int) -> tuple[Job, int, int]:
    """Return the job, the position of the input in it and the version of a row of a call."""
    for batch, start, stop in pieces:
        if row < stop - start:
            position = start + row if batch.positions is None else int(batch.positions[start + row])
            return batch.job, *divmod(position, batch.job.versions)
        row -= stop - start
    raise AssertionError("row outside the batch")
