"""The test that was asked for, from draws to evidence; then the selection and the effects."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from butfor.core.draw.blocks import Problem, round_sizes
from butfor.core.evaluate.batches import Evaluator
from butfor.core.result.effects import Effects, effects, no_effects
from butfor.core.result.table import family_members
from butfor.core.select.reach import reach_of_list, scales
from butfor.core.select.rules import select
from butfor.core.test.early_stop import early_stop
from butfor.core.test.evidence import Evidence
from butfor.core.test.exact import exact, split_listed
from butfor.core.test.few_shot import few_shot
from butfor.core.test.irt import irt, soft_rank
from butfor.core.test.osft import osft
from butfor.core.test.picking import check_drawable
from butfor.core.test.sequential import Stopping, sequential
from butfor.core.test.statistic import StatisticSpec
from butfor.core.types import Bools, Floats, Ints
from butfor.run.progress import Meter
from butfor.run.settings import Settings

EFFECT_DRAWS = {"sequential": 200, "irt": 200, "osft": 16, "few-shot": 16}
INTERRUPTED = (
    "Interrupted: {left} hypotheses are still open. What is chosen stands: these p-values are valid whenever drawing "
    "stops."
)


def families(problem: Problem, settings: Settings) -> Ints | None:
    """The family of each hypothesis (H,); None: one for all."""
    return problem.input_of if settings.family == "input" else None


def perform(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, settings: Settings, meter: Meter
) -> tuple[Evidence, list[str], bool]:
    """The test: its evidence, what is to be said about it, and whether it was interrupted."""
    test, draws = settings.test, settings.draws_for(problem.size)
    total = spec.center + draws
    known = test.name != "sequential" and not test.early_stop and spec.picked is None and evaluator.memory is None
    meter.stage(test.name, problem.size * (total + len(round_sizes(total, problem.round_draws))) if known else None)
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
        evidence, interrupted = _p_values(problem, evaluator, spec, settings, meter)
        notes += reach_of_list(int(_rejected(problem, settings, evidence.least).sum()), evidence.least)
    if interrupted:
        notes.append(INTERRUPTED.format(left=int(evidence.open.sum())))
    if spec.picked is not None and spec.picked.tally.drawn:
        rate = spec.picked.tally.accepted / spec.picked.tally.drawn
        notes.append(f"{rate:.1%} of the counterfactuals drawn passed picked; the others were rejected.")
        notes += check_drawable(evidence.drawable)
    return evidence, notes, interrupted


def _p_values(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, settings: Settings, meter: Meter
) -> tuple[Evidence, bool]:
    """p-values, exact where the sampler lists its support, else by drawing; and whether that was interrupted."""
    test, draws = settings.test, settings.draws_for(problem.size)
    listed, others = split_listed(problem)
    rest, known = replace(problem, blocks=tuple(others)), exact(problem, evaluator, spec, listed)
    choose = partial(_rejected, problem, settings)
    if test.name == "sequential":
        cap = draws * 20 if spec.picked is not None else draws  # most draws may be rejected
        return sequential(rest, evaluator, spec, Stopping(test.h, cap, choose), meter.set_chosen, known)
    if test.early_stop:
        return early_stop(rest, evaluator, spec, draws, test.delta, choose, meter.set_chosen, known), False
    return irt(rest, evaluator, spec, draws, known), False


def _rejected(problem: Problem, settings: Settings, p: Floats, among: Bools | None = None) -> Bools:
    """What the rule rejects at these p-values, of those that there are."""
    among = np.ones(len(p), bool) if among is None else among
    return select(p, settings.alpha, settings.rule, among, families(problem, settings))


def chosen_by(problem: Problem, settings: Settings, evidence: Evidence) -> Bools:
    """The selection (H,)."""
    tested = family_members(evidence, settings.rule, settings.family, len(problem.input_names))
    draws = settings.draws_for(problem.size)
    return select(evidence.scaled, settings.alpha, settings.rule, tested, families(problem, settings), draws)


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
