"""How large: observed minus mean counterfactual, from fresh draws, for chosen hypotheses only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from butfor.core.arrays import quantiles
from butfor.core.draw.blocks import Job, Problem
from butfor.core.evaluate.batches import Evaluator, evaluate, summaries
from butfor.core.evaluate.outputs import Target, linked, pick
from butfor.core.result.student import student_quantile
from butfor.core.test.contrast import Measure, gain, subset_place
from butfor.core.test.picking import Picked, accepted_outputs
from butfor.core.types import Bools, Floats, Ints


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
