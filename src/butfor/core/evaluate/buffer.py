"""Memory that batches are written on again and again: new memory for each takes 1.2 to 2.3 times as long (100 columns).

A model that keeps its batch, or a part of it, keeps the memory too. Whoever is lent a batch gets an array of its own
over the memory; NumPy's views of it hold it, so a weak reference tells whether anybody still does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from butfor.core.types import Array


class BatchBuffer:
    """Room for one batch at a time; `written` is set by who finds that the model writes into what it is lent."""

    def __init__(self) -> None:
        self._memory = bytearray()
        self.written = False

    def rows(self, count: int, like: Array) -> Array:
        """An array (count, width of `like`) that nobody else holds, with anything in it."""
        needed = count * like.shape[1] * like.itemsize
        if len(self._memory) < needed:
            self._memory = bytearray(needed)
        return self._view(count, like.shape[1], like.dtype)

    def lend(self, rows: Array, ask: Callable[[Array], Array]) -> tuple[Array, bool]:
        """What `ask` says of the rows, and whether it kept them: then they are its own, and others come next."""
        lent = np.frombuffer(self._memory, rows.dtype, rows.size)
        held = weakref.ref(lent)
        outputs = ask(lent.reshape(rows.shape))
        del lent
        kept = held() is not None
        if kept:
            self._memory = bytearray()
        return outputs, kept

    def _view(self, count: int, width: int, dtype: np.dtype[np.generic]) -> Array:
        return np.frombuffer(self._memory, dtype, count * width).reshape(count, width)
