"""Null p-values of residual donors on rows the fit has not seen, for many laws; and planted faults, which must show.

One column a reference and few inputs of each, so that p-values hang together as little as they can: a fit to m rows is
right only on average over references.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from benchmarks.nulls import DISTRIBUTIONS, MODELS
from butfor import explain, global_importance
from butfor.streams import stream
from butfor.tabular.residual import residual, sampler, trees
from butfor.tabular.residual.regression import (
    SMALLEST,
    LinearFit,
    NumericFit,
    Ridge,
    best_penalty,
    fit_numbers,
    ridge,
)
from butfor.tabular.residual.sampler import ConditionalDistribution
from butfor.tabular.table import as_table
from butfor.types import Subset

LEVELS = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
DRAWS, INPUTS = 399, 16


def bounded(p):
    """At each level no more p-values than a binomial reaches once in a million."""
    counts, most = (p[:, None] <= LEVELS + 1e-12).sum(axis=0), binom.isf(1e-6, p.size, LEVELS)
    found = ", ".join(f"{c} at {u:g} (of {b:.0f})" for c, u, b in zip(counts, LEVELS, most, strict=True))
    assert (counts <= most).all(), f"too many of {p.size} p-values: {found}"


def chained(rows, rng, width=6, rho=0.9):
    x = rng.normal(size=(rows, width))
    for j in range(1, width):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    return x


def nonlinear(rows, rng):
    z = rng.normal(size=(rows, 6))
    made = [z[:, 0] ** 2 + z[:, 1] / 2, np.sin(2 * z[:, 1]) + 0.3 * z[:, 0], z[:, 2] * np.abs(z[:, 0]) + 0.2 * z[:, 3]]
    return np.column_stack([*made, z[:, :3] + 0.1 * z[:, 3:]])


def uneven(rows, rng):
    z = rng.normal(size=(rows, 4))
    wide = [np.exp(0.6 * z[:, 0]) * rng.normal(size=rows), z[:, 1] + (0.2 + np.abs(z[:, 2])) * rng.normal(size=rows)]
    return np.column_stack([*wide, z])


def contaminated(rows, rng):
    x = chained(rows, rng, rho=0.6)
    return np.where(rng.random(x.shape) < 0.05, 8 * x, x)


def spiked(rows, rng):
    """Half of the values are 0, the more so the larger the column before."""
    found = rng.normal(size=(rows, 6))
    for j in range(1, 6):
        found[:, j] = np.exp(found[:, j]) * (rng.random(rows) < 1 / (1 + np.exp(found[:, j - 1])))
    return found


def slopes(rows, rng):
    """The slope of each second column differs by sex."""
    x = rng.normal(size=(rows, 6))
    x[:, 0] = rng.random(rows) < 0.5
    x[:, 2] += (2 * x[:, 0] - 1) * x[:, 1]
    x[:, 4] += (2 * x[:, 0] - 1) * x[:, 3]
    return x


def codes(rows, rng):
    """Two columns hang on a region that is coded as a number."""
    x, region = rng.normal(size=(rows, 6)), rng.integers(12, size=rows)
    x[:, 0] = region + 1
    x[:, 1] += np.array([0, 1.5, -1, 0.5, -1.5, 2, -0.5, 0, 1, -2, 0.5, -0.5])[region]
    x[:, 2] += np.cos(2 * region)
    return x


def ratios(rows, rng):
    """Weight, height, one over the square of the other with some noise, and so on: products of positive columns."""
    x = np.exp(0.2 * rng.normal(size=(rows, 6)))
    x[:, 2] *= x[:, 0] / x[:, 1] ** 2
    x[:, 5] *= x[:, 3] * x[:, 4]
    return x


def products(rows, rng):
    x = rng.normal(size=(rows, 6))
    x[:, 2] += x[:, 0] * x[:, 1]
    x[:, 3] += np.where(x[:, 0] > 0, 1.5, -1.5)
    return x


BEDS = {
    "spiked": spiked,
    "slopes": slopes,
    "codes": codes,
    "ratios": ratios,
    "products": products,
    "t10": lambda rows, rng: rng.standard_t(10, size=(rows, 6)),
    "poisson": lambda rows, rng: rng.poisson(5, size=(rows, 6)).astype(float),
    "gamma": lambda rows, rng: rng.gamma(5, size=(rows, 6)),
    "lognormal": lambda rows, rng: np.exp(0.3 * rng.normal(size=(rows, 6))),
    "logistic": lambda rows, rng: rng.logistic(size=(rows, 6)),
    "ar": chained,
    "skewed ar": lambda rows, rng: np.exp(chained(rows, rng)),
    "nonlinear": nonlinear,
    "uneven spread": uneven,
    "contaminated": contaminated,
    "30 columns": lambda rows, rng: chained(rows, rng, width=30, rho=0.7),
}
CASES = [(bed, 60 if bed == "30 columns" else 100) for bed in BEDS]
CASES += [(bed, 30) for bed in ("spiked", "t10", "poisson", "skewed ar", "contaminated", "30 columns")]
CASES += [(bed, 300) for bed in ("spiked", "uneven spread", "nonlinear")]
SEEN = ("slopes", "codes", "ratios", "products")  # what straight lines cannot see
CASES += [(bed, rows) for bed in SEEN for rows in (30, 300)] + [("products", 1_000)]


def null_p(bed, rows, *, references=64, seed=0):
    """p-values of both tails and of the distance from the mean, (3, references * INPUTS)."""
    rng, found = np.random.default_rng(seed), []
    for k in range(references):
        reference, inputs = BEDS[bed](rows, rng), BEDS[bed](INPUTS, rng)
        column = k % reference.shape[1]
        values = residual(reference).values(inputs, Subset("s", np.array([column])), DRAWS, rng)
        both = np.column_stack([inputs[:, column], values.reshape(INPUTS, DRAWS)])
        far = np.round(np.abs(both - both.mean(axis=1, keepdims=True)), 9)
        # ties count against us: keeps p valid
        found.append([(t >= t[:, :1]).mean(axis=1) for t in (both, -both, far)])
    return np.array(found).transpose(1, 0, 2).reshape(3, -1)


@pytest.mark.parametrize(("bed", "rows"), CASES)
def test_null_p_values_are_valid(bed, rows):
    for p in null_p(bed, rows, references=64 if rows < 300 else 32):
        bounded(p)


@pytest.mark.parametrize("bed", ["t10", "ar"])
def test_and_they_are_not_much_too_large_either(bed):
    """A sampler that gives everything away is valid, too."""
    for p in null_p(bed, 100):
        for u in (0.1, 0.2, 0.5):
            assert (p <= u).sum() >= binom.ppf(1e-4, p.size, 0.75 * u)


# Columns of all kinds, groups of them, and gaps


def mixed(rows, rng):
    """region, age -> income (some missing) -> grade; age -> smoker -> visits."""
    region, age = rng.integers(3, size=rows), rng.normal(45, 12, size=rows)
    income = np.exp(0.02 * age + 0.4 * region + 0.4 * rng.normal(size=rows))
    smoker = rng.random(rows) < 1 / (1 + np.exp((age - 45) / 6))
    visits = rng.poisson(np.where(smoker, 6, 2) + np.maximum(age - 45, 0) / 10).astype(float)
    grade = np.clip(np.rint(income / 2 + rng.normal(size=rows)), 1, 5)
    income = np.where(rng.random(rows) < 0.05 + 0.2 * smoker, np.nan, income)
    named = np.array(["n", "s", "w"])[region]
    return pd.DataFrame(
        {"region": named, "age": age, "income": income, "smoker": smoker, "visits": visits, "grade": grade}
    )


SUBSETS = [(0,), (1,), (2,), (3,), (4,), (5,), (0, 3), (1, 2), (2, 4, 5), (0, 1, 3, 5)]


@pytest.mark.parametrize("rows", [30, 200])
def test_null_p_values_of_mixed_columns_are_valid(rows):
    """A random projection of the subset's columns, a missing one far out; exact where the sampler lists."""
    rng, found = np.random.default_rng(1), []
    for k in range(80):
        frame, inputs = mixed(rows, rng), mixed(INPUTS, rng)
        columns = np.array(SUBSETS[k % len(SUBSETS)])
        sampler, subset = residual(frame), Subset("s", columns)
        values = as_table(inputs, "data", like=sampler.kinds).values
        weights = rng.normal(size=len(columns)) / np.array([1, 12, 2, 0.5, 3, 1])[columns]

        def statistic(x, weights=weights):
            return np.round(np.where(np.isnan(x), 9.0, x) @ weights, 9)

        if sampler.lists(subset):
            listed, mass = sampler.support(values, subset)
        else:
            listed = sampler.values(values, subset, DRAWS, rng).reshape(INPUTS, DRAWS, -1)
            listed = np.concatenate([values[:, None, columns], listed], axis=1)
            mass = np.full(listed.shape[:2], 1 / (DRAWS + 1))
        found.append((mass * (statistic(listed) >= statistic(values[:, None, columns]))).sum(axis=1))
    bounded(np.concatenate(found))


