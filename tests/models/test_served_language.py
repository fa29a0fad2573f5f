"""A server of text that misbehaves: answers in order, one clear sentence each, and the key nowhere."""

import json
import logging
import pickle
import subprocess
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from butfor import ModelError, context
from butfor.cli.app import main
from butfor.models import ModelUnreachable, openai
from butfor.types import InputError

KEY = "sk-very-secret-0123456789"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.bodies.append(body)
            server.keys.append(self.headers.get("Authorization"))
            server.now += 1
            server.most = max(server.most, server.now)
            number = len(server.bodies)
        try:
            server.behave(self, body, number)
        finally:
            with server.lock:
                server.now -= 1

    def send(self, status, content, **headers):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def serve(monkeypatch):
    """Start a server that behaves as a function says; returns its url and the server."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    running = []

    def start(behave):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.behave, server.lock = behave, threading.Lock()
        server.bodies, server.keys, server.now, server.most = [], [], 0, 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_port}/v1", server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def said(text):
    return {"choices": [{"text": text, "message": {"role": "assistant", "content": text}}], "usage": {}}


def echo(handler, body, _):
    text = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    handler.send(200, said(f"re: {text}"))


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_answers_come_in_the_order_of_the_prompts(serve, api):
    def slow(handler, body, number):
        time.sleep(0.02 * (number % 3))
        echo(handler, body, number)

    url, server = serve(slow)
    model = openai(url, model="m", api=api, concurrency=3)
    prompts = [f"prompt {k}" for k in range(12)]
    assert model.answer(prompts) == [f"re: {one}" for one in prompts]
    assert server.most <= 3
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert model.usage.calls == 12


def test_messages_go_to_chat_servers_only(serve):
    url, _ = serve(echo)
    messages = [{"role": "user", "content": "hello"}]
    assert openai(url, api="chat").answer([messages]) == ["re: hello"]
    with pytest.raises(InputError, match="chat messages"):
        openai(url, api="completions").answer([messages])


def test_busy_and_broken_servers_are_asked_again(serve):
    def busy(handler, body, number):
        if number == 1:
            handler.send(429, {"error": {"message": "slow down"}}, Retry_After="0")
        elif number == 2:
            handler.send(500, b"oops")
        else:
            echo(handler, body, number)

    url, server = serve(busy)
    assert openai(url, api="chat").answer(["a"]) == ["re: a"]
    assert len(server.bodies) == 3


WRONG = {
    "no choices": {"object": "list"},
    "null text": {"choices": [{"text": None, "message": {"content": None}}]},
    "another type": {"choices": [{"text": 3, "message": {"content": ["x"]}}]},
    "a list": ["a"],
    "choices of another type": {"choices": "abc"},
    "no JSON": b"<html>login</html>",
    "empty": b"",
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("api", ["completions", "chat"])
def test_wrong_shapes_are_one_sentence(serve, api, name):
    url, _ = serve(lambda handler, body, number: handler.send(200, WRONG[name]))
    with pytest.raises(ModelError) as failed:
        openai(url, api=api, retries=0).answer(["a"])
    assert "\n" not in str(failed.value)
    assert KEY not in str(failed.value)


def test_redirects_huge_bodies_and_slow_bytes_are_refused(serve):
    def redirect(handler, body, number):
        handler.send(302, b"", Location="http://127.0.0.1:1/elsewhere")

    url, server = serve(redirect)
    with pytest.raises(ModelError):
        openai(url, api="chat", retries=0).answer(["a"])
    assert len(server.bodies) == 1

    url, _ = serve(lambda handler, body, number: handler.send(200, b" " * 17_000_000))
    with pytest.raises(ModelError):
        openai(url, api="chat", retries=0).answer(["a"])

    def drip(handler, body, number):
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)

    url, _ = serve(drip)
    began = time.monotonic()
    with pytest.raises(ModelError):
        openai(url, api="chat", retries=0, timeout=0.5).answer(["a"])
    assert time.monotonic() - began < 8


def test_a_server_that_is_not_there():
    with pytest.raises(ModelUnreachable):
        openai("http://127.0.0.1:9/v1", api="chat", retries=0, timeout=2).answer(["a"])


def shown(error):
    """All that tracebacks show, variables too."""
    return repr(error) + "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def test_the_key_is_nowhere(serve, caplog, tmp_path, capsys, monkeypatch):
    caplog.set_level(logging.DEBUG)
    refusals = [
        lambda handler, body, number: handler.send(401, {"error": {"message": f"bad key Bearer {KEY}"}}),
        lambda handler, body, number: handler.send(200, f'{{"choices": "{KEY}"}}'.encode()),
        lambda handler, body, number: handler.send(200, f"<html>{KEY}".encode()),
        lambda handler, body, number: handler.close_connection,
    ]
    seen = ""
    for refuse in refusals:
        with pytest.raises(ModelError) as failed:
            openai(serve(refuse)[0], model="m", api="chat", retries=0).answer(["a", "b"])
        seen += shown(failed.value)
    url, server = serve(lambda handler, body, number: handler.send(200, said(f"your key is {KEY}")))
    model = openai(url, model="m", api="chat")
    prompt = context.prompt({"passage 1": "one", "passage 2": "two"}, question="q")
    result = context.explain(model, prompt, ["three", "four", "five"], run_dir=tmp_path / "run")
    assert result.answers == ("your key is ***",)
    result.report(tmp_path / "r.html")
    result.save(tmp_path / "r.json")
    (tmp_path / "qa.jsonl").write_text('{"question": "q", "passages": ["one", "two"]}\n')
    (tmp_path / "pool.txt").write_text("three\nfour\nfive\n")
    command = ["context", "--model", url, "--api", "chat", "--prompts", str(tmp_path / "qa.jsonl")]
    command += ["--foils", str(tmp_path / "pool.txt"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert set(server.keys) == {f"Bearer {KEY}"}
    seen += repr(model) + model.identity + repr(result) + result.summary(full=True) + caplog.text
    for wrong in (KEY, KEY.replace("-", "_")):  # some keys look like names
        with pytest.raises(InputError, match="environment") as refused:
            openai(url, api="chat", key=wrong)
        assert wrong not in str(refused.value)
        assert main([*command, "--key", wrong, "--out", str(tmp_path / "other")]) == 2
    del wrong  # what shows variables shows those of this function
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY} and more")
    with pytest.raises(InputError, match="spaces") as refused:
        model.answer(["a"])
    seen += shown(refused.value) + "".join(capsys.readouterr())
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 8
    assert "your key is ***" in seen
    for content in [*files, pickle.dumps(model), pickle.dumps(result), seen.encode()]:
        assert KEY.encode() not in content
        assert KEY.replace("-", "_").encode() not in content


KILLED = """
import json, sys
from butfor import context
from butfor.models import openai

