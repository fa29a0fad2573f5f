"""Blocks -> model -> outputs: what goes into each call of the model, and checks of what comes back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import groupby
from math import isfinite
from typing import Any

import numpy as np

from butfor.core.draws import Drawn, Job, Problem, draw
from butfor.core.types import Batch, Floats, InputError, Ints, Model, ModelError

Dress = Callable[[Any, Ints], Batch]  # rows of a matrix, and the inputs they come from -> what the model is given
GROUP_VALUES = 2**18  # drawn values and model outputs that are held at once
MOST_KNOWN = 2**20  # answers on images or texts that are remembered at once
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Calls:
    """A model, how many rows it is given at a time, how many outputs it has, and who is told of rows done.

    `memory` is for samplers whose draws repeat: answers already given over a whole run.
    """

    model: Model
    batch_rows: int
    outputs: int
    tick: Callable[[int], None]  # hears of rows that the model has evaluated
    memory: Memory | None = None
    asked: Callable[[int], None] = lambda _: None  # hears of rows that were asked for, evaluated or remembered
    dress: Dress | None = None
    spared: Callable[[int], None] = lambda _: None  # hears of rows that need no evaluation, being equal to others


@dataclass(frozen=True)
class Memory:
    """Outputs on the observed inputs (n, outputs), and on counterfactuals by hypothesis and value of the subset.

    Only subsets whose draws repeat are remembered: continuous draws never come again.
    """

    observed: Floats
    subsets: frozenset[str]
    known: dict[tuple[int, bytes], Floats] = field(default_factory=dict)


def evaluate(problem: Problem, calls: Calls, jobs: Iterable[Job]) -> Iterator[tuple[Job, Floats]]:
    """Each job with its outputs (inputs, versions, outputs), version 0 being the observed input.

    The observed row is evaluated in the same calls as its counterfactuals: a BLAS row predicted in another batch may
    differ in its last bits (METHODS 6). Rows of several small jobs share a call; rows of a large one are split.
    """
    return evaluate_drawn(problem, calls, (draw(problem, job) for job in jobs))


def evaluate_drawn(problem: Problem, calls: Calls, drawns: Iterable[Drawn]) -> Iterator[tuple[Job, Floats]]:
    """The same for what is drawn already."""
    slate = Slate()
    group: list[Drawn] = []
    held = 0
    for drawn in drawns:
        group.append(drawn)
        held += drawn.rows * max(calls.outputs, _weight(drawn))
        if held >= GROUP_VALUES:
            yield from _evaluate_group(problem, calls, group, slate)
            group, held = [], 0
    yield from _evaluate_group(problem, calls, group, slate)


def _weight(drawn: Drawn) -> int:
    """Values of one row as they count towards a group; an image's are bytes in few, large pieces: 2**8 count one."""
    if isinstance(drawn.values, np.ndarray):
        return len(drawn.values[0])
    return max(map(size, drawn.inputs), default=1) // 2**8


def size(item: Any) -> int:
    """Values of an image, characters of a text, both of an input that has several parts.

    >>> size({"image": np.zeros((2, 2)), "caption": "so"})
    6
    """
    if isinstance(item, Mapping):
        return sum(map(size, item.values()))
    return len(item) if isinstance(item, str) else int(getattr(item, "size", 1))


class Slate:
    """Memory that batches are painted on, again and again; a model that keeps its batch keeps the memory too."""

    def __init__(self) -> None:
        self._memory: Array = np.empty((0, 0))

    def rows(self, count: int, like: Array) -> Array:
        """An array (count, width of `like`) that nobody else holds, with anything in it."""
        memory = self._memory
        held = sys.getrefcount(memory) > 3  # this name, the attribute and the argument are ours
        if held or memory.dtype != like.dtype or memory.shape[0] < count or memory.shape[1] != like.shape[1]:
            memory = self._memory = np.empty((count, like.shape[1]), like.dtype)
        return memory[:count]

    def kept(self) -> bool:
        """Whether anybody but the caller, who holds one view, holds the memory."""
        return sys.getrefcount(self._memory) > 3


