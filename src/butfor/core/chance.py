"""Does the sampler draw by chance at all? One that always draws the same leaves Q a single point, and no null true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ENOUGH, ENOUGH_IMAGES = 20, 3  # hypotheses drawn alike before it is said of a sampler


class Watch:
    """Looks at draws until two of one hypothesis differ, which is mostly at once.

    Only those that are drawn alike *and* unlike what is observed speak against a sampler: one of words may be sure of
    the word that stands there. It takes 20 of them, of images 3: no two fills are equal by chance.
    """

    def __init__(self) -> None:
        self.differ = False
        self._alike, self._images = 0, False

    def look(self, observed: Sequence[Any], drawn: Sequence[Sequence[Any]]) -> None:
        """What is observed in some inputs, and the draws of each."""
        for seen, (first, *others) in zip(observed, drawn, strict=True):
            if self.differ or not others:
                return
            self.differ = not all(same(first, other) for other in others)
            self._alike += not same(seen, first)
            self._images = isinstance(seen, np.ndarray) and seen.ndim > 1

    @property
    def point(self) -> bool:
        """Whether all that was seen was drawn alike, and it was enough."""
        return not self.differ and self._alike >= (ENOUGH_IMAGES if self._images else ENOUGH)


def same(one: Any, two: Any) -> bool:
    """Whether two rows, images, texts or mappings of them are equal.

    >>> same({"image": np.ones(2), "caption": "so"}, {"image": np.ones(2), "caption": "so"})
    True
    """
    if isinstance(one, Mapping):
        return all(same(one[key], two[key]) for key in one)
    if not isinstance(one, np.ndarray):
        return bool(one == two)
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
