"""Faults that are easily made in reading trees, planted one by one: the self-check refuses them, or the long way does.

The self-check is turned off where the fault is one that it is to find: the tests against the long way must see it, too.
"""

from dataclasses import replace

import numpy as np
import pytest

from brute_force import CLOSE, agree, the_long_way
from butfor import explain, tabular
from butfor.inference import exact as listed
from butfor.models import tree_steps, trees
from butfor.models.tree_steps import TreeIndex
from butfor.tabular import exact_trees
from butfor.tabular.empirical import Empirical
from butfor.types import Subset
from tree_models import COLUMNS, asked, fitted, on_thresholds, reasons, tables

EACH = [[j] for j in range(COLUMNS)]


def case(name, sampler, *, missing=False):
    """A model, inputs on its thresholds, and a sampler."""
    model = fitted(name, missing=missing)
    X, reference = tables(missing=missing)
    X, reference = (on_thresholds(model, rows, near=(-np.inf, np.inf)) for rows in (X, reference))
    return model, X, getattr(tabular, sampler)(reference)


def compared(model, X, sampler, **options):
    result = explain(model, X, sampler, subsets="columns", control=False, **options)
    words = {name: value for name, value in options.items() if name != "exact"}
    agree(result, the_long_way(asked(model), X, sampler, EACH, close=CLOSE, **words))
    return result


def strictly(statistic, mass, margin=0.0):
    return (mass * (statistic > statistic[:, :1] - margin)).sum(axis=1)


def wrong_side(splits):
    return replace(splits, missing_left=~splits.missing_left)


def plant_missing(monkeypatch):
    plain = exact_trees.in_columns
    monkeypatch.setattr(exact_trees, "in_columns", lambda *args: wrong_side(plain(*args)))


def plant_threshold(monkeypatch):
    """x < t in place of x <= t."""
    plain = TreeIndex.pieces_of

    def pieces(self, j, values):
        found, cuts = plain(self, j, values), self.cuts[j]
        hit = np.isin(np.asarray(values, np.float64), cuts)
        return np.where(hit, np.searchsorted(cuts, values, side="right"), found)

    monkeypatch.setattr(TreeIndex, "pieces_of", pieces)


def plant_no_float32(monkeypatch):
    monkeypatch.setattr(trees, "in_float32", lambda ensemble: ensemble)


def plant_strict(monkeypatch):
    monkeypatch.setattr(listed, "p_exact", strictly)


def plant_no_own(monkeypatch):
    """The observed value is one donor more; without it p is too small."""
    plain = Empirical.cdf

    def cdf(self, subset):
        made = plain(self, subset)
        return lambda *given: replace(made(*given), observed=0.0)

    monkeypatch.setattr(Empirical, "cdf", cdf)


def plant_lost_step(monkeypatch):
    """A step function whose last jump is forgotten."""
    plain = tree_steps._padded

    def padded(row, start, jump, own, end):
        jump = jump.copy()
        jump[-1] = 0
        return plain(row, start, jump, own, end)

    monkeypatch.setattr(tree_steps, "_padded", padded)


FAULTS = {
    "> for >=": (plant_strict, ("hist", "empirical"), {}),
    "missing values on the wrong side": (plant_missing, ("hist", "empirical"), {"missing": True}),
    "< for <= at a threshold": (plant_threshold, ("hist of numbers", "empirical"), {}),
    "thresholds of float32 not rounded": (plant_no_float32, ("forest of numbers", "empirical"), {}),
    "no own row": (plant_no_own, ("hist", "empirical"), {}),
    "a lost step": (plant_lost_step, ("hist", "empirical"), {}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_long_way_finds_the_fault(name, monkeypatch):
    plant, made, options = FAULTS[name]
    model, X, sampler = case(*made, **options)
    compared(model, X, sampler)
    plant(monkeypatch)
    monkeypatch.setattr(exact_trees, "_compare", lambda *_: None)
    with pytest.raises(AssertionError):
        compared(model, X, sampler)


@pytest.mark.parametrize("name", [
    "missing values on the wrong side", "< for <= at a threshold", "thresholds of float32 not rounded",
])  # fmt: skip
def test_the_self_check_finds_what_was_read_wrongly(name, monkeypatch):
    plant, made, options = FAULTS[name]
    model, X, sampler = case(*made, **options)
    plant(monkeypatch)
    result = explain(model, X, sampler, subsets="columns", control=False, draws=64)
    assert not result.record.exact
    assert reasons(result.notes) == ["differs"]


def test_draws_are_rounded_as_the_data_are(monkeypatch):
    """What is drawn for float32 data is rounded to it: mass between a cut and the float32 below it moves over."""
    inputs, cut = np.zeros((1, 1), np.float32), np.array([1 + 2.0**-30])
    sampler = tabular.gaussian(np.random.default_rng(0).normal(size=(50, 1)).astype(np.float32))
    subset = Subset("x", np.array([0]))
    starts = np.array([[0, 1]])
    distribution = exact_trees.column_distribution(sampler, subset, np.dtype(np.float32))
    rounded = distribution(inputs, cut, starts).mass[0, 1]
    monkeypatch.setattr(exact_trees, "rounds_down_to", lambda cuts: cuts)
    assert distribution(inputs, cut, starts).mass[0, 1] > rounded
    draws = sampler.values(inputs, subset, 200_000, np.random.default_rng(1)).astype(np.float32)
    assert abs((draws > cut).mean() - rounded) < 5 * np.sqrt(0.2 / 200_000)
