"""What was computed for a row before: a run asks for the same inputs again in every round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from butfor.core.types import Array

KEPT = 2**21  # numbers that are remembered at most


class RowCache:
    """One result (an array) per row, remembered by the row's bits; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.known: dict[bytes, Array] = {}
        self.held = 0  # numbers in it

    def __reduce__(self) -> tuple[Any, ...]:
        return RowCache, ()

    def __call__(self, rows: Array, compute: Callable[[Array], Array]) -> Array:
        """`compute(rows)`, where the result of a row must not depend on the rows beside it."""
        bits, size = rows.tobytes(), rows[:1].nbytes
        keys = [bits[start : start + size] for start in range(0, len(bits), size)] if size else [b""] * len(rows)
        found = list(map(self.known.get, keys))
        new = [i for i, result in enumerate(found) if result is None]
        if len(new) == len(rows):
            results = compute(rows)
        else:
            for i, result in zip(new, compute(rows[new]) if new else (), strict=True):
                found[i] = result
            every = [result for result in found if result is not None]
            results = np.concatenate(every).reshape(len(rows), *every[0].shape)
        if new:
            self._keep([keys[i] for i in new], results[new])
        return results

    def _keep(self, keys: list[bytes], results: Array) -> None:
        if results.size > KEPT:
            return
        if self.held + results.size > KEPT:
            self.known.clear()
            self.held = 0
        self.known.update(zip(keys, results, strict=True))
        self.held += results.size  # equal rows of one call count twice, which only clears it sooner


class Conditional(NamedTuple):
    """What a normal says of some columns given all others, whatever the row is."""

    weights: Array  # (d, columns) of the other columns in the conditional mean
    spread: Array  # (columns, columns) what standard normals are multiplied by


class ConditionalCache:
    """One conditional per subset, remembered by its columns; it does not travel with a pickle."""

    def __init__(self) -> None:
        self.known: dict[bytes, Conditional] = {}
        self.held = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ConditionalCache, ()

    def __call__(self, columns: Array, compute: Callable[[], Conditional]) -> Conditional:
        """`compute()`, once for these columns."""
        key = columns.tobytes()
        found = self.known.get(key)
        if found is None:
            found = compute()
            size = found.weights.size + found.spread.size
            if self.held + size <= KEPT:  # a subset comes again in every round: those that fit in stay
                self.known[key] = found
                self.held += size
        return found
