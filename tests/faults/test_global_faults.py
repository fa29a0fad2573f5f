"""global_importance goes on after a crash, skips what the model fails on, and does not wait for ever."""

import time

import numpy as np
import pandas as pd
import pytest

import butfor

RNG = np.random.default_rng(0)
X, NOISE = RNG.normal(size=(150, 4)), RNG.normal(size=150)
Y = X[:, 0] + 0.5 * NOISE
SAMPLER = butfor.tabular.from_values(lambda rows, subset, k, rng: rng.normal(size=(len(rows) * k, len(subset.index))))


class Box:
    """A model that counts its rows and breaks when it has had enough."""

    def __init__(self, most=None):
        self.most, self.rows = most, 0

    def __repr__(self):
        return "Box()"

    def __call__(self, rows):
        if self.most is not None and self.rows + len(rows) > self.most:
            raise butfor.ModelError("the power went off")
        self.rows += len(rows)
        return rows[:, 0] + 0.1 * rows[:, 1]


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr("butfor.evaluation.evaluator.LEAST_ROWS", 500)
    monkeypatch.setattr("butfor.evaluation.evaluator.CALLS", 0)
    monkeypatch.setattr("butfor.evaluation.journal.SECONDS", 0.0)


@pytest.mark.parametrize("labels", [Y, None])
def test_it_goes_on_where_it_was(tmp_path, labels):
    asked = {"batch_rows": 100, "y": labels}
    whole_box = Box()
    whole = butfor.global_importance(whole_box, X, reference=SAMPLER, **asked)
    with pytest.raises(butfor.ModelError, match="the power went off"):
        butfor.global_importance(Box(whole_box.rows * 2 // 3), X, reference=SAMPLER, run_dir=tmp_path / "run", **asked)
    with pytest.raises(butfor.InputError, match="holds another run"):
        butfor.global_importance(Box(), X, reference=SAMPLER, run_dir=tmp_path / "run", seed=1, **asked)
    if labels is not None:
        with pytest.raises(butfor.InputError, match="other labels"):
            butfor.global_importance(Box(), X, reference=SAMPLER, run_dir=tmp_path / "run", **asked | {"y": -labels})
    again = Box()
    found = butfor.global_importance(again, X, reference=SAMPLER, run_dir=tmp_path / "run", **asked)
    pd.testing.assert_frame_equal(found.table, whole.table, check_exact=True)
    assert found.rows == whole.rows
    assert again.rows < whole_box.rows / 2 + 3 * 3200
    assert again.rows < whole_box.rows
    assert not (tmp_path / "run").exists()


def test_rows_that_fail_count_as_no_effect():
    def unwell(rows):
        chance = np.abs(rows.sum(axis=1) * 1e4) % 1
        if (chance < 0.005).any():
            raise ValueError("no")
        return np.where(chance > 0.995, np.nan, rows[:, 0] + 0.1 * rows[:, 1])

    with pytest.raises(butfor.ModelError):
        butfor.global_importance(unwell, X, reference=SAMPLER, y=Y)
    found = butfor.global_importance(unwell, X, reference=SAMPLER, y=Y, on_error="skip")
    plain = butfor.global_importance(Box(), X, reference=SAMPLER, y=Y)
    assert (found.chosen == plain.chosen).all()
    assert found.chosen[0]
    assert any("inputs were left out, since the model fails on them" in str(note) for note in found.run_notes)
    assert any("could not be evaluated, and count as no effect" in str(note) for note in found.run_notes)
    frame = butfor.global_importance(
        lambda rows: unwell(rows.to_numpy()),
        pd.DataFrame(X, columns=list(found.subset_names)),
        reference=SAMPLER,
        y=pd.Series(Y),
        on_error="skip",
    )
    pd.testing.assert_series_equal(frame.table.p, found.table.p)


def test_false_discoveries_stay_rare_where_rows_fail():
    """Failures go with the values of columns that have no say."""

    def unwell(rows):
        return np.where(rows[:, 2] > 1.6, np.nan, rows[:, 0] + 0.5 * rows[:, 1])

    wrong = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(60, 4))
        found = butfor.global_importance(
            unwell, rows, reference=SAMPLER, y=rng.normal(size=60), on_error="skip", seed=seed, draws=5, passes=99
        )
        wrong += bool(found.chosen.any())
    assert wrong / 40 <= 0.1 + 2 * np.sqrt(0.09 / 40)


def test_a_model_that_hangs_is_not_waited_for():
    def hangs(rows):
        time.sleep(5)
        return rows[:, 0]

    start = time.monotonic()
    with pytest.raises(butfor.ModelError, match=r"timeout=0\.2"):
        butfor.global_importance(hangs, X, reference=SAMPLER, y=Y, timeout=0.2)
    assert time.monotonic() - start < 4
