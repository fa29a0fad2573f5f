"""The start of a run: look at the model, refuse what can be refused, fit, check the sampler on rows of its own kind."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.draw.items import TableItems
from butfor.core.draw.samplers import FitsSubsets
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.outputs import Target, averaged_target, linked
from butfor.core.evaluate.probe import Probe, probe
from butfor.core.evaluate.workplace import Tolerance
from butfor.core.result.controlled import Control
from butfor.core.select.choice import Choice
from butfor.core.select.reach import largest_family, reach
from butfor.core.test.decision import Decision
from butfor.core.test.flips import Flips
from butfor.core.test.outcomes import Outcomes, ReadModel
from butfor.core.test.picking import Picked
from butfor.core.test.statistic import StatisticSpec
from butfor.core.types import Bools, InputError, Ints, ReachWarning
from butfor.core.warn import warn_user
from butfor.engine.choose import worker_states
from butfor.engine.journal import Journal
from butfor.run.choosing import choice_of, cluster_of
from butfor.run.context import RunContext
from butfor.run.control import control
from butfor.run.decisions import decided_otherwise, watch_decisions
from butfor.run.progress import Meter, Progress, Report
from butfor.run.provenance import least_p
from butfor.run.settings import Settings
from butfor.run.skipping import Patient, usable
from butfor.run.targets import output_names, resolve, target_name


@dataclass(frozen=True, eq=False)
class Start:
    """What is known before the test: the statistic, the model's outputs on the inputs, the control, the choice."""

    problem: Problem
    seen: Probe
    spec: StatisticSpec
    target: object
    names: tuple[Any, ...] | None
    flips: Flips | None
    plain: Evaluator
    meter: Meter
    inside: ReadModel
    checked: Control | None
    choice: Choice
    averaged: Target  # what features are of
    otherwise: list[str]  # where the model decides by another rule than its largest output

    @property
    def notes(self) -> tuple[str, ...]:
        return (*([self.seen.odd] if self.seen.odd else []), *self.otherwise, *self.inside.notes)


def start_run(context: RunContext, settings: Settings, problem: Problem, kept: Journal, report: Report) -> Start:
    """Look at the model's outputs and refuse what can be refused; then what the control says of the sampler."""
    tolerance = Tolerance(settings.on_error == "skip", settings.timeout)
    model = kept.model if tolerance == Tolerance() else Patient(kept.model, tolerance)
    choice = choice_of(problem, settings, clusters_of_inputs(context, settings))
    size = settings.batch_rows or context.batch_rows
    able = usable(problem, kept.model, size, context.describe, tolerance)
    problem = able.problem
    seen = probe(model, problem.items, size, context.describe)
    spec, target, names = _asked(context, settings, seen)
    flips = watch_decisions(problem, settings, seen.outputs, decides=context.wrapped.decides)
    unasked = flips is None or settings.decide is not None or tolerance != Tolerance()
    otherwise = [] if unasked else decided_otherwise(context.wrapped, problem.items, seen.outputs, size)
    _fit(problem, report)
    _warn_of_reach(problem, settings, choice)
    meter = Meter(report, seen.rows + able.rows, partial(worker_states, kept.engine))
    plain = Evaluator(
        context.wrapped.call,
        size,
        seen.outputs.shape[1],
        meter,
        engine=kept.engine,
        tolerance=tolerance,
        failed=able.failed,
        remembered=model,
    )
    inside = ReadModel() if context.read_model is None else context.read_model(model, seen.outputs)
    if inside.rows:
        meter.count_evaluated(inside.rows)
    averaged = averaged_target(spec.target, seen.outputs, settings.link)
    decision = None if flips is None else flips.decision
    checked = _control(context, plain, spec, settings, meter, averaged, decision, inside.outcomes)
    choice = replace(choice, calibrated=_calibrated(problem, checked))
    return Start(problem, seen, spec, target, names, flips, plain, meter, inside, checked, choice, averaged, otherwise)


PATIENCE, LONG = 2.0, 300.0  # seconds of fitting after which it is seen how long it will take, and what is long
WIDE = 3_000_000  # columns of all subsets times columns of the table: from here on it takes minutes at least
INSTEAD = (
    "the control and the draws come after that; name fewer subsets (some columns, or groups of columns), or a sampler "
    "that is fitted once, such as butfor.tabular.gaussian(reference), with test='osft' where columns are thousands."
)
MAY_TAKE = "Fitting {sampler!r} to {count} subsets, each of their columns to all others, may take hours, and " + INSTEAD
TAKES = "Fitting {sampler!r} to {count} subsets takes about {minutes:.0f} minutes more, and " + INSTEAD


