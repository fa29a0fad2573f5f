"""The memory that batches are written on: who keeps one never sees it change, who writes into one changes nothing."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation.evaluator import Buffer
from butfor.tabular import from_values

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))
INPUTS = np.random.default_rng(0).normal(size=(30, 4))
LIKE = np.zeros((1, 3))


def filled(buffer, value, count=5):
    rows = buffer.rows(count, LIKE)
    rows[:] = value
    return rows


# The buffer alone

KEEP = {
    "the batch": lambda batch: batch,
    "a view": lambda batch: batch[::2, 1:],
    "a view of a view": lambda batch: batch[1:][:, ::2].T,
    "one column": lambda batch: batch[:, 0],
    "another type": lambda batch: batch.view(np.uint64),
    "a frame": lambda batch: pd.DataFrame(batch, columns=list("abc"), copy=False),
    "a column of a frame": lambda batch: pd.DataFrame(batch, copy=False)[1],
    "its memory": lambda batch: memoryview(batch),
    "an array of its memory": lambda batch: np.asarray(memoryview(batch)),
    "an iterator": lambda batch: iter(batch),
    "a closure": lambda batch: lambda: batch,
}


def content(kept):
    """What is in something that was kept, as a copy."""
    kept = kept() if callable(kept) else kept
    return np.array(list(kept) if hasattr(kept, "__next__") else kept)


@pytest.mark.parametrize("how", KEEP)
def test_what_is_kept_is_left_alone(how):
    buffer, kept = Buffer(), []

    def ask(batch):
        kept.append(KEEP[how](batch))
        return np.zeros(len(batch))

    assert buffer.lend(filled(buffer, 1.0), ask).tolist() == [0.0] * 5
    for value in (2.0, 3.0):
        filled(buffer, value)
    assert np.array_equal(content(kept[0]), content(KEEP[how](np.full((5, 3), 1.0))))


def test_what_is_not_kept_is_used_again():
    buffer = Buffer()
    first = filled(buffer, 1.0)
    where = first.__array_interface__["data"]
    assert buffer.lend(first, lambda batch: batch.sum(axis=1)).tolist() == [3.0] * 5
    assert buffer.rows(4, LIKE).__array_interface__["data"] == where
    assert buffer.rows(500, LIKE).shape == (500, 3)  # a larger one is made where it does not fit


def test_a_copy_is_not_the_batch():
    buffer, kept = Buffer(), []
    rows = filled(buffer, 1.0)
    buffer.lend(rows, lambda batch: kept.append(batch.copy()) or np.zeros(5))
    assert np.shares_memory(filled(buffer, 2.0), rows)


def test_an_answer_that_is_a_view_of_the_batch_stays_as_it_was():
    buffer = Buffer()
    outputs = buffer.lend(filled(buffer, 1.0), lambda batch: batch[:, 0])
    filled(buffer, 2.0)
    assert outputs.tolist() == [1.0] * 5


def test_what_is_let_go_later_is_nobodys_business():
    buffer, kept = Buffer(), []
    buffer.lend(filled(buffer, 1.0), lambda batch: kept.append(batch) or np.zeros(5))
    kept.clear()
    rows = filled(buffer, 2.0)
    buffer.lend(rows, lambda batch: batch.sum(axis=1))
    assert np.shares_memory(filled(buffer, 3.0), rows)


def test_rows_are_what_is_lent():
    buffer = Buffer()
    filled(buffer, 7.0, count=9)
    rows = filled(buffer, 1.0, count=2).astype(np.float64)
    buffer.lend(rows, lambda batch: np.testing.assert_array_equal(batch, np.ones((2, 3))) or np.zeros(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_have_the_type_of_the_inputs(dtype):
    buffer = Buffer()
    rows = buffer.rows(3, np.zeros((1, 2), dtype))
    assert rows.dtype == dtype
    buffer.lend(rows, lambda batch: np.zeros(3 if batch.dtype == dtype and batch.shape == (3, 2) else 0))


# Through a run: batches are assembled one after the other

MODELS = {
    "batch": lambda batch: batch,
    "view": lambda batch: batch[::2],
    "frame": lambda batch: pd.DataFrame(batch, copy=False),
    "part of a frame": lambda batch: pd.DataFrame(batch, copy=False).iloc[1:, 2:],
}


class Keeping:
    """A model that keeps something of each batch, beside a copy of it."""

    def __init__(self, keep):
        self.keep, self.kept, self.copies = keep, [], []

    def __call__(self, batch):
        own = self.keep(batch)
        self.kept.append(own)
        self.copies.append(np.array(own))
        return np.asarray(batch).sum(axis=1)


SETTINGS = {"irt": {"draws": 60}, "sequential": {"draws": 60}, "few-shot": {}, "osft": {}}


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("batch_rows", [7, 64, 10_000])
@pytest.mark.parametrize("test", SETTINGS)
@pytest.mark.parametrize("how", MODELS)
def test_a_model_that_keeps_its_batches_never_sees_them_change(how, test, batch_rows, framed):
    inputs = pd.DataFrame(INPUTS, columns=list("abcd")) if framed else INPUTS
    if framed and how in ("batch", "view"):
        keep = {"batch": lambda frame: frame, "view": lambda frame: frame.to_numpy()[::2]}[how]
    else:
        keep = MODELS[how] if not framed else lambda frame: MODELS[how](frame.to_numpy())
    settings = {"test": test, "batch_rows": batch_rows, "alpha": 0.3, **SETTINGS[test]}
    model = Keeping(keep)
    result = butfor.explain(model, inputs, NORMAL, **settings)
    assert len(model.kept) > 5
    for kept, copy in zip(model.kept, model.copies, strict=True):
        np.testing.assert_array_equal(np.array(kept), copy)
    plain = butfor.explain(lambda batch: np.asarray(batch).sum(axis=1), inputs, NORMAL, **settings)
    pd.testing.assert_frame_equal(result.table, plain.table, check_exact=True)


WRITES = {
    "all of it": lambda batch: batch.fill(0.0),
    "one column": lambda batch: batch.__setitem__((slice(None), 1), 9.0),
    "one value": lambda batch: batch.__setitem__((0, 2), 9.0),
    "through its memory": lambda batch: np.asarray(memoryview(batch)).__setitem__((0, 0), 9.0),
    "nan": lambda batch: batch.__setitem__((slice(None), 3), np.nan),
}


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_a_model_that_writes_into_a_batch_changes_nothing(write, keeps):
    kept = []

    def model(batch):
        outputs = np.nansum(batch, axis=1)
        WRITES[write](batch)
        kept.extend([batch] * keeps)
        return outputs

    settings = {"test": "irt", "draws": 60, "batch_rows": 64}
    found = butfor.explain(model, INPUTS, NORMAL, **settings)
    plain = butfor.explain(lambda batch: batch.sum(axis=1), INPUTS, NORMAL, **settings)
    pd.testing.assert_frame_equal(found.table, plain.table, check_exact=True)


@pytest.mark.parametrize("write", WRITES)
def test_one_that_writes_into_a_batch_of_its_own_changes_nothing(write):
    """All draws of all jobs fit into one call."""

    def model(batch):
        outputs = np.nansum(batch, axis=1)
        WRITES[write](batch)
        return outputs

    settings = {"test": "few-shot", "alpha": 0.3, "batch_rows": 10_000}
    found = butfor.explain(model, INPUTS, NORMAL, **settings)
    plain = butfor.explain(lambda batch: batch.sum(axis=1), INPUTS, NORMAL, **settings)
    pd.testing.assert_frame_equal(found.table, plain.table, check_exact=True)


def test_a_model_that_writes_into_a_copy_is_left_alone():
    def model(batch):
        own = batch.copy()
        own[:, 0] = 0
        return own.sum(axis=1)

    assert butfor.explain(model, INPUTS, NORMAL, test="irt", draws=60, batch_rows=64).rows > 0
