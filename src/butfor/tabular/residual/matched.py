"""Whole rows as donors, for groups whose columns only come in some combinations: those that the fit finds alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import Array, Floats, Ints
from butfor.tabular.donors import ReferenceRows, describe

FEWEST, MOST = 20, 200  # donors: a tenth of the rows, but no fewer and no more
OFTEN = 5  # a column is tied where each of its values comes so often on average
CHECKED, DRAWS = 200, 20  # rows of the check, and draws of each
NEARER = 0.35  # the mean rank of real rows' distances among their draws' below which draws are no real combinations
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Matched:
    """The reference rows whose centres (what the fit makes of the rest of the row) are nearest to an input's."""

    mean: Floats  # (q,)
    scale: Floats  # (q,)
    tree: Any  # scipy.spatial.cKDTree
    count: int

    def near(self, centres: Floats) -> Ints:  # (n, q) -> (n, count)
        _, found = self.tree.query((centres - self.mean) / self.scale, self.count)
        return np.asarray(found).reshape(len(centres), self.count)


def matched(centres: Floats) -> Matched:
    """From the centres of all reference rows, (m, q)."""
    from scipy.spatial import cKDTree

    count = min(max(FEWEST, min(len(centres) // 10, MOST)), len(centres))
    mean, scale = centres.mean(axis=0), centres.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return Matched(mean, scale, cKDTree((centres - mean) / scale), count)


def tied(rows: ReferenceRows, columns: Ints) -> int:
    """How many of these columns have values that come again and again."""
    return int((rows.distinct[columns] * OFTEN <= len(rows)).sum())


def impossible(rows: ReferenceRows, columns: Ints, some: Ints, drawn: Array) -> bool:
    """Whether draws (rows, draws, columns) for `some` rows are no combinations as real rows have them.

    A real row has others like it; a draw that joins what never comes together has not. Each row's distance to the
    nearest other one is ranked among those of its draws: of a right law the ranks are even, their mean is 1/2.
    """
    from scipy.spatial import cKDTree

    described = describe(rows, columns)
    tree = cKDTree(described(rows.values.astype(np.float64)))

    def nearest(values: Array, own: Ints) -> Floats:
        whole = np.zeros((len(values), rows.values.shape[1]))
        whole[:, columns] = values
        distance, found = (np.asarray(part) for part in tree.query(described(whole), 2, p=1))
        return np.asarray(np.where(found[:, 0] == own, distance[:, 1], distance[:, 0]))

    real = nearest(rows.values[np.ix_(some, columns)], some)[:, None]
    made = nearest(drawn.reshape(-1, len(columns)), np.repeat(some, drawn.shape[1])).reshape(drawn.shape[:2])
    ranks = (made < real - SAME).mean(axis=1) + (np.abs(made - real) <= SAME).mean(axis=1) / 2
    return bool(ranks.mean() < NEARER)
