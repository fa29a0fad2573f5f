"""The output as a step function of one column, all others as observed: where it steps, and the sums on each step.

Small trees by bits: a word per tree says which of its leaves a piece of a column lets through (METHODS 13).

A leaf that all columns let through is the input's own. A leaf that all but one let through is where the input would be
if that one column had another value: no descent, only "and" and "or" of words, for all trees and many inputs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.models.trees import Ensemble, Readable, Unreadable
from butfor.tabular.table import Table
from butfor.types import Array, Batch, Bools, Floats, Ints, distinct

PROBED = 200  # rows in which one column after the other is changed, to see what the model makes of it
CODES = 256  # whole numbers that a split by categories may know


@dataclass(frozen=True, eq=False)
class SourceSplits:
    """The splits of an ensemble, of each node (N,), by columns of the table."""

    ensemble: Ensemble  # its leaves, roots and link
    feature: Ints  # -1: a leaf
    threshold: Floats
    missing_left: Bools
    members: Ints  # the row of `sets`, -1: by threshold
    sets: Bools  # (S, levels + 2) whether a level goes left, then any other value, then a missing one
    levels: dict[int, Floats]  # of columns that are split by categories, sorted
    cut_off: frozenset[int]  # those among them that hold numbers: what is behind the point does not count


def in_columns(model: Readable, ensemble: Ensemble, table: Table, known: Array, order: Ints | None) -> SourceSplits:
    """`known` (m, columns) are rows of data and reference; `order` the places of the model's columns in the table."""
    width = table.values.shape[1]

    def encode(rows: Array) -> Floats:
        shown: Batch = table.show(rows)
        if order is not None:
            shown = shown.iloc[:, order]
        return model.encode(shown)

    kinds = [column.kind for column in table.kinds]
    if "time" in kinds:
        raise Unreadable("columns of times are not known here")
    rows = known[np.linspace(0, len(known) - 1, min(PROBED, len(known))).astype(np.int64)]
    columns = int(ensemble.feature.max(initial=0)) + 1
    if model.by_place:
        source = np.arange(width) if order is None else np.asarray(order)
        if len(source) < columns:
            raise Unreadable(f"it has splits of column {columns}, the data has {len(source)} columns")
    else:
        source = _sources(encode, rows, columns)
    scales = [DOUBLES if column.limits is None else NumberLine(column.limits, whole=True) for column in table.kinds]
    encoded = _Encoded(encode, rows, known, source, scales)
    return _converted(ensemble, source, encoded, kinds, identity=model.by_place)


def _sources(encode: Callable[[Array], Floats], rows: Array, columns: int) -> Ints:
    """The column of the table that each of the model's columns is made of; -1: of none, it is constant."""
    first = encode(rows)
    source = np.full(first.shape[1], -1)
    for j in range(rows.shape[1]):
        turned = rows.copy()
        turned[:, j] = np.roll(rows[:, j], 1)
        with np.errstate(invalid="ignore"):
            after = encode(turned)
        changed = ~((after == first) | (np.isnan(after) & np.isnan(first))).all(axis=0)
        if (changed & (source >= 0)).any():
            raise Unreadable("a step before the trees looks at several columns at once")
        source[changed] = j
    if columns > len(source):
        raise Unreadable(f"it has splits of column {columns}, what comes before it makes {len(source)}")
    return source


@dataclass(frozen=True, eq=False)
class _Encoded:
    """What a model makes of values of one column of the table, whatever stands in the others."""

    encode: Callable[[Array], Floats]
    rows: Array
    known: Array
    source: Ints
    scales: Sequence[NumberLine]  # of the columns of the table

    def of(self, j: int, values: Floats) -> Floats:
        """(values, model's columns); NaN where the model cannot take a value."""
        rows = np.repeat(self.rows[:1], len(values), axis=0)
        rows[:, j] = values
        try:
            with np.errstate(all="ignore"):
                return self.encode(rows)
        except Exception:  # an encoder may refuse what it does not know
            if len(values) == 1:
                return np.full((1, len(self.source)), np.nan)
            return np.concatenate([self.of(j, values[i : i + 1]) for i in range(len(values))])


def _converted(
    ensemble: Ensemble, source: Ints, encoded: _Encoded, kinds: Sequence[str], *, identity: bool
) -> SourceSplits:
    inner = ensemble.feature >= 0
    feature = np.where(inner, source[np.maximum(ensemble.feature, 0)], -1)
    threshold, missing_left = ensemble.threshold.copy(), ensemble.missing_left.copy()
    members, parts, levels = np.full(len(feature), -1), [], {}
    cut_off = set()
    never = inner & (feature < 0)
    if never.any():
        raise Unreadable("a column that its trees split on is constant in data and reference")
    before = 0
    for j in _to_convert(ensemble, feature, kinds, identity):
        nodes = np.flatnonzero(feature == j)
        if kinds[j] == "category" or (ensemble.members[nodes] >= 0).any():
            plain = identity and kinds[j] != "category"
            levels[int(j)] = _levels(encoded, int(j), kinds[j], most=ensemble.sets.shape[1] if plain else 0)
            cut_off |= {int(j)} if plain else set()
            parts.append(_sets(ensemble, nodes, encoded, int(j), levels[int(j)], plain))
            members[nodes] = before + np.arange(len(nodes))
            before += len(nodes)
        elif not identity:
            threshold[nodes], missing_left[nodes] = _thresholds(ensemble, nodes, encoded, int(j))
    width = max((part.shape[1] for part in parts), default=0)
    sets = np.concatenate([np.zeros((0, width), bool), *(_padded_rows(part, width) for part in parts)])
    return SourceSplits(ensemble, feature, threshold, missing_left, members, sets, levels, frozenset(cut_off))


