"""butfor bench zoom --beds length: documents that begin alike, and the slope of what they cost."""

import json

import pytest

from butfor.bench import zoom, zoom_length
from butfor.text.segment import word_spans

LENGTHS = [
    {"words": words, "work": 1.0, "model_work": 0.5, "sampler_work": 0.2, "spans": 9, "drawn": 3, "chosen": 1}
    | {"rows": words, "row": 1e-3}
    for words in (300, 600)
]
FIGURES = {"documents": 1, "beds": {"joined": {"slope": {"work": 1.0, "rows": 0.5, "row": 0.5}, "lengths": LENGTHS}}}


def test_documents_are_reviews_joined_and_their_beginnings():
    reviews = [f"Review {number} is dull. It is long." for number in range(20)]
    (first, second) = zoom_length.documents(reviews, 2, 12)
    assert len(word_spans(first)) == len(word_spans(second)) == 12
    assert first.startswith(reviews[0] + "\n\nReview 1")
    assert second.startswith(reviews[2])
    assert first.startswith(zoom_length.beginning(first, 5))


def test_the_slope_is_that_of_the_logarithms():
    lengths = [{"words": words, "work": words**1.5} for words in (300, 600, 1200)]
    assert zoom_length._slope(lengths, "work") == pytest.approx(1.5)


def test_one_length_is_measured():
    found = zoom_length.of_length(["It was good. I liked it."] * 40, ["It was bad. I hated it."], 0, 6)
    assert found["rows"] > 0 < found["work"]
    assert 0 < found["drawn"] <= found["spans"]
    json.dumps(found)


def test_the_command_shows_it(monkeypatch):
    monkeypatch.setattr(zoom_length, "run", lambda seed: FIGURES)
    shown = zoom.markdown(zoom.run(beds=("length",)))
    assert "Joined. Slopes: processor time 1.00, model rows 0.50" in shown
    assert "| 600 | 1.0 |" in shown
