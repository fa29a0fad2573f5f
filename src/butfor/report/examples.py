"""What was observed in a subset of a table beside what was drawn in its place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.result.numbers import number
from butfor.core.result.result import Result
from butfor.core.types import Batch, Ints
from butfor.plots.labels import written

MOST_EXAMPLES, MOST_COLUMNS = 6, 12


@dataclass(frozen=True)
class Example:
    """One hypothesis beside a few counterfactuals: per column its name, the observed value and the drawn ones."""

    input: str
    subset: str
    columns: tuple[tuple[str, str, tuple[str, ...]], ...]
    observed: str
    outputs: tuple[str, ...]
    draws: int
    left_out: int


def by_evidence(result: Result) -> Ints:
    """Rows of the chosen hypotheses, strongest evidence first; among equals the largest effect."""
    rows = np.flatnonzero(result.chosen)
    strength = result.evidence.values[rows] * (1 if result.evidence.kind == "p" else -1)
    size = np.nan_to_num(np.abs(result.effects.effect[rows]))
    return rows[np.lexsort((-size, strength))]


def examples(result: Result) -> list[Example]:
    """The strongest discovery of each of a few subsets, of those whose counterfactuals the run kept; tables only."""
    if result.modality != "table":
        return []
    kept = [row for row in by_evidence(result).tolist() if row in result.kept]
    first = {int(result.subset_of[row]): row for row in reversed(kept)}
    return [example(result, row) for row in kept if first[int(result.subset_of[row])] == row][:MOST_EXAMPLES]


def example(result: Result, row: int) -> Example:
    """The draws of one hypothesis that the run kept."""
    place, name = int(result.input_of[row]), result.subset_names[result.subset_of[row]]
    items, index = result.problem.items, result.problem.block_of(row).subset.index
    drawn = items.shown(result.kept.whole(result.problem, row))
    observed, names = items.shown(items.block(place, place + 1)), result.provenance["columns"]
    columns = tuple(
        (str(names[j]), _column(observed, j)[0], tuple(_column(drawn, j))) for j in index[:MOST_COLUMNS].tolist()
    )
    said, which = result.kept.outputs(row), int(result.evidence.classes[row])
    which = which if said.shape[1] > 1 else 0
    seen = number(result.outputs[place][which]) if result.outputs.size else ""
    outputs = tuple(number(value) for value in said[:, which])
    return Example(
        str(result.input_names[place]), name, columns, seen, outputs, len(drawn), max(0, len(index) - MOST_COLUMNS)
    )


def _column(rows: Batch, column: int) -> list[str]:
    """A column of an array or a frame, as a person would write its values."""
    values = (rows[:, column] if isinstance(rows, np.ndarray) else rows.iloc[:, column]).tolist()
    return [written(value) for value in values]
