"""Coarse to fine: the tree of columns, layers, their promise, and what a result says of the finest parts."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation.hypotheses import Layers
from butfor.inference.effects import Effects
from butfor.inference.selection import layers_of_table
from butfor.results.result import Decided
from butfor.results.summary import headline_parts
from butfor.results.view import leading
from butfor.tabular.subsets import ALL, associations, column_tree, named_tree, stand_still
from butfor.tabular.table import as_table


def correlated(rng, rows, shift=0.0):
    """Six columns: three that go together, two that go together, one alone."""
    common, other = rng.normal(size=(2, rows, 1))
    block = common + 0.3 * rng.normal(size=(rows, 3))
    pair = other + 0.3 * rng.normal(size=(rows, 2))
    values = np.hstack([block + shift, pair, rng.normal(size=(rows, 1))])
    return pd.DataFrame(values, columns=["radius", "perimeter", "area", "age", "years", "noise"])


@pytest.fixture(scope="module")
def reference():
    return correlated(np.random.default_rng(0), 300)


def columns_of(tree, name):
    return next(set(subset.index.tolist()) for subset in tree.subsets if subset.name == name)


def test_the_tree_goes_from_all_columns_to_single_ones(reference):
    tree = column_tree(as_table(reference, "reference"))
    assert tree.subsets[0].name == ALL
    assert tree.root == 0
    assert {subset.name for subset in tree.subsets} >= {*reference.columns, "area, perimeter, radius", "age, years"}
    for place, above in enumerate(tree.parent):
        if above >= 0:
            assert set(tree.subsets[place].index) < set(tree.subsets[above].index)
            assert tree.resolution[above] < tree.resolution[place]
    for level in range(tree.resolution.max() + 1):
        own = np.concatenate([s.index for s, at in zip(tree.subsets, tree.resolution, strict=True) if at == level])
        assert len(set(own)) == len(own)  # those of one resolution are apart
    assert len(tree.subsets) <= 2 * len(reference.columns) - 1


def test_the_tree_does_not_depend_on_the_rows_explained(reference):
    rows = correlated(np.random.default_rng(5), 30, shift=3)
    first, second = (
        butfor.explain(lambda x: x["area"], rows.iloc[part], reference, control=False).subset_names
        for part in (slice(0, 10), slice(10, 30))
    )
    assert first == second


def test_categories_and_missing_values_have_a_place_in_the_tree():
    rng = np.random.default_rng(0)
    size = rng.normal(size=400)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(400) < 0.1, np.nan, size),
            "label": np.where(size > 0, "large", "small"),
            "word": np.where(size > 0.1, "big", "little"),
            "other": rng.normal(size=400),
            "same": np.ones(400),
        }
    )
    found = associations(as_table(frame, "reference"))
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert found[0, 1] > 0.7
    assert found[1, 2] > 0.7
    assert found[0, 3] < 0.2
    assert np.allclose(found, found.T)


def test_one_and_two_columns(reference):
    assert [subset.name for subset in column_tree(as_table(reference[["age"]], "reference")).subsets] == ["age"]
    two = column_tree(as_table(reference[["age", "area"]], "reference"))
    assert [subset.name for subset in two.subsets] == [ALL, "age", "area"]


def names_and_parents(tree):
    names = [subset.name for subset in tree.subsets]
    return [(name, above if above < 0 else names[above]) for name, above in zip(names, tree.parent, strict=True)]


def test_columns_that_stand_still_do_not_shape_the_tree(reference):
    frame = reference.assign(a_year=2024.0, z=np.nan, kind="new")
    still = stand_still(as_table(frame, "reference").values, as_table(frame[:5], "data").values)
    assert still.tolist() == [False] * 6 + [True] * 3
    tree, plain = column_tree(as_table(frame, "reference"), still), column_tree(as_table(reference, "reference"))
    assert names_and_parents(tree) == names_and_parents(plain)
    assert tree.resolution.tolist() == plain.resolution.tolist()
    assert len(tree.subsets[0].index) == 9
    moved = frame[:5].assign(a_year=2025.0)
    assert not stand_still(as_table(frame, "reference").values, as_table(moved, "data").values)[6]
    one = column_tree(as_table(frame[["age", "z", "a_year"]], "reference"), np.array([False, True, True]))
    assert names_and_parents(one) == [(ALL, -1), ("age", ALL)]
    none = column_tree(as_table(frame[["z", "a_year"]], "reference"), np.array([True, True]))
    assert names_and_parents(none) == [(ALL, -1)]


def test_a_run_with_a_column_that_stands_still(reference):
    rows = correlated(np.random.default_rng(1), 20, shift=2.5)
    found = [
        butfor.explain(lambda x: x["radius"] + x["area"], part, whole, control=False)
        for part, whole in ((rows, reference), (rows.assign(z=1.0), reference.assign(z=1.0)))
    ]
    assert found[0].subset_names == found[1].subset_names
    told = [note for note in found[1].notes if "z" in str(note).split()]
    assert [note.code for note in told] == ["constant-columns"]
    assert "constant-columns" not in [note.code for note in found[0].notes]


def test_what_the_decision_hangs_on_is_the_first_reason(shifted):
    """Though a part of it is chosen, which the decision does not hang on."""
    names, layers = shifted.subset_names, shifted.hypotheses.layers
    group, part = names.index("area, perimeter, radius"), names.index("noise")
    child = next(row for row in range(len(names)) if layers.parent[row] == group)
    size = len(shifted.chosen)
    share = np.where(np.arange(size) == group, 0.9, 0.1)
    marked = {row: np.arange(size) == row for row in (group, child, part)}
    decided = Decided(share, share, share, marked[group], np.ones(size, int), np.zeros(size, int), 0.5)
    found = replace(shifted, chosen=marked[child] | marked[part], decided=decided)
    reasons = found.reasons(shifted.input_names[0])
    assert reasons.subset.tolist()[0] == "area, perimeter, radius"
    assert set(reasons.subset.tolist()[1:3]) == {names[child], "noise"}  # chosen: never missing
    assert reasons.kind.tolist() == ["decisive", "unusual", "unusual", "closest"]
    assert reasons.necessary.tolist()[:2] == [True, False]


def test_a_tree_of_the_users_own(reference):
    table = as_table(reference, "data")
    given = {"size": {"length": ["radius", "perimeter"], "area": "area"}, "time": ["age", "years"], "noise": "noise"}
    tree = named_tree(table, given)
    names = [subset.name for subset in tree.subsets]
    assert names == [ALL, "size", "length", "area", "time", "noise"]
    assert tree.resolution.tolist() == [0, 1, 2, 2, 1, 1]
    assert tree.parent.tolist() == [-1, 0, 1, 1, 0, 0]
    with pytest.raises(butfor.InputError, match="'age' is in two branches"):
        named_tree(table, {"a": {"x": "age"}, "b": {"y": "age"}})


def test_zoom_without_a_reference_is_refused():
    with pytest.raises(butfor.InputError, match="subsets='zoom' makes its tree from reference data"):
        butfor.explain(lambda x: x[:, 0], np.zeros((2, 2)), lambda *_: None, subsets="zoom")


def test_ancestors_and_finest_parts():
    layers = Layers(np.array([0, 1, 1, 2, 2]), np.array([-1, 0, 0, 1, 1]))

    def kept(chosen, passing=None):
        return layers.top_down(lambda level, reached: np.array(chosen) & level, passing).tolist()

    chosen = np.array([True, True, False, True, False])
    assert kept(chosen) == chosen.tolist()
    assert layers.finest(chosen).tolist() == [False, False, False, True, False]
    assert kept([True, False, False, True, False]) == [True, *[False] * 4]
    through = kept([True, False, False, True, False], np.array([False, True, *[False] * 3]))
    assert through == [True, False, False, True, False]  # what is not calibrated is looked through


def test_layers_of_a_table_stand_input_by_input():
    layers = layers_of_table(np.array([0, 1]), np.array([-1, 0]), 3)
    assert layers.resolution.tolist() == [0, 1] * 3
    assert layers.parent.tolist() == [-1, 0, -1, 2, -1, 4]


@pytest.fixture(scope="module")
def shifted(reference):
    rows = correlated(np.random.default_rng(1), 40, shift=2.5)
    return butfor.explain(lambda x: x["radius"] + x["perimeter"] + x["area"], rows, reference)


def test_evidence_is_found_at_the_resolution_where_it_is(shifted):
    table = shifted.table
    group = table[table.subset == "area, perimeter, radius"]
    assert group.chosen.mean() > 0.5
    root = table[table.subset == ALL]
    assert (root.chosen == (root.p <= 0.1)).all()  # all that may be chosen
    assert root.chosen.mean() > 0.8
    assert not table.chosen[table.subset.isin(["noise", "age", "years", "age, years"])].any()
    layers = shifted.hypotheses.layers
    deep = shifted.chosen & (layers.resolution > 1)  # the whole is looked through
    assert shifted.chosen[layers.parent[deep]].all()


def test_what_is_said_is_of_the_finest_parts(shifted):
    text = shifted.summary()
    assert "each resolution (not over all resolutions together)" in str(shifted.guarantee)
    assert "area + perimeter + radius" in text
    assert "held-out reference rows finds nothing" in text
    first = shifted.reasons(shifted.input_names[0])
    assert first.subset.iloc[0] == "area, perimeter, radius"
    assert first.status.iloc[0] == "unusual"


def test_features_have_every_resolution(shifted):
    features = shifted.features.set_index("subset")
    assert features.chosen[[ALL, "area, perimeter, radius"]].all()
    assert not features.chosen[["noise", "age", "years"]].any()
    assert features.effect["area, perimeter, radius"] == pytest.approx(7.5, abs=1.5)
    assert (features.inputs == 40).all()


def test_the_root_is_the_rank_among_whole_rows_of_the_reference(reference):
    rows = correlated(np.random.default_rng(2), 5)
    result = butfor.explain(lambda x: x["area"], rows, reference, alternative="greater", control=False)
    found = result.table[result.table.subset == ALL].p.to_numpy()
    wanted = [(1 + (reference["area"] >= one).sum()) / 301 for one in rows["area"]]
    assert found == pytest.approx(wanted)


def test_a_saved_result_has_all_its_depths(shifted, tmp_path):
    again = butfor.load(shifted.save(tmp_path / "r.butfor"))
    pd.testing.assert_frame_equal(again.table, shifted.table)
    pd.testing.assert_frame_equal(again.features, shifted.features)
    assert str(again.control) == str(shifted.control)
    assert again.summary() == shifted.summary()
    assert (again.select(alpha=0.05).chosen == shifted.select(alpha=0.05).chosen).all()


def test_a_part_that_waited_for_the_larger_one_is_drawn_on():
    """Was wrong once: its drawing ended by a bar that held while all others counted, and 0 of 100 were chosen."""
    rng, ill = np.random.default_rng(0), np.arange(1100) >= 1000
    people = pd.DataFrame({"age": rng.integers(30, 80, 1100), "smoker": rng.choice(["yes", "no"], 1100)})
    people["marker"] = np.where(rng.random(1100) < 0.1, np.nan, rng.normal(np.where(ill, 12, 5), 1))

    def risk(rows):
        return 0.05 * rows["age"] + rows["smoker"].eq("yes") + 0.2 * rows["marker"].fillna(5)

    table = butfor.explain(risk, people[ill], people[~ill], effects=None).table
    chosen = table[table.chosen].groupby("subset").size()
    assert chosen["marker"] >= 40 <= chosen["age, marker"]
    larger = table[(table.subset == "age, marker") & table.chosen].input
    extreme = table[(table.subset == "marker") & (table.surprise == 1) & table.input.isin(larger)]
    assert extreme.chosen.all()


def test_a_rule_that_never_varies_is_named(reference, shifted):
    rows = correlated(np.random.default_rng(1), 6, shift=1.0)

    def said(threshold):
        found = butfor.explain(model, rows, reference, decide=lambda outputs: outputs > threshold, control=False)
        return [note for note in found.notes if "never varies" in str(note)]

    def model(x):
        return 1 / (1 + np.exp(-x["area"]))

    assert len(said(3)) == 1
    assert said(0.5) == []
    both = butfor.explain(
        lambda x: np.column_stack([model(x), 1 - model(x)]),
        rows,
        reference,
        decide=lambda outputs: outputs[:, 0] > 3,
        control=False,
    )
    assert any("never varies" in str(note) for note in both.notes)
    assert not any("never varies" in str(note) for note in shifted.notes)


def test_what_is_not_there_is_not_to_be_looked_at():
    """With picked= subsets are not tested over all inputs together."""
    rng = np.random.default_rng(0)
    reference, rows = rng.normal(size=(300, 5)), rng.normal(0.5, 1, size=(100, 5))
    settings = {"test": "irt", "draws": 20, "rule": "bh", "alternative": "greater", "control": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", butfor.ReachWarning)
        picked = butfor.explain(
            lambda x: x.sum(axis=1), rows, reference, picked=lambda outputs: outputs > -100, **settings
        )
        plain = butfor.explain(lambda x: x.sum(axis=1), rows, butfor.tabular.gaussian(reference), **settings)
    weak = [next(note for note in found.notes if note.code == "weak") for found in (picked, plain)]
    assert [note.values["pooled"] for note in weak] == [False, True]


# Was nothing once: the groups above it have the noise of larger columns, and a part counted only if they did.
def test_a_feature_that_stands_out_by_itself_needs_no_larger_one():
    rng = np.random.default_rng(0)
    large = rng.normal(size=(700, 1))
    rows = np.hstack([large, large + 0.3 * rng.normal(size=(700, 1)), rng.normal(size=(700, 3)) + 0.3 * large])
    rows[:200, 2] += 1
    result = butfor.explain(lambda rows: 5 * rows[:, 0] + 5 * rows[:, 1] + 0.4 * rows[:, 2], rows[:200], rows[200:])
    features = result.features.set_index("subset")
    assert list(features.index[features.chosen]) == ["x2"]
    assert features.p["x2"] < 1e-6  # with the mean of the control rows in its variance; 1e-20 without the control
    assert features.p["all columns"] > 0.05
    assert "Differ on average: x2 +" in result.summary()


@pytest.fixture(scope="module")
def reversed_part():
    """Low in both of two columns that go together, and in b less so than a lets expect: given a, b is high."""
    rng = np.random.default_rng(3)

    def rows(count, common, b):
        noise = rng.normal(size=(3, count))
        return pd.DataFrame({"a": common + 0.2 * noise[0], "b": common + b + 0.2 * noise[1], "c": noise[2]})

    reference, inputs = rows(400, rng.normal(size=400), 0.0), rows(40, -3.5 + 0.1 * rng.normal(size=40), 1.0)
    return butfor.explain(lambda x: x["b"], inputs, reference, subsets={"both": {"a": "a", "b": "b"}, "c": "c"})


def test_a_part_of_the_other_sign_is_not_told_for_the_larger_one(reversed_part):
    """Was "b (+0.9)" once, where the output had fallen by 2.5."""
    features = reversed_part.features.set_index("subset")
    assert features.chosen[["both", "b"]].all()
    assert features.effect["both"] < -1
    assert features.effect["b"] > 0.5
    assert "Differ on average: both −" in reversed_part.summary()
    assert " b +" not in reversed_part.summary()
    table = reversed_part.table
    two = table.input[(table.subset == "b") & table.chosen].tolist()
    assert len(two) > 20
    for name in two:
        reasons = reversed_part.reasons(name)
        assert reasons.subset.tolist()[0] == "both"
        assert "b" in reasons.subset.tolist()  # unusual all the same
        row = int(leading(reversed_part)[reversed_part.position(name)])
        assert reversed_part.subset_names[reversed_part.subset_of[row]] == "both"


@pytest.mark.parametrize(("effect", "told"), [(-0.02, "group"), (0.4, "group"), (-0.04, "part"), (np.nan, "part")])
def test_a_part_of_a_tenth_of_the_size_is_not_told_for_the_larger_one(shifted, effect, told):
    names, layers, size = shifted.subset_names, shifted.hypotheses.layers, len(shifted.chosen)
    group = names.index("area, perimeter, radius")
    part = next(row for row in range(len(names)) if layers.parent[row] == group)
    effects = np.where(np.arange(size) == group, -0.29, np.where(np.arange(size) == part, effect, 0.0))
    chosen = np.isin(np.arange(size), [group, part])
    features = replace(shifted.over_inputs, effect=effects[: len(names)], chosen=chosen[: len(names)])
    made = replace(shifted, chosen=chosen, effects=Effects(effects, effects, effects), over_inputs=features)
    name = names[{"group": group, "part": part}[told]]
    assert headline_parts(made, made.chosen).nonzero()[0].tolist() == [names.index(name)]
    assert made.reasons(made.input_names[0]).subset[0] == name
    shown = name.replace(", ", " + ")
    assert f"Unusual: {shown} in 1 of " in made.summary()
    assert f"Differ on average: {shown} {'not estimated' if np.isnan(effect) else '−'}" in made.summary()


def test_what_contradicts_the_whole_does_not_silence_its_own_parts():
    layers = Layers(np.array([0, 1, 2, 2]), np.array([-1, 0, 1, 1]))
    assert layers.finest(np.ones(4, bool), np.array([0.3, -0.1, 0.2, 0.01])).tolist() == [False, False, True, False]
