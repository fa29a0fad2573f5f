"""Files of texts -> texts by name: CSV, JSON lines, a directory of .txt files, standard input."""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from butfor.types import InputError
from butfor.untrusted import MOST_FILE, parse_json, read_bounded

USUAL = ("text", "review", "sentence", "content", "body", "comment", "document")  # what a column of texts is called
FORMS = "expected a .csv, .tsv, .jsonl, .json or .txt file, a directory of .txt files, or - for standard input"
Entries = list[Any] | dict[str, Any]  # texts, or objects that hold one; or texts by name


def read_texts(
    source: str | Path, *, column: str | None = None, name: str | None = None, whole: bool = False
) -> dict[int | str, str]:
    """Texts by name. Characters stay as they are, line ends inside a text included.

    Parameters
    ----------
    source : a CSV or TSV file with a header line, a file of JSON lines (objects or strings) or a JSON list, a
        directory of .txt files (each one text, named by its file name), one .txt file or "-" for standard input (one
        text a line, or JSON lines).
    column : where the texts are; None is the only column, or one called text, review, ...
    name : the column with their names; None is the number of the row, from 1.
    whole : the .txt file, or standard input, is one text with all of its lines.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "reviews.csv").write_text("id,text\\n7,Good.\\n9,Bad.\\n")
    ...     read_texts(Path(folder, "reviews.csv"), name="id")
    {'7': 'Good.', '9': 'Bad.'}
    """
    found = load_texts(source, column=column, name=name, whole=whole)
    return {key: text if isinstance(text, str) else _refused(text) for key, text in found.items()}


@dataclass(frozen=True)
class UnreadableFile:
    """A file in the place of its text, which is left out or raised by whoever asks for the text."""

    why: str


def _refused(file: UnreadableFile) -> str:
    raise InputError(file.why)


def load_texts(
    source: str | Path, *, column: str | None = None, name: str | None = None, whole: bool = False
) -> Mapping[int | str, str | UnreadableFile]:
    """The same, with the files of a directory that cannot be read still among them."""
    if str(source) == "-":
        where = "standard input"
        content = _decoded(sys.stdin.buffer.read(MOST_FILE), where)
        return {where: content} if whole else _named(_lines(content, where), column, name, where)
    path, where = Path(source).expanduser(), str(source)
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise InputError(f"the texts {source} do not exist; {FORMS}")
    if path.suffix.lower() not in READERS:
        raise InputError(f"{source} is no file of texts by its name; {FORMS}")
    content = _decoded(read_bounded(path, "the file of texts"), where)
    if whole:
        if path.suffix.lower() != ".txt":
            raise InputError(f"whole is for .txt files and standard input, not for {source}; drop it")
        return {path.name: content}
    entries = READERS[path.suffix.lower()](content, where)
    if isinstance(entries, dict):
        return {str(key): _string(value, f"{key!r} of {where}") for key, value in entries.items()}
    return _named(entries, column, name, where)


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"{where} is not UTF-8 (line {line}); save it as UTF-8") from error


def _folder(path: Path) -> dict[int | str, str | UnreadableFile]:
    """Files in their natural order: b2 before b10."""
    files = [file for file in path.iterdir() if file.suffix.lower() == ".txt" and not file.name.startswith(".")]
    if not files:
        raise InputError(f"the directory {path} has no .txt files; {FORMS}")
    files.sort(key=lambda file: _natural(file.name))
    return {file.name: _content(file) for file in files}


def _content(file: Path) -> str | UnreadableFile:
    try:
        return _decoded(read_bounded(file, "the text"), str(file))
    except InputError as error:
        return UnreadableFile(str(error))


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    parts = re.findall(r"\d+|\D+", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], name


def _table(mark: str, content: str, where: str) -> list[Any]:
    csv.field_size_limit(2**31 - 1)
    rows = [row for row in csv.reader(StringIO(content, newline=""), delimiter=mark) if row]
    if not rows:
        raise InputError(f"{where} is empty; expected a header line and a row for each text")
    header, *body = rows
    _check_header(header, mark, where)
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise InputError(
                f"row {number} of {where} has {len(row)} fields, the header {len(header)}; quote the texts"
            )
    return [dict(zip(header, row, strict=True)) for row in body]


def _check_header(header: list[str], mark: str, where: str) -> None:
    """Refuse columns that are separated by something else, or named alike."""
    if len(header) == 1 and any(other in header[0] for other in ";\t|," if other != mark):
        by = "tabs" if mark == "\t" else "commas"
        raise InputError(f"the header of {where} is one column, {header[0][:60]!r}; separate columns by {by}")
    if (twice := _repeated(header)) is not None:
        raise InputError(f"{where} has two columns called {twice!r}; give every column its own name")


def _repeated(names: Iterable[str]) -> str | None:
    """A name that comes more than once."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _lines(content: str, where: str) -> list[Any]:
    """One text a line; JSON lines if the first one is an object."""
    if content.lstrip().startswith("{"):
        return _json_lines(content, where)
    return [line for line in content.splitlines() if line.strip()]


def _json_lines(content: str, where: str) -> list[Any]:
    lines = [(number, line) for number, line in enumerate(content.split("\n"), start=1) if line.strip()]
    return [_parsed(line, f"line {number} of {where}") for number, line in lines]


def _json(content: str, where: str) -> Entries:
    found = _parsed(content, where, "; call it .jsonl if it has one object a line")
    if not isinstance(found, dict | list):
        raise InputError(f"{where} holds {type(found).__name__}, expected a list of texts or objects")
    return found


def _parsed(content: str, where: str, hint: str = "") -> object:
    try:
        return parse_json(content, _object)
    except InputError as error:
        raise InputError(f"{where} {error}") from error
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}{hint}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := _repeated(key for key, _ in pairs)) is not None:
        raise InputError(f"has the key {twice!r} twice in one object; keys must differ")
    return dict(pairs)


READERS: dict[str, Callable[[str, str], Entries]] = {  # content, where it is from -> what it holds
    ".csv": partial(_table, ","),
    ".tsv": partial(_table, "\t"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".txt": _lines,
}


def _named(entries: list[Any], column: str | None, name: str | None, where: str) -> dict[int | str, str]:
    """Texts by the names that their objects give them, or by their numbers."""
    texts: dict[int | str, str] = {}
    for number, entry in enumerate(entries, start=1):
        place = f"entry {number} of {where}"
        key: int | str = number
        if isinstance(entry, dict):
            key = number if name is None else str(entry[_known(list(entry), name, place)])
            entry = entry[_column([one for one in entry if column or one != name], column, place)]
        if key in texts:
            raise InputError(f"two texts of {where} are called {key!r}; names must differ")
        texts[key] = _string(entry, place)
    return texts


def _column(columns: list[str], wanted: str | None, where: str) -> str:
    if wanted is not None:
        return _known(columns, wanted, where)
    usual = columns if len(columns) == 1 else [one for one in columns if one.strip().lower() in USUAL]
    if len(usual) != 1:
        raise InputError(
            f"{where} has the columns {', '.join(columns):.300}; say which holds the texts: column=..., or --column on "
            "the command line"
        )
    return usual[0]


def _known(columns: list[str], wanted: str, where: str) -> str:
    if wanted not in columns:
        raise InputError(f"{where} has no column {wanted!r}; it has {', '.join(columns):.300}")
    return wanted


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} holds {type(value).__name__} where a text is expected")
    return value
