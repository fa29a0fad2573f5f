"""Arrays and frames -> one matrix with names, and back to the type the user's model expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.draw.items import TableItems
from butfor.core.types import Array, Batch, InputError, Ints
from butfor.models.optional import attribute
from butfor.models.rows import is_frame, is_series
from butfor.tabular.columns import ColumnType, column_from_metadata, encode

if TYPE_CHECKING:
    import pandas as pd

ColumnTypes = Mapping[str, ColumnType]


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix (n, columns), the names of rows and columns, what the columns stand for, and how the table was given."""

    values: Array
    columns: tuple[str, ...]
    index: tuple[Any, ...]
    kinds: tuple[ColumnType, ...]
    labels: pd.Index[Any] | None = None  # of a frame's columns
    row_labels: pd.Index[Any] | None = None

    def show(self, values: Array, rows: Ints | None = None) -> Batch:
        """A matrix as the user would write it: a frame of the same column types, or an array of the same type.

        `rows` are the positions of the inputs that the rows of the matrix come from: they keep those labels.
        """
        if self.labels is None or self.row_labels is None:
            return self.kinds[0].show(values) if self.kinds[0].dtype is not None else values
        import pandas as pd

        index = None if rows is None else self.row_labels.take(rows)
        if self._common is not None and self._common == values.dtype:
            return pd.DataFrame(values, index=index, columns=self.labels, copy=False)
        shown = pd.DataFrame(
            {j: column.show(values[:, j]) for j, column in enumerate(self.kinds)}, index=None, copy=False
        )
        shown.columns = self.labels
        return shown if index is None else shown.set_axis(index, axis=0)

    @cached_property
    def _common(self) -> Any:
        """The type of all columns, if they have one: a table may have ten thousand, and is shown for every batch."""
        first = self.kinds[0].dtype
        return first if all(column.dtype is first or column.dtype == first for column in self.kinds) else None

    def take(self, rows: Ints) -> Table:
        """The same table with some of its rows."""
        labels = None if self.row_labels is None else self.row_labels.take(rows)
        return replace(self, values=self.values[rows], index=tuple(self.index[i] for i in rows), row_labels=labels)

    def metadata(self) -> dict[str, Any]:
        """All but the numbers and the row labels, for a file; `from_metadata` reads it."""
        labels = None if self.labels is None else [x.item() if isinstance(x, np.generic) else x for x in self.labels]
        kinds = [column.metadata() for column in self.kinds]
        return {"columns": list(self.columns), "labels": labels, "frame": labels is not None, "kinds": kinds}

    @property
    def named_kinds(self) -> dict[str, ColumnType] | None:
        """What each column stands for, by name; None for an array, whose columns have no names of their own."""
        return None if self.labels is None else dict(zip(self.columns, self.kinds, strict=True))

    def has(self, *kinds: str) -> list[str]:
        """Names of the columns of these kinds."""
        return [name for name, column in zip(self.columns, self.kinds, strict=True) if column.kind in kinds]


def items_of(table: Table) -> TableItems:
    """The rows of a table, with the types, the column names and the row labels of the user's for the model."""
    plain = table.labels is None and table.kinds[0].dtype is None
    return TableItems(table.values, None if plain else table.show)


def from_metadata(metadata: dict[str, Any], values: Array, index: tuple[Any, ...]) -> Table:
    """The table whose `metadata` was written."""
    columns = tuple(metadata["columns"])
    plain = (ColumnType(),) * len(columns)
    kinds = tuple(map(column_from_metadata, metadata["kinds"])) if "kinds" in metadata else plain
    if not metadata["frame"]:
        return Table(values, columns, index, kinds)
    import pandas as pd

    return Table(values, columns, index, kinds, pd.Index(metadata["labels"]), pd.Index(index, tupleize_cols=False))


def check_cells(table: Table, values: Array, columns: Ints) -> None:
    """Raise ValueError at numbers (n, columns) that no level or time of their column stands for: files hold any."""
    for place, j in enumerate(columns.tolist()):
        column, cells = table.kinds[j], values[:, place]
        known = cells[~np.isnan(cells)]
        if column.kind == "category" and not ((known >= 0) & (known < len(column.levels)) & (known % 1 == 0)).all():
            raise ValueError(f"column {table.columns[j]!r} has categories without a name")
        if column.kind != "category" and not (np.abs(known) < (2.0**62 if column.kind == "time" else np.inf)).all():
            raise ValueError(f"column {table.columns[j]!r} has numbers that it cannot have")
    if len(columns) == len(table.columns) and len(values):
        table.show(values[:1], np.zeros(1, np.int64))


def is_lazy(data: object) -> bool:
    """Whether it is polars' promise of a frame."""
    return type(data).__name__ == "LazyFrame"


def as_frame(data: object, what: str, like: ColumnTypes | None = None) -> object:
    """pandas' own of a frame of another library and of one row; what is no frame as it is."""
    if is_lazy(data):
        raise InputError(f"the {what} is a LazyFrame, which holds no rows yet; give it as .collect()")
    if is_series(data):
        return _one_row(data, like or {})
    to_pandas = None if is_frame(data) else attribute(data, "to_pandas")  # of polars, pyarrow
    return data if to_pandas is None else to_pandas()


