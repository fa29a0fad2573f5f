"""The test that was asked for, from draws to evidence; then the selection and the effects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Problem, round_sizes
from butfor.evaluation.progress import Meter
from butfor.evaluation.samplers import info_of
from butfor.inference.adaptive import LEAST_BLOCKS, PILOT
from butfor.inference.effects import Effects, effects, no_effects
from butfor.inference.exact import Outcomes, exact, known_outcomes, split_listed
from butfor.inference.few_shot import few_shot
from butfor.inference.irt import early_stop, irt, soft_rank
from butfor.inference.osft import osft
from butfor.inference.selection import COMPETITIONS, Choice, LearningUnits
from butfor.inference.sequential import Stopping, sequential
from butfor.inference.statistics import (
    Evidence,
    Found,
    StatisticSpec,
    check_drawable,
    give_up,
    merged_evidence,
    not_drawn,
)
from butfor.results.result import drops_unvarying, family_members
from butfor.results.summary import reach_of_layers, reach_of_list, scales
from butfor.settings import Settings
from butfor.types import Bools, Floats, InputError, Ints, distinct, labels_of

EFFECT_DRAWS = {"sequential": 200, "irt": 200, "osft": 16, "few-shot": 16}
BOUND_ALPHA, DEEP_DRAWS = 0.05, 10_000  # how small p-values of chosen hypotheses are made for bounds, at most
INTERRUPTED = (
    "Interrupted: {left} hypotheses are still open. What is chosen stands: these p-values are valid whenever drawing "
    "stops."
)


@dataclass(frozen=True, eq=False)
class Performed:
    """What a test found, how its hypotheses are chosen, what is to be said, and whether it was interrupted."""

    evidence: Evidence
    choice: Choice
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def perform(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    choice: Choice,
    meter: Meter,
    stage: str | None = None,
    known: Iterable[Found] = (),
    outcomes: Outcomes | None = None,
) -> Performed:
    """The test; `known` is evidence on hypotheses that need no drawing, and whose blocks are not in the problem.

    What `outcomes` knows of the others is not drawn, either.
    """
    test, draws = settings.test, settings.draws_for(problem.size)
    total = spec.center + draws
    fixed = test.name != "sequential" and not test.early_stop and spec.picked is None and evaluator.memory is None
    rows = problem.size * (total + len(round_sizes(total, problem.round_draws)))
    meter.stage(stage or test.name, rows if fixed else None)
    notes: list[str] = []
    interrupted = False
    if test.name == "osft":
        evidence = osft(problem, evaluator, spec)
    elif test.name == "few-shot":
        evidence, spread = few_shot(problem, evaluator, spec, draws, shrunk=test.scale == "shrunk")
        notes += scales(spread, problem.subset_of, problem.subset_names) if test.scale is None else []
    elif settings.rule == "e-bh":
        evidence = soft_rank(problem, evaluator, spec, draws)
    else:
        evidence, choice, interrupted = _p_values(problem, evaluator, spec, settings, choice, meter, known, outcomes)
        if problem.layers is not None and problem.layers.stepwise and test.name == "sequential" and not interrupted:
            notes += reach_of_layers(problem.layers.resolution, evidence.draws, evidence.open, draws)
        if problem.layers is None:
            notes += reach_of_list(int(choice.chosen(evidence.least, evidence.drawable).sum()), evidence.least)
    evidence = give_up(evidence, evaluator.untested(problem.size))
    if interrupted:
        notes.append(INTERRUPTED.format(left=int(evidence.open.sum())))
    if spec.picked is not None and spec.picked.tally.drawn:
        rate = spec.picked.tally.accepted / spec.picked.tally.drawn
        notes.append(f"{rate:.1%} of the counterfactuals drawn passed picked; the others were rejected.")
        notes += check_drawable(evidence.drawable)
    return Performed(evidence, choice, tuple(notes), interrupted)


def _p_values(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    choice: Choice,
    meter: Meter,
    known: Iterable[Found],
    outcomes: Outcomes | None,
) -> tuple[Evidence, Choice, bool]:
    """p-values, and whether drawing was interrupted; where parts wait for the larger ones, one resolution at a time."""
    layers = problem.layers
    if layers is None or not layers.stepwise:
        return _drawn(problem, evaluator, spec, settings, choice, meter, known, outcomes)
    evidence, chosen = None, np.zeros(problem.size, bool)
    for level in np.unique(layers.resolution):
        now = (layers.resolution == level) & layers.reached(chosen)
        if evidence is not None and not now.any():
            continue
        some = replace(problem, blocks=tuple(block for block in problem.blocks if now[block.rows[0]]))
        meter.stage(f"{settings.test.name}, resolution {level}", None)
        found, choice, interrupted = _drawn(
            some, evaluator, spec, settings, choice, meter, [not_drawn(np.flatnonzero(~now))], None
        )
        evidence = found if evidence is None else merged_evidence(evidence, found, now)
        chosen = choice.chosen(evidence.scaled, _members(evidence, settings, problem))
        meter.set_chosen(int(chosen.sum()))
        if interrupted:
            return evidence, choice, True
    assert evidence is not None
    return evidence, choice, False


def _drawn(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    choice: Choice,
    meter: Meter,
    known: Iterable[Found],
    outcomes: Outcomes | None,
) -> tuple[Evidence, Choice, bool]:
    """p-values, exact where all outcomes are known or listed, else by drawing; and whether that was interrupted."""
    test, draws = settings.test, settings.draws_for(problem.size)
    if outcomes is not None:
        told, unknown = outcomes.split(problem)
        known = chain(known, known_outcomes(problem, evaluator, spec, told, outcomes))
        problem = replace(problem, blocks=tuple(unknown))
    listed, others = split_listed(problem)
    rest = replace(problem, blocks=tuple(others))
    sure = chain(known, exact(problem, evaluator, spec, listed))
    chooser = _Chooser(choice)
    if test.name == "sequential":
        cap = draws * 20 if spec.picked is not None else draws  # most draws may be rejected
        weighted = choice.rule == "adaptive"
        deep = max(BOUND_ALPHA / problem.size, test.h / (test.h + DEEP_DRAWS)) if settings.bounds else 1.0
        learn = chooser.learn if weighted else None
        stepwise = problem.layers is not None and problem.layers.stepwise  # parts are few, and their family is large
        at_best = choice.in_families if stepwise else None
        waits = chooser.waiting if problem.layers is not None else None
        pilot = PILOT if weighted else 0
        stopping = Stopping(test.h, cap, chooser, deep, pilot, learn, meter.set_left, at_best, waits)
        evidence, interrupted = sequential(rest, evaluator, spec, stopping, meter.set_chosen_rows, sure)
        return evidence, chooser.choice, interrupted
    if test.early_stop:
        drops = drops_unvarying(settings.rule, settings.family, len(problem.input_names))
        found = early_stop(rest, evaluator, spec, draws, test.delta, chooser, meter.set_chosen_rows, sure, drops=drops)
        return found, choice, False
    return irt(rest, evaluator, spec, draws, sure), choice, False


class _Chooser:
    """What a sequential run rejects so far; weights are learned once, from its pilot."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice

    def __call__(self, p: Floats, among: Bools | None = None) -> Bools:
        """What is chosen so far."""
        return self.choice.chosen(p, np.ones(len(p), bool) if among is None else among)

    def waiting(self, p: Floats, among: Bools, chosen: Bools) -> Bools:
        return self.choice.waiting(p, among, chosen)

    def learn(self, p: Floats, among: Bools) -> None:
        self.choice = self.choice.after_pilot(p, among)


