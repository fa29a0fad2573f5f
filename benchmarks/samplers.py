"""Samplers of tables: does `check_sampler` flag wrong ones, what do they cost in false discoveries, how good are they?

- check: tables whose density is known; wrong samplers should be flagged and the true one should pass.
- discoveries: FDR and TPR on correlated tables, a fifth of the entries shifted; draws per second; seconds of a fit.
- crps: the score of left-out rows of three tables of scikit-learn, one column given all others.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.figures import Figures, checked_names, mean_rates
from butfor import ReachWarning, check_sampler, explain, tabular
from butfor.simulate.tables import linear_covariance, linear_gaussian
from butfor.streams import stream
from butfor.tabular import empirical, from_values, gaussian
from butfor.tabular.splice import TableSampler
from butfor.types import Array, Floats, Subset

PARTS = ("check", "discoveries", "crps")
ALPHA = 0.1


def run(runs: int = 20, seed: int = 0, parts: tuple[str, ...] = PARTS) -> Figures:
    """Measure some of PARTS over `runs` data sets."""
    parts = checked_names("parts", parts, PARTS)
    figures: Figures = {}
    if "check" in parts:
        figures["check"] = [_checked(name, runs) for name in BEDS]
    if "discoveries" in parts:
        figures["discoveries"] = [_discoveries(name, shift, runs, seed) for shift in SHIFTS for name in SAMPLERS]
        figures["draws"] = [_speed(name, seed) for name in SPEEDS]
        figures["fit"] = [_fit(rows, 2_000, seed) for rows in (500, 5_000)]
    if "crps" in parts:
        figures["crps"] = [_crps(table, name, seed) for table in TABLES for name in scored()]
    return figures


# check

REFERENCE, LEFT_OUT, WIDTH = 2000, 500, 5
POINTS = 3001


@dataclass(frozen=True)
class KnownDensity:
    """A bed: rows x1..x4 are normal, correlated by rho; the first column is what the bed is named after."""

    rho: float
    first: Callable[[Floats, np.random.Generator], Floats]  # rest of the row (n, 4) -> x0 (n,)
    log_density: Callable[[Floats, Floats], Floats]  # of x0 given the rest, up to a constant

    def rows(self, count: int, rng: np.random.Generator) -> Floats:
        rest = rng.standard_normal((count, WIDTH - 1)) @ np.linalg.cholesky(self._covariance).T
        return np.column_stack([self.first(rest, rng), rest])

    def values(self, inputs: Floats, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """The true sampler of one column: its conditional density on a fine grid, inverted."""
        column = int(subset.index[0])
        grid = np.linspace(-30, 30, POINTS) if column == 0 else np.linspace(-7, 7, POINTS)
        columns_drawn = [self._one(row, column, grid, draws, rng) for row in inputs]
        return np.concatenate(columns_drawn)[:, None]

    def _one(self, row: Floats, column: int, grid: Floats, draws: int, rng: np.random.Generator) -> Floats:
        rows = np.repeat(row[None], len(grid), axis=0)
        rows[:, column] = grid
        rest = rows[:, 1:]
        log = self.log_density(rows[:, 0], rest) - ((rest @ np.linalg.inv(self._covariance)) * rest).sum(axis=1) / 2
        mass = np.cumsum(np.exp(log - log.max()))
        return np.asarray(np.interp(rng.random(draws) * mass[-1], mass, grid))

    @property
    def _covariance(self) -> Floats:
        return np.full((WIDTH - 1, WIDTH - 1), self.rho) + (1 - self.rho) * np.eye(WIDTH - 1)


BEDS = {
    "correlated": KnownDensity(
        rho=0.6,
        first=lambda rest, rng: rest.mean(axis=1) + 0.5 * rng.standard_normal(len(rest)),
        log_density=lambda x, rest: -2 * (x - rest.mean(axis=1)) ** 2,
    ),
    "bimodal": KnownDensity(
        rho=0.3,
        first=lambda rest, rng: (
            0.3 * rest[:, 0] + rng.choice([-2.0, 2.0], len(rest)) + 0.5 * rng.normal(size=len(rest))
        ),
        log_density=lambda x, rest: np.logaddexp(*(-2 * (x - 0.3 * rest[:, 0] - hump) ** 2 for hump in (2, -2))),
    ),
    "heteroscedastic": KnownDensity(
        rho=0.3,
        first=lambda rest, rng: np.exp(0.6 * rest[:, 0]) * rng.standard_normal(len(rest)),
        log_density=lambda x, rest: -0.6 * rest[:, 0] - (x * np.exp(-0.6 * rest[:, 0])) ** 2 / 2,
    ),
}
WRONG = {"correlated": empirical, "bimodal": gaussian, "heteroscedastic": gaussian}


def _checked(name: str, runs: int) -> Figures:
    bed, verdicts, passed, seconds = BEDS[name], [], 0, 0.0
    for seed in range(runs):
        rng = stream(seed, "bench", name)
        reference, left_out = bed.rows(REFERENCE, rng), bed.rows(LEFT_OUT, rng)
        started = time.perf_counter()
        verdicts.append(check_sampler(WRONG[name](reference), left_out, seed=seed).verdicts)
        seconds += time.perf_counter() - started
        passed += check_sampler(from_values(bed.values), left_out, seed=seed).ok
    return {
        "bed": name,
        "wrong": WRONG[name].__name__,
        "flagged": sum(set(one) != {"ok"} for one in verdicts),
        "first_flagged": sum(one[0] != "ok" for one in verdicts),
        "verdicts": dict(sorted(Counter(one[0] for one in verdicts).items())),
        "passed": passed,
        "seconds": seconds / runs,
    }


# discoveries

SAMPLERS: dict[str, Callable[[Floats], Any]] = {
    "gaussian": tabular.gaussian,
    "copula": tabular.copula,
    "copula, extended": partial(tabular.copula, beyond="extend"),
    "forest": tabular.forest,
    "neighbours": tabular.neighbours,
    "empirical": tabular.empirical,
}
SHIFTS = (3.0, 5.0)  # of a fifth of the entries, in standard deviations: within the reference, and beyond it
SPEEDS = {"gaussian": (100, 5e6), "copula": (100, 5e6), "forest": (30, 2e5)}  # columns, target
MOST_FIT = 5.0  # seconds


def _discoveries(name: str, shift: float, runs: int, seed: int) -> Figures:
    """Measure the linear bed: 20 correlated columns, every other column without a weight."""
    pairs = []
    for number in range(seed, seed + runs):
        data = linear_gaussian("linear", number, shift=shift)
        width = data.inputs.shape[1]
        rows = stream(number, "tables", "reference").standard_normal((1_000, width))
        sampler = SAMPLERS[name](rows @ np.linalg.cholesky(linear_covariance(width)).T)
        with warnings.catch_warnings(action="ignore", category=ReachWarning):
            chosen = explain(data.model, data.inputs, sampler, alpha=ALPHA, seed=number, effects=None).chosen
        pairs.append((chosen, data.truth.ravel()))
    false = float(np.mean([(chosen & ~truth).sum() for chosen, truth in pairs]))
    return {"sampler": name, "shift": shift, **mean_rates(pairs), "false": false}


def _speed(name: str, seed: int) -> Figures:
    """Return values drawn per processor second, for single columns and blocks of 100 inputs with 1,000 draws."""
    columns, target = SPEEDS[name]
    rng = stream(seed, "tables", "speed")
    rows = _correlated(1_000, columns, rng)
    sampler, inputs = SAMPLERS[name](rows), rows[:100]
    subsets = [Subset(f"x{j}", np.array([j])) for j in range(5)]
    for subset in subsets:
        sampler.values(inputs, subset, 1, rng)  # forests are grown on first use
    start = time.process_time()
    drawn = sum(sampler.values(inputs, subset, 1_000, rng).size for _ in range(4) for subset in subsets)
    rate = drawn / (time.process_time() - start)
    return {"sampler": name, "columns": columns, "per_second": rate, "target": target, "met": rate >= target}


def _fit(rows: int, columns: int, seed: int) -> Figures:
    data = _correlated(rows, columns, stream(seed, "tables", "fit"))
    start = time.process_time()
    tabular.gaussian(data)
    seconds = time.process_time() - start
    return {"rows": rows, "columns": columns, "seconds": seconds, "target": MOST_FIT, "met": seconds <= MOST_FIT}


def _correlated(rows: int, columns: int, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.standard_normal((rows, 1)) + rng.standard_normal((rows, columns)))


# crps

FOLDS, DRAWS = 5, 1_000
TABLES = ("diabetes", "breast_cancer", "wine")
HIDIMSTAT = "hidimstat"  # a peer, where it is installed


def scored() -> tuple[str, ...]:
    """Return the samplers that are scored, hidimstat's where it is installed."""
    ours = ("residual", "gaussian", "copula", "forest", "neighbours")
    return ours if find_spec(HIDIMSTAT) is None else (*ours, HIDIMSTAT)


