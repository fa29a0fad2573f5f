"""Arrays and frames -> one matrix with names, and back to the type the user's model expects."""

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
from butfor.types import Array, Batch, Floats, InputError, Ints

if TYPE_CHECKING:
    import pandas as pd


Kind = Literal["number", "flag", "category", "time"]
KINDS = {"number": "numbers", "flag": "yes/no values", "category": "categories", "time": "times"}
BY_CODE: dict[str, Kind] = {"f": "number", "i": "number", "u": "number", "b": "flag", "M": "time", "m": "time"}
EXACT = 2**53  # whole numbers beyond it have no float64 of their own


@dataclass(frozen=True, eq=False)
class ColumnType:
    """How a column was given, and what its numbers stand for. Missing values are NaN in every kind.

    `levels` of a category: code i stands for level i. Levels of the reference come first, those that only the data
    has behind them, so that a sampler and the data it is used on share their codes.
    """

    kind: Kind = "number"
    dtype: Any = None  # pandas' or NumPy's; None for the columns of a float array
    levels: Any = None  # pandas.Index of a category

    def record(self) -> ColumnRecord:
        """Return the type for a file; levels that JSON does not know become text."""
        levels = None if self.levels is None else tuple(map(_plain, self.levels))
        named = None if self.dtype is None else str(self.dtype)
        if named != "category":
            return ColumnRecord(self.kind, named, levels)
        return ColumnRecord(self.kind, named, levels, tuple(map(_plain, self.dtype.categories)), self.dtype.ordered)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The least and largest number that a column of whole numbers holds when it is shown; None of any other."""
        if self.dtype is None or self.dtype.kind not in "iub":
            return None
        if self.dtype.kind == "b":
            return 0.0, 1.0
        held = np.iinfo(self.dtype.type)
        return max(float(held.min), -float(EXACT)), min(float(held.max), float(EXACT))

    def show(self, values: Floats) -> Any:
        """The numbers as a column of the frame's own type; a type that cannot hold a missing value gives way."""
        if self.kind == "category":
            return self._categories(values)
        if self.kind == "time":
            return self._times(values)
        return values if self.dtype is None or self.dtype == values.dtype else self._numbers(values)

    def _categories(self, values: Floats) -> Any:
        import pandas as pd

        codes = np.where(np.isnan(values), -1, values).astype(np.int64)
        if not isinstance(self.dtype, pd.CategoricalDtype):
            levels = self.levels.array.take(codes, allow_fill=True)
            return pd.Series(levels, dtype=self.dtype)  # an array of objects might be taken for text
        dtype = self.dtype
        places = dtype.categories.get_indexer(self.levels)
        if (places < 0).any():  # the reference has levels that the data's type does not name
            dtype = pd.CategoricalDtype(dtype.categories.append(self.levels[places < 0]), dtype.ordered)
            places = dtype.categories.get_indexer(self.levels)
        return pd.Categorical.from_codes(np.append(places, -1)[codes], dtype=dtype)

    def _times(self, values: Floats) -> Any:
        import pandas as pd

        missing = np.isnan(values)
        whole = np.rint(np.where(missing, 0, values)).astype(np.int64)
        naive = "timedelta64[us]" if self.dtype.kind == "m" else "datetime64[us]"
        times = pd.Series(whole.view(naive)).mask(missing)
        if isinstance(self.dtype, pd.DatetimeTZDtype):
            times = times.dt.tz_localize("UTC")
        return times.astype(self.dtype).array

    def _numbers(self, values: Floats) -> Any:
        import pandas as pd

        missing = np.isnan(values)
        if self.dtype.kind in "iub":
            values = np.rint(values)
        if isinstance(self.dtype, np.dtype):
            return values.astype(self.dtype) if self.dtype.kind == "f" or not missing.any() else values
        if isinstance(self.dtype, pd.SparseDtype):
            return pd.arrays.SparseArray(values.astype(self.dtype.subtype), dtype=self.dtype)
        held = pd.array(np.where(missing, 0, values).astype(self.dtype.numpy_dtype), dtype=self.dtype)
        held[missing] = None
        return held


def encode(series: pd.Series[Any], name: str, what: str, like: ColumnType | None) -> tuple[ColumnType, Floats]:
    """A column of a frame and its numbers; `like` is the same column of the reference, whose codes are kept."""
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
        return _coded(series, name, what, None if like is None else like.levels)
    numbers = _as_microseconds(series, name, what) if kind == "time" else series
    values = np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if dtype.kind in "iu" and len(values) and np.nanmax(np.abs(values), initial=0) > EXACT:
        raise InputError(
            f"column {name!r} of the {what} has whole numbers beyond 2**53, which arithmetic would round; make it text "
            "if it is a name, or divide it"
        )
    return ColumnType(kind, dtype), values


