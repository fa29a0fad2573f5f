"""Parts of prompts: what is decisive, what is enough, what it costs; resumed, refused, escaped."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from itertools import repeat

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import ModelError, context
from butfor.compat import ContextCiter
from butfor.simulate.contexts import answer, lookup, lookups
from butfor.types import InputError

CITIES = ("Oslo", "Bern", "Riga", "Kyiv", "Graz", "Nice", "Cork", "Bath")
POOL = [f"The code of {city} is {1000 + k}." for k, city in enumerate(CITIES)]
PARTS = {"instruction": "Read.", "passage 1": "The code of Rome is 2290.", "passage 2": "The code of Lisbon is 4417."}


def reader(prompts):
    codes = (re.findall(r"code of Lisbon is (\d+)", str(prompt)) for prompt in prompts)
    return [one[-1] if one else "unknown" for one in codes]


class Counting:
    identity = "counting"

    def __init__(self, fails_at=None):
        self.prompts, self.fails_at = [], fails_at

    def answer(self, prompts):
        if self.fails_at is not None and len(self.prompts) + len(prompts) > self.fails_at:
            raise ModelError("gone")
        self.prompts += prompts
        return reader(prompts)


def made():
    return context.prompt(PARTS, question="What is the code of Lisbon?")


def bed_prompt(bed):
    return context.prompt(bed.parts, question=bed.question)


@pytest.mark.parametrize("kind", ["alone", "contradicting", "poisoned"])
@pytest.mark.parametrize("parts", [None, "zoom"])
def test_the_passage_that_the_answer_rests_on(kind, parts):
    beds = lookups(12, 20, kind)
    for bed in beds:
        result = context.explain(answer, bed_prompt(bed), bed.pool, parts=parts)
        single = result.table[result.table.subset.isin(bed.parts)]
        assert set(single.subset[single.necessary]) == bed.truth
        assert result.answers == (bed.answer,)
        assert [set(one) for one in result.enough()["columns"]] == [bed.truth]


def test_two_passages_that_say_the_same():
    for bed in lookups(12, 12, "redundant"):
        result = context.explain(answer, bed_prompt(bed), bed.pool)
        assert not result.table.necessary.any()
        row = result.enough().iloc[0]
        assert {row["columns"], *row["alternatives"]} == {(name,) for name in bed.truth}
        assert "no part alone" in result.summary()


@pytest.mark.parametrize("parts", [None, "zoom"])
@pytest.mark.parametrize(
    ("rule", "decisive", "enough"),
    [
        (lambda own: 3 in own and (7 in own or 11 in own), {3}, [{3, 7}, {3, 11}]),
        (lambda own: {1, 2, 5, 8, 13, 17} <= own, {1, 2, 5, 8, 13, 17}, [{1, 2, 5, 8, 13, 17}]),
        (lambda own: bool({0, 9, 19} & own), set(), [{0}, {9}, {19}]),
    ],
)
def test_sets_begin_at_the_decisive_parts(rule, decisive, enough, parts):
    """Parts that are needed together, and one of several beside one that is needed."""

    def model(prompts):
        return ["yes" if rule({int(k) for k in re.findall(r"own (\d+)", one)}) else one[-9:] for one in prompts]

    prompt = context.prompt({f"passage {k}": f"own {k}" for k in range(20)}, template="{parts}")
    result = context.explain(model, prompt, [f"foil {k}" for k in range(100, 160)], parts=parts)
    single = result.table[result.table.subset.isin(prompt.parts)]
    if parts is None or len(decisive) < 2:  # of a group of 20 each third is decisive, too
        assert set(single.subset[single.necessary]) == {f"passage {k}" for k in decisive}
    row = result.enough().iloc[0]
    assert sorted(map(set, [row["columns"], *row["alternatives"]]), key=sorted) == sorted(
        ({f"passage {k}" for k in one} for one in enough), key=sorted
    )


@pytest.mark.parametrize(("size", "most"), [(6, 90), (20, 110), (60, 125)])
def test_what_is_enough_costs_little(size, most):
    bed = lookup(size, "alone", seed=1)
    result = context.explain(answer, bed_prompt(bed), bed.pool, parts="zoom")
    assert [set(one) for one in result.enough()["columns"]] == [bed.truth]
    assert result.calls <= most
    assert result.calls <= context.cost(answer, bed_prompt(bed), bed.pool, parts="zoom").likely


def test_no_passage_is_needed():
    bed = lookup(12, "idle")
    result = context.explain(answer, bed_prompt(bed), bed.pool)
    assert not result.table.necessary.any()
    assert result.enough().empty
    assert "no part is needed" in result.summary()


def test_many_prompts_in_one_family():
    beds = {f"q{k}": bed for k, bed in enumerate(lookups(15, 6, "alone"))}
    pool = [text for bed in beds.values() for text in bed.pool[:20]]
    result = context.explain(answer, {name: bed_prompt(bed) for name, bed in beds.items()}, pool)
    for name, bed in beds.items():
        table = result.table[result.table.input == name]
        assert set(table.subset[table.necessary]) >= bed.truth
    assert len(result.summary().splitlines()) <= 10


def test_zoom_grows_slowly():
    calls = []
    for size in (6, 20, 60, 180):
        bed = lookup(size, "alone", seed=4)
        calls.append(context.explain(answer, bed_prompt(bed), bed.pool, parts="zoom", enough=None).calls)
    slope = np.polyfit(np.log([6, 20, 60, 180]), np.log(calls), 1)[0]
    assert slope < 0.6


def test_messages_by_message_and_by_span():
    messages = [
        {"role": "user", "content": "The code of Lisbon is 4417. The code of Rome is 2290."},
        {"role": "assistant", "content": "Fine."},
        {"role": "user", "content": "What is the code of Lisbon?"},
    ]
    whole = context.prompt(messages)
    assert list(whole.parts) == ["user 1", "assistant 1"]
    result = context.explain(reader, whole, POOL)
    assert result.table.subset[result.table.necessary].tolist() == ["user 1"]
    spans = context.prompt(messages, spans={"first": (0, 0, 27), "second": (0, 28, 53)})
    assert spans.render() == messages
    assert spans.render({"second": "X."})[0]["content"] == "The code of Lisbon is 4417. X."
    result = context.explain(reader, spans, POOL)
    assert result.table.subset[result.table.necessary].tolist() == ["first"]


def test_a_plain_text_with_spans_and_braces():
    text = "The code of Lisbon is 4417. {parts} Say {question}."
    plain = context.prompt(text, spans={"fact": (0, 27)})
    assert plain.render() == text
    braces = context.prompt({"a": "{question}", "b": "{parts}"}, question="Q?")
    assert braces.render() == "{question}\n{parts}\nQuestion: Q?\nAnswer:"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: context.prompt({}), "no parts"),
        (lambda: context.prompt({"a": 3}), "texts by name"),
        (lambda: context.prompt({"a": "b"}, template="{question}"), "no {parts}"),
        (lambda: context.prompt("abc", spans={"x": (0, 2), "y": (1, 3)}), "overlaps"),
        (lambda: context.prompt("abc", spans={"x": (0, 9)}), "leaves its text"),
        (lambda: context.prompt("abc"), "no part is named"),
        (lambda: context.prompt([{"role": "user"}]), "role and content"),
        (lambda: context.explain(reader, [], POOL), "no prompts"),
        (lambda: context.explain(reader, made(), POOL, parts=["nothing"]), "no part 'nothing'"),
        (lambda: context.explain(reader, made(), ["one"]), "at least 2"),
        (lambda: context.explain(reader, made(), {"turn": POOL}), "which no part is"),
        (lambda: context.explain(reader, made(), "dorp"), "'drop'"),
        (lambda: context.explain(reader, made(), POOL, same="alike"), "same must be"),
        (lambda: context.explain(reader, made(), POOL, answer=["a", "b"]), "for each of 1 prompts"),
        (lambda: context.explain(3, made(), POOL), "model must be"),
        (lambda: context.explain(reader, made(), POOL, level=1.5), "level"),
        (lambda: context.explain(reader, made(), POOL, alpha=2), "alpha"),
        (lambda: context.explain(reader, {"parts": PARTS}, POOL), "butfor.context.prompt"),
        (lambda: context.explain(reader, made(), {"passage": POOL, "instrction": POOL}), "'instrction'"),
        (lambda: context.explain(reader, made(), POOL, same=lambda a, b: 0.2), "True or False, got 0.2"),
        (lambda: context.explain(reader, made(), POOL, same=lambda a: True), "called with 2"),
        (lambda: context.explain(reader, made(), POOL, same=lambda a, b: 1 / 0), "same raised ZeroDivisionError"),
        (lambda: context.explain(reader, made(), lambda *_: 1 / 0), "'instruction' of prompt"),
        (lambda: context.explain(reader, made(), lambda prompt, part: POOL), "called with 4"),
        (lambda: context.explain(reader, made(), lambda prompt, part, draws, rng: POOL[:draws]), "must be 60 texts"),
        (lambda: context.explain(reader, made(), lambda prompt, part, draws, rng: ["a"] * draws), "different texts"),
        (lambda: context.explain(reader, context.prompt(PARTS, template=lambda p, q: 3), POOL), "prompt: message 0"),
        (lambda: context.explain(reader, context.prompt(PARTS, template=lambda p, q: 1 / 0), POOL), "template raised"),
        (lambda: context.prompt(PARTS, question="q", template="{parts}"), "no {question}"),
        (lambda: context.cost(None, made(), POOL, draws=-5), "draws"),
        (lambda: context.cost(None, made(), POOL, enough=7), "enough"),
        (lambda: ContextCiter(reader, None, "Same. Same. Same.", "q"), "give foils"),
        (lambda: ContextCiter(reader, None, "A is. B is. C is.", "q", banana=3), "'banana'"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(InputError) as failed:
        call()
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)


def test_refused_before_the_model_is_asked():
    def model(prompts):
        raise AssertionError

    with pytest.raises(InputError, match="must be 60 texts"):
        context.explain(model, made(), lambda prompt, part, draws, rng: POOL[:draws])
    with pytest.raises(ModelError, match="the model raised AssertionError on 'Read"):
        context.explain(model, made(), POOL)


@pytest.mark.parametrize("score", [5.0, float("nan"), "x"])
def test_scores_that_are_no_log_probabilities(score):
    class Scores:
        answer = staticmethod(reader)

        def score(self, prompts, answers):
            return [score] * len(prompts)

    with pytest.raises(ModelError, match=str(score) if score != "x" else "nan"):
        context.explain(Scores(), made(), POOL)


def test_a_chance_of_zero_is_at_least_so_much():
    class Scores:
        answer = staticmethod(reader)

        def score(self, prompts, answers):
            return [0.0 if one == other else -np.inf for one, other in zip(reader(prompts), answers, strict=True)]

    pool = [f"The code of {city} is {k}." for city in CITIES for k in range(5)]
    result = context.explain(Scores(), made(), pool, answer="4417", draws=39)
    assert "log-probability at least 745.0 lower without it" in result.summary()


@pytest.mark.parametrize("make", [
    lambda text: lambda prompts: [text] * len(prompts),
    lambda text: partial(says, text=text),
    lambda text: Says(text),
])  # fmt: skip
def test_answers_of_another_model_are_not_taken(make, tmp_path):
    first, second, again = (
        context.explain(make(text), made(), POOL, run_dir=tmp_path) for text in ("one", "two", "one")
    )
    assert first.answers != second.answers
    assert again.calls == 0


def says(prompts, text):
    return [text] * len(prompts)


class Says:
    def __init__(self, text):
        self.text = text

    def __call__(self, prompts):
        return says(prompts, self.text)


def test_a_model_that_cannot_be_read_is_asked_once_more(tmp_path):
    """What `answer` gives comes from a generator, of which nothing is known beforehand."""

    def model(text):
        lock = threading.Lock()
        source = repeat(text)

        def answer(prompts):
            with lock:
                return [next(source) for _ in prompts]

        return answer

    context.explain(model("one"), made(), POOL, run_dir=tmp_path)
    assert context.explain(model("one"), made(), POOL, run_dir=tmp_path).calls == 1
    with pytest.raises(InputError, match="name another run_dir"):
        context.explain(model("two"), made(), POOL, run_dir=tmp_path)


def test_messages_keep_all_that_they_hold():
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]},
        {"role": "tool", "content": "The code of Lisbon is 4417.", "tool_call_id": "x"},
        {"role": "user", "content": "What is the code of Lisbon?"},
    ]
    given = context.prompt(messages)
    assert given.render() == messages
    assert given.render({"tool 1": "X"})[1] == {"role": "tool", "content": "X", "tool_call_id": "x"}
    assert "What is the code of Lisbon?" in context.explain(reader, given, POOL).marked()


def test_words_where_no_set_is_enough():
    def model(prompts):  # each passage matters, and three of them are not enough
        return ["yes" if one.count("own") == 6 else "no" for one in prompts]

    prompt = context.prompt({f"passage {k}": f"own {k}" for k in range(6)}, question="q")
    assert "no set of parts that surely keeps the answer" in context.explain(model, prompt, POOL).summary()


def test_forms_of_pools():
    expected = context.explain(reader, made(), POOL).table
    for pool in (np.array(POOL), pd.Series(POOL), iter(POOL)):
        assert context.explain(reader, made(), pool).table.equals(expected)


def test_a_function_is_asked_once_for_each_part():
    asked = []

    def ranking(prompt, part, draws, rng):
        asked.append(part)
        return [f"Rank {k}." for k in range(draws)]

    result = context.explain(reader, made(), ranking)
    assert asked == ["instruction", "passage 1", "passage 2"]
    assert len(set(result.parts[2].foils)) == 10
    repeating = context.explain(reader, made(), lambda prompt, part, draws, rng: rng.choice(POOL, draws))
    assert "foils-repeat" in [note.code for note in repeating.notes]


def test_words_of_what_was_not_done():
    one = context.explain(reader, made(), POOL, parts=["passage 2"])
    assert "Enough: not asked: only one part was tested" in one.summary()
    spent = context.explain(reader, made(), POOL, budget=5).summary()
    assert "not decided, the budget ended after 5 calls" in spent
    assert "no set" not in spent
    assert "no part alone" not in spent
    early = context.explain(reader, made(), [f"{k}" for k in range(40)], budget=11, batch_rows=1, enough=None)
    assert early.calls == 11
    assert (early.table.draws > 0).any()  # looks that are complete count
    few = context.explain(reader, made(), POOL[:3])
    assert [note.values["needed"] for note in few.notes if note.code == "foils-limit"] == [5]
    whole = context.explain(reader, made(), POOL)
    assert "given up after 3 foils: no other answer" in whole._repr_html_()
    assert "<b>Enough</b> passage 2" in whole._repr_html_()


def test_reasons_and_saved_by_butfor(tmp_path):
    result = context.explain(reader, made(), POOL)
    assert result.reasons()[["kind", "subset"]].values.tolist() == [["decisive", "passage 2"], ["enough", "passage 2"]]
    assert butfor.load(result.save(tmp_path / "r.butfor")).table.equals(result.table)


@pytest.mark.parametrize("model", [lambda prompts: ["a"], lambda prompts: [1] * len(prompts), lambda prompts: None])
def test_a_model_that_returns_something_else(model):
    with pytest.raises(ModelError, match="expected"):
        context.explain(model, {"a": made(), "b": context.prompt(PARTS)}, POOL)


def test_deletion_promises_nothing():
    result = context.explain(reader, made(), "drop", enough=None)
    assert result.guarantee.controls == "nothing"
    assert [note.code for note in result.notes] == ["foils-dropped"]
    assert not result.table.chosen.any()


def test_the_budget_is_never_passed():
    model = Counting()
    result = context.explain(model, made(), POOL, budget=9, batch_rows=4)
    assert len(model.prompts) == result.calls <= 9
    assert not result.table.necessary.any()
    assert result.notes[0].code == "budget-spent"
    enough = context.cost(None, made(), POOL)[0]
    assert context.explain(Counting(), made(), POOL, budget=enough, enough=None).table.necessary.sum() == 1


def test_the_same_result_whatever_the_batch_size():
    one, other = (context.explain(reader, made(), POOL, batch_rows=size) for size in (1, 50))
    assert one.table.equals(other.table)
    assert one.calls == other.calls
    assert context.explain(reader, made(), POOL, seed=1).parts[0].foils != one.parts[0].foils


def test_a_run_that_failed_asks_nothing_again(tmp_path):
    whole = Counting()
    expected = context.explain(whole, made(), POOL)
    assert len(set(whole.prompts)) + 1 == len(whole.prompts)  # the first prompt twice, to see that its answer is fixed
    broken = Counting(fails_at=20)
    with pytest.raises(ModelError):
        context.explain(broken, made(), POOL, run_dir=tmp_path, batch_rows=5)
    with (tmp_path / "answers.jsonl").open("ab") as file:
        file.write(b'["half')  # killed while it wrote
    again = Counting()
    result = context.explain(again, made(), POOL, run_dir=tmp_path, batch_rows=5)
    assert len(broken.prompts) + len(again.prompts) == len(whole.prompts)
    assert result.table.equals(expected.table)
    (tmp_path / "answers.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="damaged"):
        context.explain(again, made(), POOL, run_dir=tmp_path)


KILLS = int(os.environ.get("BUTFOR_KILLS", "1"))  # at moments by chance, as in tests/faults/test_engines.py


@pytest.mark.parametrize("kill", range(KILLS))
def test_kill_and_resume(tmp_path, kill):
    moment = 8 if kill == 0 else int(np.random.default_rng(kill).integers(1, 21))  # of 22 answers
    script = f"""
