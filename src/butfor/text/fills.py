"""Filling a span of a text: draws from, and lists of, the distributions that a language model gives.

A sampler of spans has `open(text, subset)`, which returns a `Filling`, and takes `__call__`, `repeats`, `lists` and
`support` from here.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from butfor.text.segment import check_texts, span_of
from butfor.types import Array, Floats, InputError, Ints, Subset, whole


@dataclass(frozen=True)
class Shape:
    """Sharpens or cuts a distribution before it is drawn from; by default neither."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        heat, share = (
            float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
            for value in (self.temperature, self.top_p)
        )
        if not 0 < heat < math.inf:
            raise InputError(f"temperature must be a number above 0, got {self.temperature!r}")
        if self.top_p is not None and not 0 < share <= 1:
            raise InputError(f"top_p must be a share above 0 and at most 1, or None, got {self.top_p!r}")
        if self.top_k is not None:
            whole("top_k", self.top_k, 1)

    def __str__(self) -> str:
        given = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p}
        shown = {name: value for name, value in given.items() if value != getattr(Shape, name)}
        return ", ".join(f"{name}={value if name == 'top_k' else f'{value:g}'}" for name, value in shown.items())

    def probabilities(self, logits: Array) -> Floats:
        """Return the probabilities (m, V) of log-odds (m, V)."""
        scaled = np.asarray(logits, np.float64) / self.temperature
        scaled -= scaled.max(axis=1, keepdims=True)
        mass = np.exp(scaled)
        mass /= mass.sum(axis=1, keepdims=True)
        if self.top_k is None and self.top_p is None:
            return mass
        order = np.argsort(-mass, axis=1, kind="stable")
        ranked = np.take_along_axis(mass, order, axis=1)
        kept = np.ones_like(ranked, bool)
        if self.top_k is not None:
            kept[:, self.top_k :] = False
        if self.top_p is not None:  # the likeliest one always stays
            kept &= np.cumsum(ranked, axis=1) - ranked < self.top_p
        cut = np.zeros_like(mass)
        np.put_along_axis(cut, order, np.where(kept, ranked, 0.0), axis=1)
        cut /= cut.sum(axis=1, keepdims=True)
        return cut


def drawn(mass: Floats, uniform: Floats) -> Ints:
    """Return the indices into one distribution (V,) that uniform numbers (k,) point at."""
    steps = np.cumsum(mass)
    # rounding may leave the last step below 1, and a number may point at its very end
    indices = np.searchsorted(steps, np.asarray(uniform) * steps[-1], side="right")
    out: Ints = np.minimum(indices, int(np.flatnonzero(mass)[-1]))
    return out


def likeliest(mass: Floats, count: int) -> Ints:
    """Return the indices of the `count` largest masses, the largest first, ties in order; none without mass."""
    return np.argsort(-mass, kind="stable")[: min(count, int(np.count_nonzero(mass)))]


def spelled(name: str, *parts: str, **options: object) -> str:
    """Return a sampler as a call: the parts and options that are not empty.

    >>> spelled("ngram", "9 words", "", listed=3, least=0)
    'ngram(9 words, listed=3)'
    """
    shown = [f"{option}={value}" for option, value in options.items() if value]
    return f"{name}({', '.join([*filter(None, parts), *shown])})"


class Filling(Protocol):
    @property
    def width(self) -> int: ...  # uniform numbers per draw
    def fills(self, numbers: Floats) -> list[str]: ...  # (draws, width) -> the characters of the span, for each draw
    def likeliest(self, count: int) -> tuple[list[str], Floats]: ...  # those fills, and their probabilities


class OpensSpans(Protocol):
    @property
    def listed(self) -> int: ...
    def open(self, text: str, subset: Subset) -> Filling: ...


def draw_spans(
    sampler: OpensSpans, texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator
) -> list[str]:
    """Return texts with the span redrawn, input-major."""
    texts, draws = check_texts(texts), whole("draws", draws, 0)
    out: list[str] = []
    for text in texts:
        start, end = span_of(text, subset)
        filling = sampler.open(text, subset)
        numbers = rng.random((draws, filling.width))
        out += [text[:start] + fill + text[end:] for fill in (filling.fills(numbers) if draws else [])]
    return out


