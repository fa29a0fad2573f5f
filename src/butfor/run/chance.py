"""Samplers without chance: refused before a run where they say so, and after it where they were found out."""

from __future__ import annotations

from dataclasses import replace

from butfor.core.draw.blocks import Problem, no_chance
from butfor.core.draw.chance import Watch
from butfor.core.draw.samplers import info_of
from butfor.run.settings import Settings


def with_chance(problem: Problem, settings: Settings) -> Problem:
    """A sampler that always draws the same has no null to compare with: only the paper's one-shot test may use it.

    Some say so of themselves; others are found out as they draw.
    """
    if settings.test.name == "osft":
        return problem
    if info_of(problem.sampler).deterministic:
        raise no_chance(problem)
    return replace(problem, watch=Watch(problem.items.costly))


def check_chance(problem: Problem) -> None:
    """Refuse a sampler that was found out to draw always the same."""
    if problem.watch is not None and problem.watch.is_degenerate:
        raise no_chance(problem)
