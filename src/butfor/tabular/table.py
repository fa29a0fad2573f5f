"""Tables: arrays and frames as one matrix with names, and back to the type that the user's model expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from butfor.evaluation.items import TableItems
from butfor.models.wrap import attribute, is_frame, is_series
from butfor.results.record import ColumnRecord, Scalar, TableInputs
from butfor.types import Array, Batch, Floats, InputError, Ints, labels_of, reworded

if TYPE_CHECKING:
    import pandas as pd


Kind = Literal["number", "flag", "category", "time"]
KINDS = {"number": "numbers", "flag": "yes/no values", "category": "categories", "time": "times"}
BY_CODE: dict[str, Kind] = {"f": "number", "i": "number", "u": "number", "b": "flag", "M": "time", "m": "time"}
EXACT = 2**53  # whole numbers beyond it have no float64 of their own
FARTHEST = 1e70  # fourth powers of what is larger, or smaller than its inverse, are no numbers


@dataclass(frozen=True, eq=False)
class ColumnType:
    """The type of a column as it was given, and the meaning of its numbers. Missing values are NaN in every kind.

    `levels` of a category: code i stands for level i. Levels of the reference come first, those that only the data
    has behind them, so that a sampler and the data it is used on share their codes.
    """

    kind: Kind = "number"
    dtype: Any = None  # pandas' or NumPy's; None for the columns of a float array
    levels: Any = None  # pandas.Index of a category
    none: bool = False  # missing values of a column of objects are None, which encoders tell from NaN

    def record(self) -> ColumnRecord:
        """Return the type for a file; levels that JSON does not know become text."""
        levels = None if self.levels is None else tuple(map(_plain, self.levels))
        named = None if self.dtype is None else str(self.dtype)
        if named != "category":
            return ColumnRecord(self.kind, named, levels)
        return ColumnRecord(self.kind, named, levels, tuple(map(_plain, self.dtype.categories)), self.dtype.ordered)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The least and largest number that a column of whole numbers can hold; None of any other."""
        if self.dtype is None or self.dtype.kind not in "iub":
            return None
        if self.dtype.kind == "b":
            return 0.0, 1.0
        bounds = np.iinfo(self.dtype.type)
        return max(float(bounds.min), -float(EXACT)), min(float(bounds.max), float(EXACT))

    def show(self, values: Floats) -> Any:
        """Return the numbers as a column of the frame's own type; a type without missing values gives way to them."""
        if self.kind in ("number", "flag") and (self.dtype is None or self.dtype == values.dtype):
            return values
        import pandas as pd

        missing, dtype = np.isnan(values), self.dtype
        if self.kind == "category":
            codes = np.where(missing, -1, values).astype(np.int64)
            if not isinstance(dtype, pd.CategoricalDtype):
                levels = self.levels.array.take(codes, allow_fill=True)
                shown = pd.Series(levels, dtype=dtype)  # an array of objects might be taken for text
                return shown.where(~missing, None) if self.none else shown
            index = dtype.categories.get_indexer(self.levels)
            if (index < 0).any():  # the reference has levels that the data's type does not name
                dtype = pd.CategoricalDtype(dtype.categories.append(self.levels[index < 0]), dtype.ordered)
                index = dtype.categories.get_indexer(self.levels)
            return pd.Categorical.from_codes(np.append(index, -1)[codes], dtype=dtype)
        if self.kind == "time":
            whole = np.rint(np.where(missing, 0, values)).astype(np.int64)
            naive = "timedelta64[us]" if dtype.kind == "m" else "datetime64[us]"
            times = pd.Series(whole.view(naive)).mask(missing)
            return (times.dt.tz_localize("UTC") if isinstance(dtype, pd.DatetimeTZDtype) else times).astype(dtype).array
        if dtype.kind in "iub":
            values = np.rint(values)
        if isinstance(dtype, np.dtype):
            return values.astype(dtype) if dtype.kind == "f" or not missing.any() else values
        if isinstance(dtype, pd.SparseDtype):
            return pd.arrays.SparseArray(values.astype(dtype.subtype), dtype=dtype)
        shown = pd.array(np.where(missing, 0, values).astype(dtype.numpy_dtype), dtype=dtype)
        shown[missing] = None
        return shown


