"""A model or sampler that fails, hangs, leaks or answers NaN: the run goes on, and what failed is never chosen."""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

import butfor

RNG = np.random.default_rng(0)
REFERENCE, INPUTS = RNG.normal(size=(200, 4)), RNG.normal([3, 0, 0, 0], 1, size=(60, 4))
INPUTS[7, 2] = 50.0  # a row that stands out: the models below fail on it


def plain(rows):
    return np.asarray(rows)[:, 0] * 1.0


def raises(rows):
    if (rows[:, 2] > 40).any():
        raise ZeroDivisionError("no such patient")
    return plain(rows)


def answers_nan(rows):
    return np.where(rows[:, 2] > 40, np.nan, plain(rows))


def hangs(rows):
    if (rows[:, 2] > 40).any():
        time.sleep(30)
    return plain(rows)


def leaves(rows):
    if (rows[:, 2] > 40).any():
        raise SystemExit(0)
    return plain(rows)


def run(model, **settings):
    settings = {"test": "sequential", "subsets": "columns", "on_error": "skip", **settings}
    return butfor.explain(model, INPUTS, butfor.tabular.gaussian(REFERENCE), **settings)


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
@pytest.mark.parametrize("model", [raises, answers_nan, hangs, leaves])
@pytest.mark.parametrize("test", ["sequential", "irt", "few-shot", "osft"])
def test_what_fails_is_not_tested_and_the_others_are(model, test, tmp_path):
    if model is hangs and test != "sequential":
        pytest.skip("one test is enough to see that time runs out")
    few = {"timeout": 0.2, "batch_rows": 8} if model is hangs else {}
    result = run(model, test=test, **few)
    table = result.table
    failed = table[table.status == "untested"]
    assert set(failed.input) == {7}
    assert not failed.chosen.any()
    assert (failed[result.evidence.kind] == (1.0 if result.evidence.kind == "p" else 0.0)).all()
    assert failed.effect.isna().all()
    assert table[(table.subset == "x0") & (table.input != 7)].chosen.mean() > 0.5
    assert any("hypotheses were not tested, and count as p = 1" in str(note) for note in result.notes)
    again = butfor.load(result.save(tmp_path / "r.butfor"))
    assert again.table.status.tolist() == table.status.tolist()


def test_a_fault_that_passes_leaves_no_trace():
    calls = []

    def shaky(rows):
        calls.append(len(rows))
        if len(calls) % 5 == 4:
            raise ConnectionError("try again")
        return plain(rows)

    table = run(shaky).table
    pd.testing.assert_frame_equal(table, run(plain).table, check_exact=True)


def test_without_skip_it_is_told():
    with pytest.raises(butfor.ModelError, match="no such patient"):
        run(raises, on_error="raise")
    with pytest.raises(butfor.ModelError, match="the model raised SystemExit on row 7 of the data"):
        run(leaves, on_error="raise")
    with pytest.raises(butfor.ModelError, match=r"no answer within timeout=0\.2 seconds"):
        run(hangs, on_error="raise", timeout=0.2)
    with pytest.raises(butfor.InputError, match="timeout must be a number of seconds above 0"):
        run(plain, timeout=0)


# Was wrong once: every single row was asked again and again with pauses between, an hour for 10,000 inputs.
def test_a_model_that_always_fails_ends_the_run_without_waiting_for_each_row(monkeypatch):
    waited = []
    monkeypatch.setattr("butfor.evaluation.calls.time.sleep", waited.append)

    def never(rows):
        raise ValueError("broken")

    with pytest.raises(butfor.ModelError, match="fails on every row"):
        run(never)
    assert sum(waited) < 1.5


def test_a_fault_that_passes_costs_no_row(monkeypatch):
    """A row that always fails sends its batch into halves; one that fails once when asked alone is asked again."""
    monkeypatch.setattr("butfor.evaluation.calls.PAUSE", 0.0)
    left = [1]

    def model(rows):
        if len(rows) == 1 and rows[0, 2] < 40 and left[0]:
            left[0] -= 1
            raise OSError("busy")
        return raises(rows)

    table = run(model).table
    assert left == [0]
    assert set(table[table.status == "untested"].input) == {7}


def test_a_sampler_that_fails_costs_its_hypotheses():
    inner = butfor.tabular.gaussian(REFERENCE)

    def sampler(inputs, subset, draws, rng):
        if subset.name == "x3":
            raise RuntimeError("no idea")
        return inner(inputs, subset, draws, rng)

    table = butfor.explain(plain, INPUTS, sampler, test="irt", draws=200, on_error="skip").table
    assert set(table[table.status == "untested"].subset) == {"x3"}
    assert table[table.subset == "x0"].chosen.any()


@pytest.mark.filterwarnings("ignore")
def test_images_and_texts_are_skipped_as_well():
    images = list(np.random.default_rng(0).integers(0, 200, (6, 12, 12, 3), dtype=np.uint8))
    images[2] = images[2] // 4 + 200

    def bright(batch):
        if any(image[-1, -1, 0] >= 200 for image in batch):
            raise ValueError("too bright")
        return [image[:4, :4].mean() for image in batch]

    found = butfor.image.explain(bright, images, butfor.image.donor(), on_error="skip", batch_rows=4)
    assert set(found.table[found.table.status == "untested"].input.map(str)) >= {str(found.input_names[2])}
    texts = ["a fine film", "a bad film", "bad words", "fine words"]

    def fine(batch):
        if any("film" in text and "bad" in text for text in batch):
            raise ValueError("no")
        return [len(text) for text in batch]

    for test in (None, "few-shot", "sequential"):  # was wrong once: a call of which every row failed ended the run
        found = butfor.text.explain(fine, texts, butfor.text.ngram(texts * 3), on_error="skip", test=test)
        assert "untested" in set(found.table.status)


