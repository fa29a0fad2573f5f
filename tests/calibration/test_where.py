"""Cells and regions of `boxes="where"`: false ones at most as often as promised, and faults that break it are seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from butfor.inference import where
from butfor.types import Bools, Floats

ALPHA, RUNS, CELLS, OF_CELLS, ALL = 0.05, 25, 16, 110, 150
SHAPE = (4, 4)


def luck(kind: str, size: int, rng: np.random.Generator) -> Floats:
    """Return noise with mean 0: continuous, or tied and lumped with a long tail on one side."""
    return rng.normal(0, 0.1, size) if kind == "normal" else 0.05 - 0.25 * (rng.random(size) < 0.2)


def design(seed: int, kind: str, effect: float) -> tuple[Any, ...]:
    """Return the arguments of `cell_effects`: cells 0 and 1 matter, together more than apart, where effect is not 0."""
    rng = np.random.default_rng(seed)
    shares = rng.choice(where.SHARES, ALL)
    z = rng.random((ALL, CELLS)) < shares[:, None]
    y = 0.7 - effect * (z[:, 0] | z[:, 1]) + luck(kind, ALL, rng)
    return z.astype(float), y, z[:OF_CELLS], shares[:OF_CELLS], np.eye(CELLS), SHAPE, rng, ALPHA


def false_runs(kind: str, effect: float, name: Callable[..., Bools]) -> tuple[int, int]:
    """Return in how many runs a cell without effect was named, and in how many one with an effect."""
    named = np.array([name(*design(seed, kind, effect)) for seed in range(RUNS)])
    matters = np.arange(CELLS) < (2 if effect else 0)
    return int(named[:, ~matters].any(axis=1).sum()), int(named[:, matters].any(axis=1).sum())


def as_it_is(*given: Any) -> Bools:
    return where.cell_effects(*given).named


@pytest.mark.parametrize("kind", ["normal", "lumped"])
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_false_cells_are_as_rare_as_promised(kind: str, effect: float) -> None:
    false, true = false_runs(kind, effect, as_it_is)
    assert false <= binom.isf(1e-6, RUNS, ALPHA)
    assert true >= 0.9 * RUNS or not effect


def skewed(columns: int, rng: np.random.Generator) -> tuple[Floats, Bools, Floats]:
    """Return what is left of skewed outputs, coins that say nothing of it, and their probabilities."""
    shares = rng.choice(where.SHARES, OF_CELLS)
    left = np.where(rng.random((OF_CELLS, columns)) < 0.96, -0.02, 0.5)
    return left, rng.random((OF_CELLS, columns)) < shares[:, None], shares


def test_coins_are_as_rare_as_they_say_with_skewed_outputs() -> None:
    p = where.coin_p(*skewed(4000, np.random.default_rng(5)))
    for u in (0.001, 0.01, 0.05):
        assert (p <= u).sum() <= binom.isf(1e-6, p.size, 1.2 * u)  # the saddlepoint errs by a few per cent
    left, z, shares = skewed(100, np.random.default_rng(6))
    assert np.mean(where.coin_p(left - 0.3 * z, z, shares) < 0.001) > 0.9


def test_a_normal_tail_in_place_of_the_coins_is_false() -> None:
    left, z, shares = skewed(4000, np.random.default_rng(5))
    psi = left * (shares[:, None] - z)
    t = psi.mean(axis=0) / (psi.std(axis=0, ddof=1) / np.sqrt(OF_CELLS))
    assert (t > 1.645).sum() > binom.isf(1e-6, t.size, 1.2 * 0.05)


def test_without_the_step_to_all_cells_together_there_are_too_many() -> None:
    def each_alone(*given: Any) -> Bools:
        effects = where.cell_effects(*given)
        half = (effects.high - effects.low) / 2
        return effects.effect / half > 0.6  # about 1.645 standard errors of one cell

    assert false_runs("normal", 0.0, each_alone)[0] > binom.isf(1e-6, RUNS, ALPHA)


def test_a_fit_that_knows_its_evaluations_makes_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def supple(masks: Floats, y: Floats, shape: tuple[int, int]) -> where.Drops:
        drop = -np.linalg.lstsq(masks - masks.mean(axis=0), y - y.mean(), rcond=None)[0]
        return where.Drops(drop, float(y.mean()), 0.0, 0.0, 0.0)

    def not_crossed(masks: Floats, y: Floats, z: Bools, *rest: Any) -> Bools:
        n = len(z) // 4  # few evaluations, which the fit follows
        fit = supple(masks[:n], y[:n], SHAPE)
        left = y[:n] + masks[:n] @ fit.drop
        weight = (rest[0][:n, None] - z[:n]) / np.mean(rest[0][:n] * (1 - rest[0][:n]))
        psi = fit.drop + (left - left.mean())[:, None] * weight
        t = psi.mean(axis=0) / (psi.std(axis=0, ddof=1) / np.sqrt(n))
        noise = rest[3].standard_normal((500, n)) @ ((psi - psi.mean(axis=0)) / psi.std(axis=0)) / np.sqrt(n)
        return where.step_down(t, noise, ALPHA)

    assert false_runs("normal", 0.0, not_crossed)[0] > binom.isf(1e-6, RUNS, ALPHA)


def falls(kind: str, size: int, rng: np.random.Generator) -> Floats:
    """Return changes whose mean is exactly .05: rare large falls, rare large rises, or normal ones."""
    if kind == "falls":
        return 0.25 * (rng.random(size) < 0.2)
    return np.where(rng.random(size) < 5 / 6, 0.1, -0.2) if kind == "rises" else rng.normal(0.05, 0.1, size)


def moved(changes: Floats, least: float) -> bool:
    return bool(where.log_capital(changes, 0.05, least)[-1] >= -np.log(ALPHA))


@pytest.mark.parametrize(("kind", "least"), [("falls", -0.2), ("rises", -0.2), ("normal", -np.inf)])
def test_at_the_boundary_regions_are_rarely_false_whenever_drawing_stops(kind: str, least: float) -> None:
    rng = np.random.default_rng(0)
    assert sum(moved(falls(kind, 50, rng), least) for _ in range(600)) <= binom.isf(1e-6, 600, ALPHA)


def test_regions_that_matter_are_found_with_few_draws() -> None:
    rng = np.random.default_rng(1)
    assert np.mean([moved(rng.uniform(0.1, 0.8, 10), -0.2) for _ in range(100)]) > 0.9


def test_student_on_few_lumped_draws_would_be_false() -> None:
    rng, false = np.random.default_rng(2), 0
    for _ in range(600):
        changes = falls("rises", 10, rng)
        false += changes.mean() - 0.05 > 1.833 * changes.std(ddof=1) / np.sqrt(10)
    assert false > binom.isf(1e-6, 600, ALPHA)


def test_a_region_picked_on_the_draws_that_confirm_it_is_false_too_often() -> None:
    rng, false = np.random.default_rng(3), 0
    for _ in range(40):
        candidates = rng.normal(0.05, 0.1, (5000, 50))
        false += moved(candidates[candidates.mean(axis=1).argmax()], -np.inf)
    assert false > binom.isf(1e-6, 40, ALPHA)


def test_lower_bounds_hold_at_all_times() -> None:
    rng = np.random.default_rng(4)
    above = sum(where.mean_low(falls("rises", 40, rng), -0.2, ALPHA) > 0.05 for _ in range(300))
    assert above <= binom.isf(1e-6, 300, ALPHA)
