"""What every modality shares: a problem and a model -> the test, the selection, the effects, the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from butfor._arguments import Asked
from butfor._edge import Meter, remembering
from butfor._progress import Progress, reporting
from butfor._targets import output_names, resolve, target_name
from butfor._version import __version__
from butfor.core import procedures, selection
from butfor.core.calls import Calls, Dress
from butfor.core.chance import Watch
from butfor.core.diagnostics import largest_family, reach, reach_of_list, reach_of_sampler, scales
from butfor.core.draws import NO_CHANCE, Problem, always_alike, round_sizes
from butfor.core.early_stop import early_stop as stop_early
from butfor.core.effects import Effects, effects, no_effects
from butfor.core.exact import exact, split_listed
from butfor.core.outputs import Probe, Target, linked, probe
from butfor.core.picking import Picked, check_drawable
from butfor.core.procedures import Evidence, Question
from butfor.core.result import Result, family_members
from butfor.core.sequential import Stopping, batches, sequential
from butfor.core.types import Batch, Bools, Floats, InputError, Ints, ReachWarning
from butfor.engine.journal import journal
from butfor.models import Wrapped

EFFECT_DRAWS = {"sequential": 200, "irt": 200, "osft": 16, "few-shot": 16}


@dataclass(frozen=True, eq=False)
class Setting:
    """What a modality brings to a run: the problem, the model, how inputs are named and shown, what it says of Q."""

    problem: Problem
    wrapped: Wrapped
    model_name: str
    batch_rows: int
    describe: Callable[[int], str]  # names an input in an error
    show: Callable[[Batch], Batch]  # counterfactuals as the user would write them
    look: Callable[[], list[str]]  # sentences on the sampler
    facts: dict[str, Any]  # for the provenance
    dress: Dress | None = None  # rows of a matrix as the model is given them
    view: Callable[[Result], Any] | None = None  # what the modality adds to a report


def run(
    setting: Setting,
    asked: Asked,
    *,
    target: Any,
    y: Any,
    progress: bool | Callable[[Progress], None] | None,
    keep_effects: bool,
    run_dir: str | Path | None = None,
) -> Result:
    """The whole way from a problem to its result; `run_dir` keeps the model's answers until the run is done."""
    wrapped = setting.wrapped
    problem = _with_chance(setting.problem, asked)
    _warn_of_reach(problem, asked)
    size = asked.batch_rows or setting.batch_rows
    with journal(wrapped.call, run_dir, setting.model_name) as kept, reporting(progress) as report:
        seen = probe(kept.model, problem.inputs, size, setting.describe, setting.dress)
        observed = seen.outputs
        name, outputs = target_name(target, observed.shape[1]), output_names(wrapped, observed.shape[1])
        question = _question(asked, name, resolve(name, y, observed, wrapped), seen, setting)
        meter = Meter(report, seen.rows)
        memory = remembering(problem, observed, again=asked.test in ("irt", "sequential"))
        calls = Calls(kept.model, size, observed.shape[1], meter.tick, memory, meter.ask, setting.dress, meter.spare)
        evidence, notes, interrupted = _run(problem, calls, question, asked, meter)
        if problem.watch is not None and problem.watch.point:
            raise InputError(NO_CHANCE.format(sampler=problem.sampler))
        chosen = _select(problem, asked, evidence)
        meter.tell(int(chosen.sum()))
        wanted = chosen & (keep_effects and not interrupted)
        found, told = _effects(problem, calls, question, evidence, wanted, asked, meter)
    if not interrupted:
        kept.finish()
    return Result(
        input_names=problem.input_names,
        subset_names=problem.subset_names,
        input_of=problem.input_of,
        subset_of=problem.subset_of,
        evidence=evidence,
        effects=found,
        chosen=chosen,
        alpha=asked.alpha,
        rule=asked.rule,
        family=asked.family,
        rows=meter.rows,
        rows_asked=meter.asked,
        problem=replace(problem, watch=None),
        show=setting.show,
        run_notes=(*([seen.odd] if seen.odd else []), *notes, *told),
        look=setting.look,
        provenance=_provenance(problem, asked, question, name)
        | setting.facts
        | {"interrupted": interrupted, "deterministic": _is_point(problem, asked, chosen)},
        output_names=outputs,
        view=setting.view,
    )


