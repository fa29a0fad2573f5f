"""The default test: draw until each hypothesis is decided, with p-values that are valid at any time (METHODS 2).

Besag & Clifford 1991; stopping under BH: Fischer, Barry & Ramdas 2024. With n draws so far of which L exceed:

    P = h / (n + h - L) while L < h;   frozen at P = h / tau once the h-th exceedance is draw tau

P never rises, so a rejection stands. A hypothesis closes at its h-th exceedance or when it is rejected.
`Sequential` is the state of one run of the test: whoever draws asks it for the size of the next batch and for whom, and
counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import lgamma

import numpy as np

from butfor.inference.statistics import Evidence, PartialEvidence, gather
from butfor.types import Bools, Floats, Ints


def p_sequential(draws: Ints, exceeded: Ints, h: int) -> Floats:
    """Return Besag & Clifford's p-value, valid at any time: h / (n + h - L), which is h / tau once L = h at draw tau.

    >>> p_sequential(np.array([0, 90, 25]), np.array([0, 0, 10]), h=10)
    array([1. , 0.1, 0.4])
    """
    return np.asarray(h / (draws + h - exceeded))


def besag_clifford(hits: Bools, counted: Bools | None, draws: Ints, exceeded: Ints, h: int) -> tuple[Ints, Ints]:
    """Return draws and exceedances after a batch, looked at in order: counting stops at the h-th exceedance.

    `hits` (n, batch) says t~ >= t, `counted` (n, batch) which draws count at all (None: all), `draws` and `exceeded`
    (n,) where each hypothesis stood. Stopping at the batch's end instead would make p too small (METHODS 2).
    """
    counting = hits if counted is None else hits & counted
    seen = draws + (hits.shape[1] if counted is None else counted.sum(axis=1))
    total = exceeded + counting.sum(axis=1)
    ends = np.flatnonzero(total >= h)
    if ends.size:  # few: only there the order matters
        at = (exceeded[ends, None] + np.cumsum(counting[ends], axis=1) >= h).argmax(axis=1)
        until = at + 1 if counted is None else np.cumsum(counted[ends], axis=1)[np.arange(len(ends)), at]
        seen[ends], total[ends] = draws[ends] + until, h
    return seen, total


LEAST_ACCEPTED = 1e-4  # share of draws that pass `picked`, below which a hypothesis is given up


def hopeless(accepted: Ints, drawn: int) -> Bools:
    """Return where hardly any draw passes: but for this subset the input would never have been picked."""
    return np.asarray((drawn >= 2 / LEAST_ACCEPTED) & (accepted < drawn * LEAST_ACCEPTED))


@dataclass(frozen=True)
class Stopping:
    """When to stop: at `h` exceedances, when `choose` rejects, or at `cap` draws.

    The first `pilot` draws are made of every hypothesis; `learn` is then given what p-values they alone would give.
    """

    h: int
    cap: int
    choose: Callable[[Floats, Bools], Bools]  # p-values (H,), which of them there are -> rejected (H,)
    deep: float = 1.0  # what is rejected is drawn on until p <= deep, to sharpen `simes_bounds`; 1: not at all
    pilot: int = 0
    learn: Callable[[Floats, Bools], None] | None = None  # p-values (H,), which of them there are
    at_best: Callable[[Floats, Bools], Bools] | None = None  # as `choose`: where it rejects nothing open, drawing ends
    waits: Callable[[Floats, Bools, Bools], Bools] | None = None  # what is not drawn while its larger subset is open
    picked: bool = False  # draws that a rule rejects do not count


class Sequential:
    """Draws and exceedances so far, of every hypothesis (H,)."""

    def __init__(self, size: int, stopping: Stopping) -> None:
        self.stopping, self.drawn_each, self.number = stopping, 0, 0
        self.values, self.observed, self.classes = np.ones(size), np.full(size, np.nan), np.zeros(size, np.int64)
        self.draws, self.exceeded = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.open, self.drawable, self.least = np.ones(size, bool), np.ones(size, bool), np.zeros(size)
        self.waiting = np.zeros(size, bool)  # for what it is a part of to be chosen; until then it is not drawn
        self.exact = np.full(size, np.nan)  # the surprise of what needed no drawing

    def add_exact(self, part: PartialEvidence) -> None:
        """Add hypotheses that need no drawing: nothing is left open or to chance there."""
        rows = part.rows
        self.values[rows], self.observed[rows], self.classes[rows] = part.values, part.observed, part.classes
        self.draws[rows], self.open[rows] = part.draws or 0, False
        self.drawable[rows] = True if part.drawable is None else part.drawable
        self.least[rows] = 0.0 if part.least is None else part.least
        self.exact[rows] = 1 - part.values if part.surprise is None else part.surprise

    @property
    def drawn(self) -> Bools:
        """Hypotheses that the next batch is drawn for (H,)."""
        return self.open & ~self.waiting

    def next_batch(self) -> int:
        """Return how many draws to add to those that every open hypothesis has; 0 at the cap."""
        stopping, done = self.stopping, self.drawn_each
        if done >= stopping.cap:
            return 0
        if not done:
            batch = first_batch(stopping.h, stopping.cap, stopping.pilot)
        elif stopping.picked or stopping.waits is not None:  # there every look may change what is drawn next
            batch = step(done, stopping.cap)
        else:

            def decides(draws: int) -> bool:
                """Whether a look after so many draws could close anything by rejecting it."""
                best = self._at_best(draws)
                rejected = stopping.choose(best, self.drawable)
                return bool((rejected & self.open & (best <= stopping.deep)).any())

            batch = steps_ahead(done, stopping.cap, stopping.h, self.exceeded[self.drawn], decides)
        self.drawn_each += batch
        return batch

    def count(self, rows: Ints, hits: Bools, observed: Floats, classes: Ints, counted: Bools | None = None) -> None:
        """Count draws (n, batch) of hypotheses `rows` (n,), in order; `counted` (n, batch) where some do not count."""
        h, before = self.stopping.h, self.exceeded[rows]
        self.observed[rows], self.classes[rows] = observed, classes
        still = before < h  # a batch in parts may go on after the h-th exceedance
        if not still.all():
            rows, hits, before = rows[still], hits[still], before[still]
            counted = None if counted is None else counted[still]
        draws, hit = besag_clifford(hits, counted, self.draws[rows], before, h)
        self.draws[rows], self.exceeded[rows], self.values[rows] = draws, hit, p_sequential(draws, hit, h)
        if counted is not None:
            given_up = rows[(hit < h) & hopeless(draws, self.drawn_each)]
            self.open[given_up], self.drawable[given_up], self.values[given_up] = False, False, 1.0

    def give_up(self, rows: Ints) -> None:
        """Treat hypotheses that the model or the sampler failed on as nulls."""
        self.values[rows], self.open[rows], self.exceeded[rows] = 1.0, False, self.stopping.h

    def look(self) -> tuple[Bools, bool]:
        """Close what is decided after a batch; return what is chosen so far (H,), and whether drawing goes on."""
        stopping = self.stopping
        if self.number == 0 and stopping.learn is not None:
            ended = np.isfinite(self.exact) | (self.exceeded >= stopping.h)  # exact, or frozen at the h-th exceedance
            stopping.learn(np.where(ended, self.values, (1 + self.exceeded) / (1 + self.draws)), self.drawable)
        self.number += 1
        chosen = stopping.choose(self.values, self.drawable)
        self.open &= (self.exceeded < stopping.h) & ~(chosen & (self.values <= stopping.deep))
        if stopping.waits is not None:
            self.waiting = self.open & stopping.waits(self.values, self.drawable, chosen)
        if not self.drawn.any():
            return chosen, False
        if stopping.at_best is None:
            return chosen, True
        best = self._at_best(stopping.cap)  # could anything open be rejected, if no draw exceeded any more?
        return chosen, bool((stopping.at_best(best, self.drawable) & self.open).any())

    def draws_left(self) -> int:
        """Return about how many draws are left, if exceedances go on as they came; where none came, as many again."""
        draws, exceeded = self.draws[self.drawn], self.exceeded[self.drawn]
        pace = np.where(exceeded > 0, draws * (self.stopping.h - exceeded) / np.maximum(exceeded, 1), draws)
        return int(np.minimum(pace, np.maximum(self.stopping.cap - draws, 0)).sum())

    def evidence(self, interrupted: bool) -> Evidence:
        """Return the evidence; what is decided is valid whenever drawing stops, the rest is open."""
        if self.stopping.picked and not interrupted:
            self.drawable[self.open & (self.draws == 0)] = False  # not a single draw passed
        chosen = self.stopping.choose(self.values, self.drawable)
        self.open &= (self.exceeded < self.stopping.h) & ~chosen & self.drawable & ~self.waiting
        below = 1 - self.exceeded / np.where(self.draws > 0, self.draws, np.nan)
        surprise, size = np.where(np.isfinite(self.exact), self.exact, below), len(self.values)
        part = PartialEvidence(np.arange(size), self.values, self.observed, self.classes)
        part = replace(part, drawable=self.drawable, least=self.least, surprise=surprise)
        return replace(gather("p", size, 0, [part]), draws=self.draws, open=self.open)

    def _at_best(self, draws: int) -> Floats:
        """p-values (H,) after so many draws, if none exceeded any more."""
        best = p_sequential(np.full(len(self.open), draws), self.exceeded, self.stopping.h)
        return np.where(self.open, best, self.values)


GROWTH, LATE_GROWTH, LATE = 1.25, 1.05, 2000  # by how much draws grow, before and after so many: few are open then
AHEAD, IN_VAIN = 4, 0.02  # looks are left out up to so many times the draws there are, and for such a share in vain
POINTS = 16  # of a batch, at which the share that is closed is computed


def first_batch(h: int, cap: int, first: int = 0) -> int:
    """Return the draws that every hypothesis gets."""
    return min(max(8, h, first), cap)


def step(drawn: int, cap: int) -> int:
    """Return a quarter of the draws there are, later less.

    >>> step(40, 1000), step(4000, 100_000), step(40, 45)
    (10, 200, 5)
    """
    share = (GROWTH if drawn < LATE else LATE_GROWTH) - 1
    return min(max(1, round(drawn * share)), cap - drawn)


def steps_ahead(drawn: int, cap: int, h: int, exceeded: Ints, decides: Callable[[int], bool]) -> int:
    """Return how many draws to add for the open hypotheses, which exceeded (n,) times so far: one step or several.

    A look where nothing can be rejected, whatever the draws (`decides` says at how many draws something can), only
    closes what has its h exceedances. Where hardly anything is expected to, it is left out: p-values are valid whenever
    one looks, and a look costs time and an observed row for every open hypothesis.
    """
    batch = step(drawn, cap)
    while drawn + batch < min(AHEAD * drawn, cap):
        more = batch + step(drawn + batch, cap)
        if share_in_vain(drawn, more, h, exceeded) > IN_VAIN or decides(drawn + batch):
            break
        batch = more
    return batch


def share_in_vain(drawn: int, batch: int, h: int, exceeded: Ints) -> float:
    """Return the share of the draws to add that is expected after an h-th exceedance, p-values being uniform.

    Where L of n draws exceeded, t more bring the h-th with probability P(Bin(h, t / (n + t)) >= h - L).

    >>> round(share_in_vain(100, 25, 10, np.array([9])), 2), round(share_in_vain(100, 25, 10, np.array([0])), 2)
    (0.62, 0.0)
    """
    more = batch * (np.arange(POINTS) + 0.5) / POINTS
    share, k = more / (drawn + more), np.arange(h + 1)
    ways = np.array([lgamma(h + 1) - lgamma(i + 1) - lgamma(h - i + 1) for i in range(h + 1)])
    exactly = np.exp(ways[:, None] + k[:, None] * np.log(share) + (h - k[:, None]) * np.log1p(-share))
    closed = exactly[::-1].cumsum(axis=0).mean(axis=1)  # P(Bin >= h - L) over the batch, by L = 0, 1, ..., h
    return float(np.bincount(exceeded, minlength=h + 1) @ closed) / len(exceeded)
