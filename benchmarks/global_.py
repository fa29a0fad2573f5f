"""One decision per feature: the contrast with a foil, and the holdout randomisation test beside model-X knockoffs.

With a known conditional distribution, and with a sampler that is fitted on few rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from benchmarks.figures import Figures, correlated, mean_error, mean_rates, quietly
from butfor import Result, global_importance, simulate
from butfor.simulate.network import sum_of_abs
from butfor.tabular import gaussian
from butfor.types import Array, Bools, Floats

Pairs = list[tuple[Bools, Bools]]  # what was chosen in each run, and what is true
ALPHA, WIDTH = 0.1, 10
LEVELS = (0.01, 0.05, 0.1, 0.2)


def run(runs: int = 40, seed: int = 0) -> Figures:
    """Measure FDR and TPR over `runs` data sets a cell, with standard errors."""
    return {
        "contrast": contrast(runs, seed),
        "population": [population(runs, seed)],
        **holdout(runs, seed),
        "contrast_fitted": [contrast_fitted(runs, seed, *cell) for cell in CONTRASTS],
        "holdout_fitted": [holdout_fitted(runs, seed, name, model) for name in ROWS for model in LEARNERS[name]],
    }


# Known conditional distributions


def contrast(runs: int = 40, seed: int = 0, draws: tuple[int, ...] = (1, 5, 20)) -> list[Figures]:
    """Return FDR and TPR of the contrast on the bed of METHODS 7 per number of draws."""
    pairs: dict[int, Pairs] = {k: [] for k in draws}
    for run in range(runs):
        bed = simulate.bed("global-contrast", 1000 * seed + run)
        truth = np.asarray(bed.truth.any(axis=0))
        for k in draws:
            options: Figures = {"alternative": "greater", "alpha": ALPHA, "draws": k, "seed": run}
            pairs[k].append((global_importance(bed.model, bed.inputs, reference=bed.sampler, **options).chosen, truth))
    return [{"draws": k, **mean_rates(of_k)} for k, of_k in pairs.items()]


def population(runs: int, seed: int) -> Figures:
    """Return how often the contrast chooses with a sampler of the very population that the inputs come from."""
    chose = 0
    for run in range(runs):
        rows = correlated(np.random.default_rng([seed, run, 1]), 2100, 20, 0.5)
        result = global_importance(
            sum_of_abs, rows[2000:], reference=gaussian(rows[:2000]), subsets="columns", seed=run
        )
        chose += bool(result.chosen.any())
    return {"runs": runs, "chose": chose}


def holdout(runs: int = 40, seed: int = 0, strength: float = 0.15) -> Figures:
    """Measure the holdout randomisation test beside model-X knockoffs with the same training rows.

    50 correlated normal features, 15 of them with weight +-`strength` in a linear response with noise of variance 1;
    500 training rows fit a model and the sampler, 500 other rows test. A lasso is what the knockoffs use too; a ridge
    uses every feature, so that no null p-value is 1 for want of use.
    """
    pairs: dict[str, Pairs] = {"lasso": [], "ridge": [], "knockoffs": [], "knockoffs with all rows": []}
    nulls: dict[str, list[Floats]] = {"lasso": [], "ridge": []}
    for run in range(runs):
        rows, y, truth = holdout_bed(np.random.default_rng([seed, run, 2]), strength)
        for name, p in nulls.items():
            result = half_tested(name, rows, y, run)
            pairs[name].append((result.chosen, truth))
            p.append(result.evidence.values[~truth])
        for name, count in (("knockoffs", 500), ("knockoffs with all rows", 1000)):
            chosen = knockoffs(rows[:count], y[:count], run)
            pairs[name] += [] if chosen is None else [(chosen, truth)]
    why = {"why": "skipped: knockpy is not installed"}
    return {
        "holdout": [{"method": name, **(mean_rates(of_name) if of_name else why)} for name, of_name in pairs.items()],
        "null_p": [{"model": name, "level": u, **share(ps, u)} for name, ps in nulls.items() for u in LEVELS],
    }


def holdout_bed(rng: np.random.Generator, strength: float) -> tuple[Floats, Floats, Bools]:
    """1,000 rows x 50 features, the response, and which features it depends on."""
    rows, truth = correlated(rng, 1000, 50, 0.5), np.zeros(50, bool)
    truth[rng.choice(50, 15, replace=False)] = True
    weights = np.where(truth, strength * rng.choice([-1.0, 1.0], 50), 0.0)
    return rows, rows @ weights + rng.standard_normal(1000), truth


def half_tested(name: str, rows: Floats, y: Floats, seed: int) -> Result:
    """A linear model of the first half of the rows, tested on the second."""
    from sklearn.linear_model import LassoCV, RidgeCV

    model = LassoCV(cv=5) if name == "lasso" else RidgeCV(alphas=(1.0, 10.0, 100.0))
    model.fit(rows[:500], y[:500])
    return global_importance(
        model, rows[500:], reference=rows[:500], y=y[500:], alpha=ALPHA, seed=seed, subsets="columns", check=False
    )


def knockoffs(rows: Floats, y: Floats, seed: int) -> Bools | None:
    """Return the choice of model-X knockoffs with the lasso statistic, None where knockpy is not installed."""
    try:
        from knockpy.knockoff_filter import KnockoffFilter  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    np.random.seed(seed)  # noqa: NPY002 - knockpy draws from the global generator
    chosen = quietly(KnockoffFilter(ksampler="gaussian", fstat="lasso").forward, X=rows, y=y, fdr=ALPHA)
    return np.asarray(chosen).astype(bool)


def share(nulls: list[Floats], level: float) -> dict[str, float]:
    """Share of null p-values at or below a level; the standard error is over runs, within which they may depend."""
    mean, error = mean_error([float((p <= level).mean()) for p in nulls])
    return {"share": mean, "se": error}


# Samplers fitted on few rows

Margin = Literal["normal", "t10", "poisson", "gamma"]
Learner = Literal["forest", "ridge"]
CONTRASTS: tuple[tuple[int, int, str, Margin], ...] = (  # reference rows, inputs, model, columns
    (50, 200, "linear", "normal"),
    (100, 1000, "linear", "normal"),
    (100, 600, "sigmoid", "normal"),
    (50, 600, "max", "normal"),
    (300, 200, "max", "normal"),
    (100, 600, "linear", "t10"),
    (100, 600, "linear", "poisson"),
    (100, 600, "linear", "gamma"),
)
SHIFTED = np.isin(np.arange(WIDTH), (1, 4, 7))
Model = Callable[[Array], Floats]
MODELS: dict[str, Model] = {
    "linear": lambda rows: rows.sum(axis=1),
    "sigmoid": lambda rows: np.asarray(1 / (1 + np.exp(-rows.sum(axis=1) / 3))),
    "max": lambda rows: rows.max(axis=1),
}


def shift(size: float = 0.5, rho: float = 0.6) -> Floats:
    """Return what to add to normal rows (WIDTH,) so that the shifted columns *given the rest* move, and no others do.

    A density tilted by exp(theta x), theta in the shifted columns, leaves the others given the rest as they are: the
    mean of a normal distribution moves by its covariance times theta.
    """
    covariance = rho ** np.abs(np.subtract.outer(np.arange(WIDTH), np.arange(WIDTH)))
    return np.asarray(covariance @ (size * SHIFTED * np.diag(np.linalg.inv(covariance))))


def columns(rng: np.random.Generator, count: int, margin: Margin = "normal", moved: bool = False) -> Floats:
    """The same with other margins, scaled to about mean 0 and spread 1."""
    from scipy import stats

    rows = correlated(rng, count, WIDTH, 0.6) + moved * shift()
    share = stats.norm.cdf(rows)
    if margin == "t10":
        return np.asarray(stats.t.ppf(share, 10))
    if margin == "poisson":
        return np.asarray((stats.poisson.ppf(share, 5) - 5) / np.sqrt(5))
    return np.asarray((stats.gamma.ppf(share, 5) - 5) / np.sqrt(5)) if margin == "gamma" else rows


def contrast_fitted(
    runs: int, seed: int, reference: int, inputs: int, model: str = "linear", margin: Margin = "normal"
) -> Figures:
    """Any false discovery where every null is true; FDR and TPR where three columns given the rest move by .5."""
    false, pairs = [], []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, reference, inputs])
        known = columns(rng, reference, margin)
        null, moved = (
            global_importance(
                MODELS[model],
                columns(rng, inputs, margin, way),
                reference=known,
                alpha=ALPHA,
                seed=run,
                subsets="columns",
                check=False,
            )
            for way in (False, True)
        )
        false.append(float(null.chosen.any()))
        pairs.append((moved.chosen, SHIFTED))
    share, error = mean_error(false)
    cell = {"margin": margin, "model": model, "reference": reference, "inputs": inputs}
    return {**cell, "null": share, "null_se": error, **mean_rates(pairs)}


World = Literal["rho .9", "small reference", "nonlinear"]
LEARNERS: dict[World, tuple[Learner, ...]] = {
    "rho .9": ("forest", "ridge"),
    "small reference": ("forest", "ridge"),
    "nonlinear": ("forest",),
}
RELEVANT = np.isin(np.arange(WIDTH), (0, 4, 8))
ROWS: dict[World, tuple[int, int]] = {"rho .9": (500, 300), "small reference": (100, 1000), "nonlinear": (500, 300)}


def world(name: World, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Rows of a population, and labels that three of ten columns make."""
    if name == "nonlinear":
        rows = curved(rng, count)
        mean = np.sin(2 * rows[:, 0]) + rows[:, 4] ** 2 / 2 + rows[:, 0] * rows[:, 8]
        return rows, mean + 0.5 * rng.standard_normal(count)
    rho, weight = (0.9, 0.7) if name == "rho .9" else (0.6, 0.4)
    rows = correlated(rng, count, WIDTH, rho)
    return rows, rows[:, RELEVANT] @ (weight * np.array([1.0, -1.0, 1.0])) + rng.standard_normal(count)


