"""Contexts with a known truth: which passage does the answer rest on, beside ablation methods (METHODS 21).

Prompts and the rules that answer them are those of `butfor.simulate.contexts`. "ablation lasso" is ContextCite's design
written anew: 64 prompts that keep each passage with probability 1/2, whether the answer stays, a lasso of penalty .01;
"leave one out" deletes each passage once. Both rank; an oracle picks as many of the top as there are true ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from time import process_time
from typing import Literal, cast

import numpy as np
from sklearn.linear_model import Lasso

from benchmarks.figures import Figures, ProgressTo, checked_names, each, mean_error
from butfor import context
from butfor.context.prompt import Rendered
from butfor.simulate.contexts import ContextBed, answer, lookup
from butfor.streams import stream
from butfor.types import Floats

METHODS = ("butfor", "butfor zoom", "leave one out", "ablation lasso")
KINDS = ("alone", "contradicting", "poisoned", "redundant", "idle")
ABLATIONS, PENALTY = 64, 0.01


def run(
    runs: int = 200,
    seed: int = 0,
    workers: int = 1,
    sizes: tuple[int, ...] = (6, 20, 60),
    kinds: tuple[str, ...] = KINDS,
    methods: tuple[str, ...] = METHODS,
    progress: ProgressTo = None,
) -> Figures:
    """Measure false discoveries, recall, calls and seconds, `runs` prompts a cell."""
    kinds, methods = checked_names("kinds", kinds, KINDS), checked_names("methods", methods, METHODS)
    figures = Figures({"cells": []})
    for size in sizes:
        for kind in kinds:
            for method in methods:
                tasks = [partial(_one, method, kind, size, number) for number in range(seed, seed + runs)]
                rows = each(tasks, workers, f"{method}: {kind}, {size} passages", progress)
                figures["cells"].append({"method": method, "kind": kind, "passages": size, **_summary(rows)})
    return figures


def _one(method: str, kind: str, size: int, seed: int) -> list[Figures]:
    bed = lookup(size, cast(Literal["alone"], kind), seed)
    began = process_time()
    measured = _ours(bed, seed, method) if method.startswith("butfor") else _ranked(bed, seed, method)
    return [Figures({**measured, "seconds": process_time() - began})]


def _ours(bed: ContextBed, seed: int, method: str) -> dict[str, float]:
    made = context.prompt(bed.parts, question=bed.question)
    zoom: Literal["zoom"] | None = "zoom" if method == "butfor zoom" else None
    result = context.explain(answer, made, bed.pool, parts=zoom, seed=seed)
    table = result.table
    single = table.subset.isin(list(bed.parts))
    marked = set(table.subset[table.necessary & single])
    enough = result.enough()
    sets = [] if enough.empty else [enough["columns"][0], *enough["alternatives"][0]]
    named = {name for one in sets if len(one) == 1 for name in one}
    needed: AbstractSet[str] = frozenset() if bed.kind == "redundant" else bed.truth
    # what is enough costs calls of its own, which rankings do not answer
    return {
        **_compared(marked, needed),
        "either": float(named == bed.truth),
        "calls": float(context.explain(answer, made, bed.pool, parts=zoom, seed=seed, enough=None).calls),
        "calls_with_enough": float(result.calls),
        "tokens": float(result.tokens),
    }


def _ranked(bed: ContextBed, seed: int, method: str) -> dict[str, float]:
    names = [name for name in bed.parts if name.startswith("passage")]
    observed, made = answer([bed.prompt])[0], context.prompt(bed.parts, question=bed.question)
    if method == "leave one out":
        prompts = [made.render(), *(made.render({name: ""}) for name in names)]
        size = 1 - _stays(prompts[1:], observed)
    else:
        kept = stream(seed, "ablations").random((ABLATIONS, len(names))) < 0.5
        prompts = [made.render({name: "" for name, keep in zip(names, row, strict=True) if not keep}) for row in kept]
        size = Lasso(alpha=PENALTY).fit(kept.astype(float), _stays(prompts, observed)).coef_
    needed: AbstractSet[str] = frozenset() if bed.kind == "redundant" else bed.truth
    top = {names[k] for k in np.argsort(-size, kind="stable")[: len(needed)]}
    beyond = {names[k] for k in np.flatnonzero(size > 0)}
    tokens = sum(len(one) // 4 for one in map(str, prompts))
    return {
        **_compared(top, needed),
        "positive_false": len(beyond - needed) / max(1, len(beyond)),
        "calls": float(len(prompts) + 1),
        "tokens": float(tokens),
    }


def _stays(prompts: Sequence[Rendered], observed: str) -> Floats:
    return np.array([one == observed for one in answer(list(map(str, prompts)))], float)


def _compared(marked: set[str], truth: AbstractSet[str]) -> dict[str, float]:
    right = len(marked & truth)
    return {
        "false": (len(marked) - right) / max(1, len(marked)),
        "recall": right / len(truth) if truth else float("nan"),
        "f1": 2 * right / (len(marked) + len(truth)) if marked or truth else 1.0,
    }


def _summary(rows: list[Figures]) -> Figures:
    summary = Figures({"runs": len(rows)})
    for name in rows[0]:
        values = [row[name] for row in rows if np.isfinite(row[name])]
        if values:
            summary[name], error = mean_error(values)
            if name in ("false", "recall", "f1", "either"):
                summary[f"{name}_se"] = error
    return summary
