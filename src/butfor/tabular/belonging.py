"""Rows that look as if they belonged together, and columns that number them: both break what a run assumes."""

from __future__ import annotations

import numpy as np

from butfor.core.draw.streams import stream
from butfor.core.types import Array, Floats
from butfor.tabular.table import Table

LEAST_ROWS = 20
MANY = 5  # values of a column that tell one row from another
SHARE = 0.2  # of rows that share half of those columns with another row
MOST_ROWS = 5_000


def belonging_notes(table: Table, reference: Array | None, groups: object) -> list[str]:
    """Sentences on inputs that repeat each other, and on columns that number the rows."""
    values = table.values[:MOST_ROWS].astype(np.float64)
    if len(values) < LEAST_ROWS:
        return []
    notes = []
    if groups is None and _belong(values):
        notes.append(
            "Many inputs agree in half of their columns with another input, as several rows of one person do: the "
            "promise needs inputs that are independent of each other. Name what belongs together: groups=data['person']"
        )
    numbering = [] if reference is None else _numbering(table, values, reference.astype(np.float64))
    if numbering:
        notes.append(
            f"Column {numbering[0]!r} has another value in every row and lies on one side in all inputs and on the "
            "other in the reference, like an index or a time: leave it out, or it will be the answer"
        )
    return notes


def _belong(values: Floats) -> bool:
    """Whether far more rows agree in half of the columns of many values than would by chance."""
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, axis=0)  # missing ones last
    same = (ordered[1:] == ordered[:-1]) | np.isnan(ordered[:-1])
    many = 1 + (~same & ~np.isnan(ordered[1:])).sum(axis=0) >= MANY
    if many.sum() < 2:
        return False
    again = np.zeros(values.shape, bool)  # which values of a column another row has, too
    again[1:] |= same
    again[:-1] |= same
    telling, rows = values[:, many], np.bincount(order[:, many].reshape(-1), again[:, many].reshape(-1))
    if np.mean(2 * rows >= many.sum()) <= SHARE:
        return False  # mostly so: too few rows have enough values that any other row has
    mixed = stream(0, "belonging").permuted(telling, axis=0)  # every column by itself
    return _share(telling) > max(SHARE, 3 * _share(mixed))


def _distinct(column: Floats) -> int:
    return len(np.unique(column[~np.isnan(column)]))


def _share(values: Floats) -> float:
    """Rows that agree in half of the columns, but not in all, with the row beside them, by any order of the columns."""
    width, found = values.shape[1], np.zeros(len(values), bool)
    for first in range(width):
        order = np.lexsort([values[:, (first - k) % width] for k in range(1, width + 1)])
        equal = (values[order][1:] == values[order][:-1]).sum(axis=1)
        alike = (2 * equal >= width) & (equal < width)
        found[order[1:][alike]] = found[order[:-1][alike]] = True
    return float(found.mean())


def _numbering(table: Table, values: Floats, reference: Floats) -> list[str]:
    """Columns without a value that comes twice, in which all inputs lie on one side of the reference."""
    found = []
    for j, name in enumerate(table.columns):
        own, other = values[:, j], reference[:, j]
        if len(other) < LEAST_ROWS or table.kinds[j].kind == "category" or np.isnan([*own, *other]).any():
            continue
        apart = own.min() > other.max() or own.max() < other.min()
        if apart and _distinct(own) == len(own) and _distinct(other) == len(other) and _even(own) and _even(other):
            found.append(name)
    return found


def _even(column: Floats) -> bool:
    """Whether steps between neighbours are all alike, as those of an index or of a clock are."""
    steps = np.diff(np.sort(column))
    return bool(steps.max() <= 3 * np.median(steps))
