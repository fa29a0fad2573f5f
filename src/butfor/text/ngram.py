"""Sampler: words by counts of their neighbours in a corpus, on both sides, without a neural network.

Interpolated Kneser-Ney (Ney, Essen & Kneser 1994): P(c | a b) = triple(a b c) + rest(a b) P(c | b), P(c | b) =
pair(b c) + rest(b) P(c). What is discounted from observed n-grams goes to the shorter ones, and a context that was
never observed leaves everything to them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.text.fills import Recent, WordByWord, always_repeats, draw_spans, list_spans, without
from butfor.text.segment import Span, case_of, cased, check_texts, is_word, rewritten, span_of, word_tokens
from butfor.types import Floats, InputError, Ints, Subset, whole

UNKNOWN, EDGE = 0, 1  # numbers of a word that is not in the vocabulary and of the edge of a text


class CountColumn(NamedTuple):
    """Values of a word in an n-gram, by the words at the other positions of the n-gram."""

    keys: Ints  # sorted
    words: NDArray[np.int32]
    values: NDArray[np.float32]

    def at(self, key: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        start, stop = np.searchsorted(self.keys, [key, key + 1])
        return self.words[start:stop], self.values[start:stop]

    def plus(self, mass: Floats, key: int) -> Floats:
        """Return the mass (V,) with the values of one key added."""
        words, values = self.at(key)
        mass = mass.copy()
        mass[words] += values
        return mass


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Probabilities and weights of the language model, as columns that are looked up by the neighbours of a word."""

    single: Floats  # (V,) P(c)
    pairs: tuple[CountColumn, CountColumn]  # pair(b c) by c, for b; by b, for c
    rest: Floats  # (V,) rest(b)
    triples: tuple[CountColumn, CountColumn, CountColumn]  # triple(a b c) by b c, for a; by a c, for b; by a b, for c
    rests: tuple[CountColumn, CountColumn]  # rest(a b) by b, for a; by a, for b

    def weights(self, a: int | None, b: int | None, c: int | None, d: int | None) -> Floats:
        """Return the weight (V,) of every word w in a b w c d: P(w | a b) P(c | b w) P(d | w c); None is not known."""
        size = len(self.single)
        mass = self.single  # P(w | a b)
        if b is not None:
            mass = self.pairs[1].plus(self.rest[b] * self.single, b)
            if a is not None:
                words, rests = self.rests[1].at(a)
                rest = rests[words == b]
                mass = self.triples[2].plus((float(rest[0]) if len(rest) else 1.0) * mass, a * size + b)
        if c is None:
            return mass
        before = self.pairs[0].plus(self.rest * self.single[c], c)  # P(c | b w)
        if b is not None:
            words, rests = self.rests[1].at(b)
            before[words] *= rests
            before = self.triples[1].plus(before, b * size + c)
        mass = mass * before
        if d is None:
            return mass
        words, values = self.pairs[1].at(c)
        pair = float(self.rest[c] * self.single[d] + values[words == d].sum())  # P(d | c)
        before = np.full(size, pair)  # P(d | w c)
        words, rests = self.rests[0].at(c)
        before[words] *= rests
        return mass * self.triples[0].plus(before, c * size + d)


