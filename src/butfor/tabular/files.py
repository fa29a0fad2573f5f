"""Read tables and subsets from files: CSV, Parquet and JSON, strictly; rows are picked by expressions."""

from __future__ import annotations

import ast
import csv
import io
import operator
import re
import tokenize
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.models.wrap import is_series, one_line
from butfor.streams import stream
from butfor.tabular.table import twice
from butfor.types import Bools, InputError, reworded
from butfor.untrusted import MOST_MEMORY, TIMES, TimedPattern, parse_json, read_bounded

if TYPE_CHECKING:
    import pandas as pd


PARQUET = (".parquet", ".pq")


def read_table(path: Path, what: str) -> pd.DataFrame:
    """Read a CSV or, by its ending, a Parquet file; `what` names it in errors ("data", "reference")."""
    return read_parquet(path, what) if path.suffix.lower() in PARQUET else read_csv(path, what)


def read_csv(path: Path, what: str) -> pd.DataFrame:
    """Read a UTF-8 CSV file with one header line; `what` names it in errors ("data", "reference").

    What pandas mends in silence is refused: columns named alike or not at all, lines with too few or too many values.
    """
    import pandas as pd

    with reworded(f"the {what} {path} cannot be read as CSV: ", (csv.Error, ValueError)):
        try:
            with open(path, encoding="utf-8-sig", newline="") as file:
                lines = csv.reader(file)
                header = next(lines, [])
                _check_header(header, path, what)
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
        except OSError as error:
            raise InputError(f"the {what} {path} cannot be read: {error.strerror}; name a CSV file") from error
        if not rows:
            raise InputError(f"the {what} {path} has a header but no rows; give at least one row")
        return pd.read_csv(path, encoding="utf-8", index_col=False, low_memory=False)


def _check_header(header: list[str], path: Path, what: str) -> None:
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


VALUE = 16  # bytes of a value in memory, about, while it is read


def read_parquet(path: Path, what: str) -> pd.DataFrame:
    """Read a Parquet file: dates as times, decimals as numbers, and pandas' own index where it names each row.

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
            opened, size = parquet.ParquetFile(file), path.stat().st_size
            footer = opened.metadata  # which may tell of far more than a file of its size holds
            groups = (footer.row_group(k).total_byte_size for k in range(footer.num_row_groups))
            unpacked = max(VALUE * footer.num_rows * footer.num_columns, sum(groups))
            if unpacked > max(MOST_MEMORY, TIMES * size):
                raise InputError(
                    f"the {what} {path} has {size / 1e6:,.1f} MB and would take {unpacked / 1e6:,.0f} MB of memory "
                    f"({footer.num_rows:,} rows, {footer.num_columns:,} columns); give fewer rows at a time, or a "
                    "DataFrame"
                )
            table = opened.read()
        if nested := [column for column in table.schema if arrow.types.is_nested(column.type)]:
            name, kind = nested[0].name, nested[0].type
            raise InputError(f"column {name!r} of the {what} {path} holds {kind}; give columns of single values")
        decimal, number = arrow.types.is_decimal, arrow.float64()
        plain = [column.with_type(number) if decimal(column.type) else column for column in table.schema]
        table = table.cast(arrow.schema(plain, table.schema.metadata))
        broken = (KeyError, TypeError, ValueError, AttributeError, RecursionError)  # what pandas wrote beside it may be
        try:
            frame: pd.DataFrame = table.to_pandas(date_as_object=False)
        except broken:
            frame = table.replace_schema_metadata(None).to_pandas(date_as_object=False)
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise InputError(f"the {what} {path} cannot be read: {reason}; name a Parquet file") from error
    except arrow.ArrowException as error:
        raise InputError(f"the {what} {path} cannot be read as Parquet: {one_line(error)}") from error
    _check_header(list(map(str, frame.columns)), path, what)
    if not len(frame):
        raise InputError(f"the {what} {path} has columns but no rows; give at least one row")
    if frame.index.nlevels == 1 and frame.index.is_unique and not frame.index.hasnans:
        return frame
    return frame.reset_index(drop=frame.index.names == [None])


SUBSETS = (
    'expected {"name": ["column", ...], ...}, a mapping of such mappings, or ["column", ["column", "column"], ...]'
)


def read_subsets(path: Path) -> dict[str, Any] | list[Any]:
    """Read groups of columns from JSON: {"name": ["column", ...], ...} or ["column", ["column", "column"], ...]."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if repeated := twice([name for name, _ in pairs]):
            raise InputError(f"name {', '.join(repeated)} twice; give every subset its own name")
        return dict(pairs)

    def names_columns(entry: object) -> bool:
        if isinstance(entry, dict):  # a branch of a tree
            return bool(entry) and all(map(names_columns, entry.values()))
        columns = entry if isinstance(entry, list) else [entry]
        return all(isinstance(column, str | int) and not isinstance(column, bool) for column in columns)

    try:
        subsets = parse_json(read_bounded(path, "the subsets").decode("utf-8"), distinct)
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"the subsets {path} {error}") from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise InputError(f"the subsets {path} are not JSON: {one_line(error)}; {SUBSETS}") from error
    entries = list(subsets.values()) if isinstance(subsets, dict) else subsets
    if not isinstance(entries, list) or not all(map(names_columns, entries)):
        raise InputError(f"the subsets {path} hold something other than columns; {SUBSETS}")
    return subsets  # type: ignore[no-any-return]


