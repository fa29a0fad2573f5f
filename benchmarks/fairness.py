"""Whether the colour that was planted in a classifier of faces is named, and nothing else: examples/fairness.py."""

from __future__ import annotations

import runpy
import time
from typing import Any

import numpy as np

from benchmarks.figures import ROOT, Figures
from butfor.evaluation.progress import Report


def run(*, seed: int = 0, trainings: int = 50, progress: Report | bool | None = None) -> Figures:  # noqa: ARG001
    """Train classifiers whose bias is known; count those of which just the planted colour is named."""
    example: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "fairness.py"))
    rows = []
    for k in range(trainings):
        planted, started = example["PARTS"][k % 3], time.process_time()
        found = example["audit"](1000 * (seed + 1) + k, planted)
        moved = found.result.table.groupby("subset").moves.mean()
        rows.append(
            {
                "planted": planted,
                "named": found.named,
                "share of faces it moves": float(moved[planted]),
                "largest share of another": float(moved.drop(planted).max()),
                "right as in training": found.alike,
                "right elsewhere": found.mixed,
                "seconds": round(time.process_time() - started, 1),
            }
        )
    just = [row["named"] == [row["planted"]] for row in rows]
    return {
        "trainings": trainings,
        "planted is named": float(np.mean([row["planted"] in row["named"] for row in rows])),
        "nothing else is": float(np.mean([set(row["named"]) <= {row["planted"]} for row in rows])),
        "just the planted is named": float(np.mean(just)),
        "each": rows,
    }
