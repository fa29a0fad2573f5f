"""Exact tests of tree ensembles beside SHAP's TreeExplainer and the sequential test: processor time and memory."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figures, installed, memory, slope
from butfor import explain, tabular
from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import Hypotheses, table_hypotheses
from butfor.evaluation.progress import Meter
from butfor.inference.statistics import Rounding, StatisticSpec, Target
from butfor.models.trees import readable
from butfor.run.tests import known_outcomes
from butfor.streams import stream
from butfor.tabular.exact_trees import read_trees
from butfor.tabular.explain import default_batch_rows
from butfor.tabular.splice import TableSampler, bind_sampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, items_of
from butfor.types import Floats

WIDTH, REFERENCE, TRAINING = 30, 1_000, 5_000
INPUTS, TREES = (100, 1_000, 10_000), (100, 500)
SHORT, REPEATED = 0.5, 5  # seconds below which a run is timed so many times, the least counts
MOST_PAIRS = {"interventional": 1_000_000, "sequential": 1_000_000}  # inputs x trees: beyond it is not waited for
FITTED = "whole, sampler fitted"
WAYS = ("alone", "whole", FITTED, "path-dependent", "interventional", "sequential")


@dataclass(frozen=True, eq=False)
class TreeTask:
    """A fitted model, inputs, a reference and the sampler of it."""

    model: Any
    inputs: Floats
    reference: Floats
    sampler: TableSampler


def run(seed: int = 0, most: int = INPUTS[-1]) -> Figures:
    """Every cell of at most so many inputs, one thread; SHAP only where it is installed."""
    import sklearn.ensemble  # noqa: F401 - a library that is loaded later is not held to one thread
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        cells = [cell(task, trees) for trees in TREES for task in tasks(trees, seed, most)]
    slopes = {f"{trees} trees": _slopes([one for one in cells if one["trees"] == trees]) for trees in TREES}
    return {"shap": installed("shap"), "cells": cells, "slopes": slopes}


def tasks(trees: int, seed: int, most: int) -> list[TreeTask]:
    """One model of so many trees, and inputs of every size."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = stream(seed, "trees", trees)
    rows = rng.standard_normal((TRAINING, WIDTH))
    score = rows[:, 0] + rows[:, 1] * rows[:, 2] + 0.5 * rows[:, 3:10].sum(axis=1)
    labels = score + rng.standard_normal(TRAINING) > 0
    model = HistGradientBoostingClassifier(max_iter=trees, early_stopping=False, random_state=0).fit(rows, labels)
    reference = rng.standard_normal((REFERENCE, WIDTH))
    sampler = tabular.residual(reference)
    sizes = [size for size in INPUTS if size <= most]
    return [TreeTask(model, rng.standard_normal((size, WIDTH)) + 0.3, reference, sampler) for size in sizes]


def cell(task: TreeTask, trees: int) -> Figures:
    """Processor seconds of every way to ask about the same inputs, and the memory of ours."""
    size = len(task.inputs)
    whole = partial(explain, task.model, task.inputs, subsets="columns", control=False)
    whole(task.sampler)  # what is fitted once is fitted
    ways: dict[str, Callable[[], object]] = {
        "alone": partial(alone, task),
        "whole": partial(whole, task.reference),
        FITTED: partial(whole, task.sampler),
        "sequential": partial(whole, task.sampler, exact=False),
    }
    if find_spec("shap") is not None:
        attributed(replace(task, inputs=task.inputs[:1]), None)  # imported before it is timed
        ways["path-dependent"] = partial(attributed, task, None)
        ways["interventional"] = partial(attributed, task, task.reference)
    seconds = {way: timed(run) if size * trees <= MOST_PAIRS.get(way, np.inf) else None for way, run in ways.items()}
    row: Figures = {"inputs": size, "trees": trees, "seconds": seconds, "megabytes": grown(ways[FITTED])}
    for above, below in (("path-dependent", "alone"), ("path-dependent", FITTED), ("sequential", "alone")):
        over, under = seconds.get(above), seconds[below]
        row[f"{above} / {below}"] = None if over is None or under is None else over / under
    return row


def grown(run: Callable[[], object]) -> float | None:
    """Return the megabytes that a call takes beyond what the process has before; None where /proc does not say."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the largest size so far
    except OSError:
        return None
    before = memory("VmRSS")
    run()
    return memory() - before


def alone(task: TreeTask) -> Floats:
    """The p-values (n, columns) and nothing else: the trees are read and checked, every column is tested."""
    table, sampler = bind_sampler(task.inputs, task.sampler)
    hypotheses = table_hypotheses(items_of(table), table.index, column_subsets(table, None), sampler, 0)
    values = np.ones(hypotheses.size)
    for part in _tested(task.model, hypotheses, table):
        values[part.rows] = part.values
    return values.reshape(len(task.inputs), -1)


def _tested(model: Any, hypotheses: Hypotheses, table: Table) -> Any:
    trees = readable(model)
    assert trees is not None
    outputs, size = model.predict_proba(table.values), default_batch_rows(table)
    read = read_trees(trees, hypotheses, table, None, size, model.predict_proba, outputs)
    assert read.outcomes is not None
    rounding = Rounding(64 * float(np.finfo(np.float64).eps), 0.0)
    spec = StatisticSpec(Target("predicted"), rounding, "greater", class_of_each=True)
    evaluator = Evaluator(model.predict_proba, size, outputs.shape[1], Meter(lambda _: None, 0))
    return known_outcomes(hypotheses, evaluator, spec, read.outcomes.split(hypotheses)[0], read.outcomes)


def attributed(task: TreeTask, background: Floats | None) -> object:
    """SHAP values of all inputs: by the trees' own counts, or against rows of a background."""
    import shap

    kind = "tree_path_dependent" if background is None else "interventional"
    explainer = shap.TreeExplainer(task.model, background, feature_perturbation=kind)
    return explainer.shap_values(task.inputs, check_additivity=False)


def timed(run: Callable[[], object]) -> float:
    """Processor seconds, the least of some where they are few."""
    taken: list[float] = []
    while not taken or (len(taken) < REPEATED and taken[0] < SHORT):
        start = time.process_time()
        run()
        taken.append(time.process_time() - start)
    return min(taken)


def _slopes(cells: list[Figures]) -> Figures:
    """Over inputs; None where there are fewer than two sizes."""
    values: Figures = {}
    for way in WAYS:
        known = [(one["inputs"], one["seconds"][way]) for one in cells if one["seconds"].get(way) is not None]
        values[way] = slope(*zip(*known, strict=True)) if len(known) > 1 else None
    return values
