"""A bed of documents whose answer is known at every resolution: paragraphs, sentences, phrases and words.

Sentences are Markov chains, each by itself. In some of them some places, chosen without looking at the words, get a
word that is not of the language. A span is a true signal where it holds a foreign word that is read; what else it holds
has exactly the law that the sampler draws from, given all words of the language outside the span.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.simulate.texts import FOREIGN, PLACE, READ, WORDS, Chain, drawn, laws
from butfor.streams import stream
from butfor.types import Bools, Floats, Ints, Subset

WORD = re.compile(r"[A-Za-z]+")
STOP = re.compile(r"\.\s*")


@dataclass(frozen=True, eq=False)
class DocumentBed:
    """Documents, a model, a sampler, and which words of each are true signals."""

    inputs: dict[str, str]
    model: WordReader
    sampler: SpanSampler
    signals: dict[str, list[tuple[int, int]]]  # the spans of the words that are signals

    def __repr__(self) -> str:
        return f"<DocumentBed: {len(self.inputs)} documents, {sum(map(len, self.signals.values()))} true signals>"

    def truth(self, name: str, span: tuple[int, int]) -> bool:
        """Whether the null of a span is false."""
        return any(span[0] <= start and end <= span[1] for start, end in self.signals[name])


def documents(
    seed: int = 0,
    *,
    inputs: int = 20,
    paragraphs: int = 3,
    sentences: int = 3,
    words: int = 8,
    share: float = 0.2,
    strength: float = 4.0,
    density: float = 0.5,
) -> DocumentBed:
    """Documents of a Markov language with foreign words in some of their sentences; Q is the language.

    Parameters
    ----------
    seed : the same seed gives the same documents.
    inputs : how many documents.
    paragraphs, sentences, words : paragraphs of each, sentences of a paragraph, words of a sentence.
    share : of the sentences that have foreign words.
    density : of the places of such a sentence that have one.
    strength : what a foreign word is worth, one way or the other; those of the language have a spread of 0.6.

    Examples
    --------
    >>> documents(1)
    <DocumentBed: 20 documents, 123 true signals>
    """
    rng = stream(seed, "documents")
    chain = Chain(*(0.95 * law + 0.05 / len(WORDS) for law in laws(rng)))
    worth = np.append(rng.normal(0, 0.6, len(WORDS)), [strength, -strength])
    known, texts, signals = (*WORDS, *FOREIGN), {}, {}
    for number in range(inputs):
        own = chain.draw(paragraphs * sentences, words, rng)
        odd = (rng.random((len(own), 1)) < share) & (rng.random(own.shape) < density)
        own = np.where(odd, len(WORDS) + rng.integers(0, 2, (len(own), 1)), own)  # those of a sentence pull one way
        lines = [" ".join(known[word] for word in row).capitalize() + "." for row in own]
        text = "\n\n".join(" ".join(lines[k : k + sentences]) for k in range(0, len(lines), sentences))
        spans = [match.span() for match in WORD.finditer(text)]
        read = np.tile(np.arange(words) % 4 < 3, len(own))
        texts[f"document {number + 1}"] = text
        signals[f"document {number + 1}"] = [spans[k] for k in np.flatnonzero(odd.ravel() & read)]
    return DocumentBed(texts, WordReader(worth, words), SpanSampler(chain), signals)


@dataclass(frozen=True, eq=False)
class WordReader:
    """A classifier: what the words are worth that it reads, three of every four."""

    worth: Floats  # (words and foreign words,)
    words: int  # of a sentence

    def __call__(self, texts: Sequence[str]) -> Floats:
        found = [[READ[word.lower()] for word in WORD.findall(text)] for text in texts]
        length = max(map(len, found))
        read = np.arange(length) % self.words % 4 < 3
        return np.array([(self.worth[row] * read[: len(row)]).sum() for row in found])


@dataclass(frozen=True, eq=False)
class SpanSampler:
    """The exact sampler: all words of a span together, given all words of the language outside it."""

    chain: Chain

    changes_subset_only = True
    fills_whole = True

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        return [made for text in texts for made in self._redrawn(text, subset.index, draws, rng)]

    def _redrawn(self, text: str, span: tuple[int, int], draws: int, rng: np.random.Generator) -> list[str]:
        start, end = span
        parts: list[list[str]] = [[] for _ in range(draws)]  # of each draw, what stands in the span
        done, begin = start, 0
        for stop in (match.end() for match in STOP.finditer(text)):  # sentence by sentence
            words = [(begin + m.start(), begin + m.end()) for m in WORD.finditer(text[begin:stop])]
            inside = np.array([start <= a and b <= end for a, b in words])
            if inside.any():
                numbers = np.array([PLACE.get(text[a:b].lower(), -1) for a, b in words])
                for row, own in zip(self._words(numbers, inside, draws, rng), parts, strict=True):
                    before = done
                    for (a, b), word in zip(np.array(words)[inside].tolist(), row, strict=True):
                        shown = WORDS[word].capitalize() if text[a].isupper() else WORDS[word]
                        own += [text[before:a], shown]
                        before = b
                done = np.array(words)[inside][-1, 1]
            begin = stop
        return [text[:start] + "".join([*own, text[done:end]]) + text[end:] for own in parts]

    def _words(self, words: Ints, inside: Bools, draws: int, rng: np.random.Generator) -> Ints:
        """Draws (draws, words inside) of one sentence, from left to right; what is foreign is summed over."""
        known = (words >= 0) & ~inside
        after = np.ones((len(words) + 1, len(WORDS)))  # what stands to the right says of each word
        for place in range(len(words) - 1, 0, -1):
            own = _only(after[place + 1], int(words[place])) if known[place] else after[place + 1]
            after[place] = self.chain.then @ own
        law, out = np.tile(self.chain.first, (draws, 1)), []
        for place in range(int(np.flatnonzero(inside)[-1]) + 1):
            if place:
                law = law @ self.chain.then
            if inside[place]:
                picked = drawn(law * after[place + 1], rng)
                out.append(picked)
                law = np.eye(len(WORDS))[picked]
            elif known[place]:
                law = np.tile(np.eye(len(WORDS))[words[place]], (draws, 1))
        return np.stack(out, axis=1)


def _only(law: Floats, word: int) -> Floats:
    out = np.zeros_like(law)
    out[word] = 1.0
    return out
