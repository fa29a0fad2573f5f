"""Tables as users have them: the model gets what it would get from the user, the result keeps the user's names."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

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
    framed = butfor.explain(by_name, data, make(reference), subsets="columns", test="irt", draws=99)
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


def look(given, frame, seen):
    """Count the rows that a model gets, and compare them with the user's frame."""
    seen.append(len(given))
    pd.testing.assert_series_equal(given.dtypes, frame.dtypes)
    assert set(given.index) <= set(frame.index)


@pytest.mark.parametrize("make", MIXED, ids=lambda make: make.__name__)
def test_the_model_gets_what_the_user_gave(make):
    frame = mixed(500, 0)
    reference, data = frame[frame.age < 60], frame[frame.age >= 60].iloc[:20]
    seen = []

    def model(given):
        look(given, frame, seen)
        own = frame.loc[given.index]
        kept = sum(
            (given[name].reset_index(drop=True) == own[name].reset_index(drop=True))
            | (given[name].isna().to_numpy() & own[name].isna().to_numpy())
            for name in frame.columns
        )
        assert (kept >= len(frame.columns) - 2).all()  # the index is that of the input, and only its subset is new
        return given.age + 10 * (given.colour == "red") + given.income.fillna(0) + given.grade.cat.codes

    groups = {"age": ["age"], "money": ["income", "children"], "colour": ["colour"], "since": ["since"]}
    asked = {"subsets": groups, "test": "irt", "draws": 29, "alternative": "greater"}
    result = butfor.explain(model, data, make(reference), control=False, **asked)  # which redraws whole rows, too
    assert sum(seen) == result.rows
    drawn = result.counterfactuals(data.index[0], "money", n=5)
    pd.testing.assert_series_equal(drawn.dtypes, frame.dtypes)


def test_rows_of_the_control_are_counted_too():
    """It redraws whole rows; they have the types and labels of the reference."""
    frame = mixed(500, 0)
    reference, data = frame[frame.age < 60], frame[frame.age >= 60].iloc[:20]
    seen = []

    def model(given):
        look(given, frame, seen)
        return given.age + given.income.fillna(0)

    result = butfor.explain(model, data, reference, subsets=["age", "income", "colour"], test="irt", draws=29)
    assert sum(seen) == result.rows
    assert result.rows.control > 0


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
    x = 1.0 * np.random.default_rng(0).permutation(60)  # in no order: `column` is not fixed by it
    frame = pd.DataFrame({"x": x, "column": column})

    def model(given):
        pd.testing.assert_series_equal(given.dtypes, frame.dtypes)
        return given.x + given.column.notna()

    result = butfor.explain(model, frame[:9], tabular.neighbours(frame[9:]), test="irt", draws=9)
    pd.testing.assert_series_equal(result.counterfactuals(3, "column").dtypes, frame.dtypes)


# One row as a Series


@pytest.mark.parametrize("make", MIXED, ids=lambda make: make.__name__)
def test_one_row_as_a_series_is_one_input_of_its_name(make):
    """`frame.iloc[0]` has lost the types of its columns; the model sees those of the reference."""
    frame = mixed(200, 0)
    reference, data, seen = frame[20:], frame[:20], []

    def model(rows):
        seen.append(rows.dtypes)
        return rows.age + 10 * (rows.colour == "red") + rows.grade.cat.codes

    whole = butfor.explain(model, data.iloc[[3]], make(reference), test="irt", draws=19)
    row = butfor.explain(model, data.iloc[3], make(reference), test="irt", draws=19)
    pd.testing.assert_frame_equal(row.table, whole.table)
    assert set(row.table.input) == {"p3"}
    for dtypes in seen:
        pd.testing.assert_series_equal(dtypes, frame.dtypes)
    pd.testing.assert_frame_equal(row.counterfactuals("p3", "age"), whole.counterfactuals("p3", "age"))