def _to_convert(ensemble: Ensemble, feature: Ints, kinds: Sequence[str], identity: bool) -> Ints:
    """Columns with splits that cannot be taken as they are."""
    used = np.bincount(feature[feature >= 0], minlength=len(kinds)) > 0
    if identity:
        by_set = np.bincount(feature[(feature >= 0) & (ensemble.members >= 0)], minlength=len(kinds)) > 0
        used &= by_set | (np.array(kinds) == "category")
    return np.flatnonzero(used)


def _padded_rows(part: Bools, width: int) -> Bools:
    return np.pad(part, ((0, 0), (0, width - part.shape[1])))


def _levels(encoded: _Encoded, j: int, kind: str, most: int) -> Floats:
    """All that may go another way than others: codes of the column or, of numbers as they are, `most` whole ones."""
    if most:
        return np.arange(most, dtype=np.float64)
    held = encoded.known[:, j].astype(np.float64)
    held = held[~np.isnan(held)]
    most = int(held.max(initial=0)) + 1 if kind == "category" else CODES
    return np.unique(np.concatenate([held, np.arange(most, dtype=np.float64)]))


def _sets(ensemble: Ensemble, nodes: Ints, encoded: _Encoded, j: int, levels: Floats, plain: bool) -> Bools:
    """Which levels go left, then any other value, then a missing one, (nodes, levels + 2)."""
    asked = np.append(levels, np.nan)
    if plain:
        own = np.broadcast_to(asked, (len(nodes), len(asked)))
    else:
        own = encoded.of(j, asked)[:, ensemble.feature[nodes]].T
    left = _goes_left(ensemble, nodes, own)
    return np.column_stack([left[:, :-1], ensemble.unknown_left[nodes], left[:, -1]])


def _goes_left(ensemble: Ensemble, nodes: Ints, values: Floats) -> Bools:
    """Of each node and value (nodes, values), on the model's own scale."""
    found = values <= ensemble.threshold[nodes][:, None]
    row, width = ensemble.members[nodes], ensemble.sets.shape[1]
    by_set = row >= 0
    if by_set.any():
        codes = np.where(np.isnan(values), -1, np.trunc(values)).astype(np.int64)[by_set]
        inside = (codes >= 0) & (codes < width)
        seen = ensemble.sets[row[by_set][:, None], np.clip(codes, 0, width - 1)]
        found[by_set] = np.where(inside, seen, ensemble.unknown_left[nodes[by_set]][:, None])
    return np.where(np.isnan(values), ensemble.missing_left[nodes][:, None], found)


def _thresholds(ensemble: Ensemble, nodes: Ints, encoded: _Encoded, j: int) -> tuple[Floats, Bools]:
    """Splits of numbers on the table's scale: the largest value of the column that the model's step keeps below."""
    own, wanted = ensemble.feature[nodes], ensemble.threshold[nodes]
    missing = _goes_left(ensemble, nodes, encoded.of(j, np.array([np.nan]))[:, own].T)[:, 0]
    held = np.unique(encoded.known[:, j].astype(np.float64))
    held = held[~np.isnan(held)]
    seen = encoded.of(j, held)
    if np.array_equal(seen[:, own], np.broadcast_to(held[:, None], (len(held), len(own)))) and len(held) > 2:
        return wanted, missing
    if (np.diff(seen[:, own], axis=0) < 0).any():
        raise Unreadable("a step before the trees turns a column round")

    def keeps_below(values: Floats) -> Bools:
        each, back = np.unique(values, return_inverse=True)
        return np.asarray(encoded.of(j, each)[back, own] <= wanted)

    near = _on_a_line(held, seen[:, own], wanted)
    return _largest(keeps_below, near, encoded.scales[j]), missing


def _on_a_line(held: Floats, seen: Floats, wanted: Floats) -> tuple[Floats, Floats]:
    """Between which values what is wanted lies, if a straight line leads from values to those seen, as of a scaler."""
    width = held[-1] - held[0]
    with np.errstate(all="ignore"):
        guess = held[0] + (wanted - seen[0]) * width / (seen[-1] - seen[0])
    guess = np.nan_to_num(guess, nan=held[0])
    room = ROUNDING * (np.abs(guess) + width)
    return guess - room, guess + room


ROUNDING = 1e-12  # of a few operations, in parts of the numbers


def _largest(keeps: Callable[[Floats], Bools], near: tuple[Floats, Floats], scale: NumberLine) -> Floats:
    """The largest values on a scale that are kept, -inf: none, inf: all; first looked for `near`, then anywhere."""
    first, last = scale.places(np.array(scale.limits)).tolist()
    left, right = (np.clip(scale.places(side) + more, first, last) for side, more in zip(near, (-1, 1), strict=True))
    low = np.where(keeps(scale.values(left)), left, first - 1)
    high = np.where(keeps(scale.values(right)), last + 1, right)
    while (high - 1 > low).any():
        middle = low // 2 + high // 2 + (low % 2 + high % 2) // 2
        kept = keeps(scale.values(middle))
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return np.where(low < first, -np.inf, np.where(low >= last, np.inf, scale.values(low)))


