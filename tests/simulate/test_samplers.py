"""The beds' samplers: counts, moments, and rows that do not depend on their neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from butfor.simulate import bed, tables
from butfor.types import Subset

NAMES = ("sum-of-abs-independent", "sum-of-abs-correlated", "linear", "clones", "parity")


def draws(name: str, columns: list[int], count: int, seed: int = 0, rows: int = 1) -> np.ndarray:
    made = bed(name, 0)
    values = made.sampler.values  # type: ignore[attr-defined]
    return values(made.inputs[:rows], Subset("s", np.array(columns)), count, np.random.default_rng(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", [[3], [7, 2, 5]])
def test_count_and_repeatability(name: str, columns: list[int]) -> None:
    rows = len(bed(name, 0).inputs[:4])
    drawn = draws(name, columns, 6, rows=4)
    assert drawn.shape == (rows * 6, len(columns))
    np.testing.assert_array_equal(drawn, draws(name, columns, 6, rows=4))


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("columns", [[3], [7, 2, 5]])
def test_appending_inputs_leaves_the_draws_of_the_others(name: str, columns: list[int]) -> None:
    np.testing.assert_array_equal(draws(name, columns, 6, rows=5)[:12], draws(name, columns, 6, rows=2))


@pytest.mark.parametrize("column", [0, 1, 24])
def test_correlated_mean_comes_from_the_values_the_row_has(column: int) -> None:
    _, _, beta = tables.paper_inputs(0, 1, 25, 0.3, correlated=True)
    assert beta is not None
    inputs = bed("sum-of-abs-correlated", 0).inputs
    drawn = draws("sum-of-abs-correlated", [column], 40_000)
    assert drawn.mean() == pytest.approx((beta[:column] * inputs[0, :column]).sum(), abs=0.025)
    assert drawn.std() == pytest.approx(1, abs=0.02)


def test_a_group_follows_its_own_new_values() -> None:
    _, _, beta = tables.paper_inputs(0, 1, 25, 0.3, correlated=True)
    assert beta is not None
    inputs = bed("sum-of-abs-correlated", 0).inputs
    late, early = draws("sum-of-abs-correlated", [9, 4], 100_000).T  # given in any order
    rest = sum(beta[j] * inputs[0, j] for j in range(9) if j != 4)
    residual = late - rest - beta[4] * early
    assert abs(residual.mean()) < 0.015
    assert residual.std() == pytest.approx(1, abs=0.01)
    assert abs(np.corrcoef(residual, early)[0, 1]) < 0.015


def test_linear_bed_redraws_from_the_reference_conditional() -> None:
    inputs = bed("linear", 0).inputs
    drawn = draws("linear", [5], 100_000)
    neighbours = inputs[0, 4] + inputs[0, 6]  # AR(1) with rho = .5: the conditional needs only these two
    assert drawn.mean() == pytest.approx(0.5 / 1.25 * neighbours, abs=0.01)
    assert drawn.var() == pytest.approx(0.75 / 1.25, abs=0.01)


def test_linear_inputs_that_were_not_shifted_have_the_law_of_the_sampler() -> None:
    scores = []
    for seed in range(30):
        made = bed("linear", seed)
        ordinary = made.inputs[:, 2:-2]
        centre = 0.4 * (made.inputs[:, 1:-3] + made.inputs[:, 3:-1])
        used = np.zeros(made.truth.shape, bool)
        used[:, ::2] = True  # truth tells which were shifted only where the weight is not zero
        keep = (used & ~made.truth)[:, 2:-2]
        scores.append(((ordinary - centre) / np.sqrt(0.6))[keep])
    score = np.concatenate(scores)
    assert abs(score.mean()) < 4 / np.sqrt(len(score))
    assert score.std() == pytest.approx(1, abs=0.02)


def test_coins_and_humps() -> None:
    assert set(np.unique(draws("parity", [0], 1000))) == {-1.0, 1.0}
    humps = draws("clones", [0], 100_000)
    assert abs(humps.mean()) < 0.02
    assert np.abs(humps).mean() == pytest.approx(1, abs=0.02)
    assert humps.var() == pytest.approx(1 + 0.35**2, abs=0.02)
