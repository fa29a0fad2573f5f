"""Outputs -> one number per row: which output, on which scale, and which values are equal but for rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from butfor.core.calls import Dress, ask
from butfor.core.types import Batch, Floats, InputError, Ints, Model, ModelError


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
        observed = values[:, :1]
        near = np.maximum(self.relative * np.abs(observed), self.absolute)
        gap = values - observed
        np.abs(gap, out=gap)
        snapped = snap(values)  # after comparing: two values a bit apart may lie on either side of an edge
        np.copyto(snapped, snapped[:, :1].copy(), where=gap <= near)
        return snapped


def snap(values: Floats) -> Floats:
    """Round to 33 significant bits (Veltkamp): the same bits whatever the batch a float64 row was computed in."""
    if max(values.max(initial=0.0), -values.min(initial=0.0)) > 2.0**1000:
        return values.copy()  # too large to be scaled
    scaled = values * (2.0**20 + 1)
    rest = scaled - values
    np.subtract(scaled, rest, out=scaled)
    return scaled


@dataclass(frozen=True)
class Probe:
    """What a first look at the model shows: outputs on the inputs (n, outputs), its rounding, the rows that took, and
    what is odd about it, if anything."""

    outputs: Floats
    rounding: Rounding
    rows: int
    odd: str | None


AGAIN, COMPANY = 6, 19  # so many rows are asked again, each alone and in a batch of so many


def probe(
    model: Model, inputs: Batch, batch_rows: int, describe: Callable[[int], str], dress: Dress | None = None
) -> Probe:
    """Ask the model for the observed inputs, and see how much its arithmetic moves a row that is asked twice.

    The rounding comes from the precision of the outputs and from what a few rows change when they are asked again in
    other company: a float32 network may well hand back float64.
    """
    give = partial(_given, inputs, dress)
    starts = range(0, len(inputs), batch_rows)
    spans = [np.arange(start, min(start + batch_rows, len(inputs))) for start in starts]
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
    return Probe(outputs, rounding, len(inputs) + rows, odd)


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


def _given(inputs: Batch, dress: Dress | None, positions: Ints) -> Batch:
    """A copy of some inputs, as the model is given them: it may write into what it gets."""
    if not isinstance(inputs, np.ndarray):
        return [inputs[i] for i in positions]
    rows = inputs[positions]
    return rows if dress is None else dress(rows, positions)


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
