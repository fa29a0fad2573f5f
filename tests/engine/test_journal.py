"""A run that is cut short goes on where it was, and gives the result it would have given."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation.evaluator import TaskResult
from butfor.evaluation.journal import FILE, KEY, Store, decode, encode, fingerprint

RNG = np.random.default_rng(0)
REFERENCE, INPUTS = RNG.normal(size=(60, 3)), RNG.normal([3, 0, 0], 1, size=(40, 3))
SAMPLER = butfor.tabular.gaussian(REFERENCE)
UNIT = {"irt": 40 * 513, "sequential": 40 * 200, "osft": 400, "few-shot": 40 * 12}  # rows of the largest unit


class Box:
    """A model that counts its rows and breaks when it has had enough."""

    def __init__(self, most=None, fatal=None):
        self.most, self.fatal, self.rows = most, fatal, 0

    def __repr__(self):
        return "Box()"

    def __call__(self, rows):
        if self.fatal is not None and self.rows > self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.most is not None and self.rows + len(rows) > self.most:
            raise butfor.ModelError("the power went off")
        self.rows += len(rows)
        return np.asarray(rows)[:, 0] + 0.1 * np.asarray(rows)[:, 1]


def run(model, folder, inputs=INPUTS, **settings):
    return butfor.explain(model, inputs, SAMPLER, batch_rows=50, run_dir=folder, **settings)


def kept_in(folder):
    store = Store(folder)
    count = len(store.units())
    store.close()
    return count


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    """So that there is something to go on with in runs this small."""
    monkeypatch.setattr("butfor.evaluation.evaluator.LEAST_ROWS", 200)
    monkeypatch.setattr("butfor.evaluation.journal.SECONDS", 0.0)


@pytest.mark.parametrize("test", ["sequential", "irt", "osft", "few-shot"])
def test_a_cut_short_run_goes_on(tmp_path, test, monkeypatch):
    monkeypatch.setattr("butfor.evaluation.journal.AGAIN", 0)  # counted exactly
    folder = tmp_path / "run"
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test=test)
    broken = Box(most=4 * whole.rows // 5)
    with pytest.raises(butfor.ModelError, match="the power went off"):
        run(broken, folder, test=test)
    kept = kept_in(folder)
    again = Box()
    result = run(again, folder, test=test)
    pd.testing.assert_frame_equal(result.table, whole.table, check_exact=True)
    assert result.rows == whole.rows
    assert kept > 1
    lost = UNIT[test] + 50  # the unit under way, and the first look is asked again
    assert again.rows <= whole.rows - broken.rows + lost
    if test == "irt":
        assert again.rows < whole.rows / 2
    assert not folder.exists()  # it is done, and a later run asks afresh


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"seed": 1}, "seed: 0, now 1"),
        ({"alpha": 0.2}, r"alpha: 0\.1, now 0\.2"),
        ({"draws": 98}, "draws: 99, now 98"),
        ({"inputs": INPUTS + 1}, "other data"),
    ],
)
def test_what_differs_is_named_and_refused(tmp_path, settings, named):
    with pytest.raises(butfor.ModelError):
        run(Box(most=400), tmp_path, test="irt", draws=99)
    with pytest.raises(butfor.InputError, match=f"holds another run .*{named}.*; name another folder"):
        run(Box(), tmp_path, **{"test": "irt", "draws": 99, **settings})


def test_another_model_or_sampler_is_refused(tmp_path):
    with pytest.raises(butfor.ModelError):
        run(Box(most=400), tmp_path, test="irt", draws=99)
    with pytest.raises(butfor.InputError, match="other model"):
        run(lambda rows: rows[:, 0], tmp_path, test="irt", draws=99)
    other = butfor.tabular.gaussian(REFERENCE * 2)
    with pytest.raises(butfor.InputError, match="other sampler"):
        butfor.explain(Box(), INPUTS, other, batch_rows=50, run_dir=tmp_path, test="irt", draws=99)


# Was wrong once: a model that kept its name and was trained again was given the old one's answers.
def test_a_model_that_was_changed_since_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("butfor.run.run.content_digest", lambda model: None)  # of a model that cannot be read
    with pytest.raises(butfor.ModelError):
        run(Box(most=400), tmp_path, test="irt", draws=99)
    changed = Box()
    changed.__class__ = type("Box", (Box,), {"__call__": lambda self, rows: np.asarray(rows)[:, 2]})
    with pytest.raises(butfor.InputError, match="other answers than the model gives now: it was changed since"):
        run(changed, tmp_path, test="irt", draws=99)


# Was wrong once: only the first look was compared, and counterfactuals could come from another model.
def test_a_model_that_was_changed_on_counterfactuals_alone_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("butfor.run.run.content_digest", lambda model: None)  # of a model that cannot be read
    with pytest.raises(butfor.ModelError):
        run(Box(most=9000), tmp_path, test="irt", draws=99)
    changed, seen = Box(), {tuple(row) for row in INPUTS.tolist()}

    def said(self, rows):
        return np.array([3.0 if tuple(r) not in seen else r[0] + 0.1 * r[1] for r in rows.tolist()])

    changed.__class__ = type("Box", (Box,), {"__call__": said})
    with pytest.raises(butfor.InputError, match="it was changed since"):
        run(changed, tmp_path, test="irt", draws=99)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(butfor.InputError, match=r"cannot be used: .*; name another folder"):
        run(Box(), tmp_path / "file" / "run", test="irt", draws=9)


def test_nothing_is_left_where_nothing_was_answered(tmp_path):
    with pytest.raises(butfor.ModelError):
        run(Box(most=0), tmp_path / "run", test="irt", draws=9)
    assert not (tmp_path / "run").exists()


# Was wrong once: the corrected call was told that the folder holds another run.
@pytest.mark.parametrize("wrong", [{"link": "log"}, {"target": "nobody"}, {"picked": lambda outputs: outputs < -99}])
def test_a_call_that_was_refused_leaves_nothing_behind(tmp_path, wrong):
    with pytest.raises(butfor.InputError) as refused:
        run(Box(), tmp_path / "run", test="irt", draws=99, **wrong)
    assert not isinstance(refused.value, butfor.ModelError)
    assert not (tmp_path / "run").exists()
    assert len(run(Box(), tmp_path / "run", test="irt", draws=99).table)


def test_a_refused_call_leaves_what_another_run_has_done(tmp_path):
    with pytest.raises(butfor.ModelError):
        run(Box(most=9000), tmp_path, test="irt", draws=99)
    done = kept_in(tmp_path)
    with pytest.raises(butfor.InputError, match="holds another run"):
        run(Box(), tmp_path, test="irt", draws=99, link="log")
    assert kept_in(tmp_path) == done > 0


def test_other_files_of_the_folder_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    run(Box(), tmp_path, test="irt", draws=9)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_second_process_is_refused_at_once_and_a_crash_lets_go(tmp_path):
    hold = "import sys; from pathlib import Path; from butfor.evaluation.journal import Store; "
    hold += "s = Store(Path(sys.argv[1]));"
    code = hold + "print('held', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(butfor.InputError, match="in use by another process"):
            run(Box(), tmp_path, test="irt", draws=9)
        other.kill()
    run(Box(), tmp_path, test="irt", draws=9)


def test_the_clock_may_go_backwards(tmp_path, monkeypatch):
    now = iter(range(10**9, 0, -3600))
    monkeypatch.setattr("time.time", lambda: next(now))
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test="irt", draws=99)
    with pytest.raises(butfor.ModelError):
        run(Box(most=9000), tmp_path / "run", test="irt", draws=99)
    again = run(Box(), tmp_path / "run", test="irt", draws=99)
    pd.testing.assert_frame_equal(again.table, whole.table, check_exact=True)


def test_a_full_disk_is_blamed_and_what_was_finished_is_kept(tmp_path, monkeypatch):
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test="irt", draws=999)
    real = Store._open

    def small(self):
        real(self)
        self._base.execute("PRAGMA max_page_count=12")  # sqlite then says what it says of a full disk

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_open", small)
        with pytest.raises(butfor.InputError, match=r"cannot be written .*full.*what was finished is kept"):
            run(Box(), tmp_path / "run", test="irt", draws=999)
    assert kept_in(tmp_path / "run") > 3
    again = run(Box(), tmp_path / "run", test="irt", draws=999)
    pd.testing.assert_frame_equal(again.table, whole.table, check_exact=True)


def cut_short_files(folder):
    """A journal that is most of a run, as a kill leaves it: with records in the file and in what sqlite wrote ahead."""
    code = (
        "import sys, butfor\n"
        "import butfor.evaluation.evaluator as b, butfor.evaluation.journal as s\n"
        "b.LEAST_ROWS, s.SECONDS = 200, 0.0\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from engine.test_journal import Box, INPUTS, SAMPLER\n"
        "butfor.explain(Box(fatal=9000), INPUTS, SAMPLER, batch_rows=50, run_dir=sys.argv[1], test='irt', draws=99)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder), str(Path(__file__).parents[1])], check=False)
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test="irt", draws=99)
    return {path.name: path.read_bytes() for path in folder.iterdir()}, whole.table


@pytest.fixture(scope="module")
def cut_short(tmp_path_factory):
    return cut_short_files(tmp_path_factory.mktemp("cut") / "run")


def damaged(files, rng):
    """One bit, eight bytes, 512 zeros, or the end cut off, somewhere in one of the files."""
    name = sorted(files)[int(rng.integers(len(files)))]
    raw = bytearray(files[name])
    place = int(rng.integers(max(len(raw), 1)))
    kind = int(rng.integers(4))
    if kind == 0 and raw:
        raw[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        raw[place : place + 8] = rng.bytes(min(8, len(raw) - place))
    elif kind == 2:
        raw[place : place + 512] = bytes(min(512, len(raw) - place))
    else:
        del raw[place:]
    return {**files, name: bytes(raw)}


@pytest.mark.filterwarnings("ignore:The journal in")
@pytest.mark.parametrize("part", range(4))
def test_no_damaged_journal_gives_another_result(cut_short, tmp_path, part):
    files, whole = cut_short
    assert {FILE, f"{FILE}-wal"} <= set(files)
    rng, refused = np.random.default_rng(part), 0
    for number in range(50):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, raw in damaged(files, rng).items():
            (folder / name).write_bytes(raw)
        try:
            found = run(Box(), folder, test="irt", draws=99)
        except butfor.InputError:
            refused += 1
        else:
            pd.testing.assert_frame_equal(found.table, whole, check_exact=True)
    assert refused < 25


def test_a_damaged_record_is_said_and_asked_again(tmp_path):
    with pytest.raises(butfor.ModelError):
        run(Box(most=9000), tmp_path, test="irt", draws=99)
    base = sqlite3.connect(tmp_path / FILE)
    assert base.execute("UPDATE records SET body = zeroblob(100) WHERE length(key) = 20").rowcount > 0
    base.commit()
    base.close()
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test="irt", draws=99)
    with pytest.warns(UserWarning, match="journal in .* was damaged"):
        found = run(Box(), tmp_path, test="irt", draws=99)
    pd.testing.assert_frame_equal(found.table, whole.table, check_exact=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros((2, 3)), np.zeros((2, 3), np.float32)),
        (pd.DataFrame({"a": ["x", "y"]}), pd.DataFrame({"a": ["y", "x"]})),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
        (["a text", "b"], ["a", " textb"]),
        ([np.zeros((2, 2), np.uint8)], [np.zeros((4, 1), np.uint8)]),
        # Was wrong once: large images in mappings were told apart by their repr, which leaves out the middle.
        ([{"image": np.zeros((40, 40))}], [{"image": np.pad([[1.0]], (20, 19))}]),
    ],
)
def test_fingerprints_tell_batches_apart(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


def test_what_is_kept_comes_back():
    given = {(1, b"k"): np.array([0.1, 2.0]), "t": ("a\ud800", None, True, 1.5, [np.float32(2)]), 3: {"x": b""}}
    back = decode(encode(given))
    assert json.dumps(str(back)) == json.dumps(str(given))
    outputs = np.float32([[[0.1, 0.2]], [[3, 4]]]).astype(np.float64)
    assert decode(encode(outputs)).dtype == np.float64
    assert (decode(encode(outputs)) == outputs).all()
    with pytest.raises(TypeError, match="cannot keep ndarray"):
        encode(np.array([None]))


@pytest.mark.parametrize("many", [1, 3, 4, 9])
def test_collections_come_back_as_they_were(many):
    alike = [
        (number, (np.full((number + 1, 2), 0.5), np.arange(5) > number), [None] * number) for number in range(many)
    ]
    mixed = [np.zeros(2, np.float32), np.zeros((0, 3)), np.array(1), np.array(["a", "bc"])] * 2
    given = [alike, tuple(alike), mixed, [(), (1,), ()] * 2, [{}] * 5, ["x"] * 5, [1, 2.5, None, True], [[]] * 4]
    back = decode(encode(given))
    assert str(back) == str(given)
    assert [one.dtype for one in back[2]] == [one.dtype for one in mixed]
    assert [one.shape for one in back[2]] == [one.shape for one in mixed]


def test_tasks_that_are_written_together_come_back_one_by_one(tmp_path):
    def result(number):
        counts = (np.full((2, 3), number % 2 == 0), np.arange(2.0) + number)
        sample = (0, np.arange(2), np.full((2, 2, 1), 0.1 * number))
        found = ((None, np.full((5, 2), number)), (None, None))
        return TaskResult((), found, (None, None), (number, 2, 0), summary=[counts], sample=sample)

    store = Store(tmp_path)
    keys = [bytes([number]) * KEY for number in range(6)]
    for number, key in enumerate(keys):
        store.put_soon(lambda key=key: key, result(number), 10)
    store.close()
    again = Store(tmp_path)
    assert again.units() == keys
    assert [str(again.unit(key)) for key in reversed(keys)] == [str(result(number)) for number in reversed(range(6))]
    assert again.unit(b"other") is None
    again.close()


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("remedy", ["room", "elsewhere"])
def test_a_disk_that_is_really_full(small_disk, tmp_path, remedy):
    whole = butfor.explain(Box(), INPUTS, SAMPLER, batch_rows=50, test="irt", draws=999)
    (small_disk / "of others").write_bytes(bytes(200_000))
    with pytest.raises(butfor.InputError, match=r"cannot be written .*full.*what was finished is kept"):
        run(Box(), small_disk / "run", test="irt", draws=999)
    if remedy == "room":
        subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
        folder = small_disk / "run"
    else:
        folder = Path(shutil.copytree(small_disk / "run", tmp_path / "copy"))
    again = Box()
    found = run(again, folder, test="irt", draws=999)
    pd.testing.assert_frame_equal(found.table, whole.table, check_exact=True)
    assert again.rows < whole.rows


def test_a_disk_that_cannot_be_written(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(butfor.InputError, match=r"run_dir .* cannot be used: Read-only file system; name another"):
        run(Box(), small_disk / "run", test="irt", draws=99)


def test_a_disk_that_becomes_read_only(small_disk):
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    with pytest.raises(butfor.ModelError, match="the power went off"):
        run(Box(most=3000), small_disk / "run", test="irt", draws=99)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(butfor.InputError, match=r"cannot be written .*read-only or failing"):
        run(Box(), small_disk / "run", test="irt", draws=99)
