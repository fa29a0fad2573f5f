"""Files of texts -> texts by name: CSV, JSON lines, a directory of .txt files, standard input."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from butfor.core.types import InputError

USUAL = ("text", "review", "sentence", "content", "body", "comment", "document")  # what a column of texts is called
FORMS = "expected a .csv, .tsv, .jsonl, .json or .txt file, a directory of .txt files, or - for standard input"


def read_texts(source: str | Path, *, column: str | None = None, name: str | None = None) -> dict[Any, str]:
    """Texts by name.

    `source` is a CSV or TSV file with a header line, a file of JSON lines (objects or strings) or a JSON list, a
    directory of .txt files (named by their file names), one .txt file (one text), or "-" for standard input (one text
    a line, or JSON lines). `column` is where the texts are (None: the only column, or one called text, review, ...),
    `name` the column with their names (None: the number of the row, from 1). Characters stay as they are, line ends
    inside a text included.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "reviews.csv").write_text("id,text\\n7,Good.\\n9,Bad.\\n")
    ...     read_texts(Path(folder, "reviews.csv"), name="id")
    {'7': 'Good.', '9': 'Bad.'}
    """
    if str(source) == "-":
        return _lines(_decoded(sys.stdin.buffer.read(), "standard input"), column, name)
    path = Path(source).expanduser()
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise InputError(f"the texts {source} do not exist; {FORMS}")
    ending = path.suffix.lower()
    readers: dict[str, Callable[[str], dict[Any, str]]] = {
        ".csv": lambda content: _table(content, ",", column, name, path),
        ".tsv": lambda content: _table(content, "\t", column, name, path),
        ".jsonl": lambda content: _json_lines(content, column, name, str(path)),
        ".ndjson": lambda content: _json_lines(content, column, name, str(path)),
        ".json": lambda content: _json(content, column, name, path),
        ".txt": lambda content: {path.name: content},
    }
    if ending not in readers:
        raise InputError(f"{source} is no file of texts by its name; {FORMS}")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"the texts {source} cannot be read: {error.strerror or error}") from error
    return readers[ending](_decoded(raw, str(path)))


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"{where} is not UTF-8 (line {line}); save it as UTF-8") from error


def _folder(path: Path) -> dict[Any, str]:
    files = [file for file in path.iterdir() if file.suffix.lower() == ".txt" and not file.name.startswith(".")]
    if not files:
        raise InputError(f"the directory {path} has no .txt files; {FORMS}")
    files.sort(key=lambda file: _natural(file.name))
    return {file.name: _decoded(file.read_bytes(), str(file)) for file in files}


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    parts = re.findall(r"\d+|\D+", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], name


def _table(content: str, mark: str, column: str | None, name: str | None, path: Path) -> dict[Any, str]:
    csv.field_size_limit(2**31 - 1)
    rows = list(csv.reader(StringIO(content, newline=""), delimiter=mark))
    rows = [row for row in rows if row]
    if not rows:
        raise InputError(f"{path} is empty; expected a header line and a row for each text")
    header, body = rows[0], rows[1:]
    texts = header.index(_column(header, column, str(path)))
    named = None if name is None else header.index(_known(header, name, str(path)))
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise InputError(f"row {number} of {path} has {len(row)} fields, the header {len(header)}; quote the texts")
    names = _names(((row[named] if named is not None else None) for row in body), str(path))
    return dict(zip(names, (row[texts] for row in body), strict=True))


def _column(columns: list[str], asked: str | None, where: str) -> str:
    if asked is not None:
        return _known(columns, asked, where)
    if len(columns) == 1:
        return columns[0]
    usual = [column for column in columns if column.strip().lower() in USUAL]
    if len(usual) != 1:
        raise InputError(f"{where} has the columns {', '.join(columns)}; say which holds the texts: column=...")
    return usual[0]


def _known(columns: list[str], asked: str, where: str) -> str:
    if asked not in columns:
        raise InputError(f"{where} has no column {asked!r}; it has {', '.join(columns)}")
    return asked


def _names(given: Iterable[Any], where: str) -> list[Any]:
    names = [number if name is None else str(name) for number, name in enumerate(given, start=1)]
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise InputError(f"two texts of {where} are called {name!r}; names must differ")
        seen.add(name)
    return names


def _lines(content: str, column: str | None, name: str | None) -> dict[Any, str]:
    """One text a line; JSON lines if the first one is an object."""
    if content.lstrip().startswith("{"):
        return _json_lines(content, column, name, "standard input")
    lines = [line for line in content.splitlines() if line.strip()]
    return dict(enumerate(lines, start=1))


def _json_lines(content: str, column: str | None, name: str | None, where: str) -> dict[Any, str]:
    return _entries(list(_loaded(content, where)), column, name, where)


def _loaded(content: str, where: str) -> Iterator[Any]:
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise InputError(f"line {number} of {where} is not JSON: {error}") from error


def _json(content: str, column: str | None, name: str | None, path: Path) -> dict[Any, str]:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}; call it .jsonl if it has one object a line") from error
    if isinstance(found, dict):
        return {str(key): _string(value, f"{key!r} of {path}") for key, value in found.items()}
    if not isinstance(found, list):
        raise InputError(f"{path} holds {type(found).__name__}, expected a list of texts or objects")
    return _entries(found, column, name, str(path))


def _entries(entries: list[Any], column: str | None, name: str | None, where: str) -> dict[Any, str]:
    texts: list[str] = []
    names: list[Any] = []
    for number, entry in enumerate(entries, start=1):
        place = f"entry {number} of {where}"
        if isinstance(entry, dict):
            own = _column([key for key in entry if column or name != key], column, place)
            texts.append(_string(entry[own], place))
            names.append(None if name is None else entry[_known(list(entry), name, place)])
        else:
            texts.append(_string(entry, place))
            names.append(None)
    return dict(zip(_names(names, where), texts, strict=True))


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} holds {type(value).__name__} where a text is expected")
    return value
