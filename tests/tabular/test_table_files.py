"""Reading tables and subsets from files: what is refused, in which words, and what goes to the model."""

import datetime
import decimal
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from butfor.tabular.files import TableRequest, matches, names_in, read_csv, read_subsets, read_table, read_tables
from butfor.types import InputError

BAD_CSV = {
    "empty": (b"", "is empty; expected a header line"),
    "header only": (b"a,b\n", "has a header but no rows"),
    "named alike": (b"a,b,a\n1,2,3\n", "columns named alike: a; give every column its own name"),
    "unnamed": (b",a\n0,1\n", "column 1 of the data .* has no name"),
    "too many": (b"a,b\n1,2\n1,2,3\n", "line 3 of the data .* has 3 values, but the header names 2 columns"),
    "too few": (b"a,b\n1\n", "line 2 of the data .* has 1 values, but the header names 2"),
    "every line too long": (b"a,b\n1,2,3\n4,5,6\n", "line 2 of the data .* has 3 values"),
    "semicolons": (b"a;b\n1;2\n", "is one column, 'a;b'; separate columns by commas"),
    "latin-1": (
        "a,b\n1,2\né,3\n".encode("latin-1"),
        r"is not UTF-8: byte 8 \(line 3\) is 0xe9; save it again as UTF-8",
    ),
    "utf-16": ("a,b\n1,2\n".encode("utf-16"), "is not UTF-8: byte 0"),
}


@pytest.mark.parametrize(("content", "message"), BAD_CSV.values(), ids=BAD_CSV)
def test_bad_csv(tmp_path, content, message):
    path = tmp_path / "d.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_csv(path, "data")


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"reference .*none.csv cannot be read: No such file"):
        read_csv(tmp_path / "none.csv", "reference")
    with pytest.raises(InputError, match="Is a directory; name a CSV file"):
        read_csv(tmp_path, "data")


def test_csv_is_read_as_it_was_written(tmp_path):
    frame = pd.DataFrame({"a b": np.random.default_rng(0).normal(size=50), "ü": np.arange(50), "t": "x,y"})
    path = tmp_path / "d.csv"
    path.write_text("\ufeff" + frame.to_csv(index=False) + "\n", encoding="utf-8")
    pd.testing.assert_frame_equal(read_csv(path, "data"), frame, rtol=1e-15)


