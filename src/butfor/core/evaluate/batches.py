"""Blocks -> model -> outputs: what goes into each call of the model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Protocol

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem, draw
from butfor.core.draw.items import TableItems
from butfor.core.evaluate.ask import ask
from butfor.core.evaluate.buffer import BatchBuffer
from butfor.core.evaluate.memory import MOST_KNOWN, Memory
from butfor.core.types import Array, Batch, Floats, Ints, Model, ModelError

GROUP_VALUES = 2**18  # drawn values and model outputs that are held at once
WIDE = 400  # columns from which on painting over beats assembling anew: 1.4 times at 1,000, .7 to .8 times at 10 to 100


class RowCounter(Protocol):
    """Hears of the model's rows as they are done."""

    def count_evaluated(self, rows: int) -> None: ...
    def count_requested(self, rows: int) -> None: ...  # evaluated or remembered
    def count_deduplicated(self, rows: int) -> None: ...  # need no evaluation, being equal to others of their call


class NoCounter:
    """Counts nothing."""

    def count_evaluated(self, rows: int) -> None: ...
    def count_requested(self, rows: int) -> None: ...
    def count_deduplicated(self, rows: int) -> None: ...


@dataclass(frozen=True)
class Evaluator:
    """A model, how many rows it is given at a time, how many outputs it has, and who is told of rows done.

    `memory` is for samplers whose draws repeat: answers already given over a whole run. All of `seen` are shown
    every batch with its outputs (n, versions, outputs) as it is done.
    """

    model: Model
    batch_rows: int
    outputs: int
    counter: RowCounter = field(default_factory=NoCounter)
    memory: Memory | None = None
    seen: tuple[Callable[[CounterfactualBatch, Floats], None], ...] = ()

    def show(self, batch: CounterfactualBatch, outputs: Floats) -> None:
        """Show a batch that is done to whoever wants to see it."""
        for look in self.seen:
            look(batch, outputs)


def evaluate(problem: Problem, evaluator: Evaluator, jobs: Iterable[Job]) -> Iterator[tuple[Job, Floats]]:
    """Each job with its outputs (inputs, versions, outputs), version 0 being the observed input.

    The observed row is evaluated in the same calls as its counterfactuals: a BLAS row predicted in another batch may
    differ in its last bits (METHODS 6). Rows of several small jobs share a call; rows of a large one are split.
    """
    return evaluate_drawn(problem, evaluator, (draw(problem, job) for job in jobs))


def evaluate_drawn(
    problem: Problem, evaluator: Evaluator, batches: Iterable[CounterfactualBatch]
) -> Iterator[tuple[Job, Floats]]:
    """The same for what is drawn already."""
    buffer = BatchBuffer()
    group: list[CounterfactualBatch] = []
    held = 0
    for batch in batches:
        group.append(batch)
        held += batch.rows * max(evaluator.outputs, problem.items.size(batch.inputs, batch.values))
        if held >= GROUP_VALUES:
            yield from _evaluate_group(problem, evaluator, group, buffer)
            group, held = [], 0
    yield from _evaluate_group(problem, evaluator, group, buffer)


Work = list[tuple[CounterfactualBatch, Floats]]  # each batch with the array (rows, outputs) to fill in


def _evaluate_group(
    problem: Problem, evaluator: Evaluator, group: list[CounterfactualBatch], buffer: BatchBuffer
) -> Iterator[tuple[Job, Floats]]:
    kinds: dict[str, Work] = {"alike": [], "packed": [], "repeating": []}
    outs = [np.empty((batch.rows, evaluator.outputs)) for batch in group]
    for batch, out in zip(group, outs, strict=True):
        kinds[_kind(evaluator, batch)].append((batch, out))
        evaluator.counter.count_requested(batch.rows)
    for _, work in groupby(kinds["alike"], key=lambda pair: pair[0].base):
        _evaluate_alike(problem, evaluator, list(work), buffer)
    _evaluate_packed(problem, evaluator, kinds["packed"], buffer)
    _evaluate_repeating(problem, evaluator, kinds["repeating"], buffer)
    for batch, out in zip(group, outs, strict=True):
        outputs = out.reshape(len(batch.inputs), batch.versions, evaluator.outputs)
        evaluator.show(batch, outputs)
        yield batch.job, outputs


def _kind(evaluator: Evaluator, batch: CounterfactualBatch) -> str:
    if evaluator.memory is not None and batch.job.block.subset.name in evaluator.memory.subsets:
        return "repeating"
    large = batch.base is not None and batch.rows > evaluator.batch_rows and batch.inputs.shape[1] >= WIDE
    return "alike" if large else "packed"


def _evaluate_alike(problem: Problem, evaluator: Evaluator, alike: Work, buffer: BatchBuffer) -> None:
    """Large jobs on the same wide inputs: one batch is painted over, since calls differ in the subset's columns only.

    A model that keeps the batch gets another one next time; a model that writes into it is found out at the end.
    """
    inputs, versions = alike[0][0].inputs, alike[0][0].versions
    for start, stop in _windows(alike[0][0].rows, evaluator.batch_rows):
        source = np.arange(start, stop) // versions
        rows = buffer.rows(stop - start, inputs)
        np.take(inputs, source, axis=0, out=rows, mode="clip")
        for batch, out in alike:
            columns = batch.columns
            before = rows[:, columns].copy()  # not the inputs' own: what a model has written here must stay to be seen
            rows[:, columns] = batch.values[start:stop]
            out[start:stop], kept = buffer.lend(rows, partial(_call, problem, evaluator, [(batch, start, stop)]))
            if kept:
                former, rows = rows, buffer.rows(stop - start, inputs)
                rows[:] = former
            rows[:, columns] = before
        expected = np.take(inputs, source, axis=0)
        if not np.array_equal(rows, expected) and not np.array_equal(rows, expected, equal_nan=True):
            raise ModelError("the model writes into its batch; let it work on a copy: lambda X: model(X.copy())")


