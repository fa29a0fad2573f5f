"""Cost and error control of butfor and of other packages, side by side in one run.

Rows, processor seconds and memory of each method on the same inputs, in a fresh process with one thread; the ratios
that were set as targets; and the global question (does the response depend on this column?) on tables of known truth.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.attributions import ATTRIBUTIONS, TESTS, Task, applies, one_test, task_of
from benchmarks.figures import (
    ROOT,
    Figures,
    ProgressTo,
    Timed,
    checked_names,
    installed,
    mean_error,
    mean_rates,
    memory,
    quietly,
)
from benchmarks.global_ import ALPHA, half_tested, holdout_bed, knockoffs
from butfor import Progress
from butfor.evaluation.progress import reporting
from butfor.types import Bools, Floats

BEDS = ("independent-network", "independent-discontinuous", "boosted-trees")
METHODS = (*TESTS, *(name for name in ATTRIBUTIONS if name != "L2X"))  # L2X is trained, not called
SIZES = (100, 1000)
LIMIT = 20.0  # processor seconds at 100 inputs, above which more are not run
PROMISES = {"osft": "FDR, proven (independent)", "few-shot": "FDR, proven (independent)"}
PACKAGES = ("shap", "lime", "captum", "shapiq", "hidimstat", "knockpy", "scikit-learn", "torch")
RATIOS = (  # bed, theirs, ours, target
    ("independent-network", "LIME", "few-shot", 30),
    ("independent-network", "SHAP permutation", "sequential", 5),
    ("independent-discontinuous", "LIME", "few-shot", 50),
    ("independent-discontinuous", "SHAP permutation", "sequential", 5),
)
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def run(
    runs: int = 10,
    seed: int = 0,
    beds: Sequence[str] = BEDS,
    methods: Sequence[str] = METHODS,
    sizes: tuple[int, ...] = SIZES,
    limit: float = LIMIT,
    progress: ProgressTo = None,
) -> Figures:
    """Measure costs on every bed, ratios at 100 inputs, and the global question over `runs` tables (0: left out).

    A method that takes more than `limit` processor seconds on one size is not run on a larger one.
    """
    beds, methods = checked_names("beds", beds, BEDS), checked_names("methods", methods, METHODS)
    costs: list[Figures] = []
    with reporting(progress) as report:
        for number, bed in enumerate(beds):
            report(Progress(bed, number, len(beds)))
            costs += side_by_side(bed, methods, sizes, seed, limit)
        report(Progress("global question", len(beds), len(beds)))
        tables = global_question(runs, seed) if runs else []
    versions = {name: version for name in PACKAGES if (version := installed(name)) is not None}
    return {"versions": versions, "costs": costs, "ratios": ratios(costs), "global_question": tables}


def side_by_side(
    bed: str, methods: Sequence[str], sizes: Sequence[int], seed: int, limit: float = LIMIT
) -> list[Figures]:
    """Return a row per method and number of inputs; none where a method does not apply."""
    rows: list[Figures] = []
    for name in methods:
        promises = "none" if name in ATTRIBUTIONS else PROMISES.get(name, "FDR, proven")
        for inputs in sizes:
            slow = [row for row in rows if row["method"] == name and row.get("seconds", 0.0) > limit]
            why = [f"not run: {row['inputs']:,} took {row['seconds']:.0f} s" for row in slow]
            cost = {"why": why[0]} if why else in_process(bed, name, inputs, seed)
            if cost.get("applies", True):
                rows.append({"bed": bed, "method": name, "promises": promises, "inputs": inputs, **cost})
    return rows


def in_process(bed: str, name: str, inputs: int, seed: int) -> Figures:
    """Return `measured` from a fresh process with one thread; a reason where it is not installed or fails."""
    if name in ATTRIBUTIONS and installed(ATTRIBUTIONS[name].package) is None:
        return {"why": f"{ATTRIBUTIONS[name].package} is not installed"}
    code = f"from benchmarks.peers import write_cost; write_cost({bed!r}, {name!r}, {inputs}, {seed})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **THREADS})
    if done.returncode:
        return {"why": f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:200]}"}
    cost: Figures = json.loads(done.stdout.splitlines()[-1])
    return cost


def write_cost(bed: str, name: str, inputs: int, seed: int) -> None:
    """Write what `measured` returns as a line of JSON on standard output."""
    sys.stdout.write(json.dumps(measured(task_of(bed, seed, inputs), name)) + "\n")


def measured(task: Task, name: str) -> Figures:
    """Return rows, processor seconds and megabytes beyond what the process used before, after a warm-up on two inputs.

    The warm-up takes imports and compilation out of the figures: they are paid once, not per input.
    """
    if not applies(task, name):
        return {"applies": False}
    with warnings.catch_warnings(action="ignore"):
        _once(replace(task, inputs=task.inputs[:2]), name)
        counted = Timed(task.model)
        before, start = memory(), time.process_time()
        rows = _once(replace(task, model=counted), name)
        seconds = time.process_time() - start
    return {
        "rows": counted.rows or rows,
        "seconds": seconds,
        "megabytes": max(0.0, memory() - before),
        "before": before,
    }


def _once(task: Task, name: str) -> int | None:
    """Run a method; return the rows that a test reports, None where a method reads the model's inside."""
    if name in ATTRIBUTIONS:
        ATTRIBUTIONS[name].score(task)
        return None
    return int(one_test(task, name).rows)


