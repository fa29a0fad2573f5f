"""The answer of a run for the top of its report: one sentence, one picture, the nearest case in which it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from butfor.plots.over_inputs import tree_depth
from butfor.plots.style import effect_words, input_place, output_words, rows_of, strongest, values, written
from butfor.results.result import Result
from butfor.results.summary import (
    decision_sentences,
    finest_of,
    finest_subsets,
    flip_sentence,
    next_calls,
    number,
    telling_row,
    to_scale,
    which_of,
)
from butfor.types import Batch, Bools, Floats, Ints


@dataclass(frozen=True)
class PictureLine:
    """One line: what it is of, its number and interval in words, their places in percent; `sure` is in colour."""

    name: str
    value: str
    said: str
    interval: str
    low: float | None
    middle: float | None
    high: float | None
    sure: bool
    depth: int = 0
    more: str = ""
    evidence: str = ""
    status: str = ""
    folded: bool = False  # until the reader asks for it


@dataclass(frozen=True)
class Picture:
    """Lines on one scale; `mark` is where zero or a level stands, in percent."""

    title: str
    lines: tuple[PictureLine, ...]
    mark: float
    mark_name: str
    key: str = "Blue: established; grey: not established."


@dataclass(frozen=True)
class Scale:
    """From numbers to percent of the width."""

    least: float
    most: float

    @classmethod
    def over(cls, *parts: Floats) -> Scale:
        """A scale that holds all of these and zero."""
        ends = np.concatenate([*parts, [0.0]])
        ends = ends[np.isfinite(ends)]
        return cls(float(ends.min()), float(ends.max()))

    def __call__(self, value: float) -> float | None:
        if not np.isfinite(value):
            return None
        return float(2 + 96 * np.clip((value - self.least) / ((self.most - self.least) or 1.0), 0, 1))


def percent(share: float) -> str:
    """A probability as people say it: "93 %".

    >>> percent(0.927), percent(float("nan"))
    ('93 %', '')
    """
    return f"{round(100 * share)} %" if np.isfinite(share) else ""


def interval_words(low: float, high: float) -> str:
    """Both ends of an interval, or nothing where the number is exact or has none."""
    if not np.isfinite(low) or not np.isfinite(high) or low == high:
        return ""
    return f"{number(low, sign=True)} to {number(high, sign=True)}"


def tidied(result: Result) -> tuple[Floats, Floats, Floats]:
    """Effects (H,) and the ends of their intervals, as they are shown: to a thousandth of the largest of their input.

    What is nothing beside it reads 0, and not -1.72e-07.
    """
    effects, largest = result.effects, np.zeros(len(result.input_names))
    np.maximum.at(largest, result.input_of, np.nan_to_num(np.abs(effects.effect)))
    if output_words(result).startswith("probability"):
        largest = np.maximum(largest, 0.1)  # a probability has four places at most
    beside = largest[result.input_of]
    return to_scale(effects.effect, beside), to_scale(effects.low, beside), to_scale(effects.high, beside)


def decision_lines(result: Result, rows: Ints) -> tuple[PictureLine, ...]:
    """The probability of another decision but for each of these hypotheses."""
    decided = result.decided
    assert decided is not None
    scale = Scale(0.0, 1.0)
    return tuple(
        PictureLine(
            result.subset_names[int(result.subset_of[row])],
            value_of(result, row),
            percent(decided.share[row]),
            f"{round(100 * decided.low[row])} to {percent(decided.high[row])}" if np.isfinite(decided.low[row]) else "",
            scale(decided.low[row]),
            scale(decided.share[row]),
            scale(decided.high[row]),
            bool(decided.necessary[row]),
        )
        for row in rows.tolist()
    )


def effect_lines(result: Result, rows: Ints, sure: Bools) -> tuple[tuple[PictureLine, ...], float]:
    """The effects of these hypotheses, and where zero stands."""
    effect, low, high = tidied(result)
    scale, status = Scale.over(effect[rows], low[rows], high[rows]), result.table["status"].to_numpy()
    lines = tuple(
        PictureLine(
            result.subset_names[int(result.subset_of[row])],
            value_of(result, row),
            number(effect[row], sign=True),
            interval_words(low[row], high[row]),
            scale(low[row]),
            scale(effect[row]),
            scale(high[row]),
            bool(sure[row]),
            more=percent(result.evidence.surprise[row]),
            evidence=number(result.evidence.values[row]),
            status=str(status[row]),
        )
        for row in rows.tolist()
    )
    return lines, scale(0.0) or 0.0


def feature_lines(result: Result, order: Sequence[int]) -> tuple[tuple[PictureLine, ...], float]:
    """Mean effects over all inputs of these subsets, and where zero stands."""
    frame = result.features
    effect, low, high = (frame[name].to_numpy(np.float64) for name in ("effect", "effect_low", "effect_high"))
    largest = np.abs(np.nan_to_num(effect)).max(initial=0.0, keepdims=True)
    effect, low, high = (to_scale(column, largest) for column in (effect, low, high))
    scale, sure, depth = Scale.over(effect, low, high), frame["chosen"].to_numpy(), tree_depth(result)
    found, total = frame["inputs_chosen"].to_numpy(), frame["inputs"].to_numpy()
    lines = tuple(
        PictureLine(
            result.subset_names[j],
            "",
            number(effect[j], sign=True),
            interval_words(low[j], high[j]),
            scale(low[j]),
            scale(effect[j]),
            scale(high[j]),
            bool(sure[j]),
            int(depth[j]),
            f"{found[j]:,} of {total[j]:,}",
        )
        for j in order
    )
    return lines, scale(0.0) or 0.0


def value_of(result: Result, row: int) -> str:
    """What is observed in a subset of one column."""
    value = values(result)[row]
    return "" if value is None else written(value)


MOST_LINES = 8
MOST_CHANGED = 6
OF_INTERVALS = (
    "An interval says how well the effect is known; established says that the output is unusual among its "
    "counterfactuals."
)


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
    about = _about(result)
    headline, picture = _ANSWERS[about](result)
    return Answer(headline, tuple(_lead(result, about)), picture, _nearest(result))


About = Literal["one decision", "decisions", "features", "rows", "nothing"]


def _about(result: Result) -> About:
    """What the first sentence is about."""
    decided, over = result.decided, result.over_inputs
    if decided is not None and len(result.input_names) == 1:
        return "one decision"
    if decided is not None and decided.necessary.any():
        return "decisions"
    if over is not None and over.chosen.any():
        return "features"
    return "rows" if result.chosen.any() else "nothing"


def _one_decision(result: Result) -> tuple[str, Picture | None]:
    decided = result.decided
    assert decided is not None
    said = flip_sentence(result, telling_row(result, 0))
    said = said if decided.necessary.any() else f"It is not established what this decision hangs on. {said}"
    return said, _decision_picture(result, 0)


def _decisions(result: Result) -> tuple[str, Picture | None]:
    decided = result.decided
    assert decided is not None
    found, total = len(np.unique(result.input_of[decided.necessary])), len(result.input_names)
    needed = finest_of(result, decided.necessary)
    most = int(np.bincount(result.subset_of[needed]).argmax())
    said = f"For {found:,} of {total:,} inputs it is established "
    if result.problem.layers is not None and result.subset_names[most] == "all columns":
        vague = int((result.subset_of[needed] == most).sum())
        said += f"that the decision hangs on these columns; for {vague:,} of them it is open on which."
    else:
        said += f"what the decision hangs on; most often it is {_most_often(result, decided.necessary, 1)}."
    if len(np.unique(result.subset_of[decided.necessary])) > 2:
        return said, _counts(result, needed, "by the finest part on which their decision hangs")
    return said, _decision_picture(result, input_place(result, None))


def _features(result: Result) -> tuple[str, Picture | None]:
    return f"What sets these inputs apart from the reference: {_named_features(result)}.", features_picture(
        result, _strongest_subsets(result)
    )


def _rows(result: Result) -> tuple[str, Picture | None]:
    what = _inputs(result)
    total, found = len(result.input_names), len(np.unique(result.input_of[result.chosen]))
    finest = finest_of(result, result.chosen)
    if total == 1:
        return f"{_listed(result, finest)}.", _effects_picture(result)
    count = int(finest.sum())
    said = f"{count:,} {_parts(result)} {'is' if count == 1 else 'are'} established, in {found:,} of {total:,} {what}."
    part = "part" if result.problem.layers is None else "finest part"
    return said, _counts(result, finest, f"by the {part} that is established")


def _nothing(result: Result) -> tuple[str, Picture | None]:
    known = np.flatnonzero(np.isfinite(result.effects.effect))
    if not known.size:
        return "Nothing is established.", None
    row = int(known[np.argmax(np.abs(result.effects.effect[known]))])
    place = int(result.input_of[row])
    return (
        f"Nothing is established. The largest effect is {number(result.effects.effect[row], sign=True)} in the "
        f"{output_words(result, place)}: {result.subset_names[int(result.subset_of[row])]}, on "
        f"{result.input_names[place]}.",
        _effects_picture(result),
    )


_ANSWERS: dict[About, Callable[[Result], tuple[str, Picture | None]]] = {
    "one decision": _one_decision,
    "decisions": _decisions,
    "features": _features,
    "rows": _rows,
    "nothing": _nothing,
}


def _lead(result: Result, about: About) -> Iterator[str]:
    """What else there is to say, without what the headline has said."""
    over, decided, total = result.over_inputs, result.decided, len(result.input_names)
    if about == "one decision" and decided is not None and decided.necessary.any():
        yield from filter(None, [which_of(result, telling_row(result, 0)).strip()])
    if about != "features" and over is not None and over.chosen.any():
        yield f"On average over all inputs, what sets them apart from the reference: {_named_features(result)}."
    if result.chosen.any() and total > 1:
        often = _most_often(result, result.chosen, 3)
        found = len(np.unique(result.input_of[result.chosen]))
        unusual = f"Input by input: the {output_words(result)} is unusual in {found:,} of {total:,} {_inputs(result)}, "
        yield f"Most often: {often}." if about == "rows" else f"{unusual}in its finest parts most often by {often}."
    if decided is not None and about not in ("one decision", "decisions"):
        yield decision_sentences(result)[0]
    if not result.chosen.any():
        yield f"To look at next: {'; '.join(next_calls(result, largest=False))}."


def _most_often(result: Result, marked: Bools, most: int) -> str:
    """The finest marked subsets, and for how many inputs each of them is."""
    count = np.bincount(result.subset_of[finest_of(result, marked)], minlength=len(result.subset_names))
    order = np.argsort(-count, kind="stable")[:most]
    return "; ".join(f"{result.subset_names[j]} ({count[j]:,})" for j in order if count[j])


def _named_features(result: Result) -> str:
    over = result.over_inputs
    assert over is not None
    chosen = finest_subsets(result, over.chosen)
    chosen = chosen[np.argsort(-np.abs(over.effect[chosen]), kind="stable")]
    named = [f"{result.subset_names[j]} ({number(over.effect[j], sign=True)})" for j in chosen[:3]]
    more = f" and {len(chosen) - 3} more" if len(chosen) > 3 else ""
    return f"{'; '.join(named)}{more}, as the mean {effect_words(result)}"


def _listed(result: Result, marked: Bools) -> str:
    rows = np.flatnonzero(marked)
    rows = rows[np.argsort(-np.nan_to_num(np.abs(result.effects.effect[rows])), kind="stable")]
    named = [
        f"{result.subset_names[int(result.subset_of[row])]} "
        f"({number(result.effects.effect[row], sign=True) or 'chosen'})"
        for row in rows[:4].tolist()
    ]
    more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
    return f"Established for this input: {'; '.join(named)}{more}"


def _inputs(result: Result) -> str:
    return {"image": "images", "text": "texts"}.get(result.modality, "inputs")


def _parts(result: Result) -> str:
    return {"image": "regions", "text": "parts of texts"}.get(result.modality, "reasons")


def _decision_picture(result: Result, place: int) -> Picture:
    decided = result.decided
    assert decided is not None
    rows = rows_of(result, place)
    rows = rows[np.lexsort((-np.nan_to_num(decided.share[rows], nan=-1.0), ~decided.necessary[rows]))][:MOST_LINES]
    title = f"{result.input_names[place]}: probability that the decision would have been otherwise, but for"
    key = (
        "Blue: established as more likely than the level; grey: not. Second line: 95 % interval, all of a resolution "
        "together."
    )
    return Picture(
        title, decision_lines(result, rows), Scale(0.0, 1.0)(decided.level) or 0.0, f"level {decided.level:g}", key
    )


def _effects_picture(result: Result) -> Picture | None:
    """Of the input with most to show: effects, and how extreme its output is among its counterfactuals."""
    place = input_place(result, None)
    rows = rows_of(result, place)
    rows = rows[np.isfinite(result.effects.effect[rows])]
    if not len(rows):
        return None
    lines, zero = effect_lines(result, strongest(result, rows, result.chosen, MOST_LINES), result.chosen)
    key = f"Blue: established; grey: not established. Second line: 95 % interval. {OF_INTERVALS}"
    return Picture(f"{result.input_names[place]}: {effect_words(result, place)}", lines, zero, "zero", key)


def features_picture(result: Result, order: Ints) -> Picture:
    """Mean effects of subsets over all inputs."""
    lines, zero = feature_lines(result, order.tolist())
    key = "Blue: established; grey: not established. Second line: 95 % interval."
    return Picture(f"Mean {effect_words(result)}, over all inputs", lines, zero, "zero", key)


def _strongest_subsets(result: Result) -> Ints:
    over = result.over_inputs
    assert over is not None
    return np.lexsort((-np.abs(np.nan_to_num(over.effect)), ~over.chosen))[:MOST_LINES]


def _counts(result: Result, marked: Bools, title: str) -> Picture:
    """For how many inputs each subset is marked, as the sentence says it: those marked are the finest of each input."""
    size = len(result.subset_names)
    found, total = np.bincount(result.subset_of[marked], minlength=size), np.bincount(result.subset_of, minlength=size)
    order = np.argsort(-found, kind="stable")[: min(MOST_LINES, int((found > 0).sum()))]
    scale = Scale(0.0, float(found.max(initial=1)))  # 76 of 5,000 would be a speck
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
    return Picture(f"Number of {_inputs(result)}, {title}", lines, 2.0, "", "")


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
    names = result.record.columns
    changes = [
        Change(str(names[j]), old, new)
        for j in block.subset.index.tolist()
        if (old := written(cell(before, j))) != (new := written(cell(after, j)))
    ]
    column = int(result.evidence.classes[row])
    then = decided.nearest[row].outputs
    column = column if len(then) > 1 else 0
    words = output_words(result, place) if result.record.link is None else "output"
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


MOST_EXAMPLES, MOST_COLUMNS = 6, 12


@dataclass(frozen=True)
class Example:
    """One hypothesis beside a few counterfactuals: per column its name, the observed value and the drawn ones."""

    input: str
    subset: str
    columns: tuple[tuple[str, str, tuple[str, ...]], ...]
    observed: str
    outputs: tuple[str, ...]
    draws: int
    left_out: int


def by_evidence(result: Result) -> Ints:
    """Rows of the chosen hypotheses, strongest evidence first; among equals the largest effect."""
    rows = np.flatnonzero(result.chosen)
    strength = result.evidence.values[rows] * (1 if result.evidence.kind == "p" else -1)
    size = np.nan_to_num(np.abs(result.effects.effect[rows]))
    return rows[np.lexsort((-size, strength))]


def examples(result: Result) -> list[Example]:
    """The strongest discovery of each of a few subsets, of those whose counterfactuals the run kept; tables only."""
    if result.modality != "table":
        return []
    kept = [row for row in by_evidence(result).tolist() if row in result.kept]
    first = {int(result.subset_of[row]): row for row in reversed(kept)}
    return [example(result, row) for row in kept if first[int(result.subset_of[row])] == row][:MOST_EXAMPLES]


def example(result: Result, row: int) -> Example:
    """The draws of one hypothesis that the run kept."""
    place, name = int(result.input_of[row]), result.subset_names[result.subset_of[row]]
    items, index = result.problem.items, result.problem.block_of(row).subset.index
    drawn = items.shown(result.kept.whole(result.problem, row))
    observed, names = items.shown(items.block(place, place + 1)), result.record.columns
    columns = tuple(
        (str(names[j]), _column(observed, j)[0], tuple(_column(drawn, j))) for j in index[:MOST_COLUMNS].tolist()
    )
    said, which = result.kept.outputs(row), int(result.evidence.classes[row])
    which = which if said.shape[1] > 1 else 0
    seen = number(result.outputs[place][which]) if result.outputs.size else ""
    outputs = tuple(number(value) for value in said[:, which])
    return Example(
        str(result.input_names[place]), name, columns, seen, outputs, len(drawn), max(0, len(index) - MOST_COLUMNS)
    )


def _column(rows: Batch, column: int) -> list[str]:
    """A column of an array or a frame, as a person would write its values."""
    values = (rows[:, column] if isinstance(rows, np.ndarray) else rows.iloc[:, column]).tolist()
    return [written(value) for value in values]
