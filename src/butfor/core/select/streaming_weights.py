"""The adaptive rule over more inputs than memory holds: weights from a sample of the inputs (METHODS 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from butfor.core.draw.streams import stream
from butfor.core.select.streaming import weighted_bh_threshold
from butfor.core.select.weights import FULL, Learner, clusters_of, learn_weights
from butfor.core.types import Bools, Floats, InputError, Ints

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
