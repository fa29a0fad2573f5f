"""Whether the chances of a decision that a sampler gives come true on rows that it has not seen (METHODS 15, 16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from butfor.core.draw.blocks import CounterfactualBatch, Problem
from butfor.core.evaluate.batches import Seen
from butfor.core.test.decision import Decision
from butfor.core.types import Array, Bools, Floats, Ints

PER_LOT, MOST_LOTS = 50, 4  # control rows whose chances are compared with what came true, and how many such lots
SURE = 2.0  # standard errors from which on a lot is off

Shares = list[tuple[object, Floats]]  # a decision, and the share of draws that have it in either half of them (n, 2)


@dataclass(frozen=True)
class LookAtDecisions:
    """Looks at the first round of each hypothesis: which share of its draws has which decision."""

    decision: Decision

    def __call__(self, problem: Problem, batch: CounterfactualBatch, outputs: Floats) -> Shares | None:  # noqa: ARG002
        """None for later rounds, which are made where the first was extreme, and for a single draw."""
        job, mass = batch.job, batch.mass
        later = job.round != 0 or (job.part is not None and job.part[0] > 0)
        if (mass is None and later) or outputs.shape[1] < 3:
            return None
        made = self.decision(outputs)[:, 1:]
        return [(value, _halves(made == value, mass)) for value in np.unique(made).tolist()]


def _halves(had: Bools, mass: Floats | None) -> Floats:
    """The share of the draws (n, draws) that had it, of every other one and of the rest (n, 2); if listed, of all."""
    if mass is None:
        return np.stack([had[:, ::2].mean(axis=1), had[:, 1::2].mean(axis=1)], axis=1)
    return np.repeat(((had * mass).sum(axis=1) / mass.sum(axis=1))[:, None], 2, axis=1)


class Forecasts:
    """Hears of every job of a control: the chance of each decision for every row and subset."""

    def __init__(self, size: int, decision: Decision) -> None:
        self.look, self._size, self._shares = LookAtDecisions(decision), size, dict[object, Floats]()

    def note(self, seen: Seen, found: Shares | None) -> None:
        """What a job shows."""
        for value, share in found or ():
            self._shares.setdefault(value, np.zeros((self._size, 2)))[seen.job.rows] = share

    def of(self, value: object) -> Floats:
        """The chance of a decision by either half of the draws (H, 2)."""
        return self._shares.get(value, np.zeros((self._size, 2)))


@dataclass(frozen=True, eq=False)
class Verified:
    """Chances of decisions of control rows, beside what the model really decides of those rows (n,)."""

    forecasts: Sequence[Forecasts]
    decisions: Array
    subsets: int

    def off(self, problem: Problem, decisions: Array, share: Floats) -> Floats:
        """By how much the chance of another decision `share` (H,) is too high, as far as control rows are sure of it.

        `decisions` (n,) are those of the inputs. Control rows with a chance of the same decision like the input's are a
        lot of about 50. Where theirs came true more often than they should by two standard errors, the share is too
        high by the gap; 0 where they say nothing against it.
        """
        found, known = np.zeros(problem.size), np.flatnonzero(np.isfinite(share))
        for value in np.unique(decisions).tolist():
            chance = np.concatenate([one.of(value).reshape(-1, self.subsets, 2) for one in self.forecasts])
            true = self.decisions == value
            for subset in range(self.subsets):
                rows = known[(decisions[problem.input_of[known]] == value) & (problem.subset_of[known] == subset)]
                if rows.size:
                    found[rows] = _gap(chance[:, subset], true, 1 - share[rows])
        return found


def _gap(chance: Floats, true: Bools, asked: Floats) -> Floats:
    """How much more often than their chance (n, 2) rows came true, of the lot that each chance `asked` (k,) falls in.

    Lots are made by one half of the draws and judged by the other: whose chance is high is high by luck, too.

    >>> said, came = np.full((100, 2), 0.5), np.arange(100) % 5 > 0
    >>> _gap(said, came, np.array([0.5])).round(2), _gap(said, np.arange(100) % 2 > 0, np.array([0.5]))
    (array([0.3]), array([0.]))
    """
    by, judged = chance.T
    lots = np.array_split(np.argsort(by, kind="stable"), int(np.clip(len(by) // PER_LOT, 1, MOST_LOTS)))
    edges = [(by[before[-1]] + by[after[0]]) / 2 for before, after in pairwise(lots)]
    gaps = [true[lot] - judged[lot] for lot in lots]
    gap = np.array([own.mean() for own in gaps])
    error = np.array([own.std(ddof=1) / np.sqrt(len(own)) for own in gaps])
    place: Ints = np.searchsorted(edges, asked)
    return np.where(np.abs(gap) > SURE * error, gap, 0.0)[place]
