"""Evidence that is gathered, merged and set aside, and the outlier statistic, one entry after the other."""

import math

import numpy as np
import pytest

from butfor.inference.decisions import Decision, Forecasts, decision_chances, forecast_gap, p_values
from butfor.inference.moves import BoundedChange
from butfor.inference.selection import Choice
from butfor.inference.statistics import (
    PartialEvidence,
    Rounding,
    StatisticSpec,
    Target,
    gather,
    merged_evidence,
    not_drawn,
    outlier_statistic,
    value_set,
)


def some(kind="p", draws=9):
    """Evidence on hypotheses 0 and 2 of four, the second without a usable draw."""
    first = PartialEvidence(np.array([0]), np.array([0.2]), np.array([1.5]), np.array([2]), surprise=np.array([0.9]))
    second = {"varied": np.array([False]), "drawable": np.array([False]), "draws": 3, "least": np.array([0.1])}
    rest = PartialEvidence(np.array([2]), np.array([0.7]), np.array([-1.0]), np.array([1]), **second)
    return gather(kind, 4, draws, [first, rest])


def test_what_is_not_given_speaks_for_the_null():
    found = some()
    assert found.values.tolist() == [0.2, 1, 0.7, 1]
    assert some("z").values.tolist() == [0.2, 0, 0.7, 0]
    assert found.drawable.tolist() == [True, False, False, False]
    assert found.varied.tolist() == [True, True, False, True]
    assert found.draws.tolist() == [9, 9, 3, 9]
    assert found.classes.tolist() == [2, 0, 1, 0]
    assert found.least.tolist() == [0, 0, 0.1, 0]
    np.testing.assert_array_equal(found.observed, [1.5, np.nan, -1.0, np.nan])
    np.testing.assert_array_equal(found.surprise, [0.9, np.nan, np.nan, np.nan])
    assert not found.open.any()
    assert (found.scale == 1).all()


@pytest.mark.parametrize(("kind", "null"), [("p", 1.0), ("z", 0.0), ("w", 0.0), ("e", 0.0)])
def test_what_could_not_be_tested_stays_in_its_family_as_a_null(kind, null):
    before = some(kind)
    found = before.without(np.array([0, 2]))
    assert found.values[[0, 2]].tolist() == [null, null]
    assert found.varied.all()
    assert found.drawable.tolist() == [True, False, True, False]
    assert np.isnan(found.surprise).all()
    assert not found.open.any()
    assert before.values[0] == 0.2  # as it was
    assert before.without(np.zeros(0, int)) is before


def test_what_is_not_drawn_has_p_one_and_no_draws():
    found = gather("p", 2, 9, [not_drawn(np.array([1]))])
    assert found.values.tolist() == [1, 1]
    assert found.draws.tolist() == [9, 0]
    assert found.drawable.tolist() == [False, True]


def test_merged_evidence_is_the_later_one_where_it_says():
    now = np.array([False, False, True, True])
    later = gather("p", 4, 20, [not_drawn(np.arange(4))])
    found = merged_evidence(some(), later, now)
    assert found.values.tolist() == [0.2, 1, 1, 1]
    assert found.draws.tolist() == [9, 9, 0, 0]
    assert found.drawable.tolist() == [True, False, True, True]


def hellinger(one, other):
    return math.sqrt(0.5 * sum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in zip(one, other, strict=True)))


def plain_outlier(versions):
    """Of each version the distance from the mean of all others."""
    far = []
    for v, shares in enumerate(versions):
        others = [other for u, other in enumerate(versions) if u != v]
        far.append(hellinger(shares, [sum(column) / len(others) for column in zip(*others, strict=True)]))
    return far


@pytest.mark.parametrize("scale", ["shares", "logits", "marginal"])
def test_the_outlier_statistic_is_the_distance_from_all_others(scale):
    outputs = np.random.default_rng(0).dirichlet([1, 2, 3], size=(2, 5))
    given = np.log(outputs) + 3.0 if scale == "logits" else outputs
    spec = StatisticSpec(Target("predicted"), Rounding(0.0, 1e-12), "greater", outlier=scale)
    found = outlier_statistic(given, spec, np.arange(2))
    for i in range(2):
        versions = outputs[i].tolist()
        if scale == "marginal":
            versions = [[p / 3 for p in row] + [(1 - p) / 3 for p in row] for row in versions]
        np.testing.assert_allclose(found[i], plain_outlier(versions), rtol=1e-9)
    shown = value_set(np.arange(2), given, spec)
    np.testing.assert_array_equal(shown.classes, outputs[:, 0].argmax(axis=1))
    np.testing.assert_allclose(shown.values[:, 0], given[np.arange(2), 0, shown.classes])
    np.testing.assert_array_equal(shown.statistic, found)


def test_versions_that_differ_by_rounding_are_tied_with_the_observed_one():
    outputs = np.array([[[0.2, 0.8], [0.2 + 1e-7, 0.8 - 1e-7], [0.6, 0.4]]])
    local = np.array([[1e-6, 1e-6]])
    spec = StatisticSpec(Target("predicted"), Rounding(0.0, 1.0, local), "greater", outlier="shares")
    found = outlier_statistic(outputs, spec, np.zeros(1, int))
    assert found[0, 0] == found[0, 1] < found[0, 2]


