"""Files that would run their maker's code, under every name they may come with: nothing runs, one sentence comes."""

import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier

from butfor.models.files import load_model
from butfor.types import InputError

X = np.random.default_rng(0).normal(size=(40, 2))


class Payload:
    """Unpickled, it makes a folder: the proof that code ran."""

    def __init__(self, proof):
        self.proof = str(proof)

    def __reduce__(self):
        return (os.mkdir, (self.proof,))


def pickled(proof, how):
    if how == "joblib":
        buffer = io.BytesIO()
        joblib.dump(Payload(proof), buffer)
        return buffer.getvalue()
    return pickle.dumps(Payload(proof), protocol=how)


@pytest.mark.parametrize("how", [0, 1, 2, 4, 5, "joblib"])
@pytest.mark.parametrize(
    "ending", [".pkl", ".pickle", ".JOBLIB", ".skops", ".onnx", ".pt", ".bin", ".sav", "", ".py:f"]
)
def test_a_malicious_pickle_never_runs(tmp_path, how, ending):
    proof, path = tmp_path / "proof", tmp_path / f"model{ending.removesuffix(':f')}"
    path.write_bytes(pickled(proof, how))
    with pytest.raises(InputError) as raised:
        load_model(f"{tmp_path}/model{ending}", trusted=["posix.mkdir", "os.mkdir"])
    assert not proof.exists()
    sentence = str(raised.value)
    assert "\n" not in sentence
    assert "model" in sentence
    if ending in (".skops", ".onnx"):
        assert "not a skops file" in sentence or "not an ONNX" in sentence


def test_the_payload_would_run(tmp_path):
    """Else the tests above would prove nothing."""
    (tmp_path / "model.pkl").write_bytes(pickled(tmp_path / "proof", 4))
    with pytest.raises(InputError, match="is of type NoneType"):
        load_model(str(tmp_path / "model.pkl"), trust_pickle=True)
    assert (tmp_path / "proof").exists()


def test_trusting_pickles_is_for_pickles_only(tmp_path):
    for ending in (".skops", ".onnx", ".pt"):
        (tmp_path / f"model{ending}").write_bytes(pickled(tmp_path / "proof", 4))
        with pytest.raises(InputError):
            load_model(str(tmp_path / f"model{ending}"), trust_pickle=True)
    assert not (tmp_path / "proof").exists()


def test_the_sentences(tmp_path):
    (tmp_path / "text.onnx").write_text("I am a text.\n")
    (tmp_path / "text.skops").write_text("I am a text.\n")
    for ending in ("skops", "onnx"):
        (tmp_path / f"pickle.{ending}").write_bytes(pickled(tmp_path / "proof", 4))
    for name, message in {
        "text.onnx": "text.onnx is not an ONNX file that can be opened: ",
        "text.skops": "text.skops is not a skops file that can be read: BadZipFile: File is not a zip file",
        "pickle.skops": "pickle.skops is a pickle and not a skops file, whatever it is called; it was not opened",
        "pickle.onnx": "pickle.onnx is a pickle and not an ONNX model, whatever it is called; it was not opened",
        "none.skops": "none.skops does not exist; give file.onnx, file.skops, file.py:function, an http",
        "model.pt": "model.pt holds a torch module or its weights as a pickle; export it to ONNX, or",
    }.items():
        with pytest.raises(InputError, match=message):
            load_model(str(tmp_path / name))


def write_skops(model, path):
    skops.io.dump(model, path)
    return str(path)


def test_a_harmless_skops_file(tmp_path):
    model = LogisticRegression().fit(X, X[:, 0] > 0)
    found = load_model(write_skops(model, tmp_path / "m.skops"))
    assert np.array_equal(found.predict_proba(X), model.predict_proba(X))


FORESTS = {
    "forest": RandomForestClassifier(3),
    "numbers": ExtraTreesRegressor(3),
    "boosting": GradientBoostingClassifier(n_estimators=3),
    "pipeline": make_pipeline(PolynomialFeatures(), RandomForestClassifier(3)),  # more columns come to the trees
    "features": BaggingClassifier(n_estimators=3, max_features=1),
    "outliers": IsolationForest(n_estimators=3, max_features=1),
    "stack": StackingClassifier([("tree", DecisionTreeClassifier())], final_estimator=RandomForestClassifier(3), cv=2),
}


