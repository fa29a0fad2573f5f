"""A run that is cut short goes on where it was, and gives the result it would have given."""

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.engine.journal import ANSWERS, RUN, fingerprint

RNG = np.random.default_rng(0)
REFERENCE, INPUTS = RNG.normal(size=(60, 3)), RNG.normal([3, 0, 0], 1, size=(12, 3))
SAMPLER = butfor.tabular.gaussian(REFERENCE)


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
        return np.asarray(rows)[:, 0] + 0.1 * np.asarray(rows)[:, 1]


def run(model, folder, **settings):
    return butfor.explain(model, INPUTS, SAMPLER, batch_rows=50, run_dir=folder, **settings)


@pytest.mark.parametrize("test", ["sequential", "irt", "osft", "few-shot"])
def test_a_cut_short_run_goes_on(tmp_path, test):
    folder = tmp_path / "run"
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test=test)
    broken = Box(most=whole.rows // 2)
    with pytest.raises(butfor.ModelError, match="the power went off"):
        run(broken, folder, test=test)
    assert broken.rows > 0
    assert {path.name for path in folder.iterdir()} == {ANSWERS, RUN}
    again = Box()
    result = run(again, folder, test=test)
    pd.testing.assert_frame_equal(result.table, whole.table)
    compared = len(INPUTS)  # one batch is asked again, to see that it is the same model
    assert again.rows == whole.rows - broken.rows + compared
    assert not folder.exists()  # it is done, and a later run asks afresh


def test_a_record_cut_off_by_a_kill_is_dropped(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(butfor.ModelError):
        run(Box(most=300), folder, test="irt", draws=99)
    raw = (folder / ANSWERS).read_bytes()
    (folder / ANSWERS).write_bytes(raw[:-5])
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test="irt", draws=99)
    pd.testing.assert_frame_equal(run(Box(), folder, test="irt", draws=99).table, whole.table)


def test_the_answers_of_another_model_are_refused(tmp_path):
    with pytest.raises(butfor.ModelError):
        run(Box(most=100), tmp_path, test="irt", draws=99)
    with pytest.raises(butfor.InputError, match="holds the answers of another model; name another folder"):
        run(lambda rows: rows[:, 0], tmp_path, test="irt", draws=99)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(butfor.InputError, match=r"cannot be used: .*; name another folder"):
        run(Box(), tmp_path / "file" / "run", test="irt", draws=9)


def test_nothing_is_left_where_nothing_was_answered(tmp_path):
    with pytest.raises(butfor.ModelError):
        run(Box(most=0), tmp_path / "run", test="irt", draws=9)
    assert not (tmp_path / "run").exists()


def test_other_files_of_the_folder_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    run(Box(), tmp_path, test="irt", draws=9)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros((2, 3)), np.zeros((2, 3), np.float32)),
        (pd.DataFrame({"a": ["x", "y"]}), pd.DataFrame({"a": ["y", "x"]})),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
        (["a text", "b"], ["a", " textb"]),
        ([np.zeros((2, 2), np.uint8)], [np.zeros((4, 1), np.uint8)]),
    ],
)
def test_fingerprints_tell_batches_apart(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


# Was wrong once: a model that kept its name and was trained again was given the old one's answers.
def test_a_model_that_was_changed_since_is_refused(tmp_path):
    with pytest.raises(butfor.ModelError):
        run(Box(most=100), tmp_path, test="irt", draws=99)
    changed = Box()
    changed.__class__ = type("Box", (Box,), {"__call__": lambda self, rows: np.asarray(rows)[:, 2]})
    with pytest.raises(butfor.InputError, match="other answers than the model gives now: it was changed since"):
        run(changed, tmp_path, test="irt", draws=99)


def test_a_plain_function_goes_on_in_another_process(tmp_path):
    import subprocess
    import sys

    (tmp_path / "it.py").write_text(
        "import sys, numpy as np, butfor\n"
        "left = [int(sys.argv[1])]\n"
        "def dark(batch):\n"
        "    left[0] -= 1\n"
        "    if left[0] < 0: sys.exit(9)\n"
        "    return [x[:6, :6].mean() for x in batch]\n"
        "images = list(np.random.default_rng(0).integers(0, 256, (6, 18, 18, 3), dtype=np.uint8))\n"
        "found = butfor.image.explain(dark, images, butfor.image.donor(), run_dir='run', batch_rows=16)\n"
        "print(found.rows, left[0])\n"
    )
    ask = [sys.executable, "it.py"]
    assert subprocess.run([*ask, "12"], cwd=tmp_path, check=False).returncode == 9
    done = subprocess.run([*ask, "1000"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert int(done.stdout.split()[1]) > 1000 - 60
