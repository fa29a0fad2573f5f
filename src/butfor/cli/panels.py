"""Options as data: a panel of a command's help is a frozen dataclass whose fields are options; commands take panels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from operator import itemgetter
from typing import Any, TypeVar, dataclass_transform, get_type_hints

import typer

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
