"""What the way to a node asks of each column: which of its pieces can get there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.types import Bools, Ints
from butfor.tabular.exact_trees.index import TreeIndex


@dataclass(frozen=True, eq=False)
class Demands:
    """One demand on the way to a node: pieces `low` to `high` (left out) of a column, and missing values or not."""

    target: Ints  # which of the nodes asked for
    column: Ints
    low: Ints
    high: Ints
    missing: Bools
    split: Ints  # the row of `sets` of a split by categories, -1: by threshold
    left: Bools  # the way goes left there


def demands(index: TreeIndex, targets: Ints, *, own_column: bool = False) -> Demands:
    """All demands on the way from the roots to `targets`; with `own_column` those on the column that a node splits."""
    splits, ensemble = index.splits, index.splits.ensemble
    inner = np.flatnonzero(splits.feature >= 0)
    parent, is_left = np.full(len(splits.feature), -1), np.zeros(len(splits.feature), bool)
    parent[ensemble.left[inner]], parent[ensemble.right[inner]] = inner, inner
    is_left[ensemble.left[inner]] = True
    place, below, above = np.arange(len(targets)), targets, parent[targets]
    found: list[tuple[Ints, Ints, Bools]] = []
    while (there := above >= 0).any():
        if not there.all():
            place, below, above = place[there], below[there], above[there]
        found.append((place, above, is_left[below]))
        below, above = above, parent[above]
    target, node, left = (np.concatenate(part) for part in zip(*found, strict=True)) if found else _nothing()
    if own_column:
        wanted = splits.feature[node] == splits.feature[targets[target]]
        target, node, left = target[wanted], node[wanted], left[wanted]
    column, rank = splits.feature[node], index.rank[node]
    end = index.missing[column]  # one more than the last piece
    return Demands(
        target=target,
        column=column,
        low=np.where(left, 0, rank + 1),
        high=np.where(left, rank + 1, end),
        missing=splits.missing_left[node] == left,
        split=splits.members[node],
        left=left,
    )


def _nothing() -> tuple[Ints, Ints, Bools]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool)


def spans(asked: Demands, size: int) -> tuple[Ints, Ints, Ints, Ints, Bools]:
    """Demands by threshold put together: columns, targets, the range (low, high) and whether missing values may go."""
    by_threshold = asked.split < 0
    key = (asked.column * size + asked.target)[by_threshold]
    order = np.argsort(key, kind="stable")
    if not order.size:
        none = np.zeros(0, np.int64)
        return none, none, none, none, np.zeros(0, bool)
    key = key[order]
    first = np.flatnonzero(np.append(True, np.diff(key) > 0))
    low = np.maximum.reduceat(asked.low[by_threshold][order], first)
    high = np.minimum.reduceat(asked.high[by_threshold][order], first)
    missing = np.logical_and.reduceat(asked.missing[by_threshold][order], first)
    return (
        key[first] // size,
        key[first] % size,
        low,
        np.maximum(low, high),
        missing,
    )  # of an empty range: both the same
