"""Ctrl-C and SIGTERM on the command line: stopped soon, kept, told, and gone on with by `butfor resume`."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

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


def test_a_folder_without_a_run_is_refused(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "butfor.cli", "resume", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "holds no run that was cut short" in done.stderr
