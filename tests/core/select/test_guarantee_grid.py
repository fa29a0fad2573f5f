"""Every combination that explain accepts says what it promises; every other is refused and told what fits."""

from itertools import product

import numpy as np
import pytest

import butfor
from butfor.tabular import from_values

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

NORMAL = from_values(lambda rows, subset, count, rng: rng.normal(size=(len(rows) * count, len(subset.index))))
P_RULES = ("bh", "by", "holm", "bonferroni")
FITS = {
    "sequential": (*P_RULES, "adaptive"),
    "irt": (*P_RULES, "adaptive", "adaptive-strict", "e-bh"),
    "osft": ("knockoff+",),
    "few-shot": ("seqstep",),
}
RULES = (*P_RULES, "e-bh", "knockoff+", "seqstep")
TARGETS = ("output", "predicted", "fixed", "truth", "observed-class")
ANY_DEPENDENCE = ("by", "holm", "bonferroni", "e-bh")
PROOF = {
    "bh": ("Benjamini & Hochberg",),
    "by": ("Benjamini & Yekutieli 2001",),
    "holm": ("Holm 1979",),
    "bonferroni": ("Bonferroni",),
    "e-bh": ("Wang & Ramdas",),
    "knockoff+": ("Barber & Candes 2015", "Burns, Thomason & Tansey"),
    "seqstep": ("Barber & Candes 2015", "SeqStep", "Emery"),
}
ROWS = np.random.default_rng(0).normal(size=(3, 2))
ALL = [
    combination
    for combination in product(FITS, RULES, ("run", "input"), TARGETS, (False, True), (False, True))
    if combination[0] == "irt" or not combination[-1]  # only that test knows of early stopping
]


def everyone(outputs):
    return np.ones(len(outputs), bool)


def classes(rows):
    return np.stack([rows[:, 0], rows[:, 1], -rows[:, 0]], axis=1)


def run(test, rule, family, target, picked, early_stop):
    settings = {"test": test, "rule": rule, "family": family, "alpha": 0.07, "effects": None}
    settings |= {"picked": everyone} if picked else {}
    settings |= {"test": butfor.irt(early_stop=True)} if early_stop else {}
    settings |= {"draws": 20} if test in ("sequential", "irt") else {}
    settings |= {"predicted": {"target": "predicted"}, "fixed": {"target": 1}, "observed-class": {"target": target},
                 "truth": {"target": "truth", "y": [0, 1, 2]}}.get(target, {})  # fmt: skip
    return butfor.explain(classes if target != "output" else (lambda rows: rows.sum(axis=1)), ROWS, NORMAL, **settings)


def refusal(test, rule, family, target, picked, early_stop):
    """What the refusal must say, or None where the combination has a guarantee."""
    if rule not in FITS[test]:
        return (f"rule={rule!r} has no guarantee with test={test!r}; use rule=", *(repr(fits) for fits in FITS[test]))
    if early_stop and rule == "e-bh":
        return ("early_stop is for p-values, not for rule='e-bh'",)
    if early_stop and picked:
        return ("early_stop does not go with picked; use test='sequential'",)
    return None


def test_the_grid_has_both_kinds():
    refused = sum(refusal(*combination) is not None for combination in ALL)
    assert len(ALL) == (4 + 1) * 7 * 2 * 5 * 2
    assert 100 < refused < len(ALL) - 100


@pytest.mark.parametrize("test", FITS)
def test_what_has_no_guarantee_is_refused_and_told_what_fits(test):
    for combination in ALL:
        if combination[0] == test and (parts := refusal(*combination)) is not None:
            with pytest.raises(butfor.InputError) as caught:
                run(*combination)
            assert all(part in str(caught.value) for part in parts), (combination, str(caught.value))


@pytest.mark.parametrize("family", ["run", "input"])
@pytest.mark.parametrize("test", FITS)
def test_what_is_accepted_says_what_it_promises(test, family):
    for combination in ALL:
        if combination[0] == test and combination[2] == family and refusal(*combination) is None:
            check_sentence(run(*combination), *combination)


def check_sentence(result, test, rule, family, target, picked, early_stop):
    promise, text = result.guarantee, str(result.guarantee)
    over = "all hypotheses of the run" if family == "run" else "the hypotheses of each single input (not over the run)"
    assert promise.level == 0.07
    assert promise.family == over
    assert over in text
    assert "alpha must have been fixed before looking" in text
    if target == "observed-class":
        assert promise.controls == "nothing"
        assert text.startswith("No error rate is controlled over ")
        assert "use target='predicted'" in text
        return
    if test == "few-shot":  # of three inputs
        assert promise.controls == "nothing"
        assert "the labels of one input are not independent" in text
        return
    assert promise.controls == ("FWER" if rule in ("holm", "bonferroni") else "FDR")
    rate = "The probability of any false discovery" if promise.controls == "FWER" else "The false discovery rate"
    assert text.startswith(
        f"{rate} over {over} is at most 0.07, provided that under the null a feature is exchangeable"
    )
    assert promise.assumption in text
    assert f"({promise.proven_by})" in text
    assert all(name in promise.proven_by for name in PROOF[rule]), promise.proven_by
    assert ("Besag & Clifford 1991" in text) == (test == "sequential")
    assert ("whatever the dependence between hypotheses" in promise.assumption) == (rule in ANY_DEPENDENCE)
    assert ("independent" in promise.assumption) == (rule not in ANY_DEPENDENCE)
    assert ("inputs were picked by the rule given" in text) == picked
    assert ("inputs were not picked by their output" in text) == (not picked)
    assert ("Decisions equal those of all draws with probability at least 0.99" in text) == early_stop
    assert ("OSFT's FDR" in text) == (test == "osft")
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize("name", ["", "fdr", "seqstep+", None, 3])
@pytest.mark.parametrize("test", FITS)
def test_an_unknown_rule_is_refused_and_told_what_fits(test, name):
    if name is None:
        assert butfor.explain(lambda rows: rows.sum(axis=1), ROWS, NORMAL, test=test, rule=None).rule in FITS[test]
        return
    with pytest.raises(butfor.InputError, match=r"has no guarantee with test=.*; use rule="):
        butfor.explain(lambda rows: rows.sum(axis=1), ROWS, NORMAL, test=test, rule=name)


def test_a_rule_of_another_test_is_told_where_it_belongs():
    with pytest.raises(butfor.InputError, match=r"'seqstep' goes with test='few-shot'"):
        run("irt", "seqstep", "run", "output", False, False)
    with pytest.raises(butfor.InputError, match=r"'bh' goes with test='sequential' or 'irt'"):
        run("osft", "bh", "run", "output", False, False)


@pytest.mark.parametrize(("test", "rule"), [(test, rule) for test in FITS for rule in RULES])
def test_selecting_again_keeps_to_the_grid(test, rule):
    result = run(test, FITS[test][0], "run", "output", True, False)
    if rule in FITS[test] and rule != "e-bh":
        again = result.select(rule=rule, alpha=0.03, family="input")
        assert again.guarantee.level == 0.03
        assert "each single input" in str(again.guarantee)
        assert test == "few-shot" or "inputs were picked by the rule given" in str(again.guarantee)
    else:
        with pytest.raises(butfor.InputError, match=r"no guarantee with|needs another"):
            result.select(rule=rule)
