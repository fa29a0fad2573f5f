"""A share of draws in stages, each draw a yes or a no: exact p-values and intervals (METHODS 21).

Draws are looked at after n_1 < n_2 < ... < n_k of them. Drawing ends early where the level is out of reach,

    P(Binomial(n_j, level) <= yes) <= futile,

and, if wanted, after `sure` draws that are all a yes. Outcomes (n, yes) are ordered: first those that ended early out
of reach, last `sure`. With P_q the distribution over them

    p = P_level(outcome >= observed),      interval = {q : P_q(outcome >= observed) and P_q(outcome <= observed) > .025}

(Jennison & Turnbull 1983; with one look they are Clopper & Pearson's). Where the model answers by chance, its answers
to the same prompt differ with probability b, too, of which a binomial count is seen: `above_noise` tests q - b <= level
by the largest p-value over a confidence interval for b (Berger & Boos 1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import lgamma

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom

from butfor.types import Floats, Ints

BOUNDARY = 5e-4  # confidence that Berger & Boos give away
GRID = 64  # values of the noise that are tried
Outcome = tuple[int, int]  # draws, and how many of them are a yes


@dataclass(frozen=True)
class Stages:
    """The looks at up to `draws` draws of a share that is compared with `level`.

    Examples
    --------
    >>> stages = Stages(10, 0.5)
    >>> stages.looks, stages.ends(5, 0), stages.ends(5, 1)
    ((5, 10), True, False)
    >>> round(stages.p_value((10, 10)), 5), stages.p_value((5, 0))
    (0.00098, 1.0)
    """

    draws: int
    level: float
    futile: float = 0.05  # chance of so few, were the share at the level: then drawing ends
    sure: int = 0  # so many draws, all of them a yes, end it, too

    @cached_property
    def looks(self) -> tuple[int, ...]:
        """Numbers of draws after which the share is looked at: the first that can end it, twice as many, and so on."""
        looks, first = {self.draws, self.sure or self.draws}, 1
        while first < self.draws and binom.cdf(0, first, self.level) > self.futile:
            first += 1
        while first < self.draws:
            looks.add(first)
            first *= 2
        return tuple(sorted(looks))

    def ends(self, draws: int, yes: int) -> bool:
        """Return True if no more is drawn after this look."""
        return draws >= self.draws or yes == draws == self.sure or _few(draws, yes, self.level) <= self.futile

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All ways in which drawing may end, in their order."""
        return tuple((n, int(yes)) for n, row, which in self._paths for yes in which)

    @cached_property
    def _paths(self) -> tuple[tuple[int, Floats, Ints], ...]:
        """Logarithms of the numbers of ways (n + 1,) to end at each look, and with which numbers of yes, in order."""
        ways, before, made, last = np.zeros(1), 0, [], []
        for n in self.looks:
            added = n - before
            steps = np.array([lgamma(added + 1) - lgamma(k + 1) - lgamma(added - k + 1) for k in range(added + 1)])
            table = np.full((len(ways), n + 1), -np.inf)
            for yes, count in enumerate(ways):
                table[yes, yes : yes + added + 1] = count + steps
            ways = np.logaddexp.reduce(table, axis=0)
            ended = np.array([self.ends(n, yes) for yes in range(n + 1)])
            which = np.flatnonzero(ended & (ways > -np.inf))
            if n == self.sure < self.draws:
                which, last = which[which < n], [(n, ways, np.array([n]))]
            made.append((n, ways, which))
            ways, before = np.where(ended, -np.inf, ways), n
        return (*made, *last)

    def chances(self, share: float) -> Floats:
        """Return the probability of each outcome where a draw is a yes with probability `share`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = []
            for n, row, yes in self._paths:
                ones = np.where(yes > 0, yes * np.log(share), 0.0)
                zeros = np.where(n - yes > 0, (n - yes) * np.log1p(-share), 0.0)
                logs.append(row[yes] + ones + zeros)
        return np.exp(np.concatenate(logs))

    def at_least(self, outcome: Outcome, share: float) -> float:
        """Return the chance of this outcome or one further up, of a given share."""
        return float(min(1.0, self.chances(share)[self.outcomes.index(outcome) :].sum()))

    def at_most(self, outcome: Outcome, share: float) -> float:
        """Return the chance of this outcome or one further down, of a given share."""
        return float(min(1.0, self.chances(share)[: self.outcomes.index(outcome) + 1].sum()))

    def p_value(self, outcome: Outcome) -> float:
        """Return the p-value of the share being at most the level."""
        return _p_value(self, outcome)

    def interval(self, outcome: Outcome, alpha: float = 0.05) -> tuple[float, float]:
        """Return the exact confidence interval of the share."""
        return _interval(self, outcome, alpha)


@lru_cache(maxsize=4096)
def _few(draws: int, yes: int, level: float) -> float:
    return float(binom.cdf(yes, draws, level))


@lru_cache(maxsize=4096)
def _p_value(stages: Stages, outcome: Outcome) -> float:
    return stages.at_least(outcome, stages.level)


@lru_cache(maxsize=4096)
def _interval(stages: Stages, outcome: Outcome, alpha: float) -> tuple[float, float]:
    first, last = stages.outcomes[0], stages.outcomes[-1]
    low = 0.0 if outcome == first else brentq(lambda q: stages.at_least(outcome, q) - alpha / 2, 0.0, 1.0)
    high = 1.0 if outcome == last else brentq(lambda q: stages.at_most(outcome, q) - alpha / 2, 0.0, 1.0)
    return float(low), float(high)


@lru_cache(maxsize=4096)
def above_noise(stages: Stages, outcome: Outcome, changed: int, repeats: int, level: float) -> float:
    """Return the p-value of q - b <= level; `changed` of `repeats` answers to the same prompt differ.

    Outcomes of both samples are ordered by the difference of their shares; the p-value is the largest over all b of an
    interval of confidence 1 - BOUNDARY, plus BOUNDARY.
    """
    low = beta.ppf(BOUNDARY / 2, changed, repeats - changed + 1) if changed else 0.0
    high = beta.ppf(1 - BOUNDARY / 2, changed + 1, repeats - changed) if changed < repeats else 1.0
    shares = np.array([yes / n for n, yes in stages.outcomes])
    beyond = shares[:, None] - np.arange(repeats + 1) / repeats >= outcome[1] / outcome[0] - changed / repeats - 1e-12
    largest = 0.0
    for noise in np.unique(np.clip(np.linspace(low, high, GRID), max(0.0, -level), min(1.0, 1.0 - level))):
        together = stages.chances(float(noise + level)) @ beyond @ binom.pmf(np.arange(repeats + 1), repeats, noise)
        largest = max(largest, float(together))
    return min(1.0, largest + BOUNDARY)


@lru_cache(maxsize=4096)
def excess_interval(
    stages: Stages, outcome: Outcome, changed: int, repeats: int, alpha: float = 0.05
) -> tuple[float, float]:
    """Return an interval of q - b: of each the exact interval at half the alpha, and their difference."""
    low, high = stages.interval(outcome, alpha / 2)
    noise_low = float(beta.ppf(alpha / 4, changed, repeats - changed + 1)) if changed else 0.0
    noise_high = float(beta.ppf(1 - alpha / 4, changed + 1, repeats - changed)) if changed < repeats else 1.0
    return low - noise_high, high - noise_low
