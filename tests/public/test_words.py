"""Words that readers took for a translation, or that had three meanings, are in no sentence of the package."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GONE = (
    r"hangs? on", r"comes? nearest", r"crowd in the middle", r"auto takes", r"established", r"second mile",
)  # fmt: skip
SOURCES = sorted(path for end in ("py", "j2", "js", "css", "html") for path in (ROOT / "src").rglob(f"*.{end}"))


def sentences(path):
    """Every text of a file: strings and docstrings of Python, all of a template or a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    nodes = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return "\n".join(value for value in nodes if isinstance(value, str))


def said(path):
    return [word for word in GONE if re.search(rf"\b{word}\b", " ".join(sentences(path).split()), re.IGNORECASE)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src" / "butfor")))
def test_no_sentence_of_the_package_has_them(path):
    assert not said(path)


def test_they_would_be_seen(tmp_path):
    path = tmp_path / "m.py"
    path.write_text('"""It is established\nwhat it hangs\non."""\n')
    assert said(path) == ["hangs? on", "established"]


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_no_page_has_them(path):
    assert not said(path)
