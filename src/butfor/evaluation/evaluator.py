"""Jobs -> units of work -> model outputs, in the order of the jobs, whoever does the work.

Memory that batches are written on again and again: new memory for each takes 1.2 to 2.3 times as long (100 columns).

A model that keeps its batch, or a part of it, keeps the memory too. Whoever is lent a batch gets an array of its own
over the memory; NumPy's views of it hold it, so a weak reference tells whether anybody still does.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain, islice, pairwise
from time import perf_counter
from typing import Any, Protocol, runtime_checkable
from zlib import crc32

import numpy as np

from butfor.evaluation.calls import TRIES, again, ask, limited, tolerant, within
from butfor.evaluation.hypotheses import (
    SUPPORT,
    CounterfactualBatch,
    Job,
    Problem,
    Watch,
    draw,
    draw_all,
    listed_block,
    no_chance,
)
from butfor.evaluation.items import TableItems
from butfor.evaluation.samplers import SamplerInfo, method
from butfor.inference.exact import Support
from butfor.types import Array, Batch, Floats, Ints, Model, ModelError, Subset


class BatchBuffer:
    """Room for one batch at a time; `written` is set by who finds that the model writes into what it is lent."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self.written = False

    def rows(self, count: int, like: Array) -> Array:
        """An array (count, width of `like`) that nobody else holds, with anything in it."""
        needed = count * like.shape[1] * like.itemsize
        if len(self._memory) < needed:
            self._memory = bytearray(needed)
        return self._view(count, like.shape[1], like.dtype)

    def lend(self, rows: Array, ask: Callable[[Array], Array]) -> tuple[Array, bool]:
        """What `ask` says of the rows, and whether it kept them: then they are its own, and others come next."""
        lent = np.frombuffer(self._memory, rows.dtype, rows.size)
        held = weakref.ref(lent)
        outputs = ask(lent.reshape(rows.shape))
        del lent
        kept = held() is not None
        if kept:
            self._memory = bytearray()
        return outputs, kept

    def _view(self, count: int, width: int, dtype: np.dtype[np.generic]) -> Array:
        return np.frombuffer(self._memory, dtype, count * width).reshape(count, width)


Key = tuple[int, bytes]  # a hypothesis, and what tells its versions apart
Look = Callable[[Problem, CounterfactualBatch, Floats], Any]  # what is kept of counterfactuals: a few small numbers
Summary = Callable[[tuple[Job, ...], tuple[Floats, ...]], Any]  # what a stage needs of a unit's outputs: counts, means


@runtime_checkable
class HasMark(Protocol):
    """A summary whose numbers are cut out of those of a whole stage: `mark` is the digest of them all.

    With the jobs it tells the summary from all others, and a journal need not read the numbers of every unit.
    """

    @property
    def mark(self) -> bytes: ...


class Buffers(threading.local):
    """A buffer for each thread; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.own = BatchBuffer()

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffers, ()


@dataclass(frozen=True)
class Tolerance:
    """What is done about a model or sampler that fails: with `skip` its hypotheses go untested; seconds for a call."""

    skip: bool = False
    timeout: float | None = None


@dataclass(frozen=True, eq=False)
class Workplace:
    """The same for all units of a stage: it is large, so it travels to a worker once.

    `observed` (n, outputs) are the outputs on the inputs, for subsets whose draws are `repeating`.
    """

    problem: Problem  # without its blocks: they come with the jobs
    model: Model
    batch_rows: int
    outputs: int
    repeating: frozenset[str] = frozenset()
    observed: Floats | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    buffers: Buffers = field(default_factory=Buffers)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for workplaces that are the same, as long as one of them is held."""
        problem = self.problem
        same = (problem.items, problem.sampler, self.model, self.observed, problem.input_names)
        return (*map(id, same), problem.seed, self.batch_rows, self.outputs, self.repeating, self.tolerance)


