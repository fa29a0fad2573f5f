"""Faults planted into whole runs: killed processes, killed workers of a cluster, damaged journals.

python tools/plant_faults.py kill [--count 20]      kill -9 at random moments, then the same call again
python tools/plant_faults.py cluster [--count 3]    a worker of a dask cluster killed so many times, spread over a run
python tools/plant_faults.py damage [--count 1000]  journals with a bit, 8 or 512 bytes changed, or cut off
python tools/plant_faults.py stop [--count 3]       Ctrl-C and SIGTERM on the command line: seconds, and what is left
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))
KINDS = ("sequential", "irt", "few-shot", "osft", "exact", "image", "text", "multimodal")


def kill(count: int, seed: int, only: str) -> int:
    """Each kind of run is killed so many times, at moments spread over it, and gone on with to the end."""
    import butfor.evaluation.evaluator as batches
    import butfor.evaluation.journal as store

    batches.LEAST_ROWS, batches.CALLS, store.SECONDS = 1500, 0, 0.0  # many units, each written at once
    bad = 0
    for case in [kind for kind in KINDS if only in kind]:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            os.waitpid(_begun(case, Path(folder), "first"), 0)
            whole = time.perf_counter() - start
            known, fresh = _done(Path(folder), "first")
        rng, outcomes = np.random.default_rng([seed, len(case)]), Counter[str]()
        extra = 0
        while outcomes["the same"] + outcomes["DIFFERS"] + outcomes["failed"] < count and outcomes.total() < 3 * count:
            with tempfile.TemporaryDirectory() as folder:
                outcome, more = _killed_once(case, Path(folder), rng.uniform(0.0, 0.95) * whole, known, fresh)
            outcomes[outcome] += 1
            extra = max(extra, more)
        bad += outcomes["DIFFERS"] + outcomes["failed"]
        print(f"{case}: {dict(outcomes)}; a run asks {fresh:,} rows; at most {extra:,} asked twice", flush=True)
    return bad


def _begun(case: str, folder: Path, name: str) -> int:
    """A process of its own, forked: libraries are loaded already, so that moments fall into the run."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.chdir(folder)
        _run_case(case, name)
    finally:
        os._exit(0)


def _run_case(case: str, name: str) -> None:
    from butfor.evaluation.journal import until_written
    from faults import test_engines as runs

    rows = 0
    told = Path(f"{name}.rows").open("w")  # noqa: SIM115  # until the process is killed

    def counted(model):  # type: ignore[no-untyped-def]
        def ask(batch):  # type: ignore[no-untyped-def]
            nonlocal rows
            rows += len(batch)
            told.seek(0)
            told.write(str(rows))
            told.flush()
            time.sleep(0.004)
            return model(batch)

        ask.__name__ = model.__name__
        return ask

    for model in MODELS:
        setattr(runs, model, counted(getattr(runs, model)))
    with until_written():  # as the commands do: the journal goes when the table is there
        runs.CASES[case](1, run_dir="run").table.to_pickle(f"{name}.part")
        Path(f"{name}.part").rename(f"{name}.table")


def _done(folder: Path, name: str) -> tuple[pd.DataFrame, int]:
    return pd.read_pickle(folder / f"{name}.table"), int((folder / f"{name}.rows").read_text())  # our own


def _killed_once(case: str, folder: Path, seconds: float, known: pd.DataFrame, fresh: int) -> tuple[str, int]:
    """What came of one run that was killed, and how many rows were asked by both processes beyond those of one run."""
    first = _begun(case, folder, "first")
    time.sleep(seconds)
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    if (folder / "first.table").exists():
        return "was over before", 0
    counted = folder / "first.rows"
    before = int(counted.read_text() or 0) if counted.exists() else 0
    os.waitpid(_begun(case, folder, "second"), 0)
    if not (folder / "second.table").exists():
        return "failed", 0
    found, asked = _done(folder, "second")
    return ("the same" if found.equals(known) else "DIFFERS"), max(0, before + asked - fresh)


MODELS = ("curved", "curved_levels", "bright", "fine", "both")


def cluster(count: int, only: str) -> int:
    """Workers are killed while a run is under way; the scheduler's nanny starts others."""
    import dask
    import distributed

    import butfor.evaluation.evaluator as batches
    from faults import test_engines as runs

    batches.LEAST_ROWS, batches.CALLS = 200, 0  # many tasks
    plain, bad = {name: getattr(runs, name) for name in MODELS}, 0
    patient = {"distributed.scheduler.allowed-failures": 100, "distributed.comm.timeouts.connect": "180s"}
    dask.config.set(patient)  # of a worker that starts on a busy machine, too
    for case in [kind for kind in KINDS if only in kind]:
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
            distributed.Client(local) as client,
            tempfile.TemporaryDirectory() as folder,
        ):
            tally = Tally(Path(folder), count)
            for name, model in plain.items():
                setattr(runs, name, Counted(model, tally))
            known = runs.CASES[case](1).table
            tally.begin()
            killer = threading.Thread(target=_kill_workers, args=(local, tally), daemon=True)
            killer.start()
            found = runs.CASES[case](client).table
            during = tally.kills()
            tally.over.write_text("")
            killer.join()
            same, calls = found.equals(known), tally.total
        bad += not same or during < count
        print(f"{case}: {during} workers killed, {calls} calls; {'the same' if same else 'DIFFERS'}", flush=True)
    return bad


