"""Mean changes and their intervals (METHODS 22) against the formulas, one hypothesis and one draw after the other."""

import math

import numpy as np
import pytest
from scipy.stats import beta, t

from butfor.inference import moves
from butfor.inference.decisions import mixture_low

RNG = np.random.default_rng(0)


def mixture(radius, n):
    """What the normal mixture makes of a mean that is `radius` standard errors away."""
    wide, v = 1 + n * moves.MIXTURE, n - 1
    return wide**-0.5 * ((1 + radius**2 / v) / (1 + radius**2 / (v * wide))) ** (n / 2)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("n", [15, 40, 400])
def test_the_radius_is_where_the_mixture_passes(n, alpha):
    assert mixture(moves.mixture_radius(np.array([n]), alpha)[0], n) == pytest.approx(1 / alpha)


def test_too_few_draws_have_no_radius():
    assert moves.mixture_radius(np.array([1, 2]), 0.05).tolist() == [1e9, 1e9]


def mean_changes():
    """Return hypotheses of 40 and 100 draws, of one draw, of a list and of nothing."""
    return moves.MeanChange(
        draws=np.array([40, 100, 1, 0, 0]),
        mean=np.array([0.3, -0.2, 0.1, 0.25, np.nan]),
        deviation=np.array([0.1, 0.3, 0.0, 0.2, np.nan]),
        seen=np.array([[0.05, -0.6, 0.1, -0.1, np.nan], [0.6, 0.4, 0.1, 0.5, np.nan]]),
        ends=np.array([[-0.4, -0.7, -0.5, -0.6, -0.5], [0.6, 0.3, 0.5, 0.4, 0.5]]),
        error=np.array([0.01, 0.0, 0.02, 0.05, 0.02]),
    )


def lower(one, i, alpha, fit_alpha):
    """The lower end of hypothesis i, from the formulas of `MeanChange.bounds`."""
    n, deviation, h = one.draws[i], one.deviation[i], one.error[i]
    draws = moves.mixture_radius(np.array([n]), alpha)[0] * deviation / math.sqrt(n) if n else 0.0
    fit = -t.ppf(fit_alpha / 2, max(1 / h, 1)) * deviation * math.sqrt(h) if h else 0.0
    unseen = 1 - mixture_low(np.array([float(n)]), np.array([n]), alpha)[0] if n else 0.0
    missed = math.hypot(unseen, 1 - (fit_alpha / 2) ** h)
    beyond = missed * max(one.seen[0][i] - one.ends[0][i], 0.0)
    return max(one.mean[i] - math.hypot(draws, fit) - beyond, one.ends[0][i])


@pytest.mark.parametrize("fit_alpha", [None, 0.02])
def test_the_errors_of_draws_fit_and_the_unseen_make_the_interval(fit_alpha):
    one, alphas = mean_changes(), np.array([0.05, 0.1, 0.05, 0.05, 0.05])
    low, high = one.bounds(alphas, fit_alpha)
    for i in (0, 1, 3):
        assert low[i] == pytest.approx(lower(one, i, alphas[i], fit_alpha or alphas[i]))
    mirrored = moves.MeanChange(one.draws, -one.mean, one.deviation, -one.seen[::-1], -one.ends[::-1], one.error)
    np.testing.assert_array_equal(high, -mirrored.low(alphas, fit_alpha))
    assert (low[2], high[2]) == (-0.5, 0.5)  # one draw has no spread
    assert one.ends[0][0] < low[0] < one.mean[0] < high[0] < one.ends[1][0]
    assert (low[4], high[4]) == (-0.5, 0.5)  # nothing was drawn: the range


def test_a_list_of_a_known_sampler_is_exact():
    exact = moves.MeanChange(*(np.array(v) for v in ([0], [0.25], [0.2], [[-0.1], [0.5]], [[-1.0], [1.0]], [0.0])))
    assert [end.item() for end in exact.bounds(0.05)] == [0.25, 0.25]


def test_alphas_that_are_equal_or_not_give_the_same():
    one = mean_changes()
    apart = np.array([0.05, 0.05, 0.05, 0.05, 0.050001])
    np.testing.assert_allclose(one.low(np.full(5, 0.05)), one.low(apart), rtol=1e-4)


