"""The decision for every subset over all inputs (METHODS 7) against its formula, one subset after the other."""

import math

import numpy as np
import pytest
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from butfor.inference.effects import Estimates
from butfor.inference.features import ALONE as ALONE_SHARE
from butfor.inference.features import Features, Fit, _least_alpha, features
from butfor.inference.selection import Layers

INPUTS, SUBSETS = 24, 4
RNG = np.random.default_rng(0)
GAIN = RNG.normal([0.5, 0.1, 0.0, 0.0], [0.5, 0.5, 0.5, 0.0], size=(INPUTS, SUBSETS))  # the last never varies
SPREAD = RNG.uniform(0.2, 0.4, size=(INPUTS, SUBSETS)) * [1, 1, 1, 0]
FIT = Fit(60, np.array([0.01, 0.02, 0.03, 0.04]), np.zeros(INPUTS * SUBSETS))
ALONE = np.arange(INPUTS)
PAIRS = np.arange(INPUTS) // 2 + 100


def estimates(gain=GAIN, spread=SPREAD):
    nothing = np.full(gain.size, np.nan)
    return Estimates(nothing, nothing, nothing, gain.ravel(), spread.ravel())


def plain(gain, spread, clusters, fit=None, off=None):
    """Mean, half the width of its interval and p of one subset (n,)."""
    n, names = len(gain), sorted(set(clusters.tolist()))
    mean = sum(gain) / n
    sums = [sum(g - mean for g, c in zip(gain, clusters, strict=True) if c == name) for name in names]
    noise = sum(s**2 for s in sums) * len(names) / (len(names) - 1) / n**2
    error, second = 0.0, math.inf
    if fit is not None:
        noise = max(noise, spread.mean() / len(names))
        error, second = fit[0] * spread.mean() + off**2, fit[1] - 1
    if noise + error == 0:
        return mean, 0.0, 1.0
    freedom = (noise + error) ** 2 / (noise**2 / (len(names) - 1) + error**2 / second)
    deviation = math.sqrt(noise + error)
    return mean, student.ppf(0.975, freedom) * deviation, 2 * student.sf(abs(mean) / deviation, freedom)


@pytest.mark.parametrize("clusters", [ALONE, np.arange(INPUTS) % 22], ids=["inputs", "clusters"])
@pytest.mark.parametrize("off", [None, [0.0, 0.1, -0.2, 0.0]])
@pytest.mark.parametrize("fit", [None, FIT])
def test_one_subset_after_the_other(clusters, off, fit):
    found = features(estimates(), None, fit, 0.1, clusters, off=None if off is None else np.array(off))
    assert isinstance(found, Features)
    for s in range(SUBSETS):
        known = None if fit is None else (fit.mean_leverage[s], fit.rows)
        mean, half, p = plain(GAIN[:, s], SPREAD[:, s], clusters, known, 0.0 if off is None else off[s])
        assert found.effect[s] == pytest.approx(mean)
        assert found.p[s] == pytest.approx(p)
        assert (found.high[s] - mean, mean - found.low[s]) == (pytest.approx(half), pytest.approx(half))
    np.testing.assert_allclose(found.q, false_discovery_control(found.p))
    np.testing.assert_array_equal(found.chosen, found.q <= 0.1)
    assert found.chosen[0]
    assert found.inputs.tolist() == [INPUTS] * SUBSETS


def test_the_draws_spread_counts_where_few_inputs_have_seen_anything():
    calm = features(estimates(GAIN * 0.01), None, FIT, 0.1, ALONE)
    wide = plain(GAIN[:, 0] * 0.01, SPREAD[:, 0], ALONE, (0.01, 60), 0.0)
    assert calm.high[0] - calm.effect[0] == pytest.approx(wide[1])
    assert not calm.chosen.any()


@pytest.mark.parametrize(
    ("inputs", "rows", "given"), [(19, 60, False), (20, 60, True), (20, 19, False), (20, 20, True)]
)
def test_twenty_inputs_and_rows_are_needed(inputs, rows, given):
    fit = Fit(rows, FIT.mean_leverage, FIT.leverage)
    assert (features(estimates(GAIN[:inputs], SPREAD[:inputs]), None, fit, 0.1, ALONE[:inputs]) is not None) == given


def test_clusters_count_and_not_inputs():
    assert features(estimates(), None, FIT, 0.1, PAIRS) is None  # 12
    assert features(estimates(), None, FIT, 0.1, np.r_[PAIRS[:8], ALONE[8:]]) is not None  # 4 and 16


def test_what_does_not_fit_the_inputs_is_not_decided():
    assert features(estimates(GAIN.ravel()[:-1, None], SPREAD), None, FIT, 0.1, ALONE) is None


def test_a_subset_that_is_not_calibrated_has_no_q_and_leaves_the_family():
    calibrated = np.array([True, False, True, True])
    found = features(estimates(), None, None, 0.1, ALONE, calibrated)
    assert np.isnan(found.q[1])
    assert not found.chosen[1]
    np.testing.assert_allclose(found.q[calibrated], false_discovery_control(found.p[calibrated]))


def test_all_columns_together_have_no_error_of_the_sampler():
    layers = Layers(np.array([0, 1, 1, 1]), np.array([-1, 0, 0, 0]))
    off = np.full(SUBSETS, 0.2)
    found = features(estimates(), layers, FIT, 0.1, ALONE, off=off)
    for s in range(SUBSETS):
        p = plain(GAIN[:, s], SPREAD[:, s], ALONE, (FIT.mean_leverage[s], FIT.rows), 0.0 if s == 0 else 0.2)[2]
        assert found.p[s] == pytest.approx(p)


def test_a_part_is_chosen_in_its_tree_or_by_itself():
    layers = Layers(np.array([0, 1, 1, 1]), np.array([-1, 0, 0, 0]))
    gain = GAIN.copy()
    gain[:, 0] = 0.2 * GAIN[:, 2]  # all together show nothing
    gain[:, 1] = 0.06 + 0.1 * GAIN[:, 2]
    found = features(estimates(gain), layers, None, 0.1, ALONE)
    by_tree = false_discovery_control(found.p[1:]) / 0.9  # parts of the whole, of which nothing is asked
    by_itself = found.p * SUBSETS / 0.1
    np.testing.assert_allclose(found.q[1:], np.minimum(np.minimum(by_tree, 1), by_itself[1:]))
    assert found.q[1] < found.q[2]


@pytest.mark.parametrize("alpha", [0.05, 0.07, 0.1, 0.15, 0.2, 0.3])
def test_a_subset_exactly_at_its_share_of_alpha_has_q_of_alpha(alpha):
    """Of one subset nine tenths of alpha, and no more after rounding."""
    one = Layers(np.zeros(1, int), np.full(1, -1))
    p = np.array([(1 - ALONE_SHARE) * alpha])
    assert _least_alpha(one, p, np.ones(1, bool), alpha, None).tolist() == [alpha]
