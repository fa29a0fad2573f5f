"""Outputs -> one number per row: which output, on which scale, and which values are equal but for rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.types import Bools, Floats, InputError, Ints


@dataclass(frozen=True)
class Target:
    """Which number of an output row is tested: one class for all, a class per input, or the predicted one."""

    kind: Literal["output", "fixed", "per-input", "predicted"]
    classes: Ints | None = None  # (1,) for "fixed", (inputs,) for "per-input"


def averaged_target(target: Target, outputs: Floats, link: str | None) -> Target:
    """What is averaged over inputs, of outputs (n, outputs): the target, but of two probabilities one for all inputs.

    What speaks for one of two classes speaks as much against the other, so which of them is asked about is a matter of
    sign, and a two-sided test may ask about the one that most inputs are called.

    >>> averaged_target(Target("predicted"), np.array([[0.1, 0.9], [0.2, 0.8]]), None)
    Target(kind='fixed', classes=array([1]))
    """
    known = outputs[np.isfinite(outputs).all(axis=1)]  # others were skipped
    mirrored = link in (None, "logit") and outputs.shape[1] == 2 and np.allclose(known.sum(axis=1), 1, atol=1e-5)
    if target.kind != "predicted" or not mirrored:
        return target
    return Target("fixed", np.array([np.bincount(known.argmax(axis=1), minlength=2).argmax()]))


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
    absolute: float  # the largest of all
    local: Floats | None = None  # (inputs, outputs) of each output near each input, where they differ

    def near(self, inputs: Ints, classes: Ints) -> Floats | float:
        """The absolute tolerance (n, 1) of output classes[i] near input inputs[i]."""
        if self.local is None:
            return self.absolute
        return np.asarray(self.local[inputs, np.minimum(classes, self.local.shape[1] - 1)][:, None])

    def merge_rounding_ties(self, values: Floats, near: Floats | float | None = None) -> Floats:
        """Values (n, versions) in which draws that differ from the observed by rounding alone are equal to it.

        `near` is the absolute tolerance (n, 1) where it is known for these inputs and outputs.
        """
        observed = values[:, :1]
        tolerance = np.maximum(self.relative * np.abs(observed), self.absolute if near is None else near)
        gap = values - observed
        np.abs(gap, out=gap)
        snapped = snap(values)  # after comparing: two values a bit apart may lie on either side of an edge
        np.copyto(snapped, snapped[:, :1].copy(), where=gap <= tolerance)
        return snapped

    def same(self, outputs: Floats, inputs: Ints) -> Bools:
        """Which versions (n, versions) of outputs (n, versions, outputs) differ from the observed by rounding alone."""
        observed = outputs[:, :1]
        near = self.absolute if self.local is None else self.local[inputs][:, None, :]
        gap = outputs - observed
        np.abs(gap, out=gap)
        close = gap <= np.maximum(self.relative * np.abs(observed), near)
        return np.asarray(close[:, :, 0] if close.shape[2] == 1 else close.all(axis=2))


def snap(values: Floats) -> Floats:
    """Round to 33 significant bits (Veltkamp): the same bits whatever the batch a float64 row was computed in.

    Versions, along axis 1, that differ by little of what they are (1e11 + x) stay as they are: the bits that tell them
    apart would be lost.
    """
    if values.ndim == 1 or not values.size:
        return _rounded(values, values, values)
    high, low = values.max(axis=1, keepdims=True), values.min(axis=1, keepdims=True)
    size, spread = np.maximum(high, -low), high - low
    snapped = _rounded(values, high, low)
    flat = (spread < FLAT * size) & (spread > 2.0**-46 * size)  # below that it is rounding
    if flat.any():
        np.copyto(snapped, values, where=flat)
    return snapped


FLAT = 2.0**-20  # versions that differ by less than this share of their size are not snapped


def _rounded(values: Floats, high: Floats, low: Floats) -> Floats:
    """Values rounded, which lie between the lowest of `low` and the highest of `high`."""
    if max(high.max(initial=0.0), -low.min(initial=0.0)) > 2.0**1000:
        return values.copy()  # too large to be scaled
    scaled = values * (2.0**20 + 1)
    rest = scaled - values
    np.subtract(scaled, rest, out=scaled)
    return scaled


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
