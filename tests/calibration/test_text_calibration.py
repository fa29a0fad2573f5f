"""Texts with a known answer: p-values and false discovery rates hold with the exact law of the language, and mistakes
in the law or in the counting are caught."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from butfor.inference import exact
from butfor.simulate.texts import WORDS, sentences
from text_runs import explained, null_p_values, rates

pytestmark = pytest.mark.filterwarnings("ignore::butfor.ReachWarning")

RUNS = 50
ALPHA = 0.2
EXACT = "exact"
INPUTS = {"osft": 15, "few-shot": 15, "sequential": 6, EXACT: 8}
FLOOR = {"osft": 0.60, "few-shot": 0.85, "sequential": 0.80, EXACT: 0.85}  # power
LEVELS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def valid(p):
    """P(p <= u) <= u: counts stay below what a binomial reaches once in a million."""
    for u in LEVELS:
        count, most = int((p <= u).sum()), binom.isf(1e-6, p.size, u)
        assert count <= most, f"{count} of {p.size} p-values are <= {u:g}, at most {most:.0f} would be credible"


def caught(check, *arguments):
    with pytest.raises(AssertionError, match="p-values are <="):
        check(*arguments)


def listed(bed, count=None):
    return replace(bed.sampler, listed=count or len(WORDS))


@cache
def plain(tied):
    """Many texts without a foreign word, and with some: the null p-values of both are of interest."""
    return [sentences(seed=seed, inputs=120, share=share, tied=tied) for seed, share in ((1, 0.0), (2, 0.2))]


def exact_p(sampler_of, tied, alternative="two-sided"):
    return np.concatenate(
        [
            null_p_values(bed, explained(bed, sampler_of(bed), test="irt", alternative=alternative))
            for bed in plain(tied)
        ]
    )


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_exact_p_values_of_nulls_are_valid(alternative, tied):
    p = exact_p(listed, tied, alternative)
    assert p.size > 1200
    valid(p)
    assert (p <= 0.2).mean() > 0.02  # and not merely large


@pytest.mark.parametrize("count", [1, 5, 15])
def test_exact_p_values_of_a_short_list_are_valid_too(count):
    valid(exact_p(lambda bed: listed(bed, count), tied=False))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("test", ["irt", "sequential"])
def test_p_values_by_drawing_are_valid(test, tied):
    bed = sentences(seed=3, inputs=60, tied=tied)
    p = null_p_values(bed, explained(bed, test=test, draws=199))
    valid(p)
    assert (p <= 0.2).mean() > 0.02


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("test", ["osft", "few-shot", "sequential", EXACT])
def test_the_rate_holds_with_the_exact_law(test, tied):
    found = []
    for seed in range(RUNS):
        bed = sentences(seed=seed, inputs=INPUTS[test], tied=tied, listed=len(WORDS) if test == EXACT else 0)
        result = explained(bed, test="irt" if test == EXACT else test, alpha=ALPHA, seed=seed)
        found.append(rates(result, bed))
    false, power = np.array(found).T
    assert false.mean() <= ALPHA + 2 * false.std(ddof=1) / np.sqrt(RUNS)
    assert power.mean() >= FLOOR[test]


def test_places_that_nobody_reads_are_never_chosen():
    bed = sentences(seed=4, share=0.5)
    for test in ("few-shot", "osft"):
        chosen = explained(bed, test=test, alpha=ALPHA).chosen.reshape(bed.truth.shape)
        assert chosen.any()
        assert not chosen[:, ~bed.model.read].any()


def test_a_sampler_that_looks_to_the_left_only_is_caught():
    """Its words fit what stands before them and not what follows, so the real ones look better than they should."""
    caught(valid, exact_p(lambda bed: replace(listed(bed), right=False), False, "greater"))
    bed = sentences(seed=3, inputs=60)
    wrong = replace(bed.sampler, right=False)
    caught(valid, null_p_values(bed, explained(bed, wrong, test="irt", draws=199, alternative="greater")))


@pytest.mark.parametrize("test", ["osft", "few-shot"])
def test_a_sampler_that_looks_to_the_left_only_makes_false_discoveries(test):
    """No foreign word, so whatever is chosen is chosen falsely."""
    settings = {"test": test, "alpha": ALPHA, "alternative": "greater"}
    false = {True: [], False: []}
    for seed in range(8):
        bed = sentences(seed=seed, inputs=60, share=0.0)
        for right in (True, False):
            wrong = replace(bed.sampler, right=right)
            false[right].append(explained(bed, wrong, seed=seed, **settings).chosen.any())
    assert np.mean(false[False]) >= 0.8
    assert np.mean(false[True]) <= 0.5


@pytest.mark.parametrize("tied", [False, True])
def test_ties_that_count_for_us_are_caught(tied, monkeypatch):
    """`>` for `>=`: the observed word's own probability, and that of its equals, is left out."""

    def strict(statistic, mass, _):
        return np.where(statistic > statistic[:, :1], mass, 0.0).sum(axis=1)

    monkeypatch.setattr(exact, "p_exact", strict)
    caught(valid, exact_p(listed, tied))


class Broken:
    """The exact sampler with its list spoiled: (probabilities (n, m)) -> others."""

    def __init__(self, sampler, spoil):
        self.sampler, self.spoil, self.lists = sampler, spoil, sampler.lists

    def __call__(self, *given):
        return self.sampler(*given)

    def support(self, texts, subset):
        versions, mass = self.sampler.support(texts, subset)
        return versions, self.spoil(mass)


@pytest.mark.parametrize("count", [2, 5])
def test_a_list_that_claims_all_mass_and_lacks_what_was_observed_is_not_believed(count):
    """The observed word is then one more of the least likely: p was 0 there, and null p-values far too small."""

    def scaled(mass):
        return mass / mass.sum(axis=1, keepdims=True)

    found = exact_p(lambda bed: Broken(listed(bed, count), scaled), tied=False)
    valid(found)
    assert (np.asarray(found) > 0).all()


def test_fills_without_their_weights_are_caught():
    """As of draws that were made distinct and then counted alike."""

    def alike(mass):
        return np.full(mass.shape, 1 / mass.shape[1])

    caught(valid, exact_p(lambda bed: Broken(listed(bed), alike), tied=False))
