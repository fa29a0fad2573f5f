"""A global result in words, for terminals and notebooks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from butfor.core.result.global_result import GlobalResult

WIDTH = 110


def headline(result: GlobalResult) -> str:
    """One sentence: how many of how many, by which test."""
    said, found = result.provenance, result.evidence
    if result.mode == "holdout":
        test = f"holdout randomisation test, {said['loss']} loss"
    else:
        test = f"contrast with the reference, {said['alternative']}"
    drawn = {0: "exact, no draws", 1: "one draw of each input"}.get(found.draws, f"{found.draws} draws of each input")
    by = f"{found.passes} passes" if found.passes else "Student's t with the error of the sampler's fit"
    return (
        f"{int(result.chosen.sum())} of {len(result.chosen)} subsets chosen over {result.inputs} inputs ({test}; "
        f"{drawn}, {by}, {result.rule} at {result.alpha:g}; {result.rows:,} model rows)"
    )


def effect_name(result: GlobalResult) -> str:
    """What the effect measures, in a few words."""
    if result.mode == "holdout":
        return f"mean increase of the {result.provenance['loss']} loss when redrawn"
    link = result.provenance.get("link")
    return f"mean {f'{link} of the output' if link else 'output'} minus mean counterfactual"


def ranked(result: GlobalResult) -> list[tuple[str, float, float, float, float]]:
    """Chosen subsets, largest effect first: name, effect, low, high, p."""
    effects, p = result.effects, result.evidence.p
    order = np.lexsort((p, -np.abs(np.nan_to_num(effects.effect))))
    return [
        (result.subset_names[j], float(effects.effect[j]), float(effects.low[j]), float(effects.high[j]), float(p[j]))
        for j in order
        if result.chosen[j]
    ]


def summary(result: GlobalResult, most: int = 15) -> str:
    """Headline, the chosen subsets with their effects, notes, guarantee."""
    lines = [*textwrap.wrap(headline(result), WIDTH), ""]
    rows = ranked(result)
    if rows:
        width = max(len("subset"), *(len(row[0]) for row in rows[:most]))
        lines.append(f"{'subset':<{width}}  {'effect (95 % interval)':<32}  p        effect: {effect_name(result)}")
        lines += [f"{row[0]:<{width}}  {_interval(row):<32}  {row[4]:.3g}" for row in rows[:most]]
        if len(rows) > most:
            lines.append(f"... and {len(rows) - most} more subsets; see result.table")
        lines.append("")
    for note in result.notes:
        lines += textwrap.wrap(f"Note: {note}", WIDTH)
    lines += textwrap.wrap(f"Guarantee: {result.guarantee}", WIDTH)
    return "\n".join(lines)


def _interval(row: tuple[str, float, float, float, float]) -> str:
    _, effect, low, high, _ = row
    if np.isnan(effect):
        return "not estimated"
    return f"{effect:+.3g} ({low:+.3g} to {high:+.3g})" if low == low else f"{effect:+.3g}"
