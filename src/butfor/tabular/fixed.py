"""Columns that other columns fix: sums, ratios, products, codes of one thing (METHODS 18 d).

Redrawn alone such a column stays where it is, or leaves what can be: "but for bmi, given height and weight" has no
answer. It is tested together with the fewest columns that fix it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations

import numpy as np

from butfor.streams import stream
from butfor.tabular.table import Table
from butfor.types import Array, Bools, Floats, Ints

NEARLY, EXACTLY = 0.98, 0.9999  # left-out R^2: of at most three columns, and of any number of them
MOST_FIXING = 3
LEAST_ROWS, MOST_ROWS = 20, 1_000
MOST_COLUMNS, MOST_PAIRED = 300, 40  # of tables in which it is looked for, and of those in which pairs are
LEAST_OF_LEVEL = 5  # rows; fewer could be told by chance
Cell = tuple[int, ...]  # columns


def fixed_columns(table: Table) -> dict[int, Cell]:
    """Return each column that others fix, with the fewest that do: by straight, log-log or product forms, or by levels.

    >>> import butfor
    >>> weight, height, age = np.random.default_rng(0).uniform(1, 2, size=(3, 200))
    >>> rows = np.column_stack([weight / height**2, height, weight, age])
    >>> fixed_columns(butfor.tabular.table.as_table(rows, "reference"))
    {0: (1, 2), 1: (0, 2), 2: (0, 1)}
    """
    size, width = table.values.shape
    if size < LEAST_ROWS or not 2 <= width <= MOST_COLUMNS:
        return {}
    values = table.values[stream(0, "fixed").permutation(size)[:MOST_ROWS]].astype(np.float64)
    category = [column.kind == "category" for column in table.kinds]
    numbers, fixed = np.flatnonzero(~np.array(category)), dict[int, Cell]()
    for targets, features, sources in _forms(values, numbers) if numbers.size else ():
        z = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-300)
        paired = len(sources) > len(numbers)
        exact = np.zeros(len(numbers), bool) if paired else _exact(z)
        for place, j in enumerate(numbers.tolist()):
            if np.ptp(targets[:, place]) > 0 and not (paired and j in fixed):
                others = np.flatnonzero([j not in source for source in sources])
                cell = _fewest(targets[:, place], z, sources, others, bool(exact[place]))
                if cell is not None and len(cell) < len(fixed.get(j, range(width))):
                    fixed[j] = cell
    for j, k in permutations(range(width), 2) if width <= MOST_PAIRED else ():
        if j not in fixed and _function_of(values[:, j], values[:, k], category[j], category[k]):
            fixed[j] = (k,)
    return dict(sorted(fixed.items()))


def _forms(values: Floats, numbers: Ints) -> Iterator[tuple[Floats, Floats, list[Cell]]]:
    """Yield numbers as targets (n, k), features (n, f), and the columns that each feature is made of."""
    raw = values[:, numbers]
    count = np.maximum((~np.isnan(raw)).sum(axis=0), 1)
    raw = np.where(np.isnan(raw), np.nansum(raw, axis=0) / count, raw)
    single: list[Cell] = [(j,) for j in numbers.tolist()]
    yield raw, raw, single
    positive = np.asarray((raw > 0).all(axis=0))
    logs = np.where(positive, np.log(np.where(positive, raw, 1.0)), raw)
    yield logs, logs, single
    if 2 < len(numbers) <= MOST_PAIRED:
        pairs = list(combinations(range(len(numbers)), 2))
        ratios = [(a, b) for a, b in permutations(range(len(numbers)), 2) if positive[b]]
        made = [raw[:, a] * raw[:, b] for a, b in pairs] + [raw[:, a] / raw[:, b] for a, b in ratios]
        single += [(int(numbers[a]), int(numbers[b])) for a, b in (*pairs, *ratios)]
        yield raw, np.column_stack([raw, *made]), single


def _exact(z: Floats) -> Bools:
    """Return which columns (d,) a linear function of all others gives exactly in rows left out.

    Residuals are those of the regression on the others: Z P / diag P, P the inverse of Z'Z.
    """
    half, width = len(z) // 2, z.shape[1]
    if half <= width:
        return np.zeros(width, bool)
    precision = np.linalg.inv(z[:half].T @ z[:half] + 1e-9 * half * np.eye(width))
    error = z[half:] @ precision / np.diag(precision)
    return np.asarray((error**2).mean(axis=0) < 1 - EXACTLY)


def _fewest(target: Floats, z: Floats, sources: Sequence[Cell], others: Ints, exact: bool) -> Cell | None:
    """Return the columns of a forward choice among features that fixes the target in rows left out; None: none does."""
    half = len(target) // 2
    left_out = target[half:]
    low, high = np.quantile(left_out, [0.05, 0.95])
    middle = (low <= left_out) & (left_out <= high)  # a few rows far away do not make a fit good
    parts = [part for part in (np.ones(len(left_out), bool), middle) if np.ptp(left_out[part]) > 0]

    def residuals(chosen: Sequence[int] | Ints) -> Floats:
        design = np.column_stack([np.ones(len(target)), z[:, chosen]])
        return np.asarray(target - design @ np.linalg.lstsq(design[:half], target[:half], rcond=None)[0])

    def unexplained(chosen: Sequence[int] | Ints) -> float:
        error = residuals(chosen)[half:]
        return max((float((error[part] ** 2).mean() / left_out[part].var()) for part in parts), default=1.0)

    def columns(chosen: Sequence[int]) -> Cell:
        return tuple(sorted({j for k in chosen for j in sources[k]}))

    def enough(chosen: Sequence[int]) -> bool:
        return unexplained(chosen) < 1 - (NEARLY if len(columns(chosen)) <= MOST_FIXING else EXACTLY)

    chosen: list[int] = []
    while not enough(chosen):
        if len(chosen) == (len(others) if exact else min(MOST_FIXING, len(others))):
            return None
        near = np.abs(z[:half, others].T @ residuals(chosen)[:half])
        near[np.isin(others, chosen)] = -1.0
        chosen.append(int(others[near.argmax()]))
    for one in list(chosen):  # what does not halve the unexplained share has no part in it
        rest = [k for k in chosen if k != one]
        chosen = rest if enough(rest) or unexplained(rest) < 2 * unexplained(chosen) else chosen
    return columns(chosen) if enough(chosen) else None


def _function_of(column: Array, by: Array, is_category: bool, by_category: bool) -> bool:
    """Tell whether a column is a function of another one: of the levels of a category, or of cuts of a number."""
    present = ~(np.isnan(column) | np.isnan(by))
    levels, label, count = np.unique(column[present], return_inverse=True, return_counts=True)
    groups, group, size = np.unique(by[present], return_inverse=True, return_counts=True)
    if len(levels) < 2:
        return False
    few = bool(count.min() >= LEAST_OF_LEVEL)
    if not by_category:
        ordered = label[np.lexsort((label, by[present]))]
        return few and int((np.diff(ordered) != 0).sum()) == len(levels) - 1 < len(groups) - 1
    if size.min() < 2 or len(groups) * LEAST_OF_LEVEL > len(group):
        return False
    if is_category:
        table = np.zeros((len(groups), len(levels)))
        np.add.at(table, (group, label), 1)
        return few and bool(len(label) - table.max(axis=1).sum() < (1 - NEARLY) * (len(label) - count.max()))
    error = (column[present] - (np.bincount(group, column[present]) / size)[group]) * (size / (size - 1))[group]
    return bool((error**2).mean() < (1 - NEARLY) * column[present].var())


def fixed_cells(fixed: Mapping[int, Cell], columns: Ints) -> list[Cell]:
    """Return these columns (k,) in cells: what is fixed with what fixes it, all others by themselves.

    >>> fixed_cells({0: (1, 2), 4: (3,)}, np.arange(6))
    [(0, 1, 2), (3, 4), (5,)]
    """
    cell_of = {j: {j} for j in columns.tolist()}
    for j, others in fixed.items():
        joined = set[int]().union(*(cell_of[k] for k in (j, *others) if k in cell_of))
        cell_of |= dict.fromkeys(joined, joined)
    return list(dict.fromkeys(tuple(sorted(cell)) for cell in cell_of.values()))
