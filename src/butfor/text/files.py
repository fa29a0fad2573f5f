"""Files of texts -> texts by name: CSV, JSON lines, a directory of .txt files, standard input."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from butfor.types import InputError
from butfor.untrusted import MOST_FILE, natural_order, parse_json, read_bounded

USUAL = ("text", "review", "sentence", "content", "body", "comment", "document")  # names of a column of texts
FORMS = "expected a .csv, .tsv, .jsonl, .json or .txt file, a directory of .txt files, or - for standard input"


def read_texts(
    source: str | Path, *, column: str | None = None, name: str | None = None, whole: bool = False
) -> dict[int | str, str]:
    """Read texts by name. Characters stay as they are, line ends inside a text included.

    Parameters
    ----------
    source : str or path
        A CSV or TSV file with a header line, a file of JSON lines (objects or strings) or a JSON list, a directory of
        .txt files (each one text, named by its file name), one .txt file or "-" for standard input (one text a line, or
        JSON lines).
    column : str, optional
        The column of the texts; None is the only column, or one called text, review, ...
    name : str, optional
        The column with their names; None is the number of the row, from 1.
    whole : bool
        The .txt file, or standard input, is one text with all of its lines.

    Returns
    -------
    dict
        Texts by name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "reviews.csv").write_text("id,text\\n7,Good.\\n9,Bad.\\n")
    ...     read_texts(Path(folder, "reviews.csv"), name="id")
    {'7': 'Good.', '9': 'Bad.'}
    """
    texts = load_texts(source, column=column, name=name, whole=whole)
    for text in texts.values():
        if isinstance(text, UnreadableFile):
            raise InputError(text.why)
    return {key: str(text) for key, text in texts.items()}


@dataclass(frozen=True)
class UnreadableFile:
    """Stands for a text that could not be read; the error is raised where the text is used."""

    why: str


def load_texts(
    source: str | Path, *, column: str | None = None, name: str | None = None, whole: bool = False
) -> Mapping[int | str, str | UnreadableFile]:
    """Read texts as `read_texts` does, with the files of a directory that cannot be read still among them."""
    if str(source) == "-":
        where = "standard input"
        content = _decoded(sys.stdin.buffer.read(MOST_FILE), where)
        return {where: content} if whole else _named(_lines(content, where), column, name, where)
    path, where = Path(source).expanduser(), str(source)
    if path.is_dir():
        texts: dict[int | str, str | UnreadableFile] = {}
        files = [file for file in path.iterdir() if file.suffix.lower() == ".txt" and not file.name.startswith(".")]
        for file in sorted(files, key=lambda file: natural_order(file.name)):
            try:
                texts[file.name] = _decoded(read_bounded(file, "the text"), str(file))
            except InputError as error:
                texts[file.name] = UnreadableFile(str(error))
        if not texts:
            raise InputError(f"the directory {path} has no .txt files; {FORMS}")
        return texts
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
    if not isinstance(entries, dict | list):
        raise InputError(f"{where} holds {type(entries).__name__}, expected a list of texts or objects")
    if isinstance(entries, dict):
        return {str(key): _string(value, f"{key!r} of {where}") for key, value in entries.items()}
    return _named(entries, column, name, where)


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(f"{where} is not UTF-8 (line {line}); save it as UTF-8") from error


def _table(delimiter: str, content: str, where: str) -> list[Any]:
    csv.field_size_limit(2**31 - 1)
    rows = [row for row in csv.reader(StringIO(content, newline=""), delimiter=delimiter) if row]
    if not rows:
        raise InputError(f"{where} is empty; expected a header line and a row for each text")
    header, *body = rows
    if len(header) == 1 and any(other in header[0] for other in ";\t|," if other != delimiter):
        by = "tabs" if delimiter == "\t" else "commas"
        raise InputError(f"the header of {where} is one column, {header[0][:60]!r}; separate columns by {by}")
    if (twice := _repeated(header)) is not None:
        raise InputError(f"{where} has two columns called {twice!r}; give every column its own name")
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise InputError(
                f"row {number} of {where} has {len(row)} fields, the header {len(header)}; quote the texts"
            )
    return [dict(zip(header, row, strict=True)) for row in body]


def _repeated(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _lines(content: str, where: str) -> list[Any]:
    if content.lstrip().startswith("{"):
        return _json_lines(content, where)
    return [line for line in content.splitlines() if line.strip()]


def _json_lines(content: str, where: str) -> list[Any]:
    lines = [(number, line) for number, line in enumerate(content.split("\n"), start=1) if line.strip()]
    return [_parsed(line, f"line {number} of {where}", "") for number, line in lines]


def _parsed(content: str, where: str, hint: str = "; call it .jsonl if it has one object a line") -> Any:
    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if (twice := _repeated(key for key, _ in pairs)) is not None:
            raise InputError(f"has the key {twice!r} twice in one object; keys must differ")
        return dict(pairs)

    try:
        return parse_json(content, unique_keys)
    except InputError as error:
        raise InputError(f"{where} {error}") from error
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {error}{hint}") from error


READERS: dict[str, Callable[[str, str], Any]] = {  # content, its source -> texts, objects with one, or texts by name
    ".csv": partial(_table, ","),
    ".tsv": partial(_table, "\t"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _parsed,
    ".txt": _lines,
}


def _named(entries: list[Any], column: str | None, name: str | None, where: str) -> dict[int | str, str]:
    texts: dict[int | str, str] = {}
    for number, entry in enumerate(entries, start=1):
        what = f"entry {number} of {where}"
        key: int | str = number
        if isinstance(entry, dict):
            for wanted in (name, column):
                if wanted is not None and wanted not in entry:
                    raise InputError(f"{what} has no column {wanted!r}; it has {', '.join(entry):.300}")
            key = number if name is None else str(entry[name])
            others = [one for one in entry if one != name]
            usual = others if len(others) == 1 else [one for one in others if one.strip().lower() in USUAL]
            if column is None and len(usual) != 1:
                raise InputError(
                    f"{what} has the columns {', '.join(others):.300}; say which holds the texts: column=..., or "
                    "--column on the command line"
                )
            entry = entry[usual[0] if column is None else column]
        if key in texts:
            raise InputError(f"two texts of {where} are called {key!r}; names must differ")
        texts[key] = _string(entry, what)
    return texts


def _string(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} holds {type(value).__name__} where a text is expected")
    return value
