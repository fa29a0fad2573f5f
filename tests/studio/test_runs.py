"""Runs as a script starts them: a queue, progress, cancelling, past results, comparing, what is configured."""

import json
import os
import shutil
import threading
import time

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.studio.runs import RunQueue
from butfor.studio.settings import read_offers
from studio_server import python_worker, serving, wait

TEXTS = [
    {
        "name": "one",
        "text": "It was a dreadful and boring film.",
        "spans": [{"start": 9, "end": 17}, {"start": 29, "end": 33}],
    }
]
TEXT_RUN = {"kind": "text", "model": "Demo: film reviews", "sampler": "plain words", "texts": TEXTS}
ECHO = """
import json, pathlib, sys, time
job = json.loads(pathlib.Path(sys.argv[1]).read_text())
print("what a library prints")
print(json.dumps({"stage": "sequential", "rows": 3, "chosen": 1, "chosen_rows": [0]}), flush=True)
pathlib.Path(job["out"], "result.butfor").write_text(job["texts"][0]["text"])
print(json.dumps({"state": "done", "message": job["texts"][0]["text"]}), flush=True)
"""
STUBBORN = """
import json, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(json.dumps({"stage": "working", "rows": 1}), flush=True)
time.sleep(600)
"""
SLOW = """
import json, time
print(json.dumps({"stage": "working"}), flush=True)
time.sleep(1)
print(json.dumps({"state": "done"}), flush=True)
"""
SILENT = "import os; os._exit(9)"


