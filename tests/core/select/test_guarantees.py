"""What is promised: every combination has its sentence or a refusal that names what fits."""

import re
import warnings

import numpy as np
import pytest

import butfor
from butfor.results.record import MultimodalInputs, RunRecord
from butfor.results.words import guarantee

RULES = ["bh", "by", "holm", "bonferroni", "knockoff+"]


def promised(test, rule, family="run", alpha=0.1, *, filtered=False, **seen):
    record = RunRecord(test=test, draws=1, seed=0, inputs=MultimodalInputs(()), **seen)
    return guarantee(record, rule, family, alpha, filtered=filtered)


FITS = {"irt": ("bh", "by", "holm", "bonferroni"), "osft": ("knockoff+",)}


@pytest.mark.parametrize("family", ["run", "input"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("test", ["irt", "osft"])
def test_every_combination_has_a_sentence_or_a_refusal(test, rule, family):
    if rule not in FITS[test]:
        message = f"rule='{re.escape(rule)}' has no guarantee with test='{test}'; use"
        with pytest.raises(butfor.InputError, match=message) as caught:
            promised(test, rule, family)
        assert all(repr(fits) in str(caught.value) for fits in FITS[test])
        with pytest.raises(butfor.InputError, match=message):
            run(test=test, draws=None, rule=rule, family=family)
        return
    promise = promised(test, rule, family, 0.07)
    text = str(promise)
    assert promise.controls == ("FWER" if rule in ("holm", "bonferroni") else "FDR")
    assert promise.level == 0.07
    assert "at most 0.07" in text
    assert ("the run" in promise.family) if family == "run" else ("each single input" in promise.family)
    for part in (promise.family, promise.assumption, promise.proven_by, *map(str, promise.caveats)):
        assert part
        assert part in text
    assert "alpha must have been fixed before" in text
    assert text.startswith("The ")
    assert text.endswith(".")


def test_osft_warns_of_clones_and_parity():
    text = str(promised("osft", "knockoff+"))
    for word in ("clone", "parity", "0.50", "irt", "signs", "independent"):
        assert word in text
    assert "clone" not in str(promised("irt", "bh"))


@pytest.mark.parametrize("test", ["irt", "osft"])
def test_the_observed_class_is_warned_of(test):
    rule = FITS[test][0]
    promise = promised(test, rule, target="observed-class")
    assert promise.controls == "nothing"
    assert promise.refusal == "observed-class"
    assert "No error rate is controlled" in str(promise)
    assert "target='predicted'" in str(promise)
    assert "No error rate" not in str(promised(test, rule))


def test_dropped_hypotheses_and_marginal_samplers_are_told():
    assert "independence between inputs" in str(promised("irt", "bh", filtered=True))
    assert "pull each other in" in str(promised("irt", "bh", dependence_ignored=True))
    assert "pull each other in" not in str(promised("irt", "bh"))


def classes(rows):
    return np.stack([rows[:, 0], rows[:, 1], -rows[:, 0]], axis=1)


def run(**settings):
    rng = np.random.default_rng(0)
    settings = {"test": "irt", "draws": 19, **settings}
    sampler = settings.pop("sampler", None) or butfor.tabular.gaussian(rng.normal(size=(30, 2)))
    return butfor.explain(settings.pop("model", classes), rng.normal(size=(10, 2)), sampler, **settings)


def test_the_result_of_a_run_carries_its_own_guarantee():
    assert "No error rate is controlled" in str(run(target="observed-class").guarantee)
    for target in ("predicted", None, 1):
        assert "No error rate" not in str(run(target=target).guarantee)
    assert "No error rate" not in str(run(target="truth", y=[0, 1, 2, 0, 1, 2, 0, 1, 2, 0]).guarantee)
    assert "clone" in str(run(test="osft", draws=None).guarantee)
    assert "each single input" in str(run(family="input").guarantee)
    assert "probability of any false discovery" in str(run(rule="holm").guarantee).lower()
    assert "pull each other in" in str(run(sampler=butfor.tabular.empirical(np.eye(2))).guarantee)
    flat = run(model=lambda rows: (rows[:, 0] > 0) * 1.0, alternative="greater")
    assert "left the family" in str(flat.guarantee)
    assert "left the family" not in str(flat.select(rule="by").guarantee)
    assert "left the family" not in str(flat.select(family="input").guarantee)


def test_the_assumption_names_exchangeability_and_how_inputs_were_picked():
    text = str(run().guarantee)
    assert "exchangeable" in text
    assert "not picked by their output" in text


@pytest.mark.parametrize(("test", "said"), [("few-shot", True), ("osft", True), ("irt", False), ("sequential", False)])
def test_tests_by_size_say_that_nulls_beyond_a_small_reference_come(test, said):
    rng = np.random.default_rng(0)
    sampler, rows = butfor.tabular.copula(rng.normal(size=(100, 2))), rng.normal(size=(20, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", butfor.ReachWarning)
        result = butfor.explain(lambda x: x.sum(axis=1), rows, sampler, test=test, effects=None)
    assert ("nothing rarer than one value in 101" in str(result.guarantee)) == said


@pytest.mark.parametrize(
    ("inputs", "subsets", "controls"), [(10, 20, "FDR"), (10, 50, "nothing"), (20, 50, "FDR"), (9, 9, "nothing")]
)
def test_few_shot_promises_nothing_for_few_inputs_of_many_subsets(inputs, subsets, controls):
    """10 inputs of 50 subsets: a false discovery in .21 of null runs at alpha .1, one of two classes, a sigmoid."""
    rows = np.random.default_rng(0).normal(size=(inputs, subsets))
    sampler = butfor.tabular.from_values(lambda rows, subset, n, rng: rng.normal(size=(len(rows) * n, 1)))
    result = butfor.explain(lambda x: x.sum(axis=1), rows, sampler, test="few-shot", effects=None)
    assert result.guarantee.controls == controls
