"""The but-for test of a decision: how often would it have been otherwise, and how sure is that (METHODS 16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import Array, Bools, Floats, InputError, Ints

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
