"""How likely each step of one column is, by what is known of a sampler: donors, or a distribution function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from butfor.core.types import Array, Floats, Ints, Subset
from butfor.models.trees.ensemble import rounds_down_to
from butfor.tabular.copula import Copula
from butfor.tabular.empirical import Empirical
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.neighbours import Neighbours
from butfor.tabular.residual.law import Residual
from butfor.tabular.residual.numbers import NumberFit
from butfor.tabular.residual.shared import shared
from butfor.tabular.splice import TableSampler

HALVINGS, FARTHEST = 80, 40.0  # of normal scores, to find the one that a value stands at


@dataclass(frozen=True, eq=False)
class Chances:
    """Of each input (n,): the mass of every step, of a missing value, and of the observed one again; and a value there.

    Where a step has mass, its value is one that may be drawn: the one nearest to what is observed, where donors are
    known.
    """

    mass: Floats  # (n, V)
    values: Floats  # (n, V)
    missing: Floats  # (n,)
    own: float


ColumnLaw = Callable[[Array, Floats, Ints], Chances]  # inputs, cuts (P,), starts (n, V) of steps -> chances


def column_law(sampler: object, subset: Subset, dtype: np.dtype[np.floating]) -> ColumnLaw | None:
    """What is known of one column given the others; None: not enough to do without drawing.

    Columns are those of the data. `dtype` is that of the data: what is drawn is rounded to it.
    """
    if not isinstance(sampler, TableSampler) or len(subset.index) != 1:
        return None
    law, placed = sampler.law, sampler.placed(subset)
    found = _of_law(law, placed)
    if found is None:
        return None
    made = found

    def chances(inputs: Array, cuts: Floats, starts: Ints) -> Chances:
        limits = rounds_down_to(cuts) if dtype == np.float32 else cuts
        return made(sampler.given(inputs), limits, starts)

    return chances


def _of_law(law: object, subset: Subset) -> ColumnLaw | None:
    column = int(subset.index[0])
    if isinstance(law, Residual):
        return _residual(law, subset, column)
    if isinstance(law, Empirical):
        return _empirical(law, column)
    if isinstance(law, Neighbours):
        return _neighbours(law, subset, column)
    if isinstance(law, Gaussian):
        return _gaussian(law, column)
    if isinstance(law, Copula):
        return _copula(law, subset, column)
    return None


def _residual(law: Residual, subset: Subset, column: int) -> ColumnLaw | None:
    """A regression's mean and spread at the input, and what was missed of reference rows: one sorted list for all."""
    if law.rows.is_all(subset):
        return None
    fit = law.fit(subset)
    if fit.whole is not None or fit.classes or len(fit.numbers) != 1 or (fit.patterns == 2).any():
        return None
    number = fit.numbers[0].fit
    order = number.order
    sorted_donors, size = number.donors[order], len(order)
    share = size / (size + 1)

    def chances(inputs: Array, cuts: Floats, starts: Ints) -> Chances:
        centres = fit.fresh_centres(*shared(law.space, inputs))
        mean, spread = centres[0][:, :1], centres[0][:, 1:2]
        gone = np.zeros(len(inputs))
        if fit.pattern is not None:
            told = fit.pattern.probabilities(centres[-1][:, :-1])
            gone = told[:, fit.patterns[:, 0] == 1].sum(axis=1) / told.sum(axis=1)
        scaled = (_bounded(_before_bend(number, cuts), starts) - mean) / spread
        below = sorted_donors.searchsorted(scaled, side="right")
        observed, ends = inputs[:, column, None].astype(np.float64), _bounded(cuts, starts)
        if not number.shape.is_straight:  # of one that is, no value is out of bounds
            low, high = number.bounds(observed)
            below = np.where(ends >= high, size, np.where(ends < low, 0, below))
        mass, nearest = _by_counts(below, size, observed, ends)
        values = number.values(mean, spread, order[nearest], observed)
        return Chances(mass * (share * (1 - gone))[:, None], values, share * gone, 1 / (size + 1))

    return chances


def _before_bend(fit: NumberFit, cuts: Floats) -> Floats:
    """Thresholds on the scale of the regression: values are at most a cut just where the regression's are so."""
    limits = cuts.copy()
    if fit.nature.step is not None:
        limits = _middle(cuts, fit.nature.step)
    with np.errstate(all="ignore"):
        bent = fit.shape.bent(limits)
    bent = np.where(np.isinf(limits), limits, bent)
    if fit.shape.log:
        bent = np.where(limits <= 0, -np.inf, bent)
    return np.asarray(np.where(cuts < 0, -np.inf, bent) if fit.nature.positive else bent)


def _middle(cuts: Floats, step: float) -> Floats:
    """What is rounded to a multiple of `step` that is at most the cut: up to halfway to the next."""
    finite = np.isfinite(cuts)
    count = np.floor(np.where(finite, cuts, 0.0) / step)
    count = np.where((count + 1) * step <= cuts, count + 1, np.where(count * step > cuts, count - 1, count))
    return np.where(finite, (count + 0.5) * step, cuts)


def _bounded(limits: Floats, starts: Ints) -> Floats:
    """The lower ends of steps (n, V) from the limits (P,) of pieces: nothing is below the first, all below the end."""
    ends = np.concatenate([[-np.inf], limits, [np.inf]])
    return np.asarray(ends[np.minimum(starts, len(limits) + 1)])


