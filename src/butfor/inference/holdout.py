"""One p-value per subset over all inputs: the observed sum against sums in which every input's version is redrawn.

    statistic = sum_i v[i, 0];   a pass = sum_i v[i, c_i], c_i uniform on 0..K
    p = (1 + #{passes as surprising}) / (B + 1)

Why p is exactly valid at every number of draws K >= 1, of passes B >= 1 and of inputs. Under the null the K + 1
versions of an input (itself and its draws) are exchangeable given the rest of it and its label, independently from
input to input. So, given the unordered sets of versions, which version of an input was observed is uniform on them:
the observed sum is one draw of sum_i v[i, c_i] with c_i uniform on 0..K. A pass is another such draw, *with the
observed version among those it may take*. Observed and passes are then B + 1 independent draws from one distribution,
and P(p <= u) <= u; ties count against us. It is the Monte-Carlo test of the group of permutations within inputs, the
identity included (Hemerik & Goeman 2018, Theorem 2; the statistic is that of Tansey et al. 2018). Passes put together
from the K draws alone are *not* valid: at K = 1 they are all one and the same, and p = 1 / (B + 1) half of the time.

The holdout test of a *fitted* sampler asks whether the prediction moves with what is left of the label. The loss of a
label y splits into a part that goes with y and one that does not. Squared: (y - f)^2 = (y - m)^2 - 2 (y - m)(f - m) +
(f - m)^2 with m the mean of f over the K + 1 versions of an input. Only the middle part tells whether y follows the
feature; the last one grows with the spread of the draws, whatever y does, so that a Q that is a little too wide looks
like skill. The same holds of the log loss, with log-probabilities for f. So the statistic is sum_i r_i (f_i - m_i), r
the label less m and less its regression on the rest of the row: a Q whose mean is a little off does harm only as far as
that regression is off as well (after the generalised covariance measure of Shah & Peters 2020). r is a function of
labels, rests of rows and unordered versions, so with the true Q p is exactly valid, as above.

A Q that is wrong in the mean adds 2 b (y - m) to the loss, b the mean of f - m given the rest, and where the model is
right y - m has the mean b too: the statistic errs by 2 b^2. The loss of the *averaged* prediction minus that of the
observed one (Sobol-CPI, arXiv 2501.17520) errs by b^2 less the variance of f - m, but has half the signal, and little
of it where the model overfits. So it is a gate (`rises`) and not the test, for samplers that stand in for one that
failed its check: where it is not visibly above 0, p = 1. P-values only grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.inference.statistics import Rounding, Target, linked, pick
from butfor.types import Alternative, Array, Bools, Floats, InputError, Ints

CHUNK = 2**20  # choices of a version that are held at once
SNAP = 2.0**-32  # values with ties merged are exact to 33 bits

Loss = Callable[[Ints, Floats], Floats]  # inputs (n,), outputs (n, versions, outputs) -> losses (n, versions)


@dataclass(frozen=True)
class Measure:
    """A sum over inputs: one number per version, which direction is surprising, and the sign of its effect."""

    values: Callable[[Floats, Ints, Ints | None], tuple[Floats, Ints]]  # outputs, inputs, classes -> values, classes
    alternative: Alternative
    sign: int  # effect = sign * (observed - mean draw)
    relative: float = SNAP  # rounding of the values


@dataclass(frozen=True)
class GlobalEvidence:
    """The evidence on every subset."""

    p: Floats  # (S,)
    varied: Bools  # (S,) False: no draw of any input ever changed anything
    statistic: Floats  # (S,) observed sum
    difference: Floats  # (S,) mean effect on the very draws of the test: for show, not for inference
    classes: Ints  # (inputs, S) output that was tested
    draws: int
    passes: int


def holdout(loss: Loss, rounding: Rounding) -> Measure:
    """Return the measure of the holdout randomisation test (Tansey et al. 2018): a small loss is surprising."""

    def values(outputs: Floats, inputs: Ints, _: Ints | None) -> tuple[Floats, Ints]:
        losses = loss(inputs, merged_outputs(outputs, rounding))
        exact = Rounding(64 * float(np.finfo(np.float64).eps), 0.0)
        return exact.merge_ties(losses), np.zeros(len(outputs), np.int64)

    return Measure(values, "less", -1, max(rounding.relative, SNAP))


def merged_outputs(outputs: Floats, rounding: Rounding) -> Floats:
    """Return outputs (n, versions, outputs) in which draws that differ from the observed by rounding equal it."""
    count, versions, width = outputs.shape
    flat = rounding.merge_ties(outputs.transpose(0, 2, 1).reshape(count * width, versions))
    return flat.reshape(count, width, versions).transpose(0, 2, 1)


def contrast(target: Target, link: str | None, rounding: Rounding, alternative: Alternative) -> Measure:
    """Return the measure of the contrast with Q (METHODS 7): outputs of inputs against those of counterfactuals."""

    def values(outputs: Floats, inputs: Ints, classes: Ints | None) -> tuple[Floats, Ints]:
        if classes is None:
            numbers, classes = pick(outputs, target, inputs)
        else:  # fresh draws for an effect keep the class that was tested
            numbers, _ = pick(outputs, Target("per-input", classes), np.arange(len(classes)))
        return linked(rounding.merge_ties(numbers), link), classes

    return Measure(values, alternative, 1, max(rounding.relative, SNAP))


def gain(values: Floats, measure: Measure) -> Floats:
    """Return the effect on each input (n,): what the observed version has over its draws, on average.

    Gaps are averaged, not values: the mean of equal numbers is off by a bit, gaps of equal numbers are exactly 0.
    """
    return np.asarray(measure.sign * (values[:, :1] - values[:, 1:]).mean(axis=1))


def pass_sums(gaps: Floats, passes: int, rng: np.random.Generator) -> Floats:
    """Return sums (passes,) of one version per input, each taken uniformly from all its versions, gaps (n, versions).

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
    """Return p from the sums of the passes minus the observed sum (passes,), larger being more surprising.

    >>> p_passes(np.array([-1.0, -2.0, 0.0]))
    0.5
    """
    hits = int((sums >= -slack).sum())  # ties, also those up to rounding, count against us: keeps p valid
    return (1 + hits) / (len(sums) + 1)


