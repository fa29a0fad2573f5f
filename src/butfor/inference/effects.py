"""How large: observed minus mean counterfactual, from fresh draws, for chosen hypotheses only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from butfor.evaluation.evaluator import Evaluator, Seen, evaluate, summaries
from butfor.evaluation.hypotheses import CounterfactualBatch, Job, Problem
from butfor.inference.holdout import Measure, gain, subset_place
from butfor.inference.outputs import Rounding, Target, linked, pick
from butfor.inference.statistics import Picked, accepted_outputs
from butfor.types import Bools, Floats, Ints, quantiles

# The quantiles at .975 by degrees of freedom, one less than the draws: of first rounds (10, 64, 100 and 128 draws) and
# of effects (16 and 200).
AT_HAND = {
    9: 2.262157162798205,
    15: 2.131449545559776,
    63: 1.998340542520741,
    99: 1.9842169515864174,
    127: 1.9788195347028539,
    199: 1.9719565442517533,
}


def student_quantile(freedom: int, confidence: float = 0.95) -> float:
    """By how many standard errors an interval of this confidence goes to either side.

    >>> round(student_quantile(9), 3), round(student_quantile(9, 0.9), 3)
    (2.262, 1.833)
    """
    if confidence == 0.95 and freedom in AT_HAND:
        return AT_HAND[freedom]
    from scipy.special import stdtrit

    return float(-stdtrit(freedom, (1 - confidence) / 2))


@dataclass(frozen=True)
class Effects:
    """Per hypothesis (H,): the effect and its 95 % interval; NaN where nothing was estimated."""

    effect: Floats
    low: Floats
    high: Floats
    fresh: Bools | None = None  # from draws that the test has not seen; None: all that there are

    def without(self, chosen: Bools) -> Effects:
        """The same but for hypotheses chosen whose effect is from the very draws that choose them."""
        if self.fresh is None or not (new := chosen & ~self.fresh).any():
            return self
        return replace(self, **{name: np.where(new, np.nan, getattr(self, name)) for name in ("effect", "low", "high")})


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
    if picked is not None:
        for job, outputs in accepted_outputs(problem, evaluator, wanted, draws, picked, "effect"):
            effect[job.rows], low[job.rows], high[job.rows] = Intervals(link, (classes[job.rows],)).of(outputs, 0)
        return Effects(effect, low, high)

    def summary_of(some: tuple[Job, ...]) -> Intervals:
        return Intervals(link, tuple(classes[job.rows] for job in some))

    jobs = (Job(block, draws, "effect", keep=keep) for block, keep in wanted)
    for some, found in summaries(problem, evaluator, jobs, summary_of):
        for job, own in zip(some, found, strict=True):
            effect[job.rows], low[job.rows], high[job.rows] = own
    return Effects(effect, low, high)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Effects and their intervals, of each job of a unit."""

    link: str | None
    classes: tuple[Ints, ...]  # of each job (n,)

    def __call__(self, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> list[tuple[Floats, Floats, Floats]]:  # noqa: ARG002
        return [self.of(own, number) for number, own in enumerate(outputs)]

    def of(self, outputs: Floats, number: int) -> tuple[Floats, Floats, Floats]:
        """Effect, low and high (n,) from outputs (n, 1 + draws, outputs) of one job."""
        values, _ = pick(outputs, Target("per-input", self.classes[number]), np.arange(len(outputs)))
        values = linked(values, self.link)
        return interval(values, reach=pooled_reach(values))


def interval(
    values: Floats, confidence: float = 0.95, *, reach: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats, Floats]:
    """Effect, low and high from values (n, 1 + draws): the wider of Student's t and a bound that expects the unseen.

    Parameters
    ----------
    values : the observed value first, then fresh draws.
    confidence : of each interval by itself.
    reach : outputs (n,), (n,) between which draws that were not seen may lie, as `pooled_reach` finds them; the
        observed value and somewhat more than the range of the draws always count as within reach.

    Notes
    -----
    The t-interval knows nothing of what n draws have not shown: a jump of probability q is unseen in (1 - q)^n of the
    cases. The bound of Learned-Miller & Thomas 2020 gives the draws and one more value, as far out as can be, weights
    that are uniform on the simplex, and takes the quantile of their mean. It is exactly Clopper & Pearson's for two
    values, and the rule of three where all draws are equal.

    Examples
    --------
    >>> effect, low, high = interval(np.array([[1.0] + 199 * [0.0]]))  # it was 1 and no draw was; some may be
    >>> print(effect, low.round(2), high)
    [1.] [0.98] [1.]
    """
    tail = (1 - confidence) / 2
    observed, null = values[:, 0], values[:, 1:]
    count = null.shape[1]
    mean = null.mean(axis=1)
    below, above = _within_reach(values, mean, reach)
    least, most = _mean_bounds(null - mean[:, None], below, above, tail)
    half = np.zeros(len(mean))  # a single draw has no spread: its reach is all there is
    if count > 1:
        half = student_quantile(count - 1, confidence) * null.std(axis=1, ddof=1) / np.sqrt(count)
    effect = observed - mean
    return effect, effect - np.maximum(most, half), effect - np.minimum(least, -half)


EXTRA = 8.0  # the longer tail reaches 1 + EXTRA / sqrt(draws) times as far as was seen, at most: covers exp(1.5 x)


def _within_reach(values: Floats, mean: Floats, reach: tuple[Floats, Floats] | None) -> tuple[Floats, Floats]:
    """How far from the mean of the draws unseen ones may lie, below (n,) <= 0 and above (n,) >= 0.

    A tail that is longer than the other is longer still than the draws show; draws with fewer than five distinct values
    (a threshold, a vote) have no tails.
    """
    ordered = np.sort(values[:, 1:], axis=1)
    down, up = mean - ordered[:, 0], ordered[:, -1] - mean
    span = np.ptp(values, axis=1, keepdims=True)
    distinct = 1 + (np.diff(ordered, axis=1) > 1e-9 * span).sum(axis=1)  # more than rounding
    most = np.where(distinct < 5, 1.0, 1 + EXTRA / np.sqrt(ordered.shape[1]))
    tiny = np.finfo(np.float64).tiny
    below = -down * np.clip(down / np.maximum(up, tiny), 1, most)
    above = up * np.clip(up / np.maximum(down, tiny), 1, most)
    ends = (values[:, 0],) if reach is None else (values[:, 0], *reach)
    below = np.minimum.reduce([below, *(end - mean for end in ends)])
    return below, np.maximum.reduce([above, *(end - mean for end in ends)])


ROWS, WEIGHTS, DRAWS = 256, 1000, 256  # of one product of matrices


def _mean_bounds(deviations: Floats, below: Floats, above: Floats, tail: float) -> tuple[Floats, Floats]:
    """Bounds (n,), (n,) of what to add to the mean of the draws, each missed with probability `tail`."""
    least, most = np.zeros(len(deviations)), np.zeros(len(deviations))
    first = max(int(tail * WEIGHTS) - 1, 0)  # rounded outwards
    last = WEIGHTS - 1 - first
    for a in range(0, len(deviations), ROWS):
        rows = slice(a, a + ROWS)
        seen, unseen, total = _weighted(deviations[rows])
        low, high = ((seen + end[rows, None] * unseen) / total for end in (below, above))
        least[rows] = np.partition(low, first, axis=1)[:, first]
        most[rows] = np.partition(high, last, axis=1)[:, last]
    return least, most


def _weighted(deviations: Floats) -> tuple[Floats, Floats, Floats]:
    """Sums (n, WEIGHTS) of deviations (n, draws), the weight (WEIGHTS,) of one value more, and all weights' sum."""
    count = deviations.shape[1]
    unseen = _weights(0, 1)[0]
    seen, total = np.zeros((len(deviations), WEIGHTS)), unseen.copy()
    for number, a in enumerate(range(0, count, DRAWS)):
        weights = _weights(number + 1, DRAWS)[: min(DRAWS, count - a)]
        seen += deviations[:, a : a + DRAWS] @ weights
        total += weights.sum(axis=0)
    return seen, unseen, total


@lru_cache(maxsize=8)
def _weights(number: int, draws: int) -> Floats:
    """Exponential weights (draws, WEIGHTS): divided by their sum they are uniform on the simplex. Always the same."""
    return np.random.default_rng([number, 2020]).standard_exponential((draws, WEIGHTS))


def pooled_reach(values: Floats) -> tuple[Floats, Floats]:
    """Outputs (n,), (n,) that unseen draws may reach, by what the draws of other inputs with the same subset show.

    values (n, 1 + draws) are of one subset. Deviations from an input's own median are pooled; what one draw in ten
    times `draws` exceeds is within reach of every input. They are read on the scale of the outputs and in units of the
    input's own quartiles, and the nearer of the two counts: inputs may differ much in scale. It is no bound where only
    this input has such draws; then nothing but more draws can show them.
    """
    null = values[:, 1:]
    low, middle, high = quantiles(null, np.array([0.25, 0.5, 0.75])).T
    gaps, width = null - middle[:, None], high - low
    rank = -(-len(null) // 10)
    return middle - _nearer(-gaps, width, rank), middle + _nearer(gaps, width, rank)


def _nearer(gaps: Floats, width: Floats, rank: int) -> Floats:
    """How far (n,) the pooled gaps reach in one direction: their rank-th largest, absolute or relative to a width."""
    relative = np.where(gaps > 0, np.inf, 0.0)
    np.divide(gaps, width[:, None], out=relative, where=width[:, None] > 0)
    farthest, times = (float(-np.partition(-part, rank - 1, axis=None)[rank - 1]) for part in (gaps, relative))
    own = np.full(len(width), np.inf)
    np.multiply(width, times, out=own, where=width > 0)
    return np.asarray(np.maximum(np.minimum(farthest, own), 0.0))


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
        half = student_quantile(count - 1, confidence) * gains[:, chosen].std(axis=0, ddof=1) / np.sqrt(count)
    effect, low, high = (np.full(len(chosen), np.nan) for _ in range(3))
    effect[chosen], low[chosen], high[chosen] = mean, mean - half, mean + half
    return Effects(effect, low, high)


MOST_LOCAL = 2**13  # tolerances that travel with every unit of work; of larger runs only the largest of them does


@dataclass(frozen=True, eq=False)
class Estimates:
    """Of each hypothesis (H,), from a number of draws that was fixed beforehand; NaN where there were none."""

    effect: Floats  # of the class that is predicted for the input, or of the target
    low: Floats
    high: Floats
    gain: Floats  # the statistic of the input minus the mean of its draws': mean 0 under the null
    spread: Floats  # variance of the draws' statistic


def mean_known(values: Floats) -> Floats:
    """The mean over rows (n, S) of what is known of each; 0 where nothing is.

    >>> mean_known(np.array([[1.0, np.nan], [3.0, np.nan]])).tolist()
    [2.0, 0.0]
    """
    known = np.isfinite(values)
    return np.asarray(np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


class FirstDraws:
    """Hears of every job of a run; of each hypothesis it keeps what the first round shows."""

    def __init__(self, size: int, target: Target, link: str | None, rounding: Rounding, averaged: Target) -> None:
        large = rounding.local is not None and rounding.local.size > MOST_LOCAL
        self.look = LookAtFirst(target, link, replace(rounding, local=None) if large else rounding, averaged)
        self._found = np.full((5, size), np.nan)

    def note(self, seen: Seen, found: Floats | None) -> None:
        """What a job shows."""
        if found is not None:
            self._found[:, seen.job.rows] = found

    def estimates(self) -> Estimates:
        """What was found."""
        return Estimates(*self._found)


@dataclass(frozen=True)
class LookAtFirst:
    """Looks at the first round of each hypothesis, which is never stopped early."""

    _target: Target
    _link: str | None
    _rounding: Rounding
    _averaged: Target  # what gains are of

    def __call__(self, problem: Problem, batch: CounterfactualBatch, outputs: Floats) -> Floats | None:  # noqa: ARG002
        """Effect, its ends, gain and spread (5, n) of some inputs and their draws; None for later rounds."""
        job, mass = batch.job, batch.mass
        later = job.round != 0 or (job.part is not None and job.part[0] > 0)
        if (mass is None and later) or outputs.shape[1] < 2:
            return None
        values = linked(outputs, self._link)
        weight = _weight(mass, outputs)
        inputs = job.inputs
        same = self._rounding.same(outputs, inputs)
        of_class = _gaps(self._of_class(self._target, values, outputs, inputs), same)
        effect, low, high, spread = _effect(of_class, None if mass is None else weight)
        if self._averaged.kind != "predicted" and self._averaged is self._target:
            return np.array([effect, low, high, effect, spread])
        if self._averaged.kind == "predicted":
            own = _gaps(self._own(values, outputs, weight), same)
        else:
            own = _gaps(self._of_class(self._averaged, values, outputs, inputs), same)
        gain = (own * weight).sum(axis=1)
        spread = (weight * (own - gain[:, None]) ** 2).sum(axis=1)
        return np.array([effect, low, high, gain, spread])

    @staticmethod
    def _classes(target: Target, outputs: Floats, inputs: Ints) -> Ints:
        """The class (n,) that effects are of: a reader wants the one that was predicted."""
        if target.kind == "predicted":
            return np.asarray(outputs[:, 0].argmax(axis=1))
        if target.classes is None:
            return np.zeros(len(outputs), np.int64)
        if target.kind == "fixed":
            return np.broadcast_to(target.classes, len(outputs))
        return target.classes[inputs]

    def _of_class(self, target: Target, values: Floats, outputs: Floats, inputs: Ints) -> Floats:
        """The values (n, versions) of that class."""
        if values.shape[2] == 1:
            return values[:, :, 0]
        return np.take_along_axis(values, self._classes(target, outputs, inputs)[:, None, None], axis=2)[:, :, 0]

    def _own(self, values: Floats, outputs: Floats, weight: Floats) -> Floats:
        """A number of each version *by itself* (n, versions), so that the observed one is one of them (METHODS 0).

        It is the output of the version's own class, less the mean output of that class over the input and its draws.
        """
        draws = values.shape[1] - 1
        middle = (values[:, 0] + draws * (values[:, 1:] * weight[:, :, None]).sum(axis=1)) / (draws + 1)
        best = outputs.argmax(axis=2)
        own = np.take_along_axis(values, best[:, :, None], axis=2)[:, :, 0]
        return np.asarray(own - np.take_along_axis(middle, best, axis=1))


def _weight(mass: Floats | None, outputs: Floats) -> Floats:
    """Of each draw (n, versions - 1): its probability where it was listed, else one (1, 1) for all."""
    if mass is None:
        return np.full((1, 1), 1 / (outputs.shape[1] - 1))
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def _gaps(values: Floats, same: Bools) -> Floats:
    """The observed value minus that of each draw (n, draws), of values (n, versions); 0 where they are the `same`.

    Gaps are averaged, not values: the mean of equal values is not that value to the last bit, and over many inputs
    such errors add up to an effect of 1e-18 that is established.
    """
    return np.asarray(np.where(same[:, 1:], 0.0, values[:, :1] - values[:, 1:]))


def _effect(gaps: Floats, mass: Floats | None) -> tuple[Floats, Floats, Floats, Floats]:
    """The effect, its interval and the variance of the gaps (n,); where all are listed nothing is left to chance."""
    if mass is not None:
        effect = (gaps * mass).sum(axis=1)
        return effect, effect, effect, (mass * (gaps - effect[:, None]) ** 2).sum(axis=1)
    count = gaps.shape[1]
    effect = gaps.mean(axis=1)
    apart = gaps - effect[:, None]
    squares = np.einsum("ij,ij->i", apart, apart)
    if count < 2:  # one draw has no spread
        return effect, np.full(len(effect), np.nan), np.full(len(effect), np.nan), squares
    half = student_quantile(count - 1) * np.sqrt(squares / (count - 1)) / np.sqrt(count)  # Student's t
    return effect, effect - half, effect + half, squares / count