given = json.loads(sys.argv[1])
model, prompt = openai(given["url"], api="chat"), context.prompt(given["parts"], question="q")
result = context.explain(model, prompt, given["pool"], run_dir=given["run_dir"])
print(json.dumps([result.calls, result.table.to_json()]))
"""


def test_a_killed_run_asks_a_server_nothing_again(serve, tmp_path):
    """Of the answers of one batch each is kept when it comes: what is asked twice was under way."""

    def slow(handler, body, number):
        time.sleep(0.02)
        handler.send(200, said("yes" if "own 3" in body["messages"][-1]["content"] else "no"))

    url, server = serve(slow)
    given = {
        "url": url,
        "parts": {f"passage {k}": f"own {k}" for k in range(8)},
        "pool": [f"foil {k}" for k in range(9)],
    }

    def command(folder):
        return [sys.executable, "-c", KILLED, json.dumps(given | {"run_dir": str(tmp_path / folder)})]

    answers, running = tmp_path / "run" / "answers.jsonl", subprocess.Popen(command("run"), stdout=subprocess.DEVNULL)
    while running.poll() is None and (not answers.exists() or answers.read_bytes().count(b"\n") < 10):
        time.sleep(0.005)
    running.kill()
    running.wait()
    time.sleep(0.2)
    kept = answers.read_bytes().count(b"\n")
    before = len(server.bodies)
    assert 0 <= before - kept <= 4  # under way: of 4 at a time
    calls, table = json.loads(subprocess.run(command("run"), capture_output=True, text=True, check=True).stdout)
    assert len(server.bodies) - before == calls > 0
    after = len(server.bodies)
    whole, expected = json.loads(subprocess.run(command("new"), capture_output=True, text=True, check=True).stdout)
    assert len(server.bodies) - after == whole == calls + kept
    assert table == expected


def test_a_server_with_other_answers_for_the_same_prompt(serve):
    url, _ = serve(lambda handler, body, number: handler.send(200, said(f"answer {number}")))
    prompt = context.prompt({"passage 1": "one", "passage 2": "two"}, question="q")
    result = context.explain(openai(url, api="chat"), prompt, ["three", "four", "five"], enough=None)
    assert "answers-vary" in [note.code for note in result.notes]


def test_completions_that_echo_are_scored(serve):
    def vllm(handler, body, number):
        text = body["prompt"]
        tokens = [text[k : k + 2] for k in range(0, len(text), 2)]
        values = [None, *[-0.5] * (len(tokens) - 1)]
        made = {"text": text, "logprobs": {"tokens": [*tokens, "!"], "token_logprobs": [*values, -9.0]}}
        handler.send(200, {"choices": [made]})

    url, _ = serve(vllm)
    model = openai(url, api="completions")
    assert model.scores
    assert model.score(["ab"], ["cdef"]).tolist() == [-1.0]
    url, _ = serve(echo)
    assert not openai(url, api="completions").scores