def _by_counts(below: Ints, size: int, observed: Array, lower: Floats) -> tuple[Floats, Ints]:
    """Mass of steps, and the place of the donor nearest to the observed value (n, 1), from donors below each step and
    the lower ends of steps, (n, V) both."""
    after = np.concatenate([below[:, 1:], np.full((len(below), 1), size)], axis=1)
    count = after - below
    above = lower >= observed  # the step lies above what is observed: its least donor is the nearest
    place = np.where(above, below, after - 1)
    return count / size, np.minimum(np.maximum(place, 0), size - 1)


def _empirical(law: Empirical, column: int) -> ColumnLaw:
    held = law.rows.values[:, column].astype(np.float64)
    gone, held = float(np.isnan(held).mean()), np.sort(held[~np.isnan(held)])
    rows = len(law.rows)
    share = rows / (rows + 1)

    def chances(inputs: Array, cuts: Floats, starts: Ints) -> Chances:
        counts = np.concatenate([[0], np.searchsorted(held, cuts, side="right"), [len(held)]])
        below = counts[np.minimum(starts, len(cuts) + 1)]
        if not len(held):
            return Chances(np.zeros(starts.shape), np.zeros(starts.shape), np.full(len(inputs), share), 1 / (rows + 1))
        mass, nearest = _by_counts(below, len(held), inputs[:, column, None], _bounded(cuts, starts))
        return Chances(mass * share * (1 - gone), held[nearest], np.full(len(inputs), share * gone), 1 / (rows + 1))

    return chances


def _neighbours(law: Neighbours, subset: Subset, column: int) -> ColumnLaw:
    def chances(inputs: Array, cuts: Floats, starts: Ints) -> Chances:
        near = law._donors(inputs, subset)
        drawn = law.rows.values[near, column].astype(np.float64)  # (n, k)
        width, size = len(cuts) + 2, drawn.shape[1]
        piece = np.searchsorted(cuts, drawn)
        first = np.arange(len(inputs))[:, None]
        flat = (first * width + starts).reshape(-1)
        at = np.searchsorted(flat, (first * width + piece).reshape(-1), side="right") - 1
        held = ~np.isnan(drawn).reshape(-1)
        weight = 1 / (size + 1)
        mass = np.bincount(at[held], minlength=starts.size).reshape(starts.shape) * weight
        far = np.argsort(-np.abs(drawn - inputs[:, column][:, None]).reshape(-1)[held], kind="stable")
        values = np.zeros(starts.size)
        values[at[held][far]] = drawn.reshape(-1)[held][far]  # the last one written, the nearest, stays
        return Chances(mass, values.reshape(starts.shape), (~held).reshape(drawn.shape).sum(axis=1) * weight, weight)

    return chances


def _gaussian(law: Gaussian, column: int) -> ColumnLaw:
    def chances(inputs: Array, cuts: Floats, starts: Ints) -> Chances:
        limits, span = cuts, law.whole_numbers[column]
        if span is not None:
            limits = np.where(cuts >= span[1], np.inf, np.where(cuts < span[0], -np.inf, _middle(cuts, 1.0)))
        mean, spread = normal_at(law, inputs, column)
        mass = np.diff(_cdf(law, (_bounded(limits, starts) - mean[:, None]) / spread), axis=1, append=1.0)
        lower, observed = _bounded(cuts, starts), inputs[:, column][:, None]
        upper = np.concatenate([lower[:, 1:], np.full((len(lower), 1), np.inf)], axis=1)
        values = np.clip(observed, np.nextafter(lower, np.inf), upper)
        if span is not None:
            values = np.clip(np.where(lower >= observed, np.floor(lower) + 1, np.floor(values)), *span)
        return Chances(mass, values, np.zeros(len(inputs)), 0.0)

    return chances


def normal_at(law: Gaussian, inputs: Array, column: int) -> tuple[Floats, float]:
    """Mean (n,) and spread of one column given the others."""
    chosen = np.array([column])
    weights, spread = law.constants(chosen, lambda: law._conditional(chosen))
    mean = law.mean[column] + ((inputs - law.mean)[:, None, :] @ weights)[:, 0, 0]
    return np.asarray(mean), float(spread[0, 0])


def _cdf(law: Gaussian, scaled: Floats) -> Floats:
    from scipy.special import ndtr, stdtr

    return np.asarray(ndtr(scaled) if law.freedom is None else stdtr(law.freedom, scaled))


def _copula(law: Copula, subset: Subset, column: int) -> ColumnLaw:
    margin, share = law.margins[column], law.floor(subset)

    def score_of(cuts: Floats) -> Floats:
        """The largest normal score whose value is at most each cut; halved until it is the last double but few."""
        low, high = np.full(len(cuts), -FARTHEST), np.full(len(cuts), FARTHEST)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            left = law._read_back(margin, middle) <= cuts
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        return np.where(low <= -FARTHEST, -np.inf, np.where(high >= FARTHEST, np.inf, low))

    def chances(inputs: Array, cuts: Floats, starts: Ints) -> Chances:
        mean, spread = normal_at(law.latent, law.seen(inputs, law._scores), column)
        scores = _bounded(score_of(cuts), starts)
        below = _cdf(law.latent, (scores - mean[:, None]) / spread)
        mass = np.diff(below, axis=1, append=1.0)
        upper = np.concatenate([scores[:, 1:], np.full((len(scores), 1), np.inf)], axis=1)
        above = _bounded(cuts, starts) >= inputs[:, column][:, None]
        edge = np.where(above, np.nextafter(scores, np.inf), upper)
        inside = np.where(np.isfinite(edge), edge, np.where(above, upper, np.nextafter(scores, np.inf)))
        values = law._read_back(margin, np.clip(inside, -FARTHEST, FARTHEST).reshape(-1)).reshape(mass.shape)
        return Chances(mass * (1 - share), values, np.zeros(len(inputs)), share)

    return chances
