"""How well a sampler is known that was fitted on a reference: the leverage of inputs in its fit (METHODS 7, 16)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.draw.samplers import info_of
from butfor.core.result.features import Fit
from butfor.core.types import Array, Floats, Ints, Subset
from butfor.tabular.donors import Description, describe, reference_rows
from butfor.tabular.splice import TableSampler

MOST_COLUMNS = 1_000
RIDGE = 1e-3  # of the mean square of a feature: keeps columns that say the same from making it singular


def fit_of(problem: Problem) -> Fit | None:
    """How well the sampler of a table is known; None: it was not fitted on a reference, as far as is known."""
    sampler = problem.sampler
    if not isinstance(sampler, TableSampler) or sampler.reference is None:
        return None
    inputs = problem.items.block(0, len(problem.items))
    subsets = {block.subset.name: block.subset for block in problem.blocks}
    order = [subsets[name] for name in problem.subset_names]
    found = _own(sampler, inputs, order) or _of_a_regression(sampler, inputs, order)
    copies = _copies(sampler.reference.values)
    each = copies * np.stack([own for own, _ in found], axis=1)  # (n, S), as hypotheses stand
    mean = copies * np.maximum([mean for _, mean in found], 1 / sampler.rows)  # donors' mean is never known better
    return Fit(max(int(sampler.rows / copies), 1), mean, each.reshape(-1))


def _copies(rows: Array) -> float:
    """How often a row of the reference stands in it: copies (oversampling, a bootstrap) tell nothing new.

    Kish's effective size is (sum c)^2 / sum c^2 for counts c. Rows of columns that all have few values may be equal by
    chance, and count as different.
    """
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    telling = any(2 * len(np.unique(column)) >= len(counts) for column in rows.T)  # equal rows: not equal by chance
    if not telling or len(counts) < 10:
        return 1.0
    return float((counts**2).sum() / len(rows))


Leverages = list[tuple[Floats, float]]  # of each subset: at each input (n,), and at the mean of them


def _own(sampler: TableSampler, inputs: Array, subsets: list[Subset]) -> Leverages | None:
    """What the law itself says."""
    found = [sampler.leverages(inputs, subset) for subset in subsets]
    known = [one for one in found if one is not None]
    return known if len(known) == len(subsets) else None


def _of_a_regression(sampler: TableSampler, inputs: Array, subsets: list[Subset]) -> Leverages:
    """Those of a linear regression of any column on all others."""
    count, width = inputs.shape
    margin = (np.full(count, 1 / sampler.rows), 1 / sampler.rows)
    if info_of(sampler).ignores_dependence:
        return [margin] * len(subsets)
    if width > MOST_COLUMNS:  # a regression on so many is known no better than its residual
        return [(np.ones(count), 1.0)] * len(subsets)
    looked = _linear(sampler).at(sampler.given(inputs))
    return [
        margin if len(subset.index) == width else looked.leverages(sampler.placed(subset), sampler.rows)
        for subset in subsets
    ]


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear regression of any column on all others."""

    describe: Description
    owner: Ints  # the column that each feature is of
    middle: Floats
    precision: Floats  # the inverse of the features' products

    def at(self, inputs: Array) -> LinearAt:
        """At these rows, and last at the mean of them."""
        features = self.describe(inputs.astype(np.float64)) - self.middle
        features = np.vstack([features, features.mean(axis=0)])
        turned = features @ self.precision
        return LinearAt(turned, (turned * features).sum(axis=1), self)


@dataclass(frozen=True, eq=False)
class LinearAt:
    """z'P and z'Pz of some rows and of their mean, P the precision of all features."""

    turned: Floats
    length: Floats
    fit: Linear

    def leverages(self, subset: Subset, rows: int) -> tuple[Floats, float]:
        """Without the features of the subset: z'Pz - (Pz)_S' P_SS^-1 (Pz)_S, whatever z_S is (Schur complement)."""
        own = np.flatnonzero(np.isin(self.fit.owner, subset.index))
        part = self.turned[:, own]
        solved = np.linalg.solve(self.fit.precision[np.ix_(own, own)], part.T).T if own.size else part
        found = 1 / rows + np.maximum(self.length - (part * solved).sum(axis=1), 0.0)
        return found[:-1], float(found[-1])


def _linear(sampler: TableSampler) -> Linear:
    table = sampler.reference
    assert table is not None
    rows = reference_rows(table)
    every = np.arange(len(table.columns))
    shape = describe(rows, every)
    features = shape(table.values.astype(np.float64))
    middle = features.mean(axis=0)
    centred = features - middle
    gram = centred.T @ centred
    gram[np.diag_indices_from(gram)] += RIDGE * max(float(np.trace(gram)) / max(len(gram), 1), 1e-12)
    owner = [j for k, j in enumerate(every) for _ in range(_width(shape, k))]
    return Linear(shape, np.array(owner), middle, np.linalg.inv(gram))


def _width(shape: Description, k: int) -> int:
    levels = shape.levels[k]
    return (1 if levels is None else len(levels)) + shape.gappy[k]
