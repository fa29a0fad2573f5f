"""Result -> one HTML file that needs nothing else: no network, no picture beside it, and no script but its own."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from butfor.report import global_page
from butfor.report.content import content
from butfor.results.io import write_whole
from butfor.results.result import Result
from butfor.types import InputError

LONE = re.compile("[\ud800-\udfff\x00]")  # half a character, which no file can hold; and what ends a page
SCRIPT = Path(__file__).with_name("report.js")


def write(result: Result, path: Path) -> Path:
    """Write the report, or nothing."""
    html = render(result)
    return write_whole(path, lambda part: part.write_text(html, encoding="utf-8"))


def render(result: Result) -> str:
    """The page as text; everything that came from the user is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    if result.is_global:
        return LONE.sub("\ufffd", environment.get_template("global.html.j2").render(global_page.content(result)))
    script = SCRIPT.read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    page = environment.get_template("report.html.j2").render(content(result), script=script, allowed=allowed)
    return LONE.sub("\ufffd", page)


RESULT, TABLE, REPORT = "result.butfor", "table.csv", "report.html"


def check_folder(out: Path) -> None:
    """Raise where nothing could be written, before any work is done; creates nothing."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder")
    nearest = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".part-", dir=nearest):
            pass
    except OSError as error:
        raise InputError(
            f"--out {out} cannot be made: {nearest} is not a folder one may write to; name another"
        ) from error


def write_folder(result: Result, out: Path) -> None:
    """Write `result.butfor`, `table.csv` and `report.html` into `out`, beside whatever else is there."""
    files: dict[str, Callable[[Path], Any]] = {
        RESULT: result.save,
        TABLE: lambda path: result.table.to_csv(path, index=False),
        REPORT: lambda path: write(result, path),
    }
    write_files(files, out)


def write_files(files: Mapping[str, Callable[[Path], Any]], out: Path) -> None:
    """Write files into `out` by what writes each of them; they appear when all are there, or none does."""
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".part-", dir=out) as stage:
            for name, write_one in files.items():
                write_one(Path(stage) / name)
                _to_disk(Path(stage) / name)
            for name in files:
                os.replace(Path(stage) / name, out / name)
            _to_disk(out)
    except BaseException as error:
        if made:
            with suppress(OSError):
                out.rmdir()  # what else is there, as a run directory, stays
        if isinstance(error, OSError):
            raise InputError(f"cannot write into {out}: {error.strerror or error}; name another folder") from error
        raise


def _to_disk(path: Path) -> None:
    """See that a file, or what a folder lists, is on disk, not on its way there: what it came from is deleted next."""
    if path.is_dir() and os.name == "nt":
        return  # folders cannot be opened there
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def save_png(plot: Callable[[Any], object], path: Path, lines: int) -> None:
    """A plot of so many lines as a picture; no window system is asked for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, min(1.5 + 0.3 * lines, 40)), layout="constrained")
    plot(figure.add_subplot())
    figure.savefig(path, dpi=120)
