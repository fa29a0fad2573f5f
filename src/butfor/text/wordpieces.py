"""Subsets: the pieces that a tokenizer cuts a text into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from butfor.core.types import Subset
from butfor.text.edit import Span
from butfor.text.segment import splits_character
from butfor.text.subsets import named
from butfor.text.tokens import Tokens, tokens_of


@dataclass(frozen=True, eq=False)
class WordPieces:
    """Every piece of a text that has a letter or digit. Made by `wordpieces`."""

    tokens: Tokens

    blind = True  # whatever is there

    def __repr__(self) -> str:
        return f"wordpieces({self.tokens!r})"

    def __call__(self, name: str, text: str) -> list[Subset]:  # noqa: ARG002
        (pieces,) = self.tokens.encode([text], special=False)
        known = [span for span, special in zip(pieces.spans, pieces.special, strict=True) if not special]
        spans = joined(text, [trimmed(text, span) for span in known])
        return named(text, [(a, b) for a, b in spans if any(letter.isalnum() for letter in text[a:b])])


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


def wordpieces(tokenizer: Any = None) -> WordPieces:
    """Every piece of the text that has a letter or digit, by the character offsets that the tokenizer gives.

    `tokenizer` is a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its
    folder; None is the embedded one. Texts are not cut, whatever the tokenizer is set to.

    >>> [subset.name for subset in wordpieces()("review", "An unclear Kurosawa.")]
    ['An', 'uncle', 'ar', 'Kurosawa']
    """
    from butfor.text.network import tokenizer as embedded

    return WordPieces(tokens_of(embedded() if tokenizer is None else tokenizer))
