"""A result in a cell of a notebook: the answer and the chart, small and quick."""

from __future__ import annotations

from html import escape

from butfor.results.result import Result
from butfor.results.view import Chart, Line, view

MOST_LINES = 12
BLUE, GREY = "#0072b2", "#8a949e"


def small_html(result: Result) -> str:
    """Return the lines of the answer and a chart; everything that came from the user is escaped."""
    shown = view(result)
    lines = "".join(
        f"<p style='margin:.2em 0'><b>{escape(line.question)}:</b> {escape(line.text)}</p>" for line in shown.lines[1:]
    )
    return (
        f"<div style='max-width:60em'><p style='font-size:1.15em;font-weight:600;margin:.3em 0'>"
        f"{escape(shown.lines[0].text)}</p>{lines}{'' if shown.chart is None else _table(shown.chart)}"
        f"<p style='margin:.3em 0;font-size:.88em;opacity:.75'>"
        f"<code>result.report(&quot;report.html&quot;)</code> has the rest.</p></div>"
    )


def _table(chart: Chart) -> str:
    rows = "".join(_row(line, chart) for line in chart.lines[:MOST_LINES])
    key = escape(f"{chart.key} {chart.key_of_mark}".strip())
    return (
        f"<table style='width:100%;table-layout:fixed;border-collapse:collapse'>"
        f"<caption style='text-align:left;font-size:.88em;opacity:.8'>"
        f"{escape(chart.title)}</caption><colgroup><col><col style='width:34%'><col style='width:9.5em'></colgroup>"
        f"<tbody>{rows}</tbody></table>"
        + (f"<p style='margin:.2em 0;font-size:.85em;opacity:.75'>{key}</p>" if key else "")
    )


def _row(line: Line, chart: Chart) -> str:
    colour, shade = (BLUE, "") if line.sure else (GREY, "opacity:.75;")
    value = f" = {line.value}" if line.value else ""
    interval = f"<br><small>{escape(line.interval)}</small>" if line.interval else ""
    dash = " stroke-dasharray='3'" if chart.kind == "level" else ""
    track = f"<line x1='{chart.mark:.2f}%' x2='{chart.mark:.2f}%' y1='0' y2='14' stroke='{GREY}'{dash}/>"
    if chart.kind == "count":
        track = f"<line x1='2%' x2='{line.middle:.2f}%' y1='7' y2='7' stroke='{colour}' stroke-width='10'/>"
    elif line.middle is not None:
        low, high = (line.middle if end is None else end for end in (line.low, line.high))
        track += (
            f"<line x1='{low:.2f}%' x2='{high:.2f}%' y1='7' y2='7' stroke='{colour}' stroke-width='5' "
            f"stroke-opacity='.45'/><circle cx='{line.middle:.2f}%' cy='7' r='3.5' fill='{colour}'/>"
        )
    return (
        f"<tr><td style='text-align:left;overflow-wrap:anywhere;{shade}'>{escape(line.name + value)}</td>"
        f"<td><svg width='100%' height='14' style='overflow:visible'>{track}</svg></td>"
        f"<td style='text-align:right;{shade}'>{escape(line.text)}{interval}</td></tr>"
    )
