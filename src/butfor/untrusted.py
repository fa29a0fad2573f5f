"""Content that others may have written: its memory and depth are bounded before it is parsed, patterns end in time."""

from __future__ import annotations

import io
import json
import math
import os
import re
import time
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from butfor.types import Array, InputError

MOST_MEMORY = 640_000_000  # bytes that parsed JSON may take, by an estimate from above
MOST_FILE = 256_000_000  # bytes of a file of texts, boxes, spans or names
DEEPEST = 64  # brackets inside brackets: whoever walks through what was parsed may do so by recursion


def parse_json(
    content: bytes | str, hook: Callable[[list[tuple[str, Any]]], Any] | None = None, deepest: int = DEEPEST
) -> Any:
    """Parse JSON. Raises ValueError, and nothing else, where it is none, too deep or too large.

    >>> parse_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested 100000 deep, at most 64 are read
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    # brackets, commas and colons outside of strings bound depth and memory; UTF-16 reads as UTF-8 does
    plain = re.sub(rb'"(?:[^"\\]|\\.)*+"', b"", raw.replace(b"\0", b""), flags=re.DOTALL)
    brackets = np.frombuffer(plain.translate(None, bytes(set(range(256)) - set(b"[]{}"))), np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1).astype(np.int32)
    depth = int(np.cumsum(steps, dtype=np.int32).max(initial=0))
    if depth > deepest:
        raise ValueError(f"it is nested {depth} deep, at most {deepest} are read")
    wide = 1 if raw.isascii() and b"\\u" not in raw else 4  # one rare character makes a string so wide
    containers, entries, values = int((steps > 0).sum()), plain.count(b":"), plain.count(b",")
    # bytes of an empty list, of a key beside its value, of a number or short string
    memory = wide * len(raw) + 88 * containers + 124 * entries + 60 * values
    if memory > MOST_MEMORY:
        raise ValueError(f"it would take about {memory / 1e6:,.0f} MB, at most {MOST_MEMORY / 1e6:,.0f} MB are read")
    try:
        return json.loads(content, object_pairs_hook=hook)
    except RecursionError as error:  # pragma: no cover (the depth was checked)
        raise ValueError("it is nested too deeply") from error


def read_bounded(path: Path, what: str, most: int = MOST_FILE) -> bytes:
    """Read a file of at most so many bytes; `what` names it in errors ("the file of boxes").

    >>> read_bounded(Path("no-such-file"), "the file of boxes")
    Traceback (most recent call last):
    butfor.types.InputError: the file of boxes no-such-file cannot be read: No such file or directory; name ...
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


def natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return the key by which names of files are sorted: b2 before b10."""
    parts = re.findall(r"\d+|\D+", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], name


def read_json(path: Path, what: str) -> Any:
    """Read a UTF-8 file of JSON; an error is one sentence.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.json").write_text('{"a": 1}')
    ...     read_json(Path(folder, "a.json"), "the file")
    {'a': 1}
    """
    content = read_bounded(path, what)
    try:
        return parse_json(content.decode("utf-8-sig"))
    except ValueError as error:  # UnicodeDecodeError is one
        raise InputError(f"{what} {path} is not JSON that can be read: {error}") from error


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner can read; one that exists stays as it is."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def private_file(path: Path) -> Path:
    """Make a file that only its owner can read, to be written next; one that exists stays as it is."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return path


FLOOR = 128_000_000  # bytes that any file may unpack to
TIMES = 30  # and above that, so many times its own size: numbers shrink to a third or a tenth, bombs to a thousandth
MOST_MEMBERS = 100_000
_BUILTIN = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError)
BROKEN = (zipfile.BadZipFile, zlib.error, *_BUILTIN, ValueError)  # zipfile, zlib and NumPy raise these on damaged files


class TooLarge(ValueError):
    """A file would unpack to more than is read."""


@contextmanager
def opened(file: Any, size: int, most: int | None = None) -> Iterator[zipfile.ZipFile]:
    """Open a zip whose members are of a reasonable number and size and not encrypted; ValueError otherwise.

    `size` is that of the file itself; `most` bytes may be unpacked, by default 128 MB or 30 times the file's size.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise ValueError(f"it has {len(members):,} parts, at most {MOST_MEMBERS:,} are read")
        for member in members:
            if member.flag_bits & 0x1:
                raise ValueError(f"its part {member.filename!r} is encrypted")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"its part {member.filename!r} is packed in another way than zip files usually are")
        total, allowed = sum(member.file_size for member in members), most or max(FLOOR, TIMES * size)
        if total > allowed:
            raise TooLarge(
                f"its {size / 1e6:,.1f} MB unpack to {total / 1e6:,.0f} MB, at most {allowed / 1e6:,.0f} MB are read"
            )
        yield archive


def unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return one part of a zip that `opened` let through; no more than it declares is ever unpacked."""
    with archive.open(name) as part:
        content = part.read(archive.getinfo(name).file_size + 1)
    if len(content) != archive.getinfo(name).file_size:
        raise ValueError(f"its part {name!r} is cut short")
    return content


