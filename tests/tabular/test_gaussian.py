"""The Gaussian sampler against the textbook, against brute force, and against bad data."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.covariance import LedoitWolf

import butfor
from butfor.tabular.gaussian import ledoit_wolf
from butfor.types import Subset

RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(5, 5))
REFERENCE = RNG.normal(size=(3000, 5)) @ MIX + np.arange(5) * 10
gaussian = butfor.tabular.gaussian


def textbook(mean, covariance, x, subset):
    """Mean and covariance of x_S given x_-S: mu_S + C_S,R C_RR^-1 (x_R - mu_R) and the Schur complement."""
    rest = np.setdiff1d(np.arange(len(x)), subset)
    cross = covariance[np.ix_(subset, rest)] @ np.linalg.inv(covariance[np.ix_(rest, rest)])
    conditional = covariance[np.ix_(subset, subset)] - cross @ covariance[np.ix_(rest, subset)]
    return mean[subset] + cross @ (x[rest] - mean[rest]), conditional


def fitted(reference):
    """The normal that the docstring promises: Ledoit-Wolf on standardised columns."""
    mean, scale = reference.mean(axis=0), reference.std(axis=0)
    covariance = LedoitWolf(assume_centered=True).fit((reference - mean) / scale).covariance_
    return mean, covariance * np.outer(scale, scale)


@pytest.mark.parametrize("subset", [[0], [4], [1, 3], [3, 1], [0, 1, 2, 4]])
def test_draws_have_the_textbook_conditional(subset):
    mean, covariance = fitted(REFERENCE)
    x = mean + np.array([1.0, -1.0, 0.5, 2.0, 0.0])
    expected, spread = textbook(mean, covariance, x, subset)
    drawn = gaussian(REFERENCE)(x[None], Subset("s", np.array(subset)), 40_000, np.random.default_rng(1))[:, subset]
    error = np.sqrt(np.diag(spread) / len(drawn))
    assert (np.abs(drawn.mean(axis=0) - expected) < 5 * error).all()
    np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.03 * np.diag(spread).max())
    centred = (drawn - expected) @ np.linalg.inv(np.linalg.cholesky(spread)).T
    assert kstest(centred.ravel(), "norm").pvalue > 1e-4


def test_all_columns_at_once_are_the_fitted_normal():
    mean, covariance = fitted(REFERENCE)
    drawn = gaussian(REFERENCE)(REFERENCE[:1] * 0, Subset("s", np.arange(5)), 40_000, np.random.default_rng(1))
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(covariance) / len(drawn))).all()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.03 * np.diag(covariance).max())


def test_the_fit_is_close_to_the_sample_on_much_data():
    conditional = gaussian(REFERENCE).conditional
    np.testing.assert_allclose(conditional.mean, REFERENCE.mean(axis=0))
    np.testing.assert_allclose(np.linalg.inv(conditional.precision), np.cov(REFERENCE.T), rtol=0.05, atol=0.05)


def test_draws_are_what_brute_force_keeps():
    """A million pairs from the joint normal, of which only those near the given x1 are kept."""
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(5000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]]) * [2, 5] + [10, -3]
    mean, covariance = fitted(reference)
    joint = rng.multivariate_normal(mean, covariance, size=1_000_000)
    given = 2.0
    kept = joint[np.abs(joint[:, 1] - given) < 0.05, 0]
    drawn = gaussian(reference)(np.array([[99.0, given]]), Subset("x0", np.array([0])), 5000, rng)[:, 0]
    assert len(kept) > 3000
    assert abs(kept.mean() - drawn.mean()) < 5 * np.sqrt(kept.var() / len(kept) + drawn.var() / len(drawn))
    assert kept.std() == pytest.approx(drawn.std(), rel=0.06)
    assert kstest(drawn, kept).pvalue > 1e-4


def test_the_observed_value_has_no_say():
    """x_S is redrawn given the rest: what it was does not matter."""
    x = np.tile(REFERENCE[:1], (2, 1))
    x[1, 2] = 1e6
    one, other = (gaussian(REFERENCE)(row[None], Subset("s", np.array([2])), 20, np.random.default_rng(0)) for row in x)
    np.testing.assert_allclose(one[:, 2], other[:, 2], rtol=1e-9)


def test_inputs_from_the_reference_have_uniform_p_values():
    """The exact conditional makes x exchangeable with its draws: one p-value per input, all of them uniform."""
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(600, 5)) @ MIX + np.arange(5) * 10
    result = butfor.explain(
        lambda rows: rows[:, 0] - rows[:, 1],
        inputs,
        REFERENCE,
        subsets=[[0, 1]],
        test="irt",
        draws=199,
        alternative="less",
    )
    assert kstest(result.table.p - rng.uniform(size=600) / 200, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_units_do_not_matter(factor):
    units = np.array([1, factor, 1, 1, 1])
    subset = Subset("s", np.array([1, 2]))
    plain = gaussian(REFERENCE)(REFERENCE[:5], subset, 10, np.random.default_rng(0))
    scaled = gaussian(REFERENCE * units)(REFERENCE[:5] * units, subset, 10, np.random.default_rng(0))
    np.testing.assert_allclose(scaled / units, plain, rtol=1e-6)


def test_a_large_offset_does_not_matter():
    """Columns such as years or timestamps: large, and hardly varying."""
    subset = Subset("s", np.array([1]))
    plain = gaussian(REFERENCE)(REFERENCE[:5], subset, 10, np.random.default_rng(0))
    offset = gaussian(REFERENCE + 1e9)(REFERENCE[:5] + 1e9, subset, 10, np.random.default_rng(0))
    np.testing.assert_allclose(offset - 1e9, plain, atol=1e-4)


@pytest.mark.parametrize("rows", [3, 10, 40])
def test_more_columns_than_rows(rows):
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(rows, 60))
    drawn = gaussian(reference)(rng.normal(size=(3, 60)), Subset("s", np.array([7, 8])), 500, rng)
    assert np.isfinite(drawn).all()
    assert 0.2 < drawn[:, [7, 8]].std() < 5


DEGENERATE = {
    "two rows": np.array([[0.0, 0.0], [1.0, 1.0]]),
    "two rows, three columns": np.array([[0.0, 1.0, 5.0], [1.0, 3.0, 2.0]]),
    "a balanced yes/no as two columns": np.tile([[0.0, 1.0], [1.0, 0.0]], (50, 1)),
    "a copied column": np.random.default_rng(0).normal(size=(100, 1)) @ np.ones((1, 3)),
    "columns that add up": np.random.default_rng(0).dirichlet([1, 1, 1], size=5000),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_dependent_columns_are_fitted_or_refused(case):
    # Was (gaussian.py, gaussian): with two rows, or a balanced yes/no in two columns, Ledoit-Wolf shrinks by 0, the
    # covariance is singular and np.linalg.inv raises LinAlgError. Shrink by at least a little, or say what to drop.
    reference = DEGENERATE[case]
    try:
        sampler = gaussian(reference)
    except butfor.InputError as error:
        assert "column" in str(error) or "row" in str(error)  # noqa: PT017
        return
    for column in range(reference.shape[1]):
        drawn = sampler(reference[:2], Subset("s", np.array([column])), 50, np.random.default_rng(0))
        assert np.isfinite(drawn).all()
        far = np.abs(drawn - reference.mean(axis=0)).max(axis=1)
        # Two rows leave Student's t one degree of freedom: some of its draws lie anywhere.
        assert np.quantile(far, 0.9 if len(reference) == 2 else 1) < 100 * reference.std(axis=0).max()


def with_nan(values):
    values = values.copy()
    values[3, 1] = np.nan
    return values


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (with_nan(REFERENCE), "the reference has nan in row 3, column 'x1'"),
        (
            np.where(np.isin(REFERENCE, REFERENCE[7, 2]), np.inf, REFERENCE),
            "has inf in row 7, column 'x2'",
        ),
        (REFERENCE * [1, 1, 0, 1, 1] + [0, 0, 0.1, 0, 0], "column 'x2' of the reference is constant \\(0.1\\)"),
        (np.float32(REFERENCE) * np.float32([1, 1, 0, 1, 1]) + np.float32(0.1), "column 'x2' .* constant"),
        (REFERENCE[:1], "the reference has one row"),
        (REFERENCE[:0], "the reference is empty"),
        (REFERENCE[:, :0], "the reference is empty"),
        (REFERENCE[:, 0], "expected two dimensions"),
        (REFERENCE.astype(str), "expected numbers"),
        ([[1, 2], [3]], "not a rectangular table"),
        (pd.DataFrame(REFERENCE[:, :2], columns=["a", "a"]), "columns named alike: a"),
        (pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), "column 'b' of the reference holds categories"),
        (pd.DataFrame(with_nan(REFERENCE), columns=list("abcde")), "in row 3, column 'b'"),
    ],
)
def test_a_bad_reference_is_named(reference, message):
    with pytest.raises(butfor.InputError, match=message):
        gaussian(reference)


def explain(inputs, sampler=None, **settings):
    sampler = gaussian(REFERENCE) if sampler is None else sampler
    return butfor.explain(
        lambda rows: np.asarray(rows)[:, 0], inputs, sampler, **{"test": "irt", "draws": 9, **settings}
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (with_nan(REFERENCE[:9]), "the data has nan in row 3, column 'x1'"),
        (REFERENCE[:0], "the data is empty"),
        (REFERENCE[:3, :4], "the data has 4 columns but the sampler's reference has 5"),
        (REFERENCE[None, :2], "the data has shape"),
        (REFERENCE[:3].astype(object), "the data is an array of object values"),
        (pd.DataFrame(REFERENCE[:2], columns=list("aabcd")), "columns named alike: a"),
        (pd.DataFrame(REFERENCE[:2], index=[7, 7]), "rows with the same index label"),
    ],
)
def test_bad_data_are_named(inputs, message):
    with pytest.raises(butfor.InputError, match=message):
        explain(inputs)


def test_other_columns_than_the_reference_are_named():
    reference = pd.DataFrame(REFERENCE, columns=list("abcde"))
    data = pd.DataFrame(REFERENCE[:3], columns=list("abcdz"))
    with pytest.raises(butfor.InputError, match="z only in the data; e only there"):
        explain(data, gaussian(reference))
    with pytest.raises(butfor.InputError, match="other columns"):
        explain(data, reference)
    with pytest.raises(butfor.InputError, match="other columns than the data"):
        explain(data.iloc[:, :4], gaussian(reference))


def test_one_row_of_data_is_enough():
    assert len(explain(REFERENCE[:1]).table) == 5


def test_repr():
    assert repr(gaussian(REFERENCE)) == "gaussian(3000 reference rows, 5 columns)"


@pytest.mark.parametrize(("rows", "width"), [(500, 20), (20, 60), (4, 2), (300, 1)])
def test_the_shrunken_covariance_is_scikit_learns(rows, width):
    rng = np.random.default_rng(rows)
    centred = rng.normal(size=(rows, width)) @ rng.normal(size=(width, width))
    centred -= centred.mean(axis=0)
    fitted = LedoitWolf(assume_centered=True).fit(centred)
    covariance, shrunk = ledoit_wolf(centred)
    np.testing.assert_allclose(covariance, fitted.covariance_, rtol=1e-10, atol=1e-12)
    assert shrunk == pytest.approx(fitted.shrinkage_)
