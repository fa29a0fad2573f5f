"""Shares in stages: exact against enumeration; level and coverage without simulation; planted faults are caught."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from butfor.inference.staged import Stages, above_noise, excess_interval

CASES = [Stages(*one) for one in ((10, 0.5), (20, 0.5), (7, 0.3), (45, 0.9), (12, 0.8))]
CASES += [Stages(59, 0.9, sure=39), Stages(12, 0.8, sure=8), Stages(9, 0.5, 0.01, 5)]
GRID = np.linspace(0.01, 0.99, 37)


def enumerated(stages, share):
    """Every sequence of yes and no, followed until drawing ends."""
    chances = dict.fromkeys(stages.outcomes, 0.0)
    for draws in product((0, 1), repeat=stages.draws):
        n = next(n for n in stages.looks if stages.ends(n, sum(draws[:n])))
        yes = sum(draws[:n])
        weight = share ** sum(draws) * (1 - share) ** (len(draws) - sum(draws))
        chances[n, yes] += weight
    return np.array(list(chances.values()))


@pytest.mark.parametrize(("draws", "level", "sure"), [(10, 0.5, 0), (7, 0.3, 0), (8, 0.6, 0), (1, 0.5, 0), (9, 0.5, 4)])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.83])
def test_chances_are_those_of_all_sequences(draws, level, sure, share):
    stages = Stages(draws, level, sure=sure)
    np.testing.assert_allclose(stages.chances(share), enumerated(stages, share), atol=1e-12)


def test_one_look_is_clopper_and_pearson():
    stages = Stages(4, 0.5)  # 0 of 4 does not end it
    assert stages.looks == (4,)
    for yes in range(5):
        exact = binomtest(yes, 4, 0.5, "greater")
        assert stages.p_value((4, yes)) == pytest.approx(exact.pvalue)
        ends = binomtest(yes, 4).proportion_ci(0.95, "exact")
        assert stages.interval((4, yes)) == pytest.approx((ends.low, ends.high), abs=1e-9)


def size(stages, p_value, share, u):
    """The chance of p <= u."""
    p = np.array([p_value(one) for one in stages.outcomes])
    return stages.chances(share)[p <= u].sum()


def strict(stages, outcome):
    """A fault: outcomes beyond the observed one, without it."""
    return float(stages.chances(stages.level)[stages.outcomes.index(outcome) + 1 :].sum())


def peeking(stages, outcome):
    """A fault: the smallest p-value of any look."""
    n, yes = outcome
    return min(binom.sf(yes - 1, n, stages.level), binom.sf(yes - 1, stages.looks[0], stages.level) if yes else 1.0)


def unpaid(stages, outcome):
    """A fault: the p-value as if no draws could end with all of them a yes."""
    return Stages(stages.draws, stages.level, stages.futile).p_value(outcome) if outcome[0] == stages.draws else (
        stages.p_value(outcome))  # fmt: skip


@pytest.mark.parametrize("stages", CASES)
@pytest.mark.parametrize("u", [0.005, 0.05, 0.1, 0.3])
def test_the_level_is_kept_exactly(stages, u):
    for share in np.linspace(0.01, stages.level, 9):
        assert size(stages, stages.p_value, share, u) <= u + 1e-12


@pytest.mark.parametrize("fault", [strict, peeking])
def test_planted_faults_break_the_level(fault):
    broken = [
        size(stages, partial(fault, stages), stages.level, u) > u for stages in CASES for u in (0.005, 0.05, 0.1, 0.3)
    ]
    assert sum(broken) >= 5


def test_an_early_yes_is_paid_for():
    stages = Stages(59, 0.9, sure=39)
    assert stages.outcomes[-1] == (39, 39)
    assert stages.p_value((39, 39)) == pytest.approx(0.9**39)
    assert (59, 59) not in stages.outcomes  # it has ended before
    assert size(stages, partial(unpaid, stages), 0.9, 0.0165) > 0.0165


@pytest.mark.parametrize("stages", CASES)
def test_intervals_cover_every_share(stages):
    ends = np.array([stages.interval(one) for one in stages.outcomes])
    for share in GRID:
        holds = (ends[:, 0] <= share + 1e-9) & (share - 1e-9 <= ends[:, 1])
        assert stages.chances(share)[holds].sum() >= 0.95 - 1e-9


def test_power_and_cost():
    stages = Stages(10, 0.5)
    assert stages.p_value((10, 10)) <= 0.1 / 60  # one decisive part of 60
    drawn = np.array([n for n, _ in stages.outcomes])
    assert stages.chances(0.0) @ drawn == 5
    assert stages.chances(1.0)[stages.outcomes.index((10, 10))] == 1


@pytest.mark.parametrize(("draws", "repeats"), [(10, 10), (20, 20)])
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.25, 0.5])
def test_noise_is_subtracted_at_its_level(draws, repeats, noise):
    stages, level = Stages(draws, 0.5), 0.5
    seen = binom.pmf(np.arange(repeats + 1), repeats, noise)
    joint = stages.chances(min(1.0, noise + level))[:, None] * seen
    p = np.array([[above_noise(stages, one, k, repeats, level) for k in range(repeats + 1)] for one in stages.outcomes])
    for u in (0.01, 0.05, 0.1):
        assert joint[p <= u].sum() <= u + 1e-6
    for share in (noise, min(1.0, noise + 0.3), min(1.0, noise + 0.5)):
        joint = stages.chances(share)[:, None] * seen
        ends = np.array(
            [[excess_interval(stages, one, k, repeats) for k in range(repeats + 1)] for one in stages.outcomes]
        )
        holds = (ends[..., 0] <= share - noise + 1e-9) & (share - noise - 1e-9 <= ends[..., 1])
        assert joint[holds].sum() >= 0.95 - 1e-9


def test_noise_that_is_ignored_breaks_the_level():
    stages, noise = Stages(20, 0.5), 0.4
    chances = stages.chances(0.9)  # q - b is the level
    p = np.array([stages.p_value(one) for one in stages.outcomes])
    assert chances[p <= 0.05].sum() > 0.5
    assert noise == pytest.approx(0.9 - stages.level)
