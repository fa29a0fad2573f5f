"""What is enough for the decision on a text: which parts are kept, and how the rest is redrawn."""

import numpy as np
import pytest

import butfor
from butfor.evaluation.hypotheses import MOST_PARTS
from butfor.text import foils, ngram, zoom
from butfor.text.fills import Rest
from butfor.text.segment import rest_of
from butfor.types import InputError, Subset

PLAIN = ["the cat sat on the mat", "a dog ran in the park", "the dog sat in a car", "a cat ran on the park"] * 4
LEVEL = {"test": "osft", "effects": None, "enough": 0.9}


def awful(texts):
    """Two classes: blame where a text has a word of it."""
    bad = np.array([any(word in text for word in ("awful", "dreadful")) for text in texts])
    return np.stack([~bad, bad], axis=1).astype(float)


def explained(texts, sampler=None, **settings):
    with pytest.warns(butfor.ReachWarning):
        return butfor.text.explain(awful, texts, sampler or ngram(PLAIN), **{**LEVEL, **settings})


def test_either_of_two_words_is_enough_and_neither_is_decisive(tmp_path):
    result = explained({"review": "The awful dog sat in a dreadful car."})
    (row,) = result.enough("review").to_dict("records")
    assert {row["columns"], *row["alternatives"]} == {("awful",), ("dreadful",)}
    assert row["stay"] == 1
    assert row["stay_low"] > 0.9
    assert result.sets.base_high[0] < 0.5
    assert not result.decided.necessary.any()
    assert "Enough: awful (100 % decide alike" in str(result)
    assert "; or dreadful" in str(result)
    assert result.reasons().set_index("kind").loc["enough"].subset == "awful"
    result.save(tmp_path / "result.butfor")
    result.report(tmp_path / "report.html")
    assert butfor.load(tmp_path / "result.butfor").enough().equals(result.enough())
    assert "decide alike" in (tmp_path / "report.html").read_text()


def test_where_most_texts_get_the_decision_nothing_is_needed():
    result = explained({"review": "The dog sat in a car."})
    assert result.enough()["columns"].tolist() == [()]
    assert "no part is needed: 100 % of texts drawn anew get this decision anyway" in str(result)


def test_parts_are_as_fine_as_they_are_few():
    long = " ".join(["The dog sat in a car."] * 5 + ["It was awful."])
    assert len(long.split()) > MOST_PARTS
    texts = {"long": long, "short": "An awful dog."}
    for units in ("word", "sentence", zoom("word")):
        test = "osft" if isinstance(units, str) else butfor.sequential(h=1)
        result = butfor.text.explain(awful, texts, ngram(PLAIN), **LEVEL | {"test": test}, units=units)
        told = result.enough().set_index("input")["columns"].to_dict()
        assert told["long"] == (("awful",) if units == "word" else ("It was awful.",))
        assert told.get("short") == (("awful",) if units != "sentence" else None)


@pytest.mark.parametrize(
    ("kept", "rest"),
    [
        ([], ["A dog, fine and old. It ran."]),
        (["fine"], ["A dog", "and old. It ran."]),
        (["A dog", "It ran."], ["fine and old"]),
        (["A dog, fine and old."], ["It ran."]),
        (["A dog, fine and old", "It ran"], None),
    ],
)
def test_the_rest_is_whole_sentences_and_words(kept, rest):
    text = "A dog, fine and old. It ran."
    stretches = rest_of(text, [Subset(one, (text.index(one), text.index(one) + len(one))) for one in kept])
    assert (stretches and [text[a:b] for a, b in stretches]) == rest


def test_nothing_of_the_observed_rest_is_read():
    seen = []

    def recording(texts, subset, draws, rng):
        start, end = subset.index
        seen.extend((text[:start], text[end:]) for text in texts)
        return [f"{text[:start]}new{int(rng.integers(100))}{text[end:]}" for text in texts for _ in range(draws)]

    text = "one two KEPT three four KEPT five"
    kept = [Subset("KEPT", (8, 12)), Subset("KEPT #2", (24, 28))]
    index = rest_of(text, kept)
    made = Rest(recording)([text], Subset("rest", index), 3, np.random.default_rng(0))
    observed = {"one", "two", "three", "four", "five"}
    assert not any(observed & set(" ".join(sides).split()) for sides in seen)
    assert all(len(set(one.split()) & observed) == 0 and one.split()[1::2] == ["KEPT", "KEPT"] for one in made)
    assert len(set(made)) == 3


def test_sentences_around_a_sentence_are_real_ones():
    real = [f"It rained in {month}." for month in ("April", "May", "June")]
    text = "It snowed in March. The film was awful. We went out in May."
    kept = [Subset("The film was awful.", (20, 39))]
    made = Rest(foils([" ".join(real)]))([text], Subset("rest", rest_of(text, kept)), 8, np.random.default_rng(0))
    before, after = zip(*(one.split(" The film was awful. ") for one in made), strict=True)
    assert set(before) <= {text[:19], *real}
    assert set(after) <= {text[40:], *real}


def test_a_sampler_that_cannot_redraw_nearly_all_of_a_text_costs_only_what_is_enough():
    words = ngram(PLAIN)

    def short(texts, subset, draws, rng):
        if subset.index[1] - subset.index[0] > 12:
            raise ValueError("the span is too long")
        return words(texts, subset, draws, rng)

    result = explained({"review": "The awful dog sat in the car."}, short)
    assert result.sets is None
    (note,) = [note for note in result.notes if note.code == "enough-not-drawn"]
    assert "the span is too long" in str(note)
    with pytest.raises(InputError, match=r"enough=0\.9"):
        result.enough()


def test_a_sampler_without_chance_is_refused_before_anything_is_drawn():
    def grey(texts, subset, draws, rng):
        raise AssertionError

    grey.deterministic = True
    with pytest.raises(InputError, match="always draws the same; drop enough="):
        butfor.text.explain(awful, ["An awful dog."], grey, **LEVEL)
