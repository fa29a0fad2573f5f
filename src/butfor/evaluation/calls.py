"""One call of the model, and checks of what comes back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import isfinite
from typing import Literal, TypeVar

import numpy as np

from butfor.evaluation.items import Items
from butfor.inference.statistics import Rounding
from butfor.types import Array, Batch, Floats, InputError, Ints, Model, ModelError


def ask(model: Model, batch: Batch, rows: int, describe: Callable[[int], str], *, find_bad: bool = True) -> Array:
    """What the model returns for a batch, (rows,) or (rows, outputs), checked; `describe` names a row in an error."""
    try:
        outputs = np.asarray(model(batch))
    except InputError:
        raise  # it says already what is the matter, and asking again row by row would not help
    except (Exception, SystemExit) as error:  # a model that calls sys.exit must not end the run in silence
        if not find_bad and isinstance(error, SystemExit):
            raise ModelError(f"the model raised SystemExit: {error}") from error
        if not find_bad:
            raise
        row = None if isinstance(error, TimeoutError) else _first_bad_row(model, batch, rows)
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


def _first_bad_row(model: Model, batch: Batch, rows: int) -> int | None:
    """The first row that makes the model fail, by halves; None where it fails on neither half alone."""

    def fails(start: int, stop: int) -> bool:
        try:
            model(batch.iloc[start:stop] if hasattr(batch, "iloc") else batch[start:stop])
        except (Exception, SystemExit):  # any error of the user's model
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


TRIES, PAUSE = 3, 0.05  # of a call that fails, and seconds before it is made again, which double
LASTING = 5  # rows that fail however often they are asked, by one kind of error: from then on it is not waited for
Made = TypeVar("Made")


def within(seconds: float | None, call: Callable[[], Made]) -> Made:
    """What a call returns; TimeoutError where that takes longer than `seconds`.

    A call that hangs goes on in a thread of its own, which ends with the process: nothing can end it from outside.
    """
    if seconds is None:
        return call()
    done: list[Made] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True, name="butfor-call")
    thread.start()
    thread.join(seconds)
    if raised:
        raise raised[0]
    if not done:
        raise TimeoutError(f"no answer within timeout={seconds:g} seconds")
    return done[0]


def _final(error: Exception) -> bool:
    """What the user has to mend: no use in asking again."""
    return isinstance(error, InputError) and not isinstance(error, ModelError)


def retry(
    call: Callable[[], Made], pause: Callable[[Exception, int], float], sleep: Callable[[float], object] = time.sleep
) -> Made:
    """Return what a call returns, made again where it fails.

    `pause` gets the error and the number of calls so far, and returns the seconds to wait, or raises.
    """
    for attempt in count(1):
        try:
            return call()
        except Exception as error:
            sleep(pause(error, attempt))
    raise AssertionError("unreachable")


def again(call: Callable[[], Made], tries: int = TRIES, final: Callable[[Exception], bool] = _final) -> Made:
    """Return what a call returns, made again where it fails and the error is not `final`: many faults pass."""

    def pause(error: Exception, attempt: int) -> float:
        if attempt == tries or final(error):
            raise error
        return PAUSE * 2.0 ** (attempt - 1)

    return retry(call, pause)


def limited(model: Model, seconds: float | None) -> Model:
    """The model, with a limit to the time of each call."""
    return model if seconds is None else lambda batch: within(seconds, lambda: model(batch))


def tolerant(
    model: Model, batch: Batch, rows: int, width: int | None, describe: Callable[[int], str]
) -> tuple[Floats, dict[int, str]]:
    """Outputs (rows, outputs), NaN in rows that the model fails on, and why it does; halves find out which they are.

    All rows and single ones are asked again where that may help, halves are not. `width` is how many outputs there
    must be; None: as many as come, and then some must: of a model that was never heard it fails on all.
    """
    why: dict[int, str] = {}
    found: dict[int, Floats] = {}
    lasting: Counter[type[Exception]] = Counter()

    def lasts(error: Exception) -> bool:
        return _final(error) or isinstance(error, TimeoutError) or lasting[type(error)] >= LASTING

    def part(start: int, stop: int) -> None:
        whole, single = stop - start == rows, stop - start == 1
        tries, final = TRIES if whole or single else 1, _final if whole else lasts
        try:
            said = again(lambda: _finite(model, _some(batch, start, stop), stop - start, width), tries, final)
        except Exception as error:
            if _final(error):
                raise
            if single:
                lasting[type(error)] += 1
                why[start] = f"the model failed on {describe(start)}: {error}"
                return
            middle = (start + stop) // 2
            part(start, middle)
            part(middle, stop)
            return
        for row in np.flatnonzero(~np.isfinite(said).all(axis=1)).tolist():
            why[start + row] = f"the model returned {said[row].tolist()} on {describe(start + row)}"
        found[start] = said

    part(0, rows)
    if found:
        width = next(iter(found.values())).shape[1]
    if width is None:
        raise ModelError(f"{why[0]}; it fails on every row")
    outputs = np.full((rows, width), np.nan)
    for start, said in found.items():
        outputs[start : start + len(said)] = said
    outputs[list(why)] = np.nan
    return outputs, why


def _some(batch: Batch, start: int, stop: int) -> Batch:
    if start == 0 and stop == len(batch):
        return batch
    return batch.iloc[start:stop] if hasattr(batch, "iloc") else batch[start:stop]


def _finite(model: Model, batch: Batch, rows: int, width: int | None) -> Floats:
    """One call, checked but for numbers that are not finite."""
    raw: list[Floats] = []

    def noted(given: Batch) -> Floats:
        raw.append(np.asarray(model(given)))
        numbers = raw[0].dtype.kind == "f"
        return np.nan_to_num(raw[0], nan=0.0, posinf=0.0, neginf=0.0) if numbers else raw[0]

    checked = ask(noted, batch, rows, lambda row: f"row {row}", find_bad=False).reshape(rows, -1)
    if width is not None and checked.shape[1] != width:
        raise ModelError(f"the model returned {checked.shape[1]} outputs a row, but {width} for other rows")
    return raw[0].astype(np.float64).reshape(rows, -1)


@dataclass(frozen=True)
class Probe:
    """What a first look at the model shows: outputs on the inputs (n, outputs), its rounding, the rows that took, and
    what is odd about it, if anything."""

    outputs: Floats
    rounding: Rounding
    rows: int
    odd: Literal["random", "depends on the batch"] | None
    noise: float = 0.0  # by how much a row changes when it is asked again


AGAIN, COMPANY = 6, 19  # so many rows are asked again, each alone and in a batch of so many


def probe(model: Model, items: Items, batch_rows: int, describe: Callable[[int], str]) -> Probe:
    """Ask the model for the observed inputs, and see how much its arithmetic moves a row that is asked twice.

    The rounding comes from the precision of the outputs and from what a few rows change when they are asked again in
    other company: a float32 network may well hand back float64.
    """
    give = items.given
    raw = _raw(model, items, batch_rows, describe)
    outputs = raw.astype(np.float64).reshape(len(raw), -1)
    apart, random, rows = _noise(model, give, outputs, batch_rows, describe)
    noise = float(apart.max())
    double = float(np.finfo(np.float64).eps)
    coarse = noise > 1024 * double * float(np.abs(outputs[:AGAIN]).max())  # float32 inside, whatever it hands back
    inside = raw.dtype if raw.dtype in (np.float16, np.float32) else np.float32 if coarse else np.float64
    epsilon = float(np.finfo(inside).eps) if not random else double
    rounding = Rounding(64 * epsilon, 0.0 if random else _power_of_two(16 * noise))
    if noise > 0 and not random:
        local, more = _local(model, give, outputs, apart, batch_rows, describe)
        rounding, rows = replace(rounding, local=local), rows + more
    company = not random and noise > COMPANY_SHARE * float(np.abs(outputs).max())
    return Probe(
        outputs,
        rounding,
        len(items) + rows,
        "random" if random else "depends on the batch" if company else None,
        noise,
    )


def outputs_of(model: Model, items: Items, batch_rows: int, describe: Callable[[int], str]) -> Floats:
    """The model's outputs on some inputs, (n, outputs)."""
    raw = _raw(model, items, batch_rows, describe)
    return raw.astype(np.float64).reshape(len(raw), -1)


