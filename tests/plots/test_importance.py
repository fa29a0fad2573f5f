"""The bar plot of a global result: draws what the result holds, on the axes it is given, and shows nothing."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest

from butfor.explain import explain
from butfor.plots import importance
from butfor.tabular.global_importance import global_importance
from butfor.types import InputError


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 4))
    return global_importance(lambda X: X[:, 1] + X[:, 2], rows, reference=rows, y=rows[:, 1] + rng.normal(size=100))


def names(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def words(ax):
    """The name of the x axis, which may stand in several lines."""
    return " ".join(ax.get_xlabel().split())


def test_one_bar_per_subset_the_chosen_first(result):
    ax = importance(result)
    assert names(ax)[0] == "x1"
    assert sorted(names(ax)) == ["x0", "x1", "x2", "x3"]
    assert ax.patches[0].get_width() == result.effects.effect[1]
    assert ax.patches[0].get_facecolor() != ax.patches[1].get_facecolor()
    assert ax.get_title(loc="right") == "blue: chosen, 1 of 4"
    assert words(ax) == "mean increase of the squared loss when redrawn"


def test_draws_on_the_axes_given_and_shows_nothing(result, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("a plot must not show itself"))
    _, ax = plt.subplots()
    assert result.plot(ax=ax) is ax
    assert len(plt.get_fignums()) == 1


def test_at_most_so_many_bars(result):
    assert len(importance(result, most=2).patches) == 2


def test_nothing_chosen_and_a_single_input_still_draw(result):
    assert len(importance(result.select(alpha=1e-6)).patches) == 4
    reference = np.random.default_rng(0).normal(size=(50, 2))
    lone = global_importance(lambda X: X[:, 0], np.array([[50.0, 0.0]]), reference=reference, draws=500, passes=9999)
    assert names(importance(lone)) == ["x0", "x1"]
    assert words(importance(lone)) == "mean output minus mean counterfactual"


def test_a_result_of_single_inputs_is_refused():
    rows = np.random.default_rng(0).normal(size=(60, 2))
    result = explain(lambda batch: batch[:, 0], rows[:3], rows, subsets="columns")
    with pytest.raises(InputError, match="importance is for results of"):
        importance(result)
