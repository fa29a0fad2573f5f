"""Statistics -> p and z: hand-worked values, brute force, full enumeration."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from butfor.inference.irt import p_fixed
from butfor.inference.osft import z_one_shot
from butfor.inference.statistics import varies


@pytest.mark.parametrize(
    ("statistic", "p"),
    [
        ([5, 1, 2, 3, 4], 1 / 5),  # above all
        ([0, 1, 2, 3, 4], 5 / 5),  # below all
        ([3, 1, 2, 3, 4], 3 / 5),  # a tie counts as larger
        ([2, 2, 2, 2, 2], 5 / 5),  # all tied
        ([4, 4, 1, 1, 1], 2 / 5),
        ([1, 0], 1 / 2),
        ([0, 1], 1),
    ],
)
def test_p_by_hand(statistic, p):
    assert p_fixed(np.array([statistic], float)) == [p]


@given(st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=20))
def test_p_is_the_count_by_brute_force(rows):
    brute = [(1 + sum(draw >= row[0] for draw in row[1:])) / len(row) for row in rows]
    assert p_fixed(np.array(rows, float)).tolist() == brute


@pytest.mark.parametrize(
    "values", [(0, 1, 2, 3, 4), (0, 0, 1, 1, 2), (0, 0, 0, 0, 1), (1, 1, 1, 1, 0), (2, 2, 2, 2, 2)]
)
def test_p_is_valid_over_all_orders_of_any_multiset(values):
    """Exchangeability, enumerated: of all orders of the K + 1 values a share of at most u has p <= u, for every u."""
    p = p_fixed(np.array(list(permutations(values)), float))
    exact = [Fraction(round(value * 5), 5) for value in p]
    for u in (Fraction(k, 5) for k in range(6)):
        assert Fraction(sum(value <= u for value in exact), len(exact)) <= u


@pytest.mark.parametrize("values", [(0, 0, 1, 1, 2), (0, 0, 0, 0, 1), (1, 1, 1, 1, 0), (2, 2, 2, 2, 2)])
def test_dropping_what_does_not_vary_looks_at_the_unordered_set_only(values):
    """`varies` is the same for every order of the values: that is why dropping them keeps the others' p exact."""
    kept = varies(np.array(list(permutations(values)), float))
    assert kept.all() == kept.any() == (len(set(values)) > 1)


def test_z_by_hand():
    assert z_one_shot(np.array([[3, 1], [2, 2], [-1, 4]], float)).tolist() == [2, 0, -5]
    assert z_one_shot(np.array([[3, 1], [2, 2], [1, 4]], float), squared=True).tolist() == [8, 0, -15]


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1))
def test_swapping_the_observed_and_the_drawn_flips_the_sign(pairs):
    pairs = np.abs(np.array(pairs))
    for squared in (False, True):
        assert (z_one_shot(pairs[:, ::-1], squared=squared) == -z_one_shot(pairs, squared=squared)).all()
