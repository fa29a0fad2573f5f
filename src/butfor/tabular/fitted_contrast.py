"""Contrast with a sampler that was fitted on a reference: the fit's own error is counted (METHODS 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.evaluate.batches import Evaluator
from butfor.core.evaluate.probe import Probe, probe
from butfor.core.result.effects import Effects
from butfor.core.result.features import LEAST_INPUTS, LEAST_ROWS, Fit, features
from butfor.core.result.first_draws import Estimates
from butfor.core.test.contrast import GlobalEvidence, Measure, deviations
from butfor.core.test.outcomes import Outcomes
from butfor.core.types import Alternative, Floats, InputError, Ints
from butfor.tabular.fit import fit_of
from butfor.tabular.splice import TableSampler

LEAST_DRAWS = 32  # of each input


def fit_known(problem: Problem) -> bool:
    """Whether the sampler is known to be fitted on a reference."""
    return isinstance(problem.sampler, TableSampler) and problem.sampler.reference is not None


def enough_inputs(alike: Ints) -> bool:
    """Whether there are so many different inputs that a mean over them is nearly normal."""
    return len(np.unique(alike)) >= LEAST_INPUTS


def fit_on_enough(problem: Problem) -> Fit:
    """How well the sampler is known; refused where its reference is too small to tell."""
    fit = fit_of(problem)
    assert fit is not None
    if fit.rows < LEAST_ROWS:
        raise InputError(
            f"the reference has {fit.rows} rows, too few to tell how far off a sampler fitted on them is; give at "
            f"least {LEAST_ROWS}, or a sampler of your own that is right"
        )
    return replace(fit, mean_leverage=np.maximum(fit.mean_leverage, 1 / fit.rows))  # a mean of m rows at the least


def by_student(
    problem: Problem,
    evaluator: Evaluator,
    measure: Measure,
    fit: Fit,
    alike: Ints,
    draws: int,
    outcomes: Outcomes | None = None,
    off: Floats | None = None,
) -> tuple[GlobalEvidence, Effects]:
    """p-values and effects with intervals of all subsets; equal inputs (`alike`, (n,)) count as one.

    `off` (S,) is how far rows of the reference's own kind are from their draws on average.
    """
    found = deviations(problem, evaluator, measure, draws, outcomes)
    gain, spread = found.gain.reshape(-1), found.spread.reshape(-1)  # hypotheses stand input by input
    over = features(problem, Estimates(gain, gain, gain, gain, spread), fit, 0.5, alike, off=off)
    assert over is not None  # there are enough inputs and rows
    p = np.where(found.varied, one_sided(over.p, over.effect, measure.alternative), 1.0)
    evidence = GlobalEvidence(p, found.varied, found.statistic, over.effect, found.classes, draws, passes=0)
    return evidence, Effects(over.effect, over.low, over.high)


def off_by(
    problems: Sequence[Problem],
    evaluator: Evaluator,
    measure_of: Callable[[Probe], Measure],
    draws: int,
    outcomes: Outcomes | None,
) -> Floats | None:
    """How far rows that their samplers have not seen are from their draws on average (S,); None: there are none."""
    found = []
    for problem in problems:
        seen = probe(evaluator.direct, problem.items, evaluator.batch_rows, partial(_row_named, problem))
        evaluator.counter.count_evaluated(seen.rows)
        apart = replace(evaluator, memory=None, failed={})  # hypotheses of its own
        found.append(deviations(problem, apart, measure_of(seen), draws, outcomes).gain)
    return np.concatenate(found).mean(axis=0) if found else None


def _row_named(problem: Problem, row: int) -> str:
    """What a row of the reference is called in an error."""
    return f"row {problem.input_names[row]!r} of the reference"


def one_sided(p: Floats, effect: Floats, alternative: Alternative) -> Floats:
    """p-values of one direction from two-sided ones: the law is symmetric.

    >>> one_sided(np.array([0.02, 0.02]), np.array([1.0, -1.0]), "greater")
    array([0.01, 0.99])
    """
    if alternative == "two-sided":
        return p
    agrees = effect > 0 if alternative == "greater" else effect < 0
    return np.where(agrees, p / 2, 1 - p / 2)
