"""What the first draws of every hypothesis tell beside its test: an effect, and how far the input is from its draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Problem
from butfor.core.evaluate.batches import Seen
from butfor.core.evaluate.outputs import Rounding, Target, linked
from butfor.core.result.student import student_quantile
from butfor.core.types import Bools, Floats, Ints

MOST_LOCAL = 2**13  # tolerances that travel with every unit of work; of larger runs only the largest of them does


@dataclass(frozen=True, eq=False)
class Estimates:
    """Of each hypothesis (H,), from a number of draws that was fixed beforehand; NaN where there were none."""

    effect: Floats  # of the class that is predicted for the input, or of the target
    low: Floats
    high: Floats
    gain: Floats  # the statistic of the input minus the mean of its draws': mean 0 under the null
    spread: Floats  # variance of the draws' statistic


def mean_known(values: Floats) -> Floats:
    """The mean over rows (n, S) of what is known of each; 0 where nothing is.

    >>> mean_known(np.array([[1.0, np.nan], [3.0, np.nan]])).tolist()
    [2.0, 0.0]
    """
    known = np.isfinite(values)
    return np.asarray(np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


class FirstDraws:
    """Hears of every job of a run; of each hypothesis it keeps what the first round shows."""

    def __init__(self, size: int, target: Target, link: str | None, rounding: Rounding, averaged: Target) -> None:
        large = rounding.local is not None and rounding.local.size > MOST_LOCAL
        self.look = LookAtFirst(target, link, replace(rounding, local=None) if large else rounding, averaged)
        self._found = np.full((5, size), np.nan)

    def note(self, seen: Seen, found: Floats | None) -> None:
        """What a job shows."""
        if found is not None:
            self._found[:, seen.job.rows] = found

    def estimates(self) -> Estimates:
        """What was found."""
        return Estimates(*self._found)


@dataclass(frozen=True)
class LookAtFirst:
    """Looks at the first round of each hypothesis, which is never stopped early."""

    _target: Target
    _link: str | None
    _rounding: Rounding
    _averaged: Target  # what gains are of

    def __call__(self, problem: Problem, batch: CounterfactualBatch, outputs: Floats) -> Floats | None:  # noqa: ARG002
        """Effect, its ends, gain and spread (5, n) of some inputs and their draws; None for later rounds."""
        job, mass = batch.job, batch.mass
        later = job.round != 0 or (job.part is not None and job.part[0] > 0)
        if (mass is None and later) or outputs.shape[1] < 2:
            return None
        values = linked(outputs, self._link)
        weight = _weight(mass, outputs)
        inputs = job.inputs
        same = self._rounding.same(outputs, inputs)
        of_class = _gaps(self._of_class(self._target, values, outputs, inputs), same)
        effect, low, high, spread = _effect(of_class, None if mass is None else weight)
        if self._averaged.kind != "predicted" and self._averaged is self._target:
            return np.array([effect, low, high, effect, spread])
        if self._averaged.kind == "predicted":
            own = _gaps(self._own(values, outputs, weight), same)
        else:
            own = _gaps(self._of_class(self._averaged, values, outputs, inputs), same)
        gain = (own * weight).sum(axis=1)
        spread = (weight * (own - gain[:, None]) ** 2).sum(axis=1)
        return np.array([effect, low, high, gain, spread])

    @staticmethod
    def _classes(target: Target, outputs: Floats, inputs: Ints) -> Ints:
        """The class (n,) that effects are of: a reader wants the one that was predicted."""
        if target.kind == "predicted":
            return np.asarray(outputs[:, 0].argmax(axis=1))
        if target.classes is None:
            return np.zeros(len(outputs), np.int64)
        if target.kind == "fixed":
            return np.broadcast_to(target.classes, len(outputs))
        return target.classes[inputs]

    def _of_class(self, target: Target, values: Floats, outputs: Floats, inputs: Ints) -> Floats:
        """The values (n, versions) of that class."""
        if values.shape[2] == 1:
            return values[:, :, 0]
        return np.take_along_axis(values, self._classes(target, outputs, inputs)[:, None, None], axis=2)[:, :, 0]

    def _own(self, values: Floats, outputs: Floats, weight: Floats) -> Floats:
        """A number of each version *by itself* (n, versions), so that the observed one is one of them (METHODS 0).

        It is the output of the version's own class, less the mean output of that class over the input and its draws.
        """
        draws = values.shape[1] - 1
        middle = (values[:, 0] + draws * (values[:, 1:] * weight[:, :, None]).sum(axis=1)) / (draws + 1)
        best = outputs.argmax(axis=2)
        own = np.take_along_axis(values, best[:, :, None], axis=2)[:, :, 0]
        return np.asarray(own - np.take_along_axis(middle, best, axis=1))


def _weight(mass: Floats | None, outputs: Floats) -> Floats:
    """Of each draw (n, versions - 1): its probability where it was listed, else one (1, 1) for all."""
    if mass is None:
        return np.full((1, 1), 1 / (outputs.shape[1] - 1))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def _gaps(values: Floats, same: Bools) -> Floats:
    """The observed value minus that of each draw (n, draws), of values (n, versions); 0 where they are the `same`.

    Gaps are averaged, not values: the mean of equal values is not that value to the last bit, and over many inputs
    such errors add up to an effect of 1e-18 that is established.
    """
    return np.asarray(np.where(same[:, 1:], 0.0, values[:, :1] - values[:, 1:]))


def _effect(gaps: Floats, mass: Floats | None) -> tuple[Floats, Floats, Floats, Floats]:
    """The effect, its interval and the variance of the gaps (n,); where all are listed nothing is left to chance."""
    if mass is not None:
        effect = (gaps * mass).sum(axis=1)
        return effect, effect, effect, (mass * (gaps - effect[:, None]) ** 2).sum(axis=1)
    count = gaps.shape[1]
    effect = gaps.mean(axis=1)
    apart = gaps - effect[:, None]
    squares = np.einsum("ij,ij->i", apart, apart)
    if count < 2:  # one draw has no spread
        return effect, np.full(len(effect), np.nan), np.full(len(effect), np.nan), squares
    half = student_quantile(count - 1) * np.sqrt(squares / (count - 1)) / np.sqrt(count)  # Student's t
    return effect, effect - half, effect + half, squares / count
