"""A real MLServer on loopback, in a virtual environment of its own: it pins FastAPI, and it is heavy."""

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

ROOT = Path(__file__).parents[2]
PACKAGES = ["mlserver==1.7.1", "mlserver-sklearn==1.7.1", f"scikit-learn=={sklearn.__version__}"]
NO_NETWORK = re.compile(
    r"NewConnectionError|name resolution|ConnectTimeout|Network is unreachable|ConnectionError|proxy"
)


@pytest.fixture(scope="session")
def mlserver_python():
    """The Python of the environment, which is made where it is not there yet (about a minute)."""
    folder = ROOT / ".venv-mlserver"
    python, made = folder / "bin" / "python", folder / "made.txt"
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of pytest-xdist come at the same time
        if not made.exists() or made.read_text().split() != PACKAGES:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = f"MLServer cannot be installed: {done.stderr.strip().splitlines()[-1]}"
                offline = NO_NETWORK.search(done.stderr) and "CI" not in os.environ
                pytest.skip(reason) if offline else pytest.fail(reason)
            made.write_text("\n".join(PACKAGES))
    return python


def _mixed_frame(rows, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 80, rows)
    weight = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(70, 10, rows))
    colour = rng.choice(["red", "green", "blue"], rows)
    smoker = rng.random(rows) < 0.5
    return pd.DataFrame({"age": age, "weight": weight, "colour": colour, "smoker": smoker})


@pytest.fixture
def mixed_frame():
    """Rows of integers, numbers with some missing, strings and booleans."""
    return _mixed_frame


def made_models():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    labels = np.array(["a", "b", "c"])[np.digitize(rows[:, 0] + rows[:, 1], [-0.7, 0.7])]
    frame = _mixed_frame(300)
    ill = np.where((frame.colour == "red") ^ (frame.age > 50), "ill", "well")
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["colour"]), ("passthrough", ["age", "weight", "smoker"])
    )
    return {
        "classes": LogisticRegression().fit(rows, labels),
        "declared": LogisticRegression().fit(rows, labels),
        "line": LinearRegression().fit(rows, rows @ [1.0, 2.0, 0.0, -1.0]),
        "mixed": make_pipeline(columns, HistGradientBoostingClassifier(max_iter=20)).fit(frame, ill),
        "labels": RidgeClassifier().fit(rows, labels),
    }


DECLARED = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
    "outputs": [{"name": "predict_proba", "datatype": "FP64", "shape": [-1, 3]}],
}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@dataclass
class Server:
    """An MLServer process that can be killed and started again at the same address."""

    python: Path
    folder: Path
    models: dict
    port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/v2/models/{name}"

    def write(self):
        for name, model in self.models.items():
            (self.folder / name).mkdir()
            joblib.dump(model, self.folder / name / "model.joblib")
            settings = {"name": name, "implementation": "mlserver_sklearn.SKLearnModel"}
            settings |= {"parameters": {"uri": "./model.joblib"}} | (DECLARED if name == "declared" else {})
            (self.folder / name / "model-settings.json").write_text(json.dumps(settings))
        settings = {"host": "127.0.0.1", "http_port": self.port, "grpc_port": free_port(), "metrics_endpoint": None}
        (self.folder / "settings.json").write_text(json.dumps(settings | {"parallel_workers": 0}))

    def start(self):
        with (self.folder / "log.txt").open("a") as log:
            self.process = subprocess.Popen(
                [self.python.with_name("mlserver"), "start", "."],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        for name in self.models:
            while not self.ready(name):
                if time.monotonic() > end or self.process.poll() is not None:
                    pytest.fail(f"MLServer did not start: {(self.folder / 'log.txt').read_text()[-2000:]}")
                time.sleep(0.1)

    def ready(self, name):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"{self.url(name)}/ready", timeout=5).status == 200
        return False

    def kill(self):
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture(scope="session")
def made_server(mlserver_python, tmp_path_factory):
    server = Server(mlserver_python, tmp_path_factory.mktemp("mlserver"), made_models())
    server.write()
    server.start()
    server.wait()
    yield server
    server.kill()


@pytest.fixture
def server(made_server):
    """The server, up and running whatever the test before has done to it."""
    if made_server.process is None:
        made_server.start()
    made_server.wait()
    return made_server
