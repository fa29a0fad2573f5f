"""Tables as users have them: the model gets what it would get from the user, the result keeps the user's names."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import tabular

NUMERIC = [tabular.gaussian, tabular.copula, tabular.empirical, tabular.forest, tabular.neighbours, tabular.auto]
MIXED = [tabular.empirical, tabular.forest, tabular.neighbours, tabular.auto]


def numbers(rows, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1))
    values = common + rng.normal(size=(rows, 4)) + np.array([shift, 0, 0, 0])
    frame = pd.DataFrame(values, columns=list("dbca"), index=[f"p{seed}-{i}" for i in range(rows)])
    frame["visits"] = rng.poisson(3, rows)
    return frame


def mixed(rows, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    income = np.where(rng.random(rows) < 0.1, np.nan, np.exp(rng.normal(size=rows) + age / 50))
    days = pd.to_timedelta(rng.integers(0, 1000, rows), "D")
    return pd.DataFrame(
        {
            "age": age,
            "colour": rng.choice(["red", "green", "blue"], rows),
            "grade": pd.Categorical(rng.choice(list("abc"), rows), categories=list("dcba"), ordered=True),
            "smoker": rng.random(rows) < 0.3,
            "income": income,
            "since": pd.Timestamp("2020-01-01", tz="Europe/Berlin") + days,
            "children": pd.array(np.where(rng.random(rows) < 0.1, None, rng.integers(0, 5, rows)), dtype="Int64"),
        },
        index=[f"p{i}" for i in range(rows)],
    )


def by_name(frame):
    return frame["a"] + 2 * frame["d"] + frame["visits"] * frame["b"]


@pytest.mark.parametrize("make", NUMERIC, ids=lambda make: make.__name__)
def test_array_and_frame_give_the_same_result(make):
    reference, data = numbers(400, 0), numbers(30, 1, shift=4)
    order = list(data.columns)
    framed = butfor.explain(by_name, data, make(reference), test="irt", draws=99)
    plain = butfor.explain(
        lambda rows: by_name(pd.DataFrame(rows, columns=order)),
        data.to_numpy(),
        make(reference.to_numpy()),
        subsets={name: [i] for i, name in enumerate(order)},
        test="irt",
        draws=99,
    )
    np.testing.assert_array_equal(framed.table.p, plain.table.p)
    np.testing.assert_array_equal(framed.chosen, plain.chosen)
    assert framed.table.input.drop_duplicates().tolist() == data.index.tolist()


@pytest.mark.parametrize("make", NUMERIC, ids=lambda make: make.__name__)
def test_columns_in_another_order_give_the_same_result_by_name(make):
    reference, data = numbers(400, 0), numbers(30, 1, shift=4)
    one = butfor.explain(by_name, data, make(reference), test="irt", draws=99).table
    other = data[["visits", "a", "b", "c", "d"]]
    for again in (make(reference), make(reference[["c", "visits", "d", "a", "b"]])):
        two = butfor.explain(by_name, other, again, test="irt", draws=99).table
        both = one.merge(two, on=["input", "subset"], validate="one_to_one")
        assert len(both) == len(one)
        assert (both.p_x == both.p_y).all()
        assert (both.chosen_x == both.chosen_y).all()


@pytest.mark.parametrize("make", MIXED, ids=lambda make: make.__name__)
def test_the_model_gets_what_the_user_gave(make):
    frame = mixed(500, 0)
    reference, data = frame[frame.age < 60], frame[frame.age >= 60].iloc[:20]
    seen = []

    def model(given):
        seen.append(len(given))
        pd.testing.assert_series_equal(given.dtypes, frame.dtypes)
        assert set(given.index) <= set(data.index)
        own = data.loc[given.index]
        kept = sum(
            (given[name].reset_index(drop=True) == own[name].reset_index(drop=True))
            | (given[name].isna().to_numpy() & own[name].isna().to_numpy())
            for name in frame.columns
        )
        assert (kept >= len(frame.columns) - 2).all()  # the index is that of the input, and only its subset is new
        return given.age + 10 * (given.colour == "red") + given.income.fillna(0) + given.grade.cat.codes

    groups = {"age": ["age"], "money": ["income", "children"], "colour": ["colour"], "since": ["since"]}
    result = butfor.explain(model, data, make(reference), subsets=groups, test="irt", draws=29, alternative="greater")
    assert sum(seen) == result.rows
    drawn = result.counterfactuals(data.index[0], "money", n=5)
    pd.testing.assert_series_equal(drawn.dtypes, frame.dtypes)


@pytest.mark.parametrize("make", MIXED, ids=lambda make: make.__name__)
def test_results_of_mixed_frames_are_saved_and_shown(make, tmp_path):
    frame = mixed(300, 0)
    reference, data = frame.iloc[:200], frame.iloc[200:212].assign(age=200)
    result = butfor.explain(lambda given: given.age, data, make(reference), test="irt", draws=19, alpha=0.9)
    again = butfor.load(result.save(tmp_path / "r.butfor"), make(reference))
    pd.testing.assert_frame_equal(again.table, result.table)
    for name in frame.columns:
        one, two = (r.counterfactuals(data.index[3], name, n=4) for r in (result, again))
        pd.testing.assert_frame_equal(one, two)
    page = result.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "age" in page
    assert butfor.load(tmp_path / "r.butfor").report(tmp_path / "s.html").exists()


def test_polars_frames_come_through_pandas():
    polars = pytest.importorskip("polars")
    frame = mixed(120, 0).drop(columns=["since", "children", "grade"]).reset_index(drop=True)
    given = polars.from_pandas(frame)
    result = butfor.explain(lambda rows: rows.age, given[:10], given[10:], test="irt", draws=9)
    same = butfor.explain(lambda rows: rows.age, frame[:10], frame[10:].reset_index(drop=True), test="irt", draws=9)
    assert result.table.p.tolist() == same.table.p.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": lambda f: f.age.astype(str)}, "column 'age' of the data holds categories, but numbers in the sampler"),
        ({"since": lambda f: range(len(f))}, "column 'since' of the data holds numbers, but times"),
        ({"age": lambda f: f.age + 2**60}, "whole numbers beyond 2\\*\\*53"),
        ({"income": lambda f: np.inf}, "the data has inf in row 'p80', column 'income'; mend or drop it"),
        ({"colour": lambda f: [[1]] * len(f)}, "column 'colour' of the data holds things that cannot be compared"),
    ],
)
def test_columns_that_cannot_be_used_are_named(change, message):
    frame = mixed(100, 0)
    with pytest.raises(butfor.InputError, match=message):
        butfor.explain(lambda rows: rows.index.size, frame[80:].assign(**change), tabular.forest(frame[:80]))


def test_levels_that_only_one_of_them_has():
    frame = mixed(200, 0)
    reference, data = frame[:190].replace({"colour": {"blue": "black"}}), frame[190:]
    seen = set()

    def model(rows):
        seen.update(rows.colour)
        return rows.age.to_numpy(float)

    butfor.explain(model, data, tabular.forest(reference), subsets=["colour"], test="irt", draws=99)
    assert seen == {"red", "green", "blue", "black"}


def test_a_users_own_sampler_of_frames():
    frame = mixed(50, 0)

    def own(inputs, subset, draws, rng):
        rows = inputs.loc[np.repeat(inputs.index, draws)]
        return rows.assign(colour=rng.choice(["red", "green"], len(rows)))

    def violet(inputs, subset, draws, rng):
        return inputs.loc[np.repeat(inputs.index, draws)].assign(colour="violet")

    score = {"red": 1.0, "green": 0.0, "blue": 2.0}
    asked = {"subsets": ["colour"], "test": "irt", "draws": 19}
    result = butfor.explain(lambda rows: rows.colour.map(score), frame, own, **asked)
    assert len(result.table) == 50
    with pytest.raises(butfor.ModelError, match="drew 'violet' in column 'colour', which the data does not have"):
        butfor.explain(lambda rows: rows.colour.map(score), frame, violet, **asked)


@pytest.mark.parametrize(
    "column",
    [
        pd.array([True, None, False] * 20, dtype="boolean"),
        pd.Categorical([1, 2, 3] * 20),
        pd.array(["a", "b", None] * 20, dtype="string"),
        pd.period_range("2020-01", periods=60, freq="M"),
        pd.to_timedelta(range(60), "h"),
        np.arange(60, dtype=np.uint8),
        np.arange(60, dtype=np.float32),
        pd.Series([1, "one", None] * 20, dtype=object),
        pd.arrays.SparseArray([0, 1, 0] * 20),
        pd.Series([1, None, 3] * 20).astype("int64[pyarrow]"),
        np.full(60, np.nan),
    ],
    ids=lambda column: str(column.dtype),
)
def test_columns_of_every_type_reach_the_model_as_they_are(column):
    frame = pd.DataFrame({"x": np.arange(60.0), "column": column})

    def model(given):
        pd.testing.assert_series_equal(given.dtypes, frame.dtypes)
        return given.x + given.column.notna()

    result = butfor.explain(model, frame[:9], tabular.neighbours(frame[9:]), test="irt", draws=9)
    pd.testing.assert_series_equal(result.counterfactuals(3, "column").dtypes, frame.dtypes)
