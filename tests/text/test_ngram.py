"""The n-gram: its law by hand and by the language it was counted in, and what every sampler keeps."""

import pickle

import numpy as np
import pytest

import butfor
from butfor.simulate.texts import WORDS, Markov, sentences, word_subsets
from butfor.text import changed, explain, words
from butfor.text.ngram import EDGE, count, ngram
from butfor.text.segment import word_tokens
from butfor.types import Subset

CORPUS = ["The cat sat on the mat.", "The dog sat on the rug.", "A cat ran to the dog!", "The dog ran to a cat?"] * 2
SAMPLER = ngram(CORPUS)


@pytest.mark.parametrize("order", [2, 3])
def test_the_model_is_a_distribution_and_agrees_with_itself(order):
    """P(. | a b) sums to one, and what is looked up for every w from the right is what P says word by word."""
    rng = np.random.default_rng(0)
    stream = np.concatenate([[EDGE, EDGE, *rng.integers(2, 9, 12), EDGE, EDGE][0 if i == 0 else 2 :] for i in range(9)])
    counts = count(stream, 9, order)
    assert counts.single.sum() == pytest.approx(1)
    after = np.array([[counts.weights(a, b, None, None) for b in range(9)] for a in range(9)])
    np.testing.assert_allclose(after.sum(axis=2), 1, rtol=1e-6)
    for b in range(9):
        for c in range(9):
            before = counts.weights(None, b, c, None) / counts.weights(None, b, None, None)  # P(c | b w)
            np.testing.assert_allclose(before, after[b, :, c], rtol=1e-5)
            before_two = counts.weights(None, None, b, c) / counts.weights(None, None, b, None)  # P(c | w b)
            np.testing.assert_allclose(before_two, after[:, b, c], rtol=1e-5)


def test_kneser_ney_by_hand():
    """x y x z x y: pairs xy 2, yx 1, xz 1, zx 1 and the two with an edge; a pair counts once for each word before."""
    x, y, z = 2, 3, 4
    counts = count(np.array([EDGE, EDGE, x, y, x, z, x, y, EDGE, EDGE]), 5, 2)
    discount = 5 / (5 + 2 * 1)  # five pairs once, one twice
    before = np.array([0, 1, 3, 1, 1])  # different words before each; none has two, so that half of one is taken off
    single = np.maximum(before - 0.5, 0) / 6 + 0.5 * 4 / 6 / 5
    np.testing.assert_allclose(counts.single, single)
    after_x = counts.weights(None, x, None, None)
    assert after_x[y] == pytest.approx((2 - discount) / 3 + discount * 2 / 3 * single[y], rel=1e-6)
    assert after_x[x] == pytest.approx(discount * 2 / 3 * single[x], rel=1e-6)


@pytest.fixture(scope="module")
def language():
    """Texts of a language whose law is known: a corpus to count in, and others to judge by."""
    bed = sentences(seed=1, inputs=4000, share=0.0)
    texts = list(bed.inputs.values())
    return bed.sampler.chain, texts[:3950], texts[3950:]


def test_perplexity_on_held_out_texts_comes_near_that_of_the_true_law(language):
    chain, corpus, held_out = language
    exact = Markov(chain)
    logs = [
        np.log(exact.conditional(text, subset)[WORDS.index(text[slice(*subset.index)])])
        for text in held_out
        for subset in word_subsets(text)
    ]
    best = float(np.exp(-np.mean(logs)))
    perplexity = {}
    for order in (2, 3):
        sampler = ngram(corpus, order=order)
        shares = [
            sampler.probabilities(text, subset)[text[slice(*subset.index)].lower()]
            for text in held_out
            for subset in word_subsets(text)
        ]
        assert len(shares) == 600
        perplexity[order] = float(np.exp(-np.mean(np.log(shares))))
    assert best <= perplexity[2] <= 1.1 * best
    assert perplexity[3] <= 1.5 * best  # more to learn than there is
    assert perplexity[2] < 0.5 * len(WORDS)


def test_its_law_is_near_the_true_one_where_the_corpus_is_large(language):
    chain, corpus, held_out = language
    exact, learnt = Markov(chain), ngram(corpus, order=2)
    gaps = []
    for text in held_out[:20]:
        subset = word_subsets(text)[5]
        mass = learnt.probabilities(text, subset)
        gaps.append(np.abs(exact.conditional(text, subset) - [mass[word] for word in WORDS]).sum() / 2)
    assert np.mean(gaps) < 0.1


TEXTS = ["The cat sat, “quietly”.<br />THE DOG\r\nran to a café 🙂", "a", "I don't know the cat", "dog " * 50]
SPANS = [(text, subset) for text in TEXTS for subset in words()("", text)[:9]]


@pytest.mark.parametrize(("text", "subset"), SPANS, ids=[f"{i} {s.name}" for i, (_, s) in enumerate(SPANS)])
@pytest.mark.parametrize("draws", [0, 1, 5])
def test_only_the_subset_differs(text, subset, draws):
    made = SAMPLER([text], subset, draws, np.random.default_rng(0))
    assert made == SAMPLER([text], subset, draws, np.random.default_rng(0))
    assert len(made) == draws
    start, end = subset.index
    for other in made:
        fill = changed(text, other, subset)
        assert text[:start] + fill + text[end:] == other
        assert fill.lower() in SAMPLER._numbers