# Planted faults


def test_donors_without_the_observed_row_are_caught(monkeypatch):
    right = ConditionalDistribution.uniforms

    def without(fit, inputs, draws, rng):
        donors, uniform = right(fit, inputs, draws, rng)
        return donors % fit.donors, uniform

    monkeypatch.setattr(ConditionalDistribution, "uniforms", without)
    with pytest.raises(AssertionError, match="too many"):
        bounded(null_p("t10", 30)[0])


def test_residuals_of_rows_that_were_fitted_are_caught(monkeypatch):
    right = Ridge.left_out

    def in_sample(self, wanted, penalties):
        missed, leverage = right(self, wanted, penalties)
        return missed * (1 - leverage), np.zeros_like(leverage)

    monkeypatch.setattr(Ridge, "left_out", in_sample)
    with pytest.raises(AssertionError, match="too many"):
        bounded(null_p("30 columns", 60)[2])


def test_trees_that_have_seen_their_rows_are_caught(monkeypatch):
    right = trees.grow

    def in_sample(features, *others):
        forest = right(features, *others)
        return replace(forest, left_out=forest.each(features).mean(axis=1))

    monkeypatch.setattr(trees, "grow", in_sample)
    with pytest.raises(AssertionError, match="too many"):
        bounded(null_p("products", 100)[2])


