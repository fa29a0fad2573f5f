"""Tables that are read and written a block at a time: Parquet, or CSV where pyarrow is not there."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from butfor.core.types import InputError
from butfor.models.optional import one_line
from butfor.tabular.files import PARQUET, check_header, check_lines, framed, plain_types

if TYPE_CHECKING:
    import pandas as pd

READ = 65_536  # rows that are read at a time


def read_blocks(path: Path, what: str, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
    """The rows of a CSV or Parquet file, some at a time, each column of the same type throughout."""
    if path.suffix.lower() not in PARQUET:
        yield from _csv_blocks(path, what)
        return
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise InputError(
            f"the {what} {path} is Parquet, which needs pyarrow; pip install 'butfor[parquet]', or give a CSV file"
        ) from error
    try:
        with open(path, "rb") as file:
            yield from _parquet_blocks(arrow, parquet.ParquetFile(file), path, what, columns)
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise InputError(f"the {what} {path} cannot be read: {reason}; name a Parquet file") from error
    except arrow.ArrowException as error:
        raise InputError(f"the {what} {path} cannot be read as Parquet: {one_line(error)}") from error


def _parquet_blocks(
    arrow: Any, file: Any, path: Path, what: str, columns: Sequence[str] | None
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    gappy, start = _gappy(file), 0
    for batch in file.iter_batches(batch_size=READ, columns=columns):
        table = plain_types(arrow, arrow.Table.from_batches([batch]), path, what)
        frame = framed(table)
        if isinstance(frame.index, pd.RangeIndex):  # rows are numbered through, whatever block they are in
            frame.index = pd.RangeIndex(start, start + len(frame))
        kinds = {name: frame[name].dtype for name in gappy.intersection(frame.columns)}
        frame = frame.astype(
            {name: float if kind.kind in "iu" else object for name, kind in kinds.items() if kind.kind in "iub"}
        )
        if not start:
            check_header(list(map(str, frame.columns)), path, what)
        start += len(frame)
        yield frame


def _gappy(file: Any) -> set[str]:
    """Columns in which some value is missing, or may be: pandas then has no whole numbers in any of their blocks."""
    found = set()
    for group in range(file.metadata.num_row_groups):
        for place in range(file.metadata.num_columns):
            column = file.metadata.row_group(group).column(place)
            known = column.statistics
            if known is None or not known.has_null_count or known.null_count:
                found.add(column.path_in_schema)
    return found


def _csv_blocks(path: Path, what: str) -> Iterator[pd.DataFrame]:
    import pandas as pd

    check_lines(path, what)
    try:
        kinds: dict[str, set[Any]] = {}
        with pd.read_csv(path, encoding="utf-8", index_col=False, chunksize=READ) as parts:
            for part in parts:
                for name, dtype in part.dtypes.items():
                    kinds.setdefault(str(name), set()).add(dtype)
        types = {name: one for name, some in kinds.items() if (one := _common(some)) is not None}
        with pd.read_csv(path, encoding="utf-8", index_col=False, chunksize=READ, dtype=types) as parts:
            yield from parts
    except (pd.errors.ParserError, ValueError) as error:
        raise InputError(f"the {what} {path} cannot be read as CSV: {one_line(error)}") from error


def _common(kinds: set[Any]) -> Any:
    """The type that reading the file as a whole would give a column; None: pandas finds it out itself."""
    letters = {kind.kind for kind in kinds}
    if len(kinds) == 1:
        return None if letters == {"O"} else next(iter(kinds))
    if letters <= set("iu"):
        return "float64" if letters == {"i", "u"} else max(kinds, key=lambda kind: kind.itemsize)
    return "float64" if letters <= set("iuf") else object if "O" in letters and letters != {"O", "b"} else None


def in_blocks(frames: Iterable[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
    """The same rows in blocks of exactly so many, but for the last."""
    import pandas as pd

    kept: list[pd.DataFrame] = []
    for frame in frames:
        kept.append(frame)
        while sum(map(len, kept)) >= rows:
            whole = kept[0] if len(kept) == 1 else pd.concat(kept)
            yield whole.iloc[:rows]
            kept = [whole.iloc[rows:]]
    if sum(map(len, kept)):
        yield kept[0] if len(kept) == 1 else pd.concat(kept)


class BlockWriter:
    """A table that is written a block at a time, by its ending as Parquet or CSV."""

    def __init__(self, path: Path) -> None:
        self.path, self._file, self._writer = path, None, None  # type: Path, Any, Any

    def __enter__(self) -> BlockWriter:
        return self

    def __exit__(self, *_: object) -> None:
        for part in (self._writer, self._file):
            if part is not None and not isinstance(part, bool):
                part.close()

    def write(self, frame: pd.DataFrame) -> None:
        if self.path.suffix.lower() not in PARQUET:
            if self._file is None:
                self._file = open(self.path, "w", encoding="utf-8", newline="")  # noqa: SIM115
            frame.to_csv(self._file, index=False, header=self._file.tell() == 0, quoting=csv.QUOTE_MINIMAL)
            return
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        schema = None if self._writer is None else self._writer.schema
        try:
            table = arrow.Table.from_pandas(frame, schema=schema, preserve_index=False)
        except arrow.ArrowException as error:
            raise InputError(
                f"the names of the inputs are of another type than in earlier blocks ({one_line(error)}); give all "
                "rows names of one type"
            ) from error
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self.path, table.schema)
        self._writer.write_table(table)


def usual_ending() -> str:
    """.parquet where pyarrow is there, else .csv."""
    return ".parquet" if find_spec("pyarrow") is not None else ".csv"


def written_blocks(path: Path, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
    """What a BlockWriter wrote, block by block; numbers are the same bits."""
    if path.suffix.lower() in PARQUET:
        with open(path, "rb") as file:
            for batch in import_module("pyarrow.parquet").ParquetFile(file).iter_batches(READ * 4, columns=columns):
                yield batch.to_pandas()
        return
    import pandas as pd

    exact = dict.fromkeys(("observed", "p", "z"), str)  # not all versions of pandas read back what they wrote
    with pd.read_csv(path, chunksize=READ * 4, usecols=columns, dtype=exact) as frames:  # type: ignore[arg-type]
        for frame in frames:
            yield frame.astype({name: float for name in exact if name in frame.columns})