def _coded(series: pd.Series[Any], name: str, what: str, known: pd.Index[Any] | None) -> tuple[ColumnType, Floats]:
    import pandas as pd

    fixed = series.dtype.categories if isinstance(series.dtype, pd.CategoricalDtype) else None
    try:
        own: pd.Index[Any] = pd.Index(series.dropna().unique()) if fixed is None else fixed
        levels = own if known is None else known.append(own[known.get_indexer(own) < 0])
        codes = levels.get_indexer(pd.Index(series.array)).astype(np.float64)
    except TypeError as error:
        raise InputError(
            f"column {name!r} of the {what} holds things that cannot be compared ({error}); make them text or numbers"
        ) from error
    codes[series.isna().to_numpy()] = np.nan
    return ColumnType("category", series.dtype, levels), codes


def _as_microseconds(series: pd.Series[Any], name: str, what: str) -> pd.Series[Any]:
    """Times as a float column; what is finer than a microsecond could not be given back."""
    coarse = series.dt.as_unit("us")
    if not (coarse == series)[series.notna()].all():
        raise InputError(
            f"column {name!r} of the {what} has times finer than a microsecond; round them with .dt.round('us')"
        )
    numbers: pd.Series[Any] = coarse.astype("int64").astype(np.float64)
    return numbers.mask(coarse.isna())


def _plain(level: object) -> Scalar:
    level = level.item() if isinstance(level, np.generic) else level
    return level if isinstance(level, str | int | float | bool) else str(level)


def column_of(record: ColumnRecord) -> ColumnType:
    """Return the column whose record was written."""
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

    def record(self) -> TableInputs:
        """Return all but the numbers and the row labels, for a file; `table_of` reads it."""
        kinds = tuple(column.record() for column in self.kinds)
        if self.labels is None:
            return TableInputs(self.columns, kinds)
        return TableInputs(self.columns, kinds, tuple(map(_plain, self.labels)))

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


def table_of(record: TableInputs, values: Array, index: tuple[Any, ...]) -> Table:
    """Return the table whose record was written."""
    kinds = tuple(map(column_of, record.kinds))
    if record.labels is None:
        return Table(values, record.columns, index, kinds)
    import pandas as pd

    labels = pd.Index(list(record.labels))
    return Table(values, record.columns, index, kinds, labels, pd.Index(index, tupleize_cols=False))


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


MIXING = ("Normalizer",)  # one output per input, by name too, but each of them made of all inputs
INDICATOR = "missingindicator_"  # how scikit-learn's imputers name the flags they add
Names = tuple[str, ...] | None  # of columns, where they are known


def groups_from_encoder(encoder: object, *, positions: bool = False) -> dict[str, list[Any]]:
    """Encoded columns by raw column, for `subsets=`: {"colour": ["colour_blue", "colour_red"], "age": ["age"]}.

    Every encoded column is in exactly one group. Columns that a transformer makes of several raw ones (PCA) are one
    group with the transformer's name.

    Parameters
    ----------
    encoder : a fitted scikit-learn ColumnTransformer, OneHotEncoder or other transformer, or a Pipeline of them, whose
        last step may be the model: then the columns are those that the model gets.
    positions : give numbers, for tables without names, in place of the names of `get_feature_names_out()`.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> groups_from_encoder(OneHotEncoder().fit(pd.DataFrame({"colour": ["red", "blue"], "size": ["S", "M"]})))
    {'colour': ['colour_blue', 'colour_red'], 'size': ['size_M', 'size_S']}
    """
    raw = _raw_names(encoder)
    made = _through(encoder, EncodedColumns(raw, raw), "", None)
    if made.names is None and not positions:
        raise InputError(
            f"{type(encoder).__name__} cannot name the columns it makes, since a step of it has no "
            "get_feature_names_out; ask for positions=True"
        )
    groups: dict[str, list[Any]] = {}
    for place, owner in enumerate(made.owners):
        groups.setdefault(owner, []).append(place if positions or made.names is None else made.names[place])
    return groups


@dataclass(frozen=True)
class EncodedColumns:
    """Columns on their way through an encoder: what each is called, if that is known, and whose group it belongs to."""

    names: Names
    owners: tuple[str, ...]

    def take(self, places: Sequence[int]) -> EncodedColumns:
        names = None if self.names is None else tuple(self.names[i] for i in places)
        return EncodedColumns(names, tuple(self.owners[i] for i in places))


def _raw_names(encoder: object) -> tuple[str, ...]:
    names, count = attribute(encoder, "feature_names_in_"), attribute(encoder, "n_features_in_")
    if names is None and count is None:
        raise InputError(
            f"groups_from_encoder needs a fitted ColumnTransformer, OneHotEncoder or Pipeline of scikit-learn, got "
            f"{type(encoder).__name__} that is not fitted or does not say which columns it takes"
        )
    return tuple(f"x{i}" for i in range(count)) if names is None else tuple(map(str, names))


