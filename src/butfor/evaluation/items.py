"""The inputs of a run. All that differs between rows of a table and a list of images or texts is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import partial, singledispatch
from hashlib import blake2b
from math import isfinite
from typing import Any, Protocol

import numpy as np

from butfor.evaluation.samplers import ListsSupport, Sampler, info_of
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, Item, ModelError, Subset


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


Show = Callable[[Array, Ints | None], Batch]  # rows of a matrix, the inputs they come from -> as the user writes them
CheckDraw = Callable[[Any, Any, Subset], None]  # input, counterfactual, subset: raises what is wrong with it
Draws = Any  # per input its new versions: an array (n, draws, columns), or n lists of whole images or texts
Values = Any  # versions of some inputs, input-major: an array (n * versions, columns), or a list of whole inputs
Piece = Any  # what a modality keeps of one counterfactual


class Items(Protocol):
    """What the core asks of the inputs of a run."""

    @property
    def shares_subsets(self) -> bool: ...  # whether every input has the same subsets
    @property
    def costly(self) -> bool: ...  # whether a draw costs so much that a sampler without chance is refused at once

    def __len__(self) -> int: ...
    def block(self, start: int, stop: int) -> Batch: ...
    def take(self, batch: Batch, positions: Ints) -> Batch: ...
    def given(self, positions: Ints) -> Batch: ...
    def to_model_input(self, rows: Batch, sources: Callable[[], Ints]) -> Batch: ...
    def draw(self, sampler: Sampler, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Draws: ...
    def part(self, inputs: Batch, subset: Subset) -> Batch: ...
    def some(self, drawn: Draws, keep: Ints | None, first: int, last: int) -> Draws: ...
    def splice(self, inputs: Batch, subset: Subset, drawn: Draws) -> Values: ...
    def whole(self, values: Values, inputs: Batch, subset: Subset) -> Batch: ...
    def shown(self, rows: Batch) -> Batch: ...
    def pack(self, values: Values, wanted: Ints, versions: int, subset: Subset) -> Values: ...
    def unpack(self, pieces: Values, observed: Item, subset: Subset) -> Values: ...
    def keys(self, values: Values) -> list[bytes]: ...
    def size(self, start: int, subset: Subset) -> int: ...
    def support(self, sampler: ListsSupport, inputs: Batch, subset: Subset, name: str) -> tuple[Draws, Floats]: ...
    def likely(self, inputs: Batch, drawn: Draws, mass: Floats) -> Floats: ...
    def distances(self, values: Values, wanted: Bools, subset: Subset) -> Floats: ...


@dataclass(frozen=True, eq=False)
class TableItems:
    """Rows of one matrix; `show` gives them the user's types, names and labels, where they have some."""

    values: Array  # (n, columns)
    show: Show | None = None
    spans: Floats | None = None  # (columns,) by which differences are divided; 0: a category; None: 1 each

    shares_subsets = True
    costly = False

    def __len__(self) -> int:
        return len(self.values)

    def block(self, start: int, stop: int) -> Array:
        """Consecutive inputs."""
        return self.values[start:stop]

    def take(self, batch: Array, positions: Ints) -> Array:
        """Some rows of a matrix."""
        return batch.take(positions, axis=0)

    def given(self, positions: Ints) -> Batch:
        """A copy of some inputs as the model gets them: it may write into what it is given."""
        return self.to_model_input(self.values[positions], lambda: positions)

    def to_model_input(self, rows: Array, sources: Callable[[], Ints]) -> Batch:
        """Rows as the model gets them; `sources` tells the input that each comes from."""
        return rows if self.show is None else self.show(rows, sources())

    def draw(self, sampler: Any, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Floats:
        """New values of the subset's columns, (n, draws, columns)."""
        values = np.asarray(sampler.values(inputs, subset, draws, rng))
        check_count(len(values) if values.ndim else 0, len(inputs), draws, subset)
        if values.size != len(values) * len(subset.index) or values.dtype.kind not in "fiub":
            raise ModelError(
                f"the sampler returned {values.dtype} values of shape {values.shape} for subset {subset.name!r}; "
                f"expected numbers, {len(subset.index)} a row"
            )
        if not isfinite(np.add.reduce(values, axis=None)) and _not_allowed(values, info_of(sampler).takes_missing):
            raise ModelError(
                f"the sampler drew NaN or infinity for subset {subset.name!r}; check what it was fitted on"
            )
        return values.reshape(len(inputs), draws, len(subset.index)).astype(inputs.dtype, copy=False)

    def part(self, inputs: Array, subset: Subset) -> Array:
        """What is observed in the subset, one for each input."""
        return np.asarray(inputs[:, subset.index])

    def some(self, drawn: Array, keep: Ints | None, first: int, last: int) -> Array:
        """Draws `first` to `last` of the inputs to keep."""
        return np.asarray(drawn[:, first:last] if keep is None else drawn[keep, first:last])

    def splice(self, inputs: Array, subset: Subset, drawn: Array) -> Array:
        """Per input the observed values and then the drawn ones, (n * versions, columns)."""
        count, draws, width = drawn.shape
        values = np.empty((count, draws + 1, width), inputs.dtype)
        values[:, 0] = inputs.take(subset.index, axis=1)
        values[:, 1:] = drawn
        return values.reshape(count * (draws + 1), width)

    def shown(self, rows: Array) -> Batch:
        """Rows as the user would write them."""
        return rows if self.show is None else self.show(rows, None)

    def whole(self, values: Array, inputs: Array, subset: Subset) -> Array:
        """Whole rows from new values of the subset, as many for each input."""
        rows = np.repeat(inputs, len(values) // max(1, len(inputs)), axis=0)
        rows[:, subset.index] = values
        return rows

    def pack(self, values: Array, wanted: Ints, versions: int, subset: Subset) -> Array:  # noqa: ARG002
        """Versions `wanted` (n, k) of each input, to be kept: only what differs, (n, k, columns)."""
        return np.asarray(values.reshape(len(wanted), versions, -1)[np.arange(len(wanted))[:, None], wanted])

    def unpack(self, pieces: Array, observed: Array, subset: Subset) -> Array:  # noqa: ARG002
        """New values of the subset, as they were kept."""
        return pieces

    def keys(self, values: Array) -> list[bytes]:
        """What tells the versions of one hypothesis apart."""
        return [value.tobytes() for value in np.ascontiguousarray(values)]

    def size(self, start: int, subset: Subset) -> int:  # noqa: ARG002 - texts count by their input
        """Values that one version takes."""
        return len(subset.index)

    def support(self, sampler: ListsSupport, inputs: Array, subset: Subset, name: str) -> tuple[Array, Floats]:
        """All values (n, m, columns) that may be drawn, and their probabilities (n, m)."""
        listed, given = sampler.support(inputs, subset)
        values, mass = np.asarray(listed), np.asarray(given)
        width = len(subset.index)
        if values.ndim != 3 or values.shape[::2] != (len(inputs), width) or mass.shape != values.shape[:2]:
            raise InputError(
                f"the {name} has shapes {values.shape} and {mass.shape}; expected values ({len(inputs)}, m, {width}) "
                f"and probabilities ({len(inputs)}, m)"
            )
        if values.dtype.kind not in "fiub" or _not_allowed(values, info_of(sampler).takes_missing):
            raise InputError(f"the {name} lists values that are not finite numbers; list numbers only")
        return values, mass

    def likely(self, inputs: Array, drawn: Array, mass: Floats) -> Floats:  # noqa: ARG002 - rows have no such limit
        """The least p-value of each input where that is a limit of the listing: rows of a table have none."""
        return np.zeros(len(inputs))

    def distances(self, values: Array, wanted: Bools, subset: Subset) -> Floats:
        """How far draws lie from what is observed: Gower's distance, summed over columns; inf where not wanted."""
        cells = values.reshape(len(wanted), -1, values.shape[1])
        spans = np.ones(values.shape[1]) if self.spans is None else self.spans[subset.index]
        gap = np.abs(cells[:, 1:] - cells[:, :1]) / np.where(spans > 0, spans, 1.0)
        equal = (cells[:, 1:] == cells[:, :1]) | (np.isnan(cells[:, 1:]) & np.isnan(cells[:, :1]))
        gap = np.where(equal, 0.0, np.where((spans > 0) & np.isfinite(gap), gap, 1.0))
        return np.where(wanted, gap.sum(axis=2), np.inf)


def _not_allowed(values: Array, missing: bool) -> bool:
    """Whether there is infinity among them, or NaN where that does not stand for a missing value."""
    return bool(np.isinf(values).any() if missing else not np.isfinite(values).all())


def check_count(got: int, inputs: int, draws: int, subset: Subset) -> None:
    """Refuse another number of counterfactuals than was asked for."""
    if got != inputs * draws:
        raise ModelError(
            f"the sampler returned {got} counterfactuals for subset {subset.name!r}, expected {inputs * draws} "
            f"({inputs} inputs x {draws} draws, input-major)"
        )


class Packing(Protocol):
    """How a modality keeps a counterfactual beside its input: only what differs, and that put back."""

    def cut(self, observed: Item, counterfactual: Item, subset: Subset) -> Piece: ...
    def restore(self, observed: Item, piece: Piece, subset: Subset) -> Item: ...


class Whole:
    """Kept as they are."""

    def cut(self, observed: Item, counterfactual: Item, subset: Subset) -> Piece:  # noqa: ARG002
        return counterfactual

    def restore(self, observed: Item, piece: Piece, subset: Subset) -> Item:  # noqa: ARG002
        return piece


@dataclass(frozen=True, eq=False)
class ListItems:
    """Images, texts or inputs of several parts; any sequence that opens one when it is asked for: none is held here."""

    inputs: Sequence[Any]
    check: CheckDraw | None = None  # of each draw, where a user's own sampler makes them
    costly: bool = False
    packing: Packing = field(default_factory=Whole)

    shares_subsets = False

    def __len__(self) -> int:
        return len(self.inputs)

    def block(self, start: int, stop: int) -> list[Any]:
        """Consecutive inputs."""
        return list(self.inputs[start:stop])

    def take(self, batch: Sequence[Any], positions: Ints) -> list[Any]:
        """Some of a list."""
        return [batch[i] for i in positions]

    def given(self, positions: Ints) -> list[Any]:
        """Some inputs, as the model gets them."""
        return self.to_model_input([self.inputs[i] for i in positions], lambda: positions)

    def to_model_input(self, rows: list[Any], sources: Callable[[], Ints]) -> list[Any]:  # noqa: ARG002
        """As they are; mappings of parts as copies, since parts are shared between an input and its draws."""
        return [dict(row) if isinstance(row, Mapping) else row for row in rows]

    def draw(
        self, sampler: Sampler, inputs: list[Any], subset: Subset, draws: int, rng: np.random.Generator
    ) -> list[list[Any]]:
        """Whole counterfactuals, a list for each input."""
        made = sampler(inputs, subset, draws, rng)
        check_count(len(made), len(inputs), draws, subset)
        drawn = [list(made[i * draws : (i + 1) * draws]) for i in range(len(inputs))]
        if self.check is not None:
            for observed, own in zip(inputs, drawn, strict=True):
                for counterfactual in own:
                    self.check(observed, counterfactual, subset)
        return drawn

    def part(self, inputs: list[Any], subset: Subset) -> list[Any]:  # noqa: ARG002 - columns are parts of rows only
        """The inputs themselves: only the modality knows where the subset is in them."""
        return inputs

    def some(self, drawn: list[list[Any]], keep: Ints | None, first: int, last: int) -> list[list[Any]]:
        """Draws `first` to `last` of the inputs to keep."""
        return [drawn[i][first:last] for i in (range(len(drawn)) if keep is None else keep)]

    def splice(self, inputs: list[Any], subset: Subset, drawn: list[list[Any]]) -> list[Any]:  # noqa: ARG002
        """Per input itself and then its counterfactuals."""
        return [item for one, own in zip(inputs, drawn, strict=True) for item in (one, *own)]

    def shown(self, rows: list[Any]) -> list[Any]:
        """As they are."""
        return list(rows)

    def whole(self, values: list[Any], inputs: list[Any], subset: Subset) -> list[Any]:  # noqa: ARG002
        """They are whole."""
        return list(values)

    def pack(self, values: list[Any], wanted: Ints, versions: int, subset: Subset) -> list[list[Any]]:
        """Versions `wanted` (n, k) of each input, to be kept: as small as the modality can make them."""
        cut = self.packing.cut
        return [
            [cut(values[i * versions], values[i * versions + k], subset) for k in own] for i, own in enumerate(wanted)
        ]

    def unpack(self, pieces: list[Any], observed: Item, subset: Subset) -> list[Any]:
        """Whole counterfactuals from what was kept."""
        return [self.packing.restore(observed, piece, subset) for piece in pieces]

    def keys(self, values: list[Any]) -> list[bytes]:
        """What tells the versions of one hypothesis apart."""
        return list(map(digest, values))

    def size(self, start: int, subset: Subset) -> int:  # noqa: ARG002 - rows of a table count by the subset
        """Values of one version; an image's are bytes in few, large pieces: 2**8 count one."""
        return size(self.inputs[start]) // 2**8

    def support(
        self, sampler: ListsSupport, inputs: list[Any], subset: Subset, name: str
    ) -> tuple[list[list[Any]], Floats]:
        """Whole counterfactuals, a list for each input, and their probabilities (n, m)."""
        listed, given = sampler.support(inputs, subset)
        items, mass = [list(own) for own in listed], np.asarray(given)
        counts = [len(own) for own in items]
        if len(items) != len(inputs) or mass.shape != (len(inputs), counts[0]) or set(counts) != {counts[0]}:
            raise InputError(
                f"the {name} lists {counts} counterfactuals with probabilities of shape {mass.shape}; expected m for "
                f"each of {len(inputs)} inputs and probabilities ({len(inputs)}, m)"
            )
        pairs = zip(inputs, items, strict=True)
        if any(isinstance(x, str) != isinstance(item, str) for x, own in pairs for item in own):
            raise InputError(f"the {name} lists items of another type than the input; list whole counterfactuals")
        return items, mass

    def likely(self, inputs: list[Any], drawn: list[list[Any]], mass: Floats) -> Floats:
        """The mass of the observed text and of all that is not listed (n,): no p-value is below it."""
        pairs = zip(inputs, drawn, strict=True)
        own = np.array(
            [[one == item for item in row] if isinstance(one, str) else [False] * len(row) for one, row in pairs]
        )
        return np.asarray((mass * own).sum(axis=1) + np.maximum(1 - mass.sum(axis=1), 0))

    def distances(self, values: list[Any], wanted: Bools, subset: Subset) -> Floats:  # noqa: ARG002
        """How far draws lie from what is observed, (n, draws), as the content says; inf where not wanted."""
        versions, found = wanted.shape[1] + 1, np.full(wanted.shape, np.inf)
        for i, k in np.argwhere(wanted).tolist():
            found[i, k] = difference(values[i * versions], values[i * versions + k + 1])
        return found
