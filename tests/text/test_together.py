"""All places of a word as one subset: the law of its draws, what is never drawn, what is shown, and what is refused."""

import warnings

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import butfor
import butfor.text as bt
from butfor.text.fills import Together, WordByWord, everywhere, without
from butfor.text.foils import own_foil
from butfor.text.segment import new_words
from butfor.text.view import marked_texts
from butfor.types import Subset

REVIEW = "An awesome film. The cast is awesome, so awesome that I love it. Love the zzgrumpf ending!"
VOCABULARY = [f"w{letter}" for letter in "abcdefghijklmn"]
CHANCES = np.arange(1, 15) / np.arange(1, 15).sum()


class Slots:
    """The exact law of texts whose different words are drawn by CHANCES, each at all of its places."""

    changes_subset_only = True

    def __init__(self, fault=False):
        self.fault = fault  # words that stand elsewhere are drawn, too

    def __call__(self, texts, subset, draws, rng):
        raise AssertionError("all places are redrawn together")

    def together(self, text, places, others):
        mass = CHANCES if self.fault else without(CHANCES, [VOCABULARY.index(word) for word in others])
        return WordByWord(1, lambda _: (VOCABULARY, mass), lambda words: everywhere(text, places, words[0]))


def slots(rng):
    a, b, c, d, e = rng.choice(VOCABULARY, 5, replace=False, p=CHANCES)
    return f"{a} {b} {a} {c} {b} {a} {d} {e}"


def null_p_values(fault, runs=60):
    rng, weights = np.random.default_rng(3), np.random.default_rng(4).standard_normal(len(VOCABULARY)) / 100
    worth = dict(zip(VOCABULARY, weights, strict=True))

    def model(texts):
        return [len(set(text.split())) + sum(map(worth.get, text.split())) for text in texts]

    texts = [slots(rng) for _ in range(runs)]
    with warnings.catch_warnings(action="ignore"):
        return bt.explain(model, texts, Slots(fault), test="irt", draws=39, effects=None, alternative="greater").table.p


def test_null_p_values_are_no_smaller_than_chance_unless_words_elsewhere_are_drawn():
    p, wrong = null_p_values(False), null_p_values(True)
    for level in (0.05, 0.1, 0.3):
        assert (p <= level).sum() <= binom.isf(1e-6, len(p), level)
    assert (p <= 0.3).mean() > 0.2  # power to see a fault
    assert (wrong <= 0.3).sum() > binom.isf(1e-6, len(wrong), 0.3)


@pytest.mark.parametrize("make", [lambda: bt.small_infiller(threads=1), lambda: bt.ngram([REVIEW] * 3, least=1)])
def test_one_word_goes_to_all_places_in_their_case_and_none_that_stands_elsewhere(make):
    subset = next(one for one in bt.words(together=True)("r", REVIEW) if one.name == "love")
    assert len(subset.index) == 2
    made = Together(make())([REVIEW], subset, 40, np.random.default_rng(0))
    elsewhere = {word.lower() for word in REVIEW.replace(".", "").split()} - {"love"}
    for other in made:
        small, capital = new_words(REVIEW, other, subset)
        assert capital.lower() == small.lower()
        assert capital[0].isupper()
        assert small.lower() not in elsewhere


def test_the_law_of_an_ngram_is_the_mean_over_the_places():
    sampler = bt.ngram(["a cat sat. a dog ran. the cat ran. the dog sat. the owl ran."], least=1)
    text, places = "a cat sat. the cat ran.", ((2, 5), (15, 18))
    words, mass = Together(sampler).open(text, Subset("cat", places)).following(())
    each = [sampler._mass(one.numbers, one.indices[0], set()) for one in (
        sampler._positions(text, Subset("cat", place)) for place in places)]  # fmt: skip
    allowed = np.array([word not in ("a", "sat", "the", "ran") for word in words])
    expected = np.where(allowed, np.mean(each, axis=0), 0)
    np.testing.assert_allclose(mass, expected / expected.sum())


def test_repeated_words_are_found_and_unknown_ones_are_marked(tmp_path):
    sampler = bt.small_infiller(threads=1, among="plain")
    model = lambda texts: [1.0 * ("awesome" in text) for text in texts]  # noqa: E731
    result = bt.explain(model, {"r": REVIEW}, sampler, alpha=0.3)
    table = result.table.set_index("subset")
    assert table.chosen[table.chosen].index.tolist() == ["awesome"]
    assert table.status["zzgrumpf"] == "not covered"
    assert "[?zzgrumpf]" in str(bt.marked(result))
    assert str(bt.marked(result)).count("[+awesome]") == 3
    (word,) = marked_texts(result).texts[0].words
    assert "awesome" not in "".join(one.after for one in word.changed)  # redrawn there, too
    result.save(tmp_path / "r.butfor")
    assert str(bt.marked(butfor.load(tmp_path / "r.butfor"))) == str(bt.marked(result))
    by_place = bt.explain(model, {"r": REVIEW}, sampler, alpha=0.3, units="occurrence")
    assert not by_place.chosen.any()
    assert "awesome #2" in by_place.subset_names


