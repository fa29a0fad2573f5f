"""How a result came about, in words and numbers that a file can keep: what is needed to say it, or do it, again."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor._version import __version__
from butfor.core.arrays import median
from butfor.core.draw.blocks import Problem, always_alike, round_sizes
from butfor.core.draw.samplers import info_of
from butfor.core.test.schedule import first_batch
from butfor.core.test.statistic import StatisticSpec
from butfor.core.types import Bools
from butfor.run.settings import Settings


def schedule(problem: Problem, settings: Settings, spec: StatisticSpec) -> dict[str, Any]:
    """How the draws of a hypothesis come: in rounds of which sizes, and how many of them are set aside."""
    draws = settings.draws_for(problem.size)
    if settings.test.name == "sequential":
        first = min(first_batch(settings.test.h, draws), problem.round_draws)  # the others are other rounds
        return {"draws": draws, "rounds": [first], "set_aside": 0}
    sizes = round_sizes(spec.center + draws, problem.round_draws)
    return {"draws": draws, "rounds": sizes, "set_aside": spec.center}


def provenance(
    problem: Problem,
    settings: Settings,
    spec: StatisticSpec,
    target: object,
    chosen: Bools,
    *,
    interrupted: bool,
    metadata: dict[str, Any],
) -> dict[str, Any]:
    """What is needed to say again how the result came about."""
    test = settings.test
    return {
        "version": __version__,
        "test": test.name,
        "alternative": spec.alternative,
        "target": target,
        "link": settings.link,
        "center": spec.center,
        "h": test.h if test.name == "sequential" else None,
        "delta": test.delta if test.early_stop else None,
        "scale": test.scale,
        "picked": settings.picked is not None,
        "own_rule": callable(settings.decide),  # of the decision; else the predicted class
        "min_effect": settings.min_effect,
        "seed": settings.seed,
        "selection": [settings.rule, settings.alpha, settings.family],
        "sampler": repr(problem.sampler),
        "floor": least_p(problem),
        "dependence_ignored": info_of(problem.sampler).ignores_dependence,
        "interrupted": interrupted,
        "deterministic": _is_degenerate(problem, settings, chosen),
    } | metadata


def least_p(problem: Problem) -> float:
    """The least p-value that the sampler itself allows: the median over subsets."""
    floor = info_of(problem.sampler).floor
    return median(np.array([floor(subset) for subset in problem.subsets]))


def _is_degenerate(problem: Problem, settings: Settings, chosen: Bools) -> bool:
    """Whether Q is a single point, so that nothing is promised; of other tests than osft it is known not to be."""
    if settings.test.name != "osft":
        return False
    return info_of(problem.sampler).deterministic or (bool(chosen.any()) and always_alike(problem))
