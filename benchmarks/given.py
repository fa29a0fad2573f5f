"""Statements given x on beds with known truth: what moves the output and by how much, what is enough (METHODS 17, 22).

Columns are transforms of a latent normal row with correlation .7 between neighbours, or of one with an interaction; the
model reads a linear function of the latent row, so that every truth is an integral over one normal variable, or an
average over weighted rows of a known distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

import butfor
from benchmarks.figures import Figures, ProgressTo, checked_names, each, mean_error, quietly
from butfor.streams import stream
from butfor.types import Array, Bools, Floats

ALPHA, ENOUGH, INPUTS = 0.1, 0.9, 12
WEIGHTS = np.array([1.5, 0.0, 1.0, 0.0, -0.8, 0.6, 0.0, 0.0])
CUT = 1.2
SCATTER = 0.7 ** np.abs(np.subtract.outer(range(8), range(8)))
MADE = 20_000  # rows that stand for a conditional distribution


@dataclass(frozen=True)
class Latent:
    """Columns as transforms of a latent row; `inverse` reads the latent row again."""

    transform: Callable[[Floats], Floats]
    inverse: Callable[[Floats], Floats]

    def rows(self, rng: np.random.Generator, count: int) -> Floats:
        return self.transform(rng.multivariate_normal(np.zeros(8), SCATTER, count))

    def margin(self, rows: Floats) -> Floats:
        return np.asarray(self.inverse(np.asarray(rows, np.float64)) @ WEIGHTS)

    def given(self, row: Floats, kept: Array, rng: np.random.Generator) -> Floats:  # noqa: ARG002
        """Return margins (MADE,) of rows that have these columns of a row."""
        z, rest = self.inverse(row[None])[0], np.setdiff1d(np.arange(8), kept)
        slopes = SCATTER[np.ix_(rest, kept)] @ np.linalg.inv(SCATTER[np.ix_(kept, kept)])
        mean = WEIGHTS[kept] @ z[kept] + WEIGHTS[rest] @ (slopes @ z[kept])
        scatter = SCATTER[np.ix_(rest, rest)] - slopes @ SCATTER[np.ix_(kept, rest)]
        quantiles = norm.ppf((np.arange(MADE) + 0.5) / MADE)
        return np.asarray(mean + np.sqrt(max(WEIGHTS[rest] @ scatter @ WEIGHTS[rest], 0.0)) * quantiles)


@dataclass(frozen=True)
class Crossed:
    """A slope that differs by sex: b = (2 sex - 1) a + noise, c follows b, the others are idle or follow a."""

    def rows(self, rng: np.random.Generator, count: int) -> Floats:
        z = rng.normal(size=(count, 8))
        sex = (rng.random(count) < 0.5).astype(np.float64)
        return self._made(sex, z)

    def _made(self, sex: Floats, z: Floats) -> Floats:
        a = z[:, 1]
        b = (2 * sex - 1) * a + 0.5 * z[:, 2]
        c = 0.8 * b + 0.6 * z[:, 3]
        d = 0.7 * a + 0.7 * z[:, 4]
        return np.column_stack([sex, a, b, c, d, z[:, 5], z[:, 6], z[:, 7]])

    def margin(self, rows: Floats) -> Floats:
        x = np.asarray(rows, np.float64)
        return np.asarray(1.2 * x[:, 2] + 0.8 * x[:, 3] + 0.5 * x[:, 5])

    def given(self, row: Floats, kept: Array, rng: np.random.Generator) -> Floats:
        """Weighted rows: what is kept is set as it comes, and rows count by how likely it was there."""
        sex = np.full(MADE, row[0]) if 0 in kept else (rng.random(MADE) < 0.5).astype(np.float64)
        z, weight = rng.normal(size=(MADE, 8)), np.zeros(MADE)
        x = np.empty((MADE, 8))
        x[:, 0] = sex
        sources: tuple[tuple[int, Callable[[], Floats], float], ...] = (
            (1, lambda: np.zeros(MADE), 1.0),
            (2, lambda: (2 * sex - 1) * x[:, 1], 0.5),
            (3, lambda: 0.8 * x[:, 2], 0.6),
            (4, lambda: 0.7 * x[:, 1], 0.7),
            *((j, lambda: np.zeros(MADE), 1.0) for j in (5, 6, 7)),
        )
        for j, mean, sd in sources:
            middle = mean()
            x[:, j] = row[j] if j in kept else middle + sd * z[:, j]
            if j in kept:
                weight += norm.logpdf(row[j], middle, sd)
        share = np.exp(weight - weight.max())
        return self.margin(x[rng.choice(MADE, MADE, p=share / share.sum())])


def _mixed(z: Floats) -> Floats:
    """Four columns as they are, a logarithm's inverse, and idle ones in three grades."""
    x = z.copy()
    x[:, 5] = np.exp(z[:, 5])
    return x


