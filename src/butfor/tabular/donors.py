"""Donors: the rows of a reference, the distances between them, and the distribution of a column over steps.

A reference of m rows cannot say what is rarer than one row in m. So the observed row is one donor more: under the null
it is exchangeable with the others, draws from all of them are exchangeable with it, and no p-value falls much below
one over the number of donors, however many draws are made. (Without it a value beyond all m donors, which one null in
m + 1 is on either side, would get p = 1 / (draws + 1).)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from butfor.tabular.table import Table, as_table, check_complete
from butfor.types import Array, Bools, Floats, Ints, Subset

MOST_CATEGORIES = 16  # that a description tells apart, the most frequent ones


@dataclass(frozen=True, eq=False)
class ReferenceRows:
    """The rows of a reference, and which of its columns hold categories."""

    values: Array  # (m, d)
    categorical: tuple[bool, ...]  # (d,)
    clusters: Ints | None = None  # (m,) equal for rows that are not independent

    def __len__(self) -> int:
        return len(self.values)

    def is_all(self, subset: Subset) -> bool:
        return bool(len(subset.index) == self.values.shape[1])

    def all_for(self, inputs: Array) -> Ints:  # (n, rows)
        return np.broadcast_to(np.arange(len(self)), (len(inputs), len(self)))

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """A digest of the values of each column (d,): equal columns are equal, whatever their names and positions."""
        columns = (np.ascontiguousarray(column, np.float64).tobytes() for column in self.values.T)
        return tuple(blake2b(column, digest_size=16).hexdigest() for column in columns)

    @cached_property
    def order(self) -> Ints:
        """All columns sorted by their marks: no fit may depend on the order in which columns are given."""
        return np.array(sorted(range(self.values.shape[1]), key=lambda i: self.marks[i]))

    def parts(self, subset: Subset) -> tuple[Ints, Ints]:
        among = np.zeros(self.values.shape[1], bool)
        among[subset.index] = True
        chosen = among[self.order]
        return self.order[chosen], self.order[~chosen]

    @cached_property
    def distinct(self) -> Ints:  # (d,) different values of each column
        return np.array([len(np.unique(column)) for column in self.values.T])

    def repeats(self, subset: Subset) -> bool:
        """Return whether values of these columns come again so often that remembering the model's answers pays."""
        return bool((self.distinct[np.asarray(subset.index)] <= max(len(self) / 20, 2)).all())


def rows_of(reference: object) -> tuple[ReferenceRows, Table]:
    """Return the rows of a reference in which values may be missing, and its table."""
    table = reference if isinstance(reference, Table) else as_table(reference, "reference")
    check_complete(table, "reference", missing=True)
    return reference_rows(table), table


def reference_rows(table: Table) -> ReferenceRows:
    """Return the rows of a table that is known to be a usable reference."""
    return ReferenceRows(table.values, tuple(column.kind == "category" for column in table.kinds), table.clusters)


@dataclass(frozen=True, eq=False)
class Description:
    """Some columns of a row as numbers that distances and trees can use.

    Numbers are moved to [0, 1] by the range of the reference, with a flag for missing ones; a category becomes a flag
    for each of its most frequent values, and one for its being missing. Two flags differ by 1 between two categories,
    so halved flags make Manhattan distance into Gower's.
    """

    columns: Ints  # (c,)
    low: Floats  # (c,)
    span: Floats  # (c,)
    middle: Floats  # (c,)
    categories: tuple[Floats | None, ...]  # (c,) None: a number
    gaps: tuple[bool, ...]  # (c,) whether the reference has missing values there

    def __call__(self, rows: Floats) -> Floats:  # (n, d) -> (n, features)
        parts: list[Floats] = []
        for k, j in enumerate(self.columns):
            values, categories = rows[:, j], self.categories[k]
            missing = np.isnan(values)
            if categories is None:
                parts.append(np.where(missing, self.middle[k], (values - self.low[k]) / self.span[k])[:, None])
            else:
                parts.append((values[:, None] == categories) / 2)
            if self.gaps[k]:
                parts.append(missing[:, None] / 2)
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(rows), 0))


