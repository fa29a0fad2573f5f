"""Foils ranked among few candidates, and foils made of labelled texts: levels, power, planted faults."""

import warnings

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import butfor.text as bt
from butfor.text.foils import Foils
from calibration_checks import powerful, super_uniform

WORDS = np.array([a + b for a in ("ba", "de", "ki", "lo", "mu", "ne") for b in ("t", "r", "s", "l", "n")])
SIZES = (1, 5, 13, 36, 110)  # so far apart that none is drawn for another
RUNS = 40


def continuous(rng, size):
    return " ".join(rng.choice(WORDS, size)).capitalize() + "."


def repeated(rng, size):
    """One of three texts, as templates of tickets are."""
    return " ".join([rng.choice(WORDS[:3], p=[0.1, 0.3, 0.6])] * size).capitalize() + "."


LAWS = {"continuous": (continuous, 0), "tied": (continuous, 1), "repeated": (repeated, 0)}


def p_values(law, test="irt", *, candidates=10, foreign=False):
    """Of texts from the same source as their candidates, five in a run; or with a word that none of these has."""
    (draw, digits), rng, found = LAWS[law], np.random.default_rng(5), []
    worth = dict(zip(WORDS, rng.normal(size=len(WORDS)), strict=True))

    def model(texts):
        means = [np.mean([worth.get(word, 9.0) for word in text.rstrip(".").lower().split()]) for text in texts]
        return np.round(means) if digits else np.array(means)

    for seed in range(RUNS):
        pool = bt.foils([draw(rng, size) for size in SIZES for _ in range(candidates)])
        texts = [("Zzz " * size).strip() + "." if foreign else draw(rng, size) for size in SIZES]
        with warnings.catch_warnings(action="ignore"):
            result = bt.explain(
                model, texts, pool, units="sentence", test=test, alternative="greater", seed=seed, effects=None
            )
        found.append(result.table.p.to_numpy())
    return np.concatenate(found)


@pytest.mark.parametrize(("law", "test"), [("continuous", "irt"), ("tied", "irt"), ("repeated", "sequential")])
def test_ranks_among_few_candidates_are_valid(law, test):
    p = p_values(law, test)
    super_uniform(p)
    if law == "continuous":
        assert (p <= 0.3).mean() >= 0.2  # and not merely large


def test_a_foreign_text_is_as_unusual_as_its_candidates_allow():
    np.testing.assert_allclose(p_values("continuous", foreign=True), 1 / 11)


def unlikely_observed(self, inputs, subset):
    versions, masses = self._support(inputs, subset)
    masses[:, 0] /= 10
    return versions, masses / masses.sum(axis=1, keepdims=True)


def without_equals(self, inputs, subset):
    versions, masses = self._support(inputs, subset)
    masses[:, 1:] *= [[one != of_text[0] for one in of_text[1:]] for of_text in versions]
    return versions, masses / masses.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("fault", "law"), [(unlikely_observed, "continuous"), (without_equals, "repeated")])
def test_planted_faults_are_caught(fault, law, monkeypatch):
    """The observed text counts for a tenth of a candidate; equal texts, which would have been ties, are left out."""
    monkeypatch.setattr(Foils, "_support", Foils.support, raising=False)
    monkeypatch.setattr(Foils, "support", fault)
    with pytest.raises(AssertionError, match="p-values are <="):
        super_uniform(p_values(law))


PLAIN = [
    "anna ben carla david emma frank",
    "see check read open send forward",
    "note file list page form summary",
    "monday tuesday friday noon tonight tomorrow",
]
FRAMES = (
    "hi {0} please {1} the {x} {2} by {3} about the {y} thanks",
    "dear {0} we {1} your {x} and the {y} {2} before {3}",
    "{0} wrote on {3} that the {2} with the {x} is here so {1} the {y} now",
)
KINDS = {
    "spam": {
        "spam": "prize winner claim free cash urgent offer bonus credit lottery",
        "ham": "meeting lunch agenda school dinner project train birthday garden invoice",
    },
    "tickets": {
        "network": "vpn router wifi latency dns cable",
        "billing": "refund payment card charge receipt discount",
        "login": "password token account locked reset username",
    },
}


def labelled(rng, kinds, count):
    labels = rng.choice(list(kinds), count)
    texts = [
        rng.choice(FRAMES).format(*(rng.choice(words.split()) for words in PLAIN), x=x, y=y)
        for x, y in (rng.choice(kinds[label].split(), 2) for label in labels)
    ]
    return texts, labels.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_labelled_texts_make_a_foil_that_finds_what_tells_the_classes(kind):
    kinds, false, found = KINDS[kind], [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        corpus, labels = labelled(rng, kinds, 300)
        model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(corpus, labels)
        texts, _ = labelled(rng, kinds, 6)
        result = bt.explain(model, texts, corpus=corpus, labels=labels, effects=None, seed=seed)
        tells = result.table.subset.isin(" ".join(kinds.values()).split()).to_numpy()
        false.append((result.chosen & ~tells).sum() / max(1, result.chosen.sum()))
        found.append(result.chosen[tells].mean())
    assert np.mean(false) <= 0.1 + 2 * np.std(false, ddof=1) / np.sqrt(len(false))
    powerful(np.array(found), 0.7)
