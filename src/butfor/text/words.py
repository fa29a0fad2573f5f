"""Subsets: the words, sentences and pieces of a text, and the matches of a pattern."""

from __future__ import annotations

import re
from functools import partial

from butfor.core.draw.proposers import Overlap
from butfor.core.patterns import TimedPattern
from butfor.core.types import InputError
from butfor.text.edit import Span
from butfor.text.network import tokenizer as embedded
from butfor.text.segment import sentence_spans, splits_character, word_spans
from butfor.text.subsets import SpanProposer
from butfor.text.tokens import Tokens, tokens_of


def words(*, runs: bool = False) -> SpanProposer:
    """Every word, in any script: letters or digits with their marks, apostrophes and decimal points.

    Chinese characters, Hiragana and the clusters of Thai, Lao, Khmer and Myanmar stand one by one, since these scripts
    put no spaces between words. Tags such as <br />, punctuation and emoji are no words.

    Parameters
    ----------
    runs : take what these scripts write together as one word.

    Examples
    --------
    >>> [(subset.name, subset.index) for subset in words()("review", "Not good, not bad.")]
    [('Not', (0, 3)), ('good', (4, 8)), ('not', (10, 13)), ('bad', (14, 17))]
    """
    return SpanProposer("words(runs=True)" if runs else "words()", partial(word_spans, runs=bool(runs)))


def sentences() -> SpanProposer:
    """Every sentence that has a word; see `butfor.text.sentence_spans` for where they end.

    Examples
    --------
    >>> [subset.name for subset in sentences()("review", "Dull. But short!")]
    ['Dull.', 'But short!']
    """
    return SpanProposer("sentences()", sentence_spans)


def matches(pattern: str | re.Pattern[str], *, ignore_case: bool = True, overlap: Overlap = "refuse") -> SpanProposer:
    """What a regular expression finds; a match that ends between a letter and its accent is widened to both.

    A pattern that takes more than 5 seconds on one text is refused.

    Parameters
    ----------
    pattern : the regular expression; with a group in it, what its first group finds is tested.
    ignore_case : upper and lower case are alike; a compiled pattern says so itself.
    overlap : "refuse" spans that overlap, or test them anyway, each "alone".

    Examples
    --------
    >>> [subset.index for subset in matches(r"not (\\w+)")("review", "Not good, not bad.")]
    [(4, 8), (14, 17)]
    """
    source, flags = pattern, int(re.IGNORECASE) if ignore_case else 0
    if isinstance(pattern, re.Pattern):
        source, flags = pattern.pattern, pattern.flags & ~int(re.DEBUG)
    try:
        timed = TimedPattern(source, flags)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"matches needs a regular expression, got {pattern!r:.200}: {error}") from error
    return SpanProposer(f"matches({source!r})", partial(_found, timed), blind=False, overlap=overlap)


def _found(pattern: TimedPattern, text: str) -> dict[Span, None]:
    """The matches, each once, in their order."""
    (spans,) = pattern.spans([text])
    return dict.fromkeys(_widened(text, start, end) for start, end in spans if start < end)


def _widened(text: str, start: int, end: int) -> Span:
    while splits_character(text, start):
        start -= 1
    while splits_character(text, end):
        end += 1
    return start, end


def wordpieces(tokenizer: object = None) -> SpanProposer:
    """Every piece of the text that has a letter or digit, by the character offsets that the tokenizer gives.

    Texts are not cut, whatever the tokenizer is set to.

    Parameters
    ----------
    tokenizer : a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its
        folder; None is the embedded one.

    Examples
    --------
    >>> [subset.name for subset in wordpieces()("review", "An unclear Kurosawa.")]
    ['An', 'uncle', 'ar', 'Kurosawa']
    """
    tokens = tokens_of(embedded() if tokenizer is None else tokenizer)
    return SpanProposer(f"wordpieces({tokens!r})", partial(_lettered, tokens))


def _lettered(tokens: Tokens, text: str) -> list[Span]:
    """The pieces of a text that have a letter or digit."""
    (pieces,) = tokens.encode([text], special=False)
    known = [span for span, special in zip(pieces.spans, pieces.special, strict=True) if not special]
    spans = joined(text, [trimmed(text, span) for span in known])
    return [(a, b) for a, b in spans if any(letter.isalnum() for letter in text[a:b])]


def trimmed(text: str, span: Span) -> Span:
    """Without the spaces that some tokenizers count as part of the piece after them."""
    start, end = span
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), end - (len(inside) - len(inside.rstrip()))


def joined(text: str, spans: list[Span]) -> list[Span]:
    """Pieces that share a character, or would part one from its marks, as one: bytes of an emoji are no words."""
    out: list[Span] = []
    for start, end in spans:
        if start >= end:
            continue
        if out and (start < out[-1][1] or (start == out[-1][1] and splits_character(text, start))):
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out