def test_rows_of_a_cluster_that_are_left_out_one_by_one_are_caught():
    """Of 15 people, 10 rows each: p-values hold where a person is left out as a whole, and fail where a row is."""

    def people(count, visits, rng):
        own = np.repeat(rng.normal(size=(count, 6)), visits, axis=0)
        x = 0.95 * own + 0.3 * rng.normal(size=own.shape)
        x[:, 0] += 0.5 * x[:, 1:].sum(axis=1)
        return x

    for grouped in (True, False):
        rng, found = np.random.default_rng(0), []
        for _ in range(64):
            reference, inputs = people(15, 10, rng), people(INPUTS, 1, rng)
            fitted = residual(reference, groups=np.repeat(np.arange(15), 10) if grouped else None)
            values = fitted.values(inputs, Subset("s", np.array([0])), DRAWS, rng).reshape(INPUTS, DRAWS)
            far = np.abs(np.column_stack([inputs[:, 0], values]) - values.mean(axis=1, keepdims=True))
            found.append((far >= far[:, :1]).mean(axis=1))
        if grouped:
            bounded(np.concatenate(found))
        else:
            with pytest.raises(AssertionError, match="too many"):
                bounded(np.concatenate(found))


@dataclass(frozen=True, eq=False)
class ScaledByMean(NumericFit):
    """A spread that is learned on means of rows left out, which hold the row's own error."""

    by_mean: LinearFit | None = None

    def predict(self, design, inputs):
        found = NumericFit.predict(self, design, inputs)
        found[:, 1] *= np.exp(self.by_mean.predict(np.abs(found[:, :1] - self.line.intercept))[0])
        return found


