"""The pictures of docs/benchmarks.md, from benchmarks/results/*.json: python -m tools.pictures [name ...]

Those of `curves` are made by the study itself (python -m benchmarks curves --pictures docs/figures).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
OURS, THEIRS, LIMIT = "#1f5fa8", "#c2671b", "#555555"
SETTINGS: Any = {
    "svg.hashsalt": "butfor",  # the same bytes from the same figures
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def figures(study: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of one table of a results file."""
    rows: list[dict[str, Any]] = json.loads((ROOT / f"benchmarks/results/{study}.json").read_text())["figures"][table]
    return rows


def numbers(cell: object) -> list[float]:
    """Return the numbers in a cell such as ".208 (.004)/.965 (.001)".

    >>> numbers(".208 (.004)/1")
    [0.208, 0.004, 1.0]
    """
    return [float(found) for found in re.findall(r"\d*\.?\d+", str(cell).replace(",", ""))]


def table1() -> None:
    """Measured against expected, with three standard errors."""
    _, axes = plt.subplots(1, 2, figsize=(7, 3))
    for ax, name, at in zip(axes, ("FDR", "TPR"), (0, 1), strict=True):
        for row in figures("table1", "alpha = 0.2"):
            measured, expected = numbers(row["measured FDR/TPR"]), numbers(row["expected"])[at]
            inside = row["within"].split(", ")[at] == "yes"
            colour, mark = (OURS, "o") if inside else (THEIRS, "D")
            error = 3 * measured[2 * at + 1]
            ax.errorbar(expected, measured[2 * at], error, color=colour, marker=mark, markersize=4, linewidth=0.8)
        ends = ax.get_xlim()
        ax.plot(ends, ends, color=LIMIT, linewidth=0.7, linestyle=":")
        ax.set(title=name, xlabel="expected", ylabel="measured, 3 s.e.")


def sequential() -> None:
    """Power against rows, for every bed and method."""
    _, ax = plt.subplots(figsize=(7, 3))
    rows = [row for row in figures("methods", "Beyond the paper") if row["alpha"] == 0.1 and row["TPR (s.e.)"]]
    for bed in ("sum-of-abs-independent", "independent-discontinuous", "sparse", "sum-of-abs-correlated"):
        of_bed = sorted((row for row in rows if row["bed"] == bed), key=lambda row: row["rows per hypothesis"])
        place = [row["rows per hypothesis"] for row in of_bed]
        (line,) = ax.plot(place, [numbers(row["TPR (s.e.)"])[0] for row in of_bed], marker="o", label=bed)
        for row in of_bed if bed == "sum-of-abs-correlated" else ():
            at = (row["rows per hypothesis"], numbers(row["TPR (s.e.)"])[0] - 0.03)
            ax.annotate(row["method"], at, fontsize=7, ha="right", va="top", color=line.get_color(), rotation=35)
    ax.set(xscale="log", ylim=(0.25, 1.02), xlabel="model rows a hypothesis", ylabel="TPR at alpha .1")
    ax.legend(fontsize=7, loc="lower right")


def nulls() -> None:
    """Runs with a false discovery, of 110, under the bound."""
    _, ax = plt.subplots(figsize=(7, 2.6))
    rows = [row for row in figures("nulls", "All distributions together") if row["test"] == "sequential"]
    names = [f"{row['reference rows']:,} rows\n{row['inputs']} inputs" for row in rows]
    place = range(len(rows))
    ax.bar([at - 0.2 for at in place], [row["input by input"] for row in rows], 0.38, color=OURS, label="an input")
    worst = [max(numbers(row["features by resolution"])) for row in rows]
    ax.bar([at + 0.2 for at in place], worst, 0.38, color="#8fb7dc", label="a feature, worst resolution")
    ax.axhline(17, color=LIMIT, linestyle="--", linewidth=0.8, label="alpha + 2 s.e.")
    ax.set(xticks=list(place), ylabel="of 110 null runs", ylim=(0, 24))
    ax.set_xticklabels(names, fontsize=7)
    ax.legend(fontsize=7, ncol=3, loc="upper left")


