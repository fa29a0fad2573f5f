"""Null p-values through every sampler, on data where it is right; and planted faults, which must show.

One hypothesis an input, so that p-values are independent given the reference. A sampler fitted to m rows is right only
on average over references: every bed has many of them, with few inputs each.
"""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from butfor import tabular
from butfor.tabular.donors import donate
from butfor.tabular.table import as_table
from butfor.types import Subset

LEVELS = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
DRAWS = 1999


def bounded(p):
    """At each level no more p-values than a binomial reaches once in a million."""
    counts, most = (p[:, None] <= LEVELS + 1e-12).sum(axis=0), binom.isf(1e-6, p.size, LEVELS)
    found = ", ".join(f"{c} at {u:g} (of {b:.0f})" for c, u, b in zip(counts, LEVELS, most, strict=True))
    assert (counts <= most).all(), f"too many of {p.size} p-values: {found}"


# Beds: rows -> table. Values of x_j given the rest of the row are what the sampler beside them assumes.


def chain(rows, rng, width=8, rho=0.7):
    x = rng.normal(size=(rows, width))
    for j in range(1, width):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    return x


def factors(rows, rng, width=60):
    """Two strong common factors: many columns of few rows explain each other too well."""
    loads = np.random.default_rng(0).normal(size=(2, width))
    return rng.normal(size=(rows, 2)) @ loads + rng.normal(size=(rows, width))


def skewed(rows, rng):
    return np.exp(chain(rows, rng))


def counts(rows, rng):
    return np.floor(2 * np.exp(chain(rows, rng)))


def whole(rows, rng):
    return np.round(2 * chain(rows, rng))


def independent(rows, rng):
    return np.column_stack([rng.lognormal(size=(rows, 3)), rng.poisson(3, size=(rows, 2)), rng.random(rows) < 0.3])


def surface(rows, rng):
    """Six smooth functions of two numbers."""
    a, b = rng.uniform(-1, 1, size=(2, rows))
    smooth = np.column_stack([a, b, a * b, np.sin(2 * a), a**2 - b, np.cos(2 * b + a)])
    return smooth + 0.1 * rng.normal(size=smooth.shape)


def mixed(rows, rng):
    """region, age -> income (some missing) -> grade; age -> smoker -> visits."""
    region, age = rng.integers(3, size=rows), rng.normal(45, 12, size=rows)
    income = np.exp(0.02 * age + 0.4 * region + 0.4 * rng.normal(size=rows))
    smoker = rng.random(rows) < 1 / (1 + np.exp((age - 45) / 6))
    visits = rng.poisson(np.where(smoker, 6, 2) + np.maximum(age - 45, 0) / 10)
    grade = np.digitize(np.log(income) + 0.3 * rng.normal(size=rows), [0.6, 1.2, 1.8])
    missing = rng.random(rows) < np.where(region == 0, 0.3, 0.05)
    return pd.DataFrame(
        {
            "region": pd.Categorical.from_codes(region, ["north", "south", "west"]),
            "age": np.rint(age).astype(int),
            "income": np.where(missing, np.nan, income),
            "smoker": smoker,
            "visits": visits,
            "grade": np.array(["a", "b", "c", "d"])[grade],
        }
    )


STATISTICS = {
    "continuous": lambda values: values,
    "other side": lambda values: -values,
    "tied": lambda values: np.sign(values) * np.floor(2 * np.abs(values)) / 2,
}


def null_p(make, bed, *, references, rows, inputs):
    """p-values by every statistic, of `inputs` inputs for each of `references` references, one of a column each."""
    found = {name: [] for name in STATISTICS}
    for number in range(references):
        rng = np.random.default_rng([7, number])
        sampler = make(bed(rows, rng))
        values = as_table(bed(inputs, rng), "data", like=sampler.kinds).values
        tested = (np.arange(inputs) + number) % values.shape[1]
        for j in np.unique(tested):
            mine = values[tested == j]
            drawn = sampler.values(mine, Subset(f"x{j}", np.array([j])), DRAWS, rng).reshape(-1, DRAWS)
            pool = np.nan_to_num(np.column_stack([mine[:, j], drawn]), nan=-1.0)
            for name, of in STATISTICS.items():
                statistic = of(pool)
                hits = (statistic[:, 1:] >= statistic[:, :1]).sum(axis=1)  # ties count against us
                found[name].append((1 + hits) / (DRAWS + 1))
    return {name: np.concatenate(p) for name, p in found.items()}


def forest(reference):
    return tabular.forest(reference, trees=20)


def extended(reference):
    return tabular.copula(reference, beyond="extend")


RIGHT = {
    "gaussian, normal": (tabular.gaussian, chain, {"references": 100, "rows": 200, "inputs": 32}),
    "gaussian, few rows": (tabular.gaussian, chain, {"references": 150, "rows": 20, "inputs": 16}),
    "gaussian, more columns than rows": (tabular.gaussian, factors, {"references": 100, "rows": 40, "inputs": 30}),
    "gaussian, whole numbers": (tabular.gaussian, whole, {"references": 100, "rows": 200, "inputs": 32}),
    "copula, skewed": (tabular.copula, skewed, {"references": 100, "rows": 100, "inputs": 32}),
    "copula, extended": (extended, skewed, {"references": 100, "rows": 100, "inputs": 32}),
    "copula, extended counts": (extended, counts, {"references": 100, "rows": 100, "inputs": 32}),
    "copula, counts": (tabular.copula, counts, {"references": 100, "rows": 100, "inputs": 32}),
    "copula, more columns than rows": (tabular.copula, factors, {"references": 50, "rows": 40, "inputs": 60}),
    "empirical, independent": (tabular.empirical, independent, {"references": 150, "rows": 40, "inputs": 24}),
    "forest, independent": (forest, independent, {"references": 20, "rows": 60, "inputs": 150}),
    "forest, mixed": (forest, mixed, {"references": 10, "rows": 300, "inputs": 300}),
    "neighbours, independent": (tabular.neighbours, independent, {"references": 100, "rows": 60, "inputs": 30}),
    "neighbours, smooth surface": (tabular.neighbours, surface, {"references": 50, "rows": 500, "inputs": 60}),
}


