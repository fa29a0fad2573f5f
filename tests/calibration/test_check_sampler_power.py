"""check_sampler finds columns that are not normal behind a normal fit, and lets a good fit to few rows alone."""

import numpy as np
import pytest
from scipy.stats import binom, gamma, norm, poisson, t

from butfor.tabular import calibration as shape
from butfor.tabular import check, empirical, gaussian
from butfor.tabular.calibration import ShapeCheck, check_ranks, check_shape, pooled_shape, ranks, smooth_p

LAWS = {"t10": t(10), "poisson": poisson(5), "gamma": gamma(5), "normal": norm()}
WIDTH, HELD_OUT = 5, 300
LEVELS = (0.01, 0.05, 0.2)


def table(law, count, correlated, seed):
    """Rows of five columns with these margins, AR(.5) in normal scores or independent."""
    rng = np.random.default_rng([seed, 1])
    scores = rng.standard_normal((count, WIDTH))
    for j in range(1, WIDTH) if correlated else ():
        scores[:, j] = 0.5 * scores[:, j - 1] + np.sqrt(0.75) * scores[:, j]
    return LAWS[law].ppf(norm.cdf(scores))


@pytest.fixture
def without_trees(monkeypatch):
    """The trees take 95 % of the time, and see nothing of shapes: their ranks are those of a right sampler here."""
    monkeypatch.setattr(check, "score_ranks", lambda rows, columns, pool, rng: rng.random(len(rows)))


def objections(law, reference, correlated, runs, make=gaussian):
    found = []
    for seed in range(runs):
        rows = table(law, reference + HELD_OUT, correlated, seed)
        found.append(check.check_table(make(rows[:reference]), rows[reference:], seed=seed))
    return found


@pytest.mark.usefixtures("without_trees")
@pytest.mark.parametrize("correlated", [False, True], ids=["independent", "AR(.5)"])
@pytest.mark.parametrize(
    ("law", "said"), [("t10", "tails too light"), ("poisson", "wrong skew"), ("gamma", "wrong skew")]
)
def test_a_normal_fit_to_other_columns_is_found(law, said, correlated):
    found = objections(law, 300, correlated, 12)
    assert sum(not one.ok for one in found) >= 8  # measured .85 to 1 of 100 runs
    called = [one.together for one in found if one.together != "ok"]
    assert called.count(said) >= 0.8 * len(called)


@pytest.mark.usefixtures("without_trees")
@pytest.mark.parametrize(
    ("law", "reference", "make"), [("normal", 300, gaussian), ("normal", 1000, gaussian), ("t10", 300, empirical)]
)
def test_a_good_fit_of_few_rows_is_let_alone(law, reference, make):
    wrong = sum(not one.ok for one in objections(law, reference, law == "normal", 20, make))
    assert wrong <= binom.isf(1e-3, 20, 0.03)


def fits(seed, size=100):
    """Draws of a normal fitted on as many rows as are held out, (size, 100)."""
    rng = np.random.default_rng([seed, 2])
    reference, held_out = rng.normal(size=(2, size))
    draws = reference.mean() + reference.std(ddof=1) * rng.standard_t(size - 1, (size, 99))
    return np.column_stack([held_out, draws]), rng


def test_the_planted_fault_a_fit_taken_for_the_truth_is_seen():
    """Place and spread of a fit are uncertain, too: without 1 + n/m good fits are called wrong."""
    u = [ranks(*fits(seed)) for seed in range(400)]
    most = {level: binom.isf(1e-6, len(u), level) for level in LEVELS}
    right = np.array([smooth_p(one, fitted_share=1.0) for one in u])
    wrong = np.array([smooth_p(one) for one in u])
    assert all((right <= level).sum() <= most[level] for level in LEVELS)
    assert any((wrong <= level).sum() > most[level] for level in LEVELS)
    assert check_ranks(fits(0)[0][:, :, None], np.random.default_rng(0), 1.0).p <= 1


def pools(law, size, runs):
    """Right pools (size, 40): the real value is one more draw."""
    rng = np.random.default_rng([size, 3])
    return (LAWS[law].rvs((size, 40), random_state=rng) for _ in range(runs))


@pytest.mark.parametrize("law", ["normal", "t10", "poisson"])
def test_shapes_of_right_draws_are_normal_deviates(law):
    z = np.array([check_shape(pool).z for pool in pools(law, 60, 400)])
    for side in (z, -z):
        assert all(((side >= norm.isf(u)).sum(axis=0) <= binom.isf(1e-6, len(z), u)).all() for u in LEVELS)
    assert (z.std(axis=0) > 0.8).all()


def test_the_planted_fault_tails_by_the_normal_law_would_be_seen():
    """Sums of tail scores of few rows are skewed: as if normal they are too often too large."""
    found = [check_shape(pool) for pool in pools("t10", 60, 1500)]
    exact = np.array([one.z[1] for one in found])
    plain = np.array([one.scores[1].sum() for one in found])
    plain /= plain.std()
    most = binom.isf(1e-6, len(found), 0.001)
    assert (exact >= norm.isf(0.001)).sum() <= most
    assert (plain >= norm.isf(0.001)).sum() > most


def test_a_reference_without_far_values_is_no_proof_against_them():
    """Donors of few reference rows: the scatter of the real values' own scores counts, too."""
    found = []
    for seed in range(150):
        rng = np.random.default_rng([seed, 4])
        reference, held_out = rng.standard_t(5, (2, 100))
        pool = np.column_stack([held_out, rng.choice(reference, (100, 99))])
        found.append((check_shape(pool, 1.0).z[1], check_shape(pool).z[1]))
    right, wrong = np.array(found).T
    most = binom.isf(1e-6, len(found), 0.02)
    assert (right >= norm.isf(0.02)).sum() <= most
    assert (wrong >= norm.isf(0.02)).sum() > most


def columns(count, runs, alike):
    """Shapes of columns under the null, whose rows go together (`alike`) or not."""
    rng = np.random.default_rng([count, 5])
    for _ in range(runs):
        scores = np.sqrt(alike) * rng.normal(size=(1, 2, 100)) + np.sqrt(1 - alike) * rng.normal(size=(count, 2, 100))
        yield [ShapeCheck(own.sum(axis=1) / 10, own) for own in scores]


@pytest.mark.parametrize("alike", [0.0, 0.3, 0.9])
def test_all_columns_together_are_valid_however_they_hang_together(alike):
    p = np.array([pooled_shape(shapes)[1] for shapes in columns(6, 1500, alike)])
    assert all((p <= u).sum() <= binom.isf(1e-6, len(p), u) for u in LEVELS)


def test_the_planted_fault_columns_taken_for_independent_would_be_seen(monkeypatch):
    monkeypatch.setattr(shape, "_correlations", lambda scores: np.eye(len(scores)))
    p = np.array([pooled_shape(shapes)[1] for shapes in columns(6, 1500, 0.9)])
    assert any((p <= u).sum() > binom.isf(1e-6, len(p), u) for u in LEVELS)
