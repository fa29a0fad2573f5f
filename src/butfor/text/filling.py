"""A span of each text filled from left to right: drawn, or the likeliest fills with their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from butfor.core.checks import whole
from butfor.core.types import Floats, Ints, Subset
from butfor.text.distribution import drawn, likeliest
from butfor.text.edit import check_texts, span_of

LISTED_CHARACTERS = 40  # of longer spans no list of likely fills holds a mass worth listing
Mass = Callable[[Ints, int, int], Floats]  # rows of pieces (n, length), a place, its number -> masses (n, options)


class Filling(Protocol):
    """A span of one text that can be filled."""

    @property
    def width(self) -> int: ...  # uniform numbers that a draw takes
    def fills(self, numbers: Floats) -> list[str]: ...  # (draws, width) -> the characters of the span, for each draw
    def likeliest(self, count: int) -> tuple[list[str], Floats]: ...  # those fills, and their probabilities


def draw_spans(
    texts: Sequence[str], subset: Subset, draws: int, rng: np.random.Generator, opened: Callable[[str], Filling]
) -> list[str]:
    """Texts with the span redrawn, `draws` of the first, then of the second, and so on."""
    texts, draws = check_texts(texts), whole("draws", draws, 0)
    out: list[str] = []
    for text in texts:
        start, end = span_of(text, subset)
        filling = opened(text)
        numbers = rng.random((draws, filling.width))
        out += [text[:start] + fill + text[end:] for fill in (filling.fills(numbers) if draws else [])]
    return out


def list_spans(
    texts: Sequence[str], subset: Subset, count: int, opened: Callable[[str], Filling]
) -> tuple[list[list[str]], Floats]:
    """Versions of each text with its likeliest fills, and their probabilities (n, m).

    Where there are fewer than in another text, the text itself follows without mass.
    """
    texts = check_texts(texts)
    found = [opened(text).likeliest(count) for text in texts]
    masses = np.zeros((len(texts), max((len(mass) for _, mass in found), default=0)))
    versions = []
    for row, (text, (fills, mass)) in enumerate(zip(texts, found, strict=True)):
        start, end = span_of(text, subset)
        masses[row, : len(mass)] = mass
        own = [text[:start] + fill + text[end:] for fill in fills]
        versions.append(own + [text] * (masses.shape[1] - len(own)))
    return versions, masses


def lists_short(listed: int, subset: Subset) -> bool:
    """Whether the likeliest fills of a subset are listed: if that was asked for, and the span is short."""
    start, end = subset.index
    return bool(listed > 0 and end - start <= LISTED_CHARACTERS)


@dataclass(frozen=True, eq=False)
class Blank:
    """Pieces of a text masked together: what may stand there, how likely it is, how that reads."""

    options: Sequence[Ints]  # the pieces that may stand at each place
    masked: Callable[[], tuple[Ints, list[int]]]  # the pieces of the text (length,), and where the masks are
    mass: Mass
    alone: Callable[[], Floats]  # the same of a single place, (options,)
    written: Callable[[Sequence[int]], str]  # a piece for each place -> the characters of the span
    sweeps: int = 0  # how often every piece is drawn again given all others

    @property
    def width(self) -> int:
        return len(self.options) * (1 + self.sweeps)

    def fills(self, numbers: Floats) -> list[str]:
        if len(self.options) == 1:  # a sweep over one piece is another draw from the same distribution
            return [self.written([self.options[0][place]]) for place in drawn(self.alone(), numbers[:, -1])]
        ids, places = self.masked()
        rows = np.tile(ids, (len(numbers), 1))
        for step in range(numbers.shape[1]):
            which = step % len(places)
            distinct, back = np.unique(rows, axis=0, return_inverse=True)
            found = self.mass(distinct, places[which], which)
            for row, (own, number) in enumerate(zip(back.ravel(), numbers[:, step], strict=True)):
                rows[row, places[which]] = self.options[which][drawn(found[own], number[None])[0]]
        return [self.written(row[places]) for row in rows]

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        """Sought from left to right, keeping `count` beginnings at a time."""
        if len(self.options) == 1:
            mass = self.alone()
            best = likeliest(mass, count)
            return [self.written([self.options[0][place]]) for place in best], mass[best]
        ids, places = self.masked()
        rows, total = ids[None].copy(), np.ones(1)
        for which, place in enumerate(places):
            joint = total[:, None] * self.mass(rows, place, which)
            best = likeliest(joint.ravel(), count)
            row, piece = np.divmod(best, joint.shape[1])
            rows, total = rows[row], joint.ravel()[best]
            rows[:, place] = self.options[which][piece]
        return [self.written(row[places]) for row in rows], total


@dataclass(frozen=True, eq=False)
class WordByWord:
    """Words of which each is drawn given those before it."""

    width: int  # how many
    law: Callable[[tuple[str, ...]], tuple[Sequence[str], Floats]]  # words so far -> what may follow, and its masses
    written: Callable[[Sequence[str]], str]  # the words -> the characters of the span

    def fills(self, numbers: Floats) -> list[str]:
        return [self.written(self._drawn(row)) for row in numbers]

    def _drawn(self, numbers: Floats) -> tuple[str, ...]:
        begun: tuple[str, ...] = ()
        for number in numbers:
            words, mass = self.law(begun)
            begun = (*begun, words[drawn(mass, number[None])[0]])
        return begun

    def likeliest(self, count: int) -> tuple[list[str], Floats]:
        """Sought from left to right, keeping `count` beginnings at a time."""
        begun: list[tuple[str, ...]] = [()]
        total = np.ones(1)
        for _ in range(self.width):
            laws = [self.law(own) for own in begun]
            joint = np.concatenate([share * mass for share, (_, mass) in zip(total, laws, strict=True)])
            best, ends = likeliest(joint, count), np.cumsum([len(mass) for _, mass in laws])
            rows = np.searchsorted(ends, best, side="right")
            begun = [(*begun[row], laws[row][0][place - ends[row]]) for row, place in zip(rows, best, strict=True)]
            total = joint[best]
        return [self.written(own) for own in begun], total
