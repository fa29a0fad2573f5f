"""The study of reviews on a few made-up ones: what is counted, and that the command writes it."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="the text extra is not installed")
pytest.importorskip("tokenizers", reason="the text extra is not installed")

import butfor
from benchmarks import texts
from benchmarks.__main__ import main
from benchmarks.figures import markdown

TRAINING = str(Path(__file__).parents[2] / "training")
REVIEW = "We took the bus to town and saw this on a {} Monday night, with a {} friend of mine from work."
WORDS = ["wonderful", "superb", "terrible", "awful", "brilliant", "boring", "great", "dull", "excellent", "bad"]


@pytest.fixture(scope="module")
def assets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assets")
    (folder / "imdb").mkdir()
    rng = np.random.default_rng(0)
    rows = [{"text": REVIEW.format(*rng.choice(WORDS, 2)), "label": i % 2} for i in range(30)]
    rows.append({"text": "word " * 300, "label": 1})
    for split in ("test", "train", "unlabelled"):
        with gzip.open(folder / "imdb" / f"{split}.jsonl.gz", "wt", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    return folder


def test_the_study_counts_words_and_directions(assets):
    figures = texts.run(assets, reviews=40, threads=1)
    assert figures["reviews"] == 30  # the long one is left out
    for found in figures["tests"].values():
        assert found["words"] == 30 * 22
        assert found["share"] == found["chosen"] / found["words"]
        assert found["rows"] < found["rows_asked"]
        assert sum(row["chosen"] for row in found["most_chosen"]) <= found["chosen"]
        for row in found["most_chosen"]:
            assert row["up"] + row["down"] == row["chosen"] <= row["tested"]
            assert row["lexicon"] == texts.sign(row["word"])
        assert found["sampler_work"] + found["model_work"] <= found["work"] + 1
    assert set(figures["tests"]) == {"default", "osft", "few-shot", "osft, any word"}
    json.dumps(figures, allow_nan=False)
    shown = markdown(figures)
    assert "| osft | osft | 660 |" in shown
    assert "| few-shot | few-shot | 660 |" in shown


def test_chosen_words_that_praise_or_blame_pull_that_way(assets):
    found = texts.study(texts.short_reviews(assets, 30, 0), 0, 1, test="few-shot", among="plain")
    assert found["chosen"] >= 15
    assert found["most_chosen_in_lexicon"] >= 3
    assert found["lexicon_agrees"] > 0.9
    assert found["lexicon_share_of_chosen"] > 2 * found["lexicon_share_of_words"]


def test_the_same_seed_takes_the_same_reviews(assets):
    assert texts.short_reviews(assets, 5, 3) == texts.short_reviews(assets, 5, 3)
    assert texts.short_reviews(assets, 5, 3) != texts.short_reviews(assets, 5, 4)
    assert set(texts.short_reviews(assets, 5, 3)) < set(texts.short_reviews(assets, 9, 3))


def test_the_command_writes_its_figures(assets, tmp_path, capsys):
    given = ["texts", "--assets", str(assets), "--reviews", "3", "--threads", "1", "--out", str(tmp_path)]
    assert main(given) == 0
    written = json.loads((tmp_path / "texts.json").read_text())
    assert written["figures"]["reviews"] == written["settings"]["reviews"] == 3
    assert capsys.readouterr().out.startswith("# texts\n\nreviews: 3; alpha: 0.15")


def test_the_words_of_the_list_are_on_one_side():
    assert not texts.POSITIVE & texts.NEGATIVE
    assert len(texts.POSITIVE) > 100 < len(texts.NEGATIVE)
    assert all(word == word.lower().strip() and word.isalpha() for word in texts.POSITIVE | texts.NEGATIVE)


def test_the_quality_of_the_networks_as_markdown(monkeypatch):
    """`training/evaluate.py`, which is not in the package."""
    monkeypatch.syspath_prepend(TRAINING)
    import evaluate

    scores = {"top1": 0.4, "top5": 0.6, "perplexity": 30.0}
    both = {"over_pieces": scores, "over_words": scores}
    figures = {
        "bytes": {"infiller.onnx": 5e6},
        "infiller": {**both, "several_pieces_perplexity": 1e5, "fills": ["a [b] c | d | e 0.5"]},
        "ngram": both,
        "sentiment": {"accuracy": 0.915, "reviews": 1000},
        "float": {"infiller": both, "sentiment": 0.916},
    }
    said = evaluate.markdown(figures)
    assert "| infiller, over words | 40.0% | 60.0% | 30.0 |" in said
    assert "91.50% of 1,000" in said
    assert "In float: 91.60%" in said
    assert "    a [b] c | d | e 0.5" in said


def test_missing_reviews_are_named(tmp_path):
    with pytest.raises(butfor.InputError, match=r"has no imdb/test\.jsonl\.gz"):
        texts.run(tmp_path)
