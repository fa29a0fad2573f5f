"""What to test in a table: columns, lists, named groups, and how mistakes are told."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.tabular.subsets import column_subsets
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
