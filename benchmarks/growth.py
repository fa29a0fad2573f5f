"""How the cost of a run grows: log-log slopes of processor time over hypotheses, inputs, features and draws."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.figures import Figures, slope
from butfor import explain, few_shot, irt, tabular
from butfor.core.draw.samplers import Sampler
from butfor.core.draw.streams import stream
from butfor.core.types import Floats
from butfor.simulate.models import sum_of_abs
from butfor.simulate.samplers import normal

WIDTH = 10  # columns, where they are not what grows
HYPOTHESES = (10**3, 10**4, 10**5, 10**6)
INPUTS, FEATURES, DRAWS = (100, 1_000, 10_000), (10, 30, 100, 300), (30, 100, 300, 1_000)
REFERENCE = 500  # rows of the copula's reference
SHARE = 0.1  # of values that are signals
LOW, HIGH = 0.9, 1.1  # between which slopes over hypotheses should lie
REPEATED = 10**4  # hypotheses up to which a run is timed three times
TESTS: dict[str, Any] = {"osft": "osft", "few-shot": few_shot(10), "irt": irt(20), "sequential": "sequential"}


@dataclass(frozen=True, eq=False)
class Course:
    """What grows, by which sizes, and what a run of each size is."""

    over: str
    test: str
    sampler: str
    sizes: Sequence[int]
    run: Callable[[int], tuple[Floats, Sampler, Any]]  # a size -> inputs, sampler, test


def run(seed: int = 0, most: int = HYPOTHESES[-1]) -> Figures:
    """Every course with runs of at most so many hypotheses, one BLAS thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        return {"courses": [followed(course, seed) for course in courses(seed, most)]}


def courses(seed: int, most: int) -> list[Course]:
    """Hypotheses for every test, with a free sampler and with the copula; the rest for irt."""
    samplers: dict[str, Callable[[int], Sampler]] = {
        "normal": lambda _: tabular.from_values(normal),
        "copula": lambda width: tabular.copula(stream(seed, "reference").standard_normal((REFERENCE, width))),
    }

    def of(sampler: str, test: Any) -> Callable[[int], tuple[Floats, Sampler, Any]]:
        return lambda size: (inputs(size // WIDTH, WIDTH, seed), samplers[sampler](WIDTH), test)

    sizes = [size for size in HYPOTHESES if size <= most]
    over = [Course("hypotheses", name, by, sizes, of(by, test)) for by in samplers for name, test in TESTS.items()]
    free, test = samplers["normal"], TESTS["irt"]
    few = [size for size in INPUTS if size * WIDTH <= most]
    wide = [size for size in FEATURES if size * 100 <= most]
    return [
        *over,
        Course("inputs", "irt", "normal", few, lambda size: (inputs(size, WIDTH, seed), free(WIDTH), test)),
        Course("features", "irt", "normal", wide, lambda size: (inputs(100, size, seed), free(size), test)),
        Course("draws", "irt", "normal", DRAWS, lambda size: (inputs(100, WIDTH, seed), free(WIDTH), irt(size))),
    ]


def inputs(count: int, width: int, seed: int) -> Floats:
    """Rows of independent normals, a few of their values moved to 4."""
    rng = stream(seed, "growth", count, width)
    return np.asarray(rng.standard_normal((count, width)) + 4.0 * (rng.random((count, width)) < SHARE))


def followed(course: Course, seed: int) -> Figures:
    """Processor seconds and model rows of every size, and the slopes: of all sizes, and of the last two.

    What a run takes before it has begun, that is on a single input, is taken off before the slope is measured: it
    would hide growth at small sizes, and make a slope of less than 1 of a straight line.
    """
    smallest, *others = course.run(course.sizes[0])
    start = timed(smallest[:1], others[0], others[1], seed)[0] if course.over in ("hypotheses", "inputs") else 0.0
    found = [timed(*course.run(size), seed) for size in course.sizes]
    seconds = [one[0] for one in found]
    net = [max(taken - start, 1e-4) for taken in seconds]
    return {
        "over": course.over,
        "test": course.test,
        "sampler": course.sampler,
        "sizes": list(course.sizes),
        "start": start,
        "seconds": seconds,
        "rows": [one[1] for one in found],
        "slope": slope(course.sizes, net),
        "last": slope(course.sizes[-2:], net[-2:]),
        "met": LOW <= slope(course.sizes, net) <= HIGH if course.over == "hypotheses" else None,
    }


def timed(rows: Floats, sampler: Sampler, test: Any, seed: int) -> tuple[float, int]:
    """Processor seconds of one run, the least of three where it is short, and the rows of the model."""
    taken = []
    for _ in range(3 if rows.size <= REPEATED else 1):
        start = time.process_time()
        result = explain(
            sum_of_abs, rows, sampler, test=test, alternative="greater", effects=None, control=False, seed=seed
        )
        taken.append(time.process_time() - start)
    return min(taken), result.rows
