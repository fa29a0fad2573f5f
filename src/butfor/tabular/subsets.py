"""What to test in a table: single columns, lists of columns, or named groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from butfor.evaluation.hypotheses import unique
from butfor.inference.selection import Layers, layers_of_table
from butfor.tabular.table import Table
from butfor.types import Array, Bools, Floats, InputError, Ints, Subset


def column_subsets(table: Table, subsets: object) -> list[Subset]:
    """Subsets by column name or position; None is every column by itself.

    A list entry is one column or a list of columns; a mapping gives each group its name.
    """
    if subsets is None:
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
    _check_disjoint(table, groups)
    return [Subset(name, np.array(positions)) for name, positions in groups.items()]


def positions_of(table: Table, entry: object) -> list[int]:
    """Where the columns of one entry stand: a name or position, or a list of them."""
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


def _check_disjoint(table: Table, groups: Mapping[str, list[int]]) -> None:
    owner: dict[int, str] = {}
    for name, positions in groups.items():
        for position in positions:
            if position in owner:
                raise InputError(
                    f"column {table.columns[position]!r} is in subset {owner[position]!r} and in {name!r}; subsets of "
                    "one run may not overlap: drop it from one of them, or make two runs"
                )
            owner[position] = name


Merge = tuple[float, int, int]  # at which distance which two clusters become one, each named by one of its members


def average_linkage(distances: Floats) -> list[Merge]:
    """The merges of average linkage on distances (n, n), from the nearest to the farthest.

    By chains of nearest neighbours (Murtagh 1983), in O(n^2); ties are broken as SciPy breaks them.

    >>> average_linkage(np.array([[0.0, 1, 4], [1, 0, 4], [4, 4, 0]]))
    [(1.0, 0, 1), (4.0, 1, 2)]
    """
    between = distances.astype(np.float64)
    np.fill_diagonal(between, np.inf)
    size, chain, merges = np.ones(len(between)), list[int](), list[Merge]()
    while len(merges) < len(between) - 1:
        if not chain:
            chain.append(int(np.flatnonzero(size)[0]))
        while True:
            own = between[chain[-1]]
            nearest = int(own.argmin())
            if len(chain) > 1 and own[chain[-2]] <= own[nearest]:  # the one before is preferred where others tie
                break
            chain.append(nearest)
        gone, left = sorted((chain.pop(), chain.pop()))
        merges.append((float(between[gone, left]), gone, left))
        both = size[gone] + size[left]
        joined = (size[gone] * between[gone] + size[left] * between[left]) / both
        joined[left] = np.inf
        between[left] = between[:, left] = joined
        between[gone] = between[:, gone] = np.inf
        size[gone], size[left] = 0.0, both
    return sorted(merges, key=lambda merge: merge[0])  # stable


def cut(merges: list[Merge], count: int) -> Ints:
    """The cluster (n,) of every member when at most `count` clusters are left; merges at one distance stay together.

    >>> cut([(1.0, 0, 1), (4.0, 1, 2)], 2).tolist()
    [1, 1, 2]
    """
    members = len(merges) + 1
    label = np.arange(members)
    farthest = merges[members - count - 1][0] if count < members else -np.inf
    for distance, one, other in merges:
        if distance <= farthest:
            label[label == label[one]] = label[other]
    return label


CUTS = (2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # groups of each resolution between all columns and single ones
MOST_LINKED = 2_000  # columns that the tree is grown from; the others join the one of these they go with most
MOST_ROWS = 5_000  # of the reference, from which the tree is made
MOST_COMPARED = 500  # columns of a table in which stand-ins are looked for
ALL = "all columns"
Cell = tuple[int, ...]  # columns
MOST_NAMED = 4  # columns in the name of a group


@dataclass(frozen=True, eq=False)
class ColumnTree:
    """Subsets, each with its resolution (0: all columns) and the place of that which it is a part of (-1: none)."""

    subsets: list[Subset]
    resolution: Ints  # (S,)
    parent: Ints  # (S,)

    def layers(self, inputs: int) -> Layers | None:
        """The layers of so many inputs; None: there is one only."""
        return layers_of_table(self.resolution, self.parent, inputs) if np.ptp(self.resolution) else None

    @property
    def root(self) -> int | None:
        """Where the subset of all columns stands."""
        return 0 if len(self.resolution) and self.parent[0] < 0 and self.subsets[0].name == ALL else None


def column_tree(table: Table, still: Bools | None = None) -> ColumnTree:
    """The tree of the columns of a reference: cuts of average linkage on how strongly columns go together.

    Numbers go together by |Spearman's correlation|, categories by Cramer's V, one with the other by the correlation
    ratio. It is made from the reference only: a tree that looked at the inputs would choose groups by what they hold.
    Columns that stand `still` (d,), with one value in reference and inputs, are in the root only: redrawn they stay.
    """
    width = len(table.columns)
    moving = np.arange(width) if still is None else np.flatnonzero(~still)
    single: list[Cell] = [(j,) for j in moving.tolist()]
    cells: list[list[Cell]] = [[tuple(range(width))], *_cuts(table, moving), single]
    subsets: list[tuple[Cell, int, int]] = []  # columns, resolution, parent
    place: dict[Cell, int] = {}
    holder = np.full(width, -1)  # the smallest subset so far that a column is in: cuts lie inside each other
    level = 0
    for layer in cells:
        fresh = [cell for cell in layer if cell not in place]
        for cell in fresh:
            place[cell] = len(subsets)
            subsets.append((cell, level, int(holder[cell[0]])))
        for cell in fresh:
            holder[list(cell)] = place[cell]
        level += bool(fresh)
    names = [_name(table, cell, moving) for cell, _, _ in subsets]
    made = unique(Subset(name, np.array(cell)) for name, (cell, _, _) in zip(names, subsets, strict=True))
    return ColumnTree(made, np.array([at for _, at, _ in subsets]), np.array([above for _, _, above in subsets]))


def stand_still(reference: Array, inputs: Array) -> Bools:
    """Columns (d,) with one value in all rows of both (m, d), (n, d); a missing value is a value.

    >>> stand_still(np.array([[1.0, 2], [1, 2]]), np.array([[1.0, 3]])).tolist()
    [True, False]
    """
    first, still = reference[:1], np.ones(reference.shape[1], bool)
    for part in (reference, inputs):
        still &= ((part == first) | (np.isnan(part) & np.isnan(first))).all(axis=0)
    return still


def _cuts(table: Table, columns: Ints) -> list[list[Cell]]:
    width = len(columns)
    if width < 3:
        return []
    order = np.array(sorted(columns.tolist(), key=lambda j: table.columns[j]))  # it goes by names, not by places
    linked, nearest = order, np.arange(width)
    if width > MOST_LINKED:
        linked = order[:: -(-width // MOST_LINKED)]
        nearest = _nearest(table, order, linked)
    strength = associations(table)[np.ix_(order, order)] if linked is order else associations(table, linked)
    tree = average_linkage(1 - strength)
    found = []
    for count in (count for count in CUTS if count < width):
        labels = cut(tree, count)[nearest]
        firsts = np.sort(np.unique(labels, return_index=True)[1])
        found.append([tuple(sorted(order[labels == labels[first]].tolist())) for first in firsts])
    return found


def stand_ins(table: Table, least: float = 0.8) -> list[list[str]]:
    """Groups of columns that go together so strongly (average linkage) that they tell each other; none of wide tables.

    >>> import butfor
    >>> rows = np.arange(20.0)[:, None] * [1, 2] + [[0, 0]]
    >>> stand_ins(butfor.tabular.table.as_table(rows, "reference"))
    [['x0', 'x1']]
    """
    width = len(table.columns)
    if not 2 <= width <= MOST_COMPARED:
        return []
    label = np.arange(width)
    for distance, one, other in average_linkage(1 - associations(table)):
        if distance <= 1 - least:
            label[label == label[one]] = label[other]
    groups = [np.flatnonzero(label == own) for own in dict.fromkeys(label.tolist())]
    return [[table.columns[j] for j in group] for group in groups if len(group) > 1]


def _name(table: Table, cell: Sequence[int], moving: Ints) -> str:
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
    """Where the column is among those linked that each column goes with most, in `order`: of a very wide table."""
    found = np.empty(len(order), np.int64)
    for start in range(0, len(order), MOST_LINKED // 2):
        some = order[start : start + MOST_LINKED // 2]
        both = associations(table, np.concatenate([some, linked]))[: len(some), len(some) :]
        found[start : start + len(some)] = both.argmax(axis=1)
    own = {column: place for place, column in enumerate(linked.tolist())}
    return np.array([own.get(column, place) for column, place in zip(order.tolist(), found.tolist(), strict=True)])


def associations(table: Table, columns: Ints | None = None) -> Floats:
    """How strongly columns go together (d, d), between 0 and 1, and 1 on the diagonal."""
    columns = np.arange(len(table.columns)) if columns is None else columns
    values = table.values[:: -(-len(table.values) // MOST_ROWS)][:, columns].astype(np.float64)
    category = np.array([table.kinds[j].kind == "category" for j in columns])
    ranks = np.column_stack([_ranked(column) for column in values.T])
    known = np.zeros((len(category), len(category)))
    numbers, categories = np.flatnonzero(~category), np.flatnonzero(category)
    if numbers.size:
        known[np.ix_(numbers, numbers)] = np.abs(ranks[:, numbers].T @ ranks[:, numbers])
    for j in categories:
        codes = np.unique(np.nan_to_num(values[:, j], nan=-1), return_inverse=True)[1].reshape(-1)
        known[j, numbers] = known[numbers, j] = _correlation_ratio(codes, ranks[:, numbers])
        for k in categories[categories < j]:
            other = np.unique(np.nan_to_num(values[:, k], nan=-1), return_inverse=True)[1].reshape(-1)
            known[j, k] = known[k, j] = _cramer(codes, other)
    np.fill_diagonal(known, 1.0)
    return np.clip(known, 0, 1)


def _ranked(column: Floats) -> Floats:
    """Ranks of a column, centred and of length 1; a missing value is in the middle, a constant column all 0."""
    held = ~np.isnan(column)
    _, place, count = np.unique(column[held], return_inverse=True, return_counts=True)
    ranks = np.zeros(len(column))
    ranks[held] = (np.cumsum(count) - count / 2)[place.reshape(-1)]  # equal values share the mean of their ranks
    ranks[held] -= ranks[held].mean() if held.any() else 0.0
    length = float(np.sqrt(ranks @ ranks))
    return ranks / length if length > 0 else ranks


def _correlation_ratio(codes: Ints, ranks: Floats) -> Floats:
    """eta (columns,): how much of the spread of each number its category explains."""
    size = np.bincount(codes)
    means = np.array([np.bincount(codes, weights=column) for column in ranks.T]) / size
    return np.asarray(np.sqrt((means**2 * size).sum(axis=1)))


def _cramer(one: Ints, two: Ints) -> float:
    counts = np.zeros((int(one.max()) + 1, int(two.max()) + 1))
    np.add.at(counts, (one, two), 1)
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(one)
    least = min(counts.shape) - 1
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / len(one) / least)) if least > 0 else 0.0


def named_tree(table: Table, given: Mapping[object, object]) -> ColumnTree:
    """The user's own tree: a mapping of names to columns, lists of columns, or mappings of the same kind."""
    subsets: list[Subset] = []
    resolution: list[int] = []
    parent: list[int] = []

    def add(name: str, columns: list[int], level: int, above: int) -> int:
        subsets.append(Subset(name, np.array(sorted(columns))))
        resolution.append(level)
        parent.append(above)
        return len(subsets) - 1

    def grow(branch: Mapping[object, object], level: int, above: int) -> None:
        for name, inner in branch.items():
            columns = _leaves(table, inner)
            own = add(str(name), columns, level, above)
            if isinstance(inner, Mapping) and len(inner) > 1:
                grow(inner, level + 1, own)

    if not given:
        raise InputError("subsets is an empty mapping; name at least one group of columns")
    everything = _leaves(table, given)
    whole = len(everything) == len(table.columns) and len(given) > 1
    grow(given, 1, add(ALL, everything, 0, -1) if whole else -1)
    return ColumnTree(unique(subsets), np.array(resolution), np.array(parent))


def _leaves(table: Table, inner: object) -> list[int]:
    """The columns of a branch, each once."""
    if not isinstance(inner, Mapping):
        return positions_of(table, inner)
    found = [column for part in inner.values() for column in _leaves(table, part)]
    if len(set(found)) < len(found):
        twice = next(column for column in found if found.count(column) > 1)
        raise InputError(f"column {table.columns[twice]!r} is in two branches of subsets; put it into one of them")
    return found


def is_nested(subsets: object) -> bool:
    """Whether it is a mapping of mappings: a tree."""
    return isinstance(subsets, Mapping) and any(isinstance(inner, Mapping) for inner in subsets.values())
