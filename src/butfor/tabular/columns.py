"""One column of a frame <-> numbers: categories and text as codes, yes and no as 1 and 0, times as microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from butfor.core.types import Floats, InputError

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

    def metadata(self) -> dict[str, Any]:
        """For a file; levels that JSON does not know become text."""
        levels = None if self.levels is None else [_plain(level) for level in self.levels]
        named = None if self.dtype is None else str(self.dtype)
        known = [_plain(level) for level in self.dtype.categories] if named == "category" else None
        ordered = self.dtype.ordered if named == "category" else None
        return {"kind": self.kind, "dtype": named, "levels": levels, "categories": known, "ordered": ordered}

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


def _plain(level: object) -> object:
    level = level.item() if isinstance(level, np.generic) else level
    return level if isinstance(level, str | int | float | bool) else str(level)


def column_from_metadata(metadata: dict[str, Any]) -> ColumnType:
    """The column whose `metadata` was written."""
    import pandas as pd

    if metadata["kind"] not in KINDS or (metadata["kind"] == "category") != (metadata["levels"] is not None):
        raise ValueError(f"a column is of kind {metadata['kind']!r:.60}")
    if metadata["categories"] is not None:
        dtype: Any = pd.CategoricalDtype(metadata["categories"], metadata["ordered"])
    else:
        dtype = None if metadata["dtype"] is None else pd.api.types.pandas_dtype(metadata["dtype"])
    return ColumnType(metadata["kind"], dtype, None if metadata["levels"] is None else pd.Index(metadata["levels"]))
