"""Every plot: draws what the result holds on the axes it is given, shows and saves nothing, leaves settings alone."""

from dataclasses import replace
from itertools import pairwise

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb

import butfor
from butfor.plots import shap_values
from butfor.plots.display import NAMES as PLOTS
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


NAMED = {"dependence": ("age",), "draws": ("case 0", "age"), "null": ("case 0", "age")}  # what else these are given
OF_TABLES = [
    name for name in PLOTS if name not in ("context", "importance", "competition", "photograph", "highlighted")
]


@pytest.mark.parametrize("name", OF_TABLES)
def test_draws_on_the_axes_given_and_says_its_unit(result, name, tmp_path):
    before = dict(plt.rcParams)
    figure, ax = plt.subplots()
    assert getattr(butfor.plots, name)(result, *NAMED.get(name, ()), ax=ax) is ax
    assert plt.get_fignums() == [figure.number]  # none was made beside it
    assert ax.get_xlabel()
    assert dict(plt.rcParams) == before
    for kind in ("png", "svg", "pdf"):
        figure.savefig(tmp_path / f"plot.{kind}")


@pytest.mark.parametrize("name", OF_TABLES)
def test_by_the_accessor_at_the_width_of_a_column(result, name):
    ax = getattr(result.plot, name)(*NAMED.get(name, ()))
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
    found = butfor.explain(lambda rows: rows @ [1, 1, 1], inputs, reference, decide=lambda out: out > 2)
    for name in ("bar", "effects_from_output", "beeswarm", "heatmap", "features", "decision"):
        ax = getattr(found.plot, name)()
        labels = [" ".join(label.get_text().split()) for label in ax.get_yticklabels()]
        assert len(labels) > 3
        assert len(set(labels)) == len(labels)
        assert all(any(label.startswith(full) for label in labels) for full in names), "whole names"
        _, ax = plt.subplots(figsize=(3, 1))  # no room: one line each, still different
        labels = [label.get_text().strip() for label in getattr(found.plot, name)(ax=ax).get_yticklabels()]
        assert len(set(labels)) == len(labels)
        assert max(map(len, labels)) <= 26 + 4  # and indentation
        plt.close("all")


@pytest.mark.parametrize("name", ["bar", "decision", "features", "beeswarm", "heatmap", "enough", "resolutions"])
def test_labels_neither_overlap_nor_leave_the_figure(name):
    rng = np.random.default_rng(0)
    names = [f"the ratio of stable isotopes of {k} that was measured in the blood of the patient" for k in range(6)]
    reference = pd.DataFrame(rng.normal(size=(120, 6)), columns=names)
    inputs = pd.DataFrame(rng.normal([4, 0, 0, 0, 0, 0], 1, (25, 6)), columns=names)
    found = butfor.explain(lambda rows: rows[names[0]], inputs, reference, decide=lambda out: out > 2)
    ax = getattr(found.plot, name)()
    ax.figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in ax.get_yticklabels()), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))
    whole = ax.figure.bbox
    for text in [*ax.get_yticklabels(), ax.xaxis.label]:
        box = text.get_window_extent()
        assert box.x0 >= whole.x0 - 1
        assert box.x1 <= whole.x1 + 1
        assert box.y0 >= whole.y0 - 1


def test_the_plots_of_one_style_have_no_box_around_them():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 2))
    skill = butfor.global_importance(lambda rows: rows[:, 0], rows, reference=rows, y=rows[:, 0])
    assert not butfor.plots.importance(skill).spines["top"].get_visible()
    assert to_hex(butfor.plots.importance(skill).patches[0].get_facecolor()) == CHOSEN


def test_on_a_dark_figure_the_words_are_light_and_nothing_else_is_set(result):
    with plt.style.context("dark_background"):
        before = dict(plt.rcParams)
        ax = result.plot.decision("case 0")
        assert dict(plt.rcParams) == before
    texts = [*ax.get_yticklabels(), *ax.get_xticklabels(), ax.xaxis.label, *ax.texts]
    assert min(sum(to_rgb(text.get_color())) for text in texts) > 1.5
    assert CHOSEN not in {to_hex(line.get_color()) for line in ax.lines}
    plain = result.plot.decision("case 0")
    assert CHOSEN in {to_hex(line.get_color()) for line in plain.lines}
    assert max(sum(to_rgb(text.get_color())) for text in plain.get_yticklabels()) < 1.5


