"""What butfor itself costs: its time beside the model's own, and its memory on a million hypotheses."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from functools import partial

import numpy as np

from butfor import ReachWarning, explain, irt, simulate, tabular
from butfor.bench.output import Figures, about, listed
from butfor.bench.timed import Timed, peak
from butfor.core.types import ModelError
from butfor.simulate.samplers import normal

REPEATS = 5
DRAWS = 100
# bed, rows of a model call, target: the wall time of explain over the time spent inside the model
OVERHEAD: tuple[tuple[str, int, float], ...] = (
    ("independent-discontinuous", 1_000, 1.35),
    ("independent-network", 10_000, 1.15),
)
MEMORY_INPUTS, MEMORY_WIDTH = 10_000, 100  # a million hypotheses
MEMORY_TARGET = 1.5e9  # bytes


def run(seed: int = 0) -> Figures:
    """Overhead on two beds and peak memory, each beside its target."""
    measured = [overhead(name, batch_rows, target, seed) for name, batch_rows, target in OVERHEAD]
    return {**about(seed, draws=DRAWS, repeats=REPEATS), "overhead": measured, "memory": memory()}


def overhead(name: str, batch_rows: int, target: float, seed: int = 0) -> Figures:
    """Wall time of `explain` over the time inside the model: the same rows in the same calls, one BLAS thread.

    One warm-up, then the median of the ratios of the repeats.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    bed = simulate.bed(name, seed)
    with threadpool_limits(1), warnings.catch_warnings(action="ignore", category=ReachWarning):
        timed = [_timed(bed, batch_rows, seed) for _ in range(REPEATS + 1)][1:]
    ratios = [wall / inside for wall, inside in timed]
    middle = int(np.argsort(ratios)[REPEATS // 2])
    return {
        "bed": name,
        "hypotheses": int(bed.truth.size),
        "batch_rows": batch_rows,
        "wall_seconds": timed[middle][0],
        "model_seconds": timed[middle][1],
        "overhead": ratios[middle],
        "repeats": ratios,
        "target": target,
        "met": ratios[middle] <= target,
    }


def _timed(bed: simulate.Bed, batch_rows: int, seed: int) -> tuple[float, float]:
    """Seconds of one run in all, and inside the model."""
    model = Timed(bed.model)
    settings = {"test": irt(DRAWS), "alternative": "greater", "batch_rows": batch_rows, "effects": None, "seed": seed}
    start = time.perf_counter()
    explain(model, bed.inputs, bed.sampler, **settings)
    return time.perf_counter() - start, model.seconds


def memory() -> Figures:
    """Peak resident memory of a fresh process that runs OSFT on a million hypotheses, in bytes."""
    code = "from butfor.bench.speed import one_shot_peak; print(*one_shot_peak())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ModelError(f"the memory run failed: {done.stderr.strip().splitlines()[-1:]}")
    before, most, seconds = map(float, done.stdout.split())
    return {
        "hypotheses": MEMORY_INPUTS * MEMORY_WIDTH,
        "peak_bytes": int(most),
        "before_bytes": int(before),
        "seconds": seconds,
        "target_bytes": int(MEMORY_TARGET),
        "met": most < MEMORY_TARGET,
    }


def one_shot_peak() -> tuple[float, float, float]:
    """Peak bytes of this process before and after OSFT on 10,000 inputs with 100 features, and its seconds."""
    inputs = np.random.default_rng(0).standard_normal((MEMORY_INPUTS, MEMORY_WIDTH))
    before, start = peak(), time.perf_counter()
    with warnings.catch_warnings(action="ignore", category=ReachWarning):
        # A cheap model, without memory of its own.
        explain(partial(np.sum, axis=1), inputs, tabular.from_values(normal), test="osft", alternative="greater")
    return before * 2**20, peak() * 2**20, time.perf_counter() - start


def markdown(figures: Figures) -> str:
    """The figures for people."""
    header = "bed | hypotheses | batch rows | wall s | model s | overhead | target | met"
    line = "{bed} | {hypotheses:,} | {batch_rows:,} | {wall_seconds:.3f} | {model_seconds:.3f} | "
    line += "{overhead:.2f} ({least:.2f} to {most:.2f}) | {target:g} | {met}"
    rows = [
        {**row, "least": min(row["repeats"]), "most": max(row["repeats"]), "met": "yes" if row["met"] else "**no**"}
        for row in figures["overhead"]
    ]
    used = figures["memory"]
    lines = [
        "# Speed and memory",
        "",
        f"butfor {figures['version']}, seed {figures['seed']}, {figures['machine']['processor']}, one BLAS thread.",
        f"Overhead: wall time of IRT with {figures['draws']} draws, one-sided, without effects, over the time inside",
        f"the model in the same run; median of {figures['repeats']} repeats after one warm-up, and their range.",
        "",
        *listed(header, line, rows),
        "",
        f"Memory: OSFT on {used['hypotheses']:,} hypotheses peaked at {used['peak_bytes'] / 1e9:.2f} GB resident",
        f"({used['before_bytes'] / 1e9:.2f} GB before it began) in {used['seconds']:.1f} s; target below",
        f"{used['target_bytes'] / 1e9:g} GB, {'met' if used['met'] else '**not met**'}.",
        "",
    ]
    return "\n".join(lines)
