"""A result in words, for terminals and notebooks."""

from __future__ import annotations

import textwrap
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from butfor.core.result import Result

WIDTH = 110


def headline(result: Result) -> str:
    """One sentence: how many of how many, by which test."""
    said, evidence = result.provenance, result.evidence
    family = "over the run" if result.family == "run" else "within each input"
    drawn = "one draw" if evidence.draws == 1 else f"{evidence.draws} draws"
    return (
        f"{int(result.chosen.sum())} of {len(result.chosen)} hypotheses chosen "
        f"({len(result.input_names)} inputs, {len(result.subset_names)} subsets; {said['test']}, {drawn} each, "
        f"{said['alternative']}, {result.rule} at {result.alpha:g} {family}; {result.rows:,} model rows)"
    )


def by_subset(result: Result) -> list[tuple[str, int, int, float]]:
    """Per subset: name, inputs it was chosen for, inputs it was tested on, mean effect where chosen (NaN: none)."""
    size = len(result.subset_names)
    chosen = np.bincount(result.subset_of, weights=result.chosen, minlength=size)
    tested = np.bincount(result.subset_of, minlength=size)
    known = result.chosen & ~np.isnan(result.effects.effect)
    total = np.bincount(result.subset_of[known], weights=result.effects.effect[known], minlength=size)
    count = np.bincount(result.subset_of[known], minlength=size)
    mean = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
    order = np.argsort(-chosen, kind="stable")
    return [(result.subset_names[j], int(chosen[j]), int(tested[j]), float(mean[j])) for j in order]


def summary(result: Result, most: int = 15) -> str:
    """Headline, the subsets chosen most often, notes, guarantee."""
    lines = [*textwrap.wrap(headline(result), WIDTH), ""]
    rows = [row for row in by_subset(result) if row[1]]
    if rows:
        width = max(len("subset"), *(len(row[0]) for row in rows[:most]))
        lines.append(f"{'subset':<{width}}  chosen for  mean effect")
        for name, chosen, tested, effect in rows[:most]:
            shown = "" if np.isnan(effect) else f"{effect:+.3g}"
            lines.append(f"{name:<{width}}  {f'{chosen} of {tested}':>10}  {shown:>11}")
        if len(rows) > most:
            lines.append(f"... and {len(rows) - most} more subsets; see result.table")
        lines.append("")
    for note in result.notes:
        lines += textwrap.wrap(f"Note: {note}", WIDTH)
    lines += textwrap.wrap(f"Guarantee: {result.guarantee}", WIDTH)
    return "\n".join(lines)


def summary_html(result: Result) -> str:
    """The same for a notebook."""
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td>{chosen} of {tested}</td>"
        f"<td>{'' if np.isnan(effect) else f'{effect:+.3g}'}</td></tr>"
        for name, chosen, tested, effect in by_subset(result)
        if chosen
    )
    table = f"<table><tr><th>subset</th><th>chosen for</th><th>mean effect</th></tr>{rows}</table>" if rows else ""
    notes = "".join(f"<p><b>Note:</b> {escape(note)}</p>" for note in result.notes)
    return f"<p>{escape(headline(result))}</p>{table}{notes}<p><b>Guarantee:</b> {escape(str(result.guarantee))}</p>"
