"""Answers that the model has given: the same counterfactual of the same input is evaluated once in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem
from butfor.core.draw.samplers import ListsSupport, RepeatsDraws
from butfor.core.evaluate.workplace import Key, UnitContext
from butfor.core.types import Floats, Subset

MOST_KNOWN = 2**20  # answers that are remembered at once; what comes again after that is asked again


@dataclass
class Memory:
    """Outputs on the observed inputs (n, outputs), and on counterfactuals by hypothesis and value of the subset.

    Only subsets whose draws repeat are remembered: continuous draws never come again.
    """

    observed: Floats
    subsets: frozenset[str]
    known: dict[int, dict[bytes, Floats]] = field(default_factory=dict)
    held: int = 0

    def of(self, jobs: Iterable[Job]) -> dict[int, dict[bytes, Floats]]:
        """What is known of the hypotheses of some jobs."""
        rows = (row for job in jobs if job.block.subset.name in self.subsets for row in job.rows.tolist())
        return {row: self.known[row] for row in rows if row in self.known}

    def learn(self, news: Mapping[Key, Floats]) -> None:
        """Remember more, as long as there is room."""
        for (row, value), outputs in islice(news.items(), max(MOST_KNOWN - self.held, 0)):
            self.known.setdefault(row, {})[value] = outputs
            self.held += 1

    def clear_if_full(self) -> None:
        """Between stages only, so that what is known does not depend on the order in which units are done."""
        if self.held >= MOST_KNOWN:
            self.known.clear()
            self.held = 0


def lookup(context: UnitContext, batch: CounterfactualBatch) -> tuple[list[Key], CounterfactualBatch]:
    """The keys of all rows of a batch, and a batch of the rows that are not known yet."""
    items, observed = context.place.problem.items, context.place.observed
    assert observed is not None
    rows = np.repeat(batch.job.rows, batch.versions).tolist()
    keys = list(zip(rows, items.keys(batch.values), strict=True))
    context.news.update(zip(keys[:: batch.versions], observed[batch.job.inputs], strict=True))
    fresh = {key: row for row, key in reversed(list(enumerate(keys))) if not context.is_known(key)}
    places = np.array(sorted(fresh.values()), dtype=np.int64)
    inputs = items.take(batch.inputs, places // batch.versions)
    values = items.take(batch.values, places)
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