def passes_needed(rule: str, alpha: float, subsets: int) -> int:
    """Return the passes that a lone signal needs to be chosen: its p-value, 1 / (passes + 1), must clear the rule.

    >>> passes_needed("bh", 0.1, 50)
    499
    """
    harmonic = sum(1 / i for i in range(1, subsets + 1)) if rule == "by" else 1.0
    return math.ceil(subsets * harmonic / alpha - 1 - 1e-9)


@dataclass(frozen=True, eq=False)
class LabelScore:
    """The two sides of a loss: labels as numbers, and outputs as predictions of them and on the scale of the loss."""

    truth: Floats  # (inputs, C)
    predicted: Callable[[Floats], Floats]  # outputs (n, versions, outputs) -> (n, versions, C)
    scale: Callable[[Floats], Floats]  # predictions -> (n, versions, C)
    loss: Callable[[Floats, Floats], Floats]  # labels and predictions (..., C) -> (...)

    def losses(self, inputs: Ints, outputs: Floats) -> Floats:
        """Return the losses (n, versions) of inputs (n,) from outputs (n, versions, outputs)."""
        return self.loss(self.truth[inputs][:, None], self.predicted(outputs))


def squared_score(y: Floats) -> LabelScore:
    """Return the score of (y - output)^2: the label and the output as they are."""
    return LabelScore(y[:, None], np.asarray, np.asarray, lambda y, given: np.asarray((given - y)[..., 0] ** 2))


def log_score(labels: Ints, outputs: int) -> LabelScore:
    """Return the score of -log of the label's probability; a single output is the probability of label 1.

    A probability of 0 counts as the smallest one that 1 - p can tell from it, as in scikit-learn.

    >>> log_score(np.array([1, 0]), 1).truth
    array([[0., 1.],
           [1., 0.]])
    """
    tiny = np.finfo(np.float64).eps

    def predicted(given: Floats) -> Floats:
        return np.concatenate([1 - given, given], axis=2) if outputs == 1 else given

    def scale(chance: Floats) -> Floats:
        return np.asarray(np.log(np.maximum(chance, tiny)))

    truth = np.eye(max(outputs, 2))[labels]
    return LabelScore(truth, predicted, scale, lambda truth, chance: -(truth * scale(chance)).sum(axis=-1))


def covariance_gaps(predicted: Floats, score: LabelScore, rest: Callable[[Floats, Floats], Floats]) -> Floats:
    """Return how much more every version goes with what is left of the label than the observed one, (n, versions).

    `rest(residual, mean)`, both (n, C), returns the residual less its regression on the other columns of the row.
    """
    mean = predicted.mean(axis=1)
    left = rest(score.truth - mean, mean)
    scaled = score.scale(predicted)
    return np.asarray(np.einsum("nvc,nc->nv", scaled - scaled[:, :1], left))


VISIBLY = 0.3  # one-sided p-value of the gate, picked among .2, .3, .5 on 14 data sets: TPR .93 for 1


def rises(predicted: Floats, score: LabelScore) -> bool:
    """Return whether the loss rises visibly when predictions (n, versions, C) of draws, averaged, replace the observed.

    >>> y = np.arange(20.0)
    >>> rises(np.column_stack([y, 0 * y, 0 * y])[:, :, None], squared_score(y))
    True
    """
    from scipy.stats import ttest_1samp

    gain = score.loss(score.truth, predicted[:, 1:].mean(axis=1)) - score.loss(score.truth, predicted[:, 0])
    spread = float(gain.std())
    return bool(gain.mean() > 0 and (spread == 0 or ttest_1samp(gain, 0.0, alternative="greater").pvalue <= VISIBLY))


def user_loss(function: Callable[[Any, Any], Any], y: Array) -> Loss:
    """Return a user's `function(y, outputs) -> (n,)`; it sees one output as (n,), several as (n, outputs)."""

    def loss(inputs: Ints, outputs: Floats) -> Floats:
        count, versions, width = outputs.shape
        rows = outputs.reshape(count * versions, width)
        losses = np.asarray(function(np.repeat(y[inputs], versions, axis=0), rows[:, 0] if width == 1 else rows))
        if losses.shape != (count * versions,) or losses.dtype.kind not in "fiub":
            raise InputError(
                f"loss returned {losses.dtype} values of shape {losses.shape} for {count * versions} rows; expected "
                f"({count * versions},): one number per row, not their mean"
            )
        if not np.isfinite(losses).all():
            raise InputError(f"loss returned {losses[~np.isfinite(losses)][0]}; expected finite numbers: clip them")
        return losses.astype(np.float64).reshape(count, versions)

    return loss
