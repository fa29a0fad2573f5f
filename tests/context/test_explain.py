"""Parts of prompts: what is decisive, what is enough, what it costs; resumed, refused, escaped."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

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
        (lambda: context.explain(reader, made(), {"turn": POOL}), "has foils"),
        (lambda: context.explain(reader, made(), "dorp"), "'drop'"),
        (lambda: context.explain(reader, made(), POOL, same="alike"), "same must be"),
        (lambda: context.explain(reader, made(), POOL, answer=["a", "b"]), "for each of 1 prompts"),
        (lambda: context.explain(3, made(), POOL), "model must be"),
        (lambda: context.explain(reader, made(), POOL, level=1.5), "level"),
        (lambda: context.explain(reader, made(), POOL, alpha=2), "alpha"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(InputError) as failed:
        call()
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)


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


def test_kill_and_resume(tmp_path):
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
        if answers.exists() and answers.read_bytes().count(b"\n") >= 8:
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
    assert len(shown) == 10
    assert set(shown.foil) <= set(POOL)
    assert shown.changed.all()
    with pytest.raises(InputError, match="no part"):
        result.counterfactuals(None, "instruction")


def test_answers_by_chance():
    class Noisy:
        identity = "noisy"

        def answer(self, prompts, seeds=None):
            rngs = [np.random.default_rng(seed) for seed in seeds or range(len(prompts))]
            return [one if rng.random() > 0.1 else "?" for one, rng in zip(reader(prompts), rngs, strict=True)]

    result = context.explain(Noisy(), made(), POOL, samples=4, seed=1)
    assert result.table.subset[result.table.necessary].tolist() == ["passage 2"]
    assert 0 < result.noise[0] < 0.4
    assert "Noise" in result.summary()


def test_answers_that_vary_without_samples_are_noticed():
    numbers = iter(range(10**6))
    result = context.explain(lambda prompts: [str(next(numbers)) for _ in prompts], made(), POOL, enough=None)
    assert [note.code for note in result.notes] == ["answers-vary"]


def test_context_cite_with_an_error_rate():
    text = "The code of Lisbon is 4417. The code of Rome is 2290. The code of Bern is 1184."
    citer = ContextCiter(reader, None, text, "What is the code of Lisbon?", foils=POOL)
    table = citer.get_attributions(as_dataframe=True, top_k=2)
    assert table.Source.tolist()[0] == "The code of Lisbon is 4417."
    assert table.necessary.tolist() == [True, False]
    assert citer.get_attributions().tolist() == [1, 0, 0]
    with pytest.raises(InputError, match="at least two"):
        ContextCiter(reader, None, "One sentence.", "q")
