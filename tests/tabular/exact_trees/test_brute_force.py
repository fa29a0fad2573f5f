"""Exact p-values, effects and flip probabilities against the long way: every value enumerated, the model asked."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from brute_force import CLOSE, CLOSE_SINGLE, agree, the_long_way
from butfor import explain, tabular
from tree_models import (
    COLUMNS,
    KINDS,
    TAKE_MISSING,
    asked,
    fitted,
    labels,
    lgbm,
    on_thresholds,
    tables,
    training,
    with_category,
    xgb,
)

EACH = [[j] for j in range(COLUMNS)]
GROUPS = {"first two": [0, 1], "last three": [2, 3, 4]}
SAMPLERS = ("residual", "empirical", "neighbours", "gaussian", "copula")


def check(model, X, sampler, groups=EACH, *, slack=False, single=False, subsets="columns", **options):
    """All of it is exact, and as the long way says."""
    result = explain(model, X, sampler, subsets=subsets, control=False, **options)
    assert result.record.exact == len(result.table), result.notes
    close, rtol = (CLOSE_SINGLE, 1e-5) if single else (CLOSE, 1e-9)
    words = {name: options[name] for name in ("alternative", "target", "link") if name in options}
    agree(result, the_long_way(asked(model), X, sampler, groups, close=close, **words), slack=slack, rtol=rtol)
    return result


def is_single(name):
    return name.startswith("xgb")


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_model(name):
    X, reference = tables()
    check(fitted(name), X, tabular.residual(reference), single=is_single(name))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["hist of three", "forest of numbers", "xgb"])
def test_every_sampler(name, sampler):
    X, reference = tables()
    made = getattr(tabular, sampler)(reference)
    check(fitted(name), X, made, single=is_single(name), slack=sampler in ("gaussian", "copula"))


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize("name", ["hist of three", "hist of numbers", "lgbm"])
def test_every_alternative(name, alternative):
    X, reference = tables()
    check(fitted(name), X, tabular.residual(reference), alternative=alternative)


@pytest.mark.parametrize("target", [0, 2])
def test_one_class(target):
    X, reference = tables()
    check(fitted("hist of three"), X, tabular.residual(reference), target=target, alternative="greater")


@pytest.mark.parametrize("name", ["hist", "boosting", "xgb"])
def test_logits(name):
    X, reference = tables()
    check(fitted(name), X, tabular.residual(reference), link="logit", single=is_single(name))


@pytest.mark.parametrize("sampler", ["residual", "empirical", "neighbours"])
@pytest.mark.parametrize("name", TAKE_MISSING)
def test_missing_values(name, sampler):
    if sampler != "residual" and "of" in name:
        pytest.skip("one kind of each library is enough")
    X, reference = tables(missing=True)
    made = getattr(tabular, sampler)(reference)
    check(fitted(name, missing=True), X, made, single=is_single(name), slack=sampler == "residual")


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_thresholds_that_are_hit_exactly(name, missing):
    if missing and name not in TAKE_MISSING:
        pytest.skip("takes no missing values")
    model = fitted(name, missing=missing)
    X, reference = tables(missing=missing)
    X, reference = (on_thresholds(model, rows, near=(-np.inf, np.inf)) for rows in (X, reference))
    check(model, X, tabular.empirical(reference), single=is_single(name))


@pytest.mark.parametrize("sampler", ["residual", "empirical", "gaussian"])
@pytest.mark.parametrize("name", ["hist of numbers", "forest", "lgbm", "xgb"])
def test_float32_data(name, sampler):
    model = fitted(name, dtype="float32")
    X, reference = tables()
    X, reference = (on_thresholds(model, rows).astype(np.float32) for rows in (X, reference))
    made = getattr(tabular, sampler)(reference)
    check(model, X, made, single=is_single(name), slack=sampler == "gaussian")


@pytest.mark.parametrize("sampler", ["residual", "empirical", "neighbours"])
@pytest.mark.parametrize("name", ["hist of three", "forest", "lgbm of numbers", "xgb"])
def test_groups_of_columns(name, sampler):
    X, reference = tables()
    made = getattr(tabular, sampler)(reference)
    slack = sampler == "residual"  # a column of few values beside numbers
    check(fitted(name), X, made, list(GROUPS.values()), subsets=GROUPS, single=is_single(name), slack=slack)


@pytest.mark.parametrize("model", ["hist", "lgbm", "xgb"])
def test_categories(model):
    rows = training(model)
    frame, y = with_category(rows), labels(model, rows)
    made = {
        "hist": lambda: HistGradientBoostingClassifier(max_iter=12, categorical_features="from_dtype"),
        "lgbm": lambda: lgbm("Classifier", min_data_per_group=5, cat_smooth=1),
        "xgb": lambda: xgb("Classifier", enable_categorical=True, max_cat_to_onehot=1),
    }[model]().fit(frame, y)
    X, reference = map(with_category, tables())
    X.loc[0, "x2"] = np.nan
    for sampler in (tabular.empirical(reference), tabular.residual(reference)):
        check(made, X, sampler, [[0], [2]], subsets={"x0": ["x0"], "x2": ["x2"]}, single=is_single(model))
    check(made, X, tabular.empirical(reference), [[1, 2]], subsets={"both": ["x1", "x2"]}, single=is_single(model))


def test_numbers_that_a_model_splits_as_categories():
    """Codes in a column of numbers: LightGBM cuts off what is behind the point; what it does not know goes right."""
    rows = training("lgbm")
    rows[:, 4] = np.random.default_rng(3).permutation(300) % 12
    y = np.isin(rows[:, 4], [1, 4, 7]) ^ (rows[:, 0] > 0)
    model = lgbm("Classifier", cat_smooth=1, min_data_per_group=5).fit(rows, y, categorical_feature=[4])
    X, reference = tables()
    X[:, 4] = np.linspace(-1, 13, len(X))
    reference[:, 4] = np.linspace(-1.2, 300, len(reference))
    for sampler in (tabular.empirical, tabular.residual):
        check(model, X, sampler(reference), [[0], [4]], subsets={"a": [0], "b": [4]})
        check(model, X, sampler(reference), [[3, 4]], subsets={"both": [3, 4]})


def test_categories_by_number():
    """scikit-learn's own codes of categories, some of which it has not seen."""
    rows = training("hist")
    rows[:, 4] = np.random.default_rng(3).permutation(300) % 9
    y = np.isin(rows[:, 4], [1, 4, 7]) ^ (rows[:, 0] > 0)
    model = HistGradientBoostingClassifier(max_iter=12, categorical_features=[4]).fit(rows, y)
    X, reference = tables()
    X[:, 4], reference[:, 4] = np.arange(len(X)) % 12, np.arange(len(reference)) % 12
    check(model, X, tabular.empirical(reference))