def test_a_series_of_numbers_without_a_name_and_with_values_that_the_reference_lacks():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["a", "b"])
    nameless = butfor.explain(lambda rows: rows.a, pd.Series({"a": 9.0, "b": 0.0}), frame, test="irt", draws=99)
    assert set(nameless.table.input) == {0}
    towns = pd.DataFrame({"town": pd.Categorical(["Ulm", "Jena"] * 30), "visits": np.arange(60)})
    row = pd.Series({"town": "Rom", "visits": 1.5}, name="new")
    seen = []
    butfor.explain(lambda rows: seen.append(rows) or rows.visits, row, tabular.forest(towns), test="irt", draws=9)
    first = seen[0]
    assert first.iloc[0].tolist() == ["Rom", 1.5]  # neither made missing nor cut off, though the types do not hold them


def test_one_row_as_an_array_or_a_list_is_one_input():
    rows = np.random.default_rng(0).normal(size=(60, 3))
    model = LogisticRegression().fit(rows, rows[:, 0] > 0)
    whole = butfor.explain(model, rows[:1], rows[10:], test="irt", draws=19)
    for row in (rows[0], rows[0].tolist()):
        pd.testing.assert_frame_equal(butfor.explain(model, row, rows[10:], test="irt", draws=19).table, whole.table)
    with pytest.raises(butfor.InputError, match="has 2 columns but the sampler's reference has 3"):
        butfor.explain(lambda X: X[:, 0], rows[0, :2], rows[10:])
    with pytest.raises(butfor.InputError, match=r"the reference has shape \(3,\); expected two dimensions"):
        butfor.explain(model, rows[0], rows[1])


def test_a_series_of_strings_is_a_list_of_texts_and_a_row_that_begins_with_one_is_none():
    from butfor.explain import modality

    assert modality(pd.Series(["a fine film", "a dull one"])) == "text"
    assert modality(pd.Series(["a fine film", None, "a dull one"])) == "text"
    assert modality(pd.Series({"town": "Ulm", "age": 3})) == "table"
    assert modality(pd.Series([1.0, 2.0])) == "table"


def test_a_row_and_its_label():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    two = lambda rows: np.column_stack([rows.a, -rows.a])  # noqa: E731
    result = butfor.explain(two, frame.iloc[3], frame, target="truth", y=pd.Series([1], [3]), test="irt", draws=9)
    assert result.table.subset.tolist() == ["all columns", "a", "b"]
    with pytest.raises(butfor.InputError, match="y and the data have different indexes"):
        butfor.explain(two, frame.iloc[3], frame, target="truth", y=pd.Series([1], [4]))


# The model's own columns


def fitted_model(columns=("a", "b", "c")):
    from sklearn.linear_model import LinearRegression

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(80, len(columns))), columns=list(columns))
    return LinearRegression().fit(frame, frame @ np.arange(1, len(columns) + 1)), frame


def test_columns_in_another_order_than_the_model_s_are_put_right():
    model, frame = fitted_model()
    reference, data = frame[20:], frame[:20]
    settings = {"test": "irt", "draws": 49, "alpha": 0.5}
    one = butfor.explain(model, data, tabular.gaussian(reference), **settings)
    other = butfor.explain(model, data[["c", "a", "b"]], tabular.gaussian(reference), **settings)
    both = one.table.merge(other.table, on=["input", "subset"], validate="one_to_one")
    assert len(both) == 60
    assert (both.p_x == both.p_y).all()
    assert other.table.subset.tolist()[:3] == ["c", "a", "b"]  # the user's order
    assert list(other.counterfactuals(0, "a").columns) == ["c", "a", "b"]
    y = frame["a"][:20]
    orders = (["a", "b", "c"], ["c", "b", "a"])
    tables = [butfor.global_importance(model, data[order], reference=reference, y=y).table for order in orders]
    assert tables[1].subset.tolist() == ["c", "b", "a"]
    pd.testing.assert_frame_equal(*(table.sort_values("subset", ignore_index=True) for table in tables))
    checked = butfor.check_sampler(tabular.gaussian(reference), frame[["c", "b", "a"]][:60], model)
    assert (checked.model_p > 1e-6).all()


