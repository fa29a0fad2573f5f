"""Rows that belong together and columns that number them are pointed out; ordinary tables are left alone."""

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

import butfor
from butfor.tabular.explain import _repeat


def people(rng, count, rows):
    person = np.repeat(np.arange(count), rows)
    own = rng.normal(size=(count, 3)).round(2)[person]
    return pd.DataFrame(np.column_stack([own, rng.normal(size=(len(person), 2))]), columns=list("abcde")), person


def notes(inputs, reference, **settings):
    def model(rows):
        return rows.iloc[:, 0] if isinstance(rows, pd.DataFrame) else rows[:, 0]

    result = butfor.explain(model, inputs, reference, control=False, **settings)
    return {note.code for note in result.notes if hasattr(note, "code")}


@pytest.mark.filterwarnings("ignore::butfor.types.ReachWarning")
@pytest.mark.parametrize("mixed", [False, True])
def test_several_rows_of_a_person_are_seen_and_groups_end_it(mixed):
    rng = np.random.default_rng(0)
    inputs, person = people(rng, 10, 4)
    if mixed:
        order = rng.permutation(len(inputs))
        inputs, person = inputs.iloc[order].reset_index(drop=True), person[order]
    reference, _ = people(rng, 100, 1)
    assert "repeated-inputs" in notes(inputs, reference)
    assert "repeated-inputs" not in notes(inputs, reference, groups=person)


@pytest.mark.filterwarnings("ignore::butfor.types.ReachWarning")
def test_an_index_is_seen():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc")).assign(row=np.arange(150))
    assert "index-column" in notes(frame[100:], frame[:100])
    assert "index-column" not in notes(frame[100:].drop(columns="row"), frame[:100].drop(columns="row"))


@pytest.mark.filterwarnings("ignore::butfor.types.ReachWarning")
@pytest.mark.parametrize("load", [datasets.load_wine, datasets.load_diabetes, datasets.load_breast_cancer])
def test_ordinary_tables_are_left_alone(load):
    rows = load(as_frame=True).data.sample(frac=1, random_state=0)
    said = notes(rows[:60], rows[60:], subsets="columns", draws=19, test="irt")
    assert not {"repeated-inputs", "index-column"} & said


@pytest.mark.filterwarnings("ignore::butfor.types.ReachWarning")
def test_counts_are_left_alone():
    rng = np.random.default_rng(0)
    said = notes(rng.poisson(5, (80, 6)).astype(float), rng.poisson(5, (100, 6)).astype(float), test="irt", draws=19)
    assert "repeated-inputs" not in said


def test_few_rows_with_coarse_columns_are_left_alone():
    """Penguins: millimetres, and grams in steps of 25; one mixing of 34 rows says little of what chance does."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        middle, spread, steps = np.array([[49.0, 18.4, 196, 3733], [3.3, 1.1, 7, 384], [0.1, 0.1, 1, 25]])
        rows = np.round((middle + spread * rng.normal(size=(34, 4))) / steps) * steps
        alarms += _repeat(rows, np.zeros(4, bool))
    assert alarms == 0


def cars(rng, count):
    maker = rng.integers(0, 8, count)
    named = pd.DataFrame({"maker": maker, "model": 5 * maker + rng.integers(0, 5, count)}).astype(str)
    return pd.DataFrame({"km": rng.normal(size=count), "age": rng.normal(size=count)}).join(named)


@pytest.mark.filterwarnings("ignore::butfor.types.ReachWarning")
@pytest.mark.parametrize("seed", range(3))
def test_categories_that_go_together_are_left_alone_and_people_with_such_are_not(seed):
    rng = np.random.default_rng(seed)
    settings = {"test": "irt", "draws": 19, "subsets": ["km"]}
    assert "repeated-inputs" not in notes(cars(rng, 80), cars(rng, 100), **settings)
    (four, person), (reference, _) = people(rng, 20, 4), people(rng, 100, 1)
    named, settings["subsets"] = ["maker", "model"], ["a"]
    four[named] = cars(rng, 20)[named].iloc[person].to_numpy()  # four rows of a driver
    reference[named] = cars(rng, 100)[named]
    assert "repeated-inputs" in notes(four, reference, **settings)
