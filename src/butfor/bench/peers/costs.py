"""What each method costs on the same inputs, in a process of its own: rows of the model, processor seconds, memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace

from butfor.bench.output import Figures
from butfor.bench.peers import ours
from butfor.bench.peers.methods import ATTRIBUTIONS, installed
from butfor.bench.peers.task import CountedModel, Task, task_of
from butfor.bench.timed import peak

BEDS = ("independent-network", "independent-discontinuous", "boosted-trees")
METHODS = (*ours.TESTS, *(name for name in ATTRIBUTIONS if name != "L2X"))  # L2X is trained, not asked
SIZES = (100, 1000)
LIMIT = 20.0  # processor seconds at 100 inputs, above which more are not run
PROMISES = {
    "irt": "FDR, proven",
    "osft": "FDR, proven (independent)",
    "sequential": "FDR, proven",
    "few-shot": "FDR, proven (independent)",
    "exact": "FDR, proven",
}
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def side_by_side(
    bed: str, methods: tuple[str, ...], sizes: tuple[int, ...], seed: int, limit: float = LIMIT
) -> list[Figures]:
    """A row per method and number of inputs; where one does not apply there is none."""
    rows: list[Figures] = []
    for name in methods:
        shared = {"bed": bed, "method": name, "promises": promise(name)}
        for inputs in sizes:
            slow = [row for row in rows if row["method"] == name and row.get("seconds", 0.0) > limit]
            found = _too_slow(slow[0]) if slow else in_process(bed, name, inputs, seed)
            if found.get("applies", True):
                rows.append({**shared, "inputs": inputs, **found})
    return rows


def _too_slow(row: Figures) -> Figures:
    return {"why": f"not run: {row['inputs']:,} took {row['seconds']:.0f} s"}


def promise(name: str) -> str:
    """What a method says of its errors."""
    return PROMISES[name] if name in PROMISES else ATTRIBUTIONS[name].promises


def in_process(bed: str, name: str, inputs: int, seed: int) -> Figures:
    """`measured` in a fresh process with one thread; a sentence where it is not installed or fails."""
    if name in ATTRIBUTIONS and installed(ATTRIBUTIONS[name].package) is None:
        return {"why": f"{ATTRIBUTIONS[name].package} is not installed"}
    code = f"from butfor.bench.peers.costs import tell; tell({bed!r}, {name!r}, {inputs}, {seed})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **THREADS}
    )
    if done.returncode:
        return {"why": f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:200]}"}
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def tell(bed: str, name: str, inputs: int, seed: int) -> None:
    """What `measured` found, as a line of JSON on standard output: the end of a process of ours."""
    sys.stdout.write(json.dumps(measured(task_of(bed, seed, inputs), name)) + "\n")


def measured(task: Task, name: str) -> Figures:
    """Rows, processor seconds and megabytes beyond what the process held before, after a warm-up on two inputs.

    The warm-up takes imports and compilation out of the figures: they are paid once, not per input.
    """
    if not applies(task, name):
        return {"applies": False}
    with warnings.catch_warnings(action="ignore"):
        once(replace(task, inputs=task.inputs[:2]), name)
        counted = CountedModel(task.model)
        before, start = peak(), time.process_time()
        own_rows = once(replace(task, model=counted), name)
        seconds = time.process_time() - start
    rows = counted.rows or own_rows
    return {"rows": rows, "seconds": seconds, "megabytes": max(0.0, peak() - before), "held": before}


def applies(task: Task, name: str) -> bool:
    """Whether the method can read this model, or list what this sampler draws."""
    return ATTRIBUTIONS[name].applies(task) if name in ATTRIBUTIONS else name != "exact" or task.listed


def once(task: Task, name: str) -> int | None:
    """Run a method; returns the rows that it says it asked, None where it reads the model's inside."""
    if name in ATTRIBUTIONS:
        ATTRIBUTIONS[name].score(task)
        return None
    return int(ours.one(task, name).rows)
