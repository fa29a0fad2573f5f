"""Sampler: the rows of the reference that are nearest to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from butfor.tabular.donors import (
    ColumnDistribution,
    Description,
    ReferenceRows,
    StepMass,
    describe,
    donate,
    rows_as_donors,
    rows_of,
)
from butfor.tabular.splice import RowCache, TableSampler
from butfor.types import Array, Floats, InputError, Ints, Subset

FEWEST, MOST = 20, 200  # neighbours: a tenth of the rows, but no fewer and no more


@dataclass(frozen=True, eq=False)
class Neighbours:
    """x_S of one of the k rows that are nearest in the other columns. Made by `neighbours`."""

    rows: ReferenceRows
    k: int
    # per subset, filled when first needed: a description of the rest, sklearn's BallTree of it, and known inputs
    trees: dict[tuple[int, ...], tuple[Description, Any, RowCache]] = field(default_factory=dict)

    takes_missing = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        near = self._near(inputs, subset)
        drawn = rng.integers(near.shape[1] + 1, size=(len(inputs), draws))  # the donors and the row itself alike
        donors = np.take_along_axis(near, np.minimum(drawn, near.shape[1] - 1), axis=1)
        return donate(self.rows, inputs, subset, donors, drawn == near.shape[1])

    def floor(self, subset: Subset) -> float:
        return 1 / (self.n_donors(subset) + 1)

    def repeats(self, subset: Subset) -> bool:
        return self.rows.repeats(subset)

    def n_donors(self, subset: Subset) -> int:
        return len(self.rows) if self.rows.is_all(subset) else self.k

    def donors(self, inputs: Array, subset: Subset) -> tuple[Array, Floats]:
        return rows_as_donors(self.rows, inputs, subset, self._near(inputs, subset))

    def cdf(self, subset: Subset) -> ColumnDistribution:
        column = int(subset.index[0])

        def distribution(inputs: Array, cuts: Floats, starts: Ints) -> StepMass:
            drawn = self.rows.values[self._near(inputs, subset), column].astype(np.float64)  # (n, k)
            width, weight = len(cuts) + 2, 1 / (drawn.shape[1] + 1)
            first = np.arange(len(inputs))[:, None] * width
            at = np.searchsorted((first + starts).ravel(), (first + np.searchsorted(cuts, drawn)).ravel(), side="right")
            present = ~np.isnan(drawn).reshape(-1)
            at = at[present] - 1
            mass = np.bincount(at, minlength=starts.size).reshape(starts.shape) * weight
            far = np.argsort(-np.abs(drawn - inputs[:, column][:, None]).reshape(-1)[present], kind="stable")
            values = np.zeros(starts.size)
            values[at[far]] = drawn.reshape(-1)[present][far]  # the last one written, the nearest, stays
            missing = (~present).reshape(drawn.shape).sum(axis=1) * weight
            return StepMass(mass, values.reshape(starts.shape), missing, weight)

        return distribution

    def _near(self, inputs: Array, subset: Subset) -> Ints:  # (n, donors)
        if self.rows.is_all(subset) or not len(inputs):  # no other column: every row is as near
            return self.rows.all_for(inputs)
        targets, rest = self.rows.parts(subset)
        key = tuple(targets.tolist())
        if key not in self.trees:
            from sklearn.neighbors import BallTree

            description = describe(self.rows, rest)
            tree = BallTree(description(self.rows.values.astype(np.float64)), metric="manhattan")
            self.trees[key] = description, tree, RowCache()
        description, tree, cache = self.trees[key]
        described = description(inputs.astype(np.float64))
        return cache(described, lambda rows: tree.query(rows, self.k, return_distance=False).astype(np.int32))


def neighbours(reference: object, *, k: int | None = None) -> TableSampler:
    """Make a sampler that takes the subset's values of one of the `k` rows most like the rest of the input.

    Likeness is Gower's: differences as a share of a column's range, 0 or 1 for categories and for what is missing.
    Right where rows lie on a smooth surface of few dimensions, with many rows. A p-value comes down to the rank of the
    observed value among its neighbours', so none is much below 1 / (k + 1): for many hypotheses with few signals take a
    sampler with a model behind it.

    Parameters
    ----------
    reference : array-like or DataFrame of shape (rows, columns)
        Rows as they look when there is nothing to report.
    k : int, optional
        Neighbours to draw from; None is a tenth of the rows, from 20 to 200.

    Returns
    -------
    TableSampler
        Draws any subset of the columns.

    Examples
    --------
    >>> neighbours(np.random.default_rng(0).normal(size=(500, 3)))
    neighbours(500 reference rows, 3 columns, k=50)
    """
    rows, table = rows_of(reference)
    if k is None:
        k = min(max(FEWEST, min(len(rows) // 10, MOST)), len(rows))
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= len(rows):
        raise InputError(f"k must be a whole number between 1 and the {len(rows)} rows of the reference, got {k!r}")
    return TableSampler(Neighbours(rows, int(k)), "neighbours", table, f", k={k}")
