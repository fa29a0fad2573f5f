"""Arrays and metadata <-> one zip file: npz and JSON, versioned, no pickle."""

from __future__ import annotations

import base64
import io
import json
import os
import zipfile
from collections.abc import Callable
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from butfor.core.types import Array, InputError

FORMAT = 1


def write(path: Path, metadata: dict[str, Any], arrays: dict[str, Array]) -> Path:
    """Write both into one file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)

    def archive(part: Path) -> None:
        with zipfile.ZipFile(part, "w") as file:
            file.writestr("facts.json", json.dumps({"format": FORMAT, **metadata}))
            file.writestr("arrays.npz", buffer.getvalue())

    return write_whole(path, archive)


def write_whole(path: Path, write_part: Callable[[Path], object]) -> Path:
    """Write a file, or nothing: it appears whole under its name or not at all."""
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
        size = int(np.prod(index["mask"]))
        return np.unpackbits(bits, count=size).astype(np.bool_).reshape(index["mask"])
    return tuple(unplain(part) for part in index) if isinstance(index, list) else index


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Metadata and arrays, or one sentence on why the file is not a result."""
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = json.loads(archive.read("facts.json"))
            arrays = dict(np.load(io.BytesIO(archive.read("arrays.npz")), allow_pickle=False))
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; give a file written by result.save") from error
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InputError(
            f"{path} is not a saved butfor result ({error}); give a file written by result.save"
        ) from error
    if not isinstance(metadata, dict) or (metadata.get("format") == FORMAT and "provenance" not in metadata):
        raise InputError(f"{path} is not a saved butfor result; give a file written by result.save")
    if metadata.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {metadata.get('format')}, this butfor reads format {FORMAT}; update butfor"
        )
    return metadata, arrays
