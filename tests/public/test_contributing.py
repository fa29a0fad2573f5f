"""What CONTRIBUTING and the code say of each other: the functions it names exist, the sections that code cites, too."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "butfor"


def life_of_a_p_value():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The life of a p-value")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| `([\w/.]+)` \|", page, re.MULTILINE)


def defined_in(path):
    """Functions and classes of a file, and methods as Class.method."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


@pytest.mark.parametrize(("function", "path"), life_of_a_p_value())
def test_the_life_of_a_p_value_is_told_as_it_is(function, path):
    assert function in defined_in(SOURCE / path)


def test_the_life_of_a_p_value_is_whole():
    steps = [path.split("/")[0] if "/" in path else path for _, path in life_of_a_p_value()]
    assert {"core", "run", "tabular", "report", "explain.py"} <= set(steps)
    assert len(steps) > 20


def cited():
    """Every "METHODS n" of the code: where, and which section."""
    for path in sorted(SOURCE.rglob("*.py")):
        for numbers in re.findall(r"METHODS (\d+(?:(?:,| and) \d+)*)", path.read_text(encoding="utf-8")):
            yield from ((path.relative_to(SOURCE).as_posix(), number) for number in re.findall(r"\d+", numbers))


def test_every_section_that_code_cites_is_in_the_methods_page():
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## (\d+)\. ", page, re.MULTILINE))
    assert sections >= {str(number) for number in range(11)}
    assert [(path, number) for path, number in cited() if number not in sections] == []
    assert len(list(cited())) > 20


def test_the_glossary_has_the_words_of_the_code():
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    for word in ("Settings", "RunContext", "Evaluator", "StatisticSpec", "CounterfactualBatch", "SamplerInfo", "Items"):
        assert word in page
        assert any(word in defined_in(path) for path in SOURCE.rglob("*.py")), word
