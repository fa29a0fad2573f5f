"""Checks of validity and power that take the procedure as an argument, so that planted faults must fail them too.

Bounds are binomial or four standard errors wide and everything is seeded: they never flake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import binom

from butfor.inference.selection import bh
from butfor.inference.sequential import first_batch, step

# Laws of the statistic under the null. The first is continuous; in the others values tie, as outputs of a rounding
# model, of a threshold that is rarely crossed (the paper's discontinuous bed), of a vote and of an unused feature do.
NULLS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "continuous": lambda rng, shape: rng.normal(size=shape),
    "rounded": lambda rng, shape: np.round(rng.normal(size=shape)),
    "threshold": lambda rng, shape: (rng.normal(size=shape) >= 2.0) * 1.0,
    "vote": lambda rng, shape: rng.binomial(3, 0.5, size=shape) / 3,
    "constant": lambda rng, shape: np.zeros(shape),
}
TIED = [name for name in NULLS if name != "continuous"]


def batches(h: int, cap: int) -> Iterator[int]:
    """How many draws the sequential test adds each time, if no look is left out."""
    drawn = first_batch(h, cap)
    yield drawn
    while drawn < cap:
        more = step(drawn, cap)
        drawn += more
        yield more


def super_uniform(p: np.ndarray) -> None:
    """P(p <= u) <= u at every u: counts stay below what a binomial reaches once in a million."""
    for u in np.unique(np.concatenate([[0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75], np.unique(p)[:30]])):
        count, most = int((p <= u * (1 + 1e-12)).sum()), binom.isf(1e-6, p.size, u) if u > 0 else 0
        assert count <= most, f"{count} of {p.size} p-values are <= {u:.4g}, at most {most:.0f} would be credible"


def controlled(rates: np.ndarray, alpha: float) -> None:
    """The mean false discovery proportion is at most alpha, up to four standard errors."""
    error = rates.std() / np.sqrt(rates.size)
    assert rates.mean() <= alpha + 4 * error, f"FDR {rates.mean():.3f} (s.e. {error:.3f}) at alpha {alpha:g}"


def powerful(rates: np.ndarray, floor: float) -> None:
    """A test that never chooses anything controls every rate: it must also find what is there."""
    assert rates.mean() >= floor, f"TPR {rates.mean():.3f} is below {floor:g}"


def proportions(chosen: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False discovery and true positive proportions per run, from (runs, hypotheses)."""
    false = (chosen & ~true).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1)
    return false, (chosen & true).sum(axis=1) / np.maximum(true.sum(axis=1), 1)


def check_p_values(p_value: Callable[[np.ndarray], np.ndarray], null: str) -> None:
    """p-values of every law and number of draws are valid under the null."""
    rng = np.random.default_rng(0)
    for draws in (1, 4, 19, 99):
        super_uniform(p_value(NULLS[null](rng, (20_000, draws + 1))))


def statistics(null: str, runs: int, size: int, draws: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Statistics (runs, size, 1 + draws) and which of the observed ones are from another law: 4 above the null."""
    rng = np.random.default_rng(seed)
    values = NULLS[null](rng, (runs, size, draws + 1))
    true = rng.uniform(size=(runs, size)) < share
    values[..., 0] = np.where(true, np.round(rng.normal(4, 1, size=true.shape), 1), values[..., 0])
    return values, true


def check_irt(
    p_value: Callable[[np.ndarray], np.ndarray], null: str, choose: Callable[[np.ndarray, float], np.ndarray] = bh
) -> dict[str, float]:
    """FDR of the randomisation test with BH, with every null true and with a fifth of them false; and its power."""
    alpha, figures = 0.2, {}
    for share, floor, runs in ((0.0, 0.0, 400), (0.2, 0.9, 100)):
        values, true = statistics(null, runs, 60, 99, share, seed=1)
        chosen = np.array([choose(p_value(run), alpha) for run in values])
        false, found = proportions(chosen, true)
        controlled(false, alpha)
        powerful(found, floor)
        figures[f"FDR, {share:.0%} false nulls"] = false.mean()
        figures[f"TPR, {share:.0%} false nulls"] = found.mean()
    return figures


def check_osft(
    difference: Callable[[np.ndarray], np.ndarray], choose: Callable[[np.ndarray, float], np.ndarray], null: str
) -> dict[str, float]:
    """FDR of the one-shot test, with every null true and with a third of them false; and its power."""
    alpha, figures = 0.2, {}
    for share, floor, runs in ((0.0, 0.0, 2000), (0.3, 0.7, 300)):
        values, true = statistics(null, runs, 80, 1, share, seed=2)
        chosen = np.array([choose(difference(run), alpha) for run in values])
        false, found = proportions(chosen, true)
        controlled(false, alpha)
        powerful(found, floor)
        figures[f"FDR, {share:.0%} false nulls"] = false.mean()
        figures[f"TPR, {share:.0%} false nulls"] = found.mean()
    return figures