def chosen_by(problem: Problem, settings: Settings, done: Performed) -> Bools:
    """The selection (H,)."""
    return done.choice.chosen(done.evidence.scaled, _members(done.evidence, settings, problem))


def _members(evidence: Evidence, settings: Settings, problem: Problem) -> Bools:
    return family_members(evidence, settings.rule, settings.family, len(problem.input_names))


def estimated(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    evidence: Evidence,
    wanted: Bools,
    settings: Settings,
    meter: Meter,
) -> tuple[Effects, list[str]]:
    """Effects of the hypotheses wanted; an interruption costs them, not the result."""
    if not wanted.any():
        return no_effects(problem.size), []
    draws = EFFECT_DRAWS[settings.test.name]
    known = spec.picked is None and evaluator.memory is None
    meter.stage("effects", int(wanted.sum()) * (draws + 1) if known else None)
    try:
        return effects(problem, evaluator, spec.link, wanted, evidence.classes, draws, spec.picked), []
    except KeyboardInterrupt:
        return no_effects(problem.size), ["Interrupted while effects were estimated: there are none."]


def choice_of(problem: Problem, settings: Settings, clusters: Ints, calibrated: Bools | None = None) -> Choice:
    """How hypotheses of this run are chosen; `clusters` (n,) of inputs, `calibrated` (H,)."""
    count = len(distinct(clusters))
    if settings.rule == "adaptive-strict" and count < LEAST_BLOCKS:
        raise InputError(
            f"rule='adaptive-strict' needs at least {LEAST_BLOCKS} independent inputs (or groups), got {count}; use "
            "rule='adaptive' or 'bh'"
        )
    return Choice(
        rule=settings.rule,
        alpha=settings.alpha,
        families=problem.input_of if settings.family == "input" else None,
        layers=problem.layers,
        calibrated=calibrated,
        draws=settings.draws_for(problem.size),
        floor=floors_of(problem) if settings.rule in COMPETITIONS else None,
        units=LearningUnits(clusters[problem.input_of], _labels(problem, settings.weights_by)),
    )


