"""What must never pass in silence: another model in a resumed run, files that others can read, files that unpack."""

import os
import sqlite3
import stat
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.models.wrap import content_digest
from butfor.results.io import write_whole
from butfor.tabular.files import read_table

RNG = np.random.default_rng(0)
REFERENCE, INPUTS = RNG.normal(size=(60, 3)), RNG.normal([3, 0, 0], 1, size=(40, 3))
SAMPLER = butfor.tabular.gaussian(REFERENCE)
ASKED = {"batch_rows": 50, "test": "irt", "draws": 99}


class Sum:
    """A model that nothing but its answers tells from another; `factor` is what was changed in it."""

    def __init__(self, factor=0.0, most=None, kind=np.float64):
        self.factor, self.most, self.kind, self.rows = factor, most, kind, 0

    def __repr__(self):
        return "Sum()"

    def __call__(self, rows):
        self.rows += len(rows)
        if self.most is not None and self.rows > self.most:
            raise butfor.ModelError("the power went off")
        weights = np.array([1.0, 0.1 * (1 + self.factor), 0.05], self.kind)
        return (np.asarray(rows, self.kind) @ weights).astype(np.float64)


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr("butfor.evaluation.evaluator.LEAST_ROWS", 200)
    monkeypatch.setattr("butfor.evaluation.journal.SECONDS", 0.0)


def cut_short(folder, model):
    with pytest.raises(butfor.ModelError, match="power"):
        butfor.explain(model, INPUTS, SAMPLER, run_dir=folder, **ASKED)


@pytest.mark.parametrize("factor", [6e-5, 1e-5, 1e-6, 1e-7])
def test_a_slightly_other_model_is_refused_when_a_run_goes_on(tmp_path, factor):
    cut_short(tmp_path, Sum(most=4000))
    with pytest.raises(butfor.InputError, match="it was changed since"):
        butfor.explain(Sum(factor), INPUTS, SAMPLER, run_dir=tmp_path, **ASKED)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_same_model_goes_on(tmp_path, kind):
    whole = butfor.explain(Sum(kind=kind), INPUTS, SAMPLER, **ASKED)
    cut_short(tmp_path, Sum(most=4000, kind=kind))
    result = butfor.explain(Sum(kind=kind), INPUTS, SAMPLER, run_dir=tmp_path, **ASKED)
    assert result.table.equals(whole.table)


# Rounding that depends on the company of a row is seen, not taken for another model.
def test_a_model_whose_rounding_depends_on_the_batch_goes_on(tmp_path):
    class Noisy(Sum):
        def __call__(self, rows):
            return super().__call__(rows) * (1 + 1e-10 * (len(rows) % 7))

    cut_short(tmp_path, Noisy(most=4000))
    assert butfor.explain(Noisy(), INPUTS, SAMPLER, run_dir=tmp_path, **ASKED).table.p.notna().all()


class Failing(LogisticRegression):
    """Fails once it has seen so many rows."""

    rows = 0

    def predict_proba(self, rows):
        Failing.rows += len(rows)
        if Failing.rows > 4000:
            raise butfor.ModelError("the power went off")
        return super().predict_proba(rows)


def test_an_estimator_that_was_trained_again_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Failing, "rows", 0)
    labels = REFERENCE[:, 0] > 0
    cut_short(tmp_path, Failing().fit(REFERENCE, labels))
    with pytest.raises(butfor.InputError, match="other content of the model"):
        butfor.explain(Failing().fit(REFERENCE[1:], labels[1:]), INPUTS, SAMPLER, run_dir=tmp_path, **ASKED)


def by_a_global(rows):
    return np.where(rows[:, 1] > LIMIT, 0.0, rows[:, 0])


LIMIT = 3.5


def changes():
    """Return pairs of models that answer alike on all but a few rows, and what a sample of answers may not show."""
    weights = np.array([1.0, 0.1, 0.05])
    few = REFERENCE[:, 1] > REFERENCE[:, 1].max() - 1e-9  # one row of the training data is left out
    trees = [
        RandomForestClassifier(3, random_state=0).fit(rows, rows[:, 0] > 0) for rows in (REFERENCE, REFERENCE[~few])
    ]
    yield "closure", *((lambda rows, model=model: model.predict(rows)) for model in trees)
    yield "partial", *(partial(np.dot, b=weights * (1 + change)) for change in (0, 1e-9))

    class Kept:
        def __init__(self, model):
            self.model, self.calls = model, 0

        def __call__(self, rows):
            self.calls += 1
            return self.model.predict(rows) + 0.0

    yield "attribute", *map(Kept, trees)


def for_so_many(model, rows):
    left = [rows]  # a counter, which is no part of the model

    def failing(batch):
        left[0] -= len(batch)
        if left[0] < 0:
            raise butfor.ModelError("the power went off")
        return model(batch)

    return failing


