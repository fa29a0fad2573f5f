"""Torch modules: evaluation mode, no gradients, types, and what they may return."""

import numpy as np
import pandas as pd
import pytest
import torch

from butfor.models import torch_module
from butfor.types import InputError, ModelError

X = np.random.default_rng(0).normal(size=(50, 3))


class Recording(torch.nn.Module):
    """A module that writes down how it is called."""

    def __init__(self, returns=lambda rows: rows.sum(1, keepdim=True), dtype=torch.float32):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, dtype=dtype))
        self.dropout = torch.nn.Dropout(0.5)
        self.frozen = torch.nn.BatchNorm1d(3)
        self.returns = returns
        self.seen = []

    def forward(self, rows):
        self.seen.append((len(rows), rows.dtype, self.dropout.training, torch.is_inference_mode_enabled()))
        return self.returns(self.dropout(rows) * self.weight)


def test_evaluation_mode_while_called_and_every_part_s_own_mode_after():
    module = Recording().train()
    module.frozen.eval()
    first, second = torch_module(module)(X), torch_module(module)(X)
    assert np.array_equal(first, second)
    np.testing.assert_allclose(first[:, 0], X.sum(axis=1), atol=1e-5)
    assert module.seen == [(50, torch.float32, False, True)] * 2
    assert (module.training, module.dropout.training, module.frozen.training) == (True, True, False)


def test_the_mode_comes_back_after_an_error():
    module = Recording(returns=lambda rows: 1 / 0).train()
    with pytest.raises(ZeroDivisionError):
        torch_module(module)(X)
    assert module.dropout.training


def test_batches_and_types():
    module = Recording(dtype=torch.float64).eval()
    outputs = torch_module(module, batch_rows=20)(X)
    assert [seen[:2] for seen in module.seen] == [(20, torch.float64), (20, torch.float64), (10, torch.float64)]
    assert np.array_equal(outputs, torch_module(module)(X))
    half = Recording(dtype=torch.bfloat16).eval()
    assert torch_module(half)(X).dtype == np.float32
    assert torch_module(torch.nn.Flatten(), dtype=torch.float64)(X).dtype == np.float64
    assert torch_module(torch.nn.Flatten())(X).dtype == np.float32


def test_the_batch_is_not_written_into():
    class Writing(torch.nn.Module):
        def forward(self, rows):
            return rows.mul_(2)

    rows = X.copy()
    assert np.array_equal(torch_module(Writing(), dtype=torch.float64)(rows), 2 * X)
    assert np.array_equal(rows, X)
    rows.flags.writeable = False
    torch_module(Writing(), dtype=torch.float64)(rows)  # no warning either


class Logits(dict):
    """What transformers return is a dict."""


RETURNED = {
    "tensor": lambda rows: rows,
    "tuple": lambda rows: (rows, None),
    "dict": lambda rows: {"scores": rows},
    "logits": lambda rows: Logits(loss=None, logits=rows),
}


@pytest.mark.parametrize("returns", RETURNED.values(), ids=RETURNED)
def test_what_modules_return(returns):
    np.testing.assert_allclose(torch_module(Recording(returns))(X), X, atol=1e-6)


def test_postprocess_and_classes():
    model = torch_module(Recording(lambda rows: rows), postprocess=lambda out: out.softmax(-1), classes=("a", "b", "c"))
    np.testing.assert_allclose(model(X).sum(axis=1), 1, atol=1e-6)
    assert model.classes == ("a", "b", "c")
    with pytest.raises(ModelError, match="the module returned str, expected a tensor; give postprocess="):
        torch_module(Recording(lambda rows: "x"))(X)


def test_frames_of_numbers_only():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(c=X[:, 2] > 0, b=pd.array([1] * 50, dtype="Int64"))
    found = torch_module(Recording(lambda rows: rows))(frame)
    assert np.array_equal(found[:, 1:], np.column_stack([np.ones(50), X[:, 2] > 0]))
    bad = frame.assign(b="x", when=pd.Timestamp("2020-01-01"), c=pd.Categorical(["u"] * 50))
    with pytest.raises(
        ModelError, match=r"torch_module takes numbers, but the frame has 'b' \(str\), 'c' \(category\), 'when'"
    ):
        torch_module(Recording())(bad)


def test_images_and_texts_need_preprocess():
    images = [np.full((4, 4, 3), shade, dtype=np.uint8) for shade in (0, 255)]
    with pytest.raises(ModelError, match="not a list of images or texts; give torch_module preprocess="):
        torch_module(Recording())(images)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
    prepared = torch_module(network, preprocess=lambda batch: torch.tensor(np.stack(batch)).float() / 255, batch_rows=1)
    assert prepared(images).shape == (2, 2)

    class Named(torch.nn.Module):
        def forward(self, ids, scale):
            return ids.float() * scale

    def tokens(texts):
        return {"ids": torch.tensor([[len(text)] for text in texts]), "scale": torch.tensor(2)}

    named = torch_module(Named(), preprocess=tokens)
    assert named(["one", "three"]).tolist() == [[6.0], [10.0]]


def test_refused():
    with pytest.raises(InputError, match=r"takes a torch.nn.Module, got function"):
        torch_module(lambda rows: rows)
    with pytest.raises(InputError, match="batch_rows must be at least 1, got 0"):
        torch_module(torch.nn.Linear(1, 1), batch_rows=0)


def test_a_device():
    module = torch.nn.Linear(3, 2)
    assert torch_module(module, device="cpu")(X).shape == (50, 2)
    with pytest.raises(RuntimeError):
        torch_module(module, device="no such device")