def count(stream: Ints, size: int, order: int) -> WordCounts:
    """Return the counts of a row of numbers below `size`, with two edges between texts."""
    first, second, third = stream[:-2], stream[1:-1], stream[2:]
    inside = ~((second == EDGE) & (third == EDGE))  # the second edge after a text says nothing
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

    def column(keys: Ints, words: Ints, values: Floats) -> CountColumn:
        order = np.argsort(keys, kind="stable")
        return CountColumn(keys[order], words[order].astype(np.int32), values[order].astype(np.float32))

    return WordCounts(
        single=single,
        pairs=(column(pair % size, pair // size, ratio), column(pair // size, pair % size, ratio)),
        rest=rest,
        triples=(column(b * size + c, a, ratios), column(a * size + c, b, ratios), column(a * size + b, c, ratios)),
        rests=(column(context % size, context // size, rests), column(context // size, context % size, rests)),
    )


def _discounted(context: Ints, times: Ints) -> tuple[Floats, Floats]:
    """Return the share of each n-gram in its context after the discount, and what every context (sorted) leaves."""
    if not len(times):
        return np.zeros(0), np.zeros(0)
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    discount = once / (once + 2 * twice) if once and twice else 0.5  # Ney, Essen & Kneser 1994
    _, inverse, kinds = np.unique(context, return_inverse=True, return_counts=True)
    total = np.bincount(inverse, times)
    return (times - discount) / total[inverse], discount * kinds / total


class WordPositions(NamedTuple):
    """A span of a text, the words in it, and their indices among the tokens of the text."""

    span: Span
    spans: list[Span]
    indices: list[int]
    numbers: Ints  # of all tokens of the text


@dataclass(frozen=True, eq=False)
class NGram:
    """Draws a word given the words and signs on both sides. Made by `ngram`."""

    words: tuple[str, ...]  # by number; the first two stand for an unknown word and for the edge of a text
    counts: WordCounts
    fills: Ints  # numbers of those that may be drawn: signs are no fills
    order: int
    listed: int
    _numbers: dict[str, int] = field(repr=False)
    _texts: Recent[tuple[list[Span], Ints]] = field(default_factory=lambda: Recent(8), repr=False)
    _distributions: Recent[Floats] = field(default_factory=lambda: Recent(64), repr=False)

    changes_subset_only = True

    @property
    def ignores_dependence(self) -> bool:
        return self.order == 1

    __call__ = draw_spans
    repeats = always_repeats
    support = list_spans

    @cached_property
    def _known(self) -> tuple[str, ...]:
        return tuple(self.words[number] for number in self.fills)

    def __repr__(self) -> str:
        listed = f", listed={self.listed}" if self.listed else ""
        return f"ngram({len(self.fills):,} words, order={self.order}{listed})"

    def lists(self, _: Subset) -> bool:
        return self.listed > 0

    def open(self, text: str, subset: Subset) -> WordByWord:
        positions = self._positions(text, subset)

        def written(words: Sequence[str]) -> str:
            fills = [cased(word, case_of(text, *span)) for span, word in zip(positions.spans, words, strict=True)]
            return rewritten(text, positions.span, positions.spans, fills)

        following = lambda begun: (self._known, self._distribution(text, positions, begun))  # noqa: E731
        return WordByWord(len(positions.spans), following, written)

    def probabilities(self, text: str, subset: Subset) -> dict[str, float]:
        """Return the probability of every word at a subset of one word, the likeliest first."""
        positions = self._positions(text, subset)
        if len(positions.spans) != 1:
            raise InputError(f"subset {subset.name!r} holds {len(positions.spans)} words; give one")
        mass = self._distribution(text, positions, ())
        return {self._known[i]: float(mass[i]) for i in np.argsort(-mass, kind="stable")}

    def _positions(self, text: str, subset: Subset) -> WordPositions:
        def read() -> tuple[list[Span], Ints]:
            spans = word_tokens(text)
            return spans, np.array([self._numbers.get(text[a:b].lower(), UNKNOWN) for a, b in spans], np.int64)

        start, end = span_of(text, subset)
        spans, numbers = self._texts.get(text, read)
        inside = [i for i, (a, b) in enumerate(spans) if start <= a and b <= end and is_word(text, (a, b))]
        if not inside or any(a < cut < b for a, b in spans for cut in (start, end)):
            raise InputError(
                f"subset {subset.name!r} ({start}, {end}) is not made of whole words, and an n-gram redraws words; "
                "test words or spans of words"
            )
        return WordPositions((start, end), [spans[i] for i in inside], inside, numbers)

    def together(self, text: str, places: Sequence[Span], others: Set[str]) -> WordByWord:
        positions = [self._positions(text, Subset(text[slice(*place)], place)) for place in places]
        hidden = [index for one in positions for index in one.indices]

        def mean() -> Floats:
            each = [
                self._mass(one.numbers, index, set(hidden) - {index})
                for one, index in zip(positions, hidden, strict=True)
            ]
            return np.asarray(np.mean(each, axis=0))

        def following(_: tuple[str, ...]) -> tuple[tuple[str, ...], Floats]:
            excluded = [self._places[word] for word in others if word in self._places]
            return self._known, without(self._distributions.get((text, tuple(places), ()), mean), excluded)

        def written(words: Sequence[str]) -> str:
            drawn = [cased(words[0], case_of(text, *place)) for place in places]
            return rewritten(text, (places[0][0], places[-1][1]), places, drawn)

        return WordByWord(1, following, written)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self._known)}

    def _mass(self, numbers: Ints, at: int, hidden: Set[int]) -> Floats:
        """Return the distribution (fills,) at a word, given those around it that are not hidden."""
        around = [
            EDGE if not 0 <= i < len(numbers) else None if i in hidden else int(numbers[i])
            for i in (at - 2, at - 1, at + 1, at + 2)
        ]
        mass = self.counts.weights(*around)[self.fills]
        return np.asarray(mass / mass.sum())

    def _distribution(self, text: str, positions: WordPositions, begun: tuple[str, ...]) -> Floats:  # (fills,)
        def make() -> Floats:
            numbers, indices = positions.numbers.copy(), positions.indices
            numbers[indices[: len(begun)]] = [self._numbers[word] for word in begun]
            return self._mass(numbers, indices[len(begun)], set(indices[len(begun) + 1 :]))

        return self._distributions.get((text, positions.span, begun), make)


def ngram(
    corpus: Iterable[str],
    order: Literal[2, 3] = 3,
    listed: int = 0,
    least: int = 2,
    *,
    among: Iterable[str] | None = None,
) -> NGram:
    """Redraw words by a language model of order 2 or 3, interpolated Kneser-Ney, counted in a corpus.

    The probability of a word given the rest is that of the model, P(word | left) P(right | word), normalised over the
    words it knows: with order 3, P(w | a b) P(c | b w) P(d | w c) between a b and c d. Words further away have no
    influence.

    Letters are compared in lower case, and a fill is written in the case of the word it replaces, as `small_infiller`
    does: case is conditioned on, and not tested. Punctuation and tags are read, never drawn. The words of a longer span
    are drawn from left to right, each given what is known of its neighbours by then.

    Parameters
    ----------
    corpus : iterable of str
        The reference: take texts in which there is nothing to report.
    order : {2, 3}
        The order of the model.
    listed : int
        The exact tests ("irt" and "sequential") evaluate so many of the likeliest fills instead of drawing.
    least : int
        Words that the corpus has less often are not drawn.
    among : iterable of str, optional
        The only words it draws, such as `plain(corpus, labels)`; None is all of them.

    Returns
    -------
    NGram
        A sampler of texts.

    Examples
    --------
    >>> sampler = ngram(["the cat sat.", "the dog sat.", "the cat ran.", "a dog ran."])
    >>> sampler.probabilities("The cat sat.", Subset("cat", (4, 7)))  # doctest: +ELLIPSIS
    {'cat': 0.59..., 'dog': 0.38..., ...}
    >>> sampler(["The cat sat."], Subset("cat", (4, 7)), 3, np.random.default_rng(0))
    ['The dog sat.', 'The cat sat.', 'The cat sat.']
    """
    if isinstance(corpus, str):
        raise InputError("corpus must be a list of texts, got one text; give [text]")
    if order not in (2, 3) or isinstance(order, bool):
        raise InputError(f"order must be 2 or 3, got {order!r}")
    listed, least = whole("listed", listed, 0), whole("least", least, 1)
    texts = [[text[a:b].lower() for a, b in word_tokens(text)] for text in check_texts(corpus)]
    tally = Counter(word for text in texts for word in text)
    words = ("", "\0", *sorted(word for word, times in tally.items() if times >= least))
    numbers = {word: number for number, word in enumerate(words)}
    stream = [EDGE, EDGE]  # all texts in one row, with two edges between them
    for text in texts:
        stream += [*(numbers.get(word, UNKNOWN) for word in text), EDGE, EDGE]
    fills = [number for number, word in enumerate(words) if number > EDGE and is_word(word, (0, len(word)))]
    if among is not None:
        if isinstance(among, str):
            raise InputError(f"among must be a list of words, butfor.text.plain(corpus, labels) or None, got {among!r}")
        wanted = {str(word).lower() for word in among}
        fills = [number for number in fills if words[number] in wanted]
        if len(fills) < 2:
            raise InputError(f"among has {len(fills)} words that the corpus has; give at least 2 of them")
    if not fills:
        raise InputError(f"the corpus has no word that comes {least} times; give more texts, or a smaller least")
    counts = count(np.array(stream, np.int64), len(words), order)
    return NGram(words, counts, np.array(fills, np.int64), order, listed, numbers)


def margin(corpus: Sequence[str], least: int = 2) -> NGram:
    """Return the sampler of words by how common they are in a corpus, whatever stands around them."""
    made = ngram(corpus, 2, least=least)
    words = [made._numbers.get(text[a:b].lower(), UNKNOWN) for text in corpus for a, b in word_tokens(text)]
    none = CountColumn(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
    counts = WordCounts(
        single=np.bincount(words, minlength=len(made.words)) / len(words),
        pairs=(none, none),
        rest=np.ones(len(made.words)),
        triples=(none, none, none),
        rests=(none, none),
    )
    return replace(made, counts=counts, order=1)
