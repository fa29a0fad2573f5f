"""Seed -> one random stream per (subset, block, round), the same wherever and whenever it is opened."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

Key = tuple[str | int, ...]
Words = NDArray[np.uint32]
WORDS, POOL, STATE = 8, 4, 6  # words of 32 bits in a digest, in a SeedSequence's pool, and in the state of SFC64
LEAST_TOGETHER = 6  # keys for which mixing them together is not slower


def stream(seed: int, *key: str | int) -> Generator:
    """Return the generator of `key`: never a position in a queue, so order and workers do not matter.

    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 0).random())
    True
    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 1).random())
    False
    """
    return Generator(SFC64(SeedSequence(np.frombuffer(_digest(seed, key), dtype="<u4").tolist())))


def _digest(seed: int, key: Key) -> bytes:
    return hashlib.blake2b(repr((int(seed), *key)).encode("utf-8", "surrogatepass"), digest_size=4 * WORDS).digest()


def streams(seed: int, keys: Sequence[Key]) -> list[Generator]:
    """Return the generators of many keys, each the same as `stream` gives, in a third of the time.

    >>> one, other = streams(0, [("age", 3, 0), ("age", 3, 1)])
    >>> bool(other.random() == stream(0, "age", 3, 1).random())
    True
    """
    if len(keys) < LEAST_TOGETHER:
        return [stream(seed, *key) for key in keys]
    digests = b"".join(_digest(seed, key) for key in keys)
    words = np.frombuffer(digests, dtype="<u4").astype(np.uint32).reshape(len(keys), WORDS)
    return [Generator(SFC64(_Mixed(*pair))) for pair in zip(words, _states(words), strict=True)]  # type: ignore[arg-type]


class _Mixed(ISpawnableSeedSequence):
    """A seed sequence whose first state is known already; all else is left to NumPy's."""

    def __init__(self, words: Words, state: NDArray[np.uint64]) -> None:
        self._words, self._state = words, state
        self._sequence: SeedSequence | None = None

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint32 | np.uint64]:
        if n_words == len(self._state) and np.dtype(dtype) == np.uint64:
            return self._state
        return self._numpy().generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._numpy().spawn(n_children)

    def _numpy(self) -> SeedSequence:  # the same each time: it counts its children
        self._sequence = self._sequence or SeedSequence(self._words)
        return self._sequence


def _multipliers(first: int, factor: int, count: int) -> Words:
    """Return the multipliers of a hash, one after the other, (count + 1, 1)."""
    return np.array([first * pow(factor, k, 2**32) % 2**32 for k in range(count + 1)], np.uint32)[:, None]


IN = _multipliers(0x43B0D7E5, 0x931E8875, POOL + POOL * (POOL - 1) + POOL * (WORDS - POOL))
OUT = _multipliers(0x8B51F9DD, 0x58F38DED, STATE)
LEFT, RIGHT, SHIFT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)
OTHERS = [np.array([i for i in range(POOL) if i != source]) for source in range(POOL)]


def _states(words: Words) -> NDArray[np.uint64]:
    """Return what SeedSequence(words).generate_state(3, uint64) gives, (keys, 3): O'Neill's seed_seq, all at once.

    NumPy promises that SeedSequence stays as it is (NEP 19), and a test compares the two.
    """

    def hashed(values: Words, multipliers: Words) -> Words:  # (n, keys) or (keys,) with (n + 1, 1)
        values = (values ^ multipliers[:-1]) * multipliers[1:]
        return np.asarray(values ^ (values >> SHIFT))

    def mixed(one: Words, other: Words) -> Words:
        values = LEFT * one - RIGHT * other
        return np.asarray(values ^ (values >> SHIFT))

    columns, step = np.ascontiguousarray(words.T), POOL
    pool = hashed(columns[:POOL], IN[: POOL + 1])
    for source, others in enumerate(OTHERS):
        pool[others] = mixed(pool[others], hashed(pool[source], IN[step : step + POOL]))
        step += POOL - 1
    for column in columns[POOL:]:
        pool = mixed(pool, hashed(column, IN[step : step + POOL + 1]))
        step += POOL
    state = hashed(pool[np.arange(STATE) % POOL], OUT)
    return np.ascontiguousarray(state.T, "<u4").view("<u8").astype(np.uint64)