def _raw(model: Model, items: Items, batch_rows: int, describe: Callable[[int], str]) -> Array:
    """The same as the model hands them out."""
    starts = range(0, len(items), batch_rows)
    spans = [np.arange(start, min(start + batch_rows, len(items))) for start in starts]
    parts = [ask(model, items.given(span), len(span), partial(_shifted, describe, int(span[0]))) for span in spans]
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1:
        raise ModelError(f"the model returned rows of different shapes for different batches: {sorted(widths)}")
    return np.concatenate(parts)


COMPANY_SHARE = 0.05  # of the outputs: more than rounding makes of a row in other company


def _noise(
    model: Model, give: Callable[[Ints], Batch], outputs: Floats, batch_rows: int, describe: Callable[[int], str]
) -> tuple[Floats, bool, int]:
    """How far answers to the same row lie apart, (rows asked again, outputs), whether the very same call gives two
    answers, and how many rows that took."""
    few = min(AGAIN, len(outputs))
    apart = np.zeros((few, outputs.shape[1]))
    singles = [_again(model, give, outputs, np.array([i]), apart, describe) for i in range(few)]
    twice = _again(model, give, outputs, np.array([0]), apart, describe)
    crowd = np.arange(min(COMPANY, batch_rows)) % few
    _again(model, give, outputs, crowd, apart, describe)
    return apart, bool((twice != singles[0]).any()), few + 1 + len(crowd)


