"""Choosing over more hypotheses than memory holds: thresholds from passes over blocks, equal to those in memory.

A number that is not negative, read as an integer (its IEEE bits), keeps its place in the order. So a first pass counts
by the leading bits, 2 MB of counters whatever there is to count, and shows which few of these bins the threshold can
lie in; the next pass looks into those alone. Nothing is rounded: the choice is the one in memory, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from butfor.inference.adaptive import FULL, SLACK, Learner, clusters_of, learn_weights
from butfor.streams import stream
from butfor.types import Bools, Floats, InputError, Ints

Blocks = Callable[[], Iterable[ArrayLike]]  # evidence block by block, the same each time it is called
Strength = tuple[Ints, Bools | None]  # keys, larger where there is more evidence; which of them are losses (None: none)
Stream = Callable[[], Iterable[Strength]]
Passes = Callable[[Ints, Ints, Ints], Bools]  # keys, wins and losses from there on -> is that a threshold?

FIRST = 44  # bits that the first pass leaves out: bins of 1/256 of their value
BINS = 2**18  # counters of a later pass
MOST = 2**12  # bins that one later pass looks into
WIDEST = int(np.float64(np.inf).view(np.int64)) + 1


def bh_threshold(blocks: Blocks, alpha: float) -> float:
    """The threshold of `bh` over all blocks: what is chosen is p <= threshold; -inf chooses nothing.

    Two passes over the blocks as a rule, a few more where p-values lie along BH's own line or are tied there; memory is
    a few megabytes and one block. The choice is that of `bh` on all p-values together.

    Parameters
    ----------
    blocks : called without arguments, gives the p-values block by block; the same ones each time.
    alpha : the level.

    Examples
    --------
    >>> p = [np.array([0.01, 0.5]), np.array([0.03, 0.02])]
    >>> bool(0.03 <= bh_threshold(lambda: p, alpha=0.1) < 0.5)
    True
    """
    level, size = _level(alpha), sum(len(part) for part in _p_values(blocks))
    top = _key(np.array([1.0]))[0]

    def passes(keys: Ints, wins: Ints, _: Ints) -> Bools:  # as `bh`: p_(k) m / k, cut off at 1
        return np.asarray(np.minimum(_value(top - keys) * (size / np.maximum(wins, 1)), 1.0) <= level)

    found = least_passing(lambda: ((top - _key(p), None) for p in _p_values(blocks)), passes, int(top) + 1)
    return -np.inf if found is None else float(_value(np.array([top - found]))[0])


def weighted_bh_threshold(blocks: Blocks, size: int, alpha: float) -> float:
    """The threshold of weighted BH over blocks of p-values that were divided by their weights; inf is never chosen.

    >>> adjusted = np.array([0.02, 0.08, np.inf])
    >>> bool(0.02 <= weighted_bh_threshold(lambda: [adjusted], 3, alpha=0.1) < 0.08)
    True
    """
    level = _level(alpha)

    def passes(keys: Ints, wins: Ints, _: Ints) -> Bools:  # as `weights.weighted_bh`
        return np.asarray(_value(WIDEST - 1 - keys) <= level * wins / size)

    found = least_passing(lambda: ((WIDEST - 1 - _key(np.asarray(q)), None) for q in blocks()), passes, WIDEST)
    return -np.inf if found is None else float(_value(np.array([WIDEST - 1 - found]))[0])


def knockoff_plus_threshold(blocks: Blocks, alpha: float, beyond: float = 0.0) -> float:
    """The threshold of `knockoff_plus` over all blocks: what is chosen is z >= threshold; inf chooses nothing.

    Parameters
    ----------
    blocks : called without arguments, gives the differences block by block; the same ones each time.
    alpha : the level.
    beyond : as in `knockoff_plus`.

    Examples
    --------
    >>> bool(1 < knockoff_plus_threshold(lambda: [[5, 4], [3, 2, -1]], alpha=0.25) <= 2)
    True
    """
    level = _level(alpha)

    def passes(_: Ints, wins: Ints, losses: Ints) -> Bools:  # as `rules._step_threshold`
        return np.asarray(1 + losses + beyond <= level * wins)

    found = least_passing(lambda: _signed(blocks), passes, WIDEST)
    return np.inf if found is None else float(_value(np.array([found]))[0])


def least_passing(stream: Stream, passes: Passes, end: int) -> int | None:
    """A key in [0, end) at which the least candidate that passes is cut off; None: none passes.

    `passes` must be easier with a larger key, more wins and fewer losses. Then of a bin two things are known from its
    counts: its least candidate has all that lies in the bin and above, so the bin's lower edge passing is enough; and
    no candidate in it has fewer losses than lie above the bin, so that failing with those is final. What is left
    undecided below the first bin that passes is looked into by another pass.
    """
    return _searched(stream, passes, _Bins(np.arange((end - 1 >> FIRST) + 1) << FIRST, 1 << FIRST))


@dataclass(frozen=True, eq=False)
class _Bins:
    """Bins of equal width, in order, with gaps between some; what lies in the gaps is counted already."""

    starts: Ints  # (b,)
    width: int  # a power of two
    wins: Ints | int = 0  # (b,) that lie above a bin, but in none of the bins
    losses: Ints | int = 0


def _searched(stream: Stream, passes: Passes, bins: _Bins) -> int | None:
    wins, losses = _counted(stream, bins)
    won, lost = _from_there_on(wins) + bins.wins, _from_there_on(losses) + bins.losses
    there = (wins > 0) | (losses > 0)
    sure = there & passes(bins.starts, won, lost)
    maybe = there & ~sure & passes(bins.starts + bins.width - 1, won, lost - losses) & (bins.width > 1)
    first = int(sure.argmax()) if sure.any() else len(sure)
    undecided = np.flatnonzero(maybe[:first])
    for start in range(0, len(undecided), MOST):
        some = undecided[start : start + MOST]
        outside = [every[some] - _from_there_on(own[some]) for every, own in ((won, wins), (lost, losses))]
        found = _searched(stream, passes, _finer(bins, some, *outside))
        if found is not None:
            return found
    return int(bins.starts[first]) if first < len(sure) else None


def _from_there_on(counts: Ints) -> Ints:
    return np.asarray(counts[::-1].cumsum()[::-1], np.int64)


def _finer(bins: _Bins, some: Ints, wins: Ints, losses: Ints) -> _Bins:
    """Some of the bins, each cut into as many as there are counters for; beside which lie so many wins and losses."""
    parts = min(bins.width, 1 << int(np.log2(BINS / len(some))))
    width = bins.width // parts
    starts = (bins.starts[some][:, None] + width * np.arange(parts)).reshape(-1)
    return _Bins(starts, width, np.repeat(wins, parts), np.repeat(losses, parts))


def _counted(stream: Stream, bins: _Bins) -> tuple[Ints, Ints]:
    """One pass: wins and losses in every bin."""
    wins, losses = np.zeros((2, len(bins.starts)), np.int64)
    whole = bins.width == 1 << FIRST
    for keys, lost in stream():
        if whole:
            place = keys >> FIRST
        else:
            near = (keys >= bins.starts[0]) & (keys < bins.starts[-1] + bins.width)
            keys, lost = keys[near], None if lost is None else lost[near]
            place = bins.starts.searchsorted(keys, "right") - 1
            inside = keys - bins.starts[place] < bins.width
            place, lost = place[inside], None if lost is None else lost[inside]
        wins += np.bincount(place if lost is None else place[~lost], minlength=len(wins))
        if lost is not None:
            losses += np.bincount(place[lost], minlength=len(losses))
    return wins, losses


def _key(values: Floats) -> Ints:
    """The bits of numbers that are not negative, as integers of the same order; -0 is 0."""
    return np.asarray((np.asarray(values, np.float64) + 0.0).view(np.int64))


def _value(keys: Ints) -> Floats:
    return np.asarray(keys, np.int64).view(np.float64)


def _p_values(blocks: Blocks) -> Iterator[Floats]:
    for part in blocks():
        p = np.asarray(part, np.float64)
        if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
            raise InputError("p must come in one-dimensional arrays of numbers between 0 and 1; drop NaN first")
        yield p


def _signed(blocks: Blocks) -> Iterator[Strength]:
    for part in blocks():
        z = np.asarray(part, np.float64)
        if np.isnan(z).any():
            raise InputError("knockoff_plus_threshold got NaN among the z; drop those hypotheses first")
        z = z[z != 0]  # a tie is neither a win nor a loss
        yield _key(np.abs(z)), z < 0


def _level(alpha: float) -> float:
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}; 0.1 is a common choice")
    return alpha * SLACK


Matrices = Callable[[], Iterable[Floats]]  # p-values (n, d) block by block, NaN: not tested; the same each time
SAMPLE = 5000  # inputs that weights are learned from
CHUNK = 4096  # inputs whose places in the lottery are drawn together


@dataclass(frozen=True, eq=False)
class StreamedAdaptive:
    """The adaptive rule, its weights learned and its threshold found: `chosen` says what it chooses of a block."""

    places: Ints  # (s,) the inputs that weights were learned from, in order
    own: Floats  # (s, d) weights of these, learned from others of them
    weights: Floats  # (d,) of all other inputs
    nulls: float
    threshold: float = -np.inf

    def chosen(self, start: int, p: Floats) -> Bools:
        """Chosen entries of the block (n, d) of inputs that begins with number `start`."""
        return np.asarray(self.adjusted(start, p) <= self.threshold)

    def adjusted(self, start: int, p: Floats) -> Floats:
        """p-values (n, d) divided by their weights, as weighted BH compares them; inf: never chosen."""
        weights = self.weights_of(start, len(p))
        gone = np.isnan(p) | ((p > 0.5) & (self.nulls < 1))  # counted as nulls: given up
        usable = (weights > 0) & ~gone
        return np.asarray(np.divide(p * self.nulls, weights, out=np.full(p.shape, np.inf), where=usable))

    def weights_of(self, start: int, count: int) -> Floats:
        weights = np.tile(self.weights, (count, 1))
        first, last = np.searchsorted(self.places, (start, start + count))
        weights[self.places[first:last] - start] = self.own[first:last]
        return weights


def adaptive_streamed(blocks: Matrices, alpha: float, seed: int = 0, sample: int = SAMPLE) -> StreamedAdaptive:
    """Weights from `sample` inputs drawn by lot; then the threshold of weighted BH over all blocks, in bounded memory.

    No weight has seen the p-values of its own input: those of sampled inputs come from other folds of the sample, as in
    `adaptive`, those of all others from the sample. What is promised is what `adaptive` promises, and it is `adaptive`
    where there are no more inputs than the sample takes. Copies of an input are not found outside the sample.

    Parameters
    ----------
    blocks : called without arguments, gives p-values (n, d) block by block; the same ones each time.
    alpha : the level.
    seed : of the lot and of the folds.
    sample : how many inputs weights are learned from.

    Examples
    --------
    >>> p = np.full((40, 3), 0.6)
    >>> p[:, 0] = np.linspace(0.001, 0.06, 40)
    >>> rule = adaptive_streamed(lambda: [p[:25], p[25:]], alpha=0.1)
    >>> int(rule.chosen(0, p[:25]).sum() + rule.chosen(25, p[25:]).sum())
    40
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie strictly between 0 and 1, got {alpha}; 0.1 is a common choice")
    drawn = _drawn(blocks, seed, sample)
    learned = _learned(drawn, alpha, seed)
    if drawn.inputs > len(drawn.places):
        learned = _with_nulls(learned, blocks, drawn)

    def adjusted() -> Iterator[Floats]:
        start = 0
        for p in blocks():
            yield learned.adjusted(start, p)[~np.isnan(p)]
            start += len(p)

    threshold = weighted_bh_threshold(adjusted, int(drawn.sizes.sum()), alpha)
    return StreamedAdaptive(learned.places, learned.own, learned.weights, learned.nulls, threshold)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The sample, and what was counted on the way."""

    places: Ints  # (s,)
    p: Floats  # (s, d)
    inputs: int
    sizes: Ints  # (d,) hypotheses of each subset, over all inputs


def _drawn(blocks: Matrices, seed: int, sample: int) -> _Drawn:
    """One pass: every input draws a number, whatever its p-values and its block; the smallest make the sample."""
    lots, places, kept = np.zeros(0), np.zeros(0, np.int64), None
    inputs, sizes = 0, None
    for p in blocks():
        own = np.arange(inputs, inputs + len(p))
        lots, places = np.append(lots, _lots(seed, inputs, len(p))), np.append(places, own)
        kept = p.copy() if kept is None else np.concatenate([kept, p])
        sizes = (0 if sizes is None else sizes) + (~np.isnan(p)).sum(axis=0)
        inputs += len(p)
        if len(lots) > sample:
            best = np.sort(np.argpartition(lots, sample - 1)[:sample])
            lots, places, kept = lots[best], places[best], kept[best]
    if kept is None or sizes is None:
        return _Drawn(places, np.zeros((0, 1)), 0, np.zeros(1, np.int64))
    return _Drawn(places, kept, inputs, sizes)


def _lots(seed: int, start: int, count: int) -> Floats:
    chunks = range(start // CHUNK, (start + count - 1) // CHUNK + 1)
    drawn = [stream(seed, "adaptive-sample", chunk, 0).random(CHUNK) for chunk in chunks]
    return np.concatenate([*drawn, []])[start % CHUNK :][:count]


def _learned(drawn: _Drawn, alpha: float, seed: int) -> StreamedAdaptive:
    """Weights inside the sample, by folds, and for all others, from the whole of it."""
    tested = ~np.isnan(drawn.p)
    inputs, subsets = np.nonzero(tested)
    clusters, values = clusters_of(drawn.p, None)[inputs], drawn.p[tested]
    own = np.ones(drawn.p.shape)
    own[tested], nulls = learn_weights(values, clusters, subsets, alpha, stream(seed, "adaptive"))
    weights, seen = np.ones(drawn.p.shape[1]), np.unique(subsets)
    outside = (drawn.sizes - tested.sum(axis=0))[seen]
    if drawn.inputs > len(drawn.p) and len(seen):
        learner = Learner(values, subsets, alpha)
        weights[seen] = learner.by_label(clusters, outside, stream(seed, "adaptive-others"))
    return StreamedAdaptive(drawn.places, own, weights, nulls)


def _with_nulls(learned: StreamedAdaptive, blocks: Matrices, drawn: _Drawn) -> StreamedAdaptive:
    """The weighted share of true nulls over all inputs, as `learn_weights` has it over those it sees."""
    start, above = 0, 0.0
    for p in blocks():
        above += float(learned.weights_of(start, len(p))[p > 0.5].sum())
        start += len(p)
    size = int(drawn.sizes.sum())
    nulls = (2 * size / drawn.inputs + above) / (size / 2)
    return StreamedAdaptive(learned.places, learned.own, learned.weights, 1.0 if nulls >= FULL else nulls)
