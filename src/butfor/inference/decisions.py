"""The but-for test of a decision: how often would it have been otherwise, and how sure is that (METHODS 16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from butfor.evaluation.evaluator import Evaluator, Seen, watch_only
from butfor.evaluation.hypotheses import CounterfactualBatch, Job, Problem
from butfor.types import Array, Bools, Floats, InputError, Ints

HALVINGS = 40  # of the interval in which a bound is searched: to 1e-12


@dataclass(frozen=True)
class Decision:
    """Outputs (n, outputs) -> one decision per row: the class with the largest output, or a rule of the user's."""

    rule: Callable[[Any], Any] | None = None

    def __call__(self, outputs: Floats) -> Array:
        """Decisions (...) of outputs (..., outputs)."""
        flat = outputs.reshape(-1, outputs.shape[-1])
        made = flat.argmax(axis=1) if self.rule is None else self._asked(flat)
        return made.reshape(outputs.shape[:-1])

    def _asked(self, flat: Floats) -> Array:
        assert self.rule is not None
        try:
            made = np.asarray(self.rule(flat[:, 0] if flat.shape[1] == 1 else flat))
        except Exception as error:
            raise InputError(f"decide raised {type(error).__name__} on outputs of {len(flat)} rows: {error}") from error
        if made.shape != (len(flat),):
            one = "outputs" if flat.shape[1] == 1 else "outputs[:, 1]"
            raise InputError(
                f"decide must turn outputs of {len(flat)} rows into {len(flat)} decisions, got {made.dtype} of shape "
                f"{made.shape}; for example decide=lambda outputs: {one} >= 0.4"
            )
        gone = _missing(made)
        if gone.any():
            raise InputError(
                f"decide gave nothing (NaN or None) for {gone.sum()} of {len(flat)} rows, for example for the output "
                f"{flat[int(np.argmax(gone))].round(4).tolist()}; give every output a decision"
            )
        return made


def _missing(made: Array) -> Bools:
    """Which of them are no decision; asked of every draw, so only what can hold NaN or None is looked through."""
    if made.dtype.kind == "f":
        return np.asarray(np.isnan(made))
    if made.dtype.kind == "O":
        return np.array([one is None or one != one for one in made.tolist()], bool)
    return np.zeros(len(made), bool)


@dataclass(frozen=True, eq=False)
class FlipShare:
    """Of each hypothesis (H,): draws, how many of them change the decision, and how far the sampler's fit is known."""

    draws: Ints  # 0: the share is exact
    share: Floats  # of draws (or of the listed mass) that change the decision; NaN: none were made
    error: Floats  # 1 / m + h(x): the sampler knows q as well as 1 / error independent draws would tell; 0: exactly
    off: Floats | None = None  # by how much the share is too high, as rows show that the sampler has not seen

    def bounds(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> tuple[Floats, Floats]:
        """A confidence interval (H,) for q that holds whenever drawing was stopped, and for a fitted sampler.

        Two errors are combined in quadrature: that of the draws, by the mixture martingale of Robbins (1970), whose
        bounds hold at all times at once; and that of the fit. The fitted mean is off by a normal error of variance h
        (the leverage) in units of the residual's; the linear part of a change of decision explains at most q (1 - q)
        of it, so q is off by at most what a binomial of 1 / h draws would be: Clopper & Pearson on 1 / (1 / m + h).
        What held-out rows show to be `off` is no chance error, and is added on its side.
        """
        drawn = np.flatnonzero(self.draws > 0)
        low, high = self.share.astype(np.float64), self.share.astype(np.float64)
        if drawn.size:
            some, level = self.take(drawn), np.broadcast_to(alpha, self.share.shape)[drawn]
            low[drawn], high[drawn] = mixture_bounds(some.share * some.draws, some.draws, level)
        fit_low, fit_high = clopper_pearson(self.share, self.error, alpha if fit_alpha is None else fit_alpha)
        below = np.hypot(self.share - low, self.share - fit_low)
        above = np.hypot(high - self.share, fit_high - self.share)
        if self.off is not None:
            below, above = below + np.maximum(self.off, 0.0), above + np.maximum(-self.off, 0.0)
        return np.maximum(self.share - below, 0.0), np.minimum(self.share + above, 1.0)

    def take(self, rows: Ints) -> FlipShare:
        """That of some hypotheses."""
        return FlipShare(
            self.draws[rows], self.share[rows], self.error[rows], None if self.off is None else self.off[rows]
        )


def mixture_bounds(hits: Floats, draws: Ints, alpha: Floats | float) -> tuple[Floats, Floats]:
    """A confidence sequence for a share (n,), valid at any stopping time: where Robbins' mixture stays below 1 / alpha.

    The mixture is Beta(1/2, 1/2): B(s + 1/2, n - s + 1/2) / B(1/2, 1/2) / (q^s (1 - q)^(n - s)).

    >>> low, high = mixture_bounds(np.array([0.0, 50.0]), np.array([20, 100]), 0.05)
    >>> low.round(2), high.round(2)
    (array([0.  , 0.34]), array([0.22, 0.66]))
    """
    from scipy.special import betaln, xlog1py, xlogy

    misses = draws - hits
    share = hits / np.maximum(draws, 1)
    level = betaln(hits + 0.5, misses + 0.5) - betaln(0.5, 0.5) + np.log(alpha)

    def excluded(q: Floats) -> Bools:
        return np.asarray(level - xlogy(hits, q) - xlog1py(misses, -q) >= 0)

    low_out, low_in = np.zeros_like(share), share.copy()
    high_in, high_out = share.copy(), np.ones_like(share)
    for _ in range(HALVINGS):
        low, high = (low_out + low_in) / 2, (high_in + high_out) / 2
        out = excluded(low)
        low_out, low_in = np.where(out, low, low_out), np.where(out, low_in, low)
        out = excluded(high)
        high_out, high_in = np.where(out, high, high_out), np.where(out, high_in, high)
    return low_out, high_out


def clopper_pearson(share: Floats, error: Floats, alpha: Floats | float) -> tuple[Floats, Floats]:
    """The interval of a share (n,) that 1 / error draws would have given; without error it is the share itself.

    >>> clopper_pearson(np.array([0.5, 0.5]), np.array([0.01, 0.0]), 0.05)[0].round(3)
    array([0.398, 0.5  ])
    """
    from scipy.special import betaincinv

    size = 1 / np.where(error > 0, error, 1.0)
    hits, misses = share * size, (1 - share) * size
    half = np.broadcast_to(np.asarray(alpha) / 2, share.shape)
    low, high, known = np.zeros(share.shape), np.ones(share.shape), error <= 0
    some = ~known & (hits > 0)
    low[some] = betaincinv(hits[some], misses[some] + 1, half[some])
    some = ~known & (misses > 0)
    high[some] = betaincinv(hits[some] + 1, misses[some], 1 - half[some])
    return np.where(known, share, low), np.where(known, share, high)


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