BAD_SUBSETS = {
    "cut off": ('{"a": [', "are not JSON"),
    "a number": ("3", "hold something other than columns; expected"),
    "null": ('{"a": null}', "hold something other than columns"),
    "nested": ('[[["a"]]]', "hold something other than columns"),
    "true": ('{"a": [true]}', "hold something other than columns"),
    "named twice": ('{"a": ["x"], "a": ["y"]}', "name a twice; give every subset its own name"),
    "too deep": ("[" * 100_000, "nested too deeply|not JSON"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SUBSETS.values(), ids=BAD_SUBSETS)
def test_bad_subsets(tmp_path, text, message):
    path = tmp_path / "s.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_subsets(path)


def test_subsets(tmp_path):
    path = tmp_path / "s.json"
    path.write_text('{"size": ["a", 1], "c": "c"}', encoding="utf-8")
    assert read_subsets(path) == {"size": ["a", 1], "c": "c"}
    path.write_text('["a", ["b", "c"]]', encoding="utf-8")
    assert read_subsets(path) == ["a", ["b", "c"]]
    with pytest.raises(InputError, match=r"subsets .* cannot be read: No such file"):
        read_subsets(tmp_path / "none.json")


PEOPLE = pd.DataFrame({"age": [30, 60, 50], "blood group": ["A", "B", "A"], "group": ["x", "x", "y"]})
EXPRESSIONS = {
    "age > 40 and group == 'x'": [False, True, False],
    "age > 40 & `blood group` == 'A'": [False, False, True],
    "`blood group`.isin(['B', 'C'])": [False, True, False],
    "group.str.startswith('y')": [False, False, True],
    "not (age == 30)": [False, True, True],
}


@pytest.mark.parametrize(("expression", "mask"), EXPRESSIONS.items())
def test_expressions(expression, mask):
    assert matches(PEOPLE, expression, "--data-where").tolist() == mask


BAD_EXPRESSIONS = {
    "age >": "is not an expression",
    "age = 3": "is not an expression",
    "": "is not an expression",
    "height > 3": r"cannot be evaluated \(name 'height' is not defined\); the columns are age, blood group, group",
    "age + 1": "is not true or false for each row",
    "True": "is not true or false for each row",
    "age > 'x'": "cannot be evaluated",
    "age > 99": "matches none of the 3 rows",
    "age.to_csv('leak.csv')": r"uses .to_csv; only isin, between",
    "age.__class__ == 1": "uses .__class__",
    "@PEOPLE.age > 3": "is not an expression",
    "PEOPLE == 1": "name 'PEOPLE' is not defined",
}


@pytest.mark.parametrize(("expression", "message"), BAD_EXPRESSIONS.items())
def test_bad_expressions(expression, message):
    with pytest.raises(InputError, match="--data-where.*" + message):
        matches(PEOPLE, expression, "--data-where")


def test_names_in_expression():
    assert names_in("age > 1 and `blood group`.isin(['age2'])") == {"age", "blood group"}


@pytest.fixture
def files(tmp_path):
    frame = pd.DataFrame({"id": list("pqrst"), "a": range(5), "b": [5.0, 4, 3, 2, 1], "group": list("xxxyy")})
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[["b", "a"]].to_csv(tmp_path / "reference.csv", index=False)
    frame[["a", "b"]].to_csv(tmp_path / "data.csv", index=False)
    return tmp_path


def test_the_rest_of_the_data_is_explained(files):
    tables = read_tables(TableRequest(files / "all.csv", reference_where="group == 'x'", index="id"))
    assert tables.data.index.tolist() == ["s", "t"]
    assert tables.data.columns.tolist() == ["a", "b"] == tables.reference.columns.tolist()
    assert len(tables.reference) == 3
    assert tables.sources["reference"].endswith("all.csv where group == 'x'")


def test_row_numbers_are_those_of_the_file(files):
    tables = read_tables(TableRequest(files / "all.csv", reference_where="group == 'x'", drop=["id"]))
    assert tables.data.index.tolist() == [3, 4]


def test_two_files_with_columns_in_another_order(files):
    tables = read_tables(TableRequest(files / "data.csv", files / "reference.csv"))
    assert tables.reference.columns.tolist() == ["a", "b"]


def test_naming_the_data_as_reference_splits_it_too(files):
    tables = read_tables(
        TableRequest(files / "all.csv", files / "all.csv", reference_where="group == 'x'", drop=["id"])
    )
    assert len(tables.data) == 2


def test_what_the_model_was_fitted_on(files):
    tables = read_tables(TableRequest(files / "all.csv", reference_where="group == 'x'", known=["b"]))
    assert tables.data.columns.tolist() == ["b"]


def test_true_labels(files):
    tables = read_tables(TableRequest(files / "all.csv", reference_where="a < 3", features=["b"], truth="group"))
    assert tables.truth == ["y", "y"]


def test_numbers_that_pick_rows_stay_and_are_named(files):
    with pytest.warns(UserWarning, match="^a picks rows and goes to the model as well"):
        tables = read_tables(TableRequest(files / "all.csv", reference_where="a < 3", drop=["id,group"]))
    assert tables.data.columns.tolist() == ["a", "b"]


def test_rows_on_both_sides_are_counted(files):
    with pytest.warns(UserWarning, match="2 rows are explained and belong to the reference as well"):
        read_tables(TableRequest(files / "all.csv", reference_where="group == 'x'", data_where="b > 3", features=["b"]))


REFUSED = {
    "no reference": ({}, "there is nothing to compare with"),
    "all": ({"reference_where": "a >= 0"}, "matches every row; none is left to explain"),
    "dates": ({"reference_where": "a < 3", "dates": ["a"]}, "--dates: column 'a' holds numbers"),
    "no dates": ({"reference_where": "a < 3", "dates": ["id"]}, "--dates: column 'id' of the data has 'p' in row 0"),
    "no column of dates": ({"reference_where": "a < 3", "dates": ["zz"]}, "--dates: there is no column 'zz'"),
    "categories": ({"reference_where": "a < 3", "categories": ["zz"]}, "--categories: there is no column 'zz'"),
    "hold out": ({"hold_out": 1.5}, "--hold-out must lie strictly between 0 and 1, got 1.5"),
    "hold out nothing": ({"hold_out": 0.01}, "--hold-out 0.01 of 5 rows leaves none on one side"),
    "drop": ({"reference_where": "a < 3", "drop": ["zz"]}, "there is no column 'zz'; the columns are id, a, b, group"),
    "features": ({"reference_where": "a < 3", "features": ["a,zz"]}, "there is no column 'zz'"),
    "both": ({"reference_where": "a < 3", "features": ["a"], "drop": ["b"]}, "both given; use one of them"),
    "index": ({"reference_where": "a < 3", "index": "zz", "features": ["a"]}, "--index: the data has no column 'zz'"),
    "truth": ({"reference_where": "a < 3", "truth": "zz", "features": ["a"]}, "--truth: the data has no column 'zz'"),
    "same name": ({"reference_where": "a < 3", "index": "group", "features": ["a"]}, "'y' names several rows"),
    "nothing": ({"reference_where": "group == 'x'", "drop": ["id,a,b"]}, "no column is left for the model"),
}


@pytest.mark.parametrize(("asked", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(files, asked, message):
    with pytest.raises(InputError, match=message):
        read_tables(TableRequest(files / "all.csv", **asked))


def test_other_columns(files):
    with pytest.raises(InputError, match=r"other columns \(id, group only in the data\); give both the same, or use"):
        read_tables(TableRequest(files / "all.csv", files / "reference.csv"))
    with pytest.raises(InputError, match=r"other columns \(id, group only in the reference\)"):
        read_tables(TableRequest(files / "data.csv", files / "all.csv"))


MIXED = pd.DataFrame(
    {
        "id": [f"p{i}" for i in range(40)],
        "colour": ["red", "blue", None, "red"] * 10,
        "smoker": [True, False] * 20,
        "age": [30.0, np.nan] * 20,
        "day": [f"2024-02-{i % 28 + 1:02}" for i in range(40)],
        "group": ["x"] * 30 + ["y"] * 10,
    }
)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_of_all_kinds(tmp_path, ending):
    path = tmp_path / f"all.{ending}"
    getattr(MIXED, f"to_{ending}")(path, index=False)
    tables = read_tables(
        TableRequest(path, reference_where="group == 'x'", index="id", dates=["day"], categories=["colour"])
    )
    assert tables.data.index.tolist() == [f"p{i}" for i in range(30, 40)]
    assert tables.data.columns.tolist() == ["colour", "smoker", "age", "day"]
    assert [str(kind) for kind in tables.data.dtypes[:3]] == ["category", "bool", "float64"]
    assert tables.data.day.dt.day.tolist() == [i % 28 + 1 for i in range(30, 40)]
    assert tables.data.colour.cat.categories.tolist() == ["blue", "red"]
    assert tables.reference.colour.isna().sum() == 7


def test_text_stays_text(tmp_path):
    MIXED.to_csv(tmp_path / "all.csv", index=False)
    tables = read_tables(TableRequest(tmp_path / "all.csv", reference_where="group == 'x'", drop=["id,day"]))
    assert set(tables.data.colour.dropna()) == {"red", "blue"}
    assert not isinstance(tables.data.colour.dtype, pd.CategoricalDtype)


def test_times_pick_rows_and_stay(tmp_path):
    MIXED.to_parquet(tmp_path / "all.parquet")
    asked = TableRequest(tmp_path / "all.parquet", reference_where="day < '2024-02-20'", dates=["day"], drop=["id"])
    with pytest.warns(UserWarning, match="^day picks rows and goes to the model as well"):
        tables = read_tables(asked)
    assert tables.data.day.min() == pd.Timestamp("2024-02-20")


def test_names_of_rows_are_no_feature(tmp_path):
    MIXED.to_csv(tmp_path / "all.csv", index=False)
    where = {"reference_where": "group == 'x'", "dates": ["day"]}
    with pytest.raises(InputError, match="column 'id' holds another text in every row, as names do; use --index id"):
        read_tables(TableRequest(tmp_path / "all.csv", **where))
    with pytest.warns(UserWarning, match="column 'id' has 40 different texts in 40 rows"):
        tables = read_tables(TableRequest(tmp_path / "all.csv", **where, known=["id", "age"]))
    assert tables.data.columns.tolist() == ["id", "age"]


def test_odd_text_is_named(tmp_path):
    frame = MIXED.drop(columns="id").assign(age=["old", *range(39)])
    frame.to_csv(tmp_path / "all.csv", index=False)
    with pytest.warns(UserWarning, match="column") as said:
        read_tables(TableRequest(tmp_path / "all.csv", reference_where="group == 'x'", features=["age,day"]))
    assert [str(one.message) for one in said] == [
        "column 'age' is redrawn as categories, though 39 of its 40 values are numbers; 'old' in row 0 of the "
        "reference is none",
        "column 'day' has 28 different texts in 40 rows, too many to redraw well; leave it out with --drop, or read "
        "it as times with --dates",
    ]


def test_rows_are_named_as_their_file_does(tmp_path):
    frame = MIXED.drop(columns="id").assign(age=[*range(4), "old", *range(4, 39)])
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame.assign(age=frame.age.astype(str)).set_axis([f"p{i}" for i in range(40)]).to_parquet(tmp_path / "all.parquet")
    for name, row in (("all.csv", "4"), ("all.parquet", "'p4'")):
        request = TableRequest(tmp_path / name, reference_where="group == 'x'", features=["age"])
        with pytest.warns(UserWarning, match=f"'old' in row {row} of the"):
            read_tables(request)


def test_times_with_several_offsets(tmp_path):
    frame = pd.DataFrame({"day": ["2024-01-01T00:00+01:00", "2024-07-01T00:00+02:00"], "group": ["x", "y"]})
    frame.to_csv(tmp_path / "all.csv", index=False)
    with pytest.raises(InputError, match="--dates: column 'day' of the data has several offsets from UTC"):
        read_tables(TableRequest(tmp_path / "all.csv", reference_where="group == 'x'", dates=["day"]))


def test_yes_and_no_with_gaps_in_one_file_only(tmp_path):
    pd.DataFrame({"a": [True, None, False]}).to_csv(tmp_path / "data.csv", index=False)
    pd.DataFrame({"a": [True, False, False]}).to_csv(tmp_path / "reference.csv", index=False)
    tables = read_tables(TableRequest(tmp_path / "data.csv", tmp_path / "reference.csv"))
    assert tables.data.a.dtype == tables.reference.a.dtype == object


def test_types_of_parquet(tmp_path):
    table = pa.table(
        {
            "day": [datetime.date(2024, 2, 29), None],
            "price": [decimal.Decimal("1.50"), None],
            "colour": pa.array(["red", "blue"]).dictionary_encode(),
            "count": [1, None],
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    frame = read_table(tmp_path / "a.parquet", "data")
    assert [kind.kind for kind in frame.dtypes] == ["M", "f", "O", "f"]
    assert isinstance(frame.colour.dtype, pd.CategoricalDtype)
    parquet.write_table(pa.table({"a": [[1], [2]]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"column 'a' of the data .* holds list<.*; give columns of single values"):
        read_table(tmp_path / "a.parquet", "data")


def test_the_index_of_a_parquet_file_names_the_rows(tmp_path):
    MIXED.set_index("id").to_parquet(tmp_path / "all.parquet")
    for asked in ({}, {"index": "id"}):
        tables = read_tables(
            TableRequest(tmp_path / "all.parquet", reference_where="group == 'x'", drop=["day"], **asked)
        )
        assert tables.data.index.tolist() == [f"p{i}" for i in range(30, 40)]
    MIXED.set_index("colour").to_parquet(tmp_path / "all.parquet")  # names nothing: a column like any other
    assert "colour" in read_table(tmp_path / "all.parquet", "data").columns


BAD_PARQUET = {
    "text": (b"a,b\n1,2\n", "cannot be read as Parquet: "),
    "cut off": (None, "cannot be read as Parquet: "),
}


@pytest.mark.parametrize(("content", "message"), BAD_PARQUET.values(), ids=BAD_PARQUET)
def test_bad_parquet(tmp_path, content, message):
    path = tmp_path / "d.parquet"
    MIXED.to_parquet(path)
    path.write_bytes(path.read_bytes()[:-20] if content is None else content)
    with pytest.raises(InputError, match=message):
        read_table(path, "data")
    with pytest.raises(InputError, match=r"the data .* cannot be read: No such file or directory; name a Parquet file"):
        read_table(tmp_path / "none.parquet", "data")
    MIXED[:0].to_parquet(path)
    with pytest.raises(InputError, match="has columns but no rows"):
        read_table(path, "data")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"needs pyarrow; pip install 'butfor\[parquet\]', or give a CSV file"):
        read_table(tmp_path / "a.parquet", "data")


def test_rows_held_out(tmp_path):
    MIXED.to_csv(tmp_path / "all.csv", index=False)
    asked = TableRequest(tmp_path / "all.csv", reference_where="group == 'x'", hold_out=0.2, features=["age"], seed=1)
    tables = read_tables(asked)
    assert (len(tables.data), len(tables.reference)) == (6, 24)
    assert sorted([*tables.data.index, *tables.reference.index]) == list(range(30))
    assert read_tables(asked).data.index.equals(tables.data.index)


def test_data_that_are_their_own_reference(tmp_path):
    MIXED.to_csv(tmp_path / "all.csv", index=False)
    asked = TableRequest(tmp_path / "all.csv", data_where="group == 'x'", features=["age"], itself=True)
    tables = read_tables(asked)
    assert len(tables.data) == len(tables.reference) == 30
