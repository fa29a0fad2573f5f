"""Where the output would go if one column had another value: leaves of a tree that this column keeps an input from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class Events:
    """Of one column: while its piece is in low <= piece < high, input `row` is in `leaf` in place of its `own` one."""

    row: Ints  # (E,)
    leaf: Ints  # node
    own: Ints  # node
    low: Ints
    high: Ints
    missing: Bools  # also while it is missing

    @staticmethod
    def together(parts: list[Events]) -> Events:
        """All of some."""
        if len(parts) == 1:
            return parts[0]
        return Events(
            row=np.concatenate([part.row for part in parts]),
            leaf=np.concatenate([part.leaf for part in parts]),
            own=np.concatenate([part.own for part in parts]),
            low=np.concatenate([part.low for part in parts]),
            high=np.concatenate([part.high for part in parts]),
            missing=np.concatenate([part.missing for part in parts]),
        )
