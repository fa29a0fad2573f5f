"""Cells and regions of `boxes="where"` against plain loops, enumeration and values by hand."""

import math
from itertools import product

import numpy as np
import pytest

from butfor.inference import where
from butfor.inference.selection import holm

SHAPE = (2, 3)


def evaluations(count=24, seed=0):
    """Return masks of 6 pixels and outputs in which pixel 1 matters."""
    rng = np.random.default_rng(seed)
    masks = (rng.random((count, 6)) < 0.4).astype(float)
    return masks, 0.8 - 0.5 * masks[:, 1] + rng.normal(0, 0.05, count)


def kernel(length):
    """The product of a Gaussian kernel along each side, pixel by pixel."""
    pixels = list(product(range(SHAPE[0]), range(SHAPE[1])))
    return np.array(
        [[math.exp(-0.5 * ((a - c) ** 2 + (b - d) ** 2) / length**2) for c, d in pixels] for a, b in pixels]
    )


def ridge(centred, target, length, penalty):
    """Return the drop of kernel ridge, solved directly, and its leave-one-out errors, each from a fit of its own."""
    smooth = kernel(length)
    gram = centred @ smooth @ centred.T
    size = penalty * (np.trace(gram) / len(target))
    errors = []
    for i in range(len(target)):
        others = np.arange(len(target)) != i
        weights = np.linalg.solve(gram[np.ix_(others, others)] + size * np.eye(len(target) - 1), target[others])
        errors.append(target[i] - gram[i, others] @ weights)
    return -smooth @ centred.T @ np.linalg.solve(gram + size * np.eye(len(target)), target), np.array(errors)


def test_the_map_is_kernel_ridge_with_the_least_error_when_each_evaluation_is_left_out():
    masks, y = evaluations()
    centred, target = masks - masks.mean(axis=0), y - y.mean()
    tried = {pair: ridge(centred, target, *pair) for pair in product(where.LENGTHS, where.PENALTIES)}
    best = min(tried, key=lambda pair: (tried[pair][1] ** 2).mean())
    drop, errors = tried[best]
    found = where.drops(masks, y, SHAPE)
    assert (found.length, found.penalty) == best
    np.testing.assert_allclose(found.drop, drop, rtol=1e-6)
    assert found.explained == pytest.approx(1 - (errors**2).mean() / y.var())
    fitted = found.level - masks @ found.drop
    assert fitted.mean() == pytest.approx(y.mean())
    assert found.drop.argmax() == 1


def plain_effects(masks, y, z, shares, cells, rng):
    """Effects of cells, evaluation by evaluation and cell by cell."""
    k = len(z)
    fold = rng.permutation(k) % where.FOLDS
    spread = sum(r * (1 - r) for r in shares) / k
    psi, left_of = np.zeros(z.shape), np.zeros(z.shape)
    for i in range(k):
        others = [n for n in range(len(y)) if n >= k or fold[n] != fold[i]]
        fit = where.drops(masks[others], y[others], SHAPE)
        like = [n for n in others if n < k and shares[n] == shares[i]]
        level = np.mean([y[n] + masks[n] @ fit.drop for n in like])
        left = y[i] + masks[i] @ fit.drop - level
        for j in range(len(cells)):
            drop = cells[j] @ fit.drop
            psi[i, j] = drop + left * (shares[i] - z[i, j]) / spread
            left_of[i, j] = left - z[i, j] * drop
    effect = psi.mean(axis=0)
    error = psi.std(axis=0, ddof=1) / math.sqrt(k)
    multipliers = rng.standard_normal((where.BOOTSTRAP, k))
    multipliers -= multipliers.mean(axis=1, keepdims=True)
    t = np.array([[m @ (psi[:, j] - effect[j]) / error[j] / k for j in range(len(cells))] for m in multipliers])
    return effect, error, t * math.sqrt(k / (k - 1)), left_of


def test_effects_of_cells_are_those_of_a_plain_loop():
    rng = np.random.default_rng(1)
    shares = rng.choice(where.SHARES, 60)
    z = rng.random((60, 6)) < shares[:, None]
    masks = np.concatenate([z.astype(float), rng.random((12, 6)) < 0.3])
    y = 0.8 - 0.5 * masks[:, 1] + rng.normal(0, 0.05, len(masks))
    found = where.cell_effects(masks, y, z, shares, np.eye(6), SHAPE, np.random.default_rng(2), 0.05)
    effect, error, t, left = plain_effects(masks, y, z, shares, np.eye(6), np.random.default_rng(2))
    np.testing.assert_allclose(found.effect, effect, rtol=1e-8)
    widest = np.sort(np.abs(t).max(axis=1))
    half = widest[math.ceil(0.9 * (len(t) - 1))] * error  # 1 - 2 alpha, the higher of two values
    np.testing.assert_allclose([found.low, found.high], [effect - half, effect + half], rtol=1e-6)
    sure = where.step_down(effect / error, t, 0.05) & holm(where.coin_p(left, z, shares), 0.05)
    assert found.named.tolist() == sure.tolist() == [False, True, False, False, False, False]


