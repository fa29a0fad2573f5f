"""Drawn counterfactuals -> calls of the model: what goes into each of them, and how its answers are put in place."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from itertools import accumulate, pairwise

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch
from butfor.core.draw.items import TableItems
from butfor.core.evaluate.ask import ask
from butfor.core.evaluate.memory import lookup
from butfor.core.evaluate.patience import limited, tolerant
from butfor.core.evaluate.workplace import UnitContext
from butfor.core.types import Array, Batch, Floats, Ints, ModelError

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
