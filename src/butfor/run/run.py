"""One run, whatever the inputs are: a problem and a model -> the test, the selection, the effects, the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor._version import __version__
from butfor.core.draw.blocks import NO_CHANCE, Problem, always_alike, round_sizes
from butfor.core.draw.chance import Watch
from butfor.core.draw.samplers import info_of
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.memory import remembering
from butfor.core.evaluate.outputs import Target, linked
from butfor.core.evaluate.probe import Probe, probe
from butfor.core.result.kept import Keeper
from butfor.core.result.result import Result
from butfor.core.select.reach import largest_family, reach, reach_of_sampler
from butfor.core.test.picking import Picked
from butfor.core.test.sequential import batches
from butfor.core.test.statistic import StatisticSpec
from butfor.core.types import Bools, InputError, ReachWarning
from butfor.engine.journal import journal
from butfor.models import Wrapped
from butfor.run.perform import chosen_by, estimated, families, perform
from butfor.run.progress import Meter, reporting, warn_user
from butfor.run.settings import Settings
from butfor.run.targets import output_names, resolve, target_name


@dataclass(frozen=True, eq=False)
class RunContext:
    """What a modality brings to a run: the problem, the model, how inputs are named, what is to be said of Q."""

    problem: Problem
    wrapped: Wrapped
    model_name: str
    batch_rows: int
    describe: Callable[[int], str]  # names an input in an error
    sampler_notes: Callable[[], list[str]]  # sentences on the sampler and the inputs; asked once, when all is drawn
    metadata: dict[str, Any]  # for the provenance
    keep: tuple[int, int]  # counterfactuals of each hypothesis that are kept for reports, and the values of all


def run(context: RunContext, settings: Settings) -> Result:
    """The whole way from a problem to its result."""
    wrapped = context.wrapped
    problem = _with_chance(context.problem, settings)
    _warn_of_reach(problem, settings)
    size = settings.batch_rows or context.batch_rows
    with (
        journal(wrapped.call, settings.run_dir, context.model_name) as kept,
        reporting(settings.progress) as report,
    ):
        seen = probe(kept.model, problem.items, size, context.describe)
        outputs = seen.outputs.shape[1]
        name, names = target_name(settings.target, outputs), output_names(wrapped, outputs)
        spec = _statistic_spec(settings, name, resolve(name, settings.y, seen.outputs, wrapped), seen, context)
        drawn = _drawn(problem, settings, spec)
        count, room = context.keep if settings.picked is None else (0, 0)  # the rule rejects some of what is drawn
        meter, keeper = Meter(report, seen.rows), Keeper(problem, count, drawn["set_aside"], room)
        memory = remembering(problem, seen.outputs, again=settings.test.name in ("irt", "sequential"))
        evaluator = Evaluator(kept.model, size, outputs, meter, memory, keeper)
        evidence, notes, interrupted = perform(problem, evaluator, spec, settings, meter)
        if problem.watch is not None and problem.watch.is_degenerate:
            raise InputError(NO_CHANCE.format(sampler=problem.sampler))
        chosen = chosen_by(problem, settings, evidence)
        meter.set_chosen(int(chosen.sum()))
        wanted = evidence.drawable & (settings.effects == "all") | chosen & (settings.effects is not None)
        wanted &= not interrupted
        found, messages = estimated(problem, evaluator, spec, evidence, wanted, settings, meter)
        messages += _notes(context)
    if not interrupted:
        kept.finish()
    provenance = _provenance(problem, settings, spec, name) | drawn | context.metadata
    provenance |= {"interrupted": interrupted, "deterministic": _is_degenerate(problem, settings, chosen)}
    return Result(
        input_names=problem.input_names,
        subset_names=problem.subset_names,
        input_of=problem.input_of,
        subset_of=problem.subset_of,
        evidence=evidence,
        effects=found,
        chosen=chosen,
        alpha=settings.alpha,
        rule=settings.rule,
        family=settings.family,
        rows=meter.rows,
        rows_asked=meter.asked,
        problem=replace(problem, watch=None),
        outputs=seen.outputs,
        kept=keeper.kept(),
        run_notes=(*([seen.odd] if seen.odd else []), *notes, *messages),
        provenance=provenance,
        output_names=names,
    )


def _notes(context: RunContext) -> list[str]:
    """What the modality and the sampler have to say; a fault there costs the notes, not the run."""
    try:
        return context.sampler_notes()
    except KeyboardInterrupt:
        return []
    except Exception as error:  # a user's sampler may raise anything
        return [f"There are no notes on the sampler: making them raised {type(error).__name__}: {error}."]


def _warn_of_reach(problem: Problem, settings: Settings) -> None:
    size = largest_family(families(problem, settings), problem.size)
    test, draws = settings.test, settings.draws_for(problem.size)
    steps = test.h if test.name == "sequential" else 1
    sentences = reach(test.name, settings.rule, settings.alpha, size, draws, steps)
    if test.name in ("irt", "sequential") and settings.rule != "e-bh" and not sentences:
        sentences = reach_of_sampler(settings.rule, settings.alpha, size, _floor(problem))
    for sentence in sentences:
        warn_user(sentence, ReachWarning)


def _with_chance(problem: Problem, settings: Settings) -> Problem:
    """A sampler that always draws the same has no null to compare with: only the paper's one-shot test may use it.

    Some say so of themselves; others are found out as they draw.
    """
    if settings.test.name == "osft":
        return problem
    if info_of(problem.sampler).deterministic:
        raise InputError(NO_CHANCE.format(sampler=problem.sampler))
    return replace(problem, watch=Watch(problem.items.costly))


def _is_degenerate(problem: Problem, settings: Settings, chosen: Bools) -> bool:
    """Whether Q is a single point, so that nothing is promised; of other tests than osft it is known not to be."""
    if settings.test.name != "osft":
        return False
    return info_of(problem.sampler).deterministic or (bool(chosen.any()) and always_alike(problem))


def _floor(problem: Problem) -> float:
    """The least p-value that the sampler itself allows: the median over subsets."""
    floor = info_of(problem.sampler).floor
    return float(np.median([floor(subset) for subset in problem.subsets]))


def _statistic_spec(
    settings: Settings, name: object, target: Target, seen: Probe, context: RunContext
) -> StatisticSpec:
    linked(seen.outputs, settings.link)  # refuses a link that does not fit, before anything is drawn
    aimed = name in ("predicted", "observed-class")
    alternative = settings.alternative or ("greater" if aimed else "two-sided")
    if settings.test.early_stop and target.kind == "predicted":
        raise InputError("early_stop needs a fixed target, since 'predicted' looks at all draws; give target=")
    center = settings.test.center_for(alternative, target.kind == "predicted")
    picked = None if settings.picked is None else Picked(settings.picked)
    if picked is not None and not (passed := picked.passes(seen.outputs)).all():
        row = int(np.flatnonzero(~passed)[0])
        raise InputError(f"picked does not pass {context.describe(row)}; explain only inputs that the rule has picked")
    return StatisticSpec(target, seen.rounding, alternative, settings.link, center, picked)


def _drawn(problem: Problem, settings: Settings, spec: StatisticSpec) -> dict[str, Any]:
    """How the draws of a hypothesis come: in rounds of which sizes, and how many of them are set aside."""
    draws = settings.draws_for(problem.size)
    if settings.test.name == "sequential":
        first = min(next(batches(settings.test.h, draws)), problem.round_draws)  # the others are other rounds
        return {"draws": draws, "rounds": [first], "set_aside": 0}
    sizes = round_sizes(spec.center + draws, problem.round_draws)
    return {"draws": draws, "rounds": sizes, "set_aside": spec.center}


def _provenance(problem: Problem, settings: Settings, spec: StatisticSpec, target: object) -> dict[str, Any]:
    """What is needed to say again how the result came about."""
    test = settings.test
    return {
        "version": __version__,
        "test": test.name,
        "alternative": spec.alternative,
        "target": target,
        "link": settings.link,
        "center": spec.center,
        "h": test.h if test.name == "sequential" else None,
        "delta": test.delta if test.early_stop else None,
        "scale": test.scale,
        "picked": settings.picked is not None,
        "seed": settings.seed,
        "selection": [settings.rule, settings.alpha, settings.family],
        "sampler": repr(problem.sampler),
        "floor": _floor(problem),
        "dependence_ignored": info_of(problem.sampler).ignores_dependence,
    }
