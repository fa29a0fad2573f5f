"""A run directory: the model's answers are kept until the run is done, so that a run cut short goes on where it was.

Draws come again from the seed, so a batch that was answered is recognised by what is in it, and its answer read back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from butfor.core.types import Batch, InputError, Model

ANSWERS, RUN = "answers.bin", "run.json"
KEY, LENGTH = 16, 8  # bytes of a record's key, and of the length of what follows


@dataclass(frozen=True)
class Journal:
    """A model whose answers are kept; `finish` is for a run that is done."""

    model: Model
    folder: Path | None

    def finish(self) -> None:
        """Nothing is left to go on with: the answers go, and the folder if it is empty then."""
        if self.folder is not None:
            _clear(self.folder)


@contextmanager
def journal(model: Model, folder: str | Path | None, name: str) -> Iterator[Journal]:
    """The model, with its answers kept in `folder`; `name` is the model's, whose answers must not be another's."""
    if folder is None:
        yield Journal(model, None)
        return
    place = Path(folder)
    known = _begin(place, name)
    try:
        with open(place / ANSWERS, "ab") as file:
            yield Journal(_remembered(model, known, file, place), place)
    except BaseException:
        if not (place / ANSWERS).stat().st_size:
            _clear(place)  # nothing was answered: nothing to go on with
        raise


def _clear(place: Path) -> None:
    (place / ANSWERS).unlink()
    (place / RUN).unlink()
    if not any(place.iterdir()):
        place.rmdir()


def _begin(place: Path, name: str) -> dict[bytes, np.ndarray[Any, Any]]:
    """Answers that are there from a run of the same model; those of another one are refused."""
    told = json.dumps({"model": name})
    try:
        place.mkdir(parents=True, exist_ok=True)
        if (place / RUN).exists():
            if (place / RUN).read_text(encoding="utf-8") != told:
                raise InputError(
                    f"run_dir {place} holds the answers of another model; name another folder, or delete this one"
                )
            return _read(place / ANSWERS)
        (place / RUN).write_text(told, encoding="utf-8")
    except OSError as error:
        raise InputError(f"run_dir {place} cannot be used: {error.strerror or error}; name another folder") from error
    return {}


def _read(path: Path) -> dict[bytes, np.ndarray[Any, Any]]:
    """Whole records; one that was cut off by a kill is dropped from the file."""
    known: dict[bytes, np.ndarray[Any, Any]] = {}
    raw = path.read_bytes() if path.exists() else b""
    end = 0
    while end + KEY + LENGTH <= len(raw):
        start = end + KEY + LENGTH
        size = int.from_bytes(raw[end + KEY : start], "little")
        if start + size > len(raw):
            break
        known[raw[end : end + KEY]] = np.load(BytesIO(raw[start : start + size]), allow_pickle=False)
        end = start + size
    if end < len(raw):
        with open(path, "r+b") as file:
            file.truncate(end)
    return known


def _remembered(
    model: Model, known: dict[bytes, np.ndarray[Any, Any]], file: BinaryIO, place: Path
) -> Callable[[Batch], Any]:
    compared = False

    def answer(batch: Batch) -> Any:
        nonlocal compared
        key = fingerprint(batch)
        if key in known and not compared:  # a model may keep its name and be trained again: the first answer tells
            _check_same(np.asarray(model(batch)), known[key], place)
            compared = True
        if key not in known:
            outputs = np.asarray(model(batch))
            buffer = BytesIO()
            np.save(buffer, outputs, allow_pickle=False)
            record = buffer.getvalue()
            file.write(key + len(record).to_bytes(LENGTH, "little") + record)
            file.flush()
            return outputs
        return known[key]

    return answer


def _check_same(now: np.ndarray[Any, Any], then: np.ndarray[Any, Any], place: Path) -> None:
    """Refuse answers that are not this model's; what rounding may do to them is no difference."""
    near = 1e-4 * float(np.abs(then).max(initial=0.0)) if then.dtype.kind in "fiu" else 0.0
    if now.shape != then.shape or not np.allclose(now, then, rtol=0.0, atol=near, equal_nan=True):
        raise InputError(
            f"run_dir {place} holds other answers than the model gives now: it was changed since (or it answers by "
            "chance); name another folder, or delete this one"
        )


def fingerprint(batch: Batch) -> bytes:
    """Equal for equal batches: arrays, frames, lists of images or texts.

    >>> fingerprint(np.zeros((2, 2))) == fingerprint(np.zeros((2, 2))) != fingerprint(np.zeros((4, 1)))
    True
    """
    digest = blake2b(digest_size=KEY)
    if hasattr(batch, "iloc"):
        import pandas as pd

        digest.update(repr((list(batch.columns), list(map(str, batch.dtypes)), len(batch))).encode())
        digest.update(pd.util.hash_pandas_object(batch, index=False).to_numpy().tobytes())
    elif isinstance(batch, np.ndarray):
        digest.update(repr((batch.shape, str(batch.dtype))).encode() + np.ascontiguousarray(batch).tobytes())
    else:
        for item in batch:
            digest.update(fingerprint(item) if isinstance(item, np.ndarray) else repr(item).encode("utf-8", "replace"))
    return digest.digest()
