"""Options of the commands: those generated from `Settings` and `RunOptions`, and those that only a shell needs."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import sys
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import typer
from typer.core import TyperOption

from butfor.evaluation.journal import COMMAND, FILE, clear, holds_units, until_written
from butfor.evaluation.progress import Progress, reporting
from butfor.report.write import REPORT, RESULT, TABLE, check_folder, write_folder
from butfor.settings import RuleName, RunOptions, Settings, TestName
from butfor.types import Array, Bools, InputError
from butfor.untrusted import private_file, private_folder, read_bounded

if TYPE_CHECKING:
    from butfor.results.result import Result

Command = Callable[..., None]
KEYWORD = inspect.Parameter.KEYWORD_ONLY
MODEL, ROWS, TEST, RUN = "The model", "Rows and columns", "The test", "The run"


def command(
    *, only: Sequence[str] | None = None, without: Sequence[str] = (), **helps: str
) -> Callable[[Command], Command]:
    """Make a typer command of a function of panels and settings.

    A panel is a dataclass whose fields are options: typer sees the fields, the function gets the panel. `**settings`
    stands for the fields of `Settings` and `RunOptions` (those of `only`, or all but `without`); the function gets
    those that were given, so that the defaults of the library hold for the others. `helps` replaces the help of some.
    """

    def decorate(function: Command) -> Command:
        hints = get_type_hints(function, include_extras=True)
        panels: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(function).parameters.values():
            if (panel := panels.get(parameter.name)) is not None:
                described = get_type_hints(panel, include_extras=True)
                for one in fields(panel):
                    described[one.name].__metadata__[0].rich_help_panel = panel.panel
                    default = inspect.Parameter.empty if one.default is MISSING else one.default
                    parameters.append(
                        inspect.Parameter(one.name, KEYWORD, default=default, annotation=described[one.name])
                    )
            elif parameter.kind is parameter.VAR_KEYWORD:
                known = {one.name for one in parameters}  # options of the command win over those generated
                more = [one for one in _settings_options(helps) if one.name not in known]
                parameters += [one for one in more if only is None or one.name in only]
            else:
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
        parameters = [one for one in parameters if one.name not in without]

        @wraps(function)
        def run(**values: Any) -> None:
            filled = {
                name: kind(**{one.name: values.pop(one.name) for one in fields(kind) if one.name in values})
                for name, kind in panels.items()
            }
            function(**filled, **{name: value for name, value in values.items() if value is not None})

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}  # typer reads both
        return run

    return decorate


NOT_TYPED = ("y", "groups", "reference_groups", "weights_by", "seed", "options", "progress")  # columns; of all commands
HELPS = {  # where the library takes an object or a function
    "test": f"One of {', '.join(get_args(TestName))}. Default: sequential for tables and texts, few-shot for images.",
    "rule": f"One of {', '.join(get_args(RuleName))}: how hypotheses are chosen from the evidence. The default fits "
    "the test.",
    "target": "Which output: its label or number, predicted, observed-class, or truth with --truth.",
    "decide": 'The decision that is explained: an expression of the output, "output >= 0.4", or of class names, '
    '"malignant > 0.3". Default: the predicted class where there are several outputs.',
    "picked": 'The rule by which inputs were picked by their output, if they were: "output >= 0.9".',
    "workers": "1, a number of processes, threads:2, processes:2, or the address of a dask scheduler, "
    "tcp://host:8786. The result is the same.",
    "run_dir": "Folder that keeps what is finished until the run is done, so that the same command, or butfor resume, "
    "continues a run that was interrupted. Default: OUT/run.",
}


TYPED: dict[object, type] = {bool: bool, int: int, float: float, os.PathLike[str]: Path}  # everything else is text


def _settings_options(helps: dict[str, str]) -> Iterator[inspect.Parameter]:
    """Yield an option for each field of the settings: its type, choices, default and description."""
    for kind, panel in ((Settings, TEST), (RunOptions, RUN)):
        hints, described = get_type_hints(kind, localns={"Progress": Progress}), _descriptions(kind)
        for one in fields(kind):
            if one.name in NOT_TYPED:
                continue
            hint, name = hints[one.name], one.name.replace("_", "-")
            parts = (hint, *get_args(hint))  # of a union
            choices = [str(choice) for part in parts if get_origin(part) is Literal for choice in get_args(part)]
            typed = next((TYPED[part] for part in TYPED if part in parts and not choices), str)
            help = (HELPS | helps).get(one.name)
            if help is None:
                help = re.sub(r"\bFalse\b", f"--no-{name}", described[one.name])
                if choices:
                    choices += ["none"] if type(None) in parts and one.default is not None else []
                    help = f"One of {', '.join(choices)}. {help}"
                if one.default is not None and typed is not bool:
                    help += f" Default: {one.default}."
            names = f"--{name}/--no-{name}" if one.default is True else f"--{name}"
            info = typer.Option(names, help=help, rich_help_panel=panel)
            annotation = Annotated[typed | None, info]  # type: ignore[valid-type]
            yield inspect.Parameter(one.name, KEYWORD, default=None, annotation=annotation)


def _descriptions(kind: type) -> dict[str, str]:
    """Return the descriptions of the Parameters section of a docstring, as a shell would put them."""
    _, _, entries = inspect.cleandoc(kind.__doc__ or "").partition("----------\n")
    described = {}
    for entry in re.split(r"\n(?=\w+ : )", entries):
        head, _, text = entry.partition("\n")
        text = re.sub(r"(^|\. )None (is|fits)\b", r"\1The default \2", " ".join(text.split()))
        text = re.sub(r"\bNone (is|fits)\b", r"the default \1", text).replace(" None ", " none ")
        described[head.partition(" : ")[0]] = re.sub(r'[`"]', "", text)
    return described


def library_settings(settings: Mapping[str, Any], model: object) -> dict[str, Any]:
    """Return what was typed as keywords of the library: expressions as functions, the target as a class or a number."""
    from butfor.models import wrap
    from butfor.models.files import target_named
    from butfor.tabular.files import names_in

    made, classes = dict(settings), wrap(model).classes
    if "target" in made:
        made["target"] = target_named(made["target"], classes)
    for name in {"decide", "picked"} & made.keys():
        names_in(made[name], f"--{name}")  # what is no expression is refused before anything is read
        made[name] = OutputRule(made[name], f"--{name}", None if classes is None else tuple(map(str, classes)))
    if made.get("effects") == "none":
        made["effects"] = None
    return made


@dataclass(frozen=True)
class OutputRule:
    """Outputs (n,) or (n, outputs) -> true or false for each; several outputs go by their class names."""

    expression: str
    option: str  # names it in errors
    classes: tuple[str, ...] | None

    def __call__(self, outputs: Array) -> Bools:
        import pandas as pd

        from butfor.tabular.files import evaluated

        if np.ndim(outputs) == 1:
            return evaluated(pd.DataFrame({"output": outputs}), self.expression, self.option)
        names = self.classes or tuple(f"output{k}" for k in range(outputs.shape[1]))
        return evaluated(pd.DataFrame(outputs, columns=list(names)), self.expression, self.option)


FILES = ("ca_file", "data", "held_out", "model", "out", "reference", "run_dir", "subsets")  # options that are paths


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of the file the defaults of the command that is about to run."""
    if path is not None:
        typed = [option for option in context.command.params if isinstance(option, TyperOption)]
        options = {name.removeprefix("--"): option for option in typed for name in option.opts}
        del options["config"]
        context.default_map = _defaults(parsed_config(path), options, path)
    return path


