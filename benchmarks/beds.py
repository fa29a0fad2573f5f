"""Beds that only benchmarks use: further rows of a bed, documents of known truth, and a table of loan applications."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from butfor.simulate import tables
from butfor.simulate.texts import FOREIGN, INDEX, READ, WORDS, Chain, drawn, start_and_steps
from butfor.streams import stream
from butfor.types import Bools, Floats, InputError, Ints, Subset

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 5000  # rows of correlated normals at a time


def population(name: str, seed: int, count: int, *, signals: bool) -> Floats:
    """Return rows (count, d) that the inputs of this bed could have been, or, without signals, rows that Q describes.

    They are none of the bed's inputs. The paper's beds, "linear", "interactions", "boosted-trees" and "copies".

    >>> population("copies", 0, 3, signals=False).shape
    (3, 24)
    """
    if name not in POPULATIONS:
        raise InputError(f"population knows the beds {', '.join(POPULATIONS)}, got {name!r}; use one of them")
    return POPULATIONS[name](seed, count, signals)


def _paper(seed: int, count: int, signals: bool, *, width: int, correlated: bool) -> Floats:
    rng = stream(seed, "population", width, correlated, signals)
    return tables.mixture(
        count, width, tables.SHARE * signals, tables.paper_beta(seed, width, correlated=correlated), rng
    )[0]


def _linear(seed: int, count: int, signals: bool) -> Floats:
    """As `linear_gaussian` makes them, many at a time."""
    rng, covariance = stream(seed, "population", "linear", signals), tables.linear_covariance()
    parts = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
    return np.concatenate([_given_shifted(part, tables.LINEAR_SHARE * signals, covariance, rng) for part in parts])


def _given_shifted(count: int, share: float, covariance: Floats, rng: np.random.Generator) -> Floats:
    """Shifted entries from N(shift, 1), the others from N(0, covariance) given those: one matrix a row, batched."""
    width = len(covariance)
    shifted = rng.random((count, width)) < share
    noise = rng.standard_normal((count, width))
    both, neither = (mask[:, :, None] & mask[:, None, :] for mask in (shifted, ~shifted))
    known = np.where(shifted[:, :, None], covariance, 0.0)
    slope = np.linalg.solve(np.where(both, covariance, np.eye(width)), known)
    spread = np.linalg.cholesky(np.where(neither, covariance - known.transpose(0, 2, 1) @ slope, np.eye(width)))
    moved = np.where(shifted, noise + tables.LINEAR_SHIFT, 0.0)
    rest = np.where(shifted, 0.0, noise)
    given = (moved[:, None] @ slope)[:, 0] + (spread @ rest[:, :, None])[:, :, 0]
    return np.where(shifted, moved, given)


def _interactions(seed: int, count: int, signals: bool, width: int = 24) -> Floats:
    rng = stream(seed, "population", "interactions", signals)
    return np.asarray(rng.standard_normal((count, width)) + 4.0 * (rng.random((count, width)) < tables.SHARE * signals))


def _made(rows: Callable[[int, int, float, str], tuple[Floats, Bools]], seed: int, count: int, signals: bool) -> Floats:
    return rows(seed, count, tables.SHARE * signals, f"population {signals}")[0]


POPULATIONS: dict[str, Callable[[int, int, bool], Floats]] = {
    "independent-discontinuous": partial(_paper, width=2 * tables.PAIRS, correlated=False),
    "correlated-discontinuous": partial(_paper, width=2 * tables.PAIRS, correlated=True),
    "independent-network": partial(_paper, width=tables.WIDTH, correlated=False),
    "correlated-network": partial(_paper, width=tables.WIDTH, correlated=True),
    "linear": _linear,
    "interactions": _interactions,
    "boosted-trees": partial(_made, tables.tree_rows),
    "copies": partial(_made, tables.copied_rows),
}


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
        """Return whether the null of a span is false."""
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
    """Return documents of a Markov language with foreign words in some of their sentences; Q is the language.

    `share` of the sentences have foreign words, in a `density` of their places. A foreign word is worth `strength`, one
    way or the other; words of the language have a spread of 0.6.

    >>> documents(1)
    <DocumentBed: 20 documents, 123 true signals>
    """
    rng = stream(seed, "documents")
    chain = Chain(*(0.95 * mass + 0.05 / len(WORDS) for mass in start_and_steps(rng)))
    worth = np.append(rng.normal(0, 0.6, len(WORDS)), [strength, -strength])
    known, texts, signals = (*WORDS, *FOREIGN), {}, {}
    for number in range(inputs):
        row_words = chain.draw(paragraphs * sentences, words, rng)
        odd = (rng.random((len(row_words), 1)) < share) & (rng.random(row_words.shape) < density)
        row_words = np.where(odd, len(WORDS) + rng.integers(0, 2, (len(row_words), 1)), row_words)  # one way a sentence
        lines = [" ".join(known[word] for word in row).capitalize() + "." for row in row_words]
        text = "\n\n".join(" ".join(lines[k : k + sentences]) for k in range(0, len(lines), sentences))
        spans = [match.span() for match in WORD.finditer(text)]
        read = np.tile(np.arange(words) % 4 < 3, len(row_words))
        texts[f"document {number + 1}"] = text
        signals[f"document {number + 1}"] = [spans[k] for k in np.flatnonzero(odd.ravel() & read)]
    return DocumentBed(texts, WordReader(worth, words), SpanSampler(chain), signals)


@dataclass(frozen=True, eq=False)
class WordReader:
    """A classifier: what the words are worth that it reads, three of every four."""

    worth: Floats  # (words and foreign words,)
    words: int  # of a sentence

    def __call__(self, texts: Sequence[str]) -> Floats:
        pieces = [[READ[word.lower()] for word in WORD.findall(text)] for text in texts]
        length = max(map(len, pieces))
        read = np.arange(length) % self.words % 4 < 3
        return np.array([(self.worth[row] * read[: len(row)]).sum() for row in pieces])


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
                numbers = np.array([INDEX.get(text[a:b].lower(), -1) for a, b in words])
                for row, part in zip(self._words(numbers, inside, draws, rng), parts, strict=True):
                    before = done
                    for (a, b), word in zip(np.array(words)[inside].tolist(), row, strict=True):
                        shown = WORDS[word].capitalize() if text[a].isupper() else WORDS[word]
                        part += [text[before:a], shown]
                        before = b
                done = np.array(words)[inside][-1, 1]
            begin = stop
        return [text[:start] + "".join([*part, text[done:end]]) + text[end:] for part in parts]

    def _words(self, words: Ints, inside: Bools, draws: int, rng: np.random.Generator) -> Ints:
        """Draws (draws, words inside) of one sentence, from left to right; what is foreign is summed over."""
        known = (words >= 0) & ~inside
        after = np.ones((len(words) + 1, len(WORDS)))  # what stands to the right says of each word
        for place in range(len(words) - 1, 0, -1):
            right = np.eye(len(WORDS))[words[place]] if known[place] else after[place + 1]
            after[place] = self.chain.then @ right
        mass, out = np.tile(self.chain.first, (draws, 1)), []
        for place in range(int(np.flatnonzero(inside)[-1]) + 1):
            if place:
                mass = mass @ self.chain.then
            if inside[place]:
                picked = drawn(mass * after[place + 1], rng)
                out.append(picked)
                mass = np.eye(len(WORDS))[picked]
            elif known[place]:
                mass = np.tile(np.eye(len(WORDS))[words[place]], (draws, 1))
        return np.stack(out, axis=1)


def credit(rows: int, seed: int = 0) -> tuple[pd.DataFrame, Bools, Bools]:
    """Return applications, who defaulted later, and who was declined by a rule with some noise.

    Late payments, the use of credit lines, the debt ratio and the score share a cause that no column has.

    >>> frame, defaulted, declined = credit(500)
    >>> frame.shape, bool(0.05 < defaulted.mean() < 0.5), bool(0.05 < declined.mean() < 0.5)
    ((500, 10), True, True)
    """
    import pandas as pd

    rng = stream(seed, "credit")
    care, noise = rng.standard_normal(rows), rng.standard_normal((6, rows))
    age = rng.integers(21, 70, rows)
    years = np.clip(0.4 * (age - 20) + 4 * noise[0], 0, age - 18).round(1)
    income = np.exp(7.7 + 0.01 * (age - 45) + 0.02 * years + 0.25 * noise[1])
    housing = np.select([age + 9 * noise[2] < 38, age + 9 * noise[2] < 58], ["rent", "mortgage"], "own")
    purpose = rng.choice(["car", "house", "business", "debts"], rows, p=[0.35, 0.3, 0.15, 0.2])
    late = rng.poisson(np.exp(-0.8 - 0.9 * care))
    use = 1 / (1 + np.exp(0.6 + 1.1 * care + 0.6 * noise[3]))
    debt_ratio = 0.6 / (1 + np.exp(0.6 + 0.5 * care + 0.8 * noise[4]))
    score = np.round(690 + 35 * care - 12 * np.minimum(late, 5) - 40 * (use - 0.4) + 18 * noise[5])
    amount = np.exp(8.5 + 0.4 * np.log(income) - 3 + 0.5 * rng.standard_normal(rows)).round(-2)
    risk = 0.7 * late + 2.5 * use + 7 * debt_ratio - 0.018 * (score - 690) - 0.3 * (housing == "own")
    frame = pd.DataFrame(
        {
            "age": age,
            "years employed": years,
            "income": np.where(rng.random(rows) < 0.06, np.nan, income.round(-1)),
            "housing": pd.Categorical(housing),
            "purpose": pd.Categorical(purpose),
            "amount": amount,
            "debt ratio": debt_ratio.round(3),
            "late payments": late,
            "use": use.round(3),
            "score": score,
        }
    )
    defaulted = rng.random(rows) < 1 / (1 + np.exp(-(risk - 4.5)))
    return frame, defaulted, risk + 0.3 * rng.standard_normal(rows) > 4.3
