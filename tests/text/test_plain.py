"""Plain words learned from labels, and infillers that are limited to them."""

import numpy as np
import pytest

import butfor
from benchmarks.texts import plain_study as study
from butfor.text import ngram, plain
from butfor.types import Subset

FILLERS = {
    "en": ["the", "a", "of", "film", "plot", "we", "saw", "then", "again", "today", "here", "with"],
    "ru": ["это", "был", "фильм", "сюжет", "мы", "опять", "сегодня", "здесь", "потом", "снова", "там", "очень"],
}
TELLING = {"en": (["superb", "lovely"], ["dreadful", "lousy"]), "ru": (["прекрасно", "чудесно"], ["ужасно", "скучно"])}


def corpus(language, count, seed):
    """Texts of filler words, a Markov chain, with two telling words in each; and their labels."""
    rng = np.random.default_rng(seed)
    words = FILLERS[language]
    then = np.random.default_rng(7).dirichlet(np.full(len(words), 0.5), len(words))
    texts, labels = [], []
    for number in range(count):
        own = [int(rng.integers(len(words)))]
        while len(own) < 12:
            own.append(int(rng.choice(len(words), p=then[own[-1]])))
        said = [words[k] for k in own]
        for place in rng.choice(12, 2, replace=False):
            said[place] = str(rng.choice(TELLING[language][number % 2]))
        texts.append(" ".join(said) + ".")
        labels.append("good" if number % 2 == 0 else "bad")
    return texts, labels


@pytest.mark.parametrize("language", ["en", "ru"])
def test_what_tells_the_classes_apart_is_not_plain(language):
    texts, labels = corpus(language, 400, 0)
    found = plain(texts, labels)
    assert not found & {word for side in TELLING[language] for word in side}
    assert len(found & set(FILLERS[language])) >= 10
    assert FILLERS[language][0] in found


def test_classes_of_other_sizes_and_more_than_two():
    texts, labels = corpus("en", 400, 1)
    few = [
        (text, label) for place, (text, label) in enumerate(zip(texts, labels, strict=True)) if place % 2 or place < 80
    ]
    found = plain([text for text, _ in few], [label for _, label in few])
    assert not found & {"superb", "lovely", "dreadful", "lousy"}
    assert {"film", "plot", "the"} <= found
    shore = [text.replace("superb", "salt").replace("lovely", "sand") for text in texts[::2]]
    three = plain([*texts, *shore], [*labels, *["sea"] * 200])
    assert not three & {"salt", "sand", "superb", "dreadful"}
    assert "film" in three


def test_an_ngram_draws_plain_words_only():
    texts, labels = corpus("en", 400, 0)
    listed = plain(texts, labels)
    sampler = ngram(texts, among=listed)
    made = sampler(["we saw a superb film."], Subset("superb", (9, 15)), 200, np.random.default_rng(0))
    words = {text.split()[3] for text in made}
    assert words <= listed
    assert len(words) > 3


@pytest.mark.parametrize("language", ["en", "ru"])
def test_plain_words_of_held_out_texts_win_half_of_the_time(language):
    texts, labels = corpus(language, 400, 3)
    found = study(texts, labels, words=6, inputs=16, order=2)  # the texts are a chain of order 2
    assert abs(found.wins - 0.5) < 0.02 + 2 * found.error
    assert found.accuracy > 0.95
    assert found.chosen > 20
    assert found.false < 0.25


def test_a_list_that_was_learned_from_other_labels_is_caught():
    """The fault: labels that say nothing make every word plain, those that tell the classes apart among them."""
    texts, labels = corpus("en", 400, 0)
    mixed = np.random.default_rng(0).permutation(labels)
    assert plain(texts, mixed, largest=0.6) & {"superb", "lovely", "dreadful", "lousy"}


def test_what_cannot_be_used_is_refused():
    texts, labels = corpus("en", 20, 0)
    for given, wanted in ((labels[:5], "20 texts and 5 labels"), (["good"] * 20, "two classes")):
        with pytest.raises(butfor.InputError, match=wanted):
            plain(texts, given)
    with pytest.raises(butfor.InputError, match="largest"):
        plain(texts, labels, largest=0)
    with pytest.raises(butfor.InputError, match="among has 0 words"):
        ngram(texts, among=["nowhere"])
    with pytest.raises(butfor.InputError, match="list of words"):
        ngram(texts, among="plain")
