"""Faults that a healthy server cannot be made to show, by one that is made to have them."""

import gc
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

from butfor.models import ModelUnreachable, endpoint
from butfor.models.wrap import content_digest
from butfor.types import InputError, ModelError

ROWS = np.random.default_rng(1).normal(size=(20, 3))
EXPECTED = np.column_stack([ROWS.sum(axis=1), -ROWS.sum(axis=1)])


@dataclass
class Faulty:
    """A server that sums the rows it gets, unless `fault(number of the request, its body)` gives another answer.

    A fault is (status, body), or (status, body, headers), or "hang up"; None is no fault.
    """

    fault: object = lambda number, body: None
    metadata: object = field(default_factory=lambda: {"name": "m", "inputs": [], "outputs": []})
    posts: list = field(default_factory=list)
    lock: object = field(default_factory=threading.Lock)

    def answer(self, body):
        (tensor,) = body["inputs"]
        rows = np.array(tensor["data"], dtype=float).reshape(tensor["shape"])
        sums = rows.sum(axis=1)
        output = {"name": "predict_proba", "datatype": "FP64", "shape": [len(rows), 2]}
        return {"id": body["id"], "outputs": [output | {"data": np.column_stack([sums, -sums]).ravel().tolist()}]}


@pytest.fixture
def faulty():
    state = Faulty()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            pass

        def send(self, status, body, headers=()):
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"content-length": len(content), **dict(headers)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.send(*state.metadata if isinstance(state.metadata, tuple) else (200, state.metadata))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with state.lock:
                state.posts.append(body)
                number = len(state.posts)
            fault = state.fault(number, body)
            if fault == "hang up":
                self.close_connection = True
                self.connection.close()
            else:
                self.send(*(fault or (200, state.answer(body))))

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *arguments):
            pass

    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}/v2/models/m"
        yield state
        server.shutdown()
        thread.join()


def test_no_fault(faulty):
    assert np.array_equal(endpoint(faulty.url, rows_per_request=3)(ROWS), EXPECTED)
    assert sorted(body["inputs"][0]["shape"][0] for body in faulty.posts) == [2, 3, 3, 3, 3, 3, 3]
    assert len({body["id"] for body in faulty.posts}) == 7


def with_version(state, version):
    return lambda number, body: (200, state.answer(body) | {"model_version": version(number)})


def test_another_version_of_the_model_is_not_mixed_in(faulty):
    model = endpoint(faulty.url, rows_per_request=10)
    faulty.fault = with_version(faulty, lambda number: "1" if number < 4 else "2")
    model(ROWS)
    with pytest.raises(
        InputError, match="answers with version '2' of the model, before it was '1': both would be mixed"
    ):
        model(ROWS)
    assert np.array_equal(endpoint(faulty.url)(ROWS), EXPECTED)


def test_what_a_server_declares_is_part_of_a_models_identity(faulty):
    faulty.metadata |= {"versions": ["1"]}
    before = content_digest(endpoint(faulty.url).call)
    assert content_digest(endpoint(faulty.url).call) == before != content_digest(len)
    faulty.metadata |= {"versions": ["2"]}
    assert content_digest(endpoint(faulty.url).call) != before


