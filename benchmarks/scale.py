"""Cost of several workers, a run directory and a million hypotheses: ratios within one run, and memory by process."""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figures, checked_names, memory
from butfor import explain, irt, tabular
from butfor.evaluation.workers import engine_for
from butfor.simulate.network import sum_of_abs
from butfor.simulate.tables import normal
from butfor.streams import stream
from butfor.types import Array, Batch, Floats

PARTS = ("workers", "journal", "million")
SPEEDUPS = {"2 processes": 1.7, "dask, 2 processes": 1.5}  # targets
MOST_JOURNAL, MOST_SECONDS, MOST_MB = 1.03, 300, 1500
WIDTH = 10  # columns
Trained = Any  # a model of scikit-learn
SIGNALS = 0.1  # of the values of the bed of a million hypotheses


Bed = tuple[int, int | None, int]  # trees, their depth (None: any), inputs
BEDS: tuple[Bed, ...] = ((30, 8, 1500), (30, 8, 5000), (100, None, 2000))


def run(seed: int = 0, parts: tuple[str, ...] = PARTS, share: float = 1.0, repeats: int = 5) -> Figures:
    """Measure some of PARTS, each in a fresh process; `share` makes them smaller, for a trial.

    `repeats`: pairs of runs with and without a run directory.
    """
    parts = checked_names("parts", parts, PARTS)
    measures: dict[str, Callable[[], list[Figures]]] = {
        "workers": partial(workers, seed, share),
        "journal": partial(journals, seed, max(20, int(4000 * share)), repeats),
        "million": partial(million, seed, max(20, int(100_000 * share))),
    }
    return {part: _apart(measures[part]) for part in parts}


def _apart(measure: Callable[[], list[Figures]]) -> list[Figures]:
    """Measure in a new process: the peak memory of one part says nothing of another."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(_quiet, measure).result()


def _quiet(measure: Callable[[], list[Figures]]) -> list[Figures]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        return measure()


def workers(seed: int, share: float) -> list[Figures]:
    """Return clock seconds of one and the same run on each engine: a random forest, irt with 200 draws, its control.

    Workers are open before the clock starts. What does not go to them (a short first look, the control's many small
    rounds, the choice) is the same for all beds, so that it is more of the smaller. `bare` is what two processes do
    for a forest alone, half of the rows each: more no engine can gain on this machine.
    """
    rows: list[Figures] = []
    with ExitStack() as open_:
        engines = {"1 process": 1, "2 processes": engine_for("processes:2"), "2 threads": engine_for("threads:2")}
        if (client := _dask(open_)) is not None:
            engines["dask, 2 processes"] = engine_for(client)
        for trees, depth, inputs in BEDS:
            bed = trees, depth, max(20, int(inputs * share))
            name = f"{trees} trees{f' of depth {depth}' if depth else ''}, {bed[2]:,} inputs"
            model, data, reference = _forest(seed, bed)
            bare = _bare(model, reference)
            serial: tuple[float, Floats] | None = None
            for engine_name, engine in engines.items():
                call = partial(explain, model, reference=reference, test=irt(200), seed=seed, workers=engine)
                call(data[:20])
                start, work = time.perf_counter(), time.process_time()
                result = call(data)
                seconds, main = time.perf_counter() - start, time.process_time() - work
                serial = serial or (seconds, result.evidence.values)
                ratio, target = serial[0] / seconds, SPEEDUPS.get(engine_name)
                row = {"bed": name, "engine": engine_name, "seconds": seconds, "main": main, "rows": result.rows}
                row |= {"same": bool((result.evidence.values == serial[1]).all()), "bare": bare, "ratio": ratio}
                rows.append({**row, "target": target, "met": None if target is None else ratio >= target})
    return rows


def _bare(model: Callable[[Batch], Array], rows: Floats) -> float:
    """Return how much faster two processes are than one with nothing but calls of the model, 10,000 rows each."""
    from joblib.externals.loky import ProcessPoolExecutor as Pool

    batch, calls = np.tile(rows, (10, 1)), 100
    start = time.perf_counter()
    _calls(model, batch, calls)
    middle = time.perf_counter()
    with Pool(2) as pool:
        list(pool.map(_calls, [model] * 2, [batch] * 2, [1] * 2))
        begun = time.perf_counter()
        list(pool.map(_calls, [model] * 2, [batch] * 2, [calls // 2] * 2))
        return (middle - start) / (time.perf_counter() - begun)


def _calls(model: Callable[[Batch], Array], batch: Floats, count: int) -> None:
    for _ in range(count):
        model(batch)


def _forest(seed: int, bed: Bed) -> tuple[Callable[[Batch], Array], Floats, Floats]:
    """Return a model that keeps a processor busy, without a shortcut: its trees could be read, its function cannot."""
    from sklearn.ensemble import RandomForestRegressor

    rng = stream(seed, "scale", "forest")
    reference = rng.standard_normal((1000, WIDTH))
    trees, depth, inputs = bed
    data = rng.standard_normal((inputs, WIDTH)) + 2.0 * (rng.random((inputs, WIDTH)) < SIGNALS)
    labels = reference[:, 0] + reference[:, 1] * reference[:, 2]
    forest = RandomForestRegressor(trees, max_depth=depth, random_state=0, n_jobs=1).fit(reference, labels)
    return partial(_predict, forest), np.asarray(data), reference


def _predict(forest: Trained, rows: Batch) -> Array:
    return np.asarray(forest.predict(rows))


def _dask(open_: ExitStack) -> object:
    """Return a client of a cluster of two processes on this machine; None where dask is not installed."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        return None
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)  # type: ignore[no-untyped-call, unused-ignore]
    cluster = open_.enter_context(local)
    return open_.enter_context(Client(cluster))  # type: ignore[no-untyped-call, unused-ignore]


