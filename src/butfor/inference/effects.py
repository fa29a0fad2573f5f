"""How large: the observed value minus the mean counterfactual, with an interval (METHODS 6, 15).

    effect = t - mean of t~;   95 %: Student's t; for what was chosen the wider of it and a bound that allows for values
    that were not drawn

Effects of what was chosen come from fresh draws (`interval`), since the draws that chose a hypothesis flatter it; those
of all others, and what `features` averages, from the first draws of the test, with Student's t alone
(`first_estimates`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from butfor.inference.statistics import Rounding, Target, linked, pick
from butfor.types import Bools, Floats, Ints


@dataclass(frozen=True)
class Effects:
    """Per hypothesis (H,): the effect and its 95 % interval; NaN where nothing was estimated."""

    effect: Floats
    low: Floats
    high: Floats
    fresh: Bools | None = None  # from draws that the test has not seen; None: all that there are

    def without(self, chosen: Bools) -> Effects:
        """Return the same with NaN for chosen hypotheses whose effect comes from the draws that chose them."""
        if self.fresh is None or not (new := chosen & ~self.fresh).any():
            return self
        return replace(self, **{name: np.where(new, np.nan, getattr(self, name)) for name in ("effect", "low", "high")})

    def widened(self, low: Floats, high: Floats, ends: Floats | None) -> Effects:
        """Return the same with intervals `low` to `high` where a list, or draws that are all alike, have no width.

        They are exact for the sampler, which is fitted on finitely many rows. No interval leaves the `ends` (2, H).
        """
        flat = self.low == self.high
        low = np.where(flat, np.fmin(low, self.effect), self.low)
        high = np.where(flat, np.fmax(high, self.effect), self.high)
        if ends is not None:
            low, high = np.maximum(low, ends[0]), np.minimum(high, ends[1])
        return replace(self, low=low, high=high)


def no_effects(size: int) -> Effects:
    """Return effects of which none was estimated."""
    return Effects(*(np.full(size, np.nan) for _ in range(3)))


def student_quantile(freedom: int, confidence: float = 0.95) -> float:
    """Return by how many standard errors an interval of this confidence goes to either side.

    >>> round(student_quantile(9), 3), round(student_quantile(9, 0.9), 3)
    (2.262, 1.833)
    """
    from scipy.special import stdtrit

    return float(-stdtrit(freedom, (1 - confidence) / 2))


def class_interval(outputs: Floats, classes: Ints, link: str | None) -> tuple[Floats, Floats, Floats]:
    """Return effect, low and high (n,) of a class (n,) each, from outputs (n, 1 + draws, outputs) of one subset."""
    values, _ = pick(outputs, Target("per-input", classes), np.arange(len(outputs)))
    values = linked(values, link)
    return interval(values, extremes=pooled_extremes(values))


def interval(
    values: Floats, confidence: float = 0.95, *, extremes: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return effect, low and high: the wider of Student's t and a bound that expects the unseen.

    Parameters
    ----------
    values : array (n, 1 + draws)
        The observed value first, then fresh draws.
    confidence : float
        Of each interval by itself.
    extremes : pair of arrays (n,), optional
        Outputs between which draws that were not seen may lie, as `pooled_extremes` finds them; the observed value and
        somewhat more than the range of the draws always count.

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
    below, above = _unseen(values, mean, extremes)
    least, most = _mean_bounds(null - mean[:, None], below, above, tail)
    half = np.zeros(len(mean))  # a single draw has no spread: its extremes are all there is
    if count > 1:
        half = student_quantile(count - 1, confidence) * null.std(axis=1, ddof=1) / np.sqrt(count)
    effect = observed - mean
    return effect, effect - np.maximum(most, half), effect - np.minimum(least, -half)


EXTRA = 8.0  # the longer tail goes 1 + EXTRA / sqrt(draws) times as far as was seen, at most: covers exp(1.5 x)


def _unseen(values: Floats, mean: Floats, extremes: tuple[Floats, Floats] | None) -> tuple[Floats, Floats]:
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
    ends = [end - mean for end in ((values[:, 0],) if extremes is None else (values[:, 0], *extremes))]
    return np.minimum.reduce([below, *ends]), np.maximum.reduce([above, *ends])


ROWS, WEIGHTS, DRAWS = 256, 1000, 256  # of one product of matrices


def _mean_bounds(deviations: Floats, below: Floats, above: Floats, tail: float) -> tuple[Floats, Floats]:
    """Bounds (n,), (n,) of what to add to the mean of the draws, each missed with probability `tail`."""
    least, most = np.zeros(len(deviations)), np.zeros(len(deviations))
    first = max(int(tail * WEIGHTS) - 1, 0)  # rounded outwards
    last = WEIGHTS - 1 - first
    count = deviations.shape[1]
    for a in range(0, len(deviations), ROWS):
        rows = slice(a, a + ROWS)
        unseen = _weights(0, 1)[0]
        seen, total = np.zeros((len(deviations[rows]), WEIGHTS)), unseen.copy()
        for number, b in enumerate(range(0, count, DRAWS)):
            weights = _weights(number + 1, DRAWS)[: min(DRAWS, count - b)]
            seen += deviations[rows, b : b + DRAWS] @ weights
            total += weights.sum(axis=0)
        low, high = ((seen + end[rows, None] * unseen) / total for end in (below, above))
        least[rows] = np.partition(low, first, axis=1)[:, first]
        most[rows] = np.partition(high, last, axis=1)[:, last]
    return least, most


@lru_cache(maxsize=8)
def _weights(number: int, draws: int) -> Floats:
    """Exponential weights (draws, WEIGHTS): divided by their sum they are uniform on the simplex. Always the same."""
    return np.random.default_rng([number, 2020]).standard_exponential((draws, WEIGHTS))


def pooled_extremes(values: Floats) -> tuple[Floats, Floats]:
    """Return outputs (n,), (n,) that unseen draws may take, by what draws of other inputs with the same subset show.

    values (n, 1 + draws) are of one subset. Deviations from an input's own median are pooled; what one draw in ten
    times `draws` exceeds is possible for every input. They are read on the scale of the outputs and in units of the
    input's own quartiles, and the nearer of the two counts: inputs may differ much in scale. It is no bound where only
    this input has such draws; then nothing but more draws can show them.
    """
    null = values[:, 1:]
    low, middle, high = np.quantile(null, [0.25, 0.5, 0.75], axis=-1)
    gaps, width = null - middle[:, None], high - low
    rank = -(-len(null) // 10)

    def nearer(gaps: Floats) -> Floats:
        """How far (n,) the pooled gaps go in one direction: their rank-th largest, absolute or relative to a width."""
        relative = np.where(gaps > 0, np.inf, 0.0)
        np.divide(gaps, width[:, None], out=relative, where=width[:, None] > 0)
        farthest, times = (float(-np.partition(-part, rank - 1, axis=None)[rank - 1]) for part in (gaps, relative))
        scaled = np.full(len(width), np.inf)
        np.multiply(width, times, out=scaled, where=width > 0)
        return np.asarray(np.maximum(np.minimum(farthest, scaled), 0.0))

    return middle - nearer(-gaps), middle + nearer(gaps)


def mean_interval(gains: Floats, chosen: Bools) -> Effects:
    """Return the mean over inputs of gains (n, S) for the chosen subsets, with t-intervals over inputs."""
    count = len(gains)
    mean = gains[:, chosen].mean(axis=0)
    half = np.full(len(mean), np.nan)  # one input has no spread
    if count > 1:
        half = student_quantile(count - 1) * gains[:, chosen].std(axis=0, ddof=1) / np.sqrt(count)
    estimated = no_effects(len(chosen))
    estimated.effect[chosen], estimated.low[chosen], estimated.high[chosen] = mean, mean - half, mean + half
    return estimated


@dataclass(frozen=True, eq=False)
class Estimates:
    """Of each hypothesis (H,), from a number of draws that was fixed beforehand; NaN where there were none."""

    effect: Floats  # of the class that is predicted for the input, or of the target
    low: Floats
    high: Floats
    gain: Floats  # the statistic of the input minus the mean of its draws': mean 0 under the null
    spread: Floats  # variance of the draws' statistic


def mean_beyond_chance(values: Floats, weights: Floats) -> Floats:
    """Return the weighted means over rows (n, S), as far as their squares exceed their variances; 0 where none does.

    >>> mean_beyond_chance(np.array([[1.0, -1.0, np.nan], [3.0, 1.0, np.nan]]), np.ones((2, 3))).round(2).tolist()
    [1.73, 0.0, 0.0]
    """
    w = np.where(np.isfinite(values), weights, 0.0)
    w = w / np.maximum(w.sum(axis=0), 1e-300)
    known = np.where(np.isfinite(values), values, 0.0)
    mean = (w * known).sum(axis=0)
    variance = (w**2 * (known - mean) ** 2).sum(axis=0) / np.maximum(1 - (w**2).sum(axis=0), 1e-300)
    return np.asarray(np.sign(mean) * np.sqrt(np.maximum(mean**2 - variance, 0.0)))


def first_estimates(
    outputs: Floats,
    mass: Floats | None,
    inputs: Ints,
    target: Target,
    averaged: Target,
    link: str | None,
    rounding: Rounding,
) -> Floats:
    """Return effect, its ends, gain and spread (5, n) of inputs (n,) from outputs (n, versions, outputs).

    `mass` (n, versions - 1) are the probabilities of versions that were listed. Effects are of `target`, gains of
    `averaged`.
    """
    values, gaps = linked(outputs, link), _without_rounding(outputs, inputs, rounding)
    weight = np.full((1, 1), 1 / (outputs.shape[1] - 1)) if mass is None else mass / mass.sum(axis=1, keepdims=True)
    effect, low, high, spread = _effect(
        gaps(_of_class(values, outputs, inputs, target)), None if mass is None else weight
    )
    if averaged.kind != "predicted" and averaged is target:
        return np.array([effect, low, high, effect, spread])
    if averaged.kind == "predicted":
        # a number of each version *by itself*, so that the observed one is one of them (METHODS 0): the output of the
        # version's own class, less the mean output of that class over the input and its draws
        draws = values.shape[1] - 1
        middle = (values[:, 0] + draws * (values[:, 1:] * weight[:, :, None]).sum(axis=1)) / (draws + 1)
        best = outputs.argmax(axis=2)
        numbers = np.take_along_axis(values, best[:, :, None], axis=2)[:, :, 0]
        apart = gaps(np.asarray(numbers - np.take_along_axis(middle, best, axis=1)))
    else:
        apart = gaps(_of_class(values, outputs, inputs, averaged))
    gain = (apart * weight).sum(axis=1)
    return np.array([effect, low, high, gain, (weight * (apart - gain[:, None]) ** 2).sum(axis=1)])


def own_changes(outputs: Floats, inputs: Ints, target: Target, link: str | None, rounding: Rounding) -> Floats:
    """Return the output of each input less that of each of its draws (n, draws), of the class the input itself has."""
    return _without_rounding(outputs, inputs, rounding)(_of_class(linked(outputs, link), outputs, inputs, target))


def _without_rounding(outputs: Floats, inputs: Ints, rounding: Rounding) -> Callable[[Floats], Floats]:
    """The observed value minus that of each draw, of values (n, versions); 0 where rounding alone differs.

    Gaps are averaged, not values: the mean of equal values is not that value to the last bit, and over many inputs such
    errors add up to an effect of 1e-18 that is chosen.
    """
    same = rounding.same(outputs, inputs)
    return lambda values: np.asarray(np.where(same[:, 1:], 0.0, values[:, :1] - values[:, 1:]))


def _of_class(values: Floats, outputs: Floats, inputs: Ints, target: Target) -> Floats:
    """The values (n, versions) of the class that effects are of: a reader wants the one that was predicted."""
    if target.kind == "predicted":
        return pick(values, Target("per-input", outputs[:, 0].argmax(axis=1)), np.arange(len(values)))[0]
    return pick(values, target, inputs)[0]


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
