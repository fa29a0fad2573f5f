"""Who is accused wrongly, and how often: on known laws, on fitted ones, and with planted faults that must be caught."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import treatment as study
from benchmarks.treatment import bed, situation_test
from butfor import treatment
from butfor.inference import treatment as core
from butfor.inference.decisions import FlipShare
from butfor.inference.treatment import FlipContrast, accuse, p_of_people, p_otherwise
from butfor.tabular import treatment as module
from butfor.tabular.calibration import ConditionalFaults

DRAWS, LEVEL, US = 200, 0.5, (0.005, 0.01, 0.02, 0.05)
NULLS = {  # rates under another value, and under the person's value
    "at the level": (0.5, 0.05),
    "as often as it is": (0.8, 0.8),
    "seldom": (0.5, 0.5),
    "always": (1.0, 1.0),
}


def shares(q, size, rng, *, copies=1, error=0.0):
    """Of draws, each counted so many times."""
    hits = rng.binomial(DRAWS // copies, q, size=size)
    return FlipShare(np.full(size, DRAWS), hits / (DRAWS // copies), np.full(size, error))


def super_uniform(p):
    """p-values above .05 are 1: what counts is below."""
    for u in US:
        count = int((p <= u).sum())
        assert count <= binom.isf(1e-6, p.size, u), f"{count} of {p.size} p-values are <= {u}"


def null_p(what, *, copies=1, size=1500, seed=0):
    rng = np.random.default_rng(seed)
    other, kept = (shares(q, size, rng, copies=copies) for q in NULLS[what])
    return p_otherwise(FlipContrast(other, kept), LEVEL)


@pytest.mark.parametrize("what", NULLS)
def test_p_values_of_a_pair_are_valid(what):
    super_uniform(null_p(what))


def test_copies_of_draws_that_count_as_draws_are_caught():
    """Planted fault: the same draws in several rounds, taken for independent."""
    with pytest.raises(AssertionError):
        super_uniform(null_p("at the level", copies=10))
    with pytest.raises(AssertionError):
        super_uniform(null_p("as often as it is", copies=10))


def test_what_is_different_is_shown():
    rng = np.random.default_rng(1)
    p = p_otherwise(FlipContrast(shares(0.8, 500, rng), shares(0.2, 500, rng)), LEVEL)
    assert (p <= 0.001).mean() > 0.95


def test_the_fit_errs_too():
    """Both fitted laws are off by a normal error: with it in the interval p-values stay valid, without they do not."""
    rng = np.random.default_rng(2)
    error, size = 1 / 60, 4000
    q = np.clip(0.7 + np.sqrt(0.21 * error) * rng.normal(size=(2, size)), 0, 1)
    counted, ignored = (
        p_otherwise(
            FlipContrast(*(shares(one, size, np.random.default_rng(3 + k), error=by) for k, one in enumerate(q))), LEVEL
        )
        for by in (error, 0.0)
    )
    super_uniform(counted)
    with pytest.raises(AssertionError):
        super_uniform(ignored)


def test_equal_rates_that_are_known_exactly_accuse_nobody(monkeypatch):
    """> for >= : where nothing is drawn a rate may equal the person's, and the level."""
    exact = np.zeros(2, np.int64), np.zeros(2)
    contrast = FlipContrast(*(FlipShare(exact[0], np.array(one), exact[1]) for one in ([1.0, 0.5], [1.0, 0.0])))
    assert (p_otherwise(contrast, LEVEL) == 1).all()
    right = core.p_values
    monkeypatch.setattr(core, "p_values", lambda shares, level, largest: right(shares, level - 1e-12, largest))
    assert (p_otherwise(contrast, LEVEL) < 1e-9).all()


@pytest.mark.parametrize("values", [1, 3, 8])
def test_the_best_of_several_values_is_paid_for(values):
    rng = np.random.default_rng(values)
    p = rng.random((4000, values))
    super_uniform(p_of_people(p))
    if values > 1:
        with pytest.raises(AssertionError):
            super_uniform(p.min(axis=1))  # planted fault: the best, as if it were the only one


