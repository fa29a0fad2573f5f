"""Contexts with a known truth: which passage does the answer rest on, beside rankings (METHODS 21).

Prompts are those of `butfor.simulate.contexts`, answered by `butfor.context.small_reader`. ContextCite: its solver from
PyPI, on 64 prompts that keep each passage with probability 1/2, seeded and scored as its code does (the package itself
loads data from the network when imported). llmSHAP from PyPI: all coalitions of 6 passages, else its sliding window of
3. "leave one out" deletes each passage once. They rank: an oracle picks as many of the top as there are true ones, and
"positive_false" is the share of false passages among those above zero.

"null": passages and foils are of one pool, and a model has 2, 20 or 1,000 answers, greedy or by chance. "necessary":
the share of runs in which a passage is decisive though the model does not read any. The rest are shares of p <= .05
where it reads all alike: of the answer that is likeliest over all versions ("symmetric"), of a given one, and of the
one that the observed prompt produced ("naive"), as other tools score it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any, Literal, cast
from zlib import crc32

import numpy as np

from benchmarks.figures import Figures, ProgressTo, checked_names, each, mean_error
from butfor import context
from butfor.simulate.contexts import ContextBed, lookup
from butfor.types import Floats, InputError

METHODS = ("butfor", "butfor zoom", "leave one out", "ContextCite", "llmSHAP")
KINDS = ("alone", "contradicting", "poisoned", "redundant", "idle", "null")
ANSWERS = (2, 20, 1000)
NULL_DRAWS, NULL_PASSAGES, SAMPLES = 39, 5, 3
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
    figures = Figures({"cells": [], "nulls": []})
    for answers, sampled in product(ANSWERS, (False, True)) if "null" in kinds else ():
        tasks = [partial(null, answers, number, sampled=sampled) for number in range(seed, seed + runs)]
        rows = each(tasks, workers, f"null: {answers} answers{', sampled' * sampled}", progress)
        cell = {"answers": answers, "decoding": "sampled" if sampled else "greedy", "runs": runs}
        means = {name: float(np.concatenate([row[name] for row in rows]).mean()) for name in rows[0]}
        figures["nulls"].append(cell | means)
    for size in sizes:
        for kind in (one for one in kinds if one != "null"):
            for method in methods:
                tasks = [partial(_one, method, kind, size, number) for number in range(seed, seed + runs)]
                rows = each(tasks, workers, f"{method}: {kind}, {size} passages", progress)
                figures["cells"].append({"method": method, "kind": kind, "passages": size, **_summary(rows)})
    return figures


class Reading:
    """A model that reads all lines alike: of each answer the score is a sum of normal values, fixed by their texts."""

    def __init__(self, answers: int, seed: int, *, sampled: bool = False, reads: bool = True) -> None:
        self.answers, self.seed, self.sampled, self.reads = answers, seed, sampled, reads
        self.identity = f"reading {answers} {seed} {sampled} {reads}"
        self._values = lru_cache(4096)(lambda line: self._rng(line).normal(size=answers))

    def _rng(self, text: str, seed: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, seed, crc32(text.encode())])

    def _scores(self, prompt: str) -> Floats:
        lines = [line for line in prompt.split("\n") if line.startswith("text")] if self.reads else ["text"]
        total = np.sum([self._values(line) for line in lines], axis=0)
        return np.asarray(total - np.logaddexp.reduce(total))

    def answer(self, prompts: Sequence[str], seeds: Sequence[int] | None = None) -> list[str]:
        """Return the likeliest answers, or sampled ones."""
        pairs = zip(prompts, seeds or [0] * len(prompts), strict=True)
        noise = [self._rng(*one).gumbel(size=self.answers) * self.sampled for one in pairs]
        return [str((self._scores(one) + added).argmax()) for one, added in zip(prompts, noise, strict=True)]

    def score(self, prompts: Sequence[str], answers: Sequence[str]) -> Floats:
        """Return log-probabilities."""
        return np.array([self._scores(one)[int(answer)] for one, answer in zip(prompts, answers, strict=True)])


def null(answers: int, seed: int, *, sampled: bool = False) -> list[Figures]:
    """Measure one prompt whose passages are drawn as its foils are; at this level no passage is given up early."""
    texts = [f"text {k}" for k in np.random.default_rng([seed, answers]).permutation(100_000)[:2_000]]
    prompt = context.prompt({f"passage {k}": one for k, one in enumerate(texts[:NULL_PASSAGES])}, question="q")
    model, pool = Reading(answers, seed, sampled=sampled), texts[NULL_PASSAGES:]
    options: dict[str, Any] = {"enough": None, "seed": seed}
    options |= {"draws": NULL_DRAWS // SAMPLES, "samples": SAMPLES} if sampled else {"draws": NULL_DRAWS}
    idle = context.explain(Reading(answers, seed, sampled=sampled, reads=False), prompt, pool, **options)
    symmetric = context.explain(model, prompt, pool, level=0.02, **options)
    given = context.explain(model, prompt, pool, level=0.02, answer="0", **options)
    naive = []
    for part in symmetric.parts:
        versions = [str(prompt.render({part.name: one})) for one in (prompt.parts[part.name], *part.foils)]
        scores = model.score(versions, symmetric.answers * len(versions))
        naive.append((1 + (scores[1:] >= scores[0]).sum()) / len(scores))
    shares = {"symmetric": [one.p for one in symmetric.parts], "given": [one.p for one in given.parts], "naive": naive}
    found = {name: np.array(p) <= 0.05 for name, p in shares.items()}
    return [Figures({"necessary": [idle.table.necessary.any()], **found})]


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
    decisions = 2 + sum(part.draws for part in result.parts)  # the prompt itself is asked twice
    return {
        **_compared(marked, needed),
        "either": float(named == bed.truth),
        "calls": float(decisions),  # what is enough costs calls of its own, which rankings do not answer
        "calls_with_enough": float(result.calls),
        "tokens": float(result.tokens * decisions / result.calls),  # prompts are of one length, about
        "tokens_with_enough": float(result.tokens),
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
