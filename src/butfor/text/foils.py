"""Sampler: sentences, passages and whole texts replaced by real ones of other texts, alike in length and position."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from butfor.evaluation.samplers import HasNotes, RefusesInputs, SamplerInfo, info_of, method
from butfor.results.words import Note, as_note
from butfor.text.fills import Recent
from butfor.text.ngram import NGram, margin, ngram
from butfor.text.segment import Span, check_texts, sentence_spans, span_of, spans_of, word_spans
from butfor.types import Floats, InputError, Subset, labels_of, whole

Kind = Literal["part", "sentence", "passage", "text"]
Key = tuple[Kind, int, int]  # kind of a span, its class of lengths, its position: 0 first, 1 inside, 2 last, 3 alone
Candidate = tuple[int, Span]  # the number of a text of the pool, and a span of it
LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 36, 46, 60, 80, 110, 150, 200, 280, 400, 560, 800, 1200, 2000, 4000)
ENOUGH = 30  # candidates of the same position; with fewer, those of any position do, and of the next lengths
WIDEST = 3  # classes of lengths, on either side
MOST_PARTS = 20_000  # runs of words of one length that are kept
MOST_LISTED = 200  # candidates that are all evaluated: of more, draws that are the observed span are rare
KEPT = 16  # texts that are remembered


@dataclass(frozen=True, eq=False)
class Foils:
    """Real spans of other texts. Made by `foils`."""

    pool: tuple[str, ...]
    words: Any  # the sampler of short spans, or None
    longest_word: int  # spans of at most so many words go to it
    counts: Mapping[tuple[str, Hashable], int] = field(default_factory=dict, repr=False)  # candidates, once known
    _by_key: dict[Key, list[Candidate]] = field(default_factory=dict, repr=False)
    _read: Recent[Outline] = field(default_factory=lambda: Recent(KEPT), repr=False)

    def __repr__(self) -> str:
        return f"foils({len(self.pool):,} texts" + (")" if self.words is None else f", words={self.words!r})")

    @cached_property
    def info(self) -> SamplerInfo:
        """Identified by its texts and its sampler of words; spans are drawn whatever stands around them."""
        inner = SamplerInfo(changes_subset_only=True) if self.words is None else info_of(self.words)
        digest = blake2b("\0".join(self.pool).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        name = f"foils {digest} {inner.identity}"
        return replace(inner, identity=name, ignores_dependence=True, fills_whole=True, listed=0)

    @cached_property
    def outlines(self) -> tuple[Outline, ...]:
        return tuple(map(outline, self.pool))

    @property
    def together(self) -> Callable[..., Any] | None:
        """How its sampler of words redraws all places of a word at once; None where it cannot."""
        return method(self.words, "together")

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        texts, draws = check_texts(texts), whole("draws", draws, 0)
        out: list[str] = []
        for text in texts:
            span = span_of(text, subset)
            layout = self._read.get(text, lambda text=text: outline(text))  # type: ignore[misc]
            if self.words is not None and layout.count(span) <= self.longest_word:
                out += self.words([text], subset, draws, rng)
                continue
            candidates = self.candidates(layout, span)
            if not candidates:
                raise InputError(
                    f"the pool of {self!r} has no {layout.key(span)[0]} of {layout.count(span)} words or so; give more "
                    "texts"
                )
            # each draw is one of m candidates or, with chance 1 / (m + 1), the observed span: a rank among m + 1
            for pick in rng.integers(0, len(candidates) + 1, draws).tolist():
                out.append(text if pick == len(candidates) else self._filled(text, span, candidates[pick]))
        return out

    def _filled(self, text: str, span: Span, candidate: Candidate) -> str:
        (start, end), (number, (a, b)) = span, candidate
        fill, first = self.pool[number][a:b], next(filter(str.isalpha, text[start:end]), "")
        at = next((index for index, letter in enumerate(fill) if letter.isalpha()), 0)
        if first and fill[at].isalpha() and fill[at].isupper() != first.isupper():  # case is conditioned on
            other = fill[at].upper() if first.isupper() else fill[at].lower()
            fill = fill[:at] + other + fill[at + 1 :]
        return text[:start] + fill + text[end:]

    def for_run(self, items: Sequence[str], subsets: Sequence[Sequence[Subset]]) -> Foils:
        """Return the sampler that lists its candidates where all texts have few of them."""
        counts: dict[tuple[str, Hashable], int] = {}
        for text, tested in zip(items, subsets, strict=True):
            layout = outline(text)
            for subset in tested:
                span, key = subset.index, (subset.name, subset.index)
                if isinstance(span[0], int) and (self.words is None or layout.count(span) > self.longest_word):
                    counts[key] = max(counts.get(key, 0), len(self.candidates(layout, span)))
        return replace(self, counts=counts)

    def lists(self, subset: Subset) -> bool:
        return 0 < self.counts.get((subset.name, subset.index), 0) <= MOST_LISTED

    def support(self, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        """Return the text itself and all candidates, each with the same probability: p is a rank among them."""
        versions = []
        for text in inputs:
            span = span_of(text, subset)
            candidates = self.candidates(outline(text), span)
            versions.append([text, *(self._filled(text, span, one) for one in candidates)])
        masses = np.zeros((len(versions), max(map(len, versions))))
        for row, of_text in enumerate(versions):
            masses[row, : len(of_text)] = 1 / len(of_text)
        return [of_text + of_text[:1] * (masses.shape[1] - len(of_text)) for of_text in versions], masses

    def candidates(self, layout: Outline, span: Span) -> list[Candidate]:
        """Return the spans of other texts of the pool that may stand in a span: those of its kind, length, position."""
        kind, size, position = layout.key(span)
        pool = self._of((kind, size, position))
        kinds: list[Kind] = [kind, "passage"] if kind == "text" else [kind]  # few texts may be as long as that one
        for step in range(WIDEST + 1):
            if len(pool) >= ENOUGH:
                break
            sizes = range(max(1, size - step), min(len(LENGTHS) - 1, size + step) + 1)
            keys = [(other, near, where) for other in kinds for near in sizes for where in range(4)]
            pool = [candidate for key in keys for candidate in self._of(key)]
        return pool  # a text of the pool counts among its own candidates: to leave out what is equal favours it

    def _of(self, key: Key) -> list[Candidate]:
        """Return the spans of the pool by key; sentences and texts of all lengths are read at once."""
        if key not in self._by_key:
            kind, size, _ = key
            fixed = kind in ("sentence", "text")  # where they begin and end does not depend on the length
            sizes = range(1, len(LENGTHS) + 1) if fixed else (size,)
            by_key: dict[Key, list[Candidate]] = {(kind, other, where): [] for other in sizes for where in range(4)}
            for number, layout in enumerate(self.outlines):
                if kind == "part" and len(by_key[kind, size, 1]) >= MOST_PARTS:  # parts of a sentence are inside
                    break
                for span in layout.spans(kind, size):
                    same = by_key.get(layout.key(span))
                    if same is not None and len(same) < MOST_PARTS:
                        same.append((number, span))
            self._by_key.update(by_key)
        return self._by_key.get(key, [])

    def covers(self, text: str, subset: Subset) -> bool:
        covers, layout = method(self.words, "covers"), self._read.get(text, lambda: outline(text))
        short = all(layout.count(span) <= self.longest_word for span in spans_of(text, subset))
        return covers is None or not short or bool(covers(text, subset))

    def repeats(self, _: Subset) -> bool:
        return True

    def notes(self, inputs: Sequence[str], subsets: Sequence[Sequence[Subset]], seed: int) -> list[Note]:
        """Return how many spans there are to draw from, where they are few; and the notes of the sampler of words."""
        least: float = np.inf
        for text, tested in zip(inputs, subsets, strict=True):
            layout = outline(text)
            spans = [s.index for s in tested if self.words is None or layout.count(s.index) > self.longest_word]
            alike = {layout.key(span): span for span in spans}  # one span of each kind and length is enough
            least = min([least, *(len(self.candidates(layout, span)) for span in alike.values())])
        inner = self.words.notes(inputs, subsets, seed) if isinstance(self.words, HasNotes) else []
        notes = list(map(as_note, inner))
        return notes if least >= ENOUGH else [Note("few-foils", "limit", {"candidates": int(least)}), *notes]

    def unfit(self, item: str) -> str | None:
        return self.words.unfit(item) if isinstance(self.words, RefusesInputs) else None


@dataclass(frozen=True)
class Outline:
    """The sentences and words of a text."""

    sentences: tuple[Span, ...]
    words: tuple[Span, ...]
    until: tuple[int, ...]  # words before each sentence, and in all

    def count(self, span: Span) -> int:
        before = bisect_right(self.words, (span[0], -1))
        return max(0, bisect_right(self.words, span[1], key=itemgetter(1)) - before)

    def key(self, span: Span) -> Key:
        first = bisect_right(self.sentences, (span[0], -1))
        last, end = bisect_right(self.sentences, (span[1], -1)) - 1, len(self.sentences) - 1
        size = bisect_right(LENGTHS, max(1, self.count(span)))
        if first > end or last < first or (self.sentences[first][0], self.sentences[last][1]) != span:
            return "part", size, 1
        if (first, last) == (0, end):
            return "text", size, 3
        return ("sentence" if first == last else "passage"), size, 0 if first == 0 else 2 if last == end else 1

    def spans(self, kind: Kind, size: int) -> Iterator[Span]:
        if kind == "text" and self.sentences:
            yield self.sentences[0][0], self.sentences[-1][1]
        elif kind == "sentence":
            yield from self.sentences
        elif kind == "passage":  # from every sentence on, sentences until they are long enough
            for first in range(len(self.sentences) - 1):
                last = bisect_right(self.until, self.until[first] + LENGTHS[size - 1] - 1) - 1
                if first < last < len(self.sentences):
                    yield self.sentences[first][0], self.sentences[last][1]
        elif kind == "part":
            for begin, end in pairwise(self.until):
                for length in range(LENGTHS[size - 1], LENGTHS[size] if size < len(LENGTHS) else 0):
                    for first in range(begin, end - length + 1):
                        yield self.words[first][0], self.words[first + length - 1][1]


def outline(text: str) -> Outline:
    sentences, words = tuple(sentence_spans(text)), tuple(word_spans(text))
    counts = [bisect_right(words, (b, -1)) - bisect_right(words, (a, -1)) for a, b in sentences]
    return Outline(sentences, words, tuple(accumulate(counts, initial=0)))


def foils(pool: Iterable[str], *, words: Any = None, longest_word: int = 1) -> Foils:
    """Redraw sentences, passages and whole texts with real ones of other texts, which read as such.

    A fill is a span of the same kind (part of a sentence, sentence, several sentences, the whole text), in the same
    class of lengths and, where there are enough, from the same position (at the beginning, inside, at the end). The
    rest of the text has no influence. The observed span is one of m + 1, m candidates being there: up to 200 are all
    ranked by "irt" and "sequential", of more it is drawn with that chance. Leave the texts explained out of the pool:
    one that is in it ties with itself.

    Parameters
    ----------
    pool : iterable of str
        The reference: texts to compare against, such as those of the other class.
    words : sampler, optional
        The sampler of single words, such as `small_infiller()` or `ngram(pool)`; None takes them from the pool.
    longest_word : int
        Spans of at most so many words go to `words`.

    Returns
    -------
    Foils
        A sampler of texts.

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


