"""`butfor context` and `butfor demo context`: files in, files out, one sentence for what is wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from butfor.cli.app import main
from butfor.context import load
from butfor.context.files import read_foils, read_prompts
from butfor.simulate.contexts import lookups
from butfor.types import InputError

BEDS = lookups(2, 5, "alone", seed=9)


@pytest.fixture
def files(tmp_path):
    rows = [
        {"question": bed.question, "passages": [text for name, text in bed.parts.items() if "passage" in name]}
        for bed in BEDS
    ]
    prompts, foils = tmp_path / "qa.jsonl", tmp_path / "pool.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    foils.write_text("".join(json.dumps({"text": text}) + "\n" for text in BEDS[0].pool))
    return ["--prompts", str(prompts), "--foils", str(foils), "--out", str(tmp_path / "out")]


def test_the_command_writes_what_it_found(files, tmp_path, capsys):
    assert main(["context", "--model", "small-reader", *files]) == 0
    shown = capsys.readouterr()
    assert "Decisive: prompt 1: passage" in shown.out
    assert "at most" in shown.err
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "result.butfor", "table.csv"]
    table = load(out / "result.butfor").table
    assert table[table.necessary].subset.tolist() == [next(iter(bed.truth)) for bed in BEDS]
    before = (out / "report.html").read_bytes()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").read_bytes() == before


def test_json_and_a_dry_run(files, tmp_path, capsys):
    assert main(["context", "--model", "small-reader", *files, "--dry-run"]) == 0
    shown = capsys.readouterr().err
    assert "at most" in shown
    assert "--samples" not in shown
    assert not (tmp_path / "out").exists()
    assert main(["context", "--model", "small-reader", *files, "--dry-run", "--temperature", "0.5"]) == 0
    assert "need --samples 3" in capsys.readouterr().err
    assert main(["context", "--model", "small-reader", *files, "--dry-run", "--level", "7"]) == 2
    (tmp_path / "model.py").write_text("def broken(prompts):\n    raise RuntimeError('no memory')\n")
    assert main(["context", "--model", f"{tmp_path / 'model.py'}:broken", *files]) == 2
    assert "the model raised RuntimeError on" in capsys.readouterr().err
    assert main(["context", "--model", "small-reader", *files, "--json", "--quiet", "--enough", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "butfor context 1"


SLOW = """
import pathlib, time
from butfor.simulate.contexts import answer
def slow(prompts):
    with open(pathlib.Path(__file__).with_name("asked.txt"), "a") as file:
        file.write("".join(repr(prompt) + "\\n" for prompt in prompts))
    time.sleep(0.2)
    return answer(prompts)
"""


def test_a_killed_run_asks_nothing_again(files, tmp_path):
    (tmp_path / "model.py").write_text(SLOW)
    command = [sys.executable, "-m", "butfor.cli", "context", "--model", f"{tmp_path / 'model.py'}:slow", *files]
    running = subprocess.Popen([*command, "--quiet"], stdout=subprocess.DEVNULL)
    kept = tmp_path / "out" / "run" / "answers.jsonl"
    deadline = time.monotonic() + 60
    while (not kept.exists() or kept.read_bytes().count(b"\n") < 10) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert kept.exists()
    before = (tmp_path / "asked.txt").read_text().splitlines()
    known = kept.read_bytes().count(b"\n")
    assert main(["resume", str(tmp_path / "out")]) == 0
    asked = (tmp_path / "asked.txt").read_text().splitlines()[len(before) :]
    assert not kept.exists()
    result = load(tmp_path / "out" / "result.butfor")
    assert len(asked) == result.calls
    assert known >= 10
    (tmp_path / "asked.txt").unlink()
    assert main([*command[3:-1], str(tmp_path / "whole"), "--quiet"]) == 0
    whole = load(tmp_path / "whole" / "result.butfor")
    assert whole.calls == result.calls + known
    assert whole.table.equals(result.table)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"--model": "nowhere"}, "no http address"),
        ({"--model": "gone.py:f"}, "gone.py"),
        ({"--prompts": "gone.jsonl"}, "gone.jsonl cannot be read"),
        ({"--foils": "gone.jsonl"}, "gone.jsonl cannot be read"),
        ({"--parts": "passage 77"}, "no part 'passage 77'"),
        ({"--same": "roughly"}, "normalised"),
        ({"--level": "1.5"}, "level"),
        ({"--budget": "0"}, "budget"),
        ({"--draws": "-7"}, "draws"),
    ],
)
def test_one_sentence_for_what_is_wrong(files, tmp_path, capsys, changed, words):
    given = {"--model": "small-reader", **dict(zip(files[::2], files[1::2], strict=True)), **changed}
    assert main(["context", *(one for pair in given.items() for one in pair)]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith("butfor: ")
    assert words in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("[1]", "prompt 1 is list"),
        ("{}", "it has nothing"),
        ('{"passages": "one"}', "list of texts"),
        ('{"passages": ["a"], "parts": {}}', "it has"),
        ('{"parts": ["a"]}', "texts by name"),
        ('{"passages": ["a"], "colour": "red"}', "'colour' is not known"),
        ('{"passages": ["a"', "not JSON"),
        ("", "empty"),
    ],
)
def test_files_that_hold_no_prompts(tmp_path, row, words):
    path = tmp_path / "qa.jsonl"
    path.write_text(row)
    with pytest.raises(InputError, match=words):
        read_prompts(path)


def test_forms_of_files(tmp_path):
    rows = [
        {"name": "a", "passages": ["x", "y"], "question": "q", "answer": "z"},
        {"name": "b", "parts": {"tool": "x"}, "question": "q", "answer": "z"},
        {"name": "c", "messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}], "answer": "z"},
        {"name": "d", "text": "x y", "spans": {"first": [0, 1]}, "answer": "z"},
    ]
    (tmp_path / "qa.json").write_text(json.dumps(rows))
    prompts, answers = read_prompts(tmp_path / "qa.json")
    assert [list(one.parts) for one in prompts.values()] == [
        ["passage 1", "passage 2"],
        ["tool"],
        ["user 1"],
        ["first"],
    ]
    assert answers == ["z"] * 4
    (tmp_path / "pool.txt").write_text("one\n\ntwo\n")
    assert read_foils(tmp_path / "pool.txt") == ["one", "two"]
    (tmp_path / "pool.jsonl").write_text('"one"\n{"text": "two", "kind": "tool"}\n')
    assert read_foils(tmp_path / "pool.jsonl") == {"": ["one"], "tool": ["two"]}
    (tmp_path / "pool.json").write_text('{"tool": ["one", "two"]}')
    assert read_foils(tmp_path / "pool.json") == {"tool": ["one", "two"]}


def test_the_demo_needs_nothing(tmp_path, capsys):
    assert main(["demo", "context", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "one passage: passage 1; a poisoned passage: passage 7" in shown
    assert "passage 6 or passage 8" in shown
