"""What samplers that donate rows of the reference share: the rows, a description of the rest of a row, and the own row.

A reference of m rows cannot say what is rarer than one row in m. So the observed row is one donor more: under the null
it is exchangeable with the others, draws from all of them are exchangeable with it, and no p-value falls much below
one over the number of donors, however many draws are made. (Without it a value beyond all m donors, which one null in
m + 1 is on either side, would get p = 1 / (draws + 1).)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from butfor.tabular.table import Table, as_table, check_complete
from butfor.types import Array, Bools, Floats, Ints, Subset, distinct, median

MOST_LEVELS = 16  # categories that a description tells apart, the most frequent ones


@dataclass(frozen=True, eq=False)
class ReferenceRows:
    """The rows of a reference, and which of its columns hold categories."""

    values: Array  # (m, d)
    categories: tuple[bool, ...]  # (d,)

    def __len__(self) -> int:
        return len(self.values)

    def is_all(self, subset: Subset) -> bool:
        """Whether the subset has every column."""
        return bool(len(subset.index) == self.values.shape[1])

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """What tells columns apart, whatever they are called and wherever they stand: their values, (d,)."""
        return tuple(mark(column) for column in self.values.T)

    def parts(self, subset: Subset) -> tuple[Ints, Ints]:
        """The subset's columns and the others, in an order of their own: no fit may depend on the order given."""
        among = np.zeros(self.values.shape[1], bool)
        among[subset.index] = True
        chosen = among[self._turn]
        return self._turn[chosen], self._turn[~chosen]

    @cached_property
    def _turn(self) -> Ints:
        return np.array(sorted(range(self.values.shape[1]), key=lambda i: self.marks[i]))

    @cached_property
    def distinct(self) -> Ints:
        """How many different values each column has, (d,)."""
        return np.array([len(distinct(column)) for column in self.values.T])


def mark(column: Array) -> str:
    """A short text that is equal for equal columns."""
    return blake2b(np.ascontiguousarray(column, np.float64).tobytes(), digest_size=16).hexdigest()


def rows_of(reference: object) -> tuple[ReferenceRows, Table]:
    """The rows of a reference in which values may be missing, and its table."""
    table = as_table(reference, "reference")
    check_complete(table, "reference", missing=True)
    return reference_rows(table), table


def reference_rows(table: Table) -> ReferenceRows:
    """The rows of a table that is known to be a usable reference."""
    return ReferenceRows(table.values, tuple(column.kind == "category" for column in table.kinds))


@dataclass(frozen=True, eq=False)
class Description:
    """How some columns of a row are described by numbers that distances and trees can use.

    Numbers are moved to [0, 1] by the range of the reference, with a flag for missing ones; a category becomes a flag
    for each of its most frequent levels, and one for its being missing. Two flags differ by 1 between two categories,
    so halved flags make Manhattan distance into Gower's.
    """

    columns: Ints  # (c,)
    low: Floats  # (c,)
    span: Floats  # (c,)
    middle: Floats  # (c,)
    levels: tuple[Floats | None, ...]  # (c,) None: a number
    gappy: tuple[bool, ...]  # (c,) whether the reference has missing values there

    def __call__(self, rows: Floats) -> Floats:  # (n, d) -> (n, features)
        parts: list[Floats] = []
        for k, j in enumerate(self.columns):
            values, levels = rows[:, j], self.levels[k]
            missing = np.isnan(values)
            if levels is None:
                parts.append(np.where(missing, self.middle[k], (values - self.low[k]) / self.span[k])[:, None])
            else:
                parts.append((values[:, None] == levels) / 2)
            if self.gappy[k]:
                parts.append(missing[:, None] / 2)
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0))


def describe(rows: ReferenceRows, columns: Ints) -> Description:
    """The description of these columns that is fitted on the reference."""
    chosen = rows.values[:, columns].astype(np.float64)
    missing = np.isnan(chosen)
    held = [column[~gaps] if not gaps.all() else np.zeros(1) for column, gaps in zip(chosen.T, missing.T, strict=True)]
    low, span = np.array([x.min() for x in held]), np.array([np.ptp(x) or 1.0 for x in held])
    middle = (np.array([median(x) for x in held]) - low) / span
    levels = tuple(_frequent(x) if rows.categories[j] else None for x, j in zip(held, columns, strict=True))
    return Description(columns, low, span, middle, levels, tuple(bool(gaps.any()) for gaps in missing.T))


def _frequent(codes: Floats) -> Floats:
    levels, counts = np.unique(codes, return_counts=True)
    return np.sort(levels[np.argsort(-counts, kind="stable")[:MOST_LEVELS]])


def donate(rows: ReferenceRows, inputs: Array, subset: Subset, donors: Ints, own: Bools) -> Array:
    """The donors' values of the subset's columns, (n * draws, columns); where `own` (n, draws), the input's own."""
    chosen = np.asarray(subset.index)
    fresh = rows.values[donors[..., None], chosen]
    fresh = np.where(own[..., None], inputs[:, None, chosen], fresh)
    return fresh.reshape(-1, len(chosen)).astype(inputs.dtype, copy=False)


def repeats(rows: ReferenceRows, subset: Subset) -> bool:
    """Whether draws of these columns come again so often that remembering the model's answers pays."""
    return bool((rows.distinct[np.asarray(subset.index)] <= max(len(rows) / 20, 2)).all())
