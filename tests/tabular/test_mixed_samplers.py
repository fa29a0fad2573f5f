"""What every sampler of mixed frames must do: types to the bit, groups from one row, missing values, levels, order."""

import pickle

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import tabular
from butfor.results.words import Note
from butfor.tabular.table import as_table
from butfor.types import InputError, Subset

SAMPLERS = {
    "empirical": tabular.empirical,
    "forest": lambda reference: tabular.forest(reference, trees=10),
    "neighbours": tabular.neighbours,
    "auto": tabular.auto,
    "plausible": lambda reference: butfor.plausible(tabular.forest(reference, trees=10), score, 0.0),
}
CONDITIONAL = [name for name in SAMPLERS if name != "empirical"]


def score(frame):
    """Lets rows of working age through; sees the frame as the user knows it."""
    assert frame["age"].dtype == np.int32
    assert set(frame["town"]) <= {"Ulm", "Köln", "Jena", "Rom"}
    return 70.0 - frame["age"].to_numpy()


def mixed(rows, seed):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=rows)
    return pd.DataFrame(
        {
            "age": np.rint(40 + 8 * latent).astype(np.int32),
            "weight": (70 + 10 * latent + rng.normal(size=rows)).astype(np.float32),
            "income": np.where(rng.random(rows) < 0.2, np.nan, np.exp(latent)),
            "smoker": latent + rng.normal(size=rows) > 0,
            "town": rng.choice(["Ulm", "Köln", "Jena"], rows),
            "grade": pd.Categorical(rng.choice(["low", "high"], rows), ["none", "low", "high"], ordered=True),
            "seen": pd.Timestamp("2024-02-29 12:00") + pd.to_timedelta(rng.integers(0, 9_000_000, rows), "ms"),
            "born": pd.Timestamp("1984-01-01", tz="Europe/Berlin") - pd.to_timedelta(rng.integers(0, 9000, rows), "D"),
            "visits": pd.array(np.where(rng.random(rows) < 0.2, None, rng.poisson(3, rows)), dtype="Int64"),
            "answer": pd.array(rng.choice([True, False, None], rows), dtype="boolean"),
            "place": pd.Series(rng.choice(["a", "b", np.nan], rows).astype(object)).replace("nan", np.nan),
            "colour_red": (latent > 0.5).astype(np.int8),
            "colour_blue": (latent <= 0.5).astype(np.int8),
        }
    )


MIXED, INPUTS = mixed(90, 0), mixed(6, 1).set_axis(list("uvwxyz"), axis=0)
GROUPS = {
    "number": ["weight"],
    "whole number": ["age"],
    "missing": ["income"],
    "yes or no": ["smoker"],
    "text": ["town"],
    "category": ["grade"],
    "times": ["seen", "born"],
    "nullable": ["visits", "answer", "place"],
    "one-hot": ["colour_red", "colour_blue"],
    "all": list(MIXED.columns),
}


def subset(group, frame=INPUTS):
    return Subset(group, np.array([list(frame.columns).index(name) for name in GROUPS[group]]))


def rng():
    return np.random.default_rng(5)


@pytest.fixture(params=SAMPLERS, scope="module")
def sampler(request):
    return SAMPLERS[request.param](MIXED)


@pytest.fixture(params=GROUPS)
def group(request):
    return request.param


def keys(frame):
    """Rows as comparable tuples; what is missing is None."""
    return [tuple(None if pd.isna(value) else value for value in row) for row in frame.itertuples(index=False)]


def test_types_names_and_the_rest_of_the_row_are_kept(sampler, group):
    shown = sampler(INPUTS, subset(group), 7, rng())
    assert list(shown.columns) == list(INPUTS.columns)
    assert list(shown.dtypes) == list(INPUTS.dtypes)
    rest = [name for name in INPUTS.columns if name not in GROUPS[group]]
    given = INPUTS[rest].iloc[np.repeat(np.arange(6), 7)].reset_index(drop=True)
    pd.testing.assert_frame_equal(shown[rest].reset_index(drop=True), given)


