"""Options that several commands share, each with its help in this one place."""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform, get_args, get_type_hints

import numpy as np
import typer
from typer.core import TyperOption

from butfor.evaluation.journal import COMMAND, FILE, clear, holds_units, until_written
from butfor.evaluation.progress import Progress, reporting
from butfor.models import ModelUnreachable, wrap
from butfor.models.files import attribute_of, load_model
from butfor.report.write import REPORT, RESULT, TABLE, check_folder, write_folder
from butfor.results.result import Result
from butfor.settings import TestName
from butfor.tabular.files import evaluated, names_in
from butfor.types import Alternative, Array, Bools, Family, InputError, Rule
from butfor.untrusted import read_bounded

Command = Callable[..., None]
Panel = TypeVar("Panel")


def option(help: str, *names: str, default: object = None, **more: object) -> Any:
    """A field of a panel; `names` where its own will not do."""
    return field(default=default, metadata={"help": help, "names": names, "more": more})


def needed(help: str) -> Any:
    """An option that must be given."""
    return option(help, default=...)


def flag(help: str, *names: str) -> Any:
    """An option that is given or not, without a value."""
    return option(help, *names, default=False)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, needed, flag))
def panel(title: str | None = None) -> Callable[[type[Panel]], type[Panel]]:
    """A frozen dataclass whose fields stand under one title in the help; without one, under "Options"."""

    def titled(kind: type[Panel]) -> type[Panel]:
        kind.__panel__ = title  # type: ignore[attr-defined]
        return dataclass(frozen=True, kw_only=True)(kind)

    return titled


def command(*, without: Sequence[str] = (), **helps: str) -> Callable[[Command], Command]:
    """Make a command of a function of panels: typer sees their options, the function is handed the panels.

    Options `without` which the command does are left at their defaults; `helps` are its own words for some of them.
    What the function takes beside panels stays as it is.
    """

    def made(function: Command) -> Command:
        hints = get_type_hints(function, include_extras=True)
        panels = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}

        @wraps(function)
        def run(**values: object) -> None:
            filled = {
                name: kind(**{one.name: values.pop(one.name) for one in fields(kind) if one.name in values})
                for name, kind in panels.items()
            }
            function(**filled, **values)

        shown: list[inspect.Parameter] = []
        for parameter in inspect.signature(function).parameters.values():
            kind = panels.get(parameter.name)
            alone = parameter.replace(annotation=hints[parameter.name])
            shown += [alone] if kind is None else _parameters(kind, without, helps)
        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in shown}  # typer reads both
        return run

    return made


def _parameters(kind: type[Any], without: Sequence[str], helps: dict[str, str]) -> Iterator[inspect.Parameter]:
    """The options of a panel, as typer reads them from a signature."""
    types = get_type_hints(kind)
    for one in fields(kind):
        if one.name in without:
            continue
        names, help, more = itemgetter("names", "help", "more")(one.metadata)
        if one.default is False and not names:
            names = [f"--{one.name.replace('_', '-')}"]  # else typer adds --no-...
        help = helps.get(one.name, help)
        shown = typer.Option(one.default, *names, help=help, rich_help_panel=kind.__panel__, **more)
        yield inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=shown, annotation=types[one.name])


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


@dataclass(frozen=True)
class OutputRule:
    """Outputs (n,) or (n, outputs) -> true or false for each; several outputs go by their class names."""

    expression: str
    option: str  # names it in errors
    classes: tuple[str, ...] | None

    def __call__(self, outputs: Array) -> Bools:
        import pandas as pd

        if np.ndim(outputs) == 1:
            return evaluated(pd.DataFrame({"output": outputs}), self.expression, self.option)
        names = self.classes or tuple(f"output{k}" for k in range(outputs.shape[1]))
        return evaluated(pd.DataFrame(outputs, columns=list(names)), self.expression, self.option)


def output_rule(expression: str | None, option: str, classes: Sequence[Any] | None) -> OutputRule | None:
    """The rule of an option; what is no expression is refused before anything is read."""
    if expression is None:
        return None
    names_in(expression, option)
    return OutputRule(expression, option, None if classes is None else tuple(map(str, classes)))


MODEL, ROWS, TEST = "The model", "Rows and columns", "The test"
BATCH_ROWS_HELP = "Rows the model gets at a time; sets the memory needed."


def given(**options: object) -> dict[str, Any]:
    """What was given; the rest is left to the library, so that its defaults stand in one place."""
    return {name: value for name, value in options.items() if value is not None}


def one_of(names: object) -> str:
    return f"One of {', '.join(get_args(names))}."


@panel()
class Output:
    out: Path = needed("Folder to write into; it is made if need be.")
    seed: int = option("The same seed gives the same result.", default=0)
    config: Path | None = option(
        "TOML file with options of this command, reference-where = \"group == 'control'\" and so on; options on the "
        "command line win, paths in the file are relative to it.",
        callback=read_config,
        is_eager=True,
    )
    json: bool = flag("Print the result as JSON on standard output, and nothing else there.")
    quiet: bool = flag("No progress bar and no notes on standard error.")


