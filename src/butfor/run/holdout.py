"""The global tests of a run, from draws to one p-value per subset; their statistics are in `inference.holdout`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby

import numpy as np

from butfor.evaluation.evaluator import GROUP_VALUES, Evaluator
from butfor.evaluation.hypotheses import Block, Hypotheses, Job, sliced
from butfor.inference.effects import Effects, mean_interval
from butfor.inference.holdout import (
    GlobalEvidence,
    LabelScore,
    Measure,
    covariance_gaps,
    gain,
    merged_outputs,
    p_passes,
    pass_sums,
    rises,
)
from butfor.inference.irt import few_vary
from butfor.inference.statistics import Rounding, tail_statistic
from butfor.run.tests import Outcomes
from butfor.streams import stream
from butfor.types import Bools, Floats, Ints


def subset_of_block(hypotheses: Hypotheses, block: Block) -> int:
    """Return the number of a block's subset among all."""
    return int(hypotheses.subset_of[block.rows[0]])


def subset_parts(
    hypotheses: Hypotheses, evaluator: Evaluator, draws: int, blocks: Sequence[Block] | None = None
) -> Iterator[tuple[Job, Floats]]:
    """Yield inputs of blocks (None: all) with all outputs (n, 1 + draws, outputs), subset by subset, some at a time."""
    most = max(1, 64 * GROUP_VALUES // ((draws + 1) * evaluator.n_outputs))
    blocks = sorted(hypotheses.blocks if blocks is None else blocks, key=partial(subset_of_block, hypotheses))
    parts: list[Floats] = []
    for job, outputs in evaluator.outputs(hypotheses, sliced(blocks, draws, hypotheses.round_draws, most)):
        parts.append(outputs if not parts else outputs[:, 1:])
        if sum(part.shape[1] for part in parts) == draws + 1:
            yield job, np.concatenate(parts, axis=1)
            parts = []


def _by_subset(
    hypotheses: Hypotheses, evaluator: Evaluator, draws: int
) -> Iterator[tuple[int, Iterator[tuple[Job, Floats]]]]:
    parts = subset_parts(hypotheses, evaluator, draws)
    return groupby(parts, key=lambda part: subset_of_block(hypotheses, part[0].block))


def randomise(
    hypotheses: Hypotheses, evaluator: Evaluator, measure: Measure, draws: int, passes: int
) -> GlobalEvidence:
    """Test every subset, from `draws` counterfactuals of every input and `passes` recombinations of them."""
    size = len(hypotheses.subset_names)
    classes = np.zeros((len(hypotheses.items), size), np.int64)
    p, varied, statistic, difference = np.ones(size), np.zeros(size, bool), np.zeros(size), np.zeros(size)
    alive = np.zeros(len(hypotheses.items), bool)  # inputs of which anything varied
    for subset, parts in _by_subset(hypotheses, evaluator, draws):
        sums, slack = np.zeros(passes), 0.0
        for job, outputs in parts:
            values, classes[job.inputs, subset] = measure.values(outputs, job.inputs, None)
            wonder = tail_statistic(values, measure.alternative, values.mean(axis=1))  # symmetric in the versions
            gaps = wonder - wonder[:, :1]
            moved = (gaps != 0).any(axis=1)
            rng = stream(hypotheses.seed, job.block.subset.key, job.block.key, "passes", int(job.members[0]))
            sums += pass_sums(gaps[moved], passes, rng)
            slack += measure.relative * float(np.abs(wonder[moved]).max(axis=1).sum())
            statistic[subset] += float((wonder if measure.alternative == "two-sided" else values)[:, 0].sum())
            difference[subset] += float(gain(values, measure).sum()) / len(hypotheses.items)
            varied[subset] |= bool(moved.any())
            alive[job.inputs] |= moved
        p[subset] = p_passes(sums, slack)
    return GlobalEvidence(p, varied | few_vary(alive), statistic, difference, classes, draws, passes)


def randomise_covariance(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    measure: Measure,
    score: LabelScore,
    rounding: Rounding,
    rest: Callable[[int, Floats, Floats], Floats],
    draws: int,
    passes: int,
    gated: Bools,
) -> GlobalEvidence:
    """Test every subset with a fitted sampler; `statistic` and `difference` are those of the loss, for show.

    Where `gated` (S,), p = 1 unless the loss of averaged predictions rises, too.
    `rest` takes a subset, labels less predictions (n, C) and predictions, and returns what is left of the labels.
    """
    size = len(hypotheses.subset_names)
    p, varied, statistic, difference = np.ones(size), np.zeros(size, bool), np.zeros(size), np.zeros(size)
    alive = np.zeros(len(hypotheses.items), bool)  # inputs of which anything varied
    for subset, parts in _by_subset(hypotheses, evaluator, draws):
        predicted: list[Floats] = []
        for job, outputs in parts:
            values, _ = measure.values(outputs, job.inputs, None)
            statistic[subset] += float(values[:, 0].sum())
            difference[subset] += float(gain(values, measure).sum()) / len(hypotheses.items)
            predicted.append(score.predicted(merged_outputs(outputs, rounding)))
        versions = np.concatenate(predicted)
        gaps = covariance_gaps(versions, score, partial(rest, subset))
        moved = (gaps != 0).any(axis=1)
        varied[subset] = bool(moved.any())
        alive |= moved
        sums = pass_sums(gaps[moved], passes, stream(hypotheses.seed, hypotheses.subsets[subset].key, "passes"))
        if not gated[subset] or rises(versions, score):
            p[subset] = p_passes(sums, measure.relative * float(np.abs(gaps).max(axis=1, initial=0).sum()))
    classes = np.zeros((len(hypotheses.items), size), np.int64)
    return GlobalEvidence(p, varied | few_vary(alive), statistic, difference, classes, draws, passes)


@dataclass(frozen=True, eq=False)
class Deviations:
    """Of each input and subset (n, S): its value minus the mean of its draws', and the variance of its draws'."""

    gain: Floats
    spread: Floats
    classes: Ints
    statistic: Floats  # (S,) observed sum
    varied: Bools  # (S,) False: no draw of any input ever changed anything, in a run where many inputs vary


def deviations(
    hypotheses: Hypotheses, evaluator: Evaluator, measure: Measure, draws: int, outcomes: Outcomes | None = None
) -> Deviations:
    """Return how far every input is from `draws` counterfactuals of it: what METHODS 7 needs of a fitted sampler.

    Of what `outcomes` knows, mean and variance are those of the sampler itself, and nothing is drawn.
    """
    known, drawn = ([], hypotheses.blocks) if outcomes is None else outcomes.split(hypotheses)
    count, size = len(hypotheses.items), len(hypotheses.subset_names)
    gains, spread, classes = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size), np.int64)
    statistic, varied, alive = np.zeros(size), np.zeros(size, bool), np.zeros(count, bool)
    parts = ((job, outputs, None) for job, outputs in subset_parts(hypotheses, evaluator, draws, drawn))
    for job, outputs, share in chain([] if outcomes is None else _listed(hypotheses, outcomes, known), parts):
        inputs, subset = job.inputs, subset_of_block(hypotheses, job.block)
        values, classes[inputs, subset] = measure.values(outputs, inputs, None)
        if share is None:
            gains[inputs, subset] = gain(values, measure)
            spread[inputs, subset] = values[:, 1:].var(axis=1, ddof=1)
        else:
            gaps = values[:, :1] - values[:, 1:]
            mean = (share * gaps).sum(axis=1)
            gains[inputs, subset] = measure.sign * mean
            spread[inputs, subset] = (share * (gaps - mean[:, None]) ** 2).sum(axis=1)
        statistic[subset] += float(values[:, 0].sum())
        moved = (values != values[:, :1]).any(axis=1)
        varied[subset] |= bool(moved.any())
        alive[inputs] |= moved
    return Deviations(gains, spread, classes, statistic, varied | few_vary(alive))


