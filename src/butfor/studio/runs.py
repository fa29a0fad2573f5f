"""Runs: a queue, one process for each, what it says of itself, how it is stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from butfor.report.write import RESULT
from butfor.studio.settings import ImageInput, RunRequest, StudioSettings, TableInputs, TextInput
from butfor.studio.uploads import TYPES, UploadStore
from butfor.types import InputError

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
    """One run, as far as it is."""

    id: str
    kind: str
    title: str
    created: float
    state: State = "queued"
    stage: str = ""
    rows: int = 0
    total: int | None = None
    chosen: int | None = None
    chosen_rows: tuple[int, ...] | None = None  # positions of what is established so far, where that is known
    message: str = ""
    ahead: int = 0  # runs that wait before it
    has_result: bool = False


class RunQueue:
    """The runs of one studio: those that wait, those that work, those that were."""

    def __init__(self, folder: Path, worker: tuple[str, ...], workers: int, most_queued: int) -> None:
        self.folder, self.worker, self.workers, self.most_queued = folder, worker, workers, most_queued
        self._states: dict[str, RunState] = _former(folder)
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
        found = self._states[number]
        return replace(found, ahead=self._waiting.index(number)) if number in self._waiting else found

    def job(self, number: str) -> dict[str, Any]:
        """What a run was asked."""
        found: dict[str, Any] = json.loads((self.folder / number / JOB).read_text(encoding="utf-8"))
        return found

    def start(self, number: str, title: str, job: Mapping[str, Any]) -> RunState:
        """Put a run at the end of the queue."""
        if len(self._waiting) >= self.most_queued:
            raise BusyError(f"{len(self._waiting)} runs are waiting already; wait, or cancel some")
        folder = self.folder / number
        folder.mkdir(parents=True)
        (folder / JOB).write_text(json.dumps(job), encoding="utf-8")
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
        """Each new state until the run has ended; None where there was nothing to say for a while."""
        last, since = None, time.monotonic()
        while True:
            now = self.state(number)
            if now != last:
                yield now
                last, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET:
                yield None
                since = time.monotonic()
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
        process = await asyncio.create_subprocess_exec(
            *self.worker,
            str(self.folder / number / JOB),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=LINE,
            start_new_session=True,
        )
        self._processes[number] = process
        try:
            if self._states[number].state == "cancelled":  # while the process was being made
                _signal(process, signal.SIGKILL)
            assert process.stdout is not None
            async for line in process.stdout:
                self._hear(number, line)
            code = await process.wait()
        finally:
            _signal(process, signal.SIGKILL)
            self._processes.pop(number, None)
        if self._states[number].state == "running":
            self._end(number, "failed", f"The run ended without a word (code {code}): it may have lacked memory.")
        elif self._states[number].state != "cancelled":
            self._save(number)

    def _hear(self, number: str, line: bytes) -> None:
        """Take over what the worker says; what a library prints in between is no JSON and is left out."""
        try:
            said = json.loads(line)
        except ValueError:
            return
        state = self._states[number]
        if not isinstance(said, dict) or state.state != "running":
            return
        if isinstance(said.get("chosen_rows"), list):
            said["chosen_rows"] = tuple(said["chosen_rows"])
        known = {name: value for name, value in said.items() if name in HEARD}
        self._states[number] = replace(state, **known, has_result=(self.folder / number / RESULT).is_file())

    def _end(self, number: str, state: State, message: str) -> None:
        there = (self.folder / number / RESULT).is_file()
        kept = " What was decided by then is kept." if there and state == "cancelled" else ""
        self._states[number] = replace(
            self._states[number], state=state, message=message + kept, has_result=there, ahead=0
        )
        self._save(number)

    def _save(self, number: str) -> None:
        with suppress(OSError):  # its folder may have been deleted: that must not stop the other runs
            write_card(self.folder / number, self._states[number])


HEARD = {"state", "stage", "rows", "total", "chosen", "chosen_rows", "message"}


def write_card(folder: Path, state: RunState) -> None:
    part = folder / f".{CARD}"
    part.write_text(json.dumps(asdict(state)), encoding="utf-8")
    os.replace(part, folder / CARD)


def _former(folder: Path) -> dict[str, RunState]:
    """Runs of former sessions, oldest first; those that had not ended were stopped with the studio."""
    found = []
    for card in folder.glob(f"*/{CARD}"):
        with suppress(OSError, ValueError, TypeError):
            state = RunState(**json.loads(card.read_text(encoding="utf-8")))
            if state.id != card.parent.name:
                continue
            there = (card.parent / RESULT).is_file()
            if state.state not in ENDED:
                state = replace(state, state="stopped", message="The studio was closed before this run was done.")
            found.append(replace(state, has_result=there, chosen_rows=None, ahead=0))
    return {state.id: state for state in sorted(found, key=lambda state: state.created)}


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """To the worker and all that it started; nothing where it has ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


