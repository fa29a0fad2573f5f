"""The shipped network: it looks codes up, alone and in any company, and its scores fit its answers."""

import pickle
import re

import numpy as np
import pytest

import butfor
from butfor.context import small_reader
from butfor.context.reader import WEIGHTS
from butfor.simulate.contexts import lookups
from butfor.types import InputError

KINDS = ("alone", "redundant", "contradicting", "poisoned", "idle")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("passages", [2, 6, 20, 60, 180])
def test_it_answers_as_the_rules_do(kind, passages):
    beds = lookups(40, passages, kind, seed=77)
    answers = small_reader().answer([bed.prompt for bed in beds])
    assert np.mean([said == bed.answer for said, bed in zip(answers, beds, strict=True)]) >= 0.97


def test_a_missing_fact_is_unknown():
    beds = lookups(40, 20, "alone", seed=5)
    prompts = [
        "\n".join([*(text for name, text in bed.parts.items() if name not in bed.truth), f"Question: {bed.question}"])
        + "\nAnswer:"
        for bed in beds
    ]
    assert small_reader().answer(prompts).count("unknown") >= 39


def test_answers_and_scores_do_not_hang_on_company_or_order():
    beds = lookups(12, 6, "alone", seed=1)
    prompts, answers = [bed.prompt for bed in beds], [bed.answer for bed in beds]
    reader = small_reader()
    together = reader.score(prompts, answers)
    assert [reader.score([one], [said])[0] for one, said in zip(prompts, answers, strict=True)] == together.tolist()
    assert (together > np.log(0.9)).all()
    assert (reader.score(prompts, answers[1:] + answers[:1]) < together - 5).all()
    assert pickle.loads(pickle.dumps(reader)).answer(prompts) == reader.answer(prompts) == answers


def test_scores_are_log_probabilities_of_first_tokens():
    prompt = lookups(1, 4, "alone", seed=2)[0].prompt
    every = [f"{k:02}" for k in range(100)] + ["unknown"]
    assert 0.99 < np.exp(small_reader().score([prompt] * len(every), every)).sum() <= 1 + 1e-9


def test_sampling_follows_its_seed_and_the_scores():
    prompt = "Question: What is the gate code of Lisbon?\nAnswer:"  # no passage: not quite sure
    hot = small_reader(temperature=8.0)
    said = hot.answer([prompt] * 300, seeds=range(300))
    assert said == hot.answer([prompt] * 300, seeds=range(300))
    assert len(set(said)) > 1


def test_any_text_has_an_answer():
    strange = ["", "\n\n", "Ünïcödé 漢字 \ud800", "x" * 50_000, "12345678901", "Question:", "Answer:"]
    assert all(isinstance(said, str) for said in small_reader().answer(strange))
    assert small_reader().score(["Question: x?\nAnswer:"], [""]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: small_reader(-1), "temperature"),
        (lambda: small_reader().answer("one text"), "list of texts"),
        (lambda: small_reader().answer(["a"], seeds=[1, 2]), "one seed for each prompt"),
        (lambda: small_reader().score(["a"], []), "one answer for each prompt"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InputError, match=re.escape(words)):
        call()


def test_it_is_small():
    assert WEIGHTS.stat().st_size < 5_000_000


def test_passages_are_found_and_redundant_ones_are_enough():
    alone, both = lookups(1, 20, "alone", seed=3)[0], lookups(1, 20, "redundant", seed=3)[0]
    prompts = {bed.kind: butfor.context.prompt(bed.parts, question=bed.question) for bed in (alone, both)}
    result = butfor.context.explain(small_reader(), prompts, alone.pool)
    table = result.table
    assert table.loc[table.necessary, ["input", "subset"]].values.tolist() == [["alone", *alone.truth]]
    enough = result.enough("redundant")
    assert {frozenset(enough["columns"][0]), *map(frozenset, enough["alternatives"][0])} == {
        frozenset([name]) for name in both.truth
    }
