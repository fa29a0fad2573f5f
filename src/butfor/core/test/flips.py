"""Counts, over a run, the draws that change the decision, and keeps the nearest of them (METHODS 16)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Job, Problem
from butfor.core.evaluate.batches import Evaluator, Seen, watch_only
from butfor.core.test.decision import Decision, FlipShare
from butfor.core.types import Bools, Floats, Ints

FIRST, GROWTH = 16, 1.25  # draws that are added where a decision is still open, and by how much that grows


@dataclass(frozen=True, eq=False)
class Nearest:
    """The counterfactual nearest to the input among those that change the decision."""

    piece: Any  # made small by `Items.pack`
    outputs: Floats  # (outputs,)
    distance: float


NearestFound = tuple[Ints, Floats, Any, Floats]  # inputs (positions), how far, made small by `pack`, their outputs


@dataclass(frozen=True)
class LookForChanges:
    """Looks at the counterfactuals of a job: how many change the decision, and which of those is nearest."""

    decision: Decision

    def __call__(
        self, problem: Problem, batch: CounterfactualBatch, outputs: Floats
    ) -> tuple[int, Floats | Ints, NearestFound | None]:
        """How many there are, how many of them (or which share of what is listed, (n,)) change it, and the nearest."""
        changed, mass = changes(self.decision, outputs, batch.mass), batch.mass
        share = changed.sum(axis=1) if mass is None else (mass * changed).sum(axis=1) / mass.sum(axis=1)
        return changed.shape[1], share, self._nearest(problem, batch, outputs, changed)

    @staticmethod
    def _nearest(problem: Problem, batch: CounterfactualBatch, outputs: Floats, changed: Bools) -> NearestFound | None:
        members = np.flatnonzero(changed.any(axis=1))
        if not members.size:
            return None
        items, subset = problem.items, batch.job.block.subset
        distance = items.distances(batch.values, changed, subset)
        best = distance.argmin(axis=1)
        pieces = items.pack(batch.values, best[:, None] + 1, batch.versions, subset)
        places = best[members]
        return members, distance[members, places], items.take(pieces, members), outputs[members, places + 1]


def changes(decision: Decision, outputs: Floats, mass: Floats | None) -> Bools:
    """Which draws (n, draws) change the decision, of outputs (n, versions, outputs); what has no mass never does."""
    made = decision(outputs)
    changed = np.asarray(made[:, 1:] != made[:, :1])
    return changed if mass is None else changed & (mass > 0)


class Flips:
    """Hears of every job of a run. x is fixed here, so every draw of the run counts, whatever it was made for."""

    def __init__(self, size: int, decision: Decision) -> None:
        self.decision, self.look = decision, LookForChanges(decision)
        self.draws, self.flips = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.listed = np.full(size, np.nan)  # the exact share, where the sampler lists all values
        self.nearest: dict[int, Nearest] = {}

    def note(self, seen: Seen, found: tuple[int, Floats | Ints, NearestFound | None] | None) -> None:
        """Count the draws of a job, and keep what is nearer than what is known."""
        if found is None:  # a unit that nobody could do
            return
        (draws, share, nearest), rows = found, seen.job.rows
        if seen.mass is None:
            self.draws[rows] += draws
            self.flips[rows] += share.astype(np.int64)
        else:
            self.listed[rows] = share
        if nearest is None:
            return
        members, distance, pieces, said = nearest
        own = rows[members].tolist()
        known = [self.nearest[row].distance if row in self.nearest else np.inf for row in own]
        for place in np.flatnonzero(distance < known).tolist():
            self.nearest[own[place]] = Nearest(pieces[place][0], said[place].copy(), float(distance[place]))

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
    alphas: tuple[Floats, Floats],
    cap: int,
) -> None:
    """Go on drawing where it is open whether q is above or below the level, up to `cap` draws of a hypothesis.

    `alphas` (H,) are what the interval of each may err by, in its draws and in the fit. `evaluator` tells `flips` of
    its jobs. Where the sampler's own error leaves it open, more draws would not help.
    """
    size, number = FIRST, 0
    while (rows := _open(flips.tally(error), level, alphas, cap)).size:
        watch_only(problem, evaluator, _jobs(problem, rows, f"decision {number}", size))
        size, number = min(round(size * GROWTH), problem.round_draws), number + 1


def _open(tally: FlipShare, level: float, alphas: tuple[Floats, Floats], cap: int) -> Ints:
    candidates = np.flatnonzero((tally.draws > 0) & (tally.draws < cap))
    own, levels = tally.take(candidates), (alphas[0][candidates], alphas[1][candidates])
    low, high = own.bounds(*levels)
    fit_low, fit_high = FlipShare(np.zeros_like(own.draws), own.share, own.error).bounds(*levels)
    hopeless = (fit_low <= level) & (level <= fit_high)
    return candidates[(low <= level) & (level <= high) & ~hopeless]


def _jobs(problem: Problem, rows: Ints, label: str, draws: int) -> Iterator[Job]:
    wanted = np.zeros(problem.size, bool)
    wanted[rows] = True
    for block in problem.blocks:
        ask = np.flatnonzero(wanted[block.rows])
        if ask.size:
            yield Job(block, draws, label, ask=None if ask.size == block.stop - block.start else ask)
