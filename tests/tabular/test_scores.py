"""Proper scores of draws: against brute force, known laws and the margin."""

import numpy as np
import pytest
from scipy.stats import norm

from butfor.tabular.check import crps, energy, score_draws

NUMBER, LEVEL = np.array([False]), np.array([True])


def brute(draws, real):
    pairs = np.abs(draws[:, None] - draws[None])[~np.eye(len(draws), dtype=bool)]
    return np.abs(draws - real).mean() - pairs.mean() / 2


def test_crps_is_that_of_all_pairs():
    pool = np.random.default_rng(0).normal(size=(6, 8))
    sd = pool[:, 0].std()
    assert crps(pool)[0] == pytest.approx(np.mean([brute(row[1:], row[0]) for row in pool]) / sd)
    margin = np.mean([brute(np.delete(pool[:, 0], i), pool[i, 0]) for i in range(6)])
    assert crps(pool)[1] == pytest.approx(margin / sd)


def test_missing_values_are_left_out():
    pool = np.random.default_rng(1).normal(size=(6, 8))
    pool[0, 0] = pool[1, 3] = np.nan
    sd = pool[1:, 0].std()
    kept = [brute(row[1:][~np.isnan(row[1:])], row[0]) for row in pool[1:]]
    assert crps(pool)[0] == pytest.approx(np.mean(kept) / sd)
    assert np.isnan(crps(np.full((5, 9), np.nan))[0])
    assert np.isnan(crps(np.zeros((5, 9)))[0])


def test_known_laws():
    """CRPS of N(0, 1) for its own values is 1 / sqrt(pi); a wrong spread or place costs."""
    rng = np.random.default_rng(2)
    pool = rng.normal(size=(4000, 100))
    right, margin = crps(pool)
    assert right == pytest.approx(1 / np.sqrt(np.pi), abs=0.02)
    assert margin == pytest.approx(right, abs=0.01)
    for wrong in (0.5 * pool, 2 * pool, pool + 1):
        wrong[:, 0] = pool[:, 0]
        assert crps(wrong)[0] > right + 0.02


def test_energy_of_one_column_is_its_crps():
    pool = np.random.default_rng(3).normal(size=(500, 100, 1))
    assert energy(pool, NUMBER) == pytest.approx(crps(pool[:, :, 0]), abs=0.01)


def test_groups_are_scored_together_and_missing_is_one_step_away():
    rng = np.random.default_rng(4)
    known = rng.normal(size=(300, 1, 2))
    pool, both = known + 0.3 * rng.normal(size=(300, 50, 2)), np.array([False, False])
    assert score_draws(pool, both).explained > 0.5
    pool[:, 1:] = pool[rng.permutation(300), 1:]  # draws that know nothing of their row, and are sure of it
    assert score_draws(pool, both).explained < -0.2
    pool = np.array([[[1.0, 0], [np.nan, 0], [1, 1]], [[np.nan, 1], [1, 1], [np.nan, 1]]])
    assert energy(pool, np.array([False, True])) == pytest.approx((0.75 - 0.25 * (np.sqrt(2) + 1), np.sqrt(2) / 2))


def test_log_score_of_levels():
    """Draws that know the level, and draws of the margin."""
    rng = np.random.default_rng(5)
    real = rng.integers(0, 3, (600, 1))
    drawn = np.where(rng.random((600, 99)) < 0.7, real, rng.integers(0, 3, (600, 99)))
    found = score_draws(np.column_stack([real, drawn])[:, :, None].astype(float), LEVEL)
    assert found.log_score == pytest.approx(-np.log(0.8), abs=0.02)
    assert found.log_margin == pytest.approx(np.log(3), abs=0.02)
    assert np.isnan(found.crps)
    blind = score_draws(np.column_stack([real, rng.integers(0, 3, (600, 99))])[:, :, None].astype(float), LEVEL)
    assert blind.explained == pytest.approx(0, abs=0.02)
    never = score_draws(np.ones((60, 20, 1)) * (np.arange(20) > 0)[None, :, None], LEVEL)
    assert np.isfinite(never.log_score)


def test_listed_probabilities_stand_for_the_draws():
    pool = np.random.default_rng(6).integers(0, 4, (200, 100, 1)).astype(float)
    found = score_draws(pool, NUMBER, np.full(200, 0.5))
    assert found.log_score == pytest.approx(-np.log((0.5 * 99 + 0.25) / 100))
    assert found.crps == pytest.approx(crps(pool[:, :, 0])[0])
    assert found.explained == pytest.approx(1 - found.log_score / found.log_margin)


def test_a_tail_of_the_normal_has_its_own_crps():
    """One value far out: E|X - 3| - 1 / sqrt(pi), by hand."""
    draws = norm.ppf((np.arange(2000) + 0.5) / 2000)
    assert brute(draws, 3.0) == pytest.approx(
        3 * (2 * norm.cdf(3) - 1) + 2 * norm.pdf(3) - 1 / np.sqrt(np.pi), abs=0.01
    )
