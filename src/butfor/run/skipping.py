"""Inputs and hypotheses that cannot be tested (`on_error="skip"`): found out, stood in for, and told.

They stay in their family with p = 1, so that what is left out cannot help the others: valid whatever makes them fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.draw.items import ListItems, TableItems
from butfor.core.evaluate.patience import TRIES, again, limited, tolerant
from butfor.core.evaluate.workplace import Tolerance
from butfor.core.result.first_draws import Estimates
from butfor.core.types import Batch, Ints, Model

MOST_SHOWN = 3  # reasons in one sentence


@dataclass(frozen=True, eq=False)
class Usable:
    """The problem with stand-ins for inputs that the model fails on, why it does, and the rows that took to ask."""

    problem: Problem
    failed: dict[int, str]  # hypotheses
    rows: int = 0


def usable(
    problem: Problem, model: Model, batch_rows: int, describe: Callable[[int], str], tolerance: Tolerance
) -> Usable:
    """Ask the model for every input, where those that it fails on are to be skipped."""
    if not tolerance.skip:
        return Usable(problem, {})
    bad = failing_inputs(problem, model, batch_rows, describe, tolerance)
    if not bad:
        return Usable(problem, {}, len(problem.items))
    hypotheses = {row: bad[i] for row, i in enumerate(problem.input_of.tolist()) if i in bad}
    return Usable(_stood_in(problem, np.array(sorted(bad))), hypotheses, len(problem.items))


def failing_inputs(
    problem: Problem, model: Model, batch_rows: int, describe: Callable[[int], str], tolerance: Tolerance
) -> dict[int, str]:
    """Inputs that the model fails on, and why."""
    asked, bad = limited(model, tolerance.timeout), dict[int, str]()
    for start in range(0, len(problem.items), batch_rows):
        span = np.arange(start, min(start + batch_rows, len(problem.items)))
        try:
            _, why = tolerant(asked, problem.items.given(span), len(span), None, lambda row, a=start: describe(a + row))  # type: ignore[misc]
        except Exception as error:
            if len(span) == len(problem.items):
                raise
            why = {row: str(error) for row in range(len(span))}
        bad |= {start + row: said for row, said in why.items()}
    return bad


def _stood_in(problem: Problem, bad: Ints) -> Problem:
    """Another input in the place of each bad one: what comes of it is not used."""
    items, good = problem.items, int(np.setdiff1d(np.arange(len(problem.items)), bad)[0])
    if isinstance(items, TableItems):
        values = items.values.copy()
        values[bad] = values[good]
        values.setflags(write=False)
        return replace(problem, items=replace(items, values=values))
    assert isinstance(items, ListItems)
    blocks = tuple(block for block in problem.blocks if block.start not in set(bad.tolist()))
    return replace(
        problem, items=replace(items, inputs=StandIns(items.inputs, frozenset(bad.tolist()), good)), blocks=blocks
    )


@dataclass(frozen=True, eq=False)
class StandIns(Sequence[Any]):
    """Images or texts, with a good one in the place of each bad one."""

    inputs: Sequence[Any]
    bad: frozenset[int]
    good: int

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        return self.inputs[self.good if place in self.bad else place]


def without(estimates: Estimates, rows: Ints) -> Estimates:
    """Estimates in which what could not be tested says nothing; on averages over inputs it counts as no effect."""
    if not rows.size:
        return estimates
    changed = {name: values.copy() for name, values in vars(estimates).items()}
    for name, values in changed.items():
        values[rows] = 0.0 if name in ("gain", "spread") else np.nan
    return Estimates(**changed)


def skipped_note(failed: dict[int, str], size: int) -> list[str]:
    """How many hypotheses were not tested, and why."""
    if not failed:
        return []
    return [f"{len(failed)} of {size} hypotheses were not tested, and count as p = 1: {reasons(failed)}."]


def reasons(failed: dict[int, str]) -> str:
    """Why something failed, the most frequent reasons first."""
    every = Counter(failed.values()).most_common()
    shown = "; ".join(f"{why} ({count})" if count > 1 else why for why, count in every[:MOST_SHOWN])
    return shown + (f"; and {len(every) - MOST_SHOWN} other reasons" if len(every) > MOST_SHOWN else "")


def untested_rows(failed: dict[int, str]) -> dict[str, list[int]]:
    """For the provenance: hypotheses that were not tested."""
    return {"untested": sorted(failed)} if failed else {}


class Patient:
    """A model that is asked again where it fails, and waited for so long only: outside of units."""

    def __init__(self, model: Model, tolerance: Tolerance) -> None:
        self._model, self._tries = limited(model, tolerance.timeout), TRIES if tolerance.skip else 1

    def __call__(self, batch: Batch) -> Any:
        return again(lambda: self._model(batch), self._tries)
