"""Known mistakes, planted: the checks that the real procedures pass must fail on every one of them."""

import numpy as np
import pytest

from butfor.inference.irt import p_fixed
from butfor.inference.osft import z_one_shot
from butfor.inference.selection import bh, knockoff_plus
from calibration_checks import NULLS, check_irt, check_osft, check_p_values


def without_the_one(statistic):
    """The dropped + 1: p = #{t <= t~} / K can be 0."""
    return (statistic[:, 1:] >= statistic[:, :1]).sum(axis=1) / (statistic.shape[1] - 1)


def without_the_one_above(statistic):
    """The + 1 in the denominator only."""
    return (statistic[:, 1:] >= statistic[:, :1]).sum(axis=1) / statistic.shape[1]


def strictly_larger(statistic):
    """`>` for `>=`: ties count for us."""
    return (1 + (statistic[:, 1:] > statistic[:, :1]).sum(axis=1)) / statistic.shape[1]


def knockoff(z, alpha, *, offset=1, denominator=0):
    """Knockoff+ as it should be with the defaults; the released scripts dropped the 1 or added one below as well."""
    for threshold in np.unique(np.abs(z[z != 0])):
        wins, losses = (z >= threshold).sum(), (z <= -threshold).sum()
        if wins and offset + losses <= alpha * (wins + denominator) * (1 + 1e-12):
            return z >= threshold
    return np.zeros(len(z), bool)


def without_offset(z, alpha):
    return knockoff(z, alpha, offset=0)


def one_more_below(z, alpha):
    return knockoff(z, alpha, denominator=1)


def ties_win(statistic):
    """z = 0 counted as a win: a tie becomes the smallest of wins."""
    z = z_one_shot(statistic)
    return np.where(z == 0, 1e-9, z)


def ties_do_not_lose(statistic):
    """A tie decided for the observed by rounding, as of a single-row call beside batched ones (METHODS 6)."""
    z = z_one_shot(statistic)
    return np.where(z == 0, np.abs(np.random.default_rng(0).normal(size=len(z))) * 1e-9, z)


def caught(check, *arguments):
    with pytest.raises(AssertionError):
        check(*arguments)


def test_the_reference_versions_here_are_the_real_ones():
    rng = np.random.default_rng(0)
    for null in NULLS:
        z = z_one_shot(NULLS[null](rng, (200, 2)) + rng.choice([0, 0, 2], size=(200, 1)) * [1, 0])
        for alpha in (0.05, 0.2, 0.5):
            assert (knockoff(z, alpha) == knockoff_plus(z, alpha)).all()


@pytest.mark.parametrize("fault", [without_the_one, without_the_one_above])
@pytest.mark.parametrize("null", ["continuous", "rounded", "threshold", "vote"])
def test_a_dropped_one_is_caught(fault, null):
    check_p_values(p_fixed, null)
    caught(check_p_values, fault, null)


@pytest.mark.parametrize("fault", [without_the_one, without_the_one_above])
def test_a_dropped_one_is_caught_by_its_false_discoveries(fault):
    check_irt(p_fixed, "continuous")
    caught(check_irt, fault, "continuous")


@pytest.mark.parametrize("null", ["rounded", "threshold", "vote", "constant"])
def test_ties_that_count_for_us_are_caught(null):
    check_p_values(p_fixed, null)
    caught(check_p_values, strictly_larger, null)


@pytest.mark.parametrize("null", ["threshold", "constant"])
def test_ties_that_count_for_us_are_caught_by_their_false_discoveries(null):
    """METHODS 8: `>` for `>=` gives FDR .92 on tied models."""
    check_irt(p_fixed, null)
    caught(check_irt, strictly_larger, null)


def test_only_ties_tell_the_strict_fault_apart():
    """On continuous nulls `>` and `>=` are the same: a calibration test without ties would have missed it."""
    check_p_values(strictly_larger, "continuous")


@pytest.mark.parametrize("null", ["continuous", "rounded"])  # where |z| takes few values, the offset hardly matters
def test_knockoff_without_its_offset_is_caught(null):
    check_osft(z_one_shot, knockoff, null)
    caught(check_osft, z_one_shot, without_offset, null)


def test_one_in_the_denominator_is_caught_by_small_families():
    """(1 + losses) / (1 + wins) of the released image script: 4 wins of 4 pass at .2; by the theorem they may not."""
    z = np.array([4.0, 3.0, 2.0, 1.0])
    assert not knockoff_plus(z, 0.2).any()
    assert one_more_below(z, 0.2).any()


@pytest.mark.parametrize("fault", [ties_win, ties_do_not_lose])
@pytest.mark.parametrize("null", ["threshold", "constant"])
def test_ties_that_win_are_caught(fault, null):
    check_osft(z_one_shot, knockoff_plus, null)
    caught(check_osft, fault, knockoff_plus, null)


@pytest.mark.parametrize("offset", [0.01, 0.05])
def test_p_values_that_are_a_little_too_small_are_caught(offset):
    """The sharpness of the check: one per cent too many small p-values is seen."""
    caught(check_p_values, lambda statistic: np.maximum(p_fixed(statistic) - offset, 0), "continuous")


def test_a_test_that_never_chooses_is_caught():
    """The power floor: p = 1 for all controls every error rate."""
    caught(check_irt, lambda statistic: np.ones(len(statistic)), "continuous")
    caught(check_osft, lambda statistic: -np.abs(z_one_shot(statistic)), knockoff_plus, "continuous")


@pytest.mark.parametrize("factor", [2, 5])
def test_a_level_that_is_too_high_is_caught(factor):
    caught(check_irt, p_fixed, "continuous", lambda p, alpha: bh(p, min(0.99, factor * alpha)))


def test_selection_without_correction_is_caught():
    caught(check_irt, p_fixed, "continuous", lambda p, alpha: p <= alpha)
