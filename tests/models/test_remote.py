"""Endpoints of the Open Inference Protocol, against a real MLServer: what comes back, also when it is killed."""

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import butfor
from butfor.models import ModelUnreachable, Wrapped, endpoint, wrap
from butfor.types import InputError, ModelError

ROWS = np.random.default_rng(1).normal(size=(257, 4))


def test_probabilities_in_the_order_of_the_rows(server):
    model = endpoint(server.url("classes"), rows_per_request=10, concurrency=4, classes=["a", "b", "c"])
    expected = server.models["classes"].predict_proba(ROWS)
    np.testing.assert_allclose(model(ROWS), expected, atol=1e-14)  # the first call finds out what the server can do
    np.testing.assert_allclose(model(ROWS), expected, atol=1e-14)
    np.testing.assert_allclose(model(ROWS[:1].astype(np.float32)), expected[:1], atol=1e-6)
    assert wrap(model).classes == ("a", "b", "c")


def test_a_regressor_has_no_probabilities(server):
    found = endpoint(f"{server.url('line')}/infer")(ROWS)
    assert found.shape == (257,)
    np.testing.assert_allclose(found, server.models["line"].predict(ROWS), atol=1e-12)


def test_metadata_tell_name_and_type(server):
    found = endpoint(server.url("declared"))(ROWS)
    expected = server.models["declared"].predict_proba(ROWS.astype(np.float32))
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert found.shape == (257, 3)


def test_a_frame_with_strings_missing_values_and_booleans(server, mixed_frame):
    frame = mixed_frame(50, seed=3)
    expected = server.models["mixed"].predict_proba(frame)
    assert frame.weight.isna().any()
    model = endpoint(server.url("mixed"), rows_per_request=7)
    np.testing.assert_allclose(model(frame), expected, atol=1e-14)
    frame["colour"] = frame["colour"].astype("category")
    frame["age"] = frame["age"].astype("Int64")
    np.testing.assert_allclose(model(frame[["smoker", "colour", "weight", "age"]]), expected, atol=1e-14)


def test_labels_are_no_numbers(server):
    with pytest.raises(ModelError, match=r"output 'predict' of the endpoint is text, expected numbers"):
        endpoint(server.url("labels"))(ROWS)


def test_a_model_that_is_not_there(server):
    with pytest.raises(ModelError, match=rf"the model at {server.url('none')} refused .* 404: Model none not found$"):
        endpoint(server.url("none"))(ROWS)


def test_rows_that_the_model_cannot_take(server):
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"failed 6 times over; .* 500: ValueError: X has 3 features, but") as raised:
        endpoint(server.url("classes"))(ROWS[:, :3])
    assert not isinstance(raised.value, ModelUnreachable)
    assert time.monotonic() - start < 20


def test_an_output_by_name(server):
    with pytest.raises(ModelError, match=r"400: .*only supports 'predict', 'predict_proba' and 'transform'"):
        endpoint(server.url("classes"), output="magic")(ROWS)
    found = endpoint(server.url("line"), output="predict")(ROWS)
    np.testing.assert_allclose(found, server.models["line"].predict(ROWS), atol=1e-12)


def test_pickled_and_from_many_threads(server):
    model = pickle.loads(pickle.dumps(endpoint(server.url("classes"), rows_per_request=3)))
    expected = server.models["classes"].predict_proba(ROWS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda start: model(ROWS[start : start + 8]), range(0, 256, 8)))
    np.testing.assert_allclose(np.concatenate(found), expected[:256], atol=1e-14)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again(ROWS), expected, atol=1e-14)
    again.call.close()
    np.testing.assert_allclose(again(ROWS), expected, atol=1e-14)


def kill_and_restart(server, after, pause):
    """Kill the server `after` seconds from now, with no time to say goodbye, and start it again after a pause."""

    def act():
        time.sleep(after)
        server.kill()
        time.sleep(pause)
        server.start()

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_killed_and_restarted_in_the_middle_of_calls(server):
    rows = np.random.default_rng(5).normal(size=(3000, 4))
    expected = server.models["classes"].predict_proba(rows)
    model = endpoint(server.url("classes"), rows_per_request=2, concurrency=4)
    model(rows[:4])
    process = server.process
    thread = kill_and_restart(server, after=0.3, pause=1)
    found = model(rows)
    thread.join()
    assert server.process.pid != process.pid
    np.testing.assert_allclose(found, expected, atol=1e-14)


