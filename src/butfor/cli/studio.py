"""`butfor studio`: the local page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from butfor.core.checks import whole
from butfor.core.types import InputError
from butfor.models.optional import need

FOLDER_HELP = "Folder with results to open; runs and uploads are written into it."
WORKER = (sys.executable, "-m", "butfor.cli.studio_work")


def studio(
    folder: Annotated[Path, typer.Argument(help=FOLDER_HELP)] = Path(),
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes any that is free.")] = 0,
    workers: Annotated[int, typer.Option(help="Runs at a time; others wait.")] = 1,
    most_upload: Annotated[int, typer.Option(help="Megabytes of the largest file that may be sent.")] = 64,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """A page on this machine: draw boxes, mark words, pick rows, run, read, compare. Nobody else can open it."""
    import socket

    for module in ("fastapi", "uvicorn"):
        need(module, "studio")
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist; make it, or name another")
    whole("--workers", workers, 1)
    whole("--most-upload", most_upload, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))  # loopback: nobody else on the network can ask
        except (OSError, OverflowError) as error:
            raise InputError(f"--port {port} cannot be used: {error}; leave it out for any that is free") from error
        serve(folder.resolve(), listening, workers, most_upload, open_browser)


def serve(folder: Path, listening: object, workers: int, most_upload: int, open_browser: bool) -> None:
    """Serve until Ctrl-C."""
    import socket
    import webbrowser

    import uvicorn

    from butfor.studio.app import make_studio
    from butfor.studio.models import read_offers
    from butfor.studio.settings import MEGABYTE, Limits, StudioSettings

    assert isinstance(listening, socket.socket)
    port = listening.getsockname()[1]
    limits = Limits(workers=workers, upload=most_upload * MEGABYTE)
    app, access = make_studio(StudioSettings(folder, read_offers(folder), WORKER, port, limits))
    link = f"http://127.0.0.1:{port}/?token={access.new_token()}"
    typer.echo(f"butfor studio of {folder}\nOpen this link (it works once): {link}\nCtrl-C ends it.")
    sys.stdout.flush()
    if open_browser:
        webbrowser.open(link)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, h11_max_incomplete_event_size=65_536,
        limit_concurrency=500, timeout_keep_alive=10, timeout_graceful_shutdown=2, ws="none",
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[listening])
