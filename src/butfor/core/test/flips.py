"""Counts, over a run, the draws that change the decision, and keeps the nearest of them (METHODS 16)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.test.decision import Decision, FlipShare
from butfor.core.types import Bools, Floats, Ints

FIRST, GROWTH = 16, 1.25  # draws that are added where a decision is still open, and by how much that grows


@dataclass(frozen=True, eq=False)
class Nearest:
    """The counterfactual nearest to the input among those that change the decision."""

    piece: Any  # made small by `Items.pack`
    outputs: Floats  # (outputs,)
    distance: float


class Flips:
    """Is shown every batch of a run. x is fixed here, so every draw of the run counts, whatever it was made for."""

    def __init__(self, problem: Problem, decision: Decision) -> None:
        self._problem, self.decision = problem, decision
        self.draws, self.flips = np.zeros(problem.size, np.int64), np.zeros(problem.size, np.int64)
        self.listed = np.full(problem.size, np.nan)  # the exact share, where the sampler lists all values
        self.nearest: dict[int, Nearest] = {}

    def __call__(self, batch: CounterfactualBatch, outputs: Floats) -> None:
        """Versions of some inputs, and their outputs (n, versions, outputs)."""
        made = self.decision(outputs)
        changed = np.asarray(made[:, 1:] != made[:, :1])
        rows = batch.job.rows
        if batch.mass is None:
            self.draws[rows] += changed.shape[1]
            self.flips[rows] += changed.sum(axis=1)
        else:
            self.listed[rows] = (batch.mass * changed).sum(axis=1) / batch.mass.sum(axis=1)
        self._keep(batch, outputs, changed & (batch.mass > 0) if batch.mass is not None else changed)

    def _keep(self, batch: CounterfactualBatch, outputs: Floats, changed: Bools) -> None:
        """The nearest that changes the decision, where it is nearer than the one known."""
        members = np.flatnonzero(changed.any(axis=1))
        if not members.size:
            return
        items, subset = self._problem.items, batch.job.block.subset
        distance = items.distances(batch.values, changed, subset)
        best = distance.argmin(axis=1)
        rows = batch.job.rows
        known = [self.nearest[row].distance if row in self.nearest else np.inf for row in rows[members].tolist()]
        nearer = members[distance[members, best[members]] < known]
        if not nearer.size:
            return
        pieces = items.pack(batch.values, best[:, None] + 1, batch.versions, subset)
        for member in nearer.tolist():
            said = outputs[member, best[member] + 1].copy()
            self.nearest[int(rows[member])] = Nearest(pieces[member][0], said, float(distance[member, best[member]]))

    def tally(self, error: Floats) -> FlipShare:
        """What was counted; `error` (H,) says how well the sampler is known."""
        exact = np.isfinite(self.listed)
        share = np.where(exact, self.listed, self.flips / np.where(self.draws > 0, self.draws, np.nan))
        return FlipShare(np.where(exact, 0, self.draws), share, error)


def draw_until_decided(
    problem: Problem,
    evaluator: Evaluator,
    flips: Flips,
    error: Floats,
    level: float,
    alphas: tuple[float, float],
    cap: int,
) -> None:
    """Go on drawing where it is open whether q is above or below the level, up to `cap` draws of a hypothesis.

    `evaluator` shows its batches to `flips`. Where the sampler's own error leaves it open, more draws would not help.
    """
    size, number = FIRST, 0
    while (rows := _open(flips.tally(error), level, alphas, cap)).size:
        for _ in evaluate(problem, evaluator, _jobs(problem, rows, f"decision {number}", size)):
            pass  # flips has seen them
        size, number = min(round(size * GROWTH), problem.round_draws), number + 1


def _open(tally: FlipShare, level: float, alphas: tuple[float, float], cap: int) -> Ints:
    candidates = np.flatnonzero((tally.draws > 0) & (tally.draws < cap))
    own = tally.take(candidates)
    low, high = own.bounds(*alphas)
    fit_low, fit_high = FlipShare(np.zeros_like(own.draws), own.share, own.error).bounds(*alphas)
    hopeless = (fit_low <= level) & (level <= fit_high)
    return candidates[(low <= level) & (level <= high) & ~hopeless]


def _jobs(problem: Problem, rows: Ints, label: str, draws: int) -> Iterator[Job]:
    wanted = np.zeros(problem.size, bool)
    wanted[rows] = True
    for block in problem.blocks:
        ask = np.flatnonzero(wanted[block.rows])
        if ask.size:
            yield Job(block, draws, label, ask=None if ask.size == block.stop - block.start else ask)
