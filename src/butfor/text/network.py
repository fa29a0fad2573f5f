"""The embedded networks: opened once per process, so that what holds only their name can be sent to workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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
LINE = "<br />"  # the only piece with a space in it
MOST_CUT = 2**16  # words whose pieces are remembered
MOST_JOINED = 2**14  # sentences whose pieces are
Part = TypeVar("Part", str, bytes)
Made = TypeVar("Made")


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


def numbers_of(texts: Sequence[str]) -> list[Ints]:
    """The same as `ids_of` of each text, in a fraction of the time where texts share most of what they say.

    No piece goes over a space but for the mark of a line. So what stands between two spaces is cut once, and what
    stands between a full stop with a space and the next is put together once.
    """
    held = [_sentences(encodable(text)) for text in texts]
    known = remembered(_joined_before(), held, MOST_JOINED, _numbers_of_sentences)
    return [np.concatenate([known[part] for part in parts]) for parts in held]


def _numbers_of_sentences(sentences: Sequence[str]) -> list[Ints]:
    held = [_between_spaces(sentence) for sentence in sentences]
    known = remembered(_cut_before(), held, MOST_CUT, _cut)
    return [np.array([piece for part in parts for piece in known[part]], np.int64) for parts in held]


def _cut(parts: Sequence[str]) -> list[list[int]]:
    encodings = tokenizer().encode_batch(list(parts), add_special_tokens=False)
    return [ids_of(encoding).tolist() for encoding in encodings]


def remembered(
    before: dict[Part, Made], held: Sequence[Sequence[Part]], most: int, make: Callable[[Sequence[Part]], list[Made]]
) -> dict[Part, Made]:
    """What is made of all parts, where it is not known from before, of which at most so many are kept."""
    found = {part: before.get(part) for parts in held for part in parts}  # another thread may empty what was known
    fresh = [part for part, own in found.items() if own is None]
    made = dict(zip(fresh, make(fresh), strict=True))
    if len(before) + len(made) > most:
        before.clear()
    before.update(made)
    return {part: own for part, own in found.items() if own is not None} | made


@lru_cache(maxsize=1)
def _joined_before() -> dict[str, Ints]:
    """The pieces of sentences; a pure saving, as that of their words is."""
    return {}


@lru_cache(maxsize=1)
def _cut_before() -> dict[str, list[int]]:
    """The pieces of what stood between two spaces."""
    return {}


def _sentences(text: str) -> list[str]:
    """What can be cut apart, longer than words.

    >>> _sentences("Bad... It was. And long.")
    ['Bad...', 'It was.', 'And long.']
    """
    *others, last = text.split(". ")
    return [*(part + "." for part in others), last]


def _between_spaces(text: str) -> list[str]:
    """What the tokenizer cuts by itself.

    >>> _between_spaces("Bad.<br /><br />So bad")
    ['Bad.', '<br />', '<br />', 'So', 'bad']
    """
    lines = text.split(LINE)
    parts = [part for line in lines for part in (*line.split(" "), LINE)][:-1]
    return [part for part in parts if part]


def ask(
    name: str, threads: int | None, feeds: Mapping[str, Array], *, output: str | None = None, arena: bool = False
) -> NDArray[np.float32]:
    """An output of the network weights/`name`.onnx, its first if not said; `arena`: batches are of about one size."""
    try:
        # texts differ in length, and an arena would keep memory for each
        session = open_session(WEIGHTS / f"{name}.onnx", f"the embedded {name}", threads, arena=arena, extra="text")
        out: NDArray[np.float32] = session.run(None if output is None else [output], feeds)[0]
        return out
    except InputError:
        raise
    except Exception as error:  # ONNX Runtime has errors of its own kinds
        raise ModelError(f"the embedded {name} failed: {' '.join(str(error).split())[:300]}") from error
