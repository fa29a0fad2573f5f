"""Blocks -> model -> one number per row: calls in batches, checks what comes back, picks the target, settles ties."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from butfor.core.draws import Drawn, Job, Problem, draw
from butfor.core.types import Batch, Floats, InputError, Ints, Model, ModelError

GROUP_VALUES = 2**21  # drawn values and model outputs that are held at once
Tick = Callable[[int], None]


@dataclass(frozen=True)
class Calls:
    """A model, how many rows it is given at a time, how many outputs it has, and who is told of rows done."""

    model: Model
    batch_rows: int
    outputs: int
    tick: Tick


def evaluate(problem: Problem, calls: Calls, jobs: Iterable[Job]) -> Iterator[tuple[Job, Floats]]:
    """Each job with its outputs (inputs, versions, outputs), version 0 being the observed input.

    The observed row is evaluated in the same calls as its counterfactuals: a BLAS row predicted in another batch may
    differ in its last bits (METHODS 6). Rows of several small jobs share a call; rows of a large one are split.
    """
    group: list[Drawn] = []
    held = 0
    for job in jobs:
        drawn = draw(problem, job)
        group.append(drawn)
        held += drawn.rows * max(calls.outputs, len(drawn.values[0]) if isinstance(drawn.values, np.ndarray) else 1)
        if held >= GROUP_VALUES:
            yield from _evaluate_group(problem, calls, group)
            group, held = [], 0
    yield from _evaluate_group(problem, calls, group)


def _evaluate_group(problem: Problem, calls: Calls, group: list[Drawn]) -> Iterator[tuple[Job, Floats]]:
    results = {id(drawn): np.empty((drawn.rows, calls.outputs)) for drawn in group}
    canvas = Canvas(problem.inputs.dtype) if isinstance(problem.inputs, np.ndarray) else None
    for pieces in _calls(group, calls.batch_rows):
        rows = sum(stop - start for _, start, stop in pieces)
        if canvas is not None:
            batch = canvas.paint(pieces)
        else:
            batch = [item for drawn, start, stop in pieces for item in drawn.values[start:stop]]
        outputs = call(calls.model, batch, rows, partial(_describe, problem, pieces))
        outputs = outputs.reshape(rows, -1)
        if outputs.shape[1] != calls.outputs:
            raise ModelError(f"the model returned {outputs.shape[1]} outputs a row, but {calls.outputs} for other rows")
        done = 0
        for drawn, start, stop in pieces:
            results[id(drawn)][start:stop] = outputs[done : done + stop - start]
            done += stop - start
        del batch, outputs  # so that the canvas sees who else holds the batch
        calls.tick(rows)
    if canvas is not None:
        canvas.check()
    for drawn in group:
        yield drawn.job, results[id(drawn)].reshape(len(drawn.inputs), drawn.versions, calls.outputs)


Piece = tuple[Drawn, int, int]  # rows start..stop of what was drawn


def _calls(group: list[Drawn], batch_rows: int) -> Iterator[list[Piece]]:
    """What goes into each call. Large jobs are split evenly; like windows of them follow each other."""
    large = [drawn for drawn in group if drawn.rows > batch_rows]
    cuts = [-(-drawn.rows // batch_rows) for drawn in large]
    for window in range(max(cuts, default=0)):
        for drawn, parts in zip(large, cuts, strict=True):
            if window < parts:
                yield [(drawn, drawn.rows * window // parts, drawn.rows * (window + 1) // parts)]
    pieces: list[Piece] = []
    room = batch_rows
    for drawn in (drawn for drawn in group if drawn.rows <= batch_rows):
        if drawn.rows > room:
            yield pieces
            pieces, room = [], batch_rows
        pieces.append((drawn, 0, drawn.rows))
        room -= drawn.rows
    if pieces:
        yield pieces


class Canvas:
    """A batch that is painted over, not built anew: most calls differ from the one before in a few columns only.

    A model that keeps the batch gets a new one next time; a model that writes into it is found out by `check`.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._rows = np.empty((0, 0), dtype)
        self._background: tuple[object, ...] | None = None
        self._painted: list[Piece] = []
        self._reused = False

    def paint(self, pieces: list[Piece]) -> Batch:
        background = tuple((drawn.base, start, stop) for drawn, start, stop in pieces)
        # Two references are ours (the attribute and the argument); one more means that the model kept the batch.
        kept = sys.getrefcount(self._rows) > 2
        if kept or background != self._background or any(drawn.base is None for drawn, _, _ in pieces):
            self.check()
            self._refill(pieces, kept)
            self._background, self._reused = background, False
        else:
            self._write(self._painted, observed=True)
            self._reused = True
        self._write(pieces, observed=False)
        self._painted = pieces
        return self._rows[:]

    def check(self) -> None:
        """Raise if the model has changed what lies outside the subset: every later answer would be wrong."""
        if not self._reused:
            return
        self._write(self._painted, observed=True)
        expected = [drawn.inputs[np.arange(start, stop) // drawn.versions] for drawn, start, stop in self._painted]
        if not np.array_equal(self._rows, np.concatenate(expected), equal_nan=self._rows.dtype.kind == "f"):
            raise ModelError(
                "the model writes into the batch it is given; let it work on a copy: lambda X: f(X.copy())"
            )

    def _refill(self, pieces: list[Piece], kept: bool) -> None:
        drawn, _, _ = pieces[0]
        shape = (sum(stop - start for _, start, stop in pieces), drawn.inputs.shape[1])
        if kept or self._rows.shape != shape:
            self._rows = np.empty(shape, self._rows.dtype)
        done = 0
        for drawn, start, stop in pieces:
            source = np.arange(start, stop) // drawn.versions
            np.take(drawn.inputs, source, axis=0, out=self._rows[done : done + len(source)], mode="clip")
            done += len(source)

    def _write(self, pieces: list[Piece], *, observed: bool) -> None:
        done = 0
        for drawn, start, stop in pieces:
            columns, rows = drawn.job.block.subset.index, slice(done, done + stop - start)
            if observed:
                first = np.arange(start, stop) // drawn.versions * drawn.versions  # version 0 of each row's input
                self._rows[rows, columns] = drawn.values[first]
            else:
                self._rows[rows, columns] = drawn.values[start:stop]
            done += stop - start


def call(model: Model, batch: Batch, rows: int, describe: Callable[[int], str]) -> Floats:
    """The model's outputs, (rows,) or (rows, outputs), checked: one finite number per row and output."""
    try:
        outputs = np.asarray(model(batch))
    except Exception as error:
        row = _first_bad_row(model, batch, rows)
        where = f"on {describe(row)}" if row is not None else f"on a batch of {rows} rows, though on none of them alone"
        raise ModelError(f"the model raised {type(error).__name__} {where}: {error}") from error
    if outputs.ndim not in (1, 2) or len(outputs) != rows:
        raise ModelError(
            f"the model returned shape {outputs.shape} for {rows} rows; expected ({rows},) or ({rows}, outputs)"
        )
    if outputs.dtype.kind not in "fiub":
        raise ModelError(f"the model returned {outputs.dtype} values such as {outputs.flat[0]!r}; expected numbers")
    bad = ~np.isfinite(outputs)
    if bad.any():
        row = int(np.argwhere(bad)[0, 0])
        raise ModelError(f"the model returned {outputs[bad][0]} on {describe(row)}; expected a finite number")
    return outputs


def _first_bad_row(model: Model, batch: Batch, rows: int) -> int | None:
    for row in range(rows):
        try:
            model(batch[row : row + 1])
        except Exception:  # any error of the user's model: the first row that has one is named
            return row
    return None


def _describe(problem: Problem, pieces: list[Piece], row: int) -> str:
    for drawn, start, stop in pieces:
        if row < stop - start:
            kept = drawn.job.keep
            position, version = divmod(start + row, drawn.versions)
            place = drawn.job.block.start + (position if kept is None else int(kept[position]))
            name = problem.input_names[place]
            if version == 0:
                return f"input {name!r}"
            return f"counterfactual {version} of input {name!r}, subset {drawn.job.block.subset.name!r}"
        row -= stop - start
    raise AssertionError("row outside the batch")


# --- What the outputs mean -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """Which number of an output row is tested: one class for all, a class per input, or the predicted one."""

    kind: Literal["output", "fixed", "per-input", "predicted"]
    classes: Ints | None = None  # (1,) for "fixed", (inputs,) for "per-input"


def pick(outputs: Floats, target: Target, inputs: Ints) -> tuple[Floats, Ints]:
    """One number per version, (n, versions), and the class it is of, (n,), from outputs (n, versions, outputs).

    "predicted" takes the class with the largest output over the observed input *and* its draws: a rule symmetric in
    them, so the observed one stays exchangeable (METHODS 0).
    """
    count = len(outputs)
    if target.kind == "output":
        chosen = np.zeros(count, np.int64)
    elif target.kind == "predicted":
        chosen = outputs.max(axis=1).argmax(axis=1)
    else:
        assert target.classes is not None
        chosen = np.broadcast_to(target.classes, count) if target.kind == "fixed" else target.classes[inputs]
    if outputs.shape[2] == 1:
        return outputs[:, :, 0], chosen
    return np.take_along_axis(outputs, chosen[:, None, None], axis=2)[:, :, 0], chosen


@dataclass(frozen=True)
class Rounding:
    """How far two outputs of one and the same row may lie apart: the model's arithmetic, not its answer."""

    relative: float
    absolute: float

    def settle(self, values: Floats) -> Floats:
        """Values (n, versions) in which draws that differ from the observed by rounding alone are equal to it."""
        values = _snap(values)
        observed = values[:, :1]
        near = np.maximum(np.abs(values), np.abs(observed))
        tied = np.abs(values - observed) <= np.maximum(self.relative * near, self.absolute)
        return np.where(tied, observed, values)


def _snap(values: Floats) -> Floats:
    """Round to 33 significant bits (Veltkamp): the same bits whatever the batch a float64 row was computed in."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = values * (2.0**20 + 1)
        snapped = scaled - (scaled - values)
    return np.where(np.isfinite(snapped), snapped, values)


def probe(
    model: Model, inputs: Batch, batch_rows: int, describe: Callable[[int], str]
) -> tuple[Floats, Rounding, str | None]:
    """Outputs on the observed inputs (n, outputs), the model's rounding, and what is odd about the model, if anything.

    The rounding comes from the outputs' dtype and scale and from what a few rows change when they are asked again in
    other company (a float32 network may well hand back float64).
    """
    parts = [
        call(model, _copy(inputs[a : a + batch_rows]), min(batch_rows, len(inputs) - a), partial(_shifted, describe, a))
        for a in range(0, len(inputs), batch_rows)
    ]
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1:
        raise ModelError(f"the model returned rows of different shapes for different batches: {sorted(widths)}")
    raw = np.concatenate(parts)
    outputs = raw.astype(np.float64).reshape(len(raw), -1)
    few = min(16, len(inputs), batch_rows)
    again = np.concatenate([call(model, _copy(inputs[i : i + 1]), 1, describe) for i in range(few)]).reshape(few, -1)
    noise = float(np.abs(again - outputs[:few]).max())
    scale = float(np.median(np.abs(outputs[: len(again)]).max(axis=1)))
    single = raw.dtype.itemsize < 8 and raw.dtype.kind == "f"
    epsilon = float(np.finfo(raw.dtype).eps) if single else float(np.finfo(np.float64).eps)
    odd = None
    if noise > 1e-3 * scale:
        odd, noise = "the model gives the same row different answers (is dropout on?): expect little power", 0.0
    return outputs, Rounding(64 * epsilon, _power_of_two(max(64 * epsilon * scale, 16 * noise))), odd


def _copy(inputs: Batch) -> Batch:
    return inputs.copy() if isinstance(inputs, np.ndarray) else inputs  # a model may write into what it is given


def _shifted(describe: Callable[[int], str], start: int, row: int) -> str:
    return describe(start + row)


def _power_of_two(value: float) -> float:
    """The next power of two: a threshold that does not wander when inputs are added."""
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0 else 0.0


def linked(values: Floats, link: str | None) -> Floats:
    """Values on the scale of the test; the link is strictly increasing, so it never changes who is larger."""
    if link is None:
        return values
    if link == "logit" and (values.min() < 0 or values.max() > 1):
        raise InputError(f"link='logit' needs probabilities, got outputs from {values.min():g} to {values.max():g}")
    if link == "log" and values.min() < 0:
        raise InputError(f"link='log' needs outputs that are not negative, got {values.min():g}")
    tiny = np.finfo(np.float64).tiny
    logs = np.log(np.maximum(values, tiny))
    return logs if link == "log" else logs - np.log1p(-np.minimum(values, 1 - 2.0**-53))
