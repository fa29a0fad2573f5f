"""A result in a cell of a notebook: the sentence and the picture, small and quick."""

from __future__ import annotations

from html import escape

from butfor.core.result.result import Result
from butfor.core.result.summary import headline
from butfor.report.answer import answer
from butfor.report.content import promise_line
from butfor.report.lines import Picture, PictureLine

BLUE, GREY = "#0072b2", "#8a949e"


def small_html(result: Result) -> str:
    """The answer in a sentence and a picture; everything that came from the user is escaped."""
    found = answer(result)
    lead = "".join(f"<p style='margin:.2em 0'>{escape(line)}</p>" for line in found.lead[:2])
    picture = "" if found.picture is None else _table(found.picture)
    return (
        f"<div style='max-width:46em'><p style='font-size:1.15em;font-weight:600;margin:.3em 0'>"
        f"{escape(found.headline)}</p>{lead}{picture}"
        f"<p style='margin:.3em 0;font-size:.88em;opacity:.75'>{escape(headline(result))}. "
        f"{escape(promise_line(result))} <code>result.report(&quot;report.html&quot;)</code> has the rest.</p></div>"
    )


def _table(picture: Picture) -> str:
    rows = "".join(_row(line, picture) for line in picture.lines)
    return (
        f"<table style='width:100%;border-collapse:collapse'>"
        f"<caption style='text-align:left;font-size:.88em;opacity:.8'>"
        f"{escape(picture.title)}</caption><tbody>{rows}</tbody></table>"
    )


def _row(line: PictureLine, picture: Picture) -> str:
    colour = BLUE if line.sure else GREY
    shade = "" if line.sure else "opacity:.75;"
    value = f" = {line.value}" if line.value else ""
    interval = f" ({line.interval})" if line.interval else ""
    return (
        f"<tr><td style='text-align:left;{shade}'>{escape(line.name + value)}</td><td style='width:45%'>"
        f"{_track(line, picture, colour)}</td><td style='text-align:right;white-space:nowrap;{shade}'>"
        f"{escape(line.said + interval)}</td></tr>"
    )


def _track(line: PictureLine, picture: Picture, colour: str) -> str:
    mark = f"<line x1='{picture.mark:.2f}%' x2='{picture.mark:.2f}%' y1='0' y2='14' stroke='#8a949e'/>"
    if line.middle is None:
        return f"<svg width='100%' height='14'>{mark}</svg>"
    low, high = (line.middle if end is None else end for end in (line.low, line.high))
    wide = "10" if not picture.mark_name else "5"
    return (
        f"<svg width='100%' height='14' style='overflow:visible'>{mark}<line x1='{low:.2f}%' x2='{high:.2f}%' "
        f"y1='7' y2='7' stroke='{colour}' stroke-width='{wide}' stroke-opacity='.45'/>"
        f"<circle cx='{line.middle:.2f}%' cy='7' r='3.5' "
        f"fill='{colour}'/></svg>"
    )