@dataclass(frozen=True, eq=False)
class WorkUnit:
    """Jobs that are drawn and evaluated together, wherever that is; which they are depends on nothing but the run."""

    jobs: tuple[Job, ...]
    looks: tuple[Look | None, ...] = ()
    summary: Summary | None = None  # made where the outputs are, which then stay there; None: they are wanted
    watched: bool = False  # draws are compared, to see whether there is chance in them
    known: dict[int, dict[bytes, Floats]] = field(default_factory=dict)  # answers that its hypotheses have already
    result: UnitResult | None = None  # from a run that was cut short


@dataclass(frozen=True, eq=False)
class UnitResult:
    """What came of a unit. Counterfactuals stay where they were drawn."""

    outputs: tuple[Floats, ...]  # of each job (inputs, versions, outputs); none where there is a summary
    found: tuple[tuple[Any, ...], ...]  # of each job, by each of `looks`
    supports: tuple[Support | None, ...]  # of each job, where its counterfactuals were listed
    rows: tuple[int, int, int]  # requested, evaluated, deduplicated
    news: dict[Key, Floats] = field(default_factory=dict)  # answers to draws that may come again
    chance: tuple[bool, int] = (False, 0)  # whether draws differ, and how many were alike
    failed: dict[int, str] = field(default_factory=dict)  # hypotheses that the model or sampler failed on, and why
    summary: Any = None  # arrays, and tuples of them
    sample: tuple[int, Ints, Floats] | None = None  # a job, some of its inputs, and their outputs: to compare with


@runtime_checkable
class Engine(Protocol):
    """Where units are worked on: results come with the number of their unit, in any order."""

    def map(self, place: Workplace, units: Iterable[WorkUnit]) -> Iterator[tuple[int, UnitResult]]: ...


@dataclass
class UnitCounts:
    """Rows of one unit: requested, given to the model, and equal to others of their call."""

    requested: int = 0
    evaluated: int = 0
    deduplicated: int = 0


@dataclass(frozen=True, eq=False)
class UnitContext:
    """One unit while it is worked on."""

    place: Workplace
    known: dict[int, dict[bytes, Floats]]
    counts: UnitCounts = field(default_factory=UnitCounts)
    news: dict[Key, Floats] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @property
    def buffer(self) -> BatchBuffer:
        return self.place.buffers.own

    def answer(self, key: Key) -> Floats:
        """What the model said of a version of a hypothesis."""
        return self.news[key] if key in self.news else self.known[key[0]][key[1]]

    def is_known(self, key: Key) -> bool:
        return key in self.news or key[1] in self.known.get(key[0], ())


MOST_KNOWN = 2**20  # answers that are remembered at once; what comes again after that is asked again


@dataclass
class Memory:
    """Outputs on the observed inputs (n, outputs), and on counterfactuals by hypothesis and value of the subset.

    Only subsets whose draws repeat are remembered: continuous draws never come again.
    """

    observed: Floats
    subsets: frozenset[str]
    known: dict[int, dict[bytes, Floats]] = field(default_factory=dict)
    held: int = 0

    def of(self, jobs: Iterable[Job]) -> dict[int, dict[bytes, Floats]]:
        """What is known of the hypotheses of some jobs."""
        rows = (row for job in jobs if job.block.subset.name in self.subsets for row in job.rows.tolist())
        return {row: self.known[row] for row in rows if row in self.known}

    def learn(self, news: Mapping[Key, Floats]) -> None:
        """Remember more, as long as there is room."""
        for (row, value), outputs in islice(news.items(), max(MOST_KNOWN - self.held, 0)):
            self.known.setdefault(row, {})[value] = outputs
            self.held += 1

    def clear_if_full(self) -> None:
        """Between stages only, so that what is known does not depend on the order in which units are done."""
        if self.held >= MOST_KNOWN:
            self.known.clear()
            self.held = 0