def referee() -> None:
    """How often single intervals hold, bed by bed, before and after part 13."""
    _, ax = plt.subplots(figsize=(7, 2.6))
    for study, colour, label in (("referee-before", THEIRS, "before"), ("referee", OURS, "now")):
        rows = [row for row in figures(study, "beds") if row["reference"] == 300]
        held = sorted(row["held"] for row in rows if row["held"] is not None)
        ax.plot(range(1, len(held) + 1), held, ".", color=colour, label=label)
    ax.axhline(0.95, color=LIMIT, linestyle="--", linewidth=0.8)
    ax.set(xlabel="60 cells (bed and place), sorted", ylabel="intervals that hold")
    ax.legend(fontsize=8)


def shifted() -> None:
    """False discovery rate, worst resolution, against power."""
    _, ax = plt.subplots(figsize=(7, 2.8))
    for sampler, colour, label in (("true", "#999999", "true conditional"), ("residual", OURS, "residual, fitted")):
        rows = [row for row in figures("shifted", "Known truth, shifted inputs") if row["sampler"] == sampler]
        below = [max(numbers(row["FDR by resolution"])[:3]) for row in rows]  # finer ones choose a handful
        ax.plot(below, [row["TPR there"] for row in rows], "o", color=colour, label=label, markersize=4)
    ax.axvline(0.1, color=LIMIT, linestyle="--", linewidth=0.8)
    ax.set(xlabel="FDR, worst of the first three resolutions", ylabel="TPR below all columns", xlim=(-0.005, 0.15))
    ax.legend(fontsize=8)


def decisions() -> None:
    """Runs in which all intervals hold, by sampler."""
    _, ax = plt.subplots(figsize=(7, 2.4))
    rows = figures("decisions", "Decisions")
    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    for row in rows:
        mark = "o" if row["inputs"] == "all" else "^"
        ax.plot(row["all covered"], samplers.index(row["sampler"]), mark, color=OURS, markersize=5, alpha=0.6)
    for label, mark in (("all inputs", "o"), ("top 1 % by output", "^")):
        ax.plot([], [], mark, color=OURS, label=label)
    ax.axvline(0.95, color=LIMIT, linestyle="--", linewidth=0.8)
    ax.set(yticks=range(len(samplers)), yticklabels=samplers, xlim=(0.93, 1.005))
    ax.set_xlabel("runs in which all intervals hold at once")
    ax.legend(fontsize=8, loc="upper left")


def questions() -> None:
    """Inputs of which a decisive part or a set that is enough is known, question by question."""
    _, ax = plt.subplots(figsize=(7, 4.2))
    rows = [row for row in figures("questions", "Ordinary questions") if row["decisive"] is not None][::-1]
    place = range(len(rows))
    parts = {
        "one of them": ("told", "#cfe0f1", 0.8),
        "enough": ("enough", OURS, 0.5),
        "decisive": ("decisive", THEIRS, 0.2),
    }
    for label, (column, colour, height) in parts.items():
        shares = [row[column] / (1 if column == "told" else row["inputs"]) for row in rows]
        ax.barh(place, shares, color=colour, height=height, label=label)
    ax.set(yticks=list(place), yticklabels=[row["question"] for row in rows], xlabel="share of the inputs")
    ax.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncol=3)


def cost() -> None:
    """Processor seconds for 100 inputs, by method."""
    _, ax = plt.subplots(figsize=(7, 3.4))
    rows = sorted(figures("peers", "independent-network"), key=lambda row: -float(row["s, 100 inputs"]))
    colours = [OURS if row["error control"] != "none" else THEIRS for row in rows]
    ax.barh([row["method"] for row in rows], [row["s, 100 inputs"] for row in rows], color=colours)
    ax.set(xscale="log", xlabel="processor seconds, 100 inputs; blue: controls an error rate")
    ax.tick_params(axis="y", labelsize=7)