Operand = Any  # a number, a string, or a column of a frame
LONGEST, DEEPEST = 5_000, 60  # characters; brackets inside brackets
LARGEST = 1e300
CHUNK = 10_000  # texts that a pattern is matched with at once
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
JOINERS = {"&": "and", "|": "or"}
OF_COLUMNS = ("isin", "between", "isna", "notna")
OF_TEXT = ("startswith", "endswith", "contains", "lower", "upper", "strip")
METHODS = (*OF_COLUMNS, "str", *OF_TEXT)


def parse(text: str) -> ast.expr:
    """Parse an expression, & and | read as `and` and `or`, as pandas does. Raises ValueError where it is none.

    >>> ast.unparse(parse("age > 40 & `blood group` == 'A'"))
    "age > 40 and blood group == 'A'"
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text)} characters, at most {LONGEST} are read")
    quoted: list[str] = []

    def quote(match: re.Match[str]) -> str:
        quoted.append(match[1])
        return f" _quoted_{len(quoted) - 1}_ "

    plain = re.sub(r"`([^`]+)`", quote, text).strip()
    try:
        words = [
            (tokenize.NAME, JOINERS[word]) if kind == tokenize.OP and word in JOINERS else (kind, word)
            for kind, word, *_ in tokenize.generate_tokens(io.StringIO(plain).readline)
        ]
        tree = ast.parse(tokenize.untokenize(words).strip(), mode="eval").body
    except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, IndexError) as error:
        raise ValueError(str(error)) from error
    layer: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        layer = [child for node in layer for child in ast.iter_child_nodes(node)]
    if layer:
        raise ValueError("it is nested too deeply")
    for name in (node for node in ast.walk(tree) if isinstance(node, ast.Name)):
        number = re.fullmatch(r"_quoted_(\d+)_", name.id)
        if number and int(number[1]) < len(quoted):
            name.id = quoted[int(number[1])]
    return tree


@dataclass(frozen=True, eq=False)
class Evaluation:
    frame: pd.DataFrame

    def of(self, node: ast.expr) -> Operand:
        """Return a column, or a single value where no column is named."""
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str()):
                return node.value
            case ast.Name():
                if node.id in self.frame.columns:
                    return self.frame[node.id]
                if node.id in ("index", self.frame.index.name):
                    return self.frame.index.to_series()
                raise NameError(f"name {node.id!r} is not defined")
            case ast.List() | ast.Tuple() | ast.Set():
                return [self.of(one) for one in node.elts]
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                return ~_truth(self.of(node.operand))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                value = _number(self.of(node.operand))
                return -value if isinstance(node.op, ast.USub) else value
            case ast.BoolOp():
                join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
                return reduce(join, [_truth(self.of(one)) for one in node.values])
            case ast.BinOp(op=op) if type(op) in ARITHMETIC:
                left, right = _number(self.of(node.left)), _number(self.of(node.right))
                if isinstance(op, ast.Pow) and not is_series(left) and not is_series(right):
                    left, right = float(left), float(right)  # whole numbers would grow without end
                result = ARITHMETIC[type(op)](left, right)
                return result if is_series(result) else _number(result)
            case ast.Compare():
                return self._compared(node)
            case ast.Call(func=ast.Attribute() as function):
                return self._called(node, function)
        raise TypeError(f"{ast.unparse(node)[:60]} is not allowed here")

    def _compared(self, node: ast.Compare) -> Operand:
        parts, left = [], self.of(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.of(right_node)
            if isinstance(op, ast.In | ast.NotIn) or (isinstance(right, list) and isinstance(op, ast.Eq | ast.NotEq)):
                if not is_series(left) or not isinstance(right, list):
                    raise TypeError("write it as column in ['a', 'b']")
                result = left.isin(right)
                parts.append(result if isinstance(op, ast.In | ast.Eq) else ~result)
            elif type(op) in COMPARISONS and not isinstance(left, list) and not isinstance(right, list):
                parts.append(COMPARISONS[type(op)](left, right))
            else:
                raise TypeError(f"{ast.unparse(node)[:60]} compares what cannot be compared")
            left = right
        return reduce(operator.and_, parts)

    def _called(self, node: ast.Call, function: ast.Attribute) -> Operand:
        given = [self.of(one) for one in node.args]
        named = {str(one.arg): self.of(one.value) for one in node.keywords}
        if any(is_series(value) for value in (*given, *named.values())) and function.attr != "between":
            raise TypeError(f".{function.attr} takes values, not columns")
        if function.attr in OF_COLUMNS:
            column = self.of(function.value)
            if not is_series(column):
                raise TypeError(f".{function.attr} is for a column")
            return operator.methodcaller(function.attr, *given, **named)(column)
        inner = function.value
        if function.attr not in OF_TEXT or not isinstance(inner, ast.Attribute) or inner.attr != "str":
            raise TypeError(f"write column.str.{function.attr}(...)")
        column = self.of(inner.value)
        if not is_series(column) or column.dtype.kind in "fiubmM":
            raise TypeError(f".str.{function.attr} is for a column of text")
        if function.attr == "contains":
            return _contains(column, *given, **named)
        missing = {"na": False} if function.attr in ("startswith", "endswith") else {}
        return operator.methodcaller(function.attr, *given, **missing, **named)(column.str)


def _truth(value: Operand) -> Operand:
    if isinstance(value, bool):
        return np.bool_(value)
    if is_series(value) and value.dtype.kind == "b":
        return value.fillna(False)
    raise TypeError("`and`, `or` and `not` combine comparisons")


def _number(value: Operand) -> Operand:
    """Return a number or a column of them: text that is multiplied would take any amount of memory."""
    if is_series(value) and value.dtype.kind in "fiubmM":
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
        return value
    raise TypeError("only numbers can be computed with")


def _contains(column: pd.Series[Any], pat: str, case: bool = True, regex: bool = True, **_: object) -> pd.Series[Any]:
    """Return which texts of a column match a pattern, in bounded time; none that are missing."""
    if not isinstance(pat, str):
        raise TypeError(".str.contains takes a text")
    pattern = TimedPattern(pat if regex else re.escape(pat), 0 if case else int(re.IGNORECASE))
    levels = [level for level in column.dropna().unique().tolist() if isinstance(level, str)]
    chunks = [levels[start : start + CHUNK] for start in range(0, len(levels), CHUNK)]
    matched = {text for chunk in chunks for text, spans in zip(chunk, pattern.spans(chunk), strict=True) if spans}
    return column.isin(list(matched))


def matches(frame: pd.DataFrame, expression: str, option: str) -> Bools:
    """Return which rows an expression is true for; it sees nothing but the columns. `option` names it in errors.

    >>> import pandas as pd
    >>> matches(pd.DataFrame({"age": [30, 60], "group": ["a", "b"]}), "age > 40 and group == 'b'", "--data-where")
    array([False,  True])
    """
    mask = evaluated(frame, expression, option)
    if not mask.any():
        raise InputError(f"{option} {expression!r} matches none of the {len(frame)} rows; look at how values are spelt")
    return mask


def evaluated(frame: pd.DataFrame, expression: str, option: str) -> Bools:
    """Return the same, where it may be true for none."""
    parsed = _parsed(expression, option)
    advice = f"); the columns are {some(list(frame.columns))}"
    with reworded(f"{option} {expression!r:.200} cannot be evaluated (", advice=advice), np.errstate(all="ignore"):
        answer = Evaluation(frame).of(parsed)  # pandas raises a dozen kinds for what may be mistyped
    if not (is_series(answer) and answer.dtype.kind == "b" and len(answer) == len(frame)):
        raise InputError(
            f'{option} {expression!r:.200} is not true or false for each row; compare something: "age > 40"'
        )
    return np.asarray(answer.fillna(False), bool)


def names_in(expression: str, option: str = "") -> set[str]:
    """Return the names in an expression, which may compare, combine and call a few harmless methods only.

    >>> sorted(names_in("age > 40 and `blood group`.isin(['A', 'B'])"))
    ['age', 'blood group']
    """
    return {node.id for node in ast.walk(_parsed(expression, option)) if isinstance(node, ast.Name)}


def _parsed(expression: str, option: str) -> ast.expr:
    try:
        parsed = parse(expression)
    except ValueError as error:
        raise InputError(
            f"{option} {expression!r:.200} is not an expression; write it like \"age > 40 and group == 'b'\", names "
            "with spaces in `backticks`"
        ) from error
    attributes = [node.attr for node in ast.walk(parsed) if isinstance(node, ast.Attribute)]
    if odd := [name for name in attributes if name not in METHODS]:
        raise InputError(
            f"{option} {expression!r:.200} uses .{odd[0]}; only {', '.join(METHODS)} may be called on a column"
        )
    return parsed


def some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"{name!s:.60}" for name in names[:most]) + more


Frames = Mapping[str, "pd.DataFrame"]  # by what they are called in errors
NAMES = 20  # so many rows that all differ in a column of text: it holds their names


def text_columns(frame: pd.DataFrame) -> set[str]:
    """Return the columns that hold neither numbers nor yes and no nor times.

    >>> import pandas as pd
    >>> text_columns(pd.DataFrame({"a": ["x"], "b": [1]}))
    {'a'}
    """
    return {name for name, dtype in frame.dtypes.items() if dtype.kind not in "fiubmM"}  # type: ignore[misc]


def typed(frames: Frames, dates: Sequence[str], categories: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the frames with text columns read as times or made categories of the same levels in all of them.

    >>> import pandas as pd
    >>> typed({"data": pd.DataFrame({"day": ["2024-02-29"]})}, ["day"], [])["data"].day[0]
    Timestamp('2024-02-29 00:00:00')
    """
    import pandas as pd

    changed = {what: frame.copy(deep=False) for what, frame in frames.items()}
    for what, frame in changed.items():
        text = text_columns(frame)
        for name in (name for name in dates if name in text):
            frame[name] = _times(frame[name], name, what)
    for name in categories:
        columns = [frame[name].dropna().astype(object) for frame in frames.values() if name in frame.columns]
        levels = sorted(pd.concat(columns).unique(), key=lambda level: (str(type(level)), level))
        for frame in changed.values():
            if name in frame.columns:
                frame[name] = frame[name].astype(pd.CategoricalDtype(levels))
    # Yes and no are objects to pandas where one is missing; then they are in every frame, so that they stay alike.
    gappy = {
        name
        for frame in changed.values()
        for name in text_columns(frame)
        if frame[name].dtype == object and pd.api.types.infer_dtype(frame[name], skipna=True) == "boolean"
    }
    for frame in changed.values():
        for name in gappy.intersection(frame.columns):
            if frame[name].dtype == bool:
                frame[name] = frame[name].astype(object)
    return changed


