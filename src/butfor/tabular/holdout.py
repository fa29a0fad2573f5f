"""What the holdout test needs of a fitted sampler: one that has not seen the row, and the label less what others tell.

With labels, Q is the population of the data, of which the data itself is a sample: a row is redrawn by a sampler that
was fitted on the reference and on all other folds of the data (METHODS 11 (12)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from butfor.core.draw.samplers import SamplerInfo, info_of
from butfor.core.draw.streams import stream
from butfor.core.types import Array, Batch, Bools, Floats, InputError, Ints, Subset
from butfor.tabular.check import check_table
from butfor.tabular.check_result import SamplerCheck
from butfor.tabular.donors import reference_rows
from butfor.tabular.residual.design import Space
from butfor.tabular.residual.ridge import best_penalty, rotate
from butfor.tabular.splice import TableSampler, splice
from butfor.tabular.table import Table
from butfor.tabular.zoom import stand_ins

FOLDS, FEWEST_FOLDS = 5, 2
MOST_FITS = 400  # subsets x folds: wide tables get fewer folds
LEAST_ROWS = 20  # of what a sampler is fitted on
LEAST_CHECKED, MOST_CHECKED, CHECK_DRAWS = 50, 400, 49  # rows of a check, and draws of each
MOST_SUBSETS = 30  # that are checked: about 10 s


@dataclass(frozen=True, eq=False, repr=False)
class CrossFitted:
    """A sampler for rows that are known: each is redrawn by the fit of a fold that it is not in."""

    fits: tuple[TableSampler, ...]
    table: Table
    folds: Ints  # (n,) the same for equal rows

    def __repr__(self) -> str:
        first = self.fits[0]
        return f"{first.name}({first.rows} rows of reference and other folds, {len(self.fits)} folds)"

    @property
    def why(self) -> str | None:
        """Why this sampler and no other."""
        return self.fits[0].why

    @property
    def info(self) -> SamplerInfo:
        """Facts of the first fit."""
        return replace(info_of(self.fits[0]), identity=repr(self))

    @cached_property
    def _fold_of(self) -> dict[bytes, int]:
        return {key: int(fold) for key, fold in zip(_keys(self.table.values), self.folds, strict=True)}

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns, (len(inputs) * draws, columns), input-major."""
        folds = np.array([self._fold_of.get(key, 0) for key in _keys(inputs)], np.int64)  # no fit knows other rows
        drawn = np.empty((len(inputs), draws, len(subset.index)), inputs.dtype)
        for fold in np.unique(folds):
            rows = np.flatnonzero(folds == fold)
            drawn[rows] = self.fits[fold].values(inputs[rows], subset, draws, rng).reshape(len(rows), draws, -1)
        return drawn.reshape(-1, len(subset.index))

    def repeats(self, subset: Subset) -> bool:
        """Whether draws come again so often that remembering the model's answers pays."""
        return self.fits[0].repeats(subset)


