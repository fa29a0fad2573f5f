"""`butfor bench methods`: what the tests beyond the paper reach beside fixed-K IRT, on beds with known truth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from butfor import ReachWarning, explain, simulate
from butfor.run.progress import Progress, reporting
from butfor._version import __version__
from butfor.bench.output import machine
from butfor.core.draw.blocks import draw, rounds, table_problem
from butfor.core.select.rules import bh
from butfor.core.types import Bools, Floats, Ints, Subset
from butfor.simulate import Bed

FIXED = 10_000
ALPHAS = (0.05, 0.1, 0.2)
SUM_OF_ABS = ("sum-of-abs-independent", "sum-of-abs-correlated", "sparse")
BEDS = ("independent-discontinuous", *SUM_OF_ABS)
FEW_SHOT_BEDS = ("few", "sum-of-abs-correlated", "correlated-discontinuous", "clones")
Row = dict[str, Any]


def run(
    runs: int = 20,
    quick: bool = False,
    seed: int = 0,
    workers: int = 2,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Row:
    """Figures of every bed over `runs` data sets: means with standard errors. `quick`: two data sets, no sparse bed."""
    from joblib import Parallel, delayed, parallel_config

    started = time.perf_counter()
    beds, runs = (BEDS[:-1], 2) if quick else (BEDS, runs)
    tasks = [delayed(one_bed)(name, seed + number) for name in beds for number in range(runs)]
    for name in FEW_SHOT_BEDS:
        tasks += [delayed(one_few_shot)(name, seed + number) for number in range(_few_runs(name, runs))]
    rows: list[Row] = []
    with parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1), reporting(progress) as report:
        for done, found in enumerate(Parallel(return_as="generator_unordered")(tasks), start=1):
            rows += found
            report(Progress("methods", done, len(tasks)))
    return {
        "version": __version__,
        "seed": seed,
        "runs": runs,
        "seconds": time.perf_counter() - started,
        "machine": machine(),
        "cells": summarise(rows),
    }


def _few_runs(name: str, runs: int) -> int:
    """Beds of one input give one or a few discoveries each: they need more data sets for the same precision."""
    return 20 * runs if name in ("few", "clones") else runs


def one_bed(name: str, seed: int) -> list[Row]:
    """Fixed K, sequential and early stop on one data set."""
    warnings.simplefilter("ignore", ReachWarning)
    bed = simulate.bed(name, seed)
    truth = bed.truth.ravel()
    p = fixed_p_values(bed, seed)
    rows: list[Row] = []
    for alpha in ALPHAS:
        fixed = bh(p, alpha)
        rows.append(_row(bed, seed, alpha, "fixed", fixed, truth, FIXED))
        for h in (10, 20):
            found = explain(bed.model, bed.inputs, bed.sampler, h=h, **_common(alpha, seed))
            rows.append(_row(bed, seed, alpha, f"sequential h={h}", found.chosen, truth, found.rows / truth.size))
        if name != "sparse" or alpha == 0.1:
            early = explain(
                bed.model, bed.inputs, bed.sampler, test="irt", draws=FIXED, early_stop=True, **_common(alpha, seed)
            )
            row = _row(bed, seed, alpha, "early stop", early.chosen, truth, early.rows / truth.size)
            rows.append({**row, "same": bool((early.chosen == fixed).all())})
    return rows


def one_few_shot(name: str, seed: int) -> list[Row]:
    """Few-shot with ten draws beside OSFT, on one data set."""
    warnings.simplefilter("ignore", ReachWarning)
    bed = simulate.bed(name, seed)
    truth = bed.truth.ravel()
    rows = []
    for label, options in (("few-shot", {"test": "few-shot", "draws": 10}), ("osft", {"test": "osft"})):
        found = explain(bed.model, bed.inputs, bed.sampler, **options, **_common(0.1, seed))
        rows.append(_row(bed, seed, 0.1, label, found.chosen, truth, found.rows / truth.size))
    return rows


def _common(alpha: float, seed: int) -> dict[str, Any]:
    return {"alternative": "greater", "alpha": alpha, "seed": seed, "keep_effects": False}


def _row(bed: Bed, seed: int, alpha: float, method: str, chosen: Bools, truth: Bools, rows: float) -> Row:
    return {
        "bed": bed.name,
        "seed": seed,
        "alpha": alpha,
        "method": method,
        "fdr": float((chosen & ~truth).sum() / max(chosen.sum(), 1)),
        "tpr": float(chosen[truth].mean()) if truth.any() else float("nan"),
        "rows": float(rows),
    }


def fixed_p_values(bed: Bed, seed: int) -> Floats:
    """p-values of IRT with K = 10,000, on the draws that early stop sees too.

    Where f is a sum of |x_j| a draw exceeds if |x~_j| >= |x_j|: the model need not be asked a thousand million times.
    """
    if bed.name not in SUM_OF_ABS:
        found = explain(bed.model, bed.inputs, bed.sampler, test="irt", draws=FIXED, **_common(0.1, seed))
        return found.evidence.values
    subsets = [Subset(f"x{j}", np.array([j])) for j in range(bed.inputs.shape[1])]
    problem = table_problem(bed.inputs, range(len(bed.inputs)), subsets, bed.sampler, seed)
    hits: Ints = np.zeros(problem.size, np.int64)
    for job in rounds(problem.blocks, FIXED, problem.round_draws):
        size = np.abs(draw(problem, job).values.reshape(-1, job.versions))
        hits[job.rows] += (size[:, 1:] >= size[:, :1]).sum(axis=1)
    return np.asarray((1 + hits) / (FIXED + 1))


def summarise(rows: list[Row]) -> list[Row]:
    """Mean and standard error of every cell (bed, alpha, method); TPR also as the mean difference to fixed K."""
    fixed = {(row["bed"], row["alpha"], row["seed"]): row["tpr"] for row in rows if row["method"] == "fixed"}
    cells: dict[tuple[str, float, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row["bed"], row["alpha"], row["method"]), []).append(row)
    return [_cell(key, members, fixed) for key, members in sorted(cells.items())]


def _cell(key: tuple[str, float, str], members: list[Row], fixed: dict[tuple[str, float, int], float]) -> Row:
    bed, alpha, method = key
    cell: Row = {"bed": bed, "alpha": alpha, "method": method, "runs": len(members)}
    for name in ("fdr", "tpr", "rows"):
        values = np.array([row[name] for row in members])
        values = values[~np.isnan(values)]
        if values.size:
            cell[name] = float(values.mean())
            cell[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else 0.0
    if (bed, alpha, members[0]["seed"]) in fixed:
        cell["tpr_gap"] = float(np.mean([fixed[bed, alpha, row["seed"]] - row["tpr"] for row in members]))
    if "same" in members[0]:
        cell["same"] = float(np.mean([row["same"] for row in members]))
    return cell


def markdown(figures: Row) -> str:
    """The figures as a table."""
    lines = [
        f"butfor {figures['version']}, seed {figures['seed']}, {figures['runs']} data sets per bed "
        f"({figures['seconds']:.0f} s); fixed is IRT with K = {FIXED:,} and BH.",
        "",
        "| bed | alpha | method | FDR (s.e.) | TPR (s.e.) | TPR below fixed | rows per hypothesis | same as fixed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in figures["cells"]:
        tpr = f"{cell['tpr']:.3f} ({cell['tpr_se']:.3f})" if "tpr" in cell else ""
        gap = f"{cell['tpr_gap']:+.3f}" if cell.get("method") != "fixed" and "tpr_gap" in cell else ""
        same = f"{cell['same']:.1%}" if "same" in cell else ""
        fdr = f"{cell['fdr']:.3f} ({cell['fdr_se']:.3f})"
        parts = [cell["bed"], f"{cell['alpha']:g}", cell["method"], fdr, tpr, gap, f"{cell['rows']:,.0f}", same]
        lines.append(f"| {' | '.join(parts)} |")
    return "\n".join(lines) + "\n"