def test_a_group_comes_from_one_row(sampler, group):
    """Of the reference, or from the observed row: never mixed from several."""
    if repr(sampler).startswith("residual") and group != "all":
        pytest.skip("its donors give what the regression missed, not their values")
    shown = sampler(INPUTS, subset(group), 40, rng())
    donors, own = set(keys(MIXED[GROUPS[group]])), keys(INPUTS[GROUPS[group]])
    drawn = keys(shown[GROUPS[group]])
    assert all(row in donors or row == own[i // 40] for i, row in enumerate(drawn))
    assert len(set(drawn)) > 1


@pytest.mark.parametrize("group", ["missing", "nullable"])
def test_what_is_missing_in_a_donor_is_missing(sampler, group):
    shown = sampler(INPUTS, subset(group), 200, rng())
    for name in GROUPS[group]:
        assert shown[name].isna().mean() == pytest.approx(MIXED[name].isna().mean(), abs=0.15)


def test_inputs_are_not_changed_and_not_handed_out(sampler, group):
    inputs = INPUTS.copy(deep=True)
    shown = sampler(inputs, subset(group), 1, rng())
    for name in GROUPS[group]:
        shown[name] = shown[name].iloc[::-1].to_numpy()
    pd.testing.assert_frame_equal(inputs, INPUTS)


@pytest.mark.parametrize(("count", "draws"), [(0, 3), (1, 1), (2, 0), (0, 0)])
def test_none_and_one(sampler, group, count, draws):
    shown = sampler(INPUTS.iloc[:count], subset(group), draws, rng())
    assert shown.shape == (count * draws, len(INPUTS.columns))
    assert list(shown.columns) == list(INPUTS.columns)


def test_first_inputs_do_not_depend_on_those_behind(sampler, group):
    few, many = (sampler(INPUTS.iloc[:count], subset(group), 3, rng()) for count in (2, 6))
    pd.testing.assert_frame_equal(few, many.iloc[:6])


@pytest.mark.parametrize("name", SAMPLERS)
def test_pickles_before_and_after_use(name, group):
    sampler = SAMPLERS[name](MIXED)
    before = pickle.loads(pickle.dumps(sampler))(INPUTS, subset(group), 3, rng())
    here = sampler(INPUTS, subset(group), 3, rng())
    after = pickle.loads(pickle.dumps(sampler))(INPUTS, subset(group), 3, rng())
    pd.testing.assert_frame_equal(before, here)
    pd.testing.assert_frame_equal(after, here)


@pytest.mark.parametrize("name", SAMPLERS)
def test_columns_in_another_order(name, group):
    """Of the data, or of the reference: the same draws by name."""
    order = np.random.default_rng(3).permutation(INPUTS.columns)
    shown = SAMPLERS[name](MIXED)(INPUTS, subset(group), 3, rng())
    moved = SAMPLERS[name](MIXED)(INPUTS[order], subset(group, INPUTS[order]), 3, rng())
    pd.testing.assert_frame_equal(moved[INPUTS.columns], shown)
    fitted = SAMPLERS[name](MIXED[order])(INPUTS, subset(group), 3, rng())
    pd.testing.assert_frame_equal(fitted, shown)


def run(sampler, data, **settings):
    def model(frame):
        assert list(frame.dtypes) == list(INPUTS[frame.columns].dtypes)
        return frame["weight"] + frame["smoker"] * 3.0 + (frame["town"] == "Ulm") * 5 + frame["income"].fillna(-9)

    groups = {name: columns for name, columns in GROUPS.items() if name != "all"}
    return butfor.explain(
        model, data, sampler, subsets=groups, **{"test": "irt", "draws": 30, "alpha": 0.5, **settings}
    )


@pytest.mark.parametrize("name", ["empirical", "forest", "neighbours"])
def test_a_run_keeps_types_order_and_index(name):
    order = np.random.default_rng(3).permutation(INPUTS.columns)
    one = run(SAMPLERS[name](MIXED), INPUTS).table
    other = run(SAMPLERS[name](MIXED[order]), INPUTS[order]).table
    assert set(one.input) == set(INPUTS.index)
    merged = one.merge(other, on=["input", "subset"])
    assert len(merged) == len(one) == 6 * (len(GROUPS) - 1)
    assert (merged.p_x == merged.p_y).all()


@pytest.mark.parametrize("name", ["empirical", "forest", "neighbours"])
def test_batches_do_not_matter(name):
    tables = [run(SAMPLERS[name](MIXED), INPUTS, batch_rows=rows).table for rows in (7, 10_000)]
    pd.testing.assert_frame_equal(*tables)


def test_none_stays_none(sampler):
    """To scikit-learn's encoders None and NaN are two levels."""
    inputs = INPUTS.assign(place=pd.Series(["a", None, "b", None, "a", "a"], INPUTS.index, dtype=object))
    shown = sampler(inputs, subset("number"), 1, rng())
    assert shown["place"].tolist() == inputs["place"].tolist()
    drawn = sampler(inputs, subset("nullable"), 50, rng())["place"]
    assert {value for value in drawn if pd.isna(value)} == {None}  # as drawn from a reference with NaN, too


def test_a_reference_with_none_is_drawn_as_it_is():
    reference = MIXED.assign(place=MIXED["place"].astype(object).where(MIXED["place"].notna(), None))
    inputs = INPUTS.assign(place=pd.Series("a", INPUTS.index, dtype=object))
    drawn = tabular.empirical(reference)(inputs, subset("nullable"), 50, rng())["place"]
    assert {value for value in drawn if pd.isna(value)} == {None}


# Levels that only one of the two has


def test_a_level_that_only_the_data_has_stays_and_is_drawn_as_the_own_value_only(sampler):
    inputs = INPUTS.assign(town=["Rom", *INPUTS["town"][1:]])
    shown = sampler(inputs, subset("number"), 3, rng())
    assert (shown["town"].iloc[:3] == "Rom").all()
    redrawn = sampler(inputs, subset("text"), 300, rng())["town"].to_numpy()
    assert 0 < (redrawn[:300] == "Rom").sum() < 60
    assert not (redrawn[300:] == "Rom").any()


def test_a_level_that_only_the_reference_has_is_drawn(sampler):
    inputs = INPUTS.assign(town="Ulm", grade=pd.Categorical(["low"] * 6, ["low"]))
    assert set(sampler(inputs, subset("text"), 200, rng())["town"]) == {"Ulm", "Köln", "Jena"}
    grades = sampler(inputs, subset("category"), 200, rng())["grade"]
    assert set(grades) == {"low", "high"}
    assert set(grades.cat.categories) >= {"low", "high"}


def test_unused_levels_are_kept_and_never_drawn(sampler):
    grades = sampler(INPUTS, subset("category"), 200, rng())["grade"]
    assert list(grades.cat.categories) == ["none", "low", "high"]
    assert grades.cat.ordered
    assert "none" not in set(grades)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_column_of_another_kind_is_refused(name):
    with pytest.raises(InputError, match="column 'town' of the data holds numbers, but categories"):
        SAMPLERS[name](MIXED)(INPUTS.assign(town=1.0), subset("number"), 1, rng())


@pytest.mark.parametrize("make", [tabular.gaussian, tabular.copula])
def test_samplers_that_compute_refuse_categories_and_gaps(make):
    with pytest.raises(InputError, match="column 'town' of the reference holds categories"):
        make(MIXED)
    with pytest.raises(InputError, match="in row 0, column 'income'; fill or drop it, or use"):
        make(pd.DataFrame({"age": [1.0, 2.0, 3.0], "income": [np.nan, 1.0, 2.0]}))


@pytest.mark.parametrize("make", [tabular.gaussian, tabular.copula])
def test_samplers_that_compute_keep_whole_numbers_flags_and_times(make):
    names = ["age", "weight", "smoker", "seen", "born", "colour_red"]
    shown = make(MIXED[names])(INPUTS[names], Subset("s", np.arange(6)), 50, rng())
    assert list(shown.dtypes) == list(INPUTS[names].dtypes)
    assert set(shown["colour_red"]) <= {0, 1}
    assert shown["smoker"].nunique() == 2
    assert shown["seen"].nunique() > 100


# Draws follow the rest of the row


@pytest.mark.parametrize("name", CONDITIONAL)
def test_draws_follow_the_rest_of_the_row(name):
    reference = mixed(400, 2)
    inputs = pd.concat([reference.nsmallest(20, "weight"), reference.nlargest(20, "weight")])
    shown = SAMPLERS[name](reference)(inputs, subset("whole number"), 20, rng())
    ages = as_table(shown.reset_index(drop=True), "data").values[:, 0]
    assert ages[400:].mean() > ages[:400].mean() + 10  # 40 + 8 latent: those tails lie 30 years apart


# Was wrong once: fewer than a quarter of the columns skewed and auto took the Gaussian, with false discoveries in 9 of
# 10 runs in which every null was true.
def test_one_skewed_column_is_enough_for_auto_not_to_take_the_gaussian():
    false = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(400, 6))
        rows[:, 0] = np.exp(rows[:, 0])
        found = butfor.explain(
            lambda x: x.sum(axis=1) + 3 * x[:, 0], rows[200:], rows[:200], alternative="greater", effects=None
        )
        false += int(found.chosen.sum())
    assert false == 0
    assert tabular.auto(rows[:200]).why == Note("sampler-residual", "info")


def test_auto_fits_once_for_the_same_data():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    assert tabular.auto(rows) is tabular.auto(rows.copy())
    assert tabular.auto(rows) is not tabular.auto(rows + 1)
    assert tabular.auto(pd.DataFrame(rows)) is not tabular.auto(rows)
