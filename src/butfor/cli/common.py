"""What the commands share beyond their options: notes, the progress bar, what is written and printed."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import typer

from butfor.cli.options import Output
from butfor.cli.resuming import AGAIN, Interrupted
from butfor.core.result.global_result import GlobalResult
from butfor.core.result.result import Result
from butfor.core.types import InputError
from butfor.models.python_file import attribute_of
from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder
from butfor.run.progress import Progress, reporting

Some = TypeVar("Some", Result, GlobalResult)
FOLDER = {"Report": REPORT, "Table": TABLE, "Result": RESULT}  # what `write_folder` writes


@contextmanager
def working(output: Output) -> Iterator[None]:
    """Refuse a folder that cannot be written; then notes go to standard error, and so does what a model prints."""
    check_folder(output.out)
    with notes(output.quiet), redirect_stdout(sys.stderr):  # it must not get into the JSON
        yield


@contextmanager
def notes(quiet: bool) -> Iterator[None]:
    """Warnings as one plain line each on standard error, the same one only once."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        line = " ".join(str(message).split())
        if line not in shown:
            shown.add(line)
            typer.echo(f"note: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not quiet:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = show
        yield


def bar(output: Output) -> bool:
    return not output.quiet and sys.stderr.isatty()  # a log file is no place for a bar


def sourced(result: Some, **where: str) -> Some:
    """The result with words on where it came from, for its report."""
    return replace(result, provenance={**result.provenance, **where})


def written(result: Result, output: Output, **where: str) -> Result:
    """The result with words on where it came from, after writing its folder."""
    result = sourced(result, **where)
    with reporting(bar(output)) as report:
        report(Progress("report", 0, len(FOLDER)))
        write_folder(result, output.out)
        report(Progress("report", len(FOLDER), len(FOLDER)))
    return result


def finish(
    output: Output, words: Callable[[], str], as_json: Callable[[], str], files: Mapping[str, str] = FOLDER
) -> None:
    """Print JSON and nothing else; or words, and where the files are, one line each."""
    if output.json:
        typer.echo(as_json())
        return
    width = max(map(len, files)) + 2
    lines = [f"{f'{what}:':<{width}}{output.out / name}" for what, name in files.items()]
    typer.echo("\n".join([words(), "", *lines]))


def stopped_early(result: Result, output: Output) -> None:
    """What is decided of a run that was interrupted is written; the rest is still to be had."""
    if result.provenance.get("interrupted"):
        raise Interrupted(f"stopped; what was decided by then is written; go on with: {AGAIN.format(out=output.out)}")


def file_of(spec: str) -> Path:
    """The file of file.py:function."""
    path = Path(spec.rpartition(":")[0])
    if not path.is_file():
        raise InputError(f"the file {path} does not exist; expected file.py:function")
    return path


def function_at(spec: str) -> Any:
    """What file.py:function names; the file is imported, so its code runs."""
    return attribute_of(file_of(spec), spec.rpartition(":")[2])
