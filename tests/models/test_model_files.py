"""A model named on a command line: what is loaded, and what is refused in which words."""

import pickle
import sys

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from butfor.models.files import load_model
from butfor.types import InputError

SOURCE = """
from dataclasses import dataclass
from neighbour import SLOPE
import numpy

@dataclass
class Line:
    slope: float
    def predict(self, rows):
        return self.slope * rows[:, 0]

number = 3
line = Line(SLOPE)

def score(rows):
    return line.predict(rows)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "neighbour.py").write_text("SLOPE = 2.0\n", encoding="utf-8")
    (tmp_path / "my-model.py").write_text(SOURCE, encoding="utf-8")
    yield tmp_path
    sys.path.remove(str(tmp_path)) if str(tmp_path) in sys.path else None
    sys.modules.pop("neighbour", None)


def test_function_and_object(folder):
    rows = np.array([[1.0], [3.0]])
    assert load_model(f"{folder}/my-model.py:score")(rows).tolist() == [2.0, 6.0]
    assert load_model(f"{folder}/my-model.py:line").predict(rows).tolist() == [2.0, 6.0]


def test_a_model_file_takes_no_module_s_place(folder):
    (folder / "json.py").write_text("def f(rows):\n    return rows\n", encoding="utf-8")
    import json

    load_model(f"{folder}/json.py:f")
    assert sys.modules["json"] is json


REFUSED = {
    "no function": ("my-model.py", "names a file but no function in it; write .*my-model.py:function"),
    "no such function": ("my-model.py:nothing", "has no 'nothing'; it has line, score"),
    "a number": ("my-model.py:number", "'number' in .* is of type int, expected a function"),
    "a class": ("my-model.py:Line", "'Line' in .* is a class, Line, expected a function"),
    "a module": ("my-model.py:numpy", "'numpy' in .* is of type module, expected a function"),
    "no file": ("other.py:f", "other.py does not exist; give file.onnx, file.skops, file.py:function"),
    "nothing known": ("model.h5", "is not a model that can be loaded; give file.onnx, file.skops, file.py:function"),
    "a folder": ("folder.py:f", "folder.py is a directory"),
}


@pytest.mark.parametrize(("name", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(folder, name, message):
    (folder / "folder.py").mkdir()
    with pytest.raises(InputError, match=message):
        load_model(f"{folder}/{name}")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_package", "failed when imported: ModuleNotFoundError: No module named 'no_such_package'"),
        ("def f(:", "failed when imported: SyntaxError"),
        ("raise SystemExit(3)", "failed when imported: SystemExit: 3"),
    ],
)
def test_a_file_that_fails(folder, source, message):
    (folder / "bad.py").write_text(source, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load_model(f"{folder}/bad.py:f")
    assert "butfor_model_bad" not in sys.modules


class Trap:
    def __reduce__(self):
        return (exec, ("raise RuntimeError('code in a pickle ran')",))


def test_pickles_are_loaded_only_when_trusted(tmp_path):
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    joblib.dump(model, tmp_path / "m.joblib")
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    (tmp_path / "trap.pickle").write_bytes(pickle.dumps(Trap()))
    for name in ("m.joblib", "m.pkl"):
        assert load_model(str(tmp_path / name), trust_pickle=True).predict([[2.0]])[0] == pytest.approx(4)
    with pytest.raises(InputError, match=r"is a pickle, and loading one runs whatever code .* add --trust-pickle"):
        load_model(str(tmp_path / "trap.pickle"))
    with pytest.raises(InputError, match="cannot be unpickled: RuntimeError: code in a pickle ran"):
        load_model(str(tmp_path / "trap.pickle"), trust_pickle=True)


def test_pickles_that_are_no_models(tmp_path):
    (tmp_path / "n.pkl").write_bytes(pickle.dumps(3))
    (tmp_path / "b.pkl").write_bytes(b"nonsense")
    with pytest.raises(
        InputError, match=r"is of type int, expected a function .* or an object with predict_proba or predict"
    ):
        load_model(str(tmp_path / "n.pkl"), trust_pickle=True)
    with pytest.raises(InputError, match="cannot be unpickled"):
        load_model(str(tmp_path / "b.pkl"), trust_pickle=True)
    with pytest.raises(InputError, match="does not exist"):
        load_model(str(tmp_path / "none.pkl"), trust_pickle=True)
