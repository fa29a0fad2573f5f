"""The paper's figure 2: TPR against FDR of butfor's tests and of other methods, on eight beds.

butfor's tests choose by themselves: their curve is what they chose at a row of levels. The other methods rank, and an
oracle says where to cut (METHODS 1): for each run ("per run": the best cut of this run whose false discovery
proportion is at most the level), or once for all runs ("on the mean curve": the number of features is the same in
every run, and its mean false discovery rate is at most the level). Nobody has such an oracle; both are reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attributions import ALPHA, ALPHAS, ALTERNATIVES, ATTRIBUTIONS, TESTS, Task, applies, chosen_at, task_of
from benchmarks.figures import Figures, ProgressTo, checked_names, installed, mean_rates, quietly
from butfor import InputError, Progress
from butfor.evaluation.progress import reporting
from butfor.results.io import write_files
from butfor.types import Alternative, Bools, Floats

PAPER = ("correlated-discontinuous", "independent-discontinuous", "correlated-network", "independent-network")
ABOUT_MODEL = ("linear", "interactions", "boosted-trees", "copies")
BEDS = (*PAPER, *ABOUT_MODEL)
PEERS = {  # broken lines, a colour for each family: the paper's methods, and their current forms
    "LIME": ("#d1495b", (4, 1.5)),
    "LIME, values": ("#d1495b", (1, 1)),
    "SHAP kernel, as in the paper": ("#e07a1f", (1, 1)),
    "SHAP kernel": ("#e07a1f", (4, 1.5)),
    "SHAP kernel, l1_reg off": ("#e07a1f", (5, 1, 1, 1)),
    "SHAP permutation": ("#c9a227", (4, 1.5)),
    "SHAP deep": ("#c9a227", (1, 1)),
    "SHAP tree": ("#c9a227", (5, 1, 1, 1)),
    "SHAP tree, interventional": ("#c9a227", (2, 2)),
    "L2X": ("#b5179e", (4, 1.5)),
    "Saliency": ("#9a8c98", (4, 1.5)),
    "DeepLIFT": ("#9a8c98", (1, 1)),
    "Taylor": ("#9a8c98", (5, 1, 1, 1)),
}
METHODS = (*TESTS, *PEERS)
SLOW = tuple(name for name in PEERS if name.startswith(("LIME", "SHAP kernel", "SHAP permutation", "L2X")))
LEVELS = np.round(np.arange(0, 0.501, 0.01), 2)
SHOWN = (0.1, 0.2)  # levels of the table
Scores = Mapping[str, Any]  # "truth" and "seconds", and "scores" of a ranking or what a test chose per alternative
Ranking = tuple[Floats, Bools]  # scores and truth of one run, both (N,)


def run(
    runs: int = 5,
    seed: int = 0,
    beds: Sequence[str] = BEDS,
    methods: Sequence[str] = METHODS,
    slow_runs: int = 2,
    scores: Path | None = None,
    pictures: Path | None = None,
    progress: ProgressTo = None,
) -> Figures:
    """Measure every bed, method and alternative.

    The methods in SLOW take minutes for each run and get `slow_runs` only. Scores in the folder `scores` are not
    computed again; `pictures` is a folder for the figure.
    """
    if runs < 1:
        raise InputError(f"runs must be at least 1, got {runs}")
    beds, methods = checked_names("beds", beds, BEDS), checked_names("methods", methods, METHODS)
    needed = {name: ATTRIBUTIONS[name].package for name in methods if name in ATTRIBUTIONS}
    versions = {package: installed(package) for package in sorted(set(needed.values()))}
    missing = {name: f"{package} is not installed" for name, package in needed.items() if versions[package] is None}
    cells: list[Figures] = []
    with reporting(progress) as report:
        for number, bed in enumerate(beds):
            report(Progress(bed, number, len(beds)))
            for name in methods:
                count = 0 if name in missing else min(runs, slow_runs) if name in SLOW else runs
                cells += _cells(bed, name, list(_scores(bed, name, range(1000 * seed, 1000 * seed + count), scores)))
                report(Progress(f"{bed}: {name}", number, len(beds)))
    if pictures is not None:
        write_pictures(cells, pictures)
    return {"versions": versions, "missing": missing, "beside": beside_default(cells), "methods": table_of(cells)}


def _scores(bed: str, name: str, seeds: Sequence[int], folder: Path | None) -> Iterator[Scores]:
    """Yield the scores of a method, read from the folder where they are there; nothing where it does not apply."""
    for seed in seeds:
        slug = "".join(letter if letter.isalnum() else "-" for letter in name.lower())
        path = None if folder is None else folder / bed / f"{slug}-{seed}.npz"
        scores = _read(path)
        if scores is None:
            scores = computed(_task(bed, seed), name)
            if scores is None:
                return
            if path is not None:
                save = partial(np.savez_compressed, allow_pickle=False, **scores)
                write_files({path.name: save}, path.parent)
        yield scores


_task = cache(task_of)


def _read(path: Path | None) -> dict[str, Any] | None:
    if path is None or not path.exists():
        return None
    with np.load(path, allow_pickle=False) as stored:
        scores = dict(stored)
    return scores if np.array_equal(scores["alphas"], ALPHAS) else None  # levels of another version: computed again


def computed(task: Task, name: str) -> dict[str, Any] | None:
    """Return truth, processor seconds, and scores (n, d) or choices (levels, n, d); None where it does not apply."""
    if not applies(task, name):
        return None
    start = time.process_time()
    scores: dict[str, Any] = {}
    if name in ATTRIBUTIONS:
        scores["scores"] = quietly(ATTRIBUTIONS[name].score, task)
    else:
        scores = {alternative: chosen_at(task, name, alternative) for alternative in ALTERNATIVES}
    seconds = np.array(time.process_time() - start)
    return {**scores, "truth": np.asarray(task.truth), "seconds": seconds, "alphas": np.array(ALPHAS)}


def _cells(bed: str, name: str, runs: list[Scores]) -> list[Figures]:
    """Return one cell per alternative."""
    alternatives: tuple[Alternative, ...] = ALTERNATIVES if runs else ()
    if name in ATTRIBUTIONS and ATTRIBUTIONS[name].two_sided_only:
        alternatives = alternatives[1:]
    curve = _ranked if name in ATTRIBUTIONS else _chosen
    seconds = float(np.mean([one["seconds"] for one in runs])) if runs else 0.0
    shared = {"bed": bed, "method": name, "seconds": seconds, "runs": len(runs)}
    return [{**shared, "alternative": side, **curve(runs, side)} for side in alternatives]


def _ranked(runs: list[Scores], alternative: Alternative) -> Figures:
    """Return the oracle's TPR at every level, by both rules; two-sided the largest sizes come first."""
    side = np.abs if alternative == "two-sided" else np.asarray
    rankings = [(side(np.asarray(one["scores"], np.float64)).ravel(), np.asarray(one["truth"]).ravel()) for one in runs]
    mean = per_run(rankings, LEVELS).mean(axis=0)
    return {"per_run": mean.tolist(), "mean_curve": on_mean_curve(rankings, LEVELS).tolist()}


