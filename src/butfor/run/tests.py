"""The test of a run, from draws to evidence: which hypotheses are drawn for, and what is made of their outputs.

The statistics are in `butfor.inference`, which knows nothing of draws; here its states and formulas meet the outputs of
the model. What is made of a unit's outputs (`CountHits`, `ReduceSets` ...) is made where they are, and travels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, product
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from butfor.evaluation.evaluator import GROUP_VALUES, Evaluator, Summary
from butfor.evaluation.hypotheses import (
    SUPPORT,
    Block,
    CounterfactualBatch,
    Hypotheses,
    Job,
    partial_job,
    round_sizes,
    sliced,
)
from butfor.evaluation.items import content_digest
from butfor.evaluation.samplers import ListsSupport, info_of
from butfor.inference.adaptive import LEAST_BLOCKS, PILOT, joined
from butfor.inference.effects import Effects, class_interval, no_effects
from butfor.inference.exact import Support, listed_evidence
from butfor.inference.few_shot import competed, score_scale
from butfor.inference.irt import EarlyStop, exceedances, ranked, soft_ranked
from butfor.inference.osft import compared
from butfor.inference.selection import COMPETITIONS, Choice, LearningUnits
from butfor.inference.sequential import LEAST_ACCEPTED, Sequential, Stopping, hopeless
from butfor.inference.statistics import (
    Evidence,
    EvidenceKind,
    PartialEvidence,
    Picked,
    StatisticSpec,
    ValueSet,
    centred_statistic,
    gather,
    linked,
    merged_evidence,
    not_drawn,
    snap,
    value_set,
)
from butfor.results.notes import reach_of_layers, reach_of_list, scales
from butfor.results.result import drops_unvarying, family_members
from butfor.results.words import Note
from butfor.settings import Settings
from butfor.types import Array, Bools, Floats, InputError, Ints, labels_of

EFFECT_DRAWS = {"sequential": 200, "irt": 200, "osft": 16, "few-shot": 16}
BOUND_ALPHA, DEEP_DRAWS = 0.05, 10_000  # how small p-values of chosen hypotheses are made for bounds, at most


@dataclass(frozen=True, eq=False)
class Performed:
    """Evidence of a test, how its hypotheses are chosen, notes, and whether it was interrupted."""

    evidence: Evidence
    choice: Choice
    notes: tuple[Note, ...] = ()
    interrupted: bool = False


def perform(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    choice: Choice,
    stage: str | None = None,
    known: Iterable[PartialEvidence] = (),
    outcomes: Outcomes | None = None,
) -> Performed:
    """The test; `known` is evidence on hypotheses that need no drawing, and whose blocks are not in the hypotheses.

    What `outcomes` knows of the others is not drawn, either.
    """
    test, draws = settings.test, settings.draws_for(hypotheses.size)
    total = spec.center + draws
    fixed = test.name != "sequential" and not test.early_stop and spec.picked is None and evaluator.memory is None
    rows = hypotheses.size * (total + len(round_sizes(total, hypotheses.round_draws)))
    evaluator.counter.stage(stage or test.name, rows if fixed else None)
    notes, interrupted = list[Note](), False
    if test.name == "osft":
        squared = partial(compared, squared=spec.alternative == "two-sided")
        evidence = reduced_evidence("z", hypotheses, evaluator, spec, 1, squared)
    elif test.name == "few-shot":
        evidence, spread = few_shot(hypotheses, evaluator, spec, draws, shrunk=test.scale == "shrunk")
        notes += scales(spread, hypotheses.subset_of, hypotheses.subset_names) if test.scale is None else []
    elif settings.rule == "e-bh":
        evidence = reduced_evidence("e", hypotheses, evaluator, spec, draws, soft_ranked)
    else:
        evidence, choice, interrupted = _p_values(hypotheses, evaluator, spec, settings, choice, known, outcomes)
        if hypotheses.stepwise and test.name == "sequential" and not interrupted:
            notes += reach_of_layers(hypotheses.resolution, evidence.draws, evidence.open, draws)
        if hypotheses.layers is None:
            notes += reach_of_list(int(choice.chosen(evidence.least, evidence.drawable).sum()), evidence.least)
    evidence = evidence.without(evaluator.untested(hypotheses.size))
    if interrupted:
        notes.append(Note("interrupted", "warning", {"left": int(evidence.open.sum())}))
    if spec.picked is not None and spec.picked.tally.drawn:
        share = spec.picked.tally.accepted / spec.picked.tally.drawn
        notes.append(Note("accepted", "info", {"share": share}))
        if left_out := check_drawable(evidence.drawable):
            notes.append(Note("hardly-picked", "limit", {"count": left_out}))
    return Performed(evidence, choice, tuple(notes), interrupted)


def _p_values(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    choice: Choice,
    known: Iterable[PartialEvidence],
    outcomes: Outcomes | None,
) -> tuple[Evidence, Choice, bool]:
    """p-values, by drawing or exact; also whether that was interrupted. Parts that wait: one resolution at a time."""
    layers, meter = hypotheses.layers, evaluator.counter
    if layers is None or not layers.stepwise:
        return _drawn(hypotheses, evaluator, spec, settings, choice, known, outcomes)
    evidence, chosen = None, np.zeros(hypotheses.size, bool)
    for level in np.unique(layers.resolution):
        now = (layers.resolution == level) & layers.reached(chosen)
        if evidence is not None and not now.any():
            continue
        some = replace(hypotheses, blocks=tuple(block for block in hypotheses.blocks if now[block.rows[0]]))
        meter.stage(f"{settings.test.name}, resolution {level}", None)
        waiting = [not_drawn(np.flatnonzero(~now))]
        drawn, choice, interrupted = _drawn(some, evaluator, spec, settings, choice, waiting, None)
        evidence = drawn if evidence is None else merged_evidence(evidence, drawn, now)
        chosen = choice.chosen(evidence.scaled, _members(evidence, settings, hypotheses))
        meter.set_chosen(int(chosen.sum()))
        if interrupted:
            return evidence, choice, True
    assert evidence is not None
    return evidence, choice, False


def _drawn(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    choice: Choice,
    known: Iterable[PartialEvidence],
    outcomes: Outcomes | None,
) -> tuple[Evidence, Choice, bool]:
    """p-values of one resolution, or of all: exact where all outcomes are known or listed, else by drawing."""
    meter, test, draws = evaluator.counter, settings.test, settings.draws_for(hypotheses.size)
    if outcomes is not None:
        known_blocks, unknown = outcomes.split(hypotheses)
        known = chain(known, known_outcomes(hypotheses, evaluator, spec, known_blocks, outcomes))
        hypotheses = replace(hypotheses, blocks=tuple(unknown))
    sampler, can_list = hypotheses.sampler, set[int]()
    if isinstance(sampler, ListsSupport):
        can_list = {id(subset) for subset in hypotheses.subsets if sampler.lists(subset)}
    listed = [block for block in hypotheses.blocks if id(block.subset) in can_list]
    rest = replace(hypotheses, blocks=tuple(block for block in hypotheses.blocks if id(block.subset) not in can_list))
    sure = chain(known, exact(hypotheses, evaluator, spec, listed))

    def choose(p: Floats, among: Bools) -> Bools:
        return choice.chosen(p, among)

    if test.name == "sequential":

        def learn(p: Floats, among: Bools) -> None:
            nonlocal choice
            choice = choice.after_pilot(p, among)

        def waiting(p: Floats, among: Bools, chosen: Bools) -> Bools:
            return choice.waiting(p, among, chosen)

        cap = draws * 20 if spec.picked is not None else draws  # most draws may be rejected
        stopping = Stopping(
            h=test.h,
            cap=cap,
            choose=choose,
            deep=max(BOUND_ALPHA / hypotheses.size, test.h / (test.h + DEEP_DRAWS)) if settings.bounds else 1.0,
            pilot=PILOT if choice.rule == "adaptive" else 0,
            learn=learn if choice.rule == "adaptive" else None,
            at_best=choice.in_families if hypotheses.stepwise else None,  # parts are few, and their family is large
            waits=waiting if hypotheses.layers is not None else None,
            picked=spec.picked is not None,
        )
        evidence, interrupted = sequential(rest, evaluator, spec, stopping, meter.set_chosen_rows, sure, meter.set_left)
        return evidence, choice, interrupted
    if test.early_stop:
        input_of = hypotheses.input_of if drops_unvarying(settings.rule, settings.family) else None
        rejected = meter.set_chosen_rows
        drawn = early_stop(rest, evaluator, spec, draws, test.delta, choose, rejected, sure, input_of=input_of)
        return drawn, choice, False
    return irt(rest, evaluator, spec, draws, sure), choice, False


def chosen_by(hypotheses: Hypotheses, settings: Settings, done: Performed) -> Bools:
    return done.choice.chosen(done.evidence.scaled, _members(done.evidence, settings, hypotheses))


def _members(evidence: Evidence, settings: Settings, hypotheses: Hypotheses) -> Bools:
    return family_members(evidence, settings.rule, settings.family, hypotheses.input_of)


def estimated(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    spec: StatisticSpec,
    evidence: Evidence,
    wanted: Bools,
    settings: Settings,
) -> tuple[Effects, list[Note]]:
    """Effects of the hypotheses wanted; an interruption costs them, not the result."""
    if not wanted.any():
        return no_effects(hypotheses.size), []
    draws = EFFECT_DRAWS[settings.test.name]
    known = spec.picked is None and evaluator.memory is None
    evaluator.counter.stage("effects", int(wanted.sum()) * (draws + 1) if known else None)
    try:
        return fresh_effects(hypotheses, evaluator, spec.link, wanted, evidence.classes, draws, spec.picked), []
    except KeyboardInterrupt:
        return no_effects(hypotheses.size), [Note("interrupted-effects", "warning")]


def choice_of(hypotheses: Hypotheses, settings: Settings, clusters: Ints) -> Choice:
    """How hypotheses of this run are chosen; `clusters` (n,) of inputs."""
    count = len(np.unique(clusters))
    if settings.rule == "adaptive-strict" and count < LEAST_BLOCKS:
        raise InputError(
            f"rule='adaptive-strict' needs at least {LEAST_BLOCKS} independent inputs (or groups), got {count}; use "
            "rule='adaptive' or 'bh'"
        )
    return Choice(
        rule=settings.rule,
        alpha=settings.alpha,
        families=hypotheses.input_of if settings.family == "input" else None,
        layers=hypotheses.layers,
        draws=settings.draws_for(hypotheses.size),
        floor=floors_of(hypotheses) if settings.rule in COMPETITIONS else None,
        units=LearningUnits(clusters[hypotheses.input_of], _labels(hypotheses, settings.weights_by)),
    )


def floors_of(hypotheses: Hypotheses) -> Floats | None:
    """The share of null values of each hypothesis (H,) that lie beyond all that the sampler draws; None: nowhere."""
    floor = info_of(hypotheses.sampler).floor
    known = {id(subset): floor(subset) for subset in hypotheses.subsets}
    if not any(known.values()):
        return None
    floors = np.zeros(hypotheses.size)
    for block in hypotheses.blocks:
        floors[block.rows] = known[id(block.subset)]
    return floors


def cluster_of(groups: object, names: Sequence[Any], alike: Ints) -> Ints:
    """The cluster of every input (n,): those that the user puts together, and those that are equal (`alike`, (n,))."""
    if groups is None:
        return alike
    labels = list(map(groups.get, names)) if isinstance(groups, Mapping) else labels_of("groups", groups, "input")
    if len(labels) != len(names):
        raise InputError(f"groups has {len(labels)} labels for {len(names)} inputs; give one for each input")
    if any(map(_is_missing, labels)):
        raise InputError("groups has no label for some inputs; give one for each input")
    return joined(alike, _numbered(labels))


def _is_missing(label: object) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # of pandas' NA, which is neither
        return True


def _labels(hypotheses: Hypotheses, weights_by: object) -> Ints:
    """Labels that hypotheses share over inputs (H,): their subset, or a label that the user gives each of them."""
    if weights_by is None:
        return hypotheses.subset_of
    if callable(weights_by):
        labels = []
        for i, j in zip(hypotheses.input_of, hypotheses.subset_of, strict=True):
            name, subset = hypotheses.input_names[i], hypotheses.subset_names[j]
            try:
                labels.append(weights_by(name, subset))
                hash(labels[-1])
            except Exception as error:  # any error of the user's function, and a label that cannot be one
                raise InputError(
                    f"weights_by raised {type(error).__name__} on input {name!r}, subset {subset!r}: {error}; give a "
                    "function (input, subset) -> label, a number or a string"
                ) from error
    else:
        labels = labels_of("weights_by", weights_by, "hypothesis")
    if len(labels) != hypotheses.size:
        raise InputError(
            f"weights_by has {len(labels)} labels for {hypotheses.size} hypotheses; give one for each row of "
            "result.table, or a function (input, subset) -> label"
        )
    return _numbered(labels)


def _numbered(labels: Sequence[Any]) -> Ints:
    """Return a number for each label, equal for equal ones."""
    numbers = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels], np.int64)


def check_drawable(drawable: Bools) -> int:
    """Return how many hypotheses are left out for want of accepted draws; an error if they are most of them."""
    left_out = int((~drawable).sum())
    if left_out > len(drawable) / 2:
        raise InputError(
            f"hardly any counterfactual passes picked for {left_out} of {len(drawable)} hypotheses (fewer than one in "
            f"{round(1 / LEAST_ACCEPTED):,}): but for these subsets the inputs would never have been picked; loosen "
            "the rule, or pick inputs by something else than their output"
        )
    return left_out


Reduction = Callable[[ValueSet], tuple[Array, ...]]  # to an array or more of (n,) each


def reduced_sets(
    hypotheses: Hypotheses, evaluator: Evaluator, spec: StatisticSpec, draws: int, reduce: Reduction
) -> Iterator[tuple[Ints, tuple[Array, ...]]]:
    """Yield every hypothesis once (rows (n,) at a time), reduced with all its values at hand.

    Where all values are in one unit that is done there, so that no outputs travel or are kept. Pilot draws that give a
    two-sided statistic its centre come first in the same stream.
    """
    total = spec.center + draws
    if spec.picked is not None:
        everyone = ((block, np.arange(block.stop - block.start)) for block in hypotheses.blocks)
        for job, outputs in accepted_outputs(hypotheses, evaluator, everyone, total, spec.picked, "picked"):
            yield job.rows, reduce(value_set(job.inputs, outputs, spec))
        return
    most = max(1, 64 * GROUP_VALUES // ((total + 1) * evaluator.n_outputs))  # inputs whose outputs are all held
    jobs = sliced(hypotheses.blocks, total, hypotheses.round_draws, most)
    mark = content_digest((spec, total, reduce))

    def summary_of(unit: tuple[Job, ...]) -> ReduceSets:
        return ReduceSets(spec.at(np.concatenate([job.inputs for job in unit])), total, reduce, mark)

    parts: list[Floats] = []
    for unit, (before, done, after) in evaluator.summaries(hypotheses, jobs, summary_of):
        parts += before
        if parts and _complete(parts, total):  # it began in a unit before
            last = unit[len(before) - 1]
            yield last.rows, reduce(value_set(last.inputs, _all_values(parts), spec))
            parts = []
        first = len(before)
        for count, reduced in done:
            yield unit[first].rows, reduced
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
        done: list[tuple[int, tuple[Array, ...]]] = []
        before, parts, start = list[Floats](), list[Floats](), 0
        for job, one in zip(jobs, outputs, strict=True):
            if job.round == 0 or parts:
                parts.append(one)
            else:
                before.append(one)
            if parts and _complete(parts, self.total):
                inputs = np.arange(start, start + len(one))
                done.append((len(parts), self.reduce(value_set(inputs, _all_values(parts), self.spec))))
                parts = []
            start += len(one)
        return before, done, parts


def _complete(parts: list[Floats], total: int) -> bool:
    """Whether all rounds are there; each of them has the observed outputs as well."""
    return bool(sum(part.shape[1] for part in parts) == total + len(parts))


def _all_values(parts: list[Floats]) -> Floats:
    """The observed outputs and those of the draws of all rounds (n, 1 + draws, outputs)."""
    return parts[0] if len(parts) == 1 else np.concatenate([parts[0], *(part[:, 1:] for part in parts[1:])], axis=1)


def accepted_outputs(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    wanted: Iterable[tuple[Block, Ints]],
    total: int,
    picked: Picked,
    label: str,
) -> Iterator[tuple[Job, Floats]]:
    """Yield outputs (n, 1 + total, outputs) of inputs of some blocks and of `total` draws each that the rule accepts.

    Inputs of which hardly any draw is accepted are left out. Whether that happens depends on the rest of the input
    only, not on the subset's observed value, so leaving them out keeps the others valid. `label` names the streams.
    """
    for block, members in wanted:
        count, lacking = block.stop - block.start, members
        filled, outputs = np.zeros(count, np.int64), np.empty((count, total + 1, evaluator.n_outputs))
        drawn, number = 0, 0
        while lacking.size:
            rate = (filled[lacking].min() + 1) / (drawn + 1)
            batch = int(np.clip((total - filled[lacking].min()) / rate, 16, hypotheses.round_draws))
            ((_, fresh),) = evaluator.outputs(hypotheses, [Job(block, batch, f"{label} {number}", ask=lacking)])
            outputs[lacking, 0] = fresh[:, 0]
            accepted = picked.accept(fresh[:, 1:])
            behind = filled[lacking, None] + np.cumsum(accepted, axis=1)  # where each accepted draw goes, from 1
            rows, columns = np.nonzero(accepted & (behind <= total))
            outputs[lacking[rows], behind[rows, columns]] = fresh[rows, columns + 1]
            filled[lacking] = np.minimum(behind[:, -1], total)
            drawn, number = drawn + batch, number + 1
            lacking = lacking[(filled[lacking] < total) & ~hopeless(filled[lacking], drawn)]
        enough = members[filled[members] >= total]
        if enough.size:
            yield Job(block, total, label, keep=enough), outputs[enough]


def irt(
    hypotheses: Hypotheses, evaluator: Evaluator, spec: StatisticSpec, draws: int, known: Iterable[PartialEvidence] = ()
) -> Evidence:
    """Return the evidence of the interpretability randomisation test; `known` hypotheses need no drawing."""
    sets = reduced_sets(hypotheses, evaluator, spec, draws, partial(ranked, margin=spec.margin))
    parts = (
        PartialEvidence(rows, p, observed, classes, varied=varied, surprise=below)
        for rows, (p, observed, classes, varied, below) in sets
    )
    return gather("p", hypotheses.size, draws, chain(parts, known))


def reduced_evidence(
    kind: EvidenceKind, hypotheses: Hypotheses, evaluator: Evaluator, spec: StatisticSpec, draws: int, reduce: Reduction
) -> Evidence:
    """Return the evidence of soft-rank e-values (METHODS 5) or of the one-shot feature test, by what `reduce` makes."""
    sets = reduced_sets(hypotheses, evaluator, spec, draws, reduce)
    parts = (
        PartialEvidence(rows, values, observed, classes, surprise=below)
        for rows, (values, observed, classes, below) in sets
    )
    return gather(kind, hypotheses.size, draws, parts)


def few_shot(
    hypotheses: Hypotheses, evaluator: Evaluator, spec: StatisticSpec, draws: int, *, shrunk: bool = False
) -> tuple[Evidence, Floats]:
    """Return the evidence of the few-shot competition, and the spread of each hypothesis' values but the top (H,)."""
    parts = []
    spread, inner = np.zeros(hypotheses.size), np.zeros(hypotheses.size)
    reduce = partial(competed, two_sided=spec.alternative == "two-sided")
    for rows, (scores, observed, classes, below, every, rest) in reduced_sets(
        hypotheses, evaluator, spec, draws, reduce
    ):
        parts.append(PartialEvidence(rows, scores, observed, classes, surprise=below))
        spread[rows], inner[rows] = every, rest
    scale = score_scale(inner, draws, weight=5) if shrunk else score_scale(spread, draws, weight=80)
    return replace(gather("w", hypotheses.size, draws, parts), scale=scale), inner


