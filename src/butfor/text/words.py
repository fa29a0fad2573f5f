"""Subsets: the words, the sentences and the matches of a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass

from butfor.core.types import InputError, Subset
from butfor.text.segment import sentence_spans, splits_character, word_spans
from butfor.text.subsets import Overlap, check_overlap, check_overlap_option, named


@dataclass(frozen=True)
class Words:
    """Every word of a text. Made by `words`."""

    runs: bool = False

    blind = True  # whatever is there

    def __repr__(self) -> str:
        return "words(runs=True)" if self.runs else "words()"

    def __call__(self, name: str, text: str) -> list[Subset]:  # noqa: ARG002
        return named(text, word_spans(text, self.runs))


def words(*, runs: bool = False) -> Words:
    """Every word, in any script: letters or digits with their marks, apostrophes and decimal points.

    Chinese characters, Hiragana and the clusters of Thai, Lao, Khmer and Myanmar stand one by one, since these scripts
    put no spaces between words; `runs` takes what they write together as one. Tags such as <br />, punctuation and
    emoji are no words.

    >>> [(subset.name, subset.index) for subset in words()("review", "Not good, not bad.")]
    [('Not', (0, 3)), ('good', (4, 8)), ('not', (10, 13)), ('bad', (14, 17))]
    """
    return Words(bool(runs))


@dataclass(frozen=True)
class Sentences:
    """Every sentence of a text. Made by `sentences`."""

    blind = True  # whatever is there

    def __repr__(self) -> str:
        return "sentences()"

    def __call__(self, name: str, text: str) -> list[Subset]:  # noqa: ARG002
        return named(text, sentence_spans(text))


def sentences() -> Sentences:
    """Every sentence that has a word; see `butfor.text.sentence_spans` for where they end.

    >>> [subset.name for subset in sentences()("review", "Dull. But short!")]
    ['Dull.', 'But short!']
    """
    return Sentences()


@dataclass(frozen=True)
class Matches:
    """What a pattern finds in a text. Made by `matches`."""

    pattern: re.Pattern[str]
    overlap: Overlap

    def __repr__(self) -> str:
        return f"matches({self.pattern.pattern!r})"

    def __call__(self, name: str, text: str) -> list[Subset]:
        group = 1 if self.pattern.groups else 0
        spans = [match.span(group) for match in self.pattern.finditer(text)]
        spans = [_widened(text, start, end) for start, end in spans if start < end]
        found = named(text, dict.fromkeys(spans))
        check_overlap(name, found, self.overlap)
        return found


def matches(pattern: str | re.Pattern[str], *, ignore_case: bool = True, overlap: Overlap = "refuse") -> Matches:
    """What a regular expression finds; with a group in it, what its first group finds.

    A match that ends between a letter and its accent is widened to the whole character.

    >>> [subset.index for subset in matches(r"not (\\w+)")("review", "Not good, not bad.")]
    [(4, 8), (14, 17)]
    """
    check_overlap_option(overlap)
    if isinstance(pattern, re.Pattern):
        return Matches(pattern, overlap)
    try:
        return Matches(re.compile(pattern, re.IGNORECASE if ignore_case else 0), overlap)
    except (re.error, TypeError) as error:
        raise InputError(f"matches needs a regular expression, got {pattern!r}: {error}") from error


def _widened(text: str, start: int, end: int) -> tuple[int, int]:
    while splits_character(text, start):
        start -= 1
    while splits_character(text, end):
        end += 1
    return start, end
