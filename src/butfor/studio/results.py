"""Results of the folder, also those of the command line: found, numbered, and made into what pages show."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from butfor.core.types import InputError
from butfor.report.folder import RESULT
from butfor.studio.settings import StudioSettings
from butfor.studio.view import REPORT_PAGE, TESTED, VIEW

DEEPEST, MOST_FOLDERS, MOST_RESULTS = 4, 3_000, 500
PATIENCE = 180.0  # seconds for making a view


@dataclass(frozen=True)
class PastResult:
    """A result that lies below the folder."""

    id: str
    title: str
    path: Path
    changed: float


class ResultPages:
    """What can be opened, and the pages of it; a page is made by a process of its own, one at a time."""

    def __init__(self, settings: StudioSettings) -> None:
        self.settings = settings
        self._one = asyncio.Semaphore(1)

    def past(self) -> list[PastResult]:
        """Results below the folder that the studio did not write itself, newest first."""
        own = self.settings.runs
        found = [self._past(path) for path in _results(self.settings.folder) if path.parent.parent != own]
        return sorted(found, key=lambda one: -one.changed)[:MOST_RESULTS]

    def _past(self, path: Path) -> PastResult:
        inside = path.relative_to(self.settings.folder)
        title = str(inside.parent if path.name == RESULT and inside.parent.parts else inside)
        number = hashlib.blake2b(str(inside).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        return PastResult(number, title.encode("utf-8", "replace").decode(), path, path.stat().st_mtime)

    def path(self, number: str) -> Path:
        """The result of a number: a run's own, or one that was found. No part of the number goes into a path unseen."""
        own = {folder.name: folder / RESULT for folder in _folders(self.settings.runs)}
        path = own.get(number) or {one.id: one.path for one in self.past()}.get(number)
        if path is None or not path.is_file():
            raise InputError(f"there is no result {number!r:.60} in this folder")
        return path

    async def folder(self, number: str) -> Path:
        """The folder with the view of a result, made if it is missing or old."""
        path = self.path(number)
        out = self.settings.views / number
        async with self._one:
            if any(_is_old(out / made, path) for made in (VIEW, TESTED)):
                await self._make(path, out)
        return out

    async def view(self, number: str) -> dict[str, Any]:
        """What is in a result, as pages show it."""
        folder = await self.folder(number)
        found: dict[str, Any] = json.loads((folder / VIEW).read_text(encoding="utf-8"))
        return found

    async def tested(self, number: str) -> list[list[Any]]:
        """Every hypothesis of a result, also those that its view leaves out."""
        folder = await self.folder(number)
        found: list[list[Any]] = json.loads((folder / TESTED).read_text(encoding="utf-8"))
        return found

    async def report(self, number: str) -> Path:
        return await self.folder(number) / REPORT_PAGE

    async def _make(self, path: Path, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        job = out / "job.json"
        folder = str(self.settings.folder)
        job.write_text(json.dumps({"task": "view", "result": str(path), "out": str(out), "folder": folder}))
        process = await asyncio.create_subprocess_exec(
            *self.settings.worker, str(job), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        except BaseException as error:
            if process.returncode is None:
                process.kill()
            if isinstance(error, TimeoutError):
                raise InputError(f"making the page took more than {PATIENCE:g} seconds; use butfor report") from error
            raise
        if process.returncode:
            raise InputError(_last_message(said) or "the result could not be opened; is it of this version of butfor?")


def _is_old(made: Path, result: Path) -> bool:
    return not made.is_file() or made.stat().st_mtime < result.stat().st_mtime


def _last_message(said: bytes) -> str:
    for line in reversed(said.splitlines()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("message"):
                return str(found["message"])
    return ""


def _folders(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()] if folder.is_dir() else []


def _results(folder: Path) -> Iterator[Path]:
    """Files *.butfor in and below a folder; links are not followed, hidden folders and uploads are left out."""
    for seen, (where, inside, files) in enumerate(os.walk(folder)):
        depth = len(Path(where).relative_to(folder).parts)
        if seen > MOST_FOLDERS:
            return
        inside[:] = sorted(name for name in inside if not name.startswith(".")) if depth < DEEPEST else []
        for name in files:
            path = Path(where) / name
            if name.endswith(".butfor") and not name.startswith(".") and not path.is_symlink() and path.is_file():
                yield path
