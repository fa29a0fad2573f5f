"""What is asked of a model, whatever kind it is, and what its outputs are called."""

import pickle
import subprocess
import sys

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

import butfor
from butfor.models import Wrapped, wrap
from butfor.types import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
TWO = np.where(X[:, 0] > 0, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
NUMBER = X @ [1.0, 2.0, 3.0]
BOTH = np.column_stack([TWO, THREE])
LABELS = (np.abs(X) > 0.5).astype(int)

CLASSIFIERS = {
    "probabilities": (LogisticRegression(), THREE, "predict_proba"),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), TWO, "predict_proba"),
    "lightgbm": (lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1), THREE, "predict_proba"),
    "margins of three": (LinearSVC(), THREE, "decision_function"),
    "margins of a pipeline": (make_pipeline(StandardScaler(), RidgeClassifier()), THREE, "decision_function"),
    "a search": (GridSearchCV(SVC(), {"C": [1.0]}, cv=2), THREE, "decision_function"),
}


@pytest.mark.parametrize(("model", "labels", "method"), CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_classifier_has_one_output_per_class(model, labels, method):
    wrapped = wrap(model.fit(X, labels))
    assert wrapped.classes == tuple(sorted(set(labels)))
    outputs = wrapped.call(X)
    assert np.array_equal(outputs, getattr(model, method)(X))
    assert np.array_equal(np.array(wrapped.classes)[outputs.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("model", [LinearSVC(), RidgeClassifier(), SVC()], ids=lambda model: type(model).__name__)
def test_two_classes_without_probabilities_have_two_margins(model):
    wrapped = wrap(model.fit(X, TWO))
    outputs = wrapped(X)
    assert wrapped.classes == ("no", "yes")
    assert np.array_equal(outputs, np.column_stack([-model.decision_function(X), model.decision_function(X)]))
    assert np.array_equal(np.array(wrapped.classes)[outputs.argmax(axis=1)], model.predict(X))


def test_a_classifier_that_only_predicts():
    parts = [("one", LogisticRegression()), ("two", LogisticRegression(C=0.1)), ("three", LogisticRegression(C=0.01))]
    model = VotingClassifier(parts, voting="hard").fit(X, THREE)
    outputs = wrap(model).call(X)
    assert outputs.sum(axis=1).tolist() == [1.0] * len(X)
    assert np.array_equal(np.array(wrap(model).classes)[outputs.argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(5, random_state=0), MultiOutputClassifier(LogisticRegression())]
)
def test_several_things_at_once(model):
    wrapped = wrap(model.fit(X, BOTH))
    assert wrapped.classes == ("0=no", "0=yes", "1=a", "1=b", "1=c")
    assert np.array_equal(wrapped.call(X), np.hstack(model.predict_proba(X)))
    assert np.allclose(wrapped.call(X)[:, 2:].sum(axis=1), 1)


def test_a_chain_tells_one_class_of_two():
    model = ClassifierChain(LogisticRegression()).fit(X, LABELS)
    wrapped = wrap(model)
    assert wrapped.classes == ("0=0", "0=1", "1=0", "1=1", "2=0", "2=1")
    assert np.array_equal(wrapped.call(X)[:, 1::2], model.predict_proba(X))
    assert np.allclose(wrapped.call(X)[:, ::2], 1 - model.predict_proba(X))


def test_regressors_and_outlier_detectors():
    line = LinearRegression().fit(X, NUMBER)
    assert np.array_equal(wrap(line).call(X), line.predict(X))
    several = LinearRegression().fit(X, X[:, :2])
    assert wrap(several).call(X).shape == (120, 2)
    forest = IsolationForest(random_state=0).fit(X)
    assert np.array_equal(wrap(forest).call(X), forest.decision_function(X))
    boosted = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(X, NUMBER)
    assert np.array_equal(wrap(boosted).call(X), boosted.predict(X))
    for model in (line, several, forest, boosted):
        assert wrap(model).classes is None


def test_frames_and_the_columns_of_a_model():
    frame = pd.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(frame, TWO)
    assert wrap(model).columns == ("size", "colour")
    assert np.array_equal(wrap(model).call(frame), model.predict_proba(frame))
    assert wrap(LogisticRegression().fit(X, TWO)).columns is None


def test_functions_modules_and_what_is_wrapped_already():
    assert wrap(np.sum).call is np.sum
    module = torch.nn.Linear(3, 2)
    assert np.allclose(wrap(module).call(X), module(torch.tensor(X, dtype=torch.float32)).detach())
    wrapped = Wrapped(np.sum, ("total",))
    assert wrap(wrapped) is wrapped


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (3, "must be a function or have predict_proba or predict, got int"),
        (LogisticRegression, "model is the class LogisticRegression, expected a fitted object of it or a function"),
        (SVC(decision_function_shape="ovo").fit(X, THREE), "compares pairs of classes; set decision_function_shape"),
        (make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo")).fit(X, THREE), "pairs of classes"),
    ],
)
def test_refused(model, message):
    with pytest.raises(InputError, match=message):
        wrap(model)


def test_wrapped_models_travel():
    for model in (LinearSVC().fit(X, TWO), RandomForestClassifier(3).fit(X, BOTH), torch.nn.Linear(3, 2)):
        wrapped = wrap(model)
        again = pickle.loads(pickle.dumps(wrapped))
        assert np.array_equal(again.call(X), wrapped.call(X))


def test_margins_are_explained_by_label():
    """The margin of one of two classes is the other's with its sign changed, so the same is found either way."""
    inputs = np.random.default_rng(3).normal([3, 0, 0], 1, size=(10, 3))
    model, sampler = LinearSVC().fit(X, TWO), butfor.tabular.gaussian(X)
    yes = butfor.explain(model, inputs, sampler, target="yes", alternative="greater")
    no = butfor.explain(model, inputs, sampler, target="no", alternative="less")
    assert (yes.table[yes.chosen].subset == "x0").sum() >= 8
    assert np.array_equal(yes.chosen, no.chosen)


def test_importing_the_models_loads_none_of_their_libraries():
    code = "import butfor.models, butfor.models.files, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "butfor.models.remote" in loaded
    assert not set(loaded) & {"torch", "onnxruntime", "httpx", "transformers", "skops", "PIL", "pandas", "sklearn"}


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"needs torch, which is not installed; pip install 'butfor\[torch\]'"):
        butfor.models.torch_module(None)


def boosters():
    """Raw Boosters with the estimators whose outputs they must give, in frames with spaces in the names of columns."""
    frame, three = pd.DataFrame(X, columns=["mean area", "b", "worst area"]), np.digitize(X[:, 0], [-0.5, 0.5])
    for labels in ((X[:, 0] > 0).astype(int), three):
        light = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(frame, labels)
        yield frame, light.booster_, light
        extreme = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(frame, labels)
        yield frame, extreme.get_booster(), extreme


def test_a_raw_booster_has_the_outputs_of_its_estimator():
    for frame, booster, estimator in boosters():
        wrapped = wrap(booster)
        assert wrapped.classes == tuple(range(len(estimator.classes_)))
        assert np.allclose(wrapped(frame), estimator.predict_proba(frame), atol=1e-6)
        assert wrapped.columns == tuple(estimator.feature_names_in_)
        assert np.array_equal(pickle.loads(pickle.dumps(wrapped))(frame), wrapped(frame))


def test_a_raw_booster_of_numbers_and_one_of_labels():
    data = xgboost.DMatrix(X, NUMBER)
    wrapped = wrap(xgboost.train({"objective": "reg:squarederror"}, data, 5))
    assert (wrapped.classes, wrapped.columns, wrapped.decides) == (None, None, False)
    assert np.array_equal(wrapped(X), xgboost.train({"objective": "reg:squarederror"}, data, 5).predict(data))
    light = lightgbm.train({"objective": "regression", "verbose": -1}, lightgbm.Dataset(X, NUMBER), 5)
    assert (wrap(light).classes, wrap(light).columns) == (None, None)
    labels = xgboost.DMatrix(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    with pytest.raises(InputError, match="predicts labels; train it with objective='multi:softprob'"):
        wrap(xgboost.train({"objective": "multi:softmax", "num_class": 3}, labels, 2))


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_underscores_of_lightgbm_are_the_spaces_of_the_data():
    """LightGBM keeps "mean area" as "mean_area": its trees are read all the same, in any order of columns."""
    for frame, booster, estimator in boosters():
        for model in (booster, estimator):
            straight, turned = (
                butfor.explain(model, data[:8], data[8:], control=False, subsets="columns")
                for data in (frame, frame[["worst area", "b", "mean area"]])
            )
            assert "trees-exact" in [note.code for note in straight.notes]
            assert straight.exact
            assert turned.exact
            by_name = turned.table.set_index(["input", "subset"]).p
            assert by_name.loc[list(zip(straight.table.input, straight.table.subset, strict=True))].tolist() == (
                straight.table.p.tolist()
            )
