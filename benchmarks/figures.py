"""Shared helpers: error rates over runs, timing and memory, and figures as JSON files and Markdown tables."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from butfor import InputError, Progress, Subset, __version__
from butfor.evaluation.progress import Report, reporting
from butfor.evaluation.samplers import RefusesInputs, SamplerInfo, info_of, method
from butfor.results.io import write_files
from butfor.types import Bools, Floats

Figures = dict[str, Any]  # what a study measured, as JSON can hold it
ProgressTo = bool | Report | None  # a bar, a function, or nothing
Answer = TypeVar("Answer")
ROOT = Path(__file__).resolve().parents[1]


# Error rates


def rates(chosen: Bools, truth: Bools) -> dict[str, float]:
    """Return the false discovery proportion and the true positive rate; each is 0 where it has no denominator.

    >>> rates(np.array([True, True, False]), np.array([True, False, False]))
    {'fdr': 0.5, 'tpr': 1.0}
    """
    false, right = int((chosen & ~truth).sum()), int((chosen & truth).sum())
    return {"fdr": false / max(1, int(chosen.sum())), "tpr": right / max(1, int(truth.sum()))}


def mean_rates(runs: Iterable[tuple[Bools, Bools]]) -> dict[str, float]:
    """Return FDR and TPR over runs of (chosen, truth), with their standard errors."""
    return means([rates(chosen, truth) for chosen, truth in runs], ("fdr", "tpr"))


def means(rows: Sequence[Figures], names: Iterable[str]) -> dict[str, float]:
    """Return the mean of each of these figures over rows, and its standard error as "<name>_se"."""
    out: dict[str, float] = {}
    for name in names:
        out[name], out[f"{name}_se"] = mean_error([row[name] for row in rows])
    return out


def mean_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error, which is 0 for a single value.

    >>> mean_error([1.0, 3.0])
    (2.0, 1.0)
    """
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)


def each(tasks: Sequence[Callable[[], list[Figures]]], workers: int, stage: str, progress: ProgressTo) -> list[Figures]:
    """Run all tasks in processes with one BLAS thread each; return their rows in the order of completion."""
    from joblib import Parallel, delayed, parallel_config
    from threadpoolctl import threadpool_limits

    rows: list[Figures] = []
    one_thread = parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1)
    with threadpool_limits(1), one_thread, reporting(progress) as report:
        results = Parallel(return_as="generator_unordered")(delayed(task)() for task in tasks)
        for done, of_task in enumerate(results, start=1):
            rows += of_task
            report(Progress(stage, done, len(tasks)))
    return rows


def quietly(call: Callable[..., Answer], *given: Any, **options: Any) -> Answer:
    """Call without warnings: that few draws reach little is no news to a study, nor is what others warn of."""
    with warnings.catch_warnings(action="ignore"):
        return call(*given, **options)


def checked_names(what: str, given: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the names without repetitions, or refuse an unknown name or an empty list."""
    known = tuple(known)
    if not given or not set(given) <= set(known):
        raise InputError(f"{what} must be some of {', '.join(known)}, got {list(given)}")
    return tuple(dict.fromkeys(given))


def correlated(rng: np.random.Generator, count: int, width: int, rho: float) -> Floats:
    """Return rows of a stationary normal chain: neighbouring columns correlate by `rho`."""
    noise = rng.standard_normal((count, width))
    rows = noise.copy()
    for column in range(1, width):
        rows[:, column] = rho * rows[:, column - 1] + np.sqrt(1 - rho**2) * noise[:, column]
    return rows


# Time and memory


@dataclass
class Timed:
    """A model or a sampler with the seconds spent in it: clock time, and processor time for busy machines.

    A sampler that can list its support is called for draws all the same.
    """

    inner: Callable[..., Any]
    seconds: float = 0.0
    work: float = 0.0  # processor seconds
    calls: int = 0
    rows: int = 0

    def __call__(self, *given: Any) -> Any:
        start, work = time.perf_counter(), time.process_time()
        try:
            return self.inner(*given)
        finally:
            self.seconds += time.perf_counter() - start
            self.work += time.process_time() - work
            self.calls += 1
            self.rows += len(given[0])

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def info(self) -> SamplerInfo:
        return replace(info_of(self.inner), listed=0)

    def unfit(self, item: object) -> str | None:
        return self.inner.unfit(item) if isinstance(self.inner, RefusesInputs) else None

    def repeats(self, subset: Subset) -> bool:
        inner: object = self.inner
        repeats = method(inner, "repeats")
        return repeats is not None and bool(repeats(subset))


def memory(name: str = "VmHWM", process: object = "self") -> float:
    """Return the peak memory of a process in megabytes ("VmRSS": the memory that it has now).

    From /proc where there is one, else of this process: Linux passes `ru_maxrss` of the parent on to a child.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith(name)), 0.0)
    except OSError:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used / (2**20 if sys.platform == "darwin" else 2**10)


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the exponent by which values grow with the size: least squares on logarithms.

    >>> round(slope([10, 100, 1000], [1.0, 10.0, 100.0]), 6)
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


