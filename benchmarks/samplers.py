"""Samplers of tables: does `check_sampler` flag wrong ones, and what do they cost in false discoveries?

- check: tables whose density is known; wrong samplers should be flagged and the true one should pass.
- discoveries: FDR and TPR on correlated tables, a fifth of the entries shifted.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.figures import Figures, checked_names, mean_rates
from butfor import ReachWarning, check_sampler, explain, tabular
from butfor.simulate.tables import linear_covariance, linear_gaussian
from butfor.streams import stream
from butfor.tabular import empirical, from_values, gaussian
from butfor.types import Floats, Subset

PARTS = ("check", "discoveries")
ALPHA = 0.1


def run(runs: int = 20, seed: int = 0, parts: tuple[str, ...] = PARTS) -> Figures:
    """Measure some of PARTS over `runs` data sets."""
    parts = checked_names("parts", parts, PARTS)
    figures: Figures = {}
    if "check" in parts:
        figures["check"] = [_checked(name, runs) for name in BEDS]
    if "discoveries" in parts:
        figures["discoveries"] = [_discoveries(name, shift, runs, seed) for shift in SHIFTS for name in SAMPLERS]
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
