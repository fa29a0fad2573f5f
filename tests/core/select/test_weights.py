"""Weights learned across inputs: hand-worked values, the definition by brute force, folds that keep their word."""

import numpy as np
import pytest

import butfor
from butfor.inference.adaptive import (
    PENALTIES,
    Learner,
    _count_without,
    _nulls,
    clusters_of,
    learn_weights,
    strict_e_values,
    weighted_bh,
)
from butfor.inference.selection import adaptive, adaptive_strict, bh


def places(shape):
    return [one.ravel() for one in np.indices(shape)]


def table(seed, shape=(60, 5), strength=2.0, draws=None):
    """p-values of which the first column holds signals."""
    rng = np.random.default_rng(seed)
    p = rng.random(shape)
    p[:, 0] = p[:, 0] ** (1 + strength)
    return p if draws is None else (1 + rng.binomial(draws, p)) / (draws + 1)


def brute_force(p, alpha):
    """METHODS 12, learn(Q), as it is written: weights (d,) of p-values (n, d)."""
    n, d = p.shape
    fits = []
    for penalty in PENALTIES:
        chosen, found = np.zeros(d), 0
        for j in range(d):
            scores = {0.0: 0.0}
            for t in np.sort(p[:, j]):
                scores[t] = max((p[:, j] <= t).sum() - 1, 0) - penalty * n * t
            chosen[j] = max(scores, key=scores.get)
            found += (p[:, j] <= chosen[j]).sum()
        fits.append((int(found), chosen))
    for level in (alpha, 2 * alpha, 4 * alpha):
        within = [pair for pair in fits if pair[0] > 0 and n * pair[1].sum() <= level * pair[0]]
        if within:
            t = max(within, key=lambda pair: pair[0])[1]
            return t * d / t.sum()
    return np.ones(d)


@pytest.mark.parametrize("draws", [None, 9, 30])
@pytest.mark.parametrize("seed", range(4))
def test_learning_is_the_definition(seed, draws):
    p = np.maximum(table(seed, strength=seed, draws=draws), 0.01)
    _, subsets = places(p.shape)
    t = Learner(p.ravel(), subsets, 0.1)._thresholds(np.ones(p.size, bool))
    assert t / t.mean() == pytest.approx(brute_force(p, 0.1))


def test_a_label_that_was_not_seen_gets_the_mean_and_weights_of_a_fold_have_mean_one():
    p = np.concatenate([np.full(30, 0.01), np.linspace(0.05, 1, 30), [0.5, 0.5]])
    labels = np.repeat([0, 1, 2], [30, 30, 2])
    own = np.isin(np.arange(62), [0, 30, 60, 61])
    learned = Learner(p, labels, 0.1)._learned(~own, own)
    assert learned.mean() == pytest.approx(1)
    assert learned[0] > learned[2] == learned[3] > learned[1]


