"""Features of the same inputs, kept: every column is among the rest of all others, so they are computed once."""

from __future__ import annotations

from itertools import accumulate, pairwise
from weakref import WeakKeyDictionary

import numpy as np

from butfor.core.types import Array, Floats, Ints, Subset
from butfor.tabular.residual.design import Form, Space


class SharedSpace(Space):
    """The features of some inputs, kept."""

    def __init__(self, space: Space, inputs: Array) -> None:
        super().__init__(space.rows, space.seed)
        self.inputs, self._space = inputs, space
        self._whole: dict[Form, tuple[Floats, list[int], list[int]]] = {}
        self._last: tuple[bytes, dict[Form, Floats]] = (b"", {})  # columns that were asked for last

    def of(self, inputs: Array, columns: Ints, form: Form) -> Floats:
        """The features of these columns, (n, features)."""
        if inputs is not self.inputs:
            return self._space.of(inputs, columns, form)
        key, last = columns.tobytes(), self._last
        if last[0] != key:  # a thread beside this one may ask for others
            last = self._last = (key, {})
        together = last[1]
        if form not in together:
            together[form] = self._some(columns, form)
        return together[form]

    def _some(self, columns: Ints, form: Form) -> Floats:
        """Features of some columns, out of those of all: few long copies, where most columns stand as they are kept."""
        if form not in self._whole:
            self._whole[form] = self._all_columns(form)
        features, places, ends = self._whole[form]
        at = [places[j] for j in columns.tolist()]
        breaks = [k for k in range(1, len(at)) if at[k] != at[k - 1] + 1]
        runs = pairwise([0, *breaks, len(at)]) if at else ()
        parts = [features[:, ends[at[a]] : ends[at[b - 1] + 1]] for a, b in runs]
        return np.concatenate([np.zeros((len(self.inputs), 0)), *parts], axis=1)

    def _all_columns(self, form: Form) -> tuple[Floats, list[int], list[int]]:
        """The features of all columns, the place of each column among them, and where the features of a place begin.

        They stand in the order that the rest of a row is asked for in, whichever column is left out.
        """
        order, _ = self.rows.parts(Subset("all", np.arange(len(self.rows.categories))))
        parts = [self._space.of(self.inputs, np.array([j]), form) for j in order]
        ends = [0, *accumulate(part.shape[1] for part in parts)]
        return np.concatenate(parts, axis=1), np.argsort(order).tolist(), ends


_last: WeakKeyDictionary[Space, SharedSpace] = WeakKeyDictionary()
MOST_KEPT = 2**20  # cells of inputs whose features are kept: some 50 MB


def shared(space: Space, inputs: Array) -> tuple[Space, Array]:
    """The space that keeps the features of these inputs, and the inputs as it knows them."""
    known = _last.get(space)
    if known is not None and (known.inputs is inputs or _same(known.inputs, inputs)):
        return known, known.inputs
    if inputs.size > MOST_KEPT:
        return space, inputs
    made = _last[space] = SharedSpace(space, inputs)
    return made, inputs


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=True)
