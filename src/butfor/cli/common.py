"""What the commands share beyond their options: notes, the progress bar, targets, samplers, models."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from butfor.cli.options import SAMPLERS
from butfor.core.types import InputError
from butfor.models import wrap


def given(**options: Any) -> dict[str, Any]:
    """What was given; the rest is left to the library, so that its defaults stand in one place."""
    return {name: value for name, value in options.items() if value is not None}


def sampler_named(name: str) -> Callable[[Any], Any]:
    if name not in SAMPLERS:
        raise InputError(f"--sampler must be one of {', '.join(SAMPLERS)}, got {name!r}")
    return SAMPLERS[name]


def loaded(model: str, trust_pickle: bool, trust: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """The model, and the columns that it says it was fitted on."""
    from butfor.models.files import load_model

    box = load_model(model, trust_pickle=trust_pickle, trusted=trust or ())
    columns = wrap(box).columns
    return box, None if columns is None else [str(name) for name in columns]


def target_of(typed: str | None, model: Any) -> Any:
    """A label of the model's, a number or a word; typed text stands for a label of any type."""
    labels = [label for label in wrap(model).classes or () if str(label) == typed]
    if labels or typed is None:
        return labels[0] if labels else None
    return int(typed) if typed.isdecimal() else typed


@contextmanager
def notes(quiet: bool) -> Iterator[None]:
    """Warnings as one plain line each on standard error, the same one only once."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in said:
            said.add(line)
            typer.echo(f"note: {line}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not quiet:
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = show
        yield


def bar(quiet: bool) -> bool:
    return not quiet and sys.stderr.isatty()  # a log file is no place for a bar


def save_png(plot: Callable[[Any], Any], path: Path, lines: int) -> None:
    """A plot of so many lines as a picture; no window system is asked for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, min(1.5 + 0.3 * lines, 40)), layout="constrained")
    plot(figure.add_subplot())
    figure.savefig(path, dpi=120)


def print_written(out: Path, files: dict[str, str]) -> None:
    """Where things are now, one line each."""
    width = max(map(len, files)) + 2
    typer.echo("\n" + "\n".join(f"{f'{what}:':<{width}}{out / name}" for what, name in files.items()))
