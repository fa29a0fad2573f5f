"""A batch as the core gives it (matrix, frame, list) -> what models without pandas take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import DTypeLike

from butfor.core.types import Array, Batch, InputError, ModelError
from butfor.models.optional import attribute

if TYPE_CHECKING:
    import pandas as pd


def is_frame(batch: object) -> TypeGuard[pd.DataFrame]:
    """Whether it is a pandas frame, found out without importing pandas.

    >>> is_frame(np.zeros((2, 2)))
    False
    """
    return attribute(batch, "iloc") is not None and attribute(batch, "columns") is not None


def is_series(data: object) -> TypeGuard[pd.Series[Any]]:
    """Whether it is a pandas series: a column, or one row."""
    return attribute(data, "iloc") is not None and attribute(data, "columns") is None


def check_aligned(labels: object, data: object, what: str = "y") -> None:
    """Refuse labels whose index is another than that of the data, where both have one; `what` is the keyword."""
    labelled, rows = (thing if is_series(thing) or is_frame(thing) else None for thing in (labels, data))
    if labelled is not None and rows is not None and list(labelled.index) != list(rows.index):
        raise InputError(
            f"{what} and the data have different indexes; align them, or give {what}.to_numpy() if rows match"
        )


def matrix(batch: Batch, who: str) -> Array:
    """The batch as a matrix of numbers (n, columns); `who` complains of columns that are not numbers.

    >>> matrix([[1, 2]], "this").shape
    (1, 2)
    """
    if not is_frame(batch):
        return np.asarray(batch)
    odd = [f"{name!r} ({kind})" for name, kind in batch.dtypes.items() if kind.kind not in "fiub"]
    if odd:
        raise ModelError(
            f"{who} takes numbers, but the frame has {', '.join(odd[:4])}{' and more' if len(odd) > 4 else ''}; encode "
            "these columns in a function around the model, or use a pipeline that does"
        )
    return np.asarray(batch.to_numpy(dtype=np.float64, na_value=np.nan))


def chunks(rows: int, most: int) -> list[tuple[int, int]]:
    """Starts and stops of at most `most` rows each.

    >>> chunks(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + most, rows)) for start in range(0, rows, most)]


def taken(batch: Batch, start: int, stop: int) -> Batch:
    """Rows of a matrix, a frame or a list.

    >>> taken(["a", "b", "c"], 1, 3)
    ['b', 'c']
    """
    return batch.iloc[start:stop] if is_frame(batch) else batch[start:stop]


def padded(batch: Batch, rows: int) -> Batch:
    """The batch with its last row repeated until it has so many: for models that take no other number.

    >>> padded(["a", "b"], 3)
    ['a', 'b', 'b']
    """
    if len(batch) >= rows:
        return batch
    if isinstance(batch, list):
        return batch + [batch[-1]] * (rows - len(batch))
    places = np.minimum(np.arange(rows), len(batch) - 1)
    return batch.iloc[places] if is_frame(batch) else batch[places]


def as_type(values: Array, kind: DTypeLike | None, name: str) -> Array:
    """The values as the type that a model declares for its input `name`; nothing is rounded to be whole.

    >>> as_type(np.array([1.0, 2.0]), np.int64, "age").tolist()
    [1, 2]
    """
    try:
        numbers = values if values.dtype.kind in "fiub" else values.astype(np.float64)
        if np.dtype(kind).kind in "iub" and numbers.dtype.kind == "f" and not np.array_equal(numbers, np.rint(numbers)):
            raise ValueError("not all of it is whole")
        return numbers.astype(kind, copy=False)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the model takes {np.dtype(kind).name} in {name!r}, got other values: {error}") from error
