"""Sampler: words by counts of their neighbours in a corpus, on both sides, without a neural network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from butfor.text.masked_lm import WordByWord, draw_spans, list_spans
from butfor.text.segment import Span, case_of, cased, check_texts, is_word, rewritten, span_of, word_tokens
from butfor.text.tokens import Recent
from butfor.types import Bools, Floats, InputError, Ints, Subset, whole

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


KEPT_TEXTS, KEPT_LAWS = 8, 64  # what is remembered of the last texts and words: a pure saving


@dataclass(frozen=True, eq=False)
class NGram:
    """Draws a word given the words and marks on both sides. Made by `ngram`."""

    words: tuple[str, ...]  # by number; the first two stand for an unknown word and for the edge of a text
    counts: WordCounts
    fills: Ints  # numbers of those that are words: marks are no fills
    order: int
    listed: int
    _numbers: dict[str, int] = field(repr=False)
    _texts: Recent[tuple[list[Span], Ints]] = field(default_factory=lambda: Recent(KEPT_TEXTS), repr=False)
    _laws: Recent[Floats] = field(default_factory=lambda: Recent(KEPT_LAWS), repr=False)

    changes_subset_only = True

    @cached_property
    def _known(self) -> tuple[str, ...]:
        """The words that may be drawn."""
        return tuple(self.words[number] for number in self.fills)

    def __repr__(self) -> str:
        listed = f", listed={self.listed}" if self.listed else ""
        return f"ngram({len(self.fills):,} words, order={self.order}{listed})"

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        return draw_spans(texts, subset, draws, rng, partial(self._open, subset))

    def _open(self, subset: Subset, text: str) -> WordByWord:
        place = self._place(text, subset)
        law = partial(self._law, text, place)
        return WordByWord(len(place.spans), lambda begun: (self._known, law(begun)), partial(place.written, text))

    def lists(self, _: Subset) -> bool:
        """Whether the likeliest fills are listed: if that was asked for."""
        return self.listed > 0

    def repeats(self, _: Subset) -> bool:
        """Draws of words come again and again."""
        return True

    def support(self, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        """The `listed` likeliest counterfactuals of each text, and their probabilities (n, m).

        Of several words the likeliest are sought from left to right, keeping `listed` beginnings at a time.
        """
        return list_spans(inputs, subset, self.listed, partial(self._open, subset))

    def probabilities(self, text: str, subset: Subset) -> dict[str, float]:
        """Q of every word at a subset of one word, the likeliest first.

        Parameters
        ----------
        text : the text.
        subset : a span of one word of it.
        """
        place = self._place(text, subset)
        if len(place.spans) != 1:
            raise InputError(f"subset {subset.name!r} holds {len(place.spans)} words; give one")
        law = self._law(text, place, ())
        return {self._known[i]: float(law[i]) for i in np.argsort(-law, kind="stable")}

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """How well each word of some texts that it knows is told from the rest of its text: top-1, top-5, perplexity.

        Ties count against it. `known` is the share of words that it knows.

        Parameters
        ----------
        texts : of its language, which it has not seen.
        """
        logs, ranks, total = [], [], 0
        for text in check_texts(texts):
            for span in (span for span in word_tokens(text) if is_word(text, span)):
                total += 1
                number = self._numbers.get(text[slice(*span)].lower(), UNKNOWN)
                if number != UNKNOWN:
                    law = self._law(text, self._place(text, Subset("", span)), ())
                    own = law[np.searchsorted(self.fills, number)]
                    logs.append(np.log(own))
                    ranks.append(int((law >= own).sum()) - 1)
        if not logs:
            raise InputError("none of the words of these texts are known to the n-gram; give texts of its language")
        above = np.array(ranks)
        return {
            "words": len(logs),
            "known": len(logs) / total,
            "top1": float((above == 0).mean()),
            "top5": float((above < 5).mean()),
            "perplexity": float(np.exp(-np.mean(logs))),
        }

    def _place(self, text: str, subset: Subset) -> Place:
        start, end = span_of(text, subset)
        spans, numbers = self._texts.get(text, lambda: self._read(text))
        inside = [i for i, (a, b) in enumerate(spans) if start <= a and b <= end and is_word(text, (a, b))]
        if not inside or any(a < place < b for a, b in spans for place in (start, end)):
            raise InputError(
                f"subset {subset.name!r} ({start}, {end}) is not made of whole words, and an n-gram redraws words; "
                "test words or spans of words"
            )
        return Place((start, end), tuple(spans[i] for i in inside), tuple(inside), numbers)

    def _read(self, text: str) -> tuple[list[Span], Ints]:
        spans = word_tokens(text)
        return spans, np.array([self._numbers.get(text[a:b].lower(), UNKNOWN) for a, b in spans], np.int64)

    def _law(self, text: str, place: Place, begun: tuple[str, ...]) -> Floats:
        """The law of the next word of a place, given those before it that are filled already, (fills,)."""
        return self._laws.get((text, place.span, begun), lambda: self._found(place, begun))

    def _found(self, place: Place, begun: tuple[str, ...]) -> Floats:
        numbers = place.numbers.copy()
        numbers[list(place.places[: len(begun)])] = [self._numbers[word] for word in begun]
        at = place.places[len(begun)]
        hidden = set(place.places[len(begun) + 1 :])
        around = [EDGE if not 0 <= i < len(numbers) else None if i in hidden else int(numbers[i]) for i in _near(at)]
        law = self.counts.law(*around)[self.fills]
        return np.asarray(law / law.sum())


def _near(at: int) -> tuple[int, int, int, int]:
    return at - 2, at - 1, at + 1, at + 2


@dataclass(frozen=True)
class Place:
    """A span of a text, the words in it, and where they stand among the words and marks of the text."""

    span: Span
    spans: tuple[Span, ...]
    places: tuple[int, ...]
    numbers: Ints

    def written(self, text: str, words: Sequence[str]) -> str:
        """The span with other words, in the case of those that stood there."""
        own = [cased(word, case_of(text, *span)) for span, word in zip(self.spans, words, strict=True)]
        return rewritten(text, self.span, self.spans, own)


def ngram(
    corpus: Iterable[str],
    order: Literal[2, 3] = 3,
    listed: int = 0,
    least: int = 2,
    *,
    among: Iterable[str] | None = None,
) -> NGram:
    """Redraws words by a language model of order 2 or 3, interpolated Kneser-Ney, counted in a corpus.

    The law of a word given the rest is that of the model itself, P(word | left) P(right | word), normalised over the
    words it knows: with order 3, P(w | a b) P(c | b w) P(d | w c) between a b and c d. Nothing further away has a say.

    Letters are compared in lower case, and a fill is written in the case of the word it stands for, as
    `small_infiller` does: case is conditioned on, and not tested. Marks and tags are read, never drawn. The words of a
    longer span are drawn from left to right, each given what is known of its neighbours by then.

    Parameters
    ----------
    corpus : the reference: take texts in which there is nothing to report.
    order : 2 or 3.
    listed : the exact tests ("irt" and "sequential") evaluate so many of the likeliest fills instead of drawing.
    least : words that the corpus has less often are not drawn.
    among : the only words it draws, such as `plain(corpus, labels)`; None is all of them.

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
    words, stream, wordly = _numbered(texts, least)
    fills = np.flatnonzero(wordly)
    if among is not None:
        fills = _limited(fills, words, among)
    if not len(fills):
        raise InputError(f"the corpus has no word that comes {least} times; give more texts, or a smaller least")
    return NGram(words, count(stream, len(words), order), fills, order, listed, {w: i for i, w in enumerate(words)})


def _limited(fills: Ints, words: Sequence[str], among: Iterable[str]) -> Ints:
    """Those of the words that may be drawn."""
    if isinstance(among, str):
        raise InputError(f"among must be a list of words, butfor.text.plain(corpus, labels) or None, got {among!r}")
    wanted = {str(word).lower() for word in among}
    kept = np.array([place for place in fills.tolist() if words[place] in wanted], np.int64)
    if len(kept) < 2:
        raise InputError(f"among has {len(kept)} words that the corpus has; give at least 2 of them")
    return kept


def _numbered(texts: list[list[str]], least: int) -> tuple[tuple[str, ...], Ints, Bools]:
    """The vocabulary, all texts as one row of numbers with two edges between them, and which are words."""
    tally = Counter(word for text in texts for word in text)
    words = ("", "\0", *sorted(word for word, times in tally.items() if times >= least))
    numbers = {word: place for place, word in enumerate(words)}
    stream = [EDGE, EDGE]
    for text in texts:
        stream += [*(numbers.get(word, UNKNOWN) for word in text), EDGE, EDGE]
    wordly = [place > EDGE and is_word(word, (0, len(word))) for place, word in enumerate(words)]
    return words, np.array(stream, np.int64), np.array(wordly)
