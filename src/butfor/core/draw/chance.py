"""Does the sampler draw by chance at all? One that always draws the same leaves Q a single point, and no null true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from butfor.core.draw.content import same

ENOUGH, ENOUGH_COSTLY = 20, 3  # hypotheses drawn alike before it is said of a sampler


class Watch:
    """Compares draws until two of one hypothesis differ, which is mostly at once.

    Only those that are drawn alike *and* unlike what is observed speak against a sampler: one of words may be sure of
    the word that stands there. It takes 20 of them, of images 3: no two fills are equal by chance.
    """

    def __init__(self, costly: bool = False) -> None:
        self.differ = False
        self.alike, self._enough = 0, ENOUGH_COSTLY if costly else ENOUGH

    def compare(self, observed: Sequence[Any], drawn: Sequence[Sequence[Any]]) -> None:
        """What is observed in some inputs, and the draws of each."""
        for seen, (first, *others) in zip(observed, drawn, strict=True):
            if self.differ or not others:
                return
            self.differ = not all(same(first, other) for other in others)
            self.alike += not same(seen, first)

    def add(self, differ: bool, alike: int) -> None:
        """What another watch has seen of other draws."""
        self.differ |= differ
        self.alike += alike

    @property
    def is_degenerate(self) -> bool:
        """Whether all that was seen was drawn alike, and it was enough."""
        return not self.differ and self.alike >= self._enough
