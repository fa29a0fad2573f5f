"""All values that a sampler of donors may draw for a group of columns, with their probabilities."""

from __future__ import annotations

from itertools import product

import numpy as np

from butfor.core.types import Array, Floats, Ints, Subset
from butfor.tabular.empirical import Empirical
from butfor.tabular.neighbours import Neighbours
from butfor.tabular.residual.chain import SubsetFit
from butfor.tabular.residual.draw import joint
from butfor.tabular.residual.law import Residual
from butfor.tabular.splice import TableSampler

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
        values, mass = _residual(law, fit, given, chosen)
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


def _residual(law: Residual, fit: SubsetFit, inputs: Array, chosen: Ints) -> tuple[Array, Floats]:
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
