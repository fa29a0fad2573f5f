"""Evidence -> chosen: hand-worked values, definitions in exact arithmetic, oracles, properties."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

import butfor
from butfor.inference.selection import RULES, bh, bonferroni, by, holm, knockoff_plus, select

P_RULES = {"bh": bh, "by": by, "holm": holm, "bonferroni": bonferroni}
ALPHAS = [Fraction(1, 100), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2)]

p_counts = st.integers(1, 60).flatmap(
    lambda draws: st.tuples(st.just(draws), st.lists(st.integers(1, draws + 1), min_size=1, max_size=40))
)
alphas = st.sampled_from(ALPHAS)


def exact_choice(rule, p, alpha):
    """The rules as their papers state them, in exact arithmetic: p is a list of fractions."""
    n, ranked = len(p), sorted(p)
    if rule == "bonferroni":
        return [value * n <= alpha for value in p]
    if rule == "holm":
        passed = 0
        while passed < n and ranked[passed] * (n - passed) <= alpha:
            passed += 1
        return [value in ranked[:passed] for value in p]
    level = alpha if rule == "bh" else alpha / sum(Fraction(1, i) for i in range(1, n + 1))
    largest = max((i for i in range(1, n + 1) if ranked[i - 1] <= level * i / n), default=0)
    return [largest > 0 and value <= ranked[largest - 1] for value in p]


def exact_knockoff_plus(z, alpha):
    for threshold in sorted({abs(value) for value in z if value}):
        wins, losses = sum(value >= threshold for value in z), sum(value <= -threshold for value in z)
        if wins and Fraction(1 + losses, wins) <= alpha:
            return [value >= threshold for value in z]
    return [False] * len(z)


# Benjamini & Hochberg 1995, section 3.2: fifteen p-values, of which BH rejects four and Bonferroni three at .05.
LYSIS = [1e-4, 4e-4, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528, 0.759, 1]


@pytest.mark.parametrize(
    ("rule", "p", "alpha", "chosen"),
    [
        ("bh", LYSIS, 0.05, 4),
        ("bonferroni", LYSIS, 0.05, 3),
        ("bh", [0.04, 0.05, 0.05, 0.05], 0.05, 4),  # the last one pulls the others in
        ("bh", [0.05], 0.05, 1),  # at its threshold: chosen
        ("by", [0.05, 1.0], 0.15, 1),  # .05 * 2 * 1.5 / 1 = .15, at its threshold
        ("holm", [0.01, 0.025, 0.05], 0.05, 3),  # every step at its threshold: .05 / 3 > .01, .05 / 2, .05 / 1
        ("holm", [0.01, 0.026, 0.0, 0.026], 0.05, 2),  # .026 * 2 > .05: the fourth would have passed alone
        ("bonferroni", [0.025, 0.03], 0.05, 1),
    ],
)
def test_by_hand(rule, p, alpha, chosen):
    got = P_RULES[rule](p, alpha)
    assert got.dtype == bool
    assert got.sum() == chosen
    assert (np.sort(np.asarray(p)[got]) == np.sort(p)[:chosen]).all()


@pytest.mark.parametrize("rule", P_RULES)
@given(p_counts, alphas)
def test_rules_follow_their_definition_exactly(rule, counts, alpha):
    """p = k / (K + 1) meets its threshold often; what is equal to it in exact arithmetic is chosen."""
    draws, ks = counts
    exact = exact_choice(rule, [Fraction(k, draws + 1) for k in ks], alpha)
    got = P_RULES[rule](np.array(ks) / (draws + 1), float(alpha))
    assert got.tolist() == exact


@pytest.mark.parametrize("draws", [9, 99, 999, 9_999])
@pytest.mark.parametrize("size", [10, 100, 1000])
def test_p_exactly_at_the_threshold_is_chosen(draws, size):
    """A lone p = 1 / (K + 1) among N with N / (K + 1) = alpha exactly, whatever the floating point makes of it."""
    p = np.ones(size)
    p[0] = 1 / (draws + 1)
    alpha = size / (draws + 1)
    if alpha < 1:
        assert bh(p, alpha)[0]
        assert holm(p, alpha)[0]
        assert bonferroni(p, alpha)[0]
        assert not bh(p, alpha * (1 - 1e-6)).any()


@pytest.mark.parametrize("rule", P_RULES)
@pytest.mark.parametrize("seed", range(5))
def test_rules_agree_with_statsmodels(rule, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=300) ** rng.choice([1, 4], size=300)
    method = {"bh": "fdr_bh", "by": "fdr_by"}.get(rule, rule)
    for alpha in (0.01, 0.1, 0.3):
        assert (P_RULES[rule](p, alpha) == multipletests(p, alpha, method=method)[0]).all()


def test_bh_and_by_agree_with_scipy():
    p = np.random.default_rng(0).uniform(size=500) ** 3
    for rule in ("bh", "by"):
        assert (P_RULES[rule](p, 0.07) == (false_discovery_control(p, method=rule) <= 0.07)).all()


@pytest.mark.parametrize("rule", P_RULES)
@given(p_counts, alphas, alphas, st.randoms())
def test_rules_are_monotone_and_do_not_look_at_the_order(rule, counts, one, other, random):
    draws, ks = counts
    p = np.array(ks) / (draws + 1)
    small, large = (P_RULES[rule](p, float(alpha)) for alpha in sorted((one, other)))
    assert (small <= large).all()
    order = list(range(len(ks)))
    random.shuffle(order)
    assert (P_RULES[rule](p[order], float(one)) == P_RULES[rule](p, float(one))[order]).all()
    chosen = P_RULES[rule](p, float(one))
    if chosen.any():  # what is smaller than a chosen one is chosen too, ties together
        assert (chosen == (p <= p[chosen].max())).all()


@given(p_counts, alphas)
def test_strict_rules_choose_inside_lenient_ones(counts, alpha):
    draws, ks = counts
    p, level = np.array(ks) / (draws + 1), float(alpha)
    assert (by(p, level) <= bh(p, level)).all()
    assert (bonferroni(p, level) <= holm(p, level)).all()
    assert (holm(p, level) <= bh(p, level)).all()


@given(p_counts, alphas, st.data())
def test_a_smaller_p_never_hurts(counts, alpha, data):
    draws, ks = counts
    which = data.draw(st.integers(0, len(ks) - 1))
    less = [data.draw(st.integers(1, k)) if i == which else k for i, k in enumerate(ks)]
    for rule in P_RULES.values():
        assert (
            rule(np.array(ks) / (draws + 1), float(alpha)) <= rule(np.array(less) / (draws + 1), float(alpha))
        ).all()


@pytest.mark.parametrize(
    ("z", "alpha", "chosen"),
    [
        ([5, 4, 3, 2, 1], 0.2, [5, 4, 3, 2, 1]),  # (1 + 0) / 5 = .2, at its threshold
        ([5, 4, 3, 2], 0.2, []),  # (1 + 0) / 4
        ([5, 4, 3, 2, -1], 0.25, [5, 4, 3, 2]),
        ([5, 4, 3, 2, -6], 0.25, []),  # the loss is larger than any win
        ([5, 4, 3, 2, 1, -1], 1 / 3, [5, 4, 3, 2]),  # at 1: 2 / 5 > 1/3; at 2: 1 / 4
        ([9, 8, 7, 6, 5, 4, 3, 2, 1, -4], 0.25, [9, 8, 7, 6, 5, 4, 3, 2, 1]),  # at 1: 2 / 9 <= .25: the smallest wins
        ([2, 2, 2, 2, -2], 0.25, []),  # a loss of the same size counts: (1 + 1) / 4
        ([0, 0, 0, 0, 0, 0, 0, 0], 0.5, []),  # ties are no wins
        ([1, 1, 0, 0, 0, 0], 0.5, [1, 1]),  # ... and are not chosen along
        ([1, 0, 0, 0], 0.5, []),
        ([], 0.1, []),
    ],
)
def test_knockoff_plus_by_hand(z, alpha, chosen):
    got = knockoff_plus(z, alpha)
    assert sorted(np.asarray(z, float)[got]) == sorted(chosen)


@given(st.lists(st.integers(-6, 6), max_size=40), alphas)
def test_knockoff_plus_follows_its_definition_exactly(z, alpha):
    assert knockoff_plus(np.array(z, float), float(alpha)).tolist() == exact_knockoff_plus(z, alpha)


@given(st.lists(st.integers(-6, 6), max_size=40), alphas, alphas, st.randoms(), st.floats(1e-3, 1e3))
def test_knockoff_plus_properties(z, one, other, random, factor):
    z = np.array(z, float)
    small, large = (knockoff_plus(z, float(alpha)) for alpha in sorted((one, other)))
    assert (small <= large).all()
    assert not small[z <= 0].any()
    assert small.sum() == 0 or small.sum() >= 1 / float(min(one, other)) * (1 - 1e-9)
    order = list(range(len(z)))
    random.shuffle(order)
    assert (knockoff_plus(z[order], float(one)) == knockoff_plus(z, float(one))[order]).all()
    assert (knockoff_plus(z * factor, float(one)) == knockoff_plus(z, float(one))).all()


@pytest.mark.parametrize("alpha", [0, 1, 1.5, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("rule", ["bh", "by", "holm", "bonferroni", "knockoff+"])
def test_alpha_outside_of_0_and_1_is_refused(rule, alpha):
    with pytest.raises(butfor.InputError, match="alpha must lie strictly between 0 and 1"):
        RULES[rule](np.array([0.1, 0.2]), alpha)


@pytest.mark.parametrize("p", [[0.1, np.nan], [0.1, 1.1], [-0.1], [[0.1], [0.2]], 0.1])
@pytest.mark.parametrize("rule", P_RULES)
def test_what_is_no_p_value_is_refused(rule, p):
    with pytest.raises(butfor.InputError, match="between 0 and 1"):
        P_RULES[rule](p, 0.1)


def test_nan_among_the_z_is_refused():
    with pytest.raises(butfor.InputError, match="NaN"):
        knockoff_plus([1.0, np.nan], 0.1)


@pytest.mark.parametrize("rule", ["bh", "by", "holm", "bonferroni", "knockoff+"])
def test_an_empty_family_chooses_nothing(rule):
    assert RULES[rule](np.zeros(0), 0.1).shape == (0,)


@pytest.mark.parametrize("rule", ["bh", "holm", "knockoff+"])
def test_select_leaves_out_what_was_not_tested_and_groups_what_belongs_together(rule):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=60) ** 3 if rule != "knockoff+" else rng.normal(1, 1, size=60)
    tested, groups = rng.uniform(size=60) < 0.8, rng.integers(5, size=60)  # groups need not stand together
    chosen = select(p, 0.3, rule, tested)
    assert not chosen[~tested].any()
    assert (chosen[tested] == RULES[rule](p[tested], 0.3)).all()
    grouped = select(p, 0.3, rule, tested, groups)
    for group in range(5):
        members = tested & (groups == group)
        assert (grouped[members] == RULES[rule](p[members], 0.3)).all()
    assert not grouped[~tested].any()
    assert not select(p, 0.3, rule, np.zeros(60, bool), groups).any()


def test_the_public_names():
    assert butfor.selection.bh([0.01, 0.9], 0.1).tolist() == [True, False]
    for name in ("by", "holm", "bonferroni", "knockoff_plus"):
        assert callable(getattr(butfor.selection, name))
