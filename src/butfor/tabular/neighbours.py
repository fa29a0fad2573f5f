"""Sampler: the rows of the reference that are nearest to the rest of the input."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from butfor.core.types import Batch, InputError, Ints, Subset
from butfor.tabular.columns import Column
from butfor.tabular.donors import Description, Rows, describe, donate, repeats, rows_of
from butfor.tabular.seen import Seen
from butfor.tabular.splice import splice

FEWEST, MOST = 20, 200  # neighbours: a tenth of the rows, but no fewer and no more


@dataclass(frozen=True, eq=False)
class Near:
    """Which rows of the reference are nearest to the rest of an input, for one subset."""

    describe: Description
    tree: Any  # sklearn.neighbors.BallTree
    k: int
    seen: Seen = field(default_factory=Seen)

    def donors(self, inputs: np.ndarray[Any, Any]) -> Ints:  # (n, k)
        described = self.describe(inputs.astype(np.float64))
        return self.seen(described, lambda rows: self.tree.query(rows, self.k, return_distance=False).astype(np.int32))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """x_S of one of the k rows that are nearest in the other columns. Made by `neighbours`."""

    rows: Rows
    k: int
    trees: dict[tuple[str, ...], Near] = field(default_factory=dict)  # per subset, filled as they are asked for

    takes_missing = True

    def __repr__(self) -> str:
        return f"neighbours({len(self.rows)} reference rows, {len(self.rows.columns)} columns, k={self.k})"

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(
        self, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: np.random.Generator
    ) -> np.ndarray[Any, Any]:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        near = self._donors(inputs, subset)
        place = rng.integers(near.shape[1] + 1, size=(len(inputs), draws))  # the donors and the row itself alike
        donors = np.take_along_axis(near, np.minimum(place, near.shape[1] - 1), axis=1)
        return donate(self.rows, inputs, subset, donors, place == near.shape[1])

    def _donors(self, inputs: np.ndarray[Any, Any], subset: Subset) -> Ints:  # (n, donors)
        size = len(self.rows)
        if len(subset.index) == len(self.rows.columns) or not len(inputs):  # no other column: every row is as near
            return np.broadcast_to(np.arange(size), (len(inputs), size))
        return self._near(subset).donors(inputs)

    def repeats(self, subset: Subset) -> bool:
        return repeats(self.rows, subset)

    def floor(self, subset: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / ((len(self.rows) if len(subset.index) == len(self.rows.columns) else self.k) + 1)

    @property
    def kinds(self) -> dict[str, Column] | None:
        return self.rows.kinds

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Neighbours:
        """The same sampler for data whose columns stand in another order; what one makes, the other has."""
        rows = self.rows.in_order(wanted, width)
        return self if rows is self.rows else replace(self, rows=rows)

    def _near(self, subset: Subset) -> Near:
        from sklearn.neighbors import BallTree

        targets = self.rows.in_turn(np.asarray(subset.index))
        rest = self.rows.in_turn(np.setdiff1d(np.arange(len(self.rows.columns)), targets))
        names = tuple(self.rows.columns[i] for i in targets)
        if names not in self.trees:
            describes = describe(self.rows, rest)
            tree = BallTree(describes(self.rows.values.astype(np.float64)), metric="manhattan")
            self.trees[names] = Near(describes, tree, self.k)
        near = self.trees[names]
        return replace(near, describe=replace(near.describe, columns=rest))


def neighbours(reference: Any, *, k: int | None = None) -> Neighbours:
    """A sampler from `reference`: the subset's values of one of the `k` rows most like the rest of the input.

    Likeness is Gower's: differences as a share of a column's range, 0 or 1 for categories and for what is missing.
    Right where rows lie on a smooth surface of few dimensions, with many rows; `k` None is a tenth of their number,
    from 20 to 200. A p-value comes down to the rank of the observed value among its neighbours', so none is much below
    1 / (k + 1): for many hypotheses with few signals take a sampler with a model behind it.

    >>> neighbours(np.random.default_rng(0).normal(size=(500, 3)))
    neighbours(500 reference rows, 3 columns, k=50)
    """
    rows = rows_of(reference)
    if k is None:
        k = min(max(FEWEST, min(len(rows) // 10, MOST)), len(rows))
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= len(rows):
        raise InputError(f"k must be a whole number between 1 and the {len(rows)} rows of the reference, got {k!r}")
    return Neighbours(rows, int(k))
