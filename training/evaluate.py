"""Every figure of the shipped pair, as JSON and for people, beside what was asked for: `python training/evaluate.py`.

The stage "float" measures what int8 costs, against the float exports in the scratch folder.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

from corpus import WEIGHTS, scratch
from quality import STAGES, report

Figures = dict[str, Any]


def wanted(found: Figures) -> dict[str, tuple[float, str, bool]]:
    """What was asked for in issue 6, item 4, over pieces; figures over words are how fills are drawn."""
    mine, ngram, exact = found["infiller"]["over_pieces"], found["ngram"]["over_pieces"], found["float"]["infiller"]
    lost = 100 * (exact["over_pieces"]["top1"] - mine["top1"])
    size = found["bytes"]["infiller.onnx"] / 1e6
    accuracy = found["sentiment"]["accuracy"]
    return {
        "top-1": (mine["top1"], ">= .40", mine["top1"] >= 0.40),
        "top-5": (mine["top5"], ">= .62", mine["top5"] >= 0.62),
        "perplexity": (mine["perplexity"], "<= 25", mine["perplexity"] <= 25),
        "int8 loss, points of top-1": (lost, "<= .5", lost <= 0.5),
        "infiller MB": (size, "<= 10", size <= 10),
        "top-1 over the n-gram, points": (100 * (mine["top1"] - ngram["top1"]), "> 0", mine["top1"] > ngram["top1"]),
        "accuracy": (accuracy, ">= .90", accuracy >= 0.90),
    }


def markdown(figures: Figures) -> str:
    """The figures for people; stages that were not measured are left out."""
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in figures["bytes"].items())
    lines = ["# The embedded networks on reviews they never saw", "", sizes, ""]
    rows = [
        [f"{name}, {over.replace('_', ' ')}", *scores(figures[stage][over])]
        for name, stage in (("infiller", "infiller"), ("n-gram beside it", "ngram"))
        for over in ("over_pieces", "over_words")
        if stage in figures
    ]
    if "float" in figures:
        rows.append(["infiller in float, over words", *scores(figures["float"]["infiller"]["over_words"])])
    header = [["", "top-1", "top-5", "perplexity"], ["---"] * 4]
    lines += [*(f"| {' | '.join(row)} |" for row in (*header, *rows)), ""]
    if "sentiment" in figures:
        right = figures["sentiment"]
        lines += [f"Classifier: {right['accuracy']:.2%} of {right['reviews']:,} test reviews are right."]
    if "float" in figures:
        lines += [f"In float: {figures['float']['sentiment']:.2%}."]
    if "infiller" in figures:
        pieces = figures["infiller"]["several_pieces_perplexity"]
        lines += [f"Words of several pieces: perplexity {pieces:.3g}.", "", "Twenty random fills:", ""]
        lines += [f"    {line}" for line in figures["infiller"]["fills"]]
    return "\n".join([*lines, ""])


def scores(found: dict[str, float]) -> list[str]:
    return [f"{found['top1']:.1%}", f"{found['top5']:.1%}", f"{found['perplexity']:.1f}"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=5_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=1, help="more wait for each other where the machine is shared")
    options.add_argument("--folder", type=Path, default=WEIGHTS)
    options.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="others keep their last figures")
    given = options.parse_args()
    kept = scratch() / f"figures-{given.seed}-{given.count}.json"
    found: Figures = json.loads(kept.read_text()) if kept.exists() else {}
    for stage in given.stages:
        print(stage, flush=True)
        found |= report(given.folder, scratch(), given.count, given.seed, given.threads, [stage])
        found["machine"] = platform.platform()
        kept.write_text(json.dumps(found, indent=1, ensure_ascii=False))
    print(json.dumps(found, indent=1, ensure_ascii=False))
    print(markdown(found))
    if set(STAGES) <= set(found):
        for name, (value, limit, met) in wanted(found).items():
            print(f"{name:32} {value:8.4f}  {limit:8} {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
