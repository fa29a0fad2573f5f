"""Tests beyond the paper (sequential, early stop, few-shot) beside IRT with 10,000 draws: FDR, TPR and rows."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

from benchmarks.figures import Figures, ProgressTo, each, means, rates
from butfor import ReachWarning, Result, explain, few_shot, irt, osft, sequential, simulate
from butfor.evaluation.hypotheses import draw, rounds, table_hypotheses
from butfor.evaluation.items import TableItems
from butfor.inference.selection import bh
from butfor.settings import Procedure
from butfor.simulate import Bed
from butfor.types import Bools, Floats, Ints, Subset

FIXED = 10_000
ALPHAS = (0.05, 0.1, 0.2)
SUM_OF_ABS = ("sum-of-abs-independent", "sum-of-abs-correlated", "sparse")
BEDS = ("independent-discontinuous", *SUM_OF_ABS)
FEW_SHOT_BEDS = ("few", "sum-of-abs-correlated", "correlated-discontinuous", "clones")


def run(runs: int = 20, seed: int = 0, workers: int = 2, progress: ProgressTo = None) -> Figures:
    """Measure every bed over `runs` data sets: means with standard errors.

    Beds of one input give one or a few discoveries each: they need more data sets for the same precision.
    """
    more = {"few": 20 * runs, "clones": 20 * runs}
    tasks = [partial(one_bed, name, seed + number) for name in BEDS for number in range(runs)]
    tasks += [partial(one_few_shot, name, seed + k) for name in FEW_SHOT_BEDS for k in range(more.get(name, runs))]
    return {"cells": summarise(each(tasks, workers, "methods", progress))}


def one_bed(name: str, seed: int) -> list[Figures]:
    """Fixed K, sequential and early stop on one data set."""
    bed = simulate.bed(name, seed)
    p = fixed_p_values(bed, seed)
    rows: list[Figures] = []
    for alpha in ALPHAS:
        fixed = bh(p, alpha)
        rows.append(_row(bed, seed, alpha, "fixed", fixed, FIXED))
        for h in (10, 20):
            result = _explained(bed, sequential(h), alpha, seed)
            rows.append(_row(bed, seed, alpha, f"sequential h={h}", result.chosen, result.rows / p.size))
        if name != "sparse" or alpha == 0.1:
            early = _explained(bed, irt(FIXED, early_stop=True), alpha, seed)
            row = _row(bed, seed, alpha, "early stop", early.chosen, early.rows / p.size)
            rows.append({**row, "same": bool((early.chosen == fixed).all())})
    return rows


def one_few_shot(name: str, seed: int) -> list[Figures]:
    """Few-shot with ten draws beside OSFT, on one data set."""
    bed = simulate.bed(name, seed)
    result = {test.name: _explained(bed, test, 0.1, seed) for test in (few_shot(10), osft())}
    return [_row(bed, seed, 0.1, name, one.chosen, one.rows / bed.truth.size) for name, one in result.items()]


def _explained(bed: Bed, test: Procedure, alpha: float, seed: int) -> Result:
    settings: Figures = {"test": test, "alternative": "greater", "alpha": alpha, "seed": seed, "effects": None}
    with warnings.catch_warnings(action="ignore", category=ReachWarning):
        return explain(bed.model, bed.inputs, bed.sampler, **settings)


def _row(bed: Bed, seed: int, alpha: float, method: str, chosen: Bools, rows: float) -> Figures:
    row: Figures = {"bed": bed.name, "seed": seed, "alpha": alpha, "method": method, "rows": float(rows)}
    result = rates(chosen, bed.truth.ravel())
    return {**row, **(result if bed.truth.any() else {"fdr": result["fdr"]})}


def fixed_p_values(bed: Bed, seed: int) -> Floats:
    """p-values of IRT with K = 10,000, on the draws that early stop sees too.

    Where f is a sum of |x_j| a draw exceeds if |x~_j| >= |x_j|: the model need not be asked a thousand million times.
    """
    if bed.name not in SUM_OF_ABS:
        return _explained(bed, irt(FIXED), 0.1, seed).evidence.values
    subsets = [Subset(f"x{j}", np.array([j])) for j in range(bed.inputs.shape[1])]
    hypotheses = table_hypotheses(TableItems(bed.inputs), range(len(bed.inputs)), subsets, bed.sampler, seed)
    hits: Ints = np.zeros(hypotheses.size, np.int64)
    for job in rounds(hypotheses.blocks, FIXED, hypotheses.round_draws):
        size = np.abs(draw(hypotheses, job).values.reshape(-1, job.versions))
        hits[job.rows] += (size[:, 1:] >= size[:, :1]).sum(axis=1)
    return np.asarray((1 + hits) / (FIXED + 1))


def summarise(rows: list[Figures]) -> list[Figures]:
    """Mean and standard error of every cell (bed, alpha, method); TPR also as the mean difference to fixed K."""
    members: dict[tuple[str, float, str], list[Figures]] = {}
    for row in rows:
        members.setdefault((row["bed"], row["alpha"], row["method"]), []).append(row)
    cells = [_cell(members[key]) for key in sorted(members)]
    fixed = {(cell["bed"], cell["alpha"]): cell["tpr"] for cell in cells if cell["method"] == "fixed"}
    for cell in cells:
        if (cell["bed"], cell["alpha"]) in fixed:
            cell["tpr_gap"] = fixed[cell["bed"], cell["alpha"]] - cell["tpr"]
    return cells


def _cell(rows: list[Figures]) -> Figures:
    cell: Figures = {name: rows[0][name] for name in ("bed", "alpha", "method")} | {"runs": len(rows)}
    cell |= means(rows, [name for name in ("fdr", "tpr", "rows") if name in rows[0]])
    if "same" in rows[0]:
        cell["same"] = float(np.mean([row["same"] for row in rows]))
    return cell
