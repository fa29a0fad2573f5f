"""One p-value per subset over all inputs: the observed sum against sums in which every input's version is redrawn.

Why p is exactly valid at every number of draws K >= 1, of passes B >= 1 and of inputs. Under the null the K + 1
versions of an input (itself and its draws) are exchangeable given the rest of it and its label, independently from
input to input. So, given the unordered sets of versions, which version of an input was observed is uniform on them:
the observed sum is one draw of sum_i v[i, c_i] with c_i uniform on 0..K. A pass is another such draw, *with the
observed version among those it may take*. Observed and passes are then B + 1 independent draws from one law, and
p = (1 + #{passes at least as surprising}) / (B + 1) has P(p <= u) <= u; ties count against us. It is the Monte-Carlo
test of the group of permutations within inputs, the identity included (Hemerik & Goeman 2018, Theorem 2; the statistic
is that of Tansey et al. 2018). Passes put together from the K draws alone are *not* valid: at K = 1 they are all one
and the same, and p = 1 / (B + 1) half of the time. Full passes, B fresh draws of every input, are valid too but cost
B rows an input.

Holdout test for a sampler that was fitted: does the prediction move with what is left of the label?

The loss of a label y splits into a part that goes with y and one that does not. Squared: (y - f)^2 = (y - m)^2 -
2 (y - m)(f - m) + (f - m)^2 with m the mean of f over the K + 1 versions of an input. Only the middle part tells
whether y follows the feature; the last one grows with the spread of the draws, whatever y does, so that a Q that is a
little too wide looks like skill. The same holds of the log loss, with log-probabilities for f. So the statistic is
sum_i r_i (f_i - m_i), r the label less m and less its regression on the rest of the row: a Q whose mean is a little off
does harm only as far as that regression is off as well (after the generalised covariance measure of Shah & Peters
2020). r is a function of labels, rests of rows and unordered versions, so with the true Q p is exactly valid, as in
`contrast`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any

import numpy as np

from butfor.evaluation.evaluator import GROUP_VALUES, Evaluator, evaluate
from butfor.evaluation.hypotheses import Block, Job, Problem, sliced
from butfor.evaluation.streams import stream
from butfor.inference.exact import Outcomes
from butfor.inference.outputs import Rounding, Target, linked, pick
from butfor.inference.statistics import tail_statistic
from butfor.types import Alternative, Bools, Floats, InputError, Ints

Loss = Callable[[Ints, Floats], Floats]  # inputs (n,), outputs (n, versions, outputs) -> losses (n, versions)


def squared(y: Floats) -> Loss:
    """(y - output)^2 for a model with one output.

    >>> squared(np.array([1.0, 5.0]))(np.array([1]), np.array([[[5.0], [3.0]]]))
    array([[0., 4.]])
    """
    return lambda inputs, outputs: np.asarray((outputs[:, :, 0] - y[inputs][:, None]) ** 2)


def log(labels: Ints) -> Loss:
    """-log of the probability of the label; a single output is the probability of label 1.

    A probability of 0 counts as the smallest one that 1 - p can tell from it, as in scikit-learn.
    """

    def loss(inputs: Ints, outputs: Floats) -> Floats:
        label = labels[inputs][:, None]
        if outputs.shape[2] == 1:
            likely = np.where(label == 1, outputs[:, :, 0], 1 - outputs[:, :, 0])
        else:
            likely = np.take_along_axis(outputs, label[:, :, None], axis=2)[:, :, 0]
        return np.asarray(-np.log(np.maximum(likely, np.finfo(np.float64).eps)))

    return loss


def own(function: Callable[[Any, Any], Any], y: np.ndarray[Any, Any]) -> Loss:
    """A user's `function(y, outputs) -> (n,)`; it sees one output as (n,), several as (n, outputs)."""

    def loss(inputs: Ints, outputs: Floats) -> Floats:
        count, versions, width = outputs.shape
        rows = outputs.reshape(count * versions, width)
        found = np.asarray(function(np.repeat(y[inputs], versions, axis=0), rows[:, 0] if width == 1 else rows))
        if found.shape != (count * versions,) or found.dtype.kind not in "fiub":
            raise InputError(
                f"loss returned {found.dtype} values of shape {found.shape} for {count * versions} rows; expected "
                f"({count * versions},): one number per row, not their mean"
            )
        if not np.isfinite(found).all():
            raise InputError(f"loss returned {found[~np.isfinite(found)][0]}; expected finite numbers: clip them")
        return found.astype(np.float64).reshape(count, versions)

    return loss


