"""Numbers with intervals as lines of a picture: positions in percent on one scale, and the same numbers in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.core.result.numbers import number
from butfor.core.result.result import Result
from butfor.core.types import Bools, Floats, Ints
from butfor.plots.labels import label, values, written


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


@dataclass(frozen=True)
class Picture:
    """Lines on one scale; `mark` is where zero or a level stands, in percent."""

    title: str
    lines: tuple[PictureLine, ...]
    mark: float
    mark_name: str
    key: str = "blue: established; grey: not established"


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
            f"{percent(decided.low[row])} to {percent(decided.high[row])}" if np.isfinite(decided.low[row]) else "",
            scale(decided.low[row]),
            scale(decided.share[row]),
            scale(decided.high[row]),
            bool(decided.necessary[row]),
        )
        for row in rows.tolist()
    )


def effect_lines(result: Result, rows: Ints, sure: Bools) -> tuple[tuple[PictureLine, ...], float]:
    """The effects of these hypotheses, and where zero stands."""
    effects = result.effects
    scale = Scale.over(effects.effect[rows], effects.low[rows], effects.high[rows])
    lines = tuple(
        PictureLine(
            result.subset_names[int(result.subset_of[row])],
            value_of(result, row),
            number(effects.effect[row], sign=True),
            interval_words(effects.low[row], effects.high[row]),
            scale(effects.low[row]),
            scale(effects.effect[row]),
            scale(effects.high[row]),
            bool(sure[row]),
            more=surprise_words(result, row),
        )
        for row in rows.tolist()
    )
    return lines, scale(0.0) or 0.0


def feature_lines(result: Result, order: Sequence[int]) -> tuple[tuple[PictureLine, ...], float]:
    """Mean effects over all inputs of these subsets, and where zero stands."""
    frame = result.features
    effect, low, high = (frame[name].to_numpy(np.float64) for name in ("effect", "effect_low", "effect_high"))
    scale, sure, depth = Scale.over(effect, low, high), frame["chosen"].to_numpy(), frame["resolution"].to_numpy()
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


def surprise_words(result: Result, row: int) -> str:
    """How extreme the output is among its counterfactuals."""
    share = result.evidence.surprise[row]
    return f"more extreme than {percent(share)} of its counterfactuals" if np.isfinite(share) else ""


def value_of(result: Result, row: int) -> str:
    """What is observed in a subset of one column."""
    value = values(result)[row]
    return "" if value is None else written(value)


def named(result: Result, row: int) -> str:
    """A subset with its value, whole."""
    return label(result, row, 400)
