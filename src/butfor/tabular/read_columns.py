"""Columns as files hold them: which become times or categories, and what is odd about those that are text."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from butfor.core.types import InputError
from butfor.tabular.where import some

if TYPE_CHECKING:
    import pandas as pd

Frames = Mapping[str, "pd.DataFrame"]  # by what they are called in errors
NAMES = 20  # so many rows that all differ in a column of text: it holds their names


def is_text(frame: pd.DataFrame, name: str) -> bool:
    """Whether a column holds neither numbers nor yes and no nor times.

    >>> import pandas as pd
    >>> is_text(pd.DataFrame({"a": ["x"], "b": [1]}), "a")
    True
    """
    return name in frame.columns and frame[name].dtype.kind not in "fiubmM"


def text_columns(frame: pd.DataFrame) -> set[str]:
    """The columns of text, by the types of all of them at once: a frame may have ten thousand."""
    return {name for name, dtype in frame.dtypes.items() if dtype.kind not in "fiubmM"}  # type: ignore[misc]


def typed(frames: Frames, dates: Sequence[str], categories: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The frames with text columns read as times or made categories of the same levels in all of them.

    >>> import pandas as pd
    >>> typed({"data": pd.DataFrame({"day": ["2024-02-29"]})}, ["day"], [])["data"].day[0]
    Timestamp('2024-02-29 00:00:00')
    """
    changed = {what: frame.copy(deep=False) for what, frame in frames.items()}
    for what, frame in changed.items():
        for name in dates:
            if is_text(frame, name):
                frame[name] = _times(frame[name], name, what)
    for name in categories:
        dtype = _category([frame[name] for frame in frames.values() if name in frame.columns])
        for frame in changed.values():
            if name in frame.columns:
                frame[name] = frame[name].astype(dtype)
    return _same_flags(changed)


def _same_flags(frames: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Yes and no are objects to pandas where one is missing; then they are in every frame, so that they stay alike."""
    import pandas as pd

    def gappy(column: pd.Series[Any]) -> bool:
        return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) == "boolean"

    names = {name for frame in frames.values() for name in text_columns(frame) if gappy(frame[name])}
    for frame in frames.values():
        for name in names.intersection(frame.columns):
            if frame[name].dtype == bool:
                frame[name] = frame[name].astype(object)
    return frames


def _times(column: pd.Series[Any], name: str, what: str) -> pd.Series[Any]:
    import pandas as pd

    try:
        return pd.to_datetime(column, format="ISO8601")
    except ValueError as error:  # also of several offsets from UTC, which one column of pandas cannot hold
        odd = column[pd.to_datetime(column, format="ISO8601", errors="coerce", utc=True).isna() & column.notna()]
        place = (
            f"{str(odd.iloc[0])[:60]!r} in row {odd.index.tolist()[0]!r}" if len(odd) else "several offsets from UTC"
        )
        raise InputError(
            f"--dates: column {name!r} of the {what} has {place}; write dates like 2024-02-29 or 2024-02-29T12:00"
        ) from error


def _category(columns: Sequence[pd.Series[Any]]) -> pd.CategoricalDtype:
    import pandas as pd

    levels = pd.concat([column.dropna().astype(object) for column in columns]).unique()
    return pd.CategoricalDtype(sorted(levels, key=lambda level: (str(type(level)), level)))


def check_text(columns: Sequence[str], frames: Frames, *, sure: bool) -> None:
    """Refuse columns that are text in one table and numbers in another, and what looks like the rows' names.

    Text that is nearly all numbers, or nearly all different, is said in a warning. `sure` is for columns that the user
    or the model has named.
    """
    texts = {what: text_columns(frame) for what, frame in frames.items()}
    for name in columns:
        if not any(name in found for found in texts.values()):
            continue  # numbers everywhere
        known = [what for what, frame in frames.items() if frame[name].notna().any()]
        text, other = ([what for what in known if (name in texts[what]) is wanted] for wanted in (True, False))
        if text and other:
            raise InputError(
                f"column {name!r} holds text in the {text[0]} ({_odd(frames[text[0]], name)}) and none in the "
                f"{other[0]}; mend it, or leave it out with --drop {name}"
            )
        if text:
            _check_names(name, frames, sure)


def _odd(frame: pd.DataFrame, name: str) -> str:
    """The first value that is no number, and its place."""
    column = frame[name].astype(object)
    odd = column[~_numbers(column) & column.notna()]
    if not len(odd):
        return f"such as {column.dropna().iloc[0]!r:.60}"
    return f"{odd.iloc[0]!r:.60} in row {odd.index.tolist()[0]!r}"


def _numbers(column: pd.Series[Any]) -> pd.Series[Any]:
    """Which values are numbers or spell one."""
    import pandas as pd

    try:
        return pd.to_numeric(column, errors="coerce").notna()
    except OverflowError:  # one of them has more than 308 digits
        return pd.to_numeric(column.astype(str), errors="coerce").notna()


def _check_names(name: str, frames: Frames, sure: bool) -> None:
    import pandas as pd

    values = pd.concat([frame[name].astype(object) for frame in frames.values()]).dropna()
    different, rows = values.nunique(), len(values)
    if different == rows >= NAMES and not sure:
        raise InputError(
            f"column {name!r} holds another text in every row, as names do; use --index {name}, --dates {name} or "
            f"--drop {name}, or list it in --features if it is one"
        )
    numbers = int(_numbers(values).sum())
    if rows > numbers >= rows / 2:
        what = next(what for what, frame in frames.items() if "such as" not in _odd(frame, name))
        warnings.warn(
            f"column {name!r} is redrawn as categories, though {numbers} of its {rows} values are numbers; "
            f"{_odd(frames[what], name)} of the {what} is none",
            stacklevel=2,
        )
    elif different > rows / 2 and rows >= NAMES:
        warnings.warn(
            f"column {name!r} has {different} different texts in {rows} rows, too many to redraw well; leave it out "
            "with --drop, or read it as times with --dates",
            stacklevel=2,
        )


def listed(entries: Sequence[str], columns: Collection[str], option: str = "") -> list[str]:
    """Names as a person gives them: repeated options, each one name or several with commas between.

    >>> listed(["a,b", "c,d"], ["a", "b", "c,d"])
    ['a', 'b', 'c,d']
    """
    names = [name for entry in entries for name in ([entry] if entry in columns else entry.split(","))]
    if unknown := [name for name in names if name not in columns]:
        raise InputError(f"{option}there is no column {unknown[0]!r}; the columns are {some(list(columns))}")
    return names
