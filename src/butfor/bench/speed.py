"""What butfor itself costs: its time beside the model's own, and its memory on a million hypotheses."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from butfor import simulate, tabular
from butfor.tabular.explain import explain
from butfor._version import __version__
from butfor.bench.output import machine, table
from butfor.core.types import Batch, Floats, Model, ModelError, ReachWarning
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


def run(seed: int = 0) -> dict[str, Any]:
    """Overhead on two beds and peak memory, each beside its target."""
    return {
        "version": __version__,
        "seed": seed,
        "draws": DRAWS,
        "repeats": REPEATS,
        "machine": machine(),
        "overhead": [overhead(name, batch_rows, target, seed) for name, batch_rows, target in OVERHEAD],
        "memory": memory(),
    }


def overhead(name: str, batch_rows: int, target: float, seed: int = 0) -> dict[str, Any]:
    """Wall time of `explain` over the time inside the model: the same rows in the same calls, one BLAS thread.

    One warm-up, then the median of the ratios of the repeats.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    bed = simulate.bed(name, seed)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachWarning)
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


class Stopwatch:
    """A model that adds up the time spent inside it."""

    def __init__(self, model: Model) -> None:
        self.model, self.seconds = model, 0.0

    def __call__(self, batch: Batch) -> Any:
        start = time.perf_counter()
        outputs = self.model(batch)
        self.seconds += time.perf_counter() - start
        return outputs


def _timed(bed: simulate.Bed, batch_rows: int, seed: int) -> tuple[float, float]:
    """Seconds of one run in all, and inside the model."""
    watch = Stopwatch(bed.model)
    start = time.perf_counter()
    explain(
        watch,
        bed.inputs,
        bed.sampler,
        test="irt",
        draws=DRAWS,
        alternative="greater",
        batch_rows=batch_rows,
        keep_effects=False,
        seed=seed,
    )
    return time.perf_counter() - start, watch.seconds


def memory() -> dict[str, Any]:
    """Peak resident memory of a fresh process that runs OSFT on a million hypotheses, in bytes."""
    code = "from butfor.bench.speed import one_shot_peak; print(*one_shot_peak())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ModelError(f"the memory run failed: {done.stderr.strip().splitlines()[-1:]}")
    before, peak, seconds = map(float, done.stdout.split())
    return {
        "hypotheses": MEMORY_INPUTS * MEMORY_WIDTH,
        "peak_bytes": int(peak),
        "before_bytes": int(before),
        "seconds": seconds,
        "target_bytes": int(MEMORY_TARGET),
        "met": peak < MEMORY_TARGET,
    }


def one_shot_peak() -> tuple[float, float, float]:
    """Peak bytes of this process before and after OSFT on 10,000 inputs with 100 features, and its seconds."""
    inputs = np.random.default_rng(0).standard_normal((MEMORY_INPUTS, MEMORY_WIDTH))
    before, start = _peak(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReachWarning)
        explain(_last_feature_counts_twice, inputs, tabular.from_values(normal), test="osft", alternative="greater")
    return before, _peak(), time.perf_counter() - start


def _last_feature_counts_twice(rows: Batch) -> Floats:
    return np.asarray(rows.sum(axis=1) + rows[:, -1])  # cheap, and without memory of its own


def _peak() -> float:
    """Peak resident bytes of this process.

    From /proc where there is one: Linux hands `ru_maxrss` of the parent on to a child, which may be larger.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return 1024.0 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    except OSError:
        import resource

        largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(largest if sys.platform == "darwin" else 1024 * largest)


def markdown(figures: dict[str, Any]) -> str:
    """The figures for people."""
    rows = [
        [
            one["bed"],
            f"{one['hypotheses']:,}",
            f"{one['batch_rows']:,}",
            f"{one['wall_seconds']:.3f}",
            f"{one['model_seconds']:.3f}",
            f"{one['overhead']:.2f} ({min(one['repeats']):.2f} to {max(one['repeats']):.2f})",
            f"{one['target']:g}",
            "yes" if one["met"] else "**no**",
        ]
        for one in figures["overhead"]
    ]
    used = figures["memory"]
    lines = [
        "# Speed and memory",
        "",
        f"butfor {figures['version']}, seed {figures['seed']}, {figures['machine']['processor']}, one BLAS thread.",
        f"Overhead: wall time of IRT with {figures['draws']} draws, one-sided, without effects, over the time inside",
        f"the model in the same run; median of {figures['repeats']} repeats after one warm-up, and their range.",
        "",
        *table(["bed", "hypotheses", "batch rows", "wall s", "model s", "overhead", "target", "met"], rows),
        "",
        f"Memory: OSFT on {used['hypotheses']:,} hypotheses peaked at {used['peak_bytes'] / 1e9:.2f} GB resident",
        f"({used['before_bytes'] / 1e9:.2f} GB before it began) in {used['seconds']:.1f} s; target below",
        f"{used['target_bytes'] / 1e9:g} GB, {'met' if used['met'] else '**not met**'}.",
        "",
    ]
    return "\n".join(lines)