def _listed(
    hypotheses: Hypotheses, outcomes: Outcomes, blocks: Sequence[Block]
) -> Iterator[tuple[Job, Floats, Floats]]:
    """Inputs with the outputs (n, 1 + m, outputs) of all that may be drawn, the observed first, and its chances (n, m).

    What cannot be drawn is as observed: it must have no say in which class is tested, nor in what is rounded.
    """
    for batch, outputs in outcomes.listed(hypotheses, blocks):
        mass = batch.mass
        assert mass is not None
        seen = np.concatenate([np.ones((len(mass), 1), bool), mass > 0], axis=1)
        share = mass / np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        yield batch.job, np.where(seen[:, :, None], outputs, outputs[:, :1]), share


def mean_effects(
    hypotheses: Hypotheses,
    evaluator: Evaluator,
    measure: Measure,
    chosen: Bools,
    classes: Ints,
    draws: int,
) -> Effects:
    """Return mean effects over inputs of the chosen subsets from fresh draws: those that chose one would flatter it."""
    gains = np.zeros((len(hypotheses.items), len(chosen)))
    jobs = [Job(block, draws, "effect") for block in hypotheses.blocks if chosen[subset_of_block(hypotheses, block)]]
    for job, outputs in evaluator.outputs(hypotheses, jobs):
        subset = subset_of_block(hypotheses, job.block)
        values, _ = measure.values(outputs, job.inputs, classes[job.inputs, subset])
        gains[job.inputs, subset] = gain(values, measure)
    return mean_interval(gains, chosen)