def early_stop(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    spec: StatisticSpec,
    draws: int,
    delta: float,
    choose: Callable[[Floats, Bools], Bools],  # p-values and the family (H,)
    set_chosen: Callable[[Bools], None],  # given what is rejected so far
    known: Iterable[PartialEvidence] = (),
    *,
    input_of: Ints | None = None,  # (H,) where what never varies may leave the family
) -> Evidence:
    """Return the evidence of `EarlyStop`, from the draws of the fixed-K run with the same seed."""
    state = EarlyStop(hypotheses.size, draws, delta, gather("p", hypotheses.size, 0, known), input_of, choose)
    total = spec.center + draws  # the pilot draws stand first in the stream, as they do in the fixed-K run
    pilots = _span_jobs(hypotheses, np.ones(hypotheses.size, bool), (0, spec.center), total)
    counts_of = _counting(exceedances, spec, _pilot_centre(hypotheses, evaluator, spec, pilots))
    while True:
        rejected, wanted = state.rejected_and_wanted()
        set_chosen(rejected)
        if not wanted.any():
            return state.evidence()
        after = state.next_draws()
        for first, last in sorted({*zip(state.drawn[wanted].tolist(), after[wanted].tolist(), strict=True)}):
            together = wanted & (state.drawn == first)
            jobs = _span_jobs(hypotheses, together, (spec.center + first, spec.center + last), total)
            for unit, counts in evaluator.summaries(hypotheses, jobs, counts_of):
                for (rows, _, _), count in zip(_alike(unit), counts, strict=True):
                    state.count(rows, *count)
        state.narrow(wanted, after)
        state.give_up(evaluator.untested(hypotheses.size))