@dataclass(frozen=True)
class NumberLine:
    """All numbers that a column can hold, in order: doubles, or whole numbers within limits."""

    limits: tuple[float, float]
    whole: bool = False

    def places(self, values: Floats) -> Ints:
        """Where numbers stand among all of them."""
        values = np.clip(values, *self.limits)
        if self.whole:
            return np.rint(values).astype(np.int64)
        bits = values.view(np.int64)
        return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFFFFFFFFFF))

    def values(self, places: Ints) -> Floats:
        """The numbers at these places."""
        if self.whole:
            return places.astype(np.float64)
        bits = np.where(places >= 0, places, np.bitwise_or(-places, np.int64(-0x8000000000000000)))
        return bits.view(np.float64)


DOUBLES = NumberLine((-1e150, 1e150))  # beyond it squares overflow, and no column reaches it


CHUNK = 2**16  # pairs of rows and trees that are walked at a time: they stay in the cache
SORTED_OUT = 3  # levels after which those that have come to a leaf are left out


@dataclass(frozen=True, eq=False)
class TreeIndex:
    """Splits by ranks of thresholds. A piece of a column is what lies between two thresholds; the last is "missing".

    A column that is split by categories has a piece for each level, one for all other values, one for missing ones.
    """

    splits: SourceSplits
    width: int  # columns of the table

    @cached_property
    def nodes_of(self) -> tuple[Ints, ...]:
        """The nodes that split each column."""
        feature = self.splits.feature
        inner = np.flatnonzero(feature >= 0)
        short = feature[inner].astype(np.min_scalar_type(self.width))  # of two bytes or one: sorted much quicker
        order = inner[np.argsort(short, kind="stable")]
        return tuple(np.split(order, np.searchsorted(feature[order], np.arange(1, self.width))))

    @cached_property
    def cuts(self) -> tuple[Floats, ...]:
        """The distinct thresholds of each column, sorted; the levels of one that is split by categories."""
        splits = self.splits
        return tuple(
            splits.levels[j] if j in splits.levels else distinct(splits.threshold[nodes])
            for j, nodes in enumerate(self.nodes_of)
        )

    @cached_property
    def missing(self) -> Ints:
        """The piece of missing values, of each column."""
        return np.array([len(cuts) + 1 for cuts in self.cuts])

    @cached_property
    def rank(self) -> Ints:
        """Of each node (N,): pieces up to this one go left. Leaves are their own children."""
        splits, found = self.splits, np.zeros(len(self.splits.feature), np.int64)
        for j, nodes in enumerate(self.nodes_of):
            if j not in splits.levels:
                found[nodes] = self.cuts[j].searchsorted(splits.threshold[nodes])
        return found

    def pieces(self, rows: Array) -> Ints:
        """The piece of every value, (n, columns)."""
        columns, found = np.ascontiguousarray(rows.T, np.float64), np.empty(rows.shape[::-1], np.int64)
        for j, values in enumerate(columns):
            found[j] = self.pieces_of(j, values)
        return found.T  # those of a column side by side: they are asked for column by column

    def pieces_of(self, j: int, values: Array) -> Ints:
        """The pieces of some values of column j."""
        numbers, cuts = np.asarray(values, np.float64), self.cuts[j]
        if j in self.splits.cut_off:
            numbers = np.trunc(numbers)
        found = np.asarray(cuts.searchsorted(numbers))  # thresholds below the value
        if j in self.splits.levels:
            near = np.minimum(found, len(cuts) - 1)
            found = np.where(cuts[near] == numbers, near, len(cuts))
        if (gone := np.isnan(numbers)).any():
            found = np.where(gone, len(cuts) + 1, found)
        return found

    @cached_property
    def units(self) -> Floats:
        """Values of the leaves as whole numbers (N, K): their sums are exact in any order."""
        ensemble = self.splits.ensemble
        return np.rint(ensemble.values * ensemble.scale)

    @cached_property
    def scale(self) -> float:
        """What whole numbers are divided by."""
        return self.splits.ensemble.scale

    def outputs(self, sums: Floats) -> Floats:
        """What the model says, from sums of leaves (..., K) in whole numbers."""
        ensemble = self.splits.ensemble
        return ensemble.outputs(ensemble.base + sums / self.scale)

    def goes_left(self, nodes: Ints, pieces: Ints, *, gaps: bool = True) -> Bools:
        """Whether values in these pieces of the nodes' columns go left; without `gaps` none of them is missing."""
        splits = self.splits
        left = pieces <= self.rank.take(nodes)
        if gaps and (gone := pieces == self.missing.take(splits.feature.take(nodes))).any():
            left = np.where(gone, splits.missing_left.take(nodes), left)
        if len(splits.sets):
            row = splits.members.take(nodes)
            by_set = np.flatnonzero(row >= 0)
            left[by_set] = self.sets[row[by_set], pieces[by_set]]
        return np.asarray(left)

    @cached_property
    def sets(self) -> Bools:
        """Of each split by categories, whether a piece goes left, (S, pieces)."""
        return self.splits.sets

    @cached_property
    def depth(self) -> int:
        """Of the deepest tree."""
        left, right, level = self.splits.ensemble.left, self.splits.ensemble.right, 0
        nodes = self.splits.ensemble.roots
        while (nodes := nodes[self.splits.feature[nodes] >= 0]).size:
            nodes, level = np.concatenate([left[nodes], right[nodes]]), level + 1
        return level

    @cached_property
    def children(self) -> Ints:
        """The left and the right child of each node, one after the other, (2 N,)."""
        return np.stack([self.splits.ensemble.left, self.splits.ensemble.right], axis=1).reshape(-1)

    def leaves_of(self, pieces: Ints, roots: Ints) -> Ints:
        """The leaf of each row, given by its pieces (n, columns), in some trees, (n, roots)."""
        count, size = len(pieces), max(1, CHUNK // len(roots))
        found = np.empty((count, len(roots)), np.int64)
        gaps = bool((pieces == self.missing).any())
        for a in range(0, count, size):
            found[a : a + size] = self._walked(np.ascontiguousarray(pieces[a : a + size]), roots, gaps)
        return found

    def _walked(self, pieces: Ints, roots: Ints, gaps: bool) -> Ints:
        feature, flat = self.splits.feature, pieces.reshape(-1)
        first = np.repeat(np.arange(len(pieces)) * self.width, len(roots))
        nodes, place = np.tile(roots, len(pieces)), np.arange(len(first))
        found = np.empty(len(first), np.int64)
        for level in range(self.depth):
            if level and level % SORTED_OUT == 0:
                inner = feature.take(nodes) >= 0
                found[place[~inner]] = nodes[~inner]
                nodes, place, first = nodes[inner], place[inner], first[inner]
            own = flat.take(first + feature.take(nodes))  # of a leaf any: it is its own child
            nodes = self.children.take(2 * nodes + ~self.goes_left(nodes, own, gaps=gaps))
        found[place] = nodes
        return found.reshape(len(pieces), -1)


@dataclass(frozen=True, eq=False)
class Demands:
    """One demand on the way to a node: pieces `low` to `high` (left out) of a column, and missing values or not."""

    target: Ints  # which of the nodes asked for
    column: Ints
    low: Ints
    high: Ints
    missing: Bools
    split: Ints  # the row of `sets` of a split by categories, -1: by threshold
    left: Bools  # the way goes left there


def demands(index: TreeIndex, targets: Ints, *, own_column: bool = False) -> Demands:
    """All demands on the way from the roots to `targets`; with `own_column` those on the column that a node splits."""
    splits, ensemble = index.splits, index.splits.ensemble
    inner = np.flatnonzero(splits.feature >= 0)
    parent, is_left = np.full(len(splits.feature), -1), np.zeros(len(splits.feature), bool)
    parent[ensemble.left[inner]], parent[ensemble.right[inner]] = inner, inner
    is_left[ensemble.left[inner]] = True
    place, below, above = np.arange(len(targets)), targets, parent[targets]
    found: list[tuple[Ints, Ints, Bools]] = []
    while (there := above >= 0).any():
        if not there.all():
            place, below, above = place[there], below[there], above[there]
        found.append((place, above, is_left[below]))
        below, above = above, parent[above]
    target, node, left = (np.concatenate(part) for part in zip(*found, strict=True)) if found else _nothing()
    if own_column:
        wanted = splits.feature[node] == splits.feature[targets[target]]
        target, node, left = target[wanted], node[wanted], left[wanted]
    column, rank = splits.feature[node], index.rank[node]
    end = index.missing[column]  # one more than the last piece
    return Demands(
        target=target,
        column=column,
        low=np.where(left, 0, rank + 1),
        high=np.where(left, rank + 1, end),
        missing=splits.missing_left[node] == left,
        split=splits.members[node],
        left=left,
    )


def _nothing() -> tuple[Ints, Ints, Bools]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool)