def test_single_columns_stand_above_groups_in_the_beeswarm_and_keep_two_thirds_of_it(result):
    single = [len(result.columns_of(name)) == 1 for name in result.subset_names]
    labels = [" ".join(label.get_text().split()) for label in result.plot.beeswarm(most=99).get_yticklabels()]
    kinds = [single[result.subset_names.index(label)] for label in labels]
    assert kinds == sorted(kinds, reverse=True)
    assert set(kinds) == {True, False}
    few = [" ".join(label.get_text().split()) for label in result.plot.beeswarm(most=3).get_yticklabels()]
    assert [single[result.subset_names.index(label)] for label in few] == [True, True, False]


def test_the_heatmap_leaves_out_lines_that_would_be_white(result):
    largest = result.table.groupby("subset").effect.agg(lambda effect: effect.abs().max())
    chosen = set(result.table.subset[result.chosen])
    kept = set(largest.index[largest >= 0.2 * largest.max()]) | chosen
    ax = result.plot.heatmap(most=99)
    assert {" ".join(label.get_text().split()) for label in ax.get_yticklabels()} == kept
    left = len(result.subset_names) - len(kept)
    assert left > 0
    assert f"{left} with small effects left out" in ax.get_title(loc="right")


def test_enough_of_one_input_has_its_sets_the_level_and_the_base_rate(result):
    sets = result.sets.enough(3)
    ax = result.plot.enough("case 3")
    assert [label.get_text() for label in ax.get_yticklabels()] == [", ".join(one.columns) for one in sets]
    dots = [value for line in ax.lines if line.get_marker() == "o" for value in line.get_xdata()]
    assert dots == pytest.approx([one.stay for one in sets])
    segments = [piece for part in ax.collections if hasattr(part, "get_segments") for piece in part.get_segments()]
    assert np.concatenate(segments)[:, 0] == pytest.approx([end for one in sets for end in (one.low, one.high)])
    upright = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() in ("--", ":")]
    assert upright == pytest.approx([result.sets.base[3], result.sets.level])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["level 0.9", f"base rate {result.sets.base[3]:.3g}"]


def test_enough_over_all_inputs_counts_each_set(result):
    ax = result.plot.enough()
    every = result.enough()
    counts = every["columns"].value_counts()
    assert [bar.get_width() for bar in ax.patches] == counts.tolist()
    assert [label.get_text() for label in ax.get_yticklabels()] == [", ".join(columns) for columns in counts.index]
    assert [text.get_text() for text in ax.texts] == [f"{count} of 25" for count in counts]
    assert ax.get_title(loc="right") == f"no set is enough for {25 - len(every)} of 25"


def test_enough_of_an_input_without_a_set_shows_what_comes_closest(result):
    sets = replace(result.sets, sets=tuple(replace(one, enough=False, low=0.5) for one in result.sets.sets))
    none = replace(result, sets=sets)
    ax = none.plot.enough("case 3")
    dots = {to_hex(line.get_color()): len(line.get_xdata()) for line in ax.lines if line.get_marker() == "o"}
    assert dots == {CHOSEN: 0, REST: sum(one.input == 3 for one in sets.sets)}
    with pytest.raises(InputError, match="no set is enough for any of 25 inputs; name one"):
        none.plot.enough()
    with pytest.raises(InputError, match="no set of columns was tried for input 'case 3'"):
        replace(result, sets=replace(sets, sets=())).plot.enough("case 3")
    with pytest.raises(InputError, match="it needs a decision"):
        replace(result, sets=None).plot.enough()


@pytest.mark.parametrize("column", NAMES[:2])  # all unusual, none
def test_dependence_is_the_effect_against_the_value(result, column):
    rows = result.table[result.table.subset == column]
    ax = result.plot.dependence(column)
    assert ax.get_xlabel() == column
    dots = {colour: part.get_offsets() for part in ax.collections if hasattr(part, "get_sizes")
            for colour in [to_hex(part.get_facecolor()[0])] if len(part.get_offsets())}  # fmt: skip
    for colour, chosen in ((CHOSEN, True), (REST, False)):
        part = rows[rows.chosen == chosen]
        drawn = np.asarray(dots.pop(colour, np.zeros((0, 2))))
        assert drawn == pytest.approx(np.column_stack([part.value.astype(float), part.effect]))
    assert not dots
    ends = [piece for part in ax.collections if hasattr(part, "get_segments") for piece in part.get_segments()]
    assert len(ends) == len(rows)
    assert np.sort(np.array(ends)[:, 0, 1]) == pytest.approx(np.sort(rows.effect_low))


