"""The interpretability randomisation test (Burns, Thomason & Tansey 2020, "the paper", Algorithm 1), stopped early too.

    p = (1 + #{k : t~_k >= t}) / (K + 1)   (METHODS 1)
    e = (K + 1) exp(4 t / sd) / sum exp(4 v / sd) over all K + 1 values   (METHODS 5)

`EarlyStop` bounds the exceedances among all K draws from those among the first k and closes a hypothesis once its
verdict is settled (METHODS 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from butfor.inference.statistics import Evidence, PartialEvidence, ValueSet, gather, share_below, varies
from butfor.types import Array, Bools, Floats, Ints


def p_fixed(statistic: Floats, margin: float = 0.0) -> Floats:
    """Return the p-values of the interpretability randomisation test (paper, Algorithm 1, line 9).

    Valid at every K: the observed value's rank among K + 1 exchangeable ones is uniform, and ties push it down. With a
    margin the null is that the observed value exceeds an exchangeable one by at most so much: lowered by the margin it
    is at most that one, so that its p-value is at least as large.

    >>> p_fixed(np.array([[3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 0.0]]))
    array([0.25, 0.75])
    """
    observed, null = statistic[:, :1], statistic[:, 1:]
    hits = (null >= observed - margin).sum(axis=1)  # ties count against us: keeps p valid
    return np.asarray((1 + hits) / (null.shape[1] + 1))


def e_soft_rank(statistic: Floats) -> Floats:
    """Return soft-rank e-values (METHODS 5): the observed value's share of sum exp(4 v / sd), times K + 1.

    Under the null the K + 1 values are exchangeable, so each share has mean 1 / (K + 1) and e has mean 1.

    >>> e_soft_rank(np.array([[1.0, 1.0, 1.0]]))
    array([1.])
    """
    spread = statistic.std(axis=1, keepdims=True)
    scaled = np.divide(statistic, spread, out=np.zeros_like(statistic), where=spread > 0)
    weights = np.exp(4 * (scaled - scaled.max(axis=1, keepdims=True)))
    return np.asarray(statistic.shape[1] * weights[:, 0] / weights.sum(axis=1))


def ranked(part: ValueSet, margin: float) -> tuple[Array, ...]:
    """Return p-value, observed value, class, whether anything varied and the share below (n,), from all values."""
    statistic, observed = part.statistic, part.values[:, 0].copy()  # a view would hold all values
    return p_fixed(statistic, margin), observed, part.classes, varies(statistic), share_below(statistic)


def soft_ranked(part: ValueSet) -> tuple[Array, ...]:
    """Return e-value, observed value, class and share below (n,), from all values."""
    return e_soft_rank(part.statistic), part.values[:, 0].copy(), part.classes, share_below(part.statistic)


LEAST_VARYING = 10  # so many inputs, at least, and what leaves the family hardly depends on any one of them


def many_vary(varied: Bools, input_of: Ints) -> bool:
    """Return True if what never varies may leave the family: enough inputs have a hypothesis (H,) that does vary.

    Within one input who leaves depends on the observed values of the others. Under f = 1[max x > c] one large feature
    keeps the others from varying, and BH over what is left gave false discoveries in 36 % of single inputs at alpha
    0.1; so it did in runs of 40 inputs where all of 39 left, since the model does not read them there (METHODS 6).
    """
    return not few_vary(np.bincount(input_of[varied]))


def few_vary(inputs: Ints | Bools) -> bool:
    """Return True if too few of the inputs (n,) have anything that varies."""
    return int((inputs > 0).sum()) < LEAST_VARYING


Choose = Callable[[Floats, Bools], Bools]  # p-values (H,), family (H,) -> rejected (H,); lower p never loses one


class EarlyStop:
    """Decisions of fixed-K p-values, equal to those of all `draws` draws with probability >= 1 - delta.

    After each batch the exceedances among all K draws lie between bounds; what `choose` rejects at the upper ends is
    rejected for good, what it does not reject at the lower ends is accepted for good. With delta = 0 the bounds are
    what arithmetic allows, and the decisions always agree. Where what never varies may leave the family of the fixed-K
    run (`input_of` is given), the family is between bounds too: what has varied is in it for good, the rest may be or
    not, and is drawn on only as long as that makes a difference to a decision. The p-values of `evidence` are the upper
    ends.
    """

    def __init__(
        self, size: int, draws: int, delta: float, exact: Evidence, input_of: Ints | None, choose: Choose
    ) -> None:
        self.draws, self.steps, self.exact, self.choose = draws, np.array(schedule(draws)), exact, choose
        self.tail = delta / (2 * max(size, 1) * max(len(self.steps) - 1, 1))
        self.drawn, self.hits, self.low = (np.zeros(size, np.int64) for _ in range(3))
        self.high, self.varied, self.input_of = np.full(size, draws), exact.drawable | (input_of is None), input_of
        self.observed, self.classes = exact.observed.copy(), exact.classes.copy()
        self.drawn[exact.drawable] = draws

    def count(self, rows: Ints, hits: Ints, varied: Bools, observed: Floats, classes: Ints) -> None:
        """Add the exceedances of some draws of hypotheses `rows` (n,), and whether they varied."""
        self.hits[rows] += hits
        self.varied[rows] |= varied
        self.observed[rows], self.classes[rows] = observed, classes

    def give_up(self, rows: Ints) -> None:
        """Treat hypotheses that the model or the sampler failed on as if every draw had exceeded."""
        self.drawn[rows] = self.low[rows] = self.high[rows] = self.hits[rows] = self.draws
        self.varied[rows] = True

    def next_draws(self) -> Ints:
        """Return how many draws each hypothesis has after its next batch (H,)."""
        after = np.searchsorted(self.steps, self.drawn, side="right")
        return np.asarray(self.steps[np.minimum(after, len(self.steps) - 1)])

    def narrow(self, rows: Bools, after: Ints) -> None:
        """Tighten the bounds of hypotheses (H,) that have been drawn on."""
        self.drawn[rows] = after[rows]
        for done in np.unique(after[rows]):
            some = rows & (after == done)
            seen = self.hits[some]
            low, high = np.maximum(self.low[some], seen), np.minimum(self.high[some], seen + self.draws - done)
            if self.tail > 0 and done < self.draws:
                values, inverse = np.unique(seen, return_inverse=True)
                lower, upper = hypergeometric_bounds(values, int(done), self.draws, self.tail)
                low, high = np.maximum(low, lower[inverse]), np.minimum(high, upper[inverse])
            self.low[some], self.high[some] = low, np.maximum(low, high)

    def ends(self) -> tuple[Floats, Floats]:
        """Return the least and the largest that the p-values (H,) of all draws may be."""
        low, high = (
            np.where(self.exact.drawable, self.exact.values, (1 + end) / (self.draws + 1))
            for end in (self.low, self.high)
        )
        return low, high

    def rejected_and_wanted(self) -> tuple[Bools, Bools]:
        """Return what is rejected for good (H,), and whom to draw for next (H,).

        The largest family rejects least. Most is rejected if those join it that are rejected themselves: some of the
        unsure with the least p-values, and no others. Drawn are the undecided; where only the family keeps them from a
        decision, those who may be in it.
        """
        low, high = self.ends()
        sure, unsure, largest = self.family()
        rejected, hopeful = self.choose(high, largest), self.choose(low, sure)
        for most in np.unique(low[unsure]):
            hopeful = hopeful | self.choose(low, sure | (unsure & (low <= most)))
        undecided = ~rejected & hopeful
        wanted = (undecided & (self.drawn < self.draws)) | (self.drawn == 0)  # everyone is looked at once
        if not undecided.any() or not unsure.any():
            return rejected, wanted
        themselves = [~self.choose(high, family) & self.choose(low, family) for family in (sure, largest)]
        wanted &= np.logical_or(*themselves) | (self.drawn == 0)
        return rejected, wanted if wanted.any() else unsure

    def family(self) -> tuple[Bools, Bools, Bools]:
        """Return who is in the family for sure (H,), who may yet vary, and the largest that the family may be."""
        unsure = ~self.varied & (self.drawn < self.draws)
        may = self.varied | unsure
        if self.input_of is None or many_vary(self.varied, self.input_of):
            return self.varied, unsure, may
        everyone = np.ones(len(may), bool)  # nobody leaves a family in which too few inputs vary
        return (self.varied, unsure, everyone) if many_vary(may, self.input_of) else (everyone, ~everyone, everyone)

    def evidence(self) -> Evidence:
        """Return the evidence once nothing is wanted any more."""
        size = len(self.drawn)
        varied = self.varied | (self.drawn < self.draws)  # what was not drawn to the end may yet vary
        part = PartialEvidence(
            np.arange(size), self.ends()[1], self.observed, self.classes, varied=varied, least=self.exact.least
        )
        drawn = np.where(self.exact.drawable, self.exact.draws, self.drawn)
        return replace(gather("p", size, 0, [part]), draws=drawn)


def exceedances(statistic: Floats) -> tuple[Ints, Bools]:
    """Return how many draws are as extreme as the observed value or more, and whether any varied (n,); no margin."""
    hits = (statistic[:, 1:] >= statistic[:, :1]).sum(axis=1)  # ties count against us: keeps p valid
    return hits, varies(statistic)


def schedule(draws: int) -> list[int]:
    """Return after how many draws to look: 16, then a fifth more each time, `draws` last.

    >>> schedule(40)
    [16, 20, 24, 29, 35, 40]
    """
    steps = [min(16, draws)]
    while steps[-1] < draws:
        steps.append(min(max(steps[-1] + 1, -(-steps[-1] * 6 // 5)), draws))
    return steps


def hypergeometric_bounds(seen: Ints, done: int, draws: int, tail: float) -> tuple[Ints, Ints]:
    """Return the smallest and largest S not refuted at level `tail` each, when `seen` of the first `done` exceed.

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
