"""Faults planted into whole runs: killed processes, killed workers of a cluster, damaged journals.

python tools/plant_faults.py kill [--count 20]      kill -9 at random moments, then the same call again
python tools/plant_faults.py cluster [--count 3]    a worker of a dask cluster killed so many times in one run
python tools/plant_faults.py damage [--count 1000]  journals with a bit, 8 or 512 bytes changed, or cut off
"""

from __future__ import annotations

import argparse
import os
import signal
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
    import butfor.core.evaluate.batches as batches
    import butfor.engine.store as store

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
    from butfor.run import settings
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

    for model in ("curved", "curved_levels", "bright", "fine", "both"):
        setattr(runs, model, counted(getattr(runs, model)))
    settings.DEFAULTS["run_dir"] = "run"
    found = runs.CASES[case](1)
    found.table.to_pickle(f"{name}.part")
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
    if before >= fresh and not (folder / "run").exists():
        return "its journal was gone, all being done", 0
    os.waitpid(_begun(case, folder, "second"), 0)
    if not (folder / "second.table").exists():
        return "failed", 0
    found, asked = _done(folder, "second")
    return ("the same" if found.equals(known) else "DIFFERS"), max(0, before + asked - fresh)


def cluster(count: int, only: str) -> int:
    """Workers are killed while a run is under way; the scheduler's nanny starts others."""
    import dask
    import distributed

    from faults import test_engines as runs

    bad = 0
    slowed = {name: _slow(getattr(runs, name)) for name in ("curved", "curved_levels", "bright", "fine", "both")}
    known = {case: runs.CASES[case](1).table for case in KINDS if only in case}
    for name, model in slowed.items():
        setattr(runs, name, model)
    dask.config.set({"distributed.scheduler.allowed-failures": 100})
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        for case, table in known.items():
            over, killed = threading.Event(), list[int]()

            def killer(over: threading.Event = over, killed: list[int] = killed) -> None:
                for _ in range(count):
                    if over.wait(0.4):
                        return
                    for pid in list(client.run(os.getpid).values())[:1]:
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

            thread = threading.Thread(target=killer)
            thread.start()
            found = runs.CASES[case](client).table
            over.set()
            thread.join()
            same = found.equals(table)
            bad += not same
            print(f"{case}: {len(killed)} workers killed, {'the same' if same else 'DIFFERS'}", flush=True)
    return bad


def _slow(model):  # type: ignore[no-untyped-def]
    def slow(batch):  # type: ignore[no-untyped-def]
        time.sleep(0.05)
        return model(batch)

    slow.__name__ = model.__name__
    return slow


def damage(count: int, seed: int) -> int:
    """Journals of a run that was killed, each damaged in one place, and gone on with."""
    import butfor
    import butfor.core.evaluate.batches as batches
    import butfor.engine.store as store
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kill", "cluster", "damage"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    count = asked.count or {"kill": 20, "cluster": 3, "damage": 1000}[asked.what]
    with warnings.catch_warnings(action="ignore"):
        if asked.what == "cluster":
            return cluster(count, asked.only)
        return kill(count, asked.seed, asked.only) if asked.what == "kill" else damage(count, asked.seed)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