def lookup(context: UnitContext, batch: CounterfactualBatch) -> tuple[list[Key], CounterfactualBatch]:
    """The keys of all rows of a batch, and a batch of the rows that are not known yet."""
    items, observed = context.place.problem.items, context.place.observed
    assert observed is not None
    rows = np.repeat(batch.job.rows, batch.versions).tolist()
    keys = list(zip(rows, items.keys(batch.values), strict=True))
    context.news.update(zip(keys[:: batch.versions], observed[batch.job.inputs], strict=True))
    fresh = {key: row for row, key in reversed(list(enumerate(keys))) if not context.is_known(key)}
    places = np.array(sorted(fresh.values()), dtype=np.int64)
    inputs = items.take(batch.inputs, places // batch.versions)
    values = items.take(batch.values, places)
    return keys, replace(batch, inputs=inputs, values=values, versions=1, places=places, base=None)


def remembering(problem: Problem, observed: Floats, again: bool = True) -> Memory | None:
    """A memory for the subsets whose draws the sampler says repeat (or can be listed); None if there are none.

    Nor is there one for images and texts where a hypothesis is not drawn for `again`: equal texts of a call are one
    row of it anyway.
    """
    if not (again or problem.items.shares_subsets):
        return None
    subsets = problem.subsets
    repeats = _repeats(problem.sampler)
    never = {subset.name for subset in subsets if not repeats(subset)}
    names = frozenset(subset.name for subset in subsets) - never
    return Memory(observed, names) if names else None


def _repeats(sampler: object) -> Callable[[Subset], bool]:
    """Return whether draws of a subset come again: by `repeats` or, without, where the sampler lists them."""
    return method(sampler, "repeats") or method(sampler, "lists") or (lambda _: False)


LEAST_PAINTED = 4  # large jobs on the same inputs from which on painting over beats assembling anew
COMPARED = 2**13  # values that are compared at a time


Work = list[tuple[CounterfactualBatch, Floats]]  # each batch with the array (rows, outputs) to fill in


def evaluate_group(context: UnitContext, group: list[CounterfactualBatch]) -> Work:
    """Each batch with its outputs (inputs, versions, outputs)."""
    ends = [0, *accumulate(batch.rows for batch in group)]
    outputs = np.empty((ends[-1], context.place.outputs))
    outs = [outputs[start:stop] for start, stop in pairwise(ends)]
    context.counts.requested += ends[-1]
    alike: dict[tuple[int, ...], Work] = {}
    packed: Work = []
    repeating: Work = []
    for batch, out in zip(group, outs, strict=True):
        if batch.job.block.subset.name in context.place.repeating:
            repeating.append((batch, out))
        elif batch.base is not None and len(out) > context.place.batch_rows:
            alike.setdefault(batch.base, []).append((batch, out))
        else:
            packed.append((batch, out))
    for work in alike.values():
        painted = len(work) >= LEAST_PAINTED and _evaluate_alike(context, work)
        packed += [] if painted else work
    _evaluate_packed(context, packed)
    _evaluate_repeating(context, repeating)
    return [
        (batch, out.reshape(-1, batch.versions, context.place.outputs)) for batch, out in zip(group, outs, strict=True)
    ]


def _evaluate_alike(context: UnitContext, alike: Work) -> bool:
    """Large jobs on the same inputs: one batch is painted over, since calls differ in the subset's columns only.

    A model that keeps the batch gets another one next time. False where it writes into it, which is found out at the
    end: then these answers are not to be used, and nothing is painted over again.
    """
    inputs, versions = alike[0][0].inputs, alike[0][0].versions
    for start, stop in () if context.buffer.written else _windows(alike[0][0].rows, context.place.batch_rows):
        source = np.arange(start, stop) // versions
        rows = context.buffer.rows(stop - start, inputs)
        np.take(inputs, source, axis=0, out=rows, mode="clip")
        for batch, out in alike:
            columns = batch.job.block.columns
            before = rows[:, columns].copy()  # not the inputs' own: what a model has written here must stay to be seen
            rows[:, columns] = batch.values[start:stop]
            out[start:stop], kept = context.buffer.lend(rows, partial(_call, context, [(batch, start, stop)]))
            if kept:
                former, rows = rows, context.buffer.rows(stop - start, inputs)
                rows[:] = former
            rows[:, columns] = before
        context.buffer.written |= not _as_taken(rows, inputs, source)
        if context.buffer.written:
            break
    return not context.buffer.written


def _as_taken(rows: Array, inputs: Array, source: Ints) -> bool:
    """Whether rows are these inputs; looked at in small parts, for large new memory takes longer than to compare."""
    step = max(1, COMPARED // rows.shape[1])
    for start in range(0, len(rows), step):
        part, expected = rows[start : start + step], inputs.take(source[start : start + step], axis=0)
        if not np.array_equal(part, expected) and not np.array_equal(part, expected, equal_nan=True):
            return False
    return True


def _windows(rows: int, most: int) -> list[tuple[int, int]]:
    """Even parts of at most `most` rows."""
    parts = -(-rows // most)
    return [(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


def _evaluate_repeating(context: UnitContext, work: Work) -> None:
    """Draws that may repeat: the same counterfactual of the same input is evaluated once in a run."""
    news: Work = []
    keys = []
    for batch, _ in work:
        own, fresh = lookup(context, batch)
        keys.append(own)
        if fresh.places is not None and len(fresh.places):
            news.append((fresh, np.empty((len(fresh.places), context.place.outputs))))
            context.news.update(zip((own[place] for place in fresh.places), news[-1][1], strict=True))  # filled below
    _evaluate_packed(context, news)
    for (_, out), own in zip(work, keys, strict=True):
        out[:] = [context.answer(key) for key in own]


Piece = tuple[CounterfactualBatch, int, int]  # rows start..stop of what was drawn


def _evaluate_packed(context: UnitContext, work: Work) -> None:
    """Jobs of any kind and size, as many rows to a call as it may have."""
    items = context.place.problem.items
    if isinstance(items, TableItems):
        _evaluate_rows(context, items.values, work)
    else:
        _evaluate_items(context, work)


def _evaluate_rows(context: UnitContext, table: Array, work: Work) -> None:
    """Rows of a table, assembled in the context.buffer."""
    outs = {id(batch): out for batch, out in work}
    for pieces in _packs([batch for batch, _ in work], context.place.batch_rows):
        sources = _sources(pieces)
        rows = context.buffer.rows(len(sources), table)
        np.take(table, sources, axis=0, out=rows, mode="clip")
        ends = [0, *accumulate(stop - start for _, start, stop in pieces)]
        for (batch, start, stop), first, last in zip(pieces, ends, ends[1:], strict=False):
            rows[first:last, batch.job.block.columns] = batch.values[start:stop]
        outputs, _ = context.buffer.lend(rows, partial(_call, context, pieces))
        for (batch, start, stop), first, last in zip(pieces, ends, ends[1:], strict=False):
            outs[id(batch)][start:stop] = outputs[first:last]


def _packs(group: list[CounterfactualBatch], batch_rows: int) -> Iterator[list[Piece]]:
    pieces: list[Piece] = []
    room = batch_rows
    for batch in group:
        rows = batch.rows
        if rows > room and pieces:
            yield pieces
            pieces, room = [], batch_rows
        if rows > batch_rows:
            yield from ([(batch, start, stop)] for start, stop in _windows(rows, batch_rows))
        else:
            pieces.append((batch, 0, rows))
            room -= rows
    if pieces:
        yield pieces


def _evaluate_items(context: UnitContext, work: Work) -> None:
    """Images and texts: equal texts are one row of a call, so fills that repeat and the observed text cost no more.

    They are so within a call and not over calls, for the observed text is to be evaluated beside its draws.
    """
    for pack in _item_packs(work, context.place.batch_rows):
        pieces, places = _distinct([batch for batch, _ in pack])
        parts = [pieces[start:stop] for start, stop in _windows(len(pieces), context.place.batch_rows)]
        given = ((part, [batch.values[row] for batch, row, _ in part]) for part in parts)
        outputs = np.concatenate([_call(context, part, items) for part, items in given])
        for (_, out), own in zip(pack, places, strict=True):
            out[:] = outputs[own]
        context.counts.deduplicated += sum(map(len, places)) - len(pieces)


def _item_packs(work: Work, batch_rows: int) -> Iterator[Work]:
    """As many jobs together as have at most `batch_rows` different items; one that has more is alone."""
    pack: Work = []
    held: set[Hashable] = set()
    for batch, out in work:
        own = set(_item_keys(batch))
        if pack and len(held) + len(own - held) > batch_rows:
            yield pack
            pack, held = [], set()
        pack.append((batch, out))
        held |= own
    if pack:
        yield pack


def _distinct(pack: list[CounterfactualBatch]) -> tuple[list[Piece], list[list[int]]]:
    """Where each different item stands first, and which of those every row of every job is equal to."""
    firsts: dict[Hashable, int] = {}
    pieces: list[Piece] = []
    places = []
    for batch in pack:
        own = []
        for row, key in enumerate(_item_keys(batch)):
            own.append(firsts.setdefault(key, len(pieces)))
            if own[-1] == len(pieces):
                pieces.append((batch, row, row + 1))
        places.append(own)
    return pieces, places


def _item_keys(batch: CounterfactualBatch) -> list[Hashable]:
    """What tells items apart: a text by what it says; anything else is taken to differ."""
    return [item if isinstance(item, str) else (id(batch), row) for row, item in enumerate(batch.values)]


def _call(context: UnitContext, pieces: list[Piece], rows: Batch) -> Floats:
    """The model's outputs (rows, outputs), after checking that they are one finite number per row and output."""
    count = len(rows)
    given = context.place.problem.items.to_model_input(rows, partial(_sources, pieces))
    width, tolerance = context.place.outputs, context.place.tolerance
    model, describe = limited(context.place.model, tolerance.timeout), partial(_describe, context, pieces)
    if tolerance.skip:
        outputs, faults = tolerant(model, given, count, width, describe)
        for row, why in faults.items():
            context.failed.setdefault(_hypothesis(pieces, row), why)
    else:
        outputs = ask(model, given, count, describe).reshape(count, -1)
    if outputs.shape[1] != width:
        raise ModelError(f"the model returned {outputs.shape[1]} outputs a row, but {width} for other rows")
    context.counts.evaluated += count
    return outputs


def _sources(pieces: list[Piece]) -> Ints:
    """The input that each row of a batch comes from."""
    versions = pieces[0][0].versions
    if all(
        batch.versions == versions and stop - start == batch.rows and batch.places is None
        for batch, start, stop in pieces
    ):
        return np.repeat(np.concatenate([batch.job.inputs for batch, _, _ in pieces]), versions)
    return np.concatenate([_inputs_of(batch, start, stop) for batch, start, stop in pieces])


def _inputs_of(batch: CounterfactualBatch, start: int, stop: int) -> Ints:
    """The input that each of these rows comes from."""
    if batch.places is not None:
        return np.asarray(batch.job.inputs[batch.places[start:stop] // batch.job.versions])
    first, last = start // batch.versions, -(-stop // batch.versions)
    every = np.repeat(batch.job.inputs[first:last], batch.versions)
    return every[start - first * batch.versions : stop - first * batch.versions]


def _places(batch: CounterfactualBatch, row: int) -> tuple[int, int]:
    """The input and the version that a row is."""
    position, version = divmod(row if batch.places is None else int(batch.places[row]), batch.job.versions)
    return int(batch.job.inputs[position]), version


def _hypothesis(pieces: list[Piece], row: int) -> int:
    """The hypothesis that a row of a call belongs to."""
    for batch, start, stop in pieces:
        if row < stop - start:
            place = start + row if batch.places is None else int(batch.places[start + row])
            return int(batch.job.rows[place // batch.job.versions])
        row -= stop - start
    raise AssertionError("row outside the batch")


def _describe(context: UnitContext, pieces: list[Piece], row: int) -> str:
    for batch, start, stop in pieces:
        if row < stop - start:
            source, version = _places(batch, start + row)
            name = context.place.problem.input_names[source]
            if version == 0:
                return f"input {name!r}"
            return f"counterfactual {version} of input {name!r}, subset {batch.job.block.subset.name!r}"
        row -= stop - start
    raise AssertionError("row outside the batch")


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


GROUP_VALUES = 2**18  # drawn values and model outputs that are held at once
LARGE_GROUP = 2**20  # the same where all jobs are larger than a call
CALLS, LEAST_ROWS = 4, 2**12  # a unit is about so many calls of the model, or rows where those are small
QUICK = 0.1  # seconds of a unit below which the next may have twice the rows, where it is done here and now


class RowCounter(Protocol):
    """Hears of the model's rows as they are done."""

    def count_evaluated(self, rows: int) -> None: ...
    def count_requested(self, rows: int) -> None: ...  # evaluated or remembered
    def count_deduplicated(self, rows: int) -> None: ...  # need no evaluation, being equal to others of their call


class NoCounter:
    """UnitCounts nothing."""

    def count_evaluated(self, rows: int) -> None: ...
    def count_requested(self, rows: int) -> None: ...
    def count_deduplicated(self, rows: int) -> None: ...


@dataclass(frozen=True, eq=False)
class Seen:
    """What watchers are told of a job beside what their `look` found: probabilities of what was listed."""

    job: Job
    mass: Floats | None = None  # (n, versions - 1)


class Watcher(Protocol):
    """Hears of every job of a run, in order. `look` sees the counterfactuals where they are drawn; None: no need."""

    @property
    def look(self) -> Look | None: ...
    def note(self, seen: Seen, found: Any) -> None: ...


@dataclass(frozen=True)
class Evaluator:
    """A model, how many rows it is given at a time, how many outputs it has, and who is told of rows done.

    `memory` is for samplers whose draws repeat: answers already given over a whole run. All of `seen` are told of
    every job as it is done. `engine` does the work; `failed` names hypotheses that go untested, and why.
    """

    model: Model
    batch_rows: int
    outputs: int
    counter: RowCounter = field(default_factory=NoCounter)
    memory: Memory | None = None
    seen: tuple[Watcher, ...] = ()
    engine: Engine = field(default_factory=Serial)
    tolerance: Tolerance = field(default_factory=Tolerance)
    failed: dict[int, str] = field(default_factory=dict)
    buffers: Buffers = field(default_factory=Buffers)
    remembered: Model | None = None  # the model as it is asked outside of units, where its answers are kept

    @property
    def direct(self) -> Model:
        """The model, to be asked here and now."""
        return self.model if self.remembered is None else self.remembered

    def show(self, problem: Problem, batch: CounterfactualBatch, outputs: Floats) -> None:
        """Show a batch that is done to whoever wants to see it."""
        for watcher in self.seen:
            found = None if watcher.look is None else watcher.look(problem, batch, outputs)
            watcher.note(Seen(batch.job, batch.mass), found)

    def untested(self, size: int) -> Ints:
        """Hypotheses that the model or the sampler failed on."""
        return np.array(sorted(row for row in self.failed if row < size), np.int64)


def evaluate(problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]) -> Iterator[tuple[Job, Floats]]:
    """Each job with its outputs (inputs, versions, outputs), version 0 being the observed input.

    The observed row is evaluated in the same calls as its counterfactuals: a BLAS row predicted in another batch may
    differ in its last bits (METHODS 6). Rows of several small jobs share a call; rows of a large one are split.
    """
    return chain.from_iterable(evaluate_together(problem, evaluator, jobs))


def evaluate_together(
    problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]
) -> Iterator[list[tuple[Job, Floats]]]:
    """As `evaluate`, but jobs that are evaluated together come together: what follows can then be done in one go."""
    for unit, result in _in_order(problem, evaluator, jobs):
        yield list(zip(unit.jobs, result.outputs, strict=True))


def summaries(
    problem: Problem, evaluator: Evaluator, jobs: Iterable[Job], summary_of: Callable[[tuple[Job, ...]], Summary]
) -> Iterator[tuple[tuple[Job, ...], Any]]:
    """Jobs that are evaluated together, and a summary of their outputs, which is made where they are.

    `summary_of` gives the function that does so for some jobs, with all that it needs and no more: it travels.
    """
    for unit, result in _in_order(problem, evaluator, jobs, summary_of):
        yield unit.jobs, result.summary


def watch_only(problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]) -> None:
    """Evaluate jobs for those who watch; nobody else needs the outputs."""
    for _ in summaries(problem, evaluator, jobs, lambda _: nothing):
        pass


def nothing(jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> None:
    """The summary of outputs that only watchers look at."""


def evaluate_listed(
    problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]
) -> Iterator[tuple[Job, Floats, Support]]:
    """Jobs of counterfactuals that are listed, with their outputs and probabilities."""
    for unit, result in _in_order(problem, evaluator, jobs):
        for job, outputs, support in zip(unit.jobs, result.outputs, result.supports, strict=True):
            assert support is not None
            yield replace(job, draws=support.mass.shape[1]), outputs, support


def _in_order(
    problem: Problem,
    evaluator: Evaluator,
    jobs: Iterable[Job],
    summary_of: Callable[[tuple[Job, ...]], Summary] | None = None,
) -> Iterator[tuple[WorkUnit, UnitResult]]:
    """Units with their results in the order of the jobs: what is made of them is then the same for every engine."""
    if evaluator.memory is not None:
        evaluator.memory.clear_if_full()
    handed: dict[int, WorkUnit] = {}
    done: dict[int, UnitResult] = {}
    turn = 0
    units = _units(problem, evaluator, jobs, handed, summary_of)
    for place, result in evaluator.engine.map(_workplace(problem, evaluator), units):
        done[place] = result
        while turn in done:
            unit, ready = handed.pop(turn), done.pop(turn)
            _note(problem, evaluator, unit, ready)
            yield unit, ready
            turn += 1


def _workplace(problem: Problem, evaluator: Evaluator) -> Workplace:
    """What all units of a stage share; the blocks come with their jobs."""
    none, memory = np.zeros(0, np.int64), evaluator.memory
    light = replace(problem, blocks=(), subset_names=(), input_of=none, subset_of=none, watch=None, layers=None)
    return Workplace(
        problem=light,
        model=evaluator.model,
        batch_rows=evaluator.batch_rows,
        outputs=evaluator.outputs,
        repeating=frozenset() if memory is None else memory.subsets,
        observed=None if memory is None else memory.observed,
        tolerance=evaluator.tolerance,
        buffers=evaluator.buffers,
    )


def _units(
    problem: Problem,
    evaluator: Evaluator,
    jobs: Iterable[Job],
    handed: dict[int, WorkUnit],
    summary_of: Callable[[tuple[Job, ...]], Summary] | None,
) -> Iterator[WorkUnit]:
    """Jobs in groups, with what is known of them by now; `handed` keeps them by number until they are done."""
    for place, group in enumerate(_groups(problem, evaluator, jobs)):
        known = {} if evaluator.memory is None else evaluator.memory.of(group)
        watched = problem.watch is not None and not problem.watch.differ
        own, looks = tuple(group), tuple(watcher.look for watcher in evaluator.seen)
        summary = None if summary_of is None else summary_of(own)
        handed[place] = WorkUnit(own, looks, summary, watched, known)
        yield handed[place]


def _groups(problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """As many jobs together as may be held; large ones of a table are painted over, the more of them the better.

    Where draws cost much a group is one call of the model, so that little is lost with it. Where they repeat, all jobs
    of a block stay together: groups are then independent of each other.
    """
    group: list[Job] = []
    held, large, rows = 0, 0, 0
    usual = room = max(CALLS * evaluator.batch_rows, LEAST_ROWS)
    costly, alike = problem.items.costly, problem.items.shares_subsets
    grows = isinstance(evaluator.engine, Serial) and evaluator.memory is None
    for job in jobs:
        own = job.count * job.versions
        plain = job.ask is None and job.keep is None and job.round != SUPPORT
        is_large = alike and plain and own > evaluator.batch_rows
        together = bool(group) and evaluator.memory is not None and job.block is group[-1].block
        all_large = large == len(group)  # none of them shares a call, so how many there are may hang on the clock
        if costly:
            full = rows + own > evaluator.batch_rows
        else:
            full = rows >= (room if all_large else usual) or held >= (LARGE_GROUP if all_large else GROUP_VALUES)
            full |= all_large and not is_large  # small ones share calls: with whom must be the same in every run
        if group and full and not together:
            begun = perf_counter()
            yield group
            room = 2 * room if grows and perf_counter() - begun < QUICK else usual
            group, held, large, rows = [], 0, 0, 0
        group.append(job)
        rows += own
        if not costly:
            held += own * max(evaluator.outputs, problem.items.size(job.block.start, job.block.subset))
            large += is_large
    if group:
        yield group


def _note(problem: Problem, evaluator: Evaluator, unit: WorkUnit, result: UnitResult) -> None:
    """Tell everybody of a unit that is done."""
    requested, evaluated, deduplicated = result.rows
    evaluator.counter.count_requested(requested)
    evaluator.counter.count_deduplicated(deduplicated)
    evaluator.counter.count_evaluated(evaluated)
    if evaluator.memory is not None:
        evaluator.memory.learn(result.news)
    evaluator.failed.update(result.failed)
    if problem.watch is not None:
        problem.watch.add(*result.chance)
        if problem.watch.is_degenerate and problem.items.costly:  # others are refused when the run is over
            raise no_chance(problem)
    for job, support, found in zip(unit.jobs, result.supports, result.found, strict=True):
        made = job if support is None else replace(job, draws=support.mass.shape[1])
        seen = Seen(made, None if support is None else support.mass)
        for watcher, one in zip(evaluator.seen, found, strict=True):
            watcher.note(seen, one)


def halves(unit: WorkUnit) -> tuple[WorkUnit, ...]:
    """Two units of half the jobs, without a summary; a single job cannot be parted, since its inputs share a stream."""
    if len(unit.jobs) < 2:
        return (unit,)
    middle, plain = len(unit.jobs) // 2, replace(unit, summary=None)
    return replace(plain, jobs=unit.jobs[:middle]), replace(plain, jobs=unit.jobs[middle:])


def joined(unit: WorkUnit, parts: list[UnitResult]) -> UnitResult:
    """The result of a unit from those of its halves."""
    outputs = tuple(one for part in parts for one in part.outputs)
    assert len(unit.jobs) == len(outputs)
    return UnitResult(
        outputs=outputs if unit.summary is None else (),
        found=tuple(one for part in parts for one in part.found),
        supports=tuple(one for part in parts for one in part.supports),
        rows=(sum(p.rows[0] for p in parts), sum(p.rows[1] for p in parts), sum(p.rows[2] for p in parts)),
        news={key: one for part in parts for key, one in part.news.items()},
        chance=(any(part.chance[0] for part in parts), sum(part.chance[1] for part in parts)),
        failed={row: why for part in parts for row, why in part.failed.items()},
        summary=None if unit.summary is None else unit.summary(unit.jobs, outputs),
    )


def failed_unit(place: Workplace, unit: WorkUnit, why: str) -> UnitResult:
    """Of a unit that nobody can do: outputs that are all equal, and its hypotheses named as failed."""
    outputs = tuple(np.zeros((len(job.members), job.versions, place.outputs)) for job in unit.jobs)
    return UnitResult(
        outputs=outputs if unit.summary is None else (),
        found=tuple((None,) * len(unit.looks) for _ in unit.jobs),
        supports=(None,) * len(unit.jobs),
        rows=(0, 0, 0),
        failed={row: why for job in unit.jobs for row in job.rows.tolist()},
        summary=None if unit.summary is None else unit.summary(unit.jobs, outputs),
    )
