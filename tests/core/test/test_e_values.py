"""Soft-rank e-values and e-BH: mean one by full enumeration and by chance, the rule by brute force, whole runs."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import butfor
from butfor.inference.irt import e_soft_rank
from butfor.inference.selection import e_bh
from butfor.tabular import from_values

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

NULLS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "heavy": lambda rng, shape: rng.standard_cauchy(size=shape),
    "two values": lambda rng, shape: (rng.random(shape) < 0.1) * 1.0,
    "four values": lambda rng, shape: rng.integers(0, 4, size=shape).astype(float),
    "mostly tied": lambda rng, shape: np.where(rng.random(shape) < 0.02, rng.normal(size=shape), 0.0),
    "large": lambda rng, shape: 1e9 + rng.normal(size=shape),
}


def excess(e):
    """How many standard errors the mean lies above 1."""
    return (e.mean() - 1) / (e.std() / np.sqrt(e.size) + 1e-12)


@pytest.mark.parametrize("draws", [5, 100])
@pytest.mark.parametrize("law", NULLS)
def test_e_values_have_mean_one_under_the_null(law, draws):
    statistic = NULLS[law](np.random.default_rng(0), (20_000, draws + 1))
    e = e_soft_rank(statistic)
    assert (e >= 0).all()
    assert (e <= draws + 1).all()
    assert excess(e) <= 4


@pytest.mark.parametrize("law", ["normal", "four values"])
def test_an_e_value_that_favours_the_observed_is_noticed(law):
    """Planted faults, which the check above must see: the observed left out of its own sum, and ties for us."""
    statistic = NULLS[law](np.random.default_rng(0), (20_000, 6))
    weights = np.exp(4 * statistic / np.maximum(statistic.std(axis=1, keepdims=True), 0.1))
    assert excess(6 * weights[:, 0] / weights[:, 1:].sum(axis=1)) > 4
    if law == "four values":
        assert excess(6.0 * (statistic[:, 0] == statistic.max(axis=1))) > 4


@pytest.mark.parametrize(
    "values", [(0, 1, 2, 3, 4), (0, 0, 1, 1, 2), (0, 0, 0, 0, 1), (1, 1, 1, 1, 0), (2, 2, 2, 2, 2)]
)
def test_the_mean_is_one_over_all_orders_of_any_multiset(values):
    e = e_soft_rank(np.array(list(permutations(values)), float))
    np.testing.assert_allclose(e.mean(), 1.0)


@given(st.lists(st.integers(-4, 4), min_size=3, max_size=8), st.sampled_from([1e-3, 0.5, 7.0, 1e6]), st.integers(-9, 9))
def test_units_and_origin_do_not_matter_and_larger_is_more(values, unit, origin):
    statistic = np.array([values], float)
    np.testing.assert_allclose(e_soft_rank(statistic * unit + origin), e_soft_rank(statistic), rtol=1e-6)
    if len(set(values)) > 1:
        best = np.sort(statistic, axis=1)[:, ::-1]
        assert e_soft_rank(best)[0] >= e_soft_rank(statistic)[0] * (1 - 1e-12)


def test_soft_rank_by_hand():
    values = np.array([3.0, 1.0, 1.0, 1.0])
    g = np.exp(4 * values / values.std())
    np.testing.assert_allclose(e_soft_rank(values[None]), [4 * g[0] / g.sum()])
    assert e_soft_rank(np.full((1, 9), 7.0)) == [1.0]


def exact_e_bh(e, alpha):
    """Wang & Ramdas: the k largest, k the largest with e_(k) >= N / (alpha k)."""
    ranked = sorted(e, reverse=True)
    k = max((k for k in range(1, len(e) + 1) if ranked[k - 1] * alpha * k >= len(e)), default=0)
    return [k > 0 and value >= ranked[k - 1] for value in e]


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=25),
    st.sampled_from([Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 3)]),
)
def test_e_bh_follows_its_definition_exactly(e, alpha):
    assert e_bh(e, float(alpha)).tolist() == exact_e_bh(e, alpha)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=25), st.randoms())
def test_e_bh_is_monotone_and_does_not_look_at_the_order(e, random):
    e = np.array(e, float)
    assert (e_bh(e, 0.05) <= e_bh(e, 0.2)).all()
    order = list(range(len(e)))
    random.shuffle(order)
    assert (e_bh(e[order], 0.2) == e_bh(e, 0.2)[order]).all()
    assert (e_bh(e, 0.2) <= e_bh(e * 1.5, 0.2)).all()


def test_e_bh_at_its_threshold():
    assert e_bh([30.0, 1.0, 1.0], 0.1).tolist() == [True, False, False]  # 3 / (.1 * 1)
    assert e_bh([29.99, 1.0, 1.0], 0.1).tolist() == [False] * 3
    assert e_bh([15.0, 15.0, 1.0], 0.1).tolist() == [True, True, False]
    assert e_bh([], 0.1).tolist() == []


# ---- whole runs -------------------------------------------------------------------------------------------------

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))


def run(rows, **settings):
    settings = {"test": "irt", "rule": "e-bh", "alternative": "greater", "effects": None, **settings}
    return butfor.explain(lambda batch: batch.sum(axis=1), rows, NORMAL, **settings)


ROWS = np.random.default_rng(0).normal([5, 5, 0, 0], 1, size=(10, 4))


@pytest.mark.parametrize("family", ["run", "input"])
def test_a_run_chooses_what_e_bh_does(family):
    result = run(ROWS, family=family)
    e = result.table.e.to_numpy()
    expected = e_bh(e, 0.1) if family == "run" else np.ravel([e_bh(row, 0.1) for row in e.reshape(10, 4)])
    assert result.chosen.tolist() == expected.tolist()
    assert result.chosen.any()
    assert (result.table.draws == 200).all()
    assert set(result.table.subset[result.chosen]) == {"x0", "x1"}


def test_e_values_of_a_run_come_from_its_own_draws():
    """The same seed and number of draws: the values that IRT ranks are those that are weighed here."""
    e, p = run(ROWS, draws=30).table.e, run(ROWS, draws=30, rule="bh").table.p
    least = p == 1 / 31
    assert least.any()
    assert e[least].min() > e[~least].median()


@pytest.mark.parametrize("settings", [{}, {"alternative": "two-sided"}, {"effects": "chosen"}])
def test_the_batch_size_changes_nothing(settings):
    whole = run(ROWS[:4], batch_rows=1000, draws=50, alpha=0.3, **settings)
    for batch_rows in (1, 7):
        part = run(ROWS[:4], batch_rows=batch_rows, draws=50, alpha=0.3, **settings)
        pd.testing.assert_frame_equal(part.table, whole.table, check_exact=True)


def test_evidence_of_one_kind_is_not_selected_by_the_rule_of_another():
    e, p = run(ROWS), run(ROWS, rule="bh", draws=99)
    with pytest.raises(butfor.InputError, match="this result has e evidence, rule='bh' needs another; run it again"):
        e.select(rule="bh")
    with pytest.raises(butfor.InputError, match="this result has p evidence, rule='e-bh' needs another"):
        p.select(rule="e-bh")
    assert e.select(alpha=0.2).chosen.sum() >= e.chosen.sum()
    with pytest.raises(butfor.InputError, match="bound needs p-values"):
        e.bound()


def test_the_reach_of_e_bh_is_told():
    rows = np.zeros((30, 4))
    with pytest.warns(butfor.ReachWarning, match=r"e-bh with draws=200 needs 6 of 120 hypotheses"):
        run(rows)  # 120 / (.1 * 201) = 5.97
    assert not any(note.code == "e-values-together" for note in run(rows[:5]).notes)  # 20 / .1 < 201


@pytest.mark.parametrize("law", ["normal", "four values"])
def test_the_false_discovery_rate_is_kept_with_every_null_true(law):
    """Clones: all hypotheses of an input hang on one number, the worst of dependence."""
    rng = np.random.default_rng(0)
    false = []
    for _ in range(1000):
        shared = NULLS[law](rng, (1, 1))
        statistic = np.column_stack([np.repeat(shared, 15, axis=0), NULLS[law](rng, (15, 60))])
        false.append(e_bh(e_soft_rank(statistic), 0.1).any())
    assert np.mean(false) <= 0.1 + 4 * np.std(false) / np.sqrt(1000)
