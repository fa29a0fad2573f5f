"""The but-for test of a decision where q is known: coverage of single intervals and of all together, errors, draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.figures import Figures, quietly
from butfor import Result, explain, tabular
from butfor.simulate.tables import known_normal
from butfor.streams import stream
from butfor.tabular.splice import from_values
from butfor.types import Array, Bools, Floats

WIDTH, RHO, INPUTS = 5, 0.6, 20
WEIGHTS = np.array([1.0, 0.8, -0.6, 0.4, 0.0])
COVARIANCE = RHO ** np.abs(np.subtract.outer(np.arange(WIDTH), np.arange(WIDTH)))
LEVEL, NEAR = 0.5, 0.1
How = Literal["all", "top"]
BANDS = {"near 0": (-1.0, 0.05), "near .5": (0.4, 0.6), "near 1": (0.95, 2.0)}  # of q


def conditional(inputs: Floats, chosen: Array) -> tuple[Floats, Floats]:
    """Mean (n, k) and covariance (k, k) of some columns given the others."""
    rest = np.setdiff1d(np.arange(WIDTH), chosen)
    if not rest.size:
        return np.zeros((len(inputs), len(chosen))), COVARIANCE[np.ix_(chosen, chosen)]
    slope = COVARIANCE[np.ix_(chosen, rest)] @ np.linalg.inv(COVARIANCE[np.ix_(rest, rest)])
    return inputs[:, rest] @ slope.T, COVARIANCE[np.ix_(chosen, chosen)] - slope @ COVARIANCE[np.ix_(rest, chosen)]


def true_flip(inputs: Floats, chosen: Array, edge: float) -> Floats:
    """q (n,): the probability that w x > edge is decided otherwise when some columns are redrawn."""
    from scipy.special import ndtr

    mean, covariance = conditional(inputs, chosen)
    weights = WEIGHTS[chosen]
    rest = inputs @ WEIGHTS - inputs[:, chosen] @ weights
    spread = float(np.sqrt(weights @ covariance @ weights))
    decided = inputs @ WEIGHTS > edge
    if spread == 0:
        return np.zeros(len(inputs))
    above = ndtr((rest + mean @ weights - edge) / spread)
    return np.asarray(np.where(decided, 1 - above, above))


def run(runs: int = 200, seed: int = 0) -> Figures:
    """Coverage of intervals, one by one and together, for a known sampler and residual donors of 100 to 1,000 rows.

    Beside the sequential test, whose p-values take draws of their own, and beside few-shot, where nearly all draws are
    the decision's.
    """
    cells = [
        _cell(rows, how, test, runs, seed)
        for test in ("sequential", "few-shot")
        for rows in (None, 100, 300, 1000)
        for how in ("all", "top")
    ]
    return {"cells": cells}


def _cell(rows: int | None, how: Any, test: str, runs: int, seed: int) -> Figures:
    results = [one_run(rows, how, number, test=test) for number in range(seed, seed + runs)]
    together = [one_run(rows, how, number, test=test, simultaneous=True) for number in range(seed, seed + runs)]
    return {
        "sampler": "known" if rows is None else f"residual, {rows} rows",
        "inputs": how,
        "test": test,
        "covered": float(np.mean([one.covered for one in together])),
        "bands": {name: _share([one.bands[name] for one in results]) for name in BANDS},
        "each": float(np.mean([one.each for one in results])),
        "draws": float(np.mean([one.draws for one in results])),
        "added": float(np.mean([one.added for one in results])),
        "wrong_share": float(np.mean([one.wrong / max(one.necessary, 1) for one in results])),
        "wrong": int(sum(one.wrong for one in results)),
        "necessary": int(sum(one.necessary for one in results)),
        "runs": runs,
    }


def _share(counts: list[tuple[int, int]]) -> float | None:
    inside, of = np.sum(counts, axis=0)
    return float(inside / of) if of else None


@dataclass(frozen=True)
class Covered:
    """Coverage of one run: whether all intervals contain q, the share that do, draws where q is not near the level."""

    covered: bool
    each: float
    draws: float
    added: float  # of them, those made for the decision alone
    wrong: int  # subsets called necessary that are not
    necessary: int
    bands: dict[str, tuple[int, int]]  # of intervals with q in a band: those that hold it, and all


def one_run(
    rows: int | None, how: How, seed: int, *, edge: float = 1.0, test: str = "sequential", simultaneous: bool = False
) -> Covered:
    """One run on inputs as they come, or on the one in a hundred with the largest output."""
    rng = stream(seed, "decisions", how, rows or 0)
    root = np.linalg.cholesky(COVARIANCE).T
    inputs = rng.standard_normal((100 * INPUTS if how == "top" else INPUTS, WIDTH)) @ root
    if how == "top":
        inputs = inputs[np.argsort(-(inputs @ WEIGHTS))[:INPUTS]]
    sampler = (
        from_values(known_normal(COVARIANCE).values)
        if rows is None
        else tabular.residual(rng.standard_normal((rows, WIDTH)) @ root)
    )
    options: Figures = {"test": test, "decide": lambda y: y > edge, "control": False, "effects": None, "seed": seed}
    options |= {"simultaneous": simultaneous, "enough": None}
    return _compared(quietly(explain, lambda x: x @ WEIGHTS, inputs, sampler, **options), inputs, edge)


def _compared(result: Result, inputs: Floats, edge: float) -> Covered:
    index = {block.subset.name: np.asarray(block.subset.index) for block in result.hypotheses.blocks}
    q = np.stack([true_flip(inputs, index[name], edge) for name in result.subset_names], axis=1).reshape(-1)
    decided = result.decided
    assert decided is not None
    inside: Bools = (decided.low <= q + 1e-9) & (q - 1e-9 <= decided.high)
    bands = {name: (low < q) & (q < high) for name, (low, high) in BANDS.items()}
    far = (np.abs(q - LEVEL) > NEAR) & (decided.draws > 0)
    return Covered(
        bool(inside.all()),
        float(inside.mean()),
        float(decided.draws[far].mean()),
        float(decided.added[far].mean()),
        int((decided.necessary & (q <= LEVEL)).sum()),
        int(decided.necessary.sum()),
        {name: (int((inside & within).sum()), int(within.sum())) for name, within in bands.items()},
    )
