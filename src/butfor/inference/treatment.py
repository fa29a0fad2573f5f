"""Treated otherwise but for an attribute: a contrast of two rates of another decision, person by person (METHODS 16).

    q_i(a) = P( decision(f(a, Z~, x_rest)) != decision(f(x_i)) ),   Z~ ~ Q(. | A = a, x_rest)
    treated otherwise: q_i(a') > level and q_i(a') > q_i(a_i) for another value a' than the person's a_i

Z are the proxies. Redrawing a noisy proxy flips the decision of people near the threshold even where neither the model
nor the proxies depend on the attribute: so the rate under another value is compared with the rate under the person's
value, from as many draws. Both must be shown, an intersection-union test (Berger 1982): p = max of the two p-values.

Where a' set alone, all else as it is, changes the decision, that is computed: the person is treated otherwise whatever
redrawn proxies show, and leaves the family. With D such people, and R others of whom V are accused wrongly,
V / (D + R) <= V / R: Benjamini & Hochberg over the others holds their false discovery rate, and that of all accused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from butfor.inference.bounds import Bounds, simes_bounds
from butfor.inference.decisions import FlipShare, p_values
from butfor.inference.selection import bh
from butfor.types import Bools, Floats, Ints

LARGEST = 0.05  # nobody is accused whose 95 % interval holds the level, or no difference


@dataclass(frozen=True, eq=False)
class FlipContrast:
    """By how much more often the decision is otherwise under another value of the attribute, of pairs (H,).

    The intervals of two independent shares are combined in quadrature (Newcombe 1998; Zou & Donner 2008). The fits of
    the two arms share their regression on the rest of a row, and err alike there: counting each error in full is on the
    safe side.
    """

    other: FlipShare  # under another value
    kept: FlipShare  # under the person's value

    @property
    def draws(self) -> Ints:
        """Draws of the arm that has fewer."""
        return np.minimum(self.other.draws, self.kept.draws)

    @property
    def difference(self) -> Floats:
        """The estimates (H,)."""
        return self.other.share - self.kept.share

    def bounds(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> tuple[Floats, Floats]:
        """Return intervals (H,) that hold whenever drawing was stopped."""
        (low, high), (low_kept, high_kept) = self.other.bounds(alpha, fit_alpha), self.kept.bounds(alpha, fit_alpha)
        below = np.hypot(self.other.share - low, high_kept - self.kept.share)
        above = np.hypot(high - self.other.share, self.kept.share - low_kept)
        return np.maximum(self.difference - below, -1.0), np.minimum(self.difference + above, 1.0)

    def low(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> Floats:
        return self.bounds(alpha, fit_alpha)[0]

    def take(self, rows: Ints) -> FlipContrast:
        return FlipContrast(self.other.take(rows), self.kept.take(rows))


def p_otherwise(contrast: FlipContrast, level: float) -> Floats:
    """Return p-values (H,) of "under this value the decision is otherwise in at most `level`, or no more often than
    under the person's value".

    >>> draws, exact = np.array([200, 200]), np.zeros(2)
    >>> other, kept = (FlipShare(draws, np.array(share), exact) for share in ([0.9, 0.9], [0.0, 0.9]))
    >>> p_otherwise(FlipContrast(other, kept), 0.5).round(3)
    array([0., 1.])
    """
    above = p_values(contrast.other, level, LARGEST)
    return np.maximum(above, p_values(contrast, 0.0, LARGEST))


def p_of_people(p: Floats) -> Floats:
    """Return a p-value of each person (n,) from those of each value (n, V), NaN where it is not asked.

    A person is treated otherwise if the decision is under *any* other value: picking the best is paid for by their
    number (Bonferroni).

    >>> p_of_people(np.array([[0.01, 0.4], [0.01, np.nan], [np.nan, np.nan]]))
    array([0.02, 0.01,  nan])
    """
    count = (~np.isnan(p)).sum(axis=1)
    least = np.where(np.isnan(p), 1.0, p).min(axis=1, initial=1.0)
    return np.where(count > 0, np.minimum(count * least, 1.0), np.nan)


class Accusation(NamedTuple):
    """Which rows (n,) are accused, their p-values with what clusters cost, and the bound on how many at least."""

    accused: Bools
    p: Floats  # (n,) NaN: not asked
    at_least: Callable[[Ints], int]  # of some rows: so many people of them at least are treated otherwise


def accuse(
    p: Floats, alpha: float, confidence: float = 0.95, clusters: Ints | None = None, computed: Bools | None = None
) -> Accusation:
    """Return who is treated otherwise, the false discovery rate over people at most `alpha` (Benjamini & Hochberg).

    Rows of one cluster (`clusters`, (n,)) are one person, who is accused if any of them is (Bonferroni over them). How
    many are treated otherwise at least is known for any rows, picked after looking, by closed testing (METHODS 10).
    `computed` (n,) are known to be, without error: they are accused, and the rate holds over the others by themselves.

    >>> made = accuse(np.array([0.001, 0.6, np.nan, 0.002]), 0.1)
    >>> made.accused.tolist(), made.at_least(np.arange(4))
    ([True, False, False, True], 2)
    """
    rows = np.flatnonzero(~np.isnan(p))
    labels = np.arange(len(p)) if clusters is None else clusters
    _, person, count = np.unique(labels[rows], return_inverse=True, return_counts=True)
    adjusted = np.full(len(p), np.nan)
    adjusted[rows] = np.minimum(p[rows] * count[person], 1.0)
    of_person = np.ones(len(count))
    np.minimum.at(of_person, person, adjusted[rows])
    accused = np.zeros(len(p), bool) if computed is None else computed.copy()
    open_ = ~np.isin(np.arange(len(count)), person[accused[rows]])
    chosen = of_person[open_]
    chosen = chosen[bh(chosen, alpha)] if chosen.size else chosen
    accused[rows] |= adjusted[rows] <= np.max(chosen, initial=-1.0)
    bounds: Bounds | None = simes_bounds(of_person, confidence) if len(of_person) else None
    number = np.full(len(p), -1)
    number[rows] = person

    def at_least(some: Ints) -> int:
        people = np.unique(number[some])
        people = people[people >= 0]
        return 0 if bounds is None or not people.size else bounds(people)

    return Accusation(accused, adjusted, at_least)


def mean_contrast(contrast: FlipContrast) -> tuple[float, float, float]:
    """Return the mean difference over pairs, with a 95 % interval (approximate): one fit errs alike for all of them."""
    if not len(contrast.difference):
        return (np.nan, np.nan, np.nan)
    by_draws, by_fit = 0.0, np.zeros(len(contrast.difference))
    for arm in (contrast.other, contrast.kept):
        drawn = arm.draws > 0
        near = np.where(drawn, (arm.share * arm.draws + 1) / (arm.draws + 2), arm.share)  # no share of draws is sure
        by_draws += float((near * (1 - near) / np.maximum(arm.draws, 1))[drawn].sum()) / len(drawn) ** 2
        by_fit += near * (1 - near) * arm.error
    mean = float(contrast.difference.mean())
    half = 1.96 * float(np.hypot(np.sqrt(by_draws), np.sqrt(by_fit).mean()))
    return mean, max(mean - half, -1.0), min(mean + half, 1.0)
