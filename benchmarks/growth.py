"""How the cost of a run grows: log-log slopes of processor time over hypotheses, inputs, features and draws."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.figures import Figures, slope
from butfor import InputError, explain, few_shot, irt, tabular
from butfor.evaluation.samplers import Sampler
from butfor.simulate.network import sum_of_abs
from butfor.simulate.tables import normal
from butfor.streams import stream
from butfor.types import Floats

WIDTH = 10  # columns, where they are not what grows
HYPOTHESES = (10**3, 10**4, 10**5, 10**6)
INPUTS, FEATURES, DRAWS = (100, 1_000, 10_000), (10, 30, 100, 300), (30, 100, 300, 1_000)
REFERENCE = 500  # rows of the copula's reference
SHARE = 0.1  # of values that are signals
LOW, HIGH = 0.9, 1.1  # between which slopes over hypotheses should lie
REPEATED = 10**4  # hypotheses up to which a run is timed three times
TESTS: dict[str, Any] = {"osft": "osft", "few-shot": few_shot(10), "irt": irt(20), "sequential": "sequential"}


Size = Callable[[int], tuple[Floats, Sampler, Any]]  # a size -> inputs, sampler, test


def run(seed: int = 0, most: int = HYPOTHESES[-1]) -> Figures:
    """Time runs of at most `most` hypotheses, one BLAS thread: hypotheses for every test, the rest for irt."""
    from threadpoolctl import threadpool_limits

    if most < HYPOTHESES[1]:
        raise InputError(f"most must be at least {HYPOTHESES[1]}, got {most}")
    samplers: dict[str, Callable[[int], Sampler]] = {
        "normal": lambda _: tabular.from_values(normal),
        "copula": lambda width: tabular.copula(stream(seed, "reference").standard_normal((REFERENCE, width))),
    }
    free, test = samplers["normal"], TESTS["irt"]

    def sized(sampler: str, test: Any) -> Size:
        return lambda size: (inputs(size // WIDTH, WIDTH, seed), samplers[sampler](WIDTH), test)

    cases: list[tuple[str, str, str, list[int], Size]] = [
        ("hypotheses", name, sampler, [size for size in HYPOTHESES if size <= most], sized(sampler, test))
        for sampler in samplers
        for name, test in TESTS.items()
    ]
    few, wide = ([size for size in sizes if size * by <= most] for sizes, by in ((INPUTS, WIDTH), (FEATURES, 100)))
    cases += [
        ("inputs", "irt", "normal", few, lambda size: (inputs(size, WIDTH, seed), free(WIDTH), test)),
        ("features", "irt", "normal", wide, lambda size: (inputs(100, size, seed), free(size), test)),
        ("draws", "irt", "normal", list(DRAWS), lambda size: (inputs(100, WIDTH, seed), free(WIDTH), irt(size))),
    ]
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        return {"growth": [measured(*case, seed=seed) for case in cases]}


def inputs(count: int, width: int, seed: int) -> Floats:
    """Return rows of independent normals, some of their values moved by 4."""
    rng = stream(seed, "growth", count, width)
    return np.asarray(rng.standard_normal((count, width)) + 4.0 * (rng.random((count, width)) < SHARE))


def measured(over: str, test: str, sampler: str, sizes: list[int], sized: Size, *, seed: int) -> Figures:
    """Return processor seconds and model rows of every size, and the slopes: of all sizes, and of the last two.

    The time of a run on a single input is subtracted before the slope is measured: it would hide growth at small
    sizes, and make a slope of less than 1 of a straight line.
    """
    smallest, *others = sized(sizes[0])
    start = timed(smallest[:1], others[0], others[1], seed)[0] if over in ("hypotheses", "inputs") else 0.0
    seconds, rows = zip(*(timed(*sized(size), seed) for size in sizes), strict=True)
    net = [max(one - start, 1e-4) for one in seconds]
    row: Figures = {
        "over": over,
        "test": test,
        "sampler": sampler,
        "sizes": sizes,
        "start": start,
        "seconds": list(seconds),
    }
    row |= {"rows": list(rows), "slope": slope(sizes, net), "last": slope(sizes[-2:], net[-2:])}
    return {**row, "met": LOW <= row["slope"] <= HIGH if over == "hypotheses" else None}


def timed(rows: Floats, sampler: Sampler, test: Any, seed: int) -> tuple[float, int]:
    """Return processor seconds of one run, the least of three where it is short, and the rows of the model."""
    taken = []
    for _ in range(3 if rows.size <= REPEATED else 1):
        start = time.process_time()
        options: Figures = {"test": test, "alternative": "greater", "effects": None, "control": False, "seed": seed}
        result = explain(sum_of_abs, rows, sampler, **options)
        taken.append(time.process_time() - start)
    return min(taken), result.rows
