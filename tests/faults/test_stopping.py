"""Ctrl-C and SIGTERM on the command line: stopped soon, kept, told, and gone on with by `butfor resume`."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.cli.options import written

MODEL = """
import sys, time
import numpy as np
def slow(rows):
    rows = np.asarray(rows)
    print("asked", file=sys.stderr, flush=True)
    time.sleep(0.02)
    return rows[:, 0] + 0.1 * rows[:, 1]
"""


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "m.py").write_text(MODEL)
    pd.DataFrame(rng.normal(size=(100, 3)), columns=list("abc")).to_csv(tmp_path / "reference.csv", index=False)
    pd.DataFrame(rng.normal([2, 0, 0], 1, (60, 3)), columns=list("abc")).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path


def command(out, *more):
    given = ["explain", "--model", "m.py:slow", "--data", "data.csv", "--reference", "reference.csv", "--out", out]
    return [sys.executable, "-m", "butfor.cli", *given, "--test", "irt", "--draws", "600", "--batch-rows", "500", *more]


@pytest.mark.skipif(os.name == "nt", reason="signals cannot be sent to one process there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_kept_told_and_resumed(files, number):
    with subprocess.Popen(command("out"), cwd=files, stderr=subprocess.PIPE, text=True) as run:
        for _ in range(150):  # into the draws
            assert run.stderr.readline()
        start = time.monotonic()
        run.send_signal(number)
        last = run.stderr.read().splitlines()[-1]
        assert run.wait() == 130
    assert time.monotonic() - start < 20  # 2 s on a quiet machine
    assert last == "butfor: stopped; what is finished is kept; go on with: butfor resume out"
    assert (files / "out" / "run" / "journal.sqlite").exists()
    again = [sys.executable, "-m", "butfor.cli", "resume", "out"]
    done = subprocess.run(again, cwd=files, capture_output=True, text=True, check=True)
    assert not (files / "out" / "run").exists()
    fresh = subprocess.run(command("fresh"), cwd=files, capture_output=True, text=True, check=True)
    assert (files / "out" / "table.csv").read_bytes() == (files / "fresh" / "table.csv").read_bytes()
    assert done.stderr.count("asked") < 0.8 * fresh.stderr.count("asked")


def at(stage):
    """Hears of the progress of a run, and stops it in one stage, as Ctrl-C would."""

    def hear(now):
        if now.stage == stage:
            raise KeyboardInterrupt

    return hear


RNG = np.random.default_rng(0)
GIVEN = (lambda rows: rows[:, 0], RNG.normal([3, 0], 1, (40, 2)), RNG.normal(size=(100, 2)))


# Was wrong once: the control went on with what it had, and then the run itself, to its end.
def test_a_run_that_is_stopped_in_its_control_stops(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        butfor.explain(*GIVEN, test="irt", draws=99, run_dir=tmp_path / "run", progress=at("control"))
    assert (tmp_path / "run" / "journal.sqlite").exists()


# Was wrong once: it went on to decisions, ended as if nothing had been asked of it, and threw the journal away.
def test_a_run_that_is_stopped_in_its_effects_keeps_its_journal(tmp_path):
    asked = {"test": "irt", "draws": 99, "effects": "chosen", "subsets": "columns", "run_dir": tmp_path / "run"}
    cut = butfor.explain(*GIVEN, **asked, progress=at("effects"))
    assert cut.record.interrupted
    assert cut.chosen.any()
    assert cut.table.effect.isna().all()
    again = butfor.explain(*GIVEN, **asked)
    assert not again.record.interrupted
    assert (again.chosen == cut.chosen).all()
    assert again.table[again.chosen].effect.notna().all()
    assert not (tmp_path / "run").exists()


def test_fitting_that_takes_long_is_said_as_soon_as_it_is_seen(monkeypatch):
    monkeypatch.setattr("butfor.run.run.PATIENCE", 0.0)
    given = GIVEN[0], GIVEN[1] + 1, GIVEN[2] + 1  # a reference that is not fitted yet
    with monkeypatch.context() as patch:
        patch.setattr("butfor.run.run.LONG", -1.0)
        with pytest.warns(UserWarning, match=r"Fitting residual\(.* to 2 subsets takes about 0 minutes more.*gaussian"):
            butfor.explain(*given, test="osft", subsets="columns", control=False)
    with monkeypatch.context() as patch:
        patch.setattr("butfor.run.run.WIDE", 3)  # 2 columns of 2
        with pytest.warns(UserWarning, match="to 2 subsets, each of their columns to all others, may take hours"):
            butfor.explain(*GIVEN[:2], GIVEN[2] + 3, test="osft", subsets="columns", control=False)
    butfor.explain(*GIVEN[:2], GIVEN[2] + 2, test="osft", subsets="columns", control=False)  # warnings are errors


def test_the_report_is_a_stage(tmp_path, monkeypatch):
    heard = []
    monkeypatch.setattr("butfor.cli.options.bar", lambda _: heard.append)
    result = butfor.explain(*GIVEN, test="osft", control=False)
    written(result, SimpleNamespace(out=tmp_path / "out"))
    assert [(now.stage, now.rows, now.total) for now in heard] == [("report", 0, 3), ("report", 3, 3)]
    assert (tmp_path / "out" / "report.html").exists()


def test_a_folder_without_a_run_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "butfor.cli", "resume", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "holds no run that was cut short" in done.stderr
