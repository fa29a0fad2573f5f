"""How well samplers know one column given all others: the score of held-out rows of three tables of scikit-learn."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from butfor.bench.output import Figures, listed
from butfor.core.draw.streams import stream
from butfor.core.types import Array, Floats, Subset
from butfor.tabular import copula, forest, gaussian, neighbours, residual
from butfor.tabular.splice import TableSampler

FOLDS, DRAWS = 5, 1_000
TABLES = ("diabetes", "breast_cancer", "wine")
SAMPLERS: dict[str, Callable[[object], TableSampler]] = {
    "residual": residual,
    "gaussian": gaussian,
    "copula": copula,
    "forest": forest,
    "neighbours": neighbours,
}


def conditionals(seed: int = 0, samplers: tuple[str, ...] = tuple(SAMPLERS)) -> Figures:
    """Five-fold CRPS over the column's standard deviation, the mean over all columns, per table and sampler."""
    rows = [_measure(table, name, seed) for table in TABLES for name in samplers]
    return {"folds": FOLDS, "draws": DRAWS, "rows": rows}


def _measure(table: str, name: str, seed: int) -> Figures:
    values, scores, started = _values(table), [], time.process_time()
    order = stream(seed, "bench", "conditionals", table).permutation(len(values))
    for fold in range(FOLDS):
        held, kept = order[fold::FOLDS], np.delete(order, np.s_[fold::FOLDS])
        sampler = SAMPLERS[name](values[kept])
        scores.append([_score(sampler, values[held], j, seed) for j in range(values.shape[1])])
    crps = np.mean(scores, axis=0) / values.std(axis=0)
    return {"table": table, "sampler": name, "crps": float(crps.mean()), "seconds": time.process_time() - started}


def _values(table: str) -> Floats:
    from sklearn import datasets

    loaded = {"diabetes": datasets.load_diabetes, "breast_cancer": datasets.load_breast_cancer}
    return np.asarray(loaded.get(table, datasets.load_wine)().data, np.float64)


def _score(sampler: TableSampler, held: Floats, column: int, seed: int) -> float:
    """The mean CRPS of held-out rows, from draws without the observed value itself, which a sampler may donate."""
    subset = Subset(f"x{column}", np.array([column]))
    unknown = held.copy()
    unknown[:, column] = np.nan  # a draw of the observed value is then none
    drawn = _drawn(sampler, unknown, subset, stream(seed, "bench", "conditionals", column))
    return float(np.mean([crps(y, x[~np.isnan(x)]) for y, x in zip(held[:, column], drawn, strict=True)]))


def _drawn(sampler: TableSampler, inputs: Floats, subset: Subset, rng: np.random.Generator) -> Array:
    if not sampler.info.takes_missing:
        inputs = np.nan_to_num(inputs)  # these never look at the column itself, but for the copula's own row
    drawn = sampler.values(inputs, subset, DRAWS, rng).reshape(len(inputs), DRAWS)
    own = drawn == inputs[:, subset.index]
    return np.asarray(np.where(own & (sampler.info.floor(subset) > 0), np.nan, drawn))


def crps(observed: float, drawn: Array) -> float:
    """Continuous ranked probability score of an ensemble: E|X - y| - E|X - X'| / 2 (Gneiting and Raftery 2007, eq. 21).

    >>> crps(0.0, np.array([1.0])), crps(0.0, np.array([-1.0, 1.0]))
    (1.0, 0.5)
    """
    ordered, size = np.sort(drawn), len(drawn)
    weights = (2 * np.arange(1, size + 1) - size - 1) / size**2
    return float(np.abs(ordered - observed).mean() - (ordered * weights).sum())


def markdown(figures: Figures) -> str:
    """The figures as a table."""
    line = "{table} | {sampler} | {crps:.3f} | {seconds:.1f}"
    head = f"CRPS / standard deviation of single columns given all others, {figures['folds']}-fold, lower is better."
    return "\n".join([head, "", *listed("table | sampler | CRPS / sd | seconds", line, figures["rows"])])