CHUNK = 2**20  # choices of a version that are held at once
SNAP = 2.0**-32  # settled values are exact to 33 bits


@dataclass(frozen=True)
class Measure:
    """What is summed over inputs: one number per version, which direction is surprising, and the sign of its effect."""

    values: Callable[[Floats, Ints, Ints | None], tuple[Floats, Ints]]  # outputs, inputs, classes -> values, classes
    alternative: Alternative
    sign: int  # effect = sign * (observed - mean draw)
    relative: float = SNAP  # rounding of the values


@dataclass(frozen=True)
class GlobalEvidence:
    """What was found, one entry per subset."""

    p: Floats  # (S,)
    varied: Bools  # (S,) False: no draw of any input ever changed anything
    statistic: Floats  # (S,) observed sum
    difference: Floats  # (S,) mean effect on the very draws of the test: for show, not for inference
    classes: Ints  # (inputs, S) output that was tested
    draws: int
    passes: int


def holdout(loss: Loss, rounding: Rounding) -> Measure:
    """Holdout randomisation test (Tansey et al. 2018): a small loss on the observed inputs is surprising."""

    def values(outputs: Floats, inputs: Ints, _: Ints | None) -> tuple[Floats, Ints]:
        losses = loss(inputs, settled(outputs, rounding))
        exact = Rounding(64 * float(np.finfo(np.float64).eps), 0.0)
        return exact.merge_rounding_ties(losses), np.zeros(len(outputs), np.int64)

    return Measure(values, "less", -1, max(rounding.relative, SNAP))


def settled(outputs: Floats, rounding: Rounding) -> Floats:
    """Outputs (n, versions, outputs) in which draws that differ from the observed by rounding alone are equal to it."""
    count, versions, width = outputs.shape
    flat = rounding.merge_rounding_ties(outputs.transpose(0, 2, 1).reshape(count * width, versions))
    return flat.reshape(count, width, versions).transpose(0, 2, 1)


def contrast(target: Target, link: str | None, rounding: Rounding, alternative: Alternative) -> Measure:
    """Contrast with the foil Q (METHODS 7): outputs of the observed inputs against those of their counterfactuals."""

    def values(outputs: Floats, inputs: Ints, classes: Ints | None) -> tuple[Floats, Ints]:
        if classes is None:
            numbers, classes = pick(outputs, target, inputs)
        else:  # fresh draws for an effect keep the class that was tested
            numbers, _ = pick(outputs, Target("per-input", classes), np.arange(len(classes)))
        return linked(rounding.merge_rounding_ties(numbers), link), classes

    return Measure(values, alternative, 1, max(rounding.relative, SNAP))


def randomise(problem: Problem, evaluator: Evaluator, measure: Measure, draws: int, passes: int) -> GlobalEvidence:
    """The test of every subset, from `draws` counterfactuals of every input and `passes` recombinations of them."""
    size = len(problem.subset_names)
    classes = np.zeros((len(problem.items), size), np.int64)
    p, varied, statistic, difference = np.ones(size), np.zeros(size, bool), np.zeros(size), np.zeros(size)
    for subset, parts in groupby(
        subset_parts(problem, evaluator, draws), key=lambda part: subset_place(problem, part[0].block)
    ):
        sums, slack = np.zeros(passes), 0.0
        for job, outputs in parts:
            inputs = job.block.start + job.members
            values, classes[inputs, subset] = measure.values(outputs, inputs, None)
            wonder = tail_statistic(values, measure.alternative, values.mean(axis=1))  # symmetric in the versions
            gaps = wonder - wonder[:, :1]
            moved = (gaps != 0).any(axis=1)
            sums += pass_sums(gaps[moved], passes, _stream(problem, job))
            slack += measure.relative * float(np.abs(wonder[moved]).max(axis=1).sum())
            statistic[subset] += float((wonder if measure.alternative == "two-sided" else values)[:, 0].sum())
            difference[subset] += float(gain(values, measure).sum()) / len(problem.items)
            varied[subset] |= bool(moved.any())
        p[subset] = p_passes(sums, slack)
    return GlobalEvidence(p, varied, statistic, difference, classes, draws, passes)


@dataclass(frozen=True, eq=False)
class Deviations:
    """Of each input and subset (n, S): its value minus the mean of its draws', and the variance of its draws'."""

    gain: Floats
    spread: Floats
    classes: Ints
    statistic: Floats  # (S,) observed sum
    varied: Bools  # (S,) False: no draw of any input ever changed anything


