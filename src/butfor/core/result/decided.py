"""What a run found about decisions: would they have been otherwise, but for a subset?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from butfor.core.test.flips import Nearest
from butfor.core.types import Bools, Floats, Ints

NEVER_VARIES = (
    "The rule of the decision (decide=) never varies: it says the same of every input, of every row of the reference "
    "and of every draw, so nothing can be said of what it hangs on. Outputs of the inputs lie between {least:.4g} and "
    "{most:.4g}."
)


@dataclass(frozen=True, eq=False)
class Decided:
    """Of each hypothesis (H,): the probability q of another decision, its interval, and whether q > level is sure."""

    share: Floats
    low: Floats
    high: Floats
    necessary: Bools
    draws: Ints
    added: Ints  # of them, those made for the decision alone
    level: float
    nearest: Mapping[int, Nearest] = field(default_factory=dict)  # by hypothesis
    stay: Stay | None = None


@dataclass(frozen=True, eq=False)
class Stay:
    """Of each hypothesis (H,): the probability that the decision stays when all but the subset is redrawn."""

    share: Floats
    low: Floats
    high: Floats
    sufficient: Bools  # more likely than the level, established
