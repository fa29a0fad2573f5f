"""What the documentation says is what the code does."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_page_of_guarantees_is_the_one_the_code_writes():
    page = subprocess.run(
        [sys.executable, ROOT / "tools" / "guarantees.py"], capture_output=True, text=True, check=True
    )
    assert (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8") == page.stdout  # renew it with make docs


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert target.startswith("http") or (path.parent / target).exists(), target


def test_the_first_run_of_the_guide_runs():
    guide = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "load_breast_cancer" in block)
    scope: dict[str, object] = {}
    exec(code.replace("progress=True", "progress=None"), scope)
    assert scope["result"].chosen.any()