def deviations(
    problem: Problem, evaluator: Evaluator, measure: Measure, draws: int, outcomes: Outcomes | None = None
) -> Deviations:
    """What METHODS 7 needs of a sampler that was fitted: how far every input is from `draws` counterfactuals of it.

    Of what `outcomes` knows, mean and variance are those of the sampler itself, and nothing is drawn.
    """
    known, drawn = ([], problem.blocks) if outcomes is None else outcomes.split(problem)
    count, size = len(problem.items), len(problem.subset_names)
    gained, spread, classes = np.zeros((count, size)), np.zeros((count, size)), np.zeros((count, size), np.int64)
    statistic, varied = np.zeros(size), np.zeros(size, bool)
    parts = ((job, outputs, None) for job, outputs in subset_parts(problem, evaluator, draws, drawn))
    for job, outputs, share in chain([] if outcomes is None else _listed(problem, outcomes, known), parts):
        inputs, subset = job.block.start + job.members, subset_place(problem, job.block)
        values, classes[inputs, subset] = measure.values(outputs, inputs, None)
        if share is None:
            gained[inputs, subset] = gain(values, measure)
            spread[inputs, subset] = values[:, 1:].var(axis=1, ddof=1)
        else:
            gaps = values[:, :1] - values[:, 1:]
            mean = (share * gaps).sum(axis=1)
            gained[inputs, subset] = measure.sign * mean
            spread[inputs, subset] = (share * (gaps - mean[:, None]) ** 2).sum(axis=1)
        statistic[subset] += float(values[:, 0].sum())
        varied[subset] |= bool((values != values[:, :1]).any())
    return Deviations(gained, spread, classes, statistic, varied)


def _listed(problem: Problem, outcomes: Outcomes, blocks: Sequence[Block]) -> Iterator[tuple[Job, Floats, Floats]]:
    """Inputs with the outputs (n, 1 + m, outputs) of all that may be drawn, the observed first, and its chances (n, m).

    What cannot be drawn is as observed: it must have no say in which class is tested, nor in what is rounded.
    """
    for listed, outputs in outcomes.listed(problem, blocks):
        mass = listed.support.mass
        seen = np.concatenate([np.ones((len(mass), 1), bool), mass > 0], axis=1)
        share = mass / np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        yield listed.batch.job, np.where(seen[:, :, None], outputs, outputs[:, :1]), share


def subset_place(problem: Problem, block: Block) -> int:
    """Where the subset of a block stands among all."""
    return int(problem.subset_of[block.rows[0]])


def _stream(problem: Problem, job: Job) -> np.random.Generator:
    return stream(problem.seed, job.block.subset.name, job.block.key, "passes", int(job.members[0]))


def gain(values: Floats, measure: Measure) -> Floats:
    """Effect on each input (n,): what the observed version has over its draws, on average.

    Gaps are averaged, not values: the mean of equal numbers is off by a bit, gaps of equal numbers are exactly 0.
    """
    return np.asarray(measure.sign * (values[:, :1] - values[:, 1:]).mean(axis=1))


