"""Arrays and frames -> one matrix with names, and back to the type the user's model expects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.draw.items import TableItems
from butfor.core.types import Batch, InputError, Ints
from butfor.tabular.columns import Column, column_from_metadata, encode


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix (n, columns), the names of rows and columns, what the columns stand for, and how the table was given."""

    values: np.ndarray[Any, Any]
    columns: tuple[str, ...]
    index: tuple[Any, ...]
    kinds: tuple[Column, ...]
    labels: Any = None  # pandas.Index of a frame's columns
    row_labels: Any = None  # pandas.Index of a frame's rows

    def show(self, values: Batch, rows: Ints | None = None) -> Batch:
        """A matrix as the user would write it: a frame of the same column types, or an array of the same type.

        `rows` are the positions of the inputs that the rows of the matrix come from: they keep those labels.
        """
        if self.labels is None:
            return self.kinds[0].show(values) if self.kinds[0].dtype is not None else values
        import pandas as pd

        index = None if rows is None else self.row_labels.take(rows)
        if all(column.dtype == values.dtype for column in self.kinds):
            return pd.DataFrame(values, index=index, columns=self.labels, copy=False)
        shown = pd.DataFrame(
            {j: column.show(values[:, j]) for j, column in enumerate(self.kinds)}, index=None, copy=False
        )
        shown.columns = self.labels
        return shown if index is None else shown.set_axis(index, axis=0)

    def metadata(self) -> dict[str, Any]:
        """All but the numbers and the row labels, for a file; `from_metadata` reads it."""
        labels = None if self.labels is None else [x.item() if hasattr(x, "item") else x for x in self.labels]
        kinds = [column.metadata() for column in self.kinds]
        return {"columns": list(self.columns), "labels": labels, "frame": labels is not None, "kinds": kinds}

    @property
    def named_kinds(self) -> dict[str, Column] | None:
        """What each column stands for, by name; None for an array, whose columns have no names of their own."""
        return None if self.labels is None else dict(zip(self.columns, self.kinds, strict=True))

    def has(self, *kinds: str) -> list[str]:
        """Names of the columns of these kinds."""
        return [name for name, column in zip(self.columns, self.kinds, strict=True) if column.kind in kinds]


def items_of(table: Table) -> TableItems:
    """The rows of a table, with the types, the column names and the row labels of the user's for the model."""
    plain = table.labels is None and table.kinds[0].dtype is None
    return TableItems(table.values, None if plain else table.show)


def from_metadata(metadata: dict[str, Any], values: np.ndarray[Any, Any], index: tuple[Any, ...]) -> Table:
    """The table whose `metadata` was written."""
    columns = tuple(metadata["columns"])
    kinds = tuple(map(column_from_metadata, metadata["kinds"])) if "kinds" in metadata else (Column(),) * len(columns)
    if not metadata["frame"]:
        return Table(values, columns, index, kinds)
    import pandas as pd

    return Table(values, columns, index, kinds, pd.Index(metadata["labels"]), pd.Index(index, tupleize_cols=False))


def is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "iloc")


def as_table(data: Any, what: str, *, empty: bool = False, like: Mapping[str, Column] | None = None) -> Table:
    """The user's table, checked; `what` names it in errors ("data", "reference").

    `like` are the columns of a sampler's reference: categories then have the codes they have there.
    """
    if type(data).__name__ == "LazyFrame" and hasattr(data, "collect"):
        raise InputError(f"the {what} is a LazyFrame, which holds no rows yet; give it as .collect()")
    if hasattr(data, "to_pandas") and not is_frame(data):
        data = data.to_pandas()  # polars, pyarrow
    if is_frame(data):
        table = _from_frame(data, what, like or {})
    else:
        values, column = _array_values(data, what)
        names, index = tuple(f"x{i}" for i in range(values.shape[1])), tuple(range(len(values)))
        table = Table(values, names, index, (column,) * len(names))
    names, index = table.columns, table.index
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise InputError(f"the {what} has columns named alike: {', '.join(repeated)}; give every column its own name")
    if len(set(index)) < len(index):
        raise InputError(f"the {what} has rows with the same index label; use reset_index(drop=True)")
    if 0 in table.values.shape and not empty:
        raise InputError(
            f"the {what} is empty ({len(index)} rows, {len(names)} columns); give at least one row and one column"
        )
    return table


def _from_frame(frame: Any, what: str, like: Mapping[str, Column]) -> Table:
    names = tuple(str(label) for label in frame.columns)
    kinds, values = [], np.empty(frame.shape)
    for j, name in enumerate(names):
        kind, values[:, j] = encode(frame.iloc[:, j], name, what, like.get(name))
        kinds.append(kind)
    if kinds and all(column.dtype == np.float32 for column in kinds):
        values = values.astype(np.float32)
    return Table(values, names, tuple(frame.index), tuple(kinds), frame.columns, frame.index)


def _array_values(data: Any, what: str) -> tuple[np.ndarray[Any, Any], Column]:
    try:
        values = np.array(data, order="C")
    except ValueError as error:
        raise InputError(f"the {what} is not a rectangular table: {error}") from error
    if values.ndim != 2:
        raise InputError(f"the {what} has shape {values.shape}; expected two dimensions, (rows, columns)")
    if values.dtype.kind not in "fiub":
        raise InputError(
            f"the {what} is an array of {values.dtype} values; expected numbers: give columns of other types as a "
            "pandas DataFrame"
        )
    if values.dtype in (np.float32, np.float64):
        return values, Column()
    return values.astype(np.float64), Column("flag" if values.dtype.kind == "b" else "number", values.dtype)


def check_complete(table: Table, what: str, *, missing: bool = False) -> None:
    """Raise at the first infinite value, and at the first missing one unless they are allowed, naming its place."""
    bad = np.isinf(table.values) if missing else ~np.isfinite(table.values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        remedy = (
            "mend or drop it"
            if missing or np.isinf(table.values[row, column])
            else ("fill or drop it, or use butfor.tabular.forest or neighbours, which know missing values")
        )
        raise InputError(
            f"the {what} has {table.values[row, column]} in row {table.index[row]!r}, column "
            f"{table.columns[column]!r}; {remedy}"
        )


def check_numeric(table: Table, sampler: str) -> None:
    """Raise where a sampler that computes with its columns is given categories."""
    categories = table.has("category")
    if categories:
        raise InputError(
            f"column {categories[0]!r} of the reference holds categories, which {sampler} cannot redraw; use "
            "butfor.tabular.forest or neighbours, or give the reference itself in place of a sampler"
        )