@pytest.mark.parametrize(
    "text",
    [
        "Der Film war wirklich langweilig und die Schauspieler konnten mich nicht überzeugen.",
        "Le film était vraiment ennuyeux et les acteurs ne m'ont pas convaincu du tout.",
        "Фильм был очень скучным, и актёры меня не убедили.",
        "كان الفيلم مملا جدا ولم يقنعني الممثلون",
        "这部电影非常无聊，演员也没有说服我。",
    ],
)
def test_a_language_that_the_infiller_does_not_know_is_refused_and_an_ngram_serves_it(text):
    with pytest.raises(butfor.InputError, match=r"outside the 8,000 words of film reviews .* use butfor.text.ngram"):
        bt.explain(lambda texts: [len(one) for one in texts], [text], bt.small_infiller(threads=1))
    bt.explain(lambda texts: [len(one) for one in texts], [text], bt.ngram([text] * 3), effects=None)


TELL = {"spam": ("prize", "winner", "claim", "cash"), "ham": ("meeting", "lunch", "agenda", "train")}


def mail(rng, count):
    labels = rng.choice(list(TELL), count)
    words = [tuple(rng.choice(TELL[label], 2, replace=False)) for label in labels]
    names, days = rng.choice(["anna", "ben", "carla", "david"], count), rng.choice(["monday", "friday", "noon"], count)
    texts = [
        f"hi {n} see the {a} by {d} about your {b} thanks" for n, d, (a, b) in zip(names, days, words, strict=True)
    ]
    return texts, labels.tolist()


def test_labelled_texts_make_the_foil_and_what_tells_classes_is_found():
    rng = np.random.default_rng(0)
    corpus, labels = mail(rng, 200)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(corpus, labels)
    texts, _ = mail(rng, 10)
    result = bt.explain(model, texts, corpus=corpus, labels=labels, effects=None)
    tells = result.table.subset.isin([word for words in TELL.values() for word in words]).to_numpy()
    assert result.chosen[tells].mean() >= 0.7
    assert (result.chosen & ~tells).sum() <= 0.1 * result.chosen.sum() + 2
    assert "plain-words" in [note.code for note in result.notes]


def test_texts_that_are_explained_do_not_make_the_foil_and_other_classes_serve_where_nothing_is_plain():
    corpus, labels = ["free cash now", "lunch at ten"] * 20, ["spam", "ham"] * 20
    sampler, note = own_foil(corpus, labels, [], target="spam")
    assert note.code == "other-class"
    assert set(sampler._known) == {"lunch", "at", "ten"}
    with pytest.raises(butfor.InputError, match="are of 1 class; give texts of two"):
        own_foil(corpus, labels, ["free cash now"])
    with pytest.raises(butfor.InputError, match="3 classes for 3 texts; give the class of each"):
        own_foil(["a b", "c d", "e f"], list("xyz"), [])
    with pytest.raises(butfor.InputError, match="go together"):
        bt.explain(len, ["a text"], corpus=corpus)


def test_labels_match_by_value_and_by_text():
    texts, labels = ["good film", "bad film"] * 5, [1, 0] * 5
    for known, asked in ((labels, "1"), (labels, 1), ([str(one) for one in labels], 1)):
        model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, known)
        result = bt.explain(model, texts[:2], bt.ngram(texts), target=asked, effects=None)
        assert set(result.evidence.classes) == {1}


def test_a_small_pool_of_foils_is_ranked_and_what_it_cannot_show_is_said_before():
    pool = ["Aa bb. Cc dd.", "Ee ff. Gg hh.", "Ii jj. Kk ll."]
    model = lambda texts: [float("Mm" in one) for one in texts]  # noqa: E731
    with pytest.warns(UserWarning, match="needs 19 candidates to be unusual, the pool has at most 6"):
        result = bt.explain(model, ["Mm nn. Oo pp."], bt.foils(pool), units="sentence", test=butfor.sequential(h=1))
    assert result.table.p[0] == pytest.approx(1 / 7)
    assert not {"as-drawn", "ordinary"} & {note.code for note in result.notes}
