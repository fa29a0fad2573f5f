"""What to test in a text: spans as subsets that are called as they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from butfor.core.draw.proposers import Overlap, Proposer, Together, check_overlap_option, join, unique
from butfor.core.types import InputError, Subset
from butfor.text.edit import Span, encodable

LONGEST_NAME = 60
SIGN = " #"  # before the number of a name that comes again: "good #2"


@dataclass(frozen=True)
class SpanProposer:
    """The spans that a function finds in a text. Made by `words`, `sentences`, `wordpieces`, `matches`, `phrases`."""

    called: str
    find: Callable[[str], Iterable[Span]]
    blind: bool = True  # they are laid whatever is there, and not picked by what it is
    overlap: Overlap = "alone"
    note: str = ""  # for the notes of a run

    def __post_init__(self) -> None:
        check_overlap_option(self.overlap)

    def __repr__(self) -> str:
        return self.called

    def __call__(self, name: object, text: str) -> list[Subset]:
        found = named(text, self.find(text))
        check_overlap(name, found, text, self.overlap, self.called.partition("(")[0])
        return found

    def notes(self, inputs: Sequence[str], subsets: Sequence[Sequence[Subset]], seed: int) -> list[str]:  # noqa: ARG002
        """How spans were found, where that is not plain."""
        return [self.note] if self.note else []


def together(*parts: Proposer, overlap: Overlap = "refuse") -> Together:
    """The subsets of several proposers in one run: sentences and some words, say.

    Parameters
    ----------
    *parts : functions (name, text) -> subsets, such as `words()` and `spans(...)`.
    overlap : "refuse" spans that overlap, or test them anyway, each "alone".

    Examples
    --------
    >>> from butfor.text import matches, sentences
    >>> both = together(sentences(), matches("not"), overlap="alone")
    >>> [subset.name for subset in both("review", "It is not bad.")]
    ['It is not bad.', 'not']
    """
    return join(parts, overlap, check_overlap, "text", SIGN)


def named(text: str, spans: Iterable[Span]) -> list[Subset]:
    """Spans as subsets that are called as they read: a second "good" is "good #2".

    >>> [subset.name for subset in named("so so good", [(0, 2), (3, 5), (6, 10)])]
    ['so', 'so #2', 'good']
    """
    return unique((Subset(label(text[start:end]), (start, end)) for start, end in spans), SIGN)


def label(words: str) -> str:
    """Words on one line, shortened to 60 characters."""
    line = " ".join(encodable(words).split())
    return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1].rstrip() + "…"


def check_overlap(name: object, subsets: Sequence[Subset], _: str, overlap: Overlap, by: str = "together") -> None:
    """Refuse spans of one text that share a character; `by` is the function that the user may call otherwise.

    Overlapping spans are not independent hypotheses: what is important in one is important in the other.
    """
    ordered = sorted(subsets, key=lambda subset: tuple(subset.index)) if overlap == "refuse" else []
    for first, second in pairwise(ordered):
        if second.index[0] < first.index[1]:
            raise InputError(
                f"spans {first.name!r} {first.index} and {second.name!r} {second.index} of text {name!r} overlap; draw "
                f"them apart, or test them anyway, each alone: butfor.text.{by}(..., overlap='alone'), --overlap alone "
                "on the command line"
            )
