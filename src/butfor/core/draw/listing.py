"""Counterfactuals that a sampler lists, in place of drawing some: all values, with their probabilities (METHODS 9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.draw.blocks import Block, CounterfactualBatch, Job, Problem
from butfor.core.draw.items import Items, Values
from butfor.core.draw.samplers import ListsSupport, info_of
from butfor.core.types import Floats, InputError, ModelError

SUPPORT = "support"  # the round of jobs that are listed
USUAL = 64  # values of a list whose length is not known beforehand


@dataclass(frozen=True, eq=False)
class Support:
    """Probabilities of what is listed (n, m), the mass beside it (n,) and the least p-values (n,)."""

    mass: Floats
    beside: Floats
    least: Floats


@dataclass(frozen=True)
class Listed:
    """What a sampler lists for one block: the counterfactuals, the mass beside them and the least p-values (n,)."""

    batch: CounterfactualBatch
    beside: Floats
    least: Floats

    @property
    def support(self) -> Support:
        assert self.batch.mass is not None
        return Support(self.batch.mass, self.beside, self.least)


def listing_job(problem: Problem, block: Block) -> Job:
    """The job that lists a block; how many values that gives is known once it is done."""
    return Job(block, info_of(problem.sampler).listed or USUAL, SUPPORT)


def listed_block(problem: Problem, block: Block) -> Listed:
    """What the sampler lists for the inputs of a block."""
    items, sampler, name = problem.items, problem.sampler, f"support of {problem.name_of(block)}"
    assert isinstance(sampler, ListsSupport)
    inputs = items.block(block.start, block.stop)
    try:
        drawn, mass = items.support(sampler, inputs, block.subset, name)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"the {name} raised {type(error).__name__}: {error}") from error
    mass = _distribution(mass, name)
    job = Job(block, mass.shape[1], SUPPORT)
    values = items.splice(inputs, block.subset, drawn)
    batch = CounterfactualBatch(job, inputs, values, mass.shape[1] + 1, mass=mass)
    return Listed(batch, _beside(items, values, mass), items.likely(inputs, drawn, mass))


def _beside(items: Items, values: Values, mass: Floats) -> Floats:
    """Mass (n,) that counts against us beside the list: what is not listed or, in a full list, an unlisted input."""
    unlisted = np.asarray(np.maximum(1 - mass.sum(axis=1), 0))
    full = unlisted <= FULL
    if not full.any():
        return unlisted
    keys = np.array(items.keys(values), dtype=object).reshape(len(mass), -1)
    held = ((keys[:, 1:] == keys[:, :1]) & (mass > 0)).any(axis=1)
    least = np.where(mass > 0, mass, np.inf).min(axis=1)
    return np.asarray(np.where(full & ~held, least, unlisted))  # without it p could be 0


FULL = 1e-9  # a list that leaves no more than this unlisted claims all mass


def _distribution(mass: Floats, name: str) -> Floats:
    numbers = mass.dtype.kind in "fiub" and np.isfinite(mass).all() and (mass >= 0).all()
    if not numbers or (mass.sum(axis=1) > 1 + FULL).any() or (mass.sum(axis=1) <= 0).any():
        raise InputError(f"the {name} has probabilities that are no distribution; they must sum to at most 1")
    return np.asarray(mass, np.float64)
