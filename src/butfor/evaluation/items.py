"""The inputs of a run: rows of a table (`TableItems`), or images, texts, inputs of several parts (`ListItems`).

All that differs between them is here, in the same methods. Below `drawn` are new versions of each input, an array
(n, draws, columns) or n lists; `values` are versions of inputs, input-major, an array (n * versions, columns) or
a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from hashlib import blake2b
from math import isfinite
from typing import Any, Protocol

import numpy as np

from butfor.evaluation.samplers import ListsSupport, Sampler, info_of
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, Item, ModelError, Subset


def size(item: Item) -> int:
    """Return the number of values of an image, of characters of a text, of both of an input with several parts.

    >>> size({"image": np.zeros((2, 2)), "caption": "so"})
    6
    """
    if isinstance(item, str):
        return len(item)
    if isinstance(item, list | Mapping):
        return sum(map(size, item.values() if isinstance(item, Mapping) else item))
    return int(np.size(item))


def digest(item: Item) -> bytes:
    """Return a few bytes that are equal for equal texts, images, and mappings of them.

    >>> digest({"a": "x", "b": np.ones(2)}) == digest({"b": np.ones(2), "a": "x"}) != digest({"a": "x"})
    True
    """
    if isinstance(item, str):
        content = item.encode("utf-8", "surrogatepass")
    elif isinstance(item, Mapping):
        content = b"".join(digest(part) for pair in sorted(item.items()) for part in pair)
    else:
        array = np.asarray(item)
        content = f"{array.dtype} {array.shape}".encode() + array.tobytes()
    return blake2b(content, digest_size=16).digest()


def same(one: Item, two: Item) -> bool:
    """Return whether two rows, images, texts or mappings of them are equal.

    >>> same({"image": np.ones(2), "caption": "so"}, {"image": np.ones(2), "caption": "so"})
    True
    """
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two, equal_nan=one.dtype.kind == "f")
    if isinstance(one, Mapping):
        return all(map(same, one.values(), (two[key] for key in one)))
    return bool(one == two)


def difference(one: Item, two: Item) -> float:
    """Return the distance of two inputs: characters but for a common start and end, mean difference of pixels.

    >>> difference("a fine film", "a poor film"), difference(np.zeros(4), np.ones(4))
    (4.0, 1.0)
    """
    if isinstance(one, str):
        start = _common_start(one, two)
        return float(max(len(one), len(two)) - start - _common_start(one[start:][::-1], two[start:][::-1]))
    if isinstance(one, Mapping):
        return sum(map(difference, one.values(), (two[key] for key in one)))
    if isinstance(one, np.ndarray) and one.shape == two.shape and one.dtype.kind in "fiub":
        return float(np.abs(one.astype(np.float64) - two).mean())
    return float(not same(one, two))


def _common_start(one: str, two: str) -> int:
    return next((k for k, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


def content_digest(value: object) -> bytes:
    """Return a few bytes that are equal for equal dataclasses, functions (by name), arrays and collections of them.

    >>> content_digest((np.ones(2), len)) == content_digest((np.ones(2), len)) != content_digest((np.ones(2), max))
    True
    """
    return blake2b(b"".join(_content(value)), digest_size=16).digest()


def _content(value: object) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} ".encode()
        yield value.tobytes()
    elif isinstance(value, list | tuple):
        yield f"{len(value)} of ".encode()
        for member in value:
            yield from _content(member)
    elif isinstance(value, partial):
        yield from _content((value.func, value.args, sorted(value.keywords.items())))
    elif is_dataclass(value) and not isinstance(value, type):
        yield f"{type(value).__name__} ".encode()
        yield from _content(list(vars(value).values()))
    else:
        name = getattr(value, "__name__", type(value).__name__) if callable(value) else repr(value)
        yield f"{name} ".encode()


@dataclass(frozen=True, eq=False)
class TableItems:
    """Rows of one matrix; `show` gives them the user's types, names and labels."""

    values: Array  # (n, columns)
    show: Callable[[Array, Ints | None], Batch] | None = None  # rows, and the inputs they come from
    spans: Floats | None = None  # (columns,) by which differences are divided; 0: a category; None: 1 each

    shares_subsets = True  # every input has the same subsets
    costly = False  # whether a draw costs so much that a sampler without chance is refused at once

    def __len__(self) -> int:
        return len(self.values)

    def block(self, start: int, stop: int) -> Batch:
        return self.values[start:stop]

    def take(self, batch: Array, positions: Ints) -> Batch:
        return batch.take(positions, axis=0)

    def given(self, positions: Ints) -> Batch:
        """Inputs as the model gets them, as a copy: it may write into what it is given."""
        return self.to_model_input(self.values[positions], lambda: positions)

    def to_model_input(self, rows: Array, sources: Callable[[], Ints]) -> Batch:
        """Rows as the model gets them; `sources` gives the input that each comes from."""
        return rows if self.show is None else self.show(rows, sources())

    def shown(self, rows: Batch) -> Batch:
        """Rows as the user would write them."""
        return rows if self.show is None else self.show(rows, None)

    def draw(self, sampler: Any, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        values = np.asarray(sampler.values(inputs, subset, draws, rng))
        _check_count(len(values) if values.ndim else 0, len(inputs), draws, subset)
        if values.size != len(values) * len(subset.index) or values.dtype.kind not in "fiub":
            raise ModelError(
                f"the sampler returned {values.dtype} values of shape {values.shape} for subset {subset.name!r}; "
                f"expected numbers, {len(subset.index)} a row"
            )
        if not isfinite(np.add.reduce(values, axis=None)) and _has_bad(values, info_of(sampler).takes_missing):
            raise ModelError(
                f"the sampler drew NaN or infinity for subset {subset.name!r}; check what it was fitted on"
            )
        return values.reshape(len(inputs), draws, len(subset.index)).astype(inputs.dtype, copy=False)

    def support(self, sampler: ListsSupport, inputs: Batch, subset: Subset, name: str) -> tuple[Batch, Floats]:
        values, mass = map(np.asarray, sampler.support(inputs, subset))
        width = len(subset.index)
        if values.ndim != 3 or values.shape[::2] != (len(inputs), width) or mass.shape != values.shape[:2]:
            raise InputError(
                f"the {name} has shapes {values.shape} and {mass.shape}; expected values ({len(inputs)}, m, {width}) "
                f"and probabilities ({len(inputs)}, m)"
            )
        if values.dtype.kind not in "fiub" or _has_bad(values, info_of(sampler).takes_missing):
            raise InputError(f"the {name} lists values that are not finite numbers; list numbers only")
        return values, mass

    def part(self, inputs: Array, subset: Subset) -> Batch:
        """The observed value of the subset in each input."""
        return np.asarray(inputs[:, subset.index])

    def select_draws(self, drawn: Array, keep: Ints | None, first: int, last: int) -> Batch:
        """Draws `first` to `last` of the inputs to keep."""
        return np.asarray(drawn[:, first:last] if keep is None else drawn[keep, first:last])

    def splice(self, inputs: Array, subset: Subset, drawn: Array) -> Batch:
        """Values: the observed one and then the draws of each input."""
        count, draws, width = drawn.shape
        values = np.empty((count, draws + 1, width), inputs.dtype)
        values[:, 0] = inputs.take(subset.index, axis=1)
        values[:, 1:] = drawn
        return values.reshape(count * (draws + 1), width)

    def whole(self, values: Batch, inputs: Batch, subset: Subset) -> Batch:
        """Complete inputs from values of the subset, as many for each input."""
        rows = np.repeat(inputs, len(values) // max(1, len(inputs)), axis=0)
        rows[:, subset.index] = values
        return rows

    def pack(self, values: Array, wanted: Ints, versions: int, subset: Subset) -> Batch:  # noqa: ARG002
        """Versions `wanted` (n, k) of each input, to be kept: only what differs from the input."""
        return np.asarray(values.reshape(len(wanted), versions, -1)[np.arange(len(wanted))[:, None], wanted])

    def unpack(self, pieces: Array, observed: Array, subset: Subset) -> Batch:  # noqa: ARG002
        """The values of one input that was packed."""
        return pieces

    def keys(self, values: Array) -> list[bytes]:
        """Keys that tell the versions of one hypothesis apart."""
        return [value.tobytes() for value in np.ascontiguousarray(values)]

    def size(self, start: int, subset: Subset) -> int:  # noqa: ARG002 - texts count by their input
        return len(subset.index)

    def likely(self, inputs: Array, drawn: Array, mass: Floats) -> Floats:  # noqa: ARG002 - rows have no such limit
        """The least p-value of each input, where a list of counterfactuals limits it."""
        return np.zeros(len(inputs))

    def distances(self, values: Array, wanted: Bools, subset: Subset) -> tuple[Floats, Ints]:
        """Gower's distances (n, draws) of draws from the observed value, inf where not wanted; and a number for each
        that is equal where the same columns rise and the same fall."""
        cells = values.reshape(len(wanted), -1, values.shape[1])
        spans = np.ones(values.shape[1]) if self.spans is None else self.spans[subset.index]
        change = cells[:, 1:] - cells[:, :1]
        gap = np.abs(change) / np.where(spans > 0, spans, 1.0)
        equal = (cells[:, 1:] == cells[:, :1]) | (np.isnan(cells[:, 1:]) & np.isnan(cells[:, :1]))
        ordered = (spans > 0) & np.isfinite(gap)
        gap = np.where(equal, 0.0, np.where(ordered, gap, 1.0))
        ways = np.where(equal, 0, np.where(ordered, np.where(change > 0, 1, 2), 3)).astype(np.int64)
        codes = ways @ 4 ** np.arange(ways.shape[2])  # wraps beyond 31 columns
        return np.where(wanted, gap.sum(axis=2), np.inf), codes


def _has_bad(values: Array, takes_missing: bool) -> bool:
    """Return whether there is infinity among them, or NaN where that does not stand for a missing value."""
    return bool(np.isinf(values).any() if takes_missing else not np.isfinite(values).all())


def _check_count(count: int, inputs: int, draws: int, subset: Subset) -> None:
    if count != inputs * draws:
        raise ModelError(
            f"the sampler returned {count} counterfactuals for subset {subset.name!r}, expected {inputs * draws} "
            f"({inputs} inputs x {draws} draws, input-major)"
        )


class Packing(Protocol):
    """Keeps a counterfactual beside its input: only what differs (`cut`), and that put back (`restore`)."""

    def cut(self, observed: Item, counterfactual: Item, subset: Subset) -> Any: ...
    def restore(self, observed: Item, piece: Any, subset: Subset) -> Item: ...


@dataclass(frozen=True, eq=False)
class ListItems:
    """Images, texts or inputs of several parts: any sequence that opens one when it is indexed; none is kept here."""

    inputs: Sequence[Any]
    check: Callable[[Any, Any, Subset], None] | None = None  # of each draw of a user's sampler: raises what is wrong
    costly: bool = False
    packing: Packing | None = None  # None: counterfactuals are kept as they are

    shares_subsets = False

    def __len__(self) -> int:
        return len(self.inputs)

    def block(self, start: int, stop: int) -> Batch:
        return list(self.inputs[start:stop])

    def take(self, batch: Sequence[Any], positions: Ints) -> Batch:
        return [batch[i] for i in positions]

    def given(self, positions: Ints) -> Batch:
        return self.to_model_input([self.inputs[i] for i in positions], lambda: positions)

    def to_model_input(self, rows: list[Any], sources: Callable[[], Ints]) -> Batch:  # noqa: ARG002
        # mappings as copies, since parts are shared between an input and its draws
        return [dict(row) if isinstance(row, Mapping) else row for row in rows]

    def shown(self, rows: Batch) -> Batch:
        return list(rows)

    def draw(self, sampler: Sampler, inputs: list[Any], subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        made = sampler(inputs, subset, draws, rng)
        _check_count(len(made), len(inputs), draws, subset)
        drawn = [list(made[i * draws : (i + 1) * draws]) for i in range(len(inputs))]
        if self.check is not None:
            for observed, counterfactuals in zip(inputs, drawn, strict=True):
                for counterfactual in counterfactuals:
                    self.check(observed, counterfactual, subset)
        return drawn

    def support(self, sampler: ListsSupport, inputs: Batch, subset: Subset, name: str) -> tuple[Batch, Floats]:
        listed, given = sampler.support(inputs, subset)
        items, mass = [list(row) for row in listed], np.asarray(given)
        counts = [len(row) for row in items]
        if len(items) != len(inputs) or mass.shape != (len(inputs), counts[0]) or set(counts) != {counts[0]}:
            raise InputError(
                f"the {name} lists {counts} counterfactuals with probabilities of shape {mass.shape}; expected m for "
                f"each of {len(inputs)} inputs and probabilities ({len(inputs)}, m)"
            )
        pairs = zip(inputs, items, strict=True)
        if any(isinstance(x, str) != isinstance(item, str) for x, row in pairs for item in row):
            raise InputError(f"the {name} lists items of another type than the input; list whole counterfactuals")
        return items, mass

    def part(self, inputs: list[Any], subset: Subset) -> Batch:  # noqa: ARG002 - only the modality knows where it is
        return inputs

    def select_draws(self, drawn: list[list[Any]], keep: Ints | None, first: int, last: int) -> Batch:
        return [drawn[i][first:last] for i in (range(len(drawn)) if keep is None else keep)]

    def splice(self, inputs: list[Any], subset: Subset, drawn: list[list[Any]]) -> Batch:  # noqa: ARG002
        return [item for observed, draws in zip(inputs, drawn, strict=True) for item in (observed, *draws)]

    def whole(self, values: Batch, inputs: Batch, subset: Subset) -> Batch:  # noqa: ARG002
        return list(values)

    def pack(self, values: list[Any], wanted: Ints, versions: int, subset: Subset) -> Batch:
        rows = ([(values[i * versions], values[i * versions + k]) for k in row] for i, row in enumerate(wanted))
        if self.packing is None:
            return [[counterfactual for _, counterfactual in row] for row in rows]
        return [[self.packing.cut(*pair, subset) for pair in row] for row in rows]

    def unpack(self, pieces: list[Any], observed: Item, subset: Subset) -> Batch:
        if self.packing is None:
            return list(pieces)
        return [self.packing.restore(observed, piece, subset) for piece in pieces]

    def keys(self, values: list[Any]) -> list[bytes]:
        return list(map(digest, values))

    def size(self, start: int, subset: Subset) -> int:  # noqa: ARG002 - rows of a table count by the subset
        return size(self.inputs[start]) // 2**8  # values of an image are bytes in few, large pieces

    def likely(self, inputs: list[Any], drawn: list[list[Any]], mass: Floats) -> Floats:
        # the mass of the observed text and of all that is not listed: no p-value is below it
        pairs = zip(inputs, drawn, strict=True)
        observed = np.array([[isinstance(one, str) and one == item for item in row] for one, row in pairs])
        return np.asarray((mass * observed).sum(axis=1) + np.maximum(1 - mass.sum(axis=1), 0))

    def distances(self, values: list[Any], wanted: Bools, subset: Subset) -> tuple[Floats, Ints]:  # noqa: ARG002
        versions, distance = wanted.shape[1] + 1, np.full(wanted.shape, np.inf)
        for i, k in np.argwhere(wanted).tolist():
            distance[i, k] = difference(values[i * versions], values[i * versions + k + 1])
        return distance, np.zeros(wanted.shape, np.int64)


Items = TableItems | ListItems


@dataclass(frozen=True, eq=False)
class StandIns(Sequence[Any]):
    """Images or texts, with a good one in the place of each bad one."""

    inputs: Sequence[Any]
    bad: frozenset[int]
    good: int

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.inputs[self.good if index in self.bad else index]
