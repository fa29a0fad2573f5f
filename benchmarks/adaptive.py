"""Weights learned across inputs beside BH, on p-values of known truth: false discoveries and power (METHODS 12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figures, mean_rates, quietly
from butfor import explain
from butfor.inference.adaptive import PILOT, learn_weights, weighted_bh
from butfor.inference.selection import adaptive_strict, bh
from butfor.inference.sequential import besag_clifford, p_sequential
from butfor.streams import stream
from butfor.types import Bools, Floats, Ints, Subset

ALPHA = 0.1
RHO = 0.9  # between the subsets of one input
H, CAP = 10, 256  # of the sequential p-values
SHARE, WEAK = 0.8, 1.57  # half of the subsets are shifted by WEAK in this share of the inputs
SIZES = ((50, 10), (200, 13))  # of whole runs


@dataclass(frozen=True)
class Matrix:
    """p-values of one run and all that a rule may know of them."""

    p: Floats  # (n, d)
    truth: Bools  # (n, d)
    learn_from: Floats | None = None  # (n, d) what weights are learned from, where it is not p
    clusters: Ints | None = None  # (n,)


Bed = Callable[[np.random.Generator], Matrix]


def run(runs: int = 200, seed: int = 0, beds: tuple[str, ...] = ()) -> Figures:
    """Measure FDR and TPR of BH, the adaptive rule, and the strict one from 200 inputs on; `beds`: all by default.

    On beds without signals FDR is the share of runs with any discovery. Beside them, full runs of the sequential test:
    power and rows a hypothesis with weights of the first draws, and with BH.
    """
    rows = [_measured(name, bed, seed, runs) for name, bed in BEDS.items() if not beds or name in beds]
    few = max(1, runs // 10)
    full = [_in_run(count, width, rule, seed, few) for count, width in SIZES for rule in ("bh", "adaptive")]
    return {"beds": rows, "sequential": full if not beds else []}


def _in_run(count: int, width: int, rule: str, seed: int, runs: int) -> Figures:
    pairs, draws = [], []
    for number in range(seed, seed + runs):
        rng = stream(number, "bench adaptive", "sequential", count)
        truth = np.zeros((count, width), bool)
        truth[:, : width // 2] = rng.random((count, width // 2)) < SHARE
        inputs = _equicorrelated(rng, count, width) + WEAK * truth
        options: Figures = {"rule": rule, "alternative": "greater", "effects": None, "seed": number}
        result = quietly(explain, lambda rows: rows.sum(axis=1), inputs, _fresh, **options)
        pairs.append((result.chosen, truth.ravel()))
        draws.append(result.rows / truth.size)
    return {"inputs": count, "subsets": width, "rule": rule, "runs": runs, **mean_rates(pairs), "draws": np.mean(draws)}


def _fresh(inputs: Floats, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
    rows = np.repeat(inputs, draws, axis=0)
    rows[:, subset.index] = rng.standard_normal((len(rows), len(subset.index)))
    return rows


def _measured(name: str, bed: Bed, seed: int, runs: int) -> Figures:
    collected: dict[str, list[tuple[Bools, Bools]]] = {"bh": [], "adaptive": [], "strict": []}
    for run in range(runs):
        matrix = bed(stream(seed, "bench adaptive", name, run))
        for rule, chosen in chosen_by(matrix, run).items():
            collected[rule].append((chosen, matrix.truth))
    cells = {rule: mean_rates(pairs) for rule, pairs in collected.items() if pairs}
    return {"name": name, "runs": runs, **cells}


def chosen_by(matrix: Matrix, seed: int) -> dict[str, Bools]:
    """Return what each rule chooses (n, d); clusters are only those that the matrix names."""
    p, shape = matrix.p.ravel(), matrix.p.shape
    inputs, subsets = (places.ravel() for places in np.indices(shape))
    clusters = inputs if matrix.clusters is None else matrix.clusters[inputs]
    known = p if matrix.learn_from is None else matrix.learn_from.ravel()
    weights, nulls = learn_weights(known, clusters, subsets, ALPHA, stream(seed, "adaptive"))
    chosen = {"bh": bh(p, ALPHA), "adaptive": weighted_bh(p, weights, nulls, ALPHA)}
    if len(np.unique(clusters)) >= 200 and matrix.learn_from is None:
        chosen["strict"] = adaptive_strict(matrix.p, ALPHA, seed, matrix.clusters).ravel()
    return {rule: collected.reshape(shape) for rule, collected in chosen.items()}


def _signals(count: int, width: int, subsets: float, inputs: float, strength: float) -> Bed:
    """Normal statistics; a share of the subsets is shifted in a share of the inputs.

    Shares and strengths are ours, as METHODS names none: they bring BH to the FDR and the power that it has there, so
    that the figures of the other rules can be compared.
    """

    def bed(rng: np.random.Generator) -> Matrix:
        truth = np.zeros((count, width), bool)
        affected = max(1, round(subsets * width))
        truth[:, :affected] = rng.random((count, affected)) < inputs
        return Matrix(_upper(_equicorrelated(rng, count, width) + strength * truth), truth)

    return bed


def _null(p_values: Callable[[np.random.Generator, int, int], Floats], count: int = 200, width: int = 13) -> Bed:
    def bed(rng: np.random.Generator) -> Matrix:
        p = p_values(rng, count, width)
        return Matrix(p, np.zeros(p.shape, bool))

    return bed


def _equicorrelated(rng: np.random.Generator, count: int, width: int, rho: float = RHO) -> Floats:
    shared, noise = rng.standard_normal((count, 1)), rng.standard_normal((count, width))
    return np.asarray(np.sqrt(rho) * shared + np.sqrt(1 - rho) * noise)


def _upper(z: Floats) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(-z))


def _equal_within(rng: np.random.Generator, count: int, width: int) -> Floats:
    """Clones: all subsets of an input have one p-value."""
    return np.repeat(rng.random((count, 1)), width, axis=1)


def _parity(rng: np.random.Generator, count: int, width: int) -> Floats:
    """Any width - 1 of them are independent, the last follows from the others."""
    first = rng.random((count, width - 1))
    return np.column_stack([first, first.sum(axis=1) % 1])


def _antithetic(rng: np.random.Generator, count: int, width: int) -> Floats:
    """u and 1 - u in turn: half of an input is small when the other half is large."""
    u = rng.random((count, 1))
    return np.where(np.arange(width) % 2 == 0, u, 1 - u)


def _cyclic(rng: np.random.Generator, count: int, width: int) -> Floats:
    """Evenly spread: exactly one of the subsets is below 1 / width."""
    return np.asarray((rng.random((count, 1)) + np.arange(width) / width) % 1)


def _equicorrelated_p(rng: np.random.Generator, count: int, width: int) -> Floats:
    return _upper(_equicorrelated(rng, count, width))


def _floored(draws: int) -> Callable[[np.random.Generator, int, int], Floats]:
    """Ranks among `draws` + 1."""
    return lambda rng, count, width: (1 + rng.binomial(draws, _equicorrelated_p(rng, count, width))) / (draws + 1)


def _discrete(rng: np.random.Generator, count: int, width: int) -> Floats:
    """The statistic takes few values, and of each its whole tail is counted: p is valid and often 1."""
    u = _equicorrelated_p(rng, count, width)
    levels = np.array([0.002, 0.01, 0.05, 0.2, 0.5, 1.0])
    return levels[np.searchsorted(levels, u)]


def _sequential(rng: np.random.Generator) -> Matrix:
    """Besag-Clifford p-values; weights are learned from the first draws."""
    u = _equicorrelated_p(rng, 200, 13)
    hits = rng.random((u.size, CAP)) < u.reshape(-1, 1)
    none = np.zeros(u.size, np.int64)
    draws, exceeded = besag_clifford(hits, np.ones_like(hits), none, none, H)
    p = p_sequential(draws, exceeded, H).reshape(u.shape)
    so_far = np.cumsum(hits[:, :PILOT], axis=1)
    ended = H / (1 + (so_far < H).sum(axis=1))  # h / tau, where the h-th exceedance comes
    pilot = np.where(so_far[:, -1] >= H, ended, (1 + so_far[:, -1]) / (1 + PILOT))
    return Matrix(p, np.zeros(u.shape, bool), learn_from=pilot.reshape(u.shape))


def _shared_column(rng: np.random.Generator, count: int, width: int) -> Floats:
    """An effect of each column that all inputs share: inputs are not independent."""
    return _upper(np.sqrt(0.1) * rng.standard_normal(width) + np.sqrt(0.9) * _equicorrelated(rng, count, width))


def _equal_rows(named: bool) -> Bed:
    """10 inputs, each of them ten times."""

    def bed(rng: np.random.Generator) -> Matrix:
        copy_of = np.arange(100) % 10
        p = rng.random((10, 60))[copy_of]
        return Matrix(p, np.zeros(p.shape, bool), clusters=copy_of if named else None)

    return bed


BEDS: dict[str, Bed] = {
    "200 x 13, weak in a quarter": _signals(200, 13, 0.25, 0.82, 1.5),
    "50 x 10, half": _signals(50, 10, 0.5, SHARE, WEAK),
    "200 x 13, sparse": _signals(200, 13, 0.15, 0.2, 3.38),
    "200 x 13, uniform": _signals(200, 13, 1.0, 0.2, 2.72),
    "null: independent": _null(lambda rng, count, width: rng.random((count, width))),
    "null: clones": _null(_equal_within),
    "null: clones, 50 x 10": _null(_equal_within, 50, 10),
    "null: parity": _null(_parity),
    "null: antithetic": _null(_antithetic),
    "null: cyclic": _null(_cyclic),
    "null: equicorrelated": _null(_equicorrelated_p),
    "null: floored at 1/31": _null(_floored(30)),
    "null: floored at 1/101": _null(_floored(100)),
    "null: discrete": _null(_discrete),
    "null: sequential": _sequential,
    "danger: shared column effect": _null(_shared_column),
    "danger: equal rows": _equal_rows(named=False),
    "danger: equal rows, named": _equal_rows(named=True),
}
