"""Inputs with known shifts: false discoveries and power of the default call at every resolution.

Four groups of three columns. The first of a group is drawn by itself, the others from it. Where the first is shifted,
the others still follow from it as in the reference: a subset is null unless it contains a shifted column.
Beside the default sampler: the true conditional, where it is a normal one, and samplers that are not the default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.figures import Figures, quietly, rates
from butfor import Result, explain
from butfor.simulate.tables import known_normal
from butfor.streams import stream
from butfor.tabular import copula, gaussian, neighbours, residual
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import Table
from butfor.types import Array, Bools, Floats, Subset

ALPHA, INPUTS, GROUPS, SHIFT = 0.1, 60, 4, 3.0
Model = Callable[[Any], Floats]


def table(rng: np.random.Generator, rows: int, kind: str, shifted: Bools | None = None) -> Floats:
    """Rows of 12 columns; `shifted` (rows, 4) says whose first column is drawn from elsewhere."""
    first = rng.standard_normal((rows, GROUPS))
    if shifted is not None:
        first = first + SHIFT * shifted
    made = np.repeat(first, 3, axis=1)
    noise = rng.standard_normal(made.shape)
    noise[:, ::3] = 0.0
    made = np.where(np.arange(12) % 3 == 0, made, 0.9 * made + 0.44 * noise)
    if kind == "skewed":
        return np.asarray(np.exp(0.4 * made))
    if kind == "counts":
        made[:, 1::3] = np.floor(np.exp(0.5 * made[:, 1::3]) * 2 + rng.random((rows, GROUPS)))
    if kind == "categories":
        made[:, 2::3] = np.digitize(made[:, 2::3] + 0.5 * noise[:, 2::3], [-0.5, 0.7])
    return np.asarray(made)


MODELS: dict[str, Model] = {
    "linear": lambda x: np.asarray(x).sum(axis=1),
    "saturated": lambda x: 1 / (1 + np.exp(-(np.asarray(x)[:, :6].sum(axis=1) - 2))),
    "interaction": lambda x: np.asarray(x)[:, 0] * np.asarray(x)[:, 4] + np.asarray(x)[:, 6],
    "largest": lambda x: np.asarray(x).max(axis=1),
}
KINDS = ("plain", "skewed", "counts", "categories")
SAMPLERS: dict[str, Callable[[Floats, str], TableSampler]] = {
    "residual": lambda reference, _: residual(reference),
    "true": lambda reference, kind: true_sampler(reference, kind),
    "gaussian": lambda reference, _: gaussian(reference),
    "copula": lambda reference, _: copula(reference),
    "neighbours": lambda reference, _: neighbours(reference),
}
NORMAL = ("plain", "skewed")  # kinds whose true conditional is normal
WITHIN = np.full((3, 3), 0.81) + np.diag([0.19, 0.1936, 0.1936])  # covariance of a group
WITHIN[0, 1:] = WITHIN[1:, 0] = 0.9
BESIDE = ("linear", "interaction")  # the models on which the other samplers are tried


@dataclass(frozen=True, eq=False)
class TrueConditional:
    """The conditional of plain columns, or of their exponentials."""

    normal: Gaussian
    skewed: bool
    takes_missing: bool = False
    calibrated: bool = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns."""
        if not self.skewed:
            return self.normal.values(inputs, subset, draws, rng)
        return np.asarray(np.exp(0.4 * self.normal.values(np.log(inputs) / 0.4, subset, draws, rng)))


def true_sampler(reference: Floats | Table, kind: str) -> TableSampler:
    """The true conditional, with the reference for the tree of columns and the control."""
    fitted = residual(reference.values if isinstance(reference, Table) else reference)
    true = TrueConditional(known_normal(np.kron(np.eye(GROUPS), WITHIN)), kind == "skewed")
    return replace(fitted, conditional=true, name="true", refit=lambda rows: true_sampler(rows, kind))


def run(runs: int = 20, seed: int = 0, references: tuple[int, ...] = (200, 1000)) -> Figures:
    """FDR and TPR at every resolution, by kind of columns, model and sampler."""
    cells = [
        cell(kind, model, rows, runs, seed, name)
        for name in SAMPLERS
        for rows in references
        for kind in (NORMAL if name == "true" else KINDS)
        for model in (MODELS if name == "residual" else BESIDE)
    ]
    return {"cells": cells}


def cell(kind: str, model: str, rows: int, runs: int, seed: int, sampler: str = "residual") -> Figures:
    """One kind of columns, one model, one size of the reference, one sampler."""
    results = [one_run(kind, model, rows, number, sampler) for number in range(seed, seed + runs)]
    fdp = np.array([one[0] for one in results])
    return {
        "sampler": sampler,
        "kind": kind,
        "model": model,
        "reference": rows,
        "runs": runs,
        "fdr": [round(float(x), 3) for x in fdp.mean(axis=0)],
        "worst_se": round(float((fdp.std(axis=0, ddof=1) / np.sqrt(max(runs, 1))).max()), 3) if runs > 1 else None,
        "features": round(float(np.mean([one[1] for one in results])), 3),
        "inputs_below_root": round(float(np.mean([one[2] for one in results])), 3),
        "tpr": round(float(np.mean([one[3] for one in results])), 3),
    }


def one_run(
    kind: str, model: str, rows: int, seed: int, sampler: str = "residual"
) -> tuple[Floats, float, float, float]:
    """False discovery proportions by resolution and of the features; inputs answered, and TPR, below the root."""
    rng = stream(seed, "shifted", kind, rows)
    shifted = np.zeros((INPUTS, GROUPS), bool)
    shifted[: INPUTS // 2, 0] = shifted[INPUTS // 4 :, 1] = True
    reference, inputs = table(rng, rows, kind), table(rng, INPUTS, kind, shifted)
    made = quietly(SAMPLERS[sampler], reference, kind)
    result = quietly(explain, MODELS[model], inputs, made, subsets="zoom", alpha=ALPHA, seed=seed)
    null = _null(result, shifted)
    resolution = result.table.resolution.to_numpy()
    fdp = [rates(result.chosen & (np.minimum(resolution, 4) == level), ~null)["fdr"] for level in range(5)]
    of_features = np.array([null[result.subset_of == j].all() for j in range(len(result.features))])
    features = rates(result.features.chosen.to_numpy(), ~of_features)["fdr"]
    below = resolution > 0
    answered = len(np.unique(result.input_of[result.chosen & below])) / INPUTS
    return np.array(fdp), features, answered, rates(result.chosen & below, ~null & below)["tpr"]


def _null(result: Result, shifted: Bools) -> Bools:
    """Which hypotheses are true nulls (H,): their subset holds no column that was drawn from elsewhere."""
    index = {block.subset.name: np.asarray(block.subset.index) for block in result.hypotheses.blocks}
    firsts = [[g for g in range(GROUPS) if 3 * g in index[name]] for name in result.subset_names]
    pairs = zip(result.input_of, result.subset_of, strict=True)
    return np.array([not shifted[i, firsts[j]].any() for i, j in pairs])
