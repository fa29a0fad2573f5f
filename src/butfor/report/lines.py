"""Numbers with intervals as lines of a picture: positions in percent on one scale, and the same numbers in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.core.result.numbers import number, to_scale
from butfor.core.result.result import Result
from butfor.core.types import Bools, Floats, Ints
from butfor.plots.labels import output_words, values, written
from butfor.plots.over_inputs import tree_depth


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