def leaking(predictors, columns):
    (fit,) = fit_numbers(predictors, columns)
    regressions = predictors.ridge(fit.terms, len(predictors.rows))
    bent = fit.transform(predictors.design.rows.values[predictors.rows, fit.column])
    missed, leverage = (part[:, 0] for part in regressions.left_out(bent[:, None], np.array([fit.line.penalty])))
    donors = missed * np.sqrt(1 - leverage)
    means = ridge(np.abs(bent - missed - bent.mean())[:, None])
    wanted = np.log(np.maximum(np.abs(donors), SMALLEST * np.abs(donors).mean()))[:, None]
    penalty = best_penalty(means, wanted[:, 0])
    left, _ = means.left_out(wanted, np.array([penalty]))
    fields = {
        name: getattr(fit, name)
        for name in ("column", "given", "terms", "line", "transform", "grid", "span", "sd", "unshrunk")
    }
    freed = donors / np.exp(wanted - left)[:, 0]
    return [ScaledByMean(**fields, residuals=freed, by_mean=means.fit(wanted[:, 0], penalty))]


@pytest.mark.filterwarnings("ignore:overflow")  # far beyond what was learned, such a spread explodes
def test_a_spread_learned_on_means_of_rows_left_out_is_caught(monkeypatch):
    monkeypatch.setattr(sampler, "fit_numbers", leaking)
    with pytest.raises(AssertionError, match="too many"):
        bounded(null_p("t10", 30)[2])


# Was wrong once: with many inputs, 31 of 100 runs had a false feature (23 before rivals were counted right).
# (With the sampler of part 13: 8 of 40 seeds without the control, 1 with it; these are two of the 8.)
@pytest.mark.parametrize("seed", [108, 112])
def test_features_count_what_a_sampler_that_does_not_suit_is_off_by(seed):
    """One row in twenty is an outlier in all columns, the model is the largest column: draws are off on average."""
    law, model = DISTRIBUTIONS["outliers"], MODELS[1]
    rng = stream(seed, "nulls", "outliers", 1000)
    reference, inputs = law(rng, 1000), law(rng, 500)
    asked = {"test": "few-shot", "seed": seed}
    found = explain(model, inputs, reference, **asked).features
    assert not found.chosen[found.resolution > 0].any()
    alone = explain(model, inputs, reference, **asked, control=False).features  # nothing says how far it is off
    assert alone.chosen[alone.resolution > 0].any()
    contrast = partial(global_importance, model, inputs, reference=reference, seed=seed)
    assert not contrast().chosen.any()
    assert contrast(check=False).chosen.any()


def false_features(model, inputs, rows, runs, draw=lambda rng, size: rng.normal(size=(size, 2))):
    """Runs with a feature of the whole, every null true."""
    found = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        reference = draw(rng, rows)
        over = explain(model, draw(rng, inputs), reference, test="few-shot", seed=seed, effects=None).features
        found += bool(over.chosen[over.resolution == 0].any())
    return found


def test_features_of_a_rare_event_are_not_sure_of_what_few_inputs_do_not_show():
    """Was wrong once: 50 inputs without the event had no spread, 37 of 60 runs were false."""

    def rare(rows):
        return (np.asarray(rows)[:, 0] > 2.4) * 1.0

    assert false_features(rare, 50, 1000, 20) <= binom.isf(1e-3, 20, 0.1)


def test_copies_in_the_reference_tell_nothing_new():
    """Was wrong once: rows that were drawn five times over counted five times, 18 of 60 runs were false."""

    def oversampled(rng, size):
        return (
            np.repeat(rng.lognormal(size=(size // 5, 2)), 5, axis=0) if size == 300 else rng.lognormal(size=(size, 2))
        )

    assert false_features(lambda rows: np.asarray(rows).sum(axis=1), 299, 300, 20, oversampled) <= binom.isf(
        1e-3, 20, 0.1
    )


def test_features_of_two_classes_are_of_one_of_them():
    """Was wrong once: a draw was scored by its own class, and effects were half of those of the rows."""
    rng = np.random.default_rng(0)

    def chances(rows):
        p = 1 / (1 + np.exp(-np.asarray(rows) @ np.array([1.5, 0.7, 0.0])))
        return np.column_stack([1 - p, p])

    reference, inputs = rng.normal(size=(300, 3)), rng.normal([1.0, 0.5, 0.0], 1, size=(80, 3))
    found = explain(chances, inputs, reference).features
    named = explain(chances, inputs, reference, target=1, alternative="greater").features
    np.testing.assert_allclose(found.effect, named.effect, atol=0.05)
    assert found.effect[found.subset == "x0"].item() > 0.15
    assert "Differ on average: x0 +" in explain(chances, inputs, reference).summary()
