"""Sampler: sentences, passages and whole texts replaced by real ones of other texts, alike in length and place."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from butfor.evaluation.samplers import HasNotes, RefusesInputs, SamplerInfo, info_of
from butfor.text.segment import Span, check_texts, sentence_spans, span_of, word_spans
from butfor.text.tokens import Recent
from butfor.types import Floats, InputError, Subset, whole

Kind = Literal["part", "sentence", "passage", "text"]
Key = tuple[Kind, int, int]  # what a span is, its class of lengths, its place: 0 first, 1 inside, 2 last, 3 alone
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 36, 46, 60, 80, 110, 150, 200, 280, 400, 560, 800, 1200, 2000, 4000)
ENOUGH = 30  # candidates of the same place; with fewer, those of any place do, and of the next lengths
WIDEST = 3  # classes of lengths, on either side
MOST_PARTS = 20_000  # runs of words of one length that are kept
KEPT = 16  # texts that are remembered
END = itemgetter(1)


@dataclass(frozen=True)
class Candidate:
    """A span of a text of the pool."""

    text: int
    span: Span


@dataclass(frozen=True, eq=False)
class Foils:
    """Real spans of other texts. Made by `foils`."""

    pool: tuple[str, ...]
    words: Any  # the sampler of short spans, or None
    longest_word: int  # spans of at most so many words go to it
    _by_key: dict[Key, list[Candidate]] = field(default_factory=dict, repr=False)
    _read: Recent[Outline] = field(default_factory=lambda: Recent(KEPT), repr=False)

    def __repr__(self) -> str:
        return f"foils({len(self.pool):,} texts" + (")" if self.words is None else f", words={self.words!r})")

    @cached_property
    def info(self) -> SamplerInfo:
        """Told from others by its texts and its sampler of words; spans are drawn whatever stands around them."""
        inner = SamplerInfo(changes_subset_only=True) if self.words is None else info_of(self.words)
        held = blake2b("\0".join(self.pool).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        name = f"foils {held} {inner.identity}"
        return replace(inner, identity=name, ignores_dependence=True, fills_whole=True, listed=0)

    @cached_property
    def outlines(self) -> tuple[Outline, ...]:
        """Where the sentences and words of the texts of the pool are."""
        return tuple(map(outline, self.pool))

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        texts, draws = check_texts(texts), whole("draws", draws, 0)
        out: list[str] = []
        for text in texts:
            span = span_of(text, subset)
            shape = self._read.get(text, lambda text=text: outline(text))  # type: ignore[misc]
            if self.words is not None and shape.count(span) <= self.longest_word:
                out += self.words([text], subset, draws, rng)
            else:
                out += self._redrawn(text, shape, span, draws, rng)
        return out

    def _redrawn(self, text: str, shape: Outline, span: Span, draws: int, rng: np.random.Generator) -> list[str]:
        """Each draw is one of m candidates or, with chance 1 / (m + 1), what stands there: a rank among m + 1."""
        found = self.candidates(text, shape, span)
        if not found:
            raise InputError(
                f"the pool of {self!r} has no {shape.key(span)[0]} of {shape.count(span)} words or so; give more texts"
            )
        start, end = span
        made = []
        for place in rng.integers(0, len(found) + 1, draws).tolist():
            own = text[start:end] if place == len(found) else self._cut(found[place])
            made.append(text[:start] + _in_case(own, text[start:end]) + text[end:])
        return made

    def _cut(self, candidate: Candidate) -> str:
        return self.pool[candidate.text][slice(*candidate.span)]

    def candidates(self, text: str, shape: Outline, span: Span) -> list[Candidate]:
        """The spans of other texts of the pool that may stand in a span: those of its kind, length and place."""
        kind, size, place = shape.key(span)
        found = self._of((kind, size, place))
        kinds: list[Kind] = [kind, "passage"] if kind == "text" else [kind]  # few texts may be as long as that one
        for step in range(WIDEST + 1):
            if len(found) >= ENOUGH:
                break
            sizes = range(max(1, size - step), min(len(LENGTHS) - 1, size + step) + 1)
            found = [
                one for own in kinds for near in sizes for other in range(4) for one in self._of((own, near, other))
            ]
        return [one for one in found if self.pool[one.text] != text] if text in self._held else found

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset(self.pool)

    def _of(self, key: Key) -> list[Candidate]:
        if key not in self._by_key:
            self._by_key.update(self._read_pool(*key[:2]))
        return self._by_key.get(key, [])

    def _read_pool(self, kind: Kind, size: int) -> dict[Key, list[Candidate]]:
        """The spans of the pool of one kind and class of lengths by key; sentences and texts of all lengths at once."""
        fixed = kind in ("sentence", "text")  # where they begin and end does not hang on the length
        sizes = range(1, len(LENGTHS) + 1) if fixed else (size,)
        found: dict[Key, list[Candidate]] = {(kind, own, place): [] for own in sizes for place in range(4)}
        for number, shape in enumerate(self.outlines):
            if kind == "part" and len(found[kind, size, 1]) >= MOST_PARTS:  # parts of a sentence have one place
                break
            for span in shape.spans(kind, size):
                held = found.get(shape.key(span))
                if held is not None and len(held) < MOST_PARTS:
                    held.append(Candidate(number, span))
        return found

    def repeats(self, _: Subset) -> bool:
        """Draws of spans come again: there are only so many."""
        return True

    def notes(self, inputs: Sequence[str], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:
        """How many spans there are to draw from, where they are few; and what the sampler of words says."""
        least = np.inf
        for text, own in zip(inputs, subsets, strict=True):
            shape = outline(text)
            long = [
                subset.index for subset in own if self.words is None or shape.count(subset.index) > self.longest_word
            ]
            alike = {shape.key(span): span for span in long}  # one span of each kind and length tells it of all
            least = min([least, *(len(self.candidates(text, shape, span)) for span in alike.values())])
        said = self.words.notes(inputs, subsets, seed) if isinstance(self.words, HasNotes) else []
        if least >= ENOUGH:
            return said
        return [f"For some span the pool of foils holds {least:.0f} candidates only; more texts would help.", *said]

    def unfit(self, item: str) -> str | None:
        """Why the sampler of words is not for a text; None if it is."""
        return self.words.unfit(item) if isinstance(self.words, RefusesInputs) else None


@dataclass(frozen=True)
class Outline:
    """Where the sentences and words of a text are."""

    sentences: tuple[Span, ...]
    words: tuple[Span, ...]
    until: tuple[int, ...]  # words before each sentence, and in all

    def count(self, span: Span) -> int:
        """Words in a span."""
        before = bisect_right(self.words, (span[0], -1))
        return max(0, bisect_right(self.words, span[1], key=END) - before)

    def key(self, span: Span) -> Key:
        """The kind of a span, its class of lengths and its place."""
        first = bisect_right(self.sentences, (span[0], -1))
        last, end = bisect_right(self.sentences, (span[1], -1)) - 1, len(self.sentences) - 1
        size = bisect_right(LENGTHS, max(1, self.count(span)))
        if first > end or last < first or (self.sentences[first][0], self.sentences[last][1]) != span:
            return "part", size, 1
        if (first, last) == (0, end):
            return ("text", size, 3)
        place = 0 if first == 0 else 2 if last == end else 1
        return ("sentence" if first == last else "passage"), size, place

    def spans(self, kind: Kind, size: int) -> Iterator[Span]:
        """Spans of one kind and about one length."""
        if kind == "text" and self.sentences:
            yield self.sentences[0][0], self.sentences[-1][1]
        elif kind == "sentence":
            yield from self.sentences
        elif kind == "passage":
            yield from self._passages(size)
        elif kind == "part":
            for begin, end in zip(self.until, self.until[1:], strict=False):
                for length in range(LENGTHS[size - 1], LENGTHS[size] if size < len(LENGTHS) else 0):
                    for first in range(begin, end - length + 1):
                        yield self.words[first][0], self.words[first + length - 1][1]

    def _passages(self, size: int) -> Iterator[Span]:
        """From every sentence on, sentences until they are as long as that."""
        low = LENGTHS[size - 1]
        for first in range(len(self.sentences) - 1):
            last = bisect_right(self.until, self.until[first] + low - 1) - 1
            if first < last < len(self.sentences):
                yield self.sentences[first][0], self.sentences[last][1]


def outline(text: str) -> Outline:
    """The sentences and words of a text."""
    sentences = tuple(sentence_spans(text))
    words = tuple(word_spans(text))
    counts = [bisect_right(words, (b, -1)) - bisect_right(words, (a, -1)) for a, b in sentences]
    return Outline(sentences, words, tuple(accumulate(counts, initial=0)))


def _in_case(fill: str, observed: str) -> str:
    """With a capital or small letter first, as the observed span has: case is conditioned on, and not tested."""
    first = next((letter for letter in observed if letter.isalpha()), "")
    at = next((place for place, letter in enumerate(fill) if letter.isalpha()), None)
    if at is None or not first or fill[at : at + 1].isupper() == first.isupper():
        return fill
    other = fill[at].upper() if first.isupper() else fill[at].lower()
    return fill[:at] + other + fill[at + 1 :]


def foils(pool: Iterable[str], *, words: Any = None, longest_word: int = 1) -> Foils:
    """Redraws sentences, passages and whole texts with real ones of other texts, which read as such.

    A fill is a span of the same kind (part of a sentence, sentence, several sentences, the whole text), in the same
    class of lengths and, where there are enough, from the same place (at the beginning, inside, at the end). Nothing
    else of the text around has a say. With a chance of 1 / (m + 1), m candidates being there, what stands there is
    drawn itself: it is one of m + 1. A text of the pool that is the text itself gives no candidates.

    Parameters
    ----------
    pool : the reference: texts to compare against, such as those of the other class.
    words : the sampler of single words, such as `small_infiller()` or `ngram(pool)`; None takes them from the pool.
    longest_word : spans of at most so many words go to `words`.

    Examples
    --------
    >>> pool = ["It rained. We stayed in.", "It snowed. We went out.", "The sun shone. We slept."]
    >>> foils(pool)(["It hailed. We ran."], Subset("It hailed.", (0, 10)), 2, np.random.default_rng(0))
    ['We went out. We ran.', 'We stayed in. We ran.']
    """
    if isinstance(pool, str):
        raise InputError("pool must be a list of texts, got one text; give [text, ...]")
    texts = tuple(check_texts(pool))
    if not texts:
        raise InputError("the pool of foils is empty; give some texts")
    if words is not None and not callable(words):
        raise InputError(f"words must be a sampler of words such as butfor.text.small_infiller(), got {words!r}")
    return Foils(texts, words, whole("longest_word", longest_word, 1))


ADDED = 5.0  # to each count: a word that is rare in every class is not told apart


@dataclass(frozen=True)
class PlainWords:
    """Words that tell no class from another, in lower case. Made by `plain`; given to an infiller as `among=`."""

    words: frozenset[str]
    seen: int  # words that were looked at

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.words))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.lower() in self.words

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"<PlainWords: {len(self.words):,} of {self.seen:,} words>"


def plain(
    corpus: Iterable[str],
    labels: Iterable[object],
    *,
    largest: float = 0.3,
    least: int = 5,
    tokenize: Callable[[str], Iterable[str]] | None = None,
) -> PlainWords:
    """The words that are as common in one class as in the others, from your own labelled texts, in any language.

    A word is plain if, for every class, the logarithm of the ratio between the share of texts of the class that hold it
    and that of the other texts is at most `largest` in size, 5 texts added to each count. Given to an infiller as
    `among=`, these are all that it draws: plain words of a text are then exchangeable with their draws, they are the
    nulls of a run, and words that tell the classes apart are what it finds. Take texts that the run will not explain.

    Parameters
    ----------
    corpus : texts.
    labels : the class of each of them.
    largest : how far from 0 the logarithm of the ratio may be.
    least : words that fewer texts hold are not plain.
    tokenize : text -> words, where spaces and punctuation do not part them; None is `butfor.text.word_spans`.

    Examples
    --------
    >>> good = ["the plot is fine", "the cast is fine"] * 20
    >>> bad = ["the plot is dull", "the cast is dull"] * 20
    >>> list(plain(good + bad, ["good"] * 40 + ["bad"] * 40))
    ['cast', 'is', 'plot', 'the']
    """
    texts, classes = check_texts(corpus), list(labels)
    if len(texts) != len(classes):
        raise InputError(f"there are {len(texts)} texts and {len(classes)} labels; give one label for each text")
    if len(set(classes)) < 2:
        raise InputError(f"plain needs labels of two classes or more, got {len(set(classes))}; give texts of each")
    if isinstance(largest, bool) or not isinstance(largest, int | float) or not 0 < largest < np.inf:
        raise InputError(f"largest must be a number above 0, got {largest!r}; 0.3 is the default")
    least = whole("least", least, 1)
    held = [{word.lower() for word in (_words(text) if tokenize is None else tokenize(text))} for text in texts]
    total = Counter(word for own in held for word in own)
    words = [word for word, count in total.items() if count >= least]
    wide = _largest_ratios(words, held, classes, total)
    found = frozenset(word for word, ratio in zip(words, wide, strict=True) if ratio <= largest)
    if len(found) < 2:
        raise InputError(f"only {len(found)} of {len(words)} words are plain; give more texts, or a larger largest")
    return PlainWords(found, len(total))


def _largest_ratios(
    words: Sequence[str], held: Sequence[set[str]], classes: Sequence[object], total: Counter[str]
) -> Floats:
    """Of each word (n,) the largest size of the logarithm of the ratio between a class and the others."""
    counts, wide = np.array([total[word] for word in words], np.float64), np.zeros(len(words))
    for label in dict.fromkeys(classes):
        inside = Counter(word for own, other in zip(held, classes, strict=True) if other == label for word in own)
        size = sum(other == label for other in classes)
        own = np.array([inside[word] for word in words], np.float64)
        rest = (counts - own) * size / (len(held) - size)  # as if there were as many other texts
        wide = np.maximum(wide, np.abs(np.log((own + ADDED) / (rest + ADDED))))
    return wide


def _words(text: str) -> list[str]:
    return [text[a:b] for a, b in word_spans(text)]