def _evaluate_group(problem: Problem, calls: Calls, group: list[Drawn], slate: Slate) -> Iterator[tuple[Job, Floats]]:
    kinds: dict[str, list[tuple[Drawn, Floats]]] = {"alike": [], "packed": [], "repeating": []}
    outs = [np.empty((drawn.rows, calls.outputs)) for drawn in group]
    for drawn, out in zip(group, outs, strict=True):
        kinds[_kind(calls, drawn)].append((drawn, out))
        calls.asked(drawn.rows)
    for _, jobs in groupby(kinds["alike"], key=lambda pair: pair[0].base):
        _evaluate_alike(problem, calls, list(jobs), slate)
    _evaluate_packed(problem, calls, kinds["packed"], slate)
    _evaluate_repeating(problem, calls, kinds["repeating"], slate)
    for drawn, out in zip(group, outs, strict=True):
        yield drawn.job, out.reshape(len(drawn.inputs), drawn.versions, calls.outputs)


def _kind(calls: Calls, drawn: Drawn) -> str:
    if calls.memory is not None and drawn.job.block.subset.name in calls.memory.subsets:
        return "repeating"
    return "alike" if drawn.base is not None and drawn.rows > calls.batch_rows else "packed"


def _evaluate_alike(problem: Problem, calls: Calls, alike: list[tuple[Drawn, Floats]], slate: Slate) -> None:
    """Large jobs on the same inputs: one batch is painted over, since calls differ in the subset's columns only.

    A model that keeps the batch gets another one next time; a model that writes into it is found out at the end.
    """
    inputs, versions = alike[0][0].inputs, alike[0][0].versions
    for start, stop in _windows(alike[0][0].rows, calls.batch_rows):
        source = np.arange(start, stop) // versions
        rows = slate.rows(stop - start, inputs)
        np.take(inputs, source, axis=0, out=rows, mode="clip")
        for drawn, out in alike:
            columns = drawn.columns
            before = rows[:, columns].copy()  # not the inputs' own: what a model has written here must stay to be seen
            rows[:, columns] = drawn.values[start:stop]
            out[start:stop] = call(calls, rows, problem, [(drawn, start, stop)])
            if sys.getrefcount(rows) > 2 or slate.kept():
                rows = rows.copy()
            rows[:, columns] = before
        expected = np.take(inputs, source, axis=0)
        if not np.array_equal(rows, expected) and not np.array_equal(rows, expected, equal_nan=True):
            raise ModelError("the model writes into its batch; let it work on a copy: lambda X: model(X.copy())")


