"""The negative control of a run: rows of the reference's own kind go through the same test (METHODS 15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from butfor.evaluation.calls import probe
from butfor.evaluation.evaluator import Evaluator, Watcher
from butfor.evaluation.hypotheses import Hypotheses
from butfor.evaluation.progress import Meter
from butfor.inference.decisions import Decision
from butfor.inference.effects import mean_known
from butfor.inference.selection import COMPETITIONS, Choice, LearningUnits, layers_of_table
from butfor.inference.statistics import StatisticSpec, Target
from butfor.results.result import Control
from butfor.run.tests import Outcomes, choice_of, floors_of, perform
from butfor.run.watchers import DecisionChances, FirstDraws
from butfor.settings import Settings, sequential
from butfor.types import Bools, Floats

LEVEL = 0.01  # of calling any good subset wrong, over all of them
TAILS = (0.05, 0.1)  # where control p-values are counted


def control(
    controls: Sequence[Hypotheses],
    evaluator: Evaluator,
    spec: StatisticSpec,
    settings: Settings,
    meter: Meter,
    averaged: Target,
    decision: Decision | None = None,
    outcomes: Outcomes | None = None,
) -> Control:
    """The test on rows that their samplers have not seen; one hypotheses for each sampler, with the same subsets.

    `averaged` is what features are of, which are told by how much these rows are off on average; a `decision` is told
    whether its chances come true. A subset whose control p-values are too often small (binomial, all subsets together
    at .01) is not calibrated.
    """
    quiet = _quiet(settings)
    stopping = replace(quiet, rule="bh") if quiet.rule == "adaptive" else quiet  # weights need all rows together
    subsets = len(controls[0].subset_names)
    parts, gains, forecasts, decisions = [], [], [], []
    for hypotheses in controls:
        choice = choice_of(hypotheses, stopping, np.arange(len(hypotheses.items)))
        seen = probe(
            evaluator.direct, hypotheses.items, evaluator.batch_rows, lambda row: f"row {row} of the reference"
        )
        meter.count_evaluated(seen.rows)
        control_spec = replace(spec, picked=None, rounding=seen.rounding)
        first = FirstDraws(hypotheses.size, spec.target, settings.link, seen.rounding, averaged)
        watching: tuple[Watcher, ...] = (first,)
        if decision is not None:
            forecasts.append(DecisionChances(hypotheses.size, decision))
            decisions.append(decision(seen.outputs))
            watching = (first, forecasts[-1])
        apart = replace(evaluator, failed={}, watchers=watching)  # hypotheses of its own
        done = perform(hypotheses, apart, control_spec, stopping, choice, meter, "control", outcomes=outcomes)
        if done.interrupted:
            raise KeyboardInterrupt  # nothing is decided yet that could be returned
        parts.append(done.evidence)
        gains.append(first.estimates().gain.reshape(-1, subsets))
    evidence = np.concatenate([part.scaled for part in parts])
    tested = np.concatenate([part.drawable for part in parts])
    chosen = _pooled(controls[0], quiet, len(evidence) // subsets).chosen(evidence, tested).reshape(-1, subsets)
    values = evidence.reshape(-1, subsets)
    off = mean_known(np.concatenate(gains))
    verified = None
    if forecasts:
        verified = DecisionChances.forecasts(forecasts, np.concatenate(decisions), subsets)
    return Control(values, chosen, calibrated(values) if parts[0].kind == "p" else None, off, verified)


def _quiet(settings: Settings) -> Settings:
    """The settings of the run for rows of the reference: not picked, all together, with the fewest model rows."""
    rule = "adaptive" if settings.rule == "adaptive-strict" else settings.rule  # of fewer rows than that needs
    test, draws = settings.test, settings.draws
    if test.name == "irt" and rule != "e-bh":  # the same p-values at a fraction of the rows
        test, draws = sequential(center=test.center), None
    return replace(
        settings, test=test, draws=draws, picked=None, family="run", weights_by=None, rule=rule, bounds=False
    )


def _pooled(hypotheses: Hypotheses, settings: Settings, rows: int) -> Choice:
    """The choice over all control rows together, whichever sampler they had."""
    layers = hypotheses.layers
    if layers is not None:
        size = len(hypotheses.subset_names)
        layers = layers_of_table(layers.resolution[:size], layers.parent[:size], rows)
    floor = floors_of(hypotheses) if settings.rule in COMPETITIONS else None
    return Choice(
        rule=settings.rule,
        alpha=settings.alpha,
        layers=layers,
        draws=settings.draws_for(hypotheses.size),
        floor=None if floor is None else np.tile(floor[: len(hypotheses.subset_names)], rows),
        units=LearningUnits(
            np.repeat(np.arange(rows), len(hypotheses.subset_names)),
            np.tile(hypotheses.subset_of[: len(hypotheses.subset_names)], rows),
        ),
    )


def calibrated(p: Floats) -> Bools:
    """Subsets (S,) whose control p-values (n, S) are not too often small.

    >>> calibrated(np.full((50, 1), 0.01)).tolist(), calibrated(np.linspace(0, 1, 50)[:, None]).tolist()
    ([False], [True])
    """
    count, subsets = p.shape
    tails = [_at_least(count, tail)[(p <= tail).sum(axis=0)] for tail in TAILS]
    return np.asarray(len(TAILS) * np.min(tails, axis=0) > LEVEL / subsets)


def _at_least(count: int, chance: float) -> Floats:
    """P(X >= k) for k = 0 to count, X binomial; scipy.special has it, and takes longer to import than this run takes.

    >>> _at_least(2, 0.5).round(9).tolist()
    [1.0, 0.75, 0.25]
    """
    steps = np.arange(1, count + 1)
    ways = np.cumsum(np.log((count + 1 - steps) / steps))  # log of count over k
    logs = count * np.log1p(-chance) + np.concatenate([[0.0], ways + steps * np.log(chance / (1 - chance))])
    return np.asarray(np.exp(logs)[::-1].cumsum()[::-1])