def pass_sums(gaps: Floats, passes: int, rng: np.random.Generator) -> Floats:
    """Sums (passes,) of one version per input, each taken uniformly from all its versions, gaps (n, versions).

    >>> gaps = np.array([[0.0, -1.0], [0.0, -2.0]])
    >>> sorted({float(total) for total in pass_sums(gaps, 99, np.random.default_rng(0))})
    [-3.0, -2.0, -1.0, 0.0]
    """
    count, versions = gaps.shape
    if not count:
        return np.zeros(passes)
    flat, first = gaps.ravel(), np.arange(count, dtype=np.intp) * versions
    step = max(1, CHUNK // count)
    kind = np.uint8 if versions < 256 else np.uint32
    return np.concatenate(
        [
            flat[first + rng.integers(versions, size=(min(step, passes - done), count), dtype=kind)].sum(axis=1)
            for done in range(0, passes, step)
        ]
    )


def p_passes(sums: Floats, slack: float = 0.0) -> float:
    """The p-value from how much more surprising each pass was than what was observed, (passes,).

    >>> p_passes(np.array([-1.0, -2.0, 0.0]))
    0.5
    """
    hits = int((sums >= -slack).sum())  # ties, also those up to rounding, count against us: keeps p valid
    return (1 + hits) / (len(sums) + 1)


def passes_needed(rule: str, alpha: float, subsets: int) -> int:
    """Passes that a lone signal needs to be chosen: its p-value, 1 / (passes + 1), must clear the rule.

    >>> passes_needed("bh", 0.1, 50)
    499
    """
    harmonic = sum(1 / i for i in range(1, subsets + 1)) if rule == "by" else 1.0
    return math.ceil(subsets * harmonic / alpha - 1 - 1e-9)


def subset_parts(
    problem: Problem, evaluator: Evaluator, draws: int, blocks: Sequence[Block] | None = None
) -> Iterator[tuple[Job, Floats]]:
    """Inputs with all their outputs (n, 1 + draws, outputs), subset by subset: few enough inputs to hold them all.

    `blocks` are those that are asked for; None: all.
    """
    most = max(1, 64 * GROUP_VALUES // ((draws + 1) * evaluator.outputs))
    blocks = sorted(problem.blocks if blocks is None else blocks, key=lambda block: subset_place(problem, block))
    held: list[Floats] = []
    for job, outputs in evaluate(problem, evaluator, sliced(blocks, draws, problem.round_draws, most)):
        held.append(outputs if not held else outputs[:, 1:])
        if sum(part.shape[1] for part in held) == draws + 1:
            yield job, np.concatenate(held, axis=1)
            held = []


Rest = Callable[[int, Floats, Floats], Floats]  # subset, labels less predictions (n, C), predictions -> what is left


@dataclass(frozen=True, eq=False)
class LabelScore:
    """What a loss compares: labels as numbers, and outputs as predictions of them and on the scale of the loss."""

    truth: Floats  # (inputs, C)
    predicted: Callable[[Floats], Floats]  # outputs (n, versions, outputs) -> (n, versions, C)
    scale: Callable[[Floats], Floats]  # predictions -> (n, versions, C)


def squared_score(y: Floats) -> LabelScore:
    """Of (y - output)^2: the label and the output as they are."""
    return LabelScore(y[:, None], np.asarray, np.asarray)


def log_score(labels: Ints, outputs: int) -> LabelScore:
    """Of -log of the label's probability; a single output is the probability of label 1.

    >>> log_score(np.array([1, 0]), 1).truth
    array([[0., 1.],
           [1., 0.]])
    """
    truth = np.eye(max(outputs, 2))[labels]
    tiny = np.finfo(np.float64).eps

    def predicted(given: Floats) -> Floats:
        return np.concatenate([1 - given, given], axis=2) if outputs == 1 else given

    return LabelScore(truth, predicted, lambda chance: np.log(np.maximum(chance, tiny)))


def randomise_covariance(
    problem: Problem,
    evaluator: Evaluator,
    measure: Measure,
    score: LabelScore,
    rounding: Rounding,
    rest: Rest,
    draws: int,
    passes: int,
) -> GlobalEvidence:
    """The test of every subset; `statistic` and `difference` are those of the loss (`measure`), for show."""
    size = len(problem.subset_names)
    p, varied, statistic, difference = np.ones(size), np.zeros(size, bool), np.zeros(size), np.zeros(size)
    for subset, parts in groupby(
        subset_parts(problem, evaluator, draws), key=lambda part: subset_place(problem, part[0].block)
    ):
        held: list[Floats] = []
        for job, outputs in parts:
            values, _ = measure.values(outputs, job.block.start + job.members, None)
            statistic[subset] += float(values[:, 0].sum())
            difference[subset] += float(gain(values, measure).sum()) / len(problem.items)
            held.append(score.predicted(settled(outputs, rounding)))
        gaps = covariance_gaps(np.concatenate(held), score, partial(rest, subset))
        moved = (gaps != 0).any(axis=1)
        varied[subset] = bool(moved.any())
        sums = pass_sums(gaps[moved], passes, stream(problem.seed, problem.subset_names[subset], "passes"))
        p[subset] = p_passes(sums, measure.relative * float(np.abs(gaps).max(axis=1, initial=0).sum()))
    classes = np.zeros((len(problem.items), size), np.int64)
    return GlobalEvidence(p, varied, statistic, difference, classes, draws, passes)


def covariance_gaps(predicted: Floats, score: LabelScore, rest: Callable[[Floats, Floats], Floats]) -> Floats:
    """How much more every version goes with what is left of the label than the observed one, (n, versions)."""
    mean = predicted.mean(axis=1)
    left = rest(score.truth - mean, mean)
    scaled = score.scale(predicted)
    return np.asarray(np.einsum("nvc,nc->nv", scaled - scaled[:, :1], left))
