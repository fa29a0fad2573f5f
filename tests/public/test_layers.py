"""Who may import whom: every import of every file, lazy ones included, against the order of the folders (DESIGN 1).

Imports that are for type checkers only (`if TYPE_CHECKING:`) run nowhere and are left out. What a result offers that
stands behind it in the way of the data, it names by `later("butfor.report:write")`; those names are read here, too.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "butfor"

FOLDERS = [  # a folder imports only folders before it; those of one line know nothing of each other
    ("_version",),
    ("core",),
    ("models",),
    ("engine",),
    ("run",),
    ("tabular",),
    ("image", "text"),
    ("multimodal",),
    ("explain", "load"),
    ("plots",),
    ("report",),
    ("studio",),
    ("simulate",),
    ("cli",),
    ("__init__",),
    ("__main__",),
]
PLACE = {folder: place for place, line in enumerate(FOLDERS) for folder in line}
CORE = [  # every module of the core, each after all that it imports
    "types",
    "arrays",
    "checks",
    "parsing",
    "patterns",
    "zips",
    "warn",
    *(
        f"draw.{name}"
        for name in ("streams", "content", "proposers", "samplers", "items", "chance", "layers", "blocks", "listing")
    ),
    *(
        f"evaluate.{name}"
        for name in (
            *("ask", "buffer", "outputs", "probe", "workplace", "memory"),
            *("patience", "calls", "units", "split", "batches"),
        )
    ),
    *(f"test.{name}" for name in ("tails", "evidence", "picking", "schedule", "statistic", "irt", "osft", "few_shot")),
    *(
        f"test.{name}"
        for name in (
            "sequential",
            "early_stop",
            "exact",
            "outcomes",
            "whole",
            "decision",
            "flips",
            "forecasts",
            "losses",
        )
    ),
    *(f"test.{name}" for name in ("contrast", "covariance", "sampler_checks", "shape")),
    *(f"select.{name}" for name in ("weights", "streaming", "streaming_weights", "strict", "rules")),
    *(f"select.{name}" for name in ("choice", "guarantees", "bounds", "reach")),
    *(f"result.{name}" for name in ("later", "numbers", "storage", "student", "effects", "first_draws")),
    *(f"result.{name}" for name in ("features", "decided")),
    *(f"result.{name}" for name in ("controlled", "kept", "table", "reasons", "answers", "summary")),
    *(
        f"result.{name}"
        for name in (
            "places",
            "archive",
            "checked",
            "result",
            "restored",
            "global_summary",
            "global_check",
            "global_result",
        )
    ),
]
MODALITIES = ("tabular", "image", "text", "multimodal")
EDGES = {
    "explain",
    "inputs",
    "demo",
    "ranks",
    "sensitivity",
    "global_importance",
    "stream",
    "streamed",
}  # what asks for a run; samplers do not
RUNS = {"explain", "demo", "ranks", "sensitivity", "global_importance", "stream"}
LATER = ("butfor.plots", "butfor.report")
LATER_INSIDE = ("butfor.plots.", "butfor.report.")
LOADERS = ("__init__", "models.__init__", "core.result.later")


def tree():
    """Every file of the package: its path -> its text."""
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}


@cache
def parsed_text(text):
    """Most files are the same in every planted tree: each is read once."""
    return ast.parse(text)


@cache
def imported(text):
    """Dotted names of all that a file imports when it runs."""
    return tuple(_imported(parsed_text(text)))


def _imported(parsed):
    for_types = {
        id(inner)
        for node in ast.walk(parsed)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(parsed):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_of(name, files):
    """The file, without its ending and with dots, that an imported name of ours is in: "core.draw.blocks"."""
    parts = name.split(".")[1:]
    while parts:
        path = "/".join(parts)
        if f"{path}.py" in files:
            return ".".join(parts)
        if f"{path}/__init__.py" in files:
            return ".".join([*parts, "__init__"])
        parts = parts[:-1]
    return "__init__"


def violations(files):
    """One sentence for each import that may not be."""
    found = []
    for path, text in files.items():
        own = path.removesuffix(".py").replace("/", ".")
        for name in imported(text):
            ours = name == "butfor" or name.startswith("butfor.")
            wrong = _wrong(own, module_of(name, files), files) if ours else _outside(own, name)
            if wrong:
                found.append(f"{path} imports {name}: {wrong}")
        found += [f"{path} reaches {name} by later()" for name in _later(own, text)]
    return found


def _wrong(own, other, files):
    folder, theirs = own.split(".")[0], other.split(".")[0]
    if other == "__init__":  # `from butfor import image`
        return "" if PLACE[folder] >= PLACE["cli"] else "the package itself stands behind everything"
    if folder == theirs == "core":
        mine, its = own.removeprefix("core."), other.removeprefix("core.")
        if mine.endswith("__init__") or its.endswith("__init__"):
            return "folders of the core import nothing, and are not imported whole"
        return "" if CORE.index(its) < CORE.index(mine) else "a later stage of the core"
    if folder == theirs:
        inside, wanted = own.split(".")[1:2], other.split(".")[1:2]
        asks = folder in MODALITIES and wanted and wanted[0] in RUNS and inside[0] not in {*EDGES, "__init__"}
        return "samplers, subsets and views know nothing of runs" if asks else ""
    if PLACE[theirs] >= PLACE[folder]:
        return f"{theirs} does not stand before {folder}"
    if folder in MODALITIES and theirs in ("run", "engine") and own.split(".")[1] not in EDGES:
        return "samplers, subsets and views know nothing of runs"
    return ""


def _outside(own, name):
    top = name.split(".")[0]
    fine = own.split(".")[0] != "core" or top in ("numpy", "scipy") or top in sys.stdlib_module_names
    return "" if fine else "the core knows numpy and scipy only"


def _later(own, text):
    """What a file reaches by name: `later` is for results and names plots, reports or pandas; nobody else does so."""
    found = []
    for node in ast.walk(parsed_text(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        if called == "later" and not _allowed(own, node.args):
            found.append(ast.unparse(node))
        if called in ("import_module", "__import__") and own not in LOADERS and not _other_library(own, node.args):
            found.append(ast.unparse(node))
    return found


def _allowed(own, given):
    may = own.startswith("core.result.") or own == "tabular.check_result"
    name = given[0].value if given and isinstance(given[0], ast.Constant) else ""
    module = name.split(":")[0]
    return may and (name == "pandas:DataFrame" or module.startswith(LATER_INSIDE) or module in LATER)


def _other_library(own, given):
    """A name of someone else's, spelt out; the core imports none."""
    plain = bool(given) and not (isinstance(given[0], ast.JoinedStr) or "butfor" in ast.unparse(given[0]))
    return plain and not own.startswith("core.")


