"""Seed -> one random stream per (subset, block, round), the same wherever and whenever it is opened."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
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
    states = _states(words)
    return [_opened(*both) for both in zip(words, states, strict=True)]


def _opened(words: Words, state: States) -> np.random.Generator:
    seed = cast("np.random.SeedSequence", _Mixed(words, state))  # any ISeedSequence is taken, the stubs do not say so
    return np.random.Generator(np.random.SFC64(seed))


LEAST_TOGETHER = 16  # keys for which mixing them together is not slower


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


def _constants(first: int, factor: int, count: int) -> list[np.uint32]:
    values = [first]
    for _ in range(count):
        values.append(values[-1] * factor % 2**32)
    return [np.uint32(value) for value in values]


IN = _constants(0x43B0D7E5, 0x931E8875, POOL + POOL * (POOL - 1) + POOL * (WORDS - POOL))
OUT = _constants(0x8B51F9DD, 0x58F38DED, STATE)
LEFT, RIGHT, SHIFT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), np.uint32(16)


def _states(words: Words) -> States:
    """What SeedSequence(words).generate_state(3, uint64) gives, (keys, 3): O'Neill's seed_seq, all keys at once.

    NumPy promises that SeedSequence stays as it is (NEP 19), and a test compares the two.
    """
    step = 0

    def hashed(value: Words) -> Words:
        nonlocal step
        value = (value ^ IN[step]) * IN[step + 1]
        step += 1
        return np.asarray(value ^ (value >> SHIFT))

    def mixed(one: Words, other: Words) -> Words:
        value = LEFT * one - RIGHT * other
        return np.asarray(value ^ (value >> SHIFT))

    own = np.ascontiguousarray(words.T)
    pool = [hashed(own[i]) for i in range(POOL)]
    for source in range(POOL):
        for i in (i for i in range(POOL) if i != source):
            pool[i] = mixed(pool[i], hashed(pool[source]))
    for source in range(POOL, WORDS):
        for i in range(POOL):
            pool[i] = mixed(pool[i], hashed(own[source]))
    state = np.empty((len(words), STATE), "<u4")
    for i in range(STATE):
        value = (pool[i % POOL] ^ OUT[i]) * OUT[i + 1]
        state[:, i] = value ^ (value >> SHIFT)
    return state.view("<u8").astype(np.uint64)
