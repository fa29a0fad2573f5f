"""Files of a command line -> frames and subsets: CSV, Parquet and JSON, read strictly."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butfor.core.parsing import parse_json, read_bounded
from butfor.core.types import InputError
from butfor.models.optional import one_line
from butfor.tabular.table import twice

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")


def read_table(path: Path, what: str) -> pd.DataFrame:
    """The table of a CSV or, by its ending, a Parquet file; `what` names it in errors ("data", "reference")."""
    return read_parquet(path, what) if path.suffix.lower() in PARQUET else read_csv(path, what)


def read_csv(path: Path, what: str) -> pd.DataFrame:
    """The table of a UTF-8 CSV file with one header line; `what` names it in errors ("data", "reference").

    What pandas mends in silence is refused: columns named alike or not at all, lines with too few or too many values.
    """
    import pandas as pd

    check_lines(path, what)
    try:
        return pd.read_csv(path, encoding="utf-8", index_col=False, low_memory=False)
    except (pd.errors.ParserError, ValueError) as error:
        raise InputError(f"the {what} {path} cannot be read as CSV: {one_line(error)}") from error


def check_lines(path: Path, what: str) -> None:
    """One pass over the file: it exists, is UTF-8, has names and rows, and every line has as many values."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = next(lines, [])
            check_header(header, path, what)
            rows = 0
            for line in lines:
                if line and len(line) != len(header):
                    raise InputError(
                        f"line {lines.line_num} of the {what} {path} has {len(line)} values, but the header names "
                        f"{len(header)} columns; mend that line (a value with a comma needs quotes)"
                    )
                rows += bool(line)
    except UnicodeDecodeError:
        raise _not_utf8(path, what) from None
    except csv.Error as error:
        raise InputError(f"the {what} {path} cannot be read as CSV: {error}") from error
    except OSError as error:
        raise InputError(f"the {what} {path} cannot be read: {error.strerror}; name a CSV file") from error
    if not rows:
        raise InputError(f"the {what} {path} has a header but no rows; give at least one row")


def check_header(header: list[str], path: Path, what: str) -> None:
    """Refuse columns that are named alike or not at all."""
    if not header:
        raise InputError(f"the {what} {path} is empty; expected a header line with column names, then rows")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
        start = header[0][:60]
        raise InputError(f"the header of the {what} {path} is one column, {start!r}; separate columns by commas")
    if "" in header:
        raise InputError(
            f"column {header.index('') + 1} of the {what} {path} has no name; name it (and use --index for row names), "
            "or save the file without it: to_csv(path, index=False)"
        )
    if repeated := twice(header):
        raise InputError(
            f"the {what} {path} has columns named alike: {', '.join(repeated)}; give every column its own name"
        )


def _not_utf8(path: Path, what: str) -> InputError:
    raw = path.read_bytes()
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return InputError(
            f"the {what} {path} is not UTF-8: byte {error.start} (line {line}) is 0x{raw[error.start]:02x}; "
            "save it again as UTF-8"
        )
    return InputError(f"the {what} {path} is not UTF-8; save it again as UTF-8")


def read_parquet(path: Path, what: str) -> pd.DataFrame:
    """The table of a Parquet file: dates as times, decimals as numbers, and pandas' own index where it names each row.

    What is nested (lists, structures) has no meaning as a feature and is refused.
    """
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise InputError(
            f"the {what} {path} is Parquet, which needs pyarrow; pip install 'butfor[parquet]', or give a CSV file"
        ) from error
    try:
        with open(path, "rb") as file:
            table = plain_types(arrow, parquet.ParquetFile(file).read(), path, what)
        frame: pd.DataFrame = framed(table)
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise InputError(f"the {what} {path} cannot be read: {reason}; name a Parquet file") from error
    except arrow.ArrowException as error:
        raise InputError(f"the {what} {path} cannot be read as Parquet: {one_line(error)}") from error
    check_header(list(map(str, frame.columns)), path, what)
    if not len(frame):
        raise InputError(f"the {what} {path} has columns but no rows; give at least one row")
    if frame.index.nlevels == 1 and frame.index.is_unique and not frame.index.hasnans:
        return frame
    return frame.reset_index(drop=frame.index.names == [None])


def framed(table: Any) -> pd.DataFrame:
    """The table as pandas reads it; what pandas itself wrote beside it may be broken, and then is not used."""
    try:
        return table.to_pandas(date_as_object=False)  # type: ignore[no-any-return]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return table.replace_schema_metadata(None).to_pandas(date_as_object=False)  # type: ignore[no-any-return]


def plain_types(arrow: Any, table: Any, path: Path, what: str) -> Any:
    """The table with decimals as numbers; what is nested is refused."""
    kinds = arrow.types
    nested = [field for field in table.schema if kinds.is_nested(field.type)]
    if nested:
        raise InputError(
            f"column {nested[0].name!r} of the {what} {path} holds {nested[0].type}; give columns of single values"
        )
    plain = [field.with_type(arrow.float64()) if kinds.is_decimal(field.type) else field for field in table.schema]
    return table.cast(arrow.schema(plain, table.schema.metadata))


def read_subsets(path: Path) -> dict[str, Any] | list[Any]:
    """Groups of columns from JSON: {"name": ["column", ...], ...} or ["column", ["column", "column"], ...]."""
    try:
        subsets = parse_json(read_bounded(path, "the subsets").decode("utf-8"), _distinct)
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"the subsets {path} {error}") from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise InputError(f"the subsets {path} are not JSON: {one_line(error)}; {SUBSETS}") from error
    entries = list(subsets.values()) if isinstance(subsets, dict) else subsets
    if not isinstance(entries, list) or not all(_names_columns(entry) for entry in entries):
        raise InputError(f"the subsets {path} hold something other than columns; {SUBSETS}")
    return subsets  # type: ignore[no-any-return]


SUBSETS = (
    'expected {"name": ["column", ...], ...}, a mapping of such mappings, or ["column", ["column", "column"], ...]'
)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if repeated := twice([name for name, _ in pairs]):
        raise InputError(f"name {', '.join(repeated)} twice; give every subset its own name")
    return dict(pairs)


def _names_columns(entry: object) -> bool:
    if isinstance(entry, dict):  # a branch of a tree
        return bool(entry) and all(map(_names_columns, entry.values()))
    columns = entry if isinstance(entry, list) else [entry]
    return all(isinstance(column, str | int) and not isinstance(column, bool) for column in columns)
