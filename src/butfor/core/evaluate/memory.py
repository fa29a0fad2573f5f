"""Answers that the model has given: the same counterfactual of the same input is evaluated once in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Problem
from butfor.core.draw.samplers import ListsSupport, RepeatsDraws
from butfor.core.types import Floats, Subset

MOST_KNOWN = 2**20  # answers that are remembered at once; what comes again after that is asked again


Key = tuple[int, bytes]  # a hypothesis, and what tells its versions apart


@dataclass(frozen=True)
class Memory:
    """Outputs on the observed inputs (n, outputs), and on counterfactuals by hypothesis and value of the subset.

    Only subsets whose draws repeat are remembered: continuous draws never come again.
    """

    observed: Floats
    subsets: frozenset[str]
    known: dict[Key, Floats] = field(default_factory=dict)

    def lookup(
        self, problem: Problem, batch: CounterfactualBatch
    ) -> tuple[list[tuple[int, bytes]], CounterfactualBatch]:
        """The keys of all rows of a batch, and a batch of the rows that are not known yet."""
        rows = np.repeat(batch.job.rows, batch.versions).tolist()
        keys = list(zip(rows, problem.items.keys(batch.values), strict=True))
        observed = self.observed[batch.job.block.start + batch.job.members]
        self.known.update(zip(keys[:: batch.versions], observed, strict=True))
        fresh = {key: row for row, key in reversed(list(enumerate(keys))) if key not in self.known}
        places = np.array(sorted(fresh.values()), dtype=np.int64)
        inputs = problem.items.take(batch.inputs, places // batch.versions)
        values = problem.items.take(batch.values, places)
        return keys, replace(batch, inputs=inputs, values=values, versions=1, places=places, base=None)


def remembering(problem: Problem, observed: Floats, again: bool = True) -> Memory | None:
    """A memory for the subsets whose draws the sampler says repeat (or can be listed); None if there are none.

    Nor is there one for images and texts where a hypothesis is not drawn for `again`: equal texts of a call are one
    row of it anyway.
    """
    if not (again or problem.items.shares_subsets):
        return None
    subsets = problem.subsets
    repeats = _repeats(problem.sampler)
    never = {subset.name for subset in subsets if not repeats(subset)}
    names = frozenset(subset.name for subset in subsets) - never
    return Memory(observed, names) if names else None


def _repeats(sampler: object) -> Callable[[Subset], bool]:
    """Whether draws of a subset come again; asked once of a sampler, since a Protocol takes its time."""
    if isinstance(sampler, RepeatsDraws) and callable(sampler.repeats):
        return sampler.repeats
    return sampler.lists if isinstance(sampler, ListsSupport) else lambda _: False
