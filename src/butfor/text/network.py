"""The embedded networks: opened once per process, so that what holds only their name can be sent to workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import Bools, InputError, Ints, ModelError
from butfor.models.optional import need
from butfor.text.edit import encodable

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
    tokens = tokenizer()
    pieces = tuple(str(tokens.id_to_token(place)) for place in range(tokens.get_vocab_size()))
    lettered = np.array([any(character.isalnum() for character in piece) for piece in pieces])
    inside = np.array([piece.startswith("##") for piece in pieces])
    special = np.array([place <= EDGE or piece.startswith("<") for place, piece in enumerate(pieces)])
    whole = lettered & ~inside & ~special
    return Vocabulary(pieces, np.flatnonzero(whole), np.flatnonzero(lettered & inside), whole)


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    return need("tokenizers", "text").Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))


def pieces_of(texts: Sequence[str]) -> list[Any]:
    """Encodings of texts: ids, and the offsets of each piece."""
    encoded: list[Any] = tokenizer().encode_batch([encodable(text) for text in texts], add_special_tokens=False)
    return encoded


def ids_of(encoding: Any) -> Ints:
    ids = np.array(encoding.ids, np.int64)
    ids[ids <= EDGE] = UNK  # a text that says "[MASK]" masks nothing
    return ids


def session(name: str, threads: int | None) -> Any:
    """The network weights/`name`.onnx; `threads` None: OMP_NUM_THREADS if set, else as many as ONNX Runtime likes."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return _session(name, threads if threads is not None else int(stated) if stated.isdecimal() else 0)


@lru_cache(maxsize=4)
def _session(name: str, threads: int) -> Any:
    runtime = need("onnxruntime", "text")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # texts differ in length, and the arena keeps memory for each
    return runtime.InferenceSession(str(WEIGHTS / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])


def ask(name: str, threads: int | None, feeds: dict[str, Any]) -> NDArray[np.float32]:
    """The first output of a network."""
    try:
        out: NDArray[np.float32] = session(name, threads).run(None, feeds)[0]
        return out
    except InputError:
        raise
    except Exception as error:  # ONNX Runtime has errors of its own kinds
        raise ModelError(f"the embedded {name} failed: {' '.join(str(error).split())[:300]}") from error


def check_threads(threads: Any) -> int | None:
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise InputError(f"threads must be at least 1, or None, got {threads!r}")
    return threads
