"""Content that others may have written, looked at before it is parsed: how much memory and depth it would take."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import InputError

MOST_MEMORY = 640_000_000  # bytes that parsed JSON may take, by an estimate from above
MOST_FILE = 256_000_000  # bytes of a file of texts, boxes, spans or names
DEEPEST = 64  # brackets inside brackets: whoever walks through what was parsed may do so by recursion
STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
OPEN, BRACKETS = b"[{", b"[]{}"
REST = bytes(set(range(256)) - set(BRACKETS))
CONTAINER, ENTRY, VALUE = 88, 124, 60  # bytes of an empty list, of a key beside its value, of a number or short string


def parse_json(
    content: bytes | str, hook: Callable[[list[tuple[str, Any]]], Any] | None = None, deepest: int = DEEPEST
) -> Any:
    """What JSON says. Raises ValueError, and nothing else, where it is none, too deep or too large to hold.

    >>> parse_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested 100000 deep, at most 64 are read
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    _check_structure(raw, deepest)
    try:
        return json.loads(content, object_pairs_hook=hook)
    except RecursionError as error:  # pragma: no cover (the depth was looked at)
        raise ValueError("it is nested too deeply") from error


def _check_structure(raw: bytes, most: int) -> None:
    """Depth and memory from the brackets, commas and colons that are not inside strings; UTF-16 reads as UTF-8 does."""
    plain = STRING.sub(b"", raw.replace(b"\0", b""))
    brackets = np.frombuffer(plain.translate(None, REST), np.uint8)
    steps = np.where((brackets == OPEN[0]) | (brackets == OPEN[1]), 1, -1).astype(np.int32)
    deepest = int(np.cumsum(steps, dtype=np.int32).max(initial=0))
    if deepest > most:
        raise ValueError(f"it is nested {deepest} deep, at most {most} are read")
    wide = 1 if raw.isascii() and b"\\u" not in raw else 4  # one rare character makes a string so wide
    containers, entries, values = int((steps > 0).sum()), plain.count(b":"), plain.count(b",")
    memory = wide * len(raw) + CONTAINER * containers + ENTRY * entries + VALUE * values
    if memory > MOST_MEMORY:
        raise ValueError(f"it would take about {memory / 1e6:,.0f} MB, at most {MOST_MEMORY / 1e6:,.0f} MB are read")


def read_bounded(path: Path, what: str, most: int = MOST_FILE) -> bytes:
    """The content of a file of at most so many bytes; `what` names it in errors ("the file of boxes").

    >>> read_bounded(Path("no-such-file"), "the file of boxes")
    Traceback (most recent call last):
    butfor.core.types.InputError: the file of boxes no-such-file cannot be read: No such file or directory; name ...
    """
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{what} {path} cannot be read: {reason}; name a file that can") from error
    if len(content) > most:
        raise InputError(f"{what} {path} has more than {most / 1e6:,.0f} MB; give a smaller one, or several")
    return content


def read_json(path: Path, what: str, most: int = MOST_FILE) -> Any:
    """What a UTF-8 file of JSON says, or one sentence on why it says nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.json").write_text('{"a": 1}')
    ...     read_json(Path(folder, "a.json"), "the file")
    {'a': 1}
    """
    content = read_bounded(path, what, most)
    try:
        return parse_json(content.decode("utf-8-sig"))
    except ValueError as error:  # UnicodeDecodeError is one
        raise InputError(f"{what} {path} is not JSON that can be read: {error}") from error