def _one_row(row: pd.Series[Any], like: ColumnTypes) -> pd.DataFrame:
    """One row, as `frame.iloc[0]` gives it: its columns have lost their types, which the reference knows."""
    frame = row.to_frame().T.infer_objects()
    for label, dtype in frame.dtypes.items():
        known = like.get(str(label))
        if known is not None and known.dtype is not None and known.dtype != dtype:
            frame[label] = _typed(frame[label], known.dtype)
    return frame


def _typed(column: pd.Series[Any], dtype: Any) -> pd.Series[Any]:
    """A column of one value as this type, unless that cannot hold it."""
    import pandas as pd

    value = column.iloc[0]
    if isinstance(dtype, pd.CategoricalDtype) and not pd.isna(value) and value not in dtype.categories:
        return column
    try:
        typed = pd.Series([value], column.index, dtype=dtype)
    except (TypeError, ValueError):
        return column
    same = pd.isna(value) if pd.isna(typed.iloc[0]) else bool(typed.iloc[0] == value)
    return typed if same else column


def as_table(data: object, what: str, *, empty: bool = False, like: ColumnTypes | None = None) -> Table:
    """The user's table, checked; `what` names it in errors ("data", "reference").

    `like` are the columns of a sampler's reference: categories then have the codes they have there.
    """
    data = as_frame(data, what, like)
    table = _from_frame(data, what, like or {}) if is_frame(data) else _from_array(data, what)
    names, index = table.columns, table.index
    if repeated := twice(names):
        raise InputError(f"the {what} has columns named alike: {', '.join(repeated)}; give every column its own name")
    if len(set(index)) < len(index):
        raise InputError(f"the {what} has rows with the same index label; use reset_index(drop=True)")
    if 0 in table.values.shape and not empty:
        raise InputError(
            f"the {what} is empty ({len(index)} rows, {len(names)} columns); give at least one row and one column"
        )
    return table


def twice(names: Sequence[str]) -> list[str]:
    """Names that come more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _from_frame(frame: pd.DataFrame, what: str, like: ColumnTypes) -> Table:
    names = tuple(str(label) for label in frame.columns)
    kinds, values = [], np.empty(frame.shape)
    same = all(like[name].kind == "number" for name in names if name in like)
    if names and same and all(dtype == np.float64 for dtype in frame.dtypes):  # thousands of columns at once
        column = ColumnType("number", frame.dtypes.iloc[0])
        matrix = np.array(frame.to_numpy(), dtype=np.float64, order="C")
        return Table(matrix, names, tuple(frame.index), (column,) * len(names), frame.columns, frame.index)
    for j, name in enumerate(names):
        kind, values[:, j] = encode(frame.iloc[:, j], name, what, like.get(name))
        kinds.append(kind)
    if kinds and all(column.dtype == np.float32 for column in kinds):
        values = values.astype(np.float32)
    return Table(values, names, tuple(frame.index), tuple(kinds), frame.columns, frame.index)


def _from_array(data: object, what: str) -> Table:
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
    kind = ColumnType()
    if values.dtype not in (np.float32, np.float64):
        kind = ColumnType("flag" if values.dtype.kind == "b" else "number", values.dtype)
        values = values.astype(np.float64)
    names = tuple(f"x{i}" for i in range(values.shape[1]))
    return Table(values, names, tuple(range(len(values))), (kind,) * len(names))


def check_complete(table: Table, what: str, *, missing: bool = False) -> None:
    """Raise at the first infinite value, and at the first missing one unless they are allowed, naming its place."""
    bad = np.isinf(table.values) if missing else ~np.isfinite(table.values)
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0]
    value = table.values[row, column]
    place = f"the {what} has {value} in row {table.index[row]!r}, column {table.columns[column]!r}"
    if missing or np.isinf(value):
        raise InputError(f"{place}; mend or drop it")
    hint = "fill or drop it, or use butfor.tabular.forest or neighbours, which know missing values"
    raise InputError(f"{place}; {hint}")


def numbers_of(reference: object, sampler: str) -> Table:
    """The reference of a sampler that computes with its columns: numbers only, all of them there, two rows or more.

    `sampler` is what it is called in errors ("a Gaussian").
    """
    table = as_table(reference, "reference")
    if categories := table.has("category"):
        raise InputError(
            f"column {categories[0]!r} of the reference holds categories, which {sampler} cannot redraw; use "
            "butfor.tabular.forest or neighbours, or give the reference itself in place of a sampler"
        )
    check_complete(table, "reference")
    if len(table.values) < 2:
        raise InputError(f"the reference has one row; {sampler} sampler needs at least 2, and better 10 per column")
    return table


def constant(name: str, value: float, sampler: str) -> InputError:
    """What to do about a column that does not vary."""
    return InputError(
        f"column {name!r} of the reference is constant ({value:g}): {sampler} cannot redraw it; drop the column from "
        "data and reference, or use butfor.tabular.empirical"
    )