def _through(step: Any, columns: EncodedColumns, name: str, width: int | None) -> EncodedColumns:
    """The columns after one step, which is called `name` and makes `width` columns where that is known."""
    if step is None or isinstance(step, str):  # "passthrough"
        return columns
    if (steps := attribute(step, "steps")) is not None:
        *others, last = steps
        is_model = last[1] is not None and not isinstance(last[1], str) and attribute(last[1], "transform") is None
        for own, part in others if is_model else steps:
            columns = _through(part, columns, name or _apart(own, columns.owners), None)
        return columns
    if attribute(step, "output_indices_") is not None:
        return _side_by_side(step, columns)
    names = _names_out(step, columns.names)
    width = len(names) if names is not None else width
    if width is None:
        raise InputError(
            f"step {name or type(step).__name__!r} does not say how many columns it makes; give the steps before it"
        )
    return EncodedColumns(names, _owners(step, columns, name or type(step).__name__, names, width))


def _side_by_side(step: Any, columns: EncodedColumns) -> EncodedColumns:
    """A ColumnTransformer: each part gets some columns, and what the parts make stands side by side."""
    raw = _raw_names(step)
    places = {part: range(where.start, where.stop) for part, where in step.output_indices_.items()}
    owners = [""] * max((where.stop for where in places.values()), default=0)
    for part, transformer, chosen in step.transformers_:
        where = places.get(part, range(0))
        if len(where):
            given = columns.take(_positions(chosen, raw))
            made = _through(transformer, given, _apart(part, columns.owners), len(where))
            owners[where.start : where.stop] = made.owners
    return EncodedColumns(_names_out(step, columns.names), tuple(owners))


def _apart(part: str, taken: Sequence[str]) -> str:
    return f"{part} (transformer)" if part in taken else part


def _positions(chosen: Any, names: Sequence[str]) -> list[int]:
    """Columns as a ColumnTransformer may name them: one or several, by name, position, slice or mask."""
    if isinstance(chosen, slice) and isinstance(chosen.start or chosen.stop, str):
        first = 0 if chosen.start is None else names.index(chosen.start)
        last = len(names) - 1 if chosen.stop is None else names.index(chosen.stop)  # by name the end is part of it
        return list(range(first, last + 1, chosen.step or 1))
    if isinstance(chosen, slice | int):
        return [int(place) for place in np.atleast_1d(np.arange(len(names))[chosen])]
    listed = [chosen] if isinstance(chosen, str) else list(chosen)
    if all(isinstance(column, bool | np.bool_) for column in listed):
        return [place for place, taken in enumerate(listed) if taken]
    return [names.index(column) if isinstance(column, str) else int(column) % len(names) for column in listed]


def _names_out(step: Any, names: Names) -> Names:
    given = None if names is None else np.asarray(names, dtype=object)
    try:
        return tuple(map(str, step.get_feature_names_out(given)))
    except (AttributeError, ValueError, TypeError, NotImplementedError):
        return None


def _owners(step: Any, columns: EncodedColumns, name: str, names: Names, width: int) -> tuple[str, ...]:
    """Whose each of the columns is that one transformer makes."""
    if len(set(columns.owners)) == 1:
        return columns.owners[:1] * width
    if type(step).__name__ in MIXING:
        return (name,) * width
    counts = _counts(step)
    if counts is not None and len(counts) == len(columns.owners) and sum(counts) == width:
        return tuple(np.repeat(np.array(columns.owners, dtype=object), counts))
    owner = dict(zip(columns.names or (), columns.owners, strict=False))
    found = [owner.get(one, owner.get(one.removeprefix(INDICATOR))) for one in names or ()]
    return tuple(map(str, found)) if found and None not in found else (name,) * width


def _counts(step: Any) -> list[int] | None:
    """How many columns each input becomes, where a transformer makes several of each, one input after the other."""
    kind = type(step).__name__
    if kind == "OneHotEncoder":
        return [_levels(step, i) for i in range(len(step.categories_))]
    if kind == "KBinsDiscretizer":
        return [1 if step.encode == "ordinal" else int(bins) for bins in step.n_bins_]
    if kind == "SplineTransformer":
        return [step.n_features_out_ // step.n_features_in_] * step.n_features_in_
    if kind == "TargetEncoder" and step.target_type_ == "multiclass":
        return [len(step.classes_)] * step.n_features_in_
    return None


def _levels(encoder: Any, column: int) -> int:
    """Columns that a OneHotEncoder makes of one: infrequent levels share one, and one may be dropped."""
    rare = (attribute(encoder, "infrequent_categories_") or {column: None})[column]
    shared = 0 if rare is None or not len(rare) else len(rare) - 1
    dropped = encoder.drop_idx_ is not None and encoder.drop_idx_[column] is not None
    return len(encoder.categories_[column]) - shared - dropped