def encode(series: pd.Series[Any], name: str, what: str, like: ColumnType | None) -> tuple[ColumnType, Floats]:
    """Return a column of a frame as its type and numbers; `like` is the same column of the reference."""
    dtype: Any = series.dtype
    kind = BY_CODE.get(dtype.kind, "category")  # pandas' own categories are "O"
    if like is not None and like.kind != kind and {like.kind, kind} != {"number", "flag"}:
        if series.isna().all():
            return ColumnType(like.kind, dtype, like.levels), np.full(len(series), np.nan)
        raise InputError(
            f"column {name!r} of the {what} holds {KINDS[kind]}, but {KINDS[like.kind]} in the sampler's reference; "
            "give both the same type"
        )
    if kind == "category":
        return _coded(series, name, what, like)
    numbers = series
    if kind == "time":
        coarse = series.dt.as_unit("us")
        if not (coarse == series)[series.notna()].all():  # what is finer could not be given back
            raise InputError(
                f"column {name!r} of the {what} has times finer than a microsecond; round them with .dt.round('us')"
            )
        numbers = coarse.astype("int64").astype(np.float64).mask(coarse.isna())
    values = np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if dtype.kind in "iu" and len(values) and np.nanmax(np.abs(values), initial=0) > EXACT:
        raise InputError(
            f"column {name!r} of the {what} has whole numbers beyond 2**53, which arithmetic would round; make it text "
            "if it is a name, or divide it"
        )
    return ColumnType(kind, dtype), values


def _coded(series: pd.Series[Any], name: str, what: str, like: ColumnType | None) -> tuple[ColumnType, Floats]:
    import pandas as pd

    fixed = series.dtype.categories if isinstance(series.dtype, pd.CategoricalDtype) else None
    words = f"column {name!r} of the {what} holds things that cannot be compared ("
    with reworded(words, TypeError, advice="); make them text or numbers"):
        here: pd.Index[Any] = pd.Index(series.dropna().unique()) if fixed is None else fixed
        levels = here if like is None else like.levels.append(here[like.levels.get_indexer(here) < 0])
        codes = levels.get_indexer(pd.Index(series.array)).astype(np.float64)
    missing = series.isna().to_numpy()
    codes[missing] = np.nan
    none = all(value is None for value in series[missing]) if missing.any() else like is not None and like.none
    return ColumnType("category", series.dtype, levels, none and series.dtype == object), codes


def _plain(level: object) -> Scalar:
    level = level.item() if isinstance(level, np.generic) else level
    return level if isinstance(level, str | int | float | bool) else str(level)


def column_of(record: ColumnRecord) -> ColumnType:
    import pandas as pd

    if (record.kind == "category") != (record.levels is not None):
        raise ValueError(f"a column is of kind {record.kind!r:.60}")
    if record.categories is not None:
        dtype: Any = pd.CategoricalDtype(list(record.categories), record.ordered)
    else:
        dtype = None if record.dtype is None else pd.api.types.pandas_dtype(record.dtype)
    return ColumnType(record.kind, dtype, None if record.levels is None else pd.Index(list(record.levels)))


