"""What was computed for a row before: a run asks for the same inputs again in every round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from butfor.core.types import Array

KEPT = 2**21  # numbers that are remembered at most


class RowCache:
    """One result (an array) per row, remembered by the row's bits; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.known: dict[bytes, Array] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return RowCache, ()

    def __call__(self, rows: Array, compute: Callable[[Array], Array]) -> Array:
        """`compute(rows)`, where the result of a row must not depend on the rows beside it."""
        keys = [row.tobytes() for row in rows]
        found = [self.known.get(key) for key in keys]
        new = [i for i, result in enumerate(found) if result is None]
        if len(new) == len(rows):
            results = compute(rows)
        else:
            for i, result in zip(new, compute(rows[new]) if new else (), strict=True):
                found[i] = result
            results = np.array(found)
        self._keep([keys[i] for i in new], results[new])
        return results

    def _keep(self, keys: list[bytes], results: Array) -> None:
        if results.size > KEPT:
            return
        if sum(result.size for result in self.known.values()) + results.size > KEPT:
            self.known.clear()
        self.known.update(zip(keys, results, strict=True))
