"""The copula keeps each column's own distribution and the order of dependence between columns."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest, spearmanr

from butfor.tabular import copula
from butfor.tabular.table import as_table
from butfor.types import InputError, Subset

NORMAL = np.random.default_rng(0).multivariate_normal([0, 0, 0], [[1, 0.8, 0], [0.8, 1, 0], [0, 0, 1]], size=2000)
SKEWED = np.column_stack([np.exp(2 * NORMAL[:, 0]), NORMAL[:, 1] ** 3, NORMAL[:, 2]])


def redrawn(reference, inputs, index, draws=1, seed=1, **options):
    sampler, subset = copula(reference, **options), Subset("s", np.array(index))
    return sampler.values(np.asarray(inputs, float), subset, draws, np.random.default_rng(seed))


@pytest.mark.parametrize("index", [[0], [1], [2], [0, 1]])
def test_columns_keep_their_margins(index):
    drawn = redrawn(SKEWED, SKEWED, index)
    for k, j in enumerate(index):
        assert kstest(drawn[:, k], SKEWED[:, j]).pvalue > 0.01


def test_a_column_follows_the_ones_it_depends_on():
    drawn = redrawn(SKEWED, SKEWED, [0])[:, 0]
    assert spearmanr(drawn, SKEWED[:, 1]).statistic == pytest.approx(0.79, abs=0.05)
    assert abs(spearmanr(drawn, SKEWED[:, 2]).statistic) < 0.07


def test_columns_of_a_group_hang_together():
    drawn = redrawn(SKEWED, SKEWED, [1, 0])
    assert spearmanr(drawn[:, 0], drawn[:, 1]).statistic == pytest.approx(0.79, abs=0.05)


def test_draws_stay_within_the_reference_however_far_the_input_lies():
    drawn = redrawn(SKEWED, [[1e9, 1e9, -1e9]], [0, 2], draws=500)
    assert drawn[:, 0].min() >= SKEWED[:, 0].min()
    assert drawn[:, 0].max() <= SKEWED[:, 0].max()
    assert drawn[:, 1].min() >= SKEWED[:, 2].min()


def test_extended_draws_are_not_negative_where_the_reference_is_not():
    far = SKEWED[:50] * [1, 0, 1] - [0, 50, 0]  # what x0 follows lies far below the reference
    drawn = redrawn(SKEWED, far, [0], draws=200, beyond="extend")
    assert drawn.min() == 0


@pytest.mark.parametrize(("beyond", "least", "most"), [("hold", 0.0, 0.01), ("extend", 0.2, 0.8)])
def test_what_follows_from_a_value_beyond_the_reference(beyond, least, most):
    """x1 is N(.8 x0, .6): held, a far x1 is a miracle even beside a far x0; extended, it comes half of the time."""
    far = np.array([[np.exp(2 * 5.0), 4.0**3, 0.0]])  # five and four standard deviations
    drawn = redrawn(SKEWED, far, [1], draws=4000, beyond=beyond)[:, 0]
    assert SKEWED[:, 1].max() < 4.0**3
    assert least <= (drawn >= 4.0**3).mean() <= most
    assert np.isfinite(redrawn(SKEWED, [[1e300, -1e300, 0.0]], [2], draws=10, beyond=beyond)).all()


def test_within_the_reference_holding_and_extending_are_the_same():
    middle = SKEWED[(np.abs(NORMAL) < 1).all(axis=1)][:20]
    held, extended = (redrawn(SKEWED, middle, [1], draws=50, beyond=beyond) for beyond in ("hold", "extend"))
    np.testing.assert_array_equal(held, np.clip(extended, SKEWED[:, 1].min(), SKEWED[:, 1].max()))


TAILS = {"normal": lambda x: x, "lognormal": np.exp, "square root": lambda x: np.sqrt(np.maximum(x + 9, 0))}


@pytest.mark.parametrize("tail", TAILS)
def test_scores_and_values_beyond_the_reference(tail):
    """Scores come out right to half a standard deviation, or too near where a bound is; and back."""
    x = np.random.default_rng(3).normal(size=3000)
    margin = copula(np.column_stack([TAILS[tail](x), x]), beyond="extend").conditional.margins[0]
    beyond = np.array([-5.0, -4.5, 4.5, 5.0])
    scores = margin.score(TAILS[tail](beyond))
    np.testing.assert_allclose(scores[2:], beyond[2:], atol=0.5)
    assert (scores[:2] > beyond[:2] - 0.5).all()
    assert (scores[:2] < x.min()).all()
    np.testing.assert_allclose(margin.score(margin.value(beyond)), beyond, atol=1e-6)
    assert (np.diff(margin.value(np.linspace(-7, 7, 500))) > 0).all()


def test_the_bits_of_a_row_do_not_depend_on_its_neighbours():
    sampler, subset = copula(SKEWED), Subset("s", np.array([1, 2]))
    alone = sampler.values(SKEWED[:1], subset, 4, np.random.default_rng(3))
    together = sampler.values(SKEWED[:5], subset, 4, np.random.default_rng(3))
    np.testing.assert_array_equal(alone, together[:4])


def test_repeated_values_keep_their_share():
    votes = np.random.default_rng(2).integers(0, 2, 400)
    reference = np.column_stack([votes, NORMAL[:400, 2]])
    drawn = redrawn(reference, reference, [0], draws=20)[:, 0]
    assert np.isin(drawn, [0.0, 1.0]).mean() > 0.98
    assert drawn.mean() == pytest.approx(votes.mean(), abs=0.03)


def test_data_in_another_order():
    frame = pd.DataFrame(SKEWED, columns=["a", "b", "c"])
    turned = frame[["c", "a", "b"]]
    sampler = copula(frame)
    moved = sampler.for_columns(as_table(turned, "data").columns, 3)
    there = sampler.values(SKEWED[:3], Subset("a", np.array([0])), 2, np.random.default_rng(0))
    here = moved.values(turned.to_numpy()[:3], Subset("a", np.array([1])), 2, np.random.default_rng(0))
    np.testing.assert_array_equal(here, there)


def test_what_cannot_be_fitted():
    with pytest.raises(InputError, match="one row; a copula sampler needs"):
        copula([[1.0, 2.0]])
    with pytest.raises(InputError, match=r"column 'x1' of the reference is constant \(7\).*empirical"):
        copula([[1.0, 7.0], [2.0, 7.0]])
    with pytest.raises(InputError, match="reference has nan in row 0, column 'x1'"):
        copula([[1.0, np.nan], [2.0, 7.0]])
    with pytest.raises(InputError, match="beyond must be one of 'hold', 'extend', got 'clip'"):
        copula(SKEWED, beyond="clip")


def test_repr():
    assert repr(copula(SKEWED)) == "copula(2000 reference rows, 3 columns)"
    assert repr(copula(SKEWED, beyond="extend")) == "copula(2000 reference rows, 3 columns, beyond='extend')"