def _fit(problem: Problem, report: Report) -> None:
    """What the sampler fits for each subset, before anything is drawn: all that could be refused has been."""
    waiting = problem.sampler.unfitted(problem.subsets) if isinstance(problem.sampler, FitsSubsets) else ()
    if waiting and isinstance(problem.items, TableItems):
        columns = sum(len(subset.index) for subset in problem.subsets)
        if columns * problem.items.values.shape[1] > WIDE:
            warn_user(MAY_TAKE.format(sampler=problem.sampler, count=len(waiting)), UserWarning)
    began, seen = 0.0, False
    for done, fit in enumerate(waiting):
        report(Progress("fitting", done, len(waiting)))
        fit()
        if done == 0:
            began = time.monotonic()  # the first one may fit what all of them share
        elif not seen and (passed := time.monotonic() - began) > PATIENCE:
            seen, left = True, passed / done * (len(waiting) - done - 1)
            if left > LONG:
                told = TAKES.format(sampler=problem.sampler, count=len(waiting), minutes=left / 60)
                warn_user(told, UserWarning)
    if waiting:
        report(Progress("fitting", len(waiting), len(waiting)))


def _asked(
    context: RunContext, settings: Settings, seen: Probe
) -> tuple[StatisticSpec, object, tuple[Any, ...] | None]:
    """The statistic, the name of its target, and the names of the outputs: all that can be refused is refused here."""
    outputs = seen.outputs.shape[1]
    if outputs > 1 and settings.target is None and not context.wrapped.decides:
        raise InputError(f"the model predicts {outputs} numbers of each row; say which one is asked about: target=0")
    name, names = target_name(settings.target, outputs), output_names(context.wrapped, outputs)
    target = resolve(name, settings.y, seen.outputs, context.wrapped)
    return _statistic_spec(settings, name, target, seen, context), name, names


def _statistic_spec(
    settings: Settings, name: object, target: Target, seen: Probe, context: RunContext
) -> StatisticSpec:
    linked(seen.outputs, settings.link)  # refuses a link that does not fit, before anything is drawn
    aimed = name in ("predicted", "observed-class")
    alternative = settings.alternative or ("greater" if aimed else "two-sided")
    own_class = target.kind == "predicted" and settings.test.name in ("sequential", "irt") and settings.rule != "e-bh"
    center = settings.test.center_for(alternative, own_class)
    picked = None if settings.picked is None else Picked(settings.picked)
    if picked is not None and not (passed := picked.passes(seen.outputs)).all():
        row = int(np.flatnonzero(~passed)[0])
        raise InputError(f"picked does not pass {context.describe(row)}; explain only inputs that the rule has picked")
    margin = float(settings.min_effect or 0.0)
    return StatisticSpec(target, seen.rounding, alternative, settings.link, center, picked, margin, own_class)


def _warn_of_reach(problem: Problem, settings: Settings, choice: Choice) -> None:
    """The one limit that binds, before anything is drawn; weights reach further than it says, so there it is a note."""
    size = largest_family(choice.groups, problem.size)
    test, draws = settings.test, settings.draws_for(problem.size)
    steps = test.h if test.name == "sequential" else 1
    for sentence in reach(test.name, settings.rule, settings.alpha, size, draws, steps, least_p(problem)):
        if settings.rule != "adaptive" or "chooses nothing" in sentence:
            warn_user(sentence, ReachWarning)


def _control(
    context: RunContext,
    plain: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    meter: Meter,
    averaged: Target,
    decision: Decision | None,
    outcomes: Outcomes | None,
) -> Control | None:
    """The same test on rows of the reference's own kind; None where there are none, or where it is not wanted."""
    reference = context.reference
    labelled = spec.target.kind == "per-input"  # by labels that rows of the reference do not have
    if not settings.control or labelled or spec.picked is not None or reference is None or reference.controls is None:
        return None
    problems = reference.controls()
    if not problems:
        return None
    return control(problems, plain, spec, settings, meter, averaged, decision, outcomes)


def _calibrated(problem: Problem, checked: Control | None) -> Bools | None:
    """Of each hypothesis (H,), whether the control found nothing against its subset."""
    if checked is None or checked.calibrated is None or checked.calibrated.all():
        return None
    return np.asarray(checked.calibrated[problem.subset_of])


def clusters_of_inputs(context: RunContext, settings: Settings) -> Ints:
    """Equal for inputs (n,) that are equal, or that the user puts together."""
    names = context.problem.input_names
    return cluster_of(settings.groups, names, np.arange(len(names)) if context.alike is None else context.alike)