def spans(asked: Demands, size: int) -> tuple[Ints, Ints, Ints, Ints, Bools]:
    """Demands by threshold put together: columns, targets, the range (low, high) and whether missing values may go."""
    by_threshold = asked.split < 0
    key = (asked.column * size + asked.target)[by_threshold]
    order = np.argsort(key, kind="stable")
    if not order.size:
        none = np.zeros(0, np.int64)
        return none, none, none, none, np.zeros(0, bool)
    key = key[order]
    first = np.flatnonzero(np.append(True, np.diff(key) > 0))
    low = np.maximum.reduceat(asked.low[by_threshold][order], first)
    high = np.minimum.reduceat(asked.high[by_threshold][order], first)
    missing = np.logical_and.reduceat(asked.missing[by_threshold][order], first)
    return (
        key[first] // size,
        key[first] % size,
        low,
        np.maximum(low, high),
        missing,
    )  # of an empty range: both the same


@dataclass(frozen=True, eq=False)
class Events:
    """Of one column: while its piece is in low <= piece < high, the sums of input `row` are changed by so much."""

    row: Ints  # (E,)
    change: Floats  # (K, E) another leaf's values less those of the input's own one, in whole numbers
    low: Ints  # (E,)
    high: Ints
    missing: Callable[[], Bools]  # (E,) also while it is missing; seldom asked for

    @staticmethod
    def together(parts: list[Events]) -> Events:
        """All of some."""
        if len(parts) == 1:
            return parts[0]
        return Events(
            row=np.concatenate([part.row for part in parts]),
            change=np.concatenate([part.change for part in parts], axis=1),
            low=np.concatenate([part.low for part in parts]),
            high=np.concatenate([part.high for part in parts]),
            missing=lambda: np.concatenate([part.missing() for part in parts]),
        )


