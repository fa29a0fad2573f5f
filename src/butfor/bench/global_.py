"""Global decisions on beds with known truth: error rates and power, with standard errors."""

from __future__ import annotations

import time
import warnings

import numpy as np

from butfor import GlobalResult, global_importance, simulate
from butfor.bench.global_fitted import fitted, fitted_markdown, gaussian_knockoffs
from butfor.bench.output import Figures, about, table
from butfor.bench.runs import mean_error, mean_rates, shown
from butfor.results.global_result import BLIND, ORDINARY
from butfor.simulate.models import sum_of_abs
from butfor.tabular import gaussian
from butfor.types import Bools, Floats

Found = list[tuple[Bools, Bools]]  # what was chosen in each run, and what is true
ALPHA = 0.1
LEVELS = (0.01, 0.05, 0.1, 0.2)
RIVALS = (
    "lasso",
    "ridge",
    "knockoffs",
    "knockoffs with all rows",
    "our knockoffs",
    "our knockoffs with all rows",
)


def run(runs: int = 40, seed: int = 0) -> Figures:
    """All measurements, with version and seed."""
    start = time.perf_counter()
    figures = {"contrast": contrast(runs, seed), "holdout": holdout(runs, seed), "fitted": fitted(runs, seed)}
    return {**about(seed, runs=runs, seconds=time.perf_counter() - start), **figures}


def markdown(figures: Figures) -> str:
    """The figures as tables."""
    own = figures["contrast"]["population"]
    lines = [
        f"butfor {figures['version']}, seed {figures['seed']}, {figures['runs']} data sets, alpha {ALPHA:g} "
        f"({figures['seconds']:.0f} s). Standard errors in brackets.",
        "",
        "Contrast with a foil, the bed of METHODS 7:",
        "",
        *table(["draws", "FDR", "TPR"], [[k, *_shown(cell)] for k, cell in figures["contrast"]["draws"].items()]),
        "",
        f"With a sampler of the inputs' own population nothing is chosen in {own['runs'] - own['chose']} of "
        f"{own['runs']} data sets; {own['said that a population sampler is blind']} say that it can find nothing.",
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
                [name, *(shown(cell["share"], cell["se"]) for cell in cells.values())]
                for name, cells in figures["holdout"]["null p"].items()
            ],
        ),
        "",
        *fitted_markdown(figures["fitted"]),
    ]
    return "\n".join(lines) + "\n"


def _shown(cell: dict[str, float] | str) -> list[str]:
    if isinstance(cell, str):
        return [cell, ""]
    return [shown(cell[name], cell[f"{name}_se"]) for name in ("fdr", "tpr")]


def contrast(runs: int = 40, seed: int = 0, draws: tuple[int, ...] = (1, 5, 20)) -> Figures:
    """FDR and TPR of the contrast on the bed of METHODS 7 per number of draws, and what a population sampler says."""
    found: dict[int, Found] = {k: [] for k in draws}
    for run in range(runs):
        bed = simulate.bed("global-contrast", 1000 * seed + run)
        truth = np.asarray(bed.truth.any(axis=0))
        for k in draws:
            result = global_importance(
                bed.model, bed.inputs, reference=bed.sampler, alternative="greater", alpha=ALPHA, draws=k, seed=run
            )
            found[k].append((result.chosen, truth))
    cells = {str(k): mean_rates(pairs) for k, pairs in found.items()}
    return {"alpha": ALPHA, "runs": runs, "draws": cells, "population": population(runs, seed)}


def population(runs: int, seed: int) -> Figures:
    """Contrast with a sampler of the population that the inputs come from: how often it says that it finds nothing."""
    results = []
    for run in range(runs):
        rows = correlated(np.random.default_rng([seed, run, 1]), 2100, 20)
        results.append(
            global_importance(sum_of_abs, rows[2000:], reference=gaussian(rows[:2000]), alpha=ALPHA, seed=run)
        )
    return {
        "sentence": ORDINARY,
        "said": sum(ORDINARY in one.notes for one in results),
        "said that a population sampler is blind": sum(any(BLIND in note for note in one.notes) for one in results),
        "chose": sum(bool(one.chosen.any()) for one in results),
        "runs": runs,
    }


def correlated(rng: np.random.Generator, count: int, width: int, rho: float = 0.5) -> Floats:
    """Rows of a stationary normal chain: neighbouring columns correlate by `rho`."""
    noise = rng.standard_normal((count, width))
    rows = noise.copy()
    for column in range(1, width):
        rows[:, column] = rho * rows[:, column - 1] + np.sqrt(1 - rho**2) * noise[:, column]
    return rows


def holdout(runs: int = 40, seed: int = 0, strength: float = 0.15) -> Figures:
    """The holdout randomisation test beside model-X knockoffs with the same training rows.

    50 correlated normal features, 15 of them with weight +-`strength` in a linear response with noise of variance 1;
    500 training rows fit a model and the sampler, 500 held-out rows test. A lasso is what the knockoffs use too; a
    ridge uses every feature, so that no null p-value is 1 for want of use.
    """
    found: dict[str, Found] = {name: [] for name in RIVALS}
    nulls: dict[str, list[Floats]] = {"lasso": [], "ridge": []}
    for run in range(runs):
        rows, y, truth = holdout_bed(np.random.default_rng([seed, run, 2]), strength)
        for name, p in nulls.items():
            result = half_tested(name, rows, y, run)
            found[name].append((result.chosen, truth))
            p.append(result.evidence.p[~truth])
        for name, count in (("knockoffs", 500), ("knockoffs with all rows", 1000)):
            chosen = knockoffs(rows[:count], y[:count], run)
            found[name] += [] if chosen is None else [(chosen, truth)]
            own = gaussian_knockoffs(rows[:count], y[:count], np.random.default_rng([seed, run, 3]))
            found[f"our {name}"].append((own, truth))
    missing = "skipped: knockpy is not installed"
    return {
        "alpha": ALPHA,
        "runs": runs,
        **{name: mean_rates(pairs) if pairs else missing for name, pairs in found.items()},
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
    return global_importance(model, rows[500:], reference=rows[:500], y=y[500:], alpha=ALPHA, seed=seed, check=False)


def knockoffs(rows: Floats, y: Floats, seed: int) -> Bools | None:
    """What model-X knockoffs with the lasso statistic choose, None where knockpy is not installed."""
    try:
        from knockpy.knockoff_filter import KnockoffFilter  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    np.random.seed(seed)  # noqa: NPY002 - knockpy draws from the global generator
    with warnings.catch_warnings(action="ignore"):
        chosen = KnockoffFilter(ksampler="gaussian", fstat="lasso").forward(X=rows, y=y, fdr=ALPHA)
    return np.asarray(chosen).astype(bool)


def share(nulls: list[Floats], level: float) -> dict[str, float]:
    """Share of null p-values at or below a level; the standard error is over runs, within which they may depend."""
    mean, error = mean_error([float((p <= level).mean()) for p in nulls])
    return {"share": mean, "se": error}