def test_chances_of_decisions_are_shares_of_even_and_of_odd_draws():
    outputs = np.array([[[0.9], [0.1], [0.8], [0.7], [0.2]], [[0.1], [0.9], [0.9], [0.9], [0.1]]])
    decision = Decision(lambda outputs: np.where(outputs > 0.5, "high", "low"))
    chances = dict(decision_chances(decision, outputs, None))
    assert chances["high"].tolist() == [[0.5, 0.5], [1.0, 0.5]]
    assert chances["low"].tolist() == [[0.5, 0.5], [0.0, 0.5]]
    mass = np.array([[0.1, 0.2, 0.3, 0.2], [0.25, 0.25, 0.25, 0.25]])
    listed = dict(decision_chances(decision, outputs, mass))
    np.testing.assert_allclose(listed["high"], [[0.625, 0.625], [0.75, 0.75]])


def test_a_listed_row_does_not_forecast_itself():
    """Whole rows: 20 of 200 are high, so are 22 of 204 donors; each row is one donor more, 1 / 205 of the mass."""
    true = np.arange(200) >= 180
    outputs = np.concatenate([true[:, None], true[:, None], np.tile([1.0, 0.0], (200, 1))], axis=1)[..., None]
    mass = np.tile([1.0, 22.0, 182.0], (200, 1)) / 205
    decision = Decision(lambda outputs: outputs > 0.5)
    knowing, forecast = (dict(decision_chances(decision, outputs, mass, again=by))[True] for by in (False, True))
    assert len(np.unique(knowing)) == 2
    apart = knowing + np.array(
        [0, 1e-12]
    )  # planted fault: split into bins, the highest of which holds all that came true
    assert abs(forecast_gap(apart, true, np.array([0.11]))[0]) > 0.1
    np.testing.assert_allclose(forecast, 22 / 204)
    assert forecast_gap(forecast, true, np.array([0.11]))[0] == 0  # in this order, too
    assert abs(forecast_gap(forecast, np.arange(200) < 60, np.array([0.11]))[0]) > 0.15  # and a true gap is seen


def test_equal_chances_stay_together():
    """A few values of chances: 130 rows at 0, then 40 and 30 whose truth follows their order."""
    chance = np.repeat(np.repeat([0.0, 0.25, 0.5], [130, 40, 30])[:, None], 2, axis=1)
    true = np.concatenate([np.zeros(130, bool), np.arange(40) >= 30, np.arange(30) >= 15])
    assert (forecast_gap(chance, true, np.array([0.0, 0.25, 0.5])) == 0).all()
    np.testing.assert_allclose(forecast_gap(chance, chance[:, 0] > 0, np.array([0.0, 0.5])), [0, 1 - 25 / 70])


def test_gaps_of_forecasts_are_those_of_their_bins():
    rng = np.random.default_rng(1)
    chance = np.clip(rng.random((120, 1)) + rng.normal(0, 0.02, (120, 2)), 0, 1)
    true = rng.random(120) < chance[:, 0] ** 3
    weights = rng.random(120) + 0.5
    order, at = np.argsort(chance[:, 0]), np.array([0.05, 0.3, 0.75, 0.95])
    bins = [order[:60], order[60:]]  # fifty rows or more each
    edge = (chance[order[59], 0] + chance[order[60], 0]) / 2
    expected = []
    for a in at:
        rows = bins[int(a > edge)]
        w = weights[rows] / weights[rows].sum()
        gaps = true[rows] - chance[rows, 1]
        mean = (w * gaps).sum()
        error = math.sqrt((w**2 * (gaps - mean) ** 2).sum() / (1 - (w**2).sum()))
        expected.append(mean if abs(mean) > 2 * error else 0.0)
    np.testing.assert_allclose(forecast_gap(chance, true, at, weights), expected)
    assert expected[0] < 0


def test_forecasts_are_read_for_the_decision_of_the_input_and_its_subset():
    rng = np.random.default_rng(2)
    by_subset = np.repeat(rng.uniform(0.3, 0.7, (60, 2, 1)), 2, axis=2)
    decisions = np.where(rng.random(60) < 0.95, "yes", "no")
    forecasts = Forecasts({"yes": by_subset, "no": 1 - by_subset}, decisions, subsets=1)
    input_of, subset_of = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    share = np.array([0.4, 0.4, 0.6, np.nan])
    off = forecasts.off(input_of, subset_of, np.array(["yes", "no"]), share)
    assert off[0] == forecast_gap(by_subset[:, 0], decisions == "yes", np.array([0.6]))[0] > 0
    assert off[2] == forecast_gap(1 - by_subset[:, 0], decisions == "no", np.array([0.4]))[0] < 0
    assert off[[1, 3]].tolist() == [0, 0]  # of the second subset nothing is known


def test_p_values_that_are_known_are_not_searched_for():
    drops = np.array([[0.4] * 30, [0.05] * 30])
    found = BoundedChange(drops, np.array([30, 30]), drops.mean(axis=1), np.array([[-1.0] * 2, [1.0] * 2]), np.ones(2))
    known = found.p_value(0.1)
    assert known[0] < 0.2 < known[1]
    assert p_values(found, 0.1, 0.2).tolist() == [known[0], 1.0]
    assert p_values(found, 0.1, known[0]).tolist() == [known[0], 1.0]
    assert p_values(found, 0.1, known[0] * 0.99).tolist() == [1.0, 1.0]
    sure = BoundedChange(drops, np.array([0, 0]), drops.mean(axis=1), found.ends, found.weight)
    assert p_values(sure, 0.1, 0.2).tolist() == [1e-11, 1.0]  # a list is exact, but p is never 0


def test_nothing_waits_where_there_is_one_resolution():
    nothing = Choice("bh", 0.1).waiting(np.full(3, 0.001), np.ones(3, bool), np.zeros(3, bool))
    assert nothing.tolist() == [False] * 3
