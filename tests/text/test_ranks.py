"""Is Q any good? Ranks by the model's output and places by Q itself, on a language whose law is known."""

from dataclasses import replace

import numpy as np
import pytest

import butfor
from butfor.simulate.texts import WORDS, Chain, Markov, sentences
from butfor.text import small_infiller
from butfor.text.ngram import ngram
from butfor.text.ranks import WordFit, WordRanks, fit, ranks


def bent(chain, power):
    """A law that is more (power above 1) or less sure of itself."""
    first, then = (law**power / (law**power).sum(axis=-1, keepdims=True) for law in (chain.first, chain.then))
    return Chain(first, then)


def test_the_exact_law_fits_and_others_do_not():
    bed = sentences(seed=1, inputs=80, share=0.0)
    exact = Markov(bed.sampler.chain, len(WORDS))
    assert fit(exact, bed.inputs).ok
    assert len(fit(exact, bed.inputs).places) == 240
    sure = fit(Markov(bent(exact.chain, 2.0), len(WORDS)), bed.inputs)
    assert not sure.ok
    assert "too sure" in sure.verdict
    vague = fit(Markov(bent(exact.chain, 0.4), len(WORDS)), bed.inputs)
    assert not vague.ok
    assert "too vague" in vague.verdict
    left = fit(replace(exact, right=False), bed.inputs)
    assert left.ok  # each word has that law, too, but not given all others: that is for the model's ranks to see


def test_places_are_uniform_over_many_beds():
    """Under the exact law the check flags one bed in a hundred, however many fills are listed."""
    flagged = 0
    for seed in range(60):
        bed = sentences(seed=seed, inputs=20, share=0.0, listed=len(WORDS) if seed % 2 else 4)
        flagged += not fit(bed.sampler, bed.inputs, seed=seed).ok
    assert flagged <= 4


def test_ranks_see_fills_that_move_the_output_too_much():
    bed = sentences(seed=2, inputs=80, share=0.0)
    assert ranks(bed.model, bed.inputs, bed.sampler).ok

    def wild(texts, subset, draws, rng):
        start, end = subset.index
        return [t[:start] + rng.choice(["zax", "zex"]) + t[end:] for t in texts for _ in range(draws)]

    found = ranks(bed.model, bed.inputs, wild, draws=5)
    assert isinstance(found, WordRanks)
    assert found.counts.sum() == found.total


def test_ranks_of_important_words_are_first():
    bed = sentences(seed=2, inputs=40, share=0.5)
    found = ranks(bed.model, bed.inputs, bed.sampler, draws=5)
    assert found.counts[0] > 1.5 * found.total / 6
    assert "stand first" in found.verdict


def test_a_bottom_heavy_count_is_told():
    found = WordRanks(np.array([10, 10, 10, 10, 60, 60]))
    assert not found.ok
    assert "not exchangeable" in found.verdict


def test_real_samplers_are_judged_too():
    texts = ["The film was a great surprise to all of us.", "I did not like the acting, nor the plot."] * 3
    assert isinstance(fit(small_infiller(listed=2000), texts, each=3), WordFit)
    assert isinstance(fit(ngram(texts, listed=20), texts), WordFit)


def test_one_clear_sentence():
    bed = sentences(seed=0, inputs=3)
    with pytest.raises(butfor.InputError, match="does not list its fills"):
        fit(bed.sampler, bed.inputs)
    with pytest.raises(butfor.InputError, match="looks at none of these words"):
        ranks(lambda texts: [0.0] * len(texts), bed.inputs, bed.sampler)
    with pytest.raises(butfor.InputError, match="2 outputs"):
        ranks(lambda texts: np.zeros((len(texts), 2)), bed.inputs, bed.sampler)
