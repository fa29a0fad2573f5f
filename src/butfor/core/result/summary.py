"""A result in words, for terminals and notebooks."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.result.answers import answers
from butfor.core.select.bounds import simes_bounds
from butfor.core.select.reach import asks_if_picked

if TYPE_CHECKING:
    from butfor.core.result.result import Result

WIDTH = 110
CONFIDENCE = 0.95


def headline(result: Result) -> str:
    """One sentence: how many of how many, by which test."""
    said = result.provenance
    family = "over the run" if result.family == "run" else "within each input"
    return (
        f"{int(result.chosen.sum())} of {len(result.chosen)} hypotheses chosen "
        f"({_counted(len(result.input_names), 'input')}, {_counted(len(result.subset_names), 'subset')}; "
        f"{_tested(result)}, "
        f"{said['alternative']}, {result.rule} at {result.alpha:g} {family}; {result.rows:,} model rows)"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _tested(result: Result) -> str:
    """The test, and how many draws it took; hypotheses all of whose outcomes are known take none."""
    known, test = result.provenance.get("exact", 0), result.provenance["test"]
    if not isinstance(known, int) or known <= 0:
        return f"{test}, {_drawn(result)}"
    if result.exact:
        return "exact, no draws"
    return f"exact for {known}, {test} for the others, {_drawn(result)}"


def _drawn(result: Result) -> str:
    draws = result.evidence.draws
    if not len(draws) or draws.min() != draws.max():
        return f"{draws.mean():.0f} draws on average" if len(draws) else "no draws"
    return "one draw each" if draws[0] == 1 else f"{draws[0]} draws each"


@dataclass(frozen=True)
class SubsetRow:
    """What was found for one subset over all inputs."""

    name: str
    chosen: int
    tested: int
    effect: float  # mean over the inputs it was chosen for; NaN: not estimated
    true: int | None  # at least so many are true, all such statements together with 95 % confidence


def by_subset(result: Result) -> list[SubsetRow]:
    """One row per subset, the most often chosen first."""
    size = len(result.subset_names)
    chosen = np.bincount(result.subset_of, weights=result.chosen, minlength=size)
    tested = np.bincount(result.subset_of, minlength=size)
    known = result.chosen & ~np.isnan(result.effects.effect)
    total = np.bincount(result.subset_of[known], weights=result.effects.effect[known], minlength=size)
    count = np.bincount(result.subset_of[known], minlength=size)
    mean = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
    true = _true(result, result.subset_of, size)
    order = np.argsort(-chosen, kind="stable")
    return [
        SubsetRow(
            result.subset_names[j],
            int(chosen[j]),
            int(tested[j]),
            float(mean[j]),
            None if true is None else int(true[j]),
        )
        for j in order
    ]


def _true(result: Result, groups: np.ndarray[tuple[int, ...], np.dtype[np.int64]], size: int) -> list[int] | None:
    if not _bounded(result):
        return None
    return [int(n) for n in simes_bounds(result.evidence.values, CONFIDENCE).by_group(groups, size)]


def bound_sentence(result: Result) -> str:
    """In words: how many discoveries are true at least, and in how many inputs there is one. Empty without p-values."""
    true = result.bound(result.chosen, CONFIDENCE) if _bounded(result) else 0
    if not true:
        return ""
    inputs = sum(n > 0 for n in _true(result, result.input_of, len(result.input_names)) or [])
    named = f", {_counted(inputs, 'input')} among them with a true one of their own," if inputs else ""
    return (
        f"With {CONFIDENCE:.0%} confidence at least {true} of the {int(result.chosen.sum())} chosen are true{named} "
        "whatever you looked at first, if p-values are independent or positively dependent; result.bound(rows) says "
        "how many of any rows you pick."
    )


def _bounded(result: Result) -> bool:
    """Whether there are p-values that mean something: without a guarantee, or of picked inputs, they bound nothing."""
    return (
        result.evidence.kind == "p"
        and result.guarantee.controls != "nothing"
        and not asks_if_picked(result.run_notes)  # nobody knows whether they were
    )


def summary(result: Result, most: int = 15) -> str:
    """The answer first: what decides, which subsets, for which inputs; then notes, the control, the guarantee."""
    lines = [*textwrap.wrap(headline(result), WIDTH), ""]
    for sentence in answers(result):
        lines += textwrap.wrap(sentence, WIDTH)
    rows = [row for row in by_subset(result) if row.chosen]
    if rows:
        lines.append("")
        width = max(len("subset"), *(len(row.name) for row in rows[:most]))
        columns = _columns(rows)
        lines.append("  ".join([f"{'subset':<{width}}", *columns]))
        for k, row in enumerate(rows[:most]):
            cells = [f"{cells[k]:>{len(title)}}" for title, cells in columns.items()]
            lines.append("  ".join([f"{row.name:<{width}}", *cells]))
        if len(rows) > most:
            lines.append(f"... and {len(rows) - most} more subsets; see result.table")
    lines.append("")
    for text in (bound_sentence(result), *(f"Note: {note}" for note in result.notes), *promise(result)):
        lines += textwrap.wrap(text, WIDTH)
    return "\n".join(lines)


def promise(result: Result) -> list[str]:
    """What the same test says of the reference's own rows, and what is guaranteed."""
    control = [] if result.control is None else [f"Control: {result.control}"]
    return [*control, f"Guarantee: {result.guarantee}"]


def _columns(rows: Sequence[SubsetRow]) -> dict[str, list[str]]:
    """What is known of the subsets, title -> a cell for each; a column with nothing in it is left out."""
    bounded = any(row.true for row in rows)  # "at least 0" says nothing
    columns = {
        "chosen for": [f"{row.chosen} of {row.tested}" for row in rows],
        "at least true": [str(row.true) for row in rows] if bounded else [],
        "mean effect": ["" if np.isnan(row.effect) else f"{row.effect:+.3g}" for row in rows],
    }
    return {title: cells for title, cells in columns.items() if any(cells)}