def _unmixed(x: Floats) -> Floats:
    z = x.copy()
    z[:, 5] = np.log(np.maximum(x[:, 5], 1e-9))
    return z


BEDS: dict[str, Any] = {
    "normal": Latent(lambda z: z, lambda x: x),
    "lognormal": Latent(lambda z: np.exp(0.5 * z), lambda x: 2 * np.log(np.maximum(x, 1e-9))),
    "mixed": Latent(_mixed, _unmixed),
    "slope by sex": Crossed(),
}
OUTPUTS: dict[str, Callable[[Floats], Floats]] = {
    "probability": lambda margin: expit(2 * (margin - CUT)),
    "score": lambda margin: margin,
    "skewed": lambda margin: np.exp(margin),
    "lumped": lambda margin: np.where(margin > 2.5, 5.0, 0.0),
}


def _frame(rows: Floats) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[f"x{j}" for j in range(8)])


def _classes(bed: Any, rows: pd.DataFrame) -> Floats:
    p = OUTPUTS["probability"](bed.margin(rows.to_numpy()))
    return np.column_stack([1 - p, p])


def enough_run(name: str, size: int, seed: int) -> Figures:
    """Compare the sets of one run with the truth: coverage of all that was drawn for, and wrong statements."""
    bed, rng = BEDS[name], stream(seed, "given", name, size)
    reference, many = bed.rows(rng, size), bed.rows(rng, 600)
    picked = many[bed.margin(many) > CUT][:INPUTS]
    options: Figures = {"seed": seed, "effects": None, "control": False}
    result = quietly(butfor.explain, partial(_classes, bed), _frame(picked), _frame(reference), **options)
    sets = result.sets
    assert sets is not None
    hits, wrong, confirmed = [], 0, 0
    for one in sets.sets:
        kept = np.array([int(column[1:]) for column in one.columns])
        true = float((bed.given(picked[one.input], kept, rng) > CUT).mean())
        hits.append(one.low - 0.005 <= true <= one.high + 0.005)
        confirmed += one.enough
        wrong += one.enough and true < ENOUGH - 0.005
    have = len({one.input for one in sets.sets if one.enough})
    return {"hits": sum(hits), "sets": len(hits), "wrong": wrong, "confirmed": confirmed, "have": have / len(picked)}


def moves_run(name: str, output: str, size: int, seed: int, *, simultaneous: bool = False) -> Figures:
    """Compare the moves of single columns in one run with the truth; size 0: the sampler is the true distribution."""
    bed, rng = BEDS[name], stream(seed, "moves", name, output, size)
    reference, inputs = bed.rows(rng, size or 1000), bed.rows(rng, INPUTS)
    statistic = OUTPUTS[output]
    sampler = _frame(reference) if size else _true_sampler(bed)
    options: Figures = {"subsets": "columns", "seed": seed, "simultaneous": simultaneous, "control": False}
    options["min_effect"] = 0.05 if output == "probability" else None
    model = lambda rows: statistic(bed.margin(np.asarray(rows)))  # noqa: E731
    result = quietly(butfor.explain, model, _frame(inputs), sampler, **options)
    moved = result.moved
    assert moved is not None
    here, truth = statistic(bed.margin(inputs)), np.empty(len(moved.drop))
    for row, (i, j) in enumerate(zip(result.input_of.tolist(), result.subset_of.tolist(), strict=True)):
        truth[row] = here[i] - statistic(bed.given(inputs[i], np.setdiff1d(np.arange(8), [j]), rng)).mean()
    slack = 0.01 * statistic(bed.margin(reference)).std()  # of the truth's own integral
    hits: Bools = (moved.low - slack <= truth) & (truth <= moved.high + slack)
    wrong, large = moved.moves & (np.abs(truth) < moved.least - slack), np.abs(truth) > 2 * moved.least
    return {
        "hits": int(hits.sum()),
        "sets": len(hits),
        "wrong": int(wrong.sum()),
        "confirmed": int(moved.moves.sum()),
        "have": float(moved.moves[large].mean()) if large.any() else np.nan,
        "all": bool(hits.all()),
    }


