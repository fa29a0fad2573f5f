"""The vocabulary of a language model: how each piece reads, and whether it begins a word."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from butfor.core.types import Ints
from butfor.text.tokens import Tokens

Kind = tuple[bool, bool]  # begins a word, has a letter or digit


@dataclass(frozen=True, eq=False)
class PieceTable:
    """Pieces as they read in a text. Made by `piece_table`."""

    reads: tuple[str | None, ...]  # None: special, or no text by itself (a part of a character)
    begins: tuple[bool, ...]
    spaced: bool  # a piece that begins a word holds the space before it
    lower: bool  # upper and lower case are the same
    among: frozenset[str] | None = None  # the only words that may begin with a piece: pieces that are these words

    def kind(self, piece: int) -> Kind:
        read = self.reads[piece]
        if read is None:
            return (True, True)  # an unknown word
        return (self.begins[piece], _lettered(read))

    @cached_property
    def _by_kind(self) -> dict[Kind, Ints]:
        out: dict[Kind, list[int]] = {(a, b): [] for a in (True, False) for b in (True, False)}
        for piece, read in enumerate(self.reads):
            if read and self._may(piece, read):
                out[self.kind(piece)].append(piece)
        return {kind: np.array(pieces, np.int64) for kind, pieces in out.items()}

    def _may(self, piece: int, read: str) -> bool:
        limited = self.among is not None and self.kind(piece) == (True, True)
        return not limited or read.lower() in (self.among or ())

    def options(self, kind: Kind) -> Ints:
        """The pieces that may stand in place of one of this kind."""
        return self._by_kind[kind]

    @cached_property
    def inner_words(self) -> Ints:
        """Pieces with a letter or digit, whether they begin a word or go on with one."""
        return np.sort(np.concatenate([self._by_kind[True, True], self._by_kind[False, True]]))


def _lettered(read: str) -> bool:
    return any(character.isalnum() for character in read)


def piece_table(tokens: Tokens, size: int) -> PieceTable:
    """The first `size` pieces of a tokenizer: as many as the model has outputs for."""
    inner = tokens.inner
    stored = json.loads(inner.to_str())
    special = {entry["id"] for entry in stored.get("added_tokens") or [] if entry.get("special")}
    names = {place: name for name, place in inner.get_vocab(with_added_tokens=True).items()}
    raw = [None if place in special else names.get(place) for place in range(size)]
    kinds = _types(stored.get("pre_tokenizer")) | _types(stored.get("decoder")) | _types(stored.get("normalizer"))
    prefix = (stored.get("model") or {}).get("continuing_subword_prefix") or ""
    lower = inner.encode("A", add_special_tokens=False).ids == inner.encode("a", add_special_tokens=False).ids
    if "ByteLevel" in kinds:
        sign, read = "Ġ", _bytes_read
    elif "Metaspace" in kinds or any(name is not None and name.startswith("▁") for name in raw):
        sign, read = "▁", _plain
    else:
        plain = [None if name is None else name.removeprefix(prefix) for name in raw]
        begins = [name is None or not prefix or not name.startswith(prefix) for name in raw]
        return PieceTable(tuple(plain), tuple(begins), False, lower)
    reads = [None if name is None else read(name.removeprefix(sign)) for name in raw]
    return PieceTable(tuple(reads), tuple(name is not None and name.startswith(sign) for name in raw), True, lower)


def _types(part: Any) -> set[str]:
    if not isinstance(part, dict):
        return set()
    inner = [one for name in ("pretokenizers", "decoders", "normalizers") for one in part.get(name) or []]
    return {str(part.get("type"))}.union(*(_types(one) for one in inner))


def _plain(name: str) -> str | None:
    return None if name.startswith("<0x") or "▁" in name else name


def _bytes_read(name: str) -> str | None:
    """A byte-level piece as text, if it is whole characters without a space."""
    try:
        read = bytes(BYTES[character] for character in name).decode("utf-8")
    except (KeyError, UnicodeDecodeError):
        return None
    return None if any(character.isspace() for character in read) else read


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTES = _byte_alphabet()
