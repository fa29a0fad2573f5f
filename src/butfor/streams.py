"""Seed -> one random stream per (subset, block, round), the same wherever and whenever it is opened."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

Key = tuple[str | int, ...]
Words = NDArray[np.uint32]
States = NDArray[np.uint64]
WORDS = 8  # of 32 bits in a digest


def stream(seed: int, *key: str | int) -> np.random.Generator:
    """The generator that belongs to `key`: never a position in a queue, so order and workers do not matter.

    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 0).random())
    True
    >>> bool(stream(0, "age", 3, 0).random() == stream(0, "age", 3, 1).random())
    False
    """
    words = np.frombuffer(_digest(seed, key), dtype="<u4").tolist()
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(words)))


def streams(seed: int, keys: Sequence[Key]) -> list[np.random.Generator]:
    """The generators of many keys, each the same as `stream` opens; opening them together takes a third of the time.

    >>> one, other = streams(0, [("age", 3, 0), ("age", 3, 1)])
    >>> bool(other.random() == stream(0, "age", 3, 1).random())
    True
    """
    if len(keys) < LEAST_TOGETHER:
        return [stream(seed, *key) for key in keys]
    digests = b"".join(_digest(seed, key) for key in keys)
    words = np.frombuffer(digests, dtype="<u4").astype(np.uint32).reshape(len(keys), WORDS)
    pairs = zip(words, _states(words), strict=True)
    return [Generator(SFC64(_Mixed(own, state))) for own, state in pairs]  # type: ignore[arg-type]  # an ISeedSequence


LEAST_TOGETHER = 6  # keys for which mixing them together is not slower


def _digest(seed: int, key: Key) -> bytes:
    return hashlib.blake2b(repr((int(seed), *key)).encode("utf-8", "surrogatepass"), digest_size=4 * WORDS).digest()


class _Mixed(ISpawnableSeedSequence):
    """A seed sequence whose first state is known already; whatever else is asked of it, NumPy's own answers."""

    def __init__(self, words: Words, state: States) -> None:
        self._words, self._state = words, state
        self._own: np.random.SeedSequence | None = None

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint32 | np.uint64]:
        if n_words == len(self._state) and np.dtype(dtype) == np.uint64:
            return self._state
        return self._sequence().generate_state(n_words, dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._sequence().spawn(n_children)

    def _sequence(self) -> np.random.SeedSequence:
        if self._own is None:
            self._own = np.random.SeedSequence(self._words)
        return self._own


POOL, STATE = 4, 6  # words of a SeedSequence's pool, and of the state of SFC64


def _constants(first: int, factor: int, count: int) -> Words:
    """The multipliers of a hash, one after the other, (count + 1, 1)."""
    values = [first]
    for _ in range(count):
        values.append(values[-1] * factor % 2**32)
    return np.array(values, np.uint32)[:, None]


IN = _constants(0x43B0D7E5, 0x931E8875, POOL + POOL * (POOL - 1) + POOL * (WORDS - POOL))
OUT = _constants(0x8B51F9DD, 0x58F38DED, STATE)
LEFT, RIGHT, SHIFT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)
OTHERS = [np.array([i for i in range(POOL) if i != source]) for source in range(POOL)]


def _states(words: Words) -> States:
    """What SeedSequence(words).generate_state(3, uint64) gives, (keys, 3): O'Neill's seed_seq, all keys at once.

    NumPy promises that SeedSequence stays as it is (NEP 19), and a test compares the two.
    """
    own, step = np.ascontiguousarray(words.T), POOL
    pool = _hashed(own[:POOL], IN[: POOL + 1])
    for source, others in enumerate(OTHERS):
        pool[others] = _mixed(pool[others], _hashed(pool[source], IN[step : step + POOL]))
        step += POOL - 1
    for source in range(POOL, WORDS):
        pool = _mixed(pool, _hashed(own[source], IN[step : step + POOL + 1]))
        step += POOL
    state = _hashed(pool[np.arange(STATE) % POOL], OUT)
    return np.ascontiguousarray(state.T, "<u4").view("<u8").astype(np.uint64)


def _hashed(values: Words, constants: Words) -> Words:
    """Each of some words (n, keys), or one and the same (keys,), hashed by the constant of its turn (n + 1, 1)."""
    found = (values ^ constants[:-1]) * constants[1:]
    return np.asarray(found ^ (found >> SHIFT))


def _mixed(one: Words, other: Words) -> Words:
    found = LEFT * one - RIGHT * other
    return np.asarray(found ^ (found >> SHIFT))
