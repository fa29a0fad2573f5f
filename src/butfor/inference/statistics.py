"""Outputs of an input and its counterfactuals -> the statistic of a hypothesis: pick, merge ties, compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import reduce as fold
from typing import Any, Literal

import numpy as np

from butfor.evaluation.evaluator import GROUP_VALUES, Evaluator, evaluate, summaries
from butfor.evaluation.hypotheses import Block, Job, Problem, sliced
from butfor.evaluation.items import content_digest
from butfor.inference.outputs import Rounding, Target, linked, pick, snap
from butfor.types import Alternative, Array, Bools, Floats, InputError, Ints


def tail_statistic(values: Floats, alternative: Alternative, centre: Floats | None = None) -> Floats:
    """Statistic T (n, versions) whose large values speak against the null; `centre` (n,) is needed for two sides.

    Two-sided T is |y - c|, which orders values as the paper's (y - c)^2 does; `osft` squares it again.

    >>> tail_statistic(np.array([[1.0, -3.0]]), "two-sided", np.array([0.0]))
    array([[1., 3.]])
    """
    if alternative == "greater":
        return values
    if alternative == "less":
        return -values
    assert centre is not None
    return _level(np.abs(values - centre[:, None]))


def _level(distance: Floats) -> Floats:
    """Distances that equal the observed one but for rounding, as of two values on either side of c, become equal."""
    observed = distance[:, :1]
    return np.where(np.abs(distance - observed) <= 1e-9 * observed, observed, distance)


LEAST_RATE = 1e-4  # accepted draws; where fewer pass a hypothesis is given up


@dataclass
class Tally:
    """How many draws passed the rule, over a run."""

    drawn: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class Picked:
    """The rule by which inputs were picked: outputs (n,) or (n, outputs) -> bool (n,)."""

    rule: Callable[[Any], Any]
    tally: Tally = field(default_factory=Tally)

    def passes(self, outputs: Floats) -> Bools:
        """Which of outputs (..., outputs) the rule would have picked."""
        flat = outputs.reshape(-1, outputs.shape[-1])
        try:
            said = np.asarray(self.rule(flat[:, 0] if flat.shape[1] == 1 else flat))
        except Exception as error:
            raise InputError(f"picked raised {type(error).__name__} on outputs of {len(flat)} rows: {error}") from error
        if said.shape != (len(flat),) or said.dtype != bool:
            one = "outputs" if flat.shape[1] == 1 else "outputs[:, 1]"
            raise InputError(
                f"picked must turn outputs of {len(flat)} rows into {len(flat)} booleans, got {said.dtype} of shape "
                f"{said.shape}; for example picked=lambda outputs: {one} >= 0.9"
            )
        return said.reshape(outputs.shape[:-1])

    def accept(self, outputs: Floats) -> Bools:
        """The same for draws, counted."""
        passed = self.passes(outputs)
        self.tally.drawn += passed.size
        self.tally.accepted += int(passed.sum())
        return passed


def picked_outputs(problem: Problem, evaluator: Evaluator, total: int, picked: Picked) -> Iterator[tuple[Job, Floats]]:
    """Per block the outputs (n, 1 + total, outputs) of the observed inputs and of `total` accepted draws each.

    Inputs of which hardly any draw is accepted are left out. Whether that happens depends on the rest of the input
    only, not on the subset's observed value, so leaving them out keeps the others valid.
    """
    everyone = ((block, np.arange(block.stop - block.start)) for block in problem.blocks)
    return accepted_outputs(problem, evaluator, everyone, total, picked, "picked")


def accepted_outputs(
    problem: Problem, evaluator: Evaluator, wanted: Iterable[tuple[Block, Ints]], total: int, picked: Picked, label: str
) -> Iterator[tuple[Job, Floats]]:
    """The same for some inputs of some blocks; `label` names the streams of draws."""
    for block, members in wanted:
        filled, outputs = _fill(problem, evaluator, (block, members), total, picked, label)
        enough = members[filled[members] >= total]
        if enough.size:
            yield Job(block, total, label, keep=enough), outputs[enough]


def _fill(
    problem: Problem, evaluator: Evaluator, wanted: tuple[Block, Ints], total: int, picked: Picked, label: str
) -> tuple[Ints, Floats]:
    block, lacking = wanted
    count = block.stop - block.start
    filled = np.zeros(count, np.int64)
    outputs = np.empty((count, total + 1, evaluator.outputs))
    drawn, number = 0, 0
    while lacking.size:
        rate = (filled[lacking].min() + 1) / (drawn + 1)
        batch = int(np.clip((total - filled[lacking].min()) / rate, 16, problem.round_draws))
        ((_, fresh),) = evaluate(problem, evaluator, [Job(block, batch, f"{label} {number}", ask=lacking)])
        outputs[lacking, 0] = fresh[:, 0]
        _keep(outputs, filled, lacking, fresh[:, 1:], picked.accept(fresh[:, 1:]), total)
        drawn, number = drawn + batch, number + 1
        lacking = lacking[(filled[lacking] < total) & ~hopeless(filled[lacking], drawn)]
    return filled, outputs


def _keep(outputs: Floats, filled: Ints, members: Ints, fresh: Floats, accepted: Bools, total: int) -> None:
    """Put accepted draws, in the order in which they came, behind those already kept."""
    place = filled[members, None] + np.cumsum(accepted, axis=1)  # where each accepted draw goes, counting from 1
    rows, columns = np.nonzero(accepted & (place <= total))
    outputs[members[rows], place[rows, columns]] = fresh[rows, columns]
    filled[members] = np.minimum(place[:, -1], total)


def hopeless(accepted: Ints, drawn: int) -> Bools:
    """Where hardly any draw passes: but for this subset the input would never have been picked."""
    if drawn < 2 / LEAST_RATE:
        return np.zeros(len(accepted), bool)
    return np.asarray(accepted < drawn * LEAST_RATE)


def check_drawable(drawable: Bools) -> list[str]:
    """What to say of the hypotheses left out for want of accepted draws; an error if they are most of them."""
    left_out = int((~drawable).sum())
    if left_out > len(drawable) / 2:
        raise InputError(
            f"hardly any counterfactual passes picked for {left_out} of {len(drawable)} hypotheses (fewer than one in "
            f"{round(1 / LEAST_RATE):,}): but for these subsets the inputs would never have been picked; loosen the "
            "rule, or pick inputs by something else than their output"
        )
    if not left_out:
        return []
    return [
        f"{left_out} hypotheses left the family: but for their subset the input would hardly ever have been picked."
    ]


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


EvidenceKind = Literal["p", "z", "w", "e"]


@dataclass(frozen=True)
class Evidence:
    """What a test found, one entry per hypothesis."""

    kind: EvidenceKind
    values: Floats  # (H,)
    varied: Bools  # (H,) False: all values equal, whatever was drawn
    observed: Floats  # (H,)
    classes: Ints  # (H,) output that was tested
    draws: Ints  # (H,)
    open: Bools  # (H,) True: neither chosen nor given up when drawing stopped
    drawable: Bools  # (H,) False: hardly any draw passed `picked`, so there is no evidence
    scale: Floats  # (H,) what the values are divided by before a selection; 1 but for few-shot
    least: Floats  # (H,) the least p-value that a listed support allows; 0 elsewhere
    surprise: Floats  # (H,) share of counterfactuals with a less extreme statistic; NaN: not known

    @property
    def scaled(self) -> Floats:
        """The values that rules compare; scores that are equal but for rounding stay together."""
        return snap(self.values / self.scale) if self.kind == "w" else self.values


@dataclass(frozen=True)
class Found:
    """Evidence on some hypotheses; what is None is as if every draw had been made and nothing was odd."""

    rows: Ints  # (n,) where they stand
    values: Floats
    observed: Floats
    classes: Ints
    varied: Bools | None = None
    draws: int | None = None
    drawable: Bools | None = None
    least: Floats | None = None
    surprise: Floats | None = None


def give_up(evidence: Evidence, rows: Ints) -> Evidence:
    """Nothing speaks against the null of hypotheses that could not be tested; they stay in their family."""
    if not rows.size:
        return evidence
    values, surprise = evidence.values.copy(), evidence.surprise.copy()
    varied, drawable, still = evidence.varied.copy(), evidence.drawable.copy(), evidence.open.copy()
    values[rows], surprise[rows] = (1.0 if evidence.kind == "p" else 0.0), np.nan
    varied[rows], drawable[rows], still[rows] = True, True, False
    return replace(evidence, values=values, surprise=surprise, varied=varied, drawable=drawable, open=still)


def gather(kind: EvidenceKind, size: int, draws: int, parts: Iterable[Found]) -> Evidence:
    """The evidence on all hypotheses; where there is none, nothing speaks against the null."""
    values, least, drawn = np.full(size, 1.0 if kind == "p" else 0.0), np.zeros(size), np.full(size, draws)
    observed, classes = np.full(size, np.nan), np.zeros(size, np.int64)
    varied, drawable, surprise = np.ones(size, bool), np.zeros(size, bool), np.full(size, np.nan)
    for part in parts:
        values[part.rows], observed[part.rows], classes[part.rows] = part.values, part.observed, part.classes
        drawable[part.rows] = True if part.drawable is None else part.drawable
        if part.varied is not None:
            varied[part.rows] = part.varied
        if part.draws is not None:
            drawn[part.rows] = part.draws
        if part.least is not None:
            least[part.rows] = part.least
        if part.surprise is not None:
            surprise[part.rows] = part.surprise
    is_open, scale = np.zeros(size, bool), np.ones(size)
    return Evidence(kind, values, varied, observed, classes, drawn, is_open, drawable, scale, least, surprise)


def not_drawn(rows: Ints) -> Found:
    """Evidence on hypotheses (n,) that are not drawn: they stay in the family, and nothing speaks against the null."""
    nothing = np.full(len(rows), np.nan)
    return Found(rows, np.ones(len(rows)), nothing, np.zeros(len(rows), np.int64), draws=0, surprise=nothing)


def merged_evidence(one: Evidence, two: Evidence, now: Bools) -> Evidence:
    """The evidence of `two` where it is from now (H,), that of `one` elsewhere."""
    names = [field.name for field in fields(Evidence) if field.name != "kind"]
    return Evidence(one.kind, **{name: np.where(now, vars(two)[name], vars(one)[name]) for name in names})


def p_fixed(statistic: Floats, margin: float = 0.0) -> Floats:
    """p-values of the interpretability randomisation test (paper, Algorithm 1, line 9).

    Valid at every K: the observed value's rank among K + 1 exchangeable ones is uniform, and ties push it down. With a
    margin the null is that the observed value exceeds an exchangeable one by at most so much: lowered by the margin it
    is at most that one, so that its p-value is at least as large.

    >>> p_fixed(np.array([[3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 0.0]]))
    array([0.25, 0.75])
    """
    observed, null = statistic[:, :1], statistic[:, 1:]
    hits = (null >= observed - margin).sum(axis=1)  # ties count against us: keeps p valid
    return np.asarray((1 + hits) / (null.shape[1] + 1))


def share_below(statistic: Floats) -> Floats:
    """Share of the draws (n,) that are less extreme than the observed value.

    >>> share_below(np.array([[3.0, 1.0, 2.0, 3.0]]))
    array([0.66666667])
    """
    return np.asarray((statistic[:, 1:] < statistic[:, :1]).sum(axis=1) / (statistic.shape[1] - 1))


def varies(statistic: Floats) -> Bools:
    """False where all K + 1 values are equal: no draw can ever be surprising there (METHODS 6)."""
    return np.asarray((statistic != statistic[:, :1]).any(axis=1))


def z_one_shot(statistic: Floats, *, squared: bool = False) -> Floats:
    """Differences of the one-shot feature test (paper, Algorithm 2, line 6); a tie is 0 and never counts.

    >>> z_one_shot(np.array([[3.0, 1.0], [2.0, 2.0]]))
    array([2., 0.])
    """
    observed, drawn = statistic[:, 0], statistic[:, 1]
    difference = observed - drawn
    return difference * (observed + drawn) if squared else difference  # (y-c)^2 - (y~-c)^2, two-sided in the paper


def besag_clifford(hits: Bools, counted: Bools | None, draws: Ints, exceeded: Ints, h: int) -> tuple[Ints, Ints]:
    """Draws and exceedances after a batch, looked at in order: counting stops at the draw that is the h-th exceedance.

    `hits` (n, batch) says t~ >= t, `counted` (n, batch) which draws count at all (None: all), `draws` and `exceeded`
    (n,) where each hypothesis stood. Stopping at the batch's end instead would make p too small (METHODS 2).
    """
    counting = hits if counted is None else hits & counted
    fresh = counting.sum(axis=1)
    seen = draws + (hits.shape[1] if counted is None else counted.sum(axis=1))
    total = exceeded + fresh
    ends = np.flatnonzero(total >= h)
    if ends.size:  # few: only there the order matters
        at = (exceeded[ends, None] + np.cumsum(counting[ends], axis=1) >= h).argmax(axis=1)
        until = at + 1 if counted is None else np.cumsum(counted[ends], axis=1)[np.arange(len(ends)), at]
        seen[ends], total[ends] = draws[ends] + until, h
    return seen, total


def p_sequential(draws: Ints, exceeded: Ints, h: int) -> Floats:
    """Besag & Clifford's p-value, valid at any time: h / (n + h - L), which is h / tau once L = h at draw tau.

    >>> p_sequential(np.array([0, 90, 25]), np.array([0, 0, 10]), h=10)
    array([1. , 0.1, 0.4])
    """
    return np.asarray(h / (draws + h - exceeded))


def competition(statistic: Floats) -> tuple[Ints, Floats, Floats]:
    """Who has the largest of the K + 1 values, by how much, and the spread of the others (METHODS 4).

    The label is +1 for the observed, -1 for a draw, 0 for a tied top (which drops the hypothesis); the score is the
    maximum minus the mean of the rest. Score and spreads are symmetric in the K + 1 values: the label stays a fair
    (K + 1)-sided coin given them.
    """
    top = statistic.max(axis=1)
    is_top = statistic == top[:, None]
    unique = is_top.sum(axis=1) == 1
    label = np.where(unique, np.where(is_top[:, 0], 1, -1), 0)
    rest = statistic.shape[1] - 1
    score = top - (statistic.sum(axis=1) - top) / rest
    inner = np.sort(statistic, axis=1)[:, :-1]
    return label, np.where(unique, score, 0.0), inner.std(axis=1)


def e_soft_rank(statistic: Floats) -> Floats:
    """Soft-rank e-values (METHODS 5): the observed value's share of sum exp(4 v / sd), times K + 1.

    Under the null the K + 1 values are exchangeable, so each share has mean 1 / (K + 1) and e has mean 1.

    >>> e_soft_rank(np.array([[1.0, 1.0, 1.0]]))
    array([1.])
    """
    spread = statistic.std(axis=1, keepdims=True)
    scaled = np.divide(statistic, spread, out=np.zeros_like(statistic), where=spread > 0)
    weights = np.exp(4 * (scaled - scaled.max(axis=1, keepdims=True)))
    return np.asarray(statistic.shape[1] * weights[:, 0] / weights.sum(axis=1))


def p_exact(statistic: Floats, probability: Floats, margin: float = 0.0) -> Floats:
    """p-values from a listed support (METHODS 9): the mass of values at least as surprising as the observed one.

    `statistic` (n, 1 + m) and `probability` (n, 1 + m) hold the observed value first, with its own mass.

    >>> p_exact(np.array([[2.0, 3.0, 1.0]]), np.array([[0.2, 0.3, 0.5]]))
    array([0.5])
    """
    hits = statistic >= statistic[:, :1] - margin  # the observed value is among them, so p is at least its mass
    return np.asarray(np.where(hits, probability, 0.0).sum(axis=1))
