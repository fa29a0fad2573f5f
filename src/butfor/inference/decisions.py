"""The but-for test of a decision: how often would it have been different, and with what uncertainty (METHODS 16)?

    q = P(decision(f(x~)) != decision(f(x))),   x~_S ~ Q(. | x_-S)

x is fixed here, so every draw counts, whatever it was made for. `FlipShare.bounds` combines the error of the draws (a
confidence sequence that holds at any stopping time) with that of the fitted sampler; `DecisionRule` says what is
decisive, and stops the drawing; `Forecasts` says by how much shares were off on control rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from butfor.inference.selection import select
from butfor.inference.statistics import by_rule
from butfor.types import Array, Bools, Floats, InputError, Ints


@dataclass(frozen=True)
class Decision:
    """Outputs (n, outputs) -> one decision per row: the class with the largest output, or a rule of the user's."""

    rule: Callable[[Any], Any] | None = None

    def __call__(self, outputs: Floats) -> Array:
        """Return decisions (...) of outputs (..., outputs)."""
        if self.rule is None:
            return np.asarray(outputs.argmax(axis=-1))
        made = by_rule("decide", self.rule, outputs, "decisions", 0.4)
        missing = np.zeros(made.shape, bool)  # only what can hold NaN or None is looked through: every draw comes here
        if made.dtype.kind == "f":
            missing = np.isnan(made)
        elif made.dtype.kind == "O":
            missing = np.array([one is None or one != one for one in made.flat], bool).reshape(made.shape)
        if missing.any():
            raise InputError(
                f"decide gave nothing (NaN or None) for {missing.sum()} of {missing.size} rows, for example for the "
                f"output {outputs[missing][0].round(4).tolist()}; give every output a decision"
            )
        return made

    def named(self, outputs: Floats) -> tuple[str | int | float | bool, ...]:
        """Return decisions by the user's rule on outputs (n, outputs); nothing without one."""
        made = [] if self.rule is None else self(outputs).tolist()
        return tuple(one if isinstance(one, str | int | float) else str(one) for one in made)


def changes(decision: Decision, outputs: Floats, mass: Floats | None) -> Bools:
    """Return which draws (n, draws) change the decision, of outputs (n, versions, outputs); no mass, no change."""
    made = decision(outputs)
    changed = np.asarray(made[:, 1:] != made[:, :1])
    return changed if mass is None else changed & (mass > 0)


@dataclass(frozen=True, eq=False)
class Nearest:
    """The counterfactuals (k) nearest to the input among those that change the decision, the nearest first."""

    pieces: Any  # (k, columns) or k of them: the changed part of the input, in packed form
    outputs: Floats  # (k, outputs)
    distances: Floats  # (k,)