def _families(problem: Problem, asked: Asked) -> Ints | None:
    return problem.input_of if asked.family == "input" else None


def _warn_of_reach(problem: Problem, asked: Asked) -> None:
    size = largest_family(_families(problem, asked), problem.size)
    steps = asked.h if asked.test == "sequential" else 1
    said = reach(asked.test, asked.rule, asked.alpha, size, asked.draws_for(problem.size), steps)
    if asked.test in ("irt", "sequential") and asked.rule != "e-bh" and not said:
        said = reach_of_sampler(asked.rule, asked.alpha, size, _floor(problem))
    for sentence in said:
        warnings.warn(sentence, ReachWarning, stacklevel=4)


def _with_chance(problem: Problem, asked: Asked) -> Problem:
    """A sampler that always draws the same has no null to compare with: only the paper's one-shot test may use it.

    Some say so of themselves; others are found out as they draw.
    """
    if asked.test == "osft":
        return problem
    if getattr(problem.sampler, "deterministic", False):
        raise InputError(NO_CHANCE.format(sampler=problem.sampler))
    return replace(problem, watch=Watch())


def _is_point(problem: Problem, asked: Asked, chosen: Bools) -> bool:
    """Whether Q is a single point, so that nothing is promised; of other tests than osft it is known not to be."""
    if asked.test != "osft":
        return False
    return bool(getattr(problem.sampler, "deterministic", False)) or (bool(chosen.any()) and always_alike(problem))


def _floor(problem: Problem) -> float:
    """The least p-value that the sampler itself allows: the median over subsets."""
    floor = getattr(problem.sampler, "floor", None)
    if floor is None:
        return 0.0
    subsets = {id(block.subset): block.subset for block in problem.blocks}.values()
    return float(np.median([floor(subset) for subset in subsets]))


def _question(asked: Asked, name: Any, target: Target, seen: Probe, setting: Setting) -> Question:
    linked(seen.outputs, asked.link)  # refuses a link that does not fit, before anything is drawn
    aimed = name in ("predicted", "observed-class")
    alternative = asked.alternative or ("greater" if aimed else "two-sided")
    if asked.early_stop and target.kind == "predicted":
        raise InputError("early_stop needs a fixed target, since 'predicted' looks at all draws; give target=")
    center = asked.center_for(alternative, target.kind == "predicted")
    picked = None if asked.picked is None else Picked(asked.picked)
    if picked is not None and not (passed := picked.passes(seen.outputs)).all():
        row = int(np.flatnonzero(~passed)[0])
        raise InputError(f"picked does not pass {setting.describe(row)}; explain only inputs that the rule has picked")
    return Question(target, seen.rounding, alternative, asked.link, center, picked)


def _run(
    problem: Problem, calls: Calls, question: Question, asked: Asked, meter: Meter
) -> tuple[Evidence, list[str], bool]:
    """The test that was asked for: its evidence, what is to be said about it, and whether it was interrupted."""
    draws = asked.draws_for(problem.size)
    total = question.center + draws
    known = asked.test != "sequential" and not asked.early_stop and question.picked is None and calls.memory is None
    meter.stage(asked.test, problem.size * (total + len(round_sizes(total, problem.round_draws))) if known else None)
    notes: list[str] = []
    interrupted = False
    if asked.test == "osft":
        evidence = procedures.osft(problem, calls, question)
    elif asked.test == "few-shot":
        evidence, spread = procedures.few_shot(problem, calls, question, draws, shrunk=asked.scale == "shrunk")
        notes += scales(spread, problem.subset_of, problem.subset_names) if asked.scale is None else []
    elif asked.rule == "e-bh":
        evidence = procedures.soft_rank(problem, calls, question, draws)
    else:
        evidence, interrupted, notes = _p_values(problem, calls, question, asked, meter)
    if interrupted:
        notes.append(INTERRUPTED.format(left=int(evidence.open.sum())))
    if question.picked is not None and question.picked.tally.drawn:
        rate = question.picked.tally.accepted / question.picked.tally.drawn
        notes.append(f"{rate:.1%} of the counterfactuals drawn passed picked; the others were rejected.")
        notes += check_drawable(evidence.drawable)
    return evidence, notes, interrupted


