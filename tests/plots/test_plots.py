"""Every plot: draws what the result holds on the axes it is given, shows and saves nothing, leaves settings alone."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

import butfor
from butfor.plots import shap_values
from butfor.plots.accessor import NAMES as PLOTS
from butfor.plots.style import CHOSEN, REST
from butfor.types import InputError

NAMES = ["weight $x$", "age", "height", "a very long name of a column that goes on and on"]


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    reference = pd.DataFrame(rng.normal(size=(120, 4)), columns=NAMES)
    inputs = pd.DataFrame(rng.normal([4, 0, 0, 0], 1, (25, 4)), columns=NAMES, index=[f"case {k}" for k in range(25)])
    found = butfor.explain(
        lambda rows: rows[NAMES[0]] + 0.1 * rows["age"], inputs, reference, decide=lambda out: out > 2
    )
    assert found.chosen.any()
    return found


@pytest.fixture(scope="module")
def competed():
    rng = np.random.default_rng(0)
    return butfor.explain(
        lambda rows: rows[:, 0],
        rng.normal([4, 0], 1, (25, 2)),
        rng.normal(size=(80, 2)),
        subsets="columns",
        test="osft",
    )


OF_TABLES = [name for name in PLOTS if name not in ("importance", "null", "competition", "photograph", "highlighted")]


@pytest.mark.parametrize("name", OF_TABLES)
def test_draws_on_the_axes_given_and_says_its_unit(result, name, tmp_path):
    before = dict(plt.rcParams)
    figure, ax = plt.subplots()
    assert getattr(butfor.plots, name)(result, ax=ax) is ax
    assert plt.get_fignums() == [figure.number]  # none was made beside it
    assert ax.get_xlabel()
    assert dict(plt.rcParams) == before
    for kind in ("png", "svg", "pdf"):
        figure.savefig(tmp_path / f"plot.{kind}")


@pytest.mark.parametrize("name", OF_TABLES)
def test_by_the_accessor_at_the_width_of_a_column(result, name):
    ax = getattr(result.plot, name)()
    assert ax.figure.get_size_inches()[0] == pytest.approx(3.3)


def test_an_unknown_plot_is_named(result):
    with pytest.raises(AttributeError, match="no plot 'pie'; there are bar"):
        _ = result.plot.pie
    assert dir(result.plot) == sorted(PLOTS)


def test_bars_are_the_effects_and_what_is_not_unusual_is_grey(result):
    ax = result.plot.bar("case 3", most=20)
    rows = np.flatnonzero(result.input_of == 3)
    drawn = {round(patch.get_width(), 9): to_hex(patch.get_facecolor()) for patch in ax.patches}
    assert sorted(drawn) == sorted(set(np.round(result.effects.effect[rows], 9)))
    for row in rows:
        assert drawn[round(result.effects.effect[row], 9)] == (CHOSEN if result.chosen[row] else REST)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    value = result.table.value[rows[list(result.subset_of[rows]).index(result.subset_names.index("age"))]]
    assert any(label.startswith("age = ") and f"{value:.3g}".replace("-", "−") in label for label in labels)


def test_every_bar_of_effects_from_output_ends_at_the_observed_output(result):
    ax = result.plot.effects_from_output("case 3")
    observed = result.evidence.observed[result.input_of == 3][0]
    assert [patch.get_x() + patch.get_width() for patch in ax.patches] == pytest.approx([observed] * len(ax.patches))


def test_the_tree_has_a_box_for_every_subset(result):
    assert len(result.plot.resolutions().patches) == len(result.subset_names)
    one = result.plot.resolutions("case 0")
    blue = sum(to_hex(patch.get_facecolor()) == CHOSEN for patch in one.patches)
    assert blue == result.chosen[result.input_of == 0].sum()


def test_a_dot_of_the_beeswarm_for_every_input(result):
    dots = sum(len(part.get_offsets()) for part in result.plot.beeswarm(most=99).collections)
    assert dots == len(result.chosen)


def test_the_null_marks_the_observed_output(result):
    row = result.row("case 0", NAMES[0])
    ax = result.plot.null("case 0", NAMES[0])
    assert ax.lines[-1].get_xdata()[0] == result.evidence.observed[row]
    ax = result.plot.null("case 0", NAMES[0], outputs=np.arange(200.0))
    assert sum(patch.get_height() for patch in ax.patches) == 200


def test_the_threshold_of_bh_is_drawn_and_competitions_have_their_own_plot(competed):
    ax = competed.plot.competition()
    assert sum(len(part.get_segments()) for part in ax.collections) == len(competed.chosen)
    with pytest.raises(InputError, match=r"use plots.competition"):
        competed.plot.pvalues()
    rng = np.random.default_rng(0)
    found = butfor.explain(
        lambda rows: rows[:, 0], rng.normal([4, 0], 1, (5, 2)), rng.normal(size=(80, 2)), subsets="columns", test="irt",
        draws=99, rule="bh",
    )  # fmt: skip
    line = found.plot.pvalues().lines[-1]
    assert line.get_ydata() == pytest.approx(0.1 * np.arange(1, 11) / 10)
    with pytest.raises(InputError, match=r"use plots.pvalues"):
        found.plot.competition()
    with pytest.raises(InputError, match="one resolution only"):
        found.plot.resolutions()


def test_calibration_says_what_is_missing():
    rng = np.random.default_rng(0)
    rows, reference = rng.normal([4, 0], 1, (5, 2)), rng.normal(size=(80, 2))
    sampler = butfor.tabular.from_values(lambda rows, subset, draws, rng: rng.normal(size=(len(rows) * draws, 1)))
    for drawing, settings, said in (
        (reference, {"test": "few-shot"}, "test='few-shot' gives w-values: use test='sequential' or 'irt'"),
        (reference, {"test": "irt", "rule": "e-bh"}, "rule='e-bh' gives e-values"),
        (reference, {"test": "irt", "control": False}, "control=False was given: leave it out"),
        (reference[:12], {"test": "irt"}, "give more reference rows"),
        (sampler, {"test": "irt"}, "give reference data$"),
    ):
        found = butfor.explain(lambda x: x[:, 0], rows, drawing, subsets="columns", effects=None, **settings)
        with pytest.raises(InputError, match=f"^this run has no control with p-values; {said}"):
            found.plot.calibration()


def test_resolutions_of_images_and_texts_are_asked_for_by_their_own_names():
    noise = list(np.random.default_rng(0).integers(0, 255, (3, 16, 16, 3), dtype=np.uint8))
    regions = butfor.image.explain(lambda some: [x.mean() for x in some], noise, butfor.image.donor())
    with pytest.raises(InputError, match=r"one resolution only; use boxes='zoom'$"):
        regions.plot.resolutions()
    words = butfor.text.explain(lambda some: [float("bad" in x) for x in some], ["a bad film"], _worse, effects=None)
    with pytest.raises(InputError, match=r"one resolution only; use units='zoom'$"):
        words.plot.resolutions()


def _worse(texts, subset, draws, rng):
    start, stop = subset.index
    return [text[:start] + str(rng.integers(99)) + text[stop:] for text in texts for _ in range(draws)]


def test_without_effects_or_a_decision_it_says_what_to_do():
    rng = np.random.default_rng(0)
    found = butfor.explain(lambda rows: rows[:, 0], rng.normal(size=(3, 2)), rng.normal(size=(40, 2)), effects=None)
    with pytest.raises(InputError, match="effects='all'"):
        found.plot.bar()
    with pytest.raises(InputError, match="decide="):
        found.plot.decision()
    with pytest.raises(InputError, match=r"image\.explain"):
        found.plot.photograph()


def test_to_shap_has_the_effects_and_marks_what_is_unusual(result):
    pytest.importorskip("shap", reason="shap is not installed")
    shown = result.to_shap()
    assert shown.feature_names == [name for name in result.subset_names if name in NAMES]
    column = result.subset_names.index(NAMES[0])
    rows = np.flatnonzero(result.subset_of == column)
    place = shown.feature_names.index(NAMES[0])
    assert shown.values[:, place] == pytest.approx(result.effects.effect[rows])
    assert [text.endswith("*") for text in shown.display_data[:, place]] == result.chosen[rows].tolist()
    assert shown.base_values + shown.values.sum(axis=1) == pytest.approx(result.evidence.observed[rows])


def test_to_shap_keeps_the_zeros_that_bars_of_shap_cut_off():
    assert [shap_values._shown(value, False).rstrip("0") for value in (580, "grade 10", 0.5, None)] == [
        "580\u200b",
        "grade 10\u200b",
        "0.5",
        "",
    ]
    assert shap_values._shown(580, True) == "580 *"


def test_to_shap_without_shap_says_so_in_a_sentence(result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "shap", None)
    with pytest.raises(InputError, match="pip install shap"):
        result.to_shap()


def test_names_that_begin_alike_have_labels_that_differ():
    rng = np.random.default_rng(0)
    names = [f"the ratio of stable isotopes of {one} that was measured in the blood" for one in ("15N", "13C", "18O")]
    reference = pd.DataFrame(rng.normal(size=(120, 3)), columns=names)
    inputs = pd.DataFrame(rng.normal([4, 0, 0], 1, (25, 3)), columns=names)
    found = butfor.explain(lambda rows: rows[names[0]], inputs, reference, decide=lambda out: out > 2)
    for name in ("bar", "effects_from_output", "beeswarm", "heatmap", "features", "decision"):
        figure, ax = plt.subplots()
        labels = [label.get_text().strip() for label in getattr(butfor.plots, name)(found, ax=ax).get_yticklabels()]
        assert len(labels) > 3
        assert len(set(labels)) == len(labels)
        assert max(map(len, labels)) <= 40
        plt.close(figure)


def test_the_plots_of_one_style_have_no_box_around_them():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 2))
    skill = butfor.global_importance(lambda rows: rows[:, 0], rows, reference=rows, y=rows[:, 0])
    assert not butfor.plots.importance(skill).spines["top"].get_visible()
    assert to_hex(butfor.plots.importance(skill).patches[0].get_facecolor()) == CHOSEN
