"""Result -> one HTML file that needs nothing else: no network, no script, no picture beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from butfor.core.result.result import Result
from butfor.core.types import InputError
from butfor.report.facts import facts

LONE = re.compile("[\ud800-\udfff\x00]")  # half a character, which no file can hold; and what ends a page


def write(result: Result, path: Path) -> Path:
    """Write the report, or nothing: the file appears whole under its name or not at all."""
    html = render(result)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(html, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)
    return path


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
    return LONE.sub("\ufffd", environment.get_template("report.html.j2").render(facts(result)))
