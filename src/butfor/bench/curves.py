"""`butfor bench curves`: the paper's figure 2, and the same on beds whose truth is about the model.

Our tests choose by themselves: their curve is what they chose at a row of levels. The others rank, and an oracle tells
them where to cut (`oracle`). Every score is kept in a file, so that a run can be gone on with and plotted again.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from butfor.bench import oracle
from butfor.bench.output import Figures, about
from butfor.bench.peers import ours
from butfor.bench.peers.methods import ATTRIBUTIONS, CURVES, installed
from butfor.bench.peers.task import Task, task_of
from butfor.bench.runs import ProgressTo, mean_error, rates
from butfor.evaluation.progress import Progress, reporting
from butfor.report.write import write_files
from butfor.types import Alternative, Bools, InputError

PAPER = ("correlated-discontinuous", "independent-discontinuous", "correlated-network", "independent-network")
ABOUT_MODEL = ("linear", "interactions", "boosted-trees", "copies")
BEDS = (*PAPER, *ABOUT_MODEL)
METHODS = (*ours.TESTS, *CURVES)
DEAR = tuple(name for name in CURVES if name.startswith(("LIME", "SHAP kernel", "SHAP permutation", "L2X")))
LEVELS = np.round(np.arange(0, 0.501, 0.01), 2)
Scores = Mapping[str, Any]  # "truth" and "seconds", and "scores" of a ranking or "chosen" of a test per alternative


def run(
    runs: int = 5,
    seed: int = 0,
    beds: Sequence[str] = BEDS,
    methods: Sequence[str] = METHODS,
    scores: Path | None = None,
    progress: ProgressTo = None,
    dear_runs: int | None = None,
) -> Figures:
    """Figures of every bed, method and alternative. What stands in the folder `scores` is not computed again.

    The methods in DEAR take minutes for each run: with `dear_runs` they get so many runs only.
    """
    _check(runs, beds, methods)
    few = runs if dear_runs is None else min(runs, dear_runs)
    start, missing = time.perf_counter(), {name: _missing(name) for name in methods if _missing(name)}
    cells: list[Figures] = []
    with reporting(progress) as report:
        for number, bed in enumerate(beds):
            report(Progress(bed, number, len(beds)))
            kept = _Kept(bed, seed, scores)
            for name in methods:
                found = [] if name in missing else list(kept.of(name, few if name in DEAR else runs))
                cells += _cells(bed, name, found)
                report(Progress(f"{bed}: {name}", number, len(beds)))
    spent = {"runs": runs, "seconds": round(time.perf_counter() - start, 1), "versions": _versions(methods)}
    return {**about(seed, **spent), "missing": missing, "levels": LEVELS.tolist(), "cells": cells}


def _check(runs: int, beds: Sequence[str], methods: Sequence[str]) -> None:
    if runs < 1:
        raise InputError(f"runs must be at least 1, got {runs}")
    for what, asked, known in (("beds", beds, BEDS), ("methods", methods, METHODS)):
        wrong = [name for name in asked if name not in known]
        if wrong or not asked:
            raise InputError(f"{what} must be some of {', '.join(map(repr, known))}, got {list(asked)}")


def _missing(name: str) -> str:
    """Why a method cannot be run, or nothing."""
    if name not in ATTRIBUTIONS or installed(ATTRIBUTIONS[name].package) is not None:
        return ""
    return f"{ATTRIBUTIONS[name].package} is not installed"


def _versions(methods: Sequence[str]) -> dict[str, str]:
    packages = {ATTRIBUTIONS[name].package for name in methods if name in ATTRIBUTIONS}
    return {package: version for package in sorted(packages) if (version := installed(package)) is not None}


@dataclass(frozen=True)
class _Kept:
    """The scores of one bed: read where they are on disk, computed and written where not."""

    bed: str
    seed: int
    folder: Path | None

    def of(self, name: str, runs: int) -> Iterator[Scores]:
        """The scores of a method in so many runs; nothing where it does not apply."""
        for number in range(runs):
            seed = 1000 * self.seed + number
            path = None if self.folder is None else self.folder / self.bed / f"{_slug(name)}-{seed}.npz"
            found = _read(path)
            if found is None:
                found = computed(_task(self.bed, seed), name)
                if found is None:
                    return
                if path is not None:
                    _write(path, found)
            yield found


@cache
def _task(bed: str, seed: int) -> Task:
    return task_of(bed, seed)


def _slug(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())


def _read(path: Path | None) -> dict[str, Any] | None:
    if path is None or not path.exists():
        return None
    with np.load(path, allow_pickle=False) as stored:
        found = dict(stored)
    return found if np.array_equal(found["alphas"], ours.ALPHAS) else None  # levels of another version: once more


def _write(path: Path, found: Scores) -> None:
    write_files({path.name: lambda part: np.savez_compressed(part, allow_pickle=False, **found)}, path.parent)


def computed(task: Task, name: str) -> dict[str, Any] | None:
    """Truth, processor seconds, and scores (n, d) or what was chosen (levels, n, d) per alternative; None: no use."""
    found: dict[str, Any] = {}
    start = time.process_time()
    if name in ATTRIBUTIONS:
        if not ATTRIBUTIONS[name].applies(task):
            return None
        with warnings.catch_warnings(action="ignore"):  # theirs, not ours
            found["scores"] = ATTRIBUTIONS[name].score(task)
    else:
        if name == "exact" and not task.listed:
            return None
        found = {alternative: ours.chosen_at(task, name, alternative) for alternative in ours.ALTERNATIVES}
    seconds = np.array(time.process_time() - start)
    return {**found, "truth": np.asarray(task.truth), "seconds": seconds, "alphas": np.array(ours.ALPHAS)}


def _cells(bed: str, name: str, found: list[Scores]) -> list[Figures]:
    """One cell per alternative."""
    shown: tuple[Alternative, ...] = ours.ALTERNATIVES if found else ()
    if name in ATTRIBUTIONS and ATTRIBUTIONS[name].two_sided_only:
        shown = shown[1:]
    make = _ranked if name in ATTRIBUTIONS else _chosen
    seconds = float(np.mean([one["seconds"] for one in found])) if found else 0.0
    shared = {"bed": bed, "method": name, "seconds": seconds, "runs": len(found)}
    return [{**shared, "alternative": side, **make(found, side)} for side in shown]


def _ranked(found: list[Scores], alternative: Alternative) -> Figures:
    """Oracle TPR at every level, by both rules."""
    runs = rankings(found, alternative)
    per_run = oracle.per_run(runs, LEVELS)
    errors = per_run.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros(len(LEVELS))
    mean = oracle.on_mean_curve(runs, LEVELS)
    return {"per_run": per_run.mean(axis=0).tolist(), "per_run_se": errors.tolist(), "mean_curve": mean.tolist()}


def rankings(found: list[Scores], alternative: Alternative) -> list[oracle.Ranking]:
    """Scores and truth of every run: the largest first, two-sided the largest sizes."""
    side = np.abs if alternative == "two-sided" else np.asarray
    return [(side(np.asarray(one["scores"], np.float64)).ravel(), np.asarray(one["truth"]).ravel()) for one in found]


def _chosen(found: list[Scores], alternative: Alternative) -> Figures:
    """What was chosen at every alpha: FDR and TPR with their standard errors."""
    points = []
    for place, alpha in enumerate(ours.ALPHAS):
        both = [_rates(one[alternative][place], one["truth"]) for one in found]
        point: Figures = {"alpha": alpha}
        for rate in ("fdr", "tpr"):
            point[rate], point[f"{rate}_se"] = mean_error([one[rate] for one in both])
        points.append(point)
    return {"points": points}


def _rates(chosen: Bools, truth: Bools) -> dict[str, float]:
    return rates(np.asarray(chosen).ravel(), np.asarray(truth).ravel())


def at_level(curve: Sequence[float], level: float) -> float:
    """The curve at a level, rounded up to a whole per cent: the doubt is in the peer's favour.

    >>> at_level([0.0] * 10 + [1.0] * 41, 0.095)
    1.0
    """
    place = min(int(np.ceil(np.round(level * 100, 6))), len(LEVELS) - 1)
    return float(curve[place])


def default_test(cells: Sequence[Figures], bed: str) -> str:
    """What the one-line call runs there: exact where Q is a list, else sequential."""
    names = {cell["method"] for cell in cells if cell["bed"] == bed}
    return "exact" if "exact" in names else "sequential"


def beside_default(figures: Figures) -> list[Figures]:
    """Per bed and alternative: our default at alpha = .1, and what an oracle gets of each peer at the same FDR."""
    rows = []
    for bed, alternative in dict.fromkeys((cell["bed"], cell["alternative"]) for cell in figures["cells"]):
        cells = [cell for cell in figures["cells"] if (cell["bed"], cell["alternative"]) == (bed, alternative)]
        own = [cell for cell in cells if cell["method"] == default_test(cells, bed)]
        peers = [cell for cell in cells if "per_run" in cell]
        if own and peers:
            rows.append(_compared(bed, alternative, own[0], peers))
    return rows


def _compared(bed: str, alternative: str, own: Figures, peers: list[Figures]) -> Figures:
    (point,) = (point for point in own["points"] if point["alpha"] == ours.ALPHA)
    row = {"bed": bed, "alternative": alternative, "test": own["method"], **point}
    for rule in ("per_run", "mean_curve"):
        found: dict[str, float] = {peer["method"]: at_level(peer[rule], point["fdr"]) for peer in peers}
        best = max(found, key=found.__getitem__)
        row |= {
            rule: found[best],
            f"{rule}_by": best,
            f"{rule}_above": [k for k, v in found.items() if v > point["tpr"]],
        }
    return row
