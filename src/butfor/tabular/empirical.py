"""Sampler: values of reference rows, drawn without regard to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.core.types import Batch, Subset
from butfor.tabular.splice import order_of, splice
from butfor.tabular.table import as_table, check_complete


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
        return splice(inputs, subset, draws, rng, self.values)

    def values(
        self, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: np.random.Generator
    ) -> np.ndarray[Any, Any]:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        donors = rng.integers(len(self.reference), size=len(inputs) * draws)
        return np.asarray(self.reference[donors[:, None], np.asarray(subset.index)])

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
