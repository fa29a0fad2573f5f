"""Sampler: a Gaussian copula, the reference's own margins joined by the correlation of their normal scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from butfor.core.types import Batch, Floats, InputError, Subset
from butfor.tabular.columns import Column
from butfor.tabular.gaussian import Gaussian, gaussian
from butfor.tabular.splice import order_of, splice
from butfor.tabular.table import as_table, check_complete, check_numeric

KEPT = 2**21  # scores of inputs that are remembered: a run asks for those of the same inputs once a subset and round


@dataclass(frozen=True, eq=False)
class Margin:
    """One column of the reference: its sorted values with their normal scores, and each distinct value with its own."""

    values: Floats  # (m,) sorted
    scores: Floats  # (m,) of ranks 1..m
    distinct: Floats  # (u,) sorted
    middles: Floats  # (u,) of the middle rank of each distinct value
    whole: bool  # all are whole numbers: so are the values given back

    def score(self, values: Any) -> Floats:
        """Where values stand in the reference; what lies beyond it is read as its most extreme value."""
        return np.asarray(np.interp(values, self.distinct, self.middles))

    def value(self, scores: Floats) -> Floats:
        """The interpolated empirical quantile, the inverse of `score`; a value that repeats keeps its share."""
        from scipy.special import ndtr

        # np.interp(scores, self.scores, self.values), but the place is computed, not searched for
        last = len(self.values) - 1
        place = np.clip(ndtr(scores) * len(self.values) - 0.5, 0, last).astype(np.int64)
        held = np.clip(scores, self.scores[0], self.scores[-1])
        found = self.values[place] + (held - self.scores[place]) * self.slopes[place]
        return np.asarray(np.rint(found) if self.whole else found)

    @cached_property
    def slopes(self) -> Floats:
        """Of the quantiles between one value and the next, (m,)."""
        return np.append(np.diff(self.values) / np.diff(self.scores), 0.0)


@dataclass(frozen=True, eq=False)
class Copula:
    """Normal scores of every column are jointly normal; redrawn there, read back as values. Made by `copula`."""

    latent: Gaussian
    margins: tuple[Margin, ...]
    scored: dict[bytes, Floats] = field(default_factory=dict)  # scores of rows seen before, at most KEPT values

    def __reduce__(self) -> tuple[Any, ...]:
        return Copula, (self.latent, self.margins)  # what is remembered stays here

    @property
    def kinds(self) -> dict[str, Column] | None:
        return self.latent.kinds

    @property
    def columns(self) -> tuple[str, ...]:
        return self.latent.columns

    def __repr__(self) -> str:
        return f"copula({self.latent.rows} reference rows, {len(self.columns)} columns)"

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        chosen = np.asarray(subset.index)
        fresh = self.latent.values(self._scores(inputs), subset, draws, rng)
        fresh = np.column_stack([self.margins[j].value(fresh[:, k]) for k, j in enumerate(chosen)])
        own = rng.spawn(1)[0].random((len(inputs), draws)).reshape(-1) < self.floor(subset)
        fresh[own] = inputs[np.flatnonzero(own) // max(draws, 1)][:, chosen]
        return fresh

    def _scores(self, inputs: np.ndarray[Any, Any]) -> Floats:
        keys = [row.tobytes() for row in inputs]
        known = [self.scored.get(key) for key in keys]
        new = [i for i, scores in enumerate(known) if scores is None]
        fresh: Any = [margin.score(inputs[new, j]) for j, margin in enumerate(self.margins)]
        if (len(self.scored) + len(new)) * len(self.margins) > KEPT:
            self.scored.clear()
        for i, scores in zip(new, np.column_stack(fresh), strict=True):
            known[i] = self.scored[keys[i]] = scores
        return np.array(known).reshape(inputs.shape)

    def floor(self, _: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / (self.latent.rows + 1)

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Copula:
        """The same sampler for data whose columns stand in another order."""
        order = order_of(wanted, width, self.columns, self.latent.kinds is not None)
        return Copula(self.latent.for_columns(wanted, width), tuple(self.margins[i] for i in order))


def copula(reference: Any) -> Copula:
    """A sampler from `reference` for skewed or bounded columns: a Gaussian copula with empirical margins.

    Each column is turned into the normal scores of its ranks, a normal with Ledoit-Wolf shrinkage is fitted to them,
    and any group of columns is redrawn from its exact conditional and read back through the column's own quantiles.
    So draws never leave the range of the reference, and an input far outside it is not extrapolated from. But margins
    of m rows cannot say what is rarer than one row in m: the observed values are drawn as one row more, so that a value
    beyond all of them is not taken for a miracle, and no p-value is much below 1 / (m + 1).

    >>> reference = np.random.default_rng(0).lognormal(size=(200, 3))
    >>> copula(reference)
    copula(200 reference rows, 3 columns)
    """
    table = as_table(reference, "reference")
    check_numeric(table, "a copula")
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
    # Scores stay within the reference, and no p-value is below 1 / (m + 1): its tails would only cost time.
    fitted = replace(gaussian(scores), freedom=None)
    latent = replace(fitted, columns=table.columns, kinds=table.named_kinds, whole=(None,) * len(margins))
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
        whole=bool((distinct % 1 == 0).all()),
    )