def _again(
    model: Model,
    give: Callable[[Ints], Batch],
    outputs: Floats,
    rows: Ints,
    apart: Floats,
    describe: Callable[[int], str],
) -> Floats:
    """Answers to some rows in a call of their own; how far they lie from the first is noted in `apart`."""
    answers = ask(model, give(rows), len(rows), lambda row: describe(int(rows[row]))).reshape(len(rows), -1)
    if answers.shape[1] != outputs.shape[1]:
        raise ModelError(f"the model gives {answers.shape[1]} outputs a row, but {outputs.shape[1]} for other rows")
    np.maximum.at(apart, rows, np.abs(answers - outputs[rows]))
    return answers


SMALL = 2.0**10  # an output that is less than so many tolerances is asked for again: is its own rounding as large?


def _local(
    model: Model,
    give: Callable[[Ints], Batch],
    outputs: Floats,
    apart: Floats,
    batch_rows: int,
    describe: Callable[[int], str],
) -> tuple[Floats, int]:
    """The tolerance of each output near each input (n, outputs), and the rows asked to find it.

    The rounding of an output is that of the rows that were asked again. Inputs with an output that is small beside it
    are asked again themselves, in two kinds of company: rows of scale 1 beside rows of scale 1e6, or sums that happen
    to be near zero? What shows no rounding there is still given that of the least of them.
    """
    tolerance = np.array([_power_of_two(16 * float(one)) for one in apart.max(axis=0)])
    local = np.tile(tolerance, (len(outputs), 1))
    lesser = np.abs(outputs) < SMALL * tolerance
    small = np.flatnonzero(lesser.any(axis=1))[::-1]
    own, rows, most = np.zeros(outputs.shape), 0, min(COMPANY, batch_rows)
    own[: len(apart)] = apart
    for size in {most, batch_rows}:
        for a in range(0, len(small), size):
            part = np.resize(small[a : a + size], max(most, len(small[a : a + size])))
            _again(model, give, outputs, part, own, describe)
            rows += len(part)
    for output in np.flatnonzero(lesser.any(axis=0)):
        seen = own[lesser[:, output], output]
        least = np.quantile(seen[seen > 0], 0.05) if (seen > 0).any() else 0.0
        local[lesser[:, output], output] = [_power_of_two(16 * float(one)) for one in np.maximum(seen, least)]
    return local, rows


def _shifted(describe: Callable[[int], str], start: int, row: int) -> str:
    return describe(start + row)


def _power_of_two(value: float) -> float:
    """The next power of two: a threshold that does not wander when inputs are added."""
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0 else 0.0