@pytest.mark.parametrize("model", FORESTS.values(), ids=FORESTS)
def test_trees_of_scikit_learn_need_no_permission(tmp_path, model):
    model = model.fit(X, X[:, 0] > 0)
    again = load_model(write_skops(model, tmp_path / "m.skops"), trusted=["sklearn.utils._bunch.Bunch"])  # of a stack
    assert np.array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("left_child", 10**6, "a node that leads to no node below it"),
        ("right_child", -7, "a node that leads to no node below it"),
        ("right_child", 0, "a node that leads to no node below it"),  # a circle has no end
        ("feature", 10**6, "splits a column that it is not given"),
        ("feature", -3, "splits a column that it is not given"),
    ],
)
def test_nodes_that_lead_elsewhere_are_refused_before_they_are_followed(tmp_path, part, value, message):
    model = RandomForestClassifier(3, random_state=0).fit(X, X[:, 0] > 0)
    tree = model.estimators_[1].tree_
    state = tree.__getstate__()
    state["nodes"][part][0] = value
    tree.__setstate__(state)
    with pytest.raises(InputError, match=message):
        load_model(write_skops(model, tmp_path / "m.skops"))


def test_a_forest_that_is_given_fewer_columns_than_its_trees_split_is_refused(tmp_path):
    model = RandomForestClassifier(3, random_state=0).fit(X, X[:, -1] > 0)
    model.n_features_in_ = 1
    with pytest.raises(InputError, match="splits a column that it is not given"):
        load_model(write_skops(model, tmp_path / "m.skops"))


def test_types_that_are_not_listed_must_be_named(tmp_path, monkeypatch):
    proof = tmp_path / "proof"
    module = tmp_path / "stranger.py"
    module.write_text(f"open({str(proof)!r}, 'w').close()\ndef doubled(rows):\n    return 2 * rows\n")
    monkeypatch.syspath_prepend(tmp_path)
    import stranger

    model = make_pipeline(FunctionTransformer(stranger.doubled), LinearRegression()).fit(X, X[:, 0])
    path = write_skops(model, tmp_path / "m.skops")
    monkeypatch.delitem(sys.modules, "stranger")
    proof.unlink()
    message = (
        r"has types that are not known to be harmless: stranger.doubled; if .* name them: --trust stranger.doubled$"
    )
    for trusted in ([], ["another.type"]):
        with pytest.raises(InputError, match=message):
            load_model(path, trusted=trusted)
    assert not proof.exists()  # not even imported
    assert "stranger" not in sys.modules
    found = load_model(path, trusted=["stranger.doubled"])
    assert np.allclose(found.predict(X), X[:, 0])
    assert proof.exists()


def rewritten(path, change):
    """A skops file with another schema: what an attacker would write by hand."""
    with zipfile.ZipFile(path) as old:
        content = {name: old.read(name) for name in old.namelist()}
    content["schema.json"] = json.dumps(change(json.loads(content["schema.json"]))).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, part in content.items():
            new.writestr(name, part)


@pytest.mark.parametrize("kind", [("os", "system"), ("builtins", "exec"), ("subprocess", "Popen")])
@pytest.mark.parametrize(
    "loader", ["ObjectNode", "TypeNode", "FunctionNode", "MethodNode", "OperatorFuncNode", "ReduceNode"]
)
def test_a_skops_file_made_by_hand(tmp_path, kind, loader):
    path, proof = tmp_path / "m.skops", tmp_path / "proof"
    write_skops(LinearRegression().fit(X, X[:, 0]), path)
    attack = f"touch {proof}" if kind[0] != "builtins" else f"open({str(proof)!r}, 'w')"
    node = {"__class__": kind[1], "__module__": kind[0], "__loader__": loader, "__id__": 7}
    content = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "__id__": 8, "is_json": True}
    node["content"] = content | {"content": json.dumps(attack)}
    rewritten(path, lambda schema: {**schema, **node})
    with pytest.raises(InputError, match=r"m.skops (has types|is not a skops|cannot)") as raised:
        load_model(str(path))
    assert not proof.exists()
    assert "\n" not in str(raised.value)


def test_a_skops_file_that_holds_a_number(tmp_path):
    with pytest.raises(InputError, match=r"m.skops is of type int, expected a function"):
        load_model(write_skops(3, tmp_path / "m.skops"))


def test_an_endpoint_is_not_asked_when_it_is_named():
    assert "Endpoint('http://127.0.0.1:9/v2/models/m')" in repr(load_model("http://127.0.0.1:9/v2/models/m"))
    with pytest.raises(InputError, match="is not the address of a model"):
        load_model("https://example.org/model.onnx")


def test_from_the_command_line(tmp_path):
    """No traceback, exit code 2, nothing run."""
    (tmp_path / "m.pkl").write_bytes(pickled(tmp_path / "proof", 4))
    (tmp_path / "d.csv").write_text("a,b\n1,2\n")
    command = ["explain", "--model", "m.pkl", "--data", "d.csv", "--reference", "d.csv", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "butfor.cli", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "add --trust-pickle" in done.stderr
    assert not (tmp_path / "proof").exists()