def test_draws_are_input_major_and_alone_or_together_the_same():
    texts = ["The cat sat.", "The dog ran."]
    both = SAMPLER(texts, Subset("x", (4, 7)), 3, np.random.default_rng(2))
    assert all(text.endswith(" sat.") for text in both[:3])
    assert all(text.endswith(" ran.") for text in both[3:])
    assert both[:3] == SAMPLER(texts[:1], Subset("x", (4, 7)), 3, np.random.default_rng(2))


def test_case_is_that_of_the_word():
    rng = np.random.default_rng(0)
    assert all(t[0].isupper() for t in SAMPLER(["The cat sat."], Subset("The", (0, 3)), 20, rng))
    assert all(t.split()[1].isupper() for t in SAMPLER(["the CAT sat."], Subset("CAT", (4, 7)), 20, rng))


def test_shares_of_draws_are_the_listed_probabilities():
    text, subset = "The cat sat on a mat.", Subset("cat", (4, 7))
    listing = ngram(CORPUS, listed=100)
    assert listing.lists(subset)
    assert not SAMPLER.lists(subset)
    (versions,), (mass,) = listing.support([text], subset)
    assert mass.sum() == pytest.approx(1)
    drawn = SAMPLER([text], subset, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose([drawn.count(version) / 20_000 for version in versions], mass, atol=0.015)
    (best,), (most,) = ngram(CORPUS, listed=2).support([text], subset)
    assert (best, most.tolist()) == (versions[:2], mass[:2].tolist())


def test_several_words_keep_what_is_between_them():
    text, subset = "So the cat, sat. Done", Subset("x", (3, 15))
    made = SAMPLER([text], subset, 50, np.random.default_rng(0))
    assert all(len(t.split(", ")) == 2 and t.startswith("So ") and t.endswith(". Done") for t in made)
    assert len(set(made)) > 10
    (versions,), (mass,) = ngram(CORPUS, listed=2000).support([text], subset)
    assert len(versions) == len(SAMPLER.fills) ** 3 or len(versions) == 2000
    assert 0.9 < mass.sum() <= 1 + 1e-9
    top = versions[0]
    many = SAMPLER([text], subset, 4000, np.random.default_rng(1))
    assert many.count(top) / 4000 == pytest.approx(mass[0], abs=0.03)


def test_it_pickles_and_describes_itself():
    again = pickle.loads(pickle.dumps(SAMPLER))
    subset = Subset("cat", (4, 7))
    assert again(["The cat sat."], subset, 5, np.random.default_rng(0)) == SAMPLER(
        ["The cat sat."], subset, 5, np.random.default_rng(0)
    )
    assert repr(ngram(CORPUS, listed=3)) == "ngram(10 words, order=3, listed=3)"


def test_a_run_finds_the_foreign_word_and_tests_by_its_list():
    texts = [f"The cat sat on the {last}." for last in ("zebra", "zebu", "zoo", "zinc")] * 3
    model = lambda batch: [float(" z" in text) for text in batch]  # noqa: E731
    for sampler, test in ((ngram(CORPUS, listed=100), "irt"), (SAMPLER, "few-shot")):
        result = explain(model, texts, sampler, test=test, effects=None)
        assert set(result.table.subset[result.chosen]) == {"zebra", "zebu", "zoo", "zinc"}


def test_tokens_cover_everything_but_space():
    text = "Wait... no -- it’s 3.5&amp; <br /><i>so</i>: 好的!\n"
    spans = word_tokens(text)
    assert all(a < b for a, b in spans)
    covered = {place for a, b in spans for place in range(a, b)}
    assert {place for place, letter in enumerate(text) if not letter.isspace()} <= covered


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ngram("one text"), "got one text"),
        (lambda: ngram([1]), "must be strings"),
        (lambda: ngram(CORPUS, order=4), "order must be 2 or 3, got 4"),
        (lambda: ngram(CORPUS, listed=-1), "listed must be a whole number"),
        (lambda: ngram([]), "no word that comes 2 times"),
        (lambda: ngram(["a b c"]), "no word that comes 2 times"),
        (lambda: ngram(["!!! ..."] * 3), "no word that comes 2 times"),
        (lambda: SAMPLER(["a cat"], Subset("x", (0, 4)), 1, np.random.default_rng(0)), "not made of whole words"),
        (lambda: SAMPLER(["a !!"], Subset("x", (2, 4)), 1, np.random.default_rng(0)), "not made of whole words"),
        (lambda: SAMPLER(["a"], Subset("x", (0, 9)), 1, np.random.default_rng(0)), "no span of a text"),
        (lambda: SAMPLER.probabilities("a cat", Subset("x", (0, 5))), "holds 2 words"),
    ],
)
def test_one_clear_sentence(call, said):
    with pytest.raises(butfor.InputError, match=said):
        call()