def _chosen(runs: list[Scores], alternative: Alternative) -> Figures:
    """Return FDR and TPR at every alpha with their standard errors."""
    points = []
    for place, alpha in enumerate(ALPHAS):
        pairs = [(np.asarray(one[alternative][place]).ravel(), np.asarray(one["truth"]).ravel()) for one in runs]
        points.append({"alpha": alpha, **mean_rates(pairs)})
    return {"points": points}


# The oracle


def per_run(rankings: Sequence[Ranking], levels: Floats) -> Floats:
    """Return (runs, levels): of each run the largest TPR of a cut whose FDP is at most the level.

    Equal scores are taken together: nobody can tell them apart.

    >>> per_run([(np.array([3.0, 2.0, 2.0]), np.array([True, True, False]))], np.array([0.0, 0.4]))
    array([[0.5, 1. ]])
    """
    best = []
    for scores, truth in rankings:
        ends, right = _cuts(scores, truth)
        best.append(_best(1 - right / ends, right / max(1, int(truth.sum())), levels))
    return np.stack(best)


def on_mean_curve(rankings: Sequence[Ranking], levels: Floats) -> Floats:
    """Return (levels,): the largest mean TPR of a number of features whose mean FDP is at most the level.

    Within equal scores the order is random, and the expectation stands for it.

    >>> on_mean_curve([(np.array([2.0, 1.0]), np.array([True, False]))] * 2, np.array([0.1]))
    array([1.])
    """
    fdp, tpr = [], []
    for scores, truth in rankings:
        ends, at_ends = _cuts(scores, truth)
        count = np.arange(1, len(scores) + 1)
        right = np.interp(count, np.append(0, ends), np.append(0, at_ends))
        fdp.append(1 - right / count)
        tpr.append(right / max(1, int(truth.sum())))
    return _best(np.mean(fdp, axis=0), np.mean(tpr, axis=0), levels)