def test_coins_are_those_of_full_enumeration():
    rng = np.random.default_rng(3)
    shares = np.array([0.2, 0.35, 0.5, 0.5, 0.35, 0.2, 0.5, 0.35, 0.5, 0.2, 0.35, 0.5])
    left = rng.normal(0.3, 1.0, (12, 1))
    every = np.array(list(product([0, 1], repeat=12)))
    chance = np.prod(np.where(every == 1, shares, 1 - shares), axis=1)
    sums = ((shares - every) * left[:, 0]).sum(axis=1)
    high = np.argsort(-sums)
    checked = 0
    for row in high[10:600:40]:
        z = every[row].astype(bool)[:, None]
        exact = chance[sums >= sums[row] - 1e-12].sum()
        p = where.coin_p(left, z, shares)[0]
        if exact < 0.2:
            assert 0.75 * exact < p < 1.3 * exact
            checked += 1
    assert checked > 8
    none = every[high[-1]].astype(bool)[:, None]
    assert where.coin_p(left, none, shares)[0] == 1.0  # where it speaks for the null nothing is computed


def test_the_step_down_goes_on_with_those_that_are_left():
    bootstrap = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 1.0], [0.0, 4.0, 2.0], [2.0, 1.0, 0.5]])
    # the largest of all: 2, 3, 4, 2; at .25 the quantile is 3 or, the higher value, 4
    assert where.step_down(np.array([4.0, 4.0, 4.0]), bootstrap, 0.25).tolist() == [False, False, False]  # ties
    assert where.step_down(np.array([4.1, 2.5, 1.5]), bootstrap, 0.25).tolist() == [True, False, False]
    # without the first: 2, 1, 4, 1; without the second: 1, 3, 2, 2 -> 3
    assert where.step_down(np.array([3.5, 5.0, 0.1]), bootstrap, 0.5).tolist() == [True, True, False]
    assert where.step_down(np.array([3.5, 5.0, 1.5]), bootstrap, 0.5).tolist() == [True, True, True]
    assert where.step_down(np.array([9.0, 9.0]), np.zeros((4, 2)), 0.05).tolist() == [True, True]


def test_capital_is_what_bets_make_of_it():
    changes, mean, least = [0.3, -0.1, 0.5, 0.05], 0.05, -0.2
    capital, largest = np.ones(len(where.BETS)), []
    for x in changes:
        capital = capital * (1 + where.BETS * (x - mean) / (mean - least))
        largest.append(max([math.log(capital.mean()), *largest]))
    np.testing.assert_allclose(where.log_capital(np.array(changes), mean, least), largest, atol=1e-12)


def test_capital_of_normal_changes_is_that_of_students_t():
    changes, mean, logs = np.array([0.3, -0.1, 0.5, 0.05, 0.4, 0.35, 0.1]), 0.05, []
    for n in range(1, len(changes) + 1):
        seen, wide = changes[:n], 1 + n * where.MIXTURE
        value = 0.0  # of fewer nothing is believed
        if n >= where.FEWEST:
            t2 = max(seen.mean() - mean, 0.0) ** 2 / seen.var()
            value = n / 2 * (math.log(1 + t2) - math.log(1 + t2 / wide)) - math.log(wide) / 2
        logs.append(max([value, *logs]))
    found = where.log_capital(changes, mean, -math.inf)
    np.testing.assert_allclose(found, logs, atol=1e-12)
    assert found[where.FEWEST - 2] == 0 < found[-1]


@pytest.mark.parametrize("least", [-0.2, -np.inf])
def test_the_lower_bound_is_where_the_capital_passes(least):
    changes = np.random.default_rng(4).uniform(0.1, 0.8, 30)
    low = where.mean_low(changes, least, 0.05)
    below, above = (where.log_capital(changes, low + step, least)[-1] for step in (-1e-6, 1e-6))
    assert below >= -math.log(0.05) > above
    assert 0.1 < low < changes.mean()
    assert where.mean_low(np.zeros(0), -0.2, 0.05) == -0.2
    assert where.mean_low(np.zeros(0), -np.inf, 0.05) < -999  # nothing is known


def test_the_lower_bound_of_unbounded_changes_knows_no_unit():
    changes = np.array([0.9, -1.1, 0.3, -0.4, 0.2, 0.1])
    low = where.mean_low(changes, -np.inf, 0.05)
    assert low < changes.min()
    assert where.mean_low(1e6 * changes, -np.inf, 0.05) == pytest.approx(1e6 * low)


def test_the_strongest_pixels_lie_in_one_another():
    drop = np.array([0.1, 0.5, 0.2, 0.5, 0.0])
    assert [part.tolist() for part in where.nested(drop, (0.6, 0.4, 0.01))] == [[1, 2, 3], [1, 3], [1]]
