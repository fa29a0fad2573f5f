"""Every null true and the sampler fitted: how often the default call chooses anything, on columns of all kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.figures import Figures, correlated, quietly
from butfor import explain
from butfor.streams import stream
from butfor.types import Array, Batch, Floats

ALPHA, WIDTH = 0.1, 6
Distribution = Callable[[np.random.Generator, int], Any]
WEIGHTS = np.array([1.0, -0.5, 0.8, 0.0, 0.3, 0.0])


def run(
    runs: int = 100,
    references: tuple[int, ...] = (30, 100, 300, 1000),
    inputs: tuple[int, ...] = (50,),
    tests: tuple[str, ...] = ("sequential",),
    distributions: tuple[str, ...] = (),
    seed: int = 0,
) -> Figures:
    """Count the runs with a discovery for every distribution, size of the reference, number of inputs and test."""
    cells = [
        _cell(distribution, rows, count, test, runs, seed)
        for distribution in (distributions or tuple(DISTRIBUTIONS))
        for rows in references
        for count in inputs
        for test in tests
    ]
    return {"cells": cells}


def _cell(distribution: str, rows: int, count: int, test: str, runs: int, seed: int) -> Figures:
    counts: dict[str, int] = {"chosen": 0, "finer": 0, "features": 0, "control": 0, "not_calibrated": 0, "subsets": 0}
    at: Counter[int] = Counter()  # runs with a feature at a resolution: the promise is by resolution
    for number in range(seed, seed + runs):
        rng = stream(number, "nulls", distribution, rows)
        model = MODELS[number % len(MODELS)]
        reference, inputs = DISTRIBUTIONS[distribution](rng, rows), DISTRIBUTIONS[distribution](rng, count)
        result = quietly(explain, model, inputs, reference, test=test, alpha=ALPHA, seed=number)
        features = result.features
        counts["chosen"] += bool(result.chosen.any())
        counts["finer"] += bool(result.table.chosen[result.table.resolution > 0].any())
        counts["features"] += bool(features.chosen.any())
        at.update(set(features.resolution[features.chosen].tolist()))
        if result.control is not None:
            counts["control"] += bool(result.control.chosen.any())
            if result.control.calibrated is not None:
                counts["not_calibrated"] += int((~result.control.calibrated).sum())
                counts["subsets"] += len(features)
    return {
        "distribution": distribution,
        "reference": rows,
        "inputs": count,
        "test": test,
        "runs": runs,
        **counts,
        "features_at": dict(at),
    }


def _numbers(rows: Batch) -> Floats:
    """Columns as numbers: categories by their codes."""
    if isinstance(rows, np.ndarray):
        return rows
    codes = [rows[name].cat.codes if str(rows[name].dtype) == "category" else rows[name] for name in rows]
    return np.column_stack([np.asarray(column, np.float64) for column in codes])


MODELS: tuple[Callable[[Any], Floats], ...] = (
    lambda rows: _numbers(rows) @ WEIGHTS,
    lambda rows: _numbers(rows).max(axis=1),
    lambda rows: 1 / (1 + np.exp(-np.clip((_numbers(rows) - 1) @ WEIGHTS, -30, 30))),
)


def _independent(draw: Callable[[np.random.Generator, tuple[int, int]], Array]) -> Distribution:
    return lambda rng, rows: np.asarray(draw(rng, (rows, WIDTH)), np.float64)


def _nonlinear(rng: np.random.Generator, rows: int) -> Floats:
    values = rng.standard_normal((rows, WIDTH))
    values[:, 1] = values[:, 0] ** 2 + 0.5 * values[:, 1]
    values[:, 3] = np.sin(2 * values[:, 2]) + 0.3 * values[:, 3]
    return values


def _heteroscedastic(rng: np.random.Generator, rows: int) -> Floats:
    values = rng.standard_normal((rows, WIDTH))
    values[:, 1] *= np.exp(0.7 * values[:, 0])
    values[:, 3] = values[:, 2] + 0.5 * np.abs(values[:, 2]) * values[:, 3]
    return values


def _mixed(rng: np.random.Generator, rows: int) -> Batch:
    import pandas as pd

    size = rng.standard_normal(rows)
    return pd.DataFrame(
        {
            "size": size,
            "count": rng.poisson(np.exp(1 + 0.4 * size)),
            "yes": (rng.random(rows) < 1 / (1 + np.exp(-size))).astype(int),
            "kind": pd.Categorical(rng.choice(["a", "b", "c"], rows, p=[0.6, 0.3, 0.1]), ["a", "b", "c"]),
            "skewed": np.exp(0.5 * size + 0.4 * rng.standard_normal(rows)),
            "other": rng.standard_t(5, rows),
        }
    )


def _outliers(rng: np.random.Generator, rows: int) -> Floats:
    """One row in twenty has errors of ten standard deviations."""
    values = correlated(rng, rows, WIDTH, 0.6)
    bad = rng.random((rows, 1)) < 0.05
    return np.asarray(np.where(bad, values + 10 * rng.standard_normal(values.shape), values))


def _two_kinds(rng: np.random.Generator, rows: int) -> Floats:
    """Two populations that columns tell apart, of other spread and correlation."""
    one, two = correlated(rng, rows, WIDTH, 0.8), 3 + 0.3 * correlated(rng, rows, WIDTH, 0.0)
    return np.where(rng.random((rows, 1)) < 0.7, one, two)


DISTRIBUTIONS: dict[str, Distribution] = {
    "t10": _independent(lambda rng, shape: rng.standard_t(10, shape)),
    "Poisson(5)": _independent(lambda rng, shape: rng.poisson(5, shape)),
    "gamma(5)": _independent(lambda rng, shape: rng.gamma(5, size=shape)),
    "logistic": _independent(lambda rng, shape: rng.logistic(size=shape)),
    "lognormal(.5)": _independent(lambda rng, shape: np.exp(0.5 * rng.standard_normal(shape))),
    "AR(.9)": lambda rng, rows: correlated(rng, rows, WIDTH, 0.9),
    "nonlinear": _nonlinear,
    "heteroscedastic": _heteroscedastic,
    "mixed types": _mixed,
    "outliers": _outliers,
    "two populations": _two_kinds,
}
