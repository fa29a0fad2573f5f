"""The conditional control: it alarms on draws that miss an interaction, and seldom on fair ones (METHODS 18 b)."""

import numpy as np
import pytest
from scipy.stats import binom

from butfor.tabular import calibration
from butfor.tabular.calibration import conditional_fault, conditional_faults
from butfor.types import Subset

RUNS = 60


def left_out_ranks(rest, column, rng, features=None):
    """Ranks of a column among draws of a straight line and left-out residuals, the closed form of leave-one-out."""
    design = np.column_stack([np.ones(len(rest)), rest if features is None else features])
    hat = design @ np.linalg.solve(design.T @ design, design.T)
    leverage = np.diag(hat)
    residual = (column - hat @ column) / np.sqrt(1 - leverage)
    draws = rng.choice(residual, (len(rest), 49))
    return ((draws < residual[:, None]).sum(axis=1) + rng.random(len(rest)))[:, None] / 50


def by_sex(rng, count, idle):
    rest = rng.normal(size=(count, 2 + idle))
    rest[:, 1] = rng.random(count) < 0.5
    return rest, rest[:, 0] * np.where(rest[:, 1] > 0, 1.0, -0.4) + rng.normal(size=count)


def p_values(count, idle, *, sees):
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        rest, column = by_sex(rng, count, idle)
        features = np.column_stack([rest, rest[:, 0] * rest[:, 1]]) if sees else None
        yield conditional_fault(rest, left_out_ranks(rest, column, rng, features), rng)


@pytest.mark.parametrize(("count", "idle"), [(150, 2), (300, 10)])
def test_fair_draws_keep_the_level(count, idle):
    p = np.array([p for p, _ in p_values(count, idle, sees=True)])
    for level in (0.01, 0.05, 0.2):
        assert (p <= level).sum() <= binom.isf(1e-6, RUNS, level)


@pytest.mark.parametrize(("count", "idle", "power"), [(300, 2, 0.95), (300, 10, 0.6), (600, 10, 0.95)])
def test_a_slope_that_differs_by_sex_is_seen(count, idle, power):
    found = [(p <= 0.05 / 30, told_by in (0, 1)) for p, told_by in p_values(count, idle, sees=False)]
    assert np.mean([alarm for alarm, _ in found]) >= power  # at the level of a run of 30 subsets
    assert np.mean([named for alarm, named in found if alarm]) >= 0.9


def test_ranks_that_the_rest_tells_by_a_straight_line_are_seen():
    rng = np.random.default_rng(0)
    rest = rng.normal(size=(200, 5))
    u = (np.argsort(np.argsort(rest[:, 3] + 2 * rng.normal(size=200))) + 0.5)[:, None] / 200
    p, told_by = conditional_fault(rest, u, rng)
    assert p < 0.001
    assert told_by == 3


def test_a_subset_takes_three_small_fits(monkeypatch):
    """Counted, not timed: both targets in one forest, on growing parts of the rows."""
    fits, real = [], calibration._extra_trees
    monkeypatch.setattr(calibration, "_extra_trees", lambda seen, *rest: fits.append(len(seen)) or real(seen, *rest))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 30))
    u = rng.random((1000, 30))
    subsets = [Subset(f"x{j}", np.array([j % 30])) for j in range(50)]
    faults = conditional_faults(rows, subsets, lambda subset: (np.arange(1000), u[:, subset.index]), 0)
    assert len(fits) == 3 * 50
    assert sum(fits) == 50 * (250 + 500 + 750)
    assert faults.calibrated.all()