@dataclass(frozen=True, eq=False)
class FlipShare:
    """Of each hypothesis (H,): draws, how many of them change the decision, and how far the sampler's fit is known."""

    draws: Ints  # 0: the share is exact
    share: Floats  # of draws (or of the listed mass) that change the decision; NaN: none were made
    error: Floats  # 1 / m + leverage at x, of m reference rows: the fit tells q as well as 1 / error draws; 0: exactly
    off: Floats | None = None  # by how much the share is too high, as rows show that the sampler has not seen
    between: Floats | None = None  # standard deviation of shares over what the fit may be; None: `error` has it all

    def bounds(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> tuple[Floats, Floats]:
        """Return a confidence interval (H,) for q that holds whenever drawing was stopped, and for a fitted sampler.

        Two errors are combined in quadrature (no joint coverage is proven; it is measured): that of the draws, by the
        mixture martingale of Robbins (1970), whose bounds hold at all times at once; and that of the fit. The fitted
        mean is off by a normal error of variance h (the leverage) in units of the residual's; the linear part of a
        change of decision explains at most q (1 - q) of it, so q is off by at most what a binomial of 1 / h draws would
        be: Clopper & Pearson on 1 / (1 / m + h). What held-out rows show to be `off` is no chance error, and is added
        on its side.
        """
        stays = replace(self, share=1 - self.share, off=None if self.off is None else -self.off)
        return self.low(alpha, fit_alpha), np.maximum(1 - stays.low(alpha, fit_alpha), self.share)  # but for rounding

    def low(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> Floats:
        from scipy.special import ndtri

        drawn, low = np.flatnonzero(self.draws > 0), self.share.astype(np.float64)
        draws, alphas = self.draws[drawn], np.broadcast_to(alpha, self.share.shape)[drawn]
        low[drawn] = mixture_low(self.share[drawn] * draws, draws, alphas)
        fit_low = clopper_pearson_low(self.share, self.error, alpha if fit_alpha is None else fit_alpha)
        below = np.hypot(self.share - low, self.share - fit_low)
        if self.between is not None:
            below = np.hypot(below, -ndtri(np.asarray(alpha) / 2) * self.between)
        return np.maximum(self.share - below - (0.0 if self.off is None else np.maximum(self.off, 0.0)), 0.0)

    def take(self, rows: Ints) -> FlipShare:
        off, between = (None if part is None else part[rows] for part in (self.off, self.between))
        return FlipShare(self.draws[rows], self.share[rows], self.error[rows], off, between)


LEAST_P = 1e-11


class Bounded(Protocol):
    """Estimates (H,) with intervals that hold whenever drawing stops: `FlipShare`, `butfor.inference.moves`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]  # `replace(estimates, draws=...)`: as if so many had been made

    @property
    def draws(self) -> Ints: ...
    def bounds(self, alpha: Floats, fit_alpha: Floats) -> tuple[Floats, Floats]: ...
    def low(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> Floats: ...
    def take(self, rows: Ints) -> Self: ...


def p_values(estimates: Bounded, level: float, largest: float, low: Floats | None = None) -> Floats:
    """Return p-values (H,) of a true value of at most `level`: the least alpha with `low` above it.

    Those above `largest` are 1, so that nothing is rejected whose own interval at that level holds the level; `low`
    (H,) are the lower ends there, where they are known.
    """
    p = np.ones(len(estimates.draws))
    if (known := getattr(estimates, "p_value", None)) is not None:  # without a search
        p = known(level)
        return np.asarray(np.where(p <= largest, np.maximum(p, LEAST_P), 1.0))
    rows = np.flatnonzero((estimates.low(largest) if low is None else low) > level)
    part = estimates.take(rows)
    outside, inside = np.full(rows.size, np.log(LEAST_P)), np.full(rows.size, np.log(largest))
    for _ in range(16):  # halvings of 22 nats: to a thousandth of p
        middle = (outside + inside) / 2
        above = part.low(np.exp(middle)) > level
        outside, inside = np.where(above, outside, middle), np.where(above, middle, inside)
    p[rows] = np.exp(inside)
    return p


@dataclass(frozen=True, eq=False)
class DecisionRule:
    """Intervals at error levels (H,) in draws and fit, and when it is sure that q exceeds the level.

    With `families` (H,) by Benjamini & Hochberg at alpha within each of them, where the hypothesis' own interval lies
    above the level: the share of such statements that are wrong is at most alpha on average. Without, the intervals
    hold together, and decide by themselves.
    """

    level: float
    alphas: tuple[Floats, Floats]
    alpha: float
    families: Ints | None
    usable: Bools | None = None  # False: nothing can be said of it

    def bounds(self, estimates: Bounded) -> tuple[Floats, Floats]:
        return estimates.bounds(*self.alphas)

    def established(self, estimates: Bounded, low: Floats | None = None) -> Bools:
        """Return of which hypotheses (H,) it is sure that the true value exceeds the level.

        `low` (H,) are the lower ends of their own intervals, where they are known.
        """
        usable = np.ones(len(estimates.draws), bool) if self.usable is None else self.usable
        if self.families is None:
            return usable & (estimates.low(*self.alphas) > self.level)
        p = p_values(estimates, self.level, float(self.alphas[0].max(initial=0.0)), low)
        return select(p, self.alpha, "bh", usable, self.families)

    def undecided(self, estimates: Bounded, cap: int, former: Intervals | None = None) -> Ints:
        """Return the hypotheses that more draws could decide: the interval holds the level, or BH may yet choose it.

        Where the interval of the fit alone holds the level, or BH chooses nothing at the present estimate even of
        unlimited draws, the sampler's own error leaves it open. `former` intervals are brought up to date.
        """
        known = Intervals.none(len(estimates.draws)) if former is None else former
        known.update(self, estimates)
        drawable = (estimates.draws > 0) & (estimates.draws < cap)
        wanted = drawable if self.usable is None else drawable & self.usable
        too_rough = (known.fit_low <= self.level) & (self.level <= known.fit_high)
        more = wanted & (known.low <= self.level) & (self.level <= known.high) & ~too_rough
        if self.families is not None and (above := wanted & (known.low > self.level)).any():
            best, best_low = replace(estimates, draws=np.where(drawable, 0, estimates.draws)), known.low.copy()
            best_low[drawable] = known.fit_low[drawable]
            more |= above & self.established(best, best_low) & ~self.established(estimates, known.low)
        return np.flatnonzero(more)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of hypotheses (H,) after so many draws, and those that their fits alone leave."""

    draws: Ints
    low: Floats
    high: Floats
    fit_low: Floats
    fit_high: Floats

    @classmethod
    def none(cls, size: int) -> Intervals:
        """Return room for intervals of which none is known."""
        return cls(np.full(size, -1), *(np.full(size, np.nan) for _ in range(4)))

    def update(self, rule: DecisionRule, estimates: Bounded) -> None:
        """Make intervals anew where draws were added since."""
        rows = np.flatnonzero(self.draws != estimates.draws)
        changed, by_row = estimates.take(rows), (rule.alphas[0][rows], rule.alphas[1][rows])
        self.low[rows], self.high[rows] = changed.bounds(*by_row)
        self.fit_low[rows], self.fit_high[rows] = replace(changed, draws=np.zeros_like(rows)).bounds(*by_row)
        self.draws[rows] = estimates.draws[rows]


def mixture_low(hits: Floats, draws: Ints, alpha: Floats | float) -> Floats:
    """Return the lower ends of a confidence sequence for a share (n,), valid at any stopping time.

    They are where Robbins' mixture passes 1 / alpha. The mixture is Beta(1/2, 1/2):
    B(s + 1/2, n - s + 1/2) / B(1/2, 1/2) / (q^s (1 - q)^(n - s)). Upper ends are 1 - mixture_low(misses, ...).

    >>> mixture_low(np.array([20.0, 50.0]), np.array([20, 100]), 0.05).round(2)
    array([0.78, 0.34])
    """
    from scipy.special import betaln, xlog1py, xlogy

    misses = draws - hits
    threshold = betaln(hits + 0.5, misses + 0.5) - betaln(0.5, 0.5) + np.log(alpha)
    outside, inside = np.zeros(len(hits)), hits / np.maximum(draws, 1)
    for _ in range(40):  # halvings: to 1e-12
        q = (outside + inside) / 2
        out = threshold - xlogy(hits, q) - xlog1py(misses, -q) >= 0
        outside, inside = np.where(out, q, outside), np.where(out, inside, q)
    return outside


def clopper_pearson_low(share: Floats, error: Floats, alpha: Floats | float) -> Floats:
    """Return the lower ends of Clopper & Pearson's intervals for shares (n,) of 1 / error draws; error 0: exact.

    >>> clopper_pearson_low(np.array([0.5, 0.5]), np.array([0.01, 0.0]), 0.05).round(3)
    array([0.398, 0.5  ])
    """
    from scipy.special import betaincinv

    size = 1 / np.where(error > 0, error, 1.0)
    hits, misses = share * size, (1 - share) * size
    low, half = np.zeros(share.shape), np.broadcast_to(np.asarray(alpha) / 2, share.shape)
    some = (error > 0) & (hits > 0)
    low[some] = betaincinv(hits[some], misses[some] + 1, half[some])
    return np.where(error > 0, low, share)


BIN_ROWS, MOST_BINS = 50, 4  # control rows whose chances are compared with what came true, and how many such bins
STANDARD_ERRORS = 2.0  # from which on a bin is off


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Chances of each decision for control rows and subsets (n, S, 2), by either half of the draws, beside what the
    model really decides of those rows (n,) (METHODS 15, 16)."""

    chance: Mapping[object, Floats]
    decisions: Array
    weights: Floats | None = None  # (n, S) by which control rows stand where the inputs are; None: all alike
    subsets: int | None = None  # the first so many were tested on control rows, nothing is known of others; None: all

    def off(self, input_of: Ints, subset_of: Ints, decisions: Array, share: Floats) -> Floats:
        """Return by how much the chance of another decision `share` (H,) is too high, as far as control rows are sure.

        `decisions` (n,) are those of the inputs. Control rows with a chance of the same decision like the input's are a
        bin of about 50. Where theirs came true more often than they should by two standard errors, the share is too
        high by the gap; 0 where they say nothing against it.
        """
        off, known = np.zeros(len(input_of)), np.flatnonzero(np.isfinite(share))
        for value in np.unique(decisions).tolist():
            chance, true = self.chance.get(value), self.decisions == value
            for subset in np.unique(subset_of).tolist()[: self.subsets]:
                rows = known[(decisions[input_of[known]] == value) & (subset_of[known] == subset)]
                if rows.size:
                    by_subset = np.zeros((len(true), 2)) if chance is None else chance[:, subset]
                    weights = None if self.weights is None else self.weights[:, subset]
                    off[rows] = forecast_gap(by_subset, true, 1 - share[rows], weights)
        return off


def decision_chances(
    decision: Decision, outputs: Floats, mass: Floats | None, *, again: bool = False
) -> list[tuple[object, Floats]]:
    """Return each decision with its share of the draws, of even and of odd draws apart (n, 2).

    Of a listed support both are the share of its mass (n, draws), without the first where that is the observed value
    `again`: a forecast of a row must not know the row, or sorting by it sorts by what came true.
    """
    made = decision(outputs)[:, 1:]
    if mass is not None and again and mass.shape[1] > 1:
        made, mass = made[:, 1:], mass[:, 1:]
    chances: list[tuple[object, Floats]] = []
    for value in np.unique(made).tolist():
        had = made == value
        if mass is None:
            halves = np.stack([had[:, ::2].mean(axis=1), had[:, 1::2].mean(axis=1)], axis=1)
        else:
            share = ((had * mass).sum(axis=1) / mass.sum(axis=1)).round(9)  # equal ones are tied
            halves = np.repeat(share[:, None], 2, axis=1)
        chances.append((value, halves))
    return chances


def forecast_gap(chance: Floats, true: Bools, at: Floats, weights: Floats | None = None) -> Floats:
    """Return how much more often than their chance (n, 2) rows came true, in the bin that each chance `at` (k,) is in.

    Bins are made by one half of the draws and judged by the other: a chance that is high is partly high by luck. Rows
    count by their `weights` (n,). Of chances that are exact (both halves alike) there is no luck, and equal ones stay
    together: among them rows stand in their order, which may be that of what came true.

    >>> chances, true = np.full((100, 2), 0.5), np.arange(100) % 5 > 0
    >>> forecast_gap(chances, true, np.array([0.5])).round(2)
    array([0.3])
    >>> forecast_gap(chances, np.arange(100) % 2 > 0, np.array([0.5]))
    array([0.])
    """
    by, judged = chance.T
    order = np.argsort(by, kind="stable")
    bins = np.array_split(order, int(np.clip(len(by) // BIN_ROWS, 1, MOST_BINS)))
    if np.array_equal(by, judged):
        starts = [0]
        for start in np.searchsorted(by[order], [by[after[0]] for after in bins[1:]]).tolist():
            starts += [start] * (start - starts[-1] >= BIN_ROWS // 2)
        bins = np.split(order, starts[1:])
    edges = [(by[before[-1]] + by[after[0]]) / 2 for before, after in pairwise(bins)]
    gaps = [true[members] - judged[members] for members in bins]
    shares = [np.ones(len(members)) if weights is None else weights[members] for members in bins]
    shares = [one / one.sum() for one in shares]
    gap = np.array([share @ one for share, one in zip(shares, gaps, strict=True)])
    squares = [(share**2) @ (one - mean) ** 2 for share, one, mean in zip(shares, gaps, gap, strict=True)]
    error = np.sqrt([square / (1 - (share**2).sum()) for square, share in zip(squares, shares, strict=True)])
    return np.where(np.abs(gap) > STANDARD_ERRORS * error, gap, 0.0)[np.searchsorted(edges, at)]
