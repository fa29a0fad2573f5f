"""The embedded networks: opened once per process, so that what holds only their name can be sent to workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import Array, Bools, InputError, Ints, ModelError
from butfor.models.onnx_session import open_session
from butfor.models.optional import need
from butfor.text.edit import encodable

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

WEIGHTS = Path(__file__).parent / "weights"
PAD, UNK, MASK, EDGE = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The pieces of the embedded networks."""

    pieces: tuple[str, ...]
    whole: Ints  # ids of the pieces that can stand as a word
    inside: Ints  # ids of the pieces that can go on with a word
    known: Bools  # (V,) whether a piece is whole


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """What the networks read and fill."""
    tokens = tokenizer()
    pieces = tuple(str(tokens.id_to_token(place)) for place in range(tokens.get_vocab_size()))
    lettered = np.array([any(character.isalnum() for character in piece) for piece in pieces])
    inside = np.array([piece.startswith("##") for piece in pieces])
    special = np.array([place <= EDGE or piece.startswith("<") for place, piece in enumerate(pieces)])
    whole = lettered & ~inside & ~special
    return Vocabulary(pieces, np.flatnonzero(whole), np.flatnonzero(lettered & inside), whole)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    """What cuts texts into their pieces."""
    made: Tokenizer = need("tokenizers", "text").Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    return made


def pieces_of(texts: Sequence[str]) -> list[Encoding]:
    """Encodings of texts: ids, and the offsets of each piece."""
    return list(tokenizer().encode_batch([encodable(text) for text in texts], add_special_tokens=False))


def ids_of(encoding: Encoding) -> Ints:
    """The pieces of a text by number."""
    ids = np.array(encoding.ids, np.int64)
    ids[ids <= EDGE] = UNK  # a text that says "[MASK]" masks nothing
    return ids


def ask(name: str, threads: int | None, feeds: Mapping[str, Array]) -> NDArray[np.float32]:
    """The first output of the network weights/`name`.onnx."""
    try:
        # texts differ in length, and an arena would keep memory for each
        session = open_session(WEIGHTS / f"{name}.onnx", f"the embedded {name}", threads, arena=False, extra="text")
        out: NDArray[np.float32] = session.run(None, feeds)[0]
        return out
    except InputError:
        raise
    except Exception as error:  # ONNX Runtime has errors of its own kinds
        raise ModelError(f"the embedded {name} failed: {' '.join(str(error).split())[:300]}") from error
