"""The web application: every operation of the page, open to scripts as well (OpenAPI at /api/openapi.json)."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

from butfor._version import __version__
from butfor.studio.results import REPORT_PAGE, TESTED, VIEW, ResultPages, compare
from butfor.studio.runs import BusyError, RowFilter, RunQueue, RunRequest, RunState, job_of, title_of, view_of_job
from butfor.studio.security import Access, App, Guard
from butfor.studio.settings import Kind, StudioSettings, passages, reviews, tissue_png, tumour_table
from butfor.studio.uploads import TYPES, StoredUpload, TooLargeError, UploadStore
from butfor.types import InputError

STATIC = Path(__file__).parent / "static"
UPLOADS = "/api/uploads"
PICTURE = re.compile(r"(input-\d{1,9}|cf-\d{1,9}-\d)\.png")
HASH = re.compile(r"'sha(?:256|384|512)-[A-Za-z0-9+/=]+'")
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"')


@dataclass(frozen=True)
class Studio:
    """State that the operations share."""

    settings: StudioSettings
    access: Access
    uploads: UploadStore
    runs: RunQueue
    pages: ResultPages


def _studio(request: Request) -> Any:
    return request.app.state.studio


Here = Annotated[Studio, Depends(_studio)]
router = APIRouter()


def make_studio(settings: StudioSettings) -> tuple[App, Access]:
    """Return the guarded application, and who may open it."""
    limits, access = settings.limits, Access(settings.port)
    queue = RunQueue(settings.runs, settings.worker, limits.workers, limits.queued)

    @asynccontextmanager
    async def working(_: FastAPI) -> AsyncIterator[None]:
        queue.open()
        yield
        await queue.close()

    async def refused(_: Request, error: Exception) -> JSONResponse:
        status = 413 if isinstance(error, TooLargeError) else 429 if isinstance(error, BusyError) else 422
        more = {"connection": "close"} if status == 413 else None  # else all the rest would still be read, for nothing
        return JSONResponse({"detail": str(error)}, status, more)

    async def misspelt(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]  # one sentence, as everywhere else
        where = ".".join(str(part) for part in first["loc"][1:])
        return JSONResponse({"detail": f"{where or 'the request'}: {first['msg']}"}, 422)

    async def gone(*_: object) -> JSONResponse:
        return JSONResponse({"detail": "the request was cut short"}, 400)

    app = FastAPI(
        title="butfor studio",
        version=__version__,
        lifespan=working,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
        exception_handlers={InputError: refused, RequestValidationError: misspelt, ClientDisconnect: gone},
    )
    app.state.studio = Studio(settings, access, UploadStore(settings.uploads, limits), queue, ResultPages(settings))
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return Guard(app, access, settings.hosts, limits.body, UPLOADS), access


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    return FileResponse(STATIC / "index.html")


@router.get("/api/offers")
async def offers(here: Here) -> dict[str, Any]:
    """The models and samplers that can be chosen, and the limits of uploads."""
    settings = here.settings
    shown = {"folder": settings.folder.name, "most_upload": settings.limits.upload}
    return shown | {
        what: [{"name": offer.name, "kind": offer.kind, "about": offer.about} for offer in every]
        for what, every in (("models", settings.offers.models), ("samplers", settings.offers.samplers))
    }


@router.post("/api/tokens")
async def new_link(here: Here) -> dict[str, str]:
    """A link that opens this studio once, for another browser or a script."""
    return {"url": f"http://{here.settings.hosts[0]}/?token={here.access.new_token()}"}


@router.post(UPLOADS)
async def upload(request: Request, here: Here, name: Annotated[str, Query(max_length=1_000)] = "file") -> StoredUpload:
    """Send one file as the body of the request: PNG, JPEG, CSV (UTF-8) or Parquet."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > here.settings.limits.upload:
        raise TooLargeError(f"the file has more than {here.settings.limits.upload / 1e6:,.0f} MB; send a smaller one")
    return await here.uploads.receive(name, request.stream())


@router.get(UPLOADS + "/{number}/content")
async def content(number: str, here: Here) -> FileResponse:
    """An uploaded image."""
    stored = here.uploads.get(number)
    if stored.type not in TYPES:
        raise InputError(f"{stored.name!r} is a table, expected an image")
    return FileResponse(here.uploads.path(number), media_type=TYPES[stored.type])


@router.post(UPLOADS + "/{number}/rows")
async def count_rows(number: str, wanted: RowFilter, here: Here) -> dict[str, int]:
    """Numbers of rows of a table: in the reference, and to explain."""
    return await here.uploads.count(number, wanted.reference_where, wanted.data_where)


