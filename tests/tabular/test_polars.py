"""Polars frames go through pandas: data, reference, labels; the model gets pandas."""

import numpy as np
import pandas as pd
import pytest

import butfor

pl = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
COLUMNS = {
    "colour": RNG.choice(["red", "green"], 300).tolist(),
    "age": RNG.integers(20, 80, 300).tolist(),
    "weight": [
        None if gap else value for gap, value in zip(RNG.random(300) < 0.1, RNG.normal(70, 9, 300), strict=True)
    ],
    "smoker": (RNG.random(300) < 0.5).tolist(),
    "size": RNG.choice(["S", "M"], 300).tolist(),
}


def model(rows):
    assert isinstance(rows, pd.DataFrame)
    return rows["age"] + 10 * (rows["colour"] == "red") + rows["weight"].fillna(0) + rows["smoker"]


def frames():
    polars = pl.DataFrame(COLUMNS).with_columns(pl.col("size").cast(pl.Categorical))
    return polars, pd.DataFrame(COLUMNS).astype({"weight": float, "size": "category"})


@pytest.mark.parametrize("make", [butfor.tabular.forest, butfor.tabular.neighbours, butfor.tabular.auto])
def test_the_same_as_pandas(make):
    polars, pandas = frames()
    kinds = {"test": "irt", "draws": 20}
    one = butfor.explain(model, polars[:10], make(polars), **kinds)
    other = butfor.explain(model, pandas[:10], make(pandas), **kinds)
    pd.testing.assert_frame_equal(one.table, other.table)


def test_reference_data_in_place_of_a_sampler():
    polars, _ = frames()
    numbers = polars.select("age", "smoker")
    result = butfor.explain(lambda rows: rows["age"], numbers[:10], numbers, test="irt", draws=20)
    assert result.subset_names == ("all columns", "age", "smoker")


def test_global_and_check():
    polars, _ = frames()
    numbers = polars.select("age", pl.col("age").sqrt().alias("root"))
    found = butfor.global_importance(lambda rows: rows["age"], numbers, reference=numbers, y=polars["age"], draws=3)
    assert found.record.importance.inputs == 300
    checked = butfor.check_sampler(butfor.tabular.empirical(numbers[:200]), numbers[200:])
    assert not checked.ok


def test_lazy_frames_are_to_be_collected():
    numbers = frames()[0].select("age", "smoker")
    with pytest.raises(butfor.InputError, match=r"the reference is a LazyFrame, which holds no rows yet; .*collect"):
        butfor.explain(lambda rows: rows["age"], numbers, numbers.lazy())
    with pytest.raises(butfor.InputError, match="the data is a LazyFrame"):
        butfor.explain(lambda rows: rows["age"], numbers.lazy(), numbers)


def test_tables_of_a_result_as_frames_of_polars():
    """As docs/coming-from.md says: `value` holds numbers and words, which `pl.from_pandas` refuses."""
    polars, _ = frames()
    result = butfor.explain(model, polars[:10], polars[10:], test="irt", draws=20, control=False)
    out = pl.DataFrame(result.table.to_dict("list"), strict=False)
    assert out.height == len(result.table)
    assert out["effect"].dtype == pl.Float64
    assert out["chosen"].to_list() == result.table.chosen.tolist()
    assert out["value"].dtype == pl.String
    assert pl.from_pandas(result.features).height == len(result.features)
