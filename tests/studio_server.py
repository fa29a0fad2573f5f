"""A real studio on a free port, for tests of its interface and of its page."""

import socket
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

pytest.importorskip("fastapi", reason="the studio extra is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
import httpx
import uvicorn

from butfor.studio.app import make_studio
from butfor.studio.settings import WORKER, Limits, StudioSettings, read_offers


@dataclass
class Served:
    """A studio that answers."""

    url: str
    access: object
    settings: StudioSettings

    def link(self):
        return f"{self.url}/?token={self.access.new_token()}"

    @contextmanager
    def client(self):
        with httpx.Client(base_url=self.url, timeout=120) as client:
            assert client.get("/", params={"token": self.access.new_token()}).status_code == 200
            yield client


@contextmanager
def serving(folder, worker=WORKER, **limits):
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        settings = StudioSettings(folder, read_offers(folder), worker, port, Limits(**limits))
        app, access = make_studio(settings)
        config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        yield Served(f"http://127.0.0.1:{port}", access, settings)
        server.should_exit = True
        thread.join(20)


def wait(client, number, seconds=240):
    """The last state of a run."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        state = client.get(f"/api/runs/{number}").json()
        if state["state"] not in ("queued", "running"):
            return state
        time.sleep(0.1)
    raise AssertionError(f"the run is still {state}")


def python_worker(path, code):
    """A worker of a few lines: what the queue does with processes does not hang on what they compute."""
    path.write_text(code, encoding="utf-8")
    return (sys.executable, str(path))
