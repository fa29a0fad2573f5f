"""Blocks -> model -> outputs: what goes into each call of the model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem, draw_all
from butfor.core.draw.items import TableItems
from butfor.core.evaluate.ask import ask
from butfor.core.evaluate.buffer import BatchBuffer
from butfor.core.evaluate.memory import MOST_KNOWN, Memory
from butfor.core.types import Array, Batch, Floats, Ints, Model, ModelError

GROUP_VALUES = 2**18  # drawn values and model outputs that are held at once
LEAST_PAINTED = 4  # large jobs on the same inputs from which on painting over beats assembling anew


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
    return evaluate_drawn(problem, evaluator, draw_all(problem, jobs))


def evaluate_drawn(
    problem: Problem, evaluator: Evaluator, batches: Iterable[CounterfactualBatch]
) -> Iterator[tuple[Job, Floats]]:
    """The same for what is drawn already."""
    buffer = BatchBuffer()
    for group in _groups(problem, evaluator, batches):
        for batch, outputs in _evaluate_group(problem, evaluator, group, buffer):
            evaluator.show(batch, outputs)
            yield batch.job, outputs


def evaluate_together(
    problem: Problem, evaluator: Evaluator, jobs: Iterable[Job], buffer: BatchBuffer
) -> Iterator[list[tuple[Job, Floats]]]:
    """As `evaluate`, but jobs that are evaluated together come together: what follows can then be done in one go.

    Many rounds share a buffer: fresh memory for each would take as long as writing it.
    """
    for group in _groups(problem, evaluator, draw_all(problem, jobs)):
        done = list(_evaluate_group(problem, evaluator, group, buffer))
        for batch, outputs in done:
            evaluator.show(batch, outputs)
        yield [(batch.job, outputs) for batch, outputs in done]


def _groups(
    problem: Problem, evaluator: Evaluator, batches: Iterable[CounterfactualBatch]
) -> Iterator[list[CounterfactualBatch]]:
    """As many batches together as may be held; large ones of a table are painted over, the more of them the better."""
    group: list[CounterfactualBatch] = []
    held, large = 0, 0
    for batch in batches:
        group.append(batch)
        held += batch.rows * max(evaluator.outputs, problem.items.size(batch.inputs, batch.values))
        large += batch.base is not None and batch.rows > evaluator.batch_rows
        if held >= (LARGE_GROUP if large == len(group) else GROUP_VALUES):
            yield group
            group, held, large = [], 0, 0
    if group:
        yield group


LARGE_GROUP = 2**20  # as GROUP_VALUES, where all jobs are larger than a call


Work = list[tuple[CounterfactualBatch, Floats]]  # each batch with the array (rows, outputs) to fill in


def _evaluate_group(
    problem: Problem, evaluator: Evaluator, group: list[CounterfactualBatch], buffer: BatchBuffer
) -> Work:
    """Each batch with its outputs (inputs, versions, outputs)."""
    ends = np.cumsum([0, *(batch.rows for batch in group)]).tolist()
    outputs = np.empty((ends[-1], evaluator.outputs))
    outs = [outputs[start:stop] for start, stop in pairwise(ends)]
    evaluator.counter.count_requested(ends[-1])
    alike: dict[tuple[int, ...], Work] = {}
    packed: Work = []
    repeating: Work = []
    for pair in zip(group, outs, strict=True):
        base = pair[0].base
        if evaluator.memory is not None and pair[0].job.block.subset.name in evaluator.memory.subsets:
            repeating.append(pair)
        elif base is not None and pair[0].rows > evaluator.batch_rows:
            alike.setdefault(base, []).append(pair)
        else:
            packed.append(pair)
    for work in alike.values():
        painted = len(work) >= LEAST_PAINTED and _evaluate_alike(problem, evaluator, work, buffer)
        packed += [] if painted else work
    _evaluate_packed(problem, evaluator, packed, buffer)
    _evaluate_repeating(problem, evaluator, repeating, buffer)
    return [(batch, out.reshape(-1, batch.versions, evaluator.outputs)) for batch, out in zip(group, outs, strict=True)]


def _evaluate_alike(problem: Problem, evaluator: Evaluator, alike: Work, buffer: BatchBuffer) -> bool:
    """Large jobs on the same inputs: one batch is painted over, since calls differ in the subset's columns only.

    A model that keeps the batch gets another one next time. False where it writes into it, which is found out at the
    end: then these answers are not to be used, and nothing is painted over again.
    """
    inputs, versions = alike[0][0].inputs, alike[0][0].versions
    for start, stop in () if buffer.written else _windows(alike[0][0].rows, evaluator.batch_rows):
        source = np.arange(start, stop) // versions
        rows = buffer.rows(stop - start, inputs)
        np.take(inputs, source, axis=0, out=rows, mode="clip")
        for batch, out in alike:
            columns = batch.job.block.columns
            before = rows[:, columns].copy()  # not the inputs' own: what a model has written here must stay to be seen
            rows[:, columns] = batch.values[start:stop]
            out[start:stop], kept = buffer.lend(rows, partial(_call, problem, evaluator, [(batch, start, stop)]))
            if kept:
                former, rows = rows, buffer.rows(stop - start, inputs)
                rows[:] = former
            rows[:, columns] = before
        expected = np.take(inputs, source, axis=0)
        buffer.written |= not np.array_equal(rows, expected) and not np.array_equal(rows, expected, equal_nan=True)
        if buffer.written:
            break
    return not buffer.written


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


def _evaluate_rows(problem: Problem, table: Array, evaluator: Evaluator, work: Work, buffer: BatchBuffer) -> None:
    """Rows of a table, assembled in the buffer."""
    outs = {id(batch): out for batch, out in work}
    for pieces in _packs([batch for batch, _ in work], evaluator.batch_rows):
        sources = _sources(pieces)
        rows = buffer.rows(len(sources), table)
        np.take(table, sources, axis=0, out=rows, mode="clip")
        done = 0
        for batch, start, stop in pieces:
            rows[done : done + stop - start, batch.job.block.columns] = batch.values[start:stop]
            done += stop - start
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


def _describe(problem: Problem, pieces: list[Piece], row: int) -> str:
    for batch, start, stop in pieces:
        if row < stop - start:
            source, version = _places(batch, start + row)
            name = problem.input_names[source]
            if version == 0:
                return f"input {name!r}"
            return f"counterfactual {version} of input {name!r}, subset {batch.job.block.subset.name!r}"
        row -= stop - start
    raise AssertionError("row outside the batch")
