"""Result -> one HTML file that needs nothing else: no network, no picture beside it, and no script but its own."""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from butfor.report.content import content, treatment_content
from butfor.results.io import write_files, write_whole
from butfor.results.result import Result
from butfor.results.treatment import Treatment
from butfor.types import InputError


def write(result: Result | Treatment, path: Path) -> Path:
    """Write the report, or nothing."""
    html = render(result)
    return write_whole(path, lambda part: part.write_text(html, encoding="utf-8"))


def render(result: Result | Treatment) -> str:
    """Return the page as text; everything that came from the user is escaped."""
    if isinstance(result, Treatment):
        return filled("treatment.html.j2", treatment_content(result))
    if result.is_global:
        return filled("global.html.j2", content(result))
    script = Path(__file__).with_name("report.js").read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return filled("report.html.j2", {**content(result), "script": script, "allowed": allowed})


def filled(template: str, names: dict[str, Any], *folders: Path, **filters: Callable[..., str]) -> str:
    """Return a template of these folders, or of this one, with everything that it names."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= filters
    page = environment.get_template(template).render(names)
    return re.sub("[\ud800-\udfff\x00]", "\ufffd", page)  # half a character, which no file can hold; an end of page


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


def write_folder(result: Result, out: Path, more: Mapping[str, Callable[[Path], Any]] | None = None) -> None:
    """Write `result.butfor`, `table.csv`, `report.html` and `more` into `out`, beside whatever else is there."""
    files: dict[str, Callable[[Path], Any]] = {
        RESULT: result.save,
        TABLE: lambda path: result.table.to_csv(path, index=False),
        REPORT: lambda path: write(result, path),
    }
    write_files({**files, **(more or {})}, out)


def save_png(plot: Callable[[Any], object], path: Path, lines: int) -> None:
    """Write a plot of so many lines as a picture; needs no window system."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, min(1.5 + 0.3 * lines, 40)), layout="constrained")
    plot(figure.add_subplot())
    figure.savefig(path, dpi=120)
