"""butfor.text.explain: from a model and texts of any form to words with a guarantee."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import butfor
import butfor.text as bt
from butfor import InputError
from butfor.results.words import Note

HOW = ("dreadful", "lousy", "vile", "atrocious", "abysmal")
REVIEWS = [f"It was a {how} film and I would not see it again." for how in HOW] * 3


def bad(texts):
    return [float(any(word in text.lower() for word in HOW)) for text in texts]


@pytest.fixture(scope="module")
def sampler():
    return bt.small_infiller(threads=1)


def chosen(result):
    return sorted(result.table[result.chosen].subset.unique())


@pytest.mark.parametrize("test", ["few-shot", "osft", "irt", "sequential"])
def test_the_words_that_matter_are_found_and_no_others(test, sampler):
    result = bt.explain(bad, REVIEWS, sampler, test=test, alpha=0.2, draws=200 if test == "irt" else None)
    assert chosen(result) == sorted(HOW)
    assert result.modality == "text"
    assert result.record.inputs.units == "words(together=True)"
    assert result.record.alternative == "two-sided"
    row = result.table[result.chosen].iloc[0]
    assert row.effect == pytest.approx(1)


def test_the_default_is_sequential_whatever_the_machine(sampler):
    result = bt.explain(bad, REVIEWS, sampler)
    assert (result.record.test, result.record.h) == ("sequential", 10)
    assert chosen(result) == sorted(HOW)
    listing = bt.small_infiller(threads=1, listed=20)
    assert bt.explain(bad, REVIEWS[:2], listing).record.test == "sequential"


def test_the_default_of_a_sampler_whose_draws_cost_much(sampler):
    def slow(texts, subset, draws, rng):
        return sampler(texts, subset, draws, rng)

    slow.dear = True
    assert bt.explain(bad, REVIEWS[:10], slow, effects=None).record.test == "few-shot"
    few = bt.explain(bad, REVIEWS[:3], slow, effects=None).record
    each = bt.explain(bad, REVIEWS[:10], slow, effects=None, family="input").record
    assert (few.test, few.h) == (each.test, each.h) == ("sequential", 1)
    assert bt.explain(bad, REVIEWS[:10], slow, effects=None, units="zoom").record.h == 10
    assert bt.masked_lm("bert-base-uncased").dear
    assert bt.causal_lm("gpt2").dear


def test_the_same_seed_gives_the_same_result_whatever_the_batch(sampler):
    one, two, fresh = (bt.explain(bad, REVIEWS[:6], sampler, seed=3, batch_rows=rows) for rows in (None, 7, None))
    other = bt.explain(bad, REVIEWS[:6], bt.small_infiller(threads=1), seed=3)
    for result in (two, fresh, other):
        pd.testing.assert_frame_equal(one.table, result.table)
    lengths = [
        bt.explain(lambda texts: list(map(len, texts)), REVIEWS[:2], sampler, seed=seed).table for seed in (3, 4)
    ]
    assert not lengths[0].equals(lengths[1])


def test_counterfactuals_come_back_as_texts(sampler):
    result = bt.explain(bad, {"a": REVIEWS[0], "b": REVIEWS[1]}, sampler)
    made = result.counterfactuals("a", "film", n=3)
    assert len(made) == 3
    assert all(
        text.startswith("It was a dreadful ") and text.endswith(" and I would not see it again.") for text in made
    )


def test_texts_in_any_form(sampler, tmp_path):
    series = pd.Series(REVIEWS[:3], index=[7, 9, 11])
    assert bt.explain(bad, series, sampler).input_names == (7, 9, 11)
    assert bt.explain(bad, pd.Series(REVIEWS[:2], index=["x", "y"]), sampler).input_names == ("x", "y")
    assert bt.explain(bad, dict(zip("ab", REVIEWS, strict=False)), sampler).input_names == ("a", "b")
    assert bt.explain(bad, iter(REVIEWS[:2]), sampler).input_names == ("text 1", "text 2")
    (tmp_path / "reviews.csv").write_text("text\n" + "\n".join(REVIEWS[:2]))
    assert bt.explain(bad, tmp_path / "reviews.csv", sampler).input_names == (1, 2)
    table = bt.explain(bad, series, sampler).table
    assert table.input.unique().tolist() == [7, 9, 11]


def test_units(sampler, tmp_path):
    def tested(units):
        settings = {"units": units, "effects": None, "test": "few-shot"}
        return len(bt.explain(bad, [REVIEWS[0] + " Never."], sampler, **settings).chosen)

    assert (tested("word"), tested("occurrence")) == (12, 13)
    assert tested("sentence") == 2
    assert tested("wordpiece") >= 13
    assert tested([(9, 17)]) == 1
    assert tested({"how": (9, 17), "what": (18, 22)}) == 2
    assert tested(bt.matches("film")) == 1
    assert tested("phrase") >= 2
    (tmp_path / "spans.json").write_text("[[9, 17]]")
    assert tested(str(tmp_path / "spans.json")) == 1
    assert tested(lambda name, text: bt.words()(name, text)[:3]) == 3
    with pytest.raises(InputError, match="neither a file nor one of"):
        tested("letters")


def test_phrases_by_rules_are_said_in_the_notes(sampler):
    result = bt.explain(bad, REVIEWS[:2], sampler, units=bt.phrases(rules=True), effects=None)
    assert Note("phrases-by-rules", "info") in result.notes


def test_words_outside_the_vocabulary_are_counted_in_the_notes(sampler):
    result = bt.explain(bad, ["I liked Zyxwvut and the film."], sampler, effects=None)
    assert Note("unknown-words", "warning", {"unknown": 1, "tested": 6}) in result.notes
    result = bt.explain(bad, ["I liked the film."], sampler, effects=None)
    assert "unknown-words" not in [note.code for note in result.notes]


def test_masked_language_model_and_classifier_from_disk(tiny):
    result = bt.explain(
        tiny / "classifier", ["the film was good", "what a waste of time"], bt.masked_lm(tiny / "bert"),
        units="wordpiece", target="positive",
    )  # fmt: skip
    assert len(result.chosen) == 9
    assert "masked_lm" in result.record.sampler


def test_a_scikit_learn_pipeline(sampler):
    model = make_pipeline(CountVectorizer(), LogisticRegression(C=100)).fit(
        [*REVIEWS, *(text.replace(how, "fine") for text in REVIEWS for how in HOW if how in text)],
        ["bad"] * len(REVIEWS) + ["good"] * len(REVIEWS),
    )
    result = bt.explain(model, REVIEWS, sampler, target="bad", test="few-shot")
    assert set(HOW) <= set(chosen(result))


def test_a_run_goes_on_where_it_was_cut(sampler, tmp_path):
    asked = []

    def cut(texts):
        asked.append(len(texts))
        if len(asked) == 12:
            raise KeyboardInterrupt
        return bad(texts)

    cut.__qualname__ = "bad"
    settings = {"run_dir": tmp_path / "run", "batch_rows": 32, "test": "few-shot"}
    with pytest.raises(KeyboardInterrupt):
        bt.explain(cut, REVIEWS, sampler, **settings)
    first = len(asked)
    result = bt.explain(cut, REVIEWS, sampler, **settings)
    pd.testing.assert_frame_equal(result.table, bt.explain(bad, REVIEWS, sampler, batch_rows=32, test="few-shot").table)
    assert first >= 12
    assert not (tmp_path / "run").exists()


def test_progress_is_told(sampler):
    heard = []
    bt.explain(bad, REVIEWS[:3], sampler, progress=heard.append)
    assert heard


def test_what_cannot_be_used_is_left_out_when_asked(sampler):
    texts = {
        "fine": REVIEWS[0],
        "none": None,
        "nan": float("nan"),
        "empty": "",
        "marks": "...",
        "Chinese": "这部电影很好" * 3,
    }
    with pytest.raises(InputError, match="text 'none' is missing, expected a string"):
        bt.explain(bad, texts, sampler)
    with pytest.warns(bt.TextWarning) as heard:
        result = bt.explain(bad, texts, sampler, on_error="skip")
    assert result.input_names == ("fine",)
    said = " ".join(str(one.message) for one in heard)
    assert "3 texts were skipped" in said
    assert "2 texts were left out, having nothing to test: 'empty', 'marks'" in said
    assert any("skipped" in str(note) for note in result.notes)


def test_groups_go_with_the_texts_that_are_left(sampler):
    texts = {"a": REVIEWS[0], "b": REVIEWS[1], "c": "", "d": None}
    with pytest.warns(bt.TextWarning):
        result = bt.explain(bad, texts, sampler, groups=["p", "p", "q", "q"], on_error="skip", test="irt", draws=50)
    assert result.input_names == ("a", "b")


def test_groups_of_another_index_are_refused(sampler):
    texts, groups = pd.Series(REVIEWS[:2]), pd.Series([0, 0], index=[1, 0])
    with pytest.raises(InputError, match="groups and the data have different indexes; align them"):
        bt.explain(bad, texts, sampler, groups=groups)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"texts": "one text"}, "texts is one string; give a list"),
        ({"texts": []}, "there are no texts"),
        ({"texts": 3}, "texts must be a list of strings"),
        ({"texts": pd.DataFrame({"a": ["x"]})}, "give one of its columns"),
        ({"texts": pd.Series(["a", "b"], index=[1, 1])}, "two texts are called 1"),
        ({"sampler": None}, "sampler must be a function"),
        ({"sampler": bt.small_infiller}, "returned|raised|expected"),
        ({"on_error": "maybe"}, "on_error must be"),
        ({"alpha": 2}, "alpha"),
    ],
)
def test_one_sentence_for_every_mistake(settings, said, sampler):
    given = {"texts": REVIEWS[:2], "sampler": sampler, **settings}
    with pytest.raises(InputError, match=said):
        bt.explain(bad, given.pop("texts"), given.pop("sampler"), **given)


def test_a_result_saves_and_loads(sampler, tmp_path):
    result = bt.explain(bad, REVIEWS[:3], sampler)
    result.save(tmp_path / "r.butfor")
    loaded = butfor.load(tmp_path / "r.butfor")
    pd.testing.assert_frame_equal(loaded.table, result.table)


def test_a_saved_result_takes_its_own_texts_only(sampler, tmp_path):
    named = {"a": REVIEWS[0], "b": REVIEWS[1]}
    path = bt.explain(bad, named, sampler).save(tmp_path / "r.butfor")
    for inputs in ({"b": REVIEWS[1], "a": REVIEWS[0], "more": "x"}, REVIEWS[:2], pd.Series(named), None):
        assert list(butfor.load(path, inputs=inputs).hypotheses.items.inputs) == REVIEWS[:2]
    with pytest.raises(InputError, match="has an input 'b', which the inputs given lack"):
        butfor.load(path, inputs={"a": REVIEWS[0]})
    other = REVIEWS[1].replace("f", "g")
    for inputs in ([REVIEWS[0], other], {"a": REVIEWS[0], "b": other}, [REVIEWS[0], 5]):
        with pytest.raises(InputError, match=r"^the text 'b' is not the one of the run, which is in the file; leave"):
            butfor.load(path, inputs=inputs)
    with pytest.raises(InputError, match="the result has 2 inputs, got 1"):
        butfor.load(path, inputs=REVIEWS[:1])


def test_the_observed_text_is_among_the_rows_of_its_draws(sampler):
    """A model whose rounding depends on the batch must not make a word that does nothing look important."""

    def noisy(texts):
        return np.full(len(texts), 0.5, np.float32) + np.float32(1e-7) * len(texts)

    result = bt.explain(noisy, REVIEWS[:3], sampler, effects=None)
    assert not result.chosen.any()


def test_the_one_call_for_everything_takes_texts(sampler):
    """`butfor.explain` and `butfor.check_sampler` hand texts over to their own edge."""
    texts = pd.Series(REVIEWS[:6], index=list("abcdef"))
    one = butfor.explain(bad, texts, sampler, subsets=bt.matches("dreadful|lousy|film"), seed=2, alpha=0.3)
    other = bt.explain(bad, texts, sampler, units=bt.matches("dreadful|lousy|film"), seed=2, alpha=0.3)
    pd.testing.assert_frame_equal(one.table, other.table)
    assert one.record.alternative == "two-sided"
    assert butfor.check_sampler(sampler, REVIEWS[:6], lambda texts: list(map(len, texts))).what == "words"
    with pytest.raises(InputError, match="sampler of texts needs a model"):
        butfor.check_sampler(sampler, REVIEWS)


# Was wrong once: tracebacks, and two words of one name in one random stream.
@pytest.mark.parametrize(
    ("units", "said"),
    [
        (lambda name, text: [(0, 3)], r"units gave \(0, 3\) for 'text 1'; .*butfor.Subset"),
        (lambda name, text: None, "units raised TypeError on 'text 1'"),
        (lambda name, text: 1 / 0, "units raised ZeroDivisionError on 'text 1'"),
    ],
)
def test_functions_that_give_no_spans(units, said):
    with pytest.raises((butfor.InputError, butfor.ModelError), match=said):
        butfor.text.explain(
            lambda texts: list(map(len, texts)), ["a good film"], butfor.text.small_infiller(), units=units
        )


def test_spans_of_one_name_are_told_apart():
    twice = [butfor.Subset("a", (0, 1)), butfor.Subset("a", (2, 6))]
    found = butfor.text.explain(
        lambda texts: list(map(len, texts)), ["a good film"], butfor.text.small_infiller(), units=lambda *_: twice
    )
    assert found.table.subset.tolist() == ["a", "a #2"]


@pytest.mark.parametrize(
    ("units", "data_dependent"),
    [
        ("word", False),
        ("sentence", False),
        ([(0, 1)], False),
        (bt.matches("good"), True),
        ({"a": [(2, 6)]}, True),
        (lambda name, text: [butfor.Subset("own", (2, 6))], True),
    ],
)
def test_spans_that_were_picked_by_what_they_hold_are_named_in_the_guarantee(units, data_dependent):
    found = bt.explain(lambda texts: list(map(len, texts)), {"a": "a good film"}, bt.small_infiller(), units=units)
    assert ("picked by its content" in str(found.guarantee)) == data_dependent
