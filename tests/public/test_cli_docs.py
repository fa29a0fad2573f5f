"""The page on the command line: its commands run as they stand, and it knows all commands and options it should."""

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

import butfor
from butfor.cli.app import app, main
from butfor.tabular.files import SAMPLERS

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder as the page describes it, after all of its commands."""
    place = tmp_path_factory.mktemp("page")
    model, data = blocks("python")
    (config,) = blocks("toml")
    (place / "model.py").write_text(model, encoding="utf-8")
    (place / "run.toml").write_text(config, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        exec(data, {})
        for command in blocks("sh"):
            program, *arguments = shlex.split(command)
            assert program == "butfor"
            quiet = [] if arguments[0] in ("report", "combine") else ["--quiet"]
            assert main([*arguments, *quiet]) == 0, command
    return place


def test_the_commands_run(folder):
    assert {path.name for path in folder.iterdir() if path.is_dir()} >= {"found", "skill", "apart", "checked"}
    assert (folder / "found" / "report.html").exists()


def test_they_find_what_there_is(folder):
    found = butfor.load(folder / "found" / "result.butfor")
    assert found.alpha == 0.1  # what is typed wins
    assert found.table[found.chosen].subset.value_counts().index[0] == "marker"
    for name, expected in (("skill", {"age", "marker"}), ("apart", {"marker"})):
        table = pd.read_csv(folder / name / "table.csv")
        assert set(table[table.chosen].subset) == expected
    assert (pd.read_csv(folder / "checked" / "table.csv").verdict == "ok").all()


def test_all_commands_and_samplers_are_there():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    for name in names:
        assert f"| `butfor {name}` |" in PAGE
    assert all(f"`{name}`" in PAGE for name in SAMPLERS)
