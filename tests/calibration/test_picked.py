"""Inputs picked because of their output: the failure without `picked`, and the level with it (METHODS 0)."""

import numpy as np
import pytest

import butfor
from butfor.tabular import from_values

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))
CUT = 2.3263479 * np.sqrt(5)  # what the sum of five N(0, 1) exceeds with probability .01
ALPHA = 0.1
DRAWS = {"irt": 500, "sequential": None, "few-shot": None, "osft": None}


def sums(rows):
    return rows.sum(axis=1)


def top(outputs):
    return outputs >= CUT


def flagged(seed, inputs):
    """The first so many of a stream of N(0, 1) rows that are among the top 1 % by output. Every null is true."""
    rows = np.random.default_rng(seed).normal(size=(300 * inputs + 1000, 5))
    return rows[top(sums(rows))][:inputs]


def runs(test, count, inputs, **settings):
    """Whether a run makes any false discovery."""
    settings = {"alternative": "greater", "alpha": ALPHA, "draws": DRAWS[test], "effects": None, **settings}
    data = (flagged(seed, inputs) for seed in range(count))
    results = (butfor.explain(sums, rows, NORMAL, test=test, seed=seed, **settings) for seed, rows in enumerate(data))
    return np.array([result.chosen.any() for result in results], float)


def allowed(count):
    return ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / count)


@pytest.mark.parametrize(("test", "least"), [("irt", 0.8), ("sequential", 0.8), ("few-shot", 0.8), ("osft", 0.7)])
def test_without_picked_most_runs_make_a_false_discovery(test, least):
    assert runs(test, 40, inputs=10).mean() >= least


@pytest.mark.parametrize("test", DRAWS)
def test_picked_keeps_the_level(test):
    assert runs(test, 100, inputs=6, picked=top).mean() <= allowed(100)


@pytest.mark.parametrize("test", ["irt", "sequential"])
def test_picked_keeps_the_level_on_both_sides(test):
    assert runs(test, 100, inputs=4, picked=top, alternative="two-sided").mean() <= allowed(100)


def test_picked_keeps_the_level_for_a_single_input():
    assert runs("irt", 100, inputs=1, picked=top, draws=100).mean() <= allowed(100)


def test_picked_is_not_bought_with_blindness():
    """Flagged inputs with one feature far out even for a flagged one (8, while the rest of the row was low): found."""
    found = []
    for seed in range(10):
        rows = flagged(seed, 8)
        rows[:, 0] += 4.0
        result = butfor.explain(sums, rows, NORMAL, alternative="greater", draws=1000, picked=top, effects=None)
        found.append(result.chosen.reshape(8, 5)[:, 0].mean())
    assert np.mean(found) >= 0.5


def test_a_rule_of_another_kind_is_no_cure():
    """A rule that is not the one by which inputs were picked leaves the failure as it is."""
    assert runs("irt", 25, inputs=10, picked=lambda outputs: outputs >= 0).mean() > allowed(25)
