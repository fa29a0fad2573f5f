"""The bed of texts: its law by counting and by enumeration, what its sampler and its reader do."""

from itertools import pairwise, product

import numpy as np
import pytest

import butfor
from butfor.simulate import bed
from butfor.simulate.texts import FOREIGN, INDEX, LENGTH, WORDS, Chain, Markov, filled, sentences, word_subsets

SMALL = Chain(np.array([0.5, 0.3, 0.2]), np.array([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.3, 0.3, 0.4]]))


def enumerated(words, place):
    """The law of one word by summing the probability of every text that agrees with the others."""
    law = np.zeros(3)
    for text in product(range(3), repeat=len(words)):
        if all(word in (-1, text[j]) or j == place for j, word in enumerate(words)):
            chance = SMALL.first[text[0]]
            for a, b in pairwise(text):
                chance *= SMALL.then[a, b]
            law[text[place]] += chance
    return law / law.sum()


@pytest.mark.parametrize("words", [(0, 1, 2, 0), (-1, 1, -1, 2), (0, -1, -1, -1), (2,), (-1, -1, 1)])
def test_the_law_of_a_word_is_that_of_full_enumeration(words):
    for place in range(len(words)):
        np.testing.assert_allclose(SMALL.conditional(words, place), enumerated(words, place))


def test_texts_are_drawn_from_the_chain():
    words = SMALL.draw(20_000, 4, np.random.default_rng(0))
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (words[:, 2], words[:, 3]), 1)
    np.testing.assert_allclose(pairs / pairs.sum(axis=1, keepdims=True), SMALL.then, atol=0.02)
    np.testing.assert_allclose(np.bincount(words[:, 0]) / 20_000, SMALL.first, atol=0.02)


def test_the_same_seed_gives_the_same_bed():
    one, other = bed("sentences", 3), bed("sentences", 3)
    assert one.inputs == other.inputs
    assert (one.truth == other.truth).all()
    assert bed("sentences", 4).inputs != one.inputs


def test_foreign_words_that_are_read_are_the_signals():
    found = bed("sentences", 0)
    texts = [text.split(" ") for text in found.inputs.values()]
    foreign = np.array([[word in FOREIGN for word in text] for text in texts])
    assert foreign.shape == (30, LENGTH)
    assert (found.truth == (foreign & found.model.read)).all()
    assert foreign[:, ~found.model.read].any()


def test_the_sampler_draws_what_it_lists():
    found = sentences(seed=0, listed=len(WORDS))
    (name, text), *_ = found.inputs.items()
    subset = found.subsets[name][5]
    (versions,), (mass,) = found.sampler.support([text], subset)
    assert mass.sum() == pytest.approx(1)
    assert (np.diff(mass) <= 0).all()
    drawn = found.sampler([text], subset, 20_000, np.random.default_rng(0))
    share = np.array([drawn.count(version) for version in versions]) / 20_000
    assert np.abs(share - mass).max() < 0.015
    start, end = subset.index
    assert all(one[:start] == text[:start] and one[start + 3 :] == text[end:] for one in drawn)
    few = Markov(found.sampler.chain, listed=3).support([text], subset)
    assert few[0][0] == versions[:3]


def test_only_one_word_can_be_redrawn():
    found = bed("sentences", 0)
    text = next(iter(found.inputs.values()))
    for span in ((0, 7), (0, 0), (1, 3), (0, 2)):
        with pytest.raises(butfor.InputError, match="not one word"):
            found.sampler([text], butfor.Subset("x", span), 1, np.random.default_rng(0))


def test_words_have_names_of_their_own():
    assert [(s.name, s.index) for s in word_subsets("bal bel bal")] == [
        ("bal", (0, 3)),
        ("bel", (4, 7)),
        ("bal #2", (8, 11)),
    ]
    assert filled("bal bel", butfor.Subset("bel", (4, 7)), "kur") == "bal kur"
    assert INDEX["bal"] == 0


def test_the_reader_reads_some_places_and_may_round():
    found, rounded = bed("sentences", 0), bed("sentences-tied", 0)
    (name, text), *_ = found.inputs.items()
    for place, subset in enumerate(found.subsets[name]):
        outputs = found.model([filled(text, subset, word) for word in (*WORDS, *FOREIGN)])
        assert (np.ptp(outputs) > 0) == found.model.read[place]
    assert len(set(rounded.model(list(rounded.inputs.values())))) < 25