def _pilot_centre(
    hypotheses: Hypotheses, evaluator: Evaluator, spec: StatisticSpec, pilots: Iterable[Job]
) -> Floats | None:
    """Mean outputs (H, outputs) of the pilot draws, where the statistic has a centre."""
    if not spec.center:
        return None
    centre = np.zeros((hypotheses.size, evaluator.n_outputs))
    for unit, sums in evaluator.summaries(hypotheses, pilots, lambda _: partial(sum_outputs, link=spec.link)):
        for job, one in zip(unit, sums, strict=True):
            centre[job.rows] += one
    return centre / spec.center


def sum_outputs(jobs: tuple[Job, ...], outputs: tuple[Floats, ...], link: str | None) -> list[Floats]:  # noqa: ARG001
    """Return sums (n, outputs) over the draws of each job of a unit, on the scale of the test."""
    return [linked(snap(one[:, 1:]), link).sum(axis=1) for one in outputs]


Counts = Callable[[Floats], tuple[Array, ...]]  # of the statistic (n, versions): arrays (n, ...)


def _counting(
    count: Counts, spec: StatisticSpec, centre: Floats | None
) -> Callable[[tuple[Job, ...]], CountExceedances]:
    """Return what makes the summary of a unit, with the statistic and the centres (H, outputs) of its own."""
    mark = content_digest((count, spec, centre))

    def summary_of(unit: tuple[Job, ...]) -> CountExceedances:
        inputs = np.concatenate([job.inputs for job in unit])
        middle = None if centre is None else centre[np.concatenate([job.rows for job in unit])]
        return CountExceedances(count, spec.at(inputs), middle, mark)

    return summary_of


