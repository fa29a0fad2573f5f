"""What NumPy has too: the same to the last bit."""

import numpy as np
import pytest
from scipy.special import bdtrc, stdtrit

from butfor.inference.effects import AT_HAND, student_quantile
from butfor.run.control import _at_least
from butfor.types import distinct, median, quantiles

RNG = np.random.default_rng(0)
COLUMNS = {
    "odd": RNG.normal(size=7),
    "even": RNG.lognormal(size=300),
    "ties": RNG.integers(0, 4, 50).astype(float),
    "one": np.array([3.0]),
    "missing": np.array([1.0, np.nan, 2.0, np.nan]),
    "large": np.array([1e308, 1.5e308, -np.inf]),
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_order_statistics_are_those_of_numpy(values):
    shares = np.array([0.0, 0.05, 0.275, 0.5, 0.95, 1.0])
    np.testing.assert_array_equal(distinct(values), np.unique(values))
    np.testing.assert_array_equal(median(values), np.median(values))
    np.testing.assert_array_equal(quantiles(values, shares), np.quantile(values, shares))


def test_quantiles_of_each_row():
    rows, shares = RNG.normal(size=(5, 40)), np.array([0.25, 0.5])
    np.testing.assert_array_equal(quantiles(rows, shares), np.quantile(rows, shares, axis=1).T)


def test_quantiles_of_students_t_are_those_of_scipy():
    for freedom in (*AT_HAND, 1, 8, 1000):
        assert student_quantile(freedom) == pytest.approx(stdtrit(freedom, 0.975), rel=1e-14)
    assert student_quantile(9, 0.9) == pytest.approx(stdtrit(9, 0.95), rel=1e-14)


@pytest.mark.parametrize("chance", [0.05, 0.1])
@pytest.mark.parametrize("count", [1, 20, 201])
def test_binomial_tails_are_those_of_scipy(count, chance):
    wanted = bdtrc(np.arange(-1, count), count, chance)
    np.testing.assert_allclose(_at_least(count, chance), wanted, rtol=1e-11, atol=0)
