"""How large: observed minus mean counterfactual, from fresh draws, for chosen hypotheses only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.calls import Calls, evaluate
from butfor.core.draws import Job, Problem
from butfor.core.outputs import Target, linked, pick
from butfor.core.picking import Picked, accepted_outputs
from butfor.core.types import Bools, Floats, Ints


@dataclass(frozen=True)
class Effects:
    """Per hypothesis (H,): the effect and its 95 % interval; NaN where nothing was estimated."""

    effect: Floats
    low: Floats
    high: Floats


def no_effects(size: int) -> Effects:
    return Effects(*(np.full(size, np.nan) for _ in range(3)))


def effects(
    problem: Problem,
    calls: Calls,
    link: str | None,
    chosen: Bools,
    classes: Ints,
    draws: int,
    picked: Picked | None = None,
) -> Effects:
    """Effects from `draws` new counterfactuals: the draws that selected a hypothesis would flatter it.

    Where inputs were picked by a rule, the counterfactuals are those that it would have picked too.
    """
    found = no_effects(problem.size)
    wanted = ((block, np.flatnonzero(chosen[block.rows])) for block in problem.blocks if chosen[block.rows].any())
    if picked is None:
        parts = evaluate(problem, calls, (Job(block, draws, "effect", keep=keep) for block, keep in wanted))
    else:
        parts = accepted_outputs(problem, calls, wanted, draws, picked, "effect")
    for job, outputs in parts:
        rows = job.rows
        values, _ = pick(outputs, Target("per-input", classes[rows]), np.arange(len(rows)))
        found.effect[rows], found.low[rows], found.high[rows] = interval(linked(values, link))
    return found


def interval(values: Floats, confidence: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Effect, low and high from values (n, 1 + draws): a t-interval for the mean of the draws.

    Draws with fewer than five distinct values (a threshold, a vote) get the empirical Bernstein bound of Maurer &
    Pontil 2009 over the range seen instead: there the t-interval is too short.
    """
    from scipy.stats import t as student

    observed, null = values[:, 0], values[:, 1:]
    count = null.shape[1]
    effect = observed - null.mean(axis=1)
    deviation = null.std(axis=1, ddof=1)
    half = student.isf((1 - confidence) / 2, count - 1) * deviation / np.sqrt(count)
    gaps = np.diff(np.sort(null, axis=1), axis=1) > 1e-9 * np.ptp(values, axis=1, keepdims=True)  # more than rounding
    few = gaps.sum(axis=1) + 1 < 5
    log = np.log(4 / (1 - confidence))
    bernstein = deviation * np.sqrt(2 * log / count) + 7 * np.ptp(values, axis=1) * log / (3 * (count - 1))
    half = np.where(few, bernstein, half)
    return effect, effect - half, effect + half
