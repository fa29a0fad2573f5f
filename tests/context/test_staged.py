"""Shares of draws in stages against full enumeration; planted faults fail the same checks (METHODS 21)."""

from dataclasses import dataclass
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from butfor.inference import staged
from butfor.inference.staged import Stages, above_noise, excess_interval

SHARES = np.concatenate([[0.0, 1e-9], np.linspace(0.01, 0.99, 99), [1 - 1e-9, 1.0]])
CASES = [(1, 0.5), (5, 0.5), (10, 0.5), (12, 0.2), (20, 0.5), (30, 0.05), (45, 0.9), (40, 0.5)]
ROUNDING = 1e-9


def by_enumeration(stages, share):
    """Return the chance of every outcome, path by path."""
    chances = dict.fromkeys(stages.outcomes, 0.0)
    for path in product((0, 1), repeat=stages.draws):
        for look in stages.looks:
            yes = sum(path[:look])
            if look == stages.draws or binom.cdf(yes, look, stages.level) <= 0.05:
                break
        chances[look, yes] += share ** sum(path) * (1 - share) ** (stages.draws - sum(path))
    return chances


@pytest.mark.parametrize(("draws", "level"), [(1, 0.5), (6, 0.5), (10, 0.5), (12, 0.6), (12, 0.3)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.83, 1.0])
def test_chances_are_those_of_all_paths(draws, level, share):
    stages = Stages(draws, level)
    expected = by_enumeration(stages, share)
    np.testing.assert_allclose(stages.chances(share), list(expected.values()), atol=1e-12)
    values = list(expected.values())
    for k, outcome in enumerate(stages.outcomes):
        assert stages.at_least(outcome, share) == pytest.approx(min(1, sum(values[k:])))
        assert stages.at_most(outcome, share) == pytest.approx(min(1, sum(values[: k + 1])))


@pytest.mark.parametrize(("draws", "level"), CASES)
def test_chances_sum_to_one(draws, level):
    for share in SHARES:
        assert Stages(draws, level).chances(float(share)).sum() == pytest.approx(1, abs=1e-9)


def test_one_look_is_clopper_pearson():
    stages = Stages(12, 0.2)  # .8 ** 12 > .05: nothing can end before
    assert stages.looks == (12,)
    for yes in range(13):
        oracle = binomtest(yes, 12, 0.2, alternative="greater")
        assert stages.p_value((12, yes)) == pytest.approx(oracle.pvalue)
        exact = binomtest(yes, 12).proportion_ci(0.95, method="exact")
        assert stages.interval((12, yes)) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_a_last_look_has_the_same_p_value_at_most_as_without_looking():
    stages = Stages(20, 0.5)
    for yes in range(21):
        if (20, yes) in stages.outcomes:
            assert stages.p_value((20, yes)) <= binom.sf(yes - 1, 20, 0.5) + 1e-12


def test_outcomes_are_in_the_order_of_looks_and_no_large_share_ends_early():
    for draws, level in CASES:
        stages = Stages(draws, level)
        assert list(stages.outcomes) == sorted(stages.outcomes)
        assert not any(stages.ends(n, n) for n in stages.looks[:-1])
        assert comb(draws, draws) == 1 and stages.outcomes[-1] == (draws, draws)


# What is checked: procedures give outcomes, their chances, a p-value and an interval.


@dataclass(frozen=True)
class Exact:
    """The procedure of the library; faults replace one of its methods."""

    stages: Stages

    def outcomes(self):
        return self.stages.outcomes

    def chances(self, share):
        return self.stages.chances(share)

    def p_value(self, outcome):
        return self.stages.p_value(outcome)

    def interval(self, outcome):
        return self.stages.interval(outcome)


class Strict(Exact):
    """Counts what is above the outcome, not the outcome itself."""

    def p_value(self, outcome):
        here = self.stages.outcomes.index(outcome)
        return float(self.stages.chances(self.stages.level)[here + 1 :].sum())

    def interval(self, outcome):
        here, outcomes = self.stages.outcomes.index(outcome), self.stages.outcomes
        low = self.stages.interval(outcomes[here + 1])[0] if here + 1 < len(outcomes) else 1.0
        high = self.stages.interval(outcomes[here - 1])[1] if here else 0.0
        return low, high


class FutileLast(Exact):
    """Ranks outcomes that ended early above the others, and reads their p-values as if they were below."""

    def p_value(self, outcome):
        early = outcome[0] < self.stages.draws
        order = sorted(self.stages.outcomes, key=lambda one: (one[0] < self.stages.draws, one))
        chances = dict(zip(self.stages.outcomes, self.stages.chances(self.stages.level), strict=True))
        above = [one for one in order[order.index(outcome) :] if early or one[0] == self.stages.draws]
        return float(sum(chances[one] for one in above))


