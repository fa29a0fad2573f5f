"""Result -> one HTML file that needs nothing else: no network, no picture beside it, and no script but its own."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from butfor.core.result.global_result import GlobalResult
from butfor.core.result.result import Result
from butfor.core.result.storage import write_whole
from butfor.report import global_page
from butfor.report.content import content

LONE = re.compile("[\ud800-\udfff\x00]")  # half a character, which no file can hold; and what ends a page
SCRIPT = Path(__file__).with_name("report.js")


def write(result: Result | GlobalResult, path: Path) -> Path:
    """Write the report, or nothing."""
    html = render(result)
    return write_whole(path, lambda part: part.write_text(html, encoding="utf-8"))


def render(result: Result | GlobalResult) -> str:
    """The page as text; everything that came from the user is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    if isinstance(result, GlobalResult):
        return LONE.sub("\ufffd", environment.get_template("global.html.j2").render(global_page.content(result)))
    script = SCRIPT.read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    page = environment.get_template("report.html.j2").render(content(result), script=script, allowed=allowed)
    return LONE.sub("\ufffd", page)
