"""A text with one span of it replaced: everything else stays to the character."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from butfor.core.types import InputError, ModelError, Subset

LONE = re.compile("[\ud800-\udfff]")
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

    Parameters
    ----------
    text : the text.
    subset : its index is the span (start, end) to replace.
    fill : what is to stand there.

    Examples
    --------
    >>> replaced("a good film", Subset("good", (2, 6)), "fine")
    'a fine film'
    """
    start, end = span_of(text, subset)
    return text[:start] + fill + text[end:]


def changed(text: str, other: str, subset: Subset) -> str:
    """What stands in a counterfactual in place of the subset.

    Parameters
    ----------
    text, other : a text, and one of its counterfactuals.
    subset : its index is the span (start, end) that was redrawn.

    Examples
    --------
    >>> changed("a good film", "a rather long film", Subset("good", (2, 6)))
    'rather long'
    """
    start, end = span_of(text, subset)
    return other[start : len(other) - (len(text) - end)]


class SpanPacking:
    """How counterfactuals of texts are kept: only what stands in the span."""

    def cut(self, observed: str, counterfactual: str, subset: Subset) -> str:
        """What is kept of a counterfactual."""
        return changed(observed, counterfactual, subset)

    def restore(self, observed: str, piece: str, subset: Subset) -> str:
        """The whole counterfactual again."""
        return replaced(observed, subset, piece)


def rewritten(text: str, span: Span, places: Sequence[Span], words: Sequence[str]) -> str:
    """The characters of a span with other words at some places in it, and what stands between them as it was.

    >>> rewritten("a good, old film", (2, 11), [(2, 6), (8, 11)], ["bad", "new"])
    'bad, new'
    """
    out, done = [], span[0]
    for (start, end), word in zip(places, words, strict=True):
        out += [text[done:start], word]
        done = end
    return "".join([*out, text[done : span[1]]])


def check_drawn(text: str, drawn: object, subset: Subset) -> None:
    """Refuse a counterfactual that is not the text with another span.

    >>> check_drawn("a good film", "a bad film", Subset("good", (2, 6)))
    >>> check_drawn("a good film", "a bad movie", Subset("good", (2, 6)))
    Traceback (most recent call last):
    butfor.core.types.ModelError: the sampler changed the text outside subset 'good'; only text[2:6] may change
    """
    if not isinstance(drawn, str):
        what = type(drawn).__name__
        raise ModelError(f"the sampler returned {what} for subset {subset.name!r}; expected whole texts")
    start, end = subset.index
    before, after = text[:start], text[end:]
    if not (drawn.startswith(before) and drawn.endswith(after) and len(drawn) >= len(before) + len(after)):
        raise ModelError(
            f"the sampler changed the text outside subset {subset.name!r}; only text[{start}:{end}] may change"
        )


def check_texts(texts: Iterable[str]) -> list[str]:
    """The inputs of a sampler or a model, after seeing that they are strings."""
    if isinstance(texts, str):
        raise InputError("one text was given where a list of texts is expected; give [text]")
    out = list(texts)
    for text in out:
        if not isinstance(text, str):
            raise InputError(f"texts must be strings, got {type(text).__name__}")
    return out


def encodable(text: str) -> str:
    """The same number of characters, but for lone surrogates, which no tokenizer takes: U+FFFD in their place.

    >>> encodable("a\\ud800b")
    'a�b'
    """
    return text if text.isascii() else LONE.sub("�", text)  # asked of every row: the first costs nothing
