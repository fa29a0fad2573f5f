"""Arrays and metadata <-> one zip file: npz and JSON, versioned, no pickle."""

from __future__ import annotations

import base64
import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.parsing import parse_json
from butfor.core.types import Array, InputError
from butfor.core.zips import BROKEN, FLOOR, TIMES, array_in, opened, sentence, unpacked

FORMAT = 1
FACTS, ARRAYS = "facts.json", "arrays.npz"
MOST_BYTES = 700_000_000  # unpacked; larger ones are read by those who ask for it
GIVE = "give a file written by result.save"


def write(path: Path, metadata: dict[str, Any], arrays: dict[str, Array]) -> Path:
    """Write both into one file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)

    def archive(part: Path) -> None:
        with zipfile.ZipFile(part, "w") as file:
            file.writestr(FACTS, json.dumps({"format": FORMAT, **metadata}))
            file.writestr(ARRAYS, buffer.getvalue())

    return write_whole(path, archive)


def write_whole(path: Path, write_part: Callable[[Path], object]) -> Path:
    """Write a file, or nothing: it appears whole under its name or not at all."""
    if not path.name:  # "", "." and "/" are folders
        raise InputError(f"{str(path)!r} is a folder; name a file in it")
    part = path.with_name(path.name + ".part")
    try:
        write_part(part)
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose a folder that exists") from error
    finally:
        part.unlink(missing_ok=True)
    return path


@singledispatch
def plain(index: Any) -> Any:
    """The index of a subset as JSON: numbers, text, lists of them; a mask as its shape and its bits."""
    return index if isinstance(index, str | int | float | bool | None) else str(index)


@plain.register(list)
@plain.register(tuple)
def _(index: list[Any] | tuple[Any, ...]) -> list[Any]:
    return [plain(part) for part in index]


@plain.register(np.generic)
def _(index: np.generic) -> Any:
    return index.item()


@plain.register(np.ndarray)
def _(index: Array) -> Any:
    if index.dtype != np.bool_:
        return index.tolist()
    packed = base64.b64encode(np.packbits(index).tobytes()).decode("ascii")
    return {"mask": list(index.shape), "bits": packed}


def unplain(index: Any) -> Any:
    """The inverse of `plain`, but that a list comes back as a tuple.

    >>> unplain(plain((3, 4))), unplain(plain(np.array([[True, False]]))).tolist()
    ((3, 4), [[True, False]])
    """
    if isinstance(index, dict) and "mask" in index:
        bits = np.frombuffer(base64.b64decode(index["bits"]), np.uint8)
        size = math.prod(index["mask"])
        if size > 8 * len(bits):
            raise ValueError(f"a mask of {index['mask']} has {8 * len(bits)} bits")
        return np.unpackbits(bits, count=size).astype(np.bool_).reshape(index["mask"])
    return tuple(unplain(part) for part in index) if isinstance(index, list) else index


def read(path: Path, most_bytes: int | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Metadata and arrays, or one sentence on why the file is not a result.

    Nothing is unpacked before its size is known: 128 MB of it, or 30 times the file's size up to 700 MB, or what
    `most_bytes` allows.
    """
    try:
        size = path.stat().st_size
        most = max(FLOOR, min(TIMES * size, MOST_BYTES)) if most_bytes is None else most_bytes
        with opened(path, size, most) as archive:
            metadata = parse_json(unpacked(archive, FACTS))
            held = archive.getinfo(ARRAYS)
            if held.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"its part {ARRAYS!r} is packed twice")
            with archive.open(ARRAYS) as part, opened(part, held.file_size, most) as inner:
                arrays = {name.removesuffix(".npy"): array_in(inner, name) for name in inner.namelist()}
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give a file written by result.save") from error
    except BROKEN as error:
        larger = ", or a larger most_bytes= to butfor.load" if "are read" in str(error) else ""
        raise sentence(f"{path} is not a saved butfor result", error, f"{GIVE}{larger}") from error
    if not isinstance(metadata, dict) or (metadata.get("format") == FORMAT and "provenance" not in metadata):
        raise InputError(f"{path} is not a saved butfor result; {GIVE}")
    if metadata.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {str(metadata.get('format'))[:40]}, this butfor reads format {FORMAT}; update butfor"
        )
    return metadata, arrays
