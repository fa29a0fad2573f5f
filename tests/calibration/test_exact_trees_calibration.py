"""Exact p-values of trees with fitted residual donors are valid on rows that the fit has not seen; faults show."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor

from butfor import explain
from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import table_hypotheses
from butfor.evaluation.progress import Meter
from butfor.inference import exact as listed
from butfor.inference.statistics import Rounding, StatisticSpec, Target
from butfor.models.trees import readable
from butfor.run.tests import known_outcomes
from butfor.tabular import residual
from butfor.tabular.exact_trees import read_trees
from butfor.tabular.residual.sampler import Residual
from butfor.tabular.splice import bind_sampler
from butfor.tabular.table import items_of
from butfor.types import Subset
from calibration_checks import super_uniform

WIDTH, INPUTS = 4, 12
BEDS = {
    "t10": lambda rng, rows: rng.standard_t(10, size=(rows, WIDTH)),
    "poisson": lambda rng, rows: rng.poisson(5, size=(rows, WIDTH)).astype(float),
}


def model_of(bed, kind):
    """Trees that jump often: on columns of few values many outputs tie."""
    rng = np.random.default_rng(7)
    rows = BEDS[bed](rng, 600)
    score = rows[:, 0] - rows[:, 1] + np.abs(rows[:, 2] - rows[:, 2].mean()) + rng.normal(size=600)
    if kind == "classes":
        return HistGradientBoostingClassifier(max_iter=15).fit(rows, np.digitize(score, np.quantile(score, [0.3, 0.7])))
    return RandomForestRegressor(15, random_state=0, min_samples_leaf=3).fit(rows, score)


def null_p_values(bed, rows, kind, runs):
    """Inputs of the reference's own law, a reference and a fit of its own for each dozen, one column a run.

    One column: p-values of one fit hang together as little as they can. The model is read and checked once.
    """
    model, found, outcomes = model_of(bed, kind), [], None
    ask = model.predict_proba if kind == "classes" else lambda rows: model.predict(rows)[:, None]
    several = Target("predicted") if kind == "classes" else Target("output")
    spec = StatisticSpec(several, Rounding(1e-14, 0.0), "greater", class_of_each=kind == "classes")
    for run in range(runs):
        rng = np.random.default_rng([run, rows])
        table, sampler = bind_sampler(BEDS[bed](rng, INPUTS), residual(BEDS[bed](rng, rows)))
        hypotheses = table_hypotheses(items_of(table), table.index, [_one(run % 3)], sampler, 0)
        if outcomes is None:
            read = read_trees(readable(model), hypotheses, table, None, 1000, ask, ask(table.values))
            outcomes = read.outcomes
        evaluator = Evaluator(ask, 1000, 1, Meter(lambda _: None, 0))
        (part,) = known_outcomes(hypotheses, evaluator, spec, outcomes.split(hypotheses)[0], outcomes)
        found.append(part.values)
    return np.concatenate(found)


@pytest.mark.parametrize("kind", ["classes", "numbers"])
@pytest.mark.parametrize("rows", [100, 300])
@pytest.mark.parametrize("bed", BEDS)
def test_null_p_values_are_valid(bed, rows, kind):
    super_uniform(null_p_values(bed, rows, kind, runs=40))


def strictly(statistic, mass, margin=0.0):
    return (mass * (statistic > statistic[:, :1] - margin)).sum(axis=1)


def test_ties_that_count_for_us_show(monkeypatch):
    monkeypatch.setattr(listed, "p_exact", strictly)
    with pytest.raises(AssertionError, match="p-values are <="):
        super_uniform(null_p_values("poisson", 100, "numbers", runs=40))


def test_donors_that_are_too_narrow_show(monkeypatch):
    """What was missed of rows that the fit has seen: residuals shrunk by a third."""
    plain = Residual.cdf

    def narrow(self, subset):
        self.fit(subset).numeric[0].residuals[:] *= 0.67
        return plain(self, subset)

    monkeypatch.setattr(Residual, "cdf", narrow)
    with pytest.raises(AssertionError, match="p-values are <="):
        super_uniform(null_p_values("t10", 300, "numbers", runs=40))


def test_p_is_at_least_the_rank_among_donors():
    """(1 + donors at least as surprising) / (m + 1), ties against us: never less, with merged ties perhaps more."""
    rng = np.random.default_rng(3)
    for bed in BEDS:
        model, reference = model_of(bed, "numbers"), BEDS[bed](rng, 100)
        X, sampler = BEDS[bed](rng, 30), residual(reference)
        result = explain(model, X, sampler, subsets="columns", control=False, alternative="greater")
        p = result.table.p.to_numpy().reshape(len(X), WIDTH)
        for j in range(WIDTH):
            donors = round(1 / sampler.info.floor(_one(j)))
            drawn = sampler.values(X, _one(j), donors, _Every())
            rows = np.repeat(X, donors, axis=0)
            rows[:, [j]] = drawn
            said = model.predict(rows).reshape(len(X), donors)
            assert (p[:, j] >= (said >= model.predict(X)[:, None]).mean(axis=1) - 1e-12).all()


class _Every:
    def integers(self, high, size):
        return np.broadcast_to(np.arange(high), size).copy()


def _one(j):
    return Subset("x", np.array([j]))
