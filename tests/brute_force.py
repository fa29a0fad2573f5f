"""Exact p-values, effects and flip probabilities the long way: every value that a sampler may draw, the model asked.

A sampler is made to go through all its draws by a generator that deals out every number once; nothing of the code for
trees is used here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from butfor.tabular.copula import Copula
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.residual.sampler import Residual
from butfor.tabular.splice import bind_sampler
from butfor.types import Subset

QUANTILES = 4_000  # by which a continuous conditional is stood for
CLOSE, CLOSE_SINGLE = (1e-13, 1e-12), (3e-7, 3e-5)  # ties at least and at most, of outputs in float64 and in float32
CHANCES = 250  # by which what is drawn beside a donor is stood for


@dataclass
class EveryNumber:
    """Deals out each donor once, and each quantile of whatever else is drawn."""

    draws: int
    freedom: int | None = None
    donors: int | None = None

    def integers(self, high, size):
        assert size[1] == high
        return np.broadcast_to(np.arange(high), size).copy()

    def standard_normal(self, size):
        u = (np.arange(self.draws) + 0.5) / self.draws
        wanted = ndtri(u) if self.freedom is None else stdtrit(self.freedom, u)
        return np.broadcast_to(wanted[None, :, None], size).copy()

    def standard_gamma(self, half, size):
        return np.full(size, half)  # Student's t is in the normal already

    def random(self, size):
        if len(size) == 2:
            return np.ones(size)  # of a copula: never the observed value, which is added below
        assert self.donors is not None
        each = self.draws // self.donors
        donor = (np.repeat(np.arange(self.donors), each) + 0.5) / self.donors
        beside = (np.tile(np.arange(each), self.donors) + 0.5) / each
        return np.broadcast_to(np.stack([donor, beside], axis=1), size).copy()

    def spawn(self, _):
        return [self]


def every_value(sampler, values, subset):
    """Values (n, m, columns) of a subset that may be drawn, and their probabilities (n, m)."""
    if sampler.lists(subset):
        drawn, mass = sampler.support(values, subset)
        return np.asarray(drawn), np.asarray(mass)
    conditional, count = sampler.conditional, len(values)
    if isinstance(conditional, Gaussian | Copula):
        latent = conditional if isinstance(conditional, Gaussian) else conditional.latent
        rng, share = (
            EveryNumber(QUANTILES, latent.freedom),
            conditional.floor(subset) if isinstance(conditional, Copula) else 0.0,
        )
        drawn = sampler.values(values, subset, QUANTILES, rng).reshape(count, QUANTILES, -1)
        own = values[:, None, subset.index]
        mass = np.append(np.full(QUANTILES, (1 - share) / QUANTILES), share)
        return np.concatenate([drawn, own], axis=1), np.broadcast_to(mass, (count, QUANTILES + 1))
    donors = round(1 / sampler.info.floor(subset))
    fit = conditional.fit(sampler.in_reference(subset)) if isinstance(conditional, Residual) else None
    each = CHANCES if fit is not None and (fit.discrete or fit.gaps is not None) else 1
    draws = donors * each
    drawn = sampler.values(values, subset, draws, EveryNumber(draws, donors=donors))
    return drawn.reshape(count, draws, -1), np.full((count, draws), 1 / draws)


@dataclass
class Long:
    """What is found the long way, (n, subsets)."""

    low: np.ndarray  # p, outputs that are equal but for `close[0]` of their size as ties
    high: np.ndarray  # p, the same with `close[1]`
    effect: np.ndarray
    flip: np.ndarray
    slack: np.ndarray  # by how much a conditional that quantiles stand for may be off


def the_long_way(ask, X, reference_or_sampler, groups, *, alternative=None, target=None, link=None, close=CLOSE):
    """Every hypothesis of `explain`; `ask` is the model's own method, `close` what at least and at most is a tie.

    `target` is an index, or None for the predicted class where there are several outputs.
    """
    table, sampler = bind_sampler(X, reference_or_sampler)
    rows, found = table.values, []
    observed = outputs_of(ask, table, rows)
    for group in groups:
        subset = Subset("", np.asarray(group))
        drawn, mass = every_value(sampler, rows, subset)
        count, versions = mass.shape
        every = np.repeat(rows[:, None], versions, axis=1)
        every[:, :, subset.index] = drawn
        said = outputs_of(ask, table, every.reshape(count * versions, -1)).reshape(count, versions, -1)
        found.append(one_subset(observed, said, mass, alternative, target, link, close))
    return Long(*(np.stack(part, axis=1) for part in zip(*found, strict=True)))


def outputs_of(ask, table, rows):
    said = np.asarray(ask(table.show(rows)))
    return said.reshape(len(rows), -1).astype(np.float64)


def one_subset(observed, said, mass, alternative, target, link, close):
    """p, effect, flip probability and slack (n,) of one subset."""
    several = observed.shape[1] > 1
    flip = (mass * (said.argmax(axis=2) != observed.argmax(axis=1)[:, None])).sum(axis=1)
    scaled, own = on_scale(said, link), on_scale(observed, link)
    mean = (mass[:, :, None] * scaled).sum(axis=1)
    n = np.arange(len(observed))
    if several and target is None:
        best, best_own = said.argmax(axis=2), observed.argmax(axis=1)
        effect = own[n, best_own] - mean[n, best_own]
        statistic = np.take_along_axis(scaled - mean[:, None], best[:, :, None], axis=2)[..., 0]
        t = own[n, best_own] - mean[n, best_own]
        if alternative == "two-sided":
            statistic, t = np.abs(statistic), np.abs(t)
        elif alternative == "less":
            statistic, t = -statistic, -t
    else:
        k = 0 if target is None else target
        effect = own[:, k] - mean[:, k]
        statistic, t = scaled[..., k], own[:, k]
        if alternative in (None, "two-sided"):
            statistic, t = np.abs(statistic - mean[:, k][:, None]), np.abs(t - mean[:, k])
        elif alternative == "less":
            statistic, t = -statistic, -t
    flips = np.abs(np.diff(np.sort(said.argmax(axis=2), axis=1), axis=1)).sum(axis=1)
    pieces = (np.abs(np.diff(scaled, axis=1)).max(axis=2) > 0).sum(axis=1) + flips + 2
    slack = pieces / mass.shape[1] + 2 / CHANCES
    size = np.maximum(np.abs(scaled).max(axis=(1, 2)), np.abs(own).max(axis=1))
    off = slack * size if mass.shape[1] >= QUANTILES else 0 * size  # of a centre that quantiles stand for
    near = close[0] * size - off, close[1] * size + off
    low, high = ((mass * (statistic >= (t - one)[:, None])).sum(axis=1) for one in near)
    return low, high, effect, flip, slack


def on_scale(outputs, link):
    if link is None:
        return outputs
    tiny = np.finfo(np.float64).tiny
    return np.log(np.maximum(outputs, tiny)) - np.log1p(-np.minimum(outputs, 1 - 2.0**-53))


def explained(result, subsets):
    """p, effect and flip probability (n, subsets) of a result."""
    table = result.table
    flip = table.flip if "flip" in table else table.p * np.nan
    return [np.asarray(column).reshape(-1, subsets) for column in (table.p, table.effect, flip)]


def agree(result, long, *, slack=False, rtol=1e-9, atol=1e-12):
    """A result's numbers are those found the long way; with `slack` up to what quantiles leave open."""
    p, effect, flip = explained(result, long.low.shape[1])
    near = long.slack if slack else np.zeros_like(long.low)
    assert (p >= long.low - near - atol).all(), f"p is too small by {(long.low - p).max():g}"
    assert (p <= long.high + near + atol).all(), f"p is too large by {(p - long.high).max():g}"
    size = np.abs(long.effect).max() + 1e-300
    assert (np.abs(effect - long.effect) <= (10 * near + rtol) * size + atol).all(), "effects differ"
    if not np.isnan(flip).all():
        assert (np.abs(flip - long.flip) <= near + atol).all(), "flip probabilities differ"
