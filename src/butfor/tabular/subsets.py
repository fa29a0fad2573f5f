"""Subsets of a table: single columns, lists of columns, named groups, and trees of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from butfor.evaluation.hypotheses import unique
from butfor.inference.selection import Layers, layers_of_table
from butfor.tabular.fixed import Cell, fixed_cells
from butfor.tabular.table import Table
from butfor.types import Array, Bools, Floats, InputError, Ints, Subset


def column_subsets(table: Table, subsets: object) -> list[Subset]:
    """Return subsets by column name or position; None and "columns" are every column by itself.

    A list entry is one column or a list of columns; a mapping gives each group its name. Subsets stay as they are.
    """
    if isinstance(subsets, list) and subsets and all(isinstance(one, Subset) for one in subsets):
        return subsets
    if subsets is None or (isinstance(subsets, str) and subsets == "columns"):
        groups: dict[str, list[int]] = {name: [i] for i, name in enumerate(table.columns)}
    elif isinstance(subsets, Mapping):
        groups = {str(name): positions_of(table, columns) for name, columns in subsets.items()}
        if len(groups) < len(subsets):
            raise InputError(f"subsets has names that read alike: {', '.join(map(repr, subsets))}; name them apart")
    elif isinstance(subsets, str | bytes) or not isinstance(subsets, Sequence | np.ndarray):
        raise InputError(f"subsets must be a list of columns or a mapping of names to columns, got {subsets!r}")
    else:
        groups = {}
        for entry in subsets:
            positions = positions_of(table, entry)
            name = "+".join(table.columns[i] for i in positions)
            if name in groups:
                raise InputError(f"subset {name!r} is listed twice; list it once")
            groups[name] = positions
    if not groups:
        raise InputError("subsets is empty; give at least one, or None for every column")
    owner: dict[int, str] = {}
    for name, positions in groups.items():
        for position in positions:
            if position in owner:
                raise InputError(
                    f"column {table.columns[position]!r} is in subset {owner[position]!r} and in {name!r}; subsets of "
                    "one run may not overlap: drop it from one of them, or make two runs"
                )
            owner[position] = name
    return [Subset(name, np.array(positions)) for name, positions in groups.items()]


def positions_of(table: Table, entry: object) -> list[int]:
    """Return the positions of the columns of one entry: a name or position, or a list of them."""
    if not isinstance(entry, str | int | np.integer | Sequence | np.ndarray):
        raise InputError(f"a subset must be a column or a list of columns, got {entry!r}")
    entries = [entry] if isinstance(entry, str | int | np.integer) else list(entry)
    if any(isinstance(column, bool | np.bool_) for column in entries):
        raise InputError(f"a subset is {entries[:4]!r}; give columns or their positions: np.flatnonzero(mask)")
    if not entries:
        raise InputError("a subset without columns was given; name at least one column")
    return [_position(table, column) for column in entries]


def _position(table: Table, column: object) -> int:
    if isinstance(column, list | dict | set):
        raise InputError(f"a subset may not hold {column!r}; name single columns in it")
    if table.labels is not None and column in table.labels:
        return int(table.labels.get_loc(column))  # type: ignore[arg-type]  # they are unique
    if isinstance(column, str) and column in table.columns:
        return table.columns.index(column)
    if isinstance(column, int | np.integer) and -len(table.columns) <= column < len(table.columns):
        return int(column) % len(table.columns)
    known = ", ".join(table.columns[:8]) + (", ..." if len(table.columns) > 8 else "")
    raise InputError(f"unknown column {column!r} in subsets; the data has {known}")


CUTS = (2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # groups of each resolution between all columns and single ones
MOST_LINKED = 2_000  # columns that the tree is grown from; each other column joins that it is most associated with
MOST_ROWS = 5_000  # of the reference, from which the tree is made
MOST_COMPARED = 500  # columns of a table in which stand-ins are looked for
ALL = "all columns"
MOST_NAMED, SHORT = 4, 40  # columns in the name of a group, or characters of all of them
MOST_KEYED = 6  # columns in the key of a group of columns that tell each other


@dataclass(frozen=True, eq=False)
class ColumnTree:
    """Subsets, each with its resolution (0: all columns) and the index of that which it is a part of (-1: none)."""

    subsets: list[Subset]
    resolution: Ints  # (S,)
    parent: Ints  # (S,)
    fixed: Mapping[int, Cell] = field(default_factory=dict)  # columns that others fix, and the fewest that do

    @property
    def immovable(self) -> Bools:
        """Subsets (S,) of which every column is fixed by columns outside: redrawn alone they stay."""
        cells = [set(subset.index.tolist()) for subset in self.subsets]
        return np.array([all(j in self.fixed and not cell & set(self.fixed[j]) for j in cell) for cell in cells], bool)

    def layers(self, inputs: int) -> Layers | None:
        """Return the layers of so many inputs; None: there is one only."""
        return layers_of_table(self.resolution, self.parent, inputs) if np.ptp(self.resolution) else None

    @property
    def root(self) -> int | None:
        return 0 if len(self.resolution) and self.parent[0] < 0 and self.subsets[0].name == ALL else None


def column_tree(table: Table, still: Bools | None = None, fixed: Mapping[int, Cell] | None = None) -> ColumnTree:
    """Return the tree of the columns of a reference: cuts of average linkage on the association of columns.

    Numbers are associated by |Spearman's correlation|, categories by Cramer's V, one with the other by the correlation
    ratio. It is made from the reference only: a tree that looked at the inputs would choose groups by what they hold.
    Columns that stand `still` (d,), with one value in reference and inputs, are in the root only: redrawn they stay.
    Columns that are `fixed` by others are never parted from them.
    """
    width = len(table.columns)
    moving = np.arange(width) if still is None else np.flatnonzero(~still)
    single = fixed_cells(fixed or {}, moving)
    linked = len(single) > 2 and len(moving) <= MOST_LINKED
    strength = associations(table) if linked else None
    cells: list[list[Cell]] = [[tuple(range(width))], *_cuts(table, moving, single, strength), single]
    subsets: list[Subset] = []
    resolution, parent = list[int](), list[int]()
    known: set[Cell] = set()
    holder = np.full(width, -1)  # the smallest subset so far that a column is in: cuts lie inside each other
    for layer in cells:
        fresh = [cell for cell in layer if cell not in known]
        level, first = max(resolution, default=-1) + 1, len(subsets)
        for cell in fresh:
            subsets.append(Subset(_key(table, cell, moving), np.array(cell)))
            resolution.append(level)
            parent.append(int(holder[cell[0]]))
        for position, cell in enumerate(fresh, start=first):
            holder[list(cell)] = position
        known.update(fresh)
    root, *rest = unique(subsets)
    named = [Subset(_name(table, one.index, moving, strength), one.index, one.name) for one in rest]
    return ColumnTree(unique([root, *named]), np.array(resolution), np.array(parent), fixed or {})


def stand_still(reference: Array, inputs: Array) -> Bools:
    """Return which columns (d,) have one value in all rows of both (m, d), (n, d); a missing value is a value.

    >>> stand_still(np.array([[1.0, 2], [1, 2]]), np.array([[1.0, 3]])).tolist()
    [True, False]
    """
    first, still = reference[:1], np.ones(reference.shape[1], bool)
    for part in (reference, inputs):
        still &= ((part == first) | (np.isnan(part) & np.isnan(first))).all(axis=0)
    return still


def _linkage(strength: Floats) -> Any:
    from scipy.cluster.hierarchy import linkage

    return linkage((1 - strength)[np.triu_indices(len(strength), 1)], "average")


def _linked(strength: Floats, least: float) -> list[Ints]:
    """Return groups of columns that are associated at least so strongly, single ones among them."""
    from scipy.cluster.hierarchy import fcluster

    labels = fcluster(_linkage(strength), 1 - least, "distance")
    return [np.flatnonzero(labels == label) for label in dict.fromkeys(labels.tolist())]


def _cuts(table: Table, columns: Ints, together: Sequence[Cell], strength: Floats | None) -> list[list[Cell]]:
    from scipy.cluster.hierarchy import fcluster

    width = len(columns)
    if len(together) < 3:
        return []
    order = np.array(sorted(columns.tolist(), key=lambda j: table.columns[j]))  # it goes by names, not by positions
    linked, nearest = order, np.arange(width)
    if width > MOST_LINKED:
        linked = order[:: -(-width // MOST_LINKED)]
        nearest = _nearest(table, order, linked)
    if strength is None:
        strength = associations(table, linked)
    else:
        for cell in together:
            strength[np.ix_(cell, cell)] = 1.0
        strength = strength[np.ix_(order, order)]
    tree = _linkage(strength)
    cuts = []
    for count in (count for count in CUTS if count < len(together)):
        labels = fcluster(tree, count, "maxclust")[nearest]  # merges at one distance stay together
        firsts = np.sort(np.unique(labels, return_index=True)[1])
        cuts.append([tuple(sorted(order[labels == labels[first]].tolist())) for first in firsts])
    return cuts


def stand_ins(table: Table, least: float = 0.8) -> list[list[str]]:
    """Return groups of columns that are so strongly associated that they repeat each other; none of wide tables.

    >>> import butfor
    >>> rows = np.arange(20.0)[:, None] * [1, 2] + [[0, 0]]
    >>> stand_ins(butfor.tabular.table.as_table(rows, "reference"))
    [['x0', 'x1']]
    """
    if not 2 <= len(table.columns) <= MOST_COMPARED:
        return []
    return [[table.columns[j] for j in group] for group in _linked(associations(table), least) if len(group) > 1]


TOLD = 0.5  # association from which columns are tested as a group


def told_groups(table: Table) -> list[Subset]:
    """Return groups of columns that tell each other, so that one hides the others; none of wide tables.

    Average linkage of |Spearman's correlation| or of the partial correlation given all other columns, whichever is
    larger: a column that is nearly a sum of others may have no strong correlation with any of them.

    >>> import butfor
    >>> rng = np.random.default_rng(0)
    >>> total = (parts := rng.normal(size=(200, 3))).sum(axis=1) + 0.1 * rng.normal(size=200)
    >>> rows = np.column_stack([parts, total, rng.normal(size=200)])
    >>> [group.name for group in told_groups(butfor.tabular.table.as_table(rows, "reference"))]
    ['x0, x1, x2, x3']
    """
    width = len(table.columns)
    if not 3 <= width <= MOST_COMPARED:
        return []
    strength, rows = associations(table), table.values.astype(np.float64)
    numbers = np.array([j for j in range(width) if table.kinds[j].kind != "category"], np.int64)
    centred = np.nan_to_num(rows[:, numbers] - np.nanmean(rows[:, numbers], axis=0))
    length = np.sqrt((centred**2).sum(axis=0))
    centred /= np.where(length > 0, length, 1.0)
    inverse = np.linalg.inv(centred.T @ centred + 0.1 * len(numbers) / len(rows) * np.eye(len(numbers)))
    scale, both = np.sqrt(np.diag(inverse)), np.ix_(numbers, numbers)
    strength[both] = np.clip(np.maximum(strength[both], np.abs(inverse) / np.outer(scale, scale)), 0, 1)
    groups = []
    for cell in (cell for cell in _linked(strength, TOLD) if 1 < len(cell) < width):
        names = [table.columns[j] for j in cell]
        more = f" and {len(names) - MOST_KEYED} more" if len(names) > MOST_KEYED else ""
        groups.append(Subset(f"{', '.join(names[:MOST_KEYED])}{more}", cell))
    every = np.arange(width)
    return unique([Subset(_name(table, one.index, every, strength), one.index, one.name) for one in unique(groups)])


def _name(table: Table, cell: Ints, moving: Ints, strength: Floats | None = None) -> str:
    """Return what a group of columns is called: its columns, all but a few, or how many and the one that leads them.

    That one is associated most with the others, by `strength` (d, d). A word that all of them begin or end with, and
    not every column of the table, is part of the name.

    >>> import pandas as pd, butfor
    >>> names = [f"{kind} {part}" for kind in ("mean", "worst") for part in ("area", "bend", "cut", "dip", "edge")]
    >>> table = butfor.tabular.table.as_table(pd.DataFrame(np.zeros((1, 10)), columns=names), "reference")
    >>> [_name(table, np.arange(*ends), np.arange(10)) for ends in ((1, 3), (5, 10), (1, 6), (0, 8))]
    ['mean bend, mean cut', 'all 5 worst columns', '5 columns led by mean bend', 'all but worst dip, worst edge']
    """
    names = sorted(table.columns[j] for j in cell)
    if len(names) <= MOST_NAMED or len(", ".join(names)) <= SHORT:
        return ", ".join(names)
    others = sorted({table.columns[j] for j in moving.tolist()} - set(names))
    if not others:
        return "all columns that vary" if len(names) < len(table.columns) else f"all {len(names)} columns"
    if len(others) < MOST_NAMED:
        return f"all but {', '.join(others)}"
    lead, words = names[0], [re.split("[ _]+", name) for name in table.columns]
    if strength is not None:
        order = np.array([table.columns.index(name) for name in names])
        lead = names[int(strength[np.ix_(order, order)].sum(axis=1).round(6).argmax())]
    for place in (0, -1):
        alike = [words[j][place] for j in cell]
        count = sum(len(one) > 1 and one[place] == alike[0] for one in words)
        if len(set(alike)) == 1 and alike[0].isalpha() and len(names) <= count < len(words):
            known = f"{alike[0]} columns"
            return f"all {count} {known}" if len(names) == count else f"{len(names)} {known} led by {lead}"
    return f"{len(names)} columns led by {lead}"


def single_subsets(table: Table, cells: Sequence[Cell]) -> list[Subset]:
    """Return every column by itself, but those that fix each other together."""
    every = np.arange(len(table.columns))
    keys = [", ".join(sorted(table.columns[j] for j in cell)) for cell in cells]
    named = zip(cells, keys, strict=True)
    return unique([Subset(_name(table, np.array(cell), every), np.array(cell), key) for cell, key in named])


def _key(table: Table, cell: Sequence[int], moving: Ints) -> str:
    """Return what the random numbers of a group are drawn by: a name that groups had once."""
    if len(cell) == len(table.columns):
        return ALL if len(cell) > 1 else table.columns[0]
    names = sorted(table.columns[j] for j in cell)
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    inside = set(cell)
    others = sorted(table.columns[j] for j in moving.tolist() if j not in inside)
    if len(others) < min(len(names), MOST_NAMED):
        return f"all but {', '.join(others)}"
    return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"


def _nearest(table: Table, order: Ints, linked: Ints) -> Ints:
    """Return the position among `linked` of the column that each of `order` is most associated with."""
    nearest = np.empty(len(order), np.int64)
    for start in range(0, len(order), MOST_LINKED // 2):
        part = order[start : start + MOST_LINKED // 2]
        both = associations(table, np.concatenate([part, linked]))[: len(part), len(part) :]
        nearest[start : start + len(part)] = both.argmax(axis=1)
    itself = {column: position for position, column in enumerate(linked.tolist())}
    return np.array([itself.get(column, other) for column, other in zip(order.tolist(), nearest.tolist(), strict=True)])


def associations(table: Table, columns: Ints | None = None) -> Floats:
    """Return how strongly columns are associated (d, d), between 0 and 1, and 1 on the diagonal."""
    columns = np.arange(len(table.columns)) if columns is None else columns
    values = table.values[:: -(-len(table.values) // MOST_ROWS)][:, columns].astype(np.float64)
    category = np.array([table.kinds[j].kind == "category" for j in columns])
    ranks = np.column_stack([_ranked(column) for column in values.T])
    known = np.zeros((len(category), len(category)))
    numbers, categories = np.flatnonzero(~category), np.flatnonzero(category)
    if numbers.size:
        known[np.ix_(numbers, numbers)] = np.abs(ranks[:, numbers].T @ ranks[:, numbers])
    codes = {j: np.unique(values[:, j], return_inverse=True)[1].reshape(-1) for j in categories}  # all NaN are one
    for j in categories:
        size = np.bincount(codes[j])  # the correlation ratio eta: the share of a number's spread that j explains
        means = np.array([np.bincount(codes[j], weights=column) for column in ranks[:, numbers].T]) / size
        known[j, numbers] = known[numbers, j] = np.sqrt((means**2 * size).sum(axis=-1))
        for k in categories[categories < j]:
            known[j, k] = known[k, j] = _cramer(codes[j], codes[k])
    np.fill_diagonal(known, 1.0)
    return np.clip(known, 0, 1)


def _ranked(column: Floats) -> Floats:
    """Return the ranks of a column, centred and of length 1; missing values are in the middle, constants all 0."""
    present = ~np.isnan(column)
    _, position, count = np.unique(column[present], return_inverse=True, return_counts=True)
    ranks = np.zeros(len(column))
    ranks[present] = (np.cumsum(count) - count / 2)[position.reshape(-1)]  # equal values share the mean of their ranks
    ranks[present] -= ranks[present].mean() if present.any() else 0.0
    length = float(np.sqrt(ranks @ ranks))
    return ranks / length if length > 0 else ranks


def _cramer(one: Ints, two: Ints) -> float:
    counts = np.zeros((int(one.max()) + 1, int(two.max()) + 1))
    np.add.at(counts, (one, two), 1)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(one)
    least = min(counts.shape) - 1
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / len(one) / least)) if least > 0 else 0.0


def named_tree(table: Table, given: Mapping[object, object]) -> ColumnTree:
    """Return the user's own tree: a mapping of names to columns, lists of columns, or mappings of the same kind."""
    subsets: list[Subset] = []
    resolution, parent = list[int](), list[int]()

    def grow(branch: Mapping[object, object], level: int, above: int) -> None:
        for name, inner in branch.items():
            subsets.append(Subset(str(name), np.array(sorted(_leaves(table, inner)))))
            resolution.append(level)
            parent.append(above)
            if isinstance(inner, Mapping) and len(inner) > 1:
                grow(inner, level + 1, len(subsets) - 1)

    if not given:
        raise InputError("subsets is an empty mapping; name at least one group of columns")
    if len(_leaves(table, given)) == len(table.columns) and len(given) > 1:
        grow({ALL: given}, 0, -1)
    else:
        grow(given, 1, -1)
    return ColumnTree(unique(subsets), np.array(resolution), np.array(parent))


def _leaves(table: Table, inner: object) -> list[int]:
    if not isinstance(inner, Mapping):
        return positions_of(table, inner)
    columns = [column for part in inner.values() for column in _leaves(table, part)]
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise InputError(f"column {table.columns[twice]!r} is in two branches of subsets; put it into one of them")
    return columns


def is_nested(subsets: object) -> bool:
    return isinstance(subsets, Mapping) and any(isinstance(inner, Mapping) for inner in subsets.values())
