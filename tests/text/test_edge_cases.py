"""Texts at the edges: correct, or one clear sentence; never a silent cut of what is tested."""

import warnings

import numpy as np
import pytest

import butfor.text as bt
from butfor import InputError, Subset
from butfor.text.segment import changed


@pytest.fixture(scope="module")
def sampler():
    return bt.small_infiller(threads=1)


def length(texts):
    return [float(len(text)) for text in texts]


def explained(texts, sampler, model=length, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bt.TextWarning)
        return bt.explain(model, texts, sampler, effects=None, **settings)


def test_empty_text(sampler):
    with pytest.raises(InputError, match="no text is left to test; 1 text was left out, having nothing to test"):
        explained([""], sampler)
    assert explained(["", "a good film"], sampler).input_names == ("text 2",)
    assert 0 <= bt.small_sentiment(threads=1)([""])[0] <= 1


def test_one_word(sampler):
    result = explained(["Good"], sampler)
    assert result.subset_names == ("Good",)
    assert all(fill[0].isupper() or fill[0].isdigit() for fill in result.counterfactuals("text 1", "Good", n=5))


def test_only_punctuation(sampler):
    with pytest.raises(InputError, match="having nothing to test"):
        explained(["... !!! — ¿?"], sampler)


def test_a_hundred_thousand_characters(sampler):
    """All of its words are tested, and the last is redrawn from its own neighbourhood like any other."""
    text = "It was a good film, and I liked it. " * 2800
    assert len(text) > 100_000
    words = bt.words()("t", text)
    assert len(words) == 2800 * 9
    last = words[-2]
    assert text[slice(*last.index)] == "liked"
    fills = [changed(text, made, last) for made in sampler([text], last, 5, np.random.default_rng(0))]
    near = text[-3600:]
    shifted = Subset("liked", tuple(place - len(text) + len(near) for place in last.index))
    assert all(made.endswith(" it. ") for made in sampler([near], shifted, 5, np.random.default_rng(0)))
    assert len(fills) == 5
    result = explained([text], sampler, units=lambda name, text: words[:5] + words[-5:], test="osft")
    assert len(result.chosen) == 10
    answer = bt.small_sentiment(threads=1)([text])
    assert np.isfinite(answer).all()


def test_chinese(sampler, tiny):
    text = "这部电影很好"
    with pytest.raises(InputError, match="6 of its 6 words are outside"):
        explained([text], sampler)
    result = explained([text], bt.masked_lm(tiny / "bert"), units=bt.words())
    assert result.subset_names == tuple(text)


def test_thai(sampler, tiny):
    text = "หนังเรื่องนี้ดีมาก"
    with pytest.raises(InputError, match="outside the 8,000 words of film reviews that small_infiller draws"):
        explained([text], sampler)
    masked = bt.masked_lm(tiny / "roberta")
    result = explained([text], masked, units="word")
    assert "".join(result.subset_names).replace(" #2", "").replace(" #3", "")
    assert all("\ufffd" not in made for made in result.counterfactuals("text 1", result.subset_names[0], n=5))


def test_right_to_left(tiny, sampler):
    text = "הסרט הזה היה good מאוד"
    for made in bt.masked_lm(tiny / "bert")([text], Subset("good", (13, 17)), 5, np.random.default_rng(0)):
        assert made.startswith("הסרט הזה היה ")
        assert made.endswith(" מאוד")
    with pytest.raises(InputError, match="outside the 8,000 words of film reviews that small_infiller draws"):
        explained([text], sampler)


def test_zero_width_joiners(sampler):
    text = "I loved it 👩‍👩‍👧 so much 👍🏽, can\u200dnot say"
    result = explained([text], sampler)
    assert result.subset_names == ("I", "loved", "it", "so", "much", "can\u200dnot", "say")
    for made in result.counterfactuals("text 1", "much", n=4):
        assert "👩‍👩‍👧" in made
        assert " 👍🏽, can\u200dnot say" in made


def test_lone_surrogates(sampler, tmp_path):
    text = "It was \ud800 good \udfff\ud800 film"
    result = explained([text], sampler, model=bt.small_sentiment(threads=1))
    assert result.subset_names == ("It", "was", "good", "film")
    for made in result.counterfactuals("text 1", "good", n=4):
        assert made.startswith("It was \ud800 ")
        assert made.endswith(" \udfff\ud800 film")
    result.save(tmp_path / "r.butfor")
    result.table.to_csv(tmp_path / "t.csv")


def test_script_tags(sampler):
    text = "A good film <script>alert('x')</script><br /> indeed"
    result = explained([text], sampler, model=bt.small_sentiment(threads=1))
    assert "script" not in result.subset_names
    assert "br" not in result.subset_names
    for made in result.counterfactuals("text 1", "good", n=4):
        assert made.endswith(" film <script>alert('x')</script><br /> indeed")


def test_longer_than_the_models_limit(tiny, sampler):
    long = "It was a good film and a bad one. " * 12
    model = tiny / "classifier"
    with pytest.raises(InputError, match="the model takes at most 40"):
        explained([long], sampler, model=model)
    result = explained([long, "a good film"], sampler, model=model, on_error="skip")
    assert result.input_names == ("text 2",)
    cut = explained([long], sampler, model=bt.huggingface_classifier(model, truncate=True))
    assert len(cut.chosen) == 8


def test_a_counterfactual_that_becomes_too_long_is_said(tiny):
    """A fill may have more pieces than the word: that, too, is no silent cut."""
    text = " ".join(["film"] * 38)

    def longer(texts, subset, draws, rng):
        return [text[: subset.index[0]] + "film film" + text[subset.index[1] :] for text in texts for _ in range(draws)]

    with pytest.raises(InputError, match="41 pieces and the model takes at most 40"):
        explained([text], longer, model=tiny / "classifier", test="osft")
