"""Models that cannot be read as trees: a note says why, and p-values come from draws; never a wrong answer."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from brute_force import agree, the_long_way
from butfor import explain, models, tabular
from butfor.results.words import UNREADABLE, Note
from tree_models import COLUMNS, fitted, labels, lgbm, reasons, tables, training, xgb

ROWS = training("hist")
NUMBER, CLASS = labels("hist of numbers", ROWS), labels("hist", ROWS)


class Doubled(RandomForestClassifier):
    def predict_proba(self, X):
        return super().predict_proba(X) ** 2


def replaced():
    model = HistGradientBoostingClassifier(max_iter=5).fit(ROWS, CLASS)
    model.predict_proba = lambda X: np.sqrt(HistGradientBoostingClassifier.predict_proba(model, X))
    return model


def replaced_inside():
    model = HistGradientBoostingRegressor(max_iter=5).fit(ROWS, NUMBER)
    plain = model._raw_predict
    model._raw_predict = lambda *args, **options: plain(*args, **options) * 1.001
    return model


def spoilt():
    """A forest whose trees are asked another way than its class says: one is left out."""
    model = RandomForestRegressor(6, random_state=0).fit(ROWS, NUMBER)
    model.estimators_[0].predict = lambda X, **_: np.zeros(len(X))
    return model


def zeros_missing():
    return lgbm("Regressor", zero_as_missing=True).fit(np.where(ROWS < 0.1, 0, ROWS), NUMBER)


def with_init():
    return GradientBoostingRegressor(n_estimators=5, init=LinearRegression()).fit(ROWS, NUMBER)


def after_function():
    return make_pipeline(FunctionTransformer(np.abs), RandomForestClassifier(5)).fit(ROWS, CLASS)


def squared_error(actual, predicted):
    return predicted - actual, np.ones_like(actual)


REFUSED = {
    "xgboost's dart": (lambda: xgb("Classifier", booster="dart", rate_drop=0.3).fit(ROWS, CLASS), "booster"),
    "xgboost's lines": (lambda: xgb("Regressor", booster="gblinear", max_depth=None).fit(ROWS, NUMBER), "booster"),
    "linear leaves": (lambda: lgbm("Regressor", linear_tree=True).fit(ROWS, NUMBER), "linear-leaves"),
    "zeros as missing": (
        lambda: lgbm("Regressor", zero_as_missing=True).fit(np.where(ROWS < 0.1, 0, ROWS), NUMBER),
        "zeros-missing",
    ),
    "square roots": (lambda: lgbm("Regressor", reg_sqrt=True).fit(ROWS, NUMBER), "square-roots"),
    "a scaled sigmoid": (lambda: lgbm("Classifier", sigmoid=2.0).fit(ROWS, CLASS), "scaled-sigmoid"),
    "an objective of one's own": (lambda: lgbm("Regressor", objective=squared_error).fit(ROWS, NUMBER), "objective"),
    "several outputs": (lambda: RandomForestRegressor(4).fit(ROWS, ROWS[:, :2]), "several-outputs"),
    "vector leaves": (
        lambda: xgb("Regressor", multi_strategy="multi_output_tree").fit(ROWS, ROWS[:, :2]),
        "vector-leaves",
    ),
    "an initial model": (
        lambda: GradientBoostingRegressor(n_estimators=5, init=LinearRegression()).fit(ROWS, NUMBER),
        "initial-model",
    ),
    "a derived class": (lambda: Doubled(5).fit(ROWS, CLASS), "derived"),
    "a replaced method": (replaced, "replaced"),
    "a method replaced inside": (replaced_inside, "differs"),
    "a tree replaced inside": (spoilt, "differs"),
    "labels": (lambda: HistGradientBoostingClassifier(max_iter=5).fit(ROWS, CLASS).predict, "labels"),
    "votes": (lambda: RandomForestClassifier(5).fit(ROWS, CLASS).predict, "votes"),
    "logarithms": (lambda: GradientBoostingClassifier(n_estimators=5).fit(ROWS, CLASS).predict_log_proba, "called-by"),
    "principal components": (lambda: make_pipeline(PCA(), RandomForestClassifier(5)).fit(ROWS, CLASS), "transformer"),
    "a function before": (
        lambda: make_pipeline(FunctionTransformer(np.abs), RandomForestClassifier(5)).fit(ROWS, CLASS),
        "transformer",
    ),
    "numbers one-hot": (
        lambda: make_pipeline(
            OneHotEncoder(handle_unknown="ignore", sparse_output=False), GradientBoostingClassifier(n_estimators=5)
        ).fit(ROWS.round(), CLASS),
        "constant-column",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_drawn_and_says_so(name):
    make, reason = REFUSED[name]
    X, reference = tables(inputs=6)
    target = 0 if name in ("several outputs", "vector leaves") else None
    if name == "numbers one-hot":
        X, reference = X.round(), reference.round()
    result = explain(make(), X, tabular.empirical(reference), subsets="columns", target=target, draws=64)
    assert not result.record.exact
    assert reasons(result.notes) == [reason]
    assert (result.table.draws > 0).any()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: CalibratedClassifierCV(model, cv=3),
        lambda model: VotingClassifier([("one", model)], voting="soft"),
    ],
    ids=["calibrated", "voting"],
)
def test_wrapped_models_are_black_boxes(wrap):
    X, reference = tables(inputs=6)
    model = wrap(HistGradientBoostingClassifier(max_iter=5)).fit(ROWS, CLASS)
    result = explain(model, X, tabular.empirical(reference), subsets="columns", draws=64)
    assert not result.record.exact
    assert not reasons(result.notes)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")  # of LightGBM 4.7; others know no other way
@pytest.mark.parametrize("name", ["xgb", "xgb booster", "lgbm", "lgbm's dart", "lgbm booster", "hist"])
def test_early_stopping_is_read_as_it_is_asked(name):
    """Trees after the best round are there, and are not asked."""
    tried = {"eval_set": [(ROWS[:60], 1 - CLASS[:60])]}
    if name.startswith("xgb"):
        model = xgb("Classifier", n_estimators=40, early_stopping_rounds=3).fit(ROWS, CLASS, verbose=False, **tried)
        assert model.best_iteration < 39
    elif name == "hist":
        model = HistGradientBoostingClassifier(early_stopping=True, n_iter_no_change=2).fit(ROWS, CLASS)
    elif name == "lgbm's dart":
        model = lgbm("Classifier", boosting_type="dart").fit(ROWS, CLASS)
    else:
        import lightgbm

        stop = lightgbm.early_stopping(3, verbose=False)
        model = lgbm("Classifier").fit(ROWS, CLASS, callbacks=[stop], **tried)
        assert model.best_iteration_ < 12
    model = model.booster_ if name == "lgbm booster" else model.get_booster() if name == "xgb booster" else model
    X, reference = tables()
    result = explain(model, X, tabular.empirical(reference), subsets="columns", control=False)
    assert result.record.exact == len(result.table)
    close = (3e-7, 3e-5) if name.startswith("xgb") else (1e-13, 1e-12)
    long = the_long_way(models.wrap(model), X, tabular.empirical(reference), [[j] for j in range(COLUMNS)], close=close)
    agree(result, long, rtol=1e-5)


def test_it_is_off_where_a_test_is_asked_for():
    X, reference = tables(inputs=6)
    for options in ({"exact": False}, {"test": "sequential"}, {"test": "irt", "draws": 20}):
        result = explain(fitted("hist"), X, tabular.empirical(reference), subsets="columns", **options)
        assert not result.record.exact
        assert result.table.draws.min() > 0
    exact = explain(fitted("hist"), X, tabular.empirical(reference), subsets="columns", enough=None)
    assert "exact, no draws" in exact.summary(full=True)
    assert (exact.table.draws == 0).all()
    assert exact.rows <= 6 + 26 + 1_000  # the inputs, a few of them again, the self-check


def test_the_control_and_the_but_for_test_are_exact_too():
    X, reference = tables(inputs=10, rows=60)
    model = fitted("hist of three")
    result = explain(model, X, reference, subsets="columns")
    without = explain(model, X, reference, subsets="columns", control=False)
    assert result.control is not None
    most = 60 + 3 * 26 + 1_000  # rows of the control, some of them again, and whether the model knows the reference
    assert result.rows - without.rows <= most
    assert result.table.flip.notna().all()
    drawn = explain(model, X, reference, subsets="columns", exact=False)
    assert (np.asarray(result.table.flip_high - result.table.flip_low) >= 0).all()
    assert np.abs(result.table.flip - drawn.table.flip).max() < 0.3


def test_zoom_is_exact_at_every_resolution():
    X, reference = tables(inputs=10, rows=60)
    result = explain(fitted("hist"), X, reference)
    assert result.record.exact == len(result.table)
    assert (result.table.resolution.nunique()) > 2


def test_every_reason_ends_a_sentence():
    example = {"name": "a", "parent": "b", "needed": 3, "given": 2, "trees": 1, "model": 2, "wrong": 3, "rows": 4}
    for reason in UNREADABLE:
        note = Note("trees-not-read", "info", {"reason": reason, "error": "KeyError", "message": "'x'", **example})
        assert str(note).startswith("The model is an ensemble of trees, but ")
        assert str(note).endswith(", so p-values come from draws.")
