"""What is shown of a run asks neither its model nor its sampler; what stands around a sampler keeps what it is."""

import warnings
from dataclasses import fields, replace

import numpy as np
import pytest

import butfor
import butfor.text as bt
from benchmarks.figures import Timed
from butfor.evaluation.samplers import SamplerInfo, info_of
from butfor.results.words import Note
from butfor.text.view import found_in, marked_texts, rendered

TEXTS = {f"review {k}": f"It was a {how} film, and I saw it {k} times." for k, how in enumerate(("vile", "lousy") * 6)}
RUSSIAN = "Это был очень плохой фильм, и я не хочу его больше видеть."


class Counting:
    """A model or a sampler that counts how often it is asked for anything at all."""

    def __init__(self, inner):
        self.inner, self.calls = inner, 0

    def __call__(self, *given):
        self.calls += 1
        return self.inner(*given)


def model(texts):
    return np.array([float("vile" in text) + 2.0 * ("lousy" in text) for text in texts])


def plain(texts, subset, draws, rng):
    start, end = subset.index
    return [text[:start] + rng.choice(["fine", "long"]) + text[end:] for text in texts for _ in range(draws)]


@pytest.mark.parametrize("test", ["few-shot", "osft", "irt", "sequential"])
def test_nothing_that_is_shown_asks_the_model_or_the_sampler(test, tmp_path):
    asked, drawn = Counting(model), Counting(plain)
    result = bt.explain(asked, TEXTS, drawn, test=test, alpha=0.3, draws=50 if test == "irt" else None)
    assert result.chosen.any()
    before = asked.calls, drawn.calls
    view = marked_texts(result)
    assert all(text.output for text in view.texts)
    assert any(line.value for text in view.texts for word in text.words for line in word.changed)
    assert "What the sampler drew instead" in result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    shown = [result.summary(), str(result.notes), result._repr_html_(), str(bt.marked(result))]
    shown += [bt.marked(result)._repr_html_(), rendered(result, "review 0"), found_in(result), result.to_json()]
    assert all(shown)
    assert bt.word_counts(result)
    assert result.select(alpha=0.5, rule="by" if test in ("irt", "sequential") else None).summary()
    assert len(result.counterfactuals("review 0", "vile", n=1)) == 1
    again = butfor.load(result.save(tmp_path / "r.butfor"))
    assert marked_texts(again) == view
    assert (asked.calls, drawn.calls) == before


def test_what_is_shown_is_what_the_run_drew_and_heard():
    result = bt.explain(model, TEXTS, plain, alpha=0.3)
    for row in np.flatnonzero(result.chosen):
        texts = result.kept.whole(result.hypotheses, row)
        np.testing.assert_array_equal(result.kept.outputs(row)[:, 0], model(texts))
        name, subset = result.input_names[result.input_of[row]], result.subset_names[result.subset_of[row]]
        assert result.counterfactuals(name, subset, n=len(texts)) == texts
    np.testing.assert_array_equal(result.outputs[:, 0], model(list(TEXTS.values())))


