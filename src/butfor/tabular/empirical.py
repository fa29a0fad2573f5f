"""Sampler: values of reference rows, drawn without regard to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.tabular.donors import (
    ColumnDistribution,
    ReferenceRows,
    StepMass,
    donate,
    lower_ends,
    mass_by_counts,
    rows_as_donors,
    rows_of,
)
from butfor.tabular.splice import TableSampler
from butfor.types import Array, Floats, Ints, Subset

LISTED = 32  # values that are evaluated one by one rather than drawn


@dataclass(frozen=True, eq=False)
class Empirical:
    """The marginal of the reference; the columns of a group come from one row together. Made by `empirical`."""

    rows: ReferenceRows

    ignores_dependence = True
    takes_missing = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        size = len(self.rows)
        donors = rng.integers(size + 1, size=(len(inputs), draws))  # the observed row is one more
        return donate(self.rows, inputs, subset, np.minimum(donors, size - 1), donors == size)

    def floor(self, _: Subset) -> float:
        return 1 / (len(self.rows) + 1)

    def repeats(self, subset: Subset) -> bool:
        return bool((self.rows.distinct[np.asarray(subset.index)] <= len(self.rows) / 2).all())

    def lists(self, subset: Subset) -> bool:
        return self.repeats(subset) and len(self._counted(subset)[0]) <= LISTED

    def support(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        """Return all values (n, m, columns) and their probabilities (n, m).

        The observed value stands among the reference's with the weight of one more row: under the null it is one of
        them, and the p-value is then that of a rank among exchangeable rows, exact however small the reference.
        """
        values, counts = self._counted(subset)
        listed = np.broadcast_to(values, (len(inputs), *values.shape))
        observed = inputs[:, None, np.asarray(subset.index)]
        mass = np.append(1, counts) / (len(self.rows) + 1)
        return np.concatenate([observed, listed], axis=1), np.broadcast_to(mass, (len(inputs), len(mass)))

    def _counted(self, subset: Subset) -> tuple[Array, Array]:
        chosen = self.rows.values[:, np.asarray(subset.index)]
        keyed = np.where(np.isnan(chosen), np.inf, chosen)  # missing values are one value, not each another
        values, counts = np.unique(keyed, axis=0, return_counts=True)
        return np.where(np.isinf(values), np.nan, values), counts

    def n_donors(self, _: Subset) -> int:
        return len(self.rows)

    def donors(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        return rows_as_donors(self.rows, inputs, subset, self.rows.all_for(inputs))

    def cdf(self, subset: Subset) -> ColumnDistribution:
        column, rows = int(subset.index[0]), len(self.rows)
        values = self.rows.values[:, column].astype(np.float64)
        gone, present = float(np.isnan(values).mean()), np.sort(values[~np.isnan(values)])
        share = rows / (rows + 1)

        def distribution(inputs: Array, cuts: Floats, starts: Ints) -> StepMass:
            if not len(present):
                none = np.zeros(starts.shape)
                return StepMass(none, none, np.full(len(inputs), share), 1 / (rows + 1))
            counts = np.concatenate([[0], np.searchsorted(present, cuts, side="right"), [len(present)]])
            below = counts[np.minimum(starts, len(cuts) + 1)]
            mass, nearest = mass_by_counts(below, len(present), inputs[:, column, None], lower_ends(cuts, starts))
            missing = np.full(len(inputs), share * gone)
            return StepMass(mass * share * (1 - gone), present[nearest], missing, 1 / (rows + 1))

        return distribution


def empirical(reference: object) -> TableSampler:
    """Make a sampler that ignores how columns hang together: right only for independent columns.

    On correlated columns it makes rows that never occur, and correlated features pull each other in; the guarantee of
    every result says so. Prefer any other sampler.

    Parameters
    ----------
    reference : array-like or DataFrame of shape (rows, columns)
        Rows as they look when there is nothing to report.

    Returns
    -------
    TableSampler
        Draws any subset of the columns.

    Examples
    --------
    >>> empirical(np.zeros((5, 2)))
    empirical(5 reference rows, 2 columns)
    """
    rows, table = rows_of(reference)
    return TableSampler(Empirical(rows), "empirical", table)
