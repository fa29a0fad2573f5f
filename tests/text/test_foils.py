"""Fills from real spans of other texts: of the same kind, length and place, never from the text itself."""

from importlib import import_module

import numpy as np
import pytest

import butfor
from butfor.evaluation.samplers import info_of
from butfor.text import changed, foils, ngram, sentence_spans, sentences, words
from butfor.text.foils import LENGTHS, outline
from butfor.types import Subset

OPENINGS = ["It rained", "We met again", "She left early", "The shop closed", "He came home late", "They sang"]
ENDINGS = ["All was well", "Nobody knew why", "So it ended", "We went to bed", "That was that", "Good night"]
POOL = [
    f"{a}. Then {b.lower()} {k} times over. {c}."
    for k in range(9)
    for a in OPENINGS
    for b, c in zip(OPENINGS, ENDINGS, strict=True)
]
TEXT = "It hailed hard. Then we ran for 5 long miles. Nothing was said."


def fills(subset, count=200, **options):
    made = foils(POOL, **options)([TEXT], subset, count, np.random.default_rng(0))
    return [changed(TEXT, one, subset) for one in made]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_sentence_gets_sentences_of_its_length_from_its_place(place):
    subset = sentences()("text", TEXT)[place]
    drawn = set(fills(subset)) - {TEXT[slice(*subset.index)]}
    assert len(drawn) > 1
    firsts, lasts = {f"{own}." for own in OPENINGS}, {f"{own}." for own in ENDINGS}
    where = (firsts, set(), lasts)[place]
    for fill in drawn:
        assert len(sentence_spans(fill)) == 1
        lengths = [np.searchsorted(LENGTHS, len(fill.split()), "right"), outline(TEXT).key(subset.index)[1]]
        assert lengths[0] == lengths[1]
        assert fill in where if where else fill.startswith("Then")


def test_a_part_of_a_sentence_gets_as_many_words_in_its_case():
    subset = Subset("we ran", (21, 27))
    assert TEXT[21:27] == "we ran"
    drawn = fills(subset)
    assert {len(fill.split()) for fill in drawn} == {2}
    assert all(fill[0].islower() or fill[0].isdigit() for fill in drawn)


def test_passages_and_whole_texts():
    first, second = sentence_spans(TEXT)[:2]
    drawn = fills(Subset("two", (first[0], second[1])))
    assert all(len(sentence_spans(fill)) == 2 for fill in drawn)
    whole = fills(Subset("all", (0, len(TEXT))))
    assert set(whole) - {TEXT} <= set(POOL)
    assert info_of(foils(POOL)).fills_whole


def test_what_stands_there_is_one_of_the_candidates():
    pool = ["Aa bb. Cc dd.", "Ee ff. Gg hh.", "Ii jj. Kk ll."]
    subset = Subset("first", (0, 6))
    text = "Mm nn. Oo pp."
    drawn = [changed(text, one, subset) for one in foils(pool)([text], subset, 4000, np.random.default_rng(1))]
    shares = {fill: drawn.count(fill) / 4000 for fill in set(drawn)}
    assert set(shares) >= {"Aa bb.", "Ee ff.", "Ii jj.", "Mm nn."}
    assert shares["Mm nn."] == pytest.approx(1 / len(shares), abs=0.03)
    assert max(shares.values()) - min(shares.values()) < 0.05


def test_a_text_of_the_pool_ties_with_itself():
    result = butfor.text.explain(
        lambda some: [float(one == TEXT) for one in some], [TEXT], foils([*POOL, TEXT]), units="sentence", test="irt"
    )
    assert (result.table.p > 1 / (len(POOL) + 2)).all()


def test_single_words_go_to_the_sampler_of_words():
    inner = ngram(POOL)
    subset = words()("text", TEXT)[1]
    one, two = (sampler([TEXT], subset, 5, np.random.default_rng(3)) for sampler in (foils(POOL, words=inner), inner))
    assert one == two


def test_a_run_on_sentences_finds_the_one_that_matters():
    texts = [
        f"{a} {k}. The film was dreadful today. {c}."
        for k, (a, c) in enumerate(zip(OPENINGS * 3, ENDINGS * 3, strict=True))
    ]
    result = butfor.text.explain(
        lambda some: np.array([float("dreadful" in own) for own in some]), texts, foils(POOL), units="sentence"
    )
    assert set(result.table.subset[result.chosen]) == {"The film was dreadful today."}
    assert "without regard to the other" in str(result.guarantee)


def test_what_cannot_be_used_is_refused():
    with pytest.raises(butfor.InputError, match="one text"):
        foils("a text")
    with pytest.raises(butfor.InputError, match="empty"):
        foils([])
    with pytest.raises(butfor.InputError, match="sampler of words"):
        foils(POOL, words="ngram")
    long = " ".join(["word"] * 3000) + "."
    with pytest.raises(butfor.InputError, match="more texts"):
        foils(POOL)([long], Subset("all", (0, len(long))), 1, np.random.default_rng(0))


def test_a_stop_without_a_space_ends_a_sentence():
    text = "It was original.The rest, e.g. the plot of example.com or Mr.Bean, was 3.5 stars.Fine!"
    assert [text[a:b] for a, b in sentence_spans(text)] == [
        "It was original.",
        "The rest, e.g. the plot of example.com or Mr.Bean, was 3.5 stars.",
        "Fine!",
    ]


@pytest.mark.parametrize("kind", ["part", "sentence", "passage", "text"])
def test_what_is_kept_of_the_pool_is_what_looking_at_every_span_finds(kind, monkeypatch):
    monkeypatch.setattr(import_module("butfor.text.foils"), "MOST_PARTS", 300)
    sampler = foils(POOL)
    for size in range(1, 12):
        for place in range(4):
            key = (kind, size, place)
            found = [
                (number, span)
                for number, shape in enumerate(sampler.outlines)
                for span in shape.spans(kind, size)
                if shape.key(span) == key
            ]
            assert sampler._of(key) == found[:300]