def test_missing_values_cost_nothing():
    rng = np.random.default_rng(0)
    p = rng.random((4000, 4))
    p[:, 1:][rng.random((4000, 3)) < 0.7] = np.nan
    super_uniform(p_of_people(p))


def test_rows_of_one_person_are_one_hypothesis():
    rng = np.random.default_rng(0)
    false = []
    for _ in range(400):
        p = np.repeat(rng.random(30), 4)
        p = np.where(np.arange(120) % 4, rng.random(120), p)
        false.append(accuse(p, 0.1, clusters=np.repeat(np.arange(30), 4)).accused.any())
    assert sum(false) <= binom.isf(1e-3, 400, 0.1)


PLANTED = {"none": (0, 0), "direct only": (6, 0), "proxy only": (0, 12), "both": (6, 12)}


def wrong_of(planted, *, apart=True, runs=2000):
    """Share of accusations that are wrong, of all and of those that were not computed, and the power of these."""
    rng, (direct, proxy) = np.random.default_rng(0), PLANTED[planted]
    truth = np.arange(60) < direct + proxy
    computed = np.arange(60) < direct
    rates = []
    for _ in range(runs):
        p = np.where(truth, rng.random(60) * 0.004, rng.random(60))
        p[computed] = 1e-11
        accused = accuse(p, 0.1, computed=computed if apart else None).accused
        assert accused[computed].all()
        wrong, estimated = (accused & ~truth).sum(), (accused & ~computed).sum()
        named = (accused & truth & ~computed).sum() / max(1, proxy)
        rates.append((wrong / max(1, accused.sum()), wrong / max(1, estimated), named))
    return np.array(rates).T


@pytest.mark.parametrize("planted", PLANTED)
def test_computed_and_estimated_together_are_seldom_wrong(planted):
    every, estimated, power = wrong_of(planted)
    for false in (every, estimated):
        assert false.mean() <= 0.1 + 4 * false.std() / np.sqrt(false.size)
    assert (every <= estimated).all()
    if PLANTED[planted][1]:
        assert power.mean() > 0.9


def test_computed_cases_that_make_room_for_errors_are_caught():
    """Planted fault: one family of both, in which what is computed pays for estimates that are wrong."""
    false = wrong_of("direct only", apart=False)[1]
    assert false.mean() > 0.1 + 4 * false.std() / np.sqrt(false.size)


def test_rows_of_a_person_who_is_computed_leave_the_family():
    p = np.array([1e-11, 0.9, 0.03, 0.9, 0.9])
    computed = np.array([True, False, False, False, False])
    made = accuse(p, 0.1, clusters=np.array([0, 0, 1, 2, 3]), computed=computed)
    assert made.accused.tolist() == [True, False, True, False, False]  # .03 of three others: 3 * .03 <= .1
    assert not accuse(np.where(computed, 0.9, p), 0.1).accused.any()


def test_at_least_so_many_is_seldom_too_many():
    rng = np.random.default_rng(0)
    too_many = some = 0
    for _ in range(400):
        p = np.concatenate([rng.random(60), rng.random(40) * 0.002])
        bound = accuse(p, 0.1).at_least(np.arange(100))
        too_many += bound > 40
        some += bound >= 20
    assert too_many <= binom.isf(1e-3, 400, 0.05)
    assert some > 350


# With a fitted sampler


def runs(count, share, name="logistic", reference=400, **more):
    """Beds and whom they accuse; each takes a third of a second."""
    made = [bed(seed, name, "proxy", share, 200, reference, **more) for seed in range(count)]
    return [(one, one.tested(seed).accused) for seed, one in enumerate(made)]


def any_accused(pairs):
    return sum(bool(accused.any()) for _, accused in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "boosting"])
def test_nothing_planted_nobody_accused(name):
    assert any_accused(runs(12, 0, name)) <= binom.isf(1e-3, 12, 0.1)


