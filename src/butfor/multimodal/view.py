"""View of inputs with several parts: pictures with regions, texts with marks, tables of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from butfor.image.region import Attribute, is_region
from butfor.image.view import Mark, jpeg, photograph
from butfor.multimodal.explain import is_image
from butfor.results.result import Result
from butfor.results.summary import flip_words, number
from butfor.results.view import marked
from butfor.types import Bools, Subset

MOST_INPUTS, MOST_NAMED, SIDE = 40, 12, 480  # inputs that are shown, parts that are listed of each, pixels
Kind = Literal["picture", "text", "table"]


@dataclass(frozen=True)
class Part:
    """A part of an input: one of `picture`, `stretches` of a text, or `rows` of names and values, True if marked."""

    name: str
    kind: Kind
    picture: str = ""
    stretches: tuple[tuple[str, bool | None], ...] = ()  # None: not tested
    rows: tuple[tuple[str, str, bool], ...] = ()


@dataclass(frozen=True)
class Shown:
    """An input with its parts, and what is said of each marked subset."""

    name: str
    parts: tuple[Part, ...]
    named: tuple[tuple[str, str], ...]
    tested: int
    count: int  # of those that are marked


def shown_parts(result: Result) -> tuple[Shown, ...]:
    """Return the inputs of a result, those with most marks first; nothing of parts that are none of the three kinds."""
    sure = marked(result)
    count = np.bincount(result.input_of, weights=sure, minlength=len(result.input_names))
    return tuple(_shown(result, sure, index) for index in np.argsort(-count, kind="stable")[:MOST_INPUTS].tolist())


def _shown(result: Result, sure: Bools, index: int) -> Shown:
    item: Mapping[str, Any] = result.hypotheses.items.block(index, index + 1)[0]
    rows = np.flatnonzero(result.input_of == index)
    by_part: dict[str, list[tuple[Subset, int]]] = {part: [] for part in item}
    for row in rows.tolist():
        subset = result.hypotheses.block_of(row).subset
        part, inner = subset.index
        by_part[part].append((Subset(subset.name.removeprefix(f"{part}: "), inner), row))
    parts = [_part(result, sure, part, item[part], tested) for part, tested in by_part.items()]
    strongest = rows[sure[rows]]
    sizes = np.abs(result.effects.effect) if result.decided is None else result.decided.share
    strongest = strongest[np.argsort(-np.nan_to_num(sizes[strongest]), kind="stable")]
    named = []
    for row in strongest[:MOST_NAMED].tolist():
        words = ["unusual"] if result.chosen[row] else []
        if result.decided is not None:
            words.append(flip_words(result, row))
        if np.isfinite(result.effects.effect[row]):
            words.append(f"effect {number(result.effects.effect[row], sign=True)}")
        named.append((result.subset_names[result.subset_of[row]], "; ".join(words)))
    return Shown(str(result.input_names[index]), tuple(p for p in parts if p), tuple(named), len(rows), len(strongest))


def _inside(result: Result, row: int) -> str:
    if np.isfinite(result.effects.effect[row]):
        return number(result.effects.effect[row], sign=True).replace("−", "-")
    if result.decided is not None and np.isfinite(result.decided.share[row]):
        return f"{result.decided.share[row]:.0%}"
    return ""


def _part(result: Result, sure: Bools, name: str, value: Any, tested: list[tuple[Subset, int]]) -> Part | None:
    if isinstance(value, str):
        spans = {subset.index: bool(sure[row]) for subset, row in tested}
        return Part(name, "text", stretches=_stretches(value, spans))
    if is_image(value):
        known = [(one, row) for one, row in tested if is_region(one) or isinstance(one.index, Attribute)]
        marks = [Mark(subset, _inside(result, row), bool(sure[row])) for subset, row in known]
        return Part(name, "picture", picture=jpeg(photograph(value, marks, side=SIDE)))
    import pandas as pd

    if isinstance(value, Mapping | pd.Series) or (isinstance(value, np.ndarray) and value.ndim == 1):
        pairs = list(value.items() if isinstance(value, Mapping | pd.Series) else enumerate(value))
        chosen = [np.atleast_1d(np.asarray(subset.index)).tolist() for subset, row in tested if sure[row]]
        members_chosen = {member for members in chosen for member in members}
        lines = []
        for k, (label, one) in enumerate(pairs):
            shown = number(float(one)) if isinstance(one, float | np.floating) else str(one)
            lines.append((str(label), shown, label in members_chosen or k in members_chosen))
        return Part(name, "table", rows=tuple(lines))
    return None


def _stretches(text: str, spans: Mapping[tuple[int, int], bool]) -> tuple[tuple[str, bool | None], ...]:
    """Cut a text where spans begin and end; a piece is marked if any span over it is.

    >>> _stretches("a loud dog", {(2, 6): True, (7, 10): False})
    (('a ', None), ('loud', True), (' ', None), ('dog', False))
    """
    ends = sorted({0, len(text), *(end for span in spans for end in span)})
    out = []
    for start, end in pairwise(ends):
        over = [sure for (first, last), sure in spans.items() if first <= start and end <= last]
        out.append((text[start:end], any(over) if over else None))
    return tuple(out)
