"""Ranks, Neyman's smooth test, patterns and verdicts on plain arrays."""

import numpy as np
import pytest
from scipy.stats import binom, kstest

from butfor.tabular.calibration import RankCheck, check_ranks, pattern, ranks, smooth_p, told_apart
from butfor.tabular.check import SubsetCheck, _verdicts


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("round_to", [None, 0], ids=["continuous", "tied"])
def test_ranks_of_exchangeable_values_are_uniform(round_to):
    pool = rng().normal(size=(5000, 20))
    pool = pool if round_to is None else np.round(pool, round_to)
    assert kstest(ranks(pool, rng(1)), "uniform").pvalue > 1e-4


def test_the_planted_fault_ties_not_broken_would_be_seen():
    pool = np.round(rng().normal(size=(5000, 20)))
    untied = (pool[:, 1:] < pool[:, :1]).mean(axis=1)
    assert kstest(untied, "uniform").pvalue < 1e-6


@pytest.mark.parametrize("test", [smooth_p, lambda u: told_apart(u)[1]], ids=["smooth", "classifier"])
@pytest.mark.parametrize("size", [50, 500])
def test_p_values_are_valid(test, size):
    source = rng(2)
    p = np.array([test(source.random(size)) for _ in range(2000)])
    assert all((p <= u).sum() <= binom.isf(1e-6, len(p), u) for u in (0.01, 0.05, 0.1, 0.5))


@pytest.mark.parametrize(
    ("draws_sd", "draws_mean", "said"),
    [(0.6, 0, "too narrow"), (0.1, 0, "too narrow"), (1.7, 0, "too wide"), (1, 0.5, "shifted"), (1, -4, "shifted")],
)
def test_patterns_of_a_normal_column(draws_sd, draws_mean, said):
    source = rng(3)
    pool = source.normal(draws_mean, draws_sd, size=(400, 100))
    pool[:, 0] = source.normal(size=400)
    found = check_ranks(pool[:, :, None], source)
    assert found.p < 1e-6
    assert found.pattern == said


def test_two_humps_and_mixed_scales_are_off_the_manifold():
    source = rng(4)
    humps = source.normal(size=(500, 100)) * np.sqrt(4.25)
    humps[:, 0] = source.choice([-2, 2], 500) + 0.5 * source.normal(size=500)
    scales = source.normal(size=(500, 100)) * 1.5
    scales[:, 0] = np.exp(0.8 * source.normal(size=500)) * source.normal(size=500)
    for pool in (humps, scales):
        found = check_ranks(pool[:, :, None], source)
        assert found.p < 1e-6
        assert found.pattern == "off-manifold"


def test_coverage_is_nominal_for_a_right_sampler_and_low_for_a_narrow_one():
    pool = rng(5).normal(size=(4000, 100, 1))
    right = check_ranks(pool, rng())
    assert abs(right.coverage_50 - 0.5) < 0.04
    assert abs(right.coverage_90 - 0.9) < 0.02
    pool[:, 1:] *= 0.5
    assert check_ranks(pool, rng()).coverage_90 < 0.75


def subset_check(ranked, auc_p=1.0, conditional_p=1.0):
    return SubsetCheck(ranked, (), 0.5, auc_p, None, None, conditional_p)


@pytest.mark.parametrize(("scale", "said"), [(1.0, "ok"), (0.6, "too narrow"), (1.7, "too wide")])
def test_groups_are_judged_by_their_distance(scale, said):
    source = rng(6)
    mix = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 5.0]])
    pool = source.normal(size=(400, 100, 3)) @ mix
    pool[:, 1:] *= scale
    found = check_ranks(pool, source)
    assert _verdicts([subset_check(found)], 0.01) == [said]
    assert (found.coverage_50 - 0.5) * (scale - 1) >= 0 or scale == 1


def test_groups_that_lost_their_correlation_are_found_by_distance_alone():
    source = rng(7)
    pool = source.normal(size=(400, 100, 2))
    pool[:, 0, 1] = -pool[:, 0, 0]  # each column by itself is as drawn
    assert check_ranks(pool, source).p < 1e-6


def test_constant_columns_do_no_harm():
    found = check_ranks(np.zeros((100, 50, 2)), rng())
    assert found.p > 0.001
    assert pattern(np.full(10, 0.5)) == "too wide"


def check(p, auc_p=1.0, conditional_p=1.0):
    return subset_check(RankCheck(p, "too narrow", 0.5, 0.9, np.zeros(1)), auc_p, conditional_p)


def test_a_verdict_follows_the_clearest_sign():
    checks = [check(1e-9, 1e-3), check(0.5, 1e-9), check(1e-4, 1e-9), check(0.5, 0.6), check(1e-4, 0.6, 1e-9)]
    assert _verdicts(checks, 0.01) == ["too narrow", "off-manifold", "off-manifold", "ok", "off-manifold"]


def test_a_right_sampler_is_called_wrong_at_most_at_alpha():
    source = rng(8)
    wrong = sum(
        _verdicts([check(*values) for values in source.random((5, 3))], 0.05) != ["ok"] * 5 for _ in range(2000)
    )
    assert wrong <= binom.isf(1e-6, 2000, 0.05)
    assert wrong >= 50
