"""A model at an address, from the command line: when it goes away nothing is lost, and the same command goes on."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from butfor.cli.app import main
from butfor.models import remote as patience

pytest.importorskip("httpx")


@pytest.fixture
def server(monkeypatch):
    """A server that adds up the columns it gets, and answers nothing any more after `server.lives` requests."""
    monkeypatch.setattr(patience, "ATTEMPTS_ON_500", 2)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

        def send(self, status, body):
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.send(200, {"name": "m", "inputs": [], "outputs": []})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.server.posts += 1
            if self.server.posts > self.server.lives:
                self.send(503, {"error": "gone"})
                return
            columns = [np.array(one["data"], float) for one in body["inputs"]]
            output = {"name": "y", "datatype": "FP64", "shape": [len(columns[0])], "data": sum(columns).tolist()}
            self.send(200, {"id": body["id"], "outputs": [output]})

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.posts, made.lives = 0, 10**9
        made.url = f"http://127.0.0.1:{made.server_port}/v2/models/m"
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def explain(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("butfor.models.files.endpoint", lambda name, **given: endpoint(name, patience=0.5, **given))
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"]).to_csv("reference.csv", index=False)
    pd.DataFrame(rng.normal([4, 0], 1, size=(20, 2)), columns=["a", "b"]).to_csv("data.csv", index=False)
    asked = ["--data", "data.csv", "--reference", "reference.csv", "--sampler", "gaussian", "--quiet"]

    def run(out, *given):
        return main(["explain", "--model", server.url, "--out", out, *asked, "--batch-rows", "200", *given])

    return run


def endpoint(name, **settings):
    from butfor.models import endpoint as real

    return real(name, **settings)


def test_an_endpoint_that_goes_away(explain, server, tmp_path, capsys):
    assert explain("whole") == 0
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == ["report.html", "result.butfor", "table.csv"]
    needed = server.posts
    server.posts, server.lives = 0, needed // 2
    assert explain("parts") == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert server.url in said
    assert "what it answered is kept in parts/run: run the same command again to go on from there" in said
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["run"]
    server.posts, server.lives = 0, 10**9
    assert explain("parts") == 0
    # beyond what was left: calls of the unit of work that was under way (at most one round of 2,000 rows, 200 a call),
    # and four in which the answers that were kept are compared with what the model says now
    assert server.posts <= needed - needed // 2 + 10 + 4
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["report.html", "result.butfor", "table.csv"]
    assert (tmp_path / "parts" / "table.csv").read_bytes() == (tmp_path / "whole" / "table.csv").read_bytes()


def test_an_endpoint_that_never_answers_leaves_nothing(explain, server, tmp_path, capsys):
    server.lives = 0
    assert explain("none") == 2
    said = capsys.readouterr().err
    assert server.url in said
    assert "run the same command" not in said
    assert not (tmp_path / "none").exists()


def test_a_folder_of_ones_own(explain, server, tmp_path, capsys):
    (tmp_path / "kept").mkdir()
    server.lives = 3
    assert explain("out", "--run-dir", "kept") == 2
    assert "is kept in kept: run the same command" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    server.lives = 10**9
    assert explain("out", "--run-dir", "kept") == 0
    assert not (tmp_path / "kept").exists()  # nothing is left to go on with
