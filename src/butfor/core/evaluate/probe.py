"""A first look at the model: its outputs on the inputs, and how much its arithmetic moves a row that is asked twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from butfor.core.draw.items import Items
from butfor.core.evaluate.ask import ask
from butfor.core.evaluate.outputs import Rounding
from butfor.core.types import Batch, Floats, Ints, Model, ModelError


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
    starts = range(0, len(items), batch_rows)
    spans = [np.arange(start, min(start + batch_rows, len(items))) for start in starts]
    parts = [ask(model, give(span), len(span), partial(_shifted, describe, int(span[0]))) for span in spans]
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1:
        raise ModelError(f"the model returned rows of different shapes for different batches: {sorted(widths)}")
    raw = np.concatenate(parts)
    outputs = raw.astype(np.float64).reshape(len(raw), -1)
    noise, random, rows = _noise(model, give, outputs, batch_rows, describe)
    double = float(np.finfo(np.float64).eps)
    coarse = noise > 1024 * double * float(np.abs(outputs[:AGAIN]).max())  # float32 inside, whatever it hands back
    inside = raw.dtype if raw.dtype in (np.float16, np.float32) else np.float32 if coarse else np.float64
    epsilon = float(np.finfo(inside).eps) if not random else double
    rounding = Rounding(64 * epsilon, 0.0 if random else _power_of_two(16 * noise))
    company = not random and noise > COMPANY_SHARE * float(np.abs(outputs).max())
    odd = RANDOM if random else BESIDE.format(noise=noise, near=rounding.absolute) if company else None
    return Probe(outputs, rounding, len(items) + rows, odd)


COMPANY_SHARE = 0.05  # of the outputs: more than rounding makes of a row in other company
RANDOM = "The model gives the same row different answers (is dropout on?): expect little power."
BESIDE = (
    "The model's answer to a row depends on the rows beside it (by {noise:.2g}: is something fitted, scaled or ranked "
    "inside it?), so outputs less than {near:.2g} apart count as equal and little can be found; let it answer each row "
    "by itself."
)


def _noise(
    model: Model, give: Callable[[Ints], Batch], outputs: Floats, batch_rows: int, describe: Callable[[int], str]
) -> tuple[float, bool, int]:
    """How far answers to the same rows lie apart, whether the very same call gives two answers, and the rows asked."""
    few = min(AGAIN, len(outputs))
    alone = [ask(model, give(np.array([i])), 1, describe).reshape(-1) for i in range(few)]
    twice = ask(model, give(np.array([0])), 1, describe).reshape(-1)
    crowd = np.arange(min(COMPANY, batch_rows)) % few
    together = ask(model, give(crowd), len(crowd), lambda row: describe(int(crowd[row]))).reshape(len(crowd), -1)
    noise = max(float(np.abs(row - outputs[i]).max()) for i, row in enumerate(alone))
    noise = max(noise, float(np.abs(together - outputs[crowd]).max()))
    return noise, bool((twice != alone[0]).any()), few + 1 + len(crowd)


def _shifted(describe: Callable[[int], str], start: int, row: int) -> str:
    return describe(start + row)


def _power_of_two(value: float) -> float:
    """The next power of two: a threshold that does not wander when inputs are added."""
    return float(2.0 ** np.ceil(np.log2(value))) if value > 0 else 0.0
