"""Subsets: the pieces that a tokenizer cuts a text into."""

from __future__ import annotations

from functools import partial

from butfor.text.edit import Span
from butfor.text.network import tokenizer as embedded
from butfor.text.segment import splits_character
from butfor.text.subsets import SpanProposer
from butfor.text.tokens import Tokens, tokens_of


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
