"""The answer of fixed-K IRT for a fraction of its rows: hypotheses close once their verdict is settled (METHODS 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from butfor.core.draw.blocks import Block, Job, Problem, round_sizes
from butfor.core.evaluate.batches import Evaluator, evaluate
from butfor.core.evaluate.outputs import linked, snap
from butfor.core.test.evidence import Evidence, Found, gather
from butfor.core.test.statistic import StatisticSpec, centred_statistic
from butfor.core.types import Bools, Floats, Ints


def early_stop(
    problem: Problem,
    evaluator: Evaluator,
    spec: StatisticSpec,
    draws: int,
    delta: float,
    choose: Callable[[Floats], Bools],
    set_chosen: Callable[[int], None],
    known: Iterable[Found] = (),
) -> Evidence:
    """Decisions of `choose` on fixed-K p-values, equal to those of all `draws` draws with probability >= 1 - delta.

    After each batch the exceedances among all K draws lie between bounds; what `choose` rejects at the upper ends is
    rejected for good, what it does not reject at the lower ends is accepted for good. `choose` must be monotone: lower
    p-values never lose a rejection. The draws are those of the fixed-K run with the same seed. With delta = 0 the
    bounds are what arithmetic allows, and the decisions always agree. The p-values returned are the upper ends.
    `known` is evidence on hypotheses that need no drawing, `set_chosen` hears how many are rejected so far.
    """
    exact = gather("p", problem.size, 0, known)
    drawn, observed, classes = exact.draws.copy(), exact.observed.copy(), exact.classes.copy()
    steps = schedule(draws)
    tail = delta / (2 * max(problem.size, 1) * max(len(steps) - 1, 1))
    hits, low = np.zeros(problem.size, np.int64), np.zeros(problem.size, np.int64)
    high, still = np.full(problem.size, draws), ~exact.drawable
    centre = _centre(problem, evaluator, spec, draws)
    done = 0
    for step in steps:
        jobs = _jobs(problem, still, (spec.center + done, spec.center + step), spec.center + draws)
        for job, outputs in evaluate(problem, evaluator, jobs):
            rows = job.rows
            statistic, observed[rows], classes[rows] = centred_statistic(job, outputs, spec, centre)
            hits[rows] += (statistic[:, 1:] >= statistic[:, :1]).sum(axis=1)  # ties count against us: keeps p valid
        done, drawn[still] = step, step
        low[still], high[still] = _narrowed(hits[still], low[still], high[still], done, draws, tail)
        ends = (np.where(exact.drawable, exact.values, (1 + end) / (draws + 1)) for end in (high, low))
        rejected, hopeful = map(choose, ends)
        still &= ~rejected & hopeful
        set_chosen(int(rejected.sum()))
        if not still.any():
            break
    p = np.where(exact.drawable, exact.values, (1 + high) / (draws + 1))
    found = Found(np.arange(problem.size), p, observed, classes, least=exact.least)
    return replace(gather("p", problem.size, 0, [found]), draws=drawn)


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
    for job, outputs in evaluate(problem, evaluator, jobs):
        total[job.rows] += linked(snap(outputs[:, 1:]), spec.link).sum(axis=1)
    return total / spec.center


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
