"""A server of text that misbehaves: answers in order, one clear sentence each, and the key nowhere."""

import json
import logging
import pickle
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from butfor import ModelError, context
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


def test_the_key_is_nowhere(serve, caplog, tmp_path, capsys):
    caplog.set_level(logging.DEBUG)
    url, _ = serve(lambda handler, body, number: handler.send(401, {"error": {"message": f"bad key Bearer {KEY}"}}))
    model = openai(url, model="m", api="chat", retries=0)
    try:
        model.answer(["a"])
        pytest.fail("the server refused it")
    except ModelError as error:
        seen = "".join(traceback.format_exception(error)) + repr(error)
    url, _ = serve(echo)
    model = openai(url, model="m", api="chat")
    prompt = context.prompt({"passage 1": "one", "passage 2": "two"}, question="q")
    result = context.explain(model, prompt, ["three", "four", "five"], run_dir=tmp_path / "run")
    result.report(tmp_path / "r.html")
    result.save(tmp_path / "r.json")
    seen += repr(model) + model.identity + repr(result) + result.summary(full=True) + caplog.text
    seen += "".join(capsys.readouterr())
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert not any(KEY.encode() in content for content in [*files, pickle.dumps(model), seen.encode()])
    with pytest.raises(InputError, match="name of an environment variable"):
        openai(url, api="chat", key=KEY)


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
