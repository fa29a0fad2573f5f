"""Every figure of the shipped pair, as JSON, beside what was asked, and the loss against the float exports."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from corpus import HERE, WEIGHTS, assets, scratch

sys.path.insert(0, str(HERE.parent / "src" / "butfor" / "text"))  # the module alone: the rest needs more than this does
from quality import STAGES, report


def asked(found: dict) -> dict[str, tuple[float, str, bool]]:
    """Issue 6, item 4. The figures over pieces are the ones asked for; those over words are how fills are drawn."""
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


def main() -> None:
    ask = argparse.ArgumentParser()
    ask.add_argument("--count", type=int, default=5_000)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--threads", type=int, default=1, help="more wait for each other where the machine is shared")
    ask.add_argument("--folder", type=Path, default=WEIGHTS)
    ask.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="others keep their last figures")
    a = ask.parse_args()
    kept = scratch() / f"figures-{a.seed}-{a.count}.json"
    found = json.loads(kept.read_text()) if kept.exists() else {}
    for stage in a.stages:
        print(stage, flush=True)
        found |= report(a.folder, assets(), scratch(), a.count, a.seed, a.threads, [stage])
        kept.write_text(json.dumps(found, indent=1, ensure_ascii=False))
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if set(STAGES) <= set(found):
        for name, (value, wanted, met) in asked(found).items():
            print(f"{name:32} {value:8.4f}  {wanted:8} {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    main()
