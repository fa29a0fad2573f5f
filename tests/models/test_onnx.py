"""ONNX files: inputs and outputs as converters write them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx import TensorProto, helper
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

from butfor.models import onnx_model
from butfor.types import InputError, ModelError

X = np.random.default_rng(0).normal(size=(60, 3))
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]


@pytest.fixture
def saved(tmp_path):
    def save(proto):
        path = tmp_path / "model.onnx"
        path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
        return path

    return save


def converted(model, types, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_onnx(model, initial_types=types, options=options or None)


def test_probabilities_with_and_without_names(saved):
    model = LogisticRegression().fit(X, THREE)
    types = [("x", FloatTensorType([None, 3]))]
    named = onnx_model(saved(converted(model, types)))
    assert named.classes == ("a", "b", "c")
    np.testing.assert_allclose(named(X), model.predict_proba(X), atol=1e-5)
    plain = onnx_model(saved(converted(model, types, zipmap=False)), classes=["a", "b", "c"])
    np.testing.assert_allclose(plain(X), model.predict_proba(X), atol=1e-5)
    assert plain.classes == ("a", "b", "c")
    np.testing.assert_allclose(plain(pd.DataFrame(X)), model.predict_proba(X), atol=1e-5)
    numbers = onnx_model(saved(converted(LogisticRegression().fit(X, X[:, 0] > 0), types)))
    assert numbers.classes == (0, 1)


def test_a_regressor_in_doubles(saved):
    model = LinearRegression().fit(X, X @ [1.0, 2.0, 3.0])
    wrapped = onnx_model(saved(converted(model, [("x", DoubleTensorType([None, 3]))])))
    assert wrapped(X).shape == (60,)
    np.testing.assert_allclose(wrapped(X), model.predict(X), rtol=1e-12)
    assert (wrapped.classes, wrapped.columns) == (None, None)


def test_columns_of_a_frame(saved):
    frame = pd.DataFrame({"size": X[:, 0], "age": np.arange(60), "colour": np.where(X[:, 1] > 0, "red", "blue")})
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["colour"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression(C=0.01)).fit(frame, THREE)
    kinds = [("size", FloatTensorType), ("age", Int64TensorType), ("colour", StringTensorType)]
    wrapped = onnx_model(saved(converted(model, [(name, kind([None, 1])) for name, kind in kinds])))
    assert wrapped.columns == ("size", "age", "colour")
    assert wrapped.classes == ("a", "b", "c")
    shuffled = frame[["colour", "age", "size"]].assign(extra=1)
    np.testing.assert_allclose(wrapped(shuffled), model.predict_proba(frame), atol=1e-5)
    unknown = frame.assign(colour=pd.Categorical(["green", None] * 30))
    expected = model.predict_proba(unknown.astype({"colour": object}).fillna(""))
    np.testing.assert_allclose(wrapped(unknown), expected, atol=1e-5)
    for bad, message in (
        (frame.drop(columns="age"), r"needs a column 'age'; the frame has \['size', 'colour'\]"),
        (frame.assign(age=0.5), "the model takes int64 in 'age', got other values: not all of it is whole"),
        (frame.assign(age=np.nan), "the model takes int64 in 'age'"),
        (frame.assign(size="big"), "the model takes float32 in 'size', got other values: could not convert"),
        (X[:, :2], "has 3 inputs; give a frame with these columns, or a matrix this wide"),
    ):
        with pytest.raises(ModelError, match=message):
            wrapped(bad)


def graph(shape, out_shape, kind=TensorProto.FLOAT, operator="Abs", **options):
    """One operator on one input."""
    nodes = [helper.make_node(operator, ["x"], ["y"], **options)]
    x, y = helper.make_tensor_value_info("x", kind, shape), helper.make_tensor_value_info("y", kind, out_shape)
    return made(nodes, [x], [y])


def made(nodes, inputs, outputs):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("fixed", [1, 7, 100])
def test_a_fixed_number_of_rows(saved, fixed):
    wrapped = onnx_model(saved(graph([fixed, 3], [fixed, 3])))
    np.testing.assert_allclose(wrapped(X), np.abs(X), atol=1e-6)
    np.testing.assert_allclose(wrapped(pd.DataFrame(X[:5])), np.abs(X[:5]), atol=1e-6)


def test_texts_and_images(saved):
    texts = onnx_model(saved(graph(["n"], ["n"], TensorProto.STRING, "Identity")))
    assert texts(["one", "two"]).tolist() == ["one", "two"]
    images = [np.full((2, 2, 3), shade, dtype=np.uint8) for shade in (0, 100)]
    path = saved(graph(["n", 3, 2, 2], ["n", 12], operator="Flatten"))
    with pytest.raises(ModelError, match="not a list of images or texts; give onnx_model preprocess="):
        onnx_model(path)(images)
    prepared = onnx_model(path, preprocess=lambda batch: np.stack(batch).transpose(0, 3, 1, 2) / 100)
    assert prepared(images).tolist() == [[0.0] * 12, [1.0] * 12]


def test_which_output(saved):
    model = LogisticRegression().fit(X, X[:, 0] > 0)
    path = saved(converted(model, [("x", FloatTensorType([None, 3]))], zipmap=False))
    assert np.array_equal(onnx_model(path, output="label")(X), model.predict(X))
    with pytest.raises(InputError, match="has no output 'score'; it has label, probabilities"):
        onnx_model(path, output="score")
    nodes = [helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 3]) for name in "xyz")
    both = made(nodes, [x], [y, z])
    with pytest.raises(InputError, match="has the outputs y, z; say which with output="):
        onnx_model(saved(both))
    assert (onnx_model(saved(both), output="z")(X) == -X.astype(np.float32)).all()


def test_a_torch_network(tmp_path):
    """Exported as users do, and asked in batches of any size."""
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the other exporter needs onnxscript
        torch.onnx.export(
            network, (torch.zeros(2, 3),), tmp_path / "n.onnx", dynamo=False, input_names=["x"], dynamic_axes={"x": [0]}
        )
    expected = network(torch.tensor(X, dtype=torch.float32)).detach()
    np.testing.assert_allclose(onnx_model(tmp_path / "n.onnx")(X), expected, atol=1e-5)


def test_it_travels(saved):
    wrapped = onnx_model(saved(graph([None, 3], [None, 3])), threads=None)
    again = pickle.loads(pickle.dumps(wrapped))
    assert np.array_equal(again(X), wrapped(X))
    assert "onnxruntime" not in repr(wrapped)


@pytest.mark.parametrize("content", [b"", b"this is a text\n", b"PK\x03\x04"], ids=["empty", "text", "zip"])
def test_files_that_are_no_onnx(saved, content):
    with pytest.raises(InputError, match=r"^\S+model.onnx is not an ONNX file that can be opened: .+$"):
        onnx_model(saved(content))
