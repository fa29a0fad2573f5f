"""What to test in a table: single columns, lists of columns, or named groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from butfor.core.types import InputError, Subset
from butfor.tabular.table import Table


def column_subsets(table: Table, subsets: object) -> list[Subset]:
    """Subsets by column name or position; None is every column by itself.

    A list entry is one column or a list of columns; a mapping gives each group its name.
    """
    if subsets is None:
        groups: dict[str, list[int]] = {name: [i] for i, name in enumerate(table.columns)}
    elif isinstance(subsets, Mapping):
        groups = {str(name): positions_of(table, columns) for name, columns in subsets.items()}
        if len(groups) < len(subsets):
            raise InputError(f"subsets has names that read alike: {', '.join(map(repr, subsets))}; name them apart")
    elif isinstance(subsets, str | bytes) or not isinstance(subsets, Sequence | np.ndarray):
        raise InputError(f"subsets must be a list of columns or a mapping of names to columns, got {subsets!r}")
    else:
        groups = {}
        for entry in subsets:
            positions = positions_of(table, entry)
            name = "+".join(table.columns[i] for i in positions)
            if name in groups:
                raise InputError(f"subset {name!r} is listed twice; list it once")
            groups[name] = positions
    if not groups:
        raise InputError("subsets is empty; give at least one, or None for every column")
    _check_disjoint(table, groups)
    return [Subset(name, np.array(positions)) for name, positions in groups.items()]


def positions_of(table: Table, entry: object) -> list[int]:
    """Where the columns of one entry stand: a name or position, or a list of them."""
    if not isinstance(entry, str | int | np.integer | Sequence | np.ndarray):
        raise InputError(f"a subset must be a column or a list of columns, got {entry!r}")
    entries = [entry] if isinstance(entry, str | int | np.integer) else list(entry)
    if any(isinstance(column, bool | np.bool_) for column in entries):
        raise InputError(f"a subset is {entries[:4]!r}; give columns or their positions: np.flatnonzero(mask)")
    if not entries:
        raise InputError("a subset without columns was given; name at least one column")
    return [_position(table, column) for column in entries]


def _position(table: Table, column: object) -> int:
    if isinstance(column, list | dict | set):
        raise InputError(f"a subset may not hold {column!r}; name single columns in it")
    if table.labels is not None and column in table.labels:
        return int(table.labels.get_loc(column))  # type: ignore[arg-type]  # they are unique
    if isinstance(column, str) and column in table.columns:
        return table.columns.index(column)
    if isinstance(column, int | np.integer) and -len(table.columns) <= column < len(table.columns):
        return int(column) % len(table.columns)
    known = ", ".join(table.columns[:8]) + (", ..." if len(table.columns) > 8 else "")
    raise InputError(f"unknown column {column!r} in subsets; the data has {known}")


def _check_disjoint(table: Table, groups: Mapping[str, list[int]]) -> None:
    owner: dict[int, str] = {}
    for name, positions in groups.items():
        for position in positions:
            if position in owner:
                raise InputError(
                    f"column {table.columns[position]!r} is in subset {owner[position]!r} and in {name!r}; subsets of "
                    "one run may not overlap: drop it from one of them, or make two runs"
                )
            owner[position] = name
