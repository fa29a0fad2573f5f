"""Outputs of an input and its counterfactuals -> the statistic of a hypothesis: pick, merge ties, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce as fold

import numpy as np

from butfor.core.draw.blocks import Job, Problem, sliced
from butfor.core.draw.content import content_digest
from butfor.core.evaluate.batches import GROUP_VALUES, Evaluator, summaries
from butfor.core.evaluate.outputs import Rounding, Target, linked, pick, snap
from butfor.core.test.picking import Picked, picked_outputs
from butfor.core.test.tails import tail_statistic
from butfor.core.types import Alternative, Array, Floats, Ints


@dataclass(frozen=True)
class StatisticSpec:
    """What is asked of every hypothesis: which number, on which scale, in which direction, around which centre."""

    target: Target
    rounding: Rounding
    alternative: Alternative
    link: str | None = None
    center: int = 0  # pilot draws whose mean is the centre of the statistic; 0 where it has none
    picked: Picked | None = None  # the rule by which the inputs were picked, if their outputs had a say
    margin: float = 0.0  # an effect of at most so much is a null, too
    own_class: bool = False  # the predicted class is that of each version by itself, around the pilot draws' mean

    def at(self, inputs: Ints) -> StatisticSpec:
        """The same for some inputs (n,), counted from 0: what is known of the others need not travel with them."""
        rounding, target = self.rounding, self.target
        if rounding.local is not None:
            rounding = replace(rounding, local=rounding.local[inputs])
        if target.kind == "per-input" and target.classes is not None:
            target = replace(target, classes=target.classes[inputs])
        return replace(self, rounding=rounding, target=target)


@dataclass(frozen=True)
class ValueSet:
    """All values of some hypotheses that share a block: (n, 1 + draws), the observed one first."""

    rows: Ints  # (n,) positions in the table
    values: Floats
    statistic: Floats
    classes: Ints


Reduction = Callable[[ValueSet], tuple[Array, ...]]  # to an array or more of (n,) each


def reduced_sets(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int, reduce: Reduction
) -> Iterator[tuple[Ints, tuple[Array, ...]]]:
    """Every hypothesis once (rows (n,) at a time), reduced with all its values at hand: the observed one and `draws`
    counterfactuals. Where all of them are in one unit that is done there, so that no outputs travel or are kept.

    The pilot draws that give a two-sided statistic its centre come first in the same stream and are then set aside:
    the centre must not be made of the values it is compared with.
    """
    total = spec.center + draws
    if spec.picked is not None:
        for job, outputs in picked_outputs(problem, evaluator, total, spec.picked):
            yield job.rows, reduce(value_set(job.rows, job.inputs, outputs, spec))
        return
    most = max(1, 64 * GROUP_VALUES // ((total + 1) * evaluator.outputs))  # inputs whose outputs are all held
    parts: list[Floats] = []
    jobs = sliced(problem.blocks, total, problem.round_draws, most)

    mark = content_digest((spec, total, reduce))

    def summary_of(some: tuple[Job, ...]) -> ReduceSets:
        return ReduceSets(spec.at(np.concatenate([job.inputs for job in some])), total, reduce, mark)

    for some, (before, done, after) in summaries(problem, evaluator, jobs, summary_of):
        parts += before
        if parts and _complete(parts, total):  # it began in a unit before
            last = some[len(before) - 1]
            yield last.rows, reduce(value_set(last.rows, last.inputs, _all_values(parts), spec))
            parts = []
        first = len(before)
        for count, own in done:
            yield some[first].rows, own
            first += count
        parts += after


@dataclass(frozen=True, eq=False)
class ReduceSets:
    """The sets of values of a unit, reduced; of those that begin or end in another unit the outputs."""

    spec: StatisticSpec  # for the inputs of the unit's jobs, one after the other
    total: int
    reduce: Reduction
    mark: bytes  # of the statistic of all inputs, and how it is reduced

    def __call__(
        self, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]
    ) -> tuple[list[Floats], list[tuple[int, tuple[Array, ...]]], list[Floats]]:
        before: list[Floats] = []
        done: list[tuple[int, tuple[Array, ...]]] = []
        parts: list[Floats] = []
        place = 0
        for job, own in zip(jobs, outputs, strict=True):
            if job.round == 0 or parts:
                parts.append(own)
            else:
                before.append(own)
            if parts and _complete(parts, self.total):
                inputs = np.arange(place, place + len(own))
                done.append((len(parts), self.reduce(value_set(job.rows, inputs, _all_values(parts), self.spec))))
                parts = []
            place += len(own)
        return before, done, parts


def _complete(parts: list[Floats], total: int) -> bool:
    """Whether all rounds are there; each of them has the observed outputs as well."""
    return bool(sum(part.shape[1] for part in parts) == total + len(parts))


def _all_values(parts: list[Floats]) -> Floats:
    """The observed outputs and those of the draws of all rounds (n, 1 + draws, outputs)."""
    return parts[0] if len(parts) == 1 else np.concatenate([parts[0], *(part[:, 1:] for part in parts[1:])], axis=1)


def value_set(rows: Ints, inputs: Ints, outputs: Floats, spec: StatisticSpec) -> ValueSet:
    """Outputs (n, 1 + center + draws, outputs) of inputs (n,) -> values and statistic of their hypotheses (n,)."""
    pilot, kept = outputs[:, 1 : 1 + spec.center], outputs
    if spec.center:
        kept = np.delete(outputs, slice(1, 1 + spec.center), axis=1)
    if spec.own_class:
        middle = linked(snap(pilot), spec.link).mean(axis=1)
        statistic, values, classes = own_class_statistic(kept, spec, middle, inputs)
        return ValueSet(rows, values, statistic, classes)
    values, classes = merged(kept, spec, inputs)
    centre = None
    if spec.center:
        pilots, _ = pick(pilot, Target("per-input", classes), np.arange(len(classes)))
        centre = linked(snap(pilots), spec.link).mean(axis=1)  # snapped as the values are
    if spec.alternative == "two-sided" and centre is None:
        return ValueSet(rows, values, values, classes)  # few-shot makes its own centre
    return ValueSet(rows, values, tail_statistic(values, spec.alternative, centre), classes)


def centred_statistic(
    rows: Ints, inputs: Ints, outputs: Floats, spec: StatisticSpec, centre: Floats | None
) -> tuple[Floats, Floats, Ints]:
    """Statistic (n, versions), the observed value and its class (n,), when centres (H, outputs) are known already.

    Hypotheses `rows` (n,) are of inputs `inputs` (n,); they may be of several subsets.
    """
    if spec.own_class:
        assert centre is not None
        statistic, own, classes = own_class_statistic(outputs, spec, centre[rows], inputs)
        return statistic, own[:, 0], classes
    values, classes = merged(outputs, spec, inputs)
    middle = None if centre is None else np.take_along_axis(centre[rows], classes[:, None], axis=1)[:, 0]
    return tail_statistic(values, spec.alternative, middle), values[:, 0], classes


def merged(outputs: Floats, spec: StatisticSpec, inputs: Ints) -> tuple[Floats, Ints]:
    """Values (n, versions) on the scale of the test, equal where they are equal but for rounding, and classes (n,)."""
    values, classes = pick(outputs, spec.target, inputs)
    near = spec.rounding.near(inputs, classes)
    return linked(spec.rounding.merge_rounding_ties(values, near), spec.link), classes


def own_class_statistic(
    outputs: Floats, spec: StatisticSpec, centre: Floats, inputs: Ints
) -> tuple[Floats, Floats, Ints]:
    """Statistic and values (n, versions), and the observed input's class (n,), from centres (n, outputs).

    T(y) = y[c] - b[c] with c the class that y itself predicts (METHODS 0). The centre b is made of pilot draws, so T is
    one and the same function for the observed input and its draws, which stay exchangeable whatever the classes are.
    """
    best = _first_best(outputs, spec, inputs)
    exact = _of_class(outputs.transpose(2, 0, 1), best)
    own = spec.rounding.merge_rounding_ties(exact, spec.rounding.near(inputs, best[:, 0]))
    exact = linked(np.where(own == own[:, :1], exact[:, :1], exact), spec.link)  # not snapped: b is not, either
    middle = _of_class(centre.T[:, :, None], best)
    centred = _levelled(exact - middle, np.abs(exact) + np.abs(middle))
    zero = np.zeros(len(own)) if spec.alternative == "two-sided" else None
    return tail_statistic(centred, spec.alternative, zero), linked(own, spec.link), best[:, 0]


def _first_best(outputs: Floats, spec: StatisticSpec, inputs: Ints) -> Ints:
    """The class (n, versions) with the largest output; the first of those that are equal but for rounding."""
    local = spec.rounding.local
    near = spec.rounding.absolute if local is None else local[inputs][:, None]
    top = fold(np.maximum, outputs.transpose(2, 0, 1))[:, :, None]  # quicker than max over a short last axis
    enough = outputs >= top - np.maximum(spec.rounding.relative * np.abs(top), near)
    if outputs.shape[2] == 2:
        return np.asarray(enough[:, :, 1] > enough[:, :, 0], np.int64)  # many times quicker than argmax of two
    return np.asarray(enough.argmax(axis=2))


def _of_class(planes: Floats, classes: Ints) -> Floats:
    """The number (n, versions) of each version's own class, from one plane (n, versions or 1) for each class."""
    if len(planes) == 2:
        return np.asarray(np.where(classes == 0, planes[0], planes[1]))  # many times quicker than looking up
    every = np.broadcast_to(planes, (len(planes), *classes.shape))
    return np.asarray(np.take_along_axis(every, classes[None], axis=0)[0])


def _levelled(centred: Floats, size: Floats) -> Floats:
    """Differences (n, versions) that equal the observed one but for the rounding of numbers of this size become it.

    Outputs of two classes can lie equally far from their centres: a tie, which counts against us.
    """
    gap = np.abs(centred - centred[:, :1])
    return np.where(gap <= 2.0**-44 * (size + size[:, :1]), centred[:, :1], centred)
