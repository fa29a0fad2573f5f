"""Samplers of tables: false discoveries where the truth is known, and how fast they fit and draw."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.figures import Figures, mean_rates
from butfor import ReachWarning, explain, tabular
from butfor.core.draw.streams import stream
from butfor.core.types import Floats, Subset
from butfor.simulate.known import linear_gaussian

SAMPLERS: dict[str, Callable[[Floats], Any]] = {
    "gaussian": tabular.gaussian,
    "copula": tabular.copula,
    "copula, extended": partial(tabular.copula, beyond="extend"),
    "forest": tabular.forest,
    "neighbours": tabular.neighbours,
    "empirical": tabular.empirical,
}
ALPHA, REFERENCE = 0.1, 1_000
SHIFTS = (3.0, 5.0)  # of a fifth of the entries, in standard deviations: within the reference, and beyond it
SPEEDS = {"gaussian": 100, "copula": 100, "forest": 30}  # columns
ASKED = {"gaussian": 5e6, "copula": 5e6, "forest": 2e5}


def run(runs: int = 20, seed: int = 0) -> Figures:
    """FDR and TPR of every sampler on correlated tables, values drawn per second of one core, seconds of a fit."""
    return {
        "discoveries": {
            f"{name}, shift {shift:g}": _discoveries(make, runs, seed, shift)
            for shift in SHIFTS
            for name, make in SAMPLERS.items()
        },
        "draws_per_second": {name: _speed(name, columns, seed) for name, columns in SPEEDS.items()},
        "gaussian_fit_seconds": {str(rows): _fit(rows, 2_000, seed) for rows in (500, 5_000)},
    }


def _discoveries(make: Callable[[Floats], Any], runs: int, seed: int, shift: float) -> dict[str, float]:
    """The linear bed: 20 correlated columns, a fifth of the entries shifted, every other column without a weight."""
    found = []
    for number in range(seed, seed + runs):
        data = linear_gaussian("linear", number, shift=shift)
        width = data.inputs.shape[1]
        covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(width), np.arange(width)))
        rows = stream(number, "tables", "reference").standard_normal((REFERENCE, width))
        sampler = make(rows @ np.linalg.cholesky(covariance).T)
        with warnings.catch_warnings(action="ignore", category=ReachWarning):
            chosen = explain(data.model, data.inputs, sampler, alpha=ALPHA, seed=number, effects=None).chosen
        found.append((chosen, data.truth.ravel()))
    cell, false = mean_rates(found), float(np.mean([(chosen & ~truth).sum() for chosen, truth in found]))
    return {"fdr": cell["fdr"], "fdr_error": cell["fdr_se"], "tpr": cell["tpr"], "false": false}


def _speed(name: str, columns: int, seed: int) -> float:
    """Values drawn per second of processor time, for single columns and blocks of 100 inputs with 1,000 draws."""
    rng = stream(seed, "tables", "speed")
    rows = _correlated(1_000, columns, rng)
    sampler, inputs = SAMPLERS[name](rows), rows[:100]
    subsets = [Subset(f"x{j}", np.array([j])) for j in range(5)]
    for subset in subsets:
        sampler.values(inputs, subset, 1, rng)  # forests are grown when they are first asked for
    start = process_time()
    drawn = sum(sampler.values(inputs, subset, 1_000, rng).size for _ in range(4) for subset in subsets)
    return float(drawn / (process_time() - start))


def _fit(rows: int, columns: int, seed: int) -> float:
    data = _correlated(rows, columns, stream(seed, "tables", "fit"))
    start = process_time()
    tabular.gaussian(data)
    return process_time() - start


def _correlated(rows: int, columns: int, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.standard_normal((rows, 1)) + rng.standard_normal((rows, columns)))
