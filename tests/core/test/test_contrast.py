"""Passes, their p-values and losses of the tests over all inputs: hand-worked values and full enumeration."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import butfor
from butfor.inference import holdout as contrast
from butfor.inference import holdout as losses


def test_passes_follow_the_law_of_full_enumeration():
    gaps = np.array([[0.0, -1.0, 2.0], [0.0, 0.0, -3.0], [0.0, 5.0, -5.0]])
    every = np.array([sum(choice) for choice in itertools.product(*gaps)])
    sums = contrast.pass_sums(gaps, 60_000, np.random.default_rng(0))
    for value in np.unique(every):
        expected = (every == value).mean()
        assert abs((sums == value).mean() - expected) < 5 * np.sqrt(expected / 60_000)
    assert set(sums) == set(every)


@pytest.mark.parametrize("versions", [2, 21, 300])
def test_passes_are_chunked_without_losing_any(monkeypatch, versions):
    gaps = np.random.default_rng(0).normal(size=(50, versions))
    monkeypatch.setattr(contrast, "CHUNK", 50 * 7)
    sums = contrast.pass_sums(gaps, 100, np.random.default_rng(0))
    assert sums.shape == (100,)
    assert abs(sums.mean() - gaps.mean(axis=1).sum()) < 5 * sums.std() / 10


def test_p_counts_ties_against_us_and_never_reaches_zero():
    assert contrast.p_passes(np.array([-1.0, -2.0, 0.0])) == 0.5
    assert contrast.p_passes(np.full(9, -1.0)) == 0.1
    assert contrast.p_passes(np.full(9, -1e-12), slack=1e-9) == 1.0  # a tie but for rounding


@pytest.mark.parametrize(("rule", "needed"), [("bh", 499), ("bonferroni", 499), ("by", 2249)])
def test_passes_needed_by_a_lone_signal(rule, needed):
    assert contrast.passes_needed(rule, 0.1, 50) == needed
    choose = getattr(butfor.selection, rule)
    lone = np.append(1 / (needed + 1), np.ones(49))
    assert choose(lone, 0.1)[0]
    lone[0] = 1 / needed
    assert not choose(lone, 0.1)[0]


def test_losses_by_hand():
    outputs = np.array([[[0.2, 0.8], [0.5, 0.5]], [[1.0, 0.0], [0.9, 0.1]]])
    tiny = -np.log(np.finfo(float).eps)
    assert_allclose(
        losses.log_score(np.array([1, 1]), 2).losses(np.arange(2), outputs),
        [[-np.log(0.8), -np.log(0.5)], [tiny, -np.log(0.1)]],
    )
    single = outputs[:, :, 1:]
    assert_allclose(
        losses.log_score(np.array([1, 0]), 1).losses(np.arange(2), single),
        [[-np.log(0.8), -np.log(0.5)], [0.0, -np.log(0.9)]],
    )
    squared = losses.squared_score(np.array([9.0, 1.0])).losses(np.array([1]), single[1:])
    assert_allclose(squared, [[1.0, 0.81]])