def cross_fitted(sampler: TableSampler, table: Table, alike: Ints, subsets: int, seed: int) -> CrossFitted:
    """A sampler of the same kind for the rows of `table`: fitted on its reference and the other folds of the table.

    `alike` (n,) is equal for equal rows, which stay together. Where the data stand in the reference, they leave it.
    """
    reference = sampler.reference
    assert reference is not None
    assert sampler.again is not None
    own = sampler.given(table.values).astype(reference.values.dtype)
    other = reference.values[~_repeated(reference.values, own)]
    _, first, place = np.unique(alike, return_index=True, return_inverse=True)
    units = np.argsort(np.argsort(first))[place.reshape(-1)]  # numbered as they come, whatever the order of columns
    different = len(first)
    count = int(np.clip(MOST_FITS // max(subsets, 1), FEWEST_FOLDS, FOLDS))
    if len(other) + different * (count - 1) // count < LEAST_ROWS or different < count:
        raise InputError(
            f"{len(other)} reference rows and {different} different rows of data are too few to fit a sampler on; "
            f"give {LEAST_ROWS} or more rows of the population as reference, or a sampler of your own"
        )
    folds = stream(seed, "holdout", "folds").permutation(np.arange(different) % count)[units]
    fits = []
    for fold in range(count):
        values = np.concatenate([other, own[folds != fold]])
        fitted = sampler.again(replace(reference, values=values, index=tuple(range(len(values))), row_labels=None))
        fits.append(replace(fitted, order=sampler.order, kinds=sampler.kinds, why=sampler.why))
    return CrossFitted(tuple(fits), table, folds)


def _repeated(reference: Array, data: Array) -> Bools:
    """Reference rows (m,) that are the data's own: it is the data, or holds every row of data whose rows differ."""
    if reference.shape == data.shape and np.array_equal(reference, data, equal_nan=True):
        return np.ones(len(reference), bool)
    known, held = set(_keys(data)), _keys(reference)
    found = np.array([key in known for key in held], bool)
    mostly_different = len(known) > 0.9 * len(data)  # equal rows are then the same ones, and not equal by chance
    return found if mostly_different and known <= set(held) else np.zeros(len(reference), bool)


def _keys(values: Array) -> list[bytes]:
    """What tells rows apart; all missing values are one."""
    plain = np.where(np.isnan(values), np.nan, values.astype(np.float64) + 0.0)
    return [row.tobytes() for row in np.ascontiguousarray(plain)]


def check_on(
    sampler: TableSampler | CrossFitted, table: Table, subsets: Sequence[Subset], seed: int
) -> SamplerCheck | None:
    """The check of a sampler on rows that it has not seen; None with too few of them."""
    count = len(table.values)
    if count < LEAST_CHECKED:
        return None
    rows = np.sort(stream(seed, "holdout", "check").permutation(count)[:MOST_CHECKED])
    places = np.sort(stream(seed, "holdout", "subsets").permutation(len(subsets))[:MOST_SUBSETS])
    names = {subsets[place].name: subsets[place].index.tolist() for place in places}
    found = check_table(sampler, table.show(table.values[rows], rows), subsets=names, draws=CHECK_DRAWS, seed=seed)
    left_out = tuple(subset.name for subset in subsets if subset.name not in names)
    if not left_out:
        return found
    said = f"{len(names)} of {len(subsets)} subsets, picked at random, were checked; butfor.check_sampler checks all."
    return replace(found, left_out=left_out, notes=(*found.notes, said))


def check_on_reference(
    sampler: TableSampler | CrossFitted, table: Table, subsets: Sequence[Subset], seed: int
) -> SamplerCheck | None:
    """The same on rows of the sampler's own reference, each redrawn by a fit without it; shown as `table` is."""
    import pandas as pd

    if isinstance(sampler, CrossFitted) or sampler.reference is None or sampler.again is None:
        return None
    count = len(sampler.reference.values)
    if count < LEAST_CHECKED:
        return None
    own = replace(
        table,
        values=sampler.in_data_order(sampler.reference.values).astype(table.values.dtype),
        index=tuple(range(count)),
        row_labels=None if table.labels is None else pd.RangeIndex(count),
    )
    alike = np.unique(own.values, axis=0, return_inverse=True)[1].reshape(-1)
    return check_on(cross_fitted(sampler, own, alike, len(subsets), seed), own, subsets, seed)


def stand_ins_of(sampler: object, table: Table) -> list[list[str]]:
    """Columns that tell each other, in the reference that the sampler was fitted on; of a known one in the data."""
    values, fitted = table.values, sampler.fits[0] if isinstance(sampler, CrossFitted) else sampler
    if isinstance(fitted, TableSampler) and fitted.reference is not None:
        values = fitted.in_data_order(fitted.reference.values)
    return stand_ins(replace(table, values=values))


@dataclass(frozen=True, eq=False)
class LabelRest:
    """What is left of labels when they are regressed on predictions and on the rest of each row (ridge, splines)."""

    table: Table
    subsets: Sequence[Subset]

    @cached_property
    def _space(self) -> Space:
        return Space(reference_rows(self.table))

    def __call__(self, subset: int, left: Floats, predicted: Floats) -> Floats:
        """The residuals (n, C) of labels less predictions, (n, C) both; it never sees the subset's own columns."""
        count = len(left)
        _, rest = self._space.rows.parts(self.subsets[subset])
        form = self._space.forms(rest, count)[-1]
        features, _ = self._space.reference(rest, form, np.arange(count))
        rotated = rotate(np.column_stack([features, *map(_even, predicted.T)]))
        kept = np.empty_like(left)
        for k, wanted in enumerate(left.T):
            penalty = np.array([best_penalty(rotated, wanted)])
            missed, leverage = (part[:, 0] for part in rotated.fits(wanted[:, None], penalty))
            kept[:, k] = missed * (1 - leverage)
        return kept


def _even(values: Floats) -> Floats:
    """Mean 0 and spread 1, or all 0."""
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 0 else np.zeros_like(values)
