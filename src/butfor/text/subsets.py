"""What to test in a text: one shape, `(name, text) -> subsets`, for everything that proposes spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol

from butfor.core.types import InputError, Subset
from butfor.text.edit import Span, encodable

Overlap = Literal["refuse", "alone"]
LONGEST_NAME = 60


class Subsets(Protocol):
    """Gives the subsets of one text."""

    def __call__(self, name: str, text: str, /) -> list[Subset]: ...


@dataclass(frozen=True)
class Together:
    """The subsets of several proposers, one after the other. Made by `together`."""

    parts: tuple[Subsets, ...]
    overlap: Overlap

    @property
    def blind(self) -> bool:
        """Whether all of them are laid blindly: what is tested was then not picked by what it holds."""
        return all(getattr(part, "blind", False) for part in self.parts)

    def __call__(self, name: str, text: str) -> list[Subset]:
        found = unique(subset for part in self.parts for subset in part(name, text))
        check_overlap(name, found, self.overlap)
        return found


def together(*parts: Subsets, overlap: Overlap = "refuse") -> Together:
    """The subsets of all `parts` in one run: sentences and some words, say.

    >>> from butfor.text import matches, sentences
    >>> both = together(sentences(), matches("not"), overlap="alone")
    >>> [subset.name for subset in both("review", "It is not bad.")]
    ['It is not bad.', 'not']
    """
    check_overlap_option(overlap)
    for part in parts:
        if not callable(part):
            raise InputError(f"together takes functions (name, text) -> subsets, got {type(part).__name__}")
    return Together(tuple(parts), overlap)


def named(text: str, spans: Iterable[Span]) -> list[Subset]:
    """Spans as subsets that are called as they read: a second "good" is "good #2".

    >>> [subset.name for subset in named("so so good", [(0, 2), (3, 5), (6, 10)])]
    ['so', 'so #2', 'good']
    """
    return unique(Subset(label(text[start:end]), (start, end)) for start, end in spans)


def label(words: str) -> str:
    """Words on one line, shortened to 60 characters."""
    line = " ".join(encodable(words).split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1].rstrip() + "…"


def unique(subsets: Iterable[Subset]) -> list[Subset]:
    """The same subsets with names of their own."""
    subsets = list(subsets)
    given = {subset.name for subset in subsets}
    taken: set[str] = set()
    number: dict[str, int] = {}
    out = []
    for subset in subsets:
        name = subset.name
        while name in taken or (name != subset.name and name in given):
            number[subset.name] = number.get(subset.name, 1) + 1
            name = f"{subset.name} #{number[subset.name]}"
        taken.add(name)
        out.append(subset if name == subset.name else Subset(name, subset.index))
    return out


def check_overlap_option(overlap: str) -> None:
    if overlap not in ("refuse", "alone"):
        raise InputError(f"overlap must be 'refuse' or 'alone' (test them anyway, each alone), got {overlap!r}")


def check_overlap(name: str, subsets: Sequence[Subset], overlap: Overlap) -> None:
    """Refuse spans of one text that share a character.

    Overlapping spans are not independent hypotheses: what is important in one is important in the other.
    """
    if overlap == "alone":
        return
    ordered = sorted(subsets, key=lambda subset: tuple(subset.index))
    for first, second in pairwise(ordered):
        if second.index[0] < first.index[1]:
            raise InputError(
                f"spans {first.name!r} {first.index} and {second.name!r} {second.index} of text {name!r} overlap; draw "
                "them apart, or use overlap='alone' to test them anyway, each alone"
            )