def test_every_import_keeps_the_order():
    assert violations(tree()) == []


def test_every_module_of_the_core_has_its_place():
    there = {path.removesuffix(".py").replace("/", ".") for path in tree() if path.startswith("core/")}
    assert {name.removeprefix("core.") for name in there if not name.endswith("__init__")} == set(CORE)
    assert {path.split("/")[0].removesuffix(".py") for path in tree()} <= set(PLACE)


PLANTED = {
    "core imports pandas in a function": ("core/draw/blocks.py", "import pandas"),
    "core imports tables in a function": ("core/result/table.py", "from butfor.tabular.table import Table"),
    "core imports run in a function": ("core/test/irt.py", "from butfor.settings import Settings"),
    "draw imports evaluate": ("core/draw/items.py", "from butfor.evaluation.evaluator import Evaluator"),
    "evaluate imports test": ("core/evaluate/probe.py", "from butfor.inference.statistics import Evidence"),
    "test imports select": ("core/test/sequential.py", "from butfor.inference.selection import bh"),
    "select imports result": ("core/select/reach.py", "from butfor.results.result import Result"),
    "core imports the package": ("core/draw/streams.py", "import butfor"),
    "run imports the command line": ("run/run.py", "from butfor.cli.app import main"),
    "a sampler of tables imports run": ("tabular/gaussian.py", "from butfor.run.run import run"),
    "a sampler of images imports run": ("image/donor.py", "from butfor.settings import Settings"),
    "a sampler of texts imports the journal": ("text/ngram.py", "from butfor.evaluation.journal import journal"),
    "images import texts": ("image/view.py", "from butfor.text.segment import span_of"),
    "report imports the studio": ("report/write.py", "from butfor.studio.app import serve"),
    "tables import the public call": ("tabular/check.py", "from butfor.explain import explain"),
    "tables import the package": ("tabular/auto.py", "from butfor import explain"),
    "core reaches a modality by name": ("core/result/result.py", 'later("butfor.image.view:pictures")'),
    "a sampler reaches reports by name": ("tabular/copula.py", 'later("butfor.report:write")'),
    "core reaches a name like report's": ("core/result/table.py", "later('butfor.reporting:ask')"),
    "core reaches what a variable says": ("core/result/table.py", "later(name)"),
    "core imports pandas by name": ("core/draw/items.py", "__import__('pandas')"),
    "core imports a stage by name": ("core/draw/items.py", "importlib.import_module('butfor.core.result')"),
    "core imports a whole folder": ("core/draw/streams.py", "from butfor.core import result"),
    "a folder of the core imports": ("core/draw/__init__.py", "from butfor.evaluation.hypotheses import draw"),
    "a sampler asks for a run": ("image/donor.py", "from butfor.image.explain import explain"),
    "a sampler asks for ranks": ("text/ngram.py", "from butfor.text.ranks import ranks"),
}


def test_only_what_is_never_run_is_left_out():
    files = tree()
    files["core/draw/streams.py"] += (
        "\nif not TYPE_CHECKING:\n    import pandas\nif TYPE_CHECKING:\n    import polars\n"
    )
    assert violations(files) == ["core/draw/streams.py imports pandas: the core knows numpy and scipy only"]


@pytest.mark.parametrize("what", PLANTED)
def test_planted_imports_are_caught(what):
    path, line = PLANTED[what]
    files = {**tree(), "studio/app.py": '"""Planted."""\n'}
    files[path] += f"\n\ndef planted():\n    {line}\n"
    assert len(violations(files)) == len(violations(tree())) + 1