def _times(column: pd.Series[Any], name: str, what: str) -> pd.Series[Any]:
    import pandas as pd

    try:
        return pd.to_datetime(column, format="ISO8601")
    except ValueError as error:  # also of several offsets from UTC, which one column of pandas cannot hold
        odd = column[pd.to_datetime(column, format="ISO8601", errors="coerce", utc=True).isna() & column.notna()]
        first = "several offsets from UTC"
        if len(odd):
            first = f"{str(odd.iloc[0])[:60]!r} in row {odd.index.tolist()[0]!r}"
        raise InputError(
            f"--dates: column {name!r} of the {what} has {first}; write dates like 2024-02-29 or 2024-02-29T12:00"
        ) from error


def check_text(columns: Sequence[str], frames: Frames, *, sure: bool) -> None:
    """Refuse columns that are text in one table and numbers in another, and what looks like the rows' names.

    Text that is nearly all numbers, or nearly all different, is warned of. `sure` is for columns that the user or the
    model has named.
    """
    texts = {what: text_columns(frame) for what, frame in frames.items()}
    for name in columns:
        if not any(name in columns for columns in texts.values()):
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
    """Return the first value that is no number, and its row."""
    column = frame[name].astype(object)
    odd = column[~_numbers(column) & column.notna()]
    if not len(odd):
        return f"such as {column.dropna().iloc[0]!r:.60}"
    return f"{odd.iloc[0]!r:.60} in row {odd.index.tolist()[0]!r}"


