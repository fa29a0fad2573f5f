"""Result -> what a report shows, as plain words and positions: the template computes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from butfor.core.result.answers import answers, input_sentence
from butfor.core.result.numbers import number
from butfor.core.result.result import Result
from butfor.core.result.summary import SubsetRow, bound_sentence, by_subset
from butfor.core.types import Batch, Floats, Ints

MOST_DISCOVERIES = 200
MOST_SUBSETS = 40
MOST_EXAMPLES = 6
MOST_DECISIONS = 100
MOST_FEATURES = 80
MOST_COLUMNS = 12


@dataclass(frozen=True)
class Bar:
    """How often one subset was chosen; `share` is in percent of the inputs."""

    name: str
    chosen: int
    tested: int
    share: float
    true: str
    effect: str


@dataclass(frozen=True)
class Discovery:
    """One line of the table; `low`, `middle` and `high` are positions in percent on the common scale of effects."""

    input: str
    subset: str
    output: str
    observed: str
    evidence: str
    effect: str
    interval: str
    low: float | None
    middle: float | None
    high: float | None


@dataclass(frozen=True)
class Example:
    """One discovery beside a few counterfactuals: per column its name, the observed value and the drawn ones."""

    input: str
    subset: str
    columns: tuple[tuple[str, str, tuple[str, ...]], ...]
    draws: int
    left_out: int


def content(result: Result) -> dict[str, Any]:
    """Everything the template names; asks neither a model nor a sampler."""
    order = by_evidence(result)
    shown = order[:MOST_DISCOVERIES]
    guarantee, bars = result.guarantee, [row for row in by_subset(result) if row.chosen]
    lines, zero = _discoveries(result, shown)
    outputs = [line.output for line in lines]
    return {
        "chosen": int(result.chosen.sum()),
        "hypotheses": len(result.chosen),
        "inputs": len(result.input_names),
        "subsets": len(result.subset_names),
        "answers": [line for line in answers(result) if not line.startswith("  ")],
        "decisions": _decisions(result),
        "features": _features(result),
        "control": "" if result.control is None else str(result.control),
        "promise": str(replace(guarantee, caveats=())),
        "caveats": guarantee.caveats,
        "bound": bound_sentence(result) if any(row.true for row in bars) else "",  # "at least 0" says nothing
        "notes": result.notes,
        "bars": [_bar(row) for row in bars[:MOST_SUBSETS]],
        "more_subsets": max(0, len(bars) - MOST_SUBSETS),
        "kind": result.evidence.kind,
        "several_outputs": len(set(outputs)) > 1,
        "output": outputs[0] if len(set(outputs)) == 1 else "",
        "effects": any(line.middle is not None for line in lines),
        "link": result.provenance.get("link"),
        "discoveries": lines,
        "zero": zero,
        "more": len(order) - len(shown),
        "examples": _examples(result, order),
        "pictures": _view(result, "image"),
        "texts": _view(result, "text"),
        "provenance": _provenance(result),
    }


def _decisions(result: Result) -> list[tuple[str, str, bool]]:
    """Inputs, what their decision hangs on in a sentence, and whether that is established; those that are first."""
    decided = result.decided
    if decided is None:
        return []
    sure = np.zeros(len(result.input_names), bool)
    sure[result.input_of[decided.necessary]] = True
    order = np.argsort(~sure, kind="stable")[:MOST_DECISIONS].tolist()
    return [(str(result.input_names[i]), input_sentence(result, i), bool(sure[i])) for i in order]


@dataclass(frozen=True)
class Feature:
    """A subset over all inputs; `depth` indents what is a part of another."""

    name: str
    depth: int
    effect: str
    interval: str
    p: str
    chosen: bool


def _features(result: Result) -> list[Feature]:
    """Every subset over all inputs, as they stand; nothing where that was not estimated."""
    over = result.over_inputs
    if over is None:
        return []
    depth = result.features.resolution.tolist()
    return [
        Feature(
            name,
            int(depth[j]),
            number(over.effect[j], sign=True),
            f"{number(over.low[j], sign=True)} to {number(over.high[j], sign=True)}",
            number(over.p[j]),
            bool(over.chosen[j]),
        )
        for j, name in enumerate(result.subset_names[:MOST_FEATURES])
    ]


def _view(result: Result, modality: str) -> Any:
    """What a modality adds to a report: its pictures, or its texts."""
    if result.modality != modality:
        return None
    if modality == "image":
        from butfor.image.view import pictures

        return pictures(result)
    from butfor.text.view import marked_texts

    return marked_texts(result)


def by_evidence(result: Result) -> Ints:
    """Rows of the chosen hypotheses, strongest evidence first; among equals the largest effect."""
    rows = np.flatnonzero(result.chosen)
    strength = result.evidence.values[rows] * (1 if result.evidence.kind == "p" else -1)
    size = np.nan_to_num(np.abs(result.effects.effect[rows]))
    return rows[np.lexsort((-size, strength))]


def _bar(row: SubsetRow) -> Bar:
    true = "" if row.true is None else str(row.true)
    return Bar(row.name, row.chosen, row.tested, 100 * row.chosen / row.tested, true, number(row.effect, sign=True))


def _discoveries(result: Result, rows: Ints) -> tuple[list[Discovery], float]:
    """The lines of the table, and where zero stands on the scale of their effects."""
    effects = result.effects
    ends = np.concatenate([effects.low[rows], effects.high[rows], [0.0]])
    least, most = np.nanmin(ends), np.nanmax(ends)
    width = most - least or 1.0

    def place(values: Floats, row: int) -> float | None:
        return None if np.isnan(values[row]) else float(2 + 96 * (values[row] - least) / width)

    lines = [
        Discovery(
            input=str(result.input_names[result.input_of[row]]),
            subset=result.subset_names[result.subset_of[row]],
            output="" if result.output_names is None else str(result.output_names[result.evidence.classes[row]]),
            observed=number(result.evidence.observed[row]),
            evidence=number(result.evidence.values[row]),
            effect=number(effects.effect[row], sign=True),
            interval=f"{number(effects.low[row], sign=True)} to {number(effects.high[row], sign=True)}",
            low=place(effects.low, row),
            middle=place(effects.effect, row),
            high=place(effects.high, row),
        )
        for row in rows.tolist()
    ]
    return lines, float(2 + 96 * (0.0 - least) / width)


def _examples(result: Result, order: Ints) -> list[Example]:
    """The strongest discovery of each of a few subsets, of those whose counterfactuals the run kept; tables only."""
    if result.modality != "table":
        return []
    kept = [row for row in order.tolist() if row in result.kept]
    first = {int(result.subset_of[row]): row for row in reversed(kept)}
    return [_example(result, row) for row in kept if first[int(result.subset_of[row])] == row][:MOST_EXAMPLES]


def _example(result: Result, row: int) -> Example:
    place, name = int(result.input_of[row]), result.subset_names[result.subset_of[row]]
    items, index = result.problem.items, result.problem.block_of(row).subset.index
    drawn = items.shown(result.kept.whole(result.problem, row))
    observed, names = items.shown(items.block(place, place + 1)), result.provenance["columns"]
    columns = tuple(
        (str(names[j]), _written(observed, j)[0], tuple(_written(drawn, j))) for j in index[:MOST_COLUMNS].tolist()
    )
    return Example(str(result.input_names[place]), name, columns, len(drawn), max(0, len(index) - MOST_COLUMNS))


def _written(rows: Batch, column: int) -> list[str]:
    """A column of an array or a frame, as a person would write its values."""
    values = (rows[:, column] if isinstance(rows, np.ndarray) else rows.iloc[:, column]).tolist()
    return [
        number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
        for value in values
    ]


LABELS = {
    "model": "Model",
    "data": "Data",
    "reference": "Reference (what the inputs are compared with)",
    "boxes": "Regions",
    "units": "Units",
    "sampler": "Sampler",
    "test": "Test",
    "alternative": "Alternative",
    "target": "Target",
    "link": "Link",
    "seed": "Seed",
    "version": "butfor version",
}


def _provenance(result: Result) -> list[tuple[str, str]]:
    provenance = result.provenance
    known = [(label, str(provenance[name])) for name, label in LABELS.items() if provenance.get(name) is not None]
    family = "the run" if result.family == "run" else "each input"
    return [
        *known,
        ("Selection", f"{result.rule} at alpha {result.alpha:g}, over {family}"),
        ("Model rows evaluated", f"{result.rows:,}"),
    ]
