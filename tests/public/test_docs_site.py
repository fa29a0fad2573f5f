"""The documentation site: it builds without a warning, every page is reached, every link and table is whole."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest
from click import Group
from typer.main import get_command

import butfor
from butfor.cli.app import app
from docs_site import build
from public.test_docstrings import SPACES
from tools.shown import blocks, matches, run

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ALL = [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]
THEIRS = ("shap", "lime", "knockpy")


def text(path):
    return path.read_text(encoding="utf-8")


def prose(path):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", text(path), flags=re.DOTALL | re.MULTILINE)


def listed(page):
    """Pages in the toctrees of a page."""
    for block in re.findall(r"```\{toctree\}\n(.*?)```", text(page), re.DOTALL):
        entries = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
        for entry in entries:
            name = re.sub(r".*<(.*)>", r"\1", entry)
            yield from sorted(page.parent.glob(f"{name}.md")) if "*" in name else [page.parent / f"{name}.md"]


def anchors(page):
    """Links that lead to the headings of a page, as GitHub and MyST make them."""
    heads = re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_is_in_a_toctree():
    reached, left = set(), [DOCS / "index.md"]
    while left:
        page = left.pop()
        assert page.exists(), page
        assert page not in reached, f"{page} is in two toctrees"
        reached.add(page)
        left += listed(page)
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if target.startswith("http"):
            continue
        page, _, anchor = target.partition("#")
        found = (path.parent / page).resolve() if page else path
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_rows_of_a_table_have_as_many_cells_as_its_head(path):
    for table in re.findall(r"(?:^\|.*\n)+", prose(path), re.MULTILINE):
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert set(cells) == {cells[0]}, table


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build(tmp_path_factory.mktemp("docs"))


def test_the_site_builds_without_a_warning_and_has_every_page(site):
    for page in PAGES:
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()


def test_nothing_is_fetched_from_elsewhere(site):
    wanted = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=["'](https?:)?//""")
    for page in site.rglob("*.html"):
        assert not wanted.search(text(page)), page
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", text(style)), style


def test_the_reference_has_every_public_name_with_its_parameters(site):
    written = "".join(text(page) for page in (site / "api").glob("*.html"))
    for space, module in SPACES.items():
        names = [name for name in module.__all__ if not name.startswith("_")]
        for name in names:
            if inspect.isfunction(getattr(module, name)) or inspect.isclass(getattr(module, name)):
                assert f'id="{space}.{name}"' in written, f"{space}.{name}"
    assert "<strong>alternative</strong>" in written
    assert "for the predicted class of a classifier" in written  # the text of a parameter, not only its type


def test_start_page_answers_six_questions():
    page = text(DOCS / "index.md")
    asked = re.findall(r"^- \*\*\[(.+?)\]\(", page, re.MULTILINE)
    assert asked == ["One case", "Many rows", "Which features", "Drift", "A photograph", "A review"]


def test_a_sampler_of_ones_own_is_found_right_and_the_first_try_wrong():
    scope, verdicts = {}, []
    for output, block in run("docs/own-sampler.md", scope):
        assert matches(output, block)
        verdicts.append(scope["check"].ok)
    assert verdicts == [False, True, True]
    chosen = scope["result"].table[scope["result"].chosen]
    assert (chosen.subset == "x0").sum() == 20
    assert not (chosen.subset == "x1").any()
    assert scope["quiet"].chosen.sum() == 0


@pytest.mark.filterwarnings("default")
def test_what_is_shown_beside_others_is_what_is_printed():
    for output, block in run("docs/coming-from.md", {}):
        assert not block.strip() or matches(output, block)


@pytest.mark.parametrize("package", THEIRS)
@pytest.mark.filterwarnings("default")
def test_the_same_task_theirs_and_ours(package):
    """Each section of the page by itself; theirs only where it is installed (benchmarks/requirements.txt)."""
    (shared, *_), scope = blocks("docs/coming-from.md"), {}
    exec(shared, scope)
    parts = [part for part in text(DOCS / "coming-from.md").split("\n## ")[1:] if part.startswith("From ")]
    (section,) = (part for part in parts if f"import {package}" in part or f"from {package}" in part)
    missing = importlib.util.find_spec(package) is None
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        if not (missing and package in code):
            exec(code, scope)
    ours = {"shap": "result", "lime": "one", "knockpy": "skill"}[package]
    assert isinstance(scope[ours], butfor.Result)
    if missing:
        pytest.skip(f"{package} is not installed: ours ran, theirs did not")


def test_commands_of_the_overview_have_these_options():
    commands = re.search(r"```sh\n(.*?)```", text(DOCS / "overview.md"), re.DOTALL)[1].splitlines()
    known = get_command(app)
    for line in commands:
        command = known.commands[line.split()[1]]
        if isinstance(command, Group):
            command = command.commands[line.split()[2]]
        options = {name for parameter in command.params for name in parameter.opts}
        assert set(re.findall(r" (--[\w-]+)", line)) <= options, line