def curved(rng: np.random.Generator, count: int) -> Floats:
    """A chain in which each column bends the one before it."""
    rows = rng.standard_normal((count, WIDTH))
    curves: list[Callable[[Floats], Floats]] = [
        lambda x: np.sin(2 * x),
        lambda x: x**2 / 2 - 0.5,
        lambda x: np.abs(x) - 0.8,
        lambda x: np.tanh(2 * x),
    ]
    for column in range(1, WIDTH):
        rows[:, column] = 0.9 * curves[column % 4](rows[:, column - 1]) + 0.5 * rows[:, column]
    return rows


def holdout_fitted(runs: int, seed: int, name: World, model: Learner = "forest") -> Figures:
    """FDR and TPR of the holdout test with reference data."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import RidgeCV

    pairs: list[tuple[Bools, Bools]] = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, 7])
        sizes = (ROWS[name][0], 300, ROWS[name][1])
        (known, _), (train, labels), (rows, y) = (world(name, rng, size) for size in sizes)
        made = RandomForestRegressor(30, min_samples_leaf=5, random_state=0) if model == "forest" else RidgeCV()
        result = global_importance(
            made.fit(train, labels), rows, reference=known, y=y, alpha=ALPHA, seed=run, subsets="columns", check=False
        )
        pairs.append((result.chosen, RELEVANT))
    return {"bed": name, "model": model, **mean_rates(pairs)}