def journals(seed: int, inputs: int, repeats: int) -> list[Figures]:
    """Measure processor time with a run directory over that without, in turn; the median of the pairs."""
    from sklearn.neural_network import MLPRegressor

    rng = stream(seed, "scale", "journal")
    width = 2 * WIDTH
    weights = rng.standard_normal(width)
    reference = rng.standard_normal((500, width))
    data = rng.standard_normal((inputs, width)) + 3.0 * (np.arange(width) == 0)
    sampler = tabular.gaussian(reference)
    cheap = lambda rows: np.asarray(rows) @ weights  # noqa: E731
    network = MLPRegressor(hidden_layer_sizes=(100, 100), max_iter=20, random_state=seed)
    fitted = partial(_predict, network.fit(reference, reference[:, 0] + np.abs(reference[:, 1])))
    cases: dict[str, tuple[Any, Floats, dict[str, Any]]] = {
        "product with a vector, sequential": (cheap, data, {"test": "sequential"}),
        "product with a vector, irt, 100 draws": (cheap, data, {"test": irt(100)}),
        "product with a vector, few-shot": (cheap, data, {"test": "few-shot"}),
        "network of 2 x 100, irt, 100 draws": (fitted, data[: max(20, inputs // 20)], {"test": irt(100)}),
    }
    table: list[Figures] = []
    for name, (model, rows, settings) in cases.items():
        call = partial(explain, model, rows, sampler, subsets="columns", seed=seed, **settings)
        call()
        pairs = [_with_and_without(call, first=bool(number % 2)) for number in range(repeats)]
        ratios = [kept / plain for plain, kept in pairs]
        ratio, seconds = float(np.median(ratios)), float(np.median([plain for plain, _ in pairs]))
        row = {"case": name, "inputs": inputs, "seconds": seconds, "ratio": ratio, "ratios": ratios}
        table.append({**row, "target": MOST_JOURNAL, "met": ratio <= MOST_JOURNAL})
    return table


def _with_and_without(call: Callable[..., Any], *, first: bool) -> tuple[float, float]:
    seconds = {}
    for kept in (first, not first):
        folder = Path(tempfile.mkdtemp())
        start = time.process_time()
        call(run_dir=folder / "run" if kept else None)
        seconds[kept] = time.process_time() - start
        shutil.rmtree(folder)
    return seconds[False], seconds[True]


def million(seed: int, inputs: int) -> list[Figures]:
    """Run the sequential test on 10 columns: sum of |x_j|, independent normals, a tenth of the values 4 higher."""
    rng = stream(seed, "scale", "million")
    data = rng.standard_normal((inputs, WIDTH)) + 4.0 * (rng.random((inputs, WIDTH)) < SIGNALS)
    rows: list[Figures] = []
    for name in ("processes:2", 1):
        with most_of_workers() as peaks:
            start, work = time.perf_counter(), time.process_time()
            sampler = tabular.from_values(normal)
            result = explain(sum_of_abs, data, sampler, test="sequential", seed=seed, workers=name)
            seconds, main = time.perf_counter() - start, time.process_time() - work
        row: Figures = {
            "workers": str(name),
            "hypotheses": len(result.chosen),
            "chosen": int(result.chosen.sum()),
            "rows": result.rows,
            "seconds": seconds,
            "main": main,
            "main_mb": memory(),
            "worker_mb": max(peaks, default=0.0),
        }
        met = seconds < MOST_SECONDS and max(row["main_mb"], row["worker_mb"]) < MOST_MB
        rows.append({**row, "target_seconds": MOST_SECONDS, "target_mb": MOST_MB, "met": met})
        del result
    return rows


@contextmanager
def most_of_workers() -> Iterator[list[float]]:
    """Collect the peak memory of each process that was started in here, known when it is left."""
    before, peaks = _children(), list[float]()
    yield peaks
    peaks += [memory(process=child) for child in _children() - before]


def _children() -> set[str]:
    try:
        return {one for path in Path("/proc/self/task").glob("*/children") for one in path.read_text().split()}
    except OSError:
        return set()