ColumnTypes = Mapping[str, ColumnType]


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix (n, columns) with the names of rows and columns, the types of columns, and how the table was given."""

    values: Array
    columns: tuple[str, ...]
    index: tuple[Any, ...]
    kinds: tuple[ColumnType, ...]
    labels: pd.Index[Any] | None = None  # of a frame's columns
    row_labels: pd.Index[Any] | None = None
    clusters: Ints | None = None  # (n,) equal for rows that are not independent, as those of one person

    def show(self, values: Array, rows: Ints | None = None) -> Batch:
        """Return a matrix as the user would write it: a frame of the same column types, or an array of the same type.

        `rows` are the positions of the inputs that the rows of the matrix come from: they keep those labels.
        """
        if self.labels is None or self.row_labels is None:
            return self.kinds[0].show(values) if self.kinds[0].dtype is not None else values
        import pandas as pd

        index = None if rows is None else self.row_labels.take(rows)
        if self._common is not None and self._common == values.dtype:
            return pd.DataFrame(values, index=index, columns=self.labels, copy=False)
        columns = {j: column.show(values[:, j]) for j, column in enumerate(self.kinds)}
        shown = pd.DataFrame(columns, index=None, copy=False)
        shown.columns = self.labels
        return shown if index is None else shown.set_axis(index, axis=0)

    @cached_property
    def _common(self) -> Any:
        """The type of all columns, if they have one: a table may have ten thousand, and is shown for every batch."""
        first = self.kinds[0].dtype
        return first if all(column.dtype is first or column.dtype == first for column in self.kinds) else None

    def take(self, rows: Ints) -> Table:
        labels = None if self.row_labels is None else self.row_labels.take(rows)
        clusters = None if self.clusters is None else self.clusters[rows]
        index = tuple(self.index[i] for i in rows)
        return replace(self, values=self.values[rows], index=index, row_labels=labels, clusters=clusters)

    def record(self) -> TableInputs:
        """Return all but the numbers and the row labels, for a file; `table_of` reads it."""
        kinds = tuple(column.record() for column in self.kinds)
        if self.labels is None:
            return TableInputs(self.columns, kinds)
        return TableInputs(self.columns, kinds, tuple(map(_plain, self.labels)))

    @property
    def named_kinds(self) -> dict[str, ColumnType] | None:
        """The type of each column, by name; None for an array, whose columns have no names of their own."""
        return None if self.labels is None else dict(zip(self.columns, self.kinds, strict=True))


def clustered(table: Table, groups: object, name: str = "reference_groups") -> Table:
    """Return a reference with the clusters of its rows, from a label for each; `name` is the keyword."""
    if groups is None:
        return table
    labels = labels_of(name, groups, "row of the reference")
    if len(labels) != len(table.values):
        raise InputError(f"{name} has {len(labels)} labels for {len(table.values)} rows; give one for each row")
    if is_series(groups) and table.row_labels is not None and list(groups.index) != list(table.row_labels):
        raise InputError(f"{name} and the reference have different indexes; align them, or give {name}.to_numpy()")
    missing = [place for place, label in enumerate(labels) if label is None or label != label]
    if missing:
        raise InputError(f"{name} is missing for row {table.index[missing[0]]!r} of the reference; fill it in")
    number = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    if len(number) < 2:
        raise InputError(f"{name} puts all rows of the reference into one cluster, {labels[0]!r}; it needs 2 or more")
    return replace(table, clusters=np.array([number[label] for label in labels]))


def items_of(table: Table) -> TableItems:
    """Return the rows of a table, for the model with the user's types, column names and row labels."""
    plain = table.labels is None and table.kinds[0].dtype is None
    return TableItems(table.values, None if plain else table.show)


def table_of(record: TableInputs, values: Array, index: tuple[Any, ...]) -> Table:
    kinds = tuple(map(column_of, record.kinds))
    if record.labels is None:
        return Table(values, record.columns, index, kinds)
    import pandas as pd

    labels = pd.Index(list(record.labels))
    return Table(values, record.columns, index, kinds, labels, pd.Index(index, tupleize_cols=False))


def check_cells(table: Table, values: Array, columns: Ints) -> None:
    """Raise ValueError at numbers (n, columns) that no level or time of their column stands for: files hold any."""
    for j, cells in zip(columns.tolist(), values.T, strict=True):
        column = table.kinds[j]
        known = cells[~np.isnan(cells)]
        if column.kind == "category" and not ((known >= 0) & (known < len(column.levels)) & (known % 1 == 0)).all():
            raise ValueError(f"column {table.columns[j]!r} has categories without a name")
        if column.kind != "category" and not (np.abs(known) < (2.0**62 if column.kind == "time" else np.inf)).all():
            raise ValueError(f"column {table.columns[j]!r} has numbers that it cannot have")
    if len(columns) == len(table.columns) and len(values):
        table.show(values[:1], np.zeros(1, np.int64))