@router.post("/api/examples/{kind}")
async def example(kind: Kind, here: Here) -> dict[str, Any]:
    """Example inputs for the demo model: an upload (table, image), texts, or a prompt."""
    if kind == "text":
        return {"text": reviews()}
    if kind == "context":
        return passages()
    made, name = (tumour_table(), "tumours.csv") if kind == "table" else (tissue_png(), "tissue.png")

    async def chunks() -> AsyncIterator[bytes]:
        yield made

    return asdict(await here.uploads.receive(name, chunks()))


@router.post("/api/runs", status_code=201)
async def start(wanted: RunRequest, here: Here) -> RunState:
    """Queue a run; watch it at /api/runs/{number}/events."""
    number = secrets.token_hex(16)
    job = job_of(wanted, number, here.settings, here.uploads)
    return here.runs.start(number, wanted.title or title_of(job), job)


@router.get("/api/runs")
async def runs(here: Here) -> dict[str, Any]:
    """Runs of this studio, newest first, and other results below its folder."""
    states = sorted(here.runs.all(), key=lambda run: -run.created)
    past = [{"id": one.id, "title": one.title, "changed": one.changed} for one in here.pages.past()]
    return {"runs": [asdict(run) for run in states], "past": past}


@router.get("/api/runs/{number}")
async def run(number: str, here: Here) -> RunState:
    """The state of a run; a result of the command line is done."""
    past = {} if number in here.runs else {one.id: one for one in here.pages.past()}
    if number in past:
        return RunState(number, "", past[number].title, past[number].changed, "done", has_result=True)
    return _known(number, here)


@router.get("/api/runs/{number}/inputs")
async def inputs(number: str, here: Here) -> dict[str, Any]:
    """Boxes drawn or spans marked for a run, in the order of its hypotheses."""
    _known(number, here)
    try:
        job = here.runs.job(number)
    except (OSError, ValueError) as error:
        raise HTTPException(404, "the inputs of this run are no longer in its folder") from error
    return view_of_job(job, here.uploads)


@router.post("/api/runs/{number}/cancel")
async def cancel(number: str, here: Here) -> RunState:
    """Stop a run, within two seconds; what it has decided by then is kept where it can be."""
    _known(number, here)
    return await here.runs.cancel(number)


@router.get("/api/runs/{number}/events")
async def events(number: str, here: Here) -> StreamingResponse:
    """Server-sent events: a RunState each time it changes, until the run has ended."""
    _known(number, here)

    async def lines() -> AsyncIterator[str]:
        async for state in here.runs.watch(number):
            yield ": still here\n\n" if state is None else f"data: {json.dumps(asdict(state))}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@router.get("/api/runs/{number}/view")
async def view(number: str, here: Here) -> dict[str, Any]:
    """The result as a page shows it: words, rows, counterfactuals."""
    view: dict[str, Any] = await here.pages.read(number, VIEW)
    return view


@router.get("/api/runs/{number}/pictures/{name}")
async def picture(number: str, name: str, here: Here) -> FileResponse:
    """A picture that a view names."""
    folder = await here.pages.folder(number)
    if not PICTURE.fullmatch(name) or not (folder / name).is_file():
        raise HTTPException(404, "there is no such picture")
    return FileResponse(folder / name, media_type="image/png")


@router.get("/api/runs/{number}/report")
async def report(number: str, here: Here, download: bool = False) -> Response:
    """The report, one offline HTML file; as a page it is cut off from everything else of the studio."""
    path = await here.pages.folder(number) / REPORT_PAGE
    if download:
        return FileResponse(path, media_type="text/html", filename=f"butfor-report-{number[:8]}.html")
    html = path.read_text(encoding="utf-8")
    stated = POLICY.search(html[:4_000])  # its own script is allowed, by the hash that it states itself
    allowed = " ".join(HASH.findall(stated[1].replace("&#39;", "'"))) if stated else ""
    policy = (
        "sandbox allow-scripts allow-popups allow-downloads; default-src 'none'; img-src data:; font-src data:; "
        f"style-src 'unsafe-inline'; script-src {allowed or chr(39) + 'none' + chr(39)}; frame-ancestors 'self'"
    )
    return Response(html, media_type="text/html", headers={"content-security-policy": policy})


@router.get("/api/compare")
async def compared(first: str, second: str, here: Here) -> dict[str, Any]:
    """Two results: what is unusual in both, in one only, in neither. All are counted, the first 500 listed."""
    both = await here.pages.read(first, TESTED), await here.pages.read(second, TESTED)
    return await asyncio.to_thread(compare, *both)  # of a million hypotheses it takes seconds


def _known(number: str, here: Studio) -> RunState:
    if number not in here.runs:
        raise HTTPException(404, "there is no such run")
    return here.runs.state(number)