class Tally:
    """Calls of the model by all processes, and workers killed so far, in files: kills are spread over the calls."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count, self.main, self.total = folder, count, os.getpid(), 0
        self.over = folder / "over"

    def begin(self) -> None:
        """What was counted up to now was the run on one process, which says how many calls there are."""
        self.total = self.calls()
        (self.folder / "calls").unlink()

    def calls(self) -> int:
        path = self.folder / "calls"
        return path.stat().st_size if path.exists() else 0

    def kills(self) -> int:
        return len(list(self.folder.glob("killed*")))

    def is_due(self) -> bool:
        """Whether so much is done that the next worker is to be killed."""
        kills = self.kills()
        return kills < self.count and self.calls() > self.total * (kills + 1) / (self.count + 2)

    def call(self) -> None:
        """A call more; where a kill is due a worker waits for it, so that it falls into the run."""
        with (self.folder / "calls").open("ab") as file:
            file.write(b".")
        while os.getpid() != self.main and self.is_due() and not self.over.exists():
            time.sleep(0.02)


class Counted:
    """A model that tells the tally of its calls."""

    def __init__(self, model, tally: Tally) -> None:  # type: ignore[no-untyped-def]
        self.model, self.tally, self.__name__ = model, tally, model.__name__

    def __call__(self, batch):  # type: ignore[no-untyped-def]
        self.tally.call()
        return self.model(batch)


def _kill_workers(local, tally: Tally) -> None:  # type: ignore[no-untyped-def]
    """SIGKILL to one worker whenever that is due."""
    while not tally.over.exists():
        time.sleep(0.05)
        alive = [nanny.pid for nanny in local.workers.values() if nanny.pid]
        if tally.is_due() and alive:
            os.kill(alive[tally.kills() % len(alive)], signal.SIGKILL)
            (tally.folder / f"killed{tally.kills()}").write_text("")
            time.sleep(1.0)


def damage(count: int, seed: int) -> int:
    """Journals of a run that was killed, each damaged in one place, and gone on with."""
    import butfor
    import butfor.evaluation.evaluator as batches
    import butfor.evaluation.journal as store
    from engine.test_journal import Box, cut_short_files, damaged, run

    batches.LEAST_ROWS, store.SECONDS = 200, 0.0
    outcomes = Counter[str]()
    with tempfile.TemporaryDirectory() as made:
        files, table = cut_short_files(Path(made) / "run")
    rng = np.random.default_rng(seed)
    for _ in range(count):
        with tempfile.TemporaryDirectory() as made, warnings.catch_warnings(action="ignore"):
            for name, raw in damaged(files, rng).items():
                (Path(made) / name).write_bytes(raw)
            try:
                found = run(Box(), Path(made), test="irt", draws=99)
                outcomes["the same" if found.table.equals(table) else "DIFFERS"] += 1
            except butfor.InputError:
                outcomes["refused in a sentence"] += 1
            except Exception as error:  # whatever it is, it is a fault
                outcomes[f"raised {type(error).__name__}: {error}"[:200]] += 1
    print(dict(outcomes))
    return sum(count for what, count in outcomes.items() if what not in ("the same", "refused in a sentence"))


STOPPED = "butfor: stopped; what is finished is kept; go on with: butfor resume out"


def stop(count: int) -> int:
    """Commands on every engine, told to stop 25 calls into the run; dask's cluster is one of this machine."""
    import distributed

    from faults.test_stopping import MODEL, command

    rng, bad = np.random.default_rng(0), 0
    with (
        tempfile.TemporaryDirectory() as made,
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
    ):
        folder = Path(made)
        (folder / "m.py").write_text(MODEL.replace("print(", "open('asked', 'a').write('.') or print("))
        for name, rows, shift in (("reference", 100, 0), ("data", 60, 2)):
            values = rng.normal([shift, 0, 0], 1, (rows, 3))
            pd.DataFrame(values, columns=list("abc")).to_csv(folder / f"{name}.csv", index=False)
        for workers in ("1", "threads:2", "processes:2", local.scheduler_address):
            for number in (signal.SIGINT, signal.SIGTERM):
                found = [_stopped(folder, command("out", "--workers", workers), number) for _ in range(count)]
                bad += sum(not kept for _, kept in found)
                said = " ".join(f"{seconds:.2f}" for seconds, _ in found)
                kept = sum(kept for _, kept in found)
                print(f"{workers.split('//')[0]} {number.name}: {said} s; kept and told {kept} of {count}", flush=True)
    return bad


def _stopped(folder: Path, command: list[str], number: signal.Signals) -> tuple[float, bool]:
    """Seconds from the signal to the end, and whether that is as promised."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "asked").write_text("")
    environment = os.environ | {"PYTHONPATH": str(folder)}
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment) as run:
        said: list[str] = []
        reader = threading.Thread(target=lambda: said.extend(run.stderr or ()), daemon=True)
        reader.start()
        while (folder / "asked").stat().st_size < 25:
            time.sleep(0.01)
        start = time.monotonic()
        run.send_signal(number)
        code = run.wait()
        seconds = time.monotonic() - start
        reader.join()
    return seconds, code == 130 and said[-1].strip() == STOPPED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kill", "cluster", "damage", "stop"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    count = asked.count or {"kill": 20, "cluster": 3, "damage": 1000, "stop": 3}[asked.what]
    with warnings.catch_warnings(action="ignore"):
        if asked.what == "cluster":
            return cluster(count, asked.only)
        if asked.what == "stop":
            return stop(count)
        return kill(count, asked.seed, asked.only) if asked.what == "kill" else damage(count, asked.seed)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
