"""The tests with a fixed number of draws that end in a p-value or an e-value each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from butfor.evaluation.evaluator import Evaluator, summaries
from butfor.evaluation.hypotheses import Block, Job, Problem, round_sizes
from butfor.evaluation.items import content_digest
from butfor.inference.outputs import linked, snap
from butfor.inference.statistics import (
    Evidence,
    Found,
    StatisticSpec,
    ValueSet,
    centred_statistic,
    e_soft_rank,
    gather,
    p_fixed,
    reduced_sets,
    share_below,
    varies,
)
from butfor.types import Array, Bools, Floats, Ints


def irt(
    problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int, known: Iterable[Found] = ()
) -> Evidence:
    """Interpretability randomisation test (paper, Algorithm 1): a p-value from `draws` counterfactuals each.

    `known` is evidence on hypotheses that need no drawing.
    """
    sets = reduced_sets(problem, evaluator, spec, draws, partial(_ranked, margin=spec.margin))
    parts = (
        Found(rows, p, observed, classes, varied=varied, surprise=below)
        for rows, (p, observed, classes, varied, below) in sets
    )
    return gather("p", problem.size, draws, chain(parts, known))


def _ranked(part: ValueSet, margin: float) -> tuple[Array, ...]:
    statistic = part.statistic
    return p_fixed(statistic, margin), _observed(part), part.classes, varies(statistic), share_below(statistic)


def soft_rank(problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int) -> Evidence:
    """Soft-rank e-values from `draws` counterfactuals each: for any dependence between hypotheses (METHODS 5)."""
    sets = reduced_sets(problem, evaluator, spec, draws, _soft)
    parts = (Found(rows, e, observed, classes, surprise=below) for rows, (e, observed, classes, below) in sets)
    return gather("e", problem.size, draws, parts)


def _soft(part: ValueSet) -> tuple[Array, ...]:
    return e_soft_rank(part.statistic), _observed(part), part.classes, share_below(part.statistic)


def _observed(part: ValueSet) -> Floats:
    return part.values[:, 0].copy()  # a view would hold all values


def early_stop(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    draws: int,
    delta: float,
    choose: Callable[[Floats, Bools], Bools],
    set_chosen: Callable[[Bools], None],
    known: Iterable[Found] = (),
    *,
    drops: bool = False,
) -> Evidence:
    """Decisions of `choose` on fixed-K p-values, equal to those of all `draws` draws with probability >= 1 - delta.

    After each batch the exceedances among all K draws lie between bounds; what `choose` rejects at the upper ends is
    rejected for good, what it does not reject at the lower ends is accepted for good. `choose` takes p-values (H,) and
    the family (H,), and must be monotone: lower p-values never lose a rejection. The draws are those of the fixed-K run
    with the same seed. With delta = 0 the bounds are what arithmetic allows, and the decisions always agree. The
    p-values returned are the upper ends. `known` is evidence on hypotheses that need no drawing, `set_chosen` hears
    which are rejected so far.

    Where the fixed-K run `drops` what never varies, the family is between bounds too: what has varied is in it for
    good, the rest may be or not. The rest is drawn on only as long as that makes a difference to a decision.
    """
    exact = gather("p", problem.size, 0, known)
    observed, classes = exact.observed.copy(), exact.classes.copy()
    state = _State(problem.size, draws, delta, exact, drops)
    counts_of = _counting(spec, _centre(problem, evaluator, spec, draws))
    while True:
        rejected, hopeful = _verdicts(state, choose)
        set_chosen(rejected)
        wanted = state.wanted(~rejected & hopeful, choose)
        if not wanted.any():
            break
        after = state.next_steps()
        for span in sorted({*zip(state.drawn[wanted], after[wanted], strict=True)}):
            together = wanted & (state.drawn == span[0])
            jobs = _jobs(
                problem, together, (spec.center + int(span[0]), spec.center + int(span[1])), spec.center + draws
            )
            for some, found in summaries(problem, evaluator, jobs, counts_of):
                for job, (hits, varied, own, called) in zip(some, found, strict=True):
                    observed[job.rows], classes[job.rows] = own, called
                    state.count(job.rows, hits, varied)
        state.narrow(wanted, after)
        state.give_up(evaluator.untested(problem.size))
    p, varied = state.ends()[1], state.varied | (state.drawn < draws)  # what was not drawn to the end may yet vary
    found = Found(np.arange(problem.size), p, observed, classes, varied=varied, least=exact.least)
    drawn = np.where(exact.drawable, exact.draws, state.drawn)
    return replace(gather("p", problem.size, 0, [found]), draws=drawn)


def _counting(spec: StatisticSpec, centre: Floats | None) -> Callable[[tuple[Job, ...]], CountVaried]:
    """What makes the summary of some jobs."""
    return partial(_counts_of, spec, centre, content_digest((spec, centre)))


def _counts_of(spec: StatisticSpec, centre: Floats | None, mark: bytes, jobs: tuple[Job, ...]) -> CountVaried:
    inputs = np.concatenate([job.inputs for job in jobs])
    own = None if centre is None else centre[np.concatenate([job.rows for job in jobs])]
    return CountVaried(spec.at(inputs), own, mark)


@dataclass(frozen=True, eq=False)
class CountVaried:
    """Of each job of a unit: exceedances, whether anything varied, the observed values and their classes (n,)."""

    spec: StatisticSpec  # for the inputs of the unit's jobs, one after the other
    centre: Floats | None  # (hypotheses of the unit, outputs)
    mark: bytes  # of the statistic and the centres of all hypotheses

    def __call__(self, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> list[tuple[Ints, Bools, Floats, Ints]]:  # noqa: ARG002
        found, first = [], 0
        for own in outputs:
            places = np.arange(first, first + len(own))
            statistic, observed, classes = centred_statistic(places, places, own, self.spec, self.centre)
            hits = (statistic[:, 1:] >= statistic[:, :1]).sum(axis=1)  # ties count against us: keeps p valid
            found.append((hits, varies(statistic), observed.copy(), classes))
            first += len(own)
        return found


class _State:
    """Draws, exceedances, their bounds and whether anything varied, of every hypothesis: what a run writes on."""

    def __init__(self, size: int, draws: int, delta: float, exact: Evidence, drops: bool) -> None:
        self.draws, self.steps, self.exact = draws, np.array(schedule(draws)), exact
        self.tail = delta / (2 * max(size, 1) * max(len(self.steps) - 1, 1))
        self.drawn, self.hits, self.low = (np.zeros(size, np.int64) for _ in range(3))
        self.high, self.varied = np.full(size, draws), exact.drawable | (not drops)
        self.drawn[exact.drawable] = draws

    def count(self, rows: Ints, hits: Ints, varied: Bools) -> None:
        """Note the exceedances of some draws, and whether they varied (n,)."""
        self.hits[rows] += hits
        self.varied[rows] |= varied

    def give_up(self, rows: Ints) -> None:
        """Hypotheses that the model or the sampler failed on: as if every draw had exceeded."""
        self.drawn[rows] = self.low[rows] = self.high[rows] = self.hits[rows] = self.draws
        self.varied[rows] = True

    def next_steps(self) -> Ints:
        """How many draws each hypothesis has after its next batch (H,)."""
        place = np.searchsorted(self.steps, self.drawn, side="right")
        return np.asarray(self.steps[np.minimum(place, len(self.steps) - 1)])

    def narrow(self, rows: Bools, after: Ints) -> None:
        """Tighter bounds for hypotheses that have been drawn on."""
        self.drawn[rows] = after[rows]
        for done in np.unique(after[rows]):
            some = rows & (after == done)
            bounds = _narrowed(self.hits[some], self.low[some], self.high[some], int(done), self.draws, self.tail)
            self.low[some], self.high[some] = bounds

    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest that the p-values (H,) of all draws may be."""
        low, high = (
            np.where(self.exact.drawable, self.exact.values, (1 + end) / (self.draws + 1))
            for end in (self.low, self.high)
        )
        return low, high

    def unsure(self) -> Bools:
        """Hypotheses (H,) of which it is not known whether they are in the family."""
        return np.asarray(~self.varied & (self.drawn < self.draws))

    def wanted(self, undecided: Bools, choose: Callable[[Floats, Bools], Bools]) -> Bools:
        """Whom to draw for (H,): the undecided; where only the family keeps them from a decision, who may be in it."""
        wanted = (undecided & (self.drawn < self.draws)) | (self.drawn == 0)  # everyone is looked at once
        unsure = self.unsure()
        if not undecided.any() or not unsure.any():
            return np.asarray(wanted)
        low, high = self.ends()
        themselves = (~choose(high, family) & choose(low, family) for family in (self.varied, self.varied | unsure))
        wanted &= np.logical_or(*themselves) | (self.drawn == 0)
        return np.asarray(wanted if wanted.any() else unsure)