def planted_bed(planted, seed, people=200, reference=400):
    """Women of branch 0 are treated otherwise by sex, of branch 1 by hours: rows, a reference, a model, the truth."""
    rng, size = np.random.default_rng([seed, 31]), people + reference
    woman, branch = rng.random(size) < 0.5, rng.integers(5, size=size)
    hours = np.where(woman, -1.2, 1.2) + 0.6 * rng.normal(size=size)
    rows = np.column_stack([woman, rng.normal(size=size), branch, hours])
    by_sex, by_hours = (bool(count) for count in PLANTED[planted])

    def model(rows):
        sex, income, branch, hours = rows.T
        return income - 2.0 * (by_sex * (sex == 1) * (branch == 0) + by_hours * (hours < 0) * (branch == 1))

    known = np.isin(branch, np.flatnonzero([by_sex, by_hours])) & woman & (rows[:, 1] > 0) & (rows[:, 1] <= 2)
    return rows[:people], rows[people:], model, (known & (model(rows) <= 0))[:people]


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_the_attribute_a_proxy_both_and_none(planted):
    every, estimated, found = [], [], []
    for seed in range(10):
        rows, reference, model, truth = planted_bed(planted, seed)
        result = treatment(
            model, rows, reference, attribute="x0", proxies=["x3"], decide=lambda score: score > 0, favourable=True,
            seed=seed,
        )  # fmt: skip
        accused, direct = result.accused, result.rates.direct.any(axis=1)
        assert (direct == (truth & (rows[:, 2] == 0))).all()  # computed: no error of either kind
        assert accused[direct].all()
        wrong = (accused & ~truth).sum()
        every.append(wrong / max(1, accused.sum()))
        estimated.append(wrong / max(1, (accused & ~direct).sum()))
        found += accused[truth].tolist()
    assert max(np.mean(every), np.mean(estimated)) <= 0.1
    assert not found or np.mean(found) > 0.7


@pytest.mark.slow
def test_few_are_accused_wrongly_and_most_are_named():
    rates = [study._rates(accused, one.truth) for one, accused in runs(10, 20)]
    assert np.mean([false for false, _ in rates]) <= 0.1
    assert np.mean([power for _, power in rates if power is not None]) > 0.4


def no_contrast(contrast, level):
    """Planted fault: the person's value is not looked at."""
    return core.p_values(contrast.other, level, core.LARGEST)


@pytest.mark.slow
def test_without_the_contrast_people_near_the_edge_are_accused(monkeypatch):
    monkeypatch.setattr(module, "p_otherwise", no_contrast)
    assert any_accused(runs(6, 0)) >= 5


@pytest.mark.slow
def test_a_law_that_is_hard_to_fit_accuses_nobody():
    assert any_accused(runs(8, 0, reference=200, crossed=True)) <= binom.isf(1e-3, 8, 0.1)


@pytest.mark.slow
def test_what_is_called_true_is_true():
    """The sums of the bed, against draws."""
    one, rng = bed(0, "logistic", "proxy", 20, 40), np.random.default_rng(0)
    woman = (one.people.sex == "f").to_numpy()
    for q, of_woman in zip(one.rates, (~woman, woman), strict=True):
        drawn = one.people.loc[one.people.index.repeat(2000)].reset_index(drop=True)
        income, debt = drawn.income.to_numpy(), drawn.debt.to_numpy()
        drawn["sex"] = np.where(of_woman.repeat(2000), "f", "m")
        drawn["hours"] = study._at(study._hours(of_woman.repeat(2000), income, False), rng.normal(size=len(drawn)))
        drawn["shops"] = study._at(study._shops(income, debt, False), rng.normal(size=len(drawn)))
        assert (one.model(drawn) > 0).reshape(40, 2000).mean(axis=1) == pytest.approx(q, abs=0.05)


@pytest.mark.slow
def test_situation_testing_sees_what_is_large():
    one = bed(0, "logistic", "direct", 100)
    gap, _ = situation_test(one)
    woman = (one.people.sex == "f").to_numpy()
    assert gap[woman].mean() > 0.2 > -0.2 > gap[~woman].mean()


def test_draws_are_looked_at_before_they_are_believed(monkeypatch):
    """A check that alarms mutes the test: with it and without, the same people are otherwise accused."""
    one = bed(0, "logistic", "proxy", 20, 200, 400)
    accused = one.tested(0).accused
    monkeypatch.setattr(module, "rank_faults", lambda *_: ConditionalFaults(np.array([1e-9]), np.array([0])))
    assert not one.tested(0).accused.any()
    assert accused.sum() >= 1
