"""Splits of a model's own columns as splits of the table's: thresholds on its scale, categories by its codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from butfor.core.types import Array, Batch, Bools, Floats, Ints
from butfor.models.trees import Ensemble, Readable, Unreadable
from butfor.tabular.table import Table

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
    sets = np.concatenate([np.zeros((0, width), bool), *(_padded(part, width) for part in parts)])
    return SourceSplits(ensemble, feature, threshold, missing_left, members, sets, levels, frozenset(cut_off))


def _to_convert(ensemble: Ensemble, feature: Ints, kinds: Sequence[str], identity: bool) -> Ints:
    """Columns with splits that cannot be taken as they are."""
    used = np.bincount(feature[feature >= 0], minlength=len(kinds)) > 0
    if identity:
        by_set = np.bincount(feature[(feature >= 0) & (ensemble.members >= 0)], minlength=len(kinds)) > 0
        used &= by_set | (np.array(kinds) == "category")
    return np.flatnonzero(used)


def _padded(part: Bools, width: int) -> Bools:
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