class Untouched:
    """A sampler, or a reference, that nobody may use."""

    def __call__(self, *_):
        raise AssertionError("drawn")


def check(model, data, sampler):
    return butfor.check_sampler(sampler, data, model)


@pytest.mark.parametrize("call", [butfor.explain, butfor.global_importance, check])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="b"), r"other columns than the .*data has \(b only in the model\); give it those"),
        (lambda f: f.assign(z=0.0), r"\(z only in the .*data\)"),
        (lambda f: f.rename(columns={"a": "A"}), r"\(a only in the model; A only in the .*data\)"),
        (lambda f: f.to_numpy()[:, :2], "the model was fitted on 3 columns, the .*data has 2"),
    ],
)
def test_other_columns_than_the_model_s_are_refused_before_anything_is_fitted(call, change, message, monkeypatch):
    model, frame = fitted_model()
    monkeypatch.setattr(sys.modules["butfor.tabular.explain"], "auto", Untouched())
    for sampler in (frame, Untouched()):
        with pytest.raises(butfor.InputError, match=message):
            call(model, change(frame), sampler)


def test_a_model_that_takes_what_it_needs_by_name_may_get_more_or_less():
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    _, frame = fitted_model(("a", "b", "c", "id"))
    model = make_pipeline(make_column_transformer(("passthrough", ["a", "b", "c"])), LinearRegression())
    model.fit(frame, frame.a)
    more = np.random.default_rng(1).normal(size=len(frame))
    for data in (frame.drop(columns="id"), frame.assign(more=more), frame[["id", "c", "b", "a"]]):
        result = butfor.explain(model, data[:10], tabular.gaussian(data[10:]), test="irt", draws=19)
        assert set(result.table.subset) == set(data.columns)


def test_a_row_in_another_order_and_columns_that_are_no_names():
    model, frame = fitted_model()
    row = butfor.explain(model, frame[["c", "b", "a"]].iloc[3], frame, test="irt", draws=9)
    assert [name for name in row.table.subset if name in "abc"] == ["c", "b", "a"]
    numbered = frame.set_axis([0, 1, 2], axis=1)  # taken by their place, as scikit-learn does, with its warning
    with pytest.warns(UserWarning, match="valid feature names"):
        butfor.explain(model, numbered[:5], tabular.gaussian(numbered), test="irt", draws=9)


# The reference as a keyword


def test_the_reference_as_a_keyword():
    reference, data = numbers(200, 0), numbers(10, 1, shift=4)
    one = butfor.explain(by_name, data, reference, test="irt", draws=29)
    two = butfor.explain(by_name, data, reference=reference, test="irt", draws=29)
    pd.testing.assert_frame_equal(one.table, two.table)
    three = butfor.explain(by_name, data, sampler=tabular.auto(reference), test="irt", draws=29)
    pd.testing.assert_frame_equal(one.table, three.table)
    with pytest.raises(butfor.InputError, match="give reference data to draw from, or a sampler"):
        butfor.explain(by_name, data)
    with pytest.raises(butfor.InputError, match="got a sampler and a reference; give one"):
        butfor.explain(by_name, data, reference, sampler=tabular.gaussian(reference))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.assign(z=1.0), r"fitted on other columns than the data has \(z only in the data\)"),
        (lambda frame: pd.concat([frame, frame[["b"]]], axis=1), "the data has columns named alike: b;"),
    ],
)
def test_columns_that_the_model_does_not_know(change, message):
    from sklearn.linear_model import LinearRegression

    reference, data = numbers(50, 0), numbers(10, 1)
    model = LinearRegression().fit(reference, reference.a)
    with pytest.raises(butfor.InputError, match=message):
        butfor.explain(model, change(data), reference)
