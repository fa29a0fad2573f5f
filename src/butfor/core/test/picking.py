"""Inputs that were picked by their output: draws that would not have been picked are rejected (METHODS 0)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from butfor.core.draw.blocks import Block, Job, Problem
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.types import Bools, Floats, InputError, Ints

LEAST_RATE = 1e-4  # accepted draws; where fewer pass a hypothesis is given up


@dataclass
class Tally:
    """How many draws passed the rule, over a run."""

    drawn: int = 0
    accepted: int = 0


@dataclass(frozen=True)
class Picked:
    """The rule by which inputs were picked: outputs (n,) or (n, outputs) -> bool (n,)."""

    rule: Callable[[Any], Any]
    tally: Tally = field(default_factory=Tally)

    def passes(self, outputs: Floats) -> Bools:
        """Which of outputs (..., outputs) the rule would have picked."""
        flat = outputs.reshape(-1, outputs.shape[-1])
        try:
            said = np.asarray(self.rule(flat[:, 0] if flat.shape[1] == 1 else flat))
        except Exception as error:
            raise InputError(f"picked raised {type(error).__name__} on outputs of {len(flat)} rows: {error}") from error
        if said.shape != (len(flat),) or said.dtype != bool:
            one = "outputs" if flat.shape[1] == 1 else "outputs[:, 1]"
            raise InputError(
                f"picked must turn outputs of {len(flat)} rows into {len(flat)} booleans, got {said.dtype} of shape "
                f"{said.shape}; for example picked=lambda outputs: {one} >= 0.9"
            )
        return said.reshape(outputs.shape[:-1])

    def accept(self, outputs: Floats) -> Bools:
        """The same for draws, counted."""
        passed = self.passes(outputs)
        self.tally.drawn += passed.size
        self.tally.accepted += int(passed.sum())
        return passed


def picked_outputs(problem: Problem, evaluator: Evaluator, total: int, picked: Picked) -> Iterator[tuple[Job, Floats]]:
    """Per block the outputs (n, 1 + total, outputs) of the observed inputs and of `total` accepted draws each.

    Inputs of which hardly any draw is accepted are left out. Whether that happens depends on the rest of the input
    only, not on the subset's observed value, so leaving them out keeps the others valid.
    """
    everyone = ((block, np.arange(block.stop - block.start)) for block in problem.blocks)
    return accepted_outputs(problem, evaluator, everyone, total, picked, "picked")


def accepted_outputs(
    problem: Problem, evaluator: Evaluator, wanted: Iterable[tuple[Block, Ints]], total: int, picked: Picked, label: str
) -> Iterator[tuple[Job, Floats]]:
    """The same for some inputs of some blocks; `label` names the streams of draws."""
    for block, members in wanted:
        filled, outputs = _fill(problem, evaluator, (block, members), total, picked, label)
        enough = members[filled[members] >= total]
        if enough.size:
            yield Job(block, total, label, keep=enough), outputs[enough]


def _fill(
    problem: Problem, evaluator: Evaluator, wanted: tuple[Block, Ints], total: int, picked: Picked, label: str
) -> tuple[Ints, Floats]:
    block, lacking = wanted
    count = block.stop - block.start
    filled = np.zeros(count, np.int64)
    outputs = np.empty((count, total + 1, evaluator.outputs))
    drawn, number = 0, 0
    while lacking.size:
        rate = (filled[lacking].min() + 1) / (drawn + 1)
        batch = int(np.clip((total - filled[lacking].min()) / rate, 16, problem.round_draws))
        ((_, fresh),) = evaluate(problem, evaluator, [Job(block, batch, f"{label} {number}", ask=lacking)])
        outputs[lacking, 0] = fresh[:, 0]
        _keep(outputs, filled, lacking, fresh[:, 1:], picked.accept(fresh[:, 1:]), total)
        drawn, number = drawn + batch, number + 1
        lacking = lacking[(filled[lacking] < total) & ~hopeless(filled[lacking], drawn)]
    return filled, outputs


def _keep(outputs: Floats, filled: Ints, members: Ints, fresh: Floats, accepted: Bools, total: int) -> None:
    """Put accepted draws, in the order in which they came, behind those already kept."""
    place = filled[members, None] + np.cumsum(accepted, axis=1)  # where each accepted draw goes, counting from 1
    rows, columns = np.nonzero(accepted & (place <= total))
    outputs[members[rows], place[rows, columns]] = fresh[rows, columns]
    filled[members] = np.minimum(place[:, -1], total)


def hopeless(accepted: Ints, drawn: int) -> Bools:
    """Where hardly any draw passes: but for this subset the input would never have been picked."""
    if drawn < 2 / LEAST_RATE:
        return np.zeros(len(accepted), bool)
    return np.asarray(accepted < drawn * LEAST_RATE)


def check_drawable(drawable: Bools) -> list[str]:
    """What to say of the hypotheses left out for want of accepted draws; an error if they are most of them."""
    left_out = int((~drawable).sum())
    if left_out > len(drawable) / 2:
        raise InputError(
            f"hardly any counterfactual passes picked for {left_out} of {len(drawable)} hypotheses (fewer than one in "
            f"{round(1 / LEAST_RATE):,}): but for these subsets the inputs would never have been picked; loosen the "
            "rule, or pick inputs by something else than their output"
        )
    if not left_out:
        return []
    return [
        f"{left_out} hypotheses left the family: but for their subset the input would hardly ever have been picked."
    ]
