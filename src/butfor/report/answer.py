"""The answer of a run for the top of its report: one sentence, one picture, the nearest case in which it changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from butfor.core.result.answers import answers, finest_subsets, input_sentence
from butfor.core.result.numbers import number
from butfor.core.result.reasons import finest_of
from butfor.core.result.result import Result
from butfor.core.types import Batch, Ints
from butfor.plots.labels import effect_words, input_place, output_words, rows_of, strongest, unit, written
from butfor.report.lines import Picture, PictureLine, Scale, decision_lines, effect_lines, feature_lines

MOST_LINES = 8
MOST_CHANGED = 6


@dataclass(frozen=True)
class Change:
    """One column of the nearest case: what it was and what it would have to be."""

    name: str
    before: str
    after: str


@dataclass(frozen=True)
class NearestCase:
    """The nearest counterfactual of one hypothesis that changes the decision."""

    input: str
    subset: str
    changes: tuple[Change, ...]
    more: int
    before: str
    after: str


@dataclass(frozen=True)
class Answer:
    """What stands on the first screen."""

    headline: str
    lead: tuple[str, ...]
    picture: Picture | None
    nearest: NearestCase | None


def answer(result: Result) -> Answer:
    """The most telling answer that is established; where nothing is, what comes nearest and the next call."""
    headline, picture = _chosen_answer(result)
    said = [line for line in answers(result) if not line.startswith("  ")]  # those of single inputs are in the list
    told = "Decision:" if "decision" in headline else "Over all inputs:" if "sets these inputs" in headline else "\n"
    rest = tuple(line for line in said if not line.startswith(told))
    return Answer(
        headline, rest if len(result.input_names) > 1 or not result.chosen.any() else (), picture, _nearest(result)
    )


def _chosen_answer(result: Result) -> tuple[str, Picture | None]:
    decided, over, one = result.decided, result.over_inputs, len(result.input_names) == 1
    if decided is not None and one:
        return _one_decision(result), _decision_picture(result, 0)
    if decided is not None and decided.necessary.any():
        several = len(np.unique(result.subset_of[decided.necessary])) > 2
        counts = _counts(result, decided.necessary, "inputs whose decision hangs on it")
        return _decisions(result), counts if several else _decision_picture(result, input_place(result, None))
    if over is not None and over.chosen.any():
        return _features(result), features_picture(result, _strongest_subsets(result))
    if result.chosen.any():
        what = {"image": "images", "text": "texts"}.get(result.modality, "inputs")
        total, found = len(result.input_names), len(np.unique(result.input_of[result.chosen]))
        finest = finest_of(result, result.chosen)
        words = f"{int(finest.sum()):,} {_parts(result)} are established, in {found:,} of {total:,} {what}."
        if one:
            return f"{_listed(result, finest)}.", _effects_picture(result)
        return words, _counts(result, result.chosen, f"{what} for which it is established")
    return _nothing(result), _effects_picture(result)


def _one_decision(result: Result) -> str:
    decided = result.decided
    assert decided is not None
    said = input_sentence(result, 0)
    return said if decided.necessary.any() else f"It is not established what this decision hangs on. {said}"


def _decisions(result: Result) -> str:
    decided = result.decided
    assert decided is not None
    found, total = len(np.unique(result.input_of[decided.necessary])), len(result.input_names)
    needed = finest_of(result, decided.necessary)
    count = np.bincount(result.subset_of[needed], minlength=len(result.subset_names))
    most = int(count.argmax())
    return (
        f"For {found:,} of {total:,} inputs it is established what the decision hangs on; most often it is "
        f"{result.subset_names[most]} ({count[most]:,})."
    )


def _features(result: Result) -> str:
    over = result.over_inputs
    assert over is not None
    chosen = finest_subsets(result, over.chosen)
    chosen = chosen[np.argsort(-np.abs(over.effect[chosen]), kind="stable")]
    named = [f"{result.subset_names[j]} ({number(over.effect[j], sign=True)})" for j in chosen[:3]]
    more = f" and {len(chosen) - 3} more" if len(chosen) > 3 else ""
    return (
        f"What sets these inputs apart from the reference: {'; '.join(named)}{more}, as the mean "
        f"{effect_words(result)}."
    )


def _nothing(result: Result) -> str:
    known = np.flatnonzero(np.isfinite(result.effects.effect))
    if not known.size:
        return "Nothing is established."
    row = int(known[np.argmax(np.abs(result.effects.effect[known]))])
    return (
        f"Nothing is established. The largest effect is {number(result.effects.effect[row], sign=True)} "
        f"{unit(result)}: "
        f"{result.subset_names[int(result.subset_of[row])]}, on {result.input_names[int(result.input_of[row])]}."
    )


def _listed(result: Result, marked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> str:
    rows = np.flatnonzero(marked)
    rows = rows[np.argsort(-np.nan_to_num(np.abs(result.effects.effect[rows])), kind="stable")]
    named = [
        f"{result.subset_names[int(result.subset_of[row])]} "
        f"({number(result.effects.effect[row], sign=True) or 'chosen'})"
        for row in rows[:4].tolist()
    ]
    more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
    return f"Established for this input: {'; '.join(named)}{more}"


def _parts(result: Result) -> str:
    return {"image": "regions", "text": "parts of texts"}.get(result.modality, "reasons")


def _decision_picture(result: Result, place: int) -> Picture:
    decided = result.decided
    assert decided is not None
    rows = rows_of(result, place)
    rows = rows[np.lexsort((-np.nan_to_num(decided.share[rows], nan=-1.0), ~decided.necessary[rows]))][:MOST_LINES]
    title = f"{result.input_names[place]}: probability that the decision would have been otherwise, but for"
    return Picture(
        title, decision_lines(result, rows), Scale(0.0, 1.0)(decided.level) or 0.0, f"level {decided.level:g}"
    )


def _effects_picture(result: Result) -> Picture | None:
    """Of the input with most to show: effects, and how extreme its output is among its counterfactuals."""
    place = input_place(result, None)
    rows = rows_of(result, place)
    rows = rows[np.isfinite(result.effects.effect[rows])]
    if not len(rows):
        return None
    lines, zero = effect_lines(result, strongest(result, rows, result.chosen, MOST_LINES), result.chosen)
    return Picture(f"{result.input_names[place]}: {effect_words(result)}", lines, zero, "zero")


def features_picture(result: Result, order: Ints) -> Picture:
    """Mean effects of subsets over all inputs."""
    lines, zero = feature_lines(result, order.tolist())
    return Picture(f"Mean {effect_words(result)}, over all inputs", lines, zero, "zero")


def _strongest_subsets(result: Result) -> Ints:
    over = result.over_inputs
    assert over is not None
    return np.lexsort((-np.abs(np.nan_to_num(over.effect)), ~over.chosen))[:MOST_LINES]


def _counts(result: Result, marked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], title: str) -> Picture:
    """For how many inputs each subset is marked."""
    size = len(result.subset_names)
    found, total = np.bincount(result.subset_of[marked], minlength=size), np.bincount(result.subset_of, minlength=size)
    order = np.argsort(-found, kind="stable")[: min(MOST_LINES, int((found > 0).sum()))]
    scale = Scale(0.0, float(total.max(initial=1)))
    lines = tuple(
        PictureLine(
            result.subset_names[j],
            "",
            f"{found[j]:,} of {total[j]:,}",
            "",
            scale(0.0),
            scale(float(found[j])),
            scale(float(found[j])),
            bool(found[j]),
        )
        for j in order.tolist()
    )
    return Picture(f"Number of {title}", lines, 2.0, "", "")


def _nearest(result: Result) -> NearestCase | None:
    """Of the input with most to show: the nearest case in which its decision changes, and what the model says there."""
    decided = result.decided
    if decided is None or not decided.nearest:
        return None
    place = input_place(result, None)
    needed = finest_of(result, decided.necessary)
    own = [row for row in rows_of(result, place).tolist() if row in decided.nearest]
    if not own:
        return None
    row = min(own, key=lambda row: (not needed[row], -float(np.nan_to_num(decided.share[row]))))
    return nearest_case(result, row)


def nearest_case(result: Result, row: int) -> NearestCase | None:
    """The nearest counterfactual of one hypothesis that changes the decision, by what differs from the input."""
    decided, place = result.decided, int(result.input_of[row])
    if decided is None or result.modality != "table" or row not in decided.nearest:
        return None
    items, block = result.problem.items, result.problem.block_of(row)
    inputs = items.block(place, place + 1)
    before, after = items.shown(inputs), result.nearest(result.input_names[place], block.subset.name)
    names = result.provenance["columns"]
    changes = [
        Change(str(names[j]), old, new)
        for j in block.subset.index.tolist()
        if (old := written(cell(before, j))) != (new := written(cell(after, j)))
    ]
    column = int(result.evidence.classes[row])
    then = decided.nearest[row].outputs
    column = column if len(then) > 1 else 0
    words = output_words(result) if result.provenance.get("link") is None else "output"
    return NearestCase(
        str(result.input_names[place]),
        block.subset.name,
        tuple(changes[:MOST_CHANGED]),
        max(0, len(changes) - MOST_CHANGED),
        f"{words} {number(result.outputs[place][column])}" if result.outputs.size else "",
        number(then[column]),
    )


def cell(rows: Batch, column: int) -> object:
    """The value of the first row in a column of an array or a frame."""
    return (rows[0, column] if isinstance(rows, np.ndarray) else rows.iloc[0, column]) if len(rows) else None
