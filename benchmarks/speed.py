"""Cost of butfor itself: time over bare model calls, a first result, and the memory of a million hypotheses."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.figures import ROOT, Figures, Timed, assets_folder, memory
from butfor import ReachWarning, explain, image, irt, simulate, tabular
from butfor.models.onnx import onnx_model
from butfor.models.wrap import need
from butfor.simulate.network import predict, sum_of_abs
from butfor.simulate.tables import normal
from butfor.streams import stream
from butfor.types import Array, Batch, Floats, ModelError, Subset

DRAWS, REPEATS = 100, 5
NETWORK = "efficientnet_lite0.onnx"
TREES, TRAINED_ON = 100, 3000
Run = Callable[[Callable[[Batch], Array], Any], object]  # a model and a test -> a result


MEMORY_INPUTS, MEMORY_WIDTH = 10_000, 100  # a million hypotheses
MEMORY_TARGET = 1.5e9  # bytes
FIRST_TARGET, FIRST_RUNS = 0.7, 3  # processor seconds, fresh processes
FIRST: dict[str, str] = {
    "as it is": "",
    "control=False": ", control=False",
    "control=False, effects=None": ", control=False, effects=None",
}
FIRST_CODE = """
import time, warnings
import numpy as np
warnings.simplefilter("ignore")
import butfor
rng = np.random.default_rng(0)
X, reference = rng.normal(size=(10, 10)) + 3.0 * (np.arange(10) < 2), rng.normal(size=(300, 10))
result = butfor.explain(lambda rows: rows[:, 0] + rows[:, 1], X, reference{options})
print(time.process_time(), result.rows, len(result.table))
"""


def run(seed: int = 0, assets: Path | None = None) -> Figures:
    """Measure ratios to bare model calls, seconds to a first result, and peak memory, each beside its target.

    The image classifier is measured where `assets` or BUTFOR_ASSETS names the folder of the networks.
    """
    given = assets is not None or "BUTFOR_ASSETS" in os.environ
    images = assets_folder(assets, NETWORK, image=True) if given else None
    return {"overhead": ratios(seed, images), "first": first_results(), "memory": [one_shot()]}


@dataclass(frozen=True, eq=False)
class Case:
    """A model, how it is explained, and the targets: of irt with DRAWS draws, and of the sequential test."""

    name: str
    model: Callable[[Batch], Array]
    run: Run
    targets: dict[str, float]
    repeats: int = 0  # 0: REPEATS


@dataclass
class Recorder:
    """A model that keeps a copy of every batch it is given."""

    inner: Callable[[Batch], Array]
    batches: list[Batch] = field(default_factory=list)

    def __call__(self, batch: Batch) -> Array:
        self.batches.append(batch.copy())  # of an array or a list; pictures are shared, nobody writes into them
        return self.inner(batch)


def ratios(seed: int = 0, folder: Path | None = None) -> list[Figures]:
    """Every case with every test it has a target for, one BLAS thread."""
    from threadpoolctl import threadpool_limits

    tests: dict[str, Any] = {"irt": irt(DRAWS), "sequential": "sequential"}
    with TemporaryDirectory() as made, threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        cases = [*table_cases(seed, Path(made)), *([] if folder is None else [image_case(folder)])]
        return [measured(case, name, tests[name], target) for case in cases for name, target in case.targets.items()]


def measured(case: Case, name: str, test: Any, target: float) -> Figures:
    """Median over repeats of the processor time of a run, over that of calling the model again on its very batches.

    `inside` is the same over the time spent in the model during the run: it was then given rows fresh from the cache.
    """
    record = Recorder(case.model)
    case.run(record, test)
    repeats = [_once(case, test, record.batches) for _ in range(case.repeats or REPEATS)]
    over = [whole / bare for whole, bare, _ in repeats]
    middle = repeats[int(np.argsort(over)[len(over) // 2])]
    return {
        "model": case.name,
        "test": name,
        "rows": int(sum(map(len, record.batches))),
        "calls": len(record.batches),
        "seconds": middle[0],
        "bare_seconds": middle[1],
        "ratio": middle[0] / middle[1],
        "least": min(over),
        "most": max(over),
        "inside": float(np.median([whole / inside for whole, _, inside in repeats])),
        "target": target,
        "met": middle[0] / middle[1] <= target,
    }


def _once(case: Case, test: Any, batches: list[Batch]) -> tuple[float, float, float]:
    """Processor seconds of a run, of bare calls, and of the model within the run."""
    model = Timed(case.model)
    start = time.process_time()
    case.run(model, test)
    whole = time.process_time() - start
    start = time.process_time()
    for batch in batches:
        case.model(batch)
    return whole, time.process_time() - start, model.work


def table_cases(seed: int, folder: Path) -> list[Case]:
    """The paper's network, also as an ONNX file, boosted trees, and the discontinuous model, on the paper's inputs."""
    network, jumps = simulate.bed("independent-network", seed), simulate.bed("independent-discontinuous", seed)
    usual = {"irt": 1.10, "sequential": 1.15}
    on_network, on_jumps = partial(_explained, network, seed), partial(_explained, jumps, seed)
    weights = network.model.keywords["weights"]  # type: ignore[attr-defined]
    file = write_network(weights, folder / "network.onnx")
    return [
        Case("network", lambda batch: predict(batch, weights), on_network, usual),
        Case("HistGradientBoosting, drawn", boosted(seed), on_network, usual),
        Case("ONNX network", onnx_model(file).call, on_network, {"irt": 1.20, "sequential": 1.40}),
        Case("discontinuous", jumps.model, on_jumps, {"irt": 1.35, "sequential": 2.0}),
    ]


def _explained(bed: simulate.Bed, seed: int, model: Callable[[Batch], Array], test: Any) -> object:
    with warnings.catch_warnings(action="ignore", category=ReachWarning):
        return explain(model, bed.inputs, bed.sampler, test=test, alternative="greater", effects=None, seed=seed)


def boosted(seed: int, trees: int = TREES) -> Callable[[Batch], Array]:
    """Boosted trees that have learned sum |x_j|, as a function: a black box, which is drawn for."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = stream(seed, "boosted")
    rows = rng.standard_normal((TRAINED_ON, 25)) + 4.0 * (rng.random((TRAINED_ON, 25)) < 0.3)
    model = HistGradientBoostingRegressor(max_iter=trees, random_state=seed).fit(rows, sum_of_abs(rows))
    return lambda batch: np.asarray(model.predict(batch))