def _crps(table: str, name: str, seed: int) -> Figures:
    values, scores, started = _values(table), [], time.process_time()
    order = stream(seed, "bench", "conditionals", table).permutation(len(values))
    for fold in range(FOLDS):
        left, kept = order[fold::FOLDS], np.delete(order, np.s_[fold::FOLDS])
        scores.append(_scores(name, values[kept], values[left], seed))
    relative = np.mean(scores, axis=0) / values.std(axis=0)  # to the spread of each column
    return {"table": table, "sampler": name, "crps": float(relative.mean()), "seconds": time.process_time() - started}


def _scores(name: str, kept: Floats, left: Floats, seed: int) -> list[float]:
    """The score of every column of held-out rows."""
    everything = range(kept.shape[1])
    if name == HIDIMSTAT:
        return [_peer_score(kept, left, column, seed) for column in everything]
    sampler = (tabular.residual if name == "residual" else SAMPLERS[name])(kept)
    return [_score(sampler, left, column, seed) for column in everything]


def _peer_score(kept: Floats, left: Floats, column: int, seed: int) -> float:
    """That of hidimstat's sampler with the models of its CFI; it permutes the residuals of the held rows themselves."""
    from hidimstat.samplers import ConditionalSampler
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    sampler = ConditionalSampler(RidgeCV(), LogisticRegressionCV(l1_ratios=(0,)))
    observed, levels = left[:, column], np.unique(kept[:, column])
    few = len(levels) <= sampler.categorical_max_cardinality  # then it wants classes, not numbers
    with warnings.catch_warnings(action="ignore"):  # its logistic regression does not always converge
        known = np.searchsorted(levels, kept[:, column]) if few else kept[:, column]
        sampler.fit(np.delete(kept, column, axis=1), known)
        drawn = np.asarray(sampler.sample(np.delete(left, column, axis=1), observed, DRAWS, seed)).reshape(DRAWS, -1)
    drawn = levels[drawn] if few else drawn
    return float(np.mean([crps(y, x) for y, x in zip(observed, drawn.T, strict=True)]))


