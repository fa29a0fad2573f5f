"""Which output is tested: its default, an index, a label, the predicted class, the true one."""

import numpy as np
import pytest

import butfor
from butfor.inference.statistics import Target
from butfor.models import wrap
from butfor.run.run import output_names, resolve, target_name

OUTPUTS = np.array([[0.2, 0.5, 0.3], [0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
SINGLE = OUTPUTS[:, :1]


class Estimator:
    def __init__(self, classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, rows):
        raise NotImplementedError


def plain(rows):
    raise NotImplementedError


BARE, NAMED, NUMBERED = wrap(plain), wrap(Estimator(["a", "b", "c"])), wrap(Estimator([3, 1, 2]))


def same(one, other):
    return one.kind == other.kind and np.array_equal(one.classes, other.classes)


def test_the_default_is_the_output_itself_or_the_predicted_class():
    assert target_name(None, 1) == "output"
    assert target_name(None, 3) == "predicted"
    assert target_name("truth", 3) == "truth"
    assert type(target_name(np.int64(2), 3)) is int  # provenance goes into JSON


@pytest.mark.parametrize(
    ("wrapped", "name", "place"),
    [(BARE, 2, 2), (BARE, np.int64(1), 1), (NAMED, "c", 2), (NAMED, 1, 1), (NUMBERED, 3, 0), (NUMBERED, 2, 2)],
)
def test_an_index_or_a_label_is_one_class_for_all(wrapped, name, place):
    assert same(resolve(name, None, OUTPUTS, wrapped), Target("fixed", np.array([place])))


def test_named_targets():
    assert same(resolve("output", None, SINGLE, BARE), Target("output"))
    assert same(resolve("predicted", None, OUTPUTS, BARE), Target("predicted"))
    assert same(resolve("observed-class", None, OUTPUTS, BARE), Target("per-input", np.array([1, 0, 2])))
    assert same(resolve("truth", [0, 2, 1], OUTPUTS, BARE), Target("per-input", np.array([0, 2, 1])))
    assert same(resolve("truth", ["c", "a", "a"], OUTPUTS, NAMED), Target("per-input", np.array([2, 0, 0])))
    assert same(resolve("truth", [1, 2, 3], OUTPUTS, NUMBERED), Target("per-input", np.array([1, 2, 0])))


def test_a_label_that_is_called_like_a_target_is_a_label():
    wrapped = wrap(Estimator(["truth", "lie", "output"]))
    assert same(resolve("truth", None, OUTPUTS, wrapped), Target("fixed", np.array([0])))


@pytest.mark.parametrize(
    ("wrapped", "outputs", "name", "y", "message"),
    [
        (BARE, OUTPUTS, 3, None, "unknown target 3; the model has outputs 0 to 2; or use 'predicted' or 'truth'"),
        (BARE, OUTPUTS, -1, None, "unknown target -1"),
        (BARE, OUTPUTS, True, None, "unknown target True"),
        (NAMED, OUTPUTS, "d", None, r"unknown target 'd'; the model has labels \['a', 'b', 'c'\]"),
        (BARE, OUTPUTS, "output", None, "the model has 3 outputs; choose one with target="),
        (BARE, SINGLE, "predicted", None, "needs a model with several outputs, this one has one; use target=None"),
        (BARE, OUTPUTS, "truth", None, "target='truth' needs the true labels; give them as y="),
        (BARE, OUTPUTS, "truth", [0, 1], "y has 2 labels for 3 rows of data"),
        (NAMED, OUTPUTS, "truth", ["a", "b", "z"], r"unknown target 'z'; the model has labels"),
        (NUMBERED, OUTPUTS, "truth", [0, 1, 2], "unknown target 0"),
        (BARE, OUTPUTS, "predicted", [0, 1, 2], "y is used with target='truth' only"),
    ],
)
def test_mistakes_get_one_sentence(wrapped, outputs, name, y, message):
    with pytest.raises(butfor.InputError, match=message):
        resolve(name, y, outputs, wrapped)


def test_outputs_have_names_where_there_are_several():
    assert output_names(BARE, 1) is None
    assert output_names(BARE, 3) == (0, 1, 2)
    assert output_names(NAMED, 3) == ("a", "b", "c")
    with pytest.raises(butfor.InputError, match="the model has 2 outputs but 3 class names"):
        output_names(NAMED, 2)