def _true_sampler(bed: Latent) -> Any:
    def draw(inputs: Any, subset: Any, draws: int, rng: np.random.Generator) -> Any:
        z, targets = bed.inverse(np.asarray(inputs, np.float64)), np.asarray(subset.index)
        rest = np.setdiff1d(np.arange(8), targets)
        slopes = SCATTER[np.ix_(targets, rest)] @ np.linalg.inv(SCATTER[np.ix_(rest, rest)])
        scatter = SCATTER[np.ix_(targets, targets)] - slopes @ SCATTER[np.ix_(rest, targets)]
        new = np.repeat(z, draws, axis=0)
        noise = rng.multivariate_normal(np.zeros(len(targets)), scatter, len(new))
        new[:, targets] = new[:, rest] @ slopes.T + noise
        made = np.repeat(np.asarray(inputs, np.float64), draws, axis=0)
        made[:, targets] = bed.transform(new)[:, targets]
        return _frame(made)

    return draw


def copies(size: int, noise: float, seed: int) -> Figures:
    """An unread copy of a column that is read: is the copy ever called enough without the column it copies?"""
    rng = stream(seed, "given", "copy", size)
    bed = BEDS["normal"]
    rows = bed.rows(rng, size + 600)
    rows[:, 7] = rows[:, 0] + noise * rng.normal(size=len(rows))
    weights = np.array([2.0, 0, 0, 0.3, 0, 0, 0, 0])

    def model(frame: pd.DataFrame) -> Floats:
        p = expit(3 * (frame.to_numpy() @ weights - 1.0))
        return np.column_stack([1 - p, p])

    inputs = _frame(rows[size:])
    inputs = inputs[model(inputs)[:, 1] > 0.5][:INPUTS]
    options: Figures = {"seed": seed, "effects": None, "control": False}
    found = quietly(butfor.explain, model, inputs, _frame(rows[:size]), **options).enough()
    sets = [{one, *others} for one, others in zip(found["columns"], found["alternatives"], strict=True)]
    read = [any("x0" in one for one in group) for group in sets]
    copy = [any("x7" in one for one in group) for group in sets]
    alone = sum(c and not r for r, c in zip(read, copy, strict=True))
    return {
        "found": len(sets),
        "read": sum(read),
        "both": sum(r and c for r, c in zip(read, copy, strict=True)),
        "alone": alone,
    }


def run(
    runs: int = 20,
    seed: int = 0,
    workers: int = 2,
    parts: tuple[str, ...] = ("enough", "moves", "together", "copies"),
    sizes: tuple[int, ...] = (100, 300, 1000),
    progress: ProgressTo = None,
) -> Figures:
    """Measure coverage and wrong statements, `runs` data sets a cell.

    Parts: "enough" (sets of columns that keep a decision), "moves" (single columns; size 0 is a known sampler),
    "together" (the same with simultaneous=True), "copies" (an unread copy of a column that is read).
    """
    parts, figures = checked_names("parts", parts, ("enough", "moves", "together", "copies")), Figures()
    cells: dict[str, list[tuple[Callable[..., Figures], tuple[Any, ...]]]] = {
        "enough": [(enough_run, (name, size)) for name in BEDS for size in sizes],
        "moves": [
            (moves_run, (name, output, size))
            for name in ("normal", "lognormal", "slope by sex")
            for output in OUTPUTS
            for size in ((0, *sizes) if name == "normal" else sizes)
        ],
        "together": [
            (partial(moves_run, simultaneous=True), ("normal", output, size))
            for output in ("probability", "skewed", "lumped")
            for size in (0, *sizes)
        ],
        "copies": [(copies, (size, noise)) for size in sizes for noise in (0.1, 0.3)],
    }
    for part in parts:
        figures[part] = []
        for one, cell in cells[part]:
            tasks = [partial(_listed, one, *cell, seed=number) for number in range(seed, seed + runs)]
            rows = each(tasks, workers, f"{part}: {', '.join(map(str, cell))}", progress)
            figures[part].append({"cell": list(cell), "runs": runs, **_summary(rows)})
    return figures


def _listed(one: Callable[..., Figures], *cell: Any, seed: int) -> list[Figures]:
    return [one(*cell, seed=seed)]


def _summary(rows: list[Figures]) -> Figures:
    """Coverage of all intervals, the mean share of statements that are wrong with its error, and how many are made."""
    if "found" in rows[0]:
        return {name: int(sum(row[name] for row in rows)) for name in rows[0]}
    share, error = mean_error([row["wrong"] / max(row["confirmed"], 1) for row in rows])
    together = [row["all"] for row in rows if "all" in row]
    return {
        "coverage": sum(row["hits"] for row in rows) / max(sum(row["sets"] for row in rows), 1),
        "wrong": share,
        "wrong_se": error,
        "made": sum(row["confirmed"] for row in rows),
        "have": float(np.nanmean([row["have"] for row in rows])),
        **({"together": float(np.mean(together))} if together else {}),
    }