MOST_LEAVES = 64
MOST_BYTES = 2**27  # of all tables
RANGE_BYTES = 17  # of a leaf and a column, at most: its range of pieces, and whether a missing value may get there
Words = Array  # unsigned, 32 or 64 bits


@dataclass(frozen=True, eq=False)
class ColumnWords:
    """One column: which leaves of each tree its pieces shut out, and the range of pieces that each leaf asks for."""

    shut: Words  # (pieces + 2, T)
    low: Ints  # (T * bits,)
    high: Ints
    missing: Bools


@dataclass(frozen=True, eq=False)
class LeafMasks:
    """Trees of few leaves."""

    trees: Ints  # (T,) which of the ensemble's
    bits: int
    every: Words  # (T,) one bit for each leaf
    values: Floats  # (K, T * bits) of each leaf, in whole numbers
    columns: dict[int, ColumnWords]

    def own_leaves(self, pieces: Ints) -> Ints:
        """The place of the leaf of each input, (n, T)."""
        shut: Words = np.zeros((len(pieces), len(self.trees)), self.every.dtype)
        more = np.empty_like(shut)
        for j, column in self.columns.items():
            np.take(column.shut, pieces[:, j], axis=0, out=more, mode="clip")
            np.bitwise_or(shut, more, out=shut)
        return self.leaf_of(self.every & ~shut)

    def own_words(self, pieces: Ints) -> tuple[Words, Words]:
        """Words (n, T) of the leaf of each input, and of those that exactly one column keeps it from."""
        count = len(pieces)
        once: Words = np.zeros((count, len(self.trees)), self.every.dtype)
        twice, shut, both = np.zeros_like(once), np.empty_like(once), np.empty_like(once)
        for j, column in self.columns.items():
            np.take(column.shut, pieces[:, j], axis=0, out=shut, mode="clip")
            np.bitwise_and(once, shut, out=both)
            np.bitwise_or(twice, both, out=twice)
            np.bitwise_or(once, shut, out=once)
        return self.every & ~once, once & ~twice

    def leaf_of(self, words: Words, trees: Ints | None = None) -> Ints:
        """The place of the leaf whose bit is set, (n, T) or of some trees."""
        places = np.arange(len(self.trees)) if trees is None else trees
        return np.asarray(places * self.bits + bit_of(words))


class NearLeaves:
    """Leaves of some inputs: their own, and those that exactly one column keeps them from."""

    def __init__(self, masks: LeafMasks, pieces: Ints) -> None:
        own, self._near = masks.own_words(pieces)
        self.own = masks.leaf_of(own)  # (n, T)
        self._masks, self._pieces = masks, pieces
        self._values = masks.values[:, self.own.reshape(-1)]
        self._row = np.repeat(np.arange(len(pieces)), len(masks.trees))  # of each word, and the first leaf of its tree:
        self._first = np.tile(np.arange(len(masks.trees)) * masks.bits, len(pieces))  # quicker than to divide

    def events(self, j: int) -> Events | None:
        """Of one column; None: no split is on it."""
        masks, column = self._masks, self._masks.columns.get(j)
        if column is None:
            return None
        at, place = _set_bits((column.shut[self._pieces[:, j]] & self._near).reshape(-1))
        leaf = self._first.take(at) + place
        change = masks.values.take(leaf, axis=1) - self._values.take(at, axis=1)
        low, high = column.low.take(leaf), column.high.take(leaf)
        return Events(self._row.take(at), change, low, high, lambda: column.missing[leaf])