def test_dependence_and_draws_know_categories_and_missing_values():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"job": rng.choice(["none", "cook", "smith"], 150), "pay": rng.normal(size=150)})
    rows.loc[::7, "pay"] = np.nan
    found = butfor.explain(lambda x: (x.job == "none") + x.pay.fillna(1), rows[:30], rows[30:], subsets="columns")
    ax = found.plot.dependence("job")
    assert [label.get_text() for label in ax.get_xticklabels()] == ["cook", "none", "smith"]
    x = np.concatenate([part.get_offsets()[:, 0] for part in ax.collections if hasattr(part, "get_sizes")])
    assert sorted(np.round(x).tolist()) == sorted(["cook", "none", "smith"].index(job) for job in rows.job[:30])
    ax = found.plot.dependence("pay")
    assert [text.get_text() for text in ax.texts] == ["missing"]
    x = np.concatenate([part.get_offsets()[:, 0] for part in ax.collections if hasattr(part, "get_sizes")])
    assert (x < rows.pay[:30].min()).sum() == rows.pay[:30].isna().sum()
    ax = found.plot.draws(1, "job")
    assert ax.get_xticklabels()[int(ax.lines[-1].get_xdata()[0])].get_text() == rows.job[1]


def test_draws_are_those_of_the_run_and_the_nearest_that_change_the_decision():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    model = LogisticRegression().fit(rows, np.where(rows.a > 1, "yes", "no"))
    inputs = rows[:30].assign(a=rows.a[:30] + 2)
    found = butfor.explain(model, inputs, rows[100:], subsets="columns", target="yes", test="irt", draws=60)
    kept = found.counterfactuals(5, "a")
    ax = found.plot.draws(5, "a")
    drawn, changed, observed, level = ax.lines[1:]
    assert drawn.get_xdata() == pytest.approx(kept.a)
    assert drawn.get_ydata() == pytest.approx(model.predict_proba(kept)[:, 1])
    made = pd.DataFrame({"a": changed.get_xdata(), "b": rows.b[5]})
    assert changed.get_ydata() == pytest.approx(model.predict_proba(made)[:, 1])
    assert len(made) == len(found.decided.nearest[found.row(5, "a")].outputs) > 0
    assert observed.get_xdata() == pytest.approx(rows.a[5] + 2)
    assert observed.get_ydata() == pytest.approx(found.outputs[5, 1])
    assert level.get_ydata()[0] == 0.5
    assert (changed.get_ydata() < 0.5).all()
    assert np.diff(ax.lines[0].get_xdata()).min() >= 0  # the curve goes from left to right
    more = found.counterfactuals(5, "a", 40)
    ax = found.plot.draws(5, "a", outputs=model.predict_proba(more))
    assert ax.lines[1].get_xdata() == pytest.approx(more.a)


def test_columns_are_asked_for_by_name_and_only_of_tables(result):
    texts = butfor.text.explain(lambda some: [float("bad" in x) for x in some], ["a bad film"], _worse, effects=None)
    group = next(name for name in result.subset_names if name != "all columns" and len(result.columns_of(name)) > 1)
    for name, given in (("dependence", ()), ("draws", ("case 0",))):
        with pytest.raises(InputError, match="unknown subset 'weight'; subsets are "):
            getattr(result.plot, name)(*given, "weight")
        with pytest.raises(InputError, match=f"^'{group}' is a group of . columns; name one of them: "):
            getattr(result.plot, name)(*given, group)
        with pytest.raises(InputError, match=f"^{name} shows one column of a table"):
            getattr(texts.plot, name)(*given, "bad")
    with pytest.raises(InputError, match="unknown input 'case 99'"):
        result.plot.draws("case 99", "age")
    with pytest.raises(InputError, match="kept no counterfactuals of this hypothesis"):
        replace(result, kept=type(result.kept)()).plot.draws("case 0", "age")
    nothing = replace(result.effects, effect=np.full(len(result.chosen), np.nan))
    with pytest.raises(InputError, match="effects='all'"):
        replace(result, effects=nothing).plot.dependence("age")


def test_parts_of_a_prompt_are_drawn_with_their_intervals(result):
    prompt = butfor.context.prompt({"passage 1": "Lisbon: 4417.", "passage 2": "Rome: 2290."}, question="Lisbon?")
    answered = butfor.context.explain(
        lambda prompts: ["4417" if "4417" in one else "unknown" for one in prompts], prompt, ["Oslo: 1.", "Bern: 2."]
    )
    figure, ax = plt.subplots()
    assert butfor.plots.context(answered, ax=ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["passage 1", "passage 2"]
    with pytest.raises(butfor.types.InputError, match=r"butfor\.context\.explain"):
        butfor.plots.context(result)
    plt.close(figure)
