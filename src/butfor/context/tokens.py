"""Lines, words, punctuation and halves of codes: the tokens of `small_reader`."""

from __future__ import annotations

import re
from zlib import crc32

START, END = 0, 1
BUCKETS = 16  # of words that are not in the vocabulary
_PIECE = re.compile(r"\d+|'s\b|[^\W\d_]+|[^\w\s]|_")
_LINE = re.compile(r"\s*\n\s*(?!\s*answer:)|(?<=[.!])\s+")


def lines(text: str) -> list[str]:
    """Return the lines and sentences of a text; "Answer:" belongs to the question before it.

    >>> lines("Ask the porter. He knows.\\nQuestion: Who?\\nAnswer:")
    ['ask the porter.', 'he knows.', 'question: who?\\nanswer:']
    """
    return [line for line in _LINE.split(text.strip().lower().replace("\u2019", "'")) if line]


def pieces(line: str) -> list[str]:
    """Return the words, signs and pairs of digits of a line; pairs after the first begin with "##".

    >>> pieces("lisbon's code is 4417.")
    ['lisbon', "'s", 'code', 'is', '44', '##17', '.']
    """
    split: list[str] = []
    for piece in _PIECE.findall(line):
        if piece[0].isdecimal():
            halves = [piece[i : i + 2] for i in range(0, len(piece), 2)]
            split += [halves[0], *("##" + half for half in halves[1:])]
        else:
            split.append(piece)
    return split


def special_tokens() -> list[str]:
    """Return the tokens that every vocabulary begins with: start and end of a line, unknown words, halves of codes."""
    unknown = [f"<unknown {k}>" for k in range(BUCKETS)]
    return ["<start>", "<end>", *unknown, *(f"{k:02}" for k in range(100)), *(f"##{k:02}" for k in range(100))]


def encode(line: str, numbers: dict[str, int]) -> list[int]:
    """Return the number of each token; a word that is not known has one of 16 numbers, by its checksum."""
    return [
        numbers[piece] if piece in numbers else END + 1 + crc32(piece.encode("utf-8", "replace")) % BUCKETS
        for piece in pieces(line)
    ]