@pytest.mark.parametrize("number", range(3))
def test_what_a_model_computes_with_is_part_of_its_identity(number, tmp_path):
    name, one, other = list(changes())[number]
    assert content_digest(one) not in (None, content_digest(other)), name

    cut_short(tmp_path, for_so_many(one, 4000))
    with pytest.raises(butfor.InputError, match="other content of the model"):
        butfor.explain(for_so_many(other, 10**9), INPUTS, SAMPLER, run_dir=tmp_path, **ASKED)
    one(INPUTS)  # which may count, and is the same model then
    assert content_digest(one) == content_digest(list(changes())[number][1])


def test_globals_that_a_model_reads_are_part_of_its_identity(monkeypatch):
    before = content_digest(by_a_global)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 3.6)
    assert content_digest(by_a_global) != before


SAME = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from butfor.models.wrap import content_digest
X = np.random.default_rng(0).normal(size=(60, 3))
model = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)
print(content_digest(model.predict_proba), content_digest(lambda rows: [row in {"a", "b", "c"} for row in rows]))
"""


def test_the_digest_of_a_model_is_the_same_in_another_process():
    made = [
        subprocess.run(
            [sys.executable, "-c", SAME], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1] != ""
    assert "None" not in made[0]
    forest = RandomForestClassifier(5, random_state=1).fit(REFERENCE, REFERENCE[:, 0] > 0)
    assert content_digest(forest) != made[0].split()[0]


def test_only_the_owner_can_read_what_a_run_writes(tmp_path):
    before = os.umask(0o022)
    try:
        folder, model = tmp_path / "run", Sum(most=4000)
        cut_short(folder, model)
        result = butfor.explain(Sum(), INPUTS, SAMPLER, **ASKED)
        result.save(tmp_path / "result.butfor")
        result.report(tmp_path / "report.html")
        (tmp_path / "shared.html").touch(0o644)
        result.report(tmp_path / "shared.html")
        butfor.combine([tmp_path / "result.butfor"]).write(tmp_path / "chosen.csv")
        while_written = []
        write_whole(tmp_path / "any", lambda part: while_written.append(stat.S_IMODE(part.stat().st_mode)))
        files = [
            *(tmp_path / name for name in ("result.butfor", "report.html", "chosen.csv", "any")),
            *folder.iterdir(),
        ]
    finally:
        os.umask(before)
    assert while_written == [0o600]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {
        path.name: "0o600" for path in files
    }
    assert stat.S_IMODE((tmp_path / "shared.html").stat().st_mode) == 0o644  # as its owner had it


def test_a_parquet_file_that_unpacks_to_far_more_is_refused_before_it_is_read(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    column = arrow.array(np.zeros(60_000_000, np.int8))
    parquet.write_table(arrow.table({"a": column}), tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 1_000_000
    with pytest.raises(butfor.InputError, match=r"would take 960 MB of memory \(60,000,000 rows, 1 columns\)"):
        read_table(tmp_path / "bomb.parquet", "data")
    parquet.write_table(arrow.table({"a": column[:1000]}), tmp_path / "fine.parquet")
    assert len(read_table(tmp_path / "fine.parquet", "data")) == 1000


@pytest.mark.parametrize("harm", ["a bit", "half", "gone", "not JSON"])
@pytest.mark.filterwarnings("ignore:The journal in")
def test_a_damaged_manifest_is_refused_with_what_to_do_and_nothing_is_lost(tmp_path, harm):
    """Whether the answers are of this very run cannot be known without it."""
    cut_short(tmp_path, Sum(most=4000))
    with sqlite3.connect(tmp_path / "journal.sqlite") as base:
        body = bytearray(base.execute("SELECT body FROM records WHERE key = ?", (b"manifest",)).fetchone()[0])
        body[len(body) // 2] ^= 4
        new = {"a bit": bytes(body), "half": bytes(body[: len(body) // 2]), "not JSON": b"{", "gone": None}[harm]
        if new is None:
            base.execute("DELETE FROM records WHERE key = ?", (b"manifest",))
        else:
            base.execute("UPDATE records SET body = ? WHERE key = ?", (new, b"manifest"))
        kept = base.execute("SELECT count(*) FROM records WHERE key != ?", (b"manifest",)).fetchone()[0]
    base.close()
    for _ in range(2):
        with pytest.raises(butfor.InputError, match=r"cannot be read\); name another folder, or delete this one"):
            butfor.explain(Sum(), INPUTS, SAMPLER, run_dir=tmp_path, **ASKED)
    with sqlite3.connect(tmp_path / "journal.sqlite") as base:
        assert base.execute("SELECT count(*) FROM records WHERE key != ?", (b"manifest",)).fetchone()[0] == kept > 0
    base.close()