def test_a_run_with_a_kill_in_the_middle_is_the_run_without(server):
    model = endpoint(server.url("classes"), rows_per_request=200, classes=["a", "b", "c"])
    inputs, sampler = ROWS[:6] + np.array([3.0, 0, 0, 0]), butfor.tabular.gaussian(ROWS)
    calls, threads = [], []

    def watched(batch):
        calls.append(len(batch))
        if len(calls) == 4:
            threads.append(kill_and_restart(server, after=0, pause=1))
            time.sleep(0.3)
        return model(batch)

    options = {"target": "c", "alternative": "greater", "test": "irt", "draws": 400, "batch_rows": 500}
    calm = butfor.explain(model, inputs, sampler, **options)
    shaken = butfor.explain(Wrapped(watched, model.classes), inputs, sampler, **options)
    threads[0].join()
    assert len(calls) > 6
    assert calm.chosen.any()
    assert calm.table.equals(shaken.table)


def test_down_for_good(server):
    model = endpoint(server.url("classes"), patience=2, rows_per_request=20)
    expected = model(ROWS)
    server.kill()
    start = time.monotonic()
    with pytest.raises(
        ModelUnreachable, match=rf"the model at {server.url('classes')} could not be reached, asked \d+ times"
    ):
        model(ROWS)
    assert 0.5 < time.monotonic() - start < 6
    server.start()
    server.wait()
    assert np.array_equal(model(ROWS), expected)


def test_down_for_good_in_the_middle_of_a_run_loses_nothing(server, tmp_path):
    model = endpoint(server.url("classes"), patience=1, rows_per_request=200, classes=["a", "b", "c"])
    inputs, sampler = ROWS[:6] + np.array([3.0, 0, 0, 0]), butfor.tabular.gaussian(ROWS)
    options = {"target": "c", "alternative": "greater", "test": "irt", "draws": 400, "batch_rows": 500}
    calm = butfor.explain(model, inputs, sampler, **options)
    asked = []

    class Dying(Wrapped):
        """The same model by name; the server dies at a late call and stays dead."""

        def __repr__(self):
            return repr(model)

    def dying(batch):
        asked.append(len(batch))
        if len(asked) == 28:
            server.kill()
        return model(batch)

    with pytest.raises(ModelUnreachable, match=server.url("classes")):
        butfor.explain(Dying(dying, model.classes), inputs, sampler, **options, run_dir=tmp_path / "run")
    server.start()
    server.wait()
    finished, asked[:] = sum(asked[:27]), [0] * 28
    again = butfor.explain(Dying(dying, model.classes), inputs, sampler, **options, run_dir=tmp_path / "run")
    assert again.table.equals(calm.table)
    assert finished > 6000
    compared = len(calm.input_names)  # one batch is, to see that it is the same model
    unit = 2**12 + 401  # rows, and one job more: the unit of work under way is lost, no other
    assert sum(asked) <= calm.rows - finished + unit + compared


def test_nobody_has_ever_answered(monkeypatch):
    monkeypatch.setattr("butfor.models.remote.FIRST_CONTACT", 0.5)
    start = time.monotonic()
    with pytest.raises(ModelUnreachable, match=r"http://127.0.0.1:9/v2/models/m could not be reached, .*ConnectError"):
        endpoint("http://127.0.0.1:9/v2/models/m", patience=60)(ROWS)
    assert time.monotonic() - start < 3


ADDRESSES = {
    "http://h:1/v2/models/m": "http://h:1/v2/models/m",
    "http://h:1/v2/models/m/": "http://h:1/v2/models/m",
    "http://h:1/v2/models/m/infer": "http://h:1/v2/models/m",
    "https://h/a/b/v2/models/m/versions/3/infer": "https://h/a/b/v2/models/m/versions/3",
    "http://me:secret@h/v2/models/m?token=secret": "http://h/v2/models/m",
}


@pytest.mark.parametrize(("given", "shown"), ADDRESSES.items())
def test_addresses(given, shown):
    assert repr(endpoint(given).call) == f"Endpoint({shown!r})"
    assert "secret" not in repr(endpoint(given, headers={"authorization": "secret"}))


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("http://h:1/predict", {}, r"http://h:1/predict is not the address of a model; expected http://host:port/v2"),
        ("http://me:secret@h/model.onnx", {}, "^http://h/model.onnx is not the address"),
        ("ftp://h/v2/models/m", {}, "is not the address of a model"),
        ("http://h/v2/models/m", {"timeout": 0}, "timeout must be a number of seconds above 0, got 0"),
        ("http://h/v2/models/m", {"patience": -1}, "patience must be"),
        ("http://h/v2/models/m", {"concurrency": 0}, "concurrency must be a whole number of at least 1, got 0"),
        ("http://h/v2/models/m", {"rows_per_request": 0}, "rows_per_request must be a whole number of at least 1"),
        ("http://h/v2/models/m", {"inputs": "frame"}, "inputs must be one of 'matrix', 'columns', None, got 'frame'"),
    ],
)
def test_refused(url, options, message):
    with pytest.raises(InputError, match=message):
        endpoint(url, **options)
