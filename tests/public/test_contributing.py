"""What CONTRIBUTING and the code say of each other: the functions it names exist, the sections that code cites, too."""

import ast
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import butfor

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "butfor"


def life_of_a_p_value():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The life of a p-value")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` \| `([\w/.]+)` \|", page, re.MULTILINE)


def defined_in(path):
    """Functions, classes and types of a file, and methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def classifier(rows):
    malignant = 1 / (1 + np.exp(-rows[:, 0]))
    return np.column_stack([1 - malignant, malignant])


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """Functions of the package in the order in which the default call first calls them."""
    rng, order = np.random.default_rng(0), {}
    reference, inputs = rng.normal(size=(60, 4)), rng.normal([2, 0, 0, 0], 1, size=(25, 4))
    source = f"{SOURCE}/"

    def note(frame, event, _):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(source):
            order.setdefault((frame.f_code.co_qualname, path.removeprefix(source)), len(order))

    sys.setprofile(note)
    try:
        result = butfor.explain(classifier, inputs, reference)
        assert len(result.table)
        result.summary()
        result.report(tmp_path_factory.mktemp("report") / "report.html")
    finally:
        sys.setprofile(None)
    return order


def test_the_life_of_a_p_value_is_as_it_happens(called):
    steps = life_of_a_p_value()
    assert [step for step in steps if step not in called] == []
    assert sorted(steps, key=called.__getitem__) == steps


def test_the_life_of_a_p_value_is_whole():
    folders = [path.split("/")[0] for _, path in life_of_a_p_value()]
    assert {"inference", "evaluation", "results", "run", "tabular", "report", "explain.py"} <= set(folders)
    assert len(folders) > 25


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
    for word in (
        "Settings",
        "Hypotheses",
        "RunContext",
        "Evaluator",
        "StatisticSpec",
        "RunRecord",
        "Note",
        "SamplerInfo",
        "Items",
    ):
        assert word in page
        assert any(word in defined_in(path) for path in SOURCE.rglob("*.py")), word
