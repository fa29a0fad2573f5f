"""Sampler: values of reference rows, drawn without regard to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.core.types import Batch, Floats, Subset
from butfor.tabular.columns import Column
from butfor.tabular.donors import Rows, donate, rows_of
from butfor.tabular.splice import splice

LISTED = 32  # values that are evaluated one by one rather than drawn


@dataclass(frozen=True, eq=False)
class Empirical:
    """The marginal of the reference; the columns of a group come from one row together. Made by `empirical`."""

    rows: Rows

    ignores_dependence = True
    takes_missing = True

    def __repr__(self) -> str:
        return f"empirical({len(self.rows)} reference rows, {len(self.rows.columns)} columns)"

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(
        self, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: np.random.Generator
    ) -> np.ndarray[Any, Any]:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        size = len(self.rows)
        donors = rng.integers(size + 1, size=(len(inputs), draws))  # the observed row is one donor more
        return donate(self.rows, inputs, subset, np.minimum(donors, size - 1), donors == size)

    def repeats(self, subset: Subset) -> bool:
        """Whether draws of these columns come again so often that remembering the model's answers pays."""
        return bool((self.rows.distinct[np.asarray(subset.index)] <= len(self.rows) / 2).all())

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
        mass = np.append(1, counts) / (len(self.rows) + 1)
        return np.concatenate([observed, listed], axis=1), np.broadcast_to(mass, (len(inputs), len(mass)))

    def _support(self, subset: Subset) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        chosen = self.rows.values[:, np.asarray(subset.index)]
        held = np.where(np.isnan(chosen), np.inf, chosen)  # missing values are one value, not each another
        values, counts = np.unique(held, axis=0, return_counts=True)
        return np.where(np.isinf(values), np.nan, values), counts

    def floor(self, _: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / (len(self.rows) + 1)

    @property
    def kinds(self) -> dict[str, Column] | None:
        return self.rows.kinds

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Empirical:
        """The same sampler for data whose columns stand in another order."""
        return replace(self, rows=self.rows.in_order(wanted, width))


def empirical(reference: Any) -> Empirical:
    """A sampler from `reference` that ignores how columns hang together: right only for independent columns.

    On correlated columns it makes rows that never occur, and correlated features pull each other in; the guarantee of
    every result says so. Prefer any other sampler.

    >>> empirical(np.zeros((5, 2)))
    empirical(5 reference rows, 2 columns)
    """
    return Empirical(rows_of(reference))
