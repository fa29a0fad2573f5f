"""Many runs where the truth is known: in processes of their own, how good each is, and means with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from butfor.bench.output import Figures
from butfor.evaluation.progress import Progress, Report, reporting
from butfor.types import Bools

ProgressTo = bool | Report | None  # a bar, a function, or nothing


def each(tasks: Sequence[Callable[[], list[Figures]]], workers: int, stage: str, progress: ProgressTo) -> list[Figures]:
    """What all tasks found, in the order of completion, one BLAS thread each. Progress counts tasks."""
    from joblib import Parallel, delayed, parallel_config
    from threadpoolctl import threadpool_limits

    rows: list[Figures] = []
    one_thread = parallel_config(backend="loky", n_jobs=workers, inner_max_num_threads=1)
    with threadpool_limits(1), one_thread, reporting(progress) as report:
        found = Parallel(return_as="generator_unordered")(delayed(task)() for task in tasks)
        for done, own in enumerate(found, start=1):
            rows += own
            report(Progress(stage, done, len(tasks)))
    return rows


def rates(chosen: Bools, truth: Bools) -> dict[str, float]:
    """The false discovery proportion and the share of what is true that was chosen; both 0 where there is none.

    >>> rates(np.array([True, True, False]), np.array([True, False, False]))
    {'fdr': 0.5, 'tpr': 1.0}
    """
    false, right = int((chosen & ~truth).sum()), int((chosen & truth).sum())
    return {"fdr": false / max(1, int(chosen.sum())), "tpr": right / max(1, int(truth.sum()))}


def mean_rates(runs: Iterable[tuple[Bools, Bools]]) -> dict[str, float]:
    """FDR and TPR over runs, each its own choice and truth, with their standard errors."""
    found, out = [rates(chosen, truth) for chosen, truth in runs], {}
    for name in ("fdr", "tpr"):
        out[name], out[f"{name}_se"] = mean_error([one[name] for one in found])
    return out


def mean_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error, 0 for a single value.

    >>> mean_error([1.0, 3.0])
    (2.0, 1.0)
    """
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)


def shown(mean: float, error: float) -> str:
    """Both, the error in brackets.

    >>> shown(0.1, 0.0123)
    '0.100 (0.012)'
    """
    return f"{mean:.3f} ({error:.3f})"
