"""What butfor itself costs: its time beside the model's own, its first result, its memory on a million hypotheses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from butfor import ReachWarning, explain, tabular
from butfor.bench import overhead
from butfor.bench.output import Figures, about, listed
from butfor.bench.timed import peak
from butfor.simulate.samplers import normal
from butfor.types import ModelError

MEMORY_INPUTS, MEMORY_WIDTH = 10_000, 100  # a million hypotheses
MEMORY_TARGET = 1.5e9  # bytes
FIRST_TARGET, FIRST_RUNS = 0.7, 3  # processor seconds, fresh processes
FIRST: dict[str, str] = {
    "as it is": "",
    "control=False": ", control=False",
    "control=False, effects=None": ", control=False, effects=None",
}
FIRST_CODE = """
import time, warnings
import numpy as np
warnings.simplefilter("ignore")
import butfor
rng = np.random.default_rng(0)
X, reference = rng.normal(size=(10, 10)) + 3.0 * (np.arange(10) < 2), rng.normal(size=(300, 10))
result = butfor.explain(lambda rows: rows[:, 0] + rows[:, 1], X, reference{options})
print(time.process_time(), result.rows, len(result.table))
"""


def run(seed: int = 0, assets: Path | None = None) -> Figures:
    """Ratios to bare model calls, seconds to a first result, and peak memory, each beside its target."""
    folder = assets or (Path(os.environ["BUTFOR_ASSETS"]) if "BUTFOR_ASSETS" in os.environ else None)
    images = None if folder is None else folder / "image" if (folder / "image").is_dir() else folder
    about_it = about(seed, draws=overhead.DRAWS, repeats=overhead.REPEATS)
    return {**about_it, "overhead": overhead.ratios(seed, images), "first": first_results(), "memory": memory()}


def first_results() -> list[Figures]:
    """Processor seconds of a fresh process from its start to a result on 10 rows of 10 columns, the least of a few.

    A first process, which is not counted, compiles the modules, as an installation does.
    """
    with TemporaryDirectory() as folder:
        found = {name: [_first(options, folder) for _ in range(1 + FIRST_RUNS)][1:] for name, options in FIRST.items()}
    return [
        {
            "call": name,
            "seconds": min(one[0] for one in runs),
            "most": max(one[0] for one in runs),
            "rows": int(runs[0][1]),
            "hypotheses": int(runs[0][2]),
            "target": FIRST_TARGET,
            "met": min(one[0] for one in runs) <= FIRST_TARGET,
        }
        for name, runs in found.items()
    ]


def _first(options: str, compiled: str) -> list[float]:
    """Processor seconds, model rows and hypotheses of one fresh process, with one thread."""
    own = {"PYTHONPYCACHEPREFIX": compiled, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return _numbers("first result", FIRST_CODE.format(options=options), kept | own)


def _numbers(what: str, code: str, environment: dict[str, str] | None = None) -> list[float]:
    """What a fresh process prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise ModelError(f"the {what} run failed: {done.stderr.strip().splitlines()[-1:]}")
    return list(map(float, done.stdout.split()))


def memory() -> Figures:
    """Peak resident memory of a fresh process that runs OSFT on a million hypotheses, in bytes."""
    code = "from butfor.bench.speed import one_shot_peak; print(*one_shot_peak())"
    before, most, seconds = _numbers("memory", code)
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
    header = "model | test | rows | calls | run s | bare s | ratio | inside | target | met"
    line = "{model} | {test} | {rows:,} | {calls:,} | {seconds:.3f} | {bare_seconds:.3f} | "
    line += "{ratio:.2f} ({least:.2f} to {most:.2f}) | {inside:.2f} | {target:g} | {met}"
    first = "{call} | {hypotheses} | {rows:,} | {seconds:.2f} (to {most:.2f}) | {target:g} | {met}"
    used = figures["memory"]
    lines = [
        "# Speed and memory",
        "",
        f"butfor {figures['version']}, seed {figures['seed']}, {figures['machine']['processor']}, one thread.",
        f"Processor time of a run (one-sided, without effects; irt with {figures['draws']} draws) over that of bare",
        f"calls of the model on the very same batches; median of {figures['repeats']} repeats (one for images), and",
        "their range. `inside` is the run over the model's time within the run, when its rows are in the cache.",
        "",
        *listed(header, line, _marked(figures["overhead"])),
        "",
        "Processor seconds of a fresh process from its start to the result of `explain(model, X, reference)` on 10",
        "rows of 10 columns (300 reference rows), all resolutions:",
        "",
        *listed("call | hypotheses | model rows | seconds | target | met", first, _marked(figures["first"])),
        "",
        f"Memory: OSFT on {used['hypotheses']:,} hypotheses peaked at {used['peak_bytes'] / 1e9:.2f} GB resident",
        f"({used['before_bytes'] / 1e9:.2f} GB before it began) in {used['seconds']:.1f} s; target below",
        f"{used['target_bytes'] / 1e9:g} GB, {'met' if used['met'] else '**not met**'}.",
        "",
    ]
    return "\n".join(lines)


def _marked(rows: list[Figures]) -> list[Figures]:
    return [{**row, "met": "yes" if row["met"] else "**no**"} for row in rows]