def _values(table: str) -> Floats:
    from sklearn import datasets

    loaded = {"diabetes": datasets.load_diabetes, "breast_cancer": datasets.load_breast_cancer}
    return np.asarray(loaded.get(table, datasets.load_wine)().data, np.float64)


def _score(sampler: TableSampler, left: Floats, column: int, seed: int) -> float:
    """The mean CRPS of held-out rows, from draws without the observed value itself, which a sampler may donate."""
    subset = Subset(f"x{column}", np.array([column]))
    unknown = left.copy()
    unknown[:, column] = np.nan  # a draw of the observed value is then none
    rng = stream(seed, "bench", "conditionals", column)
    if not sampler.info.takes_missing:
        unknown = np.nan_to_num(unknown)  # these never look at the column itself, but for the copula's row
    drawn = sampler.values(unknown, subset, DRAWS, rng).reshape(len(unknown), DRAWS)
    equal = drawn == unknown[:, subset.index]
    drawn = np.where(equal & (sampler.info.floor(subset) > 0), np.nan, drawn)
    return float(np.mean([crps(y, x[~np.isnan(x)]) for y, x in zip(left[:, column], drawn, strict=True)]))


def crps(observed: float, drawn: Array) -> float:
    """Continuous ranked probability score of an ensemble: E|X - y| - E|X - X'| / 2 (Gneiting and Raftery 2007, eq. 21).

    >>> crps(0.0, np.array([1.0])), crps(0.0, np.array([-1.0, 1.0]))
    (1.0, 0.5)
    """
    ordered, size = np.sort(drawn), len(drawn)
    weights = (2 * np.arange(1, size + 1) - size - 1) / size**2
    return float(np.abs(ordered - observed).mean() - (ordered * weights).sum())
