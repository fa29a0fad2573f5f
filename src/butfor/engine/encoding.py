"""Numbers, texts, arrays and collections of them <-> bytes: what a journal keeps, without pickle."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from butfor.core.draw.listing import Support
from butfor.core.evaluate.workplace import UnitResult
from butfor.core.types import Array

Plain = Any  # what JSON can hold
Buffer = Any  # bytes, or an array that lies in one piece
PLAIN = (bool, int, float)
SIMPLE = {bool, int, float, type(None)}
FEW = 4  # members of a collection from which on it pays to look whether they are alike
MANY = 4096  # integers from which on it pays to look how large they are


def encode(value: object) -> bytes:
    """A header in JSON, its length in front, and then the bytes of all arrays.

    >>> decode(encode({"a": (1, np.arange(3)), "b": [b"x", None, "y"]}))
    {'a': (1, array([0, 1, 2])), 'b': [b'x', None, 'y']}
    """
    parts: list[Buffer] = []
    header = json.dumps(_plain(value, parts)).encode()
    return b"".join([len(header).to_bytes(8, "little"), header, *parts])


def _plain(value: object, parts: list[Buffer]) -> Plain:
    if isinstance(value, np.ndarray):  # most of all
        return _array(value, parts)
    if value is None or isinstance(value, PLAIN):
        return value
    if isinstance(value, str):
        return {"s": value.encode("utf-8", "surrogatepass").hex()}
    if isinstance(value, np.generic):
        return {"g": _plain(np.asarray(value), parts)}
    if isinstance(value, bytes):
        parts.append(value)
        return {"b": len(value)}
    if isinstance(value, dict):
        return {"d": [[_plain(key, parts), _plain(one, parts)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        return {"l" if isinstance(value, list) else "t": _members(value, parts)}
    raise TypeError(f"a journal cannot keep {type(value).__name__}")


def _members(values: Sequence[Any], parts: list[Buffer]) -> Plain:
    """Members of a collection; many that are alike are put together, which takes one header for all of them."""
    kinds = set(map(type, values)) if len(values) >= FEW else set()
    if kinds and kinds <= SIMPLE:
        return list(values)
    if kinds == {np.ndarray} and len({one.dtype for one in values}) == 1:
        shapes = [one.shape for one in values]
        wide = values[0].ndim > 2 and shapes[0][-1] > 1
        return {"c": [shapes, _array(np.concatenate([one.ravel() for one in values]), parts, wide)]}
    if kinds in ({tuple}, {list}):
        lengths = list(map(len, values))
        if kinds == {tuple} and lengths[0] and len(set(lengths)) == 1:
            return {"z": [_members(column, parts) for column in zip(*values, strict=True)]}
        every = [one for own in values for one in own]
        return {"n": ["t" if kinds == {tuple} else "l", lengths, _members(every, parts)]}
    return [_plain(one, parts) for one in values]


def _array(value: Array, parts: list[Buffer], wide: bool = False) -> Plain:
    if value.dtype == bool:
        parts.append(np.packbits(value).tobytes())
        return {"f": value.shape}
    small = _smaller(value, wide or (value.ndim > 2 and value.shape[-1] > 1))
    plain = small.dtype.kind in "fiu" and small.flags.c_contiguous
    parts.append(small if plain else np.ascontiguousarray(small).tobytes())
    return {"a": (small.dtype.str, value.dtype.str, value.shape)}


def _smaller(value: Array, wide: bool) -> Array:
    """float64 that came from float32 as float32 (networks with several outputs), small integers as bytes: the same
    numbers in less room."""
    if value.dtype == np.int64 and value.size >= MANY and value.min() >= -128 and value.max() < 128:
        return value.astype(np.int8)
    if value.dtype != np.float64 or not wide:
        return value
    single = value.astype(np.float32)
    return single if np.array_equal(single, value) else value


def decode(content: bytes) -> Any:
    """What was encoded; its checksum must have been looked at before."""
    length = int.from_bytes(content[:8], "little")
    place = [8 + length]
    return _back(json.loads(content[8 : 8 + length]), memoryview(content), place)


def _back(plain: Plain, content: memoryview, place: list[int]) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((kind, given),) = plain.items()
    if kind == "s":
        return bytes.fromhex(given).decode("utf-8", "surrogatepass")
    if kind == "g":
        return _back(given, content, place)[()]
    if kind == "a":
        stored, wanted, shape = np.dtype(given[0]), np.dtype(given[1]), given[2]
        size = stored.itemsize * int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(_taken(content, place, size), stored).reshape(shape)
        return array.astype(wanted)
    if kind == "f":  # flags, eight to a byte
        count = int(np.prod(given, dtype=np.int64))
        bits = np.frombuffer(_taken(content, place, -(-count // 8)), np.uint8)
        return np.unpackbits(bits, count=count).astype(bool).reshape(given)
    if kind == "b":
        return bytes(_taken(content, place, given))
    if kind == "d":
        return {_back(key, content, place): _back(one, content, place) for key, one in given}
    found = _members_back(given, content, place)
    return found if kind == "l" else tuple(found)


def _members_back(plain: Plain, content: memoryview, place: list[int]) -> list[Any]:
    if isinstance(plain, list):
        return [_back(one, content, place) for one in plain]
    ((kind, given),) = plain.items()
    if kind == "c":
        shapes, header = given
        ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in shapes])
        split = np.split(_back(header, content, place), ends[:-1])
        return [one.reshape(shape) for one, shape in zip(split, shapes, strict=True)]
    if kind == "n":
        kind, lengths, every = given
        members = iter(_members_back(every, content, place))
        made = (list(islice(members, length)) for length in lengths)
        return list(made) if kind == "l" else [tuple(one) for one in made]
    return list(zip(*[_members_back(column, content, place) for column in given], strict=True))


def _taken(content: memoryview, place: list[int], size: int) -> memoryview:
    place[0] += size
    return content[place[0] - size : place[0]]


def encode_results(results: Sequence[UnitResult]) -> bytes:
    """Results of units; of jobs of which nothing was found or listed nothing is written."""
    return encode([_fields(result) for result in results])


def _fields(result: UnitResult) -> tuple[Any, ...]:
    width = len(result.found[0]) if result.found else 0
    places = list(dict.fromkeys(place for place, own in enumerate(result.found) for one in own if one is not None))
    found = [result.found[place] for place in places]
    supports = {i: (one.mass, one.beside, one.least) for i, one in enumerate(result.supports) if one is not None}
    rest = (result.rows, result.news, result.chance, result.failed, result.summary, result.sample)
    return (len(result.found), width, result.outputs, places, found, supports, *rest)


def decode_results(content: bytes) -> list[UnitResult]:
    """The same, back."""
    return [_result(*fields) for fields in decode(content)]


def _result(
    jobs: int, width: int, outputs: Any, places: list[int], found: list[Any], supports: dict[int, Any], *rest: Any
) -> UnitResult:
    known = dict(zip(places, found, strict=True))
    every = tuple(known.get(place, (None,) * width) for place in range(jobs))
    listed = tuple(Support(*supports[place]) if place in supports else None for place in range(jobs))
    return UnitResult(outputs, every, listed, *rest)
