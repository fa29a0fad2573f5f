"""One run, whatever the inputs are: a problem and a model -> the test, the selection, the effects, the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.memory import remembering
from butfor.core.evaluate.probe import Probe, outputs_of
from butfor.core.result.decided import Decided
from butfor.core.result.effects import Effects
from butfor.core.result.features import LEAST_INPUTS, Features, features
from butfor.core.result.first_draws import Estimates, FirstDraws
from butfor.core.result.kept import Keeper, Kept
from butfor.core.result.result import Result
from butfor.core.select.reach import called_alike, looks_picked
from butfor.core.test.evidence import Found
from butfor.core.test.statistic import StatisticSpec
from butfor.core.test.whole import ranked_whole
from butfor.core.types import Bools, Floats
from butfor.engine.choose import engine_for
from butfor.engine.journal import journal
from butfor.run.chance import check_chance, with_chance
from butfor.run.context import RunContext
from butfor.run.decisions import decide, sufficiency
from butfor.run.manifest import manifest
from butfor.run.perform import Performed, chosen_by, estimated, perform
from butfor.run.progress import reporting
from butfor.run.provenance import provenance, schedule
from butfor.run.reading import known_rows, with_estimates
from butfor.run.settings import Settings
from butfor.run.skipping import skipped_note, untested_rows, without
from butfor.run.start import Start, clusters_of_inputs, start_run


def run(context: RunContext, settings: Settings) -> Result:
    """The whole way from a problem to its result: look, check, draw, choose, estimate, decide."""
    told, engine = partial(_told, context, settings), engine_for(settings.workers)
    answers = journal(engine, context.wrapped.call, settings.run_dir, told)
    with answers as kept, reporting(settings.progress) as report:
        start = start_run(context, settings, with_chance(context.problem, settings), kept, report)
        problem = start.problem
        drawn = schedule(problem, settings, start.spec)
        first = FirstDraws(problem.size, start.spec.target, settings.link, start.spec.rounding, start.averaged)
        keeper = _keeper(context, settings, drawn["set_aside"])
        memory = remembering(problem, start.seen.outputs, again=settings.test.name in ("irt", "sequential"))
        watching = (keeper, first) if start.flips is None else (keeper, first, start.flips)
        evaluator = replace(start.plain, memory=memory, seen=watching)
        whole = _reference_outputs(context, evaluator, start.spec)
        known, rest = _whole(context, problem, evaluator, start.spec, start.seen, whole)
        outcomes, meter = start.inside.outcomes, start.meter
        sure = known_rows(rest, outcomes)
        done = perform(rest, evaluator, start.spec, settings, start.choice, meter, known=known, outcomes=outcomes)
        check_chance(problem)
        estimates = without(first.estimates(), evaluator.untested(problem.size))
        found = _answers(context, settings, start, evaluator, done, estimates, sure)
        notes = [*skipped_note(evaluator.failed, problem.size), *_looks_picked(start, whole), *_notes(context)]
        interrupted = done.interrupted or found.interrupted
        drawn |= {} if interrupted else _judged(context, problem, keeper.kept())
        if not interrupted:
            kept.finish()
    return Result(
        input_names=problem.input_names,
        subset_names=problem.subset_names,
        input_of=problem.input_of,
        subset_of=problem.subset_of,
        evidence=done.evidence,
        alpha=settings.alpha,
        rule=settings.rule,
        family=settings.family,
        rows=meter.rows,
        rows_asked=meter.asked,
        problem=replace(context.problem, watch=None),
        outputs=start.seen.outputs,
        kept=keeper.kept(),
        provenance=_said(context, settings, start, found.chosen, interrupted) | drawn | _exact(rest, sure),
        output_names=start.names,
        choice=done.choice,
        control=start.checked,
        effects=found.effects,
        chosen=found.chosen,
        decided=found.decided,
        over_inputs=found.over_inputs,
        run_notes=(*start.notes, *done.notes, *found.notes, *notes),
    )


def _told(context: RunContext, settings: Settings) -> dict[str, str]:
    """What tells this run from others, where it has a run directory."""
    reference = None if context.reference is None else context.reference.items
    return manifest(context.problem, context.model_name, context.batch_rows, settings, reference)


def _said(context: RunContext, settings: Settings, start: Start, chosen: Bools, interrupted: bool) -> dict[str, Any]:
    """The provenance of a result."""
    metadata = context.metadata
    if context.reference is not None and context.reference.controls is not None:
        metadata = {"controlled": start.checked is not None or (None if settings.control else False)} | metadata
    metadata = untested_rows(start.plain.failed) | metadata
    return provenance(
        context.problem, settings, start.spec, start.target, chosen, interrupted=interrupted, metadata=metadata
    )


def _exact(rest: Problem, sure: Bools) -> dict[str, int]:
    """How many hypotheses were not drawn: those that are `sure` (H,), and those that are not in `rest`."""
    left = sum(len(block.rows) for block in rest.blocks)
    return {"exact": int(sure.sum()) + rest.size - left} if sure.any() else {}


@dataclass(frozen=True, eq=False)
class Answers:
    """What follows from the evidence: the choice, effects, decisions, and every subset over all inputs."""

    chosen: Bools
    effects: Effects
    decided: Decided | None
    over_inputs: Features | None
    notes: tuple[str, ...]
    interrupted: bool  # while effects were estimated


def _answers(
    context: RunContext,
    settings: Settings,
    start: Start,
    evaluator: Evaluator,
    done: Performed,
    estimates: Estimates,
    sure: Bools,
) -> Answers:
    """The choice, and what is estimated once it is made; an interrupted run gives what it has.

    Effects of hypotheses that are `sure` (H,), all of whose outcomes are known, need no fresh draws.
    """
    problem, spec, flips, checked, meter = start.problem, start.spec, start.flips, start.checked, start.meter
    untested = evaluator.untested(problem.size)
    chosen = chosen_by(problem, settings, done)
    chosen[untested] = False
    meter.set_chosen(int(chosen.sum()))
    wanted = chosen & (settings.effects is not None) & (not done.interrupted)
    found, messages = estimated(problem, evaluator, spec, done.evidence, wanted & ~sure, settings, meter)
    interrupted = bool(messages)
    if settings.effects == "all":
        found = with_estimates(found, estimates, wanted & ~sure, sure)
    elif (wanted & sure).any():
        found = with_estimates(found, estimates, ~(wanted & sure), wanted & sure)
    enough = len(problem.items) >= LEAST_INPUTS  # for features
    unused = flips is None and not enough
    fit = None if context.reference is None or unused else context.reference.fit(problem)
    decided = over_inputs = None
    if flips is not None and not done.interrupted and not interrupted:
        watching = replace(evaluator, memory=None, seen=(flips,))
        off = None
        if checked is not None and checked.verified is not None:
            off = partial(checked.verified.off, problem, flips.decision(start.seen.outputs))
        decided = decide(problem, watching, flips, settings, fit, meter, off)
        if settings.sufficient:
            again = None if context.reference is None else context.reference.fit
            decided = replace(decided, stay=sufficiency(problem, watching, flips.decision, settings, again, meter))
    if not done.interrupted and context.reference is not None and settings.picked is None and enough:
        clusters = clusters_of_inputs(context, settings)
        known = (None, None) if checked is None else (checked.calibrated, checked.off)
        over_inputs = features(problem, estimates, fit, settings.alpha, clusters, *known)
    if decided is not None and untested.size:
        decided = replace(decided, necessary=decided.necessary & ~np.isin(np.arange(problem.size), untested))
    return Answers(chosen, found, decided, over_inputs, tuple(messages), interrupted)


def _keeper(context: RunContext, settings: Settings, set_aside: int) -> Keeper:
    """Keeps counterfactuals for reports; none where inputs were picked: the rule rejects some of what is drawn."""
    count, room = context.keep if settings.picked is None else (0, 0)
    return Keeper(count, set_aside, room)


def _reference_outputs(context: RunContext, evaluator: Evaluator, spec: StatisticSpec) -> Floats | None:
    """What the model says of whole rows of the reference (m, outputs); None where nobody needs it."""
    reference = context.reference
    if reference is None or reference.root is None or spec.picked is not None:
        return None
    outputs = outputs_of(
        evaluator.direct, reference.items, evaluator.batch_rows, lambda row: f"row {row} of the reference"
    )
    evaluator.counter.count_evaluated(len(outputs))
    return outputs


def _whole(
    context: RunContext,
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    seen: Probe,
    outputs: Floats | None,
) -> tuple[list[Found], Problem]:
    """Evidence on whole inputs, from the reference's own outputs, and the problem that is left to be drawn."""
    reference = context.reference
    if reference is None or reference.root is None or outputs is None:
        return [], problem
    rows = reference.items.block(0, len(reference.items))
    name = problem.subset_names[reference.root]
    roots = [block for block in problem.blocks if block.subset.name == name]
    found = [
        part
        for block in roots
        for part in ranked_whole(problem, spec, block, seen.outputs, rows, outputs, partial(evaluator.show, problem))
    ]
    return found, replace(problem, blocks=tuple(block for block in problem.blocks if block.subset.name != name))


