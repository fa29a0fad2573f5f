"""What to test in a table: columns, lists, named groups, and how mistakes are told."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import butfor
from butfor.evaluation.hypotheses import redraw
from butfor.tabular.subsets import column_subsets, column_tree, stand_still
from butfor.tabular.table import as_table

ARRAY = as_table(np.zeros((2, 4)), "data")
FRAME = as_table(pd.DataFrame(np.zeros((2, 4)), columns=["a", "b", "c", "d"]), "data")
NUMBERED = as_table(pd.DataFrame(np.zeros((2, 4)), columns=[3, 2, 1, 0]), "data")


def found(table, subsets):
    return {subset.name: subset.index.tolist() for subset in column_subsets(table, subsets)}


@pytest.mark.parametrize(
    ("table", "subsets", "expected"),
    [
        (ARRAY, None, {"x0": [0], "x1": [1], "x2": [2], "x3": [3]}),
        (FRAME, None, {"a": [0], "b": [1], "c": [2], "d": [3]}),
        (FRAME, ["c", "a"], {"c": [2], "a": [0]}),
        (FRAME, ("c", "a"), {"c": [2], "a": [0]}),
        (FRAME, np.array(["c", "a"]), {"c": [2], "a": [0]}),
        (FRAME, [["c", "a"], "b"], {"c+a": [2, 0], "b": [1]}),
        (FRAME, {"g": ["c", "a"], "h": "b", "i": 3}, {"g": [2, 0], "h": [1], "i": [3]}),
        (FRAME, [1, -1], {"b": [1], "d": [3]}),
        (ARRAY, [np.int64(1), "x3"], {"x1": [1], "x3": [3]}),
        (ARRAY, {"g": np.array([0, 2])}, {"g": [0, 2]}),
        (NUMBERED, [3, 0], {"3": [0], "0": [3]}),  # a label of the frame goes before a position
    ],
)
def test_subsets(table, subsets, expected):
    assert found(table, subsets) == expected
    assert list(found(table, subsets)) == list(expected)


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        (["weight"], "unknown column 'weight' in subsets; the data has a, b, c, d"),
        ({"g": ["a", "weight"]}, "unknown column 'weight'"),
        ([4], "unknown column 4"),
        ([-5], "unknown column -5"),
        ({"g": ["a", "b"], "h": ["b", "c"]}, "column 'b' is in subset 'g' and in 'h'.*may not overlap"),
        (["a", ["a", "b"]], "may not overlap"),
        (["a", "a"], "'a' is listed twice"),
        ([["a", "a"]], "'a'"),
        ([], "subsets is empty"),
        ({}, "subsets is empty"),
        ([[]], "without columns"),
        ({"g": []}, "without columns"),
        ("a", "subsets must be a list"),
        (3, "subsets must be a list"),
        ([None], "None"),
        ([1.5], "1.5"),
        # Was (subsets.py, column_subsets): names are made text, so one of two groups named 1 and '1' disappears.
        ({1: ["a"], "1": ["b"]}, "'1'"),
    ],
)
def test_mistakes_are_told(subsets, message):
    with pytest.raises(butfor.InputError, match=message):
        column_subsets(FRAME, subsets)


def test_groups_in_a_run():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal([4, 4, 0, 0], 1, size=(30, 4)), columns=list("abcd"))
    reference = pd.DataFrame(rng.normal(size=(300, 4)), columns=list("abcd"))
    result = butfor.explain(
        lambda rows: rows["a"] + rows["b"] + rows["c"],
        frame,
        reference,
        subsets={"first": ["a", "b"], "second": ["c"], "third": ["d"]},
        test="irt",
        draws=99,
        alternative="greater",
        alpha=0.2,
    )
    assert result.table[result.chosen].subset.value_counts()["first"] >= 28
    assert (result.table.p[result.table.subset == "third"] == 1).all()
    assert result.subset_names == ("first", "second", "third")


# Names of groups


def breast_cancer(constant=()):
    from sklearn.datasets import load_breast_cancer

    rows = load_breast_cancer(as_frame=True).data
    return rows.assign(**dict.fromkeys(constant, 1.0))


@pytest.mark.parametrize("constant", [(), ("unit",), ("unit", "site", "year")])
def test_no_name_ends_in_nothing_and_none_is_long(constant):
    rows = breast_cancer(constant)
    tree = column_tree(as_table(rows, "reference"), stand_still(rows.to_numpy(), rows.to_numpy()))
    names = [subset.name for subset in tree.subsets]
    assert len(set(names)) == len(names)
    assert all(name and name == name.strip() for name in names)
    for subset in tree.subsets[1:]:
        columns = [rows.columns[j] for j in subset.index]
        assert subset.name == ", ".join(sorted(columns)) or len(columns) > 4
        if " led by " in subset.name:
            assert subset.name.split(" led by ")[1] in columns
            assert subset.name.startswith(f"{len(columns)} ")
    assert names[0] == "all columns"


def test_a_table_whose_columns_all_go_together_beside_constants():
    """Cuts of ties are of all that varies: that was called "all but " and nothing."""
    x = np.arange(40.0)
    rows = pd.DataFrame({f"copy of column number {k}": x * (k + 1) for k in range(6)} | {"unit": 1.0})
    tree = column_tree(as_table(rows, "reference"), stand_still(rows.to_numpy(), rows.to_numpy()))
    names = {subset.name: subset.key for subset in tree.subsets}
    assert names["all columns that vary"] == "all but "
    assert "all but " not in names


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_short_names_are_keys_of_nothing_and_list_their_columns(tmp_path):
    rows = breast_cancer()
    model = RandomForestClassifier(20, random_state=0).fit(rows[:200], rows[:200]["worst area"] > 700)
    result = butfor.explain(model, rows[200:203], rows[300:400], control=False, exact=False)
    group = next(subset for subset in result.hypotheses.subsets if " columns led by " in subset.name)
    assert group.key.endswith(f" and {len(group.index) - 3} more")
    assert result.columns_of(group.name) == [rows.columns[j] for j in group.index]
    assert result.row(200, group.name) == result.row(200, group.key)
    assert group.name in set(result.table.subset)
    again = butfor.load(result.save(tmp_path / "r.butfor"), sampler=rows[300:400])
    assert again.row(201, group.key) == result.row(201, group.name)
    for one in (again, result):  # drawn again from the seed, by the key
        drawn = redraw(one.hypotheses, one.row(202, group.name), 5, list(one.record.rounds), one.record.set_aside)
        assert np.array_equal(drawn, result.counterfactuals(202, group.name, 5).to_numpy())
    assert ", ".join(result.columns_of(group.name)) in result.report(tmp_path / "r.html").read_text("utf-8")
    with pytest.raises(butfor.InputError, match="unknown subset 'no such group'"):
        result.columns_of("no such group")
