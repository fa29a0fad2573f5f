"""Models and samplers that fail, hang or recover: what is asked again, and what is given up (`on_error="skip"`)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from butfor.core.evaluate.ask import ask
from butfor.core.types import Batch, Floats, InputError, Model, ModelError

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


def again(call: Callable[[], Made], tries: int = TRIES, final: Callable[[Exception], bool] = _final) -> Made:
    """What a call returns, made again where it fails and the error is not `final`: many faults pass."""
    for left in range(tries - 1, -1, -1):
        try:
            return call()
        except Exception as error:
            if left == 0 or final(error):
                raise
            time.sleep(PAUSE * 2 ** (tries - 1 - left))
    raise AssertionError("unreachable")


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