import sys, time
sys.path.insert(0, {str(__import__("pathlib").Path(__file__).parents[1])!r})
from context.test_explain import POOL, made, reader
from butfor import context

class Slow:
    identity = "slow"
    def answer(self, prompts):
        with open(sys.argv[2], "a") as log:
            log.write("".join(repr(one) + "\\n" for one in prompts))
        time.sleep(0.02)
        return reader(prompts)

result = context.explain(Slow(), made(), POOL, run_dir=sys.argv[1], batch_rows=2)
print(result.table.to_json())
"""
    log, folder = tmp_path / "log", tmp_path / "run"
    command = [sys.executable, "-c", script, str(folder), str(log)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    answers = folder / "answers.jsonl"
    for _ in range(600):
        if running.poll() is not None or (answers.exists() and answers.read_bytes().count(b"\n") >= moment):
            break
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    kept = answers.read_bytes().count(b"\n")
    before = len(log.read_text().splitlines())
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = len(log.read_text().splitlines())
    expected = context.explain(reader, made(), POOL)
    assert before - kept <= 2  # the batch under way
    assert after - before + kept == expected.calls
    assert json.loads(done.stdout) == json.loads(expected.table.to_json())


def test_saved_and_loaded(tmp_path):
    result = context.explain(reader, made(), POOL)
    back = context.load(result.save(tmp_path / "r.json"))
    assert back.summary(full=True) == result.summary(full=True)
    assert back.table.equals(result.table)
    for damage in (b"", b"[]", b'{"format": "butfor context 1"}', (tmp_path / "r.json").read_bytes()[:-40]):
        (tmp_path / "bad.json").write_bytes(damage)
        with pytest.raises(InputError):
            context.load(tmp_path / "bad.json")
    with pytest.raises(InputError):
        context.load(tmp_path / "absent.json")


def test_what_is_shown_is_escaped_and_short(tmp_path):
    nasty = "<script>alert(1)</script>"
    parts = {nasty: f"{nasty} The code of Lisbon is 4417.", "passage 2": nasty * 40, "x" * 300: "b"}
    result = context.explain(
        lambda prompts: [nasty if "4417" in one else "no" for one in prompts], context.prompt(parts), POOL
    )
    text = result.report(tmp_path / "r.html").read_text()
    assert "<script" not in text
    assert "&lt;script" in text
    assert "<script" not in result._repr_html_()
    lines = result.summary().splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 110


def test_foils_and_their_answers():
    result = context.explain(reader, made(), POOL)
    shown = result.counterfactuals(None, "passage 2")
    assert sorted(shown.foil) == sorted(POOL)  # none of them twice
    assert shown.changed.all()
    with pytest.raises(InputError, match="no part"):
        result.counterfactuals(None, "instruction")


def test_answers_by_chance():
    class Noisy:
        identity = "noisy"

        def answer(self, prompts, seeds=None):
            rngs = [np.random.default_rng(seed) for seed in seeds or range(len(prompts))]
            return [one if rng.random() > 0.1 else "?" for one, rng in zip(reader(prompts), rngs, strict=True)]

    pool = [f"The code of {city} is {k}." for city in CITIES for k in range(5)]
    result = context.explain(Noisy(), made(), pool, samples=4, seed=1)
    assert result.table.subset[result.table.necessary].tolist() == ["passage 2"]
    assert 0 < result.noise[0] < 0.4
    assert "Noise" in result.summary()


def test_answers_that_vary_without_samples_are_noticed():
    numbers = iter(range(10**6))
    result = context.explain(lambda prompts: [str(next(numbers)) for _ in prompts], made(), POOL, enough=None)
    assert [note.code for note in result.notes] == ["answers-vary"]
    assert result.guarantee.controls == "nothing"
    assert "different answers" in result.summary()


def test_context_cite_with_an_error_rate():
    text = "The code of Lisbon is 4417. The code of Rome is 2290. The code of Bern is 1184."
    citer = ContextCiter(reader, None, text, "What is the code of Lisbon?", foils=POOL)
    table = citer.get_attributions(as_dataframe=True, top_k=2)
    assert table.Source.tolist()[0] == "The code of Lisbon is 4417."
    assert table.necessary.tolist() == [True, False]
    assert citer.get_attributions().tolist() == [1, 0, 0]
    zoomed = ContextCiter(
        reader, None, text, "Q {context}?", foils=POOL, parts="zoom", prompt_template="{query} {context}"
    )
    assert zoomed.get_attributions().shape == (3,)
    assert zoomed.prompt.render() == f"Q {{context}}? {text}"
    with pytest.raises(InputError, match="a part of the response"):
        citer.get_attributions(0, 2)
    with pytest.raises(InputError, match="at least two"):
        ContextCiter(reader, None, "One sentence.", "q")
