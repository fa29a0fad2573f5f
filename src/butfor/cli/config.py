"""Options of a command from a TOML file: the same names, the same meaning, and what is typed wins."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperOption

from butfor.core.parsing import read_bounded
from butfor.core.types import InputError

ADDRESS = ("http://", "https://")
FILES = (
    "ca_file",
    "data",
    "held_out",
    "model",
    "out",
    "reference",
    "run_dir",
    "subsets",
)


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of the file the defaults of the command that is about to run."""
    if path is not None:
        given = [option for option in context.command.params if isinstance(option, TyperOption)]
        options = {name.removeprefix("--"): option for option in given for name in option.opts}
        del options["config"]
        context.default_map = _defaults(_parsed(path), options, path)
    return path


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bounded(path, "--config", 1_000_000).decode("utf-8"))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError
        raise InputError(f"--config {path} is not TOML: {' '.join(str(error).split())}") from error


def _defaults(given: dict[str, Any], options: dict[str, TyperOption], path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("_", "-")
        if name not in options:
            near = get_close_matches(name, options, n=3, cutoff=0.5) or sorted(options)
            raise InputError(f"--config {path}: there is no option {key!r} here; the nearest are {', '.join(near)}")
        option = options[name]
        if option.name in found:
            raise InputError(f"--config {path}: {key!r} is given twice; give it once")
        found[option.name] = _value(key, value, option, path)
    return found


def _value(key: str, value: object, option: TyperOption, path: Path) -> str | list[str]:
    """The value as it would be typed, since then it is checked as if it were."""
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) for one in values):
        raise InputError(f"--config {path}: {key} = {value!r} is no text, number or true/false")
    if isinstance(value, list) and not option.multiple:
        raise InputError(f"--config {path}: {key} takes one value, got a list of {len(value)}")
    typed = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
    if option.name in FILES:
        typed = [one if one.lower().startswith(ADDRESS) else str(path.parent / Path(one).expanduser()) for one in typed]
    return typed if option.multiple else typed[0]