def test_sizes_are_turned_so_that_they_are_above_zero():
    one = mean_changes().turned()
    assert one.mean[:4].tolist() == [0.3, 0.2, 0.1, 0.25]
    assert one.seen[:, 1].tolist() == [-0.4, 0.6]
    assert one.ends[:, 1].tolist() == [-0.3, 0.7]
    assert one.ends[:, 0].tolist() == [-0.4, 0.6]


def bounded(*rows, weight=None, ends=(-0.5, 0.5), listed=()):
    """Changes of some hypotheses, filled up with NaN; those of a list have draws 0."""
    most = max(len(row) for row in rows)
    changes = np.array([list(row) + [np.nan] * (most - len(row)) for row in rows])
    draws = np.array([0 if i in listed else len(row) for i, row in enumerate(rows)])
    mean, size = np.nanmean(changes, axis=1), len(rows)
    weight = np.ones(size) if weight is None else np.array(weight)
    return moves.BoundedChange(changes, draws, mean, np.array([[end] * size for end in ends]), weight)


def plain_wealth(row, m, end, weight=1.0):
    """The capital of all stakes, on one of two sides."""
    total = sum(math.prod(1 + f * (x - m) / (m - end) for x in row) ** weight for f in moves.FRACTIONS)
    return math.log(total / (2 * len(moves.FRACTIONS)))


LUMPED = [0.4, 0.4, 0.0, 0.4, 0.4, 0.1, 0.4]
EVEN = [0.1, 0.2, 0.25, 0.3, 0.33, 0.38, 0.4, 0.42, 0.45, 0.5, 0.2]


def test_wealth_is_that_of_all_stakes():
    found = bounded(LUMPED, LUMPED[:3], EVEN, weight=[1.0, 0.5, 1.0])
    expected = [
        plain_wealth(LUMPED, 0.05, -0.5),
        plain_wealth(LUMPED[:3], 0.1, -0.5, 0.5),
        plain_wealth(EVEN, 0.2, -0.5),
    ]
    np.testing.assert_allclose(found.log_wealth(np.array([0.05, 0.1, 0.2])), expected)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_ends_are_where_the_wealth_passes_and_p_is_its_inverse(alpha):
    found = bounded(LUMPED, EVEN, [-x for x in EVEN], [0.2, 0.2], listed=[3])
    low, high = found.bounds(alpha)
    assert (found.log_wealth(low - 1e-6)[:3] >= -math.log(alpha)).all()
    assert (found.log_wealth(low + 1e-6)[:3] < -math.log(alpha)).all()
    assert (low[3], high[3]) == (0.2, 0.2)
    mirrored = bounded([-x for x in LUMPED], [-x for x in EVEN], EVEN, [-0.2, -0.2], listed=[3])
    np.testing.assert_allclose(high, -mirrored.low(alpha))
    for level in (0.0, 0.1):
        np.testing.assert_array_equal(found.p_value(level) <= alpha, low > level)
    p = found.p_value(0.1)
    assert p[0] == pytest.approx(math.exp(-found.log_wealth(np.full(4, 0.1))[0]))
    assert p[2:].tolist() == [1.0, 0.0]
    assert found.p_value(0.2)[3] == 1.0  # a drop of exactly the level is none of more


def test_turned_changes_are_mirrored():
    found = bounded(EVEN, [-x for x in EVEN], ends=(-0.5, 0.6)).turned()
    np.testing.assert_array_equal(found.changes[1], EVEN)
    np.testing.assert_array_equal(found.changes[0], EVEN)
    assert found.mean[1] == found.mean[0] > 0
    assert found.ends.T.tolist() == [[-0.5, 0.6], [-0.6, 0.5]]


def test_sums_of_changes_by_hand():
    gaps = np.array([[0.1, -0.2, 0.4], [0.3, 0.9, -0.5]])
    np.testing.assert_allclose(moves.changes_of(gaps, None), [[0.3, 0.7], [0.21, 1.15], [-0.2, -0.5], [0.4, 0.9]])
    mass = np.array([[0.2, 0.2, 0.4], [0.5, 0.0, 0.5]])
    by_mass = [[0.175, -0.1], [0.01 / 4 + 0.01 + 0.08, 0.17], [-0.2, -0.5], [0.4, 0.3]]
    np.testing.assert_allclose(moves.changes_of(gaps, mass), by_mass)


def test_the_share_that_was_not_seen_is_more_than_that_of_fixed_draws():
    unseen = 1 - mixture_low(np.array([50.0]), np.array([50]), 0.05)[0]
    assert 1 - beta.ppf(0.05, 50, 1) < unseen < 0.2
