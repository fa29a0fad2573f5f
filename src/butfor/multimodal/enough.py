"""Which words and regions of inputs of several parts may be enough for a decision, and the rest redrawn (METHODS 17).

Each part is redrawn given what is kept of it, apart from the others. One of which nothing is kept is redrawn as a
whole: a sampler of images that cannot do that leaves out such sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.evaluation.hypotheses import Hypotheses, Parts, finest_parts
from butfor.evaluation.samplers import Sampler, SamplerInfo, info_of
from butfor.image import enough as images
from butfor.text import enough as texts
from butfor.types import InputError, Subset


def kept_everywhere(hypotheses: Hypotheses, samplers: Mapping[str, Sampler], first: Mapping[str, Any]) -> Parts:
    """Return what may be kept; `first` is an input, which tells the texts among its parts from the images."""
    redrawn: dict[str, Sampler] = {}
    for part, sampler in samplers.items():
        value = first[part]
        is_image = isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype == np.uint8
        if info_of(sampler).whole or not (is_image or isinstance(value, str)):
            raise InputError(
                f"enough= is for texts and images that are redrawn by themselves, and {part!r} is not; drop enough="
            )
        redrawn[part] = sampler if is_image else texts.Rest(sampler)

    def rest_of(item: Mapping[str, Any], kept: Sequence[Subset]) -> tuple[tuple[str, Any], ...] | None:
        rests = []
        for part in redrawn:
            inner = [Subset(one.name, one.index[1]) for one in kept if one.index[0] == part]
            if not inner and not fills_whole(part):
                return None
            rest = (texts if isinstance(item[part], str) else images).rest_of(item[part], inner)
            rests += [] if rest is None else [(part, rest)]
        return tuple(rests) or None

    def fills_whole(part: str) -> bool:
        return isinstance(redrawn[part], texts.Rest) or info_of(redrawn[part]).fills_whole

    sampler = RestOfParts(redrawn, info_of(hypotheses.sampler))
    return Parts(finest_parts(hypotheses), rest_of, sampler, all(map(fills_whole, redrawn)))


@dataclass(frozen=True, eq=False)
class RestOfParts:
    """Redraws something of several parts of an input, each by its sampler."""

    samplers: Mapping[str, Sampler]
    info: SamplerInfo

    def __repr__(self) -> str:
        return self.info.identity

    def __call__(
        self, inputs: Sequence[Mapping[str, Any]], subset: Subset, draws: int, rng: np.random.Generator
    ) -> list[Mapping[str, Any]]:
        made = [dict(item) for item in inputs for _ in range(draws)]
        for part, rest in subset.index:
            fresh = self.samplers[part]([item[part] for item in inputs], Subset(subset.name, rest), draws, rng)
            for item, value in zip(made, fresh, strict=True):
                item[part] = value
        return list(made)
