"""butfor text: three files and one sentence for every mistake."""

import io
import json
import pickle

import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import butfor
from butfor.cli.app import main

HOW = ("dreadful", "lousy", "vile", "atrocious", "abysmal")
REVIEWS = [f"It was a {how} film and I would not see it again." for how in HOW] * 3
MODEL = """
import numpy as np
HOW = ("dreadful", "lousy", "vile", "atrocious", "abysmal")
def bad(texts):
    print("a model that prints")
    return np.array([float(any(word in text for word in HOW)) for text in texts])
def classes(texts):
    found = bad(texts)
    return np.stack([found, 1 - found], axis=1)
def leaves(texts):
    raise SystemExit(0)
def stops(texts, subset, draws, rng):
    raise SystemExit(0)
def fill(texts, subset, draws, rng):
    start, end = subset.index
    return [text[:start] + str(rng.choice(["fine", "odd", "red"])) + text[end:] for text in texts for _ in range(draws)]
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "m.py").write_text(MODEL)
    rows = "\n".join(f'r{number},"{text}"' for number, text in enumerate(REVIEWS))
    (tmp_path / "reviews.csv").write_text(f"id,text\n{rows}\n")
    return tmp_path


def call(place, *options, model="m.py:bad", texts="reviews.csv", out="out"):
    fixed = ["--model", str(place / model) if "." in model else model]
    fixed += ["--texts", texts if texts == "-" else str(place / texts), "--out", str(place / out)]
    return main(["text", *fixed, *map(str, options)])


def test_the_words_that_are_enough_are_printed(place, capsys):
    (place / "one.txt").write_text("It was a vile film.")
    options = ("--sampler", place / "m.py:fill", "--whole", "--test", "irt", "--draws", 9, "--enough", 0.9)
    assert call(place, *options, model="m.py:classes", texts="one.txt") == 0
    assert "Enough: vile (100 % decide alike" in capsys.readouterr().out


def test_three_files_are_written_and_the_summary_printed(place, capsys):
    assert call(place, "--name", "id") == 0
    said = capsys.readouterr()
    assert "a model that prints" not in said.out
    table = pd.read_csv(place / "out" / "table.csv")
    assert sorted(table.subset[table.chosen].unique()) == sorted(HOW)
    assert table.input.unique().tolist() == [f"r{number}" for number in range(15)]
    result = butfor.load(place / "out" / "result.butfor")
    assert 12 <= result.chosen.sum() <= 17  # the fifteen words that say how, but for what chance does
    assert result.summary() in said.out
    assert result.record.sampler == "small_infiller()"
    assert (place / "out" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_json_is_all_that_is_printed(place, capsys):
    assert call(place, "--json", "--quiet", "--test", "osft", "--sampler", place / "m.py:fill", "--no-effects") == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)["table"]) == 180 if "table" in json.loads(said.out) else json.loads(said.out)
    assert "note:" not in said.err


def test_units_targets_and_models(place, capsys):
    classes = ["--classes", "bad,good", "--target", "bad"]
    few = ["--test", "few-shot"]
    assert call(place, "--units", "sentence", *classes, *few, "--alternative", "greater", model="m.py:classes") == 0
    assert call(place, "--units", "match:film|dreadful", *classes, model="m.py:classes", out="two") == 0
    (place / "spans.json").write_text("[[9, 13]]")
    assert call(place, "--units", place / "spans.json", out="three") == 0
    assert len(butfor.load(place / "three" / "result.butfor").chosen) == 15
    plain = ["--units", "wordpiece", "--among", "plain", "--quiet"]
    assert call(place, *plain, *few, model="small-sentiment", out="four") == 0
    assert butfor.load(place / "four" / "result.butfor").record.sampler == "small_infiller(among='plain')"
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit([*REVIEWS, "fine"], ["bad"] * 15 + ["good"])
    (place / "p.pkl").write_bytes(pickle.dumps(pipeline))
    assert call(place, "--trust-pickle", model="p.pkl", out="five") == 0
    capsys.readouterr()


def test_language_models_from_folders(place, tiny, capsys):
    (place / "short.jsonl").write_text('{"text": "the film was good"}\n"what a waste of time"\n')
    options = ["--model", str(tiny / "classifier"), "--texts", str(place / "short.jsonl"), "--out", str(place / "o")]
    for sampler in (tiny / "bert", f"masked-lm:{tiny / 'bert'}", tiny / "gpt2", f"causal-lm:{tiny / 'gpt2'}"):
        assert main(["text", *options, "--sampler", str(sampler), "--target", "positive", "--draws", "3"]) == 0
    assert len(butfor.load(place / "o" / "result.butfor").chosen) == 9
    listed = ["--sampler", str(tiny / "bert"), "--listed", "5", "--target", "2"]
    assert main(["text", *options, *listed]) == 0
    assert butfor.load(place / "o" / "result.butfor").record.test == "sequential"
    capsys.readouterr()


def test_standard_input_and_a_directory(place, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(REVIEWS).encode())))
    assert call(place, texts="-") == 0
    (place / "letters").mkdir()
    for number, text in enumerate(REVIEWS):
        (place / "letters" / f"{number}.txt").write_text(text)
    assert call(place, texts="letters", out="two") == 0
    assert butfor.load(place / "two" / "result.butfor").input_names[:2] == ("0.txt", "1.txt")
    capsys.readouterr()


def test_a_sampler_that_exits_is_told(place, capsys):
    assert call(place, "--sampler", place / "m.py:stops", "--test", "irt") == 2
    assert "butfor: the sampler raised SystemExit on subset 'It' of input 1: 0" in capsys.readouterr().err


def test_a_file_that_is_not_utf8_is_left_out_when_asked(place, capsys):
    (place / "letters").mkdir()
    for number, text in enumerate(REVIEWS[:12]):
        (place / "letters" / f"{number}.txt").write_text(text)
    (place / "letters" / "3.txt").write_bytes(b"\xff\xfe")
    assert call(place, texts="letters") == 2
    assert "3.txt is not UTF-8" in capsys.readouterr().err
    assert call(place, "--on-error", "skip", texts="letters") == 0
    assert "note: 1 text was skipped: '3.txt'" in capsys.readouterr().err
    assert "3.txt" not in butfor.load(place / "out" / "result.butfor").input_names


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ([], {"texts": "nothing.csv"}, "do not exist"),
        ([], {"model": "m.py:leaves"}, "the model raised SystemExit on text 1: 0"),
        (["--test", "irt", "--on-error", "skip"], {"model": "m.py:leaves"}, "SystemExit: 0; it fails on every row"),
        ([], {"texts": "two.csv"}, "has the columns id, words; say which holds the texts: column=..., or --column on"),
        (["--column", "review"], {}, "has no column 'review'; it has id, text"),
        ([], {"model": "nothing"}, "expected small-sentiment, file.onnx"),
        ([], {"model": "m.py:nothing"}, "nothing"),
        ([], {"model": "n.onnx"}, "needs --tokenizer"),
        (["--sampler", "magic"], {}, "--sampler must be small-infiller"),
        (["--units", "letters"], {}, "neither a JSON file of spans nor word"),
        (["--units", "match:("], {}, "needs a regular expression"),
        (["--test", "magic"], {}, "test must be"),
        (["--alpha", "7"], {}, "alpha"),
        (["--tokenizer", "t.json"], {}, "are for .onnx files"),
        (["--sampler", "m.py:fill", "--top-k", "3"], {}, "not for a function"),
        (["--sampler", "m.py:fill", "--among", "plain"], {}, "are for small-infiller"),
        (["--among", "no.txt"], {}, "--among must be plain or a text file of words, got 'no.txt'"),
        (["--on-error", "hope"], {}, "on_error must be"),
    ],
)
def test_one_sentence_for_every_mistake(place, options, settings, said, capsys):
    (place / "two.csv").write_text("id,words\n1,good film\n")
    options = [str(place / option) if option == "m.py:fill" else option for option in options]
    assert call(place, *options, **settings) == 2
    heard = capsys.readouterr()
    assert said in heard.err
    assert heard.err.startswith("butfor: ")
    assert heard.err.count("\n") == 1
    assert heard.out == ""
    assert not (place / "out").exists()


def test_labelled_texts_make_the_foil_and_bad_files_are_refused_in_one_sentence(place, capsys):
    rows = [f"It was a {how} film,{label}" for how, label in (("vile", "bad"), ("fine", "good")) for _ in range(20)]
    (place / "train.csv").write_text("text,label\n" + "\n".join(rows))
    (place / "each.csv").write_text("text,label\na b,1\nc d,2\ne f,3\n")
    asked = ("--name", "id", "--no-effects", "--quiet")
    assert call(place, *asked, "--corpus", place / "train.csv", "--labels", "label") == 0
    capsys.readouterr()
    for corpus, labels, words in [
        ("train.csv", None, "--corpus and --labels go together"),
        ("none.csv", "label", "do not exist"),
        ("train.csv", "queue", "has no column 'queue'; it has text, label"),
        ("each.csv", "label", "labels has 3 classes for 3 texts; give the class of each text"),
    ]:
        options = ("--corpus", place / corpus, *(("--labels", labels) if labels else ()))
        assert call(place, *asked, *options, out=f"{corpus}{labels}") == 2
        told = capsys.readouterr().err.strip()
        assert words in told
        assert "\n" not in told
