"""Greater, less, two-sided."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from butfor.inference.irt import p_fixed
from butfor.inference.osft import z_one_shot
from butfor.inference.statistics import tail_statistic

VALUES = np.array([[2.0, 5.0, -1.0], [0.0, 0.0, 3.0]])


def test_greater_is_the_value_and_less_its_negative():
    assert (tail_statistic(VALUES, "greater") == VALUES).all()
    assert (tail_statistic(VALUES, "less") == -VALUES).all()


def test_two_sided_is_the_distance_from_the_centre():
    got = tail_statistic(VALUES, "two-sided", np.array([1.0, 2.0]))
    np.testing.assert_array_equal(got, [[1.0, 4.0, 2.0], [2.0, 2.0, 1.0]])


def test_two_sided_orders_as_the_papers_square_does():
    rng = np.random.default_rng(0)
    values, centre = rng.normal(size=(300, 21)), rng.normal(size=300)
    squares = (values - centre[:, None]) ** 2
    assert (p_fixed(tail_statistic(values, "two-sided", centre)) == p_fixed(squares)).all()
    z = z_one_shot(tail_statistic(values, "two-sided", centre), squared=True)
    np.testing.assert_allclose(z, squares[:, 0] - squares[:, 1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("centre", [0.1, 1 / 3, 1e9 + 0.1, -7e-5])
def test_values_on_either_side_of_the_centre_are_tied_in_spite_of_rounding(centre):
    """y = c + d and y = c - d are equally surprising, also where c + d and c - d are rounded."""
    d = abs(centre) * np.random.default_rng(0).uniform(0.5, 2, size=200)
    values = np.stack([centre + d, centre - d], axis=1)
    statistic = tail_statistic(values, "two-sided", np.full(200, centre))
    assert (p_fixed(statistic) == 1).all()
    assert (z_one_shot(statistic, squared=True) == 0).all()


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=12))
def test_less_is_greater_of_the_negative(values):
    row = np.array([values], float)
    assert p_fixed(tail_statistic(row, "less")) == p_fixed(tail_statistic(-row, "greater"))