def write_network(weights: tuple[Floats, ...], path: Path) -> Path:
    """The paper's network as an ONNX file of float32."""
    onnx = need("onnx", "dev")
    make, numbers = onnx.helper, onnx.numpy_helper
    tensors = [numbers.from_array(part.astype(np.float32), f"w{i}") for i, part in enumerate(weights)]
    nodes, last = [], "rows"
    for layer in range(3):
        out = "output" if layer == 2 else f"sum{layer}"
        nodes.append(make.make_node("Gemm", [last, f"w{2 * layer}", f"w{2 * layer + 1}"], [out]))
        last = out if layer == 2 else f"hidden{layer}"
        if layer < 2:
            nodes.append(make.make_node("Relu", [out], [last]))
    ends = [
        make.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", width])
        for name, width in (("rows", len(weights[0])), ("output", 1))
    ]
    graph = make.make_graph(nodes, "network", ends[:1], ends[1:], tensors)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def image_case(folder: Path) -> Case:
    """EfficientNet-Lite0 on the paper's first photograph, its boxes of one colour: drawing costs next to nothing."""
    classifier = image.onnx_classifier(folder / NETWORK, threads=1)
    photographs, boxes = image.folder(folder / "paper")[:1], image.boxes(folder / "paper" / "boxes.json")

    def run(model: Callable[[Batch], Array], test: Any) -> object:
        return image.explain(model, photographs, painted, boxes=boxes, test=test, target=0, effects=None)

    return Case("ONNX image classifier", classifier, run, {"irt": 1.05}, repeats=1)


def painted(inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> list[Array]:
    """Pictures whose box is of one colour, another one each time."""
    x1, y1, x2, y2 = (int(edge) for edge in subset.index)
    made = [picture.copy() for picture in inputs for _ in range(draws)]
    for picture, colour in zip(made, rng.integers(0, 256, (len(made), 3), np.uint8), strict=True):
        picture[y1:y2, x1:x2] = colour
    return made


def first_results() -> list[Figures]:
    """Processor seconds of a fresh process from its start to a result on 10 rows of 10 columns, the least of a few.

    A first process, which is not counted, compiles the modules, as an installation does.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    processes: dict[str, list[list[float]]] = {}  # processor seconds, model rows and hypotheses of each
    with TemporaryDirectory() as folder:
        environment["PYTHONPYCACHEPREFIX"] = folder
        for name, options in FIRST.items():
            code = FIRST_CODE.format(options=options)
            processes[name] = [_numbers("first result", code, environment) for _ in range(1 + FIRST_RUNS)][1:]
    return [
        {
            "call": name,
            "seconds": min(one[0] for one in runs),
            "most": max(one[0] for one in runs),
            "rows": int(runs[0][1]),
            "hypotheses": int(runs[0][2]),
            "target": FIRST_TARGET,
            "met": min(one[0] for one in runs) <= FIRST_TARGET,
        }
        for name, runs in processes.items()
    ]


def _numbers(what: str, code: str, environment: dict[str, str] | None = None) -> list[float]:
    """Return the numbers that a fresh process prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise ModelError(f"the {what} run failed: {done.stderr.strip().splitlines()[-1:]}")
    return list(map(float, done.stdout.split()))


def one_shot() -> Figures:
    """Peak resident memory of a fresh process that runs OSFT on a million hypotheses, in bytes."""
    code = "from benchmarks.speed import one_shot_peak; print(*one_shot_peak())"
    before, most, seconds = _numbers("memory", code)
    return {
        "hypotheses": MEMORY_INPUTS * MEMORY_WIDTH,
        "peak_bytes": int(most),
        "before_bytes": int(before),
        "seconds": seconds,
        "target_bytes": int(MEMORY_TARGET),
        "met": most < MEMORY_TARGET,
    }


def one_shot_peak() -> tuple[float, float, float]:
    """Peak bytes of this process before and after OSFT on 10,000 inputs with 100 features, and its seconds."""
    inputs = np.random.default_rng(0).standard_normal((MEMORY_INPUTS, MEMORY_WIDTH))
    before, start = memory(), time.perf_counter()
    with warnings.catch_warnings(action="ignore", category=ReachWarning):
        # A cheap model, without memory of its own.
        explain(partial(np.sum, axis=1), inputs, tabular.from_values(normal), test="osft", alternative="greater")
    return before * 2**20, memory() * 2**20, time.perf_counter() - start