def trees() -> None:
    """Seconds over inputs, for 500 trees."""
    _, ax = plt.subplots(figsize=(7, 2.8))
    rows = [row for row in figures("trees", "Exact tests of tree ensembles") if row["trees"] == 500]
    lines = {"alone": (OURS, "-", "our p-values"), "whole": (OURS, "--", "our whole run")}
    lines["TreeExplainer, path-dependent"] = (THEIRS, "-", "TreeExplainer, path-dependent")
    lines["interventional"] = (THEIRS, "--", "TreeExplainer, interventional")
    for column, (colour, style, label) in lines.items():
        there = [(row["inputs"], row[column]) for row in rows if row[column] is not None]
        ax.plot(*zip(*there, strict=True), color=colour, linestyle=style, marker=".", label=label)
    ax.set(xscale="log", yscale="log", xlabel="inputs, 500 trees", ylabel="processor seconds")
    ax.legend(fontsize=8)


def truth() -> None:
    """False discovery rates of our tests, cell by cell; precision at n of every method for two truths."""
    _, axes = plt.subplots(1, 3, figsize=(7.4, 3.2), width_ratios=(1, 1.2, 1.2))
    samplers = ("oracle", "fitted", "fitted, zoom")
    for at, sampler in enumerate(samplers):
        of = sorted(
            (row["fdr, tested"], 2 * row["fdr_se, tested"])
            for row in figures("truth", "errors")
            if row["sampler"] == sampler
        )
        places = [at - 0.35 + 0.7 * one / max(1, len(of) - 1) for one in range(len(of))]
        x, error = zip(*of, strict=True)
        axes[0].errorbar(x, places, xerr=error, fmt="o", color=OURS, markersize=2.5, linewidth=0.6)
    axes[0].axvline(0.1, color=LIMIT, linestyle="--", linewidth=0.8)
    axes[0].set(yticks=range(3), xlim=(-0.01, None), ylim=(2.6, -0.6), xlabel="FDR and 2 s.e., cell by cell")
    axes[0].set_title("ours, alpha .1", fontsize=9)
    axes[0].set_yticklabels(samplers, fontsize=7)
    rows, methods = figures("truth", "scores"), list(dict.fromkeys(row["method"] for row in figures("truth", "scores")))
    parts = {"white": OURS, "correlated": THEIRS, "unit cases": "#777777"}
    for ax, kind, title in ((axes[1], "planted", "planted by the generator"), (axes[2], "tested", "used, and unusual")):
        for place, method in enumerate(methods):
            of_method = [row for row in rows if row["method"] == method and row[f"precision, {kind}"] is not None]
            for shift, (part, colour) in zip((-0.22, 0.0, 0.22), parts.items(), strict=True):
                values = [row[f"precision, {kind}"] for row in of_method if row.get("ground", "unit cases") == part]
                ax.plot(values, [place + shift] * len(values), ".", color=colour, markersize=4, alpha=0.5)
                if values:
                    ax.plot(
                        sum(values) / len(values), place + shift, "|", color=colour, markersize=9, markeredgewidth=2
                    )
        ax.set(yticks=range(len(methods)), xlim=(-0.03, 1.03), ylim=(len(methods) - 0.4, -0.6))
        ax.set_title(title, fontsize=9)
        ax.set_yticklabels(methods if ax is axes[1] else [], fontsize=7)
        ax.set_xlabel("precision at n")
    for part, colour in parts.items():
        axes[2].plot([], [], "|", color=colour, markersize=9, markeredgewidth=2, label=part)
    axes[2].figure.legend(fontsize=7, ncol=3, loc="outside lower right")


PICTURES: dict[str, Callable[[], None]] = {
    draw.__name__: draw
    for draw in (table1, sequential, nulls, referee, shifted, decisions, questions, cost, trees, truth)
}


def main(names: list[str], out: Path = ROOT / "docs" / "figures") -> int:
    unknown = sorted(set(names) - set(PICTURES))
    if unknown:
        sys.stderr.write(f"No picture is named {', '.join(unknown)}; the names are {', '.join(PICTURES)}\n")
        return 2
    for name in names or PICTURES:
        with mpl.rc_context(SETTINGS):
            PICTURES[name]()
            plt.savefig(out / f"bench-{name}.svg", metadata={"Date": None})
            plt.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
