"""Overlap of what two seeds choose on the same data, and of the top k of SHAP; on film reviews where there are any."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.figures import Figures, assets_folder
from benchmarks.speed import boosted
from benchmarks.texts import REVIEWS as REVIEW_FILE
from benchmarks.texts import short_reviews
from butfor import explain, irt, simulate, text
from butfor.simulate.network import sum_of_abs
from butfor.simulate.tables import paper_inputs
from butfor.types import Array, Batch, Bools, Floats, InputError

SEEDS = 10
BEDS = ("independent-network", "correlated-network")
TESTS: dict[str, Any] = {
    "sequential": "sequential",
    "irt, 100 draws": irt(100),  # the paper's
    "few-shot": "few-shot",
    "osft": "osft",
}
TARGETS = {"sequential": 0.95, "default": 1.0}
REVIEWS, REVIEW_SEEDS, REVIEW_TARGET = 20, 4, 0.85
REFERENCE = 500  # rows beside which trees are explained
BACKGROUND, EVALUATIONS = 50, 510  # of permutation SHAP: rows, and model calls for one input
PEER_SEEDS = 3  # of SHAP: one of its runs takes as long as ten of ours
Chosen = Callable[[int], Bools]  # what a seed chooses


def run(seed: int = 0, seeds: int = SEEDS) -> Figures:
    """Overlap on the network beds and on boosted trees, one BLAS thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        rows = [one for name in BEDS for one in _on_bed(name, seed, seeds)]
        return {"overlap": [*rows, *_on_trees(seed, seeds), *on_reviews(seed, seeds)]}


def overlap(chosen: Sequence[Bools]) -> tuple[float, float]:
    """The mean and the least over all pairs of: what both chose, of what either chose; 1 where neither chose any.

    >>> overlap([np.array([True, True]), np.array([True, False])])
    (0.5, 0.5)
    """
    shares = [float((a & b).sum() / (a | b).sum()) if (a | b).any() else 1.0 for a, b in combinations(chosen, 2)]
    return float(np.mean(shares)), float(min(shares))


def _row(bed: str, method: str, chosen: Chosen, seeds: int, target: float | None = None) -> Figures:
    every = [chosen(seed) for seed in range(seeds)]
    mean, least = overlap(every)
    target = TARGETS.get(method) if target is None else target
    return {
        "bed": bed,
        "method": method,
        "chosen": float(np.mean([one.sum() for one in every])),
        "overlap": mean,
        "least": least,
        "target": target,
        "met": None if target is None else mean >= target,
    }


def _on_bed(name: str, seed: int, seeds: int) -> list[Figures]:
    """Every test on one bed, whose data stay as they are, and the top k of SHAP where it is installed."""
    bed = simulate.bed(name, seed)

    def chosen(test: Any, run_seed: int) -> Bools:
        options: Figures = {"test": test, "alternative": "greater", "effects": None, "control": False, "seed": run_seed}
        return np.asarray(explain(bed.model, bed.inputs, bed.sampler, **options).chosen)

    rows = [_row(name, method, partial(chosen, test), seeds) for method, test in TESTS.items()]
    background = paper_inputs(seed + 1, BACKGROUND, bed.inputs.shape[1], 0.0, correlated="correlated" in name)[0]
    return rows + _top(name, bed.model, bed.inputs, background, round(rows[0]["chosen"]), seeds)


def _on_trees(seed: int, seeds: int) -> list[Figures]:
    """Boosted trees beside a reference: as a function, which is drawn for, and as they are, which may need no draw."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    inputs = paper_inputs(seed, 100, 25, 0.3, correlated=False)[0]
    reference = paper_inputs(seed + 1, REFERENCE, 25, 0.0, correlated=False)[0]
    rows = paper_inputs(seed + 2, 3000, 25, 0.3, correlated=False)[0]
    function, trees = boosted(seed), HistGradientBoostingRegressor(random_state=seed).fit(rows, sum_of_abs(rows))

    def chosen(model: object, run_seed: int) -> Bools:
        options: Figures = {"subsets": "columns", "effects": None, "control": False, "seed": run_seed}
        return np.asarray(explain(model, inputs, reference, **options).chosen)

    made = [_row("boosted trees", "sequential", partial(chosen, function), seeds)]
    made.append(_row("boosted trees", "default", partial(chosen, trees), seeds))
    return made + _top("boosted trees", function, inputs, reference[:BACKGROUND], round(made[0]["chosen"]), seeds)


def on_reviews(seed: int, seeds: int) -> list[Figures]:
    """Words of film reviews with the embedded pair, a few seeds; nothing where there are no reviews."""
    try:
        reviews = short_reviews(assets_folder(None, REVIEW_FILE), REVIEWS, seed)
    except InputError:
        return []
    model, sampler = text.small_sentiment(threads=1), text.small_infiller(threads=1, among="plain")

    def chosen(test: str | None, run_seed: int) -> Bools:
        return np.asarray(text.explain(model, reviews, sampler, test=test, link="logit", seed=run_seed).chosen)

    few, bed = min(seeds, REVIEW_SEEDS), f"{len(reviews)} reviews"
    default = _row(bed, f"the default ({few} seeds)", partial(chosen, None), few, REVIEW_TARGET)
    return [default, _row(bed, f"few-shot ({few} seeds)", partial(chosen, "few-shot"), few)]


def _top(
    bed: str, model: Callable[[Batch], Array], inputs: Floats, background: Floats, count: int, seeds: int
) -> list[Figures]:
    """The `count` largest of permutation SHAP's values over all inputs; nothing where SHAP is not installed."""
    try:
        import shap
    except ImportError:
        return []

    def chosen(run_seed: int) -> Bools:
        explainer = shap.PermutationExplainer(model, background, seed=run_seed)
        values = explainer(inputs, max_evals=EVALUATIONS, silent=True).values
        top = np.zeros(values.size, bool)
        top[np.argsort(-np.abs(values).ravel(), kind="stable")[:count]] = True
        return top

    few = min(seeds, PEER_SEEDS)
    return [_row(bed, f"SHAP permutation, top {count} ({few} seeds)", chosen, few)]
