"""The strongest reasons of one input: what its decision hangs on, then what is established (METHODS 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from butfor.core.types import Array, Bools, Floats, Ints

if TYPE_CHECKING:
    from butfor.core.result.result import Result


def reasons(result: Result, place: int, k: int) -> dict[str, Array]:
    """Columns of a table with at most `k` rows for the input at `place`: strongest first within each class of them."""
    from butfor.core.result.table import names_column

    rows = _strongest(result, np.flatnonzero(result.input_of == place))[:k]
    table = result.table.iloc[rows]
    words = [_sentence(result, int(row)) for row in rows]
    kept = [
        name
        for name in ("subset", "value", "effect", "effect_low", "effect_high", "surprise", "status")
        if name in table
    ]
    kept += [name for name in ("flip", "flip_low", "flip_high", "necessary") if name in table]
    found = {name: table[name].to_numpy() for name in kept}
    found["order"] = _order(result, rows)
    found["sentence"] = names_column(tuple(words))
    return found


def _strongest(result: Result, own: Ints) -> Ints:
    """Of the hypotheses of one input: what is established, strongest first, and then the finest parts that are not.

    Those are listed beside a group that is established, too: which of its parts come near is what is asked next.
    """
    decided, effect = result.decided, result.effects.effect[own]
    share = np.zeros(len(own)) if decided is None else np.nan_to_num(decided.share[own])
    kinds = _class(result)[own]
    order = np.lexsort((-np.abs(np.nan_to_num(effect)), -share, -kinds))
    sure = kinds[order] > 0
    known = np.isfinite(result.effects.effect) | (False if decided is None else np.isfinite(decided.share))
    near = finest_of(result, known)[own[order]] if known[own].any() else ~sure
    found = own[order[sure]]
    return np.concatenate([found[_apart(result, found)], own[order[~sure & near]]])


def _class(result: Result) -> Ints:
    """2: necessary to the decision; 1: established; 0: neither. Of each the finest parts."""
    return np.asarray(np.where(_needed(result) > 0, 2, finest_of(result, result.chosen)), np.int64)


def _needed(result: Result) -> Floats:
    """How often the decision would have been otherwise (H,), of what it is established to hang on; else 0."""
    if result.decided is None:
        return np.zeros(len(result.chosen))
    return np.where(finest_of(result, result.decided.necessary), np.nan_to_num(result.decided.share), 0.0)


def finest_of(result: Result, marked: Bools) -> Bools:
    """Those marked (H,) of which no part is marked."""
    layers = result.problem.layers
    return marked if layers is None else layers.finest(marked)


def _apart(result: Result, rows: Ints) -> Bools:
    """Leaves out what is a part of, or has as a part, a stronger reason that is listed already."""
    layers = result.problem.layers
    if layers is None:
        return np.ones(len(rows), bool)
    taken: set[int] = set()
    keep = []
    for row in rows.tolist():
        line, above = [row], int(layers.parent[row])
        while above >= 0:
            line.append(above)
            above = int(layers.parent[above])
        keep.append(not taken & set(line) and not any(row in _line(layers.parent, other) for other in taken))
        if keep[-1]:
            taken.add(row)
    return np.array(keep, bool)


def _line(parent: Ints, row: int) -> set[int]:
    found = set()
    while row >= 0:
        found.add(row)
        row = int(parent[row])
    return found


def _order(result: Result, rows: Ints) -> Array:
    """Whether each reason is sure to be stronger than the next: their intervals, widened for all of them, are apart."""
    words = np.full(len(rows), "not established", dtype=object)
    effect, low, high = (part[rows] for part in (result.effects.effect, result.effects.low, result.effects.high))
    wider = _widened(len(rows))
    least = np.maximum(np.abs(effect) - wider * (high - low) / 2, 0)
    most = np.abs(effect) + wider * (high - low) / 2
    for i in range(len(rows) - 1):
        if least[i] > np.nanmax(most[i + 1 :], initial=-np.inf):
            words[i] = "established"
    return words


def _widened(k: int) -> float:
    """By how much 95 % intervals grow to hold for k of them together (Bonferroni)."""
    from scipy.special import ndtri

    return float(ndtri(1 - 0.025 / max(1, k)) / ndtri(0.975))


def _sentence(result: Result, row: int) -> str:
    name = result.subset_names[int(result.subset_of[row])]
    effect, status = result.effects.effect[row], "established" if result.chosen[row] else "not established"
    words = f"{name}: moves the output by {effect:+.3g} ({status})" if np.isfinite(effect) else f"{name} ({status})"
    return words + (
        "" if result.decided is None else "; " + flip_sentence(result, row)[:1].lower() + flip_sentence(result, row)[1:]
    )


CALLED = {
    "image": "the image would have been called something else in {ways} % of its fills",
    "text": "the text would have been called something else in {ways} % of its fills",
}


def flip_sentence(result: Result, row: int) -> str:
    """In words: how often the decision would have been otherwise, but for a subset."""
    decided = result.decided
    assert decided is not None
    name = result.subset_names[int(result.subset_of[row])]
    name = f"the columns other than {name.removeprefix('all but ')}" if name.startswith("all but ") else name
    if not np.isfinite(decided.share[row]):
        return f"But for {name}: nothing was drawn."
    ways = _percent(decided.share, row)
    low, high = _percent(decided.low, row), _percent(decided.high, row)
    sure = (
        ""
        if decided.necessary[row]
        else ", not established as more likely than not"
        if decided.share[row] > decided.level
        else ""
    )
    happened = CALLED.get(result.modality, "the decision would have been otherwise in {ways} % of the draws")
    return f"But for {name} {happened.format(ways=ways)} (95 %: {low} to {high}{sure})."


def _percent(share: Floats, row: int) -> int:
    return round(100 * float(share[row]))
