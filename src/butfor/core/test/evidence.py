"""Statistics (n, versions), the observed one first, -> evidence: p (fixed K), p (sequential), z, competition, e."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from butfor.core.evaluate.outputs import snap
from butfor.core.types import Bools, Floats, Ints

EvidenceKind = Literal["p", "z", "w", "e"]


@dataclass(frozen=True)
class Evidence:
    """What a test found, one entry per hypothesis."""

    kind: EvidenceKind
    values: Floats  # (H,)
    varied: Bools  # (H,) False: all values equal, whatever was drawn
    observed: Floats  # (H,)
    classes: Ints  # (H,) output that was tested
    draws: Ints  # (H,)
    open: Bools  # (H,) True: neither chosen nor given up when drawing stopped
    drawable: Bools  # (H,) False: hardly any draw passed `picked`, so there is no evidence
    scale: Floats  # (H,) what the values are divided by before a selection; 1 but for few-shot
    least: Floats  # (H,) the least p-value that a listed support allows; 0 elsewhere
    surprise: Floats  # (H,) share of counterfactuals with a less extreme statistic; NaN: not known

    @property
    def scaled(self) -> Floats:
        """The values that rules compare; scores that are equal but for rounding stay together."""
        return snap(self.values / self.scale) if self.kind == "w" else self.values


@dataclass(frozen=True)
class Found:
    """Evidence on some hypotheses; what is None is as if every draw had been made and nothing was odd."""

    rows: Ints  # (n,) where they stand
    values: Floats
    observed: Floats
    classes: Ints
    varied: Bools | None = None
    draws: int | None = None
    drawable: Bools | None = None
    least: Floats | None = None
    surprise: Floats | None = None


def give_up(evidence: Evidence, rows: Ints) -> Evidence:
    """Nothing speaks against the null of hypotheses that could not be tested; they stay in their family."""
    if not rows.size:
        return evidence
    values, surprise = evidence.values.copy(), evidence.surprise.copy()
    varied, drawable, still = evidence.varied.copy(), evidence.drawable.copy(), evidence.open.copy()
    values[rows], surprise[rows] = (1.0 if evidence.kind == "p" else 0.0), np.nan
    varied[rows], drawable[rows], still[rows] = True, True, False
    return replace(evidence, values=values, surprise=surprise, varied=varied, drawable=drawable, open=still)


def gather(kind: EvidenceKind, size: int, draws: int, parts: Iterable[Found]) -> Evidence:
    """The evidence on all hypotheses; where there is none, nothing speaks against the null."""
    values, least, drawn = np.full(size, 1.0 if kind == "p" else 0.0), np.zeros(size), np.full(size, draws)
    observed, classes = np.full(size, np.nan), np.zeros(size, np.int64)
    varied, drawable, surprise = np.ones(size, bool), np.zeros(size, bool), np.full(size, np.nan)
    for part in parts:
        values[part.rows], observed[part.rows], classes[part.rows] = part.values, part.observed, part.classes
        drawable[part.rows] = True if part.drawable is None else part.drawable
        if part.varied is not None:
            varied[part.rows] = part.varied
        if part.draws is not None:
            drawn[part.rows] = part.draws
        if part.least is not None:
            least[part.rows] = part.least
        if part.surprise is not None:
            surprise[part.rows] = part.surprise
    is_open, scale = np.zeros(size, bool), np.ones(size)
    return Evidence(kind, values, varied, observed, classes, drawn, is_open, drawable, scale, least, surprise)


def not_drawn(rows: Ints) -> Found:
    """Evidence on hypotheses (n,) that are not drawn: they stay in the family, and nothing speaks against the null."""
    nothing = np.full(len(rows), np.nan)
    return Found(rows, np.ones(len(rows)), nothing, np.zeros(len(rows), np.int64), draws=0, surprise=nothing)


def merged_evidence(one: Evidence, two: Evidence, now: Bools) -> Evidence:
    """The evidence of `two` where it is from now (H,), that of `one` elsewhere."""
    names = [field.name for field in fields(Evidence) if field.name != "kind"]
    return Evidence(one.kind, **{name: np.where(now, vars(two)[name], vars(one)[name]) for name in names})


def p_fixed(statistic: Floats, margin: float = 0.0) -> Floats:
    """p-values of the interpretability randomisation test (paper, Algorithm 1, line 9).

    Valid at every K: the observed value's rank among K + 1 exchangeable ones is uniform, and ties push it down. With a
    margin the null is that the observed value exceeds an exchangeable one by at most so much: lowered by the margin it
    is at most that one, so that its p-value is at least as large.

    >>> p_fixed(np.array([[3.0, 1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 0.0]]))
    array([0.25, 0.75])
    """
    observed, null = statistic[:, :1], statistic[:, 1:]
    hits = (null >= observed - margin).sum(axis=1)  # ties count against us: keeps p valid
    return np.asarray((1 + hits) / (null.shape[1] + 1))


def share_below(statistic: Floats) -> Floats:
    """Share of the draws (n,) that are less extreme than the observed value.

    >>> share_below(np.array([[3.0, 1.0, 2.0, 3.0]]))
    array([0.66666667])
    """
    return np.asarray((statistic[:, 1:] < statistic[:, :1]).sum(axis=1) / (statistic.shape[1] - 1))


def varies(statistic: Floats) -> Bools:
    """False where all K + 1 values are equal: no draw can ever be surprising there (METHODS 6)."""
    return np.asarray((statistic != statistic[:, :1]).any(axis=1))


def z_one_shot(statistic: Floats, *, squared: bool = False) -> Floats:
    """Differences of the one-shot feature test (paper, Algorithm 2, line 6); a tie is 0 and never counts.

    >>> z_one_shot(np.array([[3.0, 1.0], [2.0, 2.0]]))
    array([2., 0.])
    """
    observed, drawn = statistic[:, 0], statistic[:, 1]
    difference = observed - drawn
    return difference * (observed + drawn) if squared else difference  # (y-c)^2 - (y~-c)^2, two-sided in the paper


def besag_clifford(hits: Bools, counted: Bools | None, draws: Ints, exceeded: Ints, h: int) -> tuple[Ints, Ints]:
    """Draws and exceedances after a batch, looked at in order: counting stops at the draw that is the h-th exceedance.

    `hits` (n, batch) says t~ >= t, `counted` (n, batch) which draws count at all (None: all), `draws` and `exceeded`
    (n,) where each hypothesis stood. Stopping at the batch's end instead would make p too small (METHODS 2).
    """
    counting = hits if counted is None else hits & counted
    fresh = counting.sum(axis=1)
    seen = draws + (hits.shape[1] if counted is None else counted.sum(axis=1))
    total = exceeded + fresh
    ends = np.flatnonzero(total >= h)
    if ends.size:  # few: only there the order matters
        at = (exceeded[ends, None] + np.cumsum(counting[ends], axis=1) >= h).argmax(axis=1)
        until = at + 1 if counted is None else np.cumsum(counted[ends], axis=1)[np.arange(len(ends)), at]
        seen[ends], total[ends] = draws[ends] + until, h
    return seen, total


def p_sequential(draws: Ints, exceeded: Ints, h: int) -> Floats:
    """Besag & Clifford's p-value, valid at any time: h / (n + h - L), which is h / tau once L = h at draw tau.

    >>> p_sequential(np.array([0, 90, 25]), np.array([0, 0, 10]), h=10)
    array([1. , 0.1, 0.4])
    """
    return np.asarray(h / (draws + h - exceeded))


def competition(statistic: Floats) -> tuple[Ints, Floats, Floats]:
    """Who has the largest of the K + 1 values, by how much, and the spread of the others (METHODS 4).

    The label is +1 for the observed, -1 for a draw, 0 for a tied top (which drops the hypothesis); the score is the
    maximum minus the mean of the rest. Score and spreads are symmetric in the K + 1 values: the label stays a fair
    (K + 1)-sided coin given them.
    """
    top = statistic.max(axis=1)
    is_top = statistic == top[:, None]
    unique = is_top.sum(axis=1) == 1
    label = np.where(unique, np.where(is_top[:, 0], 1, -1), 0)
    rest = statistic.shape[1] - 1
    score = top - (statistic.sum(axis=1) - top) / rest
    inner = np.sort(statistic, axis=1)[:, :-1]
    return label, np.where(unique, score, 0.0), inner.std(axis=1)


def e_soft_rank(statistic: Floats) -> Floats:
    """Soft-rank e-values (METHODS 5): the observed value's share of sum exp(4 v / sd), times K + 1.

    Under the null the K + 1 values are exchangeable, so each share has mean 1 / (K + 1) and e has mean 1.

    >>> e_soft_rank(np.array([[1.0, 1.0, 1.0]]))
    array([1.])
    """
    spread = statistic.std(axis=1, keepdims=True)
    scaled = np.divide(statistic, spread, out=np.zeros_like(statistic), where=spread > 0)
    weights = np.exp(4 * (scaled - scaled.max(axis=1, keepdims=True)))
    return np.asarray(statistic.shape[1] * weights[:, 0] / weights.sum(axis=1))


def p_exact(statistic: Floats, probability: Floats, margin: float = 0.0) -> Floats:
    """p-values from a listed support (METHODS 9): the mass of values at least as surprising as the observed one.

    `statistic` (n, 1 + m) and `probability` (n, 1 + m) hold the observed value first, with its own mass.

    >>> p_exact(np.array([[2.0, 3.0, 1.0]]), np.array([[0.2, 0.3, 0.5]]))
    array([0.5])
    """
    hits = statistic >= statistic[:, :1] - margin  # the observed value is among them, so p is at least its mass
    return np.asarray(np.where(hits, probability, 0.0).sum(axis=1))