PASSING = {
    "503": (503, {"error": "busy"}),
    "502 without a word": (502, b""),
    "500": (500, b"Traceback\n  File x\nValueError: a moment please\n"),
    "429": (429, {"error": "too many"}),
    "not ready": (400, {"error": "Model m is not ready yet."}),
    "hang up": "hang up",
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_passes_is_tried_again(faulty, fault):
    faulty.fault = lambda number, body: fault if number in (1, 2, 4) else None
    assert np.array_equal(endpoint(faulty.url, rows_per_request=10)(ROWS), EXPECTED)
    assert len(faulty.posts) == 5


def test_a_server_may_ask_for_a_pause(faulty):
    faulty.fault = lambda number, body: (429, {"error": "later"}, {"retry-after": "1"}) if number == 1 else None
    start = time.monotonic()
    endpoint(faulty.url)(ROWS)
    assert 1 <= time.monotonic() - start < 4


def test_too_slow_once(faulty):
    faulty.fault = lambda number, body: time.sleep(1) if number == 1 else None
    assert np.array_equal(endpoint(faulty.url, timeout=0.3)(ROWS), EXPECTED)
    assert len(faulty.posts) == 2


def test_too_slow_always(faulty):
    faulty.fault = lambda number, body: time.sleep(0.6)
    with pytest.raises(ModelUnreachable, match=r"ReadTimeout\); a longer timeout= or fewer rows_per_request= may help"):
        endpoint(faulty.url, timeout=0.2, patience=0.5)(ROWS)


def test_answers_that_overtake_each_other(faulty):
    """The first requests are answered last."""
    done = []

    def late(number, body):
        time.sleep(max(0, 0.4 - 0.1 * number))
        done.append(body["id"])

    faulty.fault = late
    model = endpoint(faulty.url, rows_per_request=4, concurrency=4)
    model(ROWS[:1])
    faulty.posts.clear()
    done.clear()
    assert np.array_equal(model(ROWS), EXPECTED)
    assert done != [body["id"] for body in faulty.posts]


def test_requests_at_a_time(faulty):
    now, most = [], []

    def count(number, body):
        now.append(number)
        most.append(len(now))
        time.sleep(0.05)
        now.remove(number)

    faulty.fault = count
    endpoint(faulty.url, rows_per_request=1, concurrency=3)(ROWS)
    assert max(most) == 3


def test_404_after_a_restart(faulty):
    """A server that is started again answers before its models are loaded."""
    faulty.fault = lambda number, body: (404, {"error": "Model m not found"}) if number in (1, 2, 4) else None
    model = endpoint(faulty.url)
    assert np.array_equal(model(ROWS), EXPECTED)
    assert all(body["outputs"] == [{"name": "predict_proba"}] for body in faulty.posts)  # no change of mind
    assert np.array_equal(model(ROWS), EXPECTED)
    assert len(faulty.posts) == 5


def test_404_is_no_reason_to_ask_for_another_output(faulty):
    """The model may be there a moment later, and would then be asked for labels in place of probabilities."""
    faulty.metadata = (404, {"error": "no such page"})
    faulty.fault = lambda number, body: (404, {"error": "Model m not found"}) if number == 1 else None
    with pytest.raises(ModelError, match="404: Model m not found"):
        endpoint(faulty.url)(ROWS)
    assert len(faulty.posts) == 1


FOR_GOOD = {
    "400": (400, {"error": "no such thing"}, "refused the request; the server answered 400: no such thing"),
    "401": (401, b"<html>who are you</html>", "answered 401: <html>who are you</html>"),
    "404": (404, {"detail": "Not Found"}, "answered 404: Not Found"),
    "302": (302, b"", "redirects .302., which is not followed; give its final address"),
    "422": (422, {"detail": [{"msg": "JSON decode error"}]}, "answered 422: .*JSON decode error"),
}


@pytest.mark.parametrize(("status", "body", "message"), FOR_GOOD.values(), ids=FOR_GOOD)
def test_what_does_not_pass_is_not_tried_again(faulty, status, body, message):
    faulty.fault = lambda number, _: (status, body)
    faulty.metadata = (404, {"error": "no such page"})
    with pytest.raises(ModelError, match=message) as raised:
        endpoint(faulty.url, output="predict")(ROWS)
    assert not isinstance(raised.value, ModelUnreachable)
    assert faulty.url in str(raised.value)
    assert len(faulty.posts) == 1


def test_no_probabilities_then_what_the_server_chooses(faulty):
    faulty.fault = lambda number, body: (400, {"error": "no predict_proba"}) if "outputs" in body else None
    model = endpoint(faulty.url)
    for _ in range(2):
        assert np.array_equal(model(ROWS), EXPECTED)
    assert ["outputs" in body for body in faulty.posts] == [True, False, False]


def test_a_model_that_raises(faulty):
    faulty.fault = lambda number, body: (
        500,
        b"Traceback\n  File x, line 3\nValueError: not like this\nsee the manual\n",
    )
    with pytest.raises(ModelError, match=r"failed 6 times over; the server answered 500: ValueError: not like this$"):
        endpoint(faulty.url)(ROWS)


def test_one_refusal_ends_the_others(faulty):
    """The others would go on trying for a minute."""
    model = endpoint(faulty.url, rows_per_request=2)
    model(ROWS[:1])
    start = time.monotonic()
    faulty.fault = lambda number, body: (400, {"error": "this one"}) if number == 6 else (503, {"error": "busy"})
    with pytest.raises(ModelError, match="400: this one"):
        model(ROWS)
    assert time.monotonic() - start < 5
    time.sleep(0.2)
    asked = len(faulty.posts)
    time.sleep(1)
    assert len(faulty.posts) == asked


def changed(faulty, **changes):
    return lambda number, body: (200, {**faulty.answer(body), **changes})


def tensor(**changes):
    output = {"name": "predict_proba", "datatype": "FP64", "shape": [20, 2], "data": [0.5] * 40}
    return {"outputs": [output | changes]}


WRONG = {
    "another's answer": ({"id": "another"}, "answered request 'another' where '.*' was asked"),
    "too few rows": (tensor(shape=[19, 2], data=[0.5] * 38), "returned 19 rows for 20; expected one for each"),
    "too many rows": (tensor(shape=[21, 2], data=[0.5] * 42), "returned 21 rows for 20"),
    "one number": (tensor(shape=[], data=[0.5]), "returned no rows for 20"),
    "numbers missing": (tensor(data=[0.5] * 39), r"returned 39 numbers in a tensor of shape \[20, 2\]"),
    "text": (tensor(datatype="BYTES", data=["a"] * 40), "output 'predict_proba' of the endpoint is text"),
    "nothing": ({"outputs": []}, "answer has no outputs"),
    "several": (
        {"outputs": [tensor(name="a")["outputs"][0], tensor(name="b")["outputs"][0]]},
        "returned the outputs a, b; say which with output=",
    ),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_answers_that_cannot_be_right(faulty, changes, message):
    faulty.fault = changed(faulty, **changes)
    with pytest.raises(ModelError, match=message):
        endpoint(faulty.url)(ROWS)


def test_no_json(faulty):
    faulty.fault = lambda number, body: (200, b"<html>hello</html>")
    with pytest.raises(ModelError, match="answered in no JSON: '<html>hello</html>'"):
        endpoint(faulty.url)(ROWS)


def test_another_number_of_outputs(faulty):
    def narrow(number, body):
        if number == 1:
            return None
        shape = [body["inputs"][0]["shape"][0], 3]
        return 200, {"outputs": tensor(shape=shape, data=[0.5] * (shape[0] * 3))["outputs"]}

    faulty.fault = narrow
    with pytest.raises(ModelError, match="returned another number of outputs for other rows"):
        endpoint(faulty.url, rows_per_request=10)(ROWS)


def declare(shape, name="x", datatype="FP32", outputs=()):
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape}], "outputs": list(outputs)}


