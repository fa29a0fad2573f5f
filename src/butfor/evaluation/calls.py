"""One call of the model, checks of what comes back, and a first look at the model."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, pairwise
from math import isfinite
from typing import Literal, TypeVar

import numpy as np

from butfor.evaluation.items import Items
from butfor.inference.statistics import Rounding
from butfor.types import Array, Batch, Floats, InputError, Ints, Model, ModelError

TRIES, PAUSE = 3, 0.05  # of a call that fails, and seconds before it is made again, which double
LASTING = 5  # rows that fail again and again by one kind of error: from then on it is not waited for
WAYS = 32  # parts, in place of halves, where a call that fails costs much: it hangs, or ends a process
Returned = TypeVar("Returned")


class WorkerLost(ModelError):
    """The process that was asked ended."""


def ask(model: Model, batch: Batch, rows: int, describe: Callable[[int], str], *, find_bad: bool = True) -> Array:
    """Return the outputs of a batch, (rows,) or (rows, outputs), checked; `describe` names a row in an error."""
    try:
        outputs = np.asarray(model(batch))
    except (Exception, SystemExit) as error:  # a model that calls sys.exit must not end the run in silence
        if isinstance(error, InputError) and not (isinstance(error, WorkerLost) and find_bad):
            raise  # it says already what is the matter, and asking again row by row would not help
        if not find_bad and isinstance(error, SystemExit):
            raise ModelError(f"the model raised SystemExit: {error}") from error
        if not find_bad:
            raise
        lost = isinstance(error, WorkerLost)
        row = None if isinstance(error, TimeoutError) else _first_bad_row(model, batch, rows, WAYS if lost else 2)
        if row is not None and lost:
            raise WorkerLost(f"{error} on {describe(row)}") from error
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
        rather = ": give a classifier itself, or its predict_proba" if isinstance(first, str) else ""
        raise ModelError(
            f"the model returned values such as {first!r} ({outputs.dtype}); expected an array of numbers{rather}"
        )
    flat = outputs.ravel()
    if not isfinite(flat.dot(flat)) and not np.isfinite(flat).all():  # the squares are the quick look
        bad = ~np.isfinite(outputs)
        row = int(np.argwhere(bad)[0, 0])
        raise ModelError(f"the model returned {outputs[bad][0]} on {describe(row)}; expected a finite number")
    return outputs


def _slice(batch: Batch, start: int, stop: int) -> Batch:
    if start == 0 and stop == len(batch):
        return batch
    return batch.iloc[start:stop] if hasattr(batch, "iloc") else batch[start:stop]


def _first_bad_row(model: Model, batch: Batch, rows: int, ways: int = 2) -> int | None:
    """Return the first row that makes the model fail, by parts; None where it fails on none of the parts alone."""

    def fails(start: int, stop: int) -> bool:
        try:
            model(_slice(batch, start, stop))
        except (Exception, SystemExit):  # any error of the user's model
            return True
        return False

    start, stop = 0, rows
    while stop - start > 1:
        part = next((part for part in _parts(start, stop, ways) if fails(*part)), None)
        if part is None:
            return None
        start, stop = part
    return start


def _parts(start: int, stop: int, ways: int) -> list[tuple[int, int]]:
    """Return so many parts of a span of rows, or its single rows.

    >>> _parts(10, 15, 2)
    [(10, 12), (12, 15)]
    """
    ways = min(ways, stop - start)
    ends = [start + (stop - start) * k // ways for k in range(ways + 1)]
    return list(pairwise(ends))


def within(seconds: float | None, call: Callable[[], Returned]) -> Returned:
    """Return what a call returns; raise TimeoutError where that takes longer than `seconds`.

    A call that hangs goes on in a thread of its own, which ends with the process: nothing can end it from outside.
    """
    if seconds is None:
        return call()
    returned: list[Returned] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True, name="butfor-call")
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not returned:
        raise TimeoutError(f"no answer within timeout={seconds:g} seconds")
    return returned[0]


def limited(model: Model, seconds: float | None) -> Model:
    return model if seconds is None else lambda batch: within(seconds, lambda: model(batch))


def _is_final(error: Exception) -> bool:
    """Return whether the user has to mend it: no use in asking again."""
    return isinstance(error, InputError) and not isinstance(error, ModelError)


def retry(
    call: Callable[[], Returned],
    pause: Callable[[Exception, int], float],
    sleep: Callable[[float], object] = time.sleep,
) -> Returned:
    """Return what a call returns, made again where it fails.

    `pause` gets the error and the number of calls so far, and returns the seconds to wait, or raises.
    """
    for attempt in count(1):
        try:
            return call()
        except Exception as error:
            sleep(pause(error, attempt))
    raise AssertionError("unreachable")


def again(
    call: Callable[[], Returned], tries: int = TRIES, is_final: Callable[[Exception], bool] = _is_final
) -> Returned:
    """Return what a call returns, made again where it fails and the error is not final: many faults pass."""

    def pause(error: Exception, attempt: int) -> float:
        if attempt == tries or is_final(error):
            raise error
        return PAUSE * 2.0 ** (attempt - 1)

    return retry(call, pause)


def tolerant(
    model: Model, batch: Batch, rows: int, width: int | None, describe: Callable[[int], str]
) -> tuple[Floats, dict[int, str]]:
    """Return outputs (rows, outputs), NaN in rows that the model fails on, and why; halves find out which they are.

    A call that hangs, or ends its process, costs seconds: there are more and smaller parts then.

    All rows and single ones are asked again where that may help, halves are not. `width` is how many outputs there
    must be; None: as many as the model returns, an error where it fails on every row.
    """
    why: dict[int, str] = {}
    known: dict[int, Floats] = {}
    lasting: Counter[type[Exception]] = Counter()

    def once(start: int, stop: int) -> Floats:
        """Call once, checked but for numbers that are not finite."""
        raw: list[Array] = []

        def finite(given: Batch) -> Array:
            raw.append(np.asarray(model(given)))
            numbers = raw[0].dtype.kind == "f"
            return np.nan_to_num(raw[0], nan=0.0, posinf=0.0, neginf=0.0) if numbers else raw[0]

        checked = ask(finite, _slice(batch, start, stop), stop - start, lambda row: f"row {row}", find_bad=False)
        outputs = checked.reshape(stop - start, -1)
        if width is not None and outputs.shape[1] != width:
            raise ModelError(f"the model returned {outputs.shape[1]} outputs a row, but {width} for other rows")
        return raw[0].astype(np.float64).reshape(stop - start, -1)

    def ends(error: Exception) -> bool:
        return _is_final(error) or isinstance(error, WorkerLost)

    def lasts(error: Exception) -> bool:
        return ends(error) or isinstance(error, TimeoutError) or lasting[type(error)] >= LASTING

    def part(start: int, stop: int) -> None:
        complete, single = stop - start == rows, stop - start == 1
        try:
            tries = TRIES if complete or single else 1
            outputs = again(partial(once, start, stop), tries, ends if complete else lasts)
        except Exception as error:
            if _is_final(error):
                raise
            if single:
                lasting[type(error)] += 1
                why[start] = f"the model failed on {describe(start)}: {error}"
            else:
                ways = WAYS if isinstance(error, TimeoutError | WorkerLost) else 2
                for piece in _parts(start, stop, ways):
                    part(*piece)
            return
        for row in np.flatnonzero(~np.isfinite(outputs).all(axis=1)).tolist():
            why[start + row] = f"the model returned {outputs[row].tolist()} on {describe(start + row)}"
        known[start] = outputs

    part(0, rows)
    if known:
        width = next(iter(known.values())).shape[1]
    if width is None:
        raise ModelError(f"{why[0]}; it fails on every row")
    every = np.full((rows, width), np.nan)
    for start, outputs in known.items():
        every[start : start + len(outputs)] = outputs
    every[list(why)] = np.nan
    return every, why


def answered(
    items: Items, model: Model, batch_rows: int, describe: Callable[[int], str]
) -> tuple[Floats, dict[int, str]]:
    """Return the outputs of inputs, or of rows of a reference, and on which of them the model fails, and why."""
    bad, parts = dict[int, str](), list[Floats]()
    for start in range(0, len(items), batch_rows):
        span = np.arange(start, min(start + batch_rows, len(items)))
        try:
            name = partial(lambda first, row: describe(first + row), start)
            outputs, why = tolerant(model, items.given(span), len(span), None, name)
        except Exception as error:
            if len(span) == len(items):
                raise
            why, outputs = {row: str(error) for row in range(len(span))}, np.full((len(span), 1), np.nan)
        parts.append(outputs)
        bad |= {start + row: reason for row, reason in why.items()}
    if len(bad) == len(items):
        raise ModelError(f"{bad[0]}; it fails on every row")
    width = max(outputs.shape[1] for outputs in parts)
    parts = [outputs if outputs.shape[1] == width else np.full((len(outputs), width), np.nan) for outputs in parts]
    return np.concatenate(parts), bad


@dataclass(frozen=True)
class Probe:
    """A first look at the model: outputs on the inputs (n, outputs), its rounding, the rows that took, and what is odd
    about it, if anything."""

    outputs: Floats
    rounding: Rounding
    rows: int
    odd: Literal["random", "depends on the batch"] | None
    noise: float = 0.0  # by how much a row changes when it is evaluated again


AGAIN, COMPANY = 6, 19  # so many rows are evaluated again, each alone and in a batch of so many
COMPANY_SHARE = 0.05  # of the outputs: more than rounding makes of a row in other company
SMALL = 2.0**10  # an output less than so many tolerances is evaluated again: is its rounding as large?


def probe(model: Model, items: Items, batch_rows: int, describe: Callable[[int], str]) -> Probe:
    """Evaluate the observed inputs, and see how much arithmetic moves a row that is evaluated twice.

    The rounding comes from the precision of the outputs and from what a few rows change when they are evaluated in
    other company: a float32 network may well hand back float64.
    """
    raw = _raw(model, items, batch_rows, describe)
    outputs = raw.astype(np.float64).reshape(len(raw), -1)
    n_rows = len(items)

    def call_again(rows: Ints, deviation: Floats) -> Floats:
        """Return the outputs of another call on rows; how far they lie from the first goes into `deviation`."""
        nonlocal n_rows
        n_rows += len(rows)
        answers = ask(model, items.given(rows), len(rows), lambda row: describe(int(rows[row]))).reshape(len(rows), -1)
        if answers.shape[1] != outputs.shape[1]:
            raise ModelError(f"the model gives {answers.shape[1]} outputs a row, but {outputs.shape[1]} for other rows")
        np.maximum.at(deviation, rows, np.abs(answers - outputs[rows]))
        return answers

    few = min(AGAIN, len(outputs))
    deviation = np.zeros((few, outputs.shape[1]))
    singles = [call_again(np.array([i]), deviation) for i in range(few)]
    random = bool((call_again(np.array([0]), deviation) != singles[0]).any())  # the very same call
    call_again(np.arange(min(COMPANY, batch_rows)) % few, deviation)
    noise = float(deviation.max())
    double = float(np.finfo(np.float64).eps)
    coarse = noise > 1024 * double * float(np.abs(outputs[:AGAIN]).max())  # float32 inside, whatever it hands back
    inside = raw.dtype if raw.dtype in (np.float16, np.float32) else np.float32 if coarse else np.float64
    epsilon = float(np.finfo(inside).eps) if not random else double
    rounding = Rounding(64 * epsilon, 0.0 if random else _power_of_two(16 * noise))
    if noise > 0 and not random:
        rounding = replace(rounding, local=_local(call_again, outputs, deviation, batch_rows))
    company = not random and noise > COMPANY_SHARE * float(np.abs(outputs).max())
    odd: Literal["random", "depends on the batch"] | None = "depends on the batch" if company else None
    return Probe(outputs, rounding, n_rows, "random" if random else odd, noise)


def outputs_of(model: Model, items: Items, batch_rows: int, describe: Callable[[int], str]) -> Floats:
    raw = _raw(model, items, batch_rows, describe)
    return raw.astype(np.float64).reshape(len(raw), -1)


def _raw(model: Model, items: Items, batch_rows: int, describe: Callable[[int], str]) -> Array:
    """Return the outputs on all inputs as the model hands them out."""
    parts = []
    for start in range(0, len(items), batch_rows):
        rows = np.arange(start, min(start + batch_rows, len(items)))
        parts.append(ask(model, items.given(rows), len(rows), lambda row, start=start: describe(start + row)))  # type: ignore[misc]
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1:
        raise ModelError(f"the model returned rows of different shapes for different batches: {sorted(widths)}")
    return np.concatenate(parts)


def _local(call_again: Callable[[Ints, Floats], Floats], outputs: Floats, deviation: Floats, batch_rows: int) -> Floats:
    """Return the tolerance of each output near each input (n, outputs).

    The rounding of an output is that of the rows that were evaluated again. Inputs with an output that is small beside
    it are evaluated again themselves, in two kinds of company: rows of scale 1 beside rows of scale 1e6, or sums that
    happen to be near zero? What shows no rounding there is still given that of the least of them.
    """
    tolerance = np.array([_power_of_two(16 * float(one)) for one in deviation.max(axis=0)])
    local = np.tile(tolerance, (len(outputs), 1))
    lesser = np.abs(outputs) < SMALL * tolerance
    small = np.flatnonzero(lesser.any(axis=1))[::-1]
    every, most = np.zeros(outputs.shape), min(COMPANY, batch_rows)
    every[: len(deviation)] = deviation
    for size in {most, batch_rows}:
        for a in range(0, len(small), size):
            call_again(np.resize(small[a : a + size], max(most, len(small[a : a + size]))), every)
    for output in np.flatnonzero(lesser.any(axis=0)):
        noise = every[lesser[:, output], output]
        least = np.quantile(noise[noise > 0], 0.05) if (noise > 0).any() else 0.0
        local[lesser[:, output], output] = [_power_of_two(16 * float(one)) for one in np.maximum(noise, least)]
    return local


def _power_of_two(value: float) -> float:
    """Return the next power of two: a threshold that does not wander when inputs are added."""
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0 else 0.0