def _windows(rows: int, most: int) -> list[tuple[int, int]]:
    """Even parts of at most `most` rows."""
    parts = -(-rows // most)
    return [(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


def _evaluate_repeating(problem: Problem, evaluator: Evaluator, work: Work, buffer: BatchBuffer) -> None:
    """Draws that may repeat: the same counterfactual of the same input is evaluated once in a run."""
    if evaluator.memory is None:
        return
    known = evaluator.memory.known
    if len(known) > MOST_KNOWN:
        known.clear()
    news: Work = []
    keys = []
    for batch, _ in work:
        own, fresh = evaluator.memory.lookup(problem, batch)
        keys.append(own)
        if fresh.places is not None and len(fresh.places):
            news.append((fresh, np.empty((len(fresh.places), evaluator.outputs))))
            known.update(zip((own[place] for place in fresh.places), news[-1][1], strict=True))  # filled in below
    _evaluate_packed(problem, evaluator, news, buffer)
    for (_, out), own in zip(work, keys, strict=True):
        out[:] = [known[key] for key in own]


Piece = tuple[CounterfactualBatch, int, int]  # rows start..stop of what was drawn


def _evaluate_packed(problem: Problem, evaluator: Evaluator, work: Work, buffer: BatchBuffer) -> None:
    """Jobs of any kind and size, as many rows to a call as it may have."""
    if isinstance(problem.items, TableItems):
        _evaluate_rows(problem, problem.items.values, evaluator, work, buffer)
    else:
        _evaluate_items(problem, evaluator, work)


def _evaluate_rows(problem: Problem, like: Array, evaluator: Evaluator, work: Work, buffer: BatchBuffer) -> None:
    """Rows of a table, assembled in the buffer."""
    outs = {id(batch): out for batch, out in work}
    for pieces in _packs([batch for batch, _ in work], evaluator.batch_rows):
        rows = _assemble(pieces, buffer.rows(sum(stop - start for _, start, stop in pieces), like))
        outputs, _ = buffer.lend(rows, partial(_call, problem, evaluator, pieces))
        done = 0
        for batch, start, stop in pieces:
            outs[id(batch)][start:stop] = outputs[done : done + stop - start]
            done += stop - start


def _packs(group: list[CounterfactualBatch], batch_rows: int) -> Iterator[list[Piece]]:
    pieces: list[Piece] = []
    room = batch_rows
    for batch in group:
        if batch.rows > room and pieces:
            yield pieces
            pieces, room = [], batch_rows
        if batch.rows > batch_rows:
            yield from ([(batch, start, stop)] for start, stop in _windows(batch.rows, batch_rows))
        else:
            pieces.append((batch, 0, batch.rows))
            room -= batch.rows
    if pieces:
        yield pieces


def _assemble(pieces: list[Piece], rows: Array) -> Array:
    done = 0
    for batch, start, stop in pieces:
        part = rows[done : done + stop - start]
        np.take(batch.inputs, np.arange(start, stop) // batch.versions, axis=0, out=part, mode="clip")
        part[:, batch.columns] = batch.values[start:stop]
        done += stop - start
    return rows


def _evaluate_items(problem: Problem, evaluator: Evaluator, work: Work) -> None:
    """Images and texts: equal texts are one row of a call, so fills that repeat and the observed text cost no more.

    They are so within a call and not over calls, for the observed text is to be evaluated beside its draws.
    """
    for pack in _item_packs(work, evaluator.batch_rows):
        pieces, places = _distinct([batch for batch, _ in pack])
        parts = [pieces[start:stop] for start, stop in _windows(len(pieces), evaluator.batch_rows)]
        given = ((part, [batch.values[row] for batch, row, _ in part]) for part in parts)
        outputs = np.concatenate([_call(problem, evaluator, part, items) for part, items in given])
        for (_, out), own in zip(pack, places, strict=True):
            out[:] = outputs[own]
        evaluator.counter.count_deduplicated(sum(map(len, places)) - len(pieces))


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


def _call(problem: Problem, evaluator: Evaluator, pieces: list[Piece], rows: Batch) -> Floats:
    """The model's outputs (rows, outputs), after checking that they are one finite number per row and output."""
    count = len(rows)
    given = problem.items.to_model_input(rows, partial(_sources, pieces))
    outputs = ask(evaluator.model, given, count, partial(_describe, problem, pieces)).reshape(count, -1)
    if outputs.shape[1] != evaluator.outputs:
        raise ModelError(f"the model returned {outputs.shape[1]} outputs a row, but {evaluator.outputs} for other rows")
    evaluator.counter.count_evaluated(count)
    return outputs


def _sources(pieces: list[Piece]) -> Ints:
    """The input that each row of a batch comes from."""
    return np.concatenate([_places(batch, start, stop)[0] for batch, start, stop in pieces])


def _places(batch: CounterfactualBatch, start: int, stop: int) -> tuple[Ints, Ints]:
    """The input and the version that each of these rows is."""
    place = np.arange(start, stop) if batch.places is None else batch.places[start:stop]
    position, version = np.divmod(place, batch.job.versions)
    return batch.job.block.start + batch.job.members[position], version


def _describe(problem: Problem, pieces: list[Piece], row: int) -> str:
    for batch, start, stop in pieces:
        if row < stop - start:
            (source,), (version,) = _places(batch, start + row, start + row + 1)
            name = problem.input_names[int(source)]
            if version == 0:
                return f"input {name!r}"
            return f"counterfactual {version} of input {name!r}, subset {batch.job.block.subset.name!r}"
        row -= stop - start
    raise AssertionError("row outside the batch")