def test_a_model_for_a_fixed_number_of_rows(faulty):
    faulty.metadata = declare([6, 3], datatype="FP64")
    assert np.array_equal(endpoint(faulty.url)(ROWS), EXPECTED)
    assert {tuple(body["inputs"][0]["shape"]) for body in faulty.posts} == {(6, 3)}


def test_metadata_are_followed(faulty):
    probabilities = {"name": "probabilities", "datatype": "FP32", "shape": [-1, 2]}
    faulty.metadata = declare([-1, 3], outputs=[{"name": "label", "datatype": "INT64", "shape": [-1]}, probabilities])
    np.testing.assert_allclose(endpoint(faulty.url)(ROWS), EXPECTED, atol=1e-5)
    (body,) = faulty.posts
    assert body["outputs"] == [{"name": "probabilities"}]
    assert (body["inputs"][0]["name"], body["inputs"][0]["datatype"]) == ("x", "FP32")
    faulty.metadata["outputs"][0]["datatype"] = "FP32"
    faulty.metadata["outputs"][1]["name"] = "other"
    with pytest.raises(ModelError, match="the endpoint has the outputs label, other; say which with output="):
        endpoint(faulty.url)(ROWS)


def test_columns_as_they_are_declared(faulty):
    faulty.metadata = {"inputs": declare([-1, 1], "age", "INT64")["inputs"] + declare([-1], "sex", "BYTES")["inputs"]}
    frame = pd.DataFrame({"sex": ["f", None], "age": [30.0, 40.0], "other": [0, 0]})
    with pytest.raises(ModelError):  # the faulty server knows nothing of columns
        endpoint(faulty.url, patience=0.3)(frame)
    age, sex = faulty.posts[0]["inputs"]
    assert age == {"name": "age", "shape": [2, 1], "datatype": "INT64", "data": [30, 40]}
    assert sex == {"name": "sex", "shape": [2], "datatype": "BYTES", "data": ["f", None]}
    for bad, message in (
        (frame.drop(columns="sex"), r"needs the columns \['sex'\]; the frame has \['age', 'other'\]"),
        (frame.assign(age=[30.5, 40]), "the model takes int64 in 'age', got other values: not all of it is whole"),
        (ROWS, "takes columns by name, got ndarray; give a DataFrame"),
    ):
        with pytest.raises(ModelError, match=message):
            endpoint(faulty.url)(bad)


def test_texts_and_images(faulty):
    faulty.fault = lambda number, body: (400, {"error": "seen"})
    image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    for batch in (["one", "two"], [image, image]):
        with pytest.raises(ModelError, match="seen"):
            endpoint(faulty.url, output="o")(batch)
    texts, images = (body["inputs"][0] for body in faulty.posts)
    assert (texts["datatype"], texts["shape"], texts["data"]) == ("BYTES", [2, 1], ["one", "two"])
    assert (images["datatype"], images["shape"], images["data"][:12]) == ("UINT8", [2, 2, 2, 3], list(range(12)))
    with pytest.raises(ModelError, match="images of one size only"):
        endpoint(faulty.url)([image, image[:1]])


def test_missing_numbers_are_null(faulty):
    faulty.fault = lambda number, body: (400, {"error": "seen"})
    with pytest.raises(ModelError, match="seen"):
        endpoint(faulty.url, output="o")(np.array([[1.0, np.nan]]))
    assert faulty.posts[0]["inputs"][0]["data"] == [1.0, None]
    with pytest.raises(ModelError, match="infinite"):
        endpoint(faulty.url, output="o")(np.array([[1.0, np.inf]]))


def test_a_header_reaches_the_server_and_connections_are_closed(faulty):
    model = endpoint(faulty.url, headers={"authorization": "Bearer x"})
    model(ROWS)
    client = model.call._client
    assert client.headers["authorization"] == "Bearer x"
    del model
    gc.collect()
    assert client.is_closed