@panel(MODEL)
class Trust:
    trust_pickle: bool = flag("Load a pickled model. Unpickling runs code: only from people you trust.")
    trust: list[str] | None = option("A type in a .skops file that you know and trust; may be repeated.")

    ca_file: Path | None = option("Certificates (PEM) to trust of a model at an https address.")

    def load(self, model: str) -> Any:
        return load_model(model, trust_pickle=self.trust_pickle, trusted=self.trust or (), ca_file=self.ca_file)


@panel(TEST)
class TestOptions:
    """What `butfor.Settings` has of the test and of the choice, under the same names."""

    test: str | None = option(one_of(TestName))
    alternative: str | None = option(one_of(Alternative))
    rule: str | None = option(one_of(Rule))
    family: str | None = option(one_of(Family))
    alpha: float | None = option("The level of the guarantee. Default: 0.1.")
    target: str | None = option("Which output: its label or number, predicted, observed-class, or truth with --truth.")
    link: str | None = option("Scale of the effects: logit or log.")
    draws: int | None = option("Counterfactuals per hypothesis, or the most of them.")
    decide: str | None = option(
        'The decision that is asked about: an expression of the output, "output >= 0.4", or of class names, '
        '"malignant > 0.3". Default: the predicted class where there are several outputs.'
    )
    level: float | None = option("A subset is necessary where another decision is sure to be likelier. Default: 0.5.")
    min_effect: float | None = option("Choose only what moves the output by more than this.")
    picked: str | None = option('How the inputs were picked by their output, if they were: "output >= 0.9".')

    def settings(self, model: object) -> dict[str, Any]:
        """Keywords of `explain`; a target as it was typed stands for the class that is written so, of any type."""
        written = [name for name in wrap(model).classes or () if str(name) == self.target]
        target = int(self.target) if self.target is not None and self.target.isdecimal() else self.target
        classes = wrap(model).classes
        rules = {name: output_rule(getattr(self, name), f"--{name}", classes) for name in ("decide", "picked")}
        return given(**{**vars(self), **rules, "target": written[0] if written else target})


WORKERS_HELP = (
    "Workers: 1, a number (threads or processes, as is measured to be faster), threads:2, processes:2, or the address "
    "of a dask scheduler, tcp://host:8786. The result is the same."
)
TIMEOUT_HELP = "Seconds that one call of the model or the sampler may take."
RUN_DIR_HELP = (
    "Folder that keeps what is finished until the run is done, so that the same command, or butfor resume, goes on "
    "where it was cut short. Default: OUT/run."
)
ON_ERROR_HELP = "raise, or skip: go on where the model or the sampler fails; what it failed on is not tested."
AGAIN = "butfor resume {out}"


class Interrupted(Exception):
    """Ctrl-C or SIGTERM, with words on what is kept."""


@panel()
class Running:
    workers: str = option(WORKERS_HELP, default="1")
    timeout: float | None = option(TIMEOUT_HELP)
    run_dir: Path | None = option(RUN_DIR_HELP)


def stop_on_sigterm() -> None:
    """SIGTERM is what Ctrl-C is; only the main thread of a process may say so."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def kept(run_dir: Path | None, out: Path) -> Iterator[Path]:
    """The run directory; what is finished stays there until the result is written, and it is said how to go on."""
    place = run_dir or out / "run"
    missing = [folder for folder in (place, out) if not folder.exists()]
    try:
        with until_written():
            _remember(place)
            yield place
    except BaseException as error:
        refused = isinstance(error, InputError) and not isinstance(error, ModelUnreachable)
        if (place / FILE).exists() and not (refused and place in missing and not holds_units(place)):
            again = f"what is finished is kept; go on with: {AGAIN.format(out=run_dir or out)}"
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(f"stopped; {again}") from error
            if isinstance(error, ModelUnreachable):
                words = f"what it answered is kept in {place}: run the same command again to go on from there"
                raise InputError(f"{error}; {words}") from error
            raise
        if place in missing:
            clear(place)
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def _remember(place: Path) -> None:
    """How this process was called, for `resume`; a process that was called otherwise leaves it as it is."""
    given = CALLED.get("arguments")
    if given is None or (place / COMMAND).exists():
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / COMMAND).write_text(json.dumps({"arguments": given, "folder": os.getcwd()}), encoding="utf-8")
    except OSError as error:
        raise InputError(f"run_dir {place} cannot be used: {error.strerror or error}; name another folder") from error


CALLED: dict[str, list[str]] = {}  # how `main` was called


def command_of(folder: Path) -> list[str]:
    """The arguments of the run that was cut short in a folder; this process goes to where it was started."""
    place = next((one for one in (folder / "run", folder) if (one / COMMAND).exists()), None)
    if place is None:
        raise InputError(f"{folder} holds no run that was cut short; name the folder that --out or --run-dir named")
    try:
        told = json.loads((place / COMMAND).read_bytes())
        arguments, where = [str(one) for one in told["arguments"]], str(told["folder"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{place / COMMAND} cannot be read; give the whole command again") from error
    try:
        os.chdir(where)
    except OSError as error:
        raise InputError(f"the run was started in {where}, which is not there any more") from error
    return arguments


def argv() -> list[str]:
    """What was typed."""
    return sys.argv[1:]


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


def sourced(result: Result, **where: str) -> Result:
    """The result with words on where it came from, for its report."""
    return result.with_sources(**where)


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
    if result.record.interrupted:
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