def ratios(costs: Sequence[Figures]) -> list[Figures]:
    """Return processor seconds of theirs over ours on 100 inputs, both from this run, beside the target."""
    spent = {(row["bed"], row["method"]): row.get("seconds") for row in costs if row["inputs"] == SIZES[0]}
    rows = []
    for bed, theirs, ours, target in RATIOS:
        above, below = spent.get((bed, theirs)), spent.get((bed, ours))
        if above is not None and below:
            ratio = above / below
            row = {"bed": bed, "theirs": theirs, "ours": ours, "ratio": ratio, "target": target}
            rows.append({**row, "met": ratio >= target})
    return rows


# The global question

STRENGTH = 0.15
HALF = 500  # rows that a model is fitted on; as many are left for the test
Answer = Callable[[Floats, Floats, int], Bools]  # rows, response, seed -> chosen columns


def conditional_importance(rows: Floats, y: Floats, seed: int) -> Bools:
    """hidimstat's CFI of the same lasso, default settings, BH on its p-values."""
    from hidimstat import CFI

    test = CFI(_lasso(rows, y), random_state=seed)
    test.fit(rows[:HALF], y[:HALF])
    test.importance(rows[HALF:], y[HALF:])
    return np.asarray(test.fdr_selection(fdr=ALPHA) > 0)


def distilled(rows: Floats, y: Floats, seed: int) -> Bools:
    """hidimstat's D0CRT on all rows (it needs none left out), default settings, BH on its p-values."""
    from hidimstat import D0CRT
    from sklearn.linear_model import LassoCV

    test = D0CRT(LassoCV(cv=5), random_state=seed)
    test.fit_importance(rows, y)
    return np.asarray(test.fdr_selection(fdr=ALPHA) != 0)


def model_x(rows: Floats, y: Floats, seed: int, count: int = 2 * HALF) -> Bools:
    """knockpy's Gaussian knockoffs with the lasso statistic."""
    chosen = knockoffs(rows[:count], y[:count], seed)
    assert chosen is not None
    return chosen


def permutation(rows: Floats, y: Floats, seed: int) -> Bools:
    """scikit-learn's permutation importance of the same lasso, by the rule of its example: mean above 2 sd."""
    from sklearn.inspection import permutation_importance

    drop = permutation_importance(_lasso(rows, y), rows[HALF:], y[HALF:], n_repeats=30, random_state=seed)
    return np.asarray(drop.importances_mean - 2 * drop.importances_std > 0)


def _lasso(rows: Floats, y: Floats) -> Any:
    from sklearn.linear_model import LassoCV

    return LassoCV(cv=5).fit(rows[:HALF], y[:HALF])


ANSWERS: dict[str, tuple[Answer, str, str]] = {  # a method, its package, its promise
    "butfor, holdout randomisation": (
        lambda rows, y, seed: half_tested("lasso", rows, y, seed).chosen,
        "butfor",
        "FDR, given Q",
    ),
    "hidimstat CFI": (conditional_importance, "hidimstat", "p-values (t-test), BH"),
    "hidimstat D0CRT, all rows": (distilled, "hidimstat", "p-values, BH"),
    "knockpy, training rows": (partial(model_x, count=HALF), "knockpy", "FDR, given Q"),
    "knockpy, all rows": (model_x, "knockpy", "FDR, given Q"),
    "scikit-learn permutation importance": (permutation, "scikit-learn", "none"),
}


def global_question(runs: int = 10, seed: int = 0) -> list[Figures]:
    """Return FDR, TPR and processor seconds of each method over the same tables: 1,000 rows, 50 columns, 15 true."""
    tables = [holdout_bed(np.random.default_rng([seed, run, 2]), STRENGTH) for run in range(runs)]
    return [_answered(name, tables) for name in ANSWERS]


def _answered(name: str, tables: list[tuple[Floats, Floats, Bools]]) -> Figures:
    answer, package, promises = ANSWERS[name]
    if installed(package) is None:
        return {"method": name, "promises": promises, "why": f"{package} is not installed"}
    pairs, seconds = [], []
    for number, (rows, y, truth) in enumerate(tables):
        start = time.process_time()
        chosen = quietly(answer, rows, y, number)
        seconds.append(time.process_time() - start)
        pairs.append((chosen, truth))
    return {"method": name, "promises": promises, **mean_rates(pairs), "seconds": mean_error(seconds)[0]}