def _numbers(column: pd.Series[Any]) -> pd.Series[Any]:
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
    """Split names as a person gives them: repeated options, each one name or several with commas between.

    >>> listed(["a,b", "c,d"], ["a", "b", "c,d"])
    ['a', 'b', 'c,d']
    """
    names = [name for entry in entries for name in ([entry] if entry in columns else entry.split(","))]
    if unknown := [name for name in names if name not in columns]:
        raise InputError(f"{option}there is no column {unknown[0]!r}; the columns are {some(list(columns))}")
    return names


SAMPLERS = ("auto", "residual", "gaussian", "copula", "forest", "neighbours", "empirical")


def sampler_named(name: str) -> Callable[[Any], Any]:
    """Return the function of `butfor.tabular` that fits the sampler of this name to reference data."""
    if name not in SAMPLERS:
        raise InputError(f"--sampler must be one of {', '.join(SAMPLERS)}, got {name!r}")
    fit: Callable[[Any], Any] = getattr(import_module("butfor.tabular"), name)
    return fit


@dataclass(frozen=True)
class TableRequest:
    """The rows and columns that a person named; `known` are the columns that the model was fitted on."""

    data: Path
    reference: Path | None = None
    data_where: str | None = None
    reference_where: str | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    index: str | None = None
    truth: str | None = None
    truth_option: str = "--truth"  # its name in errors
    clusters: str | None = None
    reference_groups: str | None = None
    known: Sequence[str] | None = None
    dates: Sequence[str] = ()
    categories: Sequence[str] = ()
    hold_out: float | None = None  # the data are this share of the reference, taken at random
    itself: bool = False  # the data are their own reference where none is given
    what: str = "data"  # the name of the data in errors; its first word is that of their options
    seed: int = 0


