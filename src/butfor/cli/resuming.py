"""Runs that are stopped: what is kept, how it is said, and how they go on."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from butfor.cli.panels import option, panel
from butfor.core.types import InputError
from butfor.engine.journal import until_written
from butfor.engine.store import COMMAND, FILE, clear, holds_units
from butfor.models import ModelUnreachable

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
