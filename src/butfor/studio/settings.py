"""What one studio is: its folder, what it offers, its limits, and the command that does the work."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from butfor.studio.models import Kind, Offers

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


Name = Annotated[str, Field(max_length=200)]
UploadId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Expression = Annotated[str, Field(max_length=2_000)]


class Strict(BaseModel):
    """What is not known is refused, so that a word spelt wrongly is not lost in silence."""

    model_config = ConfigDict(extra="forbid")


class RowFilter(Strict):
    """Which rows of a table are the reference, and which are explained (all others where none is given)."""

    reference_where: Expression
    data_where: Expression = ""


class TableInputs(Strict):
    """Rows to explain and rows to compare with: of one file by a filter, or of two files."""

    upload: UploadId
    reference: UploadId | None = None
    reference_where: Expression = ""
    data_where: Expression = ""
    drop: list[Name] = Field(default=[], max_length=1_000)
    index: Name | None = None
    subsets: Literal["zoom", "columns"] | dict[str, list[str]] = "zoom"


class DrawnBox(Strict):
    """A region in pixels of the image, half-open."""

    name: Name
    x1: int = Field(ge=0, le=2**24)
    y1: int = Field(ge=0, le=2**24)
    x2: int = Field(ge=0, le=2**24)
    y2: int = Field(ge=0, le=2**24)


class ImageInput(Strict):
    """One image and what was drawn on it; a grid of three by three where nothing was."""

    upload: UploadId
    boxes: list[DrawnBox] = Field(default=[], max_length=200)


class MarkedSpan(Strict):
    """Characters (code points, not bytes), half-open."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)


class TextInput(Strict):
    """One text and what was marked in it; every word where nothing was."""

    name: Name
    text: str = Field(min_length=1, max_length=20_000)
    spans: list[MarkedSpan] = Field(default=[], max_length=500)


class RunRequest(Strict):
    """A new run: exactly one of table, images and texts, by its kind."""

    kind: Kind
    model: Name
    sampler: Name
    title: Name = ""
    alpha: float = Field(default=0.1, gt=0, lt=1)
    test: Literal["sequential", "irt", "few-shot"] = "sequential"
    draws: int | None = Field(default=None, ge=1, le=1_000_000)
    target: Name | None = None
    seed: int = Field(default=0, ge=0, lt=2**63)
    table: TableInputs | None = None
    images: list[ImageInput] | None = Field(default=None, max_length=500)
    texts: list[TextInput] | None = Field(default=None, max_length=500)
