"""Texts of other languages: a sensible answer, or one sentence that names the remedy."""

import numpy as np
import pytest

import butfor.text as bt

PRAISE = {  # a sentence with a gap, words of praise, and plain words
    "German": ("Das war ein {} Film, und ich fand ihn {} lang.", ("großartiger", "schöner"), ("ganz", "recht")),
    "Russian": ("Это был {} фильм, и он шёл {} долго.", ("прекрасный", "чудесный"), ("очень", "весьма")),
    "Arabic": ("كان هذا فيلما {} وكان {} طويلا .", ("رائعا", "جميلا"), ("جدا", "قليلا")),
}


def good(words, texts):
    return np.array([float(any(word in text for word in words)) for text in texts])


@pytest.mark.parametrize("language", PRAISE)
def test_a_foil_learned_from_texts_of_the_language_finds_its_words_of_praise(language):
    frame, praise, plain = PRAISE[language]
    dull = {"German": "alter", "Russian": "старый", "Arabic": "قديما"}[language]
    other = {"German": "langer", "Russian": "новый", "Arabic": "جديدا"}[language]
    corpus = [frame.format(word, how) for word in (dull, other) for how in plain] * 5
    sampler = bt.ngram(corpus)
    texts = [frame.format(word, how) for word in praise for how in plain] * 4
    result = bt.explain(lambda some: good(praise, some), texts, sampler, test="few-shot", alpha=0.2, effects=None)
    assert set(result.table.subset[result.chosen]) == set(praise)


CHINESE = ["这部电影很好看", "这部电影真精彩"] * 5


def test_chinese_is_cut_into_words_or_characters_and_tested():
    found = bt.words()("a", CHINESE[0])
    assert 1 < len(found) <= len(CHINESE[0])
    assert "".join(CHINESE[0][slice(*one.index)] for one in found) == CHINESE[0]

    def swapped(texts, subset, draws, rng):
        start, end = subset.index
        made = rng.choice(["一", "部", "天"], (len(texts), draws))
        return [one[:start] + str(word) + one[end:] for one, own in zip(texts, made, strict=True) for word in own]

    spans = bt.matches("好看|精彩")
    result = bt.explain(
        lambda some: good(("好看", "精彩"), some),
        CHINESE,
        swapped,
        units=spans,
        test="few-shot",
        alpha=0.2,
        effects=None,
    )
    assert result.chosen.all()