INTERRUPTED = (
    "Interrupted: {left} hypotheses are still open. What is chosen stands: these p-values are valid whenever drawing "
    "stops."
)


def _p_values(
    problem: Problem, calls: Calls, question: Question, asked: Asked, meter: Meter
) -> tuple[Evidence, bool, list[str]]:
    """p-values, exact where the sampler lists its support, else by drawing; whether that was interrupted; notes."""
    draws = asked.draws_for(problem.size)
    listed, others = split_listed(problem)
    rest, least = replace(problem, blocks=tuple(others)), np.zeros(problem.size)
    first = partial(exact, problem, calls, question, listed, least)
    interrupted = False
    if asked.test == "sequential":
        cap = draws * 20 if question.picked is not None else draws  # most draws may be rejected
        stopping = Stopping(asked.h, cap, asked.alpha, asked.rule, _families(problem, asked))
        evidence, interrupted = sequential(rest, calls, question, stopping, meter.tell, first)
    elif asked.early_stop:
        choose = partial(_choose, problem, asked)
        evidence = stop_early(rest, calls, question, draws, asked.delta, choose, meter.tell, first)
    else:
        evidence = procedures.irt(rest, calls, question, draws)
        first(evidence)
    return evidence, interrupted, reach_of_list(int(_choose(problem, asked, least).sum()), least)


def _choose(problem: Problem, asked: Asked, p: Floats) -> Bools:
    return selection.select(p, asked.alpha, asked.rule, np.ones(len(p), bool), _families(problem, asked))


def _select(problem: Problem, asked: Asked, evidence: Evidence) -> Bools:
    tested, draws = (
        family_members(evidence, asked.rule, asked.family, len(problem.input_names)),
        asked.draws_for(problem.size),
    )
    return selection.select(evidence.scaled, asked.alpha, asked.rule, tested, _families(problem, asked), draws)


def _effects(
    problem: Problem, calls: Calls, question: Question, evidence: Evidence, wanted: Bools, asked: Asked, meter: Meter
) -> tuple[Effects, list[str]]:
    """Effects of the hypotheses wanted; an interruption costs them, not the result."""
    if not wanted.any():
        return no_effects(problem.size), []
    draws = EFFECT_DRAWS[asked.test]
    known = question.picked is None and calls.memory is None
    meter.stage("effects", int(wanted.sum()) * (draws + 1) if known else None)
    try:
        return effects(problem, calls, question.link, wanted, evidence.classes, draws, question.picked), []
    except KeyboardInterrupt:
        return no_effects(problem.size), ["Interrupted while effects were estimated: there are none."]


def _provenance(problem: Problem, asked: Asked, question: Question, name: Any) -> dict[str, Any]:
    """What is needed to say again how the result came about."""
    draws = asked.draws_for(problem.size)
    if asked.test == "sequential":
        sizes, aside = [next(batches(asked.h, draws))], 0
    else:
        sizes, aside = round_sizes(question.center + draws, problem.round_draws), question.center
    return {
        "version": __version__,
        "test": asked.test,
        "alternative": question.alternative,
        "target": name,
        "link": asked.link,
        "center": question.center,
        "h": asked.h if asked.test == "sequential" else None,
        "delta": asked.delta if asked.early_stop else None,
        "scale": asked.scale,
        "picked": asked.picked is not None,
        "draws": draws,
        "rounds": sizes,
        "set_aside": aside,
        "seed": asked.seed,
        "selection": [asked.rule, asked.alpha, asked.family],
        "sampler": repr(problem.sampler),
        "floor": _floor(problem),
        "dependence_ignored": bool(getattr(problem.sampler, "ignores_dependence", False)),
    }
