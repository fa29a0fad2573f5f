"""The output for listed values of a group of columns: what of each tree the other columns leave open is looked up."""

from __future__ import annotations

import numpy as np

from butfor.core.types import Array, Floats, Ints
from butfor.tabular.exact_trees.masks import LeafMasks, Words
from butfor.tabular.exact_trees.steps import StepFunctions

WORDS = 2**19  # words that are worked on at a time


def group_sums(steps: StepFunctions, pieces: Ints, columns: Ints, values: Array) -> Floats:
    """Sums of leaves (n, V, K) for values (n, V, columns) of a group, other columns in the pieces (n, all columns)."""
    index = steps.index
    fresh = np.stack([index.pieces_of(int(j), values[..., k]) for k, j in enumerate(columns)], axis=2)
    total = np.zeros((*values.shape[:2], index.units.shape[1]))
    if steps.masks is not None:
        total += _by_words(steps.masks, pieces, columns, fresh)
    if steps.walker is not None:
        rows = np.repeat(pieces[:, None], values.shape[1], axis=1)
        rows[..., columns] = fresh
        flat, size = rows.reshape(-1, rows.shape[2]), max(1, WORDS // len(steps.walker.trees))
        roots = index.splits.ensemble.roots[steps.walker.trees]
        parts = [index.units[index.leaves_of(flat[a : a + size], roots)].sum(axis=1) for a in range(0, len(flat), size)]
        total += np.concatenate(parts).reshape(total.shape)
    return total


def _by_words(masks: LeafMasks, pieces: Ints, columns: Ints, fresh: Ints) -> Floats:
    """Trees without a split of the group are the same for all its values; in the others one leaf is left each time."""
    chosen = [int(j) for j in columns if int(j) in masks.columns]
    base: Words = np.zeros((len(pieces), len(masks.trees)), masks.every.dtype)
    for j, column in masks.columns.items():
        if j not in chosen:
            base |= column.shut[pieces[:, j]]
    split = np.zeros(len(masks.trees), bool)
    for j in chosen:
        split |= masks.columns[j].shut.any(axis=0)
    still, moved = np.flatnonzero(~split), np.flatnonzero(split)
    open_still = masks.leaf_of(masks.every[still] & ~base[:, still], still)
    total = np.empty((*fresh.shape[:2], len(masks.values)))
    total[:] = np.stack([own[open_still].sum(axis=1) for own in masks.values], axis=1)[:, None]
    if not moved.size:
        return total
    tables = [(list(columns).index(j), masks.columns[j].shut[:, moved]) for j in chosen]
    size = max(1, WORDS // (len(moved) * fresh.shape[1]))
    for a in range(0, len(pieces), size):
        shut: Words = np.repeat(base[a : a + size, None][:, :, moved], fresh.shape[1], axis=1)
        for k, table in tables:
            shut |= table[fresh[a : a + size, :, k]]
        leaf = masks.leaf_of(masks.every[moved] & ~shut, moved)
        for k, own in enumerate(masks.values):
            total[a : a + size, :, k] += own[leaf].sum(axis=2)
    return total
