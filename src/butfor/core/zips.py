"""Zip files that others may have written, looked at before anything in them is unpacked."""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from butfor.core.types import Array, InputError

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