def test_weights_follow_the_labels_where_they_stand_at_different_places():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 900)
    p = np.where(labels == 2, rng.random(900) ** 4, rng.random(900))
    weights, nulls = learn_weights(p, np.arange(900) // 9, labels, 0.1, rng)
    assert weights[labels == 2].min() > 2 > 0.5 > weights[labels != 2].max()
    assert weights.mean() == pytest.approx(1)
    assert nulls == pytest.approx((2 * 9 + weights[p > 0.5].sum()) / 450)
    assert nulls < 0.8


def test_fewer_than_twenty_clusters_are_plain_bh():
    p = table(0, (100, 5))
    groups = np.arange(100) % 19
    assert (adaptive(p, 0.1, groups=groups) == bh(p.ravel(), 0.1).reshape(p.shape)).all()
    assert learn_weights(p.ravel(), np.repeat(groups, 5), places(p.shape)[1], 0.1, np.random.default_rng(0))[1] == 1
    assert (adaptive(p, 0.1) != bh(p.ravel(), 0.1).reshape(p.shape)).any()


def test_the_p_values_of_a_cluster_do_not_move_its_own_weights():
    p = table(1)
    inputs, subsets = places(p.shape)
    clusters = np.arange(60)[inputs] // 2
    before = learn_weights(p.ravel(), clusters, subsets, 0.1, np.random.default_rng(3))[0].reshape(p.shape)
    p[10:12] = [[0.9, 1e-6, 1e-6, 1e-6, 1e-6]] * 2
    after = learn_weights(p.ravel(), clusters, subsets, 0.1, np.random.default_rng(3))[0].reshape(p.shape)
    assert (after[10:12] == before[10:12]).all()
    assert (after != before).any()


def test_p_values_below_a_tenth_of_alpha_teach_no_more_than_that():
    p = table(2)
    inputs, subsets = places(p.shape)
    small = np.where(p <= 0.01, p / 1000, p)
    share_fixed = [Learner(one.ravel(), subsets, 0.1)._learned(inputs < 40, inputs >= 40) for one in (p, small)]
    assert (share_fixed[0] == share_fixed[1]).all()


def test_weighted_bh_by_hand():
    p, weights = np.array([0.03, 0.06, 0.04, 0.8]), np.array([1.0, 2.0, 0.5, 0.5])
    assert weighted_bh(p, weights, 1.0, 0.1).tolist() == [True, True, False, False]  # .03 .03 .08 against .025 .05 .075
    assert weighted_bh(p, weights, 0.75, 0.1).tolist() == [True, True, True, False]  # .06 <= .075 as the third
    assert weighted_bh(np.array([0.0, 0.0]), np.array([0.0, 2.0]), 1.0, 0.1).tolist() == [False, True]
    assert weighted_bh(np.zeros(0), np.zeros(0), 1.0, 0.1).shape == (0,)


def test_what_counts_as_null_is_given_up():
    p, weights = np.array([0.001, 0.001, 0.001, 0.55]), np.array([0.1, 0.1, 0.1, 3.7])
    assert weighted_bh(p, weights, 0.5, 0.9).tolist() == [True, True, True, False]
    assert weighted_bh(p, weights, 1.0, 0.9).tolist() == [True, True, True, True]


def test_equal_rows_and_groups_are_joined():
    p = np.array([[0.1, np.nan], [0.2, 0.3], [0.1, np.nan], [0.2, 0.4], [0.2, 0.3]])
    assert clusters_of(p, None).tolist() in ([0, 1, 0, 2, 1],)
    joined = clusters_of(p, np.array([0, 1, 2, 2, 3]))
    assert joined[0] == joined[2] == joined[3] != joined[1] == joined[4]


@pytest.mark.parametrize("rule", [adaptive, adaptive_strict])
def test_what_was_not_tested_is_not_chosen_and_changes_nothing_else(rule):
    p = table(3, (240, 4))
    wide = np.column_stack([p, np.full(240, np.nan)])
    wide = np.vstack([wide, np.full((3, 5), np.nan)])
    chosen = rule(p, 0.1, seed=5)
    assert (rule(wide, 0.1, seed=5)[:240, :4] == chosen).all()
    assert rule(wide, 0.1, seed=5).sum() == chosen.sum() > 50


@pytest.mark.parametrize("rule", [adaptive, adaptive_strict])
def test_the_same_seed_gives_the_same_answer_and_another_nearly_so(rule):
    p = table(4, (300, 6), strength=3)
    one, again, other = rule(p, 0.1, seed=1), rule(p, 0.1, seed=1), rule(p, 0.1, seed=2)
    assert (one == again).all()
    assert (one & other).sum() >= 0.85 * (one | other).sum()


def test_nothing_given_is_nothing_chosen():
    assert adaptive(np.zeros((0, 3)), 0.1).shape == (0, 3)
    assert not adaptive(np.full((30, 2), np.nan), 0.1).any()


def test_e_values_of_the_strict_rule_never_look_at_their_own_block():
    p = table(5, (200, 5), strength=3)
    inputs, subsets = places(p.shape)
    e = strict_e_values(p.ravel(), inputs, subsets, 0.1, np.random.default_rng(0)).reshape(p.shape)
    row = int(np.flatnonzero(e[:, 0] > 0)[3])
    for value in (1e-9, 0.3, 1.0):
        moved = p.copy()
        moved[row, 1:] = value
        after = strict_e_values(moved.ravel(), inputs, subsets, 0.1, np.random.default_rng(0)).reshape(p.shape)
        assert set(after[row][after[row] > 0]) == {e[row, 0]}


def test_null_share_and_count_of_a_block_are_made_without_it():
    p = table(6, (200, 5), strength=8)
    blocks, subsets = places(p.shape)
    fold, weights = blocks % 5, np.where(subsets == 0, 4.6, 0.1)

    def of_row_ten(p):
        nulls = _nulls(p.ravel(), weights, fold, 0, blocks)
        count = _count_without(p.ravel() / weights, nulls, fold == 0, blocks, 0.1)
        return nulls.reshape(p.shape), count.reshape(p.shape)

    nulls, count = of_row_ten(p)
    for value in (1e-9, 0.9):
        moved = p.copy()
        moved[10] = value
        nulls_after, count_after = of_row_ten(moved)
        assert nulls_after[10] == pytest.approx(nulls[10], rel=1e-12)
        assert (count_after[10] == count[10]).all()
    assert nulls[10, 0] < 0.8
    assert count[10, 0] > 50
    assert (nulls_after[15] > nulls[15]).all()  # of the same fold: there it counts


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: butfor.selection.adaptive([0.1, 0.2], 0.1), "inputs, subsets"),
        (lambda: butfor.selection.adaptive([[0.1, 1.2]], 0.1), "between 0 and 1"),
        (lambda: butfor.selection.adaptive([[0.1, 0.2]], 1.0), "alpha"),
        (lambda: butfor.selection.adaptive([[0.1, 0.2]], 0.1, groups=[1, 2]), "one label for each of the 1 inputs"),
        (lambda: butfor.selection.adaptive_strict(np.full((199, 2), 0.5), 0.1), "at least 200 independent inputs"),
        (
            lambda: butfor.selection.adaptive_strict(np.full((400, 2), 0.5), 0.1, groups=np.arange(400) // 4),
            "got 100",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(call, says):
    with pytest.raises(butfor.types.InputError, match=says):
        call()
