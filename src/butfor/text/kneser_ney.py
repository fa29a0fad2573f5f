"""WordCounts of neighbouring words -> the law of a word between its neighbours: interpolated Kneser-Ney (1995)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import Floats, Ints

UNKNOWN, EDGE = 0, 1  # numbers of a word that is not in the vocabulary and of the edge of a text
Small = NDArray[np.float32]


class CountColumn(NamedTuple):
    """What is known of a word at one place, by the words at the other places of its n-gram."""

    keys: Ints  # sorted
    words: NDArray[np.int32]
    values: Small

    def at(self, key: int) -> tuple[NDArray[np.int32], Small]:
        start, stop = np.searchsorted(self.keys, [key, key + 1])
        return self.words[start:stop], self.values[start:stop]


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Probabilities and weights of a language model, as columns that are looked up by the words around one.

    P(c | a b) = triple(a b c) + rest(a b) P(c | b), P(c | b) = pair(b c) + rest(b) P(c): what is discounted from seen
    n-grams goes to the shorter ones, and a context that was never seen leaves everything to them.
    """

    single: Floats  # (V,) P(c)
    pairs: tuple[CountColumn, CountColumn]  # pair(b c) by c, for b; by b, for c
    rest: Floats  # (V,) rest(b)
    triples: tuple[CountColumn, CountColumn, CountColumn]  # triple(a b c) by b c, for a; by a c, for b; by a b, for c
    rests: tuple[CountColumn, CountColumn]  # rest(a b) by b, for a; by a, for b

    def law(self, a: int | None, b: int | None, c: int | None, d: int | None) -> Floats:
        """Weights (V,) of every word w in a b w c d: P(w | a b) P(c | b w) P(d | w c); None is not known.

        Where c is not known neither factor of the right is used, and where d is not the last one is not.
        """
        law = self._after(a, b)
        if c is not None:
            law = law * self._before(b, c)
            if d is not None:
                law = law * self._before_two(c, d)
        return law

    def _after(self, a: int | None, b: int | None) -> Floats:
        """P(w | a b) for every w."""
        if b is None:
            return self.single
        law = self.rest[b] * self.single
        law = _plus(law, self.pairs[1].at(b))
        if a is None:
            return law
        return _plus(self._rest(a, b) * law, self.triples[2].at(a * len(self.single) + b))

    def _before(self, b: int | None, c: int) -> Floats:
        """P(c | b w) for every w."""
        law = _plus(self.rest * self.single[c], self.pairs[0].at(c))
        if b is None:
            return law
        words, rests = self.rests[1].at(b)
        law[words] *= rests
        return _plus(law, self.triples[1].at(b * len(self.single) + c))

    def _before_two(self, c: int, d: int) -> Floats:
        """P(d | w c) for every w."""
        law = np.full(len(self.single), self._pair(c, d))
        words, rests = self.rests[0].at(c)
        law[words] *= rests
        return _plus(law, self.triples[0].at(c * len(self.single) + d))

    def _pair(self, c: int, d: int) -> float:
        """P(d | c)."""
        words, values = self.pairs[1].at(c)
        return float(self.rest[c] * self.single[d] + values[words == d].sum())

    def _rest(self, a: int, b: int) -> float:
        words, values = self.rests[1].at(a)
        found = values[words == b]
        return float(found[0]) if len(found) else 1.0


def _plus(law: Floats, column: tuple[NDArray[np.int32], Small]) -> Floats:
    law = law.copy()
    law[column[0]] += column[1]
    return law


def count(stream: Ints, size: int, order: int) -> WordCounts:
    """WordCounts of a row of numbers below `size`, texts parted by two edges."""
    predicted = slice(2, None)
    first, second, third = stream[:-2], stream[1:-1], stream[predicted]
    inside = ~((second == EDGE) & (third == EDGE))  # the second edge after a text tells nothing
    triple, times = np.unique((first * size + second)[inside] * size + third[inside], return_counts=True)
    if order == 2:
        pair, pair_times = np.unique(second[inside] * size + third[inside], return_counts=True)
        triple, times = triple[:0], times[:0]
    else:
        pair, pair_times = np.unique(triple % size**2, return_counts=True)  # in how many contexts, not how often
    ends, end_times = np.unique(pair % size, return_counts=True)
    single = np.zeros(size)
    single[ends], left = _discounted(np.zeros(len(ends), np.int64), end_times)
    single += left[0] / size
    ratio, rest_pairs = _discounted(pair // size, pair_times)
    rest = np.ones(size)
    rest[np.unique(pair // size)] = rest_pairs
    ratios, rests = _discounted(triple // size, times)
    a, b, c = triple // size**2, triple // size % size, triple % size
    context = np.unique(triple // size)
    return WordCounts(
        single=single,
        pairs=(_column(pair % size, pair // size, ratio), _column(pair // size, pair % size, ratio)),
        rest=rest,
        triples=(
            _column(b * size + c, a, ratios),
            _column(a * size + c, b, ratios),
            _column(a * size + b, c, ratios),
        ),
        rests=(
            _column(context % size, context // size, rests),
            _column(context // size, context % size, rests),
        ),
    )


def _discounted(context: Ints, times: Ints) -> tuple[Floats, Floats]:
    """Shares of each n-gram in its context after the discount, and what every context (sorted) has left for others."""
    if not len(times):
        return np.zeros(0), np.zeros(0)
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    discount = once / (once + 2 * twice) if once and twice else 0.5  # Ney, Essen & Kneser 1994
    _, inverse, kinds = np.unique(context, return_inverse=True, return_counts=True)
    total = np.bincount(inverse, times)
    return (times - discount) / total[inverse], discount * kinds / total


def _column(keys: Ints, words: Ints, values: Floats) -> CountColumn:
    order = np.argsort(keys, kind="stable")
    return CountColumn(keys[order], words[order].astype(np.int32), values[order].astype(np.float32))
