"""Watchers of a run's draws: first estimates, changes of decisions, and counterfactuals to show.

A watcher is given numbers of every job of a run, in order. Its `look` makes them where the counterfactuals are drawn: a
few small ones, which travel; its `note` adds them up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from butfor.evaluation.evaluator import Extract
from butfor.evaluation.hypotheses import CounterfactualBatch, Hypotheses, Job
from butfor.evaluation.items import size
from butfor.evaluation.samplers import info_of
from butfor.inference.decisions import Decision, FlipShare, Forecasts, Nearest, changes, decision_chances
from butfor.inference.effects import Estimates, first_estimates, own_changes
from butfor.inference.moves import BoundedChange, MeanChange, changes_of
from butfor.inference.statistics import Rounding, Target, softmax
from butfor.results.result import Chunk, Kept
from butfor.types import Array, Bools, Floats, Ints

MOST_LOCAL = 2**13  # tolerances that travel with every unit of work; of larger runs only the largest of them does


def _is_later(batch: CounterfactualBatch) -> bool:
    """Whether a batch is drawn after the first round, which is never stopped early."""
    job = batch.job
    return batch.mass is None and (job.round != 0 or (job.part is not None and job.part[0] > 0))


def travelling(rounding: Rounding) -> Rounding:
    """Return a rounding that is small enough to go with every unit of work."""
    large = rounding.local is not None and rounding.local.size > MOST_LOCAL
    return replace(rounding, local=None) if large else rounding


class FirstDraws:
    """Estimates of every hypothesis from the first round of its draws."""

    def __init__(self, size: int, target: Target, link: str | None, rounding: Rounding, averaged: Target) -> None:
        small = travelling(rounding)
        self.look = partial(look_at_first, target=target, averaged=averaged, link=link, rounding=small)
        self._estimates = np.full((5, size), np.nan)

    def note(self, job: Job, estimates: Floats | None, *, listed: bool) -> None:  # noqa: ARG002
        if estimates is not None:
            self._estimates[:, job.rows] = estimates

    def estimates(self) -> Estimates:
        return Estimates(*self._estimates)


def look_at_first(
    hypotheses: Hypotheses,  # noqa: ARG001
    batch: CounterfactualBatch,
    outputs: Floats,
    target: Target,
    averaged: Target,
    link: str | None,
    rounding: Rounding,
) -> Floats | None:
    """Estimates from the first round of a hypothesis; None for later rounds."""
    if _is_later(batch) or outputs.shape[1] < 2:
        return None
    return first_estimates(outputs, batch.mass, batch.job.inputs, target, averaged, link, rounding)


class Moves:
    """Adds up by how much all draws of a run change the output (METHODS 22)."""

    def __init__(self, size: int, look: LookForMoves) -> None:
        self.look = look
        self.draws, self.listed = np.zeros(size, np.int64), np.zeros(size, bool)
        self._sums, self._seen = np.zeros((2, size)), np.stack([np.full(size, np.inf), np.full(size, -np.inf)])
        self._each = dict[int, list[Floats]]()

    def note(self, job: Job, numbers: tuple[Floats, Floats | None] | None, *, listed: bool) -> None:
        if numbers is None:  # a unit that nobody could do
            return
        (changed, each), rows = numbers, job.rows
        self.draws[rows] += 0 if listed else job.versions - 1
        self.listed[rows] |= listed
        known = 0.0 if listed else self._sums[:, rows]  # draws that come after a list add nothing to it
        self._sums[:, rows] = known + np.where(self.listed[rows] & (not listed), 0.0, changed[:2])
        self._seen[0, rows] = np.minimum(self._seen[0, rows], changed[2])
        self._seen[1, rows] = np.maximum(self._seen[1, rows], changed[3])
        if each is not None and not listed:
            for row, gaps in zip(rows.tolist(), each, strict=True):
                self._each.setdefault(row, []).append(gaps)

    def each(self, row: int) -> Floats:
        """Return the changes of one hypothesis, as far as they were kept."""
        return np.concatenate(self._each.get(row, [np.zeros(0)]))

    def means(self, error: Floats, ends: Floats) -> MeanChange:
        """Return what was added up; `error` (H,) says how well the sampler is known, `ends` (2, H) what can be."""
        count = np.where(self.listed, 1, np.where(self.draws > 0, self.draws, np.nan))
        mean, square = self._sums / count
        lost = np.where(self.listed | (self.draws < 2), 1.0, count / np.maximum(count - 1, 1))
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0) * lost)
        # what any draw has shown, others may show, too: a range seen in inputs alone may be a single value
        further = np.stack([ends[0] - self._seen[0], self._seen[1] - ends[1]]).max(axis=1, initial=0.0)
        ends = np.stack([ends[0] - further[0], ends[1] + further[1]])
        return MeanChange(np.where(self.listed, 0, self.draws), mean, deviation, self._seen, ends, error)

    def bounded(self, ends: Floats, different: Ints | None = None) -> BoundedChange:
        """Return the changes one by one, of an output that surely lies between the `ends` (2, H).

        So many draws as `different` (H,) count; None: all.
        """
        most = max((sum(map(len, parts)) for parts in self._each.values()), default=0)
        changes = np.full((len(self.draws), most), np.nan)
        for row, parts in self._each.items():
            gaps = np.concatenate(parts)
            changes[row, : len(gaps)] = gaps
        draws = np.where(self.listed, 0, self.draws)
        count = np.where(self.listed, 1, np.where(self.draws > 0, self.draws, np.nan))
        share = np.ones(len(draws)) if different is None else np.minimum(different / np.maximum(draws, 1), 1.0)
        return BoundedChange(changes, draws, self._sums[0] / count, ends, share)


@dataclass(frozen=True)
class LookForMoves:
    """Sums over the draws of a batch of what they change of the output."""

    target: Target
    link: str | None
    rounding: Rounding
    each: bool  # changes (n, draws) are kept one by one, too
    logits: bool  # outputs are scores, and changes are of probabilities

    def __call__(
        self,
        hypotheses: Hypotheses,  # noqa: ARG002
        batch: CounterfactualBatch,
        outputs: Floats,
    ) -> tuple[Floats, Floats | None]:
        inputs = batch.job.inputs
        if self.logits:
            same = self.rounding.same(outputs, inputs)
            outputs = softmax(np.where(same[:, :, None], outputs[:, :1], outputs))
        rounding = replace(self.rounding, relative=0.0, absolute=0.0, local=None) if self.logits else self.rounding
        gaps = own_changes(outputs, inputs, self.target, self.link, rounding)
        return changes_of(gaps, batch.mass), gaps if self.each and batch.mass is None else None


ALIKE = 1.0  # mean difference of grey levels up to which nobody tells two fills apart


class Different:
    """Counts the draws of each hypothesis that can be told apart, where the inputs have small pictures of them."""

    def __init__(self, size: int) -> None:
        self.look = look_at_pictures
        self._kinds = dict[int, Floats]()
        self.counts = np.zeros(size, np.int64)

    def known(self) -> Ints | None:
        """Return the counts (H,); None where there are no pictures."""
        return self.counts if self.counts.any() else None

    def note(self, job: Job, pictures: list[list[Array]] | None, *, listed: bool) -> None:  # noqa: ARG002
        """Count the draws of a job that are unlike all before."""
        from scipy.spatial.distance import cdist  # not where there are no pictures

        for row, drawn in zip(job.rows.tolist(), pictures or (), strict=False):
            new = np.array([one.ravel() for one in drawn], np.float64)
            known = self._kinds.get(row, new[:0])
            alike = cdist(new, np.concatenate([known, new]), "cityblock") <= ALIKE * new.shape[1]
            fresh = ~alike[:, : len(known)].any(axis=1)
            for k in np.flatnonzero(fresh).tolist():
                fresh[k] = not (alike[k, len(known) :][:k] & fresh[:k]).any()
            self._kinds[row] = np.concatenate([known, new[fresh]])
            self.counts[row] = len(self._kinds[row])


def look_at_pictures(hypotheses: Hypotheses, batch: CounterfactualBatch, outputs: Floats) -> list[list[Array]] | None:
    """Return a small picture of each draw (n, draws); None where there are none."""
    items, subset = hypotheses.items, batch.job.block.subset
    small = getattr(getattr(items, "packing", None), "signature", None)
    if small is None or batch.mass is not None:
        return None
    wanted = np.broadcast_to(np.arange(1, outputs.shape[1]), (len(outputs), outputs.shape[1] - 1))
    return [[small(piece) for piece in row] for row in items.pack(batch.values, wanted, batch.versions, subset)]


MOST_NEAREST = 8  # counterfactuals of a hypothesis that are kept, in each of which other columns rise or fall
NEAREST_ROOM = 2**22  # values of all of them: from there on only the nearest is kept
# inputs (n,) by position; of each k counterfactuals, inf where there are fewer: distance, which columns rise and fall,
# made small by `pack`, outputs (n, k, outputs)
NearestChange = tuple[Ints, Floats, Ints, Any, Floats]


class Flips:
    """Counts the draws of a run that change the decision, and keeps the nearest of them (METHODS 16).

    With `stays` the share is that of the draws that do not change it. So many draws as stand `together` in a round have
    an error of the fit of their own; 0: they have none.
    """

    def __init__(self, size: int, decision: Decision, *, stays: bool = False, together: int = 0) -> None:
        self.decision, self.stays, self.together = decision, stays, together
        self.look = partial(look_for_changes, decision=decision, together=together)
        self.draws, self.flips = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.listed = np.full(size, np.nan)  # the exact share, where the sampler lists all values
        self._rounds = np.zeros((3, size))  # their number, the sums of flips^2 / draws and of draws^2
        self._nearest, self._room = dict[int, dict[int, tuple[float, Any, Floats]]](), NEAREST_ROOM

    def note(self, job: Job, changed: tuple[int, Floats | Ints, NearestChange | None] | None, *, listed: bool) -> None:
        if changed is None:  # a unit that nobody could do
            return
        (draws, share, nearest), rows = changed, job.rows
        if not listed:
            self.draws[rows] += draws
            self.flips[rows] += share.sum(axis=1).astype(np.int64)
            sizes, ones = np.diff([*_starts(draws, self.together), draws]), np.ones(len(rows))
            rounds = (len(sizes) * ones, (share**2 / sizes).sum(axis=1), (sizes**2).sum() * ones)
            self._rounds[:, rows] += np.stack(rounds)
        else:
            self.listed[rows] = share
        if nearest is None:
            return
        members, distances, ways, pieces, outputs = nearest
        for i, k in np.argwhere(np.isfinite(distances)).tolist():
            known, distance, way = self._nearest.setdefault(int(rows[members[i]]), {}), distances[i, k], int(ways[i, k])
            if way not in known or distance < known[way][0]:
                known.pop(way, None)  # of equal ones that which came first stays first
                known[way] = float(distance), pieces[i][k], outputs[i, k].copy()
                self._room -= size(pieces[i][k]) + outputs.shape[2]
                if len(known) > (MOST_NEAREST if self._room > 0 else 1):
                    del known[max(known, key=lambda one: known[one][0])]

    @property
    def nearest(self) -> dict[int, Nearest]:
        """The nearest counterfactuals that change the decision, by hypothesis."""
        made = {}
        for row, known in self._nearest.items():
            distances, pieces, outputs = zip(*sorted(known.values(), key=lambda one: one[0]), strict=True)
            made[row] = Nearest(list(pieces), np.stack(outputs), np.array(distances))
        return made

    def shares(self, error: Floats) -> FlipShare:
        """Return what was counted; `error` (H,) says how well the sampler is known."""
        exact = np.isfinite(self.listed)
        share = np.where(exact, self.listed, self.flips / np.where(self.draws > 0, self.draws, np.nan))
        return FlipShare(np.where(exact, 0, self.draws), 1 - share if self.stays else share, error)

    def between_rounds(self) -> Floats:
        """Return the standard deviation (H,) of shares between rounds beyond that of their draws, by moments."""
        count, squares, sizes = self._rounds
        draws = np.maximum(self.draws, 1)
        share = self.flips / draws
        beyond = squares - draws * share**2 - (count - 1) * share * (1 - share)
        return np.asarray(np.sqrt(np.maximum(beyond, 0.0) / np.maximum(draws - sizes / draws, 1.0)))


def look_for_changes(
    hypotheses: Hypotheses, batch: CounterfactualBatch, outputs: Floats, decision: Decision, together: int
) -> tuple[int, Floats | Ints, NearestChange | None]:
    """Return how many draws there are, how many (or which share of a list) change the decision, and the nearest.

    Changes of so many draws as stand `together` in a round are counted by themselves, (n, rounds).
    """
    changed, mass = changes(decision, outputs, batch.mass), batch.mass
    if mass is not None:
        share = (mass * changed).sum(axis=1) / mass.sum(axis=1)
    else:
        share = np.add.reduceat(changed, _starts(changed.shape[1], together), axis=1, dtype=np.int64)
    members = np.flatnonzero(changed.any(axis=1))
    if not members.size:
        return changed.shape[1], share, None
    items, subset = hypotheses.items, batch.job.block.subset
    distance, ways = items.distances(batch.values, changed, subset)
    best, near = _nearest_of_each_way(changed, distance, ways)
    pieces = items.take(items.pack(batch.values, best + 1, batch.versions, subset), members)
    best, near = best[members], near[members]
    at = members[:, None], best
    nearest = (members, np.where(near, distance[at], np.inf), ways[at], pieces, outputs[members[:, None], best + 1])
    return changed.shape[1], share, nearest


def _starts(draws: int, together: int) -> list[int]:
    """Where the rounds of so many draws begin."""
    return list(range(0, draws, together or draws))


def _nearest_of_each_way(changed: Bools, distance: Floats, ways: Ints) -> tuple[Ints, Bools]:
    """Return positions (n, k) of the nearest draws of each of the `ways` (n, draws), the nearest first, and which are.

    >>> distance, ways = np.array([[3.0, 1.0, 2.0, np.inf]]), np.array([[5, 5, 7, 9]])
    >>> _nearest_of_each_way(np.isfinite(distance), distance, ways)
    (array([[1, 2]]), array([[ True,  True]]))
    """
    rows, draws = np.nonzero(changed)
    order = np.lexsort((distance[rows, draws], ways[rows, draws], rows))
    rows, draws = rows[order], draws[order]
    new = np.ones(len(rows), bool)  # the nearest of its way
    new[1:] = (rows[1:] != rows[:-1]) | (ways[rows[1:], draws[1:]] != ways[rows[:-1], draws[:-1]])
    rows, draws = rows[new], draws[new]
    order = np.lexsort((draws, distance[rows, draws], rows))
    rows, draws = rows[order], draws[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    count = min(int(rank.max(initial=0)) + 1, MOST_NEAREST)
    best, near, first = np.zeros((len(changed), count), np.int64), np.zeros((len(changed), count), bool), rank < count
    best[rows[first], rank[first]], near[rows[first], rank[first]] = draws[first], True
    return best, near


class DecisionChances:
    """The chance of each decision for every control row and subset, from the first round of its draws."""

    def __init__(self, size: int, decision: Decision) -> None:
        self.look = partial(look_at_decisions, decision=decision)
        self._size, self._chances = size, dict[object, Floats]()

    def note(self, job: Job, chances: list[tuple[object, Floats]] | None, *, listed: bool) -> None:  # noqa: ARG002
        for value, share in chances or ():
            self._chances.setdefault(value, np.zeros((self._size, 2)))[job.rows] = share

    def forecasts(self, decisions: Array, subsets: int, weights: Floats | None) -> Forecasts:
        """Return the chances of all control rows beside what the model decides of them (n,)."""
        chance = {value: one.reshape(-1, subsets, 2) for value, one in self._chances.items()}
        return Forecasts(chance, decisions, weights, subsets)


def look_at_decisions(
    hypotheses: Hypotheses,
    batch: CounterfactualBatch,
    outputs: Floats,
    decision: Decision,
) -> list[tuple[object, Floats]] | None:
    """Chances of decisions from the first round; None for later rounds, made where the first was extreme."""
    if _is_later(batch) or outputs.shape[1] < 3:
        return None
    again = batch.mass is not None and info_of(hypotheses.sampler).floor(batch.job.block.subset) > 0  # and stands first
    return decision_chances(decision, outputs, batch.mass, again=again)


def look_at_some(
    hypotheses: Hypotheses, batch: CounterfactualBatch, outputs: Floats, count: int, skip: int
) -> tuple[Any, Floats] | None:
    """Take the first draws but for those set aside, or the likeliest of a list, with their outputs (n, k, outputs)."""
    if batch.job.round != 0 and batch.mass is None:
        return None
    if batch.mass is not None:
        wanted = 1 + np.sort(np.argsort(-batch.mass, axis=1, kind="stable")[:, :count], axis=1)
    else:
        first = skip - (batch.job.part[0] if batch.job.part else 0)
        versions = np.arange(1 + max(first, 0), min(batch.versions, 1 + first + count))
        wanted = np.broadcast_to(versions, (len(batch.inputs), len(versions)))
    if not wanted.size:
        return None
    pieces = hypotheses.items.pack(batch.values, wanted, batch.versions, batch.job.block.subset)
    return pieces, outputs[np.arange(len(wanted))[:, None], wanted]


class Keeper:
    """Keeps the first counterfactuals of each hypothesis.

    `room` counts values: when it is used up nothing more is kept, and what is asked for later is drawn again.
    """

    def __init__(self, count: int, set_aside: int, room: int) -> None:
        self._first, self._room = partial(look_at_some, count=count, skip=set_aside), room
        self._chunks: list[Chunk] = []

    @property
    def look(self) -> Extract | None:
        """Takes counterfactuals, as long as there is room."""
        return self._first if self._room > 0 else None

    def note(self, job: Job, taken: tuple[Any, Floats] | None, *, listed: bool) -> None:
        if taken is None or self._room <= 0:
            return
        pieces, outputs = taken
        self._chunks.append(Chunk(job.rows, pieces, outputs, listed))
        self._room -= size(pieces) + outputs.size

    def kept(self) -> Kept:
        return Kept(tuple(self._chunks))
