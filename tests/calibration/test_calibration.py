"""The tests as they are: valid on continuous and on tied nulls, and powerful where there is something to find."""

import numpy as np
import pytest

import butfor
from butfor.inference.irt import p_fixed
from butfor.inference.osft import z_one_shot
from butfor.inference.selection import bh, knockoff_plus, select
from butfor.inference.statistics import varies
from calibration_checks import (
    NULLS,
    check_irt,
    check_osft,
    check_p_values,
    controlled,
    powerful,
    proportions,
    statistics,
    super_uniform,
)


@pytest.mark.parametrize("null", NULLS)
def test_p_values_are_valid(null):
    check_p_values(p_fixed, null)


@pytest.mark.parametrize("null", NULLS)
def test_irt_controls_the_fdr_and_finds_what_is_there(null):
    check_irt(p_fixed, null)


@pytest.mark.parametrize("null", NULLS)
def test_osft_controls_the_fdr_and_finds_what_is_there(null):
    check_osft(z_one_shot, knockoff_plus, null)


def test_continuous_p_values_are_exactly_uniform():
    """Not only valid: each of the K + 1 values is as frequent as the others, so nothing is given away."""
    p = p_fixed(np.random.default_rng(0).normal(size=(40_000, 20)))
    counts = np.bincount(np.round(p * 20).astype(int), minlength=21)[1:]
    assert counts.sum() == 40_000
    assert np.abs(counts - 2000).max() < 4.5 * np.sqrt(2000)


# Zero-variation filter (METHODS 6)


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("draws", [1, 4, 19, 50])
def test_p_values_stay_valid_among_those_that_vary(null, draws):
    """Given the unordered set of values the rank is uniform, and whether they vary is a function of that set."""
    statistic = NULLS[null](np.random.default_rng(0), (40_000, draws + 1))
    kept = varies(statistic)
    if null == "constant":
        assert not kept.any()
    else:
        super_uniform(p_fixed(statistic[kept]))
        assert kept.any()


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3])
def test_the_filter_keeps_the_level_and_gains_power(share):
    """A threshold that draws rarely cross: most nulls never vary, and BH over the rest needs far fewer draws."""
    alpha, rng = 0.1, np.random.default_rng(3)
    runs, size, draws = 200, 200, 50
    true = rng.uniform(size=(runs, size)) < share
    observed = np.where(true, rng.normal(4, 1, size=true.shape), rng.normal(size=true.shape))
    values = (np.concatenate([observed[..., None], rng.normal(size=(runs, size, draws))], axis=2) >= 3) * 1.0
    chosen = {}
    for name, keep in (("filtered", varies), ("whole", lambda run: np.ones(len(run), bool))):
        chosen[name] = np.array([select(p_fixed(run), alpha, "bh", keep(run)) for run in values])
        controlled(proportions(chosen[name], true)[0], alpha)
    if share:
        powerful(proportions(chosen["filtered"], true)[1], 0.72)  # P(N(4, 1) >= 3) = .841 is the ceiling
    if share == 0.05:
        assert proportions(chosen["whole"], true)[1].mean() < 0.4


def threshold(rows):
    return (rows >= 3).sum(axis=1) * 1.0


def discontinuous(rule, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.uniform(size=(40, 10)) < 0.2
    inputs = rng.normal(size=true.shape) + 4 * true
    sampler = butfor.tabular.from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, 1)))
    result = butfor.explain(threshold, inputs, sampler, test="irt", alternative="greater", draws=50, rule=rule)
    return result, true.ravel()


def test_a_run_filters_under_bh():
    result, true = discontinuous("bh")
    table = result.table
    assert set(table.status) <= {"unusual", "not unusual", "no variation"}
    assert (table.p[table.status == "no variation"] == 1).all()
    tested = table.status.isin(["unusual", "not unusual"]).to_numpy()
    assert (table.chosen[tested].to_numpy() == bh(table.p[tested], 0.1)).all()
    assert (table.chosen & true).sum() / true.sum() > 0.75
    assert not bh(table.p, 0.1).any()  # over the whole family 50 draws are too few


