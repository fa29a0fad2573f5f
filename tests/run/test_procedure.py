"""Tests as objects: names are shorthand, draws are given once, and each test knows only its own options."""

import inspect

import pytest

import butfor
from butfor.settings import BY_NAME, MOST_SEQUENTIAL, Procedure, procedure


@pytest.mark.parametrize("name", BY_NAME)
def test_a_name_is_the_test_without_options(name):
    assert procedure(name) == BY_NAME[name]()
    assert procedure(BY_NAME[name]()) == BY_NAME[name]()
    assert BY_NAME[name]().name == name


@pytest.mark.parametrize("name", ["irt", "sequential", "few-shot"])
def test_draws_may_stand_beside_the_test_or_in_it(name):
    make = BY_NAME[name]
    assert procedure(name, 7) == procedure(make(), 7) == procedure(make(draws=7)) == procedure(make(draws=7), 7)
    with pytest.raises(butfor.InputError, match="draws=8 but the test has draws=7; give it once"):
        procedure(make(draws=7), 8)


def test_draws_keep_the_other_options():
    made = procedure(butfor.irt(early_stop=True, delta=0.2, center=3), 50)
    assert made == butfor.irt(50, early_stop=True, delta=0.2, center=3)
    assert procedure(butfor.sequential(h=4, center=2), 50) == butfor.sequential(4, draws=50, center=2)
    assert procedure(butfor.few_shot(scale="shrunk"), 5) == butfor.few_shot(5, scale="shrunk")


def test_one_shot_takes_one_draw():
    assert procedure("osft", 1) == procedure("osft") == butfor.osft()
    with pytest.raises(butfor.InputError, match="test='osft' takes one draw, got draws=2; use test='few-shot'"):
        procedure("osft", 2)


@pytest.mark.parametrize("wrong", ["IRT", "bh", 3, None])
def test_what_is_no_test_is_refused(wrong):
    with pytest.raises(butfor.InputError, match="test must be one of 'sequential', 'irt', 'osft', 'few-shot', got"):
        procedure(wrong)


OPTIONS = {
    "irt": {"draws", "early_stop", "delta", "center"},
    "sequential": {"h", "draws", "center"},
    "few-shot": {"draws", "scale"},
    "osft": {"center"},
}


@pytest.mark.parametrize("name", BY_NAME)
def test_each_knows_its_own_options_only(name):
    assert set(inspect.signature(BY_NAME[name]).parameters) == OPTIONS[name]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: butfor.irt(0), "draws must be a whole number of at least 1, got 0"),
        (lambda: butfor.irt(True), "draws must be a whole number"),
        (lambda: butfor.irt(center=0), "center must be a whole number of at least 1"),
        (lambda: butfor.irt(delta=1.0), "delta must lie strictly between 0 and 1, got 1.0; 0.01 is the default"),
        (lambda: butfor.irt(delta="0.1"), "delta must lie"),
        (lambda: butfor.sequential(0), "h must be a whole number of at least 1"),
        (lambda: butfor.sequential(2.5), "h must be a whole number"),
        (lambda: butfor.few_shot(1), "draws must be a whole number of at least 2"),
        (lambda: butfor.few_shot(scale="wide"), "scale must be one of None, 'shrunk', got 'wide'"),
        (lambda: butfor.osft(center=-1), "center must be a whole number"),
        (lambda: procedure("irt", 0), "draws must be a whole number of at least 1, got 0"),
        (lambda: procedure("few-shot", 1), "draws must be a whole number of at least 2, got 1"),
        (lambda: procedure("irt", "10"), "draws must be a whole number"),
    ],
)
def test_options_are_checked_when_the_test_is_made(make, message):
    with pytest.raises(butfor.InputError, match=message):
        make()


# How many draws


def test_draws_by_default():
    assert butfor.irt().draws_for(100, "bh", 0.1) == 1000
    assert butfor.irt().draws_for(100, "e-bh", 0.1) == 200
    assert butfor.osft().draws_for(100, "knockoff+", 0.1) == 1
    assert [butfor.few_shot().draws_for(100, "seqstep", alpha) for alpha in (0.1, 0.05, 0.9)] == [10, 20, 3]
    assert butfor.irt(77).draws_for(10**6, "bh", 0.01) == 77


def test_the_sequential_test_may_draw_what_a_lone_signal_needs():
    assert butfor.sequential().draws_for(5, "bh", 0.1) == 1000
    assert butfor.sequential().draws_for(500, "bh", 0.1) == 50_000
    assert butfor.sequential(h=2).draws_for(500, "bh", 0.1) == 10_000
    assert butfor.sequential(h=2).draws_for(500, "by", 0.1) > 10_000
    assert butfor.sequential().draws_for(10**6, "bh", 0.1) == MOST_SEQUENTIAL


# Centres

CENTRES = [
    (butfor.irt(), "two-sided", False, 16),
    (butfor.irt(), "greater", False, 0),
    (butfor.irt(), "greater", True, 16),  # the predicted class of each version is compared with its own pilot mean
    (butfor.irt(center=3), "two-sided", False, 3),
    (butfor.osft(), "two-sided", False, 1),
    (butfor.osft(), "less", False, 0),
    (butfor.sequential(), "two-sided", False, 16),
    (butfor.sequential(), "greater", True, 16),  # the predicted class is compared with its own pilot mean
    (butfor.sequential(), "greater", False, 0),
    (butfor.few_shot(), "two-sided", False, 0),  # it centres on the mean of its own values
    (butfor.few_shot(), "greater", True, 0),
]


@pytest.mark.parametrize(("test", "alternative", "predicted", "center"), CENTRES)
def test_pilot_draws(test, alternative, predicted, center):
    assert test.center_for(alternative, predicted) == center


def test_a_centre_for_one_side_is_refused():
    with pytest.raises(butfor.InputError, match="center is for two-sided tests, this one is 'greater'; drop it"):
        butfor.irt(center=4).center_for("greater", False)


def test_a_test_is_frozen_and_can_be_compared():
    assert butfor.irt(5) == Procedure("irt", draws=5)
    assert len({butfor.irt(5), butfor.irt(5), butfor.irt(6)}) == 2