def list_spans(sampler: OpensSpans, inputs: Sequence[str], subset: Subset) -> tuple[list[list[str]], Floats]:
    """Return the `listed` likeliest counterfactuals of each text, and their probabilities (n, m).

    Spans of several words are searched from left to right, keeping `listed` beginnings at a time. Where there are fewer
    than in another text, the text itself follows without mass.
    """
    texts = check_texts(inputs)
    lists = [sampler.open(text, subset).likeliest(sampler.listed) for text in texts]
    masses = np.zeros((len(texts), max((len(mass) for _, mass in lists), default=0)))
    versions = []
    for row, (text, (fills, mass)) in enumerate(zip(texts, lists, strict=True)):
        start, end = span_of(text, subset)
        masses[row, : len(mass)] = mass
        filled = [text[:start] + fill + text[end:] for fill in fills]
        versions.append(filled + [text] * (masses.shape[1] - len(filled)))
    return versions, masses


def lists_short(sampler: OpensSpans, subset: Subset) -> bool:
    start, end = subset.index  # no list of likely fills of a longer span has a mass worth listing
    return bool(sampler.listed > 0 and end - start <= 40)


def always_repeats(_: OpensSpans, subset: Subset) -> bool:  # noqa: ARG001
    return True


@dataclass(frozen=True, eq=False)
class Blank:
    """Pieces of a text masked together: the options, their probabilities, and how they read."""

    options: Sequence[Ints]  # the pieces that may stand at each mask
    masked: Callable[[], tuple[Ints, list[int]]]  # the pieces of the text (length,), and the indices of the masks
    mass: Callable[[Ints, int, int], Floats]  # pieces (n, length), index and number of a mask -> masses (n, options)
    alone: Callable[[], Floats]  # the same of a single mask, (options,)
    written: Callable[[Sequence[int]], str]  # a piece for each mask -> the characters of the span
    sweeps: int = 0  # how often every piece is drawn again given all others

    @property
    def width(self) -> int:
        return len(self.options) * (1 + self.sweeps)

    def fills(self, numbers: Floats) -> list[str]:
        if len(self.options) == 1:  # a sweep over one piece is another draw from the same distribution
            return [self.written([self.options[0][index]]) for index in drawn(self.alone(), numbers[:, -1])]
        ids, masks = self.masked()
        rows = np.tile(ids, (len(numbers), 1))
        for step in range(numbers.shape[1]):
            which = step % len(masks)
            distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
            mass = self.mass(distinct, masks[which], which)
            for row, (source, number) in enumerate(zip(inverse.ravel(), numbers[:, step], strict=True)):
                rows[row, masks[which]] = self.options[which][drawn(mass[source], number[None])[0]]
        return [self.written(row[masks]) for row in rows]

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        if self.sweeps:
            raise InputError("fills drawn with sweeps cannot be listed; use sweeps=0, or listed=0")
        if len(self.options) == 1:
            mass = self.alone()
            best = likeliest(mass, count)
            return [self.written([self.options[0][index]]) for index in best], mass[best]
        ids, masks = self.masked()
        rows, total = ids[None].copy(), np.ones(1)
        for which, index in enumerate(masks):
            joint = total[:, None] * self.mass(rows, index, which)
            best = likeliest(joint.ravel(), count)
            row, piece = np.divmod(best, joint.shape[1])
            rows, total = rows[row], joint.ravel()[best]
            rows[:, index] = self.options[which][piece]
        return [self.written(row[masks]) for row in rows], total


@dataclass(frozen=True, eq=False)
class WordByWord:
    """Words of which each is drawn given those before it."""

    width: int  # the number of words
    following: Callable[[tuple[str, ...]], tuple[Sequence[str], Floats]]  # words so far -> the next ones, their masses
    written: Callable[[Sequence[str]], str]  # the words -> the characters of the span

    def fills(self, numbers: Floats) -> list[str]:
        out = []
        for row in numbers:
            begun: tuple[str, ...] = ()
            for number in row:
                words, mass = self.following(begun)
                begun = (*begun, words[drawn(mass, number[None])[0]])
            out.append(self.written(begun))
        return out

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        begun: list[tuple[str, ...]] = [()]
        total = np.ones(1)
        for _ in range(self.width):
            nexts = [self.following(words) for words in begun]
            joint = np.concatenate([share * mass for share, (_, mass) in zip(total, nexts, strict=True)])
            best, ends = likeliest(joint, count), np.cumsum([len(mass) for _, mass in nexts])
            rows = np.searchsorted(ends, best, side="right")
            begun = [(*begun[row], nexts[row][0][index - ends[row]]) for row, index in zip(rows, best, strict=True)]
            total = joint[best]
        return [self.written(words) for words in begun], total


Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The last few values by key.

    >>> squares = Recent(2)
    >>> [squares.get(x, lambda: x * x) for x in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        value = self._known[key] = make()
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return value

    def __reduce__(self) -> tuple[type[Recent[Value]], tuple[int]]:
        return Recent, (self.most,)