def text_run(words):
    return {**TEXT_RUN, "texts": [{"name": "t", "text": words}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a result of the command line's."""
    made = tmp_path_factory.mktemp("studio")
    rng = np.random.default_rng(0)
    names = ["<script>alert(1)</script>", "b"]
    reference = pd.DataFrame(rng.normal(size=(200, 2)), columns=names)
    rows = pd.DataFrame(rng.normal([5, 0], 1, (25, 2)), columns=names)
    result = butfor.explain(lambda x: x[names[0]], rows, butfor.tabular.gaussian(reference), subsets="columns")
    (made / "old").mkdir()
    result.save(made / "old" / "result.butfor")
    (made / "broken.butfor").write_bytes(b"no result")
    (made / "link.butfor").symlink_to("/etc/passwd")
    return made


@pytest.fixture(scope="module")
def served(folder):
    with serving(folder) as found:
        yield found


@pytest.fixture
def client(served):
    with served.client() as found:
        yield found


def test_a_run_is_watched_read_and_exported(folder, client):
    started = client.post("/api/runs", json={**TEXT_RUN, "title": "<b>mine</b>"}).json()
    heard = []
    with client.stream("GET", f"/api/runs/{started['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        heard = [json.loads(line.removeprefix("data: ")) for line in stream.iter_lines() if line.startswith("data: ")]
    assert heard[-1]["state"] == "done", heard[-1]["message"]
    assert {state["state"] for state in heard} >= {"running", "done"}
    view = client.get(f"/api/runs/{started['id']}/view").json()
    assert [row["subset"] for row in view["rows"]] == ["dreadful", "film"]
    assert [row["where"] for row in view["rows"]] == [[9, 17], [29, 33]]
    assert view["rows"][0]["draws"][0]["text"] != TEXTS[0]["text"]
    report = client.get(f"/api/runs/{started['id']}/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert "attachment" in client.get(f"/api/runs/{started['id']}/report?download=true").headers["content-disposition"]
    inputs = client.get(f"/api/runs/{started['id']}/inputs").json()
    assert [row["where"] for row in inputs["rows"]] == [[9, 17], [29, 33]]
    assert len(butfor.load(result_of(folder, started)).chosen) == 2


def test_a_prompt_is_explained_and_opened_again(folder, client):
    example = client.post("/api/examples/context").json()
    wanted = {"kind": "context", "model": "Demo: codes of offices", "sampler": "other passages", "context": example}
    started = client.post("/api/runs", json=wanted).json()
    assert wait(client, started["id"])["state"] == "done"
    view = client.get(f"/api/runs/{started['id']}/view").json()
    assert view["modality"] == "context"
    assert [row["subset"] for row in view["rows"]] == [f"passage {k}" for k in range(1, 10)]
    assert ["Enough", view["answers"][2][1]] == view["answers"][2]
    assert view["answers"][2][1].startswith("passage 6 or passage 8")
    assert view["rows"][0]["draws"][0].keys() == {"text", "output"}
    assert "Which part does the answer rest on?" in client.get(f"/api/runs/{started['id']}/report").text
    (folder / "prompts").mkdir()
    shutil.copy(result_of(folder, started), folder / "prompts" / "result.butfor")
    past = {one["title"]: one["id"] for one in client.get("/api/runs").json()["past"]}
    assert client.get(f"/api/runs/{past['prompts']}/view").json()["rows"] == view["rows"]
    shutil.rmtree(folder / "prompts")
    refused = client.post("/api/runs", json={**wanted, "context": {**example, "pool": []}}).json()
    assert "foils" in wait(client, refused["id"])["message"]


def result_of(folder, started):
    return folder / "runs" / started["id"] / "result.butfor"


def test_results_of_the_command_line_are_found_and_opened(client):
    past = {one["title"]: one["id"] for one in client.get("/api/runs").json()["past"]}
    assert set(past) == {"old", "broken.butfor"}  # links are not followed
    view = client.get(f"/api/runs/{past['old']}/view").json()
    assert view["chosen"] > 0
    page = client.get(f"/api/runs/{past['old']}/report").text
    assert "<script>alert(1)" not in page
    broken = client.get(f"/api/runs/{past['broken.butfor']}/view")
    assert broken.status_code == 422
    compared = client.get("/api/compare", params={"first": past["old"], "second": past["old"]}).json()
    assert compared["counts"]["only in the first"] == 0
    assert compared["counts"]["in both"] == view["chosen"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A run of 1,500 hypotheses, 750 of them clear, twice; and one of column a in the first 250 rows only."""
    made = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    reference = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    rows = pd.DataFrame(rng.normal([9, 0], 0.1, (750, 2)), columns=["a", "b"])
    drawing = butfor.tabular.gaussian(reference)
    whole = butfor.explain(lambda x: x["a"], rows, drawing, subsets="columns", effects=None, test="osft")
    part = butfor.explain(
        lambda x: x["a"], rows[:250], drawing, subsets={"a": ["a"]}, effects=None, test="osft", alpha=0.2
    )
    for name, result in (("one", whole), ("two", whole), ("part", part)):
        result.save(made / f"{name}.butfor")
    return made, int(whole.chosen.sum()), int((whole.chosen[whole.subset_of == 0][:250] & part.chosen).sum())


def test_results_are_compared_whole(large):
    made, chosen, common = large
    assert chosen == 750
    with serving(made) as served, served.client() as client:
        past = {one["title"].removesuffix(".butfor"): one["id"] for one in client.get("/api/runs").json()["past"]}

        def compared(first, second):
            return client.get("/api/compare", params={"first": past[first], "second": past[second]}).json()

        same = compared("one", "two")
        assert list(same["counts"].values()) == [0, 0, 750, 750]
        assert (same["common"], len(same["rows"]), same["left_out"]) == (1_500, 500, 1_000)
        less = compared("one", "part")
        assert list(less["counts"].values()) == [750 - common, 0, common, 750]
        assert less["common"] == 250
        assert {row["second"] for row in less["rows"]} == {"not tested"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "model.py:predict"}, "not configured"),
        ({"model": "/etc/passwd"}, "not configured"),
        ({"sampler": "no such"}, "not configured"),
        ({"kind": "image"}, "needs its own inputs"),
        ({"texts": [*TEXTS, *TEXTS]}, "same name"),
        ({"alpha": 0}, "alpha"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_what_does_not_fit_is_one_sentence(client, change, words):
    answer = client.post("/api/runs", json={**TEXT_RUN, **change})
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


def test_half_a_character_is_refused_and_poisons_nothing(client):
    content = json.dumps({**TEXT_RUN, "title": "\ud800"}).encode()
    answer = client.post("/api/runs", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert client.get("/api/runs").status_code == 200
    for wrong in (b"", b"[", b"null", b"[" * 100_000, b'{"kind": NaN}'):
        answer = client.post("/api/runs", content=wrong, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
    assert client.get("/api/runs").status_code == 200


def test_a_fault_of_the_run_is_said(client):
    started = client.post("/api/runs", json={**TEXT_RUN, "target": "no such class"}).json()
    state = wait(client, started["id"])
    assert state["state"] == "failed"
    assert "no such class" in state["message"]


def test_fifty_clients_at_once_each_get_their_own(tmp_path):
    worker = python_worker(tmp_path / "worker.py", ECHO)
    (tmp_path / "studio").mkdir()
    with serving(tmp_path / "studio", worker, workers=2) as found:
        ended, lock = {}, threading.Lock()

        def one(number):
            with found.client() as client:
                words = f"the words of client {number}"
                state = wait(client, client.post("/api/runs", json=text_run(words)).json()["id"])
                with lock:
                    ended[number] = (state["state"], state["message"], words)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(50)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(ended) == 50
        assert all(state == "done" and said == words for state, said, words in ended.values())
        with found.client() as client:
            assert len(client.get("/api/runs").json()["runs"]) == 50


def test_a_run_that_will_not_stop_is_stopped_within_two_seconds_and_the_queue_goes_on(tmp_path):
    worker = python_worker(tmp_path / "worker.py", STUBBORN)
    (tmp_path / "studio").mkdir()
    with serving(tmp_path / "studio", worker, queued=2) as found, found.client() as client:
        numbers = [client.post("/api/runs", json=text_run("a b c")).json()["id"]]
        while client.get(f"/api/runs/{numbers[0]}").json()["stage"] != "working":
            time.sleep(0.05)
        numbers += [client.post("/api/runs", json=text_run("a b c")).json()["id"] for _ in range(2)]
        full = client.post("/api/runs", json=text_run("a b c"))
        assert full.status_code == 429
        assert client.get(f"/api/runs/{numbers[2]}").json()["ahead"] == 1
        waiting = client.post(f"/api/runs/{numbers[2]}/cancel").json()
        assert (waiting["state"], waiting["message"]) == ("cancelled", "Cancelled before it began.")
        since = time.monotonic()
        stopped = client.post(f"/api/runs/{numbers[0]}/cancel").json()
        assert time.monotonic() - since < 2
        assert stopped["state"] == "cancelled"
        while client.get(f"/api/runs/{numbers[1]}").json()["stage"] != "working":
            time.sleep(0.05)


def test_a_run_whose_folder_was_deleted_is_missed_in_a_sentence_and_the_queue_goes_on(tmp_path):
    worker = python_worker(tmp_path / "worker.py", STUBBORN)
    (tmp_path / "studio").mkdir()
    with serving(tmp_path / "studio", worker) as found, found.client() as client:

        def started():
            number = client.post("/api/runs", json=text_run("a b c")).json()["id"]
            while client.get(f"/api/runs/{number}").json()["stage"] != "working":
                time.sleep(0.05)
            return number

        number = started()
        shutil.rmtree(tmp_path / "studio" / "runs" / number)
        gone = client.get(f"/api/runs/{number}/inputs")
        assert gone.status_code == 404
        assert gone.json()["detail"] == "the inputs of this run are no longer in its folder"
        assert client.get(f"/api/runs/{number}/view").status_code == 422
        assert client.post(f"/api/runs/{number}/cancel").json()["state"] == "cancelled"
        assert client.get(f"/api/runs/{started()}/inputs").status_code == 200


def test_a_deleted_folder_does_not_stop_the_queue(tmp_path):
    worker = python_worker(tmp_path / "worker.py", SLOW)
    (tmp_path / "studio").mkdir()
    with serving(tmp_path / "studio", worker, workers=1) as found, found.client() as client:
        for _ in range(2):
            number = client.post("/api/runs", json=text_run("a b c")).json()["id"]
            while client.get(f"/api/runs/{number}").json()["stage"] != "working":
                time.sleep(0.01)
            shutil.rmtree(tmp_path / "studio" / "runs" / number)
            assert wait(client, number, 20)["state"] == "done"


def test_a_real_run_that_is_cancelled_keeps_what_is_decided_or_says_that_nothing_is(folder, client):
    long = {"name": "long", "text": " ".join(["the film was a very long and dreadful film"] * 40)}
    started = client.post("/api/runs", json={**TEXT_RUN, "texts": [long], "alpha": 0.001}).json()
    while client.get(f"/api/runs/{started['id']}").json()["stage"] != "sequential":
        time.sleep(0.05)
    client.post(f"/api/runs/{started['id']}/cancel")
    state = client.get(f"/api/runs/{started['id']}").json()
    assert state["state"] == "cancelled"
    assert state["has_result"] == result_of(folder, started).is_file()
    assert ("is kept" in state["message"]) == state["has_result"]


def test_a_worker_that_dies_is_a_failed_run(tmp_path):
    worker = python_worker(tmp_path / "worker.py", SILENT)
    (tmp_path / "studio").mkdir()
    with serving(tmp_path / "studio", worker) as found, found.client() as client:
        state = wait(client, client.post("/api/runs", json=text_run("a b c")).json()["id"])
        assert state["state"] == "failed"
        assert "without a word" in state["message"]


def test_a_watcher_that_goes_away_disturbs_nobody_and_nothing_is_lost(tmp_path):
    slow = (
        ECHO.replace("import json", "import time; time.sleep(1)\nimport json") + "\ntime.sleep(5)\n"
    )  # after its last word
    worker = python_worker(tmp_path / "worker.py", slow)
    studio = tmp_path / "studio"
    studio.mkdir()
    with serving(studio, worker) as found, found.client() as client:
        number = client.post("/api/runs", json=text_run("a b c")).json()["id"]
        with client.stream("GET", f"/api/runs/{number}/events") as stream:
            next(stream.iter_lines())
        assert wait(client, number)["state"] == "done"
    with serving(studio, worker) as found, found.client() as client:  # another day
        assert client.get(f"/api/runs/{number}").json()["message"] == "a b c"


def test_images_that_are_called_alike_get_names_that_differ(tmp_path):
    with serving(tmp_path, python_worker(tmp_path / "worker.py", SILENT)) as found, found.client() as client:
        picture = client.post("/api/examples/image").json()["id"]
        content = client.get(f"/api/uploads/{picture}/content").content
        names = ["a.png", "a.png (3)", "a.png"]
        sent = [client.post("/api/uploads", params={"name": name}, content=content).json()["id"] for name in names]
        images = {"images": [{"upload": number} for number in sent]}
        asked = {"kind": "image", "model": "Demo: tissue", "sampler": "donor", **images}
        number = client.post("/api/runs", json=asked).json()["id"]
        inputs = client.get(f"/api/runs/{number}/inputs").json()["inputs"]
        assert len({one["name"] for one in inputs}) == 3


def test_a_run_that_the_studio_did_not_outlive_is_called_stopped(tmp_path):
    queue = RunQueue(tmp_path, ("none",), 1, 10)
    queue.start("ab", "mine", {"kind": "text"})
    assert RunQueue(tmp_path, ("none",), 1, 10).state("ab").state == "stopped"


MODELS = """
[[model]]
name = "Mine"
kind = "table"
model = "model.py:predict"

[[sampler]]
name = "Net"
kind = "image"
sampler = "net.onnx"
diversify = true
"""


def test_models_come_from_the_configuration_only(tmp_path):
    (tmp_path / "studio.toml").write_text(MODELS)
    offers = read_offers(tmp_path)
    assert offers.named("model", "Mine", "table").spec == f"{tmp_path}{os.sep}model.py:predict"
    assert offers.named("sampler", "Net", "image").options == {"diversify": True}
    with pytest.raises(butfor.types.InputError, match="not configured for image"):
        offers.named("model", "Mine", "image")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model = 3", r"\[\[model\]\]"),
        ("[[model]]\nname = 'a'", "needs kind"),
        ("[[model]]\nname = 'a'\nkind = 'sound'\nmodel = 'x'", "kind must be"),
        ("[[model]]\nname = 'a'\nkind = 'text'\nmodel = 'x'\n" * 2, "stands twice"),
        ("colour = 1", "colour"),
        ("[[", "cannot be read"),
    ],
)
def test_a_configuration_that_says_nothing_is_refused(tmp_path, text, words):
    (tmp_path / "studio.toml").write_text(text)
    with pytest.raises(butfor.types.InputError, match=words):
        read_offers(tmp_path)


def test_a_table_model_of_the_configuration_runs(tmp_path):
    (tmp_path / "studio.toml").write_text(MODELS)
    (tmp_path / "model.py").write_text("def predict(rows):\n    return rows['size'] * 2.0\n")
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"size": np.r_[rng.normal(size=150), rng.normal(5, 1, 25)], "other": rng.normal(size=175)})
    frame["group"] = ["old"] * 150 + ["new"] * 25
    with serving(tmp_path) as found, found.client() as client:
        stored = client.post(
            "/api/uploads", params={"name": "rows.csv"}, content=frame.to_csv(index=False).encode()
        ).json()
        asked = {
            "upload": stored["id"],
            "reference_where": "group == 'old'",
            "subsets": {"size": ["size"], "other": ["other"]},
        }
        started = client.post(
            "/api/runs", json={"kind": "table", "model": "Mine", "sampler": "gaussian", "table": asked}
        )
        state = wait(client, started.json()["id"])
        assert state["state"] == "done", state["message"]
        view = client.get(f"/api/runs/{state['id']}/view").json()
        assert view["chosen"] > 20
        assert ["Data", "25 of 175 rows of rows.csv"] in view["settings"]
