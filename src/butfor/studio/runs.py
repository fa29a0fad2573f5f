"""Runs: a queue, a process for each run, the messages of it, how it is stopped; and the requests for new ones."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from butfor.report.write import RESULT
from butfor.studio.settings import Kind, StudioSettings
from butfor.studio.uploads import TYPES, UploadStore
from butfor.types import InputError
from butfor.untrusted import private_file, private_folder

State = Literal["queued", "running", "done", "failed", "cancelled", "stopped"]
ENDED = ("done", "failed", "cancelled", "stopped")
CARD, JOB = "run.json", "job.json"
GRACE = 1.2  # seconds in which a cancelled run may write what it has decided
LOOK = 0.2  # seconds between looks at a run that is watched
LINE = 2**20  # bytes of a message of the worker's
QUIET = 15.0  # seconds after which a watcher hears that we are still here


class BusyError(InputError):
    """The queue is full."""


@dataclass(frozen=True)
class RunState:
    id: str
    kind: str
    title: str
    created: float
    state: State = "queued"
    stage: str = ""
    rows: int = 0
    total: int | None = None
    chosen: int | None = None
    chosen_rows: tuple[int, ...] | None = None  # positions of what is unusual so far, where that is known
    message: str = ""
    ahead: int = 0  # runs that wait before it
    has_result: bool = False


class RunQueue:
    """The runs of one studio: queued, running and ended."""

    def __init__(self, folder: Path, worker: tuple[str, ...], workers: int, most_queued: int) -> None:
        self.folder, self.worker, self.workers, self.most_queued = folder, worker, workers, most_queued
        self._states = _former(folder)
        self._waiting: list[str] = []
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Begin to work; inside a running loop."""
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self.workers)]

    async def close(self) -> None:
        """Stop what runs; what was written stays."""
        for task in self._tasks:
            task.cancel()
        processes = list(self._processes.values())
        for process in processes:
            _signal(process, signal.SIGKILL)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(process.wait() for process in processes))

    def __contains__(self, number: str) -> bool:
        return number in self._states

    def all(self) -> list[RunState]:
        return [self.state(number) for number in self._states]

    def state(self, number: str) -> RunState:
        state = self._states[number]
        return replace(state, ahead=self._waiting.index(number)) if number in self._waiting else state

    def job(self, number: str) -> dict[str, Any]:
        job: dict[str, Any] = json.loads((self.folder / number / JOB).read_text(encoding="utf-8"))
        return job

    def start(self, number: str, title: str, job: Mapping[str, Any]) -> RunState:
        if len(self._waiting) >= self.most_queued:
            raise BusyError(f"{len(self._waiting)} runs are waiting already; wait, or cancel some")
        folder = self.folder / number
        private_folder(folder)
        private_file(folder / JOB).write_text(json.dumps(job), encoding="utf-8")
        self._states[number] = RunState(number, str(job["kind"]), title, time.time())
        self._save(number)
        self._waiting.append(number)
        self._wake.set()
        return self.state(number)

    async def cancel(self, number: str) -> RunState:
        """Stop a run: what it has decided by now is kept where it can write that at once."""
        state = self._states[number]
        if number in self._waiting:
            self._waiting.remove(number)
            self._end(number, "cancelled", "Cancelled before it began.")
        elif state.state == "running":
            self._states[number] = replace(state, state="cancelled", message="Cancelled.")
            process = self._processes.get(number)
            if process is not None:
                _signal(process, signal.SIGINT)
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), GRACE)
                _signal(process, signal.SIGKILL)
                await process.wait()
            self._end(number, "cancelled", "Cancelled.")
        return self.state(number)

    async def watch(self, number: str) -> AsyncIterator[RunState | None]:
        """Yield each new state until the run has ended; None where nothing changed for a while."""
        last, since = None, time.monotonic()
        while True:
            now = self.state(number)
            if now != last or time.monotonic() - since > QUIET:
                yield None if now == last else now
                last, since = now, time.monotonic()
            if now.state in ENDED:
                return
            await asyncio.sleep(LOOK)

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            number = self._waiting.pop(0)
            self._states[number] = replace(self._states[number], state="running", stage="starting")
            try:
                await self._perform(number)
            except (OSError, ValueError) as error:  # one run that cannot be started must not stop the others
                self._end(number, "failed", f"The run could not be done: {error}")

    async def _perform(self, number: str) -> None:
        command = (*self.worker, str(self.folder / number / JOB))
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, limit=LINE, start_new_session=True
        )
        self._processes[number] = process
        try:
            if self._states[number].state == "cancelled":  # while the process was being made
                _signal(process, signal.SIGKILL)
            assert process.stdout is not None
            async for line in process.stdout:
                self._receive(number, line)
            code = await process.wait()
        finally:
            _signal(process, signal.SIGKILL)
            self._processes.pop(number, None)
        if self._states[number].state == "running":
            self._end(number, "failed", f"The run ended without a word (code {code}): it may have lacked memory.")

    def _receive(self, number: str, line: bytes) -> None:
        """Update the state by a message of the worker; what a library prints in between is no JSON and is ignored."""
        state, message = self._states[number], None
        with suppress(ValueError):
            message = json.loads(line)
        if not isinstance(message, dict) or state.state != "running":
            return
        if isinstance(message.get("chosen_rows"), list):
            message["chosen_rows"] = tuple(message["chosen_rows"])
        known = ("state", "stage", "rows", "total", "chosen", "chosen_rows", "message")
        changes = {name: value for name, value in message.items() if name in known}
        self._states[number] = state = replace(state, **changes, has_result=(self.folder / number / RESULT).is_file())
        if state.state != "running":  # before anybody is told: the studio may be closed while the worker still ends
            self._save(number)

    def _end(self, number: str, state: State, message: str) -> None:
        there = (self.folder / number / RESULT).is_file()
        message += " What was decided by then is kept." if there and state == "cancelled" else ""
        self._states[number] = replace(self._states[number], state=state, message=message, has_result=there, ahead=0)
        self._save(number)

    def _save(self, number: str) -> None:
        part = self.folder / number / f".{CARD}"
        with suppress(OSError):  # its folder may have been deleted: that must not stop the other runs
            private_file(part).write_text(json.dumps(asdict(self._states[number])), encoding="utf-8")
            os.replace(part, part.with_name(CARD))