def parsed_config(path: Path) -> dict[str, Any]:
    content = read_bounded(path, "--config", 1_000_000)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError
        raise InputError(f"--config {path} is not TOML: {' '.join(str(error).split())}") from error


def _defaults(given: dict[str, Any], options: dict[str, TyperOption], path: Path) -> dict[str, Any]:
    """Return the values as they would be typed: then they are checked as if they were."""
    defaults: dict[str, Any] = {}
    for key, value in given.items():
        name = key.replace("_", "-")
        if name not in options:
            near = get_close_matches(name, options, n=3, cutoff=0.5) or sorted(options)
            raise InputError(f"--config {path}: there is no option {key!r} here; the nearest are {', '.join(near)}")
        option = options[name]
        if option.name in defaults:
            raise InputError(f"--config {path}: {key!r} is given twice; give it once")
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(one, str | int | float) for one in values):
            raise InputError(f"--config {path}: {key} = {value!r} is no text, number or true/false")
        if isinstance(value, list) and not option.multiple:
            raise InputError(f"--config {path}: {key} takes one value, got a list of {len(value)}")
        typed = [str(one).lower() if isinstance(one, bool) else str(one) for one in values]
        if option.name in FILES:
            addresses = ("http://", "https://")
            typed = [t if t.lower().startswith(addresses) else str(path.parent / Path(t).expanduser()) for t in typed]
        defaults[str(option.name)] = typed if option.multiple else typed[0]
    return defaults


