"""What a run can reach, before it draws; whether anything departs from the null, after."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.inference.selection import RULES, knockoff_plus
from butfor.results.notes import called_alike, departs, looks_picked, reach

ALPHAS = (0.01, 0.05, 0.1, 0.2, 0.25, 1 / 3, 0.5)


def minimal(rule, alpha, size, draws, together):
    """Whether `together` p-values at their minimum are chosen by the rule itself, all others being 1."""
    p = np.ones(size)
    p[:together] = 1 / (draws + 1)
    return bool(RULES[rule](p, alpha)[0])


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("rule", ["bh", "by", "holm", "bonferroni"])
def test_silence_means_that_a_lone_signal_can_be_chosen_and_only_then(rule, alpha):
    for size in (1, 2, 3, 7, 10, 30, 100):
        harmonic = sum(1 / i for i in range(1, size + 1)) if rule == "by" else 1
        needed = int(np.ceil(size * harmonic / alpha - 1 - 1e-9))  # METHODS 6: K >= N / alpha - 1
        for draws in {1, max(1, needed // 2), max(1, needed - 1), max(1, needed), needed + 1, needed * 2 + 1}:
            said = reach("irt", rule, alpha, size, draws)
            assert (said == []) == minimal(rule, alpha, size, draws, 1) == (draws >= needed)
            if said:
                assert said[0].values["needed"] == needed
                assert f"draws={needed}" in str(said[0])


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("rule", ["bh", "by"])
def test_how_many_must_come_together_is_exact(rule, alpha):
    for size in (2, 5, 20, 100):
        for draws in (1, 3, 9, 19, 50, 99):
            said = reach("irt", rule, alpha, size, draws)
            together = said[0].values["together"] if said else None
            if together is not None:
                assert f"a single unusual case cannot be shown; about {together} alike could" in str(said[0])
                assert minimal(rule, alpha, size, draws, together)
                assert not minimal(rule, alpha, size, draws, together - 1)
            elif said:
                assert "nothing can be shown to be unusual" in str(said[0])
                assert not minimal(rule, alpha, size, draws, size)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_osft_says_how_few_it_cannot_choose(alpha):
    least = next(count for count in range(1, 200) if knockoff_plus(np.arange(1.0, count + 1), alpha).any())
    for size in (1, least - 1, least, least + 1, 10 * least):
        if size:
            (said,) = reach("osft", "knockoff+", alpha, size, 1)
            assert said.values["least"] == least
            assert (said.code == "competition-empty") == (size < least)
            assert f" {least} hypotheses" in str(said)


def explain(inputs, **settings):
    settings = {"test": "irt", "draws": 99, "alternative": "greater", **settings}
    return butfor.explain(lambda rows: rows.sum(axis=1), inputs, sampler(inputs.shape[1]), **settings)


@cache
def sampler(width):
    return butfor.tabular.gaussian(np.random.default_rng(99).normal(size=(4000, width)))


def test_reach_is_told_before_the_first_draw():
    drawn = []

    def model(rows):
        drawn.append(len(rows))
        return rows.sum(axis=1)

    with warnings.catch_warnings():
        warnings.simplefilter("error", butfor.ReachWarning)
        with pytest.raises(
            butfor.ReachWarning,
            match=r"With 10 draws and 10 tests a single .* No p-value is below 1/11",
        ):
            butfor.explain(model, np.ones((5, 2)), butfor.tabular.gaussian(normal(99)), test="irt", draws=10)
    assert sum(drawn) <= 5 + 40  # a first look at the model, so that cheap mistakes are found before this is told


def normal(rows):
    return np.random.default_rng(0).normal(size=(rows, 2))


def test_the_limit_that_binds_is_the_one_that_is_named():
    with pytest.warns(
        butfor.ReachWarning, match="With 4 reference rows and 60 tests nothing can be shown to be unusual"
    ) as told:
        butfor.explain(lambda rows: rows.sum(axis=1), np.ones((30, 2)), normal(4), rule="bh", control=False)
    assert len(told) == 1
    assert "draws=" not in str(told[0].message)


def test_reach_goes_by_the_family():
    inputs = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.warns(butfor.ReachWarning, match="With 99 draws and 150 tests"):
        explain(inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", butfor.ReachWarning)
        explain(inputs, family="input")  # 99 draws are enough for families of three at .1


@pytest.mark.parametrize("test", ["irt", "osft"])
def test_inputs_from_the_reference_are_called_ordinary_and_shifted_ones_are_not(test):
    settings = {"test": test, "draws": 99 if test == "irt" else None}
    ordinary = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        same = explain(rng.normal(size=(30, 5)), seed=seed, **settings)
        ordinary += "ordinary" in [note.code for note in same.notes]
        shifted = explain(rng.normal(2, 1, size=(30, 5)), seed=seed, **settings)
        assert shifted.chosen.any()
        assert "ordinary" not in [note.code for note in shifted.notes]
    assert ordinary >= 16  # at the 5 % level, and a rare false discovery of the run counts against it too


def test_a_weak_signal_is_told_apart_from_none():
    """All inputs a little off, none of them by much: the evidence as a whole departs, single hypotheses do not."""
    result = explain(np.random.default_rng(0).normal(0.5, 1, size=(200, 5)), draws=20)
    assert not result.chosen.any()
    assert "ordinary" not in [note.code for note in result.notes]
    assert "weak" in [note.code for note in result.notes]


@pytest.mark.parametrize("kind", ["p", "z"])
def test_the_null_departs_no_more_often_than_5_percent(kind):
    """Also for p on the coarse grid of few draws, and on ties."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        p = (1 + rng.integers(20, size=60)) / 20
        z = np.round(rng.normal(size=60))
        found.append(departs(kind, p if kind == "p" else z, np.ones(60, bool)))
    assert np.mean(found) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_nothing_tested_does_not_depart():
    assert not departs("p", np.array([0.0]), np.array([False]))
    assert not departs("z", np.zeros(5), np.ones(5, bool))


