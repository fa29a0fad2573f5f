"""Intervals for the probability of another decision hold q, all of a run together: known and fitted samplers."""

import numpy as np
import pytest
from scipy.stats import binom

from butfor.bench.decisions import COVARIANCE, markdown, one_run, run, true_flip
from butfor.core.types import Subset
from butfor.simulate.known import known_normal
from butfor.tabular.splice import from_values


def test_what_is_called_true_is_true():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(5, 5))
    for chosen in ([0], [1, 3], [0, 1, 2, 3, 4]):
        subset = Subset("some", np.array(chosen))
        drawn = from_values(known_normal(COVARIANCE).values)(inputs, subset, 40_000, rng).reshape(5, -1, 5) @ np.array(
            [1.0, 0.8, -0.6, 0.4, 0.0]
        )
        before = inputs @ np.array([1.0, 0.8, -0.6, 0.4, 0.0]) > 1
        brute = ((drawn > 1) != before[:, None]).mean(axis=1)
        assert brute == pytest.approx(true_flip(inputs, np.array(chosen), 1.0), abs=0.012)


@pytest.mark.parametrize("how", ["all", "top"])
@pytest.mark.parametrize("rows", [None, 100, 300])
def test_all_intervals_of_a_run_hold_q(rows, how):
    count = 40 if rows is None else 12
    found = [one_run(rows, how, seed) for seed in range(count)]
    missed = sum(not one.covered for one in found)
    assert missed <= binom.isf(1e-3, count, 0.05 if rows is None else 0.07)
    assert np.mean([one.each for one in found]) > 0.99
    assert sum(one.wrong for one in found) == 0
    assert np.mean([one.added for one in found]) <= 100


def test_something_is_established():
    found = [one_run(300, "top", seed) for seed in range(6)]
    assert sum(one.necessary for one in found) > 60


def test_the_bench_has_its_table():
    figures = run(runs=1)
    assert "residual, 1000 rows" in markdown(figures)
