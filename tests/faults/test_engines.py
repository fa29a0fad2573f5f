"""The same bits on one process, threads, processes and a cluster, whoever is killed in between."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.evaluation.workers import Processes, Threads, WorkerPool, engine_for
from butfor.models.files import attribute_of

RNG = np.random.default_rng(0)
REFERENCE, INPUTS = RNG.normal(size=(150, 4)), RNG.normal([2, 0, 0, 1], 1, size=(60, 4))
LEVELS = np.column_stack([np.arange(60) % 4, RNG.normal(size=60)])
IMAGES = list(RNG.integers(0, 256, (6, 18, 18, 3), dtype=np.uint8))
TEXTS = [
    "a fine film with fine words",
    "not a good film at all",
    "the words are fine",
    "all that is good is not fine",
] * 2


def curved(rows):
    """Each row by itself."""
    rows = np.asarray(rows)
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 3])


def several(rows):
    """Three classes, so that decisions are asked about as well."""
    rows = np.asarray(rows)
    return np.exp(rows[:, :3]) / np.exp(rows[:, :3]).sum(axis=1, keepdims=True)


def bright(batch):
    return np.array([image[:6, :6].mean() for image in batch])


def fine(batch):
    return np.array([text.count("fine") - text.count("not") + 0.01 * len(text) for text in batch])


def both(batch):
    return np.array([item["image"][:6, :6].mean() / 50 + item["caption"].count("fine") for item in batch])


def table(**settings):
    return lambda workers, **more: butfor.explain(curved, INPUTS, REFERENCE, workers=workers, **settings, **more)


def words():
    return butfor.text.ngram(TEXTS * 3)


def mixed(workers, **more):
    inputs = [{"image": image, "caption": text} for image, text in zip(IMAGES, TEXTS, strict=False)]
    box = butfor.Subset("corner", (0, 0, 6, 6))
    subsets = {"image": [box], "caption": lambda _, text: [butfor.Subset("first", (0, text.index(" ")))]}
    samplers = {"image": butfor.image.donor(), "caption": words()}
    return butfor.multimodal.explain(both, inputs, samplers=samplers, subsets=subsets, workers=workers, **more)


CASES = {
    "sequential": table(test="sequential", subsets="columns"),
    "default": table(),
    "irt": table(test="irt", draws=300),
    "early stop": table(test=butfor.irt(draws=200, early_stop=True)),
    "few-shot": table(test="few-shot"),
    "osft": table(test="osft"),
    "e-bh": table(test="irt", draws=50, rule="e-bh"),
    "picked": table(test="sequential", picked=lambda outputs: outputs > -2),
    "classes": lambda workers, **more: butfor.explain(several, INPUTS, REFERENCE, workers=workers, **more),
    "exact": lambda workers, **more: butfor.explain(
        curved_levels, LEVELS[:30], butfor.tabular.empirical(LEVELS), test="sequential", workers=workers, **more
    ),
    "repeats": lambda workers, **more: butfor.explain(
        curved_levels, LEVELS[:30], butfor.tabular.empirical(LEVELS), test="irt", draws=300, workers=workers, **more
    ),
    "image": lambda workers, **more: butfor.image.explain(
        bright, IMAGES, butfor.image.donor(), workers=workers, **more
    ),
    "text": lambda workers, **more: butfor.text.explain(fine, TEXTS, words(), workers=workers, **more),
    "text, sequential": lambda workers, **more: butfor.text.explain(
        fine, TEXTS, words(), test="sequential", workers=workers, **more
    ),
    "multimodal": mixed,
}


def curved_levels(rows):
    rows = np.asarray(rows)
    return np.sin(rows[:, 0]) + rows[:, 1]


def same(one, other):
    pd.testing.assert_frame_equal(one.table, other.table, check_exact=True)
    assert (one.rows, one.rows_asked) == (other.rows, other.rows_asked)
    assert one.notes == other.notes
    assert one.kept.chunks or not other.kept.chunks
    for mine, theirs in zip(one.kept.chunks, other.kept.chunks, strict=True):
        assert (mine.outputs == theirs.outputs).all()
        assert butfor.evaluation.items.digest(str(mine.pieces)) == butfor.evaluation.items.digest(str(theirs.pieces))


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    """So that there are several units in runs this small; it holds for all engines alike."""
    monkeypatch.setattr("butfor.evaluation.evaluator.LEAST_ROWS", 1500)
    monkeypatch.setattr("butfor.evaluation.evaluator.CALLS", 0)


@pytest.fixture(scope="module")
def threads():
    return WorkerPool(Threads(2))


@pytest.fixture(scope="module")
def processes():
    return WorkerPool(Processes(2))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
@pytest.mark.parametrize("case", CASES)
def test_threads_and_processes_give_the_same_bits(case, threads, processes):
    one = CASES[case](1)
    same(CASES[case](threads), one)
    same(CASES[case](processes), one)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", ["default", "irt", "few-shot", "exact", "image", "text", "multimodal"])
def test_a_cluster_gives_the_same_bits(case, client):
    same(CASES[case](client), CASES[case](1))


@pytest.mark.filterwarnings("ignore")
def test_global_importance_runs_on_workers(processes):
    one, two = (
        butfor.global_importance(curved, INPUTS, reference=REFERENCE, workers=workers) for workers in (1, processes)
    )
    pd.testing.assert_frame_equal(one.table, two.table, check_exact=True)
    assert one.rows == two.rows


# Was wrong once: a model of a file was sent by the name of a module that other processes do not have.
def test_a_model_of_a_file_travels_with_what_it_uses(tmp_path, processes):
    (tmp_path / "scorer.py").write_text(
        "import numpy as np\nSCALE = 2.0\n"
        "def helper(rows):\n    return SCALE * np.asarray(rows)[:, 0]\n"
        "def score(rows):\n    return helper(rows) + np.asarray(rows)[:, 1]\n"
    )
    score = attribute_of(tmp_path / "scorer.py", "score")
    asked = {"test": "irt", "draws": 200, "control": False}
    one, two = (butfor.explain(score, INPUTS, REFERENCE, workers=workers, **asked) for workers in (1, processes))
    same(two, one)


def test_a_number_of_workers_means_processes():
    engine = engine_for(2)
    assert repr(engine) == "2 processes"
    same(CASES["irt"](engine), CASES["irt"](1))


def test_a_model_that_cannot_be_sent_is_pointed_to_threads():
    lock = threading.Lock()

    def locked(rows):
        with lock:
            return curved(rows)

    with pytest.raises(butfor.InputError, match=r"cannot be sent to another process .*use workers='threads:2'"):
        butfor.explain(locked, INPUTS, REFERENCE, test="irt", draws=99, workers=2)


@pytest.mark.parametrize("workers", [0, -1, True, "two", "threads:0", 1.5, "threads"])
def test_other_workers_are_refused(workers):
    with pytest.raises(butfor.InputError, match="workers must be a whole number"):
        CASES["osft"](workers)


class Dies:
    """A model that ends its process the first time that it is asked for a counterfactual there."""

    def __init__(self, flag):
        self.flag, self.main = flag, os.getpid()

    def __call__(self, rows):
        if os.getpid() != self.main and not Path(self.flag).exists():
            Path(self.flag).write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return curved(rows)


@pytest.mark.filterwarnings("ignore")
def test_a_worker_process_that_is_killed_costs_nothing(tmp_path):
    result = butfor.explain(Dies(tmp_path / "flag"), INPUTS, REFERENCE, test="irt", draws=300, workers="processes:2")
    assert (tmp_path / "flag").exists()
    pd.testing.assert_frame_equal(result.table, CASES["irt"](1).table, check_exact=True)


@pytest.mark.filterwarnings("ignore")
def test_a_worker_of_a_cluster_that_is_killed_costs_nothing(client):
    def kill():
        time.sleep(0.3)
        victims = client.run(os.getpid)
        os.kill(next(iter(victims.values())), signal.SIGKILL)

    def slow(rows):
        time.sleep(0.02)
        return curved(rows)

    killer = threading.Thread(target=kill)
    killer.start()
    found = butfor.explain(slow, INPUTS, REFERENCE, test="irt", draws=300, workers=client)
    killer.join()
    pd.testing.assert_frame_equal(found.table, CASES["irt"](1).table, check_exact=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_chunks_on_a_cluster_that_grows_and_shrinks_end_in_one_choice(tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra cluster is not installed")
    frame = pd.DataFrame(INPUTS, columns=list("abcd"), index=[f"p{k}" for k in range(len(INPUTS))])
    reference = pd.DataFrame(REFERENCE, columns=list("abcd"))

    def combined(workers, folder):
        files = []
        for seed, rows in enumerate((frame[:20], frame[20:40], frame[40:])):
            asked = {"test": "irt", "draws": 99, "subsets": "columns", "control": False, "seed": seed}
            result = butfor.explain(curved, rows, reference, workers=workers, **asked)
            files.append(result.save(folder / f"{seed}.butfor"))
        return butfor.combine(files, alpha=0.1).table.drop(columns="file")

    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with (
        distributed.LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="100ms", wait_count=1)
        found = combined(client, there)
    alone = combined(1, here)
    assert len(alone)
    pd.testing.assert_frame_equal(found, alone, check_exact=True)


SCRIPT = """
import sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
import butfor.evaluation.evaluator as batches, butfor.evaluation.journal as store
batches.LEAST_ROWS, batches.CALLS, store.SECONDS = 1500, 0, 0.0
import butfor, faults.test_engines as t
rows = [0]
def wrap(model):
    def counted(batch):
        rows[0] += len(batch)
        time.sleep(0.004)
        return model(batch)
    counted.__name__ = model.__name__
    return counted
