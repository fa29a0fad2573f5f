"""Sampler: of inputs with several parts, made of one for each part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from butfor.core.draw.samplers import HasNotes, ListsSupport, RepeatsDraws, Sampler, SamplerInfo, info_of
from butfor.core.types import Floats, InputError, Subset

Parts = Mapping[str, Any]
APART = (
    "Each part is redrawn given the rest of that part alone. Where parts tell of each other, as a caption does of its "
    "image, that is not the law of the one given the other: use a sampler with whole=True, which is shown all parts."
)


@dataclass(frozen=True, eq=False)
class PartsSampler:
    """A sampler of inputs with several parts, made of one for each."""

    samplers: Mapping[str, Sampler]

    def __repr__(self) -> str:
        return f"multimodal({', '.join(f'{part}={sampler!r}' for part, sampler in self.samplers.items())})"

    @property
    def info(self) -> SamplerInfo:
        """What is true of one of them is true of the whole where it is a fault, and of all where it is a virtue."""
        infos = list(map(info_of, self.samplers.values()))
        return replace(
            infos[0],
            identity=repr(self),
            deterministic=any(info.deterministic for info in infos),  # then no test of the whole run has a null
            ignores_dependence=any(info.ignores_dependence for info in infos),
            takes_missing=any(info.takes_missing for info in infos),
            changes_subset_only=all(info.changes_subset_only for info in infos),
            whole=False,
            floor=partial(_floor, self.samplers),
            reference_rows=None,
            kinds=None,
            tokenizer=None,
            listed=0,
        )

    def __call__(self, inputs: Sequence[Parts], subset: Subset, draws: int, rng: np.random.Generator) -> list[Parts]:
        part, own = inner(subset)
        sampler = self.samplers[part]
        if info_of(sampler).whole:
            return list(sampler(inputs, own, draws, rng))
        fresh = sampler([item[part] for item in inputs], own, draws, rng)
        owners = [item for item in inputs for _ in range(draws)]
        if len(fresh) != len(owners):
            raise InputError(f"the sampler of {part!r} returned {len(fresh)} parts, expected {len(owners)}")
        return [{**item, part: value} for item, value in zip(owners, fresh, strict=True)]

    def lists(self, subset: Subset) -> bool:
        """Whether the sampler of its part can list a subset."""
        part, own = inner(subset)
        sampler = self.samplers[part]
        return isinstance(sampler, ListsSupport) and bool(sampler.lists(own))

    def repeats(self, subset: Subset) -> bool:
        """Whether the draws of its part repeat."""
        part, own = inner(subset)
        sampler = self.samplers[part]
        return (isinstance(sampler, RepeatsDraws) and bool(sampler.repeats(own))) or self.lists(subset)

    def support(self, inputs: Sequence[Parts], subset: Subset) -> tuple[list[list[Parts]], Floats]:
        """What the sampler of the part lists, each with the other parts as they are."""
        part, own = inner(subset)
        sampler = self.samplers[part]
        assert isinstance(sampler, ListsSupport)
        if info_of(sampler).whole:
            listed, mass = sampler.support(inputs, own)
            return listed, mass
        versions, mass = sampler.support([item[part] for item in inputs], own)
        return [[{**x, part: v} for v in row] for x, row in zip(inputs, versions, strict=True)], mass

    def notes(self, inputs: Sequence[Parts], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:
        """What is to be said of it, and what the samplers of the parts say of themselves."""
        apart = len(self.samplers) > 1 and not all(info_of(sampler).whole for sampler in self.samplers.values())
        notes = [APART] if apart else []
        for part, sampler in self.samplers.items():
            if isinstance(sampler, HasNotes):
                given = [item if info_of(sampler).whole else item[part] for item in inputs]
                own = [[inner(subset)[1] for subset in some if subset.index[0] == part] for some in subsets]
                notes += sampler.notes(given, own, seed)
        return notes


def inner(subset: Subset) -> tuple[str, Subset]:
    """The part that a subset belongs to, and the subset as the sampler of that part knows it."""
    part, index = subset.index
    return part, Subset(subset.name.removeprefix(f"{part}: "), index)


def _floor(samplers: Mapping[str, Sampler], subset: Subset) -> float:
    part, own = inner(subset)
    return info_of(samplers[part]).floor(own)
