"""A result in a cell of a notebook: the sentence and the picture, small and quick."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from butfor.report import global_page
from butfor.report.answer import Picture, PictureLine, answer
from butfor.report.content import promise_line
from butfor.results.result import Result
from butfor.results.summary import headline, importance_headline

MOST_LINES = 12
BLUE, GREY = "#0072b2", "#8a949e"


def small_html(result: Result) -> str:
    """The answer in a sentence and a picture; everything that came from the user is escaped."""
    found = answer(result)
    return _small(found.headline, found.lead[:2], found.picture, headline(result), promise_line(result))


def small_global_html(result: Result) -> str:
    """The same of a global result."""
    page = global_page.content(result)
    key = "Blue: established; grey: not established. Second line: 95 % interval."
    picture = Picture(page["effect"], page["features"][:MOST_LINES], page["zero"], "zero", key)
    return _small(page["headline"], (page["lead"],), picture, importance_headline(result), page["promise"])


def _small(said: str, lead: Sequence[str], picture: Picture | None, made: str, promise: str) -> str:
    more = "".join(f"<p style='margin:.2em 0'>{escape(line)}</p>" for line in lead)
    return (
        f"<div style='max-width:46em'><p style='font-size:1.15em;font-weight:600;margin:.3em 0'>"
        f"{escape(said)}</p>{more}{'' if picture is None else _table(picture)}"
        f"<p style='margin:.5em 0 .3em'><b>{escape(promise)}</b></p>"
        f"<p style='margin:.3em 0;font-size:.88em;opacity:.75'>{escape(made)}. "
        f"<code>result.report(&quot;report.html&quot;)</code> has the rest.</p></div>"
    )


def _table(picture: Picture) -> str:
    rows = "".join(_row(line, picture) for line in picture.lines)
    level = f" The line: {picture.mark_name}." if picture.mark_name.startswith("level") else ""
    key = f"<p style='margin:.2em 0;font-size:.85em;opacity:.75'>{escape(picture.key + level)}</p>"
    return (
        f"<table style='width:100%;table-layout:fixed;border-collapse:collapse'>"
        f"<caption style='text-align:left;font-size:.88em;opacity:.8'>"
        f"{escape(picture.title)}</caption><colgroup><col><col style='width:34%'><col style='width:9.5em'></colgroup>"
        f"<tbody>{rows}</tbody></table>{key if picture.mark_name else ''}"
    )


def _row(line: PictureLine, picture: Picture) -> str:
    colour = BLUE if line.sure else GREY
    shade = "" if line.sure else "opacity:.75;"
    value = f" = {line.value}" if line.value else ""
    interval = f"<br><small>{escape(line.interval)}</small>" if line.interval else ""
    return (
        f"<tr><td style='text-align:left;overflow-wrap:anywhere;{shade}'>{escape(line.name + value)}</td>"
        f"<td>{_track(line, picture, colour)}</td>"
        f"<td style='text-align:right;{shade}'>{escape(line.said)}{interval}</td></tr>"
    )


def _track(line: PictureLine, picture: Picture, colour: str) -> str:
    if not picture.mark_name:  # a count: a bar from nothing
        return (
            f"<svg width='100%' height='14'><line x1='2%' x2='{line.middle:.2f}%' y1='7' y2='7' stroke='{colour}' "
            "stroke-width='10'/></svg>"
        )
    mark = f"<line x1='{picture.mark:.2f}%' x2='{picture.mark:.2f}%' y1='0' y2='14' stroke='#8a949e'/>"
    if line.middle is None:
        return f"<svg width='100%' height='14'>{mark}</svg>"
    low, high = (line.middle if end is None else end for end in (line.low, line.high))
    return (
        f"<svg width='100%' height='14' style='overflow:visible'>{mark}<line x1='{low:.2f}%' x2='{high:.2f}%' "
        f"y1='7' y2='7' stroke='{colour}' stroke-width='5' stroke-opacity='.45'/>"
        f"<circle cx='{line.middle:.2f}%' cy='7' r='3.5' "
        f"fill='{colour}'/></svg>"
    )
