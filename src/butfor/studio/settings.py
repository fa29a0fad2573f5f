"""What one studio is: its folder, what it offers, its limits, and the command that does the work."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from butfor.studio.models import Offers

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """How much of everything one server takes."""

    upload: int = 64 * MEGABYTE  # bytes of a file
    stored: int = 4_000 * MEGABYTE  # bytes of all uploads together
    body: int = 2 * MEGABYTE  # bytes of any other request
    pixels: int = 30_000_000  # of an image
    workers: int = 1  # runs at a time; others wait
    queued: int = 200  # runs that may wait


@dataclass(frozen=True)
class StudioSettings:
    """Where a studio reads and writes; everything that it makes lies in or below `folder`."""

    folder: Path
    offers: Offers
    worker: tuple[str, ...]  # a command; the path of a job is appended
    port: int = 8765
    limits: Limits = field(default_factory=Limits)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def uploads(self) -> Path:
        return self.folder / "uploads"

    @property
    def views(self) -> Path:
        """What pages are made of, by run: made anew from the result where it is missing."""
        return self.folder / ".studio"

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))
