"""Arrays and frames -> one matrix with names, and back to the type the user's model expects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import Batch, InputError


@dataclass(frozen=True, eq=False)
class Table:
    """A matrix (n, columns), the names of rows and columns, and the frame's own column labels if it was a frame."""

    values: np.ndarray[Any, Any]
    columns: tuple[str, ...]
    index: tuple[Any, ...]
    labels: Any = None  # pandas.Index of a frame

    def show(self, values: Batch) -> Batch:
        """A matrix as the user would write it: a frame with the same columns, or the array itself."""
        if self.labels is None:
            return values
        import pandas as pd

        return pd.DataFrame(values, columns=self.labels, copy=False)


def is_frame(data: Any) -> bool:
    return hasattr(data, "columns") and hasattr(data, "iloc")


def as_table(data: Any, what: str, *, empty: bool = False) -> Table:
    """The user's table, checked; `what` names it in errors ("data", "reference")."""
    if is_frame(data):
        names = tuple(str(label) for label in data.columns)
        values, index, labels = _frame_values(data, names, what), tuple(data.index), data.columns
    else:
        values, labels = _array_values(data, what), None
        names, index = tuple(f"x{i}" for i in range(values.shape[1])), tuple(range(len(values)))
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise InputError(f"the {what} has columns named alike: {', '.join(repeated)}; give every column its own name")
    if len(set(index)) < len(index):
        raise InputError(f"the {what} has rows with the same index label; use reset_index(drop=True)")
    if 0 in values.shape and not empty:
        raise InputError(
            f"the {what} is empty ({values.shape[0]} rows, {values.shape[1]} columns); give at least one row"
        )
    return Table(values, names, index, labels)


def _frame_values(frame: Any, names: tuple[str, ...], what: str) -> np.ndarray[Any, Any]:
    bad = [name for name, dtype in zip(names, frame.dtypes, strict=True) if getattr(dtype, "kind", "O") not in "fiub"]
    if bad:
        raise InputError(f"column {bad[0]!r} of the {what} is not numeric; encode or drop it (and {len(bad) - 1} more)")
    single = all(dtype == np.float32 for dtype in frame.dtypes)
    return np.array(frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan), order="C")


def _array_values(data: Any, what: str) -> np.ndarray[Any, Any]:
    try:
        values = np.array(data, order="C")
    except ValueError as error:
        raise InputError(f"the {what} is not a rectangular table: {error}") from error
    if values.ndim != 2:
        raise InputError(f"the {what} has shape {values.shape}; expected two dimensions, (rows, columns)")
    if values.dtype.kind not in "fiub":
        raise InputError(f"the {what} holds {values.dtype} values; expected numbers")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def check_complete(table: Table, what: str) -> None:
    """Raise at the first missing or infinite value, naming its row and column."""
    bad = ~np.isfinite(table.values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"the {what} has {table.values[row, column]} in row {table.index[row]!r}, column "
            f"{table.columns[column]!r}; fill or drop it, this sampler needs every value"
        )