def test_few_inputs_beyond_the_reference_are_asked_whether_they_were_picked():
    reference = np.arange(1000.0) / 1000
    assert looks_picked(np.array([0.5]), reference) == []
    assert looks_picked(np.array([]), reference) == []
    (one,) = looks_picked(np.array([5.0]), reference)
    assert one.severity == "warning"
    assert str(one).startswith("The input has an output of at least 5, only 0.0% of the reference does. If it was")
    (two,) = looks_picked(np.array([-5.0, -6.0]), reference)
    assert (two.values["side"], two.values["edge"]) == ("below", -5.0)
    assert "If they were picked because of that, what is unusual says no more" in str(two)
    (five,) = looks_picked(np.arange(5.0) + 5, reference)
    assert "say so with picked=" in str(five)
    assert str(five).endswith("decide=lambda outputs: outputs >= 5.")
    alike, classes = np.ones(4, int), np.zeros(100, int)
    (called,) = called_alike(alike[:1], classes, "no")
    assert str(called).startswith("The input is called 'no', and no row of the reference is. If it was picked")
    assert called_alike(alike, classes, "no")[0].values == {"inputs": 4, "name": "no", "share": 0.0, "decided": True}
    assert called_alike(np.array([0, 1]), classes, "no") == []
    assert called_alike(alike, np.arange(100) % 2, "no") == []


def test_nothing_is_promised_whatever_was_looked_at_first_of_inputs_that_may_be_picked():
    reference = np.random.default_rng(0).normal(size=(400, 3))
    far, near = (
        butfor.explain(lambda rows: rows.sum(axis=1), at, reference, test="irt", draws=4000, rule="bh", control=False)
        for at in (np.full((2, 3), 4.0), np.array([[4.0, 4.0, 4.0], [-4.0, -4.0, -4.0]]))
    )
    assert far.bound(far.chosen) > 0
    assert "picked-by-output" in [note.code for note in far.notes]
    assert ", unless picked by their output" in far.summary()
    assert "unless picked" not in near.summary()


@pytest.mark.parametrize("inputs", [2, 6])
@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
def test_who_wants_no_decision_is_not_advised_to_ask_about_one(inputs):
    rng = np.random.default_rng(0)
    reference, far = rng.normal(size=(100, 3)), rng.normal(4, 1, size=(inputs, 3))
    near = rng.normal(size=(inputs, 3))
    classes = LogisticRegression().fit(np.vstack([reference, far]), np.arange(100 + inputs) >= 100)
    for model in (classes, lambda rows: rows.sum(axis=1)):
        for data in (near, far):
            result = butfor.explain(model, data, reference, decide=False, control=False)
            words = " ".join([result.summary(), *map(str, result.notes)])
            assert "decide=" not in words
            assert "necessary" not in words