def is_lazy(data: object) -> bool:
    """Tell whether it is a LazyFrame of polars, which holds no rows yet."""
    return type(data).__name__ == "LazyFrame"


def as_frame(data: object, what: str, like: ColumnTypes | None = None) -> object:
    """Return a frame of another library, or one row, as a frame of pandas; what is no frame as it is."""
    if is_lazy(data):
        raise InputError(f"the {what} is a LazyFrame, which holds no rows yet; give it as .collect()")
    if is_series(data):  # one row, as frame.iloc[0] gives it: its columns have lost their types
        frame = data.to_frame().T.infer_objects()
        for label, dtype in frame.dtypes.items():
            known = (like or {}).get(str(label))
            if known is not None and known.dtype is not None and known.dtype != dtype:
                frame[label] = _typed(frame[label], known.dtype)
        return frame
    if what == "data" and isinstance(data, np.ndarray | list | tuple) and _is_row(data):
        return np.asarray(data)[None]
    to_pandas = None if is_frame(data) else attribute(data, "to_pandas")  # of polars, pyarrow
    return data if to_pandas is None else to_pandas()


def _is_row(data: Array | Sequence[object]) -> bool:
    """Tell whether it is one row of numbers rather than a table.

    >>> _is_row([1.0, 2.0]), _is_row([[1.0, 2.0]]), _is_row([])
    (True, False, False)
    """
    return len(data) > 0 and all(isinstance(one, int | float | np.number | np.bool_) for one in data)


def _typed(column: pd.Series[Any], dtype: Any) -> pd.Series[Any]:
    """Return a column of one value as this type, unless that cannot hold it."""
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
    """Return the user's table, checked; `what` names it in errors ("data", "reference").

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
    largest = np.abs(table.values).max(axis=0, where=np.isfinite(table.values), initial=0.0).astype(np.float64)
    if (far := (largest > FARTHEST) | ((largest < 1 / FARTHEST) & (largest > 0))).any():
        worst = int(np.argmax(far))
        raise InputError(
            f"column {names[worst]!r} of the {what} has values up to {largest[worst]:.3g}, whose powers cannot be "
            "computed; multiply it by a power of ten"
        )
    return table


def twice(names: Sequence[str]) -> list[str]:
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
    if isinstance(data, np.ma.MaskedArray) and data.mask.any():
        raise InputError(
            f"the {what} is a masked array with {data.mask.sum()} masked values; give "
            "data.astype(float).filled(np.nan), or a DataFrame: missing values are then redrawn as missing"
        )
    with reworded(f"the {what} is not a rectangular table: ", ValueError):
        values = np.array(data, order="C")
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
    """Raise at the first infinite value, and at the first missing one unless allowed, naming row and column."""
    bad = np.isinf(table.values) if missing else ~np.isfinite(table.values)
    if not bad.any():
        return
    row, column = np.argwhere(bad)[0]
    value = table.values[row, column]
    hint = "fill or drop it, or use butfor.tabular.forest or neighbours, which know missing values"
    hint = "mend or drop it" if missing or np.isinf(value) else hint
    raise InputError(f"the {what} has {value} in row {table.index[row]!r}, column {table.columns[column]!r}; {hint}")


def numbers_of(reference: object, sampler: str) -> Table:
    """Return two rows or more of numbers, none missing, as `sampler` ("a Gaussian" in errors) computes with them."""
    table = as_table(reference, "reference")
    if categories := [name for name, one in zip(table.columns, table.kinds, strict=True) if one.kind == "category"]:
        raise InputError(
            f"column {categories[0]!r} of the reference holds categories, which {sampler} cannot redraw; use "
            "butfor.tabular.forest or neighbours, or give the reference itself in place of a sampler"
        )
    check_complete(table, "reference")
    if len(table.values) < 2:
        raise InputError(f"the reference has one row; {sampler} sampler needs at least 2, and better 10 per column")
    return table


def constant(name: str, value: float, sampler: str) -> InputError:
    return InputError(
        f"column {name!r} of the reference is constant ({value:g}): {sampler} cannot redraw it; drop the column from "
        "data and reference, or use butfor.tabular.empirical"
    )