def array_in(archive: zipfile.ZipFile, name: str) -> Array:
    """Return an array of a zip, its header checked against its size before memory is reserved; no pickle is read."""
    with archive.open(name) as part:
        check_header(part, name, archive.getinfo(name).file_size)
    with archive.open(name) as part:
        return np.asarray(np.lib.format.read_array(part, allow_pickle=False))


def check_header(part: IO[bytes], name: str, size: int) -> None:
    """Refuse an array of objects, and one whose header claims another size than the part has."""
    version = np.lib.format.read_magic(part)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its array {name!r} is of version {version}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, dtype = read(part)
    except tokenize.TokenError as error:  # NumPy reads headers of Python 2 with a tokenizer
        raise ValueError(f"the header of its array {name!r} is cut short") from error
    if dtype.hasobject:
        raise ValueError(f"its array {name!r} holds Python objects")
    claimed = math.prod(shape) * dtype.itemsize
    if claimed != size - part.tell():
        raise ValueError(f"its array {name!r} claims {claimed:,} bytes and has {size - part.tell():,}")


def check_arrays(content: bytes, *, inside: bool = True) -> None:
    """Refuse a zip in which an array claims more than it has; zips of arrays inside it are checked likewise."""
    with opened(io.BytesIO(content), len(content)) as archive:
        for name in archive.namelist():
            if name.endswith(".npy"):
                with archive.open(name) as part:
                    is_array = part.read(6) == b"\x93NUMPY"  # joblib's arrays end so, too
                    part.seek(0)
                    if is_array:
                        check_header(part, name, archive.getinfo(name).file_size)
            elif name.endswith(".npz") and inside:
                check_arrays(unpacked(archive, name), inside=False)


def sentence(what: str, error: BaseException, todo: str) -> InputError:
    """Return an error of one line on a file that is broken."""
    why = " ".join(str(error).split())[:300] or type(error).__name__
    return InputError(f"{what} ({why}); {todo}")


SECONDS = 5.0  # for all texts of one call
LONGEST = 10_000  # characters of a pattern
MOST_ITEMS = 100_000  # of a pattern whose counted repeats are written out, as `regex` does when it compiles
ITEM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(?P<low>\d*)(?:,(?P<high>\d*))?\}|.", re.DOTALL)


@dataclass(frozen=True)
class TimedPattern:
    """A regular expression of Python whose search ends in time.

    Some patterns take exponential time. They are searched by `regex`, whose search can be stopped.

    >>> TimedPattern("not ([a-z]+)").spans(["It is not good.", "It is."])
    [[(10, 14)], []]
    >>> TimedPattern("(a|aa)+$", seconds=0.3).spans(["a" * 60 + "b"])
    Traceback (most recent call last):
    butfor.types.InputError: the pattern '(a|aa)+$' took more than 0.3 s; write it without repeats inside repeats
    """

    source: str
    flags: int = 0  # of `re`
    seconds: float = SECONDS

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or len(self.source) > LONGEST:
            raise InputError(f"a pattern must be text of at most {LONGEST} characters, got {self.source!r:.60}")
        try:
            re.compile(self.source, self.flags)  # `regex` knows more, which nobody needs here
            if _written_out(self.source) > MOST_ITEMS:
                raise InputError(f"the pattern {self.source!r:.200} needs too much memory; repeat fewer times")
            _ = self._compiled
        except InputError:
            raise
        except Exception as error:  # also OverflowError, RecursionError, and errors of `regex`
            why = " ".join(str(error).split())  # it may quote a line of the pattern
            raise InputError(f"{self.source!r:.200} is not a regular expression: {why}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        return TimedPattern, (self.source, self.flags, self.seconds)

    @cached_property
    def _compiled(self) -> Any:
        import regex

        flags = self.flags & (re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE)
        return regex.compile(self.source, flags | (regex.ASCII if self.flags & re.ASCII else 0) | regex.VERSION0)

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the matches in each text, or those of its first group if it has one; (-1, -1): that takes no part."""
        end, group = time.monotonic() + self.seconds, min(1, self._compiled.groups)
        try:
            return [
                [match.span(group) for match in self._compiled.finditer(text, timeout=max(0, end - time.monotonic()))]
                for text in texts
            ]
        except (TimeoutError, MemoryError) as error:
            reason = (
                f"took more than {self.seconds:g} s" if isinstance(error, TimeoutError) else "needs too much memory"
            )
            raise InputError(
                f"the pattern {self.source!r:.200} {reason}; write it without repeats inside repeats"
            ) from error


def _written_out(pattern: str) -> int:
    """Return about how many items a pattern has where x{9} is written as nine times x.

    >>> _written_out("ab{3}"), _written_out(r"(?:[a-z]{10}\\d{2,5}){100}"), _written_out("x{2}[{9}]")
    (4, 1600, 3)
    """
    groups, last = [0], 0  # items of each open group; of the item before
    for item in ITEM.finditer(pattern):
        counts = [int(count) for count in item.groups() if count]
        if item[0] == "(":
            groups.append(0)
        elif item[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif counts:
            groups[-1] += last * (max(*counts, 1) - 1)
            last *= max(*counts, 1)
        elif item[0] not in "*+?":
            last = 1
            groups[-1] += 1
    return sum(groups)