def describe(rows: ReferenceRows, columns: Ints) -> Description:
    """Return the description of these columns that is fitted on the reference."""
    chosen = rows.values[:, columns].astype(np.float64)
    missing = np.isnan(chosen)
    present = [x[~gaps] if not gaps.all() else np.zeros(1) for x, gaps in zip(chosen.T, missing.T, strict=True)]
    low, span = np.array([x.min() for x in present]), np.array([np.ptp(x) or 1.0 for x in present])
    middle = (np.array([np.median(x) for x in present]) - low) / span
    categories = tuple(
        frequent(x, MOST_CATEGORIES) if rows.categorical[j] else None for x, j in zip(present, columns, strict=True)
    )
    return Description(columns, low, span, middle, categories, tuple(bool(gaps.any()) for gaps in missing.T))


def frequent(values: Floats, most: int) -> Floats:
    levels, counts = np.unique(values, return_counts=True)
    return np.sort(levels[np.argsort(-counts, kind="stable")[:most]])


def donate(rows: ReferenceRows, inputs: Array, subset: Subset, donors: Ints, observed: Bools) -> Array:
    """Return the donors' values (donors (n, draws)) of the subset's columns; the input's where `observed`."""
    chosen = np.asarray(subset.index)
    fresh = rows.values[donors[..., None], chosen]
    fresh = np.where(observed[..., None], inputs[:, None, chosen], fresh)
    return fresh.reshape(-1, len(chosen)).astype(inputs.dtype, copy=False)


def rows_as_donors(rows: ReferenceRows, inputs: Array, subset: Subset, near: Ints) -> tuple[Array, Floats]:
    """Return the values of the rows `near` each input (n, donors), and of the observed row, all with equal mass."""
    values, size = rows.values[near[:, :, None], np.asarray(subset.index)], near.shape[1]
    return with_observed(inputs, subset, values, np.full(near.shape, 1 / size), size)


def with_observed(inputs: Array, subset: Subset, values: Array, mass: Floats, donors: float) -> tuple[Array, Floats]:
    """Return values (n, 1 + m, columns) and probabilities, the observed values first: they are one donor more."""
    observed = np.full((len(inputs), 1), 1 / (donors + 1))
    first = inputs[:, None, np.asarray(subset.index)]
    listed = np.concatenate([first, values.astype(inputs.dtype, copy=False)], axis=1)
    return listed, np.concatenate([observed, mass * (donors / (donors + 1))], axis=1)


@dataclass(frozen=True, eq=False)
class StepMass:
    """The distribution of one column over steps, of each input (n,)."""

    mass: Floats  # (n, V) of every step
    values: Floats  # (n, V) that may be drawn where a step has mass: nearest to the observed, where donors are known
    missing: Floats  # (n,) of a missing value
    observed: float  # of the observed value again


# inputs, cuts (P,) between pieces, starts (n, V) of steps as positions among pieces -> the mass of every step
ColumnDistribution = Callable[[Array, Floats, Ints], StepMass]


def lower_ends(limits: Floats, starts: Ints) -> Floats:
    """Return the lower ends of steps (n, V) from the limits (P,) of pieces; the first is open, padding is empty."""
    ends = np.concatenate([[-np.inf], limits, [np.inf]])
    return np.asarray(ends[np.minimum(starts, len(limits) + 1)])


def upper_ends(lower: Array, end: float = np.inf) -> Array:
    """Return the upper ends of steps, which are the lower ends of the next, (n, V)."""
    return np.concatenate([lower[:, 1:], np.full((len(lower), 1), end, lower.dtype)], axis=1)


def mass_by_counts(below: Ints, size: int, observed: Array, lower: Floats) -> tuple[Floats, Ints]:
    """Return the mass of steps and the position of the donor nearest to the observed value (n, 1).

    `below` (n, V) counts the donors below each step, of `size` sorted ones; `lower` (n, V) are the steps' lower ends.
    """
    after = upper_ends(below, size)
    above = lower >= observed  # the step lies above the observed value: its least donor is the nearest
    nearest = np.where(above, below, after - 1)
    return (after - below) / size, np.minimum(np.maximum(nearest, 0), size - 1)


def round_limits(cuts: Floats, step: float) -> Floats:
    """Return up to where values are rounded to a multiple of `step` that is at most the cut: halfway to the next."""
    finite = np.isfinite(cuts)
    count = np.floor(np.where(finite, cuts, 0.0) / step)
    count = np.where((count + 1) * step <= cuts, count + 1, np.where(count * step > cuts, count - 1, count))
    return np.where(finite, (count + 0.5) * step, cuts)
