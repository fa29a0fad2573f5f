"""Rows of the reference as inputs, each for a sampler that has not seen it: what the negative control tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from butfor.core.draw.blocks import Problem, table_problem
from butfor.core.draw.items import TableItems
from butfor.core.draw.samplers import DrawsColumns, Sampler
from butfor.core.draw.streams import stream
from butfor.core.types import Array, Batch, Ints, Subset
from butfor.tabular.splice import TableSampler, align_columns
from butfor.tabular.table import Table
from butfor.tabular.zoom import ColumnTree

MOST_CONTROLS = 200
ONE_SPLIT = 500  # rows of a reference from which on one split is enough
MOST_FITTED = 5_000  # rows that a sampler is fitted on for the control
FOLDS = 3
LEAST_ROWS = 20  # of a reference: with fewer there is too little to hold out


def control_problems(sampler: TableSampler, table: Table, tree: ColumnTree, seed: int) -> list[Problem]:
    """Those of a run from coarse to fine."""
    made = held_out_problems(sampler, table, tree.subsets, seed)
    return [replace(problem, layers=tree.layers(len(problem.items))) for problem in made]


def held_out_problems(sampler: Sampler, table: Table, subsets: Sequence[Subset], seed: int) -> list[Problem]:
    """One problem for each split of the sampler's reference: rows held out, and a sampler fitted to the others.

    None where it cannot be fitted again. Rows are shown to the model as those of `table`, the data, are.
    """
    reference = sampler.reference if isinstance(sampler, TableSampler) and sampler.again is not None else None
    if reference is None or len(reference.values) < LEAST_ROWS:
        return []
    assert isinstance(sampler, TableSampler)
    made = []
    for held, others in _fitted(sampler, seed):
        fitted: Sampler = align_columns(others, table)  # type: ignore[assignment]  # a TableSampler, as it was
        items = reference_items(sampler, table, held)
        made.append(table_problem(items, tuple(reference.index[i] for i in held), subsets, fitted, seed))
    return made


_known: WeakKeyDictionary[DrawsColumns, dict[int, list[tuple[Ints, TableSampler]]]] = WeakKeyDictionary()


def _fitted(sampler: TableSampler, seed: int) -> list[tuple[Ints, TableSampler]]:
    """Rows held out and a sampler of the others, for each split; made once for a sampler and a seed."""
    assert sampler.reference is not None
    assert sampler.again is not None
    known = _known.setdefault(sampler.law, {})
    if seed not in known:
        splits = _splits(len(sampler.reference.values), stream(seed, "control", "rows"))
        known[seed] = [(held, sampler.again(sampler.reference.take(kept))) for held, kept in splits]
    return known[seed]


def _splits(rows: int, rng: np.random.Generator) -> list[tuple[Ints, Ints]]:
    """Rows to test and rows to fit on, for each fit."""
    mixed = rng.permutation(rows)
    if rows >= ONE_SPLIT:
        return [(np.sort(mixed[:MOST_CONTROLS]), np.sort(mixed[MOST_CONTROLS:][:MOST_FITTED]))]
    most = -(-MOST_CONTROLS // FOLDS)
    folds = np.array_split(mixed, FOLDS)
    return [(np.sort(fold[:most]), np.delete(np.arange(rows), fold)) for fold in folds]


def reference_items(sampler: TableSampler, table: Table, rows: Ints) -> TableItems:
    """Some rows of the sampler's reference, as the model gets those of the data: in their order, with their types."""
    assert sampler.reference is not None
    values: Array = sampler.in_data_order(sampler.reference.values[rows]).astype(table.values.dtype)
    plain = table.labels is None and table.kinds[0].dtype is None
    return TableItems(values, None if plain else partial(_shown, table, sampler.reference.take(rows)))


def _shown(table: Table, own: Table, values: Array, rows: Ints | None) -> Batch:
    """Rows as those of the data are shown, but with their own labels."""
    shown = table.show(values)
    if rows is None or own.row_labels is None or table.labels is None:
        return shown
    return shown.set_axis(own.row_labels.take(rows), axis=0)
