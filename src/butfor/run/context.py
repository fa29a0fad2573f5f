"""What a modality brings to a run, and what a table is compared against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from butfor.core.draw.blocks import Problem
from butfor.core.draw.items import Items
from butfor.core.result.features import Fit
from butfor.core.result.kept import Kept
from butfor.core.test.outcomes import ReadModel
from butfor.core.types import Floats, Ints, Model
from butfor.models import Wrapped


@dataclass(frozen=True, eq=False)
class Reference:
    """What a table is compared against: whole rows in the order of the data's columns, and how well Q is known."""

    items: Items
    fit: Callable[[Problem], Fit | None]  # asked once the inputs are known to be usable: it may fit something
    controls: Callable[[], Sequence[Problem]] | None = None  # held-out rows, by a sampler that has not seen them
    root: int | None = None  # the subset of all columns


@dataclass(frozen=True, eq=False)
class RunContext:
    """What a modality brings to a run: the problem, the model, how inputs are named, what is to be said of Q."""

    problem: Problem
    wrapped: Wrapped
    model_name: str
    batch_rows: int
    describe: Callable[[int], str]  # names an input in an error
    sampler_notes: Callable[[], list[str]]  # sentences on the sampler and the inputs; asked once, when all is drawn
    metadata: dict[str, Any]  # for the provenance
    keep: tuple[int, int]  # counterfactuals of each hypothesis that are kept for reports, and the values of all
    kept_notes: Callable[[Problem, Kept], str | None] | None = None  # a caveat of the promise, from what was kept
    reference: Reference | None = None
    alike: Ints | None = None  # (n,) equal for equal inputs; None: all differ
    read_model: Callable[[Model, Floats], ReadModel] | None = None  # the model, its outputs -> what it says by itself
