"""A bed of texts whose answer is known: a Markov language, a classifier that reads three words of four, exact draws.

The words of a text are a Markov chain; then some of them, chosen without looking at the words, are replaced by foreign
ones. The others have exactly the distribution of the chain given the other words of the language, with the foreign ones
summed over: those are the true nulls, beside the positions that the classifier does not read.
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
INDEX = {word: k for k, word in enumerate(WORDS)}
READ = {word: k for k, word in enumerate((*WORDS, *FOREIGN))}


@dataclass(frozen=True, eq=False)
class TextBed:
    """Texts, the words to test in each, a model, a sampler, and for each text and word if its null is false."""

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
    """Return texts of a Markov language with a `share` of foreign words; Q is the language.

    The classifier adds the worth of the words that it reads to how well neighbours among them go together, rounded to
    few values if `tied`. True: foreign, and read. Exact tests evaluate the `listed` likeliest words.

    >>> sentences(seed=1)
    <TextBed 'sentences': 30 texts, 12 words, 55 true signals>
    """
    rng = stream(seed, "sentences")
    chain = Chain(*(0.95 * mass + 0.05 / len(WORDS) for mass in start_and_steps(rng)))
    worth = np.append(rng.normal(0, 0.6, len(WORDS)), [5.0, -5.0])
    words = chain.draw(inputs, LENGTH, rng)
    foreign = rng.random(words.shape) < share
    words = np.where(foreign, len(WORDS) + rng.integers(0, 2, words.shape), words)
    read = np.arange(LENGTH) % 4 < 3
    names = [f"sentence {i + 1}" for i in range(inputs)]
    known = (*WORDS, *FOREIGN)
    texts = {key: " ".join(known[word] for word in row) for key, row in zip(names, words, strict=True)}
    subsets = {key: word_subsets(text) for key, text in texts.items()}
    model = Reader(worth, chain.fit, read, 1.0 if tied else None)
    return TextBed(name, texts, subsets, model, Markov(chain, listed), foreign & read)


def start_and_steps(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the probabilities of first words and of steps: few words are likely after another."""
    favour = np.full(len(WORDS), 0.2)
    return rng.dirichlet(favour), rng.dirichlet(favour, len(WORDS))


def word_subsets(text: str) -> list[Subset]:
    """Return the words between single spaces, named as words of texts are: "bal", and "bal #2" where it comes again."""
    subsets, start = [], 0
    for word in text.split(" "):
        subsets.append(Subset(word, (start, start + len(word))))
        start += len(word) + 1
    return unique(subsets, " #")


@dataclass(frozen=True, eq=False)
class Chain:
    """A Markov chain over the words of the language."""

    first: Floats  # (words,)
    then: Floats  # (words, words), from row to column

    @cached_property
    def fit(self) -> Floats:
        """Return the standardized log-probability of each word after each, (words, words)."""
        logs = np.log(np.maximum(self.then, 1e-4))
        return np.asarray((logs - logs.mean()) / logs.std())

    def draw(self, count: int, length: int, rng: np.random.Generator) -> Ints:
        words = np.empty((count, length), np.int64)
        words[:, 0] = drawn(np.tile(self.first, (count, 1)), rng)
        for k in range(1, length):
            words[:, k] = drawn(self.then[words[:, k - 1]], rng)
        return words

    def conditional(self, words: Sequence[int], index: int, right: bool = True) -> Floats:
        """Return the distribution of one word given all others, (words,); those that are -1 are summed over.

        Forwards from the left and backwards from the right; without `right` the words after it are not looked at.
        """

        def only(mass: Floats, word: int) -> Floats:
            out = np.zeros_like(mass)
            out[word] = mass[word] / max(mass[word], np.finfo(np.float64).tiny)  # scaled: long texts do not underflow
            return out

        before, after = self.first, np.ones(len(self.first))
        for word in words[:index]:
            before = (before if word < 0 else only(before, word)) @ self.then
        for word in words[:index:-1] if right else ():
            after = self.then @ (after if word < 0 else only(after, word))
        mass = before * after
        return np.asarray(mass / mass.sum())


def drawn(mass: Floats, rng: np.random.Generator) -> Ints:
    total = np.cumsum(mass, axis=1)
    below = (total < rng.random((len(mass), 1)) * total[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(below, mass.shape[1] - 1), np.int64)


@dataclass(frozen=True, eq=False)
class Markov:
    """The exact sampler: a word of the language given all other words of the text."""

    chain: Chain
    listed: int = 0
    right: bool = True  # False: a mistake, for tests; it conditions on the words before only

    changes_subset_only = True

    def __repr__(self) -> str:
        return f"Markov(listed={self.listed})"

    def __call__(self, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator) -> list[str]:
        masses = [np.tile(self.conditional(text, subset), (draws, 1)) for text in texts]
        return [
            filled(text, subset, WORDS[word])
            for text, mass in zip(texts, masses, strict=True)
            for word in drawn(mass, rng)
        ]

    def conditional(self, text: str, subset: Subset) -> Floats:
        start, end = subset.index
        if not text[start:end] or " " in text[start:end] or (text[start - 1 : start] + text[end : end + 1]).strip(" "):
            raise InputError(f"subset {subset.name!r} {subset.index} is not one word of the text")
        before, after = text[:start].split(" ")[:-1], text[end:].split(" ")[1:]
        words = [INDEX.get(word, -1) for word in (*before, "", *after)]
        return self.chain.conditional(words, len(before), self.right)

    def lists(self, _: Subset) -> bool:
        return self.listed > 0

    def repeats(self, _: Subset) -> bool:
        return True

    def support(self, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
        masses = [self.conditional(text, subset) for text in inputs]
        best = [np.argsort(-mass, kind="stable")[: self.listed] for mass in masses]
        versions = [[filled(text, subset, WORDS[i]) for i in words] for text, words in zip(inputs, best, strict=True)]
        return versions, np.array([mass[words] for mass, words in zip(masses, best, strict=True)])


def filled(text: str, subset: Subset, fill: str) -> str:
    start, end = subset.index
    return text[:start] + fill + text[end:]


@dataclass(frozen=True, eq=False)
class Reader:
    """A classifier: the worth of the words that it reads, and how well neighbours among them go together."""

    worth: Floats  # (words and foreign words,)
    fit: Floats  # (words, words)
    read: Bools  # (LENGTH,)
    step: float | None = None  # rounds the output to multiples of it

    def __call__(self, texts: Sequence[str]) -> Floats:
        words = np.array([[READ[word] for word in text.split(" ")] for text in texts], np.int64)
        values = self.worth[words] * self.read
        pairs = np.zeros((len(WORDS) + len(FOREIGN),) * 2)
        pairs[: len(WORDS), : len(WORDS)] = self.fit
        together = pairs[words[:, :-1], words[:, 1:]] * (self.read[:-1] & self.read[1:])
        out = values.sum(axis=1) + together.sum(axis=1) + 0.2 * np.abs(values).max(axis=1)
        return np.asarray(out if self.step is None else np.round(out / self.step) * self.step)
