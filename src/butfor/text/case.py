"""Upper and lower case of a fill: that of the word it stands for, never more than that.

A lower-case infiller draws words without their case. The case pattern of the observed word (small, Capital, ALL
CAPITALS) is conditioned on: every fill is written in it, so that case alone never tells the observed text from its
counterfactuals. "I" and its contractions are capital wherever they stand, so in the middle of a sentence they count as
small words, and a fill "i" is written "I".
"""

from __future__ import annotations

import re
from typing import Literal

Case = Literal["small", "capital", "capitals"]
_ME = re.compile(r"i(?:['’](?:m|ve|d|ll))?", re.IGNORECASE)
_BEGINS = re.compile(r"(?:^|[.!?…:\"“(>*\n])[\s\"'“”‘’()*_-]*$")


def case_of(text: str, start: int, end: int) -> Case:
    """The case pattern of the word at text[start:end].

    >>> [case_of(word, 0, len(word)) for word in ("good", "Good", "GOOD", "I", "iPhone", "3D")]
    ['small', 'capital', 'capitals', 'capital', 'small', 'capital']
    >>> case_of("So I left", 3, 4)
    'small'
    """
    word = text[start:end]
    letters = [letter for letter in word if letter.upper() != letter.lower()]
    if not letters or not letters[0].isupper():
        return "small"
    if _ME.fullmatch(word) and not begins_sentence(text, start):
        return "small"
    if len(letters) > 1 and all(letter.isupper() for letter in letters):
        return "capitals"
    return "capital"


def begins_sentence(text: str, start: int) -> bool:
    return _BEGINS.search(text[max(0, start - 40) : start]) is not None if start else True


def cased(word: str, case: Case) -> str:
    """A lower-case word in a case pattern.

    >>> [cased("don't", case) for case in ("small", "capital", "capitals")], cased("i'm", "small")
    (["don't", "Don't", "DON'T"], "I'm")
    """
    if case == "capitals":
        return word.upper()
    if case == "capital" or _ME.fullmatch(word):
        return word[:1].upper() + word[1:]
    return word