def job_of(request: RunRequest, number: str, settings: StudioSettings, uploads: UploadStore) -> dict[str, Any]:
    """Everything a worker needs; raises one sentence where something does not fit."""
    given = {"table": request.table, "image": request.images, "text": request.texts}
    extra = [kind for kind, value in given.items() if value is not None and kind != request.kind]
    if extra or not given[request.kind]:
        raise InputError(f"a run of kind {request.kind!r} needs its own inputs, and no others")
    job = {
        "task": "run",
        "kind": request.kind,
        "model": asdict(settings.offers.model(request.model, request.kind)),
        "sampler": asdict(settings.offers.sampler(request.sampler, request.kind)),
        "tests": {name: value for name in ("alpha", "test", "draws", "target") if (value := getattr(request, name))},
        "seed": request.seed,
        "out": str(settings.runs / number),
        "view": str(settings.views / number),
    }
    if request.table is not None:
        return {**job, "table": _table(request.table, uploads)}
    if request.images is not None:
        return {**job, "images": _images(request.images, uploads)}
    return {**job, "texts": _texts(request.texts or [])}


def _table(table: TableInputs, uploads: UploadStore) -> dict[str, Any]:
    if table.reference is None and not table.reference_where:
        raise InputError("say which rows are the reference, such as diagnosis == 'benign', or send a second file")
    found = {"data": table.upload} | ({} if table.reference is None else {"reference": table.reference})
    for upload in found.values():
        if uploads.get(upload).type in TYPES:
            raise InputError(f"{uploads.get(upload).name!r} is an image, expected a table")
    return {
        **{what: str(uploads.path(upload)) for what, upload in found.items()},
        "names": {str(uploads.path(upload)): uploads.get(upload).name for upload in found.values()},
        "reference_where": table.reference_where or None,
        "data_where": table.data_where or None,
        "drop": table.drop,
        "index": table.index,
        "subsets": table.subsets,
    }


def _images(images: list[ImageInput], uploads: UploadStore) -> list[dict[str, Any]]:
    """Images by names that differ: two files may be called alike."""
    found: list[dict[str, Any]] = []
    names: set[str] = set()
    for image in images:
        upload = uploads.get(image.upload)
        if upload.type not in TYPES:
            raise InputError(f"{upload.name!r} is a table, expected an image")
        name = upload.name if upload.name not in names else f"{upload.name} ({len(found) + 1})"
        names.add(name)
        boxes = {box.name: (box.x1, box.y1, box.x2, box.y2) for box in image.boxes}
        if len(boxes) < len(image.boxes):
            raise InputError(f"two boxes of {upload.name!r} have the same name; give each its own")
        found.append({"name": name, "path": str(uploads.path(image.upload)), "boxes": boxes})
    if 0 < sum(not one["boxes"] for one in found) < len(found):
        lacking = next(one["name"] for one in found if not one["boxes"])
        raise InputError(f"{lacking!r} has no boxes, others have; draw some on it, or leave it out")
    return found


def _texts(texts: list[TextInput]) -> list[dict[str, Any]]:
    if len({text.name for text in texts}) < len(texts):
        raise InputError("two texts have the same name; give each its own")
    spans = {text.name: sorted((span.start, span.end) for span in text.spans) for text in texts}
    return [{"name": text.name, "text": text.text, "spans": spans[text.name]} for text in texts]


def title_of(job: dict[str, Any]) -> str:
    """What a run is called that was given no name: its first input and its model."""
    if job["kind"] == "table":
        first, more = next(iter(job["table"]["names"].values())), 0
    else:
        inputs = job["images"] if job["kind"] == "image" else job["texts"]
        first = inputs[0]["name"] if job["kind"] == "image" else inputs[0]["text"][:40]
        more = len(inputs) - 1
    return f"{first}{f' and {more} more' if more else ''} · {job['model']['name']}"


def asked_of(job: dict[str, Any], uploads: UploadStore) -> dict[str, Any]:
    """Drawn boxes and marked spans of a job as a view without answers; nothing where the run itself proposes them."""
    inputs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for place, one in enumerate(job.get("images", ())):
        upload = Path(one["path"]).stem
        size = uploads.get(upload).details
        inputs.append({"name": one["name"], "place": place, "src": f"/api/uploads/{upload}/content"})
        across = (size["width"], size["height"]) * 2
        rows += [
            {"place": place, "subset": name, "where": [side / whole for side, whole in zip(box, across, strict=True)]}
            for name, box in one["boxes"].items()
        ]
    texts = job.get("texts", ())
    for place, one in enumerate(texts if all(text["spans"] for text in texts) else ()):
        inputs.append({"name": one["name"], "place": place, "text": one["text"]})
        rows += [{"place": place, "subset": "", "where": span} for span in one["spans"]]
    rows = [{**row, "row": number, "chosen": False} for number, row in enumerate(rows)]
    return {"modality": job["kind"], "inputs": inputs, "rows": rows}