def _set_bits(words: Words) -> tuple[Ints, Ints]:
    """Where words have bits, and which: each bit once."""
    at = np.flatnonzero(words != 0)  # of flags: four times quicker than of words
    words, places, bits = words.take(at), [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while words.size:
        lowest = words & np.negative(words)
        places.append(at)
        bits.append(bit_of(lowest))
        words ^= lowest
        more = np.flatnonzero(words != 0)
        words, at = words.take(more), at.take(more)
    return np.concatenate(places), np.concatenate(bits)


def bit_of(words: Words) -> Ints:
    """The place of the only bit of each word.

    >>> bit_of(np.array([1, 8, 2**31], np.uint32)).tolist()
    [0, 3, 31]
    """
    if words.dtype == np.uint32:
        return np.asarray((words.astype(np.float32).view(np.int32) >> 23) - 127)
    return np.asarray((words.astype(np.float64).view(np.int64) >> 52) - 1023)


def leaf_masks(index: TreeIndex) -> LeafMasks | None:
    """The masks of all trees that are small enough; None: there are none, or too many pieces."""
    splits, ensemble = index.splits, index.splits.ensemble
    sizes = np.diff(ensemble.roots, append=len(splits.feature))
    tree_of = np.repeat(np.arange(len(sizes)), sizes)
    leaves = np.flatnonzero(splits.feature < 0)
    counts = np.bincount(tree_of[leaves], minlength=len(sizes))
    trees = np.flatnonzero(counts <= MOST_LEAVES)
    if not trees.size:
        return None
    bits = 32 if counts[trees].max() <= 32 else 64
    used = [j for j, nodes in enumerate(index.nodes_of) if len(nodes)]
    words = sum(len(index.cuts[j]) + 2 for j in used) * bits // 8
    if len(trees) * (words + len(used) * bits * RANGE_BYTES) > MOST_BYTES:
        return None
    leaves = leaves[(counts <= MOST_LEAVES)[tree_of[leaves]]]
    slot = np.repeat(np.arange(len(trees)), counts[trees])
    flat = slot * bits + np.arange(len(leaves)) - np.repeat(np.cumsum(counts[trees]) - counts[trees], counts[trees])
    values = np.zeros((index.units.shape[1], len(trees) * bits))
    values[:, flat] = index.units[leaves].T
    there = np.zeros(len(trees) * bits, bool)
    there[flat] = True
    return LeafMasks(trees, bits, _words(there, bits), values, _columns(index, leaves, flat, bits, len(trees)))


def _words(flags: Bools, bits: int) -> Words:
    """Flags (..., T * bits) of leaves as words (..., T)."""
    packed = np.packbits(np.ascontiguousarray(flags), axis=-1, bitorder="little")
    return packed.view(f"<u{bits // 8}").astype(_kind(bits), copy=False)


def _kind(bits: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint32 if bits == 32 else np.uint64)


def _columns(index: TreeIndex, leaves: Ints, flat: Ints, bits: int, trees: int) -> dict[int, ColumnWords]:
    """Of each column with splits in trees whose leaves stand at places `flat` of all words' bits, (L,)."""
    asked = demands(index, leaves)
    used = np.flatnonzero(np.bincount(asked.column, minlength=index.width))
    ends = index.missing[used]
    ranges = _ranges(asked, flat, used, ends, trees * bits)
    parts = np.split(_shut(*ranges, ends, bits), np.cumsum(ends + 1))[:-1]  # the last is what is left: nothing
    found = {j: ColumnWords(*own) for j, *own in zip(used.tolist(), parts, *ranges, strict=True)}
    for j in index.splits.levels.keys() & found.keys():  # its pieces are listed, not ranges
        none = np.zeros(0, np.int64)
        found[j] = ColumnWords(_shut_levels(index, j, asked, flat, bits, trees), none, none, np.zeros(0, bool))
    return found


def _ranges(asked: Demands, flat: Ints, used: Ints, ends: Ints, size: int) -> tuple[Ints, Ints, Bools]:
    """Pieces (low, high left out) that leaves ask for, and whether missing ones may get there, (columns, leaves)."""
    kind = np.min_scalar_type(int(ends.max(initial=0)))  # short ones: tables that stay in the cache
    low, missing = np.zeros(len(used) * size, kind), np.ones(len(used) * size, bool)
    high = np.repeat(ends.astype(kind), size)
    place = np.zeros(int(used.max(initial=0)) + 1, np.int64)
    place[used] = np.arange(len(used)) * size
    key, by_threshold = place[asked.column] + flat[asked.target], asked.split < 0
    left, right = np.flatnonzero(by_threshold & asked.left), np.flatnonzero(by_threshold & ~asked.left)
    np.maximum.at(low, key[right], asked.low[right].astype(kind))
    np.minimum.at(high, key[left], asked.high[left].astype(kind))
    missing[key[~asked.missing]] = False
    np.maximum(low, high, out=high)  # of an empty range: both the same
    return low.reshape(-1, size), high.reshape(-1, size), missing.reshape(-1, size)


def _shut(low: Ints, high: Ints, missing: Bools, ends: Ints, bits: int) -> Words:
    """Which leaves each piece shuts out, those whose range it is not in: (end + 1, T) of all columns, one by one."""
    kind, trees = _kind(bits), low.shape[1] // bits
    first = np.cumsum(ends + 1) - ends - 1
    shut: Words = np.zeros((int((ends + 1).sum()), trees), kind)
    held = low < high
    for edge, inside in ((low, low > 0), (high, high < ends[:, None])):  # open from low, shut again from high
        place = np.flatnonzero(held & inside)
        column, leaf = np.divmod(place, low.shape[1])
        bit = np.left_shift(kind.type(1), (leaf & (bits - 1)).astype(kind))
        cell = (first[column] + edge.reshape(-1)[place]) * trees + leaf // bits
        np.add.at(shut.reshape(-1), cell, bit)  # a bit at most once: a sum is a union, quicker
    shut[first], shut[first + ends] = _words(low > 0, bits), _words(~missing, bits)
    for a, b in zip(first.tolist(), (first + ends).tolist(), strict=True):
        np.bitwise_xor.accumulate(shut[a:b], axis=0, out=shut[a:b])
    return shut


def _shut_levels(index: TreeIndex, j: int, asked: Demands, flat: Ints, bits: int, trees: int) -> Words:
    """The same of a column that is split by categories."""
    mine, end = asked.column == j, int(index.missing[j])
    allowed = np.ones((trees * bits, end + 1), bool)
    step = index.sets[asked.split[mine], : end + 1] == asked.left[mine][:, None]
    np.logical_and.at(allowed, flat[asked.target[mine]], step)
    return _words(~allowed.T, bits)


PAIRS = 2**15  # inputs x trees that are walked at a time


@dataclass(frozen=True, eq=False)
class Front:
    """Nodes that are reached when one column of an input is free, and what is left of that column's pieces there."""

    row: Ints
    tree: Ints
    column: Ints
    node: Ints
    low: Ints
    high: Ints
    missing: Bools

    def may_miss(self) -> Bools:
        """Which are reached while the column is missing, too."""
        return self.missing

    def take(self, places: Ints | Bools) -> Front:
        """Some of them."""
        return Front(*(part[places] for part in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Walker:
    """Trees of any size."""

    index: TreeIndex
    trees: Ints
    low: Ints  # (N,) pieces of its own column that can get to a node
    high: Ints
    missing: Bools

    def events(self, pieces: Ints, wanted: Sequence[int]) -> dict[int, Events]:
        """Of each column that is wanted; those split by categories are not."""
        size = max(1, PAIRS // len(self.trees))
        found = [self._events(pieces[a : a + size], a, wanted) for a in range(0, len(pieces), size)]
        return {
            j: Events.together([part[j] for part in found if j in part]) for j in {k for part in found for k in part}
        }

    def _events(self, pieces: Ints, first: int, wanted: Sequence[int]) -> dict[int, Events]:
        index, ensemble = self.index, self.index.splits.ensemble
        own = index.leaves_of(pieces, ensemble.roots[self.trees])
        front, ended = self._branches(pieces, wanted), []
        while front.row.size:
            leaf = index.splits.feature[front.node] < 0
            ended.append(front.take(leaf))
            front = self._step(front.take(~leaf), pieces)
        if not ended:
            return {}
        done = Front(*(np.concatenate(parts) for parts in zip(*(vars(part).values() for part in ended), strict=True)))
        order = np.argsort(done.column, kind="stable")
        done = done.take(order)
        starts = np.searchsorted(done.column, wanted), np.searchsorted(done.column, wanted, side="right")
        parts = {int(j): done.take(np.arange(a, b)) for j, a, b in zip(wanted, *starts, strict=True) if b > a}
        found = {}
        for j, part in parts.items():
            change = index.units[part.node] - index.units[own[part.row, part.tree]]
            found[j] = Events(part.row + first, change.T, part.low, part.high, part.may_miss)
        return found

    def _branches(self, pieces: Ints, wanted: Sequence[int]) -> Front:
        """The other child of every node on the way of every input, where its column is wanted."""
        index, ensemble, splits = self.index, self.index.splits.ensemble, self.index.splits
        free = np.zeros(index.width, bool)
        free[list(wanted)] = True
        row = np.repeat(np.arange(len(pieces)), len(self.trees))
        tree = np.tile(np.arange(len(self.trees)), len(pieces))
        node, parts = ensemble.roots[self.trees][tree], []
        while (inner := splits.feature[node] >= 0).any():
            row, tree, node = row[inner], tree[inner], node[inner]
            left = index.goes_left(node, pieces[row, splits.feature[node]])
            mine = free[splits.feature[node]]
            parts.append(self._child(row[mine], tree[mine], node[mine], ~left[mine]))
            node = np.where(left, ensemble.left[node], ensemble.right[node])
        none = np.zeros(0, np.int64)
        parts.append(Front(none, none, none, none, none, none, np.zeros(0, bool)))
        return Front(*(np.concatenate(part) for part in zip(*(vars(part).values() for part in parts), strict=True)))

    def _child(self, row: Ints, tree: Ints, node: Ints, left: Bools) -> Front:
        """The left or right child of nodes whose own column is free."""
        index, ensemble, splits = self.index, self.index.splits.ensemble, self.index.splits
        cut = np.clip(index.rank[node] + 1, self.low[node], self.high[node])
        return Front(
            row,
            tree,
            splits.feature[node],
            np.where(left, ensemble.left[node], ensemble.right[node]),
            np.where(left, self.low[node], cut),
            np.where(left, cut, self.high[node]),
            self.missing[node] & (splits.missing_left[node] == left),
        )

    def _step(self, front: Front, pieces: Ints) -> Front:
        """One level down: both children where the free column is split, else the child that the input goes to."""
        if not front.row.size:
            return front
        index, ensemble, splits = self.index, self.index.splits.ensemble, self.index.splits
        column = splits.feature[front.node]
        split = column == front.column
        on, off = front.take(split), front.take(~split)
        left = index.goes_left(off.node, pieces[off.row, column[~split]])
        node = np.where(left, ensemble.left[off.node], ensemble.right[off.node])
        moved = Front(off.row, off.tree, off.column, node, off.low, off.high, off.missing)
        sides = [self._child(on.row, on.tree, on.node, np.full(len(on.row), side)) for side in (True, False)]
        parts = [moved, *(side.take((side.low < side.high) | side.missing) for side in sides)]
        return Front(*(np.concatenate(part) for part in zip(*(vars(part).values() for part in parts), strict=True)))


def walker(index: TreeIndex, trees: Ints) -> Walker:
    """For some trees of an ensemble."""
    splits = index.splits
    inner = np.flatnonzero((splits.feature >= 0) & (splits.members < 0))
    low, missing = np.zeros(len(splits.feature), np.int64), np.ones(len(splits.feature), bool)
    high = np.where(splits.feature >= 0, index.missing[np.maximum(splits.feature, 0)], 0)
    _, place, least, most, may_miss = spans(demands(index, inner, own_column=True), len(inner))
    low[inner[place]], high[inner[place]], missing[inner[place]] = least, most, may_miss
    return Walker(index, trees, low, high, missing)


SUMMED = 2**18  # inputs x trees whose leaves are summed at a time
DENSE = 6  # a table with so many cells an event, or fewer, is filled; else events are sorted


@dataclass(frozen=True, eq=False)
class Steps:
    """Of each input (n,) along one column: steps (n, V), from piece `starts` up to the next; padded by empty ones."""

    starts: Ints  # (n, V) the first is 0, padding is one beyond the last piece
    sums: Floats  # (n, V, K) of leaves, in whole numbers
    own: Floats  # (n, K) those of the inputs as they are
    events: Events | None  # None: nothing changes

    @cached_property
    def missing(self) -> Floats:
        """Sums (n, K) where the column is missing."""
        if self.events is None:
            return self.own
        gone = np.flatnonzero(self.events.missing())
        row, count = self.events.row[gone], len(self.own)
        return self.own + np.stack([np.bincount(row, change[gone], count) for change in self.events.change], axis=1)


@dataclass(frozen=True, eq=False)
class StepFunctions:
    """Reads step functions off an ensemble."""

    index: TreeIndex

    @cached_property
    def masks(self) -> LeafMasks | None:
        """Of small trees."""
        return leaf_masks(self.index)

    @cached_property
    def walker(self) -> Walker | None:
        """Of the others."""
        count = len(self.index.splits.ensemble.roots)
        small = np.zeros(0, np.int64) if self.masks is None else self.masks.trees
        large = np.setdiff1d(np.arange(count), small)
        return walker(self.index, large) if large.size else None

    def along(self, pieces: Ints, columns: Sequence[int]) -> Iterator[tuple[int, Steps]]:
        """The steps of inputs, given by their pieces (n, columns of the table), along each of some columns."""
        own = np.zeros((len(pieces), self.index.units.shape[1]))
        near = None if self.masks is None else NearLeaves(self.masks, pieces)
        walked = {} if self.walker is None else self.walker.events(pieces, columns)
        if near is not None:
            own += self._of_leaves(near.own)
        if self.walker is not None:
            own += self._of_walk(pieces)
        for j in columns:
            parts = [None if near is None else near.events(j), walked.pop(j, None)]
            yield j, _steps(self.index, j, own, [part for part in parts if part is not None and len(part.row)])

    def sums(self, pieces: Ints) -> Floats:
        """Sums of the leaves of each input (n, K), in whole numbers."""
        size = max(1, SUMMED // len(self.index.splits.ensemble.roots))
        parts = [np.zeros((0, self.index.units.shape[1]))]
        for a in range(0, len(pieces), size):
            some = pieces[a : a + size]
            own = np.zeros((len(some), parts[0].shape[1]))
            if self.masks is not None:
                own += self._of_leaves(self.masks.own_leaves(some))
            parts.append(own + self._of_walk(some) if self.walker is not None else own)
        return np.concatenate(parts)

    def _of_leaves(self, leaf: Ints) -> Floats:
        """Sums over small trees (n, K), from the places of the inputs' own leaves (n, T)."""
        assert self.masks is not None
        return np.stack([own[leaf].sum(axis=1) for own in self.masks.values], axis=1)

    def _of_walk(self, pieces: Ints) -> Floats:
        """The same over the others."""
        assert self.walker is not None
        roots = self.index.splits.ensemble.roots[self.walker.trees]
        return np.asarray(self.index.units[self.index.leaves_of(pieces, roots)].sum(axis=1))


def _steps(index: TreeIndex, j: int, own: Floats, parts: list[Events]) -> Steps:
    count, end = len(own), int(index.missing[j])
    if not parts:
        return Steps(np.zeros((count, 1), np.int64), own[:, None].copy(), own, None)
    events = Events.together(parts)
    starts, sums = _padded(*_jumps(events, count, end + 1), own, end)
    return Steps(starts, sums, own, events)


def _jumps(events: Events, count: int, width: int) -> tuple[Ints, Ints, Floats]:
    """Where the sums change, and by how much: inputs, pieces (sorted) and jumps (J, K); every input's first piece."""
    first = events.row * width
    up, down = first + events.low, first + events.high
    if count * width <= DENSE * len(first) + 2**16:
        size = count * width
        table = np.array([np.bincount(up, own, size) - np.bincount(down, own, size) for own in events.change]).T
        there: Bools = (table != 0).any(axis=1).reshape(count, width)
        there[:, 0], there[:, -1] = True, False
        places = np.flatnonzero(there)
        jump = table[places]
    else:
        keys, back = np.unique(np.concatenate([up, down, np.arange(count) * width]), return_inverse=True)
        both = np.concatenate([events.change, -events.change, np.zeros((len(events.change), count))], axis=1)
        jump = np.stack([np.bincount(back, own, len(keys)) for own in both], axis=1)
        keep = ((jump != 0).any(axis=1) | (keys % width == 0)) & (keys % width < width - 1)
        places, jump = keys[keep], jump[keep]
    return places // width, places % width, jump


def _padded(row: Ints, start: Ints, jump: Floats, own: Floats, end: int) -> tuple[Ints, Floats]:
    """As tables with a row for each input: starts (n, V) and sums (n, V, K)."""
    count = len(own)
    sizes = np.bincount(row, minlength=count)
    most = int(sizes.max())
    place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    starts = np.full((count, most), end, np.int64)
    starts[row, place] = start
    sums = np.zeros((count, most, own.shape[1]))
    sums[row, place] = jump
    np.cumsum(sums, axis=1, out=sums)  # whole numbers: exact
    sums += own[:, None]
    return starts, sums
