"""Simultaneous bounds: equal to full closed testing, covering at their confidence, quick on a million p-values."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from butfor.inference.bounds import simes_bounds
from butfor.types import InputError

A = Fraction(1, 20)


def closed_testing(p: list[Fraction], a: Fraction) -> list[int]:
    """The bound of every set, by definition: |S| - the size of the largest part of S that closed testing accepts.

    Exact arithmetic; a set is a bit mask. Closed testing rejects I if Simes rejects I and everything that contains I.
    """
    m = len(p)
    rejected = [simes([p[i] for i in range(m) if mask >> i & 1], a) for mask in range(2**m)]
    for mask in reversed(range(2**m)):
        rejected[mask] &= all(rejected[mask | 1 << i] for i in range(m) if not mask >> i & 1)
    rejected[0] = False  # nothing is null in an empty set
    largest = [0] * 2**m
    for mask in range(2**m):
        own = 0 if rejected[mask] else mask.bit_count()
        largest[mask] = max([own, *(largest[mask & ~(1 << i)] for i in range(m) if mask >> i & 1)])
    return [mask.bit_count() - largest[mask] for mask in range(2**m)]


def simes(p: list[Fraction], a: Fraction) -> bool:
    return any(len(p) * value <= j * a for j, value in enumerate(sorted(p), start=1))


def members(mask: int, m: int) -> list[int]:
    return [i for i in range(m) if mask >> i & 1]


def agrees(p: list[Fraction], a: Fraction = A) -> bool:
    bounds = simes_bounds([float(value) for value in p], float(1 - a))
    return [bounds(members(mask, len(p))) for mask in range(2 ** len(p))] == closed_testing(p, a)


# p-values of fixed-K tests, many of them exactly at a threshold j a / i of Simes, and repeated
discrete = st.builds(lambda hits, size: Fraction(hits, size), st.integers(1, 20), st.sampled_from([20, 100, 200, 1000]))
thresholds = st.builds(lambda j, i: min(Fraction(1), j * A / i), st.integers(1, 8), st.integers(1, 8))
anything = st.floats(0, 1).map(lambda x: Fraction(x).limit_denominator(10**6))  # at a threshold, or away from it


@settings(max_examples=300, deadline=None)
@given(st.lists(discrete | thresholds | anything, max_size=7))
def test_equals_closed_testing_on_small_families(p):
    assert agrees(p)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("a", [Fraction(1, 20), Fraction(1, 5)])
def test_equals_closed_testing_on_twelve(seed, a):
    rng = np.random.default_rng(seed)
    smooth = [Fraction(float(value)) for value in rng.uniform(size=12) ** rng.choice([1, 3, 6])]
    tied = [Fraction(int(value), 100) for value in rng.integers(1, rng.choice([5, 12, 40]), size=12)]
    assert agrees(smooth, a)
    assert agrees(tied, a)


def test_wrong_at_equality_would_be_seen():
    """The planted fault: `<` for `<=`. One p-value exactly at a is a discovery."""
    assert simes_bounds([0.05], 0.95)([0]) == 1
    assert simes_bounds([0.050000001], 0.95)([0]) == 0
    assert simes_bounds([0.025, 0.05], 0.95)([0, 1]) == 2  # h = 0: every intersection is rejected


def test_no_hypotheses_and_empty_sets():
    assert simes_bounds([])([]) == 0
    assert simes_bounds([0.001, 0.5])([]) == 0


def test_all_rejected_counts_every_row():
    bounds = simes_bounds(np.zeros(5))
    assert bounds.h == 0
    assert bounds([1, 3]) == 2


def test_rows_are_positions_or_a_mask_and_count_once():
    bounds = simes_bounds([1e-6, 1e-5, 0.7])
    assert bounds([0, 0, 0, 2]) == bounds([0, 2]) == bounds(np.array([True, False, True])) == 1
    assert bounds(0) == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.data())
def test_larger_sets_and_lower_confidence_never_bound_less(p, data):
    rows = data.draw(st.lists(st.integers(0, len(p) - 1)))
    strict, mild = simes_bounds(p, 0.95), simes_bounds(p, 0.8)
    assert strict(rows) <= strict(range(len(p)))
    assert strict(rows) <= mild(rows) <= len(set(rows))


@pytest.mark.parametrize(("rho", "runs"), [(0.0, 500), (0.5, 100)])
def test_covers_every_set_at_once(rho, runs):
    """100 p-values, 30 signals; 200 sets at random and by greed: the smallest p-values, and the smallest of nulls."""
    rng = np.random.default_rng(11)
    m, signals = 100, 30
    failures, found = 0, 0
    for _ in range(runs):
        shared = np.sqrt(rho) * rng.normal() + np.sqrt(1 - rho) * rng.normal(size=m)
        p = norm.sf(shared + 3 * (np.arange(m) < signals))
        order, nulls = np.argsort(p), signals + np.argsort(p[signals:])
        sets = [order[:k] for k in range(1, 51)] + [nulls[:k] for k in range(1, 51)]
        sets += [rng.choice(m, size=rng.integers(1, m), replace=False) for _ in range(100)]
        bounds = simes_bounds(p, 0.95)
        failures += any(bounds(rows) > (rows < signals).sum() for rows in sets)
        found += bounds(np.arange(m))
    assert failures <= runs * (0.05 + 2 * np.sqrt(0.05 * 0.95 / runs))
    assert found >= runs * 15  # bounds of zero would cover, too


def test_one_million():
    rng = np.random.default_rng(5)
    p = rng.uniform(size=10**6)
    p[: 10**5] *= 1e-4
    bounds = simes_bounds(p)  # what grows with the square of them would not end
    total = bounds(np.ones(len(p), bool))
    assert 80_000 <= total <= 101_000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: simes_bounds([0.1, np.nan]), "drop NaN"),
        (lambda: simes_bounds([[0.1]]), "one-dimensional"),
        (lambda: simes_bounds([1.1]), "between 0 and 1"),
        (lambda: simes_bounds([0.1], confidence=1), "confidence must lie strictly between 0 and 1, got 1"),
        (lambda: simes_bounds([0.1])([1]), "rows must lie between 0 and 0, got 1 to 1"),
        (lambda: simes_bounds([0.1])([-1]), "rows must lie between"),
        (lambda: simes_bounds([0.1, 0.2])([True]), "boolean mask of 2 entries"),
        (lambda: simes_bounds([0.1, 0.2])(["a"]), "rows must be positions"),
    ],
)
def test_refuses_with_a_sentence(call, said):
    with pytest.raises(InputError, match=said):
        call()