def _verdicts(state: _State, choose: Callable[[Floats, Bools], Bools]) -> tuple[Bools, Bools]:
    """Rejected for good (H,), and what may still be rejected (H,), whatever the family turns out to be.

    The largest family rejects least. Most is rejected if those join it that are rejected themselves: some of the
    unsure with the least p-values, and no others.
    """
    low, high = state.ends()
    unsure = state.unsure()
    rejected, hopeful = choose(high, state.varied | unsure), choose(low, state.varied)
    for most in np.unique(low[unsure]):
        hopeful = hopeful | choose(low, state.varied | (unsure & (low <= most)))
    return rejected, hopeful


def schedule(draws: int) -> list[int]:
    """After how many draws to look: 16, then a fifth more each time, `draws` last.

    >>> schedule(40)
    [16, 20, 24, 29, 35, 40]
    """
    steps = [min(16, draws)]
    while steps[-1] < draws:
        steps.append(min(max(steps[-1] + 1, -(-steps[-1] * 6 // 5)), draws))
    return steps


def _centre(problem: Problem, evaluator: Evaluator, spec: StatisticSpec, draws: int) -> Floats | None:
    """Mean outputs (H, outputs) of the pilot draws, which stand first in the stream as they do in the fixed-K run."""
    if not spec.center:
        return None
    total = np.zeros((problem.size, evaluator.outputs))
    everyone = np.ones(problem.size, bool)
    jobs = _jobs(problem, everyone, (0, spec.center), spec.center + draws)
    for some, sums in summaries(problem, evaluator, jobs, lambda _: SumOutputs(spec.link)):
        for job, own in zip(some, sums, strict=True):
            total[job.rows] += own
    return total / spec.center


@dataclass(frozen=True)
class SumOutputs:
    """Sums of outputs (n, outputs) over the draws of each job of a unit, on the scale of the test."""

    link: str | None

    def __call__(self, jobs: tuple[Job, ...], outputs: tuple[Floats, ...]) -> list[Floats]:  # noqa: ARG002
        return [linked(snap(own[:, 1:]), self.link).sum(axis=1) for own in outputs]


def _jobs(problem: Problem, still: Bools, span: tuple[int, int], total: int) -> Iterator[Job]:
    for block in problem.blocks:
        keep = np.flatnonzero(still[block.rows])
        if keep.size:
            yield from _parts(problem, block, None if keep.size == block.stop - block.start else keep, span, total)


def _parts(problem: Problem, block: Block, keep: Ints | None, span: tuple[int, int], total: int) -> Iterator[Job]:
    """Draws span[0]..span[1] of the `total` that the fixed-K run makes in rounds."""
    begin = 0
    for number, size in enumerate(round_sizes(total, problem.round_draws)):
        part = (max(span[0] - begin, 0), min(span[1] - begin, size))
        if part[0] < part[1]:
            yield Job(block, size, number, keep=keep, part=part)
        begin += size


def _narrowed(seen: Ints, low: Ints, high: Ints, done: int, draws: int, tail: float) -> tuple[Ints, Ints]:
    """Tighter bounds on the exceedances among all draws, given those among the first `done`."""
    least, most = np.maximum(low, seen), np.minimum(high, seen + draws - done)
    if tail > 0 and done < draws:
        values, inverse = np.unique(seen, return_inverse=True)
        lower, upper = hypergeometric_bounds(values, done, draws, tail)
        least, most = np.maximum(least, lower[inverse]), np.minimum(most, upper[inverse])
    return least, np.maximum(least, most)


def hypergeometric_bounds(seen: Ints, done: int, draws: int, tail: float) -> tuple[Ints, Ints]:
    """Smallest and largest S not refuted at level `tail` each, when `seen` of the first `done` draws exceed.

    S of all `draws` exceed; `seen` then is hypergeometric. Inverting its two tails gives the bounds.
    """
    from scipy.stats import hypergeom

    def bisect(low: Ints, high: Ints, holds: Callable[[Ints], Bools]) -> Ints:
        """The first S in low..high at which the monotone condition holds (it does at `high`)."""
        while (low < high).any():
            middle = (low + high) // 2
            good = holds(middle)
            low, high = np.where(good, low, np.minimum(middle + 1, high)), np.where(good, middle, high)
        return low

    least, most = seen, seen + draws - done
    lower = bisect(least, most, lambda total: np.asarray(hypergeom.sf(seen - 1, draws, total, done) > tail))
    above = bisect(
        least, most + 1, lambda total: np.asarray(hypergeom.cdf(seen, draws, np.minimum(total, draws), done) <= tail)
    )
    return lower, np.where(above > most, most, above - 1)
