"""butfor's own tests on a task: what each of them chooses at a row of levels, and at one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from butfor import ReachWarning, Result, explain, few_shot, irt, osft, sequential
from butfor.bench.peers.task import Task
from butfor.evaluation.samplers import DrawsColumns, Sampler
from butfor.settings import Procedure
from butfor.tabular import from_values
from butfor.types import Alternative, Bools

ALPHAS = (0.05, 0.1, 0.2, 0.4)
ALTERNATIVES: tuple[Alternative, ...] = ("greater", "two-sided")
ALPHA = 0.1  # of the default call
TESTS: dict[str, Callable[[], Procedure | None]] = {
    "irt": partial(irt, 100),  # the paper's K
    "osft": osft,
    "sequential": sequential,
    "few-shot": few_shot,
    "exact": lambda: None,  # where Q is a list nothing is left to draw; trees are read where no test is asked for
}
FIXED = ("irt", "osft")  # their evidence does not hang on alpha: one run serves all levels


def chosen_at(task: Task, name: str, alternative: Alternative) -> Bools:
    """(levels, n, d): what the test chooses at each of ALPHAS."""
    if name in FIXED:
        result = one(task, name, alternative, ALPHAS[-1])
        found = [result.select(alpha=alpha).chosen for alpha in ALPHAS]
    else:
        found = [one(task, name, alternative, alpha).chosen for alpha in ALPHAS]
    return np.stack(found).reshape(len(ALPHAS), *task.inputs.shape)


def one(task: Task, name: str, alternative: Alternative = "two-sided", alpha: float = ALPHA) -> Result:
    """One run of a test, without effects."""
    test, sampler = TESTS[name](), task.sampler if name == "exact" else drawing(task)
    settings = {"test": test, "alternative": alternative, "alpha": alpha, "seed": task.seed, "effects": None}
    model = task.trees if name == "exact" and task.trees is not None else task.model
    with warnings.catch_warnings(action="ignore", category=ReachWarning):
        return explain(model, task.inputs, sampler, **settings)


def drawing(task: Task) -> Sampler:
    """The task's sampler, as one that draws even where it could list."""
    if task.listed and isinstance(task.sampler, DrawsColumns):
        return from_values(task.sampler.values)
    return task.sampler
