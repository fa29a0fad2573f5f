"""How well samplers know one column given all others: the score of held-out rows of three tables of scikit-learn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from benchmarks.figures import Figures
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
HIDIMSTAT = "hidimstat"  # a peer, where it is installed


def run(seed: int = 0, samplers: tuple[str, ...] = (*SAMPLERS, HIDIMSTAT)) -> Figures:
    """Five-fold CRPS over the column's standard deviation, the mean over all columns, per table and sampler.

    hidimstat's sampler is left out where hidimstat is not installed.
    """
    if find_spec(HIDIMSTAT) is None:
        samplers = tuple(name for name in samplers if name != HIDIMSTAT)
    rows = [_measure(table, name, seed) for table in TABLES for name in samplers]
    return {"folds": FOLDS, "draws": DRAWS, "rows": rows}


def _measure(table: str, name: str, seed: int) -> Figures:
    values, scores, started = _values(table), [], time.process_time()
    order = stream(seed, "bench", "conditionals", table).permutation(len(values))
    for fold in range(FOLDS):
        held, kept = order[fold::FOLDS], np.delete(order, np.s_[fold::FOLDS])
        scores.append(_scores(name, values[kept], values[held], seed))
    crps = np.mean(scores, axis=0) / values.std(axis=0)
    return {"table": table, "sampler": name, "crps": float(crps.mean()), "seconds": time.process_time() - started}


def _scores(name: str, kept: Floats, held: Floats, seed: int) -> list[float]:
    """The score of every column of held-out rows."""
    everything = range(kept.shape[1])
    if name == HIDIMSTAT:
        return [_peer_score(kept, held, column, seed) for column in everything]
    sampler = SAMPLERS[name](kept)
    return [_score(sampler, held, column, seed) for column in everything]


def _peer_score(kept: Floats, held: Floats, column: int, seed: int) -> float:
    """That of hidimstat's sampler with the models of its CFI; it permutes the residuals of the held rows themselves."""
    from hidimstat.samplers import ConditionalSampler
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    sampler = ConditionalSampler(RidgeCV(), LogisticRegressionCV(l1_ratios=(0,)))
    own, levels = held[:, column], np.unique(kept[:, column])
    few = len(levels) <= sampler.categorical_max_cardinality  # then it wants classes, not numbers
    with warnings.catch_warnings(action="ignore"):  # its logistic regression does not always converge
        known = np.searchsorted(levels, kept[:, column]) if few else kept[:, column]
        sampler.fit(np.delete(kept, column, axis=1), known)
        drawn = np.asarray(sampler.sample(np.delete(held, column, axis=1), own, DRAWS, seed)).reshape(DRAWS, -1)
    drawn = levels[drawn] if few else drawn
    return float(np.mean([crps(y, x) for y, x in zip(own, drawn.T, strict=True)]))


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