# Where things are


def installed(package: str) -> str | None:
    """Return the version of a package, None where it is not installed.

    >>> installed("no such package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def assets_folder(given: Path | None, *needed: str, image: bool = False) -> Path:
    """Return the folder of networks, photographs and reviews: as given, else BUTFOR_ASSETS, else ../shared/assets."""
    folder = given or Path(os.environ.get("BUTFOR_ASSETS", "../shared/assets"))
    folder = folder / "image" if image and (folder / "image").is_dir() else folder
    missing = [name for name in needed if not (folder / name).exists()]
    if missing:
        raise InputError(f"{folder} has no {', '.join(missing)}; set BUTFOR_ASSETS to the folder of the assets")
    return folder


# Figures as files and tables


def machine() -> Figures:
    """Return what a time depends on: processor, cores, versions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "platform": platform.platform(),
        "processor": next(names, platform.processor()),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def record(study: str, command: str, settings: Figures, figures: Figures) -> Figures:
    """Return the figures of a study with the command, version, commit, day and machine that they come from."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    origin = {"version": __version__, "commit": done.stdout.strip() or None, "date": date.today().isoformat()}
    measured = {"settings": settings, "machine": machine(), "figures": figures}
    return {"study": study, "command": command, **origin, **measured}


def write(recorded: Figures, out: Path) -> Path:
    """Write `<study>.json` into the folder `out`, made if need be."""
    name, text = f"{recorded['study']}.json", json.dumps(recorded, indent=1, allow_nan=False, default=str) + "\n"
    write_files({name: partial(Path.write_text, data=text, encoding="utf-8")}, out)
    return out / name


def markdown(figures: Figures, title: str = "") -> str:
    """Write figures as Markdown: single values on a line, then a table for every list or mapping of rows.

    >>> print(markdown({"runs": 2, "beds": [{"bed": "few", "fdr": 0.05, "met": True}]}, "Demo"))
    # Demo
    <BLANKLINE>
    runs: 2
    <BLANKLINE>
    ## beds
    <BLANKLINE>
    | bed | fdr | met |
    |---|---|---|
    | few | 0.05 | yes |
    <BLANKLINE>
    """
    lines = [f"# {title}", ""] if title else []
    tables: dict[str, list[Figures]] = {}
    single: dict[str, str] = {}
    for name, value in figures.items():
        _sort(name, value, tables, single)
    lines += ["; ".join(f"{name}: {value}" for name, value in single.items()), ""] if single else []
    for name, rows in tables.items():
        lines += [f"## {name}", "", *table(rows), ""]
    return "\n".join(lines)


def _sort(name: str, value: Any, tables: dict[str, list[Figures]], single: dict[str, str]) -> None:
    """Put a value where it is shown; rows inside rows get a table of their own."""
    if isinstance(value, dict) and value and not all(isinstance(row, dict) for row in value.values()):
        for part, inner in value.items():
            _sort(f"{name}, {part}", inner, tables, single)
    elif isinstance(value, dict | list) and value and all(isinstance(row, dict) for row in _values(value)):
        keys = value if isinstance(value, dict) else map(str, range(1, len(value) + 1))
        rows = [_flat(row) for row in _values(value)]
        for key, row in zip(keys, rows, strict=True):
            for inner in [part for part, cell in row.items() if _is_rows(cell)]:
                _sort(f"{name}, {key}, {inner}", row.pop(inner), tables, single)
        named = [{"": key, **row} for key, row in zip(value, rows, strict=True)] if isinstance(value, dict) else rows
        tables[name] = named
    else:
        single[name] = shown(value)


def _values(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _is_rows(cell: object) -> bool:
    return isinstance(cell, list) and bool(cell) and isinstance(cell[0], dict)


def _flat(row: Figures) -> Figures:
    """Return a row whose cells are no mappings: {"fdr": {"mean": 0.1}} becomes {"fdr mean": 0.1}."""
    flat: Figures = {}
    for name, cell in row.items():
        inner = _flat(cell) if isinstance(cell, dict) else None
        flat |= {name: cell} if inner is None else {f"{name} {part}": value for part, value in inner.items()}
    return flat


def table(rows: Sequence[Figures]) -> list[str]:
    """Return the lines of a Markdown table with a column for every name that a row has.

    >>> table([{"a": 1, "b": 2000}, {"a": 0.12345}])
    ['| a | b |', '|---|---|', '| 1 | 2,000 |', '| 0.123 |  |']
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[shown(row.get(name)) for name in names] for row in rows]
    header, *lines = (f"| {' | '.join(line)} |" for line in (names, *cells))
    return [header, f"|{'---|' * len(names)}", *lines]


def shown(value: Any) -> str:
    """Return a value as a person reads it.

    >>> [shown(x) for x in (True, False, None, 12345, 0.0123, 1234.5, [1, 2])]
    ['yes', '**no**', '', '12,345', '0.0123', '1,234', '1 2']
    """
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "**no**"
    if isinstance(value, list | tuple):
        return " ".join(map(shown, value))
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return "" if value is None else str(value)
