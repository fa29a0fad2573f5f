"""Files that people send: counted as they come, known by their first bytes, read within limits, stored by number."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from butfor.studio.settings import Limits
from butfor.types import InputError
from butfor.untrusted import private_file, private_folder

ID = re.compile("[0-9a-f]{32}")
MAGIC = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"PAR1": "parquet"}
TYPES = {"png": "image/png", "jpg": "image/jpeg"}
FIRST = 65_536  # bytes by which a file is known
PREVIEW, WIDEST, LONGEST_NAME = 5, 400, 200  # rows, columns, characters


class TooLargeError(InputError):
    """More than a limit allows."""


@dataclass(frozen=True)
class StoredUpload:
    """One file: what it was called, what it is, and what is in it."""

    id: str
    name: str
    type: str  # png, jpg, csv, parquet
    size: int
    details: dict[str, Any] = field(default_factory=dict)


class UploadStore:
    """The uploads of one folder. Their names are numbers: what a file was called is never part of a path."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self._one = asyncio.Semaphore(1)  # files are looked at one at a time: memory for one is enough
        self._coming = 0  # bytes of all files that are on their way
        for part in folder.glob("*.part"):  # of a studio that was ended while they came
            part.unlink(missing_ok=True)

    async def receive(self, name: str, chunks: AsyncIterator[bytes]) -> StoredUpload:
        """Write a file, refuse one that is too large or of another type, and describe it."""
        private_folder(self.folder)
        number = secrets.token_hex(16)
        part = self.folder / f"{number}.part"
        try:
            size = await self._write(part, chunks)
            kind = _type(part, name)
            path = part.rename(self.folder / f"{number}.{kind}")
            try:
                async with self._one:
                    details = await asyncio.to_thread(self._details, path, kind)
            except BaseException as error:
                path.unlink(missing_ok=True)
                if isinstance(error, InputError):
                    raise InputError(str(error).replace(str(path), repr(name[:LONGEST_NAME]))) from error
                raise
        finally:
            part.unlink(missing_ok=True)
        stored = StoredUpload(number, name[:LONGEST_NAME] or "file", kind, size, details)
        private_file(self.folder / f"{number}.json").write_text(json.dumps(asdict(stored)), encoding="utf-8")
        return stored

    async def _write(self, part: Path, chunks: AsyncIterator[bytes]) -> int:
        limits, size = self.limits, 0
        room = limits.stored - sum(one.stat().st_size for one in self.folder.iterdir() if one.suffix != ".part")
        try:
            with private_file(part).open("wb") as file:
                async for chunk in chunks:
                    size, self._coming = size + len(chunk), self._coming + len(chunk)
                    if size > limits.upload:
                        raise TooLargeError(f"the file has more than {limits.upload / 1e6:,.0f} MB; send a smaller one")
                    if self._coming > room:
                        raise TooLargeError(f"the folder of uploads is full; delete what is old in {self.folder.name}/")
                    file.write(chunk)
        finally:
            self._coming -= size
        return size

    def _details(self, path: Path, kind: str) -> dict[str, Any]:
        """Return the size of an image, or the columns and first rows of a table."""
        if kind in TYPES:
            from butfor.image.files import read_image

            height, width = read_image(path, most_pixels=self.limits.pixels).shape[:2]
            return {"width": width, "height": height}
        from butfor.tabular.files import read_table

        frame = read_table(path, "table")
        first = frame.iloc[:PREVIEW, :WIDEST]
        return {
            "rows": len(frame),
            "columns": [str(name) for name in first.columns],
            "kinds": ["number" if frame[name].dtype.kind in "fiu" else "other" for name in first.columns],
            "more_columns": max(0, frame.shape[1] - WIDEST),
            "preview": [[str(value)[:60] for value in row] for row in first.astype(object).to_numpy().tolist()],
        }

    def get(self, number: str) -> StoredUpload:
        card = self.folder / f"{number}.json"
        if not ID.fullmatch(number) or not card.is_file():
            raise InputError(f"there is no upload {number!r:.60}; send the file again")
        return StoredUpload(**json.loads(card.read_text(encoding="utf-8")))

    def path(self, number: str) -> Path:
        return self.folder / f"{number}.{self.get(number).type}"

    async def count(self, number: str, reference_where: str, data_where: str) -> dict[str, int]:
        """Count the rows of a table that are the reference and those to explain, by these expressions."""
        path = self.path(number)
        if self.get(number).type in TYPES:
            raise InputError(f"upload {number} is an image; rows are of tables")

        def counted() -> dict[str, int]:
            from butfor.tabular.files import matches, read_table

            frame = read_table(path, "table")
            reference = matches(frame, reference_where, "reference rows:")
            picked = matches(frame, data_where, "rows to explain:") if data_where else ~reference
            return {"rows": len(frame), "reference": int(reference.sum()), "explained": int(picked.sum())}

        async with self._one:
            return await asyncio.to_thread(counted)


def _type(part: Path, name: str) -> str:
    """Return the type of a file by its first bytes; a CSV file has none, it is text."""
    with part.open("rb") as file:
        first = file.read(FIRST)
    for start, kind in MAGIC.items():
        if first.startswith(start):
            return kind
    if not first:
        raise InputError(f"the file {name!r:.80} is empty; choose another")
    try:
        first[: len(first) - 4 if len(first) == FIRST else None].decode("utf-8")
    except UnicodeDecodeError:
        first = b"\0"
    if b"\0" in first or first.lstrip()[:1] == b"<":
        raise InputError(f"the file {name!r:.80} is no PNG, JPEG, Parquet or CSV in UTF-8; save it as one of these")
    return "csv"
