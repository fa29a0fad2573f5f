"""The words that every stage shares: subset, sampler, model, guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Batch = Any  # an array (n, width), or a list of n images or texts

Test = Literal["sequential", "irt", "osft", "few-shot"]
Alternative = Literal["greater", "less", "two-sided"]
Rule = Literal["bh", "by", "holm", "bonferroni", "e-bh", "knockoff+", "seqstep"]
Family = Literal["run", "input"]


class InputError(ValueError):
    """Something the user gave cannot be used; the message says what came, what was expected and what to do."""


class ModelError(InputError):
    """The model or the sampler raised, or returned something that is not one finite number per row and output."""


class ReachWarning(UserWarning):
    """The run as asked for cannot report some signals, however strong they are."""


@dataclass(frozen=True)
class Subset:
    """One thing to test. `index` is opaque to the core: columns of a table, a box of an image, a span of a text."""

    name: str
    index: Any


class Sampler(Protocol):
    """The conditional Q: redraws a subset of every input, given the rest of that input.

    Returns `len(inputs) * draws` whole inputs, input-major, in which only the subset differs. A sampler of tables may
    also have `values(inputs, subset, draws, rng)`, which returns only the new columns; it is used where it exists.
    """

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator, /) -> Batch: ...


Model = Callable[[Batch], Any]  # a batch of n inputs -> array (n,) or (n, outputs)


@dataclass(frozen=True)
class Guarantee:
    """What a selection promises. `str()` of it is one honest sentence."""

    controls: Literal["FDR", "FWER", "nothing"]
    level: float
    family: str
    assumption: str
    proven_by: str
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        caveats = "".join(f" {caveat}" for caveat in self.caveats)
        if self.controls == "nothing":
            return f"No error rate is controlled over {self.family}: {self.assumption}.{caveats}"
        rate = {"FDR": "The false discovery rate", "FWER": "The probability of any false discovery"}[self.controls]
        return (
            f"{rate} over {self.family} is at most {self.level:g}, provided that {self.assumption} "
            f"({self.proven_by}).{caveats}"
        )