class Peeking(Exact):
    """Stops early where the share looks large, too, with the p-value of a fixed number of draws."""

    def _ends(self, n, yes):
        return self.stages.ends(n, yes) or binom.sf(yes - 1, n, self.stages.level) <= 0.05

    def _all(self, share):
        ways, before, made = {0: 1.0}, 0, {}
        for n in self.stages.looks:
            grown = {}
            for yes, chance in ways.items():
                for more in range(n - before + 1):
                    grown[yes + more] = grown.get(yes + more, 0.0) + chance * binom.pmf(more, n - before, share)
            made |= {(n, yes): chance for yes, chance in grown.items() if self._ends(n, yes)}
            ways, before = {yes: chance for yes, chance in grown.items() if not self._ends(n, yes)}, n
        return made

    def outcomes(self):
        return tuple(self._all(0.5))

    def chances(self, share):
        return np.array(list(self._all(share).values()))

    def p_value(self, outcome):
        return float(binom.sf(outcome[1] - 1, outcome[0], self.stages.level))

    def interval(self, outcome):
        exact = binomtest(outcome[1], outcome[0]).proportion_ci(0.95, method="exact")
        return exact.low, exact.high


def valid(procedure):
    """P(p <= u) <= u at the level, at every u there is."""
    p = np.array([procedure.p_value(one) for one in procedure.outcomes()])
    chances = procedure.chances(procedure.stages.level)
    for u in [0.01, 0.05, 0.1, *p]:
        assert chances[p <= u].sum() <= u + ROUNDING, f"P(p <= {u:.4g}) is {chances[p <= u].sum():.4g}"


def covering(procedure):
    """The interval holds the share with probability .95, whatever the share is."""
    ends = np.array([procedure.interval(one) for one in procedure.outcomes()])
    for share in SHARES:
        inside = (ends[:, 0] <= share + ROUNDING) & (share - ROUNDING <= ends[:, 1])
        covered = procedure.chances(float(share))[inside].sum()
        assert covered >= 0.95 - ROUNDING, f"covers {share:.3g} with probability {covered:.4f}"


@pytest.mark.parametrize(("draws", "level"), CASES)
def test_p_values_are_valid_and_intervals_cover(draws, level):
    valid(Exact(Stages(draws, level)))
    covering(Exact(Stages(draws, level)))


@pytest.mark.parametrize("fault", [Strict, FutileLast, Peeking])
def test_planted_faults_are_invalid(fault):
    with pytest.raises(AssertionError, match=r"P\(p <="):
        valid(fault(Stages(40, 0.5)))


@pytest.mark.parametrize("fault", [Strict, Peeking])
def test_planted_faults_do_not_cover(fault):
    with pytest.raises(AssertionError, match="covers"):
        covering(fault(Stages(40, 0.5)))


# Above the model's own noise.

NOISY = [(6, 0.5, 6), (20, 0.5, 20), (30, 0.5, 30), (15, 0.2, 15), (12, 0.8, 12)]


def sizes(stages, repeats, level, p_value):
    """Return the largest P(p <= u) over a grid of nulls q <= b + level, of u = .01, .05, .1."""
    p = np.array([[p_value(stages, one, k, repeats, level) for k in range(repeats + 1)] for one in stages.outcomes])
    largest = dict.fromkeys((0.01, 0.05, 0.1), 0.0)
    for noise in np.linspace(0, 1, 101):
        for less in (0.0, 0.02, 0.1):
            share = float(np.clip(min(noise + level, 1.0) - less, 0, 1))
            together = np.outer(stages.chances(share), binom.pmf(np.arange(repeats + 1), repeats, noise))
            for u in largest:
                largest[u] = max(largest[u], float(together[p <= u].sum()))
    return largest


@pytest.mark.parametrize(("draws", "level", "repeats"), NOISY)
def test_above_noise_has_its_size(draws, level, repeats):
    for u, size in sizes(Stages(draws, level), repeats, level, above_noise).items():
        assert size <= u + ROUNDING


def test_noise_that_is_taken_for_known_has_not():
    def plugged(stages, outcome, changed, repeats, level):
        return stages.at_least(outcome, min(1.0, changed / repeats + level))

    assert any(size > u for u, size in sizes(Stages(20, 0.5), 20, 0.5, plugged).items())


@pytest.mark.parametrize(("draws", "level", "repeats"), NOISY)
def test_excess_intervals_cover(draws, level, repeats):
    stages = Stages(draws, level)
    ends = np.array([[excess_interval(stages, one, k, repeats) for k in range(repeats + 1)] for one in stages.outcomes])
    for noise, share in product(np.linspace(0, 1, 26), repeat=2):
        together = np.outer(stages.chances(float(share)), binom.pmf(np.arange(repeats + 1), repeats, noise))
        inside = (ends[..., 0] <= share - noise + ROUNDING) & (share - noise - ROUNDING <= ends[..., 1])
        assert together[inside].sum() >= 0.95 - ROUNDING


def test_extreme_noise_gives_numbers():
    stages = Stages(10, 0.7)
    for outcome in (stages.outcomes[0], stages.outcomes[-1]):
        for changed in (0, 10):
            assert 0 < above_noise(stages, outcome, changed, 10, 0.7) <= 1
    assert staged.GRID >= 64