@dataclass(frozen=True)
class Tables:
    """Data and reference with the model's columns only, labels and clusters if named, and the source of both."""

    data: pd.DataFrame
    reference: pd.DataFrame
    truth: list[Any] | None
    clusters: list[Any] | None
    reference_groups: list[Any] | None
    sources: dict[str, str]


def read_tables(request: TableRequest) -> Tables:
    """Read, split and trim the tables of a request. What was decided for the person is warned of."""
    frames, path = {request.what: read_table(request.data, request.what)}, request.reference
    if path is not None and not (request.reference_where is not None and path.exists() and path.samefile(request.data)):
        frames["reference"] = read_table(path, "reference")
    everywhere = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    dates = listed(request.dates, everywhere, "--dates: ")
    for name in dates:
        if all(frame[name].dtype.kind in "fiub" for frame in frames.values() if name in frame.columns):
            raise InputError(f"--dates: column {name!r} holds numbers; write dates like 2024-02-29")
    frames = typed(frames, dates, listed(request.categories, everywhere, "--categories: "))
    every, other = frames[request.what], frames.get("reference")
    picked, compared = _split(every, other, request)
    data, reference = every[picked], (every if other is None else other)[compared]
    if request.index not in (None, data.index.name):
        _check_known([request.index], data, "--index: ")
    labels: list[list[Any] | None] = []
    for column, option, frame, what in (
        (request.truth, request.truth_option, data, "data"),
        (request.clusters, "--clusters", data, "data"),
        (request.reference_groups, "--reference-groups", reference, "reference"),
    ):
        if column is not None:
            _check_known([column], frame, f"{option}: ", what)
        labels.append(None if column is None else frame[column].tolist())
    columns = _model_columns(data, reference, request)
    where = f" where {request.reference_where}" if request.reference_where else ""
    sources = {
        "data": f"{len(data)} of {len(every)} rows of {request.data}",
        "reference": f"{len(reference)} rows of {request.data if other is None else request.reference}{where}",
    }
    truth, clusters, groups = labels
    return Tables(_named_rows(data, request.index)[columns], reference[columns], truth, clusters, groups, sources)


