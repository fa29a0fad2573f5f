"""The statistic of the holdout test under a wrong sampler and under a wrong model, on beds with known truth.

Beside ours (covariance with the residual of the label) the loss of the holdout randomisation test (Tansey et al. 2018)
and Sobol-CPI (arXiv 2501.17520): the loss of predictions averaged over draws, minus that of the observed prediction,
which errs by the *square* of the sampler's error in the mean. Also `butfor.global_importance` as it stands, with its
own choice and check of the sampler.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.figures import Figures, mean_error, mean_rates
from butfor import global_importance
from butfor.inference.holdout import covariance_gaps, p_passes, pass_sums, squared_score
from butfor.inference.selection import bh
from butfor.tabular import gaussian, residual
from butfor.tabular.global_importance import CrossFitted, LabelRest, cross_fitted
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import as_table
from butfor.types import Bools, Floats

ALPHA, DRAWS, PASSES, TRAIN, TEST = 0.1, 20, 999, 500, 300
Bed = tuple[Floats, Floats, Bools]
STATISTICS = ("covariance", "loss", "sobol-cpi, t", "sobol-cpi, wilcoxon")
LEVELS = np.array([0, 2, -1, 1.5, -2, 0.5, 1, -1.5, 2, -0.5, -1, 0.8])


def slope_by_sex(rng: np.random.Generator, count: int) -> Bed:
    """x2 repeats sex x age, of which the label is made."""
    sex, age = (rng.random(count) < 0.5).astype(np.float64), rng.normal(size=count)
    both = (2 * sex - 1) * age
    return _table(rng, [sex, age, 0.7 * both + rng.normal(size=count)], 2), _label(rng, both + 0.5 * sex), _true(0, 1)


def product(rng: np.random.Generator, count: int) -> Bed:
    """x2 repeats the product of two numbers."""
    a, b = rng.normal(size=(2, count))
    return _table(rng, [a, b, 0.7 * a * b + rng.normal(size=count)], 2), _label(rng, a * b), _true(0, 1)


def codes(rng: np.random.Generator, count: int) -> Bed:
    """x1 repeats an effect of a code from 1 to 12."""
    code = rng.integers(1, 13, count)
    effect = LEVELS[code - 1]
    return (
        _table(rng, [code.astype(np.float64), 0.7 * effect + rng.normal(size=count)], 3),
        _label(rng, effect),
        _true(0),
    )


def hour(rng: np.random.Generator, count: int) -> Bed:
    """x1 repeats two waves a day."""
    time = rng.integers(0, 24, count)
    wave = 1.5 * np.sin(2 * np.pi * time / 12)
    return _table(rng, [time.astype(np.float64), 0.8 * wave + rng.normal(size=count)], 3), _label(rng, wave), _true(0)


def ratio(rng: np.random.Generator, count: int) -> Bed:
    """x2 is weight / height^2 with noise."""
    height, weight = rng.normal(1.7, 0.1, count), rng.normal(75, 14, count)
    bmi = weight / height**2
    measured = bmi + 3 * rng.normal(size=count)
    return _table(rng, [height, weight, measured], 2), _label(rng, (bmi - 26) / 4, 0.7), _true(0, 1)


def idle(rng: np.random.Generator, count: int) -> Bed:
    """A chain of correlation .9, of which the ends matter: every linear sampler is right."""
    rows = rng.normal(size=(count, 5))
    for j in range(1, 5):
        rows[:, j] = 0.9 * rows[:, j - 1] + np.sqrt(1 - 0.81) * rows[:, j]
    return rows, _label(rng, rows[:, 0] + rows[:, 4]), _true(0, 4)


def _table(rng: np.random.Generator, columns: list[Floats], idle: int) -> Floats:
    return np.column_stack([*columns, rng.normal(size=(len(columns[0]), idle))])


def _label(rng: np.random.Generator, mean: Floats, noise: float = 1.0) -> Floats:
    return np.asarray(mean + noise * rng.normal(size=len(mean)))


def _true(*columns: int) -> Bools:
    return np.isin(np.arange(5), columns)


BEDS: dict[str, Callable[[np.random.Generator, int], Bed]] = {
    one.__name__: one for one in (slope_by_sex, product, codes, hour, ratio, idle)
}


def run(runs: int = 40, seed: int = 0) -> Figures:
    """Measure FDR and TPR over `runs` data sets of every bed, with standard errors."""
    return {
        "statistics": [row for name in BEDS for row in statistics(name, runs, seed)],
        "as it stands": [as_it_stands(name, runs, seed) for name in BEDS],
    }


def statistics(name: str, runs: int, seed: int) -> list[Figures]:
    """Return the rates of each statistic with each sampler (gaussian: linear) and model (ridge: linear)."""
    pairs: dict[tuple[str, str, str], list[tuple[Bools, Bools]]] = {}
    nulls: dict[tuple[str, str, str], list[float]] = {}
    for number in range(runs):
        rng = np.random.default_rng([seed, number, 11])
        (train, labels, _), (rows, y, truth) = BEDS[name](rng, TRAIN), BEDS[name](rng, TEST)
        table = as_table(rows, "data")
        crossed = cross_fitted(residual(rows), table, np.arange(len(rows)), rows.shape[1], number)
        for sampler, fitted in {"residual": crossed, "gaussian": crossed.refitted(_gaussian)}.items():
            for model, predict in models(train, labels).items():
                p = p_values(fitted, predict, rows, y, np.random.default_rng([seed, number, 12]))
                for statistic, found in zip(STATISTICS, p, strict=True):
                    key = (sampler, model, statistic)
                    pairs.setdefault(key, []).append((bh(found, ALPHA), truth))
                    nulls.setdefault(key, []).append(float((found[~truth] <= 0.05).mean()))
    keys = ("bed", "sampler", "model", "statistic")
    return [
        {**dict(zip(keys, (name, *key), strict=True)), **mean_rates(of_key), "null p <= .05": mean_error(nulls[key])[0]}
        for key, of_key in pairs.items()
    ]


def _gaussian(table: Any) -> Any:
    return gaussian(table.values)


def models(rows: Floats, y: Floats) -> dict[str, Callable[[Floats], Floats]]:
    """Return a model that sees interactions and one that does not."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV

    return {
        "boosting": HistGradientBoostingRegressor(random_state=0).fit(rows, y).predict,
        "ridge": RidgeCV().fit(rows, y).predict,
    }


