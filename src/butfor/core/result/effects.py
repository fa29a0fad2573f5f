"""How large: observed minus mean counterfactual, from fresh draws, for chosen hypotheses only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.draw.blocks import Job, Problem
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.evaluate.outputs import Target, linked, pick
from butfor.core.test.contrast import Measure, gain, subset_place
from butfor.core.test.picking import Picked, accepted_outputs
from butfor.core.types import Bools, Floats, Ints


@dataclass(frozen=True)
class Effects:
    """Per hypothesis (H,): the effect and its 95 % interval; NaN where nothing was estimated."""

    effect: Floats
    low: Floats
    high: Floats


def no_effects(size: int) -> Effects:
    """Nothing was estimated."""
    return Effects(*(np.full(size, np.nan) for _ in range(3)))


def effects(
    problem: Problem,
    evaluator: Evaluator,
    link: str | None,
    chosen: Bools,
    classes: Ints,
    draws: int,
    picked: Picked | None = None,
) -> Effects:
    """Effects from `draws` new counterfactuals: the draws that selected a hypothesis would flatter it.

    Where inputs were picked by a rule, the counterfactuals are those that it would have picked too.
    """
    effect, low, high = (np.full(problem.size, np.nan) for _ in range(3))
    wanted = ((block, np.flatnonzero(chosen[block.rows])) for block in problem.blocks if chosen[block.rows].any())
    if picked is None:
        parts = evaluate(problem, evaluator, (Job(block, draws, "effect", keep=keep) for block, keep in wanted))
    else:
        parts = accepted_outputs(problem, evaluator, wanted, draws, picked, "effect")
    for job, outputs in parts:
        rows = job.rows
        values, _ = pick(outputs, Target("per-input", classes[rows]), np.arange(len(rows)))
        effect[rows], low[rows], high[rows] = interval(linked(values, link))
    return Effects(effect, low, high)


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


def mean_effects(
    problem: Problem,
    evaluator: Evaluator,
    measure: Measure,
    chosen: Bools,
    classes: Ints,
    draws: int,
    confidence: float = 0.95,
) -> Effects:
    """Mean effect over inputs of the chosen subsets and its t-interval over inputs, from `draws` fresh counterfactuals:
    those that selected a subset would flatter it."""
    from scipy.stats import t as student

    count = len(problem.items)
    gains = np.zeros((count, len(chosen)))
    jobs = [Job(block, draws, "effect") for block in problem.blocks if chosen[subset_place(problem, block)]]
    for job, outputs in evaluate(problem, evaluator, jobs):
        inputs, subset = job.block.start + job.members, subset_place(problem, job.block)
        values, _ = measure.values(outputs, inputs, classes[inputs, subset])
        gains[inputs, subset] = gain(values, measure)
    mean = gains[:, chosen].mean(axis=0)
    half = np.full(len(mean), np.nan)  # one input has no spread
    if count > 1:
        half = student.isf((1 - confidence) / 2, count - 1) * gains[:, chosen].std(axis=0, ddof=1) / np.sqrt(count)
    effect, low, high = (np.full(len(chosen), np.nan) for _ in range(3))
    effect[chosen], low[chosen], high[chosen] = mean, mean - half, mean + half
    return Effects(effect, low, high)
