"""One column of a frame <-> numbers: categories and text as codes, yes and no as 1 and 0, times as microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from butfor.core.types import Floats, InputError

Kind = Literal["number", "flag", "category", "time"]
KINDS = {"number": "numbers", "flag": "yes/no values", "category": "categories", "time": "times"}
EXACT = 2**53  # whole numbers beyond it have no float64 of their own


@dataclass(frozen=True, eq=False)
class Column:
    """How a column was given, and what its numbers stand for. Missing values are NaN in every kind.

    `levels` of a category: code i stands for level i. Levels of the reference come first, those that only the data
    has behind them, so that a sampler and the data it is used on share their codes.
    """

    kind: Kind = "number"
    dtype: Any = None  # pandas' or NumPy's; None for the columns of a float array
    levels: Any = None  # pandas.Index of a category

    def metadata(self) -> dict[str, Any]:
        """For a file; levels that JSON does not know become text."""
        levels = None if self.levels is None else [_plain(level) for level in self.levels]
        ordered = getattr(self.dtype, "ordered", None)
        known = [_plain(level) for level in self.dtype.categories] if ordered is not None else None
        named = None if self.dtype is None else str(self.dtype)
        return {"kind": self.kind, "dtype": named, "levels": levels, "categories": known, "ordered": ordered}

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
        if isinstance(self.dtype, pd.CategoricalDtype):
            known = self.dtype.categories
            places = known.get_indexer(self.levels)
            dtype = self.dtype
            if (places < 0).any():  # the reference has levels that the data's type does not name
                dtype = pd.CategoricalDtype(known.append(self.levels[places < 0]), self.dtype.ordered)
                places = dtype.categories.get_indexer(self.levels)
            return pd.Categorical.from_codes(np.append(places, -1)[codes], dtype=dtype)
        values = self.levels.array.take(codes, allow_fill=True)
        return pd.Series(values, dtype=self.dtype)  # an array of objects might be taken for text

    def _times(self, values: Floats) -> Any:
        import pandas as pd

        missing = np.isnan(values)
        whole = np.rint(np.where(missing, 0, values)).astype(np.int64)
        naive = "timedelta64[us]" if self.dtype.kind == "m" else "datetime64[us]"
        times = pd.Series(whole.view(naive)).mask(missing)
        if getattr(self.dtype, "tz", None) is not None:
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


def encode(series: Any, name: str, what: str, like: Column | None) -> tuple[Column, Floats]:
    """A column of a frame and its numbers; `like` is the same column of the reference, whose codes are kept."""
    column = _column(series)
    if like is not None and like.kind != column.kind and {like.kind, column.kind} != {"number", "flag"}:
        if series.isna().all():
            return Column(like.kind, column.dtype, like.levels), np.full(len(series), np.nan)
        raise InputError(
            f"column {name!r} of the {what} holds {KINDS[column.kind]}, but {KINDS[like.kind]} in the sampler's "
            "reference; give both the same type"
        )
    if column.kind == "category":
        return _coded(series, column, name, what, None if like is None else like.levels)
    numbers = _as_microseconds(series, name, what) if column.kind == "time" else series
    values = np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if column.dtype.kind in "iu" and len(values) and np.nanmax(np.abs(values), initial=0) > EXACT:
        raise InputError(
            f"column {name!r} of the {what} has whole numbers beyond 2**53, which arithmetic would round; make it text "
            "if it is a name, or divide it"
        )
    return column, values


def _column(series: Any) -> Column:
    import pandas as pd

    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if isinstance(dtype, pd.CategoricalDtype):
        return Column("category", dtype)
    if kind in "fiu":
        return Column("number", dtype)
    return Column({"b": "flag", "M": "time", "m": "time"}.get(kind, "category"), dtype)  # type: ignore[arg-type]


def _coded(series: Any, column: Column, name: str, what: str, known: Any) -> tuple[Column, Floats]:
    import pandas as pd

    try:
        own = (
            column.dtype.categories
            if isinstance(column.dtype, pd.CategoricalDtype)
            else pd.Index(series.dropna().unique())
        )
        levels = own if known is None else known.append(own[known.get_indexer(own) < 0])
        codes = levels.get_indexer(pd.Index(series.array)).astype(np.float64)
    except TypeError as error:
        raise InputError(
            f"column {name!r} of the {what} holds things that cannot be compared ({error}); make them text or numbers"
        ) from error
    codes[series.isna().to_numpy()] = np.nan
    return Column("category", column.dtype, levels), codes


def _as_microseconds(series: Any, name: str, what: str) -> Any:
    """Times as a float column; what is finer than a microsecond could not be given back."""
    import pandas as pd

    coarse = series.dt.as_unit("us")
    if not (coarse == series)[series.notna()].all():
        raise InputError(
            f"column {name!r} of the {what} has times finer than a microsecond; round them with .dt.round('us')"
        )
    return pd.Series(coarse.astype("int64").astype(np.float64)).mask(coarse.isna())


def _plain(level: Any) -> Any:
    level = level.item() if isinstance(level, np.generic) else level
    return level if isinstance(level, str | int | float | bool) else str(level)


def column_from_metadata(metadata: dict[str, Any]) -> Column:
    """The column whose `metadata` was written."""
    import pandas as pd

    if metadata["categories"] is not None:
        dtype: Any = pd.CategoricalDtype(metadata["categories"], metadata["ordered"])
    else:
        dtype = None if metadata["dtype"] is None else pd.api.types.pandas_dtype(metadata["dtype"])
    return Column(metadata["kind"], dtype, None if metadata["levels"] is None else pd.Index(metadata["levels"]))
