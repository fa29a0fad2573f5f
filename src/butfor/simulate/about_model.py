"""Beds on which a feature counts only if the model relies on it: boosted trees with noise columns, and copies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from butfor.simulate.beds import Bed
from butfor.simulate.models import weighted_abs
from butfor.streams import stream
from butfor.tabular.gaussian import Gaussian
from butfor.tabular.splice import from_values
from butfor.types import Array, Bools, Floats, InputError, Ints, Subset

SHARE, SHIFT = 0.3, 4.0  # as in the paper: a signal comes from N(4, 1)
TREE_PAIRS, TREE_CORRELATION = 10, 0.5
COPY_PAIRS, COPY_CORRELATION = 12, 0.9
TRAINING = 2000  # rows that the trees are fitted on


@dataclass(frozen=True, eq=False)
class GridPairs:
    """Columns k and k + pairs are two normals of some correlation, rounded to a grid: every conditional is a list."""

    pairs: int
    correlation: float
    low: float = -6.0
    high: float = 9.0
    step: float = 0.25

    changes_subset_only = True

    @cached_property
    def levels(self) -> Floats:
        """The values that a column can have."""
        return np.arange(self.low, self.high + self.step / 2, self.step)

    @cached_property
    def given(self) -> Floats:
        """(levels, levels): row b is the law of a column whose partner has the b-th value."""
        mass = np.exp(-((self.levels - self.correlation * self.levels[:, None]) ** 2) / (2 - 2 * self.correlation**2))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def place(self, values: Floats) -> Ints:
        """Where values stand in the grid; what lies outside is held at its ends."""
        places = np.rint((values - self.low) / self.step)
        return np.clip(places, 0, len(self.levels) - 1).astype(np.int64)

    def partner(self, subset: Subset) -> int:
        """The column that the subset's column goes with."""
        if len(subset.index) != 1:
            raise InputError(f"this bed redraws one column at a time, got {subset.name!r}; test columns")
        return int((subset.index[0] + self.pairs) % (2 * self.pairs))

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """New values of one column given its partner, (len(inputs) * draws, 1), input-major."""
        return self.follow(np.repeat(inputs[:, self.partner(subset)], draws), rng)[:, None]

    def follow(self, partners: Floats, rng: np.random.Generator) -> Floats:
        """A value for each partner, by inversion."""
        below = np.cumsum(self.given, axis=1)[self.place(partners)]
        drawn = (below < rng.random(len(partners))[:, None] * below[:, -1:]).sum(axis=1)
        return np.asarray(self.levels[drawn])

    def lists(self, subset: Subset) -> bool:
        """Single columns can be listed: tests are then exact."""
        return len(subset.index) == 1

    def support(self, inputs: Array, subset: Subset) -> tuple[Floats, Floats]:
        """All values (n, levels, 1) of one column and their probabilities (n, levels)."""
        mass = self.given[self.place(inputs[:, self.partner(subset)])]
        return np.broadcast_to(self.levels[None, :, None], (*mass.shape, 1)), mass

    def __call__(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        rows = np.repeat(inputs, draws, axis=0)
        rows[:, subset.index] = self.values(inputs, subset, draws, rng)
        return rows


def boosted_trees(name: str, seed: int, *, inputs: int = 100) -> Bed:
    """Boosted trees fitted to sum w_k |x_k| + noise over ten columns, each with a noise column that goes with it (.5).

    A share of 0.3 of the entries of the ten comes from N(4, 1), and the noise columns follow. The trees split on noise
    columns as well; those are null all the same, since their values have the law Q. True: shifted, and at this row the
    trees are not constant in the column.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    rows, shifted = tree_rows(seed, inputs, SHARE, "inputs")
    seen, _ = tree_rows(seed, TRAINING, SHARE, "training")
    rng = stream(seed, "boosted-trees", "response")
    response = weighted_abs(seen, rng.uniform(0.5, 2.0, TREE_PAIRS)) + rng.standard_normal(TRAINING)
    trees = HistGradientBoostingRegressor(max_iter=100, max_leaf_nodes=15, early_stopping=False, random_state=0)
    trees.fit(seen, response)
    law = GridPairs(TREE_PAIRS, TREE_CORRELATION)
    varies = np.zeros_like(shifted)
    for column in range(TREE_PAIRS):
        versions = np.repeat(rows[shifted[:, column]], len(law.levels), axis=0)
        versions[:, column] = np.tile(law.levels, int(shifted[:, column].sum()))
        varies[shifted[:, column], column] = np.ptp(trees.predict(versions).reshape(-1, len(law.levels)), axis=1) > 0
    return Bed(name, rows, trees.predict, law, shifted & varies)


def tree_rows(seed: int, count: int, share: float, what: str) -> tuple[Floats, Bools]:
    """Rows of ten columns and their noise columns on the grid, and which entries were shifted."""
    law, rng = GridPairs(TREE_PAIRS, TREE_CORRELATION), stream(seed, "boosted-trees", what)
    shifted = np.zeros((count, 2 * TREE_PAIRS), bool)
    shifted[:, :TREE_PAIRS] = rng.random((count, TREE_PAIRS)) < share
    used = law.levels[law.place(rng.standard_normal((count, TREE_PAIRS)) + SHIFT * shifted[:, :TREE_PAIRS])]
    noise = np.stack([law.follow(column, rng) for column in used.T], axis=1)
    return np.hstack([used, noise]), shifted


def copies(name: str, seed: int, *, inputs: int = 100) -> Bed:
    """sum w_k |x_k| over twelve columns, each with a copy (correlation .9) that the model does not use.

    A share of 0.3 of the entries of the twelve is replaced by N(4, 1); the copies are not. A copy then contradicts its
    column, but no redrawn copy changes the output. True: the replaced ones.
    """
    rows, replaced = copied_rows(seed, inputs, SHARE, "inputs")
    weights = 0.5 + stream(seed, "copies", "weights").gamma(1.0, 1.0, COPY_PAIRS)
    covariance = np.kron([[1.0, COPY_CORRELATION], [COPY_CORRELATION, 1.0]], np.eye(COPY_PAIRS))
    law = Gaussian(np.zeros(2 * COPY_PAIRS), np.asarray(np.linalg.inv(covariance)), (None,) * (2 * COPY_PAIRS))
    return Bed(name, rows, partial(weighted_abs, weights=weights), from_values(law.values), replaced)


def copied_rows(seed: int, count: int, share: float, what: str) -> tuple[Floats, Bools]:
    """Rows of twelve columns and their copies, and which entries were replaced."""
    rng = stream(seed, "copies", what)
    used, noise = rng.standard_normal((2, count, COPY_PAIRS))
    copy = COPY_CORRELATION * used + np.sqrt(1 - COPY_CORRELATION**2) * noise
    replaced = np.hstack([rng.random((count, COPY_PAIRS)) < share, np.zeros((count, COPY_PAIRS), bool)])
    signal = SHIFT + rng.standard_normal((count, COPY_PAIRS))
    return np.hstack([np.where(replaced[:, :COPY_PAIRS], signal, used), copy]), replaced