def opt(help: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Describe an option; `names` where that of its parameter will not do, as for flags without a --no-."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


CONFIG_HELP = (
    "TOML file with options of this command, reference-where = \"group == 'control'\" and so on; options on the "
    "command line win, paths in the file are relative to it."
)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Options of every command that writes a folder."""

    panel = None
    out: Annotated[Path, opt("Folder to write into; it is made if need be.")]
    seed: Annotated[int, opt("The same seed gives the same result.")] = 0
    config: Annotated[Path | None, opt(CONFIG_HELP, callback=read_config, is_eager=True)] = None
    json: Annotated[bool, opt("Print the result as JSON on standard output, and nothing else there.", "--json")] = False
    quiet: Annotated[bool, opt("No progress bar and no notes on standard error.", "--quiet")] = False

    def how(self, run_dir: Path) -> dict[str, Any]:
        """Return how a run is to be done, as keywords of the library."""
        return {"seed": self.seed, "run_dir": run_dir, "progress": bar(self)}


@dataclass(frozen=True, kw_only=True)
class Trust:
    panel = MODEL
    trust_pickle: Annotated[
        bool, opt("Load a pickled model. Unpickling runs code: only from people you trust.", "--trust-pickle")
    ] = False
    trust: Annotated[list[str] | None, opt("A type in a .skops file that you know and trust; may be repeated.")] = None
    ca_file: Annotated[Path | None, opt("Certificates (PEM) to trust of a model at an https address.")] = None

    def load(self, model: str) -> Any:
        from butfor.models.files import load_model

        return load_model(model, trust_pickle=self.trust_pickle, trusted=self.trust or (), ca_file=self.ca_file)


CALLED: dict[str, list[str]] = {}  # how `main` was called
AGAIN = "butfor resume {out}"


class Interrupted(Exception):
    """Ctrl-C or SIGTERM; the message says what is kept."""


def stop_on_sigterm() -> None:
    """Treat SIGTERM as Ctrl-C; only the main thread of a process may do so."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def kept(run_dir: Path | None, out: Path, answers: str = FILE) -> Iterator[Path]:
    """Yield the run directory: what is finished stays in its file `answers` until the result is written."""
    from butfor.models import ModelUnreachable

    folder = run_dir or out / "run"
    missing = [one for one in (folder, out) if not one.exists()]
    try:
        with until_written():
            remember(folder)
            yield folder
    except BaseException as error:
        refused = isinstance(error, InputError) and not isinstance(error, ModelUnreachable)
        useless = answers == FILE and refused and folder in missing and not holds_units(folder)
        if (folder / answers).exists() and not useless:
            if isinstance(error, KeyboardInterrupt):
                again = AGAIN.format(out=run_dir or out)
                raise Interrupted(f"stopped; what is finished is kept; go on with: {again}") from error
            if isinstance(error, ModelUnreachable):
                words = f"what it answered is kept in {folder}: run the same command again to go on from there"
                raise InputError(f"{error}; {words}") from error
            raise
        if folder in missing:
            clear(folder)
        for one in missing:
            with suppress(OSError):
                one.rmdir()
        raise
    if answers != FILE:  # a journal clears up by itself
        (folder / answers).unlink(missing_ok=True)
        clear(folder)


def remember(folder: Path) -> None:
    """Write how this process was called, for `resume`, unless a process before it has."""
    arguments = CALLED.get("arguments")
    if arguments is None or (folder / COMMAND).exists():
        return
    try:
        private_folder(folder)
        called = json.dumps({"arguments": arguments, "folder": os.getcwd()})
        private_file(folder / COMMAND).write_text(called, encoding="utf-8")
    except OSError as error:
        raise InputError(f"run_dir {folder} cannot be used: {error.strerror or error}; name another folder") from error


def command_of(out: Path) -> list[str]:
    """Return the arguments of the interrupted run of a folder, after a change to where it was started."""
    folder = next((one for one in (out / "run", out) if (one / COMMAND).exists()), None)
    if folder is None:
        raise InputError(f"{out} holds no run that was cut short; name the folder that --out or --run-dir named")
    try:
        called = json.loads((folder / COMMAND).read_bytes())
        arguments, where = [str(one) for one in called["arguments"]], str(called["folder"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{folder / COMMAND} cannot be read; give the whole command again") from error
    try:
        os.chdir(where)
    except OSError as error:
        raise InputError(f"the run was started in {where}, which is not there any more") from error
    return arguments


FOLDER = {"Report": REPORT, "Table": TABLE, "Result": RESULT}  # what `write_folder` writes


@contextmanager
def working(output: Output) -> Iterator[None]:
    """Refuse a folder that cannot be written; then send notes, and what a model prints, to standard error."""
    check_folder(output.out)
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        line = " ".join(str(message).split())
        if line not in shown:  # the same one only once
            shown.add(line)
            typer.echo(f"note: {line}", err=True)

    with warnings.catch_warnings(), redirect_stdout(sys.stderr):  # nothing else may get into the JSON
        warnings.simplefilter("ignore")
        if not output.quiet:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = show
        yield


def bar(output: Output) -> bool:
    return not output.quiet and sys.stderr.isatty()  # not into a log file


def written(result: Result, output: Output, **sources: str) -> Result:
    """Return the result with its sources, after writing its folder."""
    result, count = result.with_sources(**sources), len(FOLDER)
    with reporting(bar(output)) as report:
        report(Progress("report", 0, count))
        write_folder(result, output.out)
        report(Progress("report", count, count))
    return result


def finish(
    output: Output, words: Callable[[], str], as_json: Callable[[], str], files: Mapping[str, str] = FOLDER
) -> None:
    """Print JSON and nothing else; or words, and where the files are, one line each."""
    if output.json:
        typer.echo(as_json())
        return
    width = max(map(len, files)) + 2
    lines = [f"{f'{title}:':<{width}}{output.out / name}" for title, name in files.items()]
    typer.echo("\n".join([words(), "", *lines]))


def stopped_early(result: Result, output: Output) -> None:
    """Raise where a run was interrupted: what was decided is written, the rest can be had later."""
    if result.record.interrupted:
        raise Interrupted(f"stopped; what was decided by then is written; go on with: {AGAIN.format(out=output.out)}")
