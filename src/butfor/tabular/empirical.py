"""Sampler: values of reference rows, drawn without regard to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from butfor.core.types import Batch, Floats, Subset
from butfor.tabular.splice import in_order, order_of, splice
from butfor.tabular.table import as_table, check_complete

LISTED = 32  # values that are evaluated one by one rather than drawn


@dataclass(frozen=True, eq=False)
class Empirical:
    """The marginal of the reference; the columns of a group come from one row together. Made by `empirical`."""

    reference: np.ndarray[Any, Any]  # (m, d)
    columns: tuple[str, ...]
    named: bool
    ignores_dependence = True

    def __repr__(self) -> str:
        return f"empirical({len(self.reference)} reference rows, {len(self.columns)} columns)"

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, in_order(self, inputs).values)

    def values(
        self, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: np.random.Generator
    ) -> np.ndarray[Any, Any]:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        donors = rng.integers(len(self.reference), size=len(inputs) * draws)
        return np.asarray(self.reference[donors[:, None], np.asarray(subset.index)])

    def repeats(self, subset: Subset) -> bool:
        """Whether draws of these columns come again so often that remembering the model's answers pays."""
        return bool((self._distinct[np.asarray(subset.index)] <= len(self.reference) / 2).all())

    def lists(self, subset: Subset) -> bool:
        """Whether the support is short enough to be evaluated whole."""
        return self.repeats(subset) and len(self._support(subset)[0]) <= LISTED

    def support(self, inputs: np.ndarray[Any, Any], subset: Subset) -> tuple[np.ndarray[Any, Any], Floats]:
        """All values (n, m, columns) and their probabilities (n, m).

        The observed value stands among the reference's with the weight of one more row: under the null it is one of
        them, and the p-value is then that of a rank among exchangeable rows, exact however small the reference.
        """
        values, counts = self._support(subset)
        listed = np.broadcast_to(values, (len(inputs), *values.shape))
        observed = inputs[:, None, np.asarray(subset.index)]
        mass = np.append(1, counts) / (len(self.reference) + 1)
        return np.concatenate([observed, listed], axis=1), np.broadcast_to(mass, (len(inputs), len(mass)))

    def _support(self, subset: Subset) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return np.unique(self.reference[:, np.asarray(subset.index)], axis=0, return_counts=True)

    @cached_property
    def _distinct(self) -> np.ndarray[Any, Any]:
        return np.array([len(np.unique(column)) for column in self.reference.T])

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Empirical:
        """The same sampler for data whose columns stand in another order."""
        order = order_of(wanted, width, self.columns, self.named)
        return replace(self, reference=self.reference[:, order], columns=tuple(self.columns[i] for i in order))


def empirical(reference: Any) -> Empirical:
    """A sampler from `reference` that ignores how columns hang together: right only for independent columns.

    On correlated columns it makes rows that never occur, and correlated features pull each other in; the guarantee of
    every result says so. Prefer `gaussian`.

    >>> empirical(np.zeros((5, 2)))
    empirical(5 reference rows, 2 columns)
    """
    table = as_table(reference, "reference")
    check_complete(table, "reference")
    return Empirical(table.values, table.columns, table.labels is not None)