def floors_of(problem: Problem) -> Floats | None:
    """The share of null values of each hypothesis (H,) that lie beyond all that the sampler draws; None: nowhere."""
    floor = info_of(problem.sampler).floor
    known = {id(subset): floor(subset) for subset in problem.subsets}
    if not any(known.values()):
        return None
    found = np.zeros(problem.size)
    for block in problem.blocks:
        found[block.rows] = known[id(block.subset)]
    return found


def cluster_of(groups: object, names: Sequence[Any], alike: Ints) -> Ints:
    """The cluster of every input (n,): those that the user puts together, and those that are equal (`alike`, (n,))."""
    if groups is None:
        return alike
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if isinstance(groups, Mapping):
        labels = [groups.get(name) for name in names]
    else:
        labels = labels_of("groups", groups, "input")
    if len(labels) != len(names):
        raise InputError(f"groups has {len(labels)} labels for {len(names)} inputs; give one for each input")
    if any(map(_is_missing, labels)):
        raise InputError("groups has no label for some inputs; give one for each input")
    known = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    named = np.array([known[label] for label in labels]) + int(alike.max(initial=0)) + 1
    size = int(named.max(initial=0)) + 1
    joined = coo_array((np.ones(len(named)), (alike, named)), shape=(size, size))
    return np.asarray(connected_components(joined, directed=False)[1][alike], np.int64)


def _is_missing(label: object) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # of pandas' NA, which is neither
        return True


def _labels(problem: Problem, weights_by: object) -> Ints:
    """What hypotheses have in common over inputs (H,): their subset, or a label that the user gives each of them."""
    if weights_by is None:
        return problem.subset_of
    if callable(weights_by):
        names, subsets = problem.input_names, problem.subset_names
        pairs = zip(problem.input_of, problem.subset_of, strict=True)
        labels = [_label(weights_by, names[i], subsets[j]) for i, j in pairs]
    else:
        labels = labels_of("weights_by", weights_by, "hypothesis")
    if len(labels) != problem.size:
        raise InputError(
            f"weights_by has {len(labels)} labels for {problem.size} hypotheses; give one for each row of "
            "result.table, or a function (input, subset) -> label"
        )
    known = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return np.array([known[label] for label in labels], np.int64)


def _label(weights_by: Callable[[Any, str], object], name: object, subset: str) -> object:
    """What the user's function says of one hypothesis."""
    try:
        label = weights_by(name, subset)
        hash(label)
    except Exception as error:  # any error of the user's function, and a label that cannot be one
        raise InputError(
            f"weights_by raised {type(error).__name__} on input {name!r}, subset {subset!r}: {error}; give a function "
            "(input, subset) -> label, a number or a string"
        ) from error
    return label
