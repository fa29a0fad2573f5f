"""Contexts with a known truth: which passage does the answer rest on, beside rankings (METHODS 21).

Prompts are those of `butfor.simulate.contexts`, answered by `butfor.context.small_reader`. ContextCite: its solver from
PyPI, on 64 prompts that keep each passage with probability 1/2, seeded and scored as its code does (the package itself
loads data from the network when imported). llmSHAP from PyPI: all coalitions of 6 passages, else its sliding window of
3. "leave one out" deletes each passage once. They rank: an oracle picks as many of the top as there are true ones, and
"positive_false" is the share of false passages among those above zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from time import process_time
from typing import Any, Literal, cast

import numpy as np

from benchmarks.figures import Figures, ProgressTo, checked_names, each, mean_error
from butfor import context
from butfor.simulate.contexts import ContextBed, lookup
from butfor.types import Floats, InputError

METHODS = ("butfor", "butfor zoom", "leave one out", "ContextCite", "llmSHAP")
KINDS = ("alone", "contradicting", "poisoned", "redundant", "idle")
ABLATIONS = 64
NEAR_ZERO = 1e-6


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
    measured = _ours(bed, seed, method) if method.startswith("butfor") else _ranked(bed, method)
    return [Figures({**measured, "seconds": process_time() - began})]


def _ours(bed: ContextBed, seed: int, method: str) -> dict[str, float]:
    made = context.prompt(bed.parts, question=bed.question)
    zoom: Literal["zoom"] | None = "zoom" if method == "butfor zoom" else None
    result = context.explain(_answer, made, bed.pool, parts=zoom, seed=seed)
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
        "calls": float(context.explain(_answer, made, bed.pool, parts=zoom, seed=seed, enough=None).calls),
        "calls_with_enough": float(result.calls),
        "tokens": float(result.tokens),
    }


def _answer(prompts: Sequence[str]) -> list[str]:
    return context.small_reader().answer(prompts)


def _ranked(bed: ContextBed, method: str) -> dict[str, float]:
    names = [name for name in bed.parts if name.startswith("passage")]
    made = context.prompt(bed.parts, question=bed.question)
    observed = _answer([bed.prompt])[0]

    def without(dropped: Sequence[str]) -> str:
        return str(made.render(dict.fromkeys(dropped, "")))

    if method == "leave one out":
        prompts = [without([name]) for name in names]
        size = np.array([said != observed for said in _answer(prompts)], float)
    elif method == "ContextCite":
        kept = np.array([np.random.RandomState(k).choice([False, True], size=len(names)) for k in range(ABLATIONS)])
        prompts = [without([name for name, keep in zip(names, row, strict=True) if not keep]) for row in kept]
        log = context.small_reader().score(prompts, [observed] * ABLATIONS)
        logit = log - np.log(-np.expm1(np.minimum(log, -1e-12)))
        size = _solver().fit(kept, logit, 1)[0]
    else:
        prompts, size = _shapley(bed, names, without)
    needed: AbstractSet[str] = frozenset() if bed.kind == "redundant" else bed.truth
    top = {names[k] for k in np.argsort(-size, kind="stable")[: len(needed)]}
    beyond = {names[k] for k in np.flatnonzero(size > NEAR_ZERO)}
    return {
        **_compared(top, needed),
        "positive_false": len(beyond - needed) / max(1, len(beyond)),
        "calls": float(len(prompts) + 1),
        "tokens": float(sum(len(one) // 4 for one in [bed.prompt, *prompts])),
    }


@lru_cache
def _solver() -> Any:
    """ContextCite's lasso, without what its package imports beside it."""
    found = find_spec("context_cite")
    if found is None or found.origin is None:
        raise InputError("ContextCite is not installed: pip install --no-deps context-cite")
    spec = spec_from_file_location("context_cite_solver", Path(found.origin).with_name("solver.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LassoRegression()


def _shapley(bed: ContextBed, names: list[str], without: Callable[[Sequence[str]], str]) -> tuple[list[str], Floats]:
    from llmSHAP import DataHandler, Generation, PromptCodec, ShapleyAttribution, ValueFunction
    from llmSHAP.attribution_methods.coalition_sampler import FullEnumerationSampler, SlidingWindowSampler
    from llmSHAP.llm.llm_interface import LLMInterface

    asked: list[str] = []

    class Codec(PromptCodec):  # type: ignore[misc, unused-ignore]
        def build_prompt(self, _handler: Any, indexes: Any) -> str:
            return without([name for k, name in enumerate(names) if k not in set(indexes)])

        def parse_generation(self, output: str) -> Any:
            return Generation(output=output)

    class Network(LLMInterface):  # type: ignore[misc, unused-ignore]
        def generate(self, prompt: str, **_: Any) -> str:
            asked.append(prompt)
            return _answer([prompt])[0]

    class Same(ValueFunction):  # type: ignore[misc, unused-ignore]
        def __call__(self, base: Any, other: Any) -> float:
            return float(base.output == other.output)

    handler = DataHandler({name: bed.parts[name] for name in names})
    keys = handler.get_keys()
    sampler = FullEnumerationSampler(len(keys)) if len(keys) <= 6 else SlidingWindowSampler(keys, 3)
    shapley = ShapleyAttribution(
        Network(), handler, Codec(), sampler, use_cache=True, verbose=False, value_function=Same()
    )
    scores = shapley.attribution().attribution
    return asked[1:], np.array([scores[name]["score"] for name in names])


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