def _former(folder: Path) -> dict[str, RunState]:
    """Read the runs of former sessions, oldest first; those that had not ended were stopped with the studio."""
    states = []
    for card in folder.glob(f"*/{CARD}"):
        with suppress(OSError, ValueError, TypeError):
            state = RunState(**json.loads(card.read_text(encoding="utf-8")))
            if state.id != card.parent.name:
                continue
            if state.state not in ENDED:
                state = replace(state, state="stopped", message="The studio was closed before this run was done.")
            there = (card.parent / RESULT).is_file()
            states.append(replace(state, has_result=there, chosen_rows=None, ahead=0))
    return {state.id: state for state in sorted(states, key=lambda state: state.created)}


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """Signal the worker and all that it started, unless it has ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


Name = Annotated[str, Field(max_length=200)]
UploadId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
Expression = Annotated[str, Field(max_length=2_000)]


class Strict(BaseModel):
    """Unknown names are refused, so that a misspelt one is not lost in silence."""

    model_config = ConfigDict(extra="forbid")


class RowFilter(Strict):
    """Expressions for the rows of the reference and for those to explain (all others where none is given)."""

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
    """One image and the boxes drawn on it; a grid of three by three where there are none."""

    upload: UploadId
    boxes: list[DrawnBox] = Field(default=[], max_length=200)


class MarkedSpan(Strict):
    """Characters (code points, not bytes), half-open."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)


class TextInput(Strict):
    """One text and the spans marked in it; every word where there are none."""

    name: Name
    text: str = Field(min_length=1, max_length=20_000)
    spans: list[MarkedSpan] = Field(default=[], max_length=500)


Passage = Annotated[str, Field(min_length=1, max_length=20_000)]


class ContextInputs(Strict):
    """A prompt in parts, what is asked, and passages that might have stood in the place of the parts."""

    parts: list[Passage] = Field(min_length=1, max_length=500)
    question: str = Field(default="", max_length=20_000)
    pool: list[Passage] = Field(default=[], max_length=5_000)


class RunRequest(Strict):
    """A new run: exactly one of table, images, texts and context, by its kind."""

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
    context: ContextInputs | None = None


