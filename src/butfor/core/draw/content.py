"""What single inputs hold, whatever they are: how large, which, and whether two are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial, singledispatch
from hashlib import blake2b
from typing import Any

import numpy as np

from butfor.core.types import Array, Item


@singledispatch
def size(item: Item) -> int:
    """Values of an image, characters of a text, both of an input that has several parts.

    >>> size({"image": np.zeros((2, 2)), "caption": "so"})
    6
    """
    return int(np.size(item))


size.register(str, len)
size.register(list, lambda item: sum(map(size, item)))
size.register(Mapping, lambda item: sum(map(size, item.values())))


@singledispatch
def digest(item: Item) -> bytes:
    """A few bytes that are equal for equal texts, images, and mappings of them.

    >>> digest({"a": "x", "b": np.ones(2)}) == digest({"b": np.ones(2), "a": "x"}) != digest({"a": "x"})
    True
    """
    array = np.asarray(item)
    return _short(f"{array.dtype} {array.shape}".encode() + array.tobytes())


@digest.register
def _(item: str) -> bytes:
    return _short(item.encode("utf-8", "surrogatepass"))


@digest.register(Mapping)
def _(item: Mapping[str, Any]) -> bytes:
    return _short(b"".join(digest(part) for pair in sorted(item.items()) for part in pair))


def _short(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


@singledispatch
def same(one: Item, two: Item) -> bool:
    """Whether two rows, images, texts or mappings of them are equal.

    >>> same({"image": np.ones(2), "caption": "so"}, {"image": np.ones(2), "caption": "so"})
    True
    """
    return bool(one == two)


@same.register(np.ndarray)
def _(one: Array, two: Array) -> bool:
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")


@same.register(Mapping)
def _(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    return all(map(same, one.values(), (two[key] for key in one)))


@singledispatch
def difference(one: Item, two: Item) -> float:
    """How far two inputs lie apart: characters of a text but for a common start and end, mean difference of pixels.

    >>> difference("a fine film", "a poor film"), difference(np.zeros(4), np.ones(4))
    (4.0, 1.0)
    """
    return float(not same(one, two))


@difference.register
def _(one: str, two: str) -> float:
    start = _alike(one, two)
    return float(max(len(one), len(two)) - start - _alike(one[start:][::-1], two[start:][::-1]))


def _alike(one: str, two: str) -> int:
    """Characters that both start with."""
    return next((k for k, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


@difference.register(np.ndarray)
def _(one: Array, two: Array) -> float:
    if one.shape != two.shape or one.dtype.kind not in "fiub":
        return float(not same(one, two))
    return float(np.abs(one.astype(np.float64) - two).mean())


@difference.register(Mapping)
def _(one: Mapping[str, Any], two: Mapping[str, Any]) -> float:
    return sum(map(difference, one.values(), (two[key] for key in one)))


def content_digest(thing: object) -> bytes:
    """A few bytes that are equal for equal data classes, functions (by name), arrays and collections of them.

    >>> content_digest((np.ones(2), len)) == content_digest((np.ones(2), len)) != content_digest((np.ones(2), max))
    True
    """
    parts: list[bytes] = []
    _add_content(thing, parts.append)
    return blake2b(b"".join(parts), digest_size=16).digest()


@singledispatch
def _add_content(thing: object, add: Callable[[bytes], None]) -> None:
    if is_dataclass(thing) and not isinstance(thing, type):
        add(f"{type(thing).__name__} ".encode())
        _add_content(list(vars(thing).values()), add)
    else:
        add(f"{getattr(thing, '__name__', type(thing).__name__) if callable(thing) else repr(thing)} ".encode())


@_add_content.register
def _(thing: np.ndarray, add: Callable[[bytes], None]) -> None:
    add(f"{thing.dtype} {thing.shape} ".encode())
    add(thing.tobytes())


@_add_content.register(tuple)
@_add_content.register(list)
def _(thing: Sequence[object], add: Callable[[bytes], None]) -> None:
    add(f"{len(thing)} of ".encode())
    for one in thing:
        _add_content(one, add)


@_add_content.register(partial)
def _(thing: partial[object], add: Callable[[bytes], None]) -> None:
    _add_content((thing.func, thing.args, sorted(thing.keywords.items())), add)