def _cuts(scores: Floats, truth: Bools) -> tuple[Floats, Floats]:
    """Return how many features stand above every cut between different scores, from the top, and how many are true."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True)) + 1
    return np.asarray(ends, np.float64), np.asarray(np.cumsum(truth[order])[ends - 1], np.float64)


def _best(fdr: Floats, tpr: Floats, levels: Floats) -> Floats:
    """Return the largest TPR at or below each level; 0 where nothing is."""
    return np.array([tpr[fdr <= level].max(initial=0.0) for level in levels])


def at_level(curve: Sequence[float], level: float) -> float:
    """Return the curve at a level, rounded up to a whole per cent: the doubt is in the peer's favour.

    >>> at_level([0.0] * 10 + [1.0] * 41, 0.095)
    1.0
    """
    return float(curve[min(int(np.ceil(np.round(level * 100, 6))), len(LEVELS) - 1)])


# Tables


def beside_default(cells: Sequence[Figures]) -> list[Figures]:
    """Return, per bed and alternative, our default at alpha = .1 and what an oracle gets of each peer at the same FDR.

    The default is exact where Q is a list, else sequential.
    """
    rows = []
    for bed, alternative in dict.fromkeys((cell["bed"], cell["alternative"]) for cell in cells):
        there = {cell["method"]: cell for cell in cells if (cell["bed"], cell["alternative"]) == (bed, alternative)}
        default = there.get("exact") or there.get("sequential")
        peers = [cell for cell in there.values() if "per_run" in cell]
        if default and peers:
            rows.append(_compared(bed, alternative, default, peers))
    return rows


def _compared(bed: str, alternative: str, default: Figures, peers: list[Figures]) -> Figures:
    (point,) = (point for point in default["points"] if point["alpha"] == ALPHA)
    row = {"bed": bed, "alternative": alternative, "test": default["method"], **point}
    for rule in ("per_run", "mean_curve"):
        powers: dict[str, float] = {peer["method"]: at_level(peer[rule], point["fdr"]) for peer in peers}
        best = max(powers, key=powers.__getitem__)
        above = [name for name, power in powers.items() if power > point["tpr"]]
        row |= {rule: powers[best], f"{rule}_by": best, f"{rule}_above": above}
    return row


def table_of(cells: Sequence[Figures]) -> list[Figures]:
    """Return a row per bed and method: FDR and TPR of tests at alpha .1 and .2, the oracle's TPR of rankings there."""
    rows: dict[tuple[str, str], Figures] = {}
    for cell in cells:
        shared = {name: cell[name] for name in ("bed", "method", "runs", "seconds")}
        row = rows.setdefault((cell["bed"], cell["method"]), shared)
        for level in SHOWN:
            if "points" in cell:
                (point,) = (point for point in cell["points"] if point["alpha"] == level)
                pair = [point["fdr"], point["tpr"]]
            else:
                pair = [at_level(cell["per_run"], level), at_level(cell["mean_curve"], level)]
            row[f"{cell['alternative']}, {level:g}"] = [round(value, 3) for value in pair]
    return list(rows.values())


# Pictures

SIDES = {"greater": "1-sided", "two-sided": "2-sided"}
TITLES = {
    "correlated-discontinuous": "Cor., Disc.",
    "independent-discontinuous": "Ind., Disc.",
    "correlated-network": "Cor., NN",
    "independent-network": "Ind., NN",
    "linear": "zero weights",
    "interactions": "interactions",
    "boosted-trees": "boosted trees",
    "copies": "copies",
}
OURS = {"irt": "#0b6e4f", "osft": "#58a4b0", "sequential": "#004e89", "few-shot": "#6f7de8", "exact": "#111111"}


def write_pictures(cells: Sequence[Figures], out: Path) -> list[Path]:
    """Write two figures as SVG: the paper's four beds, and those whose truth is about the model."""
    made = {}
    for name, beds in (("curves-paper", PAPER), ("curves-model", ABOUT_MODEL)):
        there = [bed for bed in beds if any(cell["bed"] == bed for cell in cells)]
        if there:
            made[f"{name}-light.svg"] = partial(_save, picture(cells, there))
    write_files(made, out)
    return [out / file for file in made]


def _save(figure: Any, path: Path) -> None:
    import matplotlib as mpl

    # The same figures give the same file, and letters stay letters.
    with mpl.rc_context({"svg.hashsalt": "butfor", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def picture(cells: Sequence[Figures], beds: Sequence[str]) -> Any:
    """Draw TPR against FDR, one panel per bed and side, one legend."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 8.0}):
        figure = Figure(figsize=(2.5 * len(beds) + 0.4, 6.2), layout="constrained")
        axes = figure.subplots(2, len(beds), sharex=True, sharey=True, squeeze=False)
        for across, bed in enumerate(beds):
            for down, side in enumerate(SIDES):
                ax = axes[down][across]
                ax.set(title=f"{SIDES[side]}, {TITLES[bed]}", xlim=(0, 0.5), ylim=(-0.02, 1.02))
                ax.grid(color="#d9d9d9", linewidth=0.5)
                _panel(ax, [c for c in cells if (c["bed"], c["alternative"]) == (bed, side)])
        for ax in axes[-1]:
            ax.set_xlabel("FDR")
        for ax in axes[:, 0]:
            ax.set_ylabel("TPR")
        lines = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
        shown = [name for name in METHODS if name in lines]
        figure.legend([lines[name] for name in shown], shown, loc="outside lower center", ncol=5, frameon=False)
    return figure


def _panel(ax: Any, cells: Sequence[Figures]) -> None:
    """Draw what our tests chose at a row of levels, and the oracle of each run, the kinder of the two rules."""
    for cell in cells:
        name = cell["method"]
        if "points" in cell:
            fdr, tpr = ([point[rate] for point in cell["points"]] for rate in ("fdr", "tpr"))
            ax.plot(fdr, tpr, color=OURS[name], linewidth=1.6, marker="o", markersize=3, label=name, zorder=3)
        else:
            colour, dashes = PEERS[name]
            ax.plot(LEVELS, cell["per_run"], color=colour, dashes=dashes, linewidth=1.2, label=name)
