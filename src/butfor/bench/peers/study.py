"""`butfor bench peers`: cost and error control of butfor and of others, side by side in one run."""

from __future__ import annotations

import time
from collections.abc import Sequence

from butfor.bench.output import Figures, about, table
from butfor.bench.peers.costs import BEDS, LIMIT, METHODS, SIZES, side_by_side
from butfor.bench.peers.methods import installed
from butfor.bench.peers.whole_table import whole_table
from butfor.bench.runs import ProgressTo, shown
from butfor.evaluation.progress import Progress, reporting
from butfor.types import InputError

PACKAGES = ("shap", "lime", "captum", "shapiq", "hidimstat", "knockpy", "scikit-learn", "torch")
RATIOS = (  # bed, theirs, ours, asked
    ("independent-network", "LIME", "few-shot", 30),
    ("independent-network", "SHAP permutation", "sequential", 5),
    ("independent-discontinuous", "LIME", "few-shot", 50),
    ("independent-discontinuous", "SHAP permutation", "sequential", 5),
)


def run(
    runs: int = 10,
    seed: int = 0,
    beds: Sequence[str] = BEDS,
    methods: Sequence[str] = METHODS,
    sizes: Sequence[int] = SIZES,
    limit: float = LIMIT,
    progress: ProgressTo = None,
) -> Figures:
    """Costs on every bed, ratios at 100 inputs, and the global question over `runs` tables (0: leave it out)."""
    for what, asked, known in (("beds", beds, BEDS), ("methods", methods, METHODS)):
        if wrong := [name for name in asked if name not in known]:
            raise InputError(f"{what} must be some of {', '.join(map(repr, known))}, got {wrong}")
    start, costs = time.perf_counter(), []
    with reporting(progress) as report:
        for number, bed in enumerate(beds):
            report(Progress(bed, number, len(beds)))
            costs += side_by_side(bed, tuple(methods), tuple(sizes), seed, limit)
        report(Progress("whole tables", len(beds), len(beds)))
        tables = whole_table(runs, seed) if runs else []
    versions = {name: version for name in PACKAGES if (version := installed(name)) is not None}
    spent = {"runs": runs, "seconds": round(time.perf_counter() - start, 1), "versions": versions}
    return {**about(seed, **spent), "costs": costs, "ratios": ratios(costs), "whole_table": tables}


def ratios(costs: Sequence[Figures]) -> list[Figures]:
    """Processor seconds of theirs over ours on 100 inputs, both from this run, beside what was asked."""
    spent = {(row["bed"], row["method"]): row.get("seconds") for row in costs if row["inputs"] == SIZES[0]}
    rows = []
    for bed, theirs, own, asked in RATIOS:
        above, below = spent.get((bed, theirs)), spent.get((bed, own))
        if above is not None and below:
            rows.append({"bed": bed, "theirs": theirs, "own": own, "ratio": above / below, "asked": asked})
    return rows


def markdown(figures: Figures) -> str:
    """The figures as tables."""
    machine, versions = figures["machine"], ", ".join(f"{name} {v}" for name, v in figures["versions"].items())
    lines = [
        f"butfor {figures['version']}, {versions}; seed {figures['seed']}, {machine['processor']}, one thread, a fresh",
        f"process for each figure, Python {machine['python']}, numpy {machine['numpy']} ({figures['seconds']:.0f} s).",
        "Rows: what the model was asked; seconds: of the processor, after a warm-up on two inputs; memory: beyond what",
        "the process held before.",
        "",
    ]
    for bed in dict.fromkeys(row["bed"] for row in figures["costs"]):
        rows = [row for row in figures["costs"] if row["bed"] == bed]
        lines += [f"### {bed}", "", *_costs(rows), ""]
    header = ["bed, 100 inputs", "theirs", "ours", "processor time, theirs / ours", "asked", "met"]
    lines += [*table(header, [_ratio(row) for row in figures["ratios"]]), ""] if figures["ratios"] else []
    if figures["whole_table"]:
        header = ["method", "error control", "FDR (s.e.)", "TPR (s.e.)", "processor s"]
        lines += [
            f"The global question, {figures['runs']} tables of 1,000 rows, 50 correlated columns, 15 true, level .1:",
            "",
            *table(header, [_whole(row) for row in figures["whole_table"]]),
            "",
        ]
    return "\n".join(lines)


def _costs(rows: Sequence[Figures]) -> list[str]:
    sizes = tuple(dict.fromkeys(row["inputs"] for row in rows))
    header = ["method", "error control", *(f"{what}, {n:,} inputs" for n in sizes for what in ("rows", "s", "MB"))]
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name]
        lines.append([name, mine[0]["promises"], *(part for row in mine for part in _cost(row))])
    return table(header, lines)


def _cost(row: Figures) -> tuple[str, str, str]:
    if "why" in row:
        return row["why"], "", ""
    rows = "reads the model" if row["rows"] is None else f"{row['rows']:,}"
    return rows, f"{row['seconds']:.3g}", f"{row['megabytes']:.0f}"


def _ratio(row: Figures) -> list[str]:
    met = "yes" if row["ratio"] >= row["asked"] else "**no**"
    return [row["bed"], row["theirs"], row["own"], f"{row['ratio']:.0f}", f">= {row['asked']}", met]


def _whole(row: Figures) -> list[str]:
    if "why" in row:
        return [row["method"], row["promises"], row["why"], "", ""]
    rates = (shown(row[rate], row[f"{rate}_se"]) for rate in ("fdr", "tpr"))
    return [row["method"], row["promises"], *rates, f"{row['seconds']:.2f}"]
