"""Means and spreads of every column given the others at the same inputs: their features are computed once for all."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from butfor.core.types import Array, Floats, Ints
from butfor.tabular.residual.chain import SubsetFit
from butfor.tabular.residual.design import Form, Space
from butfor.tabular.residual.law import Residual


class SharedSpace(Space):
    """The features of some inputs, kept: every column is among the rest of all others."""

    def __init__(self, space: Space, inputs: Array) -> None:
        super().__init__(space.rows, space.seed)
        self.inputs, self._space = inputs, space
        self._seen: dict[tuple[Form, int], Floats] = {}

    def of(self, inputs: Array, columns: Ints, form: Form) -> Floats:
        """The features of these columns, (n, features)."""
        if inputs is not self.inputs:
            return self._space.of(inputs, columns, form)
        parts = [self._column(form, int(j)) for j in columns]
        return np.concatenate([np.zeros((len(inputs), 0)), *parts], axis=1)

    def _column(self, form: Form, j: int) -> Floats:
        if (form, j) not in self._seen:
            self._seen[form, j] = self._space.of(self.inputs, np.array([j]), form)
        return self._seen[form, j]


_last: WeakKeyDictionary[Residual, SharedSpace] = WeakKeyDictionary()


def centres_at(law: Residual, fit: SubsetFit, inputs: Array) -> list[Floats]:
    """As `SubsetFit.centres`: what every part makes of each input, (n, numbers of the part), the leverage last."""
    shared = _last.get(law)
    if shared is None or shared.inputs is not inputs:
        shared = _last[law] = SharedSpace(law.space, inputs)
    return [part.centre(shared, inputs, fit.rest) for part in fit.parts]