@pytest.mark.parametrize("name", ["hist", "forest", "lgbm", "xgb"])
def test_columns_in_another_order(name):
    """Data, reference and model may each have their own; frames are matched by name."""
    names = [f"x{j}" for j in range(COLUMNS)]
    rows = training(name)
    model = KINDS[name]().fit(pd.DataFrame(rows, columns=names), labels(name, rows))
    X, reference = (pd.DataFrame(part, columns=names) for part in tables())
    turned, other = X, reference[names[2:] + names[:2]]
    result = check(model, turned, tabular.residual(other), single=is_single(name))
    plain = explain(model, X, tabular.residual(reference), subsets="columns", control=False)
    np.testing.assert_allclose(result.table.p, plain.table.p, atol=1e-12)


PIPELINES = {
    "scaled": lambda: make_pipeline(StandardScaler(), MinMaxScaler(), RandomForestClassifier(8, random_state=0)),
    "filled in": lambda: make_pipeline(SimpleImputer(), HistGradientBoostingClassifier(max_iter=8)),
    "flagged": lambda: make_pipeline(
        SimpleImputer(add_indicator=True), StandardScaler(), HistGradientBoostingClassifier(max_iter=8)
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines(name):
    missing = name != "scaled"
    rows = training("hist", missing=missing)
    model = PIPELINES[name]().fit(rows, labels("hist", rows))
    X, reference = tables(missing=missing)
    check(model, X, tabular.empirical(reference))
    check(model, X, tabular.residual(reference), slack=missing)


def test_a_pipeline_with_one_hot_columns():
    rows = training("forest")
    frame = with_category(rows)
    encode = ColumnTransformer(
        [("hot", OneHotEncoder(), ["x2"]), ("rest", StandardScaler(), ["x4", "x0", "x3"])], remainder="passthrough"
    )
    model = make_pipeline(encode, RandomForestClassifier(8, random_state=0)).fit(frame, labels("forest", rows))
    X, reference = map(with_category, tables())
    each = {name: [name] for name in ("x0", "x2", "x4")}
    for sampler in (tabular.empirical(reference), tabular.residual(reference)):
        check(model, X, sampler, [[0], [2], [4]], subsets=each)
    check(model, X, tabular.empirical(reference), [[1, 2]], subsets={"both": ["x1", "x2"]})


# Was wrong once: thresholds were looked for among all numbers, and a column of whole ones overflows when it is shown.
@pytest.mark.parametrize("dtype", ["int64", "int8", "Int32", "uint8", "bool"])
def test_a_pipeline_that_scales_whole_numbers(dtype):
    def whole(rows):
        counts = rows[:, 1] > 0 if dtype == "bool" else (np.rint(2 * rows[:, 1]) + 10).clip(0, 40)
        return with_category(rows).assign(x1=pd.Series(counts).astype(dtype))

    X, reference, rows = map(whole, (*tables(), training("forest")))
    encode = ColumnTransformer(
        [("hot", OneHotEncoder(handle_unknown="ignore"), ["x2"]), ("rest", StandardScaler(), ["x1", "x0", "x3"])]
    )
    model = make_pipeline(encode, HistGradientBoostingClassifier(max_iter=8)).fit(
        rows, labels("forest", training("forest"))
    )
    check(model, X, tabular.residual(reference), [[0], [1], [2]], subsets={name: [name] for name in ("x0", "x1", "x2")})


def test_saturated_probabilities_tie_on_their_own_scale():
    """Scores that differ are one probability where it is 1 but for rounding: a tie, and the p-value says so."""
    X, reference = tables()
    rows = training("hist")
    model = HistGradientBoostingClassifier(max_iter=30, learning_rate=5.0, min_samples_leaf=5).fit(
        rows, labels("hist", rows)
    )
    assert (model.predict_proba(X).max(axis=1) > 1 - 1e-12).any()
    check(model, X, tabular.empirical(reference), target=1, alternative="greater")
    raw = explain(model.decision_function, X, tabular.empirical(reference), subsets="columns", alternative="greater")
    tied = explain(model, X, tabular.empirical(reference), subsets="columns", target=1, alternative="greater")
    assert (tied.table.p >= raw.table.p - 1e-12).all()
    assert (tied.table.p > raw.table.p + 1e-12).any()


def test_draws_come_to_the_same():
    """Within the error of 100,000 draws: five standard errors of every p-value."""
    X, reference = tables(inputs=8)
    model, sampler = fitted("hist of three"), tabular.residual(reference)
    options = {"subsets": "columns", "control": False, "effects": None, "target": 1, "alternative": "greater"}
    exact = explain(model, X, sampler, **options)
    drawn = explain(model, X, sampler, **options, test="irt", draws=100_000)
    assert not drawn.record.exact
    error = np.sqrt(exact.table.p * (1 - exact.table.p) / 100_000)
    assert (np.abs(exact.table.p - drawn.table.p) <= 5 * error + 1e-5).all()


def test_trees_of_a_single_leaf_say_the_same_of_every_value():
    X, reference = tables()
    model = HistGradientBoostingRegressor(max_iter=3).fit(reference, np.ones(len(reference)))
    result = explain(model, X, tabular.residual(reference), subsets="columns", control=False)
    assert result.record.exact == len(result.table)
    np.testing.assert_allclose(result.table["p"], 1)
