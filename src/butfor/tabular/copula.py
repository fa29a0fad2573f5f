"""Sampler: a Gaussian copula, the reference's own margins joined by the correlation of their normal scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.core.types import Batch, Floats, InputError, Subset
from butfor.tabular.gaussian import Gaussian, gaussian
from butfor.tabular.splice import in_order, order_of, splice
from butfor.tabular.table import as_table, check_complete


@dataclass(frozen=True, eq=False)
class Margin:
    """One column of the reference: its sorted values with their normal scores, and each distinct value with its own."""

    values: Floats  # (m,) sorted
    scores: Floats  # (m,) of ranks 1..m
    distinct: Floats  # (u,) sorted
    middles: Floats  # (u,) of the middle rank of each distinct value

    def score(self, values: Any) -> Floats:
        """Where values stand in the reference; what lies beyond it is read as its most extreme value."""
        return np.asarray(np.interp(values, self.distinct, self.middles))

    def value(self, scores: Floats) -> Floats:
        """The interpolated empirical quantile, the inverse of `score`; a value that repeats keeps its share."""
        return np.asarray(np.interp(scores, self.scores, self.values))


@dataclass(frozen=True, eq=False)
class Copula:
    """Normal scores of every column are jointly normal; redrawn there, read back as values. Made by `copula`."""

    latent: Gaussian
    margins: tuple[Margin, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.latent.columns

    def __repr__(self) -> str:
        return f"copula({self.latent.rows} reference rows, {len(self.columns)} columns)"

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, in_order(self, inputs).values)

    def values(self, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        scores = np.column_stack([margin.score(inputs[:, j]) for j, margin in enumerate(self.margins)])
        fresh = self.latent.values(scores, subset, draws, rng)
        return np.column_stack([self.margins[j].value(fresh[:, k]) for k, j in enumerate(np.asarray(subset.index))])

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Copula:
        """The same sampler for data whose columns stand in another order."""
        order = order_of(wanted, width, self.columns, self.latent.named)
        return Copula(self.latent.for_columns(wanted, width), tuple(self.margins[i] for i in order))


def copula(reference: Any) -> Copula:
    """A sampler from `reference` for skewed or bounded columns: a Gaussian copula with empirical margins.

    Each column is turned into the normal scores of its ranks, a normal with Ledoit-Wolf shrinkage is fitted to them,
    and any group of columns is redrawn from its exact conditional and read back through the column's own quantiles.
    So draws never leave the range of the reference, and an input far outside it is not extrapolated from.

    >>> reference = np.random.default_rng(0).lognormal(size=(200, 3))
    >>> copula(reference)
    copula(200 reference rows, 3 columns)
    """
    table = as_table(reference, "reference")
    check_complete(table, "reference")
    values = table.values.astype(np.float64)
    if len(values) < 2:
        raise InputError("the reference has one row; a copula needs at least 2, and better 10 per column")
    margins = tuple(_margin(column) for column in values.T)
    for name, margin in zip(table.columns, margins, strict=True):
        if len(margin.distinct) == 1:
            raise InputError(
                f"column {name!r} of the reference is constant ({margin.distinct[0]:g}): a copula cannot redraw it; "
                "drop the column from data and reference, or use butfor.tabular.empirical"
            )
    scores = np.column_stack([margin.score(column) for margin, column in zip(margins, values.T, strict=True)])
    latent = replace(gaussian(scores), columns=table.columns, named=table.labels is not None)
    return Copula(latent, margins)


def _margin(column: Floats) -> Margin:
    from scipy.special import ndtri

    size = len(column)
    distinct, counts = np.unique(column, return_counts=True)
    middle_ranks = np.cumsum(counts) - (counts - 1) / 2
    return Margin(
        values=np.sort(column),
        scores=ndtri((np.arange(1, size + 1) - 0.5) / size),
        distinct=distinct,
        middles=ndtri((middle_ranks - 0.5) / size),
    )
