"""What a bed is: inputs, a model, a sampler and the truth about every hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

from butfor.evaluation.samplers import Sampler
from butfor.types import Bools, Floats, Model


@dataclass(frozen=True, eq=False)
class Bed:
    """A problem whose answer is known. `truth` says for each input and column whether the null is false."""

    name: str
    inputs: Floats  # (n, d)
    model: Model
    sampler: Sampler
    truth: Bools  # (n, d)

    def __repr__(self) -> str:
        count, width = self.inputs.shape
        return f"<Bed {self.name!r}: {count} inputs, {width} columns, {int(self.truth.sum())} true signals>"
