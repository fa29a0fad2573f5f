"""A text -> spans of its words, marks and tags, in order; what is between them is space."""

from __future__ import annotations

import re

from butfor.text.edit import Span
from butfor.text.segment import TAG, word_spans

_MARK = re.compile(rf"{TAG}|\.{{2,}}|-{{2,}}|\S", re.IGNORECASE | re.DOTALL)


def word_tokens(text: str) -> list[Span]:
    """Words as `word_spans` finds them, and between them tags, dots and dashes in a row, and single marks.

    >>> text = "Fine... don't<br />go!"
    >>> [text[a:b] for a, b in word_tokens(text)]
    ['Fine', '...', "don't", '<br />', 'go', '!']
    """
    found: list[Span] = []
    done = 0
    for start, end in [*word_spans(text), (len(text), len(text))]:
        found += [(done + mark.start(), done + mark.end()) for mark in _MARK.finditer(text[done:start])]
        if start < end:
            found.append((start, end))
        done = end
    return found


def is_word(text: str, span: Span) -> bool:
    """Whether a token is a word, and not a mark or a tag."""
    return text[span[0]] != "<" and any(character.isalnum() for character in text[span[0] : span[1]])
