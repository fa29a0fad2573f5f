"""Content that others may have written, looked at before it is parsed: how much memory and depth it would take.

Regular expressions that cannot hang: they run in a process of their own, which is ended when its time is over.

Some patterns take longer than the universe lasts on a text of forty letters, and Python cannot stop them from inside.
"""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any
from weakref import finalize

import numpy as np

from butfor.types import Array, InputError

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


FLOOR = 128_000_000  # bytes that any file may unpack to
TIMES = 30  # and above that, so many times its own size: numbers shrink to a third or a tenth, bombs to a thousandth
MOST_MEMBERS = 100_000
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)  # what zipfile, zlib and NumPy raise on damaged files


@contextmanager
def opened(file: Any, size: int, most: int | None = None) -> Iterator[zipfile.ZipFile]:
    """A zip whose members are of a reasonable number and size, none of them encrypted. ValueError says what is not.

    `size` is that of the file itself; `most` bytes may be unpacked, by default 128 MB or 30 times the file's size.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise ValueError(f"it has {len(members):,} parts, at most {MOST_MEMBERS:,} are read")
        for member in members:
            if member.flag_bits & 0x1:
                raise ValueError(f"its part {member.filename!r} is encrypted")
            if member.compress_type not in METHODS:
                raise ValueError(f"its part {member.filename!r} is packed in another way than zip files usually are")
        total, allowed = sum(member.file_size for member in members), most or max(FLOOR, TIMES * size)
        if total > allowed:
            raise ValueError(
                f"its {size / 1e6:,.1f} MB unpack to {total / 1e6:,.0f} MB, at most {allowed / 1e6:,.0f} MB are read"
            )
        yield archive


def unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    """One part of a zip that `opened` let through; no more than it declares is ever unpacked."""
    with archive.open(name) as part:
        content = part.read(archive.getinfo(name).file_size + 1)
    if len(content) != archive.getinfo(name).file_size:
        raise ValueError(f"its part {name!r} is cut short")
    return content


def array_in(archive: zipfile.ZipFile, name: str) -> Array:
    """An array of a zip, its header held against what is there before room is made for it; no pickle is read."""
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
    """Refuse a zip in which an array claims more than it has; zips of arrays inside it are looked at likewise."""
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
    """One line on a file that is broken."""
    why = " ".join(str(error).split())[:300] or type(error).__name__
    return InputError(f"{what} ({why}); {todo}")


SECONDS = 5.0  # for what is asked at once
PATTERN_MEMORY = 1 << 29  # bytes of the process, where the system can be told
LONGEST = 10_000  # characters of a pattern
CHILD = f"""
import json, re, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({PATTERN_MEMORY}, {PATTERN_MEMORY}))
except (ImportError, ValueError, OSError):
    pass
source, flags = json.loads(sys.stdin.readline())
pattern = re.compile(source, flags)
group = min(1, pattern.groups)
for line in sys.stdin:
    found = [[match.span(group) for match in pattern.finditer(text)] for text in json.loads(line)]
    sys.stdout.write(json.dumps(found) + "\\n")
    sys.stdout.flush()
"""


@dataclass(eq=False)
class TimedPattern:
    """A regular expression whose search ends in time. The process starts with the first texts.

    >>> TimedPattern("not ([a-z]+)").spans(["It is not good.", "It is."])
    [[(10, 14)], []]
    >>> TimedPattern("(a+)+$", seconds=0.3).spans(["a" * 40 + "b"])
    Traceback (most recent call last):
    butfor.types.InputError: the pattern '(a+)+$' took more than 0.3 s; write it without repeats inside repeats
    """

    source: str
    flags: int = 0
    seconds: float = SECONDS
    _process: Any = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or len(self.source) > LONGEST:
            raise InputError(f"a pattern must be text of at most {LONGEST} characters, got {self.source!r:.60}")
        try:
            re.compile(self.source, self.flags)
        except (re.error, OverflowError, RecursionError) as error:
            why = " ".join(str(error).split())  # it may quote a line of the pattern
            raise InputError(f"{self.source!r:.200} is not a regular expression: {why}") from error

    def __reduce__(self) -> tuple[Any, ...]:  # a process cannot travel
        return TimedPattern, (self.source, self.flags, self.seconds)

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Where the pattern matches in each text, or its first group if it has one; (-1, -1): that takes no part."""
        with self._lock:
            process = self._process = self._process or self._started()
            timer = Timer(self.seconds, process.kill)
            timer.daemon = True
            timer.start()
            try:
                process.stdin.write(json.dumps(list(texts)) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except OSError:
                answer = ""
            finally:
                late = not timer.is_alive()
                timer.cancel()
            if not answer:
                self._process = None
                process.kill()
                process.communicate()
        if not answer:
            took = f"took more than {self.seconds:g} s" if late else "needs too much memory"
            raise InputError(f"the pattern {self.source!r:.200} {took}; write it without repeats inside repeats")
        return [[(start, end) for start, end in found] for found in json.loads(answer)]

    def _started(self) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )
        finalize(self, _end, process)
        assert process.stdin is not None
        process.stdin.write(json.dumps([self.source, self.flags]) + "\n")
        return process


def _end(process: Any) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        pipe.close()
