"""A bed of texts whose answer is known: a Markov language, a classifier that reads some places only, the exact sampler.

The words of a text are a Markov chain; then some places, chosen without looking at the words, get a word that is not of
the language. Whatever stands elsewhere has exactly the law of the chain given the other words of the language, with the
foreign ones summed over: those are the true nulls, beside the places that nobody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from butfor.evaluation.hypotheses import unique
from butfor.streams import stream
from butfor.types import Bools, Floats, InputError, Ints, Subset

WORDS = tuple(a + b + c for a, b, c in product("bdgk", "aeiou", "lr"))  # 40 of them
FOREIGN = ("zax", "zex")  # pull up, pull down
LENGTH = 12  # words a text


@dataclass(frozen=True, eq=False)
class TextBed:
    """Texts, the words to test in each, a model, a sampler, and for each text and word whether its null is false."""

    name: str
    inputs: dict[str, str]
    subsets: dict[str, list[Subset]]
    model: Reader
    sampler: Markov
    truth: Bools  # (texts, words)

    def __repr__(self) -> str:
        count, width = self.truth.shape
        return f"<TextBed {self.name!r}: {count} texts, {width} words, {int(self.truth.sum())} true signals>"


def sentences(
    name: str = "sentences", seed: int = 0, *, inputs: int = 30, share: float = 0.2, tied: bool = False, listed: int = 0
) -> TextBed:
    """Texts of a Markov language with foreign words in some of their places; Q is the language.

    The classifier adds up what the words that it reads are worth and how well neighbours among them go together. True:
    foreign, and read.

    Parameters
    ----------
    name, seed : what the bed is called, and where its chance comes from.
    inputs : how many texts.
    share : of the places that get a foreign word.
    tied : round the model's outputs to few values.
    listed : how many of the likeliest words the exact tests evaluate.

    Examples
    --------
    >>> sentences(seed=1)
    <TextBed 'sentences': 30 texts, 12 words, 55 true signals>
    """
    rng = stream(seed, "sentences")
    chain = Chain(*(0.95 * law + 0.05 / len(WORDS) for law in laws(rng)))
    worth = np.append(rng.normal(0, 0.6, len(WORDS)), [5.0, -5.0])
    words = chain.draw(inputs, LENGTH, rng)
    foreign = rng.random(words.shape) < share
    words = np.where(foreign, len(WORDS) + rng.integers(0, 2, words.shape), words)
    read = np.arange(LENGTH) % 4 < 3
    names = [f"sentence {i + 1}" for i in range(inputs)]
    known = (*WORDS, *FOREIGN)
    texts = {own: " ".join(known[word] for word in row) for own, row in zip(names, words, strict=True)}
    subsets = {own: word_subsets(text) for own, text in texts.items()}
    model = Reader(worth, chain.fit, read, 1.0 if tied else None)
    return TextBed(name, texts, subsets, model, Markov(chain, listed), foreign & read)


def laws(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """How texts begin and how they go on: few words are likely after another."""
    favour = np.full(len(WORDS), 0.2)
    return rng.dirichlet(favour), rng.dirichlet(favour, len(WORDS))


def word_subsets(text: str) -> list[Subset]:
    """The words between single spaces, named as words of texts are: "bal", and "bal #2" where it comes again."""
    found, start = [], 0
    for word in text.split(" "):
        found.append(Subset(word, (start, start + len(word))))
        start += len(word) + 1
    return unique(found, " #")


@dataclass(frozen=True, eq=False)
class Chain:
    """A Markov chain over the words of the language."""

    first: Floats  # (words,)
    then: Floats  # (words, words), from row to column

    @cached_property
    def fit(self) -> Floats:
        """How well a word goes before another, (words, words): its log-probability, of moderate size and mean 0."""
        logs = np.log(np.maximum(self.then, 1e-4))
        return np.asarray((logs - logs.mean()) / logs.std())

    def draw(self, count: int, length: int, rng: np.random.Generator) -> Ints:
        words = np.empty((count, length), np.int64)
        words[:, 0] = drawn(np.tile(self.first, (count, 1)), rng)
        for place in range(1, length):
            words[:, place] = drawn(self.then[words[:, place - 1]], rng)
        return words

    def conditional(self, words: Sequence[int], place: int, right: bool = True) -> Floats:
        """The law of one word given all others, (words,); those that are -1 are not known and summed over.

        Forwards from the left and backwards from the right; without `right` the words after it are not looked at.
        """
        law = self.first
        for word in words[:place]:
            law = (law if word < 0 else _only(law, word)) @ self.then
        after = np.ones(len(law))
        for word in words[:place:-1] if right else ():
            after = self.then @ (after if word < 0 else _only(after, word))
        law = law * after
        return np.asarray(law / law.sum())


def _only(law: Floats, word: int) -> Floats:
    out = np.zeros_like(law)
    out[word] = law[word] / max(law[word], np.finfo(np.float64).tiny)  # scaled: long texts do not underflow
    return out


def drawn(mass: Floats, rng: np.random.Generator) -> Ints:
    """One place of each row of probabilities (n, m)."""
    total = np.cumsum(mass, axis=1)
    below = (total < rng.random((len(mass), 1)) * total[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(below, mass.shape[1] - 1), np.int64)


@dataclass(frozen=True, eq=False)
class Markov:
    """The exact sampler: a word of the language given all other words of the text."""

    chain: Chain
    listed: int = 0
    right: bool = True  # False: a mistake, for tests; it conditions on what stands before the word only

    changes_subset_only = True

    def __repr__(self) -> str:
        return f"Markov(listed={self.listed})"

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        masses = [np.tile(self.law(text, subset), (draws, 1)) for text in texts]
        return [
            filled(text, subset, WORDS[word])
            for text, mass in zip(texts, masses, strict=True)
            for word in drawn(mass, rng)
        ]

    def law(self, text: str, subset: Subset) -> Floats:
        """Q of every word of the language at the subset, (words,)."""
        start, end = subset.index
        if not text[start:end] or " " in text[start:end] or (text[start - 1 : start] + text[end : end + 1]).strip(" "):
            raise InputError(f"subset {subset.name!r} {subset.index} is not one word of the text")
        before, after = text[:start].split(" ")[:-1], text[end:].split(" ")[1:]
        words = [PLACE.get(word, -1) for word in (*before, "", *after)]
        return self.chain.conditional(words, len(before), self.right)

    def lists(self, _: Subset) -> bool:
        """Whether words are listed: if that was asked for."""
        return self.listed > 0

    def repeats(self, _: Subset) -> bool:
        """Draws of words come again and again."""
        return True

    def support(self, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        """The likeliest counterfactuals of each text and their probabilities."""
        laws = [self.law(text, subset) for text in inputs]
        best = [np.argsort(-law, kind="stable")[: self.listed] for law in laws]
        versions = [[filled(text, subset, WORDS[i]) for i in own] for text, own in zip(inputs, best, strict=True)]
        return versions, np.array([law[own] for law, own in zip(laws, best, strict=True)])


PLACE = {word: place for place, word in enumerate(WORDS)}


def filled(text: str, subset: Subset, fill: str) -> str:
    start, end = subset.index
    return text[:start] + fill + text[end:]


@dataclass(frozen=True, eq=False)
class Reader:
    """A classifier: what the words that it reads are worth, and how well neighbours that it reads go together."""

    worth: Floats  # (words and foreign words,)
    fit: Floats  # (words, words)
    read: Bools  # (places,)
    step: float | None = None  # rounds the output to multiples of it

    def __call__(self, texts: Sequence[str]) -> Floats:
        words = np.array([[READ[word] for word in text.split(" ")] for text in texts], np.int64)
        values = self.worth[words] * self.read
        pairs = np.zeros((len(WORDS) + len(FOREIGN),) * 2)
        pairs[: len(WORDS), : len(WORDS)] = self.fit
        together = pairs[words[:, :-1], words[:, 1:]] * (self.read[:-1] & self.read[1:])
        out = values.sum(axis=1) + together.sum(axis=1) + 0.2 * np.abs(values).max(axis=1)
        return np.asarray(out if self.step is None else np.round(out / self.step) * self.step)


READ = {word: place for place, word in enumerate((*WORDS, *FOREIGN))}