@pytest.mark.parametrize("case", RIGHT)
def test_null_p_values_are_valid_where_the_sampler_is_right(case):
    make, bed, size = RIGHT[case]
    for p in null_p(make, bed, **size).values():
        bounded(p)


@pytest.mark.parametrize("case", ["gaussian, normal", "copula, skewed", "empirical, independent"])
def test_and_they_are_not_much_too_large_either(case):
    """On the continuous columns; a sampler that gives everything away is valid, too."""
    make, bed, size = RIGHT[case]
    p = null_p(make, bed if bed is not independent else skewless, **size)["continuous"]
    for u in (0.1, 0.2, 0.5):
        assert (p <= u).sum() >= binom.ppf(1e-4, p.size, 0.8 * u)


def skewless(rows, rng):
    return rng.lognormal(size=(rows, 3))


# Signs, which one-shot and few-shot tests go by: even where a null only follows a column far outside the reference


FOLLOWERS = {
    "gaussian": (tabular.gaussian, lambda x: x),
    "gaussian, whole numbers": (tabular.gaussian, lambda x: np.rint(40 + 6 * x)),
    "copula, extended": (extended, lambda x: x),
    "copula, extended whole numbers": (extended, lambda x: np.rint(40 + 6 * x)),
}


def even(case):
    """Of 4,000 nulls that follow a column 5 standard deviations out, about half beat one draw: it is the same law.

    How a copula's margins go on there is a guess, so that it may be off by half a standard deviation either way.
    """
    make, scale = FOLLOWERS[case]
    rng = np.random.default_rng(11)
    reference, lead = rng.normal(size=(20_000, 2)), 5 + rng.normal(size=4_000)
    reference[:, 1] = 0.8 * reference[:, 0] + 0.6 * reference[:, 1]
    inputs = scale(np.column_stack([lead, 0.8 * lead + 0.6 * rng.normal(size=lead.size)]))
    drawn = make(scale(reference)).values(inputs, Subset("x1", np.array([1])), 1, rng).reshape(-1)
    wins, losses = (inputs[:, 1] > drawn).sum(), (inputs[:, 1] < drawn).sum()
    off = 0.1 if make is tabular.gaussian else 0.35
    assert 0.5 - off < wins / (wins + losses) < 0.5 + off, f"{wins} wins and {losses} losses"


@pytest.mark.parametrize("case", FOLLOWERS)
def test_nulls_that_follow_a_far_column_win_as_often_as_they_lose(case):
    even(case)


# Planted faults


@pytest.mark.parametrize("case", FOLLOWERS)
def test_draws_cut_off_at_the_observed_value_are_caught(case, monkeypatch):
    """They tie with it and never exceed it: p-values do not mind, signs do."""
    kind = type(FOLLOWERS[case][0](np.random.default_rng(0).normal(size=(50, 2))))
    whole = kind.values

    def cut(self, inputs, subset, draws, rng):
        return np.minimum(whole(self, inputs, subset, draws, rng), np.repeat(inputs[:, subset.index], draws, axis=0))

    monkeypatch.setattr(kind, "values", cut)
    with pytest.raises(AssertionError, match="wins and 0 losses"):
        even(case)


def no_own_row(rows, inputs, subset, donors, own):
    return donate(rows, inputs, subset, donors, np.zeros_like(own))


@pytest.mark.parametrize(
    ("case", "module"),
    [
        ("empirical, independent", "empirical"),
        ("forest, independent", "forest"),
        ("neighbours, independent", "neighbours"),
        ("neighbours, smooth surface", "neighbours"),
    ],
)
def test_donors_without_the_observed_row_are_caught(case, module, monkeypatch):
    monkeypatch.setattr(sys.modules[f"butfor.tabular.{module}"], "donate", no_own_row)
    make, bed, size = RIGHT[case]
    with pytest.raises(AssertionError, match="too many"):
        bounded(null_p(make, bed, **size)["continuous"])


def test_a_copula_without_the_observed_row_is_caught(monkeypatch):
    monkeypatch.setattr(sys.modules["butfor.tabular.copula"].Copula, "floor", lambda *_: 0.0)
    make, bed, size = RIGHT["copula, skewed"]
    with pytest.raises(AssertionError, match="too many"):
        bounded(null_p(make, bed, **size)["continuous"])


def test_a_gaussian_that_believes_its_fit_is_caught():
    """More columns than rows: the fit explains the rows it has seen, and no others."""
    _, bed, size = RIGHT["gaussian, more columns than rows"]

    def sure(rows):
        made = tabular.gaussian(rows)
        return replace(made, conditional=replace(made.conditional, left_out=None, freedom=None))

    with pytest.raises(AssertionError, match="too many"):
        bounded(null_p(sure, bed, **size)["continuous"])