def _split(data: pd.DataFrame, other: pd.DataFrame | None, request: TableRequest) -> tuple[Bools, Bools]:
    """Return which rows of the data are explained, and which are the reference (of the data if `other` is None)."""
    if other is None and request.reference_where is None and request.hold_out is None and not request.itself:
        raise InputError(
            "there is nothing to compare with; give --reference FILE, or --reference-where EXPRESSION to take the "
            "reference from the data, such as --reference-where \"diagnosis == 'benign'\""
        )
    source = data if other is None else other
    compared, picked = np.ones(len(source), bool), np.ones(len(data), bool)
    if request.reference_where is not None:
        compared = matches(source, request.reference_where, "--reference-where")
    if (share := request.hold_out) is not None:
        if not 0 < share < 1:
            raise InputError(f"--hold-out must lie strictly between 0 and 1, got {share:g}; 0.2 is a good choice")
        order = stream(request.seed, "hold-out").permutation(np.flatnonzero(compared))
        picked = np.isin(np.arange(len(compared)), order[: round(share * len(order))])
        if picked.sum() in (0, len(order)):
            raise InputError(f"--hold-out {share:g} of {len(order)} rows leaves none on one side; give more rows")
        return picked, compared & ~picked
    if request.data_where is not None:
        picked = matches(data, request.data_where, f"--{request.what.split()[0]}-where")
    if other is not None:
        return picked, compared
    if request.reference_where is None:
        return picked, picked
    if request.data_where is None:
        picked = ~compared
        if not picked.any():
            raise InputError(
                f"--reference-where {request.reference_where!r} matches every row; none is left to explain"
            )
    if both := int((picked & compared).sum()):
        warnings.warn(
            f"{both} rows are explained and belong to the reference as well: for them there is little to find",
            stacklevel=2,
        )
    return picked, compared


def _model_columns(data: pd.DataFrame, reference: pd.DataFrame, request: TableRequest) -> list[str]:
    """Return the columns for the model: those named, else those it was fitted on, else all that are not left out."""
    everywhere = {**dict.fromkeys(data.columns), **dict.fromkeys(reference.columns)}
    only, drop = listed(request.features, everywhere), listed(request.drop, everywhere)
    if only and drop:
        raise InputError("--features and --drop were both given; use one of them")
    named_apart = (request.index, request.truth, request.clusters, request.reference_groups)
    left = {*drop, *(name for name in named_apart if name is not None)}
    sure = bool(only) or (request.known is not None and set(request.known) <= set(data.columns) - left)
    if sure:
        columns = wanted = only or list(request.known or [])
        _check_known(columns, data, "--features: ")
    else:
        # Text named in an expression only picks rows; numbers named there may well be features, so they stay.
        expressions = [text for text in (request.data_where, request.reference_where) if text is not None]
        named = {name for text in expressions for name in names_in(text)} - left
        text = named & (text_columns(data) | text_columns(reference))
        if kept := [name for name in data.columns if name in named - text]:
            warnings.warn(
                f"{some(kept)} picks rows and goes to the model as well; leave it out with --drop if it should not",
                stacklevel=2,
            )
        left |= text
        columns, wanted = ([name for name in frame.columns if name not in left] for frame in (data, reference))
    lacking = [name for name in columns if name not in reference.columns]
    extra = [name for name in wanted if name not in data.columns]
    if lacking or extra:
        pairs = ((lacking, "data"), (extra, "reference"))
        differ = "; ".join(f"{some(names)} only in the {where}" for names, where in pairs if names)
        raise InputError(f"data and reference have other columns ({differ}); give both the same, or use --drop")
    if not columns:
        raise InputError("no column is left for the model; drop fewer")
    check_text(columns, {request.what: data, "reference": reference}, sure=sure)
    return columns


def _check_known(names: Sequence[str], frame: pd.DataFrame, where: str, what: str = "data") -> None:
    if unknown := [name for name in names if name not in frame.columns]:
        raise InputError(f"{where}the {what} has no column {unknown[0]!r}; it has {some(list(frame.columns))}")


def _named_rows(data: pd.DataFrame, index: str | None) -> pd.DataFrame:
    if index is None or index == data.index.name:
        return data
    names = data[index]
    if names.isna().any():
        raise InputError(f"--index {index}: row {names.index[names.isna()].tolist()[0]!r} has no name; fill it in")
    if names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise InputError(f"--index {index}: {twice!r} names several rows; make names unique")
    return data.set_index(index, drop=False)
