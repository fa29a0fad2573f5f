"""By how much a part moves the output of one input: the mean change over its draws, with an interval (METHODS 22).

    drop = E[T(f(x)) - T(f(x~))],   x~_S ~ Q(. | x_-S),   T the output asked about, or that of the class f(x) has

x is fixed, so only the draws are random, and all of them count, whatever they were made for. Three errors make the
interval: that of the mean of the draws, by a mixture that holds whenever drawing stops; draws that were not seen; and
the error of the fitted sampler. Drops of size at most `min_effect` are the null of `moves`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from butfor.inference.decisions import mixture_low
from butfor.types import Bools, Floats, Ints

MIXTURE = 0.06  # variance of the drop in units of the draws', in the mixture: sharpest at about 100 draws


@dataclass(frozen=True, eq=False)
class MeanChange:
    """Of each hypothesis (H,): draws, and the mean and spread of what they change of the output."""

    draws: Ints  # 0: the mean is exact
    mean: Floats  # NaN: none were made
    deviation: Floats
    seen: Floats  # (2, H) least and largest change
    ends: Floats  # (2, H) least and largest change that the range of the output allows
    error: Floats  # 1 / m + leverage at x, of m reference rows: the fit tells the mean as well as 1 / error draws

    def bounds(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> tuple[Floats, Floats]:
        """Return a confidence interval (H,) for the drop that holds whenever drawing was stopped.

        Errors are combined in quadrature (no joint coverage is proven; it is measured). The draws' own: Student's t
        with a normal mixture over the drop in units of their deviation, (1 + n c)^-1/2 ((1 + t^2 / v) / (1 + t^2 / (v
        (1 + n c))))^(n / 2) <= 1 / alpha with v = n - 1 (Gönen et al. 2005), whose bounds hold at all times at once for
        normal draws and nearly so for the means of others. The fit's: its mean is off by a normal error of variance h
        in units of the residual's, of which the mean output moves by at most deviation sqrt(h) (Cauchy & Schwarz). What
        n draws have not shown, lumps beyond the least and largest change, has a share of at most that of 0 hits in n
        draws, and may go to the end of the range.
        """
        upper = replace(self, mean=-self.mean, seen=-self.seen[::-1], ends=-self.ends[::-1])
        return self.low(alpha, fit_alpha), -upper.low(alpha, fit_alpha)

    def low(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> Floats:
        from scipy.special import stdtrit

        alphas = np.broadcast_to(alpha, self.mean.shape)
        fit_alphas = alphas if fit_alpha is None else np.broadcast_to(fit_alpha, self.mean.shape)
        half, unseen = np.zeros(len(alphas)), np.zeros(len(alphas))
        drawn = np.flatnonzero(self.draws > 0)
        count = self.draws[drawn]
        half[drawn] = mixture_radius(count, alphas[drawn]) * self.deviation[drawn] / np.sqrt(count)
        unseen[drawn] = _unseen(count, alphas[drawn])
        rows = 1 / np.maximum(self.error, 1e-12)
        fit = -stdtrit(np.maximum(rows, 1.0), fit_alphas / 2) * self.deviation * np.sqrt(self.error)
        fit_unseen = 1 - (fit_alphas / 2) ** self.error
        further = np.where(np.isfinite(self.mean), np.maximum(self.seen[0] - self.ends[0], 0.0), 0.0)
        beyond = np.hypot(unseen, fit_unseen) * further
        below = np.where(self.draws == 1, np.inf, np.hypot(half, fit))  # a single draw has no spread
        return np.asarray(np.fmax(self.mean - below - beyond, self.ends[0]))

    def turned(self) -> MeanChange:
        """Return the same with the sign of each that is below 0 changed: sizes, as far as they are known."""
        down = np.nan_to_num(self.mean) < 0
        seen, ends = (np.where(down, -pair[::-1], pair) for pair in (self.seen, self.ends))
        return replace(self, mean=np.where(down, -self.mean, self.mean), seen=seen, ends=ends)

    def take(self, rows: Ints) -> MeanChange:
        parts = {name: value[..., rows] for name, value in vars(self).items()}
        return MeanChange(**parts)


FRACTIONS = (0.1, 0.3, 0.6, 0.95)  # of what may be lost on one draw, that are staked on each: small for small changes


@dataclass(frozen=True, eq=False)
class BoundedChange:
    """Of each hypothesis (H,): all changes of an output that lies between two ends, for few draws of any distribution.

    Whoever stakes a share f of what a drop of at most m may cost has, after draws of x,

        W(m) = mean over f of prod (1 + f (x - m) / (m - least)),   f in FRACTIONS

    which a mean of at most m lets pass 1 / alpha with probability alpha at most, whenever drawing is stopped: by
    Ville's inequality, without any assumption on the draws (betting; Waudby-Smith & Ramdas 2024, with fixed stakes).
    Student's t would see smaller changes in so few draws, and be wrong where one fill in 20 changes the output the
    other way: few draws show none of those.
    """

    changes: Floats  # (H, most draws); NaN beyond those of a hypothesis
    draws: Ints  # 0: the mean is exact
    mean: Floats  # NaN: none were made
    ends: Floats  # (2, H)
    weight: Floats  # (H,) share of the draws that are different ones; evidence is raised to that power

    def bounds(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> tuple[Floats, Floats]:
        """Return a confidence interval (H,) for the drop that holds whenever drawing was stopped."""
        upper = replace(self, changes=-self.changes, mean=-self.mean, ends=-self.ends[::-1])
        return self.low(alpha, fit_alpha), -upper.low(alpha, fit_alpha)

    def low(self, alpha: Floats | float, fit_alpha: Floats | float | None = None) -> Floats:  # noqa: ARG002
        rows = np.flatnonzero(self.draws > 0)
        low = self.mean.astype(np.float64)
        part, threshold = self.take(rows), np.log(1 / np.broadcast_to(alpha, self.mean.shape)[rows])
        outside, inside = part.ends[0].copy(), part.mean.copy()
        for _ in range(30):  # halvings of at most 2: to 1e-9
            middle = (outside + inside) / 2
            out = part.log_wealth(middle) >= threshold
            outside, inside = np.where(out, middle, outside), np.where(out, inside, middle)
        low[rows] = outside
        return low

    def p_value(self, level: float) -> Floats:
        """Return p-values (H,) of a drop of at most so much: the least alpha with `low` above it."""
        p = np.where(self.mean > level, 0.0, 1.0)
        rows = np.flatnonzero(self.draws > 0)
        logs = self.take(rows).log_wealth(np.full(rows.size, level))
        p[rows] = np.where(self.mean[rows] > level, np.minimum(np.exp(-logs), 1.0), 1.0)
        return p

    def log_wealth(self, m: Floats) -> Floats:
        """Return log W(m) of each hypothesis, for both sides."""
        from scipy.special import logsumexp

        room = np.maximum(m - self.ends[0], 1e-12)[:, None]
        gain = (self.changes - m[:, None]) / room
        logs = [np.nansum(np.log1p(f * np.maximum(gain, -1.0)), axis=1) * self.weight for f in FRACTIONS]
        return np.asarray(logsumexp(np.stack(logs), axis=0) - np.log(2 * len(FRACTIONS)))

    def turned(self) -> BoundedChange:
        down = np.nan_to_num(self.mean) < 0
        changes, ends = (
            np.where(down[:, None], -self.changes, self.changes),
            np.where(down, -self.ends[::-1], self.ends),
        )
        return replace(self, changes=changes, mean=np.where(down, -self.mean, self.mean), ends=ends)

    def take(self, rows: Ints) -> BoundedChange:
        parts = (self.changes[rows], self.draws[rows], self.mean[rows], self.ends[:, rows], self.weight[rows])
        return BoundedChange(*parts)


def mixture_radius(draws: Ints, alpha: Floats | float) -> Floats:
    """Return by how many standard errors of n draws' mean a confidence sequence goes to either side; 1e9: too few.

    >>> mixture_radius(np.array([20, 100, 400]), 0.05).round(1)
    array([4.6, 3.1, 3.1])
    """
    wide, freedom = 1 + draws * MIXTURE, np.maximum(draws - 1, 1)
    ratio = (np.sqrt(wide) / alpha) ** (2 / (freedom + 1))
    room = 1 - ratio / wide
    return np.sqrt(np.where(room > 0, freedom * (ratio - 1) / np.where(room > 0, room, 1.0), 1e18))


def _unseen(draws: Ints, alpha: Floats) -> Floats:
    """Return the share of changes that so many draws may have missed; hypotheses in their thousands have few counts."""
    if not len(draws) or alpha.min() < alpha.max():
        return np.asarray(1 - mixture_low(draws.astype(np.float64), draws, alpha))
    counts, which = np.unique(draws, return_inverse=True)
    return np.asarray(1 - mixture_low(counts.astype(np.float64), counts, alpha[0])[which])


def changes_of(gaps: Floats, mass: Floats | None) -> Floats:
    """Return the sum, sum of squares, least and largest (4, n) of changes (n, draws); with `mass` means."""
    if mass is None:
        return np.stack([gaps.sum(axis=1), (gaps**2).sum(axis=1), gaps.min(axis=1), gaps.max(axis=1)])
    weight = mass / mass.sum(axis=1, keepdims=True)
    some: Bools = weight > 0
    least, most = np.where(some, gaps, np.inf).min(axis=1), np.where(some, gaps, -np.inf).max(axis=1)
    return np.stack([(weight * gaps).sum(axis=1), (weight * gaps**2).sum(axis=1), least, most])
