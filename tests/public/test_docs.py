"""What the documentation says is what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from butfor.results.view import QUESTIONS
from tools import pictures

ROOT = Path(__file__).parents[2]


def test_the_page_of_guarantees_is_the_one_the_code_writes():
    page = subprocess.run(
        [sys.executable, ROOT / "tools" / "guarantees.py"], capture_output=True, text=True, check=True
    )
    assert (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8") == page.stdout  # renew it with make docs


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


FOR_ONE_READER = {"validation.md", "compliance.md", "referees.md"}  # validators, compliance officers, referees


def test_the_pages_together_are_short_enough_to_be_read():
    words = {path.name: len(path.read_text(encoding="utf-8").split()) for path in PAGES if path.name in FOR_ONE_READER}
    assert set(words) == FOR_ONE_READER
    assert max(words.values()) < 900
    others = [path for path in PAGES if path.name not in FOR_ONE_READER]
    assert sum(len(path.read_text(encoding="utf-8").split()) for path in others) <= 25_000


TRANSLATED = ("hangs on", "hang on", "comes nearest", "crowd in the middle", "auto takes", "established")


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_sentence_of_a_page_reads_as_translated(path):
    prose = re.sub(r"(?m)^    .*$|`[^`]*`", "", path.read_text(encoding="utf-8"))  # no outputs, no names
    words = " ".join(prose.split()).lower()
    assert [phrase for phrase in TRANSLATED if phrase in words] == []


CITED = re.compile(r"\[(\d+)\](?!\()")


def test_every_decision_that_is_cited_is_written():
    """`[2]` in the page of methods, and "docs/decisions.md, 20" in the code."""
    text = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    cited = set(CITED.findall(text["methods.md"]))
    for path in (ROOT / "src").rglob("*.py"):
        cited |= set(re.findall(r"decisions\.md, (\d+)", path.read_text(encoding="utf-8")))
    assert len(cited) > 4
    assert cited <= set(re.findall(r"^\*\*(\d+)\. ", text["decisions.md"], re.MULTILINE))
    assert not CITED.search(text["glossary.md"])  # its numbers are sections of methods


def test_every_line_of_a_summary_is_explained():
    page = (ROOT / "docs" / "which-question.md").read_text(encoding="utf-8")
    section = page.partition("## How to read the ten lines")[2].partition("\n## ")[0]
    heads = [word for word, _ in QUESTIONS.values() if word]
    assert len(heads) > 8
    assert [head for head in heads if f"| **{head}**" not in section] == []


def test_every_picture_of_the_benchmarks_can_be_drawn_from_their_results(tmp_path):
    assert pictures.main([], tmp_path) == 0
    drawn = {path.name for path in tmp_path.iterdir()}
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert drawn == set(re.findall(r"figures/(bench-\w+\.svg)", page))
    assert all((ROOT / "docs" / "figures" / name).exists() for name in drawn)


def test_an_unknown_picture_is_refused(capsys):
    assert pictures.main(["nothing"]) == 2
    assert "No picture is named nothing; the names are table1, " in capsys.readouterr().err