class Leaky:
    """Ends its worker on a row that stands out, as one does that takes all memory."""

    def __init__(self):
        self.main = os.getpid()

    def __call__(self, rows):
        if (np.asarray(rows)[:, 1] > 3.2).any() and os.getpid() != self.main:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(rows)


@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_dies_does_not_end_the_run():
    inputs = np.random.default_rng(1).normal(size=(5, 3))
    inputs[:, 0] += 3

    def sampler(rows, subset, draws, rng):
        made = np.repeat(rows, draws, axis=0)
        made[:, subset.index] = rng.uniform(-1, 4 if subset.name == "x1" else 1, size=(len(made), len(subset.index)))
        return made

    settings = {"test": "irt", "draws": 50, "on_error": "skip", "effects": None}
    table = butfor.explain(Leaky(), inputs, sampler, workers="processes:1", **settings).table
    assert set(table[table.status == "untested"].subset) == {"x1"}
    assert table[table.subset == "x0"].chosen.any()


@pytest.mark.filterwarnings("ignore")
def test_the_false_discovery_rate_holds_where_rows_fail():
    """Failures that go with the values: where a column is null it stays so, whatever is left out."""
    shares, found = [], 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        reference, inputs = rng.normal(size=(200, 4)), rng.normal(size=(40, 4))
        inputs[:, 0] += 3

        def model(rows):
            rows = np.asarray(rows)
            if (np.abs(rows[:, 1]) > 3.3).any():
                raise ValueError("far out")
            return np.where(rows[:, 2] > 2.6, np.nan, rows[:, 0] + rows[:, 1])

        settings = {"test": "irt", "draws": 99, "alpha": 0.2, "on_error": "skip", "effects": None, "seed": seed}
        table = butfor.explain(model, inputs, butfor.tabular.gaussian(reference), subsets="columns", **settings).table
        wrong = table.chosen & (table.subset != "x0")
        shares.append(wrong.sum() / max(1, table.chosen.sum()))
        found += int((table.chosen & (table.subset == "x0")).sum())
    assert np.mean(shares) <= 0.2 + 2 * np.std(shares) / np.sqrt(len(shares))
    assert found > 40 * 40 / 4


class Unwell:
    """Raises on 1 % of rows, answers NaN on 1 %, hangs once, and ends its worker after so many calls, as leaks do."""

    def __init__(self, flag=None, calls=None):
        self.flag, self.calls, self.main, self.here, self.made = flag, calls, os.getpid(), os.getpid(), 0

    def __repr__(self):
        return "Unwell()"

    def __call__(self, rows):
        rows = np.asarray(rows)
        if os.getpid() != self.here:  # it has travelled
            self.here, self.made = os.getpid(), 0
            (self.flag.parent / f"worker {self.here}").touch()
        self.made += 1
        if os.getpid() != self.main and self.calls is not None:
            if self.made == 3 and not self.flag.exists():
                self.flag.write_text("")
                time.sleep(30)
            if self.made > self.calls:
                os.kill(os.getpid(), signal.SIGKILL)
        chance = np.abs(rows.sum(axis=1) * 1e4) % 1  # of the row alone, so that asking again does not help
        if (chance < 0.01).any():
            raise ValueError("no")
        return np.where(chance > 0.99, np.nan, rows[:, 0] + rows[:, 1])


def unwell_run(model, seed, inputs=60, **settings):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(inputs, 4))
    rows[:, 0] += 4 * (np.arange(inputs) < inputs // 2)
    asked = {"test": "few-shot", "alpha": 0.2, "on_error": "skip", "effects": None, "seed": seed, "subsets": "columns"}
    sampler = butfor.tabular.from_values(lambda n, s, k, r: r.normal(size=(len(n) * k, len(s.index))))
    table = butfor.explain(model, rows, sampler, batch_rows=64, **asked, **settings).table
    return table, (table.subset != "x0") | (table.input >= inputs // 2)


@pytest.mark.filterwarnings("ignore")
def test_the_false_discovery_rate_holds_where_one_row_in_fifty_fails(monkeypatch):
    """x0 is null in the second half of the inputs, the others everywhere; failures are of observed rows and draws."""
    monkeypatch.setattr("butfor.evaluation.calls.PAUSE", 0.0)
    shares, found, untested = [], 0, []
    for seed in range(24):
        table, null = unwell_run(Unwell(), seed)
        shares.append((table.chosen & null).sum() / max(1, table.chosen.sum()))
        found += int((table.chosen & ~null).sum())
        untested.append((table.status == "untested").mean())
    assert 0.05 < np.mean(untested) < 0.5
    assert np.mean(shares) <= 0.2 + 2 * np.std(shares) / np.sqrt(len(shares))
    assert found > 24 * 30 / 4


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_does_all_of_this_does_not_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("butfor.evaluation.calls.PAUSE", 0.0)
    monkeypatch.setattr("butfor.evaluation.evaluator.LEAST_ROWS", 500)
    monkeypatch.setattr("butfor.evaluation.evaluator.CALLS", 0)
    model = Unwell(tmp_path / "hung", calls=150)
    table, _ = unwell_run(model, 0, timeout=2.0, workers="processes:1")
    assert (tmp_path / "hung").exists()
    assert len(list(tmp_path.glob("worker *"))) > 1  # each dies after a while
    assert 0.05 < (table.status == "untested").mean() < 0.6
    assert table[table.subset == "x0"].chosen.any()
    alone, _ = unwell_run(Unwell(), 0)
    pd.testing.assert_frame_equal(table, alone, check_exact=True)