def p_values(
    sampler: CrossFitted, predict: Callable[[Floats], Floats], rows: Floats, y: Floats, rng: np.random.Generator
) -> Floats:
    """Return p-values (statistics, columns), all from the same draws."""
    from scipy.stats import ttest_1samp, wilcoxon

    count, subsets = len(rows), column_subsets(sampler.table, None)
    rest, found = LabelRest(sampler.table, subsets), []
    for j, subset in enumerate(subsets):
        versions = np.repeat(rows[:, None], DRAWS + 1, axis=1)
        versions[:, 1:, j] = sampler.values(rows, subset, DRAWS, rng).reshape(count, DRAWS)
        outputs = predict(versions.reshape(-1, rows.shape[1])).reshape(count, -1)
        gaps = covariance_gaps(outputs[:, :, None], squared_score(y), partial(rest, j))
        losses = (y[:, None] - outputs) ** 2
        averaged = (y - outputs[:, 1:].mean(axis=1)) ** 2 - losses[:, 0]
        moved = bool(averaged.any())
        found.append(
            [
                p_passes(pass_sums(gaps, PASSES, rng)),
                p_passes(pass_sums(losses[:, :1] - losses, PASSES, rng)),
                float(ttest_1samp(averaged, 0.0, alternative="greater").pvalue) if moved else 1.0,
                float(wilcoxon(averaged, alternative="greater").pvalue) if moved else 1.0,
            ]
        )
    return np.array(found).T


def as_it_stands(name: str, runs: int, seed: int) -> Figures:
    """Return the rates of `global_importance` with boosting, and how many columns it does not test."""
    pairs, left_out, others = [], [], []
    for number in range(runs):
        rng = np.random.default_rng([seed, number, 11])
        (train, labels, _), (rows, y, truth) = BEDS[name](rng, TRAIN), BEDS[name](rng, TEST)
        with warnings.catch_warnings(action="ignore"):
            result = global_importance(models(train, labels)["boosting"], rows, y, subsets="columns", seed=number)
        sampler = result.hypotheses.sampler
        pairs.append((result.chosen, truth))
        left_out.append(float(result.rejected.sum()))
        others.append(float(len(sampler.others)) if isinstance(sampler, CrossFitted) else 0.0)
    more = {"columns not tested": float(np.mean(left_out)), "columns by another sampler": float(np.mean(others))}
    return {"bed": name, **mean_rates(pairs), **more}