for name in ("curved", "several", "curved_levels", "bright", "fine", "both"):
    setattr(t, name, wrap(getattr(t, name)))
print("begun", flush=True)
found = t.CASES[sys.argv[2]](1, run_dir="run")
found.table.to_pickle("table")
print(rows[0], found.rows, flush=True)
"""


KILLS = int(os.environ.get("BUTFOR_KILLS", "1"))  # of each case; 25 were run for docs/running.md


@pytest.mark.parametrize("kill", range(KILLS))
@pytest.mark.parametrize("case", ["sequential", "irt", "few-shot", "osft", "exact", "image", "text", "multimodal"])
@pytest.mark.filterwarnings("ignore")
def test_killed_at_random_moments_it_goes_on_to_the_same_bits(case, kill, tmp_path):
    ask = [sys.executable, "-c", SCRIPT, str(Path(__file__).parents[1]), case]
    rng = np.random.default_rng([len(case), kill] if kill else len(case))
    with subprocess.Popen(ask, cwd=tmp_path, stdout=subprocess.PIPE) as run:
        run.stdout.readline()
        time.sleep(float(rng.uniform(0.02, 0.25 if KILLS == 1 else 1.5)))
        run.kill()
    done = subprocess.run(ask, cwd=tmp_path, check=True, capture_output=True, text=True)
    asked, counted = map(int, done.stdout.split()[1:])
    one = CASES[case](1)
    pd.testing.assert_frame_equal(pd.read_pickle(tmp_path / "table"), one.table, check_exact=True)
    assert counted == one.rows
    assert asked <= one.rows + 4 * 6000  # what is left, and a few units again