def test_a_run_that_picked_its_inputs_shows_no_counterfactuals():
    """Most of what it drew was rejected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", butfor.ReachWarning)
        result = bt.explain(model, TEXTS, plain, test="irt", draws=99, picked=lambda out: out >= 0, alpha=0.3)
    assert not any(text.words for text in marked_texts(result).texts)


def anything(texts):
    return np.zeros(len(texts))


WRAPPERS = {
    "plausible": lambda sampler: butfor.plausible(sampler, anything, 0.0),
    "plausible twice": lambda sampler: butfor.plausible(butfor.plausible(sampler, anything, 0.0), anything, -1.0),
    "timed": Timed,
}
# What a wrapper is called, that it draws where the other lists, and what is not believed of a user's own sampler.
OWN = {"identity", "listed", "changes_subset_only"}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers_keep_every_fact(wrapper):
    known = SamplerInfo(
        identity="mine",
        deterministic=True,
        ignores_dependence=True,
        takes_missing=True,
        whole=True,
        floor=lambda _: 0.25,
        reference_rows=7,
        kinds={"a": "b"},
        tokenizer="its own",
        listed=0,
        calibrated=True,
        fills_whole=True,
        keeps_input=True,
        dear=True,
        assumes="words are exchangeable",
    )
    assert all(getattr(known, field.name) != field.default for field in fields(known) if field.name not in OWN)

    def sampler(texts, subset, draws, rng):
        return texts

    sampler.info = known
    kept = info_of(WRAPPERS[wrapper](sampler))
    assert replace(kept, identity="mine") == known


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers_refuse_what_the_sampler_refuses(wrapper):
    """Was wrong once: a filtered infiller took Russian texts, of which it knows no word."""
    sampler = bt.small_infiller(threads=1)
    with pytest.raises(butfor.InputError) as bare:
        bt.explain(len_of, {"a": RUSSIAN}, sampler)
    with pytest.raises(butfor.InputError) as wrapped:
        bt.explain(len_of, {"a": RUSSIAN}, WRAPPERS[wrapper](sampler))
    assert str(wrapped.value) == str(bare.value)
    assert "outside the 8,000 words of film reviews" in str(bare.value)
    with pytest.warns(bt.TextWarning, match="1 text was skipped"):
        left = bt.explain(len_of, {"a": RUSSIAN, "b": "A fine film."}, WRAPPERS[wrapper](sampler), on_error="skip")
    assert left.input_names == ("b",)


def len_of(texts):
    return [float(len(text)) for text in texts]


def test_a_filtered_infiller_says_what_the_bare_one_says():
    texts = ["I liked Zyxwvut and the film."]
    for sampler in (bt.small_infiller(threads=1), butfor.plausible(bt.small_infiller(threads=1), anything, 0.0)):
        notes = bt.explain(len_of, texts, sampler, effects=None).notes
        assert Note("unknown-words", "warning", {"unknown": 1, "tested": 6}) in notes


def test_a_filtered_language_model_keeps_its_tokenizer(tiny):
    bare = bt.masked_lm(tiny / "bert")
    filtered = butfor.plausible(bare, anything, 0.0)
    assert info_of(filtered).tokenizer is bare.tokenizer
    texts = ["the unlikeable film was good"]
    expected = bt.explain(len_of, texts, bare, units="wordpiece", effects=None)
    found = bt.explain(len_of, texts, filtered, units="wordpiece", effects=None)
    assert found.subset_names == expected.subset_names
    assert "like" in found.subset_names
    embedded = bt.explain(len_of, texts, plain, units="wordpiece", effects=None)
    assert embedded.subset_names != expected.subset_names


@pytest.mark.parametrize("name", ["small_infiller", "ngram", "masked_lm", "causal_lm", "markov"])
def test_samplers_of_the_package_are_known_to_change_the_span_only(name, tiny):
    from butfor.simulate.texts import sentences

    made = {
        "small_infiller": lambda: bt.small_infiller(),
        "ngram": lambda: bt.ngram(["a b c", "a b d"]),
        "masked_lm": lambda: bt.masked_lm(tiny / "bert"),
        "causal_lm": lambda: bt.causal_lm(tiny / "gpt2"),
        "markov": lambda: sentences().sampler,
    }
    assert info_of(made[name]()).changes_subset_only
    assert not info_of(plain).changes_subset_only


def test_a_model_that_refuses_is_asked_through_its_wrapper(tiny):
    """The command line wraps its model before the run: a text that is too long was then refused only when it came."""
    from butfor.text.models import text_model

    long, texts = "film " * 60, ["a good film"]
    wrapped = text_model(bt.huggingface_classifier(tiny / "classifier"))
    assert text_model(wrapped) is wrapped
    with pytest.raises(butfor.InputError, match="text 'text 1' cannot be tested: it has 62 pieces"):
        bt.explain(wrapped, [long], plain)
    with pytest.warns(bt.TextWarning, match="1 text was skipped"):
        assert bt.explain(wrapped, [long, *texts], plain, on_error="skip", effects=None).input_names == ("text 2",)
