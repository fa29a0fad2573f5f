"""Seed -> one random stream per (subset, block, round), the same wherever and whenever it is opened."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence


def stream(seed: int, *key: str | int) -> Generator:
    """Return the generator of `key`: never a position in a queue, so order and workers do not matter.

    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 0).random())
    True
    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 1).random())
    False
    """
    content = repr((int(seed), *key)).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=32).digest()
    return Generator(SFC64(SeedSequence(np.frombuffer(digest, dtype="<u4").tolist())))
