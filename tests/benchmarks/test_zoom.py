"""`python -m benchmarks zoom`: rates by resolution in one table, and the cost of long documents."""

import json

import pytest

from benchmarks import zoom
from benchmarks.figures import markdown, slope
from butfor import InputError
from butfor.text.segment import word_spans

LENGTHS = [
    {"words": words, "work": 1.0, "model_work": 0.5, "sampler_work": 0.2, "spans": 9, "drawn": 3, "chosen": 1}
    | {"rows": words, "row": 1e-3}
    for words in (300, 600)
]
FIGURES = {"joined": LENGTHS, "joined, slopes": [{"work": 1.0, "rows": 0.5, "row": 0.5}]}


def test_rates_of_a_small_bed(monkeypatch):
    quick = lambda seed, *, flat=False, draws=60: zoom.image_run(seed, flat=flat, draws=30, h=3, inputs=1)  # noqa: E731
    monkeypatch.setitem(zoom.RUNS, "images", quick)
    figures = zoom.run(runs=1, seed=3, beds=("images",))
    assert {row["way"] for row in figures["rates"]} == {"zoom", "not drawn left out", "flat"}
    assert all(0 <= row["fdr"] <= 1 and 0 <= row["power"] <= 1 and row["rows"] > 0 for row in figures["rates"])
    assert "images | zoom | 0 |" in markdown(figures)


def test_an_unknown_bed_is_refused():
    with pytest.raises(InputError, match="beds must be some of documents"):
        zoom.run(beds=("tables",))


def test_documents_are_reviews_joined_and_their_beginnings():
    reviews = [f"Review {number} is dull. It is long." for number in range(20)]
    (first, second) = zoom.joined_reviews(reviews, 2, 12)
    assert len(word_spans(first)) == len(word_spans(second)) == 12
    assert first.startswith(reviews[0] + "\n\nReview 1")
    assert second.startswith(reviews[2])
    assert first.startswith(zoom.beginning(first, 5))


def test_the_slope_is_that_of_the_logarithms():
    sizes = [300, 600, 1200]
    assert slope(sizes, [size**1.5 for size in sizes]) == pytest.approx(1.5)


def test_one_length_is_measured():
    row = zoom.of_length(["It was good. I liked it."] * 40, ["It was bad. I hated it."], 0, 6)
    assert row["rows"] > 0 < row["work"]
    assert 0 < row["drawn"] <= row["spans"]
    json.dumps(row)


def test_the_command_shows_it(monkeypatch):
    monkeypatch.setattr(zoom, "lengths", lambda seed: FIGURES)
    shown = markdown(zoom.run(beds=("length",)))
    assert "## length, joined, slopes\n\n| work | rows | row |\n|---|---|---|\n| 1 | 0.5 | 0.5 |" in shown
    assert "| 600 | 1 |" in shown
