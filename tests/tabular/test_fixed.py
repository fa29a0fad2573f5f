"""Columns that others fix are found, tested with what fixes them, and never by themselves."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.tabular import fixed
from butfor.tabular.fixed import fixed_cells, fixed_columns
from butfor.tabular.table import as_table

ROWS = 300


def names(frame):
    found = fixed_columns(as_table(frame, "reference"))
    return {frame.columns[j]: {frame.columns[k] for k in others} for j, others in found.items()}


def body(seed=0, heavier=0.0, rows=ROWS):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"height": rng.normal(1.7, 0.1, rows), "weight": rng.normal(75 + heavier, 12, rows)})
    frame["bmi"] = frame.weight / frame.height**2
    frame["age"], frame["x"] = rng.integers(18, 80, rows).astype(float), rng.normal(size=rows)
    return frame


def normal(columns="abcdef", rows=ROWS, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(rows, len(columns))), columns=list(columns))


def test_sums_products_ratios_and_exponentials():
    assert names(body())["bmi"] == {"height", "weight"}
    frame = normal()
    frame["sum"], frame["product"] = frame[list("abcd")].sum(axis=1), frame.e * frame.f
    assert names(frame)["sum"] == set("abcd")
    assert names(frame)["product"] == {"e", "f"}
    frame = normal("ab")
    frame["exp"] = np.exp(frame.a / 1.5)
    assert names(frame) == {"a": {"exp"}, "exp": {"a"}}
    rng = np.random.default_rng(0)
    debts = pd.DataFrame(
        {"debt": rng.exponential(size=ROWS) * (rng.random(ROWS) < 0.8), "income": rng.lognormal(3, 0.5, ROWS)}
    )
    debts["ratio"], debts["other"] = (
        debts.debt / debts.income,
        rng.normal(size=ROWS),
    )  # none of many debts: no logarithm
    assert names(debts)["ratio"] == {"debt", "income"}


def test_codes_and_levels():
    rng = np.random.default_rng(0)
    codes = pd.get_dummies(pd.Series(rng.integers(0, 8, ROWS)).astype(str)).assign(x=rng.normal(size=ROWS))
    assert fixed_cells(fixed_columns(as_table(codes, "reference")), np.arange(9)) == [tuple(range(8)), (8,)]
    frame = body().assign(clinic=pd.Categorical(rng.integers(0, 9, ROWS).astype(str)))
    number = frame.clinic.astype(int)
    frame["region"], frame["beds"] = pd.Categorical(np.where(number < 4, "north", "south")), 30.0 + number**2
    frame["old"] = frame.age > 60
    found = names(frame)
    assert (found["region"], found["beds"], found["old"]) == ({"clinic"}, {"clinic"}, {"age"})
    assert "clinic" not in found
    assert "age" not in found


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_columns_that_still_move_are_not_fixed(noise):
    frame = normal()
    frame["copy"] = frame.a + noise * np.random.default_rng(1).normal(size=ROWS)
    frame["group"] = pd.Categorical(np.random.default_rng(2).integers(0, 9, ROWS).astype(str))
    frame["rare"] = (np.arange(ROWS) < 2) * 1.0  # two rows may lie anywhere
    assert names(frame) == {}
    assert names(normal(rows=30)) == {}


def test_one_row_far_away_fixes_nothing():
    frame = normal()
    frame["copy"] = frame.a + np.random.default_rng(1).normal(size=ROWS)
    frame.loc[[3, 50, 120, 200, 260], ["a", "copy"]] = 1e4
    assert names(frame) == {}


def test_a_laxer_threshold_is_caught(monkeypatch):
    """Planted fault."""
    monkeypatch.setattr(fixed, "NEARLY", 0.9)
    frame = normal()
    frame["copy"] = frame.a + 0.2 * np.random.default_rng(1).normal(size=ROWS)
    assert names(frame) == {"a": {"copy"}, "copy": {"a"}}


def explained(subsets, seed=0):
    return butfor.explain(
        lambda rows: rows["bmi"] + rows["age"] / 50,
        body(seed + 1, heavier=30, rows=25),
        body(seed),
        subsets=subsets,
        decide=lambda outputs: outputs > 30,
        control=False,
    )


def test_the_tree_and_the_columns_keep_them_together():
    for subsets in (None, "columns"):
        result = explained(subsets)
        assert "bmi, height, weight" in result.subset_names
        assert not {"bmi", "height", "weight"} & set(result.subset_names)
        note = next(note for note in result.notes if note.code == "fixed-together")
        assert str(note) == "height, weight and bmi fix each other, nearly or exactly; the three are tested together."
        body_rows = result.table[result.table.subset == "bmi, height, weight"]
        assert body_rows.necessary.mean() > 0.5


def test_cuts_of_the_tree_lie_inside_each_other():
    result = explained(None)
    subsets = {block.subset.name: set(block.subset.index.tolist()) for block in result.hypotheses.blocks}
    parts = [subsets[name] for name in result.subset_names]
    own = {2, 0, 1}
    assert all(own <= part or not own & part for part in parts)


def test_a_user_who_names_one_alone_gets_its_flips_and_no_claim():
    result = explained(["bmi", "age"])
    alone = result.table.subset == "bmi"
    assert not result.table.necessary[alone].any()
    assert not result.chosen[alone.to_numpy()].any()
    assert not result.features.set_index("subset").chosen["bmi"]
    note = next(note for note in result.notes if note.code == "fixed-alone")
    assert "'bmi' is fixed by height and weight" in str(note)
    with_one = explained({"body": ["bmi", "height", "weight"], "age": ["age"]})
    assert "fixed-alone" not in [note.code for note in with_one.notes]
