"""Seed -> one random stream per (subset, block, round), the same wherever and whenever it is opened."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """The generator that belongs to `key`: never a position in a queue, so order and workers do not matter.

    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 0).random())
    True
    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 1).random())
    False
    """
    digest = hashlib.blake2b(repr((int(seed), *key)).encode("utf-8", "surrogatepass"), digest_size=32).digest()
    words = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(words)))