def job_of(request: RunRequest, number: str, settings: StudioSettings, uploads: UploadStore) -> dict[str, Any]:
    """Return everything that a worker needs, as JSON; refuse in one sentence what does not fit."""
    inputs = {"table": request.table, "image": request.images, "text": request.texts, "context": request.context}
    if any(value is not None for kind, value in inputs.items() if kind != request.kind) or not inputs[request.kind]:
        raise InputError(f"a run of kind {request.kind!r} needs its own inputs, and no others")
    names = ("alpha", "test", "draws", "target")
    job = {
        "task": "run",
        "kind": request.kind,
        "model": asdict(settings.offers.named("model", request.model, request.kind)),
        "sampler": asdict(settings.offers.named("sampler", request.sampler, request.kind)),
        "settings": {name: value for name in names if (value := getattr(request, name))} | {"seed": request.seed},
        "out": str(settings.runs / number),
        "view": str(settings.views / number),
    }
    if request.table is not None:
        return {**job, "table": _table(request.table, uploads)}
    if request.images is not None:
        return {**job, "images": _images(request.images, uploads)}
    if request.context is not None:
        return {**job, "context": request.context.model_dump()}
    texts = request.texts or []
    if len({text.name for text in texts}) < len(texts):
        raise InputError("two texts have the same name; give each its own")
    spans = {text.name: sorted((span.start, span.end) for span in text.spans) for text in texts}
    return {**job, "texts": [{"name": text.name, "text": text.text, "spans": spans[text.name]} for text in texts]}


def _table(table: TableInputs, uploads: UploadStore) -> dict[str, Any]:
    if table.reference is None and not table.reference_where:
        raise InputError("say which rows are the reference, such as diagnosis == 'benign', or send a second file")
    files = {"data": table.upload} | ({} if table.reference is None else {"reference": table.reference})
    for upload in files.values():
        if uploads.get(upload).type in TYPES:
            raise InputError(f"{uploads.get(upload).name!r} is an image, expected a table")
    paths = {what: str(uploads.path(upload)) for what, upload in files.items()}
    where = {"reference_where": table.reference_where or None, "data_where": table.data_where or None}
    names = {paths[what]: uploads.get(upload).name for what, upload in files.items()}
    rows = {**paths, **where, "drop": table.drop, "index": table.index}
    return {"rows": rows, "names": names, "subsets": table.subsets}


def _images(images: list[ImageInput], uploads: UploadStore) -> list[dict[str, Any]]:
    """Return the images by names that differ: two files may be called alike."""
    listed: dict[str, dict[str, Any]] = {}
    for image in images:
        upload = uploads.get(image.upload)
        if upload.type not in TYPES:
            raise InputError(f"{upload.name!r} is a table, expected an image")
        name = upload.name
        while name in listed:
            name = f"{upload.name} ({len(listed) + 1})" if name == upload.name else f"{name}'"
        boxes = {box.name: (box.x1, box.y1, box.x2, box.y2) for box in image.boxes}
        if len(boxes) < len(image.boxes):
            raise InputError(f"two boxes of {upload.name!r} have the same name; give each its own")
        listed[name] = {"name": name, "path": str(uploads.path(image.upload)), "boxes": boxes}
    without = [name for name, image in listed.items() if not image["boxes"]]
    if 0 < len(without) < len(listed):
        raise InputError(f"{without[0]!r} has no boxes, others have; draw some on it, or leave it out")
    return list(listed.values())


def title_of(job: dict[str, Any]) -> str:
    """Name a run that was given no title by its first input and its model."""
    if job["kind"] == "table":
        first, more = next(iter(job["table"]["names"].values())), 0
    elif job["kind"] == "context":
        first, more = (job["context"]["question"] or job["context"]["parts"][0])[:40], 0
    else:
        inputs = job["images"] if job["kind"] == "image" else job["texts"]
        first = inputs[0]["name"] if job["kind"] == "image" else inputs[0]["text"][:40]
        more = len(inputs) - 1
    return f"{first}{f' and {more} more' if more else ''} · {job['model']['name']}"


def view_of_job(job: dict[str, Any], uploads: UploadStore) -> dict[str, Any]:
    """Return drawn boxes and marked spans as a view without answers; nothing where the run itself proposes them."""
    inputs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for index, image in enumerate(job.get("images", ())):
        upload = Path(image["path"]).stem
        size = uploads.get(upload).details
        sides = (size["width"], size["height"]) * 2
        inputs.append({"name": image["name"], "index": index, "src": f"/api/uploads/{upload}/content"})
        for name, box in image["boxes"].items():
            where = [end / side for end, side in zip(box, sides, strict=True)]
            rows.append({"index": index, "subset": name, "where": where})
    texts = job.get("texts", ())
    for index, text in enumerate(texts if all(text["spans"] for text in texts) else ()):
        inputs.append({"name": text["name"], "index": index, "text": text["text"]})
        rows += [{"index": index, "subset": "", "where": span} for span in text["spans"]]
    rows = [{**row, "row": number, "chosen": False} for number, row in enumerate(rows)]
    return {"modality": job["kind"], "inputs": inputs, "rows": rows}