def too_few(counts: Mapping[Any, int], family: int, alpha: float) -> Note | None:
    """Return a note where no span of a family can be chosen alone: p is at least 1 / (m + 1) with m candidates.

    >>> too_few({"a": 16}, 6, 0.1).values["needed"]
    59
    """
    most, needed = max(counts.values(), default=0), int(np.ceil(family / alpha - 1e-9)) - 1
    if not counts or most >= needed:
        return None
    together = min(int(np.ceil(family / (alpha * (most + 1)) - 1e-9)), family + 1)
    values = {"needed": needed, "most": most, "family": family, "together": None if together > family else together}
    return Note("few-candidates", "limit", values)


ADDED = 5.0  # to each count: a word that is rare in every class does not distinguish them


def plain(
    corpus: Iterable[str],
    labels: Iterable[object],
    *,
    largest: float = 0.3,
    least: int = 5,
    tokenize: Callable[[str], Iterable[str]] | None = None,
) -> frozenset[str]:
    """Return the words that are as common in one class as in the others, from labelled texts, in any language.

    A word is plain if, for every class, the logarithm of the ratio between the share of texts of the class that hold it
    and that of the other texts is at most `largest` in size, 5 texts added to each count. Given to an infiller as
    `among=`, these are all that it draws: plain words of a text are then exchangeable with their draws, they are the
    nulls of a run, and words that differ between classes are its discoveries. Take texts that the run will not explain.

    Parameters
    ----------
    corpus : iterable of str
        Texts.
    labels : iterable
        The class of each text.
    largest : float
        How far from 0 the logarithm of the ratio may be.
    least : int
        Words that fewer texts hold are not plain.
    tokenize : callable, optional
        Text -> words, where spaces and punctuation do not part them; None is `butfor.text.word_spans`.

    Returns
    -------
    frozenset of str
        The words, in lower case.

    Examples
    --------
    >>> good = ["the plot is fine", "the cast is fine"] * 20
    >>> bad = ["the plot is dull", "the cast is dull"] * 20
    >>> sorted(plain(good + bad, ["good"] * 40 + ["bad"] * 40))
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
    tokenize = tokenize or _lower_words
    common, count = _alike([{word.lower() for word in tokenize(text)} for text in texts], classes, largest, least)
    if len(common) < 2:
        raise InputError(f"only {len(common)} of {count} words are plain; give more texts, or a larger largest")
    return common


def _lower_words(text: str) -> list[str]:
    return [text[a:b].lower() for a, b in word_spans(text)]


def _alike(
    sets: Sequence[set[str]], classes: Sequence[Hashable], largest: float, least: int, errors: float = 0.0
) -> tuple[frozenset[str], int]:
    """Return the words as common in every class, within so many standard errors, and how many words there are."""
    total = Counter(word for words in sets for word in words)
    words = [word for word, count in total.items() if count >= least]
    counts, alike = np.array([total[word] for word in words], np.float64), np.ones(len(words), bool)
    for label in dict.fromkeys(classes):
        members = [words for words, other in zip(sets, classes, strict=True) if other == label]
        tally = Counter(word for words in members for word in words)
        inside = np.array([tally[word] for word in words], np.float64) + ADDED
        outside = (counts - inside + ADDED) * len(members) / (len(sets) - len(members)) + ADDED  # of as many texts
        noise = errors * np.sqrt(1 / inside + 1 / outside)
        alike &= np.abs(np.log(inside / outside)) <= np.maximum(largest, noise)
    return frozenset(word for word, plain in zip(words, alike.tolist(), strict=True) if plain), len(words)


PLAIN_SHARE = 0.2  # of the words of a corpus, as they come, that have to be plain
ERRORS = 2.0  # of a ratio: in a small corpus words differ by chance


def own_foil(corpus: object, labels: object, texts: Sequence[str], target: object = None) -> tuple[NGram, Note]:
    """Return the sampler that labelled texts of the user's make, and a note on it.

    It draws the words that are as common in every class, by what stands around them. Where hardly any are, it draws the
    words of the other classes by how common they are. Texts that are explained are left out: what they hold must not
    decide what is plain.
    """
    if corpus is None or labels is None:
        raise InputError(
            "corpus and labels go together: texts of the same kind, and the class of each; or give a sampler"
        )
    given = list(corpus.values()) if isinstance(corpus, Mapping) else corpus
    pool = check_texts(given)  # type: ignore[arg-type]
    classes = labels_of(
        "labels", list(labels.values()) if isinstance(labels, Mapping) else labels, "text of the corpus"
    )
    if len(pool) != len(classes):
        raise InputError(f"corpus has {len(pool)} texts and labels {len(classes)}; give one label for each text")
    explained = frozenset(texts)
    pairs = [(text, label) for text, label in zip(pool, classes, strict=True) if text not in explained]
    kinds = Counter(label for _, label in pairs)
    if len(kinds) < 2:
        without = "" if len(pairs) == len(pool) else ", without those that are explained,"
        raise InputError(f"the texts of corpus{without} are of {len(kinds)} class; give texts of two classes or more")
    if len(kinds) > len(pairs) / 2:
        raise InputError(f"labels has {len(kinds)} classes for {len(pairs)} texts; give the class of each text")
    words = [_lower_words(text) for text, _ in pairs]
    common, count = _alike([set(one) for one in words], [label for _, label in pairs], 0.3, 2, ERRORS)
    share = sum(word in common for one in words for word in one) / max(1, sum(map(len, words)))
    values = {"texts": len(pairs), "left": len(pool) - len(pairs), "plain": len(common), "words": count, "share": share}
    if share >= PLAIN_SHARE and len(common) >= 2:
        return ngram([text for text, _ in pairs], among=common), Note("plain-words", "info", values)
    named = [label for label in kinds if str(label) == str(target)]
    others = [label for label in kinds if label not in named] if named else [kinds.most_common(1)[0][0]]
    foil = margin([text for text, label in pairs if label in others])
    return foil, Note("other-class", "warning", {**values, "classes": [str(label) for label in others]})