@dataclass(frozen=True, eq=False)
class CountExceedances:
    """Statistics of a unit for a test: counts or bits of its draws, the observed values and their classes (n,)."""

    count: Counts
    spec: StatisticSpec  # for the inputs of the unit's jobs, one after the other
    centre: Floats | None  # (hypotheses of the unit, outputs)
    mark: bytes  # of the statistic and the centres of all hypotheses

    def __call__(self, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> list[tuple[Array, ...]]:
        counts, first = [], 0
        for rows, start, stop in _alike(jobs):
            within = np.arange(first, first + len(rows))
            every = np.concatenate(outputs[start:stop])
            statistic, observed, classes = centred_statistic(within, within, every, self.spec, self.centre)
            counts.append((*self.count(statistic), observed.copy(), classes))
            first += len(rows)
        return counts


def _alike(jobs: Sequence[Job]) -> Iterator[tuple[Ints, int, int]]:
    """Hypotheses (n,) of jobs that follow each other and are alike, so that they are counted in one go."""
    stop = 0
    for _, alike in groupby(jobs, key=attrgetter("round", "draws", "part")):  # a hypothesis is in one job
        rows = [job.rows for job in alike]
        yield np.concatenate(rows), stop, stop + len(rows)
        stop += len(rows)


def _hits(statistic: Floats, margin: float) -> tuple[Bools]:
    """Which draws (n, draws) are at least as extreme as the observed input: ties count against us, so p stays valid."""
    return (statistic[:, 1:] >= statistic[:, :1] - margin,)


def _span_jobs(hypotheses: Hypotheses, still: Bools, span: tuple[int, int], total: int) -> Iterator[Job]:
    """Draws span[0]..span[1] of the `total` that the fixed-K run makes in rounds, of hypotheses `still` (H,)."""
    for block in hypotheses.blocks:
        keep = np.flatnonzero(still[block.rows])
        begin = 0
        for number, size in enumerate(round_sizes(total, hypotheses.round_draws) if keep.size else ()):
            part = (max(span[0] - begin, 0), min(span[1] - begin, size))
            if part[0] < part[1]:
                everyone = keep.size == block.stop - block.start
                yield Job(block, size, number, keep=None if everyone else keep, part=part)
            begin += size


def sequential(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    spec: StatisticSpec,
    stopping: Stopping,
    set_chosen: Callable[[Bools], None],  # given what is chosen so far
    known: Iterable[PartialEvidence] = (),
    expect: Callable[[int], None] | None = None,  # given how many draws are left
) -> tuple[Evidence, bool]:
    """Return the evidence of the sequential test, and whether the user interrupted it; `known` ones are not drawn."""
    test, interrupted = Sequential(hypotheses.size, stopping), False
    try:
        for part in known:
            test.add_exact(part)
        pilots = (Job(block, spec.center, "pilot") for block in hypotheses.blocks)
        centre = _pilot_centre(hypotheses, evaluator, spec, pilots)
        hits_of = _counting(partial(_hits, margin=spec.margin), spec, centre)
        by_part = hypotheses.items.shares_subsets and evaluator.memory is None
        while batch := test.next_batch():
            jobs = _open_jobs(hypotheses, test.drawn, test.number, batch, by_part=by_part)
            if spec.picked is not None:
                for job, outputs in evaluator.outputs(hypotheses, jobs):
                    statistic, observed, classes = centred_statistic(job.rows, job.inputs, outputs, spec, centre)
                    accepted = spec.picked.accept(outputs[:, 1:])
                    test.count(job.rows, *_hits(statistic, spec.margin), observed, classes, accepted)
            else:
                for unit, counts in evaluator.summaries(hypotheses, jobs, hits_of):
                    for (rows, _, _), (hits, observed, classes) in zip(_alike(unit), counts, strict=True):
                        test.count(rows, hits, observed, classes)
            test.give_up(evaluator.untested(hypotheses.size))
            chosen, goes_on = test.look()
            set_chosen(chosen)
            if expect is not None:
                expect(test.draws_left())
            if not goes_on:
                break
    except KeyboardInterrupt:
        interrupted = True
    return test.evidence(interrupted), interrupted


def _open_jobs(hypotheses: Hypotheses, is_open: Bools, number: int, batch: int, *, by_part: bool) -> Iterator[Job]:
    """For every block with open hypotheses its draws of this round, in parts of at most `round_draws`.

    With `by_part` a part of all blocks comes before the next part of any, so that jobs that are alike follow each other
    and are counted together. Where draws repeat, those of a block stay together: equal ones are evaluated once.
    """
    order, starts = hypotheses.block_order
    open_rows = np.flatnonzero(is_open[order])
    ends = np.searchsorted(open_rows, starts)
    within, rows = open_rows - np.repeat(starts[:-1], np.diff(ends)), order[open_rows]
    wanted = [
        (block, slice(first, last), last - first == block.stop - block.start)
        for block, first, last in zip(hypotheses.blocks, ends.tolist(), ends[1:].tolist(), strict=False)
        if first < last
    ]
    most = hypotheses.round_draws
    parts = [
        (f"{number}.{part}" if part else number, min(most, batch - done))
        for part, done in enumerate(range(0, batch, most))
    ]
    ordered = [(one, part) for part in parts for one in wanted] if by_part else product(wanted, parts)
    for (block, span, every), (name, size) in ordered:
        yield Job(block, size, name) if every else partial_job(block, size, name, within[span], rows[span])


class Outcomes(Protocol):
    """Lists all that may come of some hypotheses without the model: outputs and their probabilities (METHODS 13)."""

    def split(self, hypotheses: Hypotheses) -> tuple[list[Block], list[Block]]:
        """Return blocks whose hypotheses it knows, and the others."""
        ...

    def listed(self, hypotheses: Hypotheses, blocks: Sequence[Block]) -> Iterator[tuple[CounterfactualBatch, Floats]]:
        """Yield what is listed for these blocks, and outputs (n, versions, outputs), the observed first."""
        ...


@dataclass(frozen=True, eq=False)
class ReadModel:
    """A model that was looked into: its outcomes (None: it has to be evaluated), notes, and rows that took."""

    outcomes: Outcomes | None = None
    notes: tuple[Any, ...] = ()
    rows: int = 0


def known_outcomes(
    hypotheses: Hypotheses, evaluator: Evaluator, spec: StatisticSpec, blocks: Sequence[Block], outcomes: Outcomes
) -> Iterator[PartialEvidence]:
    """Yield exact p-values of the hypotheses of `blocks`; nothing is drawn or evaluated."""
    for batch, outputs in outcomes.listed(hypotheses, blocks):
        assert batch.support is not None
        evaluator.show(hypotheses, batch, outputs)
        yield listed_evidence(spec, batch.job.rows, batch.job.inputs, outputs, batch.support, draws=0)


def exact(
    hypotheses: Hypotheses, evaluator: Evaluator, spec: StatisticSpec, blocks: list[Block]
) -> Iterator[PartialEvidence]:
    """Yield the p-values of `blocks` whose counterfactuals are listed: each is evaluated once (METHODS 9)."""
    about = info_of(hypotheses.sampler).listed or 64  # how many values are listed is known once that is done
    for job, outputs, support in evaluator.listed(hypotheses, [Job(block, about, SUPPORT) for block in blocks]):
        yield listed_evidence(spec, job.rows, job.inputs, outputs, support)


CHUNK_VALUES = 2**22  # values of the rows that are put beside inputs at a time


def ranked_root(
    hypotheses: Hypotheses,
    spec: StatisticSpec,
    block: Block,
    outputs: Floats,
    reference: Array,
    reference_outputs: Floats,
    show: Callable[[CounterfactualBatch, Floats], None],
) -> Iterator[PartialEvidence]:
    """Yield p-values of a block whose subset is everything: the rank of an output among the reference's (METHODS 14).

    `outputs` (n, outputs) are those of all inputs, `reference` (m, columns) whole rows in the order of the data's
    columns, `reference_outputs` (m, outputs) theirs. The input is one row more, with the same mass; nothing is drawn.
    """
    rows, columns = len(reference), block.subset.index
    size = max(1, CHUNK_VALUES // ((rows + 2) * reference.shape[1]))
    for start in range(0, block.stop - block.start, size):
        keep = np.arange(start, min(start + size, block.stop - block.start))
        inputs = hypotheses.items.take(hypotheses.items.block(block.start, block.stop), keep)
        values = np.empty((len(keep), rows + 2, len(columns)), inputs.dtype)
        values[:, 0] = values[:, -1] = inputs[:, columns]
        values[:, 1:-1] = reference[:, columns]
        mass = np.full((len(keep), rows + 1), 1 / (rows + 1))
        job = Job(block, rows + 1, "whole", keep=keep)
        support = Support(mass, np.zeros(len(keep)), np.full(len(keep), 1 / (rows + 1)))
        batch = CounterfactualBatch(job, inputs, values.reshape(-1, len(columns)), support=support)
        observed = outputs[block.start + keep][:, None]
        donors = np.broadcast_to(reference_outputs, (len(keep), *reference_outputs.shape))
        every = np.concatenate([observed, donors, observed], 1)
        show(batch, every)
        yield listed_evidence(spec, job.rows, job.inputs, every, support)


def fresh_effects(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    link: str | None,
    chosen: Bools,
    classes: Ints,
    draws: int,
    picked: Picked | None = None,
) -> Effects:
    """Return effects from new draws that `picked` would have picked, too: those that chose a hypothesis flatter it."""
    effects = no_effects(hypotheses.size)

    def put(rows: Ints, estimated: tuple[Floats, Floats, Floats]) -> None:
        effects.effect[rows], effects.low[rows], effects.high[rows] = estimated

    wanted = ((block, np.flatnonzero(chosen[block.rows])) for block in hypotheses.blocks if chosen[block.rows].any())
    if picked is not None:
        for job, outputs in accepted_outputs(hypotheses, evaluator, wanted, draws, picked, "effect"):
            put(job.rows, class_interval(outputs, classes[job.rows], link))
        return effects

    def summary_of(unit: tuple[Job, ...]) -> Summary:
        return partial(class_intervals, classes=tuple(classes[job.rows] for job in unit), link=link)

    jobs = (Job(block, draws, "effect", keep=keep) for block, keep in wanted)
    for unit, intervals in evaluator.summaries(hypotheses, jobs, summary_of):
        for job, estimated in zip(unit, intervals, strict=True):
            put(job.rows, estimated)
    return effects


def class_intervals(
    jobs: tuple[Job, ...],  # noqa: ARG001
    outputs: tuple[Floats, ...],
    classes: tuple[Ints, ...],
    link: str | None,
) -> list[tuple[Floats, Floats, Floats]]:
    """Return effects and their intervals, of each job of a unit and the classes (n,) of its hypotheses."""
    return [class_interval(one, of_job, link) for one, of_job in zip(outputs, classes, strict=True)]
