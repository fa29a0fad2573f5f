"""Global p-values under true nulls: valid at every number of draws, continuous or tied; planted faults are found."""

import numpy as np
import pytest
from scipy.stats import binom

from butfor.inference.holdout import p_passes, pass_sums
from butfor.tabular import from_values
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.global_importance import global_importance

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.5)
REPEATS, INPUTS = 4000, 12


def continuous(rng, shape):
    return rng.normal(size=shape) ** 3


def tied(rng, shape):
    return rng.integers(0, 2, size=shape).astype(float)


def rare(rng, shape):
    return np.where(rng.random(shape) < 0.05, rng.normal(size=shape), 0.0)


def scaled(rng, shape):
    """Inputs with very different spreads: a few of them make the sum."""
    return rng.normal(size=shape) * np.geomspace(1e-3, 1e3, shape[0])[:, None]


def exact(values, passes, rng):
    gaps = values - values[:, :1]
    return p_passes(pass_sums(gaps, passes, rng))


def without_observed(values, passes, rng):
    """Fault: passes recombined from the draws alone."""
    return p_passes(pass_sums(values[:, 1:] - values[:, :1], passes, rng))


def without_one(values, passes, rng):
    """Fault: the observed sum does not count as a pass."""
    return exact(values, passes, rng) - 1 / (passes + 1)


def ties_for_us(values, passes, rng):
    """Fault: > for >=."""
    sums = pass_sums(values - values[:, :1], passes, rng)
    return (1 + (sums > 0).sum()) / (passes + 1)


def p_values(test, null, draws, passes=99, repeats=REPEATS):
    rng = np.random.default_rng([draws, passes])
    return np.array([test(null(rng, (INPUTS, draws + 1)), passes, rng) for _ in range(repeats)])


def too_many(p):
    """Levels at which there are more small p-values than chance allows."""
    return [u for u in LEVELS if (p <= u + 1e-12).sum() > binom.isf(1e-6, len(p), u)]


@pytest.mark.parametrize("draws", [1, 2, 5, 20])
@pytest.mark.parametrize("null", [continuous, tied, rare, scaled])
def test_valid_at_every_number_of_draws(null, draws):
    p = p_values(exact, null, draws)
    assert too_many(p) == []
    if null is continuous:  # and not needlessly large
        assert (p <= 0.1).sum() > binom.ppf(1e-6, len(p), 0.1 - 1 / 2**INPUTS) - 10


def test_valid_with_a_single_pass_and_a_single_input():
    rng = np.random.default_rng(0)
    one = np.array([exact(continuous(rng, (1, 2)), 1, rng) for _ in range(REPEATS)])
    assert too_many(one) == []


@pytest.mark.parametrize(
    ("fault", "null", "draws"),
    [
        (without_observed, continuous, 1),
        (without_observed, continuous, 2),
        (without_observed, continuous, 5),
        (without_one, continuous, 5),
        (ties_for_us, rare, 5),
        (ties_for_us, tied, 5),
    ],
)
def test_faults_are_found(fault, null, draws):
    passes = 19 if fault is without_one else 99
    assert too_many(p_values(fault, null, draws, passes)) != []


WIDTH = 10
COVARIANCE = 0.6 ** np.abs(np.subtract.outer(np.arange(WIDTH), np.arange(WIDTH)))
POPULATION = from_values(Gaussian(np.zeros(WIDTH), np.linalg.inv(COVARIANCE), (None,) * WIDTH).values)
TRUTH = np.arange(WIDTH) % 4 == 0  # 0, 4, 8: every null has a relevant neighbour


def bed(rng, count=60):
    rows = rng.multivariate_normal(np.zeros(WIDTH), COVARIANCE, size=count, method="cholesky")
    return rows, rows[:, TRUTH] @ np.array([1.0, -1.0, 1.0]) + rng.normal(size=count)


def network(weights):
    return lambda rows: np.tanh(rows @ weights).sum(axis=1) + rows[:, TRUTH] @ np.array([0.7, -0.7, 0.7])


@pytest.fixture(scope="module")
def holdout_runs():
    found = []
    for run in range(300):
        rng = np.random.default_rng([7, run])
        rows, y = bed(rng)
        model = network(rng.normal(scale=0.2, size=(WIDTH, 4)))  # uses every feature
        found.append(global_importance(model, rows, reference=POPULATION, y=y, draws=(1, 2, 5)[run % 3], seed=run))
    return found


def test_holdout_is_valid_on_correlated_features_and_keeps_its_power(holdout_runs):
    p = np.array([result.evidence.values for result in holdout_runs])
    for feature in np.flatnonzero(~TRUTH):
        assert too_many(p[:, feature]) == []  # runs are independent
    assert too_many(p[:, ~TRUTH].ravel()) == []
    chosen = np.array([result.chosen for result in holdout_runs])
    fdp = (chosen & ~TRUTH).sum(axis=1) / np.maximum(1, chosen.sum(axis=1))
    assert fdp.mean() <= 0.1 + 4 * fdp.std() / np.sqrt(len(fdp))
    assert chosen[:, TRUTH].mean() >= 0.75


def test_effect_intervals_cover(holdout_runs):
    """Against the mean over 20,000 inputs of the increase of the loss by an independent redraw."""
    missed = []
    for run, result in enumerate(holdout_runs[:60]):
        rng = np.random.default_rng([7, run])
        bed(rng)
        model = network(rng.normal(scale=0.2, size=(WIDTH, 4)))
        rows, y = bed(rng, 20_000)
        loss = (y - model(rows)) ** 2
        for feature in np.flatnonzero(TRUTH & result.chosen):
            fresh = rows.copy()
            subset = np.array([feature])
            fresh[:, subset] = POPULATION.values(rows, type("S", (), {"index": subset}), 1, rng)
            truth = ((y - model(fresh)) ** 2 - loss).mean()
            missed.append(not result.effects.low[feature] <= truth <= result.effects.high[feature])
    assert len(missed) > 120
    assert np.mean(missed) <= 0.05 + 4 * np.sqrt(0.05 / len(missed))


def test_contrast_of_the_predicted_class_is_valid():
    """The class is chosen by a rule symmetric in an input and its draws."""
    noise = from_values(lambda inputs, _, draws, rng: rng.standard_normal((len(inputs) * draws, 1)))
    weights = np.random.default_rng(1).normal(size=(4, 10))
    p = [
        global_importance(
            lambda rows: rows @ weights,
            np.random.default_rng([9, run]).normal(size=(15, 4)),
            reference=noise,
            draws=3,
            seed=run,
        ).evidence.values[0]
        for run in range(400)
    ]
    assert too_many(np.array(p)) == []


@pytest.mark.parametrize("draws", [2, 3])
def test_two_sided_contrast_is_valid(draws):
    noise = from_values(lambda inputs, _, draws, rng: rng.exponential(size=(len(inputs) * draws, 1)))
    p = [
        global_importance(
            lambda rows: rows.sum(axis=1),
            np.random.default_rng([11, run]).exponential(size=(15, 2)),
            reference=noise,
            draws=draws,
            seed=run,
        ).evidence.values[0]
        for run in range(400)
    ]
    assert too_many(np.array(p)) == []
