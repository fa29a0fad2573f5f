"""A first look at the model: its outputs on the inputs, and how much its arithmetic moves a row that is asked twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from butfor.core.draw.items import Items
from butfor.core.evaluate.ask import ask
from butfor.core.evaluate.outputs import Rounding
from butfor.core.types import Array, Batch, Floats, Ints, Model, ModelError


@dataclass(frozen=True)
class Probe:
    """What a first look at the model shows: outputs on the inputs (n, outputs), its rounding, the rows that took, and
    what is odd about it, if anything."""

    outputs: Floats
    rounding: Rounding
    rows: int
    odd: str | None


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
    odd = RANDOM if random else BESIDE.format(noise=noise, near=rounding.absolute) if company else None
    return Probe(outputs, rounding, len(items) + rows, odd)


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
RANDOM = "The model gives the same row different answers (is dropout on?): expect little power."
BESIDE = (
    "The model's answer to a row depends on the rows beside it (by {noise:.2g}: is something fitted, scaled or ranked "
    "inside it?), so outputs less than {near:.2g} apart count as equal and little can be found; let it answer each row "
    "by itself."
)


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
