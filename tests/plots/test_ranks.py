"""Bars of ranks: what the counts say, on the axes that were given; and what every plot has in common."""

import inspect
import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest

import butfor
from butfor.plots import ranks
from butfor.results.result import Places

PILED = Places(np.array([115, 27, 12, 14, 28, 26]))  # more at the bottom than above


def ticks(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def test_one_bar_per_place_and_a_line_at_chance():
    ax = ranks(PILED)
    assert [bar.get_height() for bar in ax.patches] == PILED.counts.tolist()
    assert ax.lines[0].get_ydata()[0] == 37
    assert ticks(ax) == ["first", "2", "3", "4", "5", "last"]
    assert ax.get_ylabel() == "Real inputs"


def test_a_heap_at_the_bottom_is_orange_and_said():
    ax = PILED.plot()
    colours = [bar.get_facecolor() for bar in ax.patches]
    assert colours[4] == colours[5] not in colours[:4]
    title = " ".join(ax.get_title(loc="right").split())
    assert title == "More at the bottom than above: fills are not like real inputs"
    even = ranks(Places(np.full(4, 9)))
    assert even.get_title(loc="right") == ""
    assert len({bar.get_facecolor() for bar in even.patches}) == 2  # the first place is blue


def test_many_places_have_few_labels_that_do_not_touch():
    assert ticks(ranks(Places(np.full(21, 3)))) == ["first", *map(str, range(3, 20, 2)), "last"]


def test_draws_on_the_axes_given_and_shows_nothing(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("a plot must not show itself"))
    _, ax = plt.subplots()
    assert PILED.plot(ax) is ranks(PILED, ax=ax) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("name", butfor.plots.__all__)
def test_every_plot_takes_axes_and_says_what_it_takes(name):
    plot = getattr(butfor.plots, name)
    taken = inspect.signature(plot).parameters
    assert taken["ax"].default is None
    assert all(f"\n{one} : " in inspect.getdoc(plot) for one in taken)
    assert not hasattr(sys.modules[plot.__module__], "plt"), "matplotlib is imported when a plot is drawn"
