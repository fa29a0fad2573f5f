"""What is known by looking into a model, where that can be done: outcomes that nobody has to draw or ask for."""

from __future__ import annotations

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.result.effects import Effects
from butfor.core.result.first_draws import Estimates
from butfor.core.test.outcomes import Outcomes
from butfor.core.types import Bools


def known_rows(problem: Problem, outcomes: Outcomes | None) -> Bools:
    """Hypotheses (H,) of which all outcomes are known."""
    sure = np.zeros(problem.size, bool)
    for block in [] if outcomes is None else outcomes.split(problem)[0]:
        sure[block.rows] = True
    return sure


def with_estimates(found: Effects, first: Estimates, fresh: Bools, sure: Bools) -> Effects:
    """Effects of what is `fresh` as they were found, of all others from the first draws (or the list) of their test."""
    parts = ((found.effect, first.effect), (found.low, first.low), (found.high, first.high))
    effect, low, high = (np.where(fresh, new, old) for new, old in parts)
    return Effects(effect, low, high, fresh | sure)
