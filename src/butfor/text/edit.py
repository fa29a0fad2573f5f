"""A text with one span of it replaced: everything else stays to the character."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.core.types import InputError, Subset

Span = tuple[int, int]  # character offsets into a text, half-open


def span_of(text: str, subset: Subset) -> Span:
    """The offsets of a subset, after seeing that they lie in the text."""
    try:
        start, end = (int(place) for place in subset.index)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"subset {subset.name!r} of a text must be (start, end), two character offsets, got {subset.index!r}"
        ) from error
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"subset {subset.name!r} is ({start}, {end}), which is no span of a text of {len(text)} characters; "
            "offsets count characters from 0, the end is not included"
        )
    return start, end


def replaced(text: str, subset: Subset, fill: str) -> str:
    """The text with `fill` in place of the subset.

    >>> replaced("a good film", Subset("good", (2, 6)), "fine")
    'a fine film'
    """
    start, end = span_of(text, subset)
    return text[:start] + fill + text[end:]


def changed(text: str, other: str, subset: Subset) -> str:
    """What stands in a counterfactual in place of the subset.

    >>> changed("a good film", "a rather long film", Subset("good", (2, 6)))
    'rather long'
    """
    start, end = span_of(text, subset)
    return other[start : len(other) - (len(text) - end)]


def check_texts(texts: Any) -> list[str]:
    """The inputs of a sampler or a model, after seeing that they are strings."""
    if isinstance(texts, str):
        raise InputError("one text was given where a list of texts is expected; give [text]")
    out = list(texts)
    for text in out:
        if not isinstance(text, str):
            raise InputError(f"texts must be strings, got {type(text).__name__}")
    return out


def check_draws(draws: Any) -> int:
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 0:
        raise InputError(f"draws must be a whole number of at least 0, got {draws!r}")
    return int(draws)


def encodable(text: str) -> str:
    """The same number of characters, but for lone surrogates, which no tokenizer takes: U+FFFD in their place.

    >>> encodable("a\\ud800b")
    'a�b'
    """
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return "".join("�" if "\ud800" <= character <= "\udfff" else character for character in text)
