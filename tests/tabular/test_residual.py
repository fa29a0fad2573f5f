"""Residual donors: every kind of column, groups, missing values, lists and leverages."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import butfor
from butfor.tabular.calibration import conditional_fault
from butfor.tabular.residual import residual
from butfor.tabular.residual.design import PowerTransform, Terms, basis_of, grid_of, inverse_yeo_johnson, yeo_johnson
from butfor.tabular.residual.regression import NumericFit, codes_of, newton, ridge
from butfor.tabular.table import as_table
from butfor.types import Subset


def rng(seed=0):
    return np.random.default_rng(seed)


def one(j):
    return Subset(f"x{j}", np.array([j]))


def group(*columns):
    return Subset("group", np.array(columns))


def linear(rows, seed=0, width=5):
    x = rng(seed).normal(size=(rows, width))
    x[:, 0] = 2 * x[:, 1] - x[:, 2] + 0.5 * x[:, 0]
    return x


def mixed(rows, seed=0, gaps=True):
    draw = rng(seed)
    region, age = draw.integers(3, size=rows), draw.normal(45, 12, size=rows)
    income = np.exp(0.02 * age + 0.4 * region + 0.4 * draw.normal(size=rows))
    smoker = draw.random(rows) < 1 / (1 + np.exp((age - 45) / 6))
    visits = draw.poisson(np.where(smoker, 9, 4), size=rows)
    if gaps:
        income = np.where(draw.random(rows) < np.where(smoker, 0.4, 0.05), np.nan, income)
    return pd.DataFrame(
        {"region": np.array(["n", "s", "w"])[region], "age": age, "income": income, "smoker": smoker, "visits": visits}
    )


def conditional_and_rows(frame, inputs):
    sampler = residual(frame)
    return sampler.conditional, as_table(inputs, "data", like=sampler.kinds).values


# The regression


@pytest.mark.parametrize(("rows", "width"), [(40, 6), (12, 30)], ids=["few columns", "more columns than rows"])
def test_rows_left_out_are_those_of_fits_without_them(rows, width):
    """The closed form against as many fits as there are rows, the intercept without a penalty."""
    features, wanted = rng(1).normal(size=(rows, width)), rng(2).normal(size=rows)
    missed, leverage = (part[:, 0] for part in ridge(features).left_out(wanted[:, None], np.array([3.0])))
    for r in range(rows):
        kept = np.arange(rows) != r
        line = ridge(features[kept]).fit(wanted[kept], 3.0)
        mean, outside = line.predict(features[[r]])
        assert wanted[r] - mean[0] == pytest.approx(missed[r], rel=1e-6)
        assert outside[0] == pytest.approx(leverage[r] / (1 - leverage[r]), rel=0.2)  # 1/m and 1/(m - 1) differ


def test_ridge_is_that_of_scikit_learn():
    from sklearn.linear_model import Ridge

    features, wanted, fresh = rng(1).normal(size=(50, 8)), rng(2).normal(size=50), rng(3).normal(size=(9, 8))
    expected = Ridge(alpha=2.5).fit(features, wanted).predict(fresh)
    np.testing.assert_allclose(ridge(features).fit(wanted, 2.5).predict(fresh)[0], expected)


def test_a_logistic_regression_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    features = rng(1).normal(size=(200, 4))
    yes = (features[:, 0] + rng(2).normal(size=200) > 0.5).astype(float)
    line, left = newton(ridge(features), yes, 2.0)
    theirs = LogisticRegression(C=0.5, tol=1e-8).fit(features, yes)
    np.testing.assert_allclose(line.predict(features)[0], theirs.decision_function(features), atol=2e-3)
    for r in (0, 50, 100):  # approximately left out
        kept = np.arange(200) != r
        again = LogisticRegression(C=0.5, tol=1e-8).fit(features[kept], yes[kept])
        assert left[r] == pytest.approx(again.decision_function(features[[r]])[0], abs=0.02)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 1.7, 2.0])
def test_shapes_and_back(power):
    from scipy.stats import yeojohnson

    x = rng(1).normal(size=200) * 3
    np.testing.assert_allclose(yeo_johnson(x, power), yeojohnson(x, power), atol=1e-12)
    np.testing.assert_allclose(inverse_yeo_johnson(yeo_johnson(x, power), power), x, atol=1e-9)
    for shape in (PowerTransform(1.0, 2.0, power), PowerTransform(1.0, 2.0, log=True)):
        values = np.exp(x / 3)
        np.testing.assert_allclose(shape.inverse(shape(values)), values, rtol=1e-9)


def test_curves_are_even_straight_outside_and_free_of_the_column():
    x = rng(1).normal(size=500)
    seen = basis_of(x, False, "curved", 1.0)
    features = seen(x)
    np.testing.assert_allclose(features.T @ features / 500, np.eye(4), atol=1e-6)
    far = seen(np.array([10.0, 20.0, 30.0]))
    np.testing.assert_allclose(far[2] - far[1], far[1] - far[0], rtol=1e-6)


def test_the_mean_follows_the_rest_and_the_spread_is_that_of_what_is_missed():
    reference, inputs = linear(400), linear(6, seed=1)
    inputs[:, 1] += 4  # outside: the mean goes on linearly
    drawn = residual(reference).values(inputs, one(0), 4000, rng()).reshape(6, 4000)
    np.testing.assert_allclose(drawn.mean(axis=1), 2 * inputs[:, 1] - inputs[:, 2], atol=0.35)
    quarter, three = np.quantile(drawn, [0.25, 0.75], axis=1)
    assert (np.abs((three - quarter) / 1.349 - 0.5) < 0.08).all()  # a standard deviation of 0.5


# What columns are


def test_natures():
    assert grid_of(np.array([0.0, 10.0, 250.0])).step == 10
    assert grid_of(np.array([1.25, 2.5, -0.75])).step == 0.25
    assert grid_of(np.array([0.1, 0.2, 0.7])).step == pytest.approx(0.1)
    assert grid_of(np.pi * np.array([1.0, 2.0])).step is None
    assert not grid_of(np.array([-1.0, 2.0])).nonnegative


def test_counts_are_whole_and_not_negative_but_not_cut_at_what_was_seen():
    reference = np.column_stack([rng().poisson(3, size=300), rng(1).normal(size=300)])
    inputs = np.array([[30.0, 0.0], [0.0, 0.0]])
    drawn = residual(reference).values(inputs, one(0), 5000, rng())[:, 0]
    assert (drawn % 1 == 0).all()
    assert drawn.min() == 0
    shifted = residual(reference - 2).values(inputs, one(0), 5000, rng())
    assert shifted.min() <= -2
    high = reference.copy()
    high[:, 0] += 3 * np.rint(high[:, 1])  # now it follows the other column, and goes on beyond the largest value
    beyond = residual(high).values(np.array([[5.0, 8.0]]), one(0), 500, rng())
    assert np.median(beyond) > high[:, 0].max()


def test_a_constant_column_is_drawn_as_it_is():
    reference = np.column_stack([np.full(50, 7.0), rng().normal(size=50)])
    sampler, inputs = residual(reference), np.array([[3.0, 0.1]])
    drawn = sampler.values(inputs, one(0), 5000, rng())[:, 0]
    assert set(np.unique(drawn)) == {3.0, 7.0}
    assert (drawn == 3.0).mean() == pytest.approx(1 / 51, abs=0.008)
    assert sampler.values(inputs, one(1), 50, rng()).std() > 0.3


def test_more_columns_than_rows():
    x = rng().normal(size=(30, 80)) + rng(1).normal(size=(30, 1)) * 2
    drawn = residual(x).values(x[:3] + 0.1, group(3, 70), 200, rng())
    assert drawn.shape == (600, 2)
    assert np.isfinite(drawn).all()


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_hardly_any_rows(rows):
    x = rng().normal(size=(rows, 3))
    drawn = residual(x).values(x, one(1), 300, rng())
    assert np.isfinite(drawn).all()
    own = (drawn.reshape(rows, 300) == x[:, [1]]).mean()
    assert own == pytest.approx(1 / (rows + 1), abs=0.1)


def test_one_row_is_refused():
    with pytest.raises(butfor.InputError, match="the reference has one row"):
        residual(np.zeros((1, 2)))


# The observed row is one donor more


@pytest.mark.parametrize("subset", [one(0), group(0, 3), group(0, 1, 2, 3, 4)], ids=["one", "group", "all"])
def test_the_observed_values_come_once_in_rows_plus_one(subset):
    reference, inputs = linear(40), linear(20, seed=1)
    sampler = residual(reference)
    drawn = sampler.values(inputs, subset, 2000, rng()).reshape(20, 2000, -1)
    own = (drawn == inputs[:, None, subset.index]).all(axis=2).mean()
    assert own == pytest.approx(1 / 41, abs=0.003)
    assert sampler.info.floor(subset) == 1 / 41


def test_a_group_of_numbers_has_one_donor_row():
    """Two columns whose noise is shared: drawn apart, their difference would scatter."""
    draw = rng()
    noise = draw.normal(size=300)
    reference = np.column_stack([noise + 0.01 * draw.normal(size=300), noise, draw.normal(size=300)])
    drawn = residual(reference).values(reference[:5], group(1, 0), 400, rng())
    assert (drawn[:, 0] - drawn[:, 1]).std() < 0.05
    assert drawn[:, 0].std() > 0.8


# Columns of few values


def test_a_category_is_listed_with_the_observed_level():
    frame = mixed(300, gaps=False)
    conditional, inputs = conditional_and_rows(frame, mixed(50, seed=1, gaps=False))
    values, mass = conditional.support(inputs, one(0))
    assert conditional.lists(one(0))
    assert values.shape == (50, 4, 1)
    np.testing.assert_array_equal(values[:, 0, 0], inputs[:, 0])
    np.testing.assert_allclose(mass.sum(axis=1), 1)
    np.testing.assert_allclose(mass[:, 0], 1 / 301)
    assert not conditional.lists(one(1))
    assert not conditional.lists(group(0, 1))
    assert conditional.lists(group(0, 3))


@pytest.mark.parametrize("subset", [one(0), one(3), group(0, 3), group(3, 0)], ids=lambda subset: str(subset.index))
def test_draws_have_the_shares_that_are_listed(subset):
    conditional, inputs = conditional_and_rows(mixed(200, gaps=False), mixed(4, seed=1, gaps=False))
    values, mass = conditional.support(inputs, subset)
    drawn = conditional.values(inputs, subset, 20_000, rng()).reshape(4, 20_000, -1)
    for i in range(4):
        for value in np.unique(values[i], axis=0):
            listed = mass[i][(values[i] == value).all(axis=1)].sum()
            assert (drawn[i] == value).all(axis=1).mean() == pytest.approx(listed, abs=0.015)


def test_probabilities_are_those_of_the_law():
    """Against the truth of a yes/no column and of an ordered one; better than the shares of the reference."""
    draw = rng()
    x = draw.normal(size=(2000, 3))
    x[:, 0] = draw.random(2000) < 1 / (1 + np.exp(-2 * x[:, 1]))
    level = np.clip(np.rint(x[:, 1] + x[:, 2] + 0.5 * draw.normal(size=2000)), -1, 1)
    reference, inputs = np.column_stack([x, level]), draw.normal(size=(100, 4))
    conditional = residual(reference).conditional
    values, mass = conditional.support(inputs, one(0))
    assert values[0, 1:, 0].tolist() == [0.0, 1.0]
    assert np.abs(mass[:, 2] - 1 / (1 + np.exp(-2 * inputs[:, 1]))).mean() < 0.05
    ordered = conditional.support(inputs, one(3))[1]
    far = np.abs(inputs[:, 1] + inputs[:, 2]) > 2
    top = np.argmax(ordered[far, 1:], axis=1) - 1
    assert (top == np.sign(inputs[far, 1] + inputs[far, 2])).mean() > 0.95


def test_a_level_that_the_reference_has_not_is_still_listed():
    frame, inputs = mixed(100, gaps=False), mixed(3, seed=1, gaps=False)
    inputs["region"] = ["north pole", "n", "s"]
    conditional, values = conditional_and_rows(frame, inputs)
    listed, mass = conditional.support(values, one(0))
    assert listed[0, 0, 0] not in listed[0, 1:, 0]
    assert mass[0, 0] == 1 / 101
    assert np.isfinite(conditional.values(values, one(1), 20, rng())).all()


def test_many_levels():
    names = np.array([f"town {k}" for k in range(60)])
    weights = 1 / np.arange(1, 61)
    frame = pd.DataFrame(
        {"town": rng().choice(names, p=weights / weights.sum(), size=500), "x": rng(1).normal(size=500)}
    )
    conditional, inputs = conditional_and_rows(frame, frame[:5])
    _, mass = conditional.support(inputs, one(0))
    np.testing.assert_allclose(mass.sum(axis=1), 1)
    assert np.isfinite(conditional.values(inputs, one(1), 20, rng())).all()


def test_codes_count_missing_once():
    levels, codes = codes_of(np.array([2.0, np.nan, 1.0, np.nan]))
    np.testing.assert_array_equal(levels, [1.0, 2.0, np.nan])
    np.testing.assert_array_equal(codes, [1, 2, 0, 2])


def test_a_long_chain_of_yes_and_no():
    x = (rng().normal(size=(150, 70)) + rng(1).normal(size=(150, 1)) > 0).astype(float)
    conditional = residual(x).conditional
    drawn = conditional.values(x[:3], group(*range(66)), 50, rng())
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert not conditional.lists(group(*range(66)))


def test_combinations_that_never_come_are_not_drawn():
    """Two columns that code one plan: the chain rule alone would give what never comes a little."""
    plan = rng().integers(4, size=400)
    reference = np.column_stack([plan // 2, plan % 2, plan, rng(1).normal(size=400)]).astype(float)
    conditional = residual(reference).conditional
    values, _ = conditional.support(reference[:5], group(0, 1, 2))
    assert {tuple(row) for row in values.reshape(-1, 3)} == {(k // 2, k % 2, k) for k in range(4)}


def coupled(rows, seed):
    """A plan fixes premium, deductible and copay, each a number of 12 values."""
    draw, table = rng(seed), rng(99)
    age = draw.normal(size=rows)
    plan = np.clip(np.rint(6 + 3 * age + 1.5 * draw.normal(size=rows)), 0, 11).astype(int)
    premium = np.sort(table.choice(np.arange(20, 400), 12, replace=False))
    others = [table.permutation(12) * 250 + 3, table.permutation(12) * 5 + 11]
    return np.column_stack([age, premium[plan], others[0][plan], others[1][plan]]).astype(float)


def test_numbers_that_only_come_together_are_donated_as_whole_rows():
    reference, inputs = coupled(300, 0), coupled(40, 1)
    conditional = residual(reference).conditional
    drawn = conditional.values(inputs, group(3, 1, 2), 50, rng())
    real = {tuple(row) for row in reference[:, [3, 1, 2]]} | {tuple(row) for row in inputs[:, [3, 1, 2]]}
    assert {tuple(row) for row in drawn} <= real
    assert conditional.floor(group(3, 1, 2)) == 1 / 31  # a tenth of the rows are near
    assert not conditional.lists(group(3, 1, 2))
    means = drawn.reshape(40, 50, 3)[:, :, 1].mean(axis=1)
    assert np.corrcoef(means, inputs[:, 0])[0, 1] > 0.8  # and they follow the age


def test_ordinary_counts_are_not_taken_for_plans():
    reference = rng().poisson(5, size=(500, 4)).astype(float)
    assert residual(reference).conditional.fit(group(0, 1)).nearest is None


# Missing values


def test_missing_values_are_redrawn_as_often_as_the_rest_says():
    conditional, inputs = conditional_and_rows(mixed(600), mixed(200, seed=1))
    gaps = np.isnan(conditional.values(inputs, one(2), 200, rng()).reshape(200, 200)).mean(axis=1)
    smoker = inputs[:, 3] == 1
    assert gaps[smoker].mean() == pytest.approx(0.4, abs=0.1)
    assert gaps[~smoker].mean() == pytest.approx(0.05, abs=0.04)
    assert conditional.floor(one(2)) == 1 / (1 + mixed(600).income.notna().sum())


def test_missing_values_in_groups_and_in_the_rest():
    conditional, inputs = conditional_and_rows(mixed(300), mixed(30, seed=1))
    for subset in (group(1, 2), group(2, 0, 3), group(4, 2, 1)):
        drawn = conditional.values(inputs, subset, 100, rng())
        place = list(subset.index).index(2)
        assert 0.02 < np.isnan(drawn[:, place]).mean() < 0.6
        assert not np.isnan(np.delete(drawn, place, axis=1)).any()
    assert not np.isnan(conditional.values(inputs, one(1), 20, rng())).any()


def test_a_category_may_be_missing():
    frame = mixed(300, gaps=False)
    frame.loc[rng().random(300) < 0.2, "region"] = None
    conditional, inputs = conditional_and_rows(frame, frame[:10])
    values, _ = conditional.support(inputs, one(0))
    assert np.isnan(values[:, 1:, 0]).sum(axis=1).tolist() == [1] * 10
    assert np.isnan(conditional.values(inputs, one(0), 500, rng())).mean() == pytest.approx(0.2, abs=0.06)


def test_a_value_missing_where_the_reference_has_none():
    conditional, inputs = conditional_and_rows(mixed(100, gaps=False), mixed(100, seed=1))
    assert np.isnan(inputs[:, 2]).any()
    assert np.isfinite(conditional.values(inputs, one(1), 20, rng())).all()
    own = np.isnan(conditional.values(inputs[np.isnan(inputs[:, 2])], one(2), 500, rng())).mean()
    assert own == pytest.approx(1 / 101, abs=0.01)


def test_numbers_that_are_never_there_together():
    draw = rng()
    x = draw.normal(size=(200, 3))
    x[:100, 0], x[100:, 1] = np.nan, np.nan
    drawn = residual(x).values(x[:4], group(0, 1), 100, rng())
    assert (np.isnan(drawn).sum(axis=1) == 1).all()


def test_a_column_that_is_all_missing():
    x = rng().normal(size=(60, 3))
    x[:, 1] = np.nan
    conditional = residual(x).conditional
    assert np.isnan(conditional.values(x[:2], one(1), 10, rng())).all()
    assert np.isfinite(conditional.values(x[:2], one(0), 10, rng())).all()


# Was wrong once: the residual of a whole number told where the mean was, and fair draws of counts were rejected.
@pytest.mark.parametrize("subset", [one(0), group(0, 1)], ids=["one", "group"])
def test_ranks_of_counts_do_not_tell_the_rest(subset):
    reference = np.column_stack([rng().poisson(1, size=900), rng(1).normal(size=(900, 2))])
    rows, ranks = residual(reference).conditional.held_out_ranks(subset)
    assert stats.kstest(ranks[:, 0], "uniform").pvalue > 0.01
    assert conditional_fault(reference[rows, 2:], ranks, rng())[0] > 0.01


# How sure the fit is


def test_leverage_is_small_inside_and_grows_outside():
    reference = linear(300)
    sampler = residual(reference)
    conditional = sampler.conditional
    inside, outside = (
        conditional.leverage(linear(200, seed=1), one(0)),
        conditional.leverage(linear(200, seed=1) + 6, one(0)),
    )
    assert inside.shape == (200,)
    assert 2 / 300 < inside.mean() < 20 / 300
    assert outside.mean() > 10 * inside.mean()
    whole = group(0, 1, 2, 3, 4)
    assert conditional.leverage(reference, whole).max() == 0
    assert conditional.leverage_of_mean(reference, whole) == 0
    assert conditional.leverage_of_mean(reference, one(0)) == pytest.approx(1 / 300, rel=0.3)


# Was wrong once: a rival that is regressed without the logarithm was as far from it as the mean is from the median,
# everywhere, which was taken for thirty times the error of the fit.
def test_rivals_of_another_bend_do_not_count_where_the_inputs_are_as_the_reference():
    hidden = np.random.default_rng(0).normal(size=(400, 3))
    skewed = np.exp(0.6 * hidden[:, 0] + 0.4 * hidden[:, 1])
    reference = np.column_stack([skewed, hidden[:, 1:]])
    conditional = residual(reference).conditional
    assert conditional.fit(one(0)).numeric[0].rivals
    assert conditional.leverage_of_mean(reference, one(0)) == pytest.approx(1 / 400, rel=0.3)
    assert (
        conditional.leverage_of_mean(reference + np.array([0, 4, 0]), one(0)) > 10 / 400
    )  # far out they go apart, and that counts


def test_leverage_of_the_mean_is_that_of_mahalanobis():
    """(1 + squared distance of the mean) / rows, where the fit is linear and the penalty small.

    What the penalty may have moved the mean by, and a rival regression, come on top.
    """
    reference, inputs = linear(500), linear(300, seed=1) + np.array([0, 1.0, 0, 0.5, 0])
    shift = inputs[:, 1:].mean(axis=0) - reference[:, 1:].mean(axis=0)
    distance = shift @ np.linalg.inv(np.cov(reference[:, 1:], rowvar=False)) @ shift
    conditional = residual(reference).conditional
    fit = conditional.fit(one(0)).numeric[0]
    assert fit.terms == Terms("plain")
    middle = conditional.design.matrix(inputs, fit.given, "plain").mean(axis=0)[None]
    assert fit.line.predict(middle)[1][0] == pytest.approx((1 + distance) / 500, rel=0.1)
    assert fit.line.predict(middle)[1][0] <= conditional.leverage_of_mean(inputs, one(0)) < 2 * (1 + distance) / 500


def test_leverage_of_categories_and_groups():
    conditional, inputs = conditional_and_rows(mixed(300), mixed(50, seed=1))
    for subset in (one(0), one(3), group(0, 2), group(1, 4)):
        assert (conditional.leverage(inputs, subset) > 1 / 400).all()
        assert 1 / 400 < conditional.leverage_of_mean(inputs, subset) < 0.2


# The sampler


def test_names_and_order_of_columns_and_pickles_do_not_matter():
    frame, inputs = mixed(150), mixed(20, seed=1)
    order = ["visits", "smoker", "region", "income", "age"]
    sampler, turned = residual(frame), residual(frame[order].rename(columns=str.upper))
    for columns in (["age"], ["region"], ["income", "smoker"], ["region", "visits"]):
        here = Subset("s", np.array([list(frame.columns).index(name) for name in columns]))
        there = Subset("s", np.array([order.index(name) for name in columns]))
        expected = sampler.values(as_table(inputs, "data", like=sampler.kinds).values, here, 9, rng())
        moved = as_table(inputs[order].rename(columns=str.upper), "data", like=turned.kinds).values
        np.testing.assert_array_equal(turned.values(moved, there, 9, rng()), expected)
        again = pickle.loads(pickle.dumps(sampler))
        np.testing.assert_array_equal(
            again.values(as_table(inputs, "data", like=sampler.kinds).values, here, 9, rng()), expected
        )
    assert repr(sampler) == "residual(150 reference rows, 5 columns)"


def test_features_of_the_reference_are_not_sent_along():
    sampler = residual(linear(2000))
    before = len(pickle.dumps(sampler))
    sampler.values(linear(2), one(0), 2, rng())
    donors = 2000 * 8
    assert len(pickle.dumps(sampler)) < before + donors + 5000


def test_float32_stays():
    inputs = linear(4).astype(np.float32)
    assert residual(linear(100)).values(inputs, one(0), 3, rng()).dtype == np.float32
    assert residual(linear(100).astype(np.float32)).values(inputs, group(0, 1), 3, rng()).dtype == np.float32


# Was wrong once: where rival regressions part, the spread of a logarithm is widened tenfold (a tenure of 2e12 months).
@pytest.mark.parametrize("seed", [10, 11, 12, 13])
def test_draws_of_bent_columns_stay_within_reach(seed, monkeypatch):
    tenure, monthly = np.round(rng(seed).gamma(2, 12, 500)), rng(seed + 50).normal(65, 20, 500).clip(15, 130)
    total = monthly * tenure * rng(seed + 60).normal(1, 0.05, 500)
    rows = np.column_stack([tenure, monthly, total, rng(seed + 70).poisson(1.5, 500)])
    given = rows[:1].repeat(2, axis=0)
    given[:, 3] = 12  # far outside
    given[1, 0] = 900.0  # so is this one's own value

    def drawn():
        return residual(rows).values(given, one(0), 400, rng()).reshape(2, 400)

    kept, observed = drawn(), given[:, :1]
    high = np.maximum(observed, tenure.max())
    assert kept.min() >= 0
    assert (kept <= 2 * high - tenure.min()).all()
    monkeypatch.setattr(NumericFit, "bounds", lambda _, observed: (observed - np.inf, observed + np.inf))
    free = drawn()
    assert (np.sign(kept - observed) == np.sign(free - observed)).all()
    assert (kept <= free).all()


def test_a_curve_may_bend_on_beyond_the_reference_and_a_straight_line_does_not():
    x = rng().normal(size=(300, 4))
    x[:, 3] = 1.0  # a constant
    x[:, 0] = np.exp(x[:, 1]) + 0.3 * rng(1).normal(size=300)
    x[:, 2] = 2 * x[:, 1] + 0.3 * rng(2).normal(size=300)
    sampler = residual(x).conditional
    fits = {j: sampler.fit(one(j)).numeric[0] for j in (0, 2)}
    beyond = np.repeat(x[:1], 5, axis=0)
    beyond[:, 1] = np.array([0.0, 0.5, 1.0, 2.0, np.nan]) + x[:, 1].max()
    curve, line = (fits[j].continuation_error(sampler.design, beyond) for j in (0, 2))
    assert curve[0] == curve[4] == 0
    assert curve[1] > 0
    assert curve[2] == pytest.approx(min(4 * curve[1], 30))
    assert curve[3] == pytest.approx(min(16 * curve[1], 30))
    assert not line.any()
    beyond[:, 3] = 2.0  # what has one value has no range to leave
    assert np.isfinite(fits[0].continuation_error(sampler.design, beyond)).all()
    assert not fits[0].continuation_error(sampler.design, x).any()
