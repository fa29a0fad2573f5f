"""Where the output would go if one column had another value: leaves of a tree that this column keeps an input from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from butfor.core.types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Events:
    """Of one column: while its piece is in low <= piece < high, the sums of input `row` are changed by so much."""

    row: Ints  # (E,)
    change: Floats  # (K, E) another leaf's values less those of the input's own one, in whole numbers
    low: Ints  # (E,)
    high: Ints
    missing: Callable[[], Bools]  # (E,) also while it is missing; seldom asked for

    @staticmethod
    def together(parts: list[Events]) -> Events:
        """All of some."""
        if len(parts) == 1:
            return parts[0]
        return Events(
            row=np.concatenate([part.row for part in parts]),
            change=np.concatenate([part.change for part in parts], axis=1),
            low=np.concatenate([part.low for part in parts]),
            high=np.concatenate([part.high for part in parts]),
            missing=lambda: np.concatenate([part.missing() for part in parts]),
        )