@pytest.mark.parametrize("rule", ["by", "holm", "bonferroni"])
def test_a_run_never_filters_under_rules_for_any_dependence(rule):
    result, _ = discontinuous(rule)
    assert result.table.status.isin(["unusual", "not unusual"]).all()
    assert result.tested.all()
    again = discontinuous("bh")[0].select(rule=rule)
    assert again.table.status.isin(["unusual", "not unusual"]).all()
    assert (again.chosen == result.chosen).all()
    assert "left the family" not in str(result.guarantee)


# Where dependence breaks OSFT and not IRT (METHODS 8)


def half_normal(rng, shape):
    """Two humps, at -1 and 1."""
    return rng.choice([-1.0, 1.0], size=shape) + 0.4 * rng.normal(size=shape)


def clones(rng, size=100, draws=999):
    """One input of `size` copies of one number under f = sum x_j, Q their marginal: all p-values hang on it."""
    return np.concatenate([np.full((size, 1), half_normal(rng, ())), half_normal(rng, (size, draws))], axis=1)


def parity(rng, size=20, draws=99):
    """One input of `size` coins under f = prod x_j: redrawing one of them flips f or leaves it."""
    x = rng.choice([-1.0, 1.0], size=size)
    redrawn = rng.choice([-1.0, 1.0], size=(size, draws))
    return np.concatenate([np.full((size, 1), x.prod()), x.prod() * x[:, None] * redrawn], axis=1)


@pytest.mark.parametrize(
    ("bed", "alpha", "osft", "irt"), [(clones, 0.1, 0.50, 0.09), (parity, 0.2, 0.49, 0.0)], ids=["clones", "parity"]
)
def test_osft_fails_on_tied_signs_and_irt_does_not(bed, alpha, osft, irt):
    """METHODS 8: OSFT makes a false discovery in half of the runs (every null is true), IRT + BH keeps its level."""
    rng = np.random.default_rng(0)
    runs = 500
    found = np.array([knockoff_plus(z_one_shot(bed(rng, draws=1)), alpha).any() for _ in range(runs)])
    assert found.mean() == pytest.approx(osft, abs=4 * np.sqrt(0.25 / runs))
    assert found.mean() > alpha + 4 * np.sqrt(0.25 / runs)
    kept = np.array([bh(p_fixed(bed(rng)), alpha).any() for _ in range(300)])
    controlled(kept * 1.0, alpha)
    assert kept.mean() == pytest.approx(irt, abs=0.06)


@pytest.mark.parametrize("test", ["irt", "osft"])
def test_clones_and_parity_in_a_run(test):
    """The same through `explain`: 60 runs of one input each."""
    settings = {"test": test, "alternative": "greater", "effects": None}

    def coin(rows, subset, count, rng):
        return rng.choice([-1.0, 1.0], size=(len(rows) * count, 1))

    def humps(rows, subset, count, rng):
        return half_normal(rng, (len(rows) * count, 1))

    found = {"clones": 0, "parity": 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        cloned = np.full((1, 50), half_normal(rng, ()))
        draws = {"draws": 499} if test == "irt" else {}
        run = butfor.explain(
            lambda rows: rows.sum(axis=1),
            cloned,
            butfor.tabular.from_values(humps),
            alpha=0.1,
            seed=seed,
            **draws,
            **settings,
        )
        found["clones"] += run.chosen.any()
        coins = rng.choice([-1.0, 1.0], size=(1, 20))
        draws = {"draws": 99} if test == "irt" else {}
        run = butfor.explain(
            lambda rows: rows.prod(axis=1),
            coins,
            butfor.tabular.from_values(coin),
            alpha=0.2,
            seed=seed,
            **draws,
            **settings,
        )
        found["parity"] += run.chosen.any()
    if test == "osft":
        assert found["clones"] >= 18
        assert found["parity"] >= 18
    else:
        assert found["clones"] <= 14  # binom.isf(1e-3, 60, .1)
        assert found["parity"] == 0


def test_signals_of_the_checks_are_what_they_say():
    values, true = statistics("continuous", 50, 80, 1, 0.3, seed=2)
    assert values.shape == (50, 80, 2)
    assert true.mean() == pytest.approx(0.3, abs=0.05)
    assert values[..., 0][true].mean() == pytest.approx(4, abs=0.2)
    assert values[..., 0][~true].mean() == pytest.approx(0, abs=0.1)
