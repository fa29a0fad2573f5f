"""Sampler: values of reference rows, drawn without regard to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.tabular.donors import ReferenceRows, donate, rows_of
from butfor.tabular.splice import TableSampler, fitted
from butfor.types import Array, Floats, Subset

LISTED = 32  # values that are evaluated one by one rather than drawn


@dataclass(frozen=True, eq=False)
class Empirical:
    """The marginal of the reference; the columns of a group come from one row together. Made by `empirical`."""

    rows: ReferenceRows

    ignores_dependence = True
    takes_missing = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
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

    def support(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        """All values (n, m, columns) and their probabilities (n, m).

        The observed value stands among the reference's with the weight of one more row: under the null it is one of
        them, and the p-value is then that of a rank among exchangeable rows, exact however small the reference.
        """
        values, counts = self._support(subset)
        listed = np.broadcast_to(values, (len(inputs), *values.shape))
        observed = inputs[:, None, np.asarray(subset.index)]
        mass = np.append(1, counts) / (len(self.rows) + 1)
        return np.concatenate([observed, listed], axis=1), np.broadcast_to(mass, (len(inputs), len(mass)))

    def _support(self, subset: Subset) -> tuple[Array, Array]:
        chosen = self.rows.values[:, np.asarray(subset.index)]
        held = np.where(np.isnan(chosen), np.inf, chosen)  # missing values are one value, not each another
        values, counts = np.unique(held, axis=0, return_counts=True)
        return np.where(np.isinf(values), np.nan, values), counts

    def floor(self, _: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / (len(self.rows) + 1)


def empirical(reference: object) -> TableSampler:
    """A sampler that ignores how columns hang together: right only for independent columns.

    On correlated columns it makes rows that never occur, and correlated features pull each other in; the guarantee of
    every result says so. Prefer any other sampler.

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.

    Examples
    --------
    >>> empirical(np.zeros((5, 2)))
    empirical(5 reference rows, 2 columns)
    """
    rows, table = rows_of(reference)
    return fitted(Empirical(rows), "empirical", table)
