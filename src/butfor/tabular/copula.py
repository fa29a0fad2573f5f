"""Sampler: a Gaussian copula, the reference's own margins joined by the correlation of their normal scores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from butfor.core.types import Batch, Floats, InputError, Subset
from butfor.tabular.columns import Column
from butfor.tabular.gaussian import Gaussian, bounds, gaussian
from butfor.tabular.margins import Margin, margin
from butfor.tabular.seen import Seen
from butfor.tabular.splice import order_of, splice
from butfor.tabular.table import as_table, check_complete, check_numeric

OUTSIDE = 0.05  # share of values outside the reference from which a run says what that means


@dataclass(frozen=True, eq=False)
class Copula:
    """Normal scores of every column are jointly normal; redrawn there, read back as values. Made by `copula`."""

    latent: Gaussian
    margins: tuple[Margin, ...]
    beyond: Literal["hold", "extend"] = "hold"
    seen: Seen = field(default_factory=Seen)  # scores of inputs

    @property
    def kinds(self) -> dict[str, Column] | None:
        return self.latent.kinds

    @property
    def columns(self) -> tuple[str, ...]:
        return self.latent.columns

    def __repr__(self) -> str:
        beyond = "" if self.beyond == "hold" else f", beyond={self.beyond!r}"
        return f"copula({self.latent.rows} reference rows, {len(self.columns)} columns{beyond})"

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: np.ndarray[Any, Any], subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
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

    def _scores(self, inputs: np.ndarray[Any, Any]) -> Floats:
        return np.column_stack([own.score(inputs[:, j]) for j, own in enumerate(self.margins)])

    def floor(self, _: Subset) -> float:
        """The share of draws that are the observed values again: no p-value is much below it (see `donors`)."""
        return 1 / (self.latent.rows + 1)

    def notes(self, data: Any, *_: Any) -> list[str]:
        """What a reader must know of inputs outside the reference, for the summary of a run."""
        if self.beyond == "extend":
            return []
        columns = zip(self.margins, as_table(data, "data").values.T, strict=True)
        share = np.mean([(column < own.values[0]) | (column > own.values[-1]) for own, column in columns])
        if share < OUTSIDE:
            return []
        return [
            f"{share:.0%} of the values lie outside the reference, where the copula holds them at its edge: a column "
            "that only follows another one far outside is reported too. copula(reference, beyond='extend') would "
            "not report it."
        ]

    def for_columns(self, wanted: tuple[str, ...] | None, width: int) -> Copula:
        """The same sampler for data whose columns stand in another order."""
        order = order_of(wanted, width, self.columns, self.latent.kinds is not None)
        return Copula(self.latent.for_columns(wanted, width), tuple(self.margins[i] for i in order), self.beyond)


def copula(reference: Any, *, beyond: Literal["hold", "extend"] = "hold") -> Copula:
    """A sampler from `reference` for skewed or bounded columns: a Gaussian copula with empirical margins.

    Each column is turned into the normal scores of its ranks, a normal with Ledoit-Wolf shrinkage is fitted to them,
    and any group of columns is redrawn from its exact conditional and read back through the column's own quantiles.
    Margins of m rows cannot say what is rarer than one row in m: the observed values are drawn as one row more, so that
    a value beyond all of them is not taken for a miracle, and no p-value is much below 1 / (m + 1).

    `beyond` says what inputs outside the reference mean. "hold": they are read as its most extreme values and draws
    never leave its range, so the question is whether a feature could be like this *in the reference*; a column that
    only follows another one far outside is then reported too. "extend": columns go on beyond the reference as their
    last quantiles do, not below 0 where the reference has nothing below, and so does their dependence: what follows
    from the other columns is not reported. Within the reference the two are the same.

    >>> reference = np.random.default_rng(0).lognormal(size=(200, 3))
    >>> copula(reference)
    copula(200 reference rows, 3 columns)
    """
    if beyond not in ("hold", "extend"):
        raise InputError(f"beyond must be 'hold' or 'extend', got {beyond!r}")
    table = as_table(reference, "reference")
    check_numeric(table, "a copula")
    check_complete(table, "reference")
    values = table.values.astype(np.float64)
    if len(values) < 2:
        raise InputError("the reference has one row; a copula needs at least 2, and better 10 per column")
    margins = tuple(margin(column, tails=beyond == "extend") for column in values.T)
    for name, own in zip(table.columns, margins, strict=True):
        if len(own.distinct) == 1:
            raise InputError(
                f"column {name!r} of the reference is constant ({own.distinct[0]:g}): a copula cannot redraw it; "
                "drop the column from data and reference, or use butfor.tabular.empirical"
            )
    scores = np.column_stack([own.ranked(column) for own, column in zip(margins, values.T, strict=True)])
    # No p-value is below 1 / (m + 1) anyway: the far tails of Student's t would change nothing but the time it takes.
    fitted = replace(gaussian(scores), freedom=None)
    latent = replace(fitted, columns=table.columns, kinds=table.named_kinds, whole_numbers=(None,) * len(margins))
    return Copula(latent, margins, beyond)
