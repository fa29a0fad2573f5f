"""Sampler: the rows of the reference that are nearest to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from butfor.tabular.donors import Description, ReferenceRows, describe, donate, repeats, rows_of
from butfor.tabular.splice import RowCache, TableSampler, fitted
from butfor.types import Array, InputError, Ints, Subset

FEWEST, MOST = 20, 200  # neighbours: a tenth of the rows, but no fewer and no more


@dataclass(frozen=True, eq=False)
class Near:
    """Which rows of the reference are nearest to the rest of an input, for one subset."""

    describe: Description
    tree: Any  # sklearn.neighbors.BallTree
    k: int
    seen: RowCache = field(default_factory=RowCache)

    def donors(self, inputs: Array) -> Ints:  # (n, k)
        described = self.describe(inputs.astype(np.float64))
        return self.seen(described, lambda rows: self.tree.query(rows, self.k, return_distance=False).astype(np.int32))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """x_S of one of the k rows that are nearest in the other columns. Made by `neighbours`."""

    rows: ReferenceRows
    k: int
    trees: dict[tuple[int, ...], Near] = field(default_factory=dict)  # per subset, filled as they are asked for

    takes_missing = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        near = self._donors(inputs, subset)
        place = rng.integers(near.shape[1] + 1, size=(len(inputs), draws))  # the donors and the row itself alike
        donors = np.take_along_axis(near, np.minimum(place, near.shape[1] - 1), axis=1)
        return donate(self.rows, inputs, subset, donors, place == near.shape[1])

    def _donors(self, inputs: Array, subset: Subset) -> Ints:  # (n, donors)
        size = len(self.rows)
        if self.rows.is_all(subset) or not len(inputs):  # no other column: every row is as near
            return np.broadcast_to(np.arange(size), (len(inputs), size))
        return self._near(subset).donors(inputs)

    def repeats(self, subset: Subset) -> bool:
        return repeats(self.rows, subset)

    def floor(self, subset: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / ((len(self.rows) if self.rows.is_all(subset) else self.k) + 1)

    def _near(self, subset: Subset) -> Near:
        from sklearn.neighbors import BallTree

        targets, rest = self.rows.parts(subset)
        key = tuple(targets.tolist())
        if key not in self.trees:
            describes = describe(self.rows, rest)
            tree = BallTree(describes(self.rows.values.astype(np.float64)), metric="manhattan")
            self.trees[key] = Near(describes, tree, self.k)
        return self.trees[key]


def neighbours(reference: object, *, k: int | None = None) -> TableSampler:
    """A sampler that takes the subset's values of one of the `k` rows most like the rest of the input.

    Likeness is Gower's: differences as a share of a column's range, 0 or 1 for categories and for what is missing.
    Right where rows lie on a smooth surface of few dimensions, with many rows. A p-value comes down to the rank of the
    observed value among its neighbours', so none is much below 1 / (k + 1): for many hypotheses with few signals take a
    sampler with a model behind it.

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.
    k : neighbours to draw from; None is a tenth of the rows, from 20 to 200.

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
    return fitted(Neighbours(rows, int(k)), "neighbours", table, f", k={k}")
