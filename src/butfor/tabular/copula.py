"""Sampler: a Gaussian copula, the reference's own margins joined by the correlation of their normal scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from butfor.core.checks import one_of
from butfor.core.types import Array, Floats, Subset
from butfor.tabular.gaussian import Gaussian, bounds, fit
from butfor.tabular.margins import Margin, margin
from butfor.tabular.row_cache import RowCache
from butfor.tabular.splice import TableSampler, fitted
from butfor.tabular.table import constant, numbers_of

OUTSIDE = 0.05  # share of values outside the reference from which a run says what that means


@dataclass(frozen=True, eq=False, repr=False)
class Copula:
    """Normal scores of every column are jointly normal; redrawn there, read back as values. Made by `copula`."""

    latent: Gaussian
    margins: tuple[Margin, ...]
    beyond: Literal["hold", "extend"] = "hold"
    seen: RowCache = field(default_factory=RowCache)  # scores of inputs

    def __repr__(self) -> str:  # short: a run asks for it ten times, and all margins would take a tenth of a second
        return f"Copula({len(self.margins)} columns, {len(self.margins[0].values)} rows, beyond={self.beyond!r})"

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        chosen = np.asarray(subset.index)
        fresh = self.latent.values(self.seen(inputs, self._scores), subset, draws, rng)
        fresh = np.column_stack([self._read_back(self.margins[j], fresh[:, k]) for k, j in enumerate(chosen)])
        own = rng.spawn(1)[0].random((len(inputs), draws)).reshape(-1) < self.floor(subset)
        fresh[own] = inputs[np.flatnonzero(own) // max(draws, 1)][:, chosen]
        return fresh

    def _read_back(self, own: Margin, scores: Floats) -> Floats:
        values = own.value(scores)
        return values if self.beyond == "hold" else np.clip(values, *bounds(own.values))

    def _scores(self, inputs: Array) -> Floats:
        return np.column_stack([own.score(inputs[:, j]) for j, own in enumerate(self.margins)])

    def floor(self, _: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / (len(self.margins[0].values) + 1)

    def notes(self, inputs: Array, *_: object) -> list[str]:
        """What a reader must know of inputs outside the reference, for the summary of a run."""
        if self.beyond == "extend":
            return []
        columns = zip(self.margins, inputs.T, strict=True)
        share = np.mean([(column < own.values[0]) | (column > own.values[-1]) for own, column in columns])
        if share < OUTSIDE:
            return []
        return [
            f"{share:.0%} of the values lie outside the reference, where the copula holds them at its edge: a column "
            "that only follows another one far outside is reported too. copula(reference, beyond='extend') would "
            "not report it."
        ]


def copula(reference: object, *, beyond: Literal["hold", "extend"] = "hold") -> TableSampler:
    """A sampler for skewed or bounded columns: a Gaussian copula with the reference's own margins.

    Each column is turned into the normal scores of its ranks, a normal with Ledoit-Wolf shrinkage is fitted to them,
    and any group of columns is redrawn from its exact conditional and read back through the column's own quantiles.
    Margins of m rows cannot say what is rarer than one row in m: the observed values are drawn as one row more, so that
    a value beyond all of them is not taken for a miracle, and no p-value is much below 1 / (m + 1).

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.
    beyond : what inputs outside the reference mean; within it the two are the same. "hold": they are read as its most
        extreme values and draws never leave its range, so the question is whether a feature could be like this *in the
        reference*; a column that only follows another one far outside is then reported too. "extend": columns go on
        beyond the reference as their last quantiles do, not below 0 where the reference has nothing below, and so does
        their dependence: what follows from the other columns is not reported.

    Examples
    --------
    >>> reference = np.random.default_rng(0).lognormal(size=(200, 3))
    >>> copula(reference)
    copula(200 reference rows, 3 columns)
    """
    one_of("beyond", beyond, ("hold", "extend"))
    table = numbers_of(reference, "a copula")
    values = table.values.astype(np.float64)
    margins = tuple(margin(column, tails=beyond == "extend") for column in values.T)
    for name, own in zip(table.columns, margins, strict=True):
        if len(own.distinct) == 1:
            raise constant(name, own.distinct[0], "a copula")
    scores = np.column_stack([own.ranked(column) for own, column in zip(margins, values.T, strict=True)])
    # No p-value is below 1 / (m + 1) anyway: the far tails of Student's t would change nothing but the time it takes.
    latent = replace(fit(scores), freedom=None, whole_numbers=(None,) * len(margins))
    options = "" if beyond == "hold" else f", beyond={beyond!r}"
    return fitted(Copula(latent, margins, beyond), "copula", table, options)
