"""Global decisions with a sampler that is fitted on few rows: error rates and power, with standard errors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np

from butfor import global_importance
from butfor.bench.output import Figures, table
from butfor.bench.runs import mean_error, mean_rates, shown
from butfor.inference.selection import knockoff_plus
from butfor.types import Array, Bools, Floats

Margin = Literal["normal", "t10", "poisson", "gamma"]
Learner = Literal["forest", "ridge"]
ALPHA, WIDTH = 0.1, 10
TIMED_FROM = 10  # runs: with fewer it is a trial, and the wide table is left out
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


def fitted(runs: int = 40, seed: int = 0) -> Figures:
    """Both tests where Q is fitted on few rows, and the time of a wide table of yes/no columns."""
    return {
        "contrast": {
            f"{margin}, {model}, {known} reference rows, {inputs} inputs": contrast_fitted(
                runs, seed, known, inputs, model, margin
            )
            for known, inputs, model, margin in CONTRASTS
        },
        "holdout": {
            f"{name}, {model}": holdout_fitted(runs, seed, name, model) for name in ROWS for model in LEARNERS[name]
        },
        "genotypes": genotypes(seed) if runs >= TIMED_FROM else None,
    }


def fitted_markdown(figures: Figures) -> list[str]:
    """The figures as two tables and a sentence."""
    pairs = [("null", "null_se"), ("fdr", "fdr_se"), ("tpr", "tpr_se")]
    return [
        "Contrast with Q fitted on few rows: any false discovery with every null true; FDR and TPR with 3 of 10 moved:",
        "",
        *table(
            ["bed", "null", "FDR", "TPR"],
            [[bed, *(shown(cell[m], cell[e]) for m, e in pairs)] for bed, cell in figures["contrast"].items()],
        ),
        "",
        "Holdout test with reference data, 3 of 10 columns make the label:",
        "",
        *table(
            ["bed", "FDR", "TPR"],
            [[bed, *(shown(cell[m], cell[e]) for m, e in pairs[1:])] for bed, cell in figures["holdout"].items()],
        ),
        *_wide_markdown(figures["genotypes"]),
    ]


def _wide_markdown(wide: Figures | None) -> list[str]:
    if wide is None:
        return []
    return [
        "",
        f"163 yes/no columns x 781 rows: {wide['seconds']:.0f} s of processor time with the check, {wide['chosen']} "
        f"chosen, {wide['false']} of them falsely, {wide['true']} are true.",
    ]


def chain(rng: np.random.Generator, count: int, width: int = WIDTH, rho: float = 0.6) -> Floats:
    """Rows of a stationary normal chain: neighbouring columns correlate by `rho`."""
    noise = rng.standard_normal((count, width))
    rows = noise.copy()
    for column in range(1, width):
        rows[:, column] = rho * rows[:, column - 1] + np.sqrt(1 - rho**2) * noise[:, column]
    return rows


def shift(size: float = 0.5, rho: float = 0.6) -> Floats:
    """What to add to normal rows (WIDTH,) so that the shifted columns *given the rest* move, and no others do.

    A density tilted by exp(theta x), theta in the shifted columns, leaves the law of the others given the rest: the
    mean of a normal law moves by its covariance times theta.
    """
    covariance = rho ** np.abs(np.subtract.outer(np.arange(WIDTH), np.arange(WIDTH)))
    return np.asarray(covariance @ (size * SHIFTED * np.diag(np.linalg.inv(covariance))))


def columns(rng: np.random.Generator, count: int, margin: Margin = "normal", moved: bool = False) -> Floats:
    """The same with other margins, scaled to about mean 0 and spread 1."""
    from scipy import stats

    rows = chain(rng, count) + moved * shift()
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
    false, found = [], []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, reference, inputs])
        known = columns(rng, reference, margin)
        null, moved = (
            global_importance(
                MODELS[model], columns(rng, inputs, margin, way), reference=known, alpha=ALPHA, seed=run, check=False
            )
            for way in (False, True)
        )
        false.append(float(null.chosen.any()))
        found.append((moved.chosen, SHIFTED))
    share, error = mean_error(false)
    return {"null": share, "null_se": error, **mean_rates(found)}


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
    rows = chain(rng, count, rho=rho)
    return rows, rows[:, RELEVANT] @ (weight * np.array([1.0, -1.0, 1.0])) + rng.standard_normal(count)


def curved(rng: np.random.Generator, count: int) -> Floats:
    """A chain in which each column bends the one before it."""
    rows = rng.standard_normal((count, WIDTH))
    bends: list[Callable[[Floats], Floats]] = [
        lambda x: np.sin(2 * x),
        lambda x: x**2 / 2 - 0.5,
        lambda x: np.abs(x) - 0.8,
        lambda x: np.tanh(2 * x),
    ]
    for column in range(1, WIDTH):
        rows[:, column] = 0.9 * bends[column % 4](rows[:, column - 1]) + 0.5 * rows[:, column]
    return rows


def holdout_fitted(runs: int, seed: int, name: World, model: Learner = "forest") -> Figures:
    """FDR and TPR of the holdout test with reference data."""
    found: list[tuple[Bools, Bools]] = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, 7])
        sizes = (ROWS[name][0], 300, ROWS[name][1])
        (known, _), (train, labels), (rows, y) = (world(name, rng, size) for size in sizes)
        result = global_importance(
            _fit(model, train, labels), rows, reference=known, y=y, alpha=ALPHA, seed=run, check=False
        )
        found.append((result.chosen, RELEVANT))
    return mean_rates(found)


def _fit(model: Learner, rows: Floats, y: Floats) -> object:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import RidgeCV

    made = RandomForestRegressor(30, min_samples_leaf=5, random_state=0) if model == "forest" else RidgeCV()
    return made.fit(rows, y)


def gaussian_knockoffs(rows: Floats, y: Floats, rng: np.random.Generator) -> Bools:
    """Second-order knockoffs (Candes et al. 2018, equicorrelated) with the lasso's coefficients, and knockoff+."""
    from sklearn.linear_model import LassoCV

    even = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    covariance: Floats = np.asarray(np.corrcoef(rows.T))
    s = min(1.0, 2 * float(np.linalg.eigvalsh(covariance)[0])) * 0.999 * np.eye(len(covariance))
    solved = np.linalg.solve(covariance, s)
    root = np.linalg.cholesky(2 * s - s @ solved + 1e-9 * s)
    fake = even - even @ solved + rng.standard_normal(even.shape) @ root.T
    with warnings.catch_warnings(action="ignore"):
        weights = np.abs(LassoCV(cv=5).fit(np.hstack([even, fake]), y).coef_)
    contrast = weights[: rows.shape[1]] - weights[rows.shape[1] :]
    return knockoff_plus(contrast, ALPHA)


def genotypes(seed: int = 0, count: int = 781, width: int = 163) -> Figures:
    """Processor time of the holdout test on a table of yes/no columns, and what it finds beside the truth."""
    from sklearn.linear_model import RidgeCV

    rng = np.random.default_rng(seed)
    rows = (chain(rng, 2 * count, width, 0.8) > rng.normal(0, 0.6, width)).astype(np.float64)
    truth = np.arange(width) % 5 == 0
    y = rows @ np.where(truth, rng.choice([-0.8, 0.8], width), 0.0) + rng.standard_normal(len(rows))
    model = RidgeCV(np.logspace(-1, 3, 9)).fit(rows[:count], y[:count])
    start = time.process_time()
    result = global_importance(model, rows[count:], reference=rows[:count], y=y[count:], alpha=ALPHA, seed=seed)
    seconds = time.process_time() - start
    false = int((result.chosen & ~truth).sum())
    return {"seconds": seconds, "chosen": int(result.chosen.sum()), "false": false, "true": int(truth.sum())}
