"""Result -> one HTML file that needs nothing else: no network, no script, no picture beside it."""

from __future__ import annotations

import re
from pathlib import Path

from butfor.core.result.result import Result
from butfor.core.result.storage import write_whole
from butfor.report.content import content

LONE = re.compile("[\ud800-\udfff\x00]")  # half a character, which no file can hold; and what ends a page


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
    return LONE.sub("\ufffd", environment.get_template("report.html.j2").render(content(result)))
