"""New values of a subset from its fitted law and chances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from butfor.core.draw.streams import stream
from butfor.core.types import Array, Floats, Ints
from butfor.tabular.residual.chain import FEWEST, SubsetFit
from butfor.tabular.residual.design import Space
from butfor.tabular.residual.matched import CHECKED, DRAWS, impossible, matched, tied


def chances(fit: SubsetFit, inputs: int, draws: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """A donor of every draw, `fit.donors` for the observed row itself, and a chance for all that is drawn besides.

    All of an input's come before those of the next: they do not depend on how many inputs follow.
    """
    besides = (min(len(fit.classes), 1) if fit.combinations is not None else len(fit.classes)) + (
        fit.pattern is not None
    )
    if not besides:
        return rng.integers(fit.donors + 1, size=(inputs, draws)), np.empty((inputs, draws, 0))
    uniform = rng.random((inputs, draws, 1 + besides))
    donors = (uniform[..., 0] * (fit.donors + 1)).astype(np.int64)
    return np.minimum(donors, fit.donors), uniform[..., 1:]


def new_values(
    fit: SubsetFit, space: Space, inputs: Array, chosen: Ints, draws: int, rng: np.random.Generator
) -> Array:
    """Values of the columns `chosen`, (n, draws, columns); the observed row is one donor more."""
    if fit.whole is not None:
        near = fit.whole.near(fit.likeness(space, inputs)) if len(inputs) else np.zeros((0, fit.donors), np.int64)
        place = rng.integers(fit.donors + 1, size=(len(inputs), draws))
        own = place == fit.donors
        fresh = space.rows.values[
            np.take_along_axis(near, np.minimum(place, fit.donors - 1), axis=1)[..., None], chosen
        ]
    else:
        donors, uniform = chances(fit, len(inputs), draws, rng)
        own = donors == fit.donors
        fresh = drawn(fit, space, inputs, np.minimum(donors, fit.donors - 1), uniform)
        fresh = fresh[:, :, [fit.columns.index(j) for j in chosen]] if len(chosen) > 1 else fresh
    fresh[own] = inputs[np.nonzero(own)[0]][:, chosen]
    return fresh


def drawn(fit: SubsetFit, space: Space, inputs: Array, donors: Ints, uniform: Floats) -> Floats:
    """Values of the columns of `fit.columns`, (n, draws, columns)."""
    centres = fit.centres(space, inputs)
    fresh = np.empty((*donors.shape, len(fit.columns)))
    codes = _codes(fit, centres, uniform)
    for k, step in enumerate(fit.classes):
        fresh[..., k] = step.fit.levels[codes[k]]
    for k, number in enumerate(fit.numbers):
        centre = centres[len(fit.classes) + k]
        mean, spread = centre[:, :1], centre[:, 1:2]
        for own, added in zip(codes, number.added, strict=True):
            mean = mean + added[own]
        for own, widened in zip(codes, number.widened, strict=bool(number.widened)):
            spread = spread * np.exp(widened)[own]
        fresh[..., len(fit.classes) + k] = number.fit.values(
            mean, spread, donors, inputs[:, number.fit.column, None].astype(np.float64)
        )
    if fit.pattern is not None:
        gaps = fit.patterns[_inverse(fit.pattern.probabilities(centres[-1][:, :-1]), uniform[..., -1])]
        own = fresh[..., len(fit.classes) :]
        own[gaps == 1] = np.nan
        np.copyto(own, np.broadcast_to(fit.spikes, own.shape), where=gaps == 2)
    return fresh


def _codes(fit: SubsetFit, centres: list[Floats], uniform: Floats) -> list[Ints]:
    """The level of every column of few values, (n, draws) each."""
    if not fit.classes:
        return []
    if fit.combinations is not None:
        place = _inverse(joint(fit, centres), uniform[..., 0])
        return [codes[place] for codes in fit.combinations.T]
    codes: list[Ints] = []
    for k, step in enumerate(fit.classes):
        odds = centres[k][:, None, :-1]
        for own, added in zip(codes, step.added, strict=bool(step.added)):  # a constant column adds nothing
            odds = odds + added[own]
        codes.append(_inverse(step.fit.probabilities(odds), uniform[..., k]))
    return codes


def joint(fit: SubsetFit, centres: list[Floats]) -> Floats:
    """Probabilities of the listed combinations, (n, G), by the chain rule."""
    assert fit.combinations is not None
    chance = np.ones((len(centres[0]), len(fit.combinations)))
    for k, step in enumerate(fit.classes):
        odds = centres[k][:, None, :-1]
        for before, added in zip(fit.combinations.T, step.added, strict=False):
            odds = odds + added[before]
        found = step.fit.probabilities(odds)
        chance *= np.take_along_axis(
            np.broadcast_to(found, (*chance.shape, found.shape[-1])), fit.combinations[None, :, k, None], axis=2
        )[..., 0]
    return np.asarray(chance / chance.sum(axis=1, keepdims=True))


def _inverse(chance: Floats, uniform: Floats) -> Ints:
    """The place at which the probabilities sum up to each of `uniform` (n, draws), from (n, K) or (n, draws, K)."""
    upper = np.cumsum(chance, axis=-1)
    upper = upper[:, None, :] if upper.ndim == 2 else upper
    upper = upper / upper[..., -1:]
    found = np.zeros(uniform.shape, np.int64)
    for k in range(upper.shape[-1] - 1):
        found += uniform >= upper[..., k]
    return found


def checked(fit: SubsetFit, space: Space) -> SubsetFit:
    """The same fit, or one with whole rows as donors where its draws are no combinations as real rows have them."""
    rows, columns = space.rows, np.array(fit.columns)
    sparse = len(fit.numbers) > 1 and fit.donors < FEWEST
    if not sparse:
        if tied(rows, columns) < 2 or (not fit.numbers and fit.combinations is not None):
            return fit
        some = space.some(len(rows), CHECKED)
        rng = stream(space.seed, "residual", "check", *(rows.marks[j] for j in columns))
        donors, uniform = chances(fit, len(some), DRAWS, rng)
        fresh = drawn(fit, space, rows.values[some], np.minimum(donors, fit.donors - 1), uniform)
        if not impossible(rows, columns, some, fresh):
            return fit
    whole = matched(fit.likeness(space, rows.values))
    return replace(fit, whole=whole, donors=whole.count)
