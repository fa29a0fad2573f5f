"""Evidence -> chosen (`butfor.selection`). Arrays in, boolean arrays out; the theorems are named in guarantees.py."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from heapq import heappop, heappush
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from butfor.inference.adaptive import SLACK, clusters_of, learn_weights, strict_e_values, weighted_bh, weighted_p
from butfor.inference.guarantees import check_alpha, check_p, numbers
from butfor.streams import stream
from butfor.types import Bools, Floats, InputError, Ints

PARAMETERS = {  # of the rules, in numpydoc's form
    "p": "array-like (n,)\n    p-values.",
    "z": "array-like (n,)\n    Differences: wins above 0, losses below, ties 0.",
    "w": "array-like (n,)\n    Scores: wins above 0, losses below, ties 0.",
    "e": "array-like (n,)\n    e-values.",
    "p_matrix": "array-like (n, d)\n    p-values, a row per input, a column per subset; NaN where nothing was tested.",
    "alpha": "float\n    The error rate.",
    "draws": "int\n    Decoys that each hypothesis competes with.",
    "beyond": "float\n    How many nulls may win for want of a rival: beyond all rows that the sampler draws from.",
    "seed": "int\n    Of the random folds.",
    "groups": "array-like (n,), optional\n    A label per input; inputs of one label may depend on each other.",
}
Rule = TypeVar("Rule", bound=Callable[..., Bools])


def _documented(rule: Rule) -> Rule:
    """Put the sections Parameters and Returns, which the rules share, before the Examples of a docstring."""
    names = list(inspect.signature(rule).parameters)
    returned = f"bool array {'(n, d)' if 'p_matrix' in names else '(n,)'}\n    The chosen hypotheses."
    parameters = "\n".join(f"{name} : {PARAMETERS[name]}" for name in names)
    sections = f"Parameters\n----------\n{parameters}\n\nReturns\n-------\n{returned}\n\n"
    rule.__doc__ = inspect.cleandoc(rule.__doc__ or "").replace("Examples\n", f"{sections}Examples\n")
    return rule


@_documented
def bh(p: ArrayLike, alpha: float) -> Bools:
    """Benjamini-Hochberg: FDR <= alpha for independent or positively dependent p-values.

    Examples
    --------
    >>> bh([0.01, 0.02, 0.03, 0.5], alpha=0.1)
    array([ True,  True,  True, False])
    """
    return _adjusted(p, alpha, "bh")


@_documented
def by(p: ArrayLike, alpha: float) -> Bools:
    """Benjamini-Yekutieli: FDR <= alpha under arbitrary dependence.

    Examples
    --------
    >>> by([0.001, 0.02, 0.03, 0.5], alpha=0.1)
    array([ True,  True,  True, False])
    """
    return _adjusted(p, alpha, "by")


def _adjusted(p: ArrayLike, alpha: float, method: Literal["bh", "by"]) -> Bools:
    from scipy.stats import false_discovery_control

    check_alpha(alpha)
    p = check_p(p)
    return np.asarray(false_discovery_control(p, method=method) <= alpha * SLACK) if p.size else np.zeros(0, bool)


@_documented
def holm(p: ArrayLike, alpha: float) -> Bools:
    """Holm: P(any false discovery) <= alpha under arbitrary dependence.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03], alpha=0.05)
    array([ True, False, False])
    """
    check_alpha(alpha)
    p = check_p(p)
    order = np.argsort(p, kind="stable")
    steps = np.arange(p.size, 0, -1)
    passed = np.logical_and.accumulate(p[order] * steps <= alpha * SLACK)  # stops at the first that fails
    chosen = np.zeros(p.size, bool)
    chosen[order[passed]] = True
    return chosen


@_documented
def bonferroni(p: ArrayLike, alpha: float) -> Bools:
    """Bonferroni: P(any false discovery) <= alpha under arbitrary dependence.

    Examples
    --------
    >>> bonferroni([0.01, 0.04, 0.03], alpha=0.05)
    array([ True, False, False])
    """
    check_alpha(alpha)
    p = check_p(p)
    return p * p.size <= alpha * SLACK


@_documented
def knockoff_plus(z: ArrayLike, alpha: float, beyond: float = 0.0) -> Bools:
    """Knockoff+ (Barber & Candes 2015; paper, Algorithm 2, line 8): FDR <= alpha if null signs are independent coins.

    Examples
    --------
    >>> knockoff_plus([5, 4, 3, 2, -1], alpha=0.25)
    array([ True,  True,  True,  True, False])
    """
    z = numbers("z", z)
    check_alpha(alpha)
    if np.isnan(z).any():
        raise InputError("knockoff_plus got NaN among the z; drop those hypotheses first")
    return z >= _step_threshold(z, alpha, beyond)


@_documented
def seqstep(w: ArrayLike, alpha: float, draws: int, beyond: float = 0.0) -> Bools:
    """Selective SeqStep+ (Barber & Candes 2015) for one against `draws` decoys: w > 0 are wins, w < 0 losses.

    FDR <= alpha if null labels are independent; with draws >= 1/alpha - 1 even labels that are fully tied keep it.

    Examples
    --------
    >>> seqstep([5, 4, -1], alpha=0.1, draws=10)
    array([ True,  True, False])
    """
    w = numbers("w", w)
    check_alpha(alpha)
    if np.isnan(w).any() or draws < 1:
        raise InputError(f"seqstep needs numbers and draws of at least 1, got draws={draws}; drop NaN first")
    return w >= _step_threshold(w, alpha * draws, draws * beyond)


def _step_threshold(z: Floats, alpha: float, beyond: float) -> float:
    """The least size at which losses, and those that had no rival, are few enough beside wins.

    A sampler that draws from m rows makes nothing beyond all of them, while of every m + 1 null values one lies there:
    it wins whatever is drawn, by more than any loss. So many false wins are to be expected in all, and are counted.
    """
    candidates, false, wins = _counted(z, beyond)
    passes = false <= alpha * SLACK * wins
    return float(candidates[passes][0]) if passes.any() else np.inf


def _counted(z: Floats, beyond: float) -> tuple[Floats, Floats, Floats]:
    """Thresholds, from the least, the false wins to be expected beyond each, and the wins there."""
    candidates = np.unique(np.abs(z[z != 0]))  # z = 0 is a tie: it is neither a win nor a loss
    ordered = np.sort(z)
    wins = np.float64(z.size) - np.searchsorted(ordered, candidates, side="left")  # #{z >= c}
    losses = np.searchsorted(ordered, -candidates, side="right")  # #{z <= -c}
    return candidates, np.float64(1 + beyond) + losses, wins  # the 1 is what makes FDR control exact in finite samples


@_documented
def e_bh(e: ArrayLike, alpha: float) -> Bools:
    """e-BH (Wang & Ramdas 2022): FDR <= alpha for e-values under arbitrary dependence.

    Examples
    --------
    >>> e_bh([100.0, 1.0, 30.0], alpha=0.1)
    array([ True, False,  True])
    """
    e = numbers("e", e)
    check_alpha(alpha)
    if e.ndim != 1 or not (e >= 0).all():
        raise InputError("e must be a one-dimensional array of numbers that are not negative; drop NaN first")
    order = np.argsort(-e, kind="stable")
    passes = e[order] * np.arange(1, e.size + 1) * alpha * SLACK >= e.size
    chosen = np.zeros(e.size, bool)
    chosen[order[: int(np.flatnonzero(passes).max(initial=-1)) + 1]] = True
    return chosen


@_documented
def adaptive(p_matrix: ArrayLike, alpha: float, seed: int = 0, groups: ArrayLike | None = None) -> Bools:
    """Weighted BH over inputs x subsets; which subsets matter is learned from the other inputs (METHODS 12).

    FDR over all entries <= alpha if inputs are independent of each other; within an input any dependence is allowed.
    That is checked by simulation, not proven: `adaptive_strict` is the form with a proof. Inputs that share an error
    (copies, repeated measurements, a column of which all p-values are wrong together) break it: name them by `groups`
    (equal rows are one group anyway). With fewer than 20 distinct inputs or groups it is BH. It promises nothing for a
    single input read by itself.

    Examples
    --------
    >>> p = np.full((40, 3), 0.6)
    >>> p[:, 0] = np.linspace(0.001, 0.06, 40)
    >>> int(bh(p.ravel(), alpha=0.1).sum()), int(adaptive(p, alpha=0.1).sum())
    (0, 40)
    """
    p, named = _p_matrix(p_matrix, alpha, groups)
    tested = ~np.isnan(p)
    inputs, subsets = np.nonzero(tested)
    learned = learn_weights(p[tested], clusters_of(p, named)[inputs], subsets, alpha, stream(seed, "adaptive"))
    chosen = np.zeros(p.shape, bool)
    chosen[tested] = weighted_bh(p[tested], *learned, alpha)
    return chosen


@_documented
def adaptive_strict(p_matrix: ArrayLike, alpha: float, seed: int = 0, groups: ArrayLike | None = None) -> Bools:
    """`adaptive` with a proof, for 200 or more independent inputs (or groups): somewhat less power.

    FDR over all entries <= alpha if inputs are independent of each other, whatever the dependence within an input, for
    p-values of a number of draws that was fixed beforehand. The thresholds of an input come from the other inputs only;
    with these given, e = [P <= t] W / (pi t) has expectation <= W / pi under the null, these sum to at most the number
    of hypotheses over all true nulls, and that is what e-BH needs (`strict_e_values` has the steps). Equal rows are not
    found to be one group by themselves.

    Examples
    --------
    >>> p = np.full((200, 3), 0.6)
    >>> p[:, 0] = np.linspace(0.001, 0.06, 200)
    >>> int(bh(p.ravel(), alpha=0.1).sum()), int(adaptive_strict(p, alpha=0.1).sum())
    (0, 200)
    """
    p, named = _p_matrix(p_matrix, alpha, groups)
    tested = ~np.isnan(p)
    inputs, subsets = np.nonzero(tested)
    clusters = inputs if named is None else named[inputs]
    chosen = np.zeros(p.shape, bool)
    e = strict_e_values(p[tested], clusters, subsets, alpha, stream(seed, "adaptive-strict"))
    chosen[tested] = e_bh(e, alpha)
    return chosen


def _p_matrix(p_matrix: ArrayLike, alpha: float, groups: ArrayLike | None) -> tuple[Floats, Ints | None]:
    p = numbers("p_matrix", p_matrix)
    check_alpha(alpha)
    if p.ndim != 2 or not ((p >= 0) & (p <= 1) | np.isnan(p)).all():
        raise InputError(
            f"p_matrix must be an array (inputs, subsets) of numbers between 0 and 1, NaN where nothing was tested; "
            f"got shape {p.shape}"
        )
    if groups is None:
        return p, None
    if np.shape(groups) != (len(p),):
        raise InputError(f"groups must hold one label for each of the {len(p)} inputs, got shape {np.shape(groups)}")
    labels = np.unique(np.asarray(groups), return_inverse=True)[1]
    return p, labels.reshape(-1).astype(np.int64)


COMPETITIONS = ("seqstep", "knockoff+")  # rules that compare sizes with those of rivals
RULES: dict[str, Callable[..., Bools]] = {
    "bh": bh,
    "by": by,
    "holm": holm,
    "bonferroni": bonferroni,
    "knockoff+": knockoff_plus,
    "e-bh": e_bh,
}


def select(
    evidence: Floats,
    alpha: float,
    rule: str,
    tested: Bools,
    groups: Ints | None = None,
    draws: int = 1,
    floor: Floats | None = None,
) -> Bools:
    """Chosen hypotheses (H,): the rule over all that were tested, or within each group (one family per input).

    `floor` (H,) is the chance that a null value lies beyond all rows that the sampler draws from; its sum is `beyond`.
    """
    chosen, shares = np.zeros(len(evidence), bool), np.zeros(len(evidence)) if floor is None else floor
    choose = partial(seqstep, draws=draws) if rule == "seqstep" else RULES[rule]
    for _, members in in_groups(groups, tested):
        named = {"beyond": float(shares[members].sum())} if rule in COMPETITIONS else {}
        chosen[members] = choose(evidence[members], alpha, **named)
    return chosen


def in_groups(groups: Ints | None, tested: Bools) -> Iterator[tuple[int, Ints]]:
    """Yield the label of each group with those of its hypotheses that were tested; without groups all are one."""
    rows = np.flatnonzero(tested)
    labels = np.zeros(len(rows), np.int64) if groups is None else groups[rows]
    order = np.argsort(labels, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        if members.size:
            yield int(labels[members[0]]), rows[members]


TINY = 0.1  # an effect is this share, or less, of what it is a part of: it does not stand for that


@dataclass(frozen=True, eq=False)
class Layers:
    """The resolutions of all hypotheses of a run, from whole inputs down to their smallest parts."""

    resolution: Ints  # (H,) 0: all of the input
    parent: Ints  # (H,) the hypothesis that this one is a part of; -1: none
    stepwise: bool = False  # a part is drawn only where what it is a part of was chosen; what is not drawn has p = 1

    def reached(self, chosen: Bools, passing: Bools | None = None) -> Bools:
        """Return what may be chosen (H,) where these are: parts of them, parts of a whole, and what is no part.

        The whole is looked through: what its parts do to the output may cancel in it. So is what is `passing` (H,).

        >>> Layers(np.array([0, 1, 2, 2]), np.array([-1, 0, 1, 1])).reached(np.zeros(4, bool))
        array([ True,  True, False, False])
        """
        reached = np.ones(len(chosen), bool)
        self.top_down(lambda resolution, parts: reached.__iand__(parts | ~resolution) & chosen, passing)
        return reached

    def top_down(self, choose: Callable[[Bools, Bools], Bools], passing: Bools | None = None) -> Bools:
        """Return what is chosen (H,), one resolution after the other, from the whole down.

        `choose` gets which hypotheses are of a resolution, and which of them are parts of something chosen (H,).

        >>> layers = Layers(np.array([0, 1, 2]), np.array([-1, 0, 1]))
        >>> layers.top_down(lambda members, reached: members & reached & np.array([False, True, True]))
        array([False,  True,  True])
        >>> layers.top_down(lambda members, reached: members & reached & np.array([True, False, True]))
        array([ True, False, False])
        """
        (chosen, passed), through = np.zeros((2, len(self.parent)), bool), self.through(passing)
        for members in self.members:
            reached = members & ((self.parent < 0) | passed[self.parent])
            chosen |= choose(members, reached) & reached
            passed |= reached & (chosen | through)
        return chosen

    def through(self, passing: Bools | None) -> Bools:
        """Return what is looked through (H,): the whole, and what is `passing`."""
        return np.asarray(self.resolution == 0 if passing is None else (self.resolution == 0) | passing)

    @cached_property
    def members(self) -> list[Bools]:
        """Which hypotheses are of each resolution (H,), from the whole down."""
        return [self.resolution == number for number in np.unique(self.resolution)]

    def first(self, size: int) -> Layers:
        """Return those of the first `size` hypotheses: the subsets of one input of a table."""
        return replace(self, resolution=self.resolution[:size], parent=self.parent[:size])

    def finest(self, chosen: Bools, effect: Floats | None = None) -> Bools:
        """Those chosen of which no part is chosen; with effects (H,) no part that contradicts what it is a part of.

        A part contradicts a chosen larger one if its effect has the other sign or at most a tenth of the size: then the
        larger one is the finest (METHODS 18). Where an effect is not known, nothing is contradicted.

        >>> layers, chosen = Layers(np.array([0, 1, 1]), np.array([-1, 0, 0])), np.array([True, True, False])
        >>> layers.finest(chosen)
        array([False,  True, False])
        >>> layers.finest(chosen, np.array([-0.29, 0.02, 0.0]))
        array([ True, False, False])
        """
        if effect is not None:
            chosen, above = chosen.copy(), np.zeros(len(chosen))  # the largest effect of those it is a part of
            for members in self.members:
                top = np.where(self.parent < 0, 0.0, above[self.parent])
                chosen &= ~(members & (top != 0) & ((effect * top < 0) | (np.abs(effect) <= TINY * np.abs(top))))
                larger = chosen & (np.abs(effect) > np.abs(top))
                above[members] = np.where(larger, effect, top)[members]
        parted, parents = np.zeros(len(chosen), bool), self.parent[chosen]
        while (parents := parents[parents >= 0]).size:
            parted[parents] = True
            parents = np.unique(self.parent[parents])
        return np.asarray(chosen & ~parted)


def layers_of_table(resolution: Ints, parent: Ints, inputs: int) -> Layers:
    """The layers of a table, from those of its subsets (S,): every subset is tested on every input, input by input."""
    rows = np.arange(inputs)[:, None] * len(resolution)
    above = np.where(parent >= 0, rows + parent, -1)
    return Layers(np.tile(resolution, inputs), above.reshape(-1).astype(np.int64))


@dataclass(frozen=True, eq=False)
class LearningUnits:
    """Units that weights are learned over (H,): inputs that may depend on each other, and hypotheses that are alike."""

    cluster: Ints
    label: Ints


@dataclass(frozen=True, eq=False)
class Choice:
    """A rule and all that it needs beside the evidence."""

    rule: str
    alpha: float
    families: Ints | None = None  # (H,) the family of each hypothesis; None: one for all
    layers: Layers | None = None
    calibrated: Bools | None = None  # (H,) False: its draws were wrong on held-out reference rows; never chosen
    draws: int = 1  # decoys of a competition
    floor: Floats | None = None  # (H,) share of null values beyond all that the sampler draws, where rivals compete
    units: LearningUnits | None = None
    weights: tuple[Floats, Floats] | None = None  # (H,) weights and null shares; None: learned from the evidence itself

    def chosen(self, evidence: Floats, tested: Bools) -> Bools:
        if self.layers is None:
            return self.in_families(evidence, tested)
        weighted = self.after_pilot(evidence, tested) if self.weights is None else self  # weights are learned from all

        # What is no part of something chosen cannot be chosen, and counts in its family. Left out of the family, or
        # dropped from what the rule chose over all, it would make the error rate too large: which parts are left was
        # picked by the very outputs that they are chosen by (Katsevich, Sabatti & Bogomolov 2021, filtering). Where
        # rivals compete, its wins are gone and its losses stay.
        null = 0.0 if self.rule in (*COMPETITIONS, "e-bh") else 1.0

        def choose(level: Bools, reached: Bools) -> Bools:
            counts = reached | (evidence < 0) if self.rule in COMPETITIONS else reached
            return weighted.in_families(np.where(counts, evidence, null), tested & level)

        return self.layers.top_down(choose, self._passing)

    def waiting(self, evidence: Floats, tested: Bools, chosen: Bools) -> Bools:
        """Return what is not chosen only because the larger subset that it is part of is not (H,): drawing it can wait.

        Once the larger subset is chosen it may need more draws: what else waits then counts in its family as p = 1.
        """
        if self.layers is None:
            return np.zeros(len(chosen), bool)
        kept_back = self.in_families(evidence, tested) & ~chosen
        return kept_back & ~self.layers.reached(chosen, self._passing) if kept_back.any() else kept_back

    @property
    def _passing(self) -> Bools | None:
        return None if self.calibrated is None else ~self.calibrated

    def in_families(self, evidence: Floats, tested: Bools) -> Bools:
        """Return what the rule rejects (H,), whether or not the larger subsets are chosen."""
        if self.calibrated is not None:
            tested = tested & self.calibrated
        if self.rule not in ("adaptive", "adaptive-strict"):
            return select(evidence, self.alpha, self.rule, tested, self.groups, self.draws, self.floor)
        chosen = np.zeros(len(tested), bool)
        if self.rule == "adaptive-strict":
            for number, rows in in_groups(self.groups, tested):
                e = strict_e_values(evidence[rows], *self._units(rows), self.alpha, self._stream(number))
                chosen[rows] = e_bh(e, self.alpha)
            return chosen
        weights, nulls = self.learned(evidence, tested)
        for _, rows in in_groups(self.groups, tested):
            chosen[rows] = weighted_bh(evidence[rows], weights[rows], float(nulls[rows[0]]), self.alpha)
        return chosen

    def least_alpha(self, evidence: Floats, tested: Bools) -> Floats:
        """Return q (H,), the least alpha at which each hypothesis would be chosen: `chosen` is `q <= alpha`.

        Family, layers and weights stay as they are: weights, null shares and the e-values of "adaptive-strict" are
        those learned at this alpha. q is at least p, at least the q of what a hypothesis is a part of (but of what is
        looked through), and 1 where no alpha will do. NaN where nothing was tested or the draws were wrong, and for
        competitions on several resolutions.

        >>> Choice("bh", 0.1).least_alpha(np.array([0.01, 0.04, 0.05, 0.9]), np.ones(4, bool)).round(3)
        array([0.04 , 0.067, 0.067, 0.9  ])
        """
        q, size = np.full(len(tested), np.nan), len(tested)
        if self.layers is not None and self.rule in COMPETITIONS:
            return q
        choice, tested = self.after_pilot(evidence, tested), tested & (self.calibrated is None or self.calibrated)
        layers = self.layers or Layers(np.zeros(size, np.int64), np.full(size, -1))
        begins, passed = np.zeros((2, size))  # the alpha from which on a hypothesis, and its parts, may be chosen
        for level in layers.members:
            begins[level] = np.where(layers.parent < 0, 0.0, passed[layers.parent])[level]
            for number, rows in in_groups(choice.groups, tested & level):
                least = np.minimum(choice._least_alpha(number, rows, evidence[rows], begins[rows]), 1.0)
                q[rows] = np.where(np.abs(least - self.alpha) <= self.alpha * (SLACK - 1), self.alpha, least)
            passed[level] = np.where(layers.through(self._passing), begins, np.nan_to_num(q, nan=np.inf))[level]
        return q

    def _least_alpha(self, number: int, rows: Ints, evidence: Floats, begins: Floats) -> Floats:
        """The least alpha (n,) for the hypotheses `rows` of one family."""
        if self.rule in COMPETITIONS:
            draws = self.draws if self.rule == "seqstep" else 1
            beyond = 0.0 if self.floor is None else draws * float(self.floor[rows].sum())
            candidates, false, wins = _counted(evidence, beyond)
            share = np.append(np.minimum.accumulate(false / np.maximum(draws * wins, 0.5)), 1.0)
            return np.where(evidence > 0, share[np.searchsorted(candidates, evidence)], 1.0)
        if self.rule == "e-bh":
            return _step_up(1 / np.maximum(evidence, 1e-300), begins)
        reached, begins = begins <= self.alpha, np.maximum(begins, evidence)  # nothing with p > alpha is chosen
        if self.rule == "bonferroni":
            return np.maximum(begins, evidence * len(rows))
        if self.rule == "holm":
            return _step_down(evidence, begins)
        if self.rule == "adaptive":
            assert self.weights is not None
            evidence = weighted_p(evidence, self.weights[0][rows], float(self.weights[1][rows[0]]))
        elif self.rule == "adaptive-strict":
            p = np.where(reached, evidence, 1.0)
            e = strict_e_values(p, *self._units(rows), self.alpha, self._stream(number))
            evidence = 1 / np.maximum(e, 1e-300)
        elif self.rule == "by":
            evidence = evidence * (1 / np.arange(1, len(rows) + 1)).sum()
        return _step_up(evidence, begins)

    def learned(self, p: Floats, tested: Bools) -> tuple[Floats, Floats]:
        """Weights and null shares (H,): those it has, or else what these p-values teach (METHODS 12)."""
        if self.weights is not None:
            return self.weights
        weights, nulls = np.ones(len(p)), np.ones(len(p))
        for number, rows in in_groups(self.groups, tested):
            learned = learn_weights(p[rows], *self._units(rows), self.alpha, self._stream(number))
            weights[rows], nulls[rows] = learned
        return weights, nulls

    def after_pilot(self, p: Floats, tested: Bools) -> Choice:
        """The choice for the rest of a run, when these p-values of its first draws are known."""
        if self.rule != "adaptive":
            return self
        if self.calibrated is not None:
            tested = tested & self.calibrated
        return replace(self, weights=self.learned(p, tested))

    @property
    def groups(self) -> Ints | None:
        """The family of each hypothesis: within each resolution, and there within each input where so asked."""
        if self.layers is None:
            return self.families
        if self.families is None:
            return self.layers.resolution
        return np.asarray(self.families * (int(self.layers.resolution.max(initial=0)) + 1) + self.layers.resolution)

    def _units(self, rows: Ints) -> tuple[Ints, Ints]:
        assert self.units is not None
        return self.units.cluster[rows], self.units.label[rows]

    @staticmethod
    def _stream(family: int) -> np.random.Generator:
        """Of the folds: the same in every run, so that with the same p-values another seed chooses the same."""
        return stream(0, "adaptive", family, 0)


def _step_up(p: Floats, begins: Floats) -> Floats:
    """The least alpha (n,) at which BH chooses each p-value, which counts as 1 while alpha < `begins` (n,).

    With k chosen, alpha must be at least p n / k and `begins` for each of them. As alpha falls, the one that needs most
    drops out, and with it all that need more than that alpha once k is less.

    >>> _step_up(np.array([0.01, 0.02, 0.5]), np.array([0.3, 0.0, 0.0])).round(3)
    array([0.3 , 0.06, 0.5 ])
    """
    size, least = len(p), np.ones(len(p))
    some = np.flatnonzero((p < 1) & (begins < 1))
    by_p = some[np.argsort(p[some])]
    if (begins[some] <= p[some]).all():  # p n / k is more
        least[by_p[::-1]] = np.minimum.accumulate(p[by_p[::-1]] * (size / np.arange(len(some), 0, -1)))
        return least
    p_of, begins_of, left, alpha = p.tolist(), begins.tolist(), [True] * size, np.inf
    first, second = by_p.tolist(), some[np.argsort(begins[some])].tolist()
    for k in range(len(some), 0, -1):
        for last in (first, second):
            while not left[last[-1]]:
                last.pop()
        needs, row = max((p_of[first[-1]] * (size / k), first[-1]), (begins_of[second[-1]], second[-1]))
        least[row] = alpha = min(alpha, needs)
        left[row] = False
    return least


def _step_down(p: Floats, begins: Floats) -> Floats:
    """The least alpha (n,) at which Holm chooses each p-value, which counts as 1 while alpha < `begins` (n,).

    >>> _step_down(np.array([0.01, 0.02, 0.5]), np.array([0.3, 0.0, 0.0])).round(3)
    array([0.3 , 0.06, 0.5 ])
    """
    order, waiting, alpha, least = np.argsort(begins).tolist(), 0, 0.0, np.ones(len(p))
    ready: list[tuple[float, int]] = []
    for left in range(len(p), 0, -1):  # the next one is the least of those that may be chosen at that alpha
        while waiting < len(p) and (not ready or begins[order[waiting]] <= max(alpha, ready[0][0] * left)):
            heappush(ready, (float(p[order[waiting]]), order[waiting]))
            waiting += 1
        small, row = heappop(ready)
        least[row] = alpha = max(alpha, float(begins[row]), small * left)
    return least