def _windows(rows: int, most: int) -> list[tuple[int, int]]:
    """Even parts of at most `most` rows."""
    parts = -(-rows // most)
    return [(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]


def _evaluate_repeating(problem: Problem, calls: Calls, jobs: list[tuple[Drawn, Floats]], slate: Slate) -> None:
    """Draws that may repeat: the same counterfactual of the same input is evaluated once in a run."""
    if calls.memory is None:
        return
    known = calls.memory.known
    if len(known) > MOST_KNOWN and not isinstance(problem.inputs, np.ndarray):
        known.clear()  # a run over many texts would hold them all; what comes again is then asked again
    keys = [_keys(drawn) for drawn, _ in jobs]
    news: list[tuple[Drawn, Floats]] = []
    for (drawn, _), own in zip(jobs, keys, strict=True):
        observed = calls.memory.observed[drawn.job.block.start + drawn.job.members]
        known.update(zip(own[:: drawn.versions], observed, strict=True))
        fresh = {key: row for row, key in reversed(list(enumerate(own))) if key not in known}
        places = np.array(sorted(fresh.values()), dtype=np.int64)
        if len(places):
            inputs, values = _taken(drawn.inputs, places // drawn.versions), _taken(drawn.values, places)
            part = Drawn(drawn.job, inputs, values, 1, places=places)
            news.append((part, np.empty((len(places), calls.outputs))))
            known.update(zip((own[place] for place in places), news[-1][1], strict=True))  # filled in by what follows
    _evaluate_packed(problem, calls, news, slate)
    for (_, out), own in zip(jobs, keys, strict=True):
        out[:] = [known[key] for key in own]


def _taken(batch: Batch, places: Ints) -> Batch:
    return batch[places] if isinstance(batch, np.ndarray) else [batch[place] for place in places]


def _keys(drawn: Drawn) -> list[tuple[int, bytes]]:
    """What makes a row the same as another: its hypothesis, and the value of the subset (or the whole item)."""
    rows = np.repeat(drawn.job.rows, drawn.versions).tolist()
    if not isinstance(drawn.values, np.ndarray):
        return [(row, digest(item)) for row, item in zip(rows, drawn.values, strict=True)]
    values = np.ascontiguousarray(drawn.values)
    return [(row, value.tobytes()) for row, value in zip(rows, values, strict=True)]


def digest(item: Any) -> bytes:
    """A few bytes that are equal for equal texts, images, and mappings of them.

    >>> digest({"a": "x", "b": np.ones(2)}) == digest({"b": np.ones(2), "a": "x"}) != digest({"a": "x"})
    True
    """
    if isinstance(item, Mapping):
        content = b"".join(digest(part) for pair in sorted(item.items()) for part in pair)
    elif isinstance(item, str):
        content = item.encode("utf-8", "surrogatepass")
    else:
        array = np.asarray(item)
        content = f"{array.dtype} {array.shape}".encode() + array.tobytes()
    return blake2b(content, digest_size=16).digest()


Piece = tuple[Drawn, int, int]  # rows start..stop of what was drawn


def _evaluate_packed(problem: Problem, calls: Calls, jobs: list[tuple[Drawn, Floats]], slate: Slate) -> None:
    """Jobs of any kind and size, as many rows to a call as it may have."""
    if not isinstance(problem.inputs, np.ndarray):
        _evaluate_items(problem, calls, jobs)
        return
    outs = {id(drawn): out for drawn, out in jobs}
    for pieces in _packs([drawn for drawn, _ in jobs], calls.batch_rows):
        rows = sum(stop - start for _, start, stop in pieces)
        batch = _assemble(pieces, slate.rows(rows, problem.inputs))
        outputs = call(calls, batch, problem, pieces)
        done = 0
        for drawn, start, stop in pieces:
            outs[id(drawn)][start:stop] = outputs[done : done + stop - start]
            done += stop - start
        del batch, outputs  # so that the slate sees who else holds them


def _packs(group: list[Drawn], batch_rows: int) -> Iterator[list[Piece]]:
    pieces: list[Piece] = []
    room = batch_rows
    for drawn in group:
        if drawn.rows > room and pieces:
            yield pieces
            pieces, room = [], batch_rows
        if drawn.rows > batch_rows:
            yield from ([(drawn, start, stop)] for start, stop in _windows(drawn.rows, batch_rows))
        else:
            pieces.append((drawn, 0, drawn.rows))
            room -= drawn.rows
    if pieces:
        yield pieces


def _assemble(pieces: list[Piece], batch: Array) -> Array:
    done = 0
    for drawn, start, stop in pieces:
        part = batch[done : done + stop - start]
        np.take(drawn.inputs, np.arange(start, stop) // drawn.versions, axis=0, out=part, mode="clip")
        part[:, drawn.columns] = drawn.values[start:stop]
        done += stop - start
    return batch


def _evaluate_items(problem: Problem, calls: Calls, jobs: list[tuple[Drawn, Floats]]) -> None:
    """Images and texts: equal texts are one row of a call, so fills that repeat and the observed text cost no more.

    They are so within a call and not over calls, for the observed text is to be evaluated beside its draws.
    """
    for pack in _item_packs(jobs, calls.batch_rows):
        pieces, places = _distinct([drawn for drawn, _ in pack])
        parts = [pieces[start:stop] for start, stop in _windows(len(pieces), calls.batch_rows)]
        batches = ((part, [drawn.values[row] for drawn, row, _ in part]) for part in parts)
        outputs = np.concatenate([call(calls, batch, problem, part) for part, batch in batches])
        for (_, out), own in zip(pack, places, strict=True):
            out[:] = outputs[own]
        calls.spared(sum(map(len, places)) - len(pieces))


def _item_packs(jobs: list[tuple[Drawn, Floats]], batch_rows: int) -> Iterator[list[tuple[Drawn, Floats]]]:
    """As many jobs together as have at most `batch_rows` different items; one that has more is alone."""
    pack: list[tuple[Drawn, Floats]] = []
    held: set[Hashable] = set()
    for drawn, out in jobs:
        own = set(_item_keys(drawn))
        if pack and len(held) + len(own - held) > batch_rows:
            yield pack
            pack, held = [], set()
        pack.append((drawn, out))
        held |= own
    if pack:
        yield pack


def _distinct(pack: list[Drawn]) -> tuple[list[Piece], list[list[int]]]:
    """Where each different item stands first, and which of those every row of every job is equal to."""
    firsts: dict[Hashable, int] = {}
    pieces: list[Piece] = []
    places = []
    for drawn in pack:
        own = []
        for row, key in enumerate(_item_keys(drawn)):
            own.append(firsts.setdefault(key, len(pieces)))
            if own[-1] == len(pieces):
                pieces.append((drawn, row, row + 1))
        places.append(own)
    return pieces, places


def _item_keys(drawn: Drawn) -> list[Hashable]:
    """What tells items apart: a text by what it says; anything else is taken to differ."""
    return [item if isinstance(item, str) else (id(drawn), row) for row, item in enumerate(drawn.values)]


def call(calls: Calls, batch: Batch, problem: Problem, pieces: list[Piece]) -> Floats:
    """The model's outputs (rows, outputs), after checking that they are one finite number per row and output."""
    rows = len(batch)
    if calls.dress is not None:
        batch = calls.dress(batch, _sources(pieces))
    outputs = ask(calls.model, batch, rows, partial(_describe, problem, pieces)).reshape(rows, -1)
    if outputs.shape[1] != calls.outputs:
        raise ModelError(f"the model returned {outputs.shape[1]} outputs a row, but {calls.outputs} for other rows")
    calls.tick(rows)
    return outputs


def _sources(pieces: list[Piece]) -> Ints:
    """The input that each row of a batch comes from."""
    return np.concatenate([_places(drawn, start, stop)[0] for drawn, start, stop in pieces])


def _places(drawn: Drawn, start: int, stop: int) -> tuple[Ints, Ints]:
    """The input and the version that each of these rows is."""
    place = np.arange(start, stop) if drawn.places is None else drawn.places[start:stop]
    position, version = np.divmod(place, drawn.job.versions)
    return drawn.job.block.start + drawn.job.members[position], version


def ask(model: Model, batch: Batch, rows: int, describe: Callable[[int], str]) -> Array:
    """What the model returns for a batch, (rows,) or (rows, outputs), checked; `describe` names a row in an error."""
    try:
        outputs = np.asarray(model(batch))
    except InputError:
        raise  # it says already what is the matter, and asking again row by row would not help
    except Exception as error:
        row = _first_bad_row(model, batch, rows)
        if row is not None:
            raise ModelError(f"the model raised {type(error).__name__} on {describe(row)}: {error}") from error
        raise ModelError(
            f"the model raised {type(error).__name__} on a batch of {rows} rows, though not on parts of it: {error}; a "
            "smaller batch_rows may help"
        ) from error
    if outputs.ndim not in (1, 2) or len(outputs) != rows or outputs.size == 0:
        expected = f"({rows},) or ({rows}, outputs)"
        raise ModelError(f"the model returned shape {outputs.shape} for {rows} rows; expected {expected}")
    if outputs.dtype.kind not in "fiub":
        first = outputs.flat[:1].tolist()[0]
        raise ModelError(f"the model returned values such as {first!r} ({outputs.dtype}); expected an array of numbers")
    flat = outputs.ravel()
    if not isfinite(flat.dot(flat)) and not np.isfinite(flat).all():  # the squares are the quick look
        bad = ~np.isfinite(outputs)
        row = int(np.argwhere(bad)[0, 0])
        raise ModelError(f"the model returned {outputs[bad][0]} on {describe(row)}; expected a finite number")
    return outputs


def _first_bad_row(model: Model, batch: Batch, rows: int) -> int | None:
    """The first row that makes the model fail, by halves; None where it fails on neither half alone."""

    def fails(start: int, stop: int) -> bool:
        try:
            model(batch.iloc[start:stop] if hasattr(batch, "iloc") else batch[start:stop])
        except Exception:  # any error of the user's model
            return True
        return False

    start, stop = 0, rows
    while stop - start > 1:
        middle = (start + stop) // 2
        if fails(start, middle):
            stop = middle
        elif fails(middle, stop):
            start = middle
        else:
            return None
    return start


def _describe(problem: Problem, pieces: list[Piece], row: int) -> str:
    for drawn, start, stop in pieces:
        if row < stop - start:
            (source,), (version,) = _places(drawn, start + row, start + row + 1)
            name = problem.input_names[int(source)]
            if version == 0:
                return f"input {name!r}"
            return f"counterfactual {version} of input {name!r}, subset {drawn.job.block.subset.name!r}"
        row -= stop - start
    raise AssertionError("row outside the batch")
