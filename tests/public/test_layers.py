"""Who may import whom: every import of every file, lazy ones included, against the order of the folders (DESIGN 1).

Imports for type checkers only (`if TYPE_CHECKING:`) run nowhere and are left out. Methods of results that plot or
report import those lazily, inside the method: the one exception.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "butfor"
FOLDERS = [  # a folder imports only folders before it; those of one line know nothing of each other
    ("_version", "types"),
    ("untrusted", "streams"),
    ("inference",),
    ("settings",),
    ("evaluation",),
    ("results",),
    ("models",),
    ("run",),
    ("tabular",),
    ("context", "image", "text"),
    ("multimodal",),
    ("explain", "load"),
    ("combine", "compat"),
    ("simulate",),
    ("plots",),
    ("report",),
    ("validation",),
    ("studio",),
    ("cli",),
    ("__init__",),
    ("__main__",),
]
RANK = {folder: rank for rank, line in enumerate(FOLDERS) for folder in line}
INSIDE_METHODS = {"results": ("plots", "report"), "tabular": ("plots",)}  # what offers pictures or pages of itself
RUNS = {
    "treatment",
    "exact_trees",
    "explain",
    "inputs",
    "demo",
    "ranks",
    "sensitivity",
    "global_importance",
    "check",
    "boxes",
    "files",
}


def tree():
    """Every file of the package: its path -> its text."""
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


@cache
def imports(text):
    """Names that a file imports when it runs, and whether inside a function."""
    parsed = ast.parse(text)
    for_types = {
        id(inner)
        for node in ast.walk(parsed)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    lazy = {
        id(inner)
        for node in ast.walk(parsed)
        if isinstance(node, ast.FunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    names = []
    for node in ast.walk(parsed):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names += [(alias.name, id(node) in lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [(f"{node.module}.{alias.name}", id(node) in lazy) for alias in node.names]
    return tuple(names)


def violations(files):
    """One sentence for each import that may not be."""
    wrong = []
    for path, text in files.items():
        folder = path.split("/")[0].removesuffix(".py")
        for name, lazy in imports(text):
            parts = name.split(".")
            if parts[0] != "butfor":
                outside = folder == "inference" and parts[0] not in ("numpy", "scipy", *sys.stdlib_module_names)
                wrong += [f"{path} imports {name}: inference knows numpy and scipy only"] if outside else []
                continue
            theirs = parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"
            if theirs == folder or (lazy and theirs in INSIDE_METHODS.get(folder, ())):
                continue
            if theirs == "__init__" and RANK[folder] >= RANK["explain"]:
                continue  # the package itself, where everything before it is known
            if RANK[theirs] >= RANK[folder]:
                wrong.append(f"{path} imports {name}: {theirs} does not stand before {folder}")
            elif folder in ("tabular", "image", "text") and theirs == "run" and not RUNS & set(path[:-3].split("/")):
                wrong.append(f"{path} imports {name}: samplers, subsets and views know nothing of runs")
    return wrong


def test_every_import_keeps_the_order():
    assert violations(tree()) == []


def test_every_folder_has_its_rank():
    assert {path.split("/")[0].removesuffix(".py") for path in tree()} <= set(RANK)


PLANTED = {
    "inference imports pandas in a function": ("inference/irt.py", "import pandas"),
    "inference imports evaluation": ("inference/sequential.py", "from butfor.evaluation.evaluator import Evaluator"),
    "inference makes a note": ("inference/features.py", "from butfor.results.words import Note"),
    "evaluation makes a note": ("evaluation/calls.py", "from butfor.results.words import Note"),
    "results import run": ("results/result.py", "from butfor.run.run import run"),
    "run imports the command line": ("run/run.py", "from butfor.cli.app import main"),
    "a sampler of tables imports run": ("tabular/gaussian.py", "from butfor.run.run import run"),
    "a sampler of images imports run": ("image/donor.py", "from butfor.run.run import run"),
    "images import texts": ("image/view.py", "from butfor.text.segment import span_of"),
    "tables import the public call": ("tabular/check.py", "from butfor.explain import explain"),
    "tables import the package": ("tabular/copula.py", "from butfor import explain"),
    "report imports the studio": ("report/write.py", "from butfor.studio.app import serve"),
    "the studio imports the command line": ("studio/app.py", "from butfor.cli.app import main"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_planted_imports_are_caught(what):
    path, line = PLANTED[what]
    files = tree()
    files[path] += f"\n\ndef planted():\n    {line}\n"
    assert len(violations(files)) == len(violations(tree())) + 1


def test_results_import_plots_inside_methods_only():
    files = tree()
    files["results/result.py"] += "\nfrom butfor.plots import bar\n"
    assert len(violations(files)) == len(violations(tree())) + 1
