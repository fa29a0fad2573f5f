"""Global decisions on beds with known truth: error rates and power, with standard errors."""

from __future__ import annotations

import importlib
import time
import warnings
from typing import Any

import numpy as np

from butfor import simulate
from butfor.tabular.global_importance import global_importance
from butfor._version import __version__
from butfor.bench.output import machine, table
from butfor.core.result.global_result import BLIND, ORDINARY, GlobalResult
from butfor.core.types import Bools, Floats
from butfor.simulate.models import sum_of_abs
from butfor.tabular import gaussian

ALPHA = 0.1
LEVELS = (0.01, 0.05, 0.1, 0.2)


def run(runs: int = 40, seed: int = 0) -> dict[str, Any]:
    """Both measurements, with version and seed."""
    start = time.perf_counter()
    figures: dict[str, Any] = {"contrast": contrast(runs, seed), "holdout": holdout(runs, seed)}
    spent = time.perf_counter() - start
    return {"version": __version__, "seed": seed, "runs": runs, "seconds": spent, "machine": machine(), **figures}


def markdown(figures: dict[str, Any]) -> str:
    """The figures as two tables."""
    told = figures["contrast"]["population"]
    lines = [
        f"butfor {figures['version']}, seed {figures['seed']}, {figures['runs']} data sets, alpha {ALPHA:g} "
        f"({figures['seconds']:.0f} s). Standard errors in brackets.",
        "",
        "Contrast with a foil, the bed of METHODS 7:",
        "",
        *table(["draws", "FDR", "TPR"], [[k, *_shown(cell)] for k, cell in figures["contrast"]["draws"].items()]),
        "",
        f"With a sampler of the inputs' own population nothing is chosen in {told['runs'] - told['chose']} of "
        f"{told['runs']} data sets; {told['said that a population sampler is blind']} say that it can find nothing.",
        "",
        "Holdout randomisation test, 50 correlated features, 500 training and 500 held-out rows:",
        "",
        *table(["method", "FDR", "TPR"], [[name, *_shown(figures["holdout"][name])] for name in RIVALS]),
        "",
        "Share of null p-values at or below a level:",
        "",
        *table(
            ["model", *map(str, LEVELS)],
            [
                [name, *(f"{cell['share']:.3f} ({cell['se']:.3f})" for cell in cells.values())]
                for name, cells in figures["holdout"]["null p"].items()
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


RIVALS = ("lasso", "ridge", "knockoffs", "knockoffs with all rows")


def _shown(cell: dict[str, float] | str) -> list[str]:
    if isinstance(cell, str):
        return [cell, ""]
    return [f"{cell[name]:.3f} ({cell[f'{name}_se']:.3f})" for name in ("fdr", "tpr")]


def contrast(runs: int = 40, seed: int = 0, draws: tuple[int, ...] = (1, 5, 20)) -> dict[str, Any]:
    """FDR and TPR of the contrast on the bed of METHODS 7 per number of draws, and what a population sampler says.

    >>> sorted(contrast(runs=2, draws=(1,)))
    ['alpha', 'draws', 'population', 'runs']
    """
    found: dict[int, list[tuple[Bools, Bools]]] = {k: [] for k in draws}
    for run in range(runs):
        bed = simulate.bed("global-contrast", 1000 * seed + run)
        for k in draws:
            options: dict[str, Any] = {"alternative": "greater", "alpha": ALPHA, "draws": k, "seed": run}
            result = global_importance(bed.model, bed.inputs, bed.sampler, **options)
            found[k].append((result.chosen, np.asarray(bed.truth.any(axis=0))))
    return {
        "alpha": ALPHA,
        "runs": runs,
        "draws": {str(k): paired(pairs) for k, pairs in found.items()},
        "population": population(runs, seed),
    }


def paired(pairs: list[tuple[Bools, Bools]]) -> dict[str, float]:
    """FDR and TPR over runs, each its own choice and truth, with their standard errors."""
    fdp = [float((chosen & ~truth).sum()) / max(1, int(chosen.sum())) for chosen, truth in pairs]
    tpp = [float((chosen & truth).sum()) / int(truth.sum()) for chosen, truth in pairs]
    return {"fdr": mean(fdp), "fdr_se": error(fdp), "tpr": mean(tpp), "tpr_se": error(tpp)}


def mean(values: list[float]) -> float:
    return float(np.mean(values))


def error(values: list[float]) -> float:
    """Standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def population(runs: int, seed: int) -> dict[str, Any]:
    """Contrast with a sampler of the population that the inputs come from: how often it says that it finds nothing."""
    said = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, 1])
        rows = correlated(rng, 2100, 20)
        said.append(global_importance(sum_of_abs, rows[2000:], gaussian(rows[:2000]), alpha=ALPHA, seed=run))
    return {
        "sentence": ORDINARY,
        "said": sum(ORDINARY in one.notes for one in said),
        "said that a population sampler is blind": sum(any(BLIND in note for note in one.notes) for one in said),
        "chose": sum(bool(one.chosen.any()) for one in said),
        "runs": runs,
    }


def correlated(rng: np.random.Generator, count: int, width: int, rho: float = 0.5) -> Floats:
    """Rows of a stationary normal chain: neighbouring columns correlate by `rho`."""
    noise = rng.standard_normal((count, width))
    rows = noise.copy()
    for column in range(1, width):
        rows[:, column] = rho * rows[:, column - 1] + np.sqrt(1 - rho**2) * noise[:, column]
    return rows


def holdout(runs: int = 40, seed: int = 0, strength: float = 0.15) -> dict[str, Any]:
    """The holdout randomisation test beside model-X knockoffs with the same training rows.

    50 correlated normal features, 15 of them with weight +-`strength` in a linear response with noise of variance 1;
    500 training rows fit a model and the sampler, 500 held-out rows test. A lasso is what the knockoffs use too; a
    ridge uses every feature, so that no null p-value is 1 for want of use.
    """
    found: dict[str, list[tuple[GlobalResult, Bools]]] = {"lasso": [], "ridge": []}
    rivals: dict[str, list[tuple[Bools, Bools]]] = {"knockoffs": [], "knockoffs with all rows": []}
    for run in range(runs):
        rows, y, truth = holdout_bed(np.random.default_rng([seed, run, 2]), strength)
        for name in found:
            found[name].append((half_tested(name, rows, y, run), truth))
        for name, count in (("knockoffs", 500), ("knockoffs with all rows", 1000)):
            chosen = knockoffs(rows[:count], y[:count], run)
            rivals[name] += [] if chosen is None else [(chosen, truth)]
    nulls = {name: [result.evidence.p[~truth] for result, truth in pairs] for name, pairs in found.items()}
    return {
        "alpha": ALPHA,
        "runs": runs,
        **{name: paired([(result.chosen, truth) for result, truth in pairs]) for name, pairs in found.items()},
        **{name: paired(pairs) if pairs else "skipped: knockpy is not installed" for name, pairs in rivals.items()},
        "null p": {name: {str(u): share(ps, u) for u in LEVELS} for name, ps in nulls.items()},
    }


def holdout_bed(rng: np.random.Generator, strength: float) -> tuple[Floats, Floats, Bools]:
    """1,000 rows x 50 features, the response, and which features it depends on."""
    rows, truth = correlated(rng, 1000, 50), np.zeros(50, bool)
    truth[rng.choice(50, 15, replace=False)] = True
    weights = np.where(truth, strength * rng.choice([-1.0, 1.0], 50), 0.0)
    return rows, rows @ weights + rng.standard_normal(1000), truth


def half_tested(name: str, rows: Floats, y: Floats, seed: int) -> GlobalResult:
    """A linear model of the first half of the rows, tested on the second."""
    from sklearn.linear_model import LassoCV, RidgeCV

    model = LassoCV(cv=5) if name == "lasso" else RidgeCV(alphas=(1.0, 10.0, 100.0))
    model.fit(rows[:500], y[:500])
    return global_importance(model, rows[500:], gaussian(rows[:500]), y[500:], alpha=ALPHA, seed=seed)


def knockoffs(rows: Floats, y: Floats, seed: int) -> Bools | None:
    """What model-X knockoffs with the lasso statistic choose, None where knockpy is not installed."""
    try:
        knockpy = importlib.import_module("knockpy.knockoff_filter")
    except ImportError:
        return None
    np.random.seed(seed)  # noqa: NPY002 - knockpy draws from the global generator
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = knockpy.KnockoffFilter(ksampler="gaussian", fstat="lasso").forward(X=rows, y=y, fdr=ALPHA)
    return np.asarray(chosen).astype(bool)


def share(nulls: list[Floats], level: float) -> dict[str, float]:
    """Share of null p-values at or below a level; the standard error is over runs, within which they may depend."""
    each = [float((p <= level).mean()) for p in nulls]
    return {"share": mean(each), "se": error(each)}
