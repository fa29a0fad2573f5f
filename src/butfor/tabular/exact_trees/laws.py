"""How likely each step of one column is, by what is known of a sampler: donors, or a distribution function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from butfor.models.trees.ensemble import rounds_down_to
from butfor.tabular.copula import Copula
from butfor.tabular.empirical import Empirical
from butfor.tabular.exact_trees.steps import LeafMasks, StepFunctions, Words
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.neighbours import Neighbours
from butfor.tabular.residual.design import shared
from butfor.tabular.residual.regression import NumberFit
from butfor.tabular.residual.sampler import Residual, SubsetFit, joint
from butfor.tabular.splice import TableSampler
from butfor.types import Array, Floats, Ints, Subset

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


MOST_LISTED = 4096  # values of a hypothesis


def donors_of(sampler: object, subset: Subset) -> int | None:
    """How many values of a group of columns a sampler may draw; None: too many, or it is not known."""
    if not isinstance(sampler, TableSampler):
        return None
    law, placed = sampler.law, sampler.placed(subset)
    if isinstance(law, Residual):
        size = len(law.rows) if law.rows.is_all(placed) else _combined(law.fit(placed))
    elif isinstance(law, Empirical):
        size = len(law.rows)
    elif isinstance(law, Neighbours):
        size = len(law.rows) if law.rows.is_all(placed) else law.k
    else:
        return None
    return None if size is None or size >= MOST_LISTED else size + 1


def donated(sampler: TableSampler, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
    """Values (n, m, columns) and probabilities (n, m), the observed ones first."""
    law, placed, given = sampler.law, sampler.placed(subset), sampler.given(inputs)
    chosen = np.asarray(placed.index)
    if isinstance(law, Residual) and not law.rows.is_all(placed):
        fit = law.fit(placed)
        values, mass = _residual_donors(law, fit, given, chosen)
        rows = fit.donors
    else:
        assert isinstance(law, Residual | Empirical | Neighbours)
        near = law._donors(given, placed) if isinstance(law, Neighbours) else np.arange(len(law.rows))[None]
        near = np.broadcast_to(near, (len(given), near.shape[1]))
        values, rows = law.rows.values[near[:, :, None], chosen], near.shape[1]
        mass = np.full(near.shape, 1 / rows)
    own = np.full((len(given), 1), 1 / (rows + 1))
    listed = np.concatenate([given[:, None, chosen], values.astype(given.dtype, copy=False)], axis=1)
    return listed, np.concatenate([own, mass * (rows / (rows + 1))], axis=1)


def _combined(fit: SubsetFit) -> int | None:
    """Donors, times combinations of levels, times patterns of missing values."""
    if fit.whole is not None:
        return fit.donors
    if fit.classes and fit.combinations is None:
        return None
    combinations = 1 if fit.combinations is None else len(fit.combinations)
    return combinations * (fit.donors if fit.numbers else 1) * (1 if fit.pattern is None else len(fit.patterns))


def _residual_donors(law: Residual, fit: SubsetFit, inputs: Array, chosen: Ints) -> tuple[Array, Floats]:
    if fit.whole is not None:
        near = fit.whole.near(fit.likeness(law.space, inputs))
        return law.rows.values[near[:, :, None], chosen], np.full(near.shape, 1 / fit.donors)
    centres, count = fit.centres(law.space, inputs), len(inputs)
    chance = joint(fit, centres) if fit.classes else np.ones((count, 1))
    told = np.ones((count, 1))
    if fit.pattern is not None:
        told = fit.pattern.probabilities(centres[-1][:, :-1])
        told = told / told.sum(axis=1, keepdims=True)
    donors = fit.donors if fit.numbers else 1
    values = np.empty((count, chance.shape[1] * told.shape[1], donors, len(fit.columns)))
    mass = np.empty((count, values.shape[1], donors))
    for place, (g, r) in enumerate(product(range(chance.shape[1]), range(told.shape[1]))):
        codes = [] if fit.combinations is None else [int(code) for code in fit.combinations[g]]
        values[:, place] = _combination(fit, centres, codes, donors, inputs)
        if fit.pattern is not None:
            own = values[:, place, :, len(fit.classes) :]
            own[..., fit.patterns[r] == 1] = np.nan
            own[..., fit.patterns[r] == 2] = fit.spikes[fit.patterns[r] == 2]
        mass[:, place] = (chance[:, g] * told[:, r] / donors)[:, None]
    order = [fit.columns.index(j) for j in chosen]
    return values.reshape(count, -1, values.shape[-1])[..., order], mass.reshape(count, -1)


def _combination(fit: SubsetFit, centres: list[Floats], codes: list[int], donors: int, inputs: Array) -> Floats:
    """Values of all columns (n, donors, columns), those of few values at these levels."""
    count = len(centres[0])
    fresh = np.empty((count, donors, len(fit.columns)))
    for k, (step, code) in enumerate(zip(fit.classes, codes, strict=True)):
        fresh[..., k] = step.fit.levels[code]
    rows = np.broadcast_to(np.arange(donors), (count, donors))
    for k, number in enumerate(fit.numbers):
        centre = centres[len(fit.classes) + k]
        mean, spread = centre[:, :1], centre[:, 1:2]
        for code, added in zip(codes, number.added, strict=True):
            mean = mean + added[code]
        for code, widened in zip(codes, number.widened, strict=bool(number.widened)):
            spread = spread * np.exp(widened)[code]
        fresh[..., len(fit.classes) + k] = number.fit.values(
            mean, spread, rows, inputs[:, number.fit.column, None].astype(np.float64)
        )
    return fresh


WORDS = 2**19  # words that are worked on at a time


def group_sums(steps: StepFunctions, pieces: Ints, columns: Ints, values: Array) -> Floats:
    """Sums of leaves (n, V, K) for values (n, V, columns) of a group, other columns in the pieces (n, all columns)."""
    index = steps.index
    fresh = np.stack([index.pieces_of(int(j), values[..., k]) for k, j in enumerate(columns)], axis=2)
    total = np.zeros((*values.shape[:2], index.units.shape[1]))
    if steps.masks is not None:
        total += _by_words(steps.masks, pieces, columns, fresh)
    if steps.walker is not None:
        rows = np.repeat(pieces[:, None], values.shape[1], axis=1)
        rows[..., columns] = fresh
        flat, size = rows.reshape(-1, rows.shape[2]), max(1, WORDS // len(steps.walker.trees))
        roots = index.splits.ensemble.roots[steps.walker.trees]
        parts = [index.units[index.leaves_of(flat[a : a + size], roots)].sum(axis=1) for a in range(0, len(flat), size)]
        total += np.concatenate(parts).reshape(total.shape)
    return total


def _by_words(masks: LeafMasks, pieces: Ints, columns: Ints, fresh: Ints) -> Floats:
    """Trees without a split of the group are the same for all its values; in the others one leaf is left each time."""
    chosen = [int(j) for j in columns if int(j) in masks.columns]
    base: Words = np.zeros((len(pieces), len(masks.trees)), masks.every.dtype)
    for j, column in masks.columns.items():
        if j not in chosen:
            base |= column.shut[pieces[:, j]]
    split = np.zeros(len(masks.trees), bool)
    for j in chosen:
        split |= masks.columns[j].shut.any(axis=0)
    still, moved = np.flatnonzero(~split), np.flatnonzero(split)
    open_still = masks.leaf_of(masks.every[still] & ~base[:, still], still)
    total = np.empty((*fresh.shape[:2], len(masks.values)))
    total[:] = np.stack([own[open_still].sum(axis=1) for own in masks.values], axis=1)[:, None]
    if not moved.size:
        return total
    tables = [(list(columns).index(j), masks.columns[j].shut[:, moved]) for j in chosen]
    size = max(1, WORDS // (len(moved) * fresh.shape[1]))
    for a in range(0, len(pieces), size):
        shut: Words = np.repeat(base[a : a + size, None][:, :, moved], fresh.shape[1], axis=1)
        for k, table in tables:
            shut |= table[fresh[a : a + size, :, k]]
        leaf = masks.leaf_of(masks.every[moved] & ~shut, moved)
        for k, own in enumerate(masks.values):
            total[a : a + size, :, k] += own[leaf].sum(axis=2)
    return total