def _looks_picked(start: Start, reference: Floats | None) -> list[str]:
    """Whether inputs and reference are told apart by one threshold of the output (METHODS 0)."""
    spec, outputs = start.spec, start.seen.outputs
    if reference is None or spec.picked is not None or spec.target.kind == "per-input":
        return []
    if spec.target.kind == "predicted":
        called = outputs.argmax(axis=1)
        name = (start.names or range(outputs.shape[1]))[int(called[0])]
        return called_alike(called, reference.argmax(axis=1), name)
    place = 0 if spec.target.classes is None else int(spec.target.classes[0])
    one = "outputs" if outputs.shape[1] == 1 else f"outputs[:, {place}]"
    return looks_picked(outputs[:, place], reference[:, place], one, decided=start.flips is not None)


def _judged(context: RunContext, problem: Problem, kept: Kept) -> dict[str, str]:
    """What the modality says of the counterfactuals that were kept, for the promise; a fault there costs only that."""
    try:
        said = None if context.kept_notes is None else context.kept_notes(problem, kept)
    except Exception as error:  # what is looked at came from a user's sampler
        said = f"Whether the fills look real is not known: looking raised {type(error).__name__}: {error}."
    return {} if said is None else {"judged": said}


def _notes(context: RunContext) -> list[str]:
    """What the modality and the sampler have to say; a fault there costs the notes, not the run."""
    try:
        return context.sampler_notes()
    except KeyboardInterrupt:
        return []
    except Exception as error:  # a user's sampler may raise anything
        return [f"There are no notes on the sampler: making them raised {type(error).__name__}: {error}."]
